//! Latency and speed against lengths: over a grid, request by request, by use case and category.

use std::collections::BTreeMap;

use bench_metrics::{LinearFit, Sample, linear_fit};
use bench_schema::{Benchmark, CellRecord, Distribution, Factor, GroupRecord, Metric, RunRecord};

use super::{apart, at_cell, limits, shapes, times};
use crate::figure::{Bounded, Figure, Plot, category_axis, value_axis};
use crate::number::{ends, short};
use crate::tables;
use crate::text::shortened;
use crate::trace::{Row, Trace};

/// Curves by prompt: points of output tokens, cell.
type Curves<'a> = BTreeMap<String, Vec<(f64, &'a CellRecord)>>;

fn curves(run: &RunRecord) -> Option<Curves<'_>> {
    let mut curves: Curves<'_> = BTreeMap::new();
    for cell in &run.cells {
        let tokens = cell
            .factors
            .get("output_tokens")
            .and_then(Factor::as_number);
        let Some(tokens) = tokens else { continue };
        let prompts = ["prompt", "prompt_tokens", "input_tokens"];
        let prompt = prompts.iter().find_map(|name| cell.factors.get(*name));
        let name = match prompt.map(|prompt| (prompt, prompt.as_number())) {
            None => "all prompts".to_owned(),
            Some((_, Some(n))) => format!("{n} prompt tokens"),
            Some((name, None)) => format!("{name} prompt"),
        };
        curves.entry(name).or_default().push((tokens, cell));
    }
    for points in curves.values_mut() {
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    let is_curve = curves.values().any(|points| points.len() > 1);
    is_curve.then_some(curves)
}

/// Mean E2E against output tokens.
pub(super) fn latency(run: &RunRecord) -> Option<Figure> {
    let curves = curves(run)?;
    let mut plot = Plot::new(value_axis("output tokens"), value_axis("mean E2E (ms)")).linear();
    for (i, (name, points)) in curves.iter().enumerate() {
        let seen = points.iter();
        let seen = seen.filter_map(|(tokens, cell)| Some((*tokens, cell.headline(Metric::E2e)?)));
        let seen: Vec<_> = seen.collect();
        let means: Vec<(f64, f64)> = seen
            .iter()
            .map(|(tokens, d)| (*tokens, d.mean / 1e6))
            .collect();
        let spans = seen.iter().filter_map(|(tokens, d)| {
            let interval = d.mean_interval?;
            Some((*tokens, interval.low / 1e6, interval.high / 1e6))
        });
        let (spans, color) = (spans.collect::<Vec<_>>(), format!("@{i}"));
        plot = plot
            .line(name, &color, &means)
            .whiskers(name, &color, &spans, (0, 1));
    }
    let mut title = "Mean E2E by output length".to_owned();
    let mut fits = String::new();
    let longest = curves.values().flatten().map(|p| p.0).fold(0.0, f64::max);
    if let Some((intercept, slope, r2)) = linear(run) {
        let line = [(0.0, intercept), (longest, intercept + slope * longest)];
        plot = plot.dashed("linear fit", "@muted", &line);
        title = format!("Each output token adds {} ms", short(slope));
        let r2 = tables::significant(r2);
        fits = format!("; R² of the line is {r2}");
    }
    let figure = Figure::new("length-latency", title, plot);
    let note = format!("Means, {}{fits}.", figure.within());
    Some(figure.note(note).table(tables::grid(run)))
}

/// Intercept and slope in milliseconds, and R², of the stored fit (which is in nanoseconds).
fn linear(run: &RunRecord) -> Option<(f64, f64, f64)> {
    let fit = run.analysis.fits.get("latency_by_output_tokens")?;
    let (a, b) = (fit.parameters.get("a")?, fit.parameters.get("b")?);
    Some((a / 1e6, b / 1e6, fit.r_squared?))
}

/// Tokens per second of one answer against its length.
pub(super) fn speed(run: &RunRecord) -> Option<Figure> {
    let curves = curves(run)?;
    let axis = value_axis("output speed (tokens/s)").min(0.0);
    let mut plot = Plot::new(value_axis("output tokens"), axis);
    let mut all = Vec::new();
    for (i, (name, points)) in curves.iter().enumerate() {
        let seen = points.iter().filter_map(|(tokens, cell)| {
            let ms = cell.analysis.ms_per_token.filter(|&ms| ms > 0.0)?;
            Some((*tokens, 1000.0 / ms))
        });
        let seen: Vec<(f64, f64)> = seen.collect();
        all.extend(seen.iter().map(|p| p.1));
        plot = plot.line(name, &format!("@{i}"), &seen);
    }
    let (least, most) = ends(all.iter().copied()).filter(|_| all.len() > 1)?;
    let how = if most > least * 1.25 {
        "depending on its"
    } else {
        "independent of its"
    };
    let (least, most) = (short(least), short(most));
    let title = format!("A single response runs at {least} to {most} tokens/s, {how} length");
    let note = "Output tokens divided by E2E, which includes the time to first token.";
    let figure = Figure::new("length-speed", title, plot).note(note);
    Some(figure.table(tables::grid(run)))
}

/// Points shown: more would only be darker.
const POINTS: usize = 1200;
/// Cells that can be told apart by colour.
const COLOURS: usize = 8;
const LEVEL: f64 = 0.95;
/// A line that explains less of the spread than this says nothing.
const WEAK: f64 = 0.3;

/// What a row is placed by.
type Pick = fn(&Row) -> Option<f64>;

/// Every request by its length: E2E against output, TTFT against prompts, speed against output, where a run has requests of many lengths
/// in each cell rather than a grid.
pub(super) fn scatter(run: &RunRecord, trace: &Trace) -> Vec<Figure> {
    let lengths: Vec<f64> = trace.rows.iter().filter_map(output).collect();
    let spread = Sample::of(&lengths)
        .is_some_and(|s| s.len() >= 20 && s.quantile(0.9) >= 2.0 * s.quantile(0.1).max(1.0));
    if !spread || run.experiment == Benchmark::Latency {
        return Vec::new();
    }
    let e2e = ("scatter-e2e", "output tokens", "E2E (ms)");
    let e2e = scattered(run, trace, e2e, (output, Row::e2e_ms), |fit, at| {
        let adds = format!("Each output token adds {} ms", short(fit.slope.value));
        followed(["E2E", "answer"], &adds, fit, at)
    });
    let first: Pick = |row| Some((row.first.filter(|_| row.completed)? - row.start) * 1e3);
    let ttft = ("scatter-ttft", "prompt tokens", "TTFT (ms)");
    let prompt: Pick = |row| row.input.map(f64::from);
    // Told for as many tokens as the prompts have, about.
    let longest = trace.rows.iter().filter_map(prompt).fold(0.0, f64::max);
    let (tokens, n) = match longest {
        n if n >= 500.0 => ("A thousand", 1000.0),
        n if n >= 50.0 => ("A hundred", 100.0),
        _ => ("Ten", 10.0),
    };
    let ttft = scattered(run, trace, ttft, (prompt, first), |fit, at| {
        let adds = short(fit.slope.value * n);
        let adds = format!("{tokens} prompt tokens add {adds} ms");
        followed(["TTFT", "prompt"], &adds, fit, at)
    });
    [e2e, ttft, speeds(run, trace)]
        .into_iter()
        .flatten()
        .collect()
}

fn output(row: &Row) -> Option<f64> {
    row.tokens.map(f64::from)
}

/// What a line through the requests says: a slope that is known is told, however far they lie from it.
fn followed([metric, length]: [&str; 2], adds: &str, fit: &LinearFit, at: &str) -> String {
    let shown = short(fit.r2);
    if fit.r2 >= WEAK {
        return format!("{adds} to {metric}{at} (R² {shown})");
    }
    let little = format!("explains little of {metric}{at} (R² {shown})");
    if fit.slope.low.is_some_and(|low| low > 0.0) {
        format!("{adds}, but the {length} length {little}")
    } else {
        format!("The {length} length {little}")
    }
}

fn speeds(run: &RunRecord, trace: &Trace) -> Option<Figure> {
    let figure = ("scatter-speed", "output tokens", "decode speed (tokens/s)");
    let last = u32::try_from(run.cells.len().checked_sub(1)?).ok()?;
    let sample = trace.values(last, Row::speed)?;
    let (low, high) = (short(sample.quantile(0.25)), short(sample.quantile(0.75)));
    scattered(run, trace, figure, (output, Row::speed), |_, at| {
        if low == high {
            format!("Half of the responses are generated at about {low} tokens/s{at}")
        } else {
            format!("Half of the responses are generated at {low} to {high} tokens/s{at}")
        }
    })
}

/// Points of each cell, and a line through those of the last one, which is under most load: through all of them it would be
/// true of none. The title is made of its slope and R², and of where it is.
fn scattered(
    run: &RunRecord,
    trace: &Trace,
    (id, x, y): (&str, &str, &str),
    (across, up): (Pick, Pick),
    title: impl Fn(&LinearFit, &str) -> String,
) -> Option<Figure> {
    let place = |row: &Row| Some((across(row)?, up(row)?));
    let all: Vec<(f64, f64)> = trace.rows.iter().filter_map(place).collect();
    let (shortest, longest) = ends(all.iter().map(|p| p.0))?;
    if all.len() < 20 || longest < 2.0 * shortest.max(1.0) {
        return None;
    }
    let of_cell = |cell| -> Vec<(f64, f64)> { trace.of_cell(cell).filter_map(place).collect() };
    let last = u32::try_from(run.cells.len().checked_sub(1)?).ok()?;
    let of_answers = || {
        let told = trace.of_cell(last);
        let told = told.filter_map(|row| {
            let prompt = f64::from(row.input.unwrap_or(0));
            Some([across(row)?, prompt, up(row)?])
        });
        bench_insight::line_of_answers(&told.collect::<Vec<_>>())
    };
    // as the fact of the same run tells it: what prompts cost is no time per output token
    let (fit, how) = match id {
        "scatter-e2e" => (of_answers()?, " at the mean prompt length"),
        _ => (linear_fit(&of_cell(last), LEVEL)?, ""),
    };
    let mut plot = Plot::new(value_axis(x), value_axis(y).min(0.0))
        .point_at_items()
        .linear();
    let thin = all.len().div_ceil(POINTS).max(1);
    let step = run.cells.len().div_ceil(COLOURS).max(1);
    let mut seen = Vec::new();
    for (shown, (i, cell)) in (0_u32..).zip(&run.cells).step_by(step).enumerate() {
        let points = of_cell(i);
        let few: Vec<(f64, f64)> = points.iter().copied().step_by(thin).collect();
        plot = plot
            .points(&tables::label(cell), &format!("@{shown}"), &few)
            .with("symbolSize", 5.into());
        let values: Vec<f64> = points.iter().map(|p| p.1).collect();
        seen.extend(Sample::of(&values).map(|sample| (tables::label(cell), sample)));
    }
    let mut note = match thin {
        1 => "One point for each completed request.".to_owned(),
        thin => format!("One point for every {thin} completed requests."),
    };
    if id != "scatter-speed" {
        let line = [shortest, longest].map(|x| (x, fit.at(x)));
        plot = plot.dashed("linear fit", "@muted", &line);
        note.push_str(&format!(" The line is a least-squares fit{how}."));
    }
    let at = at_cell(run.cells.len(), run.cells.last()?);
    let title = title(&fit, &at);
    let figure = Figure::new(id, title, plot).note(note);
    Some(figure.table(shapes::order_statistics(y, &seen)))
}

/// Use cases: P50, P95 and P99 of E2E with the objectives, a group of bars for each.
pub(super) fn use_cases(run: &RunRecord) -> Option<Figure> {
    let groups = Groups::of(run, "use_case")?;
    let (q, mut told) = groups.told();
    told.sort_by(|a, b| a.1.0.total_cmp(&b.1.0));
    let title = match *told.as_slice() {
        [(fastest, least), .., (slowest, most)] => {
            let others = || told.iter().rev().skip(1);
            let (name, worst) = (shortened(&slowest.name, 40), short(most.0));
            if others().all(|(_, other)| apart(*other, most)) {
                format!("The slowest use case is {name}: {q} {worst} ms")
            } else {
                let (first, least) = (shortened(&fastest.name, 40), short(least.0));
                format!(
                    "The {q} of use cases goes from {least} ms ({first}) to {worst} ms ({name})"
                )
            }
        }
        _ => "The use cases have too few requests to be compared".to_owned(),
    };
    Some(
        groups.figure("use-cases", title, |plot, (i, name, color), seen| {
            plot.bars_within(name, color, seen, (i, QUANTILES.len()))
        }),
    )
}

/// Lines over the sequence-length categories, the smallest first.
pub(super) fn categories(run: &RunRecord) -> Option<Figure> {
    let groups = Groups::of(run, "category")?;
    let (q, told) = groups.told();
    let title = match *told.as_slice() {
        [(first, of_first), .., (last, of_last)] => {
            let (longest, shortest) = (shortened(&last.name, 30), shortened(&first.name, 30));
            if apart(of_first, of_last) {
                let ratio = times(of_last.0 / of_first.0);
                format!("The {q} of {longest} requests is {ratio} that of {shortest} requests")
            } else {
                format!("The {q} values of {longest} and {shortest} requests cannot be told apart")
            }
        }
        _ => "The length categories have too few requests to be compared".to_owned(),
    };
    Some(
        groups.figure("categories", title, |plot, (_, name, color), seen| {
            plot.levels_within(name, color, seen)
        }),
    )
}

const QUANTILES: [(f64, &str, &str); 3] = [
    (0.5, "p50", "@good"),
    (0.95, "p95", "@warn"),
    (0.99, "p99", "@bad"),
];

/// The groups of one kind in the last cell that they divide: the one under most load in a sweep.
struct Groups<'a> {
    run: &'a RunRecord,
    by: &'static str,
    cell: &'a CellRecord,
    all: Vec<&'a GroupRecord>,
}

impl<'a> Groups<'a> {
    fn of(run: &'a RunRecord, by: &'static str) -> Option<Self> {
        let mut cells = run.cells.iter().rev();
        let cell = cells.find(|cell| cell.groups.iter().filter(|g| g.by == by).count() > 1)?;
        let all = tables::groups_in_order(cell, by);
        let groups = Self { run, by, cell, all };
        let measured = groups.all.iter().any(|group| groups.e2e(group).is_some());
        measured.then_some(groups)
    }

    fn e2e(&self, group: &'a GroupRecord) -> Option<&'a Distribution> {
        let metrics = self.cell.metrics_of(group);
        metrics.get(&Metric::E2e.from_origin(self.cell.headline))
    }

    /// What a headline compares: the p95 where every group has enough requests for it, else the medians of those that have enough.
    fn told(&self) -> (&'static str, Vec<(&'a GroupRecord, Bounded)>) {
        let borne = |q: f64| -> Vec<(&'a GroupRecord, Bounded)> {
            let groups = self.all.iter();
            groups
                .filter_map(|group| Some((*group, super::borne_ms(self.e2e(group), q)?)))
                .collect()
        };
        let p95 = borne(0.95);
        if p95.len() == self.all.len() {
            ("p95", p95)
        } else {
            ("median", borne(0.5))
        }
    }

    fn figure(
        &self,
        id: &str,
        title: String,
        add: impl Fn(Plot, (usize, &str, &str), &[Option<Bounded>]) -> Plot,
    ) -> Figure {
        let names = self.all.iter().map(|group| &group.name);
        let mut plot = Plot::new(category_axis(names), value_axis("E2E (ms)"));
        for (i, (q, name, color)) in QUANTILES.into_iter().enumerate() {
            let entries = self
                .all
                .iter()
                .map(|group| super::entry_ms(self.e2e(group), q));
            plot = add(plot, (i, name, color), &entries.collect::<Vec<_>>());
        }
        plot = plot.limits(limits(self.run, Metric::E2e));
        let label = tables::label(self.cell);
        let figure = Figure::new(id, title, plot);
        let note = format!("Cell {label}, {}.", figure.within());
        figure.note(note).table(tables::groups(self.run, self.by))
    }
}

#[cfg(test)]
#[path = "../../tests/unit/charts_lengths.rs"]
mod tests;
