//! Files that are read within limits: whatever a path leads to, it takes no more memory than a file of that kind may.

use std::fs::File;
use std::io::{self, BufRead, Read};
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;

use crate::WorkloadError;

/// Largest row of a dataset, unpacked.
pub(crate) const ROW_BYTES: u64 = 32 << 20;
/// Largest file of lengths, rates or a single prompt.
pub(crate) const TEXT_BYTES: u64 = 64 << 20;
pub(crate) const TOKENIZER_BYTES: u64 = 128 << 20;

/// A file to be read. No pipe: opening one waits for whoever writes to it, where no signal is heard, and it can be read once, where each cell begins anew.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    if std::fs::metadata(path)?.file_type().is_fifo() {
        return Err(io::Error::other("it is a pipe; save it to a file first"));
    }
    File::open(path)
}

/// A whole file of at most so many bytes.
pub(crate) fn read(path: &Path, doing: &'static str, limit: u64) -> Result<Vec<u8>, WorkloadError> {
    let read = open(path).and_then(|file| bench_schema::read_within(file, limit));
    read.map_err(|cause| failed(path, doing, ("the file", limit), cause))
}

pub(crate) fn read_text(path: &Path, doing: &'static str) -> Result<String, WorkloadError> {
    let bytes = read(path, doing, TEXT_BYTES)?;
    String::from_utf8(bytes).map_err(|cause| {
        let cause = io::Error::new(io::ErrorKind::InvalidData, cause.utf8_error().to_string());
        failed(path, doing, ("the file", TEXT_BYTES), cause)
    })
}

/// Why a row of a dataset could not be read.
pub(crate) fn row_error(path: &Path, cause: io::Error) -> WorkloadError {
    failed(path, "reading a dataset", ("one row", ROW_BYTES), cause)
}

/// Why something could not be read that may have so many bytes.
fn failed(
    path: &Path,
    doing: &'static str,
    (what, limit): (&'static str, u64),
    cause: io::Error,
) -> WorkloadError {
    let path = path.to_owned();
    match cause.kind() {
        io::ErrorKind::FileTooLarge => WorkloadError::TooLarge {
            path,
            what,
            limit_mib: limit >> 20,
        },
        _ => WorkloadError::File { path, doing, cause },
    }
}

/// A file of rows, none of which may be larger than [`ROW_BYTES`].
pub(crate) struct Rows {
    from: Box<dyn BufRead + Send>,
    left: u64,
}

impl Rows {
    pub(crate) fn new(from: impl BufRead + Send + 'static) -> Self {
        Self {
            from: Box::new(from),
            left: ROW_BYTES,
        }
    }

    pub(crate) fn begin_row(&mut self) {
        self.left = ROW_BYTES;
    }
}

impl BufRead for Rows {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.left == 0 {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let most = usize::try_from(self.left).unwrap_or(usize::MAX);
        let bytes = self.from.fill_buf()?;
        Ok(bytes.get(..most).unwrap_or(bytes))
    }

    fn consume(&mut self, amount: usize) {
        self.left = self.left.saturating_sub(amount as u64);
        self.from.consume(amount);
    }
}

impl Read for Rows {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let bytes = self.fill_buf()?;
        let n = bytes.len().min(into.len());
        let (Some(from), Some(to)) = (bytes.get(..n), into.get_mut(..n)) else {
            return Ok(0);
        };
        to.copy_from_slice(from);
        self.consume(n);
        Ok(n)
    }
}
