//! Writing: whole files only, and never outside the folder that was meant.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write as _};
use std::path::Path;

use bench_schema::with_digest;

use crate::error::CommandError;

/// Longest name of a cell or a figure that becomes part of a file name.
const LONGEST_NAME: usize = 120;

/// Replace a file as a whole: readers see the old one or the new one, never half.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), CommandError> {
    write_with(path, |file| file.write_all(bytes))
}

/// The same for a file that is written piece by piece.
pub(crate) fn write_with(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
) -> Result<(), CommandError> {
    bench_schema::replace_file(path, write).map_err(CommandError::write(path))
}

/// Whether a benchmark, or a recovery, is at work in a run directory now.
pub(crate) fn is_held(run: &Path) -> bool {
    bench_schema::hold_folder(run).is_err()
}

/// Hold a run directory as long as the returned file lives, so that nobody writes to it meanwhile.
///
/// # Errors
/// [`CommandError::StillRunning`] where somebody does.
pub(crate) fn hold(run: &Path) -> Result<Option<File>, CommandError> {
    bench_schema::hold_folder(run).map_err(|_| CommandError::StillRunning(run.to_owned()))
}

/// A file for what does not fit into memory; its name is gone at once.
pub(crate) fn scratch(folder: &Path) -> Result<File, CommandError> {
    let path = folder.join(".scratch");
    fs::create_dir_all(folder)
        .and_then(|()| {
            let mut options = File::options();
            options.read(true).write(true).create(true).truncate(true);
            options.open(&path)
        })
        .and_then(|file| fs::remove_file(&path).map(|()| file))
        .map_err(CommandError::write(&path))
}

/// The same for a `run.json`, or another value as JSON, with a digest as its last key.
pub(crate) fn write_json(path: &Path, value: &impl serde::Serialize) -> Result<(), CommandError> {
    let text = bench_schema::to_json(value).map_err(|e| CommandError::write(path)(e.into()))?;
    write_whole(path, with_digest(text).as_bytes())
}

/// `name` if it is a plain file name: a result may come from anywhere, and its ids must not lead out of the folder.
pub(crate) fn plain_name<'a>(name: &'a str, run: &Path) -> Result<&'a str, CommandError> {
    let plain = |c: char| c.is_alphanumeric() || "-_.+=,@ ".contains(c);
    let good = !name.is_empty()
        && name.len() <= LONGEST_NAME
        && !name.starts_with('.')
        && name.chars().all(plain);
    if good {
        Ok(name)
    } else {
        Err(CommandError::UnsafeName {
            path: run.to_owned(),
            name: name.chars().take(LONGEST_NAME).collect(),
        })
    }
}

/// A folder that is new or empty.
pub(crate) fn new_folder(path: &Path) -> Result<(), CommandError> {
    let occupied = path
        .read_dir()
        .is_ok_and(|mut entries| entries.next().is_some());
    if occupied {
        return Err(CommandError::OutExists(path.to_owned()));
    }
    fs::create_dir_all(path).map_err(CommandError::write(path))
}

#[cfg(test)]
#[path = "../tests/unit/files.rs"]
mod tests;
