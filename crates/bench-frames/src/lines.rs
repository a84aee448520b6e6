//! JSON lines, one at a time; a line that is none of it is passed over, as a killed run leaves one.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::Path;

use bench_schema::JournalFile;
use serde::de::DeserializeOwned;

use crate::FramesError;

/// Hands each line's value of a journal to `each`, part after part; a journal that is not there has no lines.
pub(crate) fn stream<T: DeserializeOwned>(
    run: &Path,
    file: JournalFile,
    mut each: impl FnMut(&T) -> Result<(), FramesError>,
) -> Result<(), FramesError> {
    file.parts_in(run)
        .iter()
        .try_for_each(|part| stream_part(part, &mut each))
}

fn stream_part<T: DeserializeOwned>(
    path: &Path,
    each: &mut impl FnMut(&T) -> Result<(), FramesError>,
) -> Result<(), FramesError> {
    let file = File::open(path).map_err(FramesError::read(path))?;
    let mut reader = BufReader::with_capacity(1 << 20, file);
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = reader
            .read_until(b'\n', &mut line)
            .map_err(FramesError::read(path))?;
        if read == 0 {
            return Ok(());
        }
        if let Ok(value) = serde_json::from_slice(&line) {
            each(&value)?;
        }
    }
}
