//! Lengths: one cell with a realistic spread over categories, or a grid of prompt × output lengths, one at a time.

use bench_runner::config::{Concurrency, Lengths, Settings};
use bench_runner::{Ask, Cell};
use bench_schema::{Factor, Load};
use bench_workload::{DatasetSpec, LengthSpec};

/// Lengths of the grid where nothing is said.
const GRID_INPUT: [u32; 4] = [16, 64, 256, 512];
const GRID_OUTPUT: [u32; 3] = [16, 64, 128];
/// Requests in each cell of the grid.
const GRID_REPEATS: u32 = 10;
/// The same in the small version.
const GRID_QUICK_REPEATS: u32 = 3;

/// The cells: a spread for each concurrency, or the grid.
pub(crate) fn cells(settings: &Settings) -> Vec<Cell> {
    if settings.workload.grid {
        return grid(settings);
    }
    let levels = if settings.load.concurrency.is_empty() {
        vec![Concurrency::from(1)]
    } else {
        settings.load.concurrency.clone()
    };
    levels.iter().map(|level| spread(settings, level)).collect()
}

fn spread(settings: &Settings, level: &Concurrency) -> Cell {
    let workload = &settings.workload;
    let dataset = workload
        .dataset
        .clone()
        .unwrap_or_else(|| DatasetSpec::Spread(workload.categories.clone()));
    Cell {
        id: format!("spread-{}", level.id()),
        label: format!("spread of lengths, {}", level.label()),
        factors: level.factors(),
        load: level.load(settings.load.think_time),
        stop: settings.stop_rule(settings.requests_for(level.most)),
        repeats: settings.load.repeat.unwrap_or(1),
        warmup: settings.load.warmup,
        ask: Ask {
            dataset,
            input: workload.input_tokens.as_ref().and_then(Lengths::spec),
            output: workload.output_tokens.as_ref().and_then(Lengths::spec),
        },
    }
}

fn grid(settings: &Settings) -> Vec<Cell> {
    let workload = &settings.workload;
    let or = |given: &Option<Lengths>, default: &[u32]| {
        let given = given.as_ref().and_then(Lengths::grid);
        given.unwrap_or(default).to_vec()
    };
    let inputs = or(&workload.input_tokens, &GRID_INPUT);
    let outputs = or(&workload.output_tokens, &GRID_OUTPUT);
    let repeats = settings.load.repeat.unwrap_or(if settings.small() {
        GRID_QUICK_REPEATS
    } else {
        GRID_REPEATS
    });
    let pairs = inputs
        .iter()
        .flat_map(|&input| outputs.iter().map(move |&output| (input, output)));
    pairs
        .map(|(input, output)| point(settings, input, output, repeats))
        .collect()
}

fn point(settings: &Settings, input: u32, output: u32, repeats: u32) -> Cell {
    let fixed = |tokens: u32| Some(LengthSpec::Fixed(u64::from(tokens)));
    Cell {
        id: format!("i{input}-x-o{output}"),
        label: format!("{input} tokens in, {output} out"),
        factors: [
            ("input_tokens".to_owned(), Factor::from(input)),
            ("output_tokens".to_owned(), Factor::from(output)),
        ]
        .into(),
        load: Load::closed(1),
        stop: settings.stop_rule(u64::from(repeats)),
        repeats: 1,
        warmup: settings.load.warmup,
        ask: Ask {
            dataset: settings
                .workload
                .dataset
                .clone()
                .unwrap_or(DatasetSpec::Text),
            input: fixed(input),
            output: fixed(output),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(args: &[&str]) -> Vec<Cell> {
        cells(&bench_runner::config::for_tests(
            bench_schema::Benchmark::Seqlen,
            args,
        ))
    }

    #[test]
    fn the_default_is_one_cell_over_all_categories() {
        let cells = made(&["--url", "http://h"]);
        assert_eq!(cells.len(), 1);
        assert_eq!(cells[0].ask.dataset.to_string(), "spread");
        assert_eq!(cells[0].stop.requests, Some(100));
    }

    #[test]
    fn a_grid_crosses_its_lengths() {
        let cells = made(&[
            "--grid",
            "--input-tokens",
            "8,16",
            "--output-tokens",
            "4",
            "--repeat",
            "2",
        ]);
        let ids: Vec<_> = cells.iter().map(|cell| cell.id.as_str()).collect();
        assert_eq!(ids, ["i8-x-o4", "i16-x-o4"]);
        assert_eq!(cells[0].stop.requests, Some(2));
    }

    #[test]
    fn a_grid_ends_its_cells_as_it_is_told() {
        let cells = made(&["--grid", "--requests", "30", "--duration", "1m"]);
        assert_eq!(cells[0].stop.requests, Some(30));
        assert!(cells[0].stop.duration.is_some());
    }
}
