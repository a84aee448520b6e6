//! The files that lie beside a `run.json`.

use std::path::{Path, PathBuf};

use bench_schema::{Entries, Entry, JournalFile, Lines, UnreadablePart};

use crate::ReportError;

/// Where single requests and readings of a run are, for the charts that need them. Without them those charts are absent.
#[derive(Clone, Debug, Default)]
pub struct RunFiles {
    requests: Vec<PathBuf>,
    hardware: Vec<PathBuf>,
}

impl RunFiles {
    /// Only the record.
    pub fn none() -> Self {
        Self::default()
    }

    /// Those that lie in a run directory.
    pub fn in_dir(dir: &Path) -> Self {
        Self {
            requests: JournalFile::Requests.parts_in(dir),
            hardware: JournalFile::Readings.parts_in(dir),
        }
    }

    /// The parts of the requests' journal; none where there is none.
    pub(crate) fn requests(&self) -> &[PathBuf] {
        &self.requests
    }

    /// The parts of the readings' journal.
    pub(crate) fn hardware(&self) -> &[PathBuf] {
        &self.hardware
    }
}

/// Hand each entry of a journal to `each`, one at a time, and count the lines that are none: a run that was
/// killed leaves a torn last line, which must not cost the rest.
///
/// # Errors
/// [`ReportError::Read`] where the file cannot be opened or read.
pub(crate) fn stream<T: Entry>(
    parts: &[PathBuf],
    mut each: impl FnMut(T),
) -> Result<u64, ReportError> {
    let mut entries = Entries::of(Lines::of(parts.iter().cloned()));
    let mut torn = 0;
    let failed = |UnreadablePart { path, source }| ReportError::Read { path, source };
    while let Some(entry) = entries.next_entry().map_err(failed)? {
        match entry {
            Ok(value) => each(value),
            Err(_) => torn += 1,
        }
    }
    Ok(torn)
}
