//! The files that lie beside a `run.json`.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use bench_schema::JournalFile;
use serde::de::DeserializeOwned;

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

/// Hand each line of JSON-lines files to `each`, one at a time, and count the lines that are none of it: a run that was
/// killed leaves a torn last line, which must not cost the rest.
///
/// # Errors
/// [`ReportError::Read`] where the file cannot be opened or read.
pub(crate) fn stream<T: DeserializeOwned>(
    parts: &[PathBuf],
    mut each: impl FnMut(T),
) -> Result<u64, ReportError> {
    parts.iter().map(|part| stream_part(part, &mut each)).sum()
}

fn stream_part<T: DeserializeOwned>(
    path: &Path,
    each: &mut impl FnMut(T),
) -> Result<u64, ReportError> {
    let failed = |source| ReportError::Read {
        path: path.to_owned(),
        source,
    };
    let mut reader = BufReader::with_capacity(1 << 20, File::open(path).map_err(failed)?);
    let mut line = Vec::new();
    let mut torn = 0;
    loop {
        line.clear();
        if reader.read_until(b'\n', &mut line).map_err(failed)? == 0 {
            return Ok(torn);
        }
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        match serde_json::from_slice(&line) {
            Ok(value) => each(value),
            Err(_) => torn += 1,
        }
    }
}
