//! Tables, built once and written for a terminal, for Markdown, for HTML and as CSV.

mod csv;
mod html;
pub(crate) mod markdown;
pub(crate) mod terminal;

use std::collections::BTreeSet;

use bench_schema::Quantile;

use crate::mark::Mark;
use crate::number;

/// A table with its caption, for a terminal ([`Table::to_terminal`]) or Markdown ([`Table::to_markdown`]).
#[derive(Clone, Debug)]
pub struct Table {
    pub(crate) title: String,
    pub(crate) columns: Vec<Column>,
    pub(crate) rows: Vec<Vec<Cell>>,
}

/// What stands above a column.
#[derive(Clone, Debug)]
pub struct Column {
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

/// One value with its marks; by default it is not known, and shown as a dash.
#[derive(Clone, Debug, Default)]
pub struct Cell {
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
    /// Of words.
    pub fn text(title: impl Into<String>) -> Self {
        Self {
            group: String::new(),
            title: title.into(),
            unit: "",
            align: Align::Left,
        }
    }

    /// Of numbers in a unit, which may be empty.
    pub fn number(title: impl Into<String>, unit: &'static str) -> Self {
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
    /// Words.
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            value: Value::Text(text.into()),
            marks: Vec::new(),
            tone: None,
        }
    }

    /// A whole number.
    pub fn count(n: u64) -> Self {
        Self {
            value: Value::Count(n),
            marks: Vec::new(),
            tone: None,
        }
    }

    /// A number, or a dash where there is none.
    pub fn number(value: impl Into<Option<f64>>) -> Self {
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
    /// Without rows.
    pub fn new(title: impl Into<String>, columns: Vec<Column>) -> Self {
        Self {
            title: title.into(),
            columns,
            rows: Vec::new(),
        }
    }

    /// Words under these headings.
    pub fn of_words(title: &str, headings: &[&str]) -> Self {
        Self::new(
            title,
            headings.iter().map(|name| Column::text(*name)).collect(),
        )
    }

    /// A row of as many cells as there are columns.
    pub fn push(&mut self, row: Vec<Cell>) {
        self.rows.push(row);
    }

    /// A row of words.
    pub fn push_words(&mut self, row: impl IntoIterator<Item = String>) {
        self.push(row.into_iter().map(Cell::text).collect());
    }

    /// Whether it has no row.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// A list of objects, a value for each heading; what is not known is null.
    pub fn to_json(&self) -> String {
        let row = |row: &Vec<Cell>| {
            let names = self.columns.iter().map(|column| column.title.clone());
            let values = row.iter().map(|cell| match &cell.value {
                Value::Text(text) => serde_json::json!(text),
                Value::Number(n) => serde_json::json!(n),
                Value::Count(n) => serde_json::json!(n),
                Value::Missing => serde_json::Value::Null,
            });
            serde_json::Value::Object(names.zip(values).collect())
        };
        let rows: Vec<_> = self.rows.iter().map(row).collect();
        serde_json::to_string_pretty(&rows).unwrap_or_default() + "\n"
    }

    /// The title as a heading with the table under it; nothing where it has no rows.
    pub fn section(&self, markdown: bool) -> String {
        match (self.is_empty(), markdown) {
            (true, _) => String::new(),
            (_, true) => format!(
                "\n## {}\n\n{}",
                crate::text::markdown(&self.title),
                self.to_markdown()
            ),
            (_, false) => self.to_terminal() + "\n",
        }
    }

    /// `None` where it has no rows: a section without data is left out.
    pub(crate) fn not_empty(self) -> Option<Self> {
        (!self.is_empty()).then_some(self)
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

    /// Of groups of many cells only those of the last one, which is under most load.
    pub(crate) fn of_most_load(&mut self) {
        let [cell, group, ..] = self.columns.as_slice() else {
            return;
        };
        let counted = self.columns.iter().any(|column| column.title == "n");
        if cell.title != "cell" || group.align != Align::Left || !counted {
            return;
        }
        let text = |row: &Vec<Cell>| match row.first().map(|cell| &cell.value) {
            Some(Value::Text(text)) => text.clone(),
            _ => String::new(),
        };
        let last = self.rows.last().map(text);
        self.rows.retain(|row| Some(text(row)) == last);
    }

    /// At most so many rows, evenly spread with the first and the last; says how many that leaves out.
    pub(crate) fn thin_out(&mut self, most: usize) -> usize {
        let all = self.rows.len();
        if all <= most || most < 2 {
            return 0;
        }
        let kept: BTreeSet<usize> = (0..most).map(|i| i * (all - 1) / (most - 1)).collect();
        let mut index = 0..;
        self.rows
            .retain(|_| index.next().is_some_and(|i| kept.contains(&i)));
        all - self.rows.len()
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
