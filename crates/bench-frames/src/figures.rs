//! Figures of cells, under the names that targets and gates have for them (`e2e.p95`): one by two columns, all along one, and one over many runs.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use bench_insight::trend_figures;
use bench_metrics::{Estimate, LEVEL, Sample};
use bench_schema::{CellRecord, Metric, RunRecord, TrustVerdict};
use polars::prelude::{
    AnyValue, Column, DataFrame, DataType, IdxCa, IdxSize, PlSmallStr, SortMultipleOptions,
};

use crate::FramesError;
use crate::cells::is_statistic;
use crate::journals;
use crate::table::Table;

/// The column that a short name means: itself, the tag or the factor of that name.
fn column_of(frame: &DataFrame, name: &str) -> Result<String, FramesError> {
    let names = [
        name.to_owned(),
        format!("tag.{name}"),
        format!("factor.{name}"),
    ];
    for known in &names {
        if check(frame, known).is_ok() {
            return Ok(known.clone());
        }
    }
    check(frame, name).map(|()| name.to_owned())
}

/// A figure of cells: a column, or `METRIC.mean`, `.p50`, `.p90`, `.p95`, `.p99` from the cell's headline origin, in milliseconds where it
/// is a time.
fn figure(frame: &DataFrame, name: &str) -> Result<Column, FramesError> {
    let split = name.rsplit_once('.');
    let metric = split.and_then(|(metric, of)| Some((metric.parse::<Metric>().ok()?, of)));
    let Some((metric, statistic)) = metric.filter(|_| check(frame, name).is_err()) else {
        check(frame, name)?;
        return Ok(frame.column(name)?.clone());
    };
    let column =
        |metric: Metric| numbers(frame, &format!("{}.{statistic}", journals::name(metric)));
    let sent = column(metric)?;
    let due = column(metric.from_origin(bench_schema::Origin::Due))?;
    let origins = frame.column("headline")?;
    let mut figures = sent;
    for (line, (figure, due)) in figures.iter_mut().zip(due).enumerate() {
        if text(&origins.get(line)?) == "due" {
            *figure = due;
        }
    }
    Ok(Column::new(PlSmallStr::from_str(name), figures))
}

/// A column's numbers; null where it has none.
fn numbers(frame: &DataFrame, name: &str) -> Result<Vec<Option<f64>>, FramesError> {
    check(frame, name)?;
    numbers_of(frame.column(name)?)
}

fn numbers_of(column: &Column) -> Result<Vec<Option<f64>>, FramesError> {
    let column = column.cast(&DataType::Float64)?;
    Ok(column.f64()?.iter().collect())
}

/// A figure of the cells of many runs ([`cells`](crate::cells)): a row for each value of `rows`, a column for each of `columns`, null where there is
/// nothing; and beside it a grid of the same shape with the worst verdict on the cells of each place, of those in the column `cell_trust`: 0 trusted,
/// 1 doubtful, 2 untrusted.
///
/// A figure is what `run.json` has, to the last digit, in milliseconds where it is a time: `e2e.p95`, `requests_per_s`. Where several runs
/// measured one cell it is their mean: the run is the unit, and no percentiles of different requests are mixed. Numbers are put in order as numbers;
/// column names are the values' texts, null is `no concurrency`, and so on.
///
/// # Errors
/// [`FramesError::NoColumn`]; [`FramesError::NotANumber`] for `value`; [`FramesError::SeveralCells`] where different cells fall into one place.
pub fn pivot_cells(
    frame: &DataFrame,
    rows: &str,
    columns: &str,
    value: &str,
) -> Result<(DataFrame, DataFrame), FramesError> {
    let (rows, columns) = (&column_of(frame, rows)?, &column_of(frame, columns)?);
    let figures = figure(frame, value)?;
    let dtype = figures.dtype();
    if !dtype.is_primitive_numeric() && !dtype.is_bool() {
        return Err(FramesError::NotANumber {
            name: value.to_owned(),
            dtype: dtype.to_string(),
        });
    }
    let (row, column) = (frame.column(rows)?, frame.column(columns)?);
    let (cell, verdict) = (frame.column("cell")?, frame.column("cell_trust")?);
    let mut grid: BTreeMap<Key, BTreeMap<Key, Place>> = BTreeMap::new();
    let (mut all, mut firsts) = (BTreeSet::new(), BTreeMap::new());
    for (line, figure) in numbers_of(&figures)?.into_iter().enumerate() {
        let (row, column) = (
            Key::of(&row.get(line)?, rows),
            Key::of(&column.get(line)?, columns),
        );
        firsts.entry(row.clone()).or_insert(line);
        all.insert(column.clone());
        let place = grid.entry(row).or_default().entry(column).or_default();
        place.figures.extend(figure);
        place.cells.insert(text(&cell.get(line)?));
        let verdict = text(&verdict.get(line)?);
        place.grade = place.grade.max(grade(&verdict));
    }
    for (row, places) in &grid {
        if let Some((column, place)) = places.iter().find(|(_, place)| place.cells.len() > 1) {
            return Err(FramesError::SeveralCells {
                place: format!("{}, {}", row.named(rows), column.named(columns)),
                cells: place.cells.iter().cloned().collect::<Vec<_>>().join(", "),
            });
        }
    }
    let of = |value: fn(&Place) -> Option<f64>| -> Result<DataFrame, FramesError> {
        let mut series = vec![row.take(&lines(firsts.values()))?];
        for key in &all {
            let values = grid.values().map(|places| value(places.get(key)?));
            // A column must not have the name of the one that holds the rows' keys.
            let name = key.text.clone() + if key.text == *rows { " " } else { "" };
            series.push(Column::new(
                PlSmallStr::from_str(&name),
                values.collect::<Vec<_>>(),
            ));
        }
        Ok(DataFrame::new(grid.len(), series)?)
    };
    // by `bench-metrics`, so that a pivot's figures are those of a report to the last digit
    let figures = of(|place| Some(Sample::of(&place.figures)?.mean()))?;
    Ok((figures, of(|place| Some(place.grade as f64))?))
}

/// The place of a verdict among all, the best first.
fn grade(verdict: &str) -> usize {
    let mut all = TrustVerdict::ALL.iter();
    all.position(|known| known.as_str() == verdict).unwrap_or(0)
}

/// Figures of a level's best cells.
const FIGURES: [&str; 10] = [
    "output_tokens_per_s",
    "requests_per_s",
    "ttft.p50",
    "ttft.p95",
    "itl.p50",
    "e2e.mean",
    "e2e.p50",
    "e2e.p95",
    "gpu_use",
    "gpu_memory",
];

/// The best cells of many runs (those rows of [`cells`](crate::cells)) along the column `by`: a row for each of its values, in the order in which they come; and
/// beside it a frame with the worst verdict on those cells, as [`pivot_cells`] gives it.
///
/// Columns: `by`, `runs`, `best cell` (the first run's), and figures, each the mean over the runs that have it.
///
/// # Errors
/// [`FramesError::NoColumn`].
pub fn along(best: &DataFrame, by: &str) -> Result<(DataFrame, DataFrame), FramesError> {
    check(best, by)?;
    let verdicts = best.column("cell_trust")?;
    let (mut levels, mut grades) = (Vec::<(String, Vec<usize>)>::new(), Vec::new());
    for line in 0..best.height() {
        let level = text(&best.column(by)?.get(line)?);
        let at = levels.iter().position(|(known, _)| *known == level);
        let at = at.unwrap_or_else(|| {
            levels.push((level, Vec::new()));
            grades.push(0);
            levels.len() - 1
        });
        if let Some(((_, lines), worst)) = levels.get_mut(at).zip(grades.get_mut(at)) {
            lines.push(line);
            *worst = grade(&text(&verdicts.get(line)?)).max(*worst);
        }
    }
    let firsts = lines(levels.iter().filter_map(|(_, lines)| lines.first()));
    let runs: Vec<u64> = levels.iter().map(|(_, runs)| runs.len() as u64).collect();
    let mut found = vec![
        best.column(by)?.take(&firsts)?,
        Column::new(PlSmallStr::from_static("runs"), runs),
        best.column("cell")?.take(&firsts)?.with_name(BEST),
    ];
    for name in FIGURES {
        let all = numbers_of(&figure(best, name)?)?;
        let mean = |(_, lines): &(String, Vec<usize>)| {
            let known = lines.iter().filter_map(|line| *all.get(*line)?);
            Some(Sample::of(&known.collect::<Vec<f64>>())?.mean())
        };
        let means: Vec<Option<f64>> = levels.iter().map(mean).collect();
        found.push(Column::new(PlSmallStr::from_static(name), means));
    }
    let grades: Vec<f64> = grades.into_iter().map(|grade| grade as f64).collect();
    Ok((
        DataFrame::new(levels.len(), found)?,
        DataFrame::new(levels.len(), vec![Column::new(BEST, grades)])?,
    ))
}

/// The column with the best cell.
const BEST: PlSmallStr = PlSmallStr::from_static("best cell");

/// What falls into one place of a pivot.
#[derive(Default)]
struct Place {
    figures: Vec<f64>,
    cells: BTreeSet<String>,
    grade: usize,
}

/// Lines of a frame, to take them.
fn lines<'a>(lines: impl Iterator<Item = &'a usize>) -> IdxCa {
    let lines = lines.map(|line| IdxSize::try_from(*line).unwrap_or(IdxSize::MAX));
    IdxCa::from_vec(PlSmallStr::from_static("line"), lines.collect())
}

fn check(frame: &DataFrame, name: &str) -> Result<(), FramesError> {
    let names = frame.get_column_names();
    if names.iter().any(|known| known.as_str() == name) {
        return Ok(());
    }
    // a hundred are the figures of metrics, which have one form
    let of_metric = |name: &str| {
        name.rsplit_once('.')
            .is_some_and(|(_, of)| is_statistic(of))
    };
    let known = names.iter().map(|name| name.as_str());
    let known: Vec<&str> = known.filter(|name| !of_metric(name)).collect();
    Err(FramesError::NoColumn {
        name: name.to_owned(),
        known: known.join(", "),
    })
}

/// A distinct value of a column: numbers in order, then texts.
#[derive(Clone, PartialEq)]
struct Key {
    number: Option<f64>,
    text: String,
}

impl Key {
    fn of(value: &AnyValue<'_>, column: &str) -> Self {
        let text = match value {
            AnyValue::Null => no(column),
            known => text(known),
        };
        Self {
            number: value.extract::<f64>().or_else(|| text.parse().ok()),
            text,
        }
    }

    /// The value with the name of its column.
    fn named(&self, column: &str) -> String {
        if self.text == no(column) {
            return self.text.clone();
        }
        format!("{} {}", short(column), self.text)
    }
}

impl Eq for Key {}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> Ordering {
        let number = |key: &Self| key.number.unwrap_or(f64::INFINITY);
        let by_number = number(self).total_cmp(&number(other));
        by_number.then_with(|| counted(&self.text).cmp(&counted(&other.text)))
    }
}

/// With the numbers in it as long as the longest, so that `r5` comes before `r20`; the text itself tells apart what that makes equal.
fn counted(text: &str) -> (String, &str) {
    let parts = text.split_inclusive(|c: char| !c.is_ascii_digit());
    let digits = |part: &str| part.trim_end_matches(|c: char| !c.is_ascii_digit()).len();
    let long = parts.map(|part| "0".repeat(20_usize.saturating_sub(digits(part))) + part);
    (long.collect(), text)
}

fn text(value: &AnyValue<'_>) -> String {
    match value {
        // 5, not 5.0
        AnyValue::Float64(number) => number.to_string(),
        other => other.str_value().into_owned(),
    }
}

/// What stands for the absent value of a column.
fn no(column: &str) -> String {
    format!("no {}", short(column).replace('_', " "))
}

/// The name of a tag or factor, without what it is.
fn short(column: &str) -> &str {
    let prefixes = ["tag.", "factor."];
    let short = prefixes.iter().find_map(|begin| column.strip_prefix(begin));
    short.unwrap_or(column)
}

// The same figure of the same cell over many runs.

/// Tags that tell the versions of one thing apart; all others tell different things apart.
const VERSIONS: [&str; 4] = ["commit", "version", "revision", "build"];

/// A figure of a cell of a run.
struct Row<'a> {
    run: &'a RunRecord,
    at: &'a str,
    runs: &'a str,
    cell: &'a CellRecord,
    figure: String,
    seen: Estimate,
}

/// The figures of a run that have a history: a row for each of each cell; none of a run that is incomplete or not trusted.
///
/// Columns: `started_at`; `at`, the run's version (its tag `commit`, `version`, `revision` or `build`), else its start; `runs`, what it is a run of (benchmark,
/// model, other tags); `cell`, with its dataset; `figure`, as in gates (`e2e.p95`); `value`, `low`, `high`, in milliseconds where it is a time; `confidence`.
/// Frames of several runs have the same columns, so that [`DataFrame::vstack`] joins them.
///
/// # Errors
/// [`FramesError::Polars`].
pub fn history(run: &RunRecord) -> Result<DataFrame, FramesError> {
    let version = VERSIONS.iter().find_map(|tag| run.tags.get(*tag));
    let at = version.unwrap_or(&run.started_at);
    let mut runs = vec![run.experiment.as_str().to_owned()];
    runs.extend(run.server.model.clone());
    let others = run.tags.iter();
    let others = others.filter(|(name, _)| !VERSIONS.contains(&name.as_str()));
    runs.extend(others.map(|(name, value)| format!("{name}={value}")));
    let runs = runs.join(" · ");
    let mut table = Table::new()
        .text("started_at", |row: &Row<'_>| {
            Some(row.run.started_at.clone())
        })
        .text("at", |row| Some(row.at.to_owned()))
        .text("runs", |row| Some(row.runs.to_owned()))
        .text("cell", |row| {
            Some(format!("{} · {}", row.cell.label, row.cell.plan.dataset))
        })
        .text("figure", |row| Some(row.figure.clone()))
        .number("value", |row| Some(row.seen.value))
        .number("low", |row| row.seen.low)
        .number("high", |row| row.seen.high)
        .number("confidence", |row| row.seen.low.map(|_| row.seen.level));
    if run.trust.verdict == TrustVerdict::Trusted && run.complete {
        for cell in &run.cells {
            for (figure, seen) in trend_figures(cell) {
                table.push(&Row {
                    run,
                    at,
                    runs: &runs,
                    cell,
                    figure,
                    seen,
                });
            }
        }
    }
    table.frame()
}

/// A figure over runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Of which runs: benchmark, model, tags.
    pub runs: String,
    /// Of which of their cells, with its dataset.
    pub cell: String,
    /// As in gates: `e2e.p95`.
    pub figure: String,
    /// Each run by its version or start, in the order in which they began; milliseconds where it is a time.
    pub points: Vec<(String, Estimate)>,
}

/// The histories of many runs ([`history`], joined), figure by figure, in the order of the first run that has them.
///
/// # Errors
/// [`FramesError::Polars`], where columns are missing.
pub fn series(history: &DataFrame) -> Result<Vec<Series>, FramesError> {
    let keep_order = SortMultipleOptions::default().with_maintain_order(true);
    let sorted = history.sort(["started_at"], keep_order)?;
    let mut all = Vec::new();
    for rows in sorted.partition_by_stable(["runs", "cell", "figure"], true)? {
        let [runs, cell, figure] = ["runs", "cell", "figure"].map(|name| {
            let first = rows.column(name).and_then(|column| column.get(0));
            first.map(|value| text(&value))
        });
        let number = |name: &str| -> Result<Vec<Option<f64>>, FramesError> {
            Ok(rows.column(name)?.f64()?.iter().collect())
        };
        let (values, lows, highs) = (number("value")?, number("low")?, number("high")?);
        let bounds = lows.into_iter().zip(highs).zip(number("confidence")?);
        let mut points = Vec::new();
        for ((at, value), ((low, high), level)) in
            rows.column("at")?.str()?.iter().zip(values).zip(bounds)
        {
            let estimate = value.map(|value| Estimate {
                value,
                low,
                high,
                level: level.unwrap_or(LEVEL),
            });
            points.extend(at.map(str::to_owned).zip(estimate));
        }
        all.push(Series {
            runs: runs?,
            cell: cell?,
            figure: figure?,
            points,
        });
    }
    Ok(all)
}
