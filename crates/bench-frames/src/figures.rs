//! One figure of a column by two others; figures of cells under the names of targets and gates (`e2e.p95`), by two columns and along one.

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

/// Names of the frame in between.
const VALUES_OF: &str = "__value";

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
    let names = [rows, columns].map(PlSmallStr::from_str);
    let grouped = frame
        .clone()
        .lazy()
        .group_by([col(rows), col(columns)])
        .agg([col(value)
            .cast(DataType::Float64)
            .drop_nulls()
            .alias(VALUES_OF)])
        .sort(names, SortMultipleOptions::default())
        .collect()?;
    spread(&grouped, rows, columns, statistic)
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

/// From one line for each pair to a grid.
fn spread(
    grouped: &DataFrame,
    rows: &str,
    columns: &str,
    statistic: Statistic,
) -> Result<DataFrame, FramesError> {
    let lists = grouped.column(VALUES_OF)?.list()?;
    let mut values = Vec::with_capacity(lists.len());
    for place in 0..lists.len() {
        let list = lists.get_as_series(place).unwrap_or_default();
        let list: Vec<f64> = list.f64()?.iter().flatten().collect();
        values.push(statistic.of(&list));
    }
    let (rows_of, row_of_line) = keys(grouped.column(rows)?)?;
    let (columns_of, column_of_line) = keys(grouped.column(columns)?)?;
    let mut grid = vec![vec![None; rows_of.len()]; columns_of.len()];
    let places = row_of_line.iter().zip(&column_of_line);
    for ((&row, &column), value) in places.zip(values) {
        if let Some(place) = grid.get_mut(column).and_then(|column| column.get_mut(row)) {
            *place = value;
        }
    }
    // Columns by number where they have one, then by text.
    let mut columns_of: Vec<(Key, Vec<Option<f64>>)> = columns_of.into_iter().zip(grid).collect();
    let number = |key: &Key| key.number.unwrap_or(f64::INFINITY);
    columns_of.sort_by(|(a, _), (b, _)| {
        let by_number = number(a).total_cmp(&number(b));
        by_number.then_with(|| a.text.cmp(&b.text))
    });
    let firsts = rows_of.iter().map(|key| key.first).collect();
    let firsts = IdxCa::from_vec(PlSmallStr::from_static("first"), firsts);
    let mut all = vec![grouped.column(rows)?.take(&firsts)?];
    for (key, column) in columns_of {
        let name = PlSmallStr::from_str(&unlike(&key.text, rows));
        all.push(Column::new(name, column));
    }
    Ok(DataFrame::new(rows_of.len(), all)?)
}

/// A column must not have the name of the one that holds the rows' keys.
fn unlike(name: &str, rows: &str) -> String {
    if name == rows {
        format!("{name} ")
    } else {
        name.to_owned()
    }
}

/// A distinct value of a column.
struct Key {
    text: String,
    number: Option<f64>,
    /// The first line that has it.
    first: IdxSize,
}

/// The distinct values of a column in the order of its lines, and which of them each line has.
fn keys(column: &Column) -> Result<(Vec<Key>, Vec<usize>), FramesError> {
    let (mut keys, mut of_line) = (Vec::new(), Vec::new());
    let mut places = std::collections::HashMap::new();
    for line in 0..column.len() {
        let value = column.get(line)?;
        let text = text(&value);
        let place = *places.entry(text.clone()).or_insert(keys.len());
        if place == keys.len() {
            keys.push(Key {
                number: value.extract::<f64>().or_else(|| text.parse().ok()),
                first: IdxSize::try_from(line).unwrap_or(IdxSize::MAX),
                text,
            });
        }
        of_line.push(place);
    }
    Ok((keys, of_line))
}

fn text(value: &AnyValue<'_>) -> String {
    match value {
        AnyValue::Null => "null".to_owned(),
        other => other.str_value().into_owned(),
    }
}
