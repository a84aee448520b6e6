//! The charts of a comparison: points beside each other, what changed, and distributions from the requests themselves.

use bench_insight::{ComparisonRow, ComparisonVerdict, RunComparison};
use bench_metrics::Sample;
use bench_schema::{CellRecord, Metric, RunRecord};
use serde_json::{Value, json};

use super::{Point, Study, tables};
use crate::ReportError;
use crate::charts::load::rate;
use crate::charts::shapes::{self, ENOUGH, Named, OVER_TIME, VIOLINS};
use crate::charts::{Section, capital, phases, quantile_ms};
use crate::figure::{
    Bounded, Figure, Plot, category_axis, level_axis, log_axis, time_axis, value_axis,
};
use crate::number::{ends, rounded, short};
use crate::table::Sheet;
use crate::tables::{first_phase, label, load_level, scaling_of};
use crate::text::shortened;
use crate::trace::{self, Row, Trace};

/// Points that can be told apart by colour.
const SHOWN: usize = 8;
/// Rows of the change chart.
const ROWS: usize = 24;

/// The charts that need the records alone.
pub(super) fn section(study: &Study<'_>) -> Section {
    let mut figures: Vec<Figure> = turns(study).into_iter().chain(scaling(study)).collect();
    let measured = MEASURES
        .iter()
        .filter_map(|measure| measured(study, measure));
    figures.extend(measured);
    let others = [tradeoff(study), phase_times(study), utilisation(study)];
    figures.extend(others.into_iter().flatten());
    let held = study.held().take(SHOWN).enumerate();
    figures.extend(held.filter_map(|(i, (point, held))| changes(point, held, i)));
    Section {
        id: "charts",
        title: "Charts",
        figures,
    }
}

/// The median E2E of each turn over time, where the sides were measured in turns: what drifted, and how the sides stood meanwhile.
fn turns(study: &Study<'_>) -> Option<Figure> {
    let in_turns = |(_, held): (&Point<'_>, &RunComparison)| held.blocks.is_some();
    let cell = study.common().filter(|_| study.held().all(in_turns))?;
    let of = |run: &RunRecord| {
        let median = quantile_ms(run.cell(&cell.id)?, Metric::E2e, 0.5)?.0;
        Some((run.clock.unix_epoch_ns?, median))
    };
    let runs = |point: &Point<'_>| -> Vec<(i64, f64)> {
        let mut runs: Vec<(i64, f64)> = point.runs.iter().filter_map(|run| of(run)).collect();
        runs.sort_unstable_by_key(|run| run.0);
        runs
    };
    let sides: Vec<(&str, Vec<(i64, f64)>)> = (study.points.iter().take(SHOWN))
        .map(|point| (point.name.as_str(), runs(point)))
        .collect();
    let all = || sides.iter().flat_map(|(_, runs)| runs);
    let (began, ended) = (all().map(|r| r.0).min()?, all().map(|r| r.0).max()?);
    let since = |at: i64| bench_schema::Nanos::new(at - began).as_secs_f64();
    let mut plot = Plot::new(
        time_axis(since(ended)),
        value_axis("E2E p50 of a turn (ms)"),
    )
    .linear();
    let mut table = Vec::new();
    for (i, (name, runs)) in sides.iter().enumerate() {
        let line: Vec<(f64, f64)> = runs.iter().map(|(at, ms)| (since(*at), *ms)).collect();
        plot = plot.line(name, &format!("@{i}"), &line);
        table.extend(line.into_iter().map(|(at, ms)| (*name, at, ms)));
    }
    let least = all().map(|r| r.1).fold(f64::INFINITY, f64::min);
    let most = all().map(|r| r.1).fold(0.0, f64::max);
    let title = format!(
        "The median E2E of a turn is between {} and {} ms over the experiment",
        short(least),
        short(most)
    );
    let note = format!(
        "Each point is a turn of {}. What both lines share is drift, which the comparison cancels.",
        label(cell)
    );
    let sheet = Sheet::new()
        .text("side", |(side, ..): &(&str, f64, f64)| (*side).to_owned())
        .number(("start", "s"), |(_, at, _)| at.to_owned())
        .number(("E2E p50", "ms"), |(.., ms)| ms.to_owned())
        .rows("Median E2E of every turn", table);
    Some(Figure::new("turns", title, plot).note(note).table(sheet))
}

/// A figure of a cell that is shown for every point: id, title, unit, how.
type Measure = (
    &'static str,
    &'static str,
    &'static str,
    fn(&CellRecord) -> Option<Bounded>,
);

const MEASURES: [Measure; 5] = [
    ("beside-output", "Output", "tok/s", |cell| rate(cell, true)),
    ("beside-requests", "Request rate", "req/s", |cell| {
        rate(cell, false)
    }),
    ("beside-ttft-p95", "TTFT p95", "ms", |cell| {
        quantile_ms(cell, Metric::Ttft, 0.95)
    }),
    ("beside-itl-p50", "ITL p50", "ms", |cell| {
        quantile_ms(cell, Metric::Itl, 0.5)
    }),
    ("beside-e2e-p95", "E2E p95", "ms", |cell| {
        quantile_ms(cell, Metric::E2e, 0.95)
    }),
];

/// One figure of every common cell, the points beside each other.
fn measured(study: &Study<'_>, (id, name, unit, of): &Measure) -> Option<Figure> {
    let base = study.baseline()?.runs.first()?;
    let cells: Vec<_> = base
        .cells
        .iter()
        .filter(|cell| of(cell).is_some())
        .take(12)
        .collect();
    let points: Vec<&Point<'_>> = study.points.iter().take(SHOWN).collect();
    let names = cells.iter().map(|cell| label(cell));
    let axis = value_axis(&format!("{name} ({unit})"));
    let mut plot = Plot::new(category_axis(names), axis);
    let mut table = Sheet::new().text("cell", |cell: &&CellRecord| label(cell));
    for (i, point) in points.iter().enumerate() {
        let run = *point.runs.first()?;
        let own = move |cell: &CellRecord| of(run.cell(&cell.id)?);
        let seen: Vec<_> = cells.iter().map(|cell| own(cell)).collect();
        plot = plot.bars_within(&point.name, &format!("@{i}"), &seen, (i, points.len()));
        table = table.number((&point.name, *unit), move |cell| Some(own(cell)?.0));
    }
    let mut all: Vec<(f64, &str)> = self::cells(study)
        .into_iter()
        .filter_map(|(point, cell)| Some((of(cell)?.0, point)))
        .collect();
    let known = all.len();
    let [(from, of_from), (to, of_to)] = sides(&mut all)?;
    let at = study.place();
    let title = match (short(*from), short(*to)) {
        (words, _) if from.max(*to) < 1.01 * from.min(*to) => {
            let of = match (known, study.points.len()) {
                (known, points) if known == points => "every run".to_owned(),
                (1, _) => (*of_from).to_owned(),
                (known, points) => format!("{known} of {points} runs"),
            };
            format!("{name} is {words} {unit} in {of} at {at}")
        }
        (from, to) => {
            format!("{name} goes from {from} {unit} ({of_from}) to {to} {unit} ({of_to}) at {at}")
        }
    };
    let figure = Figure::new(*id, title, plot);
    let note = format!("First run of each side, {}.", figure.within());
    Some(figure.note(note).table(table.rows(*name, cells)))
}

/// Between which values the sides lie: of two, from the baseline to the other one; of more, from the lowest to the highest.
fn sides<T>(all: &mut [(f64, T)]) -> Option<[&(f64, T); 2]> {
    if all.len() > 2 {
        all.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    Some([all.first()?, all.last()?])
}

/// Relative changes with their intervals, the baseline as the zero line.
fn changes(point: &Point<'_>, held: &RunComparison, index: usize) -> Option<Figure> {
    let rows = held.rows.iter();
    let seen: Vec<(&ComparisonRow, f64)> =
        rows.filter_map(|row| Some((row, row.relative?))).collect();
    // Of many, those of the last whole cells: the highest load.
    let cut = seen.len().saturating_sub(ROWS);
    let before = cut.checked_sub(1).and_then(|i| Some(&seen.get(i)?.0.cell));
    let shown = seen
        .iter()
        .skip(cut)
        .skip_while(|(row, _)| Some(&row.cell) == before);
    let shown: Vec<_> = shown.collect();
    let first = &shown.first()?.0.cell;
    let one_cell = shown.iter().all(|(row, _)| row.cell == *first);
    let names = shown.iter().map(|(row, _)| {
        if one_cell {
            row.title.clone()
        } else {
            format!("{} {}", row.title, row.cell)
        }
    });
    // What is several times the baseline would press all else together on a linear axis.
    let is_wide = shown.iter().any(|(_, relative)| *relative > 3.0);
    let (points, spans) = dots(&shown, is_wide);
    let zero = json!({"silent": true, "symbol": "none", "label": {"show": false}, "lineStyle": {"color": "@soft", "type": "solid"}, "data": [{"xAxis": i32::from(is_wide)}]});
    let spans = json!({"data": spans, "encode": {"x": [1, 2], "y": 0}, "tooltip": {"show": false}});
    let across = if is_wide {
        log_axis("ratio to the baseline", ratios(&shown))
    } else {
        value_axis("change against the baseline (%)")
    };
    let plot = Plot::new(across, category_axis(names).inverse(true))
        .custom("", "@muted", "span", spans)
        .points("", "@0", &[])
        .with("data", points.into())
        .with("symbolSize", 10.into())
        .with("markLine", zero)
        .point_at_items()
        .height(120 + u32::try_from(shown.len()).unwrap_or(0) * 22);
    let title = format!(
        "{} against {}: {}",
        capital(&point.name),
        held.base,
        held.summary()
    );
    let place = if one_cell {
        format!(" of {}", shortened(first, 40))
    } else {
        String::new()
    };
    let figure = Figure::new(format!("changes-{index}"), title, plot);
    let left_out = match seen.len() - shown.len() {
        0 => String::new(),
        more => format!(" {more} more rows are in the table."),
    };
    let note = format!(
        "Changes{place}, {}.{left_out} Green: better. Red: worse. Grey: undecided, not judged or no relevant difference.",
        figure.within()
    );
    Some(figure.note(note).table(tables::changes(held)))
}

/// A change as a ratio to the baseline.
fn ratio(share: f64) -> f64 {
    (1.0 + share).max(0.01)
}

/// The least and the most of what a chart of ratios shows.
fn ratios(shown: &[&(&ComparisonRow, f64)]) -> (f64, f64) {
    let of = |(row, relative): &&(&ComparisonRow, f64)| {
        let interval = row.relative_interval;
        let (low, high) = interval.map_or((*relative, *relative), |i| (i.low, i.high));
        [ratio(relative.min(low)), ratio(relative.max(high))]
    };
    ends(shown.iter().flat_map(of)).unwrap_or((1.0, 1.0))
}

/// Points and intervals of a chart of changes, each at its row.
fn dots(shown: &[&(&ComparisonRow, f64)], is_wide: bool) -> (Vec<Value>, Vec<Value>) {
    let place = |share: f64| rounded(if is_wide { ratio(share) } else { share * 100.0 });
    let (mut points, mut spans) = (Vec::new(), Vec::new());
    for (at, (row, relative)) in shown.iter().enumerate() {
        let color = match row.verdict {
            ComparisonVerdict::Better => "@good",
            ComparisonVerdict::Worse => "@bad",
            _ => "@muted",
        };
        points.push(json!({"value": [place(*relative), at], "itemStyle": {"color": color}}));
        spans.extend(row.relative_interval.map(|interval| {
            let (low, high) = (place(interval.low), place(interval.high));
            json!({"value": [at, low, high], "parts": [[low, high, "@muted"]], "thin": true})
        }));
    }
    (points, spans)
}

/// The best rate along a numeric axis.
fn scaling(study: &Study<'_>) -> Option<Figure> {
    let axis = study.axis.as_deref()?;
    let rows = bench_insight::scaling_by_tag(axis, &study.runs());
    let (first, last) = (rows.first()?, rows.last()?);
    let rates: Vec<Option<f64>> = rows.iter().map(|row| Some(row.value)).collect();
    let linear = |level: f64| Some(first.value * level / first.level);
    let ideal: Vec<Option<f64>> = rows.iter().map(|row| linear(row.level)).collect();
    let axis = shortened(axis, 40);
    let levels = level_axis(&axis, rows.iter().map(|row| row.level));
    let plot = Plot::new(levels, value_axis("best rate (per second)"))
        .bars("best rate", "@0", &rates)
        .levels("proportional", "@muted", &ideal)
        .with("lineStyle", json!({"type": "dashed", "width": 1.5}));
    let (level, share) = (last.level, short(last.efficiency? * 100.0));
    let title = format!("Scaling efficiency at {axis} {level} is {share} %");
    let note =
        "Best cell of each run, the mean of the runs at a level; output tokens/s where known.";
    let figure = Figure::new("axis-scaling", title, plot).note(note);
    Some(figure.table(scaling_of(&rows)))
}

/// The first run of each point with the cell that stands for it.
fn cells<'a>(study: &'a Study<'_>) -> Vec<(&'a str, &'a CellRecord)> {
    let points = study.points.iter();
    let cells =
        points.filter_map(|point| Some((point.name.as_str(), study.cell_of(point.runs.first()?)?)));
    cells.collect()
}

/// Output against the p95 of E2E, a line for each point through its cells.
fn tradeoff(study: &Study<'_>) -> Option<Figure> {
    let (x, y) = (value_axis("output (tokens/s)"), value_axis("E2E p95 (ms)"));
    let mut plot = Plot::new(x, y).point_at_items();
    let mut all = Vec::new();
    for (i, point) in study.points.iter().take(SHOWN).enumerate() {
        let run = *point.runs.first()?;
        let place = |cell: &CellRecord| {
            Some((rate(cell, true)?.0, quantile_ms(cell, Metric::E2e, 0.95)?.0))
        };
        let cells = run
            .cells
            .iter()
            .filter_map(|cell| Some((place(cell)?, cell)));
        let seen: Vec<_> = cells.collect();
        let labels = seen.iter().map(|(at, cell)| {
            let level = load_level(&cell.load).filter(|_| run.cells.len() > 1);
            (
                *at,
                level.map_or_else(String::new, |level| level.to_string()),
            )
        });
        plot = plot
            .line(&point.name, &format!("@{i}"), &[])
            .label_points(labels);
        all.extend(
            seen.into_iter()
                .map(|(at, cell)| (point.name.as_str(), at, cell)),
        );
    }
    let (name, (rate, p95), _) = all.iter().max_by(|a, b| a.1.0.total_cmp(&b.1.0))?;
    let near = |of: &str| {
        all.iter()
            .any(|(point, at, _)| *point == of && at.0 > 0.99 * rate)
    };
    let all_near = study.points.len() > 1 && study.points.iter().all(|point| near(&point.name));
    let (rate, p95) = (short(*rate), short(*p95));
    let title = if all_near {
        format!("The highest output of each run is {rate} tokens/s, within 1 %")
    } else {
        format!("The highest output is {rate} tokens/s, from {name}, at a p95 of {p95} ms")
    };
    let note = "Each point is a cell, labelled with its load. Right is more output, down is lower latency.";
    let table = Sheet::new()
        .text("run", |(name, ..): &(&str, (f64, f64), &CellRecord)| {
            (*name).to_owned()
        })
        .text("cell", |(.., cell)| label(cell))
        .number(("output", "tok/s"), |(_, at, _)| at.0)
        .number(("E2E p95", "ms"), |(_, at, _)| at.1)
        .rows("Output and latency of every cell", all.iter().copied());
    let figure = Figure::new("beside-tradeoff", title, plot).note(note);
    Some(figure.table(table))
}

/// Mean time of each phase at the cell of each point.
fn phase_times(study: &Study<'_>) -> Option<Figure> {
    let cells = cells(study);
    let early = first_phase(cells.iter().map(|(_, cell)| *cell));
    let seen = cells.into_iter();
    let seen = seen.filter_map(|(name, cell)| Some((name.to_owned(), phases::means_ms(cell)?)));
    let (names, means): (Vec<String>, Vec<[f64; 3]>) = seen.unzip();
    let (of_first, of_last) = (means.first()?, means.last().filter(|_| means.len() > 1)?);
    let title = format!(
        "{} takes {} ms in {} and {} ms in {}; decode {} and {} ms",
        capital(early),
        short(of_first[1]),
        names.first()?,
        short(of_last[1]),
        names.last()?,
        short(of_first[2]),
        short(of_last[2])
    );
    let series = (early, means.as_slice(), Plot::stacked as phases::Add);
    let figure = phases::times_of(("beside-phases", title), category_axis(&names), series);
    let note = format!("Each run at {}; the phases are stacked.", study.place());
    let table = phases::times_table(("run", early), &names, &means);
    Some(figure.note(note).table(table))
}

/// Mean utilisation at the cell of each point: GPUs where there are any, else the host's CPUs.
fn utilisation(study: &Study<'_>) -> Option<Figure> {
    let seen = cells(study);
    let of = |name: &str| -> Vec<Option<f64>> {
        let share = |cell: &CellRecord| Some(cell.hardware.as_ref()?.derived.get(name)?.value);
        let shares = seen.iter().map(|(_, cell)| share(cell));
        shares.map(|share| Some(share? * 100.0)).collect()
    };
    let (mut what, mut values) = ("GPUs", of("gpu_utilisation_mean"));
    if values.iter().all(Option::is_none) {
        (what, values) = ("the host's CPUs", of("host_cpu_share"));
    }
    if values.iter().flatten().count() < 2 {
        return None;
    }
    let (low, high) = ends(values.iter().flatten().copied())?;
    let (low, high) = (short(low), short(high));
    let axis = value_axis("utilisation (%)").min(0.0).max(100.0);
    let names = seen.iter().map(|(name, _)| *name);
    let plot = Plot::new(category_axis(names.clone()), axis).bars(what, "@0", &values);
    let table = Sheet::new()
        .text("run", |(name, _): &(&str, &Option<f64>)| (*name).to_owned())
        .number((what, "%"), |(_, value)| **value)
        .rows("Mean utilisation", names.zip(&values));
    let span = if low == high {
        low
    } else {
        format!("{low} to {high}")
    };
    let title = format!("Mean utilisation of {what} is {span} %");
    let note = format!("Each run at {}.", study.place());
    let figure = Figure::new("beside-utilisation", title, plot).note(note);
    Some(figure.table(table))
}

struct Traces<'a>(Vec<(&'a RunRecord, Option<Trace>)>);

impl<'a> Traces<'a> {
    /// Where the files of a run are missing, so are its charts.
    fn read(study: &Study<'a>) -> Result<Self, ReportError> {
        let runs = study.points.iter();
        let runs = runs.flat_map(|point| point.runs.iter().zip(&point.files));
        let traces = runs.map(|(run, files)| Ok((*run, trace::trace(run, files)?)));
        traces.collect::<Result<_, ReportError>>().map(Self)
    }

    /// What the runs of a point have at the cell shown.
    fn each<T>(
        &self,
        study: &Study<'a>,
        point: &Point<'a>,
        of: impl Fn(&Trace, u32) -> T,
    ) -> Vec<T> {
        let trace = |run: &RunRecord| {
            let known = self.0.iter().find(|(known, _)| std::ptr::eq(*known, run));
            known?.1.as_ref()
        };
        let cell = |run: &'a RunRecord| {
            let id = &study.cell_of(run)?.id;
            let index = run.cells.iter().position(|cell| cell.id == *id)?;
            u32::try_from(index).ok()
        };
        let runs = point.runs.iter();
        let all = runs.filter_map(|run| Some(of(trace(run)?, cell(run)?)));
        all.collect()
    }
}

/// Distributions of E2E, of output and tails over time, and speed against p95, a colour for each point.
///
/// # Errors
/// [`ReportError::Read`] where a file of a run is there and cannot be read.
pub(super) fn distributions(study: &Study<'_>) -> Result<Section, ReportError> {
    let traces = Traces::read(study)?;
    let at = study.place();
    let each = |of: &dyn Fn(&Trace, u32) -> Vec<f64>| -> Vec<Named> {
        let pooled = |point| {
            let all = traces.each(study, point, of).concat();
            let sample = Sample::of(&all).filter(|sample| sample.len() >= ENOUGH)?;
            Some((point.name.clone(), sample))
        };
        study
            .points
            .iter()
            .take(VIOLINS)
            .filter_map(pooled)
            .collect()
    };
    let mut figures = Vec::new();
    let e2e = each(&|trace, cell| trace.of_cell(cell).filter_map(Row::e2e_ms).collect());
    let note = format!("Completed requests at {at}; the bar is the median.");
    figures.extend(violin(&e2e, ("shape-e2e", "E2E", "E2E (ms)"), &note));
    for (words, id, unit, of) in OVER_TIME {
        let what = capital(words);
        let note = format!(
            "{what} at {at}, over equal time intervals, the same number for each run; the bar is the median."
        );
        figures.extend(violin(&each(&of), (id, words, unit), &note));
    }
    let speeds = study.points.iter().map(|point| {
        let points = traces.each(study, point, shapes::median_p95_points);
        (point.name.clone(), points.concat())
    });
    let speeds: Vec<_> = speeds.filter(|(_, points)| !points.is_empty()).collect();
    let note = format!("Each point is a time interval at {at}; groups of points are regimes.");
    figures.extend(shapes::median_p95_of(&speeds).map(|figure| figure.note(note)));
    Ok(Section {
        id: "shapes",
        title: "Distributions",
        figures,
    })
}

fn violin(seen: &[Named], (id, words, unit): (&str, &str, &str), note: &str) -> Option<Figure> {
    if seen.len() < 2 {
        return None;
    }
    let (_, measure) = unit.rsplit_once('(').unwrap_or_default();
    let measure = measure.trim_end_matches(')');
    let median = |(name, sample): &Named| (sample.median(), name.clone());
    let mut medians: Vec<(f64, String)> = seen.iter().map(median).collect();
    let [(from, of_from), (to, of_to)] = sides(&mut medians)?;
    let (what, from, to) = (capital(words), short(*from), short(*to));
    let title =
        format!("{what}: the median goes from {from} ({of_from}) to {to} {measure} ({of_to})");
    let axis = category_axis(seen.iter().map(|(name, _)| name));
    Some(shapes::violins(axis, (id, title), unit, seen)?.note(note))
}
