//! The run directory: whole files in it, and never in somebody else's.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use bench_schema::{
    BEGIN_FILE, JournalPart, MOST_RUN_BYTES, PartMeter, RunRecord, hold_folder, read_file,
};
use parking_lot::Mutex;

use crate::RunError;
use crate::config::Settings;
use crate::journal::JournalError;
use crate::progress::Progress;
use crate::run::rfc3339;

/// The directory that a run writes to, held from its beginning to its end.
///
/// Its name may lead elsewhere meanwhile: one that was moved away or deleted is made again, and where somebody else has its name by then, the run goes on beside it.
#[derive(Debug)]
pub(crate) struct RunDirectory {
    home: Mutex<Home>,
    progress: Progress,
}

#[derive(Debug)]
struct Home {
    path: PathBuf,
    inode: Option<u64>,
    /// As long as it is open nobody else writes or recovers there.
    lock: Option<File>,
    /// What is to be measured, and as it is written there.
    begun: Option<(RunRecord, String)>,
}

impl RunDirectory {
    /// Make the one that was asked for, or a new one under `results/`.
    ///
    /// # Errors
    /// Where it cannot be made, is not empty, or is somebody else's.
    pub(crate) fn create(
        settings: &Settings,
        started: SystemTime,
        progress: Progress,
    ) -> Result<Self, RunError> {
        Self::at(wanted(settings, started), progress)
    }

    /// The new or empty directory of this name.
    pub(crate) fn at(path: PathBuf, progress: Progress) -> Result<Self, RunError> {
        if is_occupied(&path) {
            return Err(RunError::OutExists(path));
        }
        Self::held(path, progress)
    }

    /// The directory of this name, whatever is in it.
    pub(crate) fn held(path: PathBuf, progress: Progress) -> Result<Self, RunError> {
        let cannot = |cause| cannot(&path, cause);
        fs::create_dir_all(&path).map_err(cannot)?;
        let lock = hold_folder(&path).map_err(|_| RunError::OutInUse(path.clone()))?;
        let home = Home {
            inode: inode(&path),
            lock,
            begun: None,
            path,
        };
        Ok(Self {
            home: Mutex::new(home),
            progress,
        })
    }

    /// Where it is now.
    ///
    /// # Errors
    /// Where it is gone, and cannot be made again.
    pub(crate) fn path(&self) -> Result<PathBuf, RunError> {
        let mut home = self.home.lock();
        let old = home.path.clone();
        if !home.is_ours() {
            home.make_again().map_err(|error| cannot(&old, error))?;
        }
        let new = home.path.clone();
        if new != old {
            let (old, new) = (old.display(), new.display());
            self.say(&format!(
                "{old} was moved and replaced by something else; the run continues in {new}"
            ));
        }
        Ok(new)
    }

    /// Where it was last.
    pub(crate) fn name(&self) -> PathBuf {
        self.home.lock().path.clone()
    }

    /// Write what is to be measured: enough to recover the records where `run.json` is lost.
    pub(crate) fn begin(&self, record: &RunRecord) -> Result<(), RunError> {
        self.write_begun(record.clone())?;
        self.write_run(record)
    }

    /// The same with the last cell of `record`, which a search came to.
    pub(crate) fn begin_cell(&self, record: &RunRecord) -> Result<(), RunError> {
        let begun = self.home.lock().begun.clone();
        if let (Some((mut begun, _)), Some(cell)) = (begun, record.cells.last()) {
            begun.cells.push(cell.clone());
            self.write_begun(begun)?;
        }
        self.write_run(record)
    }

    fn write_begun(&self, record: RunRecord) -> Result<(), RunError> {
        let text = self.json(&record)?;
        self.write(BEGIN_FILE, &text)?;
        self.home.lock().begun = Some((record, text));
        Ok(())
    }

    /// What was written when it began, as the list of journals names it: all before its cells, since a search adds cells.
    pub(crate) fn begun(&self) -> Option<JournalPart> {
        let home = self.home.lock();
        let (_, text) = home.begun.as_ref()?;
        let until = text.find("\n \"cells\"").unwrap_or(text.len());
        let mut written = PartMeter::default();
        written.update(text.as_bytes().get(..until)?);
        Some(written.part(BEGIN_FILE))
    }

    /// Write `run.json` as it stands.
    pub(crate) fn write_run(&self, record: &RunRecord) -> Result<(), RunError> {
        self.write("run.json", &self.json(record)?)
    }

    /// Write a file as a whole: readers see the old text or the new one, never half.
    pub(crate) fn write(&self, name: &str, text: &str) -> Result<(), RunError> {
        let path = self.path()?.join(name);
        replace(&path, text).map_err(|cause| cannot(&path, cause))
    }

    /// Write the end of a file, which is `old` from byte `before` on, as `new`, which is longer, in one piece: what is killed leaves the one or the other.
    /// Says whether it did; a file that is not as it was left stays as it is.
    pub(crate) fn write_end(&self, name: &str, before: u64, [old, new]: [&str; 2]) -> bool {
        let ours = self.path().map(|path| path.join(name));
        let opened = ours.map(|path| File::options().write(true).open(path));
        let Ok(Ok(file)) = opened else {
            return false;
        };
        let was = before + old.len() as u64;
        if !file.metadata().is_ok_and(|found| found.len() == was) {
            return false;
        }
        let written = file.write_at(new.as_bytes(), before);
        if written.is_ok_and(|n| n == new.len()) {
            return true;
        }
        // on a full disk half of it may be there
        let back = file.write_all_at(old.as_bytes(), before);
        back.and_then(|()| file.set_len(was)).ok();
        false
    }

    /// Something to know, above the display.
    pub(crate) fn say(&self, trouble: &str) {
        self.progress.note(&format!("warning: {trouble}"));
    }

    fn json(&self, record: &RunRecord) -> Result<String, RunError> {
        record.to_json().map_err(|e| cannot(&self.name(), e.into()))
    }
}

impl Home {
    /// Whether its name leads to it. Where a file system numbers anew, what was written there tells.
    fn is_ours(&mut self) -> bool {
        let found = inode(&self.path);
        let same = found == self.inode && found.is_some();
        let told = || read_file(&self.path.join(BEGIN_FILE), MOST_RUN_BYTES).ok();
        if !same
            && (self.begun.is_none()
                || told().as_deref() != self.begun.as_ref().map(|(_, text)| text.as_bytes()))
        {
            return false;
        }
        self.inode = found;
        true
    }

    fn make_again(&mut self) -> io::Result<()> {
        let (path, lock) = numbered(&self.path)
            .find_map(|path| taken(&path).transpose())
            .ok_or(io::ErrorKind::AlreadyExists)??;
        (self.inode, self.lock, self.path) = (inode(&path), lock, path);
        match &self.begun {
            Some((_, begun)) => replace(&self.path.join(BEGIN_FILE), begun),
            None => Ok(()),
        }
    }
}

/// The one that was asked for, else a new one under `results/`.
pub(crate) fn wanted(settings: &Settings, started: SystemTime) -> PathBuf {
    settings.output.out.clone().unwrap_or_else(|| {
        let started = rfc3339(started).replace(['-', ':'], "");
        let mut name = format!("{started}-{}", settings.benchmark.as_str());
        name.extend(settings.client.folder().map(|shard| format!("-{shard}")));
        let wanted = Path::new("results").join(name);
        let mut names = numbered(&wanted);
        names.find(|path| !path.exists()).unwrap_or_default()
    })
}

/// Make a directory and hold it; nothing where somebody else does, or it has something in it.
fn taken(path: &Path) -> io::Result<Option<(PathBuf, Option<File>)>> {
    fs::create_dir_all(path)?;
    let lock = hold_folder(path).ok().filter(|_| !is_occupied(path));
    Ok(lock.map(|lock| (path.to_owned(), lock)))
}

/// This name, and others like it.
pub(crate) fn numbered(wanted: &Path) -> impl Iterator<Item = PathBuf> {
    let more = (2_u16..).map(|n| PathBuf::from(format!("{}-{n}", wanted.display())));
    std::iter::once(wanted.to_owned()).chain(more)
}

pub(crate) fn is_occupied(path: &Path) -> bool {
    path.read_dir()
        .is_ok_and(|mut entries| entries.next().is_some())
}

fn inode(path: &Path) -> Option<u64> {
    fs::metadata(path).ok().map(|found| found.ino())
}

fn replace(path: &Path, text: &str) -> io::Result<()> {
    bench_schema::replace_file(path, |file| file.write_all(text.as_bytes()))
}

pub(crate) fn cannot(path: &Path, cause: io::Error) -> RunError {
    let path = path.to_owned();
    RunError::Journal(JournalError::Create { path, cause })
}

#[cfg(test)]
#[path = "../tests/unit/folder.rs"]
mod tests;
