//! Append-only JSON lines that outlive the program: on disk within a second, never torn by a full disk.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::Serialize;

/// What went wrong with a journal.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The file could not be made.
    #[error("cannot write {path}; choose another folder with --out")]
    Create {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// Some lines never reached the disk.
    #[error("{lost_bytes} bytes of {path} could not be written; what was on disk before is there")]
    Lost {
        /// The file.
        path: PathBuf,
        /// Bytes that are only in memory.
        lost_bytes: usize,
        /// The system's reason.
        source: io::Error,
    },
}

/// Lines waiting in memory beyond this are given up, the oldest kept: a run that cannot write must not eat the machine.
const MOST_PENDING: usize = 512 << 20;

/// One journal file.
///
/// Lines collect in memory until [`Journal::flush`], which writes exactly on from where it stopped: when the disk is full, what did not fit
/// stays in memory and is tried again with the next flush. A file that has vanished is made again with everything it held.
#[derive(Debug)]
pub(crate) struct Journal {
    path: PathBuf,
    file: File,
    inode: u64,
    pending: Vec<u8>,
    dropped: usize,
    trouble: Option<io::Error>,
}

impl Journal {
    /// Create the file; it must not exist.
    pub(crate) fn create(path: &Path) -> Result<Self, JournalError> {
        let failed = |source| JournalError::Create {
            path: path.to_owned(),
            source,
        };
        let (file, inode) = open(path).map_err(failed)?;
        Ok(Self {
            path: path.to_owned(),
            file,
            inode,
            pending: Vec::new(),
            dropped: 0,
            trouble: None,
        })
    }

    /// Add one line. Only memory is touched.
    pub(crate) fn append(&mut self, line: &impl Serialize) {
        let start = self.pending.len();
        if start > MOST_PENDING {
            self.dropped += 1;
        } else if serde_json::to_writer(&mut self.pending, line).is_ok() {
            self.pending.push(b'\n');
        } else {
            self.pending.truncate(start);
        }
    }

    /// Bytes not yet written.
    pub(crate) fn pending(&self) -> usize {
        self.pending.len()
    }

    /// Write what is pending. Returns the first trouble, once, when it begins.
    pub(crate) fn flush(&mut self) -> Option<String> {
        let result = self.revive().and_then(|()| self.write_pending());
        let new_trouble = self.trouble.is_none();
        self.trouble = result.err();
        let trouble = self.trouble.as_ref().filter(|_| new_trouble)?;
        Some(format!(
            "cannot write {}: {trouble}; the run goes on in memory and tries again",
            self.path.display()
        ))
    }

    fn write_pending(&mut self) -> io::Result<()> {
        let mut written = 0;
        let result = loop {
            match self.pending.get(written..) {
                None | Some([]) => break Ok(()),
                Some(rest) => match self.file.write(rest) {
                    Ok(0) => break Err(io::Error::from(io::ErrorKind::WriteZero)),
                    Ok(n) => written += n,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => break Err(error),
                },
            }
        };
        self.pending.drain(..written);
        result
    }

    /// Make the file again if it, or its folder, is gone: the open handle still has its content.
    fn revive(&mut self) -> io::Result<()> {
        if fs::metadata(&self.path).is_ok_and(|found| found.ino() == self.inode) {
            return Ok(());
        }
        let mut held = Vec::new();
        self.file.seek(SeekFrom::Start(0))?;
        self.file.read_to_end(&mut held)?;
        if let Some(folder) = self.path.parent() {
            fs::create_dir_all(folder)?;
        }
        let (file, inode) = open(&self.path)?;
        held.append(&mut self.pending);
        self.pending = held;
        (self.file, self.inode) = (file, inode);
        Ok(())
    }

    /// Write everything and make sure that it is on disk.
    pub(crate) fn close(mut self) -> Result<(), JournalError> {
        let _said_before = self.flush();
        let synced = self
            .trouble
            .take()
            .map_or_else(|| self.file.sync_all(), Err);
        synced.map_err(|source| JournalError::Lost {
            path: self.path,
            lost_bytes: self.pending.len() + self.dropped,
            source,
        })
    }
}

fn open(path: &Path) -> io::Result<(File, u64)> {
    let file = OpenOptions::new()
        .create_new(true)
        .append(true)
        .read(true)
        .open(path)?;
    let inode = file.metadata()?.ino();
    Ok((file, inode))
}

/// Replace a file as a whole: readers see the old text or the new one, never half.
pub(crate) fn replace_file(path: &Path, text: &str) -> Result<(), JournalError> {
    let failed = |source| JournalError::Create {
        path: path.to_owned(),
        source,
    };
    let mut beside = path.as_os_str().to_owned();
    beside.push(".part");
    let beside = PathBuf::from(beside);
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(failed)?;
    }
    let mut file = File::create(&beside).map_err(failed)?;
    file.write_all(text.as_bytes())
        .and_then(|()| file.sync_all())
        .map_err(failed)?;
    fs::rename(&beside, path).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_written_in_order_and_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.jsonl");
        let mut journal = Journal::create(&path).unwrap();
        journal.append(&1);
        journal.append(&"two");
        assert_eq!(journal.flush(), None);
        journal.append(&[3]);
        journal.close().unwrap();
        assert_eq!(fs::read_to_string(path).unwrap(), "1\n\"two\"\n[3]\n");
    }

    #[test]
    fn a_folder_that_vanishes_is_made_again_with_everything() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("run");
        fs::create_dir(&inner).unwrap();
        let path = inner.join("x.jsonl");
        let mut journal = Journal::create(&path).unwrap();
        journal.append(&1);
        journal.flush();
        fs::remove_dir_all(&inner).unwrap();
        journal.append(&2);
        journal.close().unwrap();
        assert_eq!(fs::read_to_string(path).unwrap(), "1\n2\n");
    }

    #[test]
    fn a_disk_that_is_full_is_said_once_and_named_at_the_end() {
        // /dev/full answers every write with ENOSPC; a journal on it is made by hand, since it exists already
        let Ok(file) = OpenOptions::new().write(true).read(true).open("/dev/full") else {
            return;
        };
        let inode = file.metadata().unwrap().ino();
        let mut journal = Journal {
            path: "/dev/full".into(),
            file,
            inode,
            pending: Vec::new(),
            dropped: 0,
            trouble: None,
        };
        journal.append(&1);
        assert!(
            journal
                .flush()
                .is_some_and(|said| said.contains("/dev/full"))
        );
        assert_eq!(journal.flush(), None);
        assert_eq!(journal.pending(), 2);
        assert!(matches!(
            journal.close(),
            Err(JournalError::Lost { lost_bytes: 2, .. })
        ));
    }

    #[test]
    fn a_file_that_exists_is_not_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.jsonl");
        fs::write(&path, "mine").unwrap();
        assert!(Journal::create(&path).is_err());
        assert_eq!(fs::read_to_string(path).unwrap(), "mine");
    }
}
