//! How many requests took how long: a histogram for each cell.

use bench_schema::RunRecord;
use serde_json::json;

use super::violins;
use crate::figure::{Figure, Plot, value_axis};
use crate::number::short;
use crate::tables;
use crate::trace::Trace;

/// Outlines that can be told apart.
const SHOWN: usize = 4;
/// Bars of each.
const BINS: usize = 30;

/// Outlines of E2E's histograms over the same bars, from the 0.5th to the 99.5th percentile of all shown.
pub(super) fn figure(run: &RunRecord, trace: &Trace) -> Option<Figure> {
    let all: Vec<violins::Named> = (0_u32..)
        .zip(&run.cells)
        .filter_map(|(i, cell)| Some((tables::label(cell), trace.e2e(i)?)))
        .filter(|(_, sample)| sample.len() >= BINS)
        .collect();
    let step = all.len().div_ceil(SHOWN).max(1);
    let shown: Vec<violins::Named> = all.into_iter().step_by(step).collect();
    let ends = |q: f64| shown.iter().map(move |(_, sample)| sample.quantile(q));
    let (low, high) = (ends(0.005).reduce(f64::min)?, ends(0.995).reduce(f64::max)?);
    let width = (high - low) / BINS as f64;
    if width <= 0.0 {
        return None;
    }
    let mut plot = Plot::new(
        value_axis("E2E (ms)").scale(true),
        value_axis("requests (%)"),
    )
    .linear();
    let mut fullest = (0.0, 0.0, "");
    for (i, (name, sample)) in shown.iter().enumerate() {
        let below = |x: f64| sample.share_at_most(x) * 100.0;
        let bars = (0..BINS).map(|k| {
            let from = low + width * k as f64;
            (
                from,
                below(from + width) - if k == 0 { 0.0 } else { below(from) },
            )
        });
        let mut points: Vec<(f64, f64)> = bars.collect();
        for (from, share) in &points {
            if *share > fullest.1 {
                fullest = (*from, *share, name.as_str());
            }
        }
        points.push((high, 0.0));
        plot = plot
            .line(name, &format!("@{i}"), &points)
            .with("step", "end".into())
            .with("showSymbol", false.into())
            .with("areaStyle", json!({"opacity": 0.15}));
    }
    let title = format!(
        "The commonest E2E is {} to {} ms: {} % of {}",
        short(fullest.0),
        short(fullest.0 + width),
        short(fullest.1),
        fullest.2
    );
    Some(
        Figure::new("histogram", title, plot)
            .note(format!(
                "Completed requests in {BINS} equal bars from the 0.5th to the 99.5th percentile."
            ))
            .table(violins::table("E2E (ms)", &shown)),
    )
}
