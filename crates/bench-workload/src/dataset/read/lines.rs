//! Numbered lines of a file, unpacked while it is read.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;

use crate::WorkloadError;
use crate::bounded::{Rows, row_error};

/// Lines of a plain or gzipped file, numbered from 1.
pub(crate) struct Lines {
    path: PathBuf,
    from: Rows,
    line: u64,
    buffer: Vec<u8>,
}

impl Lines {
    pub(crate) fn open(path: &Path) -> Result<Self, WorkloadError> {
        Ok(Self {
            path: path.to_owned(),
            from: bytes(path)?,
            line: 0,
            buffer: Vec::new(),
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The next line that is not blank, without its end.
    pub(crate) fn next_line(&mut self) -> Result<Option<&str>, WorkloadError> {
        loop {
            self.buffer.clear();
            self.from.begin_row();
            let read = self.from.read_until(b'\n', &mut self.buffer);
            let read = read.map_err(|cause| row_error(&self.path, cause))?;
            if read == 0 {
                return Ok(None);
            }
            self.line += 1;
            if self.line == 1 && self.buffer.starts_with(b"\xef\xbb\xbf") {
                self.buffer.drain(..3);
            }
            if !self.buffer.trim_ascii().is_empty() {
                break;
            }
        }
        match std::str::from_utf8(&self.buffer) {
            Ok(line) => Ok(Some(line.trim_end_matches(['\n', '\r']))),
            Err(_) => Err(self.bad("it is not UTF-8")),
        }
    }

    /// That the current line is wrong.
    pub(crate) fn bad(&self, why: impl Into<String>) -> WorkloadError {
        WorkloadError::BadLine {
            path: self.path.clone(),
            line: self.line,
            why: why.into(),
        }
    }
}

/// The bytes of a file, unpacked where its name ends in `.gz`.
pub(crate) fn bytes(path: &Path) -> Result<Rows, WorkloadError> {
    let file = File::open(path).map_err(|cause| WorkloadError::File {
        path: path.to_owned(),
        doing: "opening a dataset",
        cause,
    })?;
    if path
        .extension()
        .is_some_and(|e| e.eq_ignore_ascii_case("gz"))
    {
        return Ok(Rows::new(buffered(MultiGzDecoder::new(file))));
    }
    Ok(Rows::new(buffered(file)))
}

fn buffered<R: Read>(from: R) -> BufReader<R> {
    BufReader::with_capacity(1 << 16, from)
}
