//! Figures across cells: scaling rows and fitted laws.

mod fits;
mod scaling;

use bench_schema::{Analysis, Benchmark, CellRecord, RunRecord, ScalingRow};

pub use scaling::scaling_by_tag;

/// The scaling table and the fits of a run's cells.
///
/// *Scaling* runs along the first of these that has two levels: a load factor (`concurrency`, `rate`, `gpus`, …), whose value
/// is output tokens/s (requests/s where tokens are unknown); output tokens, whose value is mean E2E; length categories,
/// whose value is P95 of E2E. `seqlen` prefers lengths to load. Where other factors vary too, each combination is a series of
/// its own and starts with its own baseline (a row with a scaling factor of 1).
///
/// *Fits*: `usl` (with the knee), `latency_by_output_tokens` pooled and `…:CLASS` per prompt class, `latency_power_law` (log–log
/// slope), `ttft_by_input_tokens`, `prompt_length_effect`. A fit that the cells do not carry is absent: a line needs three
/// points for intervals, and is not made of fewer.
pub fn analysis(benchmark: Benchmark, cells: &[CellRecord]) -> Analysis {
    let by_load = || scaling::by_load(cells);
    let by_length = || {
        let rows = scaling::by_output(cells);
        if rows.is_empty() {
            scaling::by_category(cells)
        } else {
            rows
        }
    };
    let rows: Vec<ScalingRow> = match benchmark {
        Benchmark::Throughput => first_of(by_load(), by_length),
        Benchmark::Latency | Benchmark::Seqlen => first_of(by_length(), by_load),
    };
    Analysis {
        scaling: rows,
        fits: fits::all(cells),
    }
}

/// The same for a finished record: for one whose cells were merged from several runs.
pub fn analyse_run(run: &RunRecord) -> Analysis {
    analysis(run.experiment, &run.cells)
}

fn first_of(rows: Vec<ScalingRow>, otherwise: impl Fn() -> Vec<ScalingRow>) -> Vec<ScalingRow> {
    if rows.is_empty() { otherwise() } else { rows }
}
