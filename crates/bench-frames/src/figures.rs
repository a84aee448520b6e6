//! One figure of a column by two others; figures of cells under the names of targets and gates (`e2e.p95`), by two columns and along one.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use bench_metrics::Sample;
use bench_schema::{Metric, TrustVerdict};
use polars::prelude::{AnyValue, Column, DataFrame, DataType, IdxCa, IdxSize, PlSmallStr};

use crate::FramesError;
use crate::journals;

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

/// A figure of the cells of many runs ([`cells`](crate::cells)): a row for each value of `rows`, a column for each of `columns`.
///
/// A figure is what `run.json` has, to the last digit, in milliseconds where it is a time: `e2e.p95`, `requests_per_s`. Where several runs
/// measured one cell it is their mean: the run is the unit, and no percentiles of different requests are mixed.
///
/// # Errors
/// [`FramesError::NoColumn`]; [`FramesError::SeveralCells`] where different cells fall into one place.
pub fn pivot_cells(
    frame: &DataFrame,
    rows: &str,
    columns: &str,
    value: &str,
) -> Result<DataFrame, FramesError> {
    let (rows, columns) = (column_of(frame, rows)?, column_of(frame, columns)?);
    let mut with = frame.clone();
    with.with_column(figure(frame, value)?.with_name(PlSmallStr::from_static(VALUE)))?;
    one_cell_a_place(&with, &rows, &columns)?;
    pivot(&with, &rows, &columns, VALUE, Statistic::Mean).map_err(|error| match error {
        FramesError::NotANumber { dtype, .. } => FramesError::NotANumber {
            name: value.to_owned(),
            dtype,
        },
        other => other,
    })
}

/// The worst verdict in each place of [`pivot_cells`], of those in the column `cell_trust`: 0 trusted, 1 doubtful, 2 untrusted.
///
/// # Errors
/// As for [`pivot_cells`].
pub fn trust_of_cells(
    frame: &DataFrame,
    rows: &str,
    columns: &str,
) -> Result<DataFrame, FramesError> {
    let (rows, columns) = (column_of(frame, rows)?, column_of(frame, columns)?);
    let mut grades = Vec::with_capacity(frame.height());
    let verdicts = frame.column("cell_trust")?;
    for line in 0..frame.height() {
        let verdict = text(&verdicts.get(line)?);
        let is = |known: TrustVerdict| verdict == known.as_str();
        grades.push(
            i32::from(is(TrustVerdict::Doubtful)) + 2 * i32::from(is(TrustVerdict::Untrusted)),
        );
    }
    let mut with = frame.clone();
    with.with_column(Column::new(PlSmallStr::from_static(VALUE), grades))?;
    pivot(&with, &rows, &columns, VALUE, Statistic::Max)
}

/// The name of the column in between.
const VALUE: &str = "__figure";

fn one_cell_a_place(frame: &DataFrame, rows: &str, columns: &str) -> Result<(), FramesError> {
    let mut places: BTreeMap<(String, String), BTreeSet<String>> = BTreeMap::new();
    let (row, column, cell) = (
        frame.column(rows)?,
        frame.column(columns)?,
        frame.column("cell")?,
    );
    for line in 0..frame.height() {
        let place = (text(&row.get(line)?), text(&column.get(line)?));
        places
            .entry(place)
            .or_default()
            .insert(text(&cell.get(line)?));
    }
    match places.into_iter().find(|(_, cells)| cells.len() > 1) {
        None => Ok(()),
        Some(((row, column), cells)) => Err(FramesError::SeveralCells {
            place: format!("{rows} {row}, {columns} {column}"),
            cells: cells.into_iter().collect::<Vec<_>>().join(", "),
        }),
    }
}

/// Figures of a level's best cell.
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

/// Runs along an axis: a row for each value of `by` (a tag, `model`, `run`), numbers in order.
///
/// Columns: the axis, `runs`, `cell` (the one with the highest rate: output tokens, or requests where no tokens are known),
/// its figures, each the mean over the level's runs; with numbers as levels `scaling_factor` (over the first level) and `efficiency`
/// (that over the ratio of the levels).
///
/// # Errors
/// [`FramesError::NoColumn`].
pub fn along(frame: &DataFrame, by: &str) -> Result<DataFrame, FramesError> {
    let by = column_of(frame, by)?;
    let requests = numbers(frame, "requests_per_s")?;
    let tokens = numbers(frame, "output_tokens_per_s")?.into_iter();
    let rates: Vec<Option<f64>> = tokens.zip(requests).map(|(a, b)| a.or(b)).collect();
    let levels = best_lines(frame, &by, &rates)?;
    let mean = |figures: &[Option<f64>]| -> Vec<Option<f64>> {
        let known = |line: &usize| figures.get(*line).copied().flatten();
        let level = |(_, lines): &(Key, Vec<usize>)| {
            let own: Vec<f64> = lines.iter().filter_map(known).collect();
            Statistic::Mean.of(&own)
        };
        levels.iter().map(level).collect()
    };
    let firsts = levels.iter().filter_map(|(_, lines)| lines.first());
    let firsts = lines(firsts);
    let runs = levels.iter().map(|(_, lines)| lines.len() as u64);
    let column = |name, values| Column::new(PlSmallStr::from_static(name), values);
    let mut found = vec![
        frame.column(&by)?.take(&firsts)?,
        Column::new(PlSmallStr::from_static("runs"), runs.collect::<Vec<u64>>()),
        frame.column("cell")?.take(&firsts)?,
    ];
    if are_numbers(&levels) {
        let numbers: Vec<f64> = levels
            .iter()
            .filter_map(|(level, _)| level.number)
            .collect();
        let (factors, shares) = scaling(&numbers, &mean(&rates));
        found.push(column("scaling_factor", factors));
        found.push(column("efficiency", shares));
    }
    for name in FIGURES {
        found.push(column(name, mean(&numbers_of(&figure(frame, name)?)?)));
    }
    Ok(DataFrame::new(levels.len(), found)?)
}

/// A level with the lines of its runs' best cells.
type Level = (Key, Vec<usize>);

/// The levels in the order in which they first appear, numbers in theirs; of each run, a folder's at a time, the line with the highest rate.
fn best_lines(
    frame: &DataFrame,
    by: &str,
    rates: &[Option<f64>],
) -> Result<Vec<Level>, FramesError> {
    let (of_level, run, start) = (
        frame.column(by)?,
        frame.column("run")?,
        frame.column("started_at")?,
    );
    let same = |a: usize, b: usize| -> Result<bool, FramesError> {
        Ok(run.get(a)? == run.get(b)? && start.get(a)? == start.get(b)?)
    };
    let mut levels: Vec<Level> = Vec::new();
    for (line, rate) in rates.iter().enumerate() {
        let value = of_level.get(line)?;
        if value.is_null() || rate.is_none() {
            continue;
        }
        let level = Key::of(&value);
        let Some((_, lines)) = levels.iter_mut().find(|(known, _)| *known == level) else {
            levels.push((level, vec![line]));
            continue;
        };
        let mut known = None;
        for best in lines.iter_mut() {
            if same(*best, line)? {
                known = Some(best);
            }
        }
        match known {
            Some(best) if *rate > rates.get(*best).copied().flatten() => *best = line,
            Some(_) => {}
            None => lines.push(line),
        }
    }
    if are_numbers(&levels) {
        levels.sort_by(|one, other| one.0.cmp(&other.0));
    }
    Ok(levels)
}

fn are_numbers(levels: &[Level]) -> bool {
    let is_number = |(level, _): &Level| level.text.parse::<f64>().is_ok_and(f64::is_finite);
    !levels.is_empty() && levels.iter().all(is_number)
}

/// Lines of a frame, to take them.
fn lines<'a>(lines: impl Iterator<Item = &'a usize>) -> IdxCa {
    let lines = lines.map(|line| IdxSize::try_from(*line).unwrap_or(IdxSize::MAX));
    IdxCa::from_vec(PlSmallStr::from_static("line"), lines.collect())
}

/// Each level's rate over the first's, and that over the ratio of the levels.
fn scaling(levels: &[f64], rates: &[Option<f64>]) -> (Vec<Option<f64>>, Vec<Option<f64>>) {
    let lowest = levels.first().copied().filter(|lowest| *lowest > 0.0);
    let base = rates.first().copied().flatten();
    let factors = rates
        .iter()
        .map(|rate| bench_metrics::scaling_factor((*rate)?, base?));
    let shares = rates
        .iter()
        .zip(levels)
        .map(|(rate, level)| bench_metrics::scaling_efficiency((*rate)?, base?, level / lowest?));
    (factors.collect(), shares.collect())
}

/// What a group of values comes to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Statistic {
    /// How many there are, nulls apart.
    Count,
    /// Their sum.
    Sum,
    /// Their arithmetic mean.
    Mean,
    /// The smallest.
    Min,
    /// The largest.
    Max,
    /// Type 7, linear between order statistics; 0.5 is the median.
    Quantile(f64),
}

impl Statistic {
    /// By `bench-metrics`, so that a pivot's figures are those of a report to the last digit.
    fn of(self, values: &[f64]) -> Option<f64> {
        let sample = || Sample::of(values);
        match self {
            Self::Count => Some(values.len() as f64),
            Self::Sum => Some(values.iter().sum()),
            Self::Mean => sample().map(|sample| sample.mean()),
            Self::Min => sample().map(|sample| sample.min()),
            Self::Max => sample().map(|sample| sample.max()),
            Self::Quantile(q) => sample().map(|sample| sample.quantile(q)),
        }
    }
}

/// A row for each value of `rows`, a column for each value of `columns`, in it the statistic of `value`; null where there is nothing.
///
/// Numbers are put in order as numbers. Column names are the values' texts; null is `null`.
///
/// # Errors
/// [`FramesError::NoColumn`], or [`FramesError::NotANumber`] for `value`.
pub fn pivot(
    frame: &DataFrame,
    rows: &str,
    columns: &str,
    value: &str,
    statistic: Statistic,
) -> Result<DataFrame, FramesError> {
    for name in [rows, columns, value] {
        check(frame, name)?;
    }
    let dtype = frame.column(value)?.dtype().clone();
    if !dtype.is_primitive_numeric() && !dtype.is_bool() {
        return Err(FramesError::NotANumber {
            name: value.to_owned(),
            dtype: dtype.to_string(),
        });
    }
    let (row, column) = (frame.column(rows)?, frame.column(columns)?);
    let numbers = frame.column(value)?.cast(&DataType::Float64)?;
    let mut grid: BTreeMap<Key, BTreeMap<Key, Vec<f64>>> = BTreeMap::new();
    let (mut all, mut firsts) = (BTreeSet::new(), BTreeMap::new());
    for (line, number) in numbers.f64()?.iter().enumerate() {
        let (row, column) = (Key::of(&row.get(line)?), Key::of(&column.get(line)?));
        firsts.entry(row.clone()).or_insert(line);
        all.insert(column.clone());
        let place = grid.entry(row).or_default().entry(column).or_default();
        place.extend(number);
    }
    let mut series = vec![row.take(&lines(firsts.values()))?];
    for key in all {
        let of_row = |places: &BTreeMap<Key, Vec<f64>>| statistic.of(places.get(&key)?);
        let figures: Vec<Option<f64>> = grid.values().map(of_row).collect();
        // A column must not have the name of the one that holds the rows' keys.
        let name = key.text.clone() + if key.text == rows { " " } else { "" };
        series.push(Column::new(PlSmallStr::from_str(&name), figures));
    }
    Ok(DataFrame::new(grid.len(), series)?)
}

fn check(frame: &DataFrame, name: &str) -> Result<(), FramesError> {
    let names = frame.get_column_names();
    if names.iter().any(|known| known.as_str() == name) {
        return Ok(());
    }
    Err(FramesError::NoColumn {
        name: name.to_owned(),
        known: names
            .iter()
            .map(|name| name.as_str())
            .collect::<Vec<_>>()
            .join(", "),
    })
}

/// A distinct value of a column: numbers in order, then texts.
#[derive(Clone, PartialEq)]
struct Key {
    number: Option<f64>,
    text: String,
}

impl Key {
    fn of(value: &AnyValue<'_>) -> Self {
        let text = text(value);
        Self {
            number: value.extract::<f64>().or_else(|| text.parse().ok()),
            text,
        }
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
        AnyValue::Null => "null".to_owned(),
        other => other.str_value().into_owned(),
    }
}
