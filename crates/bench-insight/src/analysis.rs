//! Figures across cells: scaling rows and fitted laws.

mod fits;
mod scaling;

use bench_schema::{Analysis, Benchmark, RunRecord};

use crate::samples::CellSamples;

pub use scaling::scaling_by_tag;

/// The scaling table and the fits of a run's cells.
///
/// *Scaling* runs along the first of these that has two levels: a load factor (`concurrency`, `rate`, `gpus`, …), whose value
/// is output tokens/s (requests/s where tokens are unknown); output tokens, whose value is mean E2E; length categories,
/// whose value is P95 of E2E. `seqlen` prefers lengths to load. Where other factors vary too, each combination is a series of
/// its own and starts with its own baseline (a row with a scaling factor of 1).
///
/// *Fits*: `usl` (with the knee), `latency_by_output_tokens` pooled and `…:CLASS` per prompt class (of the single requests of the cell at the
/// lowest load, where no cells differ in it and `samples` hold them), `latency_power_law` (log–log slope), `ttft_by_input_tokens`,
/// `prompt_length_effect`. A fit that the cells do not carry is absent: a line needs three points for intervals, and is not made of fewer.
pub fn analyse_run(run: &RunRecord, samples: &[CellSamples]) -> Analysis {
    let cells = &run.cells;
    let by_load = || scaling::by_load(cells);
    let by_length = || scaling::by_output(cells).or_else(|| scaling::by_category(cells));
    let rows = match run.experiment {
        Benchmark::Throughput => by_load().or_else(by_length),
        Benchmark::Latency | Benchmark::Seqlen => by_length().or_else(by_load),
    };
    Analysis {
        capacity: None,
        scaling: rows.unwrap_or_default(),
        fits: fits::all(cells, samples),
    }
}
