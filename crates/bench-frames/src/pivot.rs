//! One figure of a column, by two others.

use bench_metrics::Sample;
use polars::prelude::{
    AnyValue, Column, DataFrame, DataType, IdxCa, IdxSize, IntoLazy as _, PlSmallStr,
    SortMultipleOptions, col,
};

use crate::FramesError;

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
const VALUE: &str = "__value";

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
        .agg([col(value).cast(DataType::Float64).drop_nulls().alias(VALUE)])
        .sort(names, SortMultipleOptions::default())
        .collect()?;
    spread(&grouped, rows, columns, statistic)
}

pub(crate) fn check(frame: &DataFrame, name: &str) -> Result<(), FramesError> {
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
    let lists = grouped.column(VALUE)?.list()?;
    let mut values = Vec::with_capacity(lists.len());
    for place in 0..lists.len() {
        let list = lists.get_as_series(place).unwrap_or_default();
        let list: Vec<f64> = list.f64()?.iter().flatten().collect();
        values.push(statistic.of(&list));
    }
    let row_keys = Keys::of(grouped.column(rows)?)?;
    let column_keys = Keys::of(grouped.column(columns)?)?.in_order();
    let mut grid = vec![vec![None; row_keys.texts.len()]; column_keys.texts.len()];
    let places = row_keys.of_line.iter().zip(&column_keys.of_line);
    for ((&row, &column), value) in places.zip(values) {
        if let Some(place) = grid.get_mut(column).and_then(|column| column.get_mut(row)) {
            *place = value;
        }
    }
    let firsts = IdxCa::from_vec(
        PlSmallStr::from_static("first"),
        row_keys.first_line.clone(),
    );
    let mut all = vec![grouped.column(rows)?.take(&firsts)?];
    for (name, column) in column_keys.texts.iter().zip(grid) {
        all.push(Column::new(
            PlSmallStr::from_str(&unlike(name, rows)),
            column,
        ));
    }
    Ok(DataFrame::new(row_keys.texts.len(), all)?)
}

/// A column must not have the name of the one that holds the rows' keys.
fn unlike(name: &str, rows: &str) -> String {
    if name == rows {
        format!("{name} ")
    } else {
        name.to_owned()
    }
}

/// The distinct values of a column.
struct Keys {
    texts: Vec<String>,
    numbers: Vec<Option<f64>>,
    /// The first line that has each.
    first_line: Vec<IdxSize>,
    /// Which of them each line has.
    of_line: Vec<usize>,
}

impl Keys {
    fn of(column: &Column) -> Result<Self, FramesError> {
        let mut keys = Self {
            texts: Vec::new(),
            numbers: Vec::new(),
            first_line: Vec::new(),
            of_line: Vec::new(),
        };
        let mut places = std::collections::HashMap::new();
        for line in 0..column.len() {
            let value = column.get(line)?;
            let text = text(&value);
            let next = keys.texts.len();
            let place = *places.entry(text.clone()).or_insert(next);
            if place == next {
                keys.texts.push(text);
                keys.numbers.push(value.extract::<f64>());
                keys.first_line
                    .push(IdxSize::try_from(line).unwrap_or(IdxSize::MAX));
            }
            keys.of_line.push(place);
        }
        Ok(keys)
    }

    /// By number where they have one, then by text.
    fn in_order(mut self) -> Self {
        let mut order: Vec<usize> = (0..self.texts.len()).collect();
        let number = |i: usize| {
            let text = self.texts.get(i).and_then(|text| text.parse().ok());
            self.numbers
                .get(i)
                .copied()
                .flatten()
                .or(text)
                .unwrap_or(f64::INFINITY)
        };
        order.sort_by(|&a, &b| {
            number(a)
                .total_cmp(&number(b))
                .then_with(|| self.texts.get(a).cmp(&self.texts.get(b)))
        });
        let mut new_place = vec![0; order.len()];
        for (new, &old) in order.iter().enumerate() {
            if let Some(place) = new_place.get_mut(old) {
                *place = new;
            }
        }
        self.texts = order
            .iter()
            .filter_map(|&i| self.texts.get(i).cloned())
            .collect();
        self.numbers = order
            .iter()
            .filter_map(|&i| self.numbers.get(i).copied())
            .collect();
        self.first_line = order
            .iter()
            .filter_map(|&i| self.first_line.get(i).copied())
            .collect();
        self.of_line = self
            .of_line
            .iter()
            .filter_map(|&i| new_place.get(i).copied())
            .collect();
        self
    }
}

pub(crate) fn text(value: &AnyValue<'_>) -> String {
    match value {
        AnyValue::Null => "null".to_owned(),
        other => other.str_value().into_owned(),
    }
}
