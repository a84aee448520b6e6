//! Rows that become columns, and which run a row is of.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use bench_schema::{BEGIN_FILE, CellRecord, JournalFile, Load, RunRecord};
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

    /// How many rows there are since the last frame.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// The rows since the last frame.
    pub(crate) fn frame(&mut self) -> Result<DataFrame, FramesError> {
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
        Ok(DataFrame::new(rows, series.collect())?)
    }
}

/// A run, and what the column `run` says of it.
pub(crate) struct Run<'a> {
    pub(crate) name: String,
    pub(crate) record: &'a RunRecord,
}

/// What a run is called: its folder's own name.
pub fn run_name(dir: &Path) -> String {
    let whole = dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
    whole.file_name().map_or_else(
        || whole.display().to_string(),
        |name| name.to_string_lossy().into_owned(),
    )
}

/// The run directories directly within a folder, by name; the folder itself where it is one. One that lost its `run.json` is among them, so that whoever
/// reads them finds out.
pub fn run_dirs(folder: &Path) -> Vec<PathBuf> {
    let requests = JournalFile::Requests.part_name(0);
    let own = ["run.json", BEGIN_FILE, &requests];
    let is_run = |path: &PathBuf| own.iter().any(|name| path.join(name).is_file());
    if is_run(&folder.to_owned()) {
        return vec![folder.to_owned()];
    }
    let Ok(entries) = folder.read_dir() else {
        return Vec::new();
    };
    let mut runs: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(is_run)
        .collect();
    runs.sort();
    runs
}

/// Adds load and labels: `concurrency`, `rate_per_s`, and `tag.NAME` and `factor.NAME` for each name that any run has; a run
/// without one has null there.
pub(crate) fn labelled<'a, R: 'a>(
    mut table: Table<'a, R>,
    runs: &'a [Run<'_>],
    of: fn(&R) -> (&RunRecord, Option<&CellRecord>),
) -> Table<'a, R> {
    let load = move |row: &R| match &of(row).1?.load {
        Load::Closed { concurrency, .. } => Some((Some(*concurrency), None)),
        Load::Open { rate_per_s, .. } => Some((None, *rate_per_s)),
    };
    table = table
        .whole("concurrency", move |row| load(row)?.0)
        .number("rate_per_s", move |row| load(row)?.1);
    let tags: BTreeSet<&String> = runs.iter().flat_map(|run| run.record.tags.keys()).collect();
    for name in tags {
        let column = format!("tag.{name}");
        table = table.text(column, move |row| of(row).0.tags.get(name).cloned());
    }
    let cells = || runs.iter().flat_map(|run| &run.record.cells);
    let names: BTreeSet<&String> = cells().flat_map(|cell| cell.factors.keys()).collect();
    for name in names {
        let mut levels = cells().filter_map(|cell| cell.factors.get(name));
        let numbers = levels.all(|factor| factor.as_number().is_some());
        let factor = move |row: &R| of(row).1?.factors.get(name).cloned();
        let column = format!("factor.{name}");
        table = if numbers {
            table.number(column, move |row| factor(row)?.as_number())
        } else {
            table.text(column, factor)
        };
    }
    table
}
