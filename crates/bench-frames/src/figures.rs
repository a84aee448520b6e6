//! One figure of a column by two others; figures of cells under the names of targets and gates (`e2e.p95`), by two columns and along one.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use bench_metrics::Sample;
use bench_schema::{Metric, TrustVerdict};
use polars::prelude::{
    AnyValue, Column, DataFrame, DataType, Expr, IdxCa, IdxSize, IntoLazy as _, PlSmallStr,
    SortMultipleOptions, col, len, lit, when,
};

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

/// A figure of cells as an expression: a column, or `METRIC.mean`, `.p50`, `.p90`, `.p95`, `.p99` from the cell's headline origin, in
/// milliseconds where it is a time.
fn figure(frame: &DataFrame, name: &str) -> Result<Expr, FramesError> {
    if check(frame, name).is_ok() {
        return Ok(col(name));
    }
    let split = name.rsplit_once('.');
    let metric = split.and_then(|(metric, of)| Some((metric.parse::<Metric>().ok()?, of)));
    let Some((metric, statistic)) = metric else {
        check(frame, name)?;
        return Ok(col(name));
    };
    let column = |metric: Metric| format!("{}.{statistic}", journals::name(metric));
    let (sent, due) = (
        column(metric),
        column(metric.from_origin(bench_schema::Origin::Due)),
    );
    check(frame, &sent)?;
    check(frame, &due)?;
    let is_due = col("headline").eq(lit("due"));
    Ok(when(is_due).then(col(due)).otherwise(col(sent)))
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
    let with = frame.clone().lazy();
    let with = with.with_column(figure(frame, value)?.alias(VALUE));
    let with = with.collect()?;
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
    let is = |verdict: TrustVerdict| col("cell_trust").eq(lit(verdict.as_str()));
    let grade = when(is(TrustVerdict::Untrusted)).then(lit(2)).otherwise(
        when(is(TrustVerdict::Doubtful))
            .then(lit(1))
            .otherwise(lit(0)),
    );
    let with = frame.clone().lazy().with_column(grade.alias(VALUE));
    pivot(&with.collect()?, &rows, &columns, VALUE, Statistic::Max)
}

/// Names of columns in between.
const VALUE: &str = "__figure";
const RATE: &str = "__rate";

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
    let mut figures = Vec::new();
    for name in FIGURES {
        figures.push(figure(frame, name)?.alias(name));
    }
    let tokens = col("output_tokens_per_s");
    let rate = when(tokens.clone().is_not_null())
        .then(tokens)
        .otherwise(col("requests_per_s"));
    let highest_first = SortMultipleOptions::default()
        .with_order_descending(true)
        .with_maintain_order(true);
    let all = |of: fn(Expr) -> Expr| FIGURES.map(|name| of(col(name)));
    let mut best = vec![col("cell").first(), col(RATE).first()];
    best.extend(all(Expr::first));
    let mut levels = vec![len().alias("runs"), col("cell").first(), col(RATE).mean()];
    levels.extend(all(Expr::mean));
    figures.push(rate.alias(RATE));
    let found = frame
        .clone()
        .lazy()
        .with_columns(figures)
        .filter(col(by.as_str()).is_not_null().and(col(RATE).is_not_null()))
        .with_row_index("__order", None)
        .sort([RATE], highest_first)
        .group_by([col(by.as_str()), col("run"), col("started_at")])
        .agg([vec![col("__order").min()], best].concat())
        .sort(["__order"], SortMultipleOptions::default())
        .group_by([col(by.as_str())])
        .agg([vec![col("__order").min()], levels].concat())
        .sort(["__order"], SortMultipleOptions::default())
        .collect()?
        .drop("__order")?;
    scaled_along(&found, &by)
}

/// In the order of the levels, with their scaling where they are numbers.
fn scaled_along(found: &DataFrame, by: &str) -> Result<DataFrame, FramesError> {
    let mut levels = Vec::new();
    for line in 0..found.height() {
        levels.push(text(&found.column(by)?.get(line)?).parse::<f64>().ok());
    }
    let levels: Option<Vec<f64>> = levels.into_iter().collect();
    let levels = levels.filter(|levels| levels.iter().all(|level| level.is_finite()));
    let Some(levels) = levels.filter(|levels| !levels.is_empty()) else {
        return Ok(found.drop(RATE)?);
    };
    let mut order: Vec<usize> = (0..levels.len()).collect();
    let level = |i: usize| levels.get(i).copied().unwrap_or(f64::INFINITY);
    order.sort_by(|&a, &b| level(a).total_cmp(&level(b)));
    let places = order
        .iter()
        .map(|&i| IdxSize::try_from(i).unwrap_or(IdxSize::MAX));
    let mut found = found.take(&IdxCa::from_vec(
        PlSmallStr::from_static("order"),
        places.collect(),
    ))?;
    let rates: Vec<Option<f64>> = found.column(RATE)?.f64()?.iter().collect();
    let first = rates
        .first()
        .copied()
        .flatten()
        .zip(order.first().map(|&i| level(i)));
    let factor = |rate: Option<f64>| bench_metrics::scaling_factor(rate?, first?.0);
    let efficiency = |rate: Option<f64>, level: f64| {
        let (base, lowest) = first.filter(|(_, lowest)| *lowest > 0.0)?;
        bench_metrics::scaling_efficiency(rate?, base, level / lowest)
    };
    let factors: Vec<Option<f64>> = rates.iter().map(|rate| factor(*rate)).collect();
    let shares = rates.iter().zip(&order);
    let shares: Vec<Option<f64>> = shares
        .map(|(rate, &i)| efficiency(*rate, level(i)))
        .collect();
    found.with_column(Column::new(
        PlSmallStr::from_static("scaling_factor"),
        factors,
    ))?;
    found.with_column(Column::new(PlSmallStr::from_static("efficiency"), shares))?;
    let mut names = vec![by, "runs", "cell", "scaling_factor", "efficiency"];
    names.extend(FIGURES);
    Ok(found.select(names)?)
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
    let firsts = firsts.values().map(|&line| IdxSize::try_from(line));
    let firsts = firsts.map(|line| line.unwrap_or(IdxSize::MAX)).collect();
    let firsts = IdxCa::from_vec(PlSmallStr::from_static("first"), firsts);
    let mut series = vec![row.take(&firsts)?];
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
        by_number.then_with(|| self.text.cmp(&other.text))
    }
}

fn text(value: &AnyValue<'_>) -> String {
    match value {
        AnyValue::Null => "null".to_owned(),
        other => other.str_value().into_owned(),
    }
}
