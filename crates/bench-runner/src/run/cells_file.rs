//! The list of the cells that have begun, kept on disk at the cost of one entry each time.

use bench_schema::{CELLS_FILE, CellProgress, CellRecord, Stamp};

use crate::RunError;
use crate::folder::RunDirectory;

/// Keeps [`CELLS_FILE`]: of a list of many cells only the end is written when one of them begins or ends.
pub(super) struct CellsFile<'a> {
    directory: &'a RunDirectory,
    cells: Vec<CellProgress>,
    /// Bytes of the file before its last entry, and what stands there from it on.
    before: u64,
    end: String,
}

impl<'a> CellsFile<'a> {
    pub(super) fn new(directory: &'a RunDirectory) -> Self {
        Self {
            directory,
            cells: Vec::new(),
            before: 0,
            end: String::new(),
        }
    }

    pub(super) fn begin(&mut self, id: &str, now: Stamp) -> Result<(), RunError> {
        self.cells.push(CellProgress {
            cell: id.to_owned(),
            began: now,
            ended: None,
            ended_early: None,
            ended_by: None,
        });
        // the bracket at its end gives way to the next entry
        if self.end.pop().is_some() {
            self.before += self.end.len() as u64;
            "]".clone_into(&mut self.end);
        }
        self.write()
    }

    pub(super) fn end(&mut self, cell: &CellRecord, now: Stamp) -> Result<(), RunError> {
        if let Some(last) = self.cells.last_mut() {
            last.ended = Some(now);
            last.ended_early.clone_from(&cell.ended_early);
            last.ended_by = cell.ended_by;
        }
        self.write()
    }

    fn write(&mut self) -> Result<(), RunError> {
        let lead = if self.before == 0 { '[' } else { ',' };
        let last = self.cells.last();
        let last = last.and_then(|last| serde_json::to_string(last).ok());
        let new = format!("{lead}{}]", last.unwrap_or_default());
        let old = std::mem::replace(&mut self.end, new);
        let ends = [old.as_str(), self.end.as_str()];
        if self.directory.write_end(CELLS_FILE, self.before, ends) {
            return Ok(());
        }
        let all = serde_json::to_string(&self.cells).unwrap_or_default();
        self.directory.write(CELLS_FILE, &all)
    }
}

#[cfg(test)]
#[path = "../../tests/unit/run_cells_file.rs"]
mod tests;
