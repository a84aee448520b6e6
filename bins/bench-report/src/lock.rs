//! Whether a run directory is being written: a benchmark holds a lock on it as long as it runs, and the system lets go of it when the
//! program ends, however it ends.

use std::fs::{File, TryLockError};
use std::path::Path;

use crate::error::CommandError;

/// Whether somebody holds it now.
pub(crate) fn is_held(run: &Path) -> bool {
    open(run).is_ok_and(|folder| matches!(folder.try_lock(), Err(TryLockError::WouldBlock)))
}

/// Hold it as long as the returned file lives, so that nobody writes to it meanwhile.
///
/// # Errors
/// [`CommandError::StillRunning`] where somebody does.
pub(crate) fn hold(run: &Path) -> Result<Option<File>, CommandError> {
    let Ok(folder) = open(run) else {
        return Ok(None);
    };
    match folder.try_lock() {
        Ok(()) => Ok(Some(folder)),
        Err(TryLockError::WouldBlock) => Err(CommandError::StillRunning(run.to_owned())),
        // some file systems have no locks
        Err(TryLockError::Error(_)) => Ok(None),
    }
}

/// A `run.json` that was given by its name alone lies here.
fn open(run: &Path) -> std::io::Result<File> {
    let here = run.as_os_str().is_empty();
    File::open(if here { Path::new(".") } else { run })
}
