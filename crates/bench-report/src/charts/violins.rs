//! Shapes of distributions: latencies of each cell, and speed, p95 and p99 over bins of time.

use bench_metrics::Sample;
use bench_schema::{CellRecord, RunRecord};
use serde_json::{Value, json};

use super::cells_axis;
use crate::figure::{Figure, Plot, value_axis};
use crate::number::{rounded, short};
use crate::table::{Cell, Column, Table};
use crate::tables;
use crate::trace::{Row, Trace};

/// Parts of a cell's time.
const BINS: usize = 20;
/// Steps of a violin's outline.
const STEPS: u32 = 40;
/// Violins that fit beside each other.
const SHOWN: usize = 12;

/// E2E of every completed request, one violin for each cell.
pub(super) fn distributions(run: &RunRecord, trace: &Trace) -> Option<Figure> {
    let seen: Vec<(&CellRecord, Sample)> = (0_u32..)
        .zip(&run.cells)
        .filter_map(|(i, cell)| Some((cell, trace.e2e(i)?)))
        .collect();
    let (name, widest) = seen
        .iter()
        .max_by(|a, b| spread(&a.1).total_cmp(&spread(&b.1)))?;
    let title = format!(
        "E2E is widest at {}: p1 {} ms to p99 {} ms",
        tables::label(name),
        short(widest.quantile(0.01)),
        short(widest.quantile(0.99))
    );
    figure(run, ("distributions", title), "E2E (ms)", &seen)
}

fn spread(sample: &Sample) -> f64 {
    sample.quantile(0.99) - sample.quantile(0.01)
}

/// A figure of the requests that ended in a bin, given its length in seconds.
type OfBin = fn(&[Row], f64) -> Option<f64>;

/// One figure each for speed, p95 and p99: a violin shows how a cell's figure moves between bins of its time.
pub(super) fn over_time(run: &RunRecord, trace: &Trace) -> Vec<Figure> {
    let kinds: [(&str, &str, OfBin); 3] = [
        ("tokens/s", "time-tokens", tokens_per_s),
        ("p95 of E2E (ms)", "time-p95", |rows, _| tail(rows, 0.95)),
        ("p99 of E2E (ms)", "time-p99", |rows, _| tail(rows, 0.99)),
    ];
    kinds.into_iter().filter_map(|(words, id, of)| {
        let seen: Vec<(&CellRecord, Sample)> = (0_u32..)
            .zip(&run.cells)
            .filter_map(|(i, cell)| {
                let values: Vec<f64> = {
                    let (seconds, bins) = trace.binned(i, BINS);
                    bins.iter().filter_map(|rows| of(rows, seconds)).collect()
                };
                Some((cell, Sample::of(&values).filter(|s| s.len() >= 5)?))
            })
            .collect();
        let (name, widest) = seen.iter().max_by(|a, b| a.1.cov().unwrap_or(0.0).total_cmp(&b.1.cov().unwrap_or(0.0)))?;
        let title = format!("{words} over time varies most at {}: CoV {} %", tables::label(name), short(widest.cov()? * 100.0));
        figure(run, (id, title), words, &seen).map(|f| f.note(format!("Each violin is the distribution of {words} over {BINS} equal parts of the cell's time; the bar is the median. A tail of few requests is close to its slowest one.")))
    })
    .collect()
}

/// Output tokens of the answers that ended in a bin, over its length.
fn tokens_per_s(rows: &[Row], seconds: f64) -> Option<f64> {
    let tokens: f64 = rows
        .iter()
        .filter(|row| row.completed)
        .filter_map(|row| row.tokens)
        .map(f64::from)
        .sum();
    (seconds > 0.0 && !rows.is_empty()).then(|| tokens / seconds)
}

/// A tail of E2E in a bin that has enough requests to have one.
pub(super) fn tail(rows: &[Row], q: f64) -> Option<f64> {
    let values: Vec<f64> = rows.iter().filter_map(Row::e2e_ms).collect();
    Sample::of(&values)
        .filter(|sample| sample.len() >= 5)
        .map(|sample| sample.quantile(q))
}

fn figure(
    run: &RunRecord,
    (id, title): (&str, String),
    unit: &str,
    seen: &[(&CellRecord, Sample)],
) -> Option<Figure> {
    let step = seen.len().div_ceil(SHOWN).max(1);
    let shown: Vec<&(&CellRecord, Sample)> = seen
        .iter()
        .step_by(step)
        .filter(|(_, sample)| sample.len() >= 5)
        .collect();
    if shown.is_empty() {
        return None;
    }
    let cells: Vec<&CellRecord> = shown.iter().map(|(cell, _)| *cell).collect();
    let data: Vec<Value> = shown
        .iter()
        .enumerate()
        .map(|(i, (_, sample))| violin(i, sample))
        .collect();
    let plot = Plot::new(cells_axis(run, &cells), value_axis(unit).scale(true))
        .point_at_items()
        .custom(
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
fn violin(index: usize, sample: &Sample) -> Value {
    let (low, high) = (sample.quantile(0.005), sample.quantile(0.995));
    let middle = sample.quantile(0.75) - sample.quantile(0.25);
    let sd = sample.sd().unwrap_or(0.0);
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
    let kernel: Vec<f64> = sample.sorted().iter().step_by(thin).copied().collect();
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
        .map(|(y, d)| json!([rounded(*y), (d / most * 1e3).round() / 1e3]))
        .collect();
    json!({"value": [index, rounded(low), rounded(high)], "median": rounded(sample.median()), "shape": shape, "color": format!("@{index}")})
}

fn table(unit: &str, seen: &[(&CellRecord, Sample)]) -> Table {
    let mut columns = vec![Column::text("cell"), Column::number("n", "")];
    columns.extend(["p5", "p25", "p50", "p75", "p95"].map(|name| Column::number(name, "")));
    let mut table = Table::new(unit, columns);
    for (name, sample) in seen {
        let mut row = vec![
            Cell::text(tables::label(name)),
            Cell::count(sample.len() as u64),
        ];
        row.extend([0.05, 0.25, 0.5, 0.75, 0.95].map(|q| Cell::number(sample.quantile(q))));
        table.push(row);
    }
    table
}
