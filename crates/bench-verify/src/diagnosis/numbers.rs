//! A run's figures beside those of the ledger.

use bench_schema::{CellRecord, Load, Metric, Origin};

use crate::engines::Known;
use crate::programs::Ran;
use crate::quantiles::Sample;
use crate::truth::{Matched, Pair};

/// One figure: what was said, what is so, and how far they may be apart.
#[derive(Debug, Clone)]
pub struct Number {
    /// Which.
    pub name: &'static str,
    /// Of which cell.
    pub cell: String,
    /// What the run said.
    pub said: f64,
    /// What the ledger says.
    pub so: f64,
    limit: f64,
}

impl Number {
    /// Its name.
    pub(super) fn title(&self) -> &'static str {
        self.name
    }

    /// Whether the two are near enough.
    pub fn holds(&self) -> bool {
        (self.said - self.so).abs() <= self.limit
    }
}

/// Figures of every cell. None where records and ledger cannot be laid side by side.
pub(super) fn numbers(ran: &Ran, known: &Known) -> Vec<Number> {
    let Ok(matched) = Matched::new(&ran.run, &ran.records, known) else {
        return Vec::new();
    };
    let of = |cell| of_cell(cell, &matched);
    ran.run.cells.iter().flat_map(of).collect()
}

fn of_cell(cell: &CellRecord, matched: &Matched<'_>) -> Vec<Number> {
    let pairs: Vec<&Pair<'_>> = matched.of_cell(&cell.id).collect();
    let origin = |pair: &Pair<'_>| match cell.headline {
        Origin::Due => matched.monotonic(pair.record.due),
        Origin::Sent => pair.entry.body_ns as f64,
    };
    let ttft: Sample = pairs
        .iter()
        .filter_map(|pair| Some(*pair.entry.after_ns.first()? as f64 - origin(pair)))
        .collect();
    let itl: Sample = pairs
        .iter()
        .flat_map(|pair| pair.entry.after_ns.windows(2))
        .filter_map(|two| Some((two.last()? - two.first()?) as f64))
        .collect();
    let number = |name, said: Option<f64>, so: Option<f64>, (share, more): (f64, f64)| {
        let (said, so) = (said?, so?);
        Some(Number {
            name,
            cell: cell.id.clone(),
            said,
            so,
            limit: so * share + more,
        })
    };
    let said = |metric, q| cell.headline(metric)?.quantile(q);
    let all = [
        number(
            "TTFT p50",
            said(Metric::Ttft, 0.5),
            ttft.quantile(0.5),
            (0.02, 1e6),
        ),
        number(
            "ITL p50",
            said(Metric::Itl, 0.5),
            itl.quantile(0.5),
            (0.02, 5e4),
        ),
        number(
            "requests/s",
            rate_said(cell),
            rate_so(cell, &pairs),
            (0.03, 0.0),
        ),
    ];
    all.into_iter().flatten().collect()
}

fn rate_said(cell: &CellRecord) -> Option<f64> {
    Some(cell.headline_rates()?.requests_per_s)
}

/// By Little's law, each slot busy all the time: closed loops in which nothing failed.
fn rate_so(cell: &CellRecord, pairs: &[&Pair<'_>]) -> Option<f64> {
    let Load::Closed {
        concurrency,
        think_time: None,
        ramp: None,
    } = cell.load
    else {
        return None;
    };
    let whole = cell.counts.planned == cell.counts.completed;
    let busy: Sample = pairs
        .iter()
        .filter_map(|pair| Some((pair.entry.end_ns? - pair.entry.head_ns) as f64))
        .collect();
    Some(f64::from(concurrency) / busy.mean().filter(|_| whole)? * 1e9)
}
