//! `bench-latency`: how long does one request take, and how steady is it?
//!
//! The latency grid: prompts × output lengths, one request at a time, each repeated.

use bench_runner::config::{Lengths, Settings};
use bench_runner::{Cell, Program};
use bench_schema::{Benchmark, Factor, Load, StopRule};
use bench_workload::{DatasetSpec, LengthSpec, Study};

/// The program.
pub const PROGRAM: Program = bench_program::program(
    Benchmark::Latency,
    "Latency of single requests and its variation: a grid of prompt lengths × output lengths, one request at a time, repeated.",
    cells,
);

/// Repeats of each request, where nothing is said.
const REPEATS: u32 = 15;
/// Repeats of the small version.
const QUICK_REPEATS: u32 = 5;

/// One row of the grid: a kind of prompt, by name or by length.
#[derive(Clone, Copy)]
enum Row {
    Named(Study),
    Tokens(u32),
}

/// The cells of the grid: every prompt with every output length, or the 12 scenarios of the default study.
fn cells(settings: &Settings, _context: Option<u64>) -> Vec<Cell> {
    let workload = &settings.workload;
    let rows: Vec<Row> = if workload.prompt_tokens.is_empty() {
        workload.prompts.iter().copied().map(Row::Named).collect()
    } else {
        workload
            .prompt_tokens
            .iter()
            .copied()
            .map(Row::Tokens)
            .collect()
    };
    let asked = workload.output_tokens.as_ref().and_then(Lengths::grid);
    let repeats = settings.load.repeat.unwrap_or(if settings.small() {
        QUICK_REPEATS
    } else {
        REPEATS
    });
    rows.iter()
        .flat_map(|&row| {
            outputs(row, asked)
                .into_iter()
                .map(move |output| (row, output))
        })
        .map(|(row, output)| cell(settings, row, output, repeats))
        .collect()
}

/// Output lengths of a row: as asked, else four that fit the prompt. All rows share 50 and 100, so that prompts can be compared.
fn outputs(row: Row, asked: Option<&[u32]>) -> Vec<u32> {
    if let Some(asked) = asked {
        return asked.to_vec();
    }
    match row {
        Row::Named(Study::Short) => vec![10, 20, 50, 100],
        Row::Named(Study::Medium) => vec![20, 50, 100, 200],
        Row::Named(_) => vec![50, 100, 200, 300],
        Row::Tokens(_) => vec![10, 50, 100, 200],
    }
}

fn cell(settings: &Settings, row: Row, output: u32, repeats: u32) -> Cell {
    let (name, factor, dataset, input) = match row {
        Row::Named(study) => (
            study.name().to_owned(),
            Factor::from(study.name()),
            DatasetSpec::Study(study),
            None,
        ),
        Row::Tokens(tokens) => (
            format!("p{tokens}"),
            Factor::from(tokens),
            DatasetSpec::Text,
            Some(LengthSpec::Fixed(u64::from(tokens))),
        ),
    };
    let factor_name = if matches!(row, Row::Named(_)) {
        "prompt"
    } else {
        "prompt_tokens"
    };
    Cell {
        id: format!("{name}-x-{output}"),
        label: format!("{name} prompt, {output} tokens out"),
        factors: [
            (factor_name.to_owned(), factor),
            ("output_tokens".to_owned(), Factor::from(output)),
        ]
        .into(),
        stop: StopRule {
            requests: Some(u64::from(repeats)),
            ..StopRule::default()
        },
        repeats: 1,
        input,
        output: Some(LengthSpec::Fixed(u64::from(output))),
        ..Cell::of(settings, Load::closed(1), dataset)
    }
}

#[cfg(test)]
#[path = "../tests/unit/lib.rs"]
mod tests;
