//! Charts over the time of a run, from its requests.

use std::collections::BTreeMap;

use bench_metrics::Sample;
use bench_schema::{CellRecord, RunRecord, index};
use charming::component::Axis;
use charming::element::{AxisLabel, AxisTick, NameLocation};
use serde_json::{Value, json};

use super::load::rates_table;
use super::machines::{areas, shaded_cells};
use super::{at_cell, times};
use crate::figure::{Figure, Plot, category_axis, log_axis, time_axis, value_axis};
use crate::number::{duration, ends, rounded, short};
use crate::table::{Cell, Column, Sheet, Table};
use crate::tables;
use crate::trace::{Flow, LagBin, Row, Stall, Trace, bin, flow};

const PARTS: usize = 120;

/// Output and requests in flight over the run.
pub(super) fn flowing(run: &RunRecord, trace: &Trace) -> Option<Figure> {
    let seconds = run.duration.as_secs_f64();
    let all = trace.rows.iter().chain(&trace.warmup);
    let parts = flow(all, (0.0, seconds), PARTS);
    let series = |pick: fn(&Flow) -> f64| -> Vec<(f64, f64)> {
        parts.iter().map(|part| (part.at, pick(part))).collect()
    };
    let most = |pick: fn(&Flow) -> f64| parts.iter().map(pick).fold(0.0, f64::max);
    let (tokens, under_way) = (most(|p| p.tokens_per_s), most(|p| p.under_way));
    if under_way <= 0.0 {
        return None;
    }
    let mut plot = Plot::new(time_axis(seconds), value_axis("output (tokens/s)"))
        .second_y(value_axis("requests in flight").min(0.0));
    if tokens > 0.0 {
        plot = plot
            .curve("output tokens/s", "@0", &series(|p| p.tokens_per_s))
            .with("markArea", shaded_cells(run));
    }
    let steady = run
        .cells
        .iter()
        .filter_map(|cell| cell.windows.steady.as_ref());
    let steady: Vec<_> = steady.map(|rates| rates.window).collect();
    plot = plot
        .curve("requests in flight", "@1", &series(|p| p.under_way))
        .with("yAxisIndex", 1.into())
        .with(
            "markArea",
            areas(&steady, &json!({"color": "@good", "opacity": 0.13})),
        );
    let most = match rounded(under_way.round()) {
        n if n < 1.5 => "one request is in flight at a time".to_owned(),
        n => format!("at most {n} requests are in flight"),
    };
    let title = if tokens > 0.0 {
        format!("Output reaches {} tokens/s; {most}", short(tokens))
    } else {
        crate::text::heading(&most)
    };
    let windows = if steady.is_empty() {
        "no steady-state window was found, so rates are over each whole cell"
    } else {
        "green: the steady-state windows over which rates are computed"
    };
    let note = format!(
        "The run is divided into {PARTS} intervals; the tokens of a response are spread evenly over its decode phase. Grey shading: every second cell; {windows}."
    );
    let figure = Figure::new("flow", title, plot).note(note);
    Some(figure.table(rates_table(run)))
}

/// Requests shown: more would be thinner than a line.
const REQUESTS: usize = 80;

/// Requests as bars over time: waiting for the first token, then generating.
pub(super) fn timeline(run: &RunRecord, trace: &Trace) -> Option<Figure> {
    // The cell in which most is under way at once, around its middle.
    let in_flight = |cell: &CellRecord| {
        cell.headline_rates()
            .map_or(0.0, |rates| rates.mean_in_flight)
    };
    let (index, cell) = (0_u32..)
        .zip(&run.cells)
        .max_by(|a, b| in_flight(a.1).total_cmp(&in_flight(b.1)))?;
    let rows = trace.of_cell(index);
    let from = (rows.clone().count() / 2).saturating_sub(REQUESTS / 2);
    let shown: Vec<&Row> = rows.skip(from).take(REQUESTS).collect();
    if shown.is_empty() {
        return None;
    }
    let data: Vec<Value> = shown
        .iter()
        .enumerate()
        .map(|(i, row)| bar(i, row))
        .collect();
    let failed = shown.iter().filter(|row| !row.completed).count();
    let mut plot = bars(&data);
    if failed > 0 {
        plot = plot.custom("no complete response", "@bad", "span", json!({"data": []}));
    }
    let median = |pick: fn(&Row) -> Option<f64>| {
        let values: Vec<f64> = shown.iter().filter_map(|row| pick(row)).collect();
        Sample::of(&values).map_or_else(|| "–".to_owned(), |sample| short(sample.median()))
    };
    let mut title = format!(
        "The median request{} waits {} ms for its first token and decodes for {} ms",
        at_cell(run.cells.len(), cell),
        median(waiting),
        median(generating)
    );
    if failed > 0 {
        title.push_str(&format!(
            "; {failed} of {} have no complete response",
            shown.len()
        ));
    }
    let table = Sheet::new()
        .number(("start", "s"), |row: &&Row| row.start)
        .number(("first token after", "ms"), |row| waiting(row))
        .number(("decode", "ms"), |row| generating(row))
        .column(Column::number("output", "tokens"), |row| {
            row.tokens
                .map_or_else(Cell::default, |n| Cell::count(n.into()))
        })
        .text("complete", |row| {
            if row.completed { "yes" } else { "no" }.to_owned()
        })
        .rows("The requests in the chart", shown.iter().copied());
    let note = format!(
        "{} requests around the middle of the cell, one per row, ordered by start; the title refers to these requests.",
        shown.len()
    );
    let figure = Figure::new("requests", title, plot.point_at_items().height(460));
    Some(figure.note(note).table(table))
}

fn bars(data: &[Value]) -> Plot {
    let names = (1..=data.len()).map(|i| i.to_string());
    let x = value_axis("time since the run began (s)").scale(true);
    let y = category_axis(names)
        .inverse(true)
        .axis_label(AxisLabel::new().show(false))
        .axis_tick(AxisTick::new().show(false));
    let bars = json!({"data": data, "encode": {"x": [1, 2], "y": 0}, "clip": true});
    // Without names at the left, half of the first number under the axis would leave the chart.
    let grid = json!([{"left": 28, "right": 28, "top": 64, "bottom": 36, "containLabel": true}]);
    Plot::new(x, y)
        .custom("waiting for the first token", "@1", "span", bars)
        .custom("generating", "@0", "span", json!({"data": []}))
        .root("grid", grid)
}

/// To the first token, milliseconds.
fn waiting(row: &Row) -> Option<f64> {
    Some((row.first? - row.start) * 1e3)
}

/// From the first token to the last, milliseconds.
fn generating(row: &Row) -> Option<f64> {
    Some((row.end - row.first?) * 1e3)
}

fn bar(i: usize, row: &Row) -> Value {
    let figures = |x: f64| (x * 1e4).round() / 1e4;
    let (start, end) = (figures(row.start), figures(row.end));
    let first = figures(row.first.unwrap_or(row.end));
    let generating = if row.completed { "@0" } else { "@bad" };
    json!({"value": [i, start, end], "parts": [[start, first, "@1"], [first, end, generating]]})
}

/// At most so many parts, but for what the first and the last round label take.
const COLUMNS: f64 = 60.0;
const ROWS: f64 = 30.0;
const TABLE_ROWS: usize = 12;
const ENDS: [&str; 2] = ["many", "few"];
/// Latencies further apart than this ratio stand on a logarithmic axis.
const FAR_APART: f64 = 4.0;

/// Equal parts of an axis with labels at round numbers.
struct Parts {
    from: f64,
    width: f64,
    count: usize,
    /// A label stands at the lower end of every so many parts.
    labelled: u32,
}

impl Parts {
    /// Parts 1, 2 or 5 times a power of ten wide.
    fn linear(low: f64, high: f64, most: f64, labelled: u32) -> Self {
        let least = (high - low) / most;
        let power = 10_f64.powf(least.log10().floor());
        let fits = [1.0, 2.0, 5.0, 10.0].map(|times| times * power);
        let width = fits.into_iter().find(|width| *width >= least);
        Self::over(low, high, width.unwrap_or(least), labelled)
    }

    /// Parts of log2 with labels a factor of two apart, 100 times a power of two among them.
    fn of_ratios(low: f64, high: f64) -> Self {
        let [low, high] = [low, high].map(|value| (value / 100.0).log2());
        let doublings = high.ceil() - low.floor();
        let labelled = [12, 8, 6, 4, 3, 2];
        let labelled = labelled
            .into_iter()
            .find(|n| doublings * f64::from(*n) <= ROWS);
        let labelled = labelled.unwrap_or(1);
        Self::over(low, high, 1.0 / f64::from(labelled), labelled)
    }

    fn over(low: f64, high: f64, width: f64, labelled: u32) -> Self {
        let step = width * f64::from(labelled);
        let from = (low / step).floor() * step;
        let count = index((high - from) / width) + 1;
        Self {
            from,
            width,
            count,
            labelled,
        }
    }

    fn index(&self, at: f64) -> usize {
        index((at - self.from) / self.width).min(self.count - 1)
    }

    /// The value so many parts above the lower end.
    fn at(&self, parts: f64) -> f64 {
        self.from + parts * self.width
    }

    /// An axis of the lower ends.
    fn axis(&self, name: impl Fn(f64) -> String) -> Axis {
        let label = AxisLabel::new().interval(f64::from(self.labelled) - 1.0);
        category_axis((0..self.count).map(|i| name(self.at(i as f64)))).axis_label(label)
    }
}

type Map = fn(f64) -> f64;

/// Latency as a heat map: how many requests ended when, and how long they took.
pub(super) fn heatmap(_: &RunRecord, trace: &Trace) -> Option<Figure> {
    let seen = trace
        .rows
        .iter()
        .filter_map(|row| Some((row.end, row.e2e_ms()?)));
    let seen: Vec<(f64, f64)> = seen.filter(|p| p.1 > 0.0).collect();
    let (from, to) = ends(seen.iter().map(|p| p.0))?;
    let (low, high) = ends(seen.iter().map(|p| p.1))?;
    if seen.len() < 20 || to <= from || high <= low {
        return None;
    }
    let columns = Parts::linear(from, to, COLUMNS, 10);
    let is_wide = high > FAR_APART * low;
    let (rows, scaled, value): (Parts, Map, Map) = if is_wide {
        let scaled = |ms: f64| (ms / 100.0).log2();
        (Parts::of_ratios(low, high), scaled, |at| 100.0 * at.exp2())
    } else {
        (Parts::linear(low, high, ROWS, 5), |ms| ms, |at| at)
    };
    let mut counts: BTreeMap<(usize, usize), f64> = BTreeMap::new();
    for (at, ms) in &seen {
        let row = rows.index(scaled(*ms));
        *counts.entry((columns.index(*at), row)).or_default() += 1.0;
    }
    let cells: Vec<(usize, usize, f64)> = counts.into_iter().map(|((x, y), n)| (x, y, n)).collect();
    let x = columns
        .axis(|at| rounded(at).to_string())
        .name("time since the run began (s)")
        .name_location(NameLocation::Middle);
    let y = rows
        .axis(|at| rounded(value(at)).to_string())
        .name("E2E (ms)");
    let plot = Plot::new(x, y)
        .heat(&cells, ENDS)
        .point_at_items()
        .height(360);
    let median = Sample::of(&seen.iter().map(|p| p.1).collect::<Vec<f64>>())?.median();
    let title = format!(
        "E2E is between {} and {} ms; the median over the run is {} ms",
        short(low),
        short(high),
        short(median)
    );
    let axis = if is_wide {
        "; the E2E axis is logarithmic"
    } else {
        ""
    };
    let note = format!(
        "Stronger colour means more requests{axis}. Horizontal bands are stable regimes; rising bands are growing queues."
    );
    let table = by_end(trace, (from, to));
    Some(Figure::new("heatmap", title, plot).note(note).table(table))
}

/// E2E of the requests that ended in each of a few equal parts of the time.
fn by_end(trace: &Trace, (from, to): (f64, f64)) -> Option<Table> {
    let mut parts: Vec<Vec<f64>> = vec![Vec::new(); TABLE_ROWS];
    for row in &trace.rows {
        if let Some(part) = parts.get_mut(bin(row.end, from, to, TABLE_ROWS)) {
            part.extend(row.e2e_ms());
        }
    }
    let width = (to - from) / TABLE_ROWS as f64;
    let mut sheet = Sheet::new()
        .text("time (s)", |(i, _): &(usize, Vec<f64>)| {
            let start = from + *i as f64 * width;
            format!("{start:.1} to {:.1}", start + width)
        })
        .count("requests", |(_, values)| values.len() as u64);
    for (name, q) in [("p50", 0.5), ("p95", 0.95), ("max", 1.0)] {
        sheet = sheet.column(Column::of("E2E", name, "ms"), move |(_, values)| {
            Cell::number(Sample::of(values).map(|sample| sample.quantile(q)))
        });
    }
    sheet.rows("Requests by end time", parts.into_iter().enumerate())
}

/// The answers with the longest gap between two tokens.
pub(super) fn stalls(run: &RunRecord, trace: &Trace) -> Option<Figure> {
    let longest = trace
        .stalls
        .iter()
        .max_by(|a, b| a.worst_ms.total_cmp(&b.worst_ms));
    let worst = longest?;
    let x = value_axis("index of the token in the response");
    let mut plot = Plot::new(x, value_axis("gap before the token (ms)")).point_at_items();
    let label = |stall: &Stall| {
        let cell = run.cells.get(stall.cell as usize);
        cell.map_or_else(String::new, tables::label)
    };
    for (i, stall) in trace.stalls.iter().enumerate() {
        let points = stall.gaps.iter().map(|&(n, gap)| (f64::from(n), gap));
        plot = plot.curve(&label(stall), &format!("@{i}"), &points.collect::<Vec<_>>());
    }
    let table = Sheet::new()
        .text("cell", |stall: &&Stall| label(stall))
        .count("request", |stall| stall.id)
        .number(("longest gap", "ms"), |stall| stall.worst_ms)
        .number(("median gap", "ms"), |stall| stall.median_ms)
        .rows(
            "Responses with the longest gap of their cell",
            &trace.stalls,
        );
    let longest = short(worst.worst_ms);
    let title = match worst.median_ms {
        median if median > 0.01 => {
            let ratio = times(worst.worst_ms / median);
            format!("The longest stall is {longest} ms, {ratio} the median gap of that response")
        }
        _ => format!(
            "The longest stall is {longest} ms; half of that response's tokens arrived together with the previous one"
        ),
    };
    let note = "For the four cells with the longest gaps: the response with the longest gap.";
    Some(Figure::new("stalls", title, plot).note(note).table(table))
}

/// The client's own lag: how late this program was in reading what had arrived.
pub(super) fn lag(run: &RunRecord, trace: &Trace) -> Option<Figure> {
    if trace.lag.len() < 2 {
        return None;
    }
    let series = |pick: fn(&LagBin) -> f64| -> Vec<(f64, f64)> {
        let bins = trace.lag.iter();
        bins.map(|bin| (bin.at, pick(bin).max(1.0))).collect()
    };
    let least = trace.lag.iter().map(|bin| bin.p50_us);
    let least = least.fold(f64::INFINITY, f64::min).max(1.0);
    let worst = trace.lag.iter().map(|bin| bin.max_us).fold(0.0, f64::max);
    let up = log_axis("lag (µs)", (least, worst.max(least)));
    let plot = Plot::new(time_axis(run.duration.as_secs_f64()), up)
        .curve("p50", "@0", &series(|bin| bin.p50_us))
        .curve("p99", "@1", &series(|bin| bin.p99_us))
        .curve("max", "@bad", &series(|bin| bin.max_us));
    let title = format!(
        "The client read 99 % of the tokens within {} of their arrival, and all within {}",
        duration(trace.lag_p99_us? * 1e3),
        duration(worst * 1e3)
    );
    let note = "Time from arrival at the kernel to the return of the client's read, in 120 intervals of the run; values are within 9 %.";
    let figure = Figure::new("lag", title, plot).note(note);
    Some(figure.table(tables::client(run)))
}

#[cfg(test)]
#[path = "../../tests/unit/charts_over_time.rs"]
mod tests;
