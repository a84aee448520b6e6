//! Shapes of distributions: latencies of each cell, and speed, p95 and p99 over bins of time.

use bench_metrics::Sample;
use bench_schema::{CellRecord, RunRecord};
use charming::component::Axis;
use serde_json::{Value, json};

use super::cells_axis;
use crate::figure::{Figure, Plot, log_axis, value_axis};
use crate::number::{rounded, short};
use crate::table::{Cell, Column, Table};
use crate::tables;
use crate::trace::{Row, Trace};

/// Parts of a cell's time.
pub(crate) const BINS: usize = 20;
/// Values that a distribution needs to have a shape.
pub(crate) const ENOUGH: usize = 5;
/// Steps of a violin's outline.
const STEPS: u32 = 40;
/// Violins that fit beside each other.
const SHOWN: usize = 12;

/// What a violin is of, and under which name it stands.
pub(crate) type Named = (String, Sample);

/// A figure of a cell in each part of its time.
type OverTime = fn(&Trace, u32) -> Vec<f64>;

/// The figures whose movement over time is shown: words, id, unit, how.
pub(crate) const OVER_TIME: [(&str, &str, &str, OverTime); 3] = [
    ("output", "time-tokens", "output (tokens/s)", tokens_per_s),
    ("p95 of E2E", "time-p95", "p95 of E2E (ms)", p95),
    ("p99 of E2E", "time-p99", "p99 of E2E (ms)", p99),
];

/// E2E of every completed request, one violin for each cell.
pub(super) fn distributions(run: &RunRecord, trace: &Trace) -> Option<Figure> {
    let all = with_cells(run, |i| trace.e2e(i));
    let (cells, seen) = spread_out(&all);
    let (name, widest) = all
        .iter()
        .map(|(_, named)| named)
        .max_by(|a, b| width(&a.1).total_cmp(&width(&b.1)))?;
    let title = format!(
        "E2E is widest at {name}: p1 {} ms to p99 {} ms",
        short(widest.quantile(0.01)),
        short(widest.quantile(0.99))
    );
    figure(
        cells_axis(run, &cells),
        ("distributions", title),
        "E2E (ms)",
        &seen,
    )
}

fn width(sample: &Sample) -> f64 {
    sample.quantile(0.99) - sample.quantile(0.01)
}

/// One figure each for speed, p95 and p99: a violin shows how a cell's figure moves between bins of its time.
pub(super) fn over_time(run: &RunRecord, trace: &Trace) -> Vec<Figure> {
    let kind = |(words, id, unit, of): (&str, &str, &str, OverTime)| {
        let all = with_cells(run, |i| Sample::of(&of(trace, i)));
        let (cells, seen) = spread_out(&all);
        let (name, widest) = all
            .iter()
            .map(|(_, named)| named)
            .max_by(|a, b| cov(&a.1).total_cmp(&cov(&b.1)))?;
        let title = format!(
            "{} over time varies most at {name}: CoV {} %",
            super::capital(words),
            short(cov(widest) * 100.0)
        );
        let note = format!(
            "Each violin is the distribution of {words} over {BINS} equal parts of the cell's time; the bar is the median. A tail of few requests is close to its slowest one."
        );
        figure(cells_axis(run, &cells), (id, title), unit, &seen).map(|f| f.note(note))
    };
    OVER_TIME.into_iter().filter_map(kind).collect()
}

fn cov(sample: &Sample) -> f64 {
    sample.cov().unwrap_or(0.0)
}

/// Output in each part of a cell's time; a cell of few requests has no such distribution.
fn tokens_per_s(trace: &Trace, cell: u32) -> Vec<f64> {
    let requests = trace.rows.iter().filter(|row| row.cell == cell).count();
    let known = trace
        .rows
        .iter()
        .any(|row| row.cell == cell && row.tokens.is_some());
    if requests < BINS || !known {
        return Vec::new();
    }
    let parts = trace.flow(cell, BINS);
    parts.iter().map(|part| part.tokens_per_s).collect()
}

fn p95(trace: &Trace, cell: u32) -> Vec<f64> {
    tails(trace, cell, 0.95)
}

fn p99(trace: &Trace, cell: u32) -> Vec<f64> {
    tails(trace, cell, 0.99)
}

fn tails(trace: &Trace, cell: u32, q: f64) -> Vec<f64> {
    let parts = trace.binned(cell, BINS);
    parts.iter().filter_map(|rows| tail(rows, q)).collect()
}

/// A tail of E2E in a bin that has enough requests to have one.
pub(crate) fn tail(rows: &[Row], q: f64) -> Option<f64> {
    let values: Vec<f64> = rows.iter().filter_map(Row::e2e_ms).collect();
    Sample::of(&values)
        .filter(|sample| sample.len() >= ENOUGH)
        .map(|sample| sample.quantile(q))
}

fn with_cells(
    run: &RunRecord,
    sample: impl Fn(u32) -> Option<Sample>,
) -> Vec<(&CellRecord, Named)> {
    (0_u32..)
        .zip(&run.cells)
        .filter_map(|(i, cell)| {
            let sample = sample(i).filter(|sample| sample.len() >= ENOUGH)?;
            Some((cell, (tables::label(cell), sample)))
        })
        .collect()
}

/// Of many, as many as fit, evenly spread.
fn spread_out<'a>(all: &[(&'a CellRecord, Named)]) -> (Vec<&'a CellRecord>, Vec<Named>) {
    let step = all.len().div_ceil(SHOWN).max(1);
    all.iter().step_by(step).cloned().unzip()
}

/// Violins beside each other.
pub(crate) fn figure(
    axis: Axis,
    (id, title): (&str, String),
    unit: &str,
    seen: &[Named],
) -> Option<Figure> {
    if seen.is_empty() {
        return None;
    }
    let ends = |q: f64| seen.iter().map(move |(_, sample)| sample.quantile(q));
    let (low, high) = (ends(0.005).reduce(f64::min)?, ends(0.995).reduce(f64::max)?);
    // As in the other charts: what spans more than thirty times stands on a logarithmic axis, and its shape is drawn on it.
    let is_log = low > 0.0 && high > 30.0 * low;
    let data: Vec<Value> = seen
        .iter()
        .enumerate()
        .map(|(i, (_, sample))| violin(i, sample, is_log))
        .collect();
    let y = if is_log {
        log_axis(unit)
    } else {
        value_axis(unit).scale(true)
    };
    let plot = Plot::new(axis, y).point_at_items().custom(
        "",
        "@0",
        "violin",
        json!({"data": data, "encode": {"x": 0, "y": [1, 2]}, "tooltip": {"show": false}}),
    );
    Some(
        Figure::new(id, title, plot)
            .note("The width is the density of requests; the bar is the median.")
            .table(table(unit, seen)),
    )
}

/// Outline by a Gaussian kernel density (Silverman's bandwidth) between the 0.5th and 99.5th percentile.
fn violin(index: usize, sample: &Sample, is_log: bool) -> Value {
    let to = |x: f64| if is_log { x.ln() } else { x };
    let back = |x: f64| if is_log { x.exp() } else { x };
    let at = |q: f64| to(sample.quantile(q));
    let (low, high) = (at(0.005), at(0.995));
    let middle = at(0.75) - at(0.25);
    let sd = if is_log {
        (high - low) / 5.0
    } else {
        sample.sd().unwrap_or(0.0)
    };
    let scale = if middle > 0.0 {
        sd.min(middle / 1.34)
    } else {
        sd
    };
    let width = (0.9 * scale * (sample.len() as f64).powf(-0.2))
        .max((high - low) / 200.0)
        .max(1e-9);
    // At most 2000 evenly spread order statistics: enough for 40 steps, whatever the sample's size.
    let thin = sample.len().div_ceil(2000).max(1);
    let kernel: Vec<f64> = sample
        .sorted()
        .iter()
        .step_by(thin)
        .map(|x| to(*x))
        .collect();
    let density = |y: f64| {
        kernel
            .iter()
            .map(|x| (-0.5 * ((x - y) / width).powi(2)).exp())
            .sum::<f64>()
    };
    let outline: Vec<(f64, f64)> = (0..=STEPS)
        .map(|k| low + (high - low) * f64::from(k) / f64::from(STEPS))
        .map(|y| (y, density(y)))
        .collect();
    let most = outline
        .iter()
        .map(|p| p.1)
        .fold(f64::MIN_POSITIVE, f64::max);
    let shape: Vec<Value> = outline
        .iter()
        .map(|(y, d)| json!([rounded(back(*y)), (d / most * 1e3).round() / 1e3]))
        .collect();
    json!({"value": [index, rounded(back(low)), rounded(back(high))], "median": rounded(sample.median()), "shape": shape, "color": format!("@{index}")})
}

/// Order statistics of each.
pub(crate) fn table(unit: &str, seen: &[Named]) -> Table {
    let mut columns = vec![Column::text("of"), Column::number("n", "")];
    columns.extend(
        ["p5", "p25", "p50", "p75", "p90", "p95", "p99"].map(|name| Column::number(name, "")),
    );
    let mut table = Table::new(super::capital(unit), columns);
    for (name, sample) in seen {
        let mut row = vec![Cell::text(name), Cell::count(sample.len() as u64)];
        row.extend(
            [0.05, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99].map(|q| Cell::number(sample.quantile(q))),
        );
        table.push(row);
    }
    table
}
