//! How far requests of a cell differ: percentiles, classes of the coefficient of variation, shapes of distributions (cumulative, histograms, violins), and how
//! speed and tails move over time.

use bench_metrics::{CovClass, Sample};
use bench_schema::{CellRecord, Distribution, Metric, RunRecord};
use charming::component::Axis;
use serde_json::{Value, json};

use super::{
    EVERYBODY, apart, borne_ms, capital, cells_axis, cells_with, entry_ms, limits, objectives,
    quantile_ms, times,
};
use crate::figure::{Bounded, Figure, Plot, log_axis, value_axis};
use crate::number::{ends, rounded, short};
use crate::table::{Cell, Column, Sheet, Table};
use crate::tables;
use crate::trace::{Row, Trace};

/// Values under the name that they are shown by.
pub(crate) type Named = (String, Sample);

/// The cells that have a sample of so many values, and the samples; of many cells evenly spread ones.
fn shown(
    run: &RunRecord,
    sample: impl Fn(u32) -> Option<Sample>,
    (least, most): (usize, usize),
) -> (Vec<&CellRecord>, Vec<Named>) {
    let cells = (0_u32..).zip(&run.cells).filter_map(|(i, cell)| {
        let sample = sample(i).filter(|sample| sample.len() >= least)?;
        Some((cell, (tables::label(cell), sample)))
    });
    let all: Vec<_> = cells.collect();
    let step = all.len().div_ceil(most).max(1);
    all.into_iter().step_by(step).unzip()
}

/// Curves beyond this would not be told apart; beyond the eight colours they are dashed.
const CURVES: usize = 12;
const POINTS: u32 = 120;

/// The cumulative distribution of E2E, from every request.
pub(super) fn cdf(run: &RunRecord, trace: &Trace) -> Option<Figure> {
    let (_, seen) = shown(run, |i| trace.e2e(i), (2, CURVES));
    let across = value_axis("percentile: share of requests with at most this E2E (%)").max(100.0);
    let mut plot = Plot::new(across, value_axis("E2E (ms)"));
    for (i, (name, sample)) in seen.iter().enumerate() {
        let shares = (0..=POINTS).map(|k| f64::from(k) / f64::from(POINTS));
        let points: Vec<_> = shares.map(|q| (q * 100.0, sample.quantile(q))).collect();
        plot = plot.curve(name, &format!("@{i}"), &points);
        if i >= 8 {
            plot = plot.with("lineStyle", json!({"type": "dashed"}));
        }
        if i == 0 {
            plot = plot.with("markLine", percentile_marks());
        }
    }
    plot = plot.limits(limits(run, Metric::E2e));
    let (name, sample) = seen.last()?;
    let requests = requests_of(run, name);
    // A limit for one use case says nothing of all requests.
    let mut promised = objectives(run, Metric::E2e).filter(|(whom, _)| *whom == EVERYBODY);
    let title = if let Some((_, slo)) = promised.next() {
        let limit = slo.limit / 1e6;
        let share = short(sample.share_at_most(limit) * 100.0);
        format!(
            "{share} % of {requests} complete within {} ms",
            short(limit)
        )
    } else {
        let p90 = short(sample.quantile(0.9));
        format!("90 % of {requests} complete within {p90} ms")
    };
    let note = "Completed requests only; each curve ends at its slowest request.";
    let plot = plot.root("tooltip", json!({"trigger": "item"}));
    let figure = Figure::new("cdf", title, plot).note(note);
    Some(figure.table(order_statistics("E2E (ms)", &seen)))
}

/// `the requests of concurrency 8`; in a run of one cell `the requests`.
fn requests_of(run: &RunRecord, name: &str) -> String {
    match run.cells.len() {
        1 => "the requests".to_owned(),
        _ => format!("the requests of {name}"),
    }
}

/// Where P50, P95 and P99 are on the axis of shares.
fn percentile_marks() -> Value {
    let lines = [("P50", 50), ("P95", 95), ("P99", 99)];
    let lines = lines.map(|(name, at)| json!({"xAxis": at, "label": {"formatter": name}}));
    json!({"silent": true, "symbol": "none", "lineStyle": {"color": "@muted", "type": "dashed"}, "label": {"color": "@soft", "position": "insideStartTop"}, "data": lines})
}

/// Outlines that can be told apart.
const OUTLINES: usize = 4;
const BARS: usize = 30;

/// Outlines of E2E's histograms over the same bars, from the 0.5th to the 99.5th percentile of all shown.
pub(super) fn histogram(run: &RunRecord, trace: &Trace) -> Option<Figure> {
    let (_, seen) = shown(run, |i| trace.e2e(i), (BARS, OUTLINES));
    let (low, high) = middle(&seen)?;
    let width = (high - low) / BARS as f64;
    if width <= 0.0 {
        return None;
    }
    let across = value_axis("E2E (ms)").scale(true);
    let mut plot = Plot::new(across, value_axis("requests (%)")).linear();
    let mut fullest = (0.0, 0.0, "");
    for (i, (name, sample)) in seen.iter().enumerate() {
        let below = |k: usize| match k {
            0 => 0.0,
            k => sample.share_at_most(low + width * k as f64) * 100.0,
        };
        let bars = (0..BARS).map(|k| (low + width * k as f64, below(k + 1) - below(k)));
        let mut points: Vec<(f64, f64)> = bars.collect();
        for (from, share) in &points {
            if *share > fullest.1 {
                fullest = (*from, *share, name.as_str());
            }
        }
        points.push((high, 0.0));
        plot = plot
            .curve(name, &format!("@{i}"), &points)
            .with("step", "end".into())
            .with("areaStyle", json!({"opacity": 0.15}));
    }
    let (from, to) = (short(fullest.0), short(fullest.0 + width));
    let (share, requests) = (short(fullest.1), requests_of(run, fullest.2));
    let title = format!("The most common E2E is {from} to {to} ms: {share} % of {requests}");
    let note = format!(
        "Completed requests in {BARS} bins of equal width from the 0.5th to the 99.5th percentile."
    );
    let figure = Figure::new("histogram", title, plot).note(note);
    Some(figure.table(order_statistics("E2E (ms)", &seen)))
}

/// From the lowest 0.5th to the highest 99.5th percentile.
fn middle(seen: &[Named]) -> Option<(f64, f64)> {
    let at = |q: f64| seen.iter().map(move |(_, sample)| sample.quantile(q));
    Some((ends(at(0.005))?.0, ends(at(0.995))?.1))
}

/// Parts of a cell's time.
const BINS: usize = 20;
/// Values that a distribution needs to have a shape.
pub(crate) const ENOUGH: usize = 5;
/// Steps of a violin's outline.
const STEPS: u32 = 40;
/// Violins that fit beside each other.
pub(crate) const VIOLINS: usize = 12;

/// A figure of a cell in each part of its time.
type OverTime = fn(&Trace, u32) -> Vec<f64>;

/// The figures whose movement over time is shown: words, id, unit, how.
pub(crate) const OVER_TIME: [(&str, &str, &str, OverTime); 3] = [
    ("output", "time-tokens", "output (tokens/s)", tokens_per_s),
    (
        "p95 of E2E",
        "time-p95",
        "p95 of E2E (ms)",
        |trace, cell| tails(trace, cell, 0.95),
    ),
    (
        "p99 of E2E",
        "time-p99",
        "p99 of E2E (ms)",
        |trace, cell| tails(trace, cell, 0.99),
    ),
];

/// E2E of every completed request, one violin for each cell.
pub(super) fn distributions(run: &RunRecord, trace: &Trace) -> Option<Figure> {
    let width = |sample: &Sample| sample.quantile(0.99) - sample.quantile(0.01);
    of_cells(
        run,
        |i| trace.e2e(i),
        ("distributions", "E2E (ms)"),
        width,
        |most, widest| {
            // of fewer a hundredth is nobody
            let (who, ends) = if widest.len() < 100 {
                ("E2E", [0.0, 1.0])
            } else {
                ("98 % of E2E", [0.01, 0.99])
            };
            let [low, high] = ends.map(|q| short(widest.quantile(q)));
            format!("{who} is between {low} and {high} ms{most}")
        },
    )
}

/// One figure each for speed, p95 and p99: a violin shows how a cell's figure moves between bins of its time.
pub(super) fn over_time(run: &RunRecord, trace: &Trace) -> Vec<Figure> {
    let cov = |sample: &Sample| sample.cov().unwrap_or(0.0);
    let kind = |(words, id, unit, of): (&str, &str, &str, OverTime)| {
        let sample = |i| Sample::of(&of(trace, i));
        let figure = of_cells(run, sample, (id, unit), cov, |most, widest| {
            let (what, cov) = (capital(words), short(cov(widest) * 100.0));
            format!("{what} over time: CoV {cov} %{most}")
        });
        let note = format!(
            "Each violin is the distribution of {words} over {BINS} equal intervals of the time in which the cell's load was whole; the bar is the median. With few requests per interval, a tail percentile is close to the slowest request."
        );
        Some(figure?.note(note))
    };
    OVER_TIME.into_iter().filter_map(kind).collect()
}

/// A violin for each cell; the title is of the one that is widest, ` at c8` where there are others.
fn of_cells(
    run: &RunRecord,
    sample: impl Fn(u32) -> Option<Sample>,
    (id, unit): (&str, &str),
    width: impl Fn(&Sample) -> f64,
    title: impl Fn(&str, &Sample) -> String,
) -> Option<Figure> {
    let (cells, all) = shown(run, sample, (ENOUGH, usize::MAX));
    let widest = all
        .iter()
        .max_by(|a, b| width(&a.1).total_cmp(&width(&b.1)))?;
    let most = match all.len() {
        1 => String::new(),
        _ => format!(" at {}", widest.0),
    };
    let title = title(&most, &widest.1);
    let step = all.len().div_ceil(VIOLINS).max(1);
    let cells: Vec<_> = cells.into_iter().step_by(step).collect();
    let seen: Vec<Named> = all.into_iter().step_by(step).collect();
    violins(cells_axis(run, &cells), (id, title), unit, &seen)
}

/// Output in each part of a cell's time; a cell of few requests has no such distribution.
fn tokens_per_s(trace: &Trace, cell: u32) -> Vec<f64> {
    let mut rows = trace.of_cell(cell);
    if rows.clone().count() < BINS || !rows.any(|row| row.tokens.is_some()) {
        return Vec::new();
    }
    let parts = trace.flow(cell, BINS);
    parts.iter().map(|part| part.tokens_per_s).collect()
}

fn tails(trace: &Trace, cell: u32, q: f64) -> Vec<f64> {
    let parts = trace.binned(cell, BINS);
    parts
        .iter()
        .filter_map(|rows| quantile(rows, Row::e2e_ms, q))
        .collect()
}

/// A quantile over the requests of a bin that has enough of them to have one.
fn quantile(rows: &[Row], of: fn(&Row) -> Option<f64>, q: f64) -> Option<f64> {
    let values: Vec<f64> = rows.iter().filter_map(of).collect();
    let sample = Sample::of(&values).filter(|sample| sample.len() >= ENOUGH)?;
    Some(sample.quantile(q))
}

/// Violins beside each other.
pub(crate) fn violins(
    axis: Axis,
    (id, title): (&str, String),
    unit: &str,
    seen: &[Named],
) -> Option<Figure> {
    let (low, high) = middle(seen)?;
    // As in the other charts: what spans more than thirty times stands on a logarithmic axis, and its shape is drawn on it.
    let is_log = low > 0.0 && high > 30.0 * low;
    let shapes = seen.iter().enumerate();
    let data: Vec<Value> = shapes
        .map(|(i, (_, sample))| violin(i, sample, is_log))
        .collect();
    let y = if is_log {
        log_axis(unit, (low, high))
    } else {
        value_axis(unit).scale(true)
    };
    let data = json!({"data": data, "encode": {"x": 0, "y": [1, 2]}, "tooltip": {"show": false}});
    let plot = Plot::new(axis, y).point_at_items();
    let figure = Figure::new(id, title, plot.custom("", "@0", "violin", data));
    let note = "The width shows the density of requests; the bar is the median.";
    Some(figure.note(note).table(order_statistics(unit, seen)))
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
    let kernel = sample.sorted().iter().step_by(thin);
    let kernel: Vec<f64> = kernel.map(|x| to(*x)).collect();
    let density = |y: f64| {
        let near = kernel
            .iter()
            .map(|x| (-0.5 * ((x - y) / width).powi(2)).exp());
        near.sum::<f64>()
    };
    let steps = (0..=STEPS).map(|k| low + (high - low) * f64::from(k) / f64::from(STEPS));
    let outline: Vec<(f64, f64)> = steps.map(|y| (y, density(y))).collect();
    let most = outline
        .iter()
        .map(|p| p.1)
        .fold(f64::MIN_POSITIVE, f64::max);
    let part = |(y, d): &(f64, f64)| json!([rounded(back(*y)), (d / most * 1e3).round() / 1e3]);
    let shape: Vec<Value> = outline.iter().map(part).collect();
    json!({"value": [index, rounded(back(low)), rounded(back(high))], "median": rounded(sample.median()), "shape": shape, "color": format!("@{index}")})
}

pub(crate) fn order_statistics(unit: &str, seen: &[Named]) -> Option<Table> {
    let mut sheet = Sheet::new()
        .text("of", |(name, _): &&Named| name.clone())
        .count("n", |(_, sample)| sample.len() as u64);
    for p in [5, 25, 50, 75, 90, 95, 99] {
        let q = f64::from(p) / 100.0;
        sheet = sheet.number((&format!("p{p}"), ""), move |(_, sample)| {
            sample.quantile(q)
        });
    }
    sheet.rows(capital(unit), seen)
}

/// Cells, or runs, that can be told apart by colour.
const COLOURS: usize = 8;

/// The p95 of E2E in milliseconds and the median speed in tokens/s of each part of time that has both.
pub(crate) type Points = Vec<(f64, f64)>;

/// Median speed against the p95 of latency, a point for each bin of time.
pub(super) fn median_p95(run: &RunRecord, trace: &Trace) -> Option<Figure> {
    let step = run.cells.len().div_ceil(COLOURS).max(1);
    let cells = (0_u32..).zip(&run.cells).step_by(step);
    let all = cells.map(|(i, cell)| (tables::label(cell), median_p95_points(trace, i)));
    let all: Vec<_> = all.filter(|(_, points)| !points.is_empty()).collect();
    let note = format!(
        "Each point is one of {BINS} equal intervals of the time in which a cell's load was whole; separate groups of points mean that the cell has several regimes."
    );
    Some(median_p95_of(&all)?.note(note))
}

pub(crate) fn median_p95_points(trace: &Trace, cell: u32) -> Points {
    let parts = trace.binned(cell, BINS);
    let point = |rows: &Vec<Row>| {
        Some((
            quantile(rows, Row::e2e_ms, 0.95)?,
            quantile(rows, Row::speed, 0.5)?,
        ))
    };
    parts.iter().filter_map(point).collect()
}

/// The same for anything that has points.
pub(crate) fn median_p95_of(all: &[(String, Points)]) -> Option<Figure> {
    let points = || all.iter().flat_map(|(_, points)| points);
    if points().count() < 3 {
        return None;
    }
    let mut plot = Plot::new(
        value_axis("p95 of E2E (ms)").scale(true),
        value_axis("median output speed per request (tokens/s)").scale(true),
    )
    .point_at_items();
    let columns = vec![
        Column::text("of"),
        Column::number("intervals", ""),
        Column::of("median speed", "least", "tok/s"),
        Column::of("median speed", "most", "tok/s"),
        Column::of("p95 of E2E", "least", "ms"),
        Column::of("p95 of E2E", "most", "ms"),
        Column::of("speed when p95 is", "low", "tok/s"),
        Column::of("speed when p95 is", "high", "tok/s"),
    ];
    let mut table = Table::new("Time intervals", columns);
    let mut told = Vec::new();
    for (i, (name, points)) in all.iter().take(COLOURS).enumerate() {
        plot = plot.points(name, &format!("@{i}"), points);
        let (speed, p95) = (
            ends(points.iter().map(|p| p.1))?,
            ends(points.iter().map(|p| p.0))?,
        );
        let mut row = vec![Cell::text(name), Cell::count(points.len() as u64)];
        row.extend([speed.0, speed.1, p95.0, p95.1].map(Cell::number));
        let halves = halves(points);
        row.extend([halves.map(|h| h.0), halves.map(|h| h.1)].map(Cell::number));
        let known = halves.filter(|(low, _)| *low > 0.0);
        told.extend(known.map(|(low, high)| (name, low, high)));
        table.push(row);
    }
    let (speed, p95) = (ends(points().map(|p| p.1))?, ends(points().map(|p| p.0))?);
    let title = match told.len() {
        0 | 1 => format!(
            "Between time intervals, the median output speed {} tokens/s and the p95 of E2E {} ms",
            varies(speed),
            varies(p95)
        ),
        _ => format!("When p95 is high, {}", held_of(&told)),
    };
    Some(Figure::new("median-p95", title, plot).table(table))
}

/// `varies from 105 to 107`; `stays at 121`.
fn varies((least, most): (f64, f64)) -> String {
    match (short(least), short(most)) {
        (least, most) if least == most => format!("stays at {least}"),
        (least, most) => format!("varies from {least} to {most}"),
    }
}

/// Mean speed in the half of the parts with the lower p95, and in the other; of fewer than six parts it says nothing.
fn halves(points: &Points) -> Option<(f64, f64)> {
    let mut points = points.clone();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (low, high) = points.split_at(points.len() / 2);
    let mean = |part: &[(f64, f64)]| part.iter().map(|p| p.1).sum::<f64>() / part.len() as f64;
    (points.len() >= 6).then(|| (mean(low), mean(high)))
}

/// A name with its speeds where the p95 is low and where it is high.
type Held<'a> = (&'a String, f64, f64);

/// Which keep their speed, within a tenth, and what becomes of the others; of many that keep it their number.
fn held_of(all: &[Held<'_>]) -> String {
    /// Names with their speeds that a title has room for.
    const NAMED: usize = 3;
    let is_kept = |(_, low, high): &&Held<'_>| (high / low - 1.0).abs() < 0.1;
    let (kept, changed): (Vec<&Held<'_>>, Vec<&Held<'_>>) = all.iter().partition(is_kept);
    let mut told: Vec<String> = changed.into_iter().map(changes).collect();
    match kept.len() {
        n if n > NAMED && n == all.len() => told.push(format!("all {n} keep their output speed")),
        n if n > NAMED => told.push(format!("the other {n} keep their output speed")),
        _ => told.extend(kept.iter().map(|(name, low, high)| {
            let (low, high) = (short(*low), short(*high));
            format!("{name} keeps its output speed ({low} and {high} tokens/s)")
        })),
    }
    told.join("; ")
}

fn changes((name, low, high): &Held<'_>) -> String {
    let is_slower = high < low;
    let (low, high) = (short(*low), short(*high));
    if is_slower {
        format!("{name} slows down from {low} to {high} tokens/s")
    } else {
        format!("{name} speeds up from {low} to {high} tokens/s")
    }
}

/// Percentiles and the roles of their colours, from calm to alarming.
const PERCENTILES: [(f64, &str, &str); 4] = [
    (0.5, "p50", "@good"),
    (0.9, "p90", "@5"),
    (0.95, "p95", "@warn"),
    (0.99, "p99", "@bad"),
];

/// Percentile bars of E2E, one group for each cell.
pub(super) fn percentiles(run: &RunRecord) -> Option<Figure> {
    let (cells, _) = cells_with(run, |cell| cell.headline(Metric::E2e));
    let mut plot = Plot::new(cells_axis(run, &cells), value_axis("E2E (ms)"));
    for (i, (q, name, color)) in PERCENTILES.into_iter().enumerate() {
        let seen = cells.iter().map(|cell| quantile_ms(cell, Metric::E2e, q));
        let seen: Vec<_> = seen.collect();
        plot = plot.bars_within(name, color, &seen, (i, PERCENTILES.len()));
    }
    plot = plot.limits(limits(run, Metric::E2e));
    let title = tail_title(&cells)?;
    let metric = Metric::E2e.from_origin(cells.last()?.headline);
    let table = tables::distributions(run, &[metric], "E2E percentiles");
    let height = if cells.len() > 6 { 430 } else { 340 };
    let figure = Figure::new("percentiles", title, plot.height(height));
    let note = format!("Percentiles of E2E, {}.", figure.within());
    Some(figure.note(note).table(table))
}

/// The p95 beside the median of the cells that have enough requests for it, the medians where none has.
fn tail_title(cells: &[&CellRecord]) -> Option<String> {
    let ratios = cells.iter().filter_map(|cell| Some((*cell, tail(cell)?)));
    let mut ratios: Vec<_> = ratios.collect();
    ratios.sort_by(|a, b| a.1.0.total_cmp(&b.1.0));
    let ([(_, smallest), ..], Some((worst, widest))) = (ratios.as_slice(), ratios.last()) else {
        let medians = cells
            .iter()
            .filter_map(|cell| quantile_ms(cell, Metric::E2e, 0.5));
        let (least, most) = ends(medians.map(|median| median.0))?;
        let (least, most) = (short(least), short(most));
        return Some(if least == most {
            format!("The median of E2E is {most} ms")
        } else {
            format!("The median of E2E is {least} to {most} ms")
        });
    };
    let (least, most) = (times(smallest.0), times(widest.0));
    let others = || ratios.iter().rev().skip(1);
    Some(if least == most {
        format!("The p95 of E2E is {most} its median")
    } else if others().all(|(_, tail)| apart(*tail, *widest)) {
        let label = tables::label(worst);
        format!("The tail is widest at {label}: p95 is {most} the median")
    } else {
        format!("The p95 of E2E is {least} to {most} its median")
    })
}

/// P95 over the median of E2E, between what the ends of both intervals give.
fn tail(cell: &CellRecord) -> Option<Bounded> {
    let seen = cell.headline(Metric::E2e);
    let (p50, p95) = (entry_ms(seen, 0.5)?, borne_ms(seen, 0.95)?);
    let ends = p50.1.zip(p95.1);
    let ends = ends.map(|(p50, p95)| (p95.0 / p50.1, p95.1 / p50.0));
    Some((p95.0 / p50.0, ends))
}

/// Upper ends of the classes in percent, and the roles of their colours.
const CLASSES: [(f64, CovClass, &str); 4] = [
    (5.0, CovClass::Consistent, "@good"),
    (10.0, CovClass::Mostly, "@5"),
    (20.0, CovClass::Noticeable, "@warn"),
    (f64::INFINITY, CovClass::Unstable, "@bad"),
];

/// E2E of a cell whose requests are alike: that of answers of many lengths differs as they do, and says nothing of the server.
fn alike(cell: &CellRecord) -> Option<&Distribution> {
    let lengths = cell.metrics.get(&Metric::OutputTokens);
    let is_alike = lengths.is_none_or(|lengths| lengths.cov.unwrap_or(0.0) < 0.05);
    cell.headline(Metric::E2e).filter(|_| is_alike)
}

/// Mean E2E ± one standard deviation.
pub(super) fn means(run: &RunRecord) -> Option<Figure> {
    let known = |cell: &CellRecord| {
        let seen = alike(cell)?;
        Some((seen.mean / 1e6, seen.sd? / 1e6, seen.cov?))
    };
    let (cells, seen) = cells_with(run, known);
    if cells.len() < 2 {
        return None;
    }
    let within =
        |&(mean, sd, _): &(f64, f64, f64)| Some((mean, Some(((mean - sd).max(0.0), mean + sd))));
    let points: Vec<_> = seen.iter().map(within).collect();
    let plot = Plot::new(cells_axis(run, &cells), value_axis("E2E (ms)"));
    let plot = plot.points_within("mean ± sd", "@0", &points);
    let widest = cells
        .iter()
        .zip(&seen)
        .max_by(|a, b| a.1.2.total_cmp(&b.1.2))?;
    let title = format!(
        "The standard deviation is at most {} % of the mean ({})",
        short(widest.1.2 * 100.0),
        tables::label(widest.0)
    );
    let figure = Figure::new("consistency", title, plot);
    let note = "Points are means; whiskers show one standard deviation.";
    Some(figure.note(note).table(consistency(run)))
}

/// CoV of each cell, coloured by class.
pub(super) fn classes(run: &RunRecord) -> Option<Figure> {
    let percent = |cell: &CellRecord| Some(alike(cell)?.cov? * 100.0);
    let (cells, covs) = cells_with(run, percent);
    let worst = covs.iter().copied().reduce(f64::max)?;
    let mut plot = Plot::new(cells_axis(run, &cells), value_axis("CoV of E2E (%)"));
    // A series for each class, so that the legend says what the colours mean; they share one place.
    for (_, wanted, color) in CLASSES {
        let of_class = |&cov: &f64| Some(cov).filter(|&cov| class(cov) == wanted);
        let values: Vec<Option<f64>> = covs.iter().map(of_class).collect();
        if values.iter().any(Option::is_some) {
            plot = plot
                .bars(wanted.as_str(), color, &values)
                .with("barGap", json!("-100%"));
        }
    }
    for (end, class, color) in CLASSES.into_iter().take(2) {
        let words = format!("{} below {end} %", class.as_str());
        plot = plot.level_line(end, &words, color, 0.0);
    }
    let (said, of_worst) = (short(worst), class(worst).as_str());
    let title = match covs.iter().filter(|&&cov| cov >= 5.0).count() {
        _ if covs.len() == 1 => format!("E2E is {of_worst}: CoV {said} %"),
        0 => format!("Every cell is consistent: CoV at most {said} %"),
        n => format!(
            "{n} of {} cells {} by more than 5 %, at most by {said} % ({of_worst})",
            covs.len(),
            if n == 1 { "varies" } else { "vary" }
        ),
    };
    let note = "Classes: below 5 % consistent, 5 to 10 % mostly, 10 to 20 % noticeable, above that unstable. Cells whose answers differ in length are left out.";
    let figure = Figure::new("cov", title, plot.linear());
    Some(figure.note(note).table(consistency(run)))
}

/// The class of a CoV in percent.
fn class(cov: f64) -> CovClass {
    CovClass::of(cov / 100.0)
}

fn consistency(run: &RunRecord) -> Option<Table> {
    let (cells, seen) = cells_with(run, alike);
    Sheet::new()
        .text("cell", |(cell, _): &(&CellRecord, &Distribution)| {
            tables::label(cell)
        })
        .number(("mean", "ms"), |(_, seen)| seen.mean / 1e6)
        .number(("sd", "ms"), |(_, seen)| seen.sd.map(|sd| sd / 1e6))
        .number(("CoV", "%"), |(_, seen)| seen.cov.map(|cov| cov * 100.0))
        .text("class", |(_, seen)| {
            seen.cov.map(|cov| CovClass::of(cov).as_str().to_owned())
        })
        .rows("Consistency of E2E", cells.into_iter().zip(seen))
}
