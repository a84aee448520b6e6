//! Median speed against the p95 of latency, a point for each bin of time.

use bench_metrics::Sample;
use bench_schema::RunRecord;

use super::violins::tail;
use crate::figure::{Figure, Plot, value_axis};
use crate::tables;
use crate::trace::{Row, Trace};

const BINS: usize = 20;
/// Cells that can be told apart by colour.
const SHOWN: usize = 8;

pub(super) fn figure(run: &RunRecord, trace: &Trace) -> Option<Figure> {
    let mut plot = Plot::new(
        value_axis("p95 of E2E (ms)").scale(true),
        value_axis("median speed (tokens/s)").scale(true),
    )
    .point_at_items();
    let step = run.cells.len().div_ceil(SHOWN).max(1);
    let mut total = 0;
    for (shown, (i, cell)) in (0_u32..).zip(&run.cells).step_by(step).enumerate() {
        let points: Vec<(f64, f64)> = trace
            .binned(i, BINS)
            .1
            .iter()
            .filter_map(|rows| Some((tail(rows, 0.95)?, median_speed(rows)?)))
            .collect();
        total += points.len();
        plot = plot.points(&tables::label(cell), &format!("@{shown}"), &points);
    }
    if total < 3 {
        return None;
    }
    let title = "Median speed of an answer against the p95 of latency, over bins of time";
    let note = format!(
        "Each point is one of {BINS} equal parts of a cell's time; a cell whose points fall into groups works in several regimes."
    );
    Some(Figure::new("median-p95", title, plot).note(note))
}

fn median_speed(rows: &[Row]) -> Option<f64> {
    let speeds: Vec<f64> = rows.iter().filter_map(Row::speed).collect();
    Sample::of(&speeds)
        .filter(|sample| sample.len() >= 5)
        .map(|sample| sample.median())
}
