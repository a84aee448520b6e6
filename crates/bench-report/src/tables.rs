//! The tables of a run. Each is built from the record alone, and is absent where the record has nothing for it.

mod context;
mod details;
mod outcomes;
mod results;

pub(crate) use context::context;
pub(crate) use details::{
    QUANTILES, client, distributions, first_phase, hardware, phases, scale_of, significant,
};
pub use outcomes::measured_words;
pub(crate) use outcomes::{
    causes, costliest, counts, failure_counts, failures, largest_phase, objective_words,
    objectives, quantile_words, summary_line, targets, verdict_counts,
};
pub(crate) use results::{
    grid, groups, groups_in_order, peak, scaling, scaling_of, scaling_row, sweep,
};

use details::{derived, fits};
use results::{group_labels, origins};

use bench_schema::{Benchmark, CellRecord, Load, Metric, Origin, RunRecord};

use crate::table::{Mark, Table};

/// The tables that answer the benchmark's own question, the most telling first.
pub(crate) fn results(run: &RunRecord) -> Vec<Table> {
    let by_cell = match run.experiment {
        Benchmark::Throughput => sweep(run),
        Benchmark::Latency | Benchmark::Seqlen => grid(run),
    };
    let labels = group_labels(run);
    let mut tables: Vec<Table> = labels.iter().filter_map(|by| groups(run, by)).collect();
    // What a spread of lengths is measured for are its categories.
    let place = if run.experiment == Benchmark::Seqlen {
        tables.len()
    } else {
        0
    };
    tables.splice(place..place, by_cell);
    tables.extend(origins(run));
    tables.extend(scaling(run));
    tables
}

/// Everything behind the results: all distributions, phases, fits, machines, the client itself.
pub(crate) fn details(run: &RunRecord) -> Vec<Table> {
    let latencies = [
        Metric::Ttft,
        Metric::TtftDue,
        Metric::Ttfa,
        Metric::Itl,
        Metric::Icl,
        Metric::Tpot,
        Metric::E2e,
        Metric::E2eDue,
        Metric::Queue,
        Metric::Tail,
    ];
    let lengths = [
        Metric::InputTokens,
        Metric::OutputTokens,
        Metric::TokensPerChunk,
    ];
    let all = [
        causes(run),
        phases(run),
        distributions(run, &latencies, "All latencies"),
        distributions(run, &lengths, "Lengths"),
        distributions(run, &[Metric::TokensPerSUser], "Speed of each answer"),
        fits(run),
        derived(run),
        hardware(run),
        client(run),
    ];
    all.into_iter().flatten().collect()
}

/// The sign for a cell that a trust reason names.
pub(crate) fn trust_mark(run: &RunRecord, cell: &CellRecord) -> Option<Mark> {
    let about = run
        .trust
        .reasons
        .iter()
        .filter(|reason| reason.cell.as_deref() == Some(&cell.id));
    Mark::of(about.map(|reason| reason.verdict).max()?)
}

/// The metric for gaps between tokens that this run has: ITL, else ICL, else TPOT.
pub(crate) fn gap_metric(run: &RunRecord) -> Metric {
    let has = |metric: &Metric| {
        run.cells
            .iter()
            .any(|cell| cell.metrics.contains_key(metric))
    };
    [Metric::Itl, Metric::Icl, Metric::Tpot]
        .into_iter()
        .find(has)
        .unwrap_or(Metric::Itl)
}

/// Where the headline latencies of the run begin, as words; says so where cells differ.
pub(crate) fn origin_words(run: &RunRecord) -> &'static str {
    let due = run
        .cells
        .iter()
        .filter(|cell| cell.headline == Origin::Due)
        .count();
    match due {
        0 => "from sent",
        n if n == run.cells.len() => "from due",
        _ => "from due (open loop) or sent (closed loop)",
    }
}

/// The factor along which load was swept, with its unit: concurrency, or requests per second.
pub(crate) fn load_level(load: &Load) -> (f64, &'static str, &'static str) {
    match load {
        Load::Closed { concurrency, .. } => (f64::from(*concurrency), "concurrency", ""),
        Load::Open { rate_per_s, .. } => (*rate_per_s, "rate", "req/s"),
    }
}

/// `1 row more in report.md`.
pub(crate) fn rows_more(left_out: usize, place: &str) -> String {
    let rows = if left_out == 1 { "row" } else { "rows" };
    format!("{left_out} {rows} more in {place}")
}

/// A cell's label, made plain.
pub(crate) fn label(cell: &CellRecord) -> String {
    crate::text::shortened(&cell.label, 60)
}
