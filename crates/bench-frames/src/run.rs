//! Which run a row is of.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use bench_schema::{CellRecord, Factor, Load, RunRecord};

use crate::FramesError;
use crate::table::{Column, Kind, Value};

/// A run and its folder.
pub(crate) struct Run<'a> {
    pub(crate) dir: PathBuf,
    /// The folder's own name.
    pub(crate) name: String,
    pub(crate) record: Cow<'a, RunRecord>,
}

impl<'a> Run<'a> {
    pub(crate) fn open(dir: &Path) -> Result<Self, FramesError> {
        let path = dir.join("run.json");
        let text = std::fs::read_to_string(&path).map_err(FramesError::read(&path))?;
        let record =
            RunRecord::from_json(&text).map_err(|source| FramesError::Schema { path, source })?;
        Ok(Self::of(dir, Cow::Owned(record)))
    }

    /// One that was read, or recovered, already.
    pub(crate) fn of(dir: &Path, record: Cow<'a, RunRecord>) -> Self {
        let whole = dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
        Self {
            name: whole.file_name().map_or_else(
                || whole.display().to_string(),
                |name| name.to_string_lossy().into_owned(),
            ),
            dir: dir.to_owned(),
            record,
        }
    }
}

/// All of them; at least one.
pub(crate) fn open_all(dirs: &[impl AsRef<Path>]) -> Result<Vec<Run<'static>>, FramesError> {
    if dirs.is_empty() {
        return Err(FramesError::NoRuns);
    }
    dirs.iter().map(|dir| Run::open(dir.as_ref())).collect()
}

/// The run directories directly within a folder, by name; the folder itself where it is one.
pub fn run_dirs(folder: &Path) -> Vec<PathBuf> {
    let is_run = |path: &PathBuf| path.join("run.json").is_file();
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

/// The columns that tags and factors need, over all runs: a run without one has null there.
#[derive(Clone, Debug)]
pub(crate) struct Labels {
    tags: Vec<String>,
    factors: Vec<(String, Kind)>,
}

impl Labels {
    pub(crate) fn of(runs: &[Run<'_>]) -> Self {
        let tags: BTreeSet<&String> = runs.iter().flat_map(|run| run.record.tags.keys()).collect();
        let cells = || runs.iter().flat_map(|run| &run.record.cells);
        let names: BTreeSet<&String> = cells().flat_map(|cell| cell.factors.keys()).collect();
        let kind = |name: &String| {
            let numbers = cells()
                .filter_map(|cell| cell.factors.get(name))
                .all(|factor| factor.as_number().is_some());
            if numbers { Kind::Number } else { Kind::Text }
        };
        Self {
            tags: tags.into_iter().cloned().collect(),
            factors: names
                .into_iter()
                .map(|name| (name.clone(), kind(name)))
                .collect(),
        }
    }

    /// Load and labels, as columns: `concurrency`, `rate_per_s`, `tag.NAME`, `factor.NAME`.
    pub(crate) fn columns(&self) -> Vec<Column> {
        let mut all = vec![
            Column::new("concurrency", Kind::Whole),
            Column::new("rate_per_s", Kind::Number),
        ];
        all.extend(
            self.tags
                .iter()
                .map(|name| Column::new(format!("tag.{name}"), Kind::Text)),
        );
        all.extend(
            self.factors
                .iter()
                .map(|(name, kind)| Column::new(format!("factor.{name}"), *kind)),
        );
        all
    }

    /// The same columns' values for a cell of a run.
    pub(crate) fn values(&self, run: &Run<'_>, cell: Option<&CellRecord>) -> Vec<Value> {
        let (concurrency, rate) = match cell.map(|cell| &cell.load) {
            Some(Load::Closed { concurrency, .. }) => (Some(u64::from(*concurrency)), None),
            Some(Load::Open { rate_per_s, .. }) => (None, Some(*rate_per_s)),
            None => (None, None),
        };
        let mut all = vec![Value::whole(concurrency), Value::number(rate)];
        all.extend(
            self.tags
                .iter()
                .map(|name| Value::text(run.record.tags.get(name))),
        );
        all.extend(self.factors.iter().map(|(name, kind)| {
            let factor = cell.and_then(|cell| cell.factors.get(name));
            match kind {
                Kind::Number => Value::number(factor.and_then(Factor::as_number)),
                _ => Value::text(factor.map(ToString::to_string).as_ref()),
            }
        }));
        all
    }
}
