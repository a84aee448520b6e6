//! Tables, built once and written for a terminal, for Markdown, for HTML and as CSV.

mod csv;
mod html;
mod markdown;
pub(crate) mod terminal;

use std::collections::BTreeSet;

use bench_schema::Quantile;

use crate::mark::Mark;
use crate::number;

/// A table with its caption.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    pub(crate) title: String,
    pub(crate) columns: Vec<Column>,
    pub(crate) rows: Vec<Vec<Cell>>,
}

/// What stands above a column.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    /// Columns beside each other with the same group share a heading: `TTFT`.
    pub(crate) group: String,
    pub(crate) title: String,
    /// Empty for a plain number or text.
    pub(crate) unit: &'static str,
    pub(crate) align: Align,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    Right,
}

/// One value with its marks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cell {
    pub(crate) value: Value,
    pub(crate) marks: Vec<Mark>,
    /// Good or bad news, for places that have colours.
    pub(crate) tone: Option<Tone>,
}

/// How a cell is to be felt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    Good,
    Warn,
    Bad,
}

/// What a cell holds.
#[derive(Clone, Debug, Default)]
pub(crate) enum Value {
    Text(String),
    Number(f64),
    Count(u64),
    /// Not known: shown as a dash, never as zero.
    #[default]
    Missing,
}

/// A cell as it is shown: the text and the signs behind it.
pub(crate) struct Shown {
    pub(crate) text: String,
    pub(crate) signs: String,
    pub(crate) tone: Option<Tone>,
}

impl Column {
    pub(crate) fn text(title: impl Into<String>) -> Self {
        Self {
            group: String::new(),
            title: title.into(),
            unit: "",
            align: Align::Left,
        }
    }

    pub(crate) fn number(title: impl Into<String>, unit: &'static str) -> Self {
        Self {
            group: String::new(),
            title: title.into(),
            unit,
            align: Align::Right,
        }
    }

    pub(crate) fn of(
        group: impl Into<String>,
        title: impl Into<String>,
        unit: &'static str,
    ) -> Self {
        Self {
            group: group.into(),
            title: title.into(),
            unit,
            align: Align::Right,
        }
    }

    /// The whole heading in one line: `TTFT p50 (ms)`.
    pub(crate) fn heading(&self) -> String {
        let name = if self.group.is_empty() {
            self.title.clone()
        } else {
            format!("{} {}", self.group, self.title)
        };
        if self.unit.is_empty() {
            name
        } else {
            format!("{name} ({})", self.unit)
        }
    }
}

impl Cell {
    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self {
            value: Value::Text(text.into()),
            marks: Vec::new(),
            tone: None,
        }
    }

    pub(crate) fn count(n: u64) -> Self {
        Self {
            value: Value::Count(n),
            marks: Vec::new(),
            tone: None,
        }
    }

    /// A number, or a dash where there is none.
    pub(crate) fn number(value: impl Into<Option<f64>>) -> Self {
        let value = value.into().filter(|v| !v.is_nan());
        Self {
            value: value.map_or(Value::Missing, Value::Number),
            marks: Vec::new(),
            tone: None,
        }
    }

    /// A share in percent with one decimal.
    pub(crate) fn share(share: f64) -> Self {
        if share.is_finite() {
            Self::text(number::fixed(share * 100.0, 1))
        } else {
            Self::default()
        }
    }

    /// A quantile divided by `scale`, with the marks that it has.
    pub(crate) fn quantile(entry: Option<&Quantile>, scale: f64) -> Self {
        let Some(entry) = entry else {
            return Self::default();
        };
        let mut cell = Self::number(entry.value / scale);
        if entry.few_samples {
            cell.marks.push(Mark::FewSamples);
        }
        if entry.stamp_error() > 0.01 * entry.value.abs() {
            cell.marks.push(Mark::Bounded);
        }
        cell
    }

    pub(crate) fn toned(mut self, tone: Tone) -> Self {
        self.tone = Some(tone);
        self
    }

    pub(crate) fn marked(mut self, mark: Option<Mark>) -> Self {
        self.marks.extend(mark);
        self
    }

    fn as_number(&self) -> Option<f64> {
        match self.value {
            Value::Number(n) => Some(n),
            _ => None,
        }
    }
}

impl Table {
    pub(crate) fn new(title: impl Into<String>, columns: Vec<Column>) -> Self {
        Self {
            title: title.into(),
            columns,
            rows: Vec::new(),
        }
    }

    pub(crate) fn push(&mut self, row: Vec<Cell>) {
        self.rows.push(row);
    }

    /// `None` where it has no rows: a section without data is left out.
    pub(crate) fn not_empty(self) -> Option<Self> {
        (!self.rows.is_empty()).then_some(self)
    }

    /// Without the columns in which nothing is known.
    pub(crate) fn without_empty_columns(mut self) -> Self {
        let known: Vec<bool> = (0..self.columns.len())
            .map(|i| {
                self.rows.iter().any(|row| {
                    row.get(i)
                        .is_some_and(|c| !matches!(c.value, Value::Missing))
                })
            })
            .collect();
        let keep = |i: usize| known.get(i).copied().unwrap_or(false);
        let mut index = 0..;
        self.columns.retain(|_| index.next().is_some_and(keep));
        for row in &mut self.rows {
            let mut index = 0..;
            row.retain(|_| index.next().is_some_and(keep));
        }
        self
    }

    /// The marks that were used, in order.
    pub(crate) fn marks(&self) -> BTreeSet<Mark> {
        self.rows
            .iter()
            .flatten()
            .flat_map(|cell| cell.marks.iter().copied())
            .collect()
    }

    /// Every cell as text, numbers with the decimals of their column.
    pub(crate) fn shown(&self) -> Vec<Vec<Shown>> {
        let decimals: Vec<usize> = (0..self.columns.len())
            .map(|i| number::decimals(self.rows.iter().filter_map(|row| row.get(i)?.as_number())))
            .collect();
        let show = |row: &Vec<Cell>| {
            row.iter()
                .zip(&decimals)
                .map(|(cell, &decimals)| show_cell(cell, decimals))
                .collect()
        };
        self.rows.iter().map(show).collect()
    }
}

fn show_cell(cell: &Cell, decimals: usize) -> Shown {
    let text = match &cell.value {
        Value::Text(text) => text.clone(),
        Value::Number(n) => number::fixed(*n, decimals),
        Value::Count(n) => n.to_string(),
        Value::Missing => "–".to_owned(),
    };
    Shown {
        text,
        signs: cell.marks.iter().map(|mark| mark.sign()).collect(),
        tone: cell.tone,
    }
}
