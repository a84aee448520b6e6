//! Latency against throughput: each point a level of load.

use bench_schema::{Metric, RunRecord};
use serde_json::json;

use super::{levels, limits, quantile_ms, span_words};
use crate::figure::{Figure, Plot, value_axis};
use crate::number::short;
use crate::tables;

pub(super) fn figure(run: &RunRecord) -> Option<Figure> {
    let (cells, at, name) = levels(run)?;
    let rate = |cell: &bench_schema::CellRecord| {
        let rates = cell.headline_rates()?;
        Some(rates.output_tokens_per_s.unwrap_or(rates.requests_per_s))
    };
    let tokens = cells.iter().any(|cell| {
        cell.headline_rates()
            .is_some_and(|r| r.output_tokens_per_s.is_some())
    });
    let unit = if tokens {
        "output (tokens/s)"
    } else {
        "requests/s"
    };
    let mut plot = Plot::new(value_axis(unit), value_axis("E2E (ms)")).point_at_items();
    for (name, q, color) in [("E2E p95", 0.95, "@1"), ("E2E p50", 0.5, "@0")] {
        let seen = cells.iter().zip(&at).filter_map(|(cell, level)| {
            Some((rate(cell)?, quantile_ms(cell, Metric::E2e, q)?, *level))
        });
        let seen: Vec<(f64, f64, f64)> = seen.collect();
        let points: Vec<(f64, f64)> = seen.iter().map(|p| (p.0, p.1)).collect();
        plot = plot.line(name, color, &points);
        if q > 0.9 {
            let data: Vec<_> = seen
                .iter()
                .map(|p| json!({"value": [crate::number::rounded(p.0), crate::number::rounded(p.1)], "label": {"show": true, "formatter": p.2.to_string(), "position": "top", "fontSize": 10, "color": "@soft"}}))
                .collect();
            plot = plot
                .with("data", data.into())
                .with("labelLayout", json!({"hideOverlap": true}));
        }
    }
    for (limit, words) in limits(run, Metric::E2e) {
        plot = plot.limit(limit, &words, 0.0);
    }
    let (first, last) = (cells.first()?, cells.last()?);
    let gain = rate(last)? / rate(first)?;
    let cost = quantile_ms(last, Metric::E2e, 0.95)? / quantile_ms(first, Metric::E2e, 0.95)?;
    let (gain_words, cost_words) = (short(gain), short(cost));
    let span = span_words(&name, *at.first()?, *at.last()?);
    let title = if (cost - 1.0).abs() < 0.05 {
        format!("{gain_words}× the output at the same p95 latency, {span}")
    } else if gain < 1.05 {
        format!(
            "More load gives no more: {gain_words}× the output at {cost_words}× the p95 latency, {span}"
        )
    } else {
        format!("{gain_words}× the output costs {cost_words}× the p95 latency, {span}")
    };
    Some(
        Figure::new("tradeoff", title, plot)
            .note(format!(
                "Each point is one level; the number on it is its {name}."
            ))
            .table(tables::sweep(run)),
    )
}
