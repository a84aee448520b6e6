//! Rows that become columns.

use polars::prelude::{Column as Series, DataFrame, PlSmallStr};

use crate::FramesError;

/// How a row's value of a column is made; absent is null.
type Of<'a, R, T> = Box<dyn Fn(&R) -> Option<T> + 'a>;

/// A column in the making: its name, what stands in it, what stands there already.
enum Column<'a, R> {
    Text(String, Of<'a, R, String>, Vec<Option<String>>),
    Whole(String, Of<'a, R, i64>, Vec<Option<i64>>),
    Number(String, Of<'a, R, f64>, Vec<Option<f64>>),
    Flag(String, Of<'a, R, bool>, Vec<Option<bool>>),
}

/// Collects rows and gives them as frames, all of the same schema: each column's name, kind and value are written in one place.
pub(crate) struct Table<'a, R> {
    columns: Vec<Column<'a, R>>,
    rows: usize,
}

impl<'a, R> Table<'a, R> {
    pub(crate) fn new() -> Self {
        Self {
            columns: Vec::new(),
            rows: 0,
        }
    }

    fn with(mut self, column: Column<'a, R>) -> Self {
        self.columns.push(column);
        self
    }

    pub(crate) fn text<T: ToString>(
        self,
        name: impl Into<String>,
        of: impl Fn(&R) -> Option<T> + 'a,
    ) -> Self {
        let of = move |row: &R| of(row).map(|text| text.to_string());
        self.with(Column::Text(name.into(), Box::new(of), Vec::new()))
    }

    /// Signed in the frame, since differences of unsigned numbers wrap there; beyond 2⁶³ it is not known.
    pub(crate) fn whole<T: TryInto<i64>>(
        self,
        name: impl Into<String>,
        of: impl Fn(&R) -> Option<T> + 'a,
    ) -> Self {
        let of = move |row: &R| of(row)?.try_into().ok();
        self.with(Column::Whole(name.into(), Box::new(of), Vec::new()))
    }

    /// Infinite and NaN are null: polars sorts NaN last and lets it poison means.
    pub(crate) fn number(
        self,
        name: impl Into<String>,
        of: impl Fn(&R) -> Option<f64> + 'a,
    ) -> Self {
        let of = move |row: &R| of(row).filter(|x| x.is_finite());
        self.with(Column::Number(name.into(), Box::new(of), Vec::new()))
    }

    pub(crate) fn flag(
        self,
        name: impl Into<String>,
        of: impl Fn(&R) -> Option<bool> + 'a,
    ) -> Self {
        self.with(Column::Flag(name.into(), Box::new(of), Vec::new()))
    }

    pub(crate) fn push(&mut self, row: &R) {
        for column in &mut self.columns {
            match column {
                Column::Text(_, of, all) => all.push(of(row)),
                Column::Whole(_, of, all) => all.push(of(row)),
                Column::Number(_, of, all) => all.push(of(row)),
                Column::Flag(_, of, all) => all.push(of(row)),
            }
        }
        self.rows += 1;
    }

    /// Hands the rows since the last time to the sink, where there are so many.
    pub(crate) fn pour(&mut self, least: usize, sink: &mut dyn Sink) -> Result<(), FramesError> {
        if self.rows < least {
            return Ok(());
        }
        let rows = std::mem::take(&mut self.rows);
        let series = self.columns.iter_mut().map(|column| {
            let named = |name: &str| PlSmallStr::from_str(name);
            match column {
                Column::Text(name, _, all) => Series::new(named(name), std::mem::take(all)),
                Column::Whole(name, _, all) => Series::new(named(name), std::mem::take(all)),
                Column::Number(name, _, all) => Series::new(named(name), std::mem::take(all)),
                Column::Flag(name, _, all) => Series::new(named(name), std::mem::take(all)),
            }
        });
        sink.batch(DataFrame::new(rows, series.collect())?)
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
