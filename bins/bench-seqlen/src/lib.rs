//! `bench-seqlen`: how does cost grow with length?
//!
//! Lengths: one cell with a realistic spread over categories and then prompts up to the server's context length, or a grid of prompt ×
//! output lengths, one at a time.

use bench_runner::config::{Concurrency, Lengths, Settings};
use bench_runner::{Cell, Program};
use bench_schema::{Benchmark, Factor, Load};
use bench_workload::{DatasetSpec, LengthCategory, LengthSpec};

/// The program.
pub const PROGRAM: Program = bench_program::program(
    Benchmark::Seqlen,
    "Latency by sequence length: a realistic mix of length categories, or a grid of lengths, with fitted scaling laws.",
    cells,
);

/// Lengths of the grid where nothing is said.
const GRID_INPUT: [u32; 4] = [16, 64, 256, 512];
const GRID_OUTPUT: [u32; 3] = [16, 64, 128];
/// Requests in each cell of the grid.
const GRID_REPEATS: u32 = 10;
/// The same in the small version.
const GRID_QUICK_REPEATS: u32 = 3;

/// The shortest of the long prompts; each is four times as long as the one before.
const LONG: u64 = 1024;
/// Answer to a long prompt.
const LONG_OUTPUT: u32 = 16;
/// Requests with each of the long prompts.
const LONG_REPEATS: u64 = 20;
/// Tokens that are left for what the server adds to a prompt.
const TEMPLATE: u64 = 64;

/// The cells: a spread for each concurrency and, where nothing else was asked for, prompts up to the server's context; or the grid.
fn cells(settings: &Settings, context: Option<u64>) -> Vec<Cell> {
    let workload = &settings.workload;
    if workload.grid {
        return grid(settings, context);
    }
    let as_asked = workload.dataset.is_some()
        || !workload.categories.is_empty()
        || workload.input_tokens.is_some()
        || workload.output_tokens.is_some();
    let long = if as_asked {
        Vec::new()
    } else {
        long_prompts(settings, context, LONG_OUTPUT)
    };
    let long = long
        .into_iter()
        .map(|input| point(settings, input, LONG_OUTPUT, LONG_REPEATS));
    let levels = if settings.load.concurrency.is_empty() {
        vec![Concurrency::from(1)]
    } else {
        settings.load.concurrency.clone()
    };
    let spreads = levels.iter().map(|level| spread(settings, level));
    spreads.chain(long).collect()
}

/// Lengths of prompts, in tokens, beyond those of the categories: by factors of four up to what the server takes with such an answer. None
/// for a small design, or where the server does not tell its context length.
fn long_prompts(settings: &Settings, context: Option<u64>, output: u32) -> Vec<u32> {
    let most = context.map_or(0, |all| all.saturating_sub(u64::from(output) + TEMPLATE));
    if settings.small() {
        return Vec::new();
    }
    let steps = std::iter::successors(Some(LONG), |n| n.checked_mul(4));
    // the last is the longest that fits, in place of a step just below it
    let mut all: Vec<u64> = steps.take_while(|n| n * 2 <= most).collect();
    all.extend((most >= LONG).then_some(most));
    let whole = all.into_iter().map(u32::try_from);
    whole.filter_map(Result::ok).collect()
}

fn spread(settings: &Settings, level: &Concurrency) -> Cell {
    let workload = &settings.workload;
    let spread = DatasetSpec::Spread(if workload.categories.is_empty() {
        LengthCategory::ALL.to_vec()
    } else {
        workload.categories.clone()
    });
    let load = level.load(settings.load.think_time);
    Cell {
        id: format!("spread-{}", level.id()),
        label: format!("spread of lengths, {}", level.label()),
        factors: level.factors(),
        stop: settings.stop_rule(Some(settings.requests_for(level.most))),
        ..Cell::of(settings, load, spread)
    }
}

fn grid(settings: &Settings, context: Option<u64>) -> Vec<Cell> {
    let workload = &settings.workload;
    let or = |given: &Option<Lengths>, default: &[u32]| {
        let given = given.as_ref().and_then(Lengths::grid);
        given.unwrap_or(default).to_vec()
    };
    let outputs = or(&workload.output_tokens, &GRID_OUTPUT);
    let mut inputs = or(&workload.input_tokens, &GRID_INPUT);
    if workload.input_tokens.is_none() {
        let longest = outputs.iter().copied().max().unwrap_or(LONG_OUTPUT);
        inputs.extend(long_prompts(settings, context, longest));
    }
    let repeats = settings.load.repeat.unwrap_or(if settings.small() {
        GRID_QUICK_REPEATS
    } else {
        GRID_REPEATS
    });
    let pairs = inputs
        .iter()
        .flat_map(|&input| outputs.iter().map(move |&output| (input, output)));
    pairs
        .map(|(input, output)| point(settings, input, output, repeats.into()))
        .collect()
}

fn point(settings: &Settings, input: u32, output: u32, requests: u64) -> Cell {
    let fixed = |tokens: u32| Some(LengthSpec::Fixed(u64::from(tokens)));
    Cell {
        id: format!("i{input}-x-o{output}"),
        label: format!("{input} tokens in, {output} out"),
        factors: [
            ("input_tokens".to_owned(), Factor::from(input)),
            ("output_tokens".to_owned(), Factor::from(output)),
        ]
        .into(),
        stop: settings.stop_rule(Some(requests)),
        repeats: 1,
        input: fixed(input),
        output: fixed(output),
        ..Cell::of(settings, Load::closed(1), DatasetSpec::Text)
    }
}

#[cfg(test)]
#[path = "../tests/unit/lib.rs"]
mod tests;
