//! The cumulative distribution of E2E, from every request.

use bench_schema::{Metric, RunRecord};
use serde_json::json;

use super::{limits, violins};
use crate::figure::{Figure, Plot, value_axis};
use crate::number::short;
use crate::tables;
use crate::trace::Trace;

/// Curves beyond this would not be told apart; beyond the eight colours they are dashed.
const CURVES: usize = 12;
const POINTS: u32 = 120;

pub(super) fn figure(run: &RunRecord, trace: &Trace) -> Option<Figure> {
    let seen: Vec<_> = (0_u32..)
        .zip(&run.cells)
        .filter_map(|(i, cell)| Some((cell, trace.e2e(i)?)))
        .filter(|(_, s)| s.len() > 1)
        .collect();
    // Of many cells, evenly spread ones.
    let step = seen.len().div_ceil(CURVES).max(1);
    let shown: Vec<_> = seen.iter().step_by(step).collect();
    let mut plot = Plot::new(
        value_axis("percentile: share of requests at most that long (%)").max(100.0),
        value_axis("E2E (ms)"),
    );
    for (i, (cell, sample)) in shown.iter().enumerate() {
        let points: Vec<(f64, f64)> = (0..=POINTS)
            .map(|k| {
                let q = f64::from(k) / f64::from(POINTS);
                (q * 100.0, sample.quantile(q))
            })
            .collect();
        plot = plot
            .line(&tables::label(cell), &format!("@{i}"), &points)
            .with("showSymbol", false.into());
        if i >= 8 {
            plot = plot.with("lineStyle", json!({"type": "dashed"}));
        }
        if i == 0 {
            plot = plot.with("markLine", percentile_marks());
        }
    }
    for (limit, words) in limits(run, Metric::E2e) {
        plot = plot.limit(limit, &words, 0.0);
    }
    let named: Vec<violins::Named> = shown
        .iter()
        .map(|(cell, sample)| (tables::label(cell), sample.clone()))
        .collect();
    let (cell, sample) = shown.last()?;
    let mut title = format!(
        "Nine in ten requests of {} are over within {} ms",
        tables::label(cell),
        short(sample.quantile(0.9))
    );
    if let Some((limit, _)) = limits(run, Metric::E2e).first() {
        title = format!(
            "{} % of the requests of {} are over within {} ms",
            short(sample.share_at_most(*limit) * 100.0),
            tables::label(cell),
            short(*limit)
        );
    }
    let note = "Completed requests only; each curve is cut at its slowest request.";
    Some(
        Figure::new(
            "cdf",
            title,
            plot.root("tooltip", json!({"trigger": "item"})),
        )
        .note(note)
        .table(violins::table("E2E (ms)", &named)),
    )
}

/// Where P50, P95 and P99 are on the axis of shares.
fn percentile_marks() -> serde_json::Value {
    let lines = [("P50", 50), ("P95", 95), ("P99", 99)];
    let lines = lines.map(|(name, at)| json!({"xAxis": at, "label": {"formatter": name}}));
    json!({"silent": true, "symbol": "none", "lineStyle": {"color": "@muted", "type": "dashed"}, "label": {"color": "@soft", "position": "insideEndTop"}, "data": lines})
}
