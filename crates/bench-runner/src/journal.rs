//! Append-only JSON lines that outlive the program: on disk within a second, never torn by a full disk, in parts of bounded size.

#[cfg(test)]
#[path = "../tests/unit/journal.rs"]
mod tests;

use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use bench_schema::{JournalFile, JournalPart, PartMeter, sync_folder};
use rustix::io::Errno;
use serde::Serialize;

/// What went wrong with a journal.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the message says what each field is")]
pub enum JournalError {
    /// The file could not be made.
    #[error("cannot write {path}: {cause}; {}", cure(cause).unwrap_or("choose another folder with --out"))]
    Create { path: PathBuf, cause: io::Error },
    /// Some lines never reached the disk.
    #[error(
        "{} of {path} could not be written; the result includes them",
        bench_schema::counted(lost_lines, "line")
    )]
    Lost {
        path: PathBuf,
        /// Those that are only in memory, a torn one included.
        lost_lines: usize,
        source: io::Error,
    },
    /// Somebody else wrote to it.
    #[error(
        "{0} was changed by another program during the run; the result includes every request, but the file is incomplete"
    )]
    Changed(PathBuf),
}

/// What makes it possible to write a file in the place where it is, as far as the system's error tells that.
pub(crate) fn cure(cause: &io::Error) -> Option<&'static str> {
    match (Errno::from_io_error(cause), cause.kind()) {
        (Some(Errno::MFILE), _) => {
            Some("raise the limit on open files (ulimit -n), or use fewer streams")
        }
        (Some(Errno::NFILE), _) => Some("raise the system's limit on open files (fs.file-max)"),
        (_, io::ErrorKind::StorageFull) => Some("free some disk space"),
        (_, io::ErrorKind::QuotaExceeded) => Some("free some space of the disk quota"),
        (_, io::ErrorKind::FileTooLarge) => Some("raise the limit on file sizes (ulimit -f)"),
        (_, io::ErrorKind::IsADirectory) => Some("remove the folder of this name"),
        _ => None,
    }
}

/// Lines waiting in memory beyond this are given up, the oldest kept: a run that cannot write must not eat the machine.
const MOST_PENDING: usize = 256 << 20;
/// Parts that can be made again should the folder vanish: each holds a file descriptor.
const KEPT_PARTS: usize = 64;

/// One journal.
///
/// Lines collect in memory until [`Journal::flush`], which writes exactly on from where it stopped: when the disk is full, what did not fit
/// stays in memory and is tried again with the next flush. A file that has vanished is made again with everything it held.
#[derive(Debug)]
pub(crate) struct Journal {
    folder: PathBuf,
    file: JournalFile,
    parts: VecDeque<Part>,
    /// What the parts hold that are not kept open any more.
    full: Vec<JournalPart>,
    part_bytes: u64,
    next_part: u32,
    pending: Vec<u8>,
    dropped_lines: usize,
    trouble: Option<io::Error>,
    /// The part that somebody else changed.
    changed: Option<PathBuf>,
}

impl Journal {
    /// Create the first part in `folder`; it must not exist. A part that has reached `part_bytes` is followed by another.
    pub(crate) fn create(
        folder: &Path,
        file: JournalFile,
        part_bytes: u64,
    ) -> Result<Self, JournalError> {
        let path = folder.join(file.part_name(0));
        let part =
            Part::create(path.clone()).map_err(|cause| JournalError::Create { path, cause })?;
        Ok(Self {
            folder: folder.to_owned(),
            file,
            parts: VecDeque::from([part]),
            full: Vec::new(),
            part_bytes,
            next_part: 1,
            pending: Vec::new(),
            dropped_lines: 0,
            trouble: None,
            changed: None,
        })
    }

    /// Add one line. Only memory is touched.
    pub(crate) fn append(&mut self, line: &impl Serialize) {
        let start = self.pending.len();
        if start > MOST_PENDING {
            self.dropped_lines += 1;
        } else if serde_json::to_writer(&mut self.pending, line).is_ok() {
            self.pending.push(b'\n');
        } else {
            self.pending.truncate(start);
        }
    }

    /// From now on its parts lie here; those that do not are made again with the next flush.
    pub(crate) fn settle(&mut self, folder: &Path) {
        if self.folder != folder {
            folder.clone_into(&mut self.folder);
            for part in &mut self.parts {
                let name = part.path.file_name().unwrap_or_default();
                part.path = folder.join(name);
            }
        }
    }

    /// Bytes not yet written.
    pub(crate) fn pending(&self) -> usize {
        self.pending.len()
    }

    /// Write what is pending, and have the system put it on disk. Returns the first trouble, once, when it begins.
    pub(crate) fn flush(&mut self) -> Option<String> {
        let result = self.write_pending();
        if self.changed.is_none()
            && let Some(part) = self.parts.iter().find(|part| part.was_changed())
        {
            self.changed = Some(part.path.clone());
            return Some(JournalError::Changed(part.path.clone()).to_string());
        }
        let new_trouble = self.trouble.is_none();
        self.trouble = result.err();
        let trouble = self.trouble.as_ref().filter(|_| new_trouble)?;
        let cure = cure(trouble).map_or_else(String::new, |cure| format!("; {cure}"));
        Some(format!(
            "cannot write {}: {trouble}; the run continues in memory and retries{cure}",
            self.current().display()
        ))
    }

    /// Whether something could not be written when that was last tried.
    pub(crate) fn is_in_trouble(&self) -> bool {
        self.trouble.is_some()
    }

    fn write_pending(&mut self) -> io::Result<()> {
        for part in &mut self.parts {
            part.revive()?;
        }
        if self.pending.is_empty() {
            return Ok(());
        }
        self.rotate()?;
        let Some(part) = self.parts.back_mut() else {
            return Ok(());
        };
        let (written, result) = part.write(&self.pending);
        self.pending.drain(..written);
        result.and_then(|()| part.sync())
    }

    /// Begin the next part where this one is full. The last write was whole, or the line would go on in another file.
    fn rotate(&mut self) -> io::Result<()> {
        let full = self
            .parts
            .back()
            .is_some_and(|part| part.bytes() >= self.part_bytes && part.ends_a_line());
        if full {
            let path = self.folder.join(self.file.part_name(self.next_part));
            self.parts.push_back(Part::create(path)?);
            self.next_part += 1;
            if self.parts.len() > KEPT_PARTS {
                self.full
                    .extend(self.parts.pop_front().map(|part| part.record()));
            }
        }
        Ok(())
    }

    fn current(&self) -> PathBuf {
        self.folder
            .join(self.file.part_name(self.next_part.saturating_sub(1)))
    }

    /// Parts begun so far.
    pub(crate) fn parts(&self) -> u32 {
        self.next_part
    }

    /// What every part holds on disk.
    pub(crate) fn record(&self) -> Vec<JournalPart> {
        let open = self.parts.iter().map(Part::record);
        self.full.iter().cloned().chain(open).collect()
    }

    /// Write everything and make sure that it is on disk. Also tells what the parts hold.
    pub(crate) fn close(mut self) -> (Vec<JournalPart>, Result<(), JournalError>) {
        let _said_before = self.flush();
        (self.record(), self.outcome())
    }

    fn outcome(&mut self) -> Result<(), JournalError> {
        let waiting = self.pending.split(|&byte| byte == b'\n').count() - 1;
        let lost_lines = waiting + self.dropped_lines;
        let path = self.current();
        match self.trouble.take() {
            Some(source) => Err(JournalError::Lost {
                path,
                lost_lines,
                source,
            }),
            // the disk had room again, but not before lines had been given up
            None if lost_lines > 0 => Err(JournalError::Lost {
                path,
                lost_lines,
                source: io::ErrorKind::StorageFull.into(),
            }),
            None => self
                .changed
                .take()
                .map(JournalError::Changed)
                .map_or(Ok(()), Err),
        }
    }
}

/// A file that is only ever appended to, open as long as the journal remembers it: its content can be had even when its name is gone.
#[derive(Debug)]
struct Part {
    path: PathBuf,
    file: File,
    inode: u64,
    written: PartMeter,
}

impl Part {
    /// Create the file, and its name for good; it must not exist.
    fn create(path: PathBuf) -> io::Result<Self> {
        let file = OpenOptions::new()
            .create_new(true)
            .append(true)
            .read(true)
            .open(&path)?;
        if let Some(folder) = path.parent() {
            sync_folder(folder)?;
        }
        Self::of(path, file)
    }

    /// A part in a file that is open already.
    fn of(path: PathBuf, file: File) -> io::Result<Self> {
        let inode = file.metadata()?.ino();
        Ok(Self {
            path,
            file,
            inode,
            written: PartMeter::default(),
        })
    }

    /// What it holds, for `run.json`.
    fn record(&self) -> JournalPart {
        let name = self.path.file_name().unwrap_or_default();
        self.written.part(&name.to_string_lossy())
    }

    fn bytes(&self) -> u64 {
        self.written.bytes()
    }

    /// Whether it has not the length of what was written.
    fn was_changed(&self) -> bool {
        let found = self.file.metadata();
        found.is_ok_and(|found| found.is_file() && found.len() != self.bytes())
    }

    /// Whether what was written so far is whole lines.
    fn ends_a_line(&self) -> bool {
        let mut last = [b'\n'];
        let read = self
            .bytes()
            .checked_sub(1)
            .map(|at| self.file.read_exact_at(&mut last, at));
        read.is_none_or(|read| read.is_ok() && last == [b'\n'])
    }

    /// Append as much as the disk takes. Returns how much that was, also where it ended in an error.
    fn write(&mut self, bytes: &[u8]) -> (usize, io::Result<()>) {
        let mut written = 0;
        let result = loop {
            match bytes.get(written..) {
                None | Some([]) => break Ok(()),
                Some(rest) => match self.file.write(rest) {
                    Ok(0) => break Err(io::ErrorKind::WriteZero.into()),
                    Ok(n) => written += n,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => break Err(error),
                },
            }
        };
        self.written
            .update(bytes.get(..written).unwrap_or_default());
        (written, result)
    }

    /// Have the system put on disk what was written: it outlives a power cut then, not only this program.
    fn sync(&self) -> io::Result<()> {
        match self.file.sync_data() {
            // pipes and devices have nothing to sync
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
            result => result,
        }
    }

    /// Make the file again if it, or its folder, is gone: the open handle still has its content.
    fn revive(&mut self) -> io::Result<()> {
        if fs::metadata(&self.path).is_ok_and(|found| found.ino() == self.inode) {
            return Ok(());
        }
        let mut again = Self::create(self.path.clone())?;
        self.file.seek(SeekFrom::Start(0))?;
        match io::copy(&mut (&self.file).take(self.bytes()), &mut again.file) {
            Ok(_) => {
                again.written = self.written;
                again.sync()?;
                *self = again;
                Ok(())
            }
            Err(error) => {
                // the next flush begins anew
                fs::remove_file(&self.path).ok();
                Err(error)
            }
        }
    }
}
