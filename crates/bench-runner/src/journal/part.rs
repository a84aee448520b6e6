//! One file of a journal.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use bench_schema::{JournalPart, PartMeter};

/// A file that is only ever appended to, open as long as the journal remembers it: its content can be had even when its name is gone.
#[derive(Debug)]
pub(super) struct Part {
    path: PathBuf,
    file: File,
    inode: u64,
    written: PartMeter,
}

impl Part {
    /// Create the file, and its name for good; it must not exist.
    pub(super) fn create(path: PathBuf) -> io::Result<Self> {
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
    pub(super) fn of(path: PathBuf, file: File) -> io::Result<Self> {
        let inode = file.metadata()?.ino();
        Ok(Self {
            path,
            file,
            inode,
            written: PartMeter::default(),
        })
    }

    /// What it holds, for `run.json`.
    pub(super) fn record(&self) -> JournalPart {
        let name = self.path.file_name().unwrap_or_default();
        self.written.part(&name.to_string_lossy())
    }

    /// Bytes written so far.
    pub(super) fn bytes(&self) -> u64 {
        self.written.bytes()
    }

    /// Whether what was written so far is whole lines.
    pub(super) fn ends_a_line(&self) -> bool {
        let mut last = [b'\n'];
        let read = self
            .bytes()
            .checked_sub(1)
            .map(|at| self.file.read_exact_at(&mut last, at));
        read.is_none_or(|read| read.is_ok() && last == [b'\n'])
    }

    /// Append as much as the disk takes. Returns how much that was, also where it ended in an error.
    pub(super) fn write(&mut self, bytes: &[u8]) -> (usize, io::Result<()>) {
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
    pub(super) fn sync(&self) -> io::Result<()> {
        match self.file.sync_data() {
            // pipes and devices have nothing to sync
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
            result => result,
        }
    }

    /// Make the file again if it, or its folder, is gone: the open handle still has its content.
    pub(super) fn revive(&mut self) -> io::Result<()> {
        if fs::metadata(&self.path).is_ok_and(|found| found.ino() == self.inode) {
            return Ok(());
        }
        if let Some(folder) = self.path.parent() {
            fs::create_dir_all(folder)?;
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

/// A new name is on disk when its folder is.
pub(super) fn sync_folder(folder: &Path) -> io::Result<()> {
    let folder = if folder.as_os_str().is_empty() {
        Path::new(".")
    } else {
        folder
    };
    match File::open(folder)?.sync_all() {
        // some network file systems have no sync of folders
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
        result => result,
    }
}
