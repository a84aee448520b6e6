//! Latency over time as a heat map: how many requests ended when, and how long they took.

use std::collections::BTreeMap;

use charming::element::{AxisLabel, NameLocation};

use crate::figure::{Figure, Plot, category_axis};
use crate::number::short;
use crate::trace::{Row, Trace, bin};

const COLUMNS: usize = 60;
const ROWS: usize = 24;

pub(super) fn figure(trace: &Trace) -> Option<Figure> {
    let seen: Vec<(f64, f64)> = trace
        .rows
        .iter()
        .filter_map(|row: &Row| Some((row.end, row.e2e_ms()?)))
        .filter(|p| p.1 > 0.0)
        .collect();
    let spread = |values: &mut dyn Iterator<Item = f64>| {
        values.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| {
            (l.min(v), h.max(v))
        })
    };
    let (from, to) = spread(&mut seen.iter().map(|p| p.0));
    let (low, high) = spread(&mut seen.iter().map(|p| p.1.ln()));
    if seen.len() < 20 || to <= from || high <= low {
        return None;
    }
    let mut counts: BTreeMap<(usize, usize), f64> = BTreeMap::new();
    for (at, ms) in &seen {
        *counts
            .entry((bin(*at, from, to, COLUMNS), bin(ms.ln(), low, high, ROWS)))
            .or_default() += 1.0;
    }
    let cells: Vec<(usize, usize, f64)> = counts.into_iter().map(|((x, y), n)| (x, y, n)).collect();
    let middle = |i: usize, n: usize, a: f64, b: f64| a + (b - a) * (i as f64 + 0.5) / n as f64;
    let x = category_axis((0..COLUMNS).map(|i| format!("{:.1}", middle(i, COLUMNS, from, to))))
        .name("time since the run began (s)")
        .name_location(NameLocation::Middle);
    let y = category_axis((0..ROWS).map(|i| short(middle(i, ROWS, low, high).exp())))
        .name("E2E (ms)")
        .axis_label(AxisLabel::new().interval(3.0));
    let plot = Plot::new(x, y).heat(&cells).point_at_items().height(360);
    let title = format!(
        "When requests ended and how long they took: {} to {} ms",
        short(low.exp()),
        short(high.exp())
    );
    Some(Figure::new("heatmap", title, plot).note("The stronger the colour, the more requests; rows are equal ratios. Bands are regimes, columns that climb are queues that build up."))
}
