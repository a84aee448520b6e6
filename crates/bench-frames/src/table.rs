//! Rows that become columns.

use polars::prelude::{Column as Series, DataFrame, PlSmallStr};

use crate::FramesError;

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Text,
    Whole,
    Number,
    Flag,
}

/// Name and kind of a column.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    name: String,
    kind: Kind,
}

impl Column {
    pub(crate) fn new(name: impl Into<String>, kind: Kind) -> Self {
        Self {
            name: name.into(),
            kind,
        }
    }
}

/// One value of a row; absent is null.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Text(Option<String>),
    Whole(Option<i64>),
    Number(Option<f64>),
    Flag(Option<bool>),
}

impl Value {
    pub(crate) fn text(text: Option<impl AsRef<str>>) -> Self {
        Self::Text(text.map(|text| text.as_ref().to_owned()))
    }

    /// Signed in the frame, since differences of unsigned numbers wrap there; beyond 2⁶³ it is not known.
    pub(crate) fn whole(n: Option<u64>) -> Self {
        Self::Whole(n.and_then(|n| i64::try_from(n).ok()))
    }

    pub(crate) fn signed(n: Option<i64>) -> Self {
        Self::Whole(n)
    }

    /// Infinite and NaN are null: polars sorts NaN last and lets it poison means.
    pub(crate) fn number(x: Option<f64>) -> Self {
        Self::Number(x.filter(|x| x.is_finite()))
    }

    pub(crate) fn flag(flag: bool) -> Self {
        Self::Flag(Some(flag))
    }
}

/// The values of one column.
enum Values {
    Text(Vec<Option<String>>),
    Whole(Vec<Option<i64>>),
    Number(Vec<Option<f64>>),
    Flag(Vec<Option<bool>>),
}

impl Values {
    fn new(kind: Kind) -> Self {
        match kind {
            Kind::Text => Self::Text(Vec::new()),
            Kind::Whole => Self::Whole(Vec::new()),
            Kind::Number => Self::Number(Vec::new()),
            Kind::Flag => Self::Flag(Vec::new()),
        }
    }

    /// A value of another kind is null rather than lost: columns stay of one length.
    fn push(&mut self, value: Value) {
        match (self, value) {
            (Self::Text(all), Value::Text(text)) => all.push(text),
            (Self::Whole(all), Value::Whole(n)) => all.push(n),
            (Self::Number(all), Value::Number(x)) => all.push(x),
            (Self::Flag(all), Value::Flag(flag)) => all.push(flag),
            (Self::Text(all), _) => all.push(None),
            (Self::Whole(all), _) => all.push(None),
            (Self::Number(all), _) => all.push(None),
            (Self::Flag(all), _) => all.push(None),
        }
    }

    fn take(&mut self) -> Self {
        match self {
            Self::Text(all) => Self::Text(std::mem::take(all)),
            Self::Whole(all) => Self::Whole(std::mem::take(all)),
            Self::Number(all) => Self::Number(std::mem::take(all)),
            Self::Flag(all) => Self::Flag(std::mem::take(all)),
        }
    }

    fn series(self, name: &str) -> Series {
        let name = PlSmallStr::from_str(name);
        match self {
            Self::Text(all) => Series::new(name, all),
            Self::Whole(all) => Series::new(name, all),
            Self::Number(all) => Series::new(name, all),
            Self::Flag(all) => Series::new(name, all),
        }
    }
}

/// Collects rows and gives them as frames, all of the same schema.
pub(crate) struct Table {
    columns: Vec<Column>,
    values: Vec<Values>,
    rows: usize,
}

impl Table {
    pub(crate) fn new(columns: Vec<Column>) -> Self {
        Self {
            values: columns
                .iter()
                .map(|column| Values::new(column.kind))
                .collect(),
            columns,
            rows: 0,
        }
    }

    /// Adds a row; values beyond the columns are dropped, missing ones are null.
    pub(crate) fn push(&mut self, row: impl IntoIterator<Item = Value>) {
        let mut row = row.into_iter();
        for values in &mut self.values {
            values.push(row.next().unwrap_or(Value::Text(None)));
        }
        self.rows += 1;
    }

    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// The rows since the last time.
    pub(crate) fn take(&mut self) -> Result<DataFrame, FramesError> {
        let rows = std::mem::take(&mut self.rows);
        let series = self
            .columns
            .iter()
            .zip(&mut self.values)
            .map(|(column, values)| values.take().series(&column.name))
            .collect();
        Ok(DataFrame::new(rows, series)?)
    }
}

/// Where batches of rows go.
pub(crate) trait Sink {
    /// Takes the next rows; the first call, perhaps without rows, tells the schema.
    fn batch(&mut self, frame: DataFrame) -> Result<(), FramesError>;
}

/// All rows as one frame.
#[derive(Default)]
pub(crate) struct Whole {
    frame: Option<DataFrame>,
}

impl Whole {
    pub(crate) fn finish(self) -> DataFrame {
        let mut frame = self.frame.unwrap_or_default();
        frame.align_chunks_par();
        frame
    }
}

impl Sink for Whole {
    fn batch(&mut self, frame: DataFrame) -> Result<(), FramesError> {
        match &mut self.frame {
            Some(all) => {
                all.vstack_mut(&frame)?;
            }
            None => self.frame = Some(frame),
        }
        Ok(())
    }
}
