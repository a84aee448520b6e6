//! Tables, built once and written for a terminal, for Markdown, for HTML and as CSV.

mod forms;

pub(crate) use forms::{fit, hanging, legend, text_width};

use std::collections::BTreeSet;

use bench_schema::{Distribution, Quantile, TrustVerdict};

use crate::number;

/// A table with its caption, for a terminal ([`Table::alone`]) or Markdown ([`Table::to_markdown`]).
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
            align: Align::Left,
            ..Self::number(title, "")
        }
    }

    /// Of numbers in a unit, which may be empty.
    pub fn number(title: impl Into<String>, unit: &'static str) -> Self {
        Self::of("", title, unit)
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
        match self.unit {
            "" => self.name(),
            unit => format!("{} ({unit})", self.name()),
        }
    }

    /// For a terminal: a level of a pivot is a column, and may be a text of a stranger.
    fn harmless(&self) -> Self {
        Self {
            group: crate::text::plain(&self.group),
            title: crate::text::plain(&self.title),
            ..*self
        }
    }

    fn name(&self) -> String {
        format!("{} {}", self.group, self.title)
            .trim_start()
            .to_owned()
    }
}

impl From<Value> for Cell {
    fn from(value: Value) -> Self {
        Self {
            value,
            ..Self::default()
        }
    }
}

impl Cell {
    /// Words.
    pub fn text(text: impl Into<String>) -> Self {
        Value::Text(text.into()).into()
    }

    /// Words, or a dash where there are none.
    pub(crate) fn words(words: Option<String>) -> Self {
        words.map_or_else(Self::default, Self::text)
    }

    /// A whole number.
    pub fn count(n: u64) -> Self {
        Value::Count(n).into()
    }

    /// A number, or a dash where there is none.
    pub fn number(value: impl Into<Option<f64>>) -> Self {
        let value = value.into().filter(|v| !v.is_nan());
        value.map_or(Value::Missing, Value::Number).into()
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

    /// The same with its rows.
    pub fn of_rows<const N: usize>(
        title: &str,
        headings: [&str; N],
        rows: impl IntoIterator<Item = [String; N]>,
    ) -> Self {
        let mut table = Self::of_words(title, &headings);
        rows.into_iter().for_each(|row| table.push_words(row));
        table
    }

    /// A row of as many cells as there are columns.
    pub fn push(&mut self, row: Vec<Cell>) {
        self.rows.push(row);
    }

    /// A row of words.
    pub fn push_words(&mut self, row: impl IntoIterator<Item = String>) {
        self.push(row.into_iter().map(Cell::text).collect());
    }

    /// Marks the cell of a row and a column by the verdict on what stands in it.
    pub fn distrust(&mut self, (row, column): (usize, usize), verdict: TrustVerdict) {
        let cell = self.rows.get_mut(row).and_then(|row| row.get_mut(column));
        if let Some(cell) = cell.filter(|cell| !matches!(cell.value, Value::Missing)) {
            cell.marks.extend(Mark::of(verdict));
        }
    }

    /// Whether it has no row.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// A list of objects, a value for each heading; what is not known is null.
    pub fn to_json(&self) -> serde_json::Value {
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
        self.rows.iter().map(row).collect()
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
            (_, false) => self.alone() + "\n",
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

    /// Of groups of many cells only those of the cell with most groups, the last of several, which is under most load.
    pub(crate) fn of_most_load(&mut self) -> usize {
        let [cell, group, ..] = self.columns.as_slice() else {
            return 0;
        };
        let counted = self.columns.iter().any(|column| column.title == "n");
        if cell.title != "cell" || group.align != Align::Left || !counted {
            return 0;
        }
        let text = |row: &Vec<Cell>| match row.first().map(|cell| &cell.value) {
            Some(Value::Text(text)) => text.clone(),
            _ => String::new(),
        };
        let of_row: Vec<String> = self.rows.iter().map(text).collect();
        let groups = |cell: &String| of_row.iter().filter(|c| *c == cell).count();
        let most = of_row.iter().max_by_key(|cell| groups(cell));
        // A cell with fewer groups is no other level of the same.
        let is_kept = |cell: &String| Some(cell) == most || most.map(groups) > Some(groups(cell));
        self.rows.retain(|row| is_kept(&text(row)));
        of_row.len() - self.rows.len()
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
                .zip(self.columns.iter().zip(&decimals))
                .map(|(cell, (column, &decimals))| show_cell(cell, column.unit, decimals))
                .collect()
        };
        self.rows.iter().map(show).collect()
    }
}

/// How a column's cell is made of a row.
type Fill<'a, R> = Box<dyn Fn(&R) -> Cell + 'a>;

/// A table in the making whose columns know what stands in them: heading and value are written in one place.
pub(crate) struct Sheet<'a, R> {
    columns: Vec<Column>,
    fill: Vec<Fill<'a, R>>,
}

impl<'a, R> Sheet<'a, R> {
    pub(crate) fn new() -> Self {
        Self {
            columns: Vec::new(),
            fill: Vec::new(),
        }
    }

    pub(crate) fn column(mut self, column: Column, of: impl Fn(&R) -> Cell + 'a) -> Self {
        self.columns.push(column);
        self.fill.push(Box::new(of));
        self
    }

    /// Words; `None` is not known.
    pub(crate) fn text<V: Into<Option<String>>>(
        self,
        title: &str,
        of: impl Fn(&R) -> V + 'a,
    ) -> Self {
        let cell = move |row: &R| Cell::words(of(row).into());
        self.column(Column::text(title), cell)
    }

    pub(crate) fn number<V: Into<Option<f64>>>(
        self,
        (title, unit): (&str, &'static str),
        of: impl Fn(&R) -> V + 'a,
    ) -> Self {
        self.column(Column::number(title, unit), move |row| {
            Cell::number(of(row))
        })
    }

    /// Shares, shown in percent.
    pub(crate) fn percent(self, title: &str, of: impl Fn(&R) -> Option<f64> + 'a) -> Self {
        self.number((title, "%"), move |row| of(row).map(|share| share * 100.0))
    }

    /// Quantiles of a group in milliseconds, with the marks that they have.
    pub(crate) fn quantiles<'d: 'a>(
        mut self,
        group: &str,
        all: &[(&str, f64)],
        of: impl Fn(&R) -> Option<&'d Distribution> + Copy + 'a,
    ) -> Self {
        for &(name, q) in all {
            self = self.column(Column::of(group, name, "ms"), move |row| {
                Cell::quantile(of(row).and_then(|seen| seen.quantile_entry(q)), 1e6)
            });
        }
        self
    }

    /// Whole numbers; `None` is not known.
    pub(crate) fn count<V: Into<Option<u64>>>(
        self,
        title: &str,
        of: impl Fn(&R) -> V + 'a,
    ) -> Self {
        let cell = move |row: &R| of(row).into().map_or_else(Cell::default, Cell::count);
        self.column(Column::number(title, ""), cell)
    }

    /// The table of these rows, without the columns in which nothing is known; `None` without rows.
    pub(crate) fn rows(
        self,
        title: impl Into<String>,
        rows: impl IntoIterator<Item = R>,
    ) -> Option<Table> {
        let table = self.all_columns(title, rows);
        table.without_empty_columns().not_empty()
    }

    /// The same with every column, whatever is known.
    pub(crate) fn all_columns(
        self,
        title: impl Into<String>,
        rows: impl IntoIterator<Item = R>,
    ) -> Table {
        let row = |row: R| self.fill.iter().map(|of| of(&row)).collect();
        let rows = rows.into_iter().map(row).collect();
        Table {
            title: title.into(),
            columns: self.columns,
            rows,
        }
    }
}

/// Whether a number is nothing with so many decimals.
fn is_zero(n: f64, decimals: usize) -> bool {
    let digits = i32::try_from(decimals).unwrap_or(i32::MAX);
    n.abs() < 0.5 * 10_f64.powi(-digits)
}

fn show_cell(cell: &Cell, unit: &str, decimals: usize) -> Shown {
    let text = match &cell.value {
        Value::Text(text) => text.clone(),
        // what is more than nothing is not shown as nothing
        Value::Number(n) if unit == "%" && *n > 0.0 && is_zero(*n, decimals) => {
            number::percent(n / 100.0)
        }
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

/// What a sign behind a number means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Mark {
    /// Fewer than 10 / (1 − q) values.
    FewSamples,
    /// The stamps behind it are bounds, and the other end differs by more than 1 %.
    Bounded,
    /// The cell has a reason to doubt.
    Doubtful,
    /// The cell has a reason not to believe.
    Untrusted,
    /// An estimate, not a measurement.
    Estimate,
    /// With failures as +∞ the quantile does not exist.
    Failures,
}

impl Mark {
    /// The sign of a verdict; none for a good one.
    pub(crate) fn of(verdict: TrustVerdict) -> Option<Self> {
        match verdict {
            TrustVerdict::Trusted => None,
            TrustVerdict::Doubtful => Some(Self::Doubtful),
            TrustVerdict::Untrusted => Some(Self::Untrusted),
        }
    }

    /// One column wide.
    pub(crate) fn sign(self) -> char {
        match self {
            Self::FewSamples => '*',
            Self::Bounded => '~',
            Self::Doubtful => '?',
            Self::Untrusted => '!',
            Self::Estimate => '≈',
            Self::Failures => '∞',
        }
    }

    /// What the legend says.
    pub(crate) fn meaning(self) -> &'static str {
        match self {
            Self::FewSamples => {
                "few samples: this percentile rests on fewer than 10 / (1 − q) values"
            }
            Self::Bounded => {
                "bounded timestamps: arrival times are known only within bounds, which can change this value by more than 1 %"
            }
            Self::Doubtful => "doubtful: see the trust reasons",
            Self::Untrusted => "untrusted: see the trust reasons",
            Self::Estimate => "an estimate, not a measurement",
            Self::Failures => {
                "completed requests only; unbounded if failed requests count as infinitely slow"
            }
        }
    }
}
