//! JSON lines, one at a time; a line that is none of it is passed over, as a killed run leaves one.

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
    let mut lines = file.lines_in(run);
    while let Some(line) = lines.next_line()? {
        if let Some(value) = line.value() {
            each(&value)?;
        }
    }
    Ok(())
}
