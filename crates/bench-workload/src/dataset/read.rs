//! Rows out of files, one at a time.

mod batch;
mod json;
mod prompts;
mod trace;

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;

use crate::WorkloadError;
use crate::bounded::{Rows, row_error};
use crate::dataset::FileFormat;
use crate::source::Row;

/// Reads a file row by row; never the whole of it.
pub(crate) trait RowReader: Send {
    /// The next row; `None` at the end. After a bad line the next call goes on behind it.
    fn next_row(&mut self) -> Result<Option<Row>, WorkloadError>;
}

/// A reader from the start of the file.
pub(crate) fn open(format: FileFormat, path: &Path) -> Result<Box<dyn RowReader>, WorkloadError> {
    Ok(match format {
        FileFormat::ShareGpt => Box::new(prompts::ShareGpt::open(path, 1)?),
        FileFormat::ShareGptTurns => Box::new(prompts::ShareGpt::open(path, usize::MAX)?),
        FileFormat::C4 | FileFormat::Jsonl => Box::new(prompts::Jsonl::open(path)?),
        FileFormat::Csv => Box::new(prompts::Csv::open(path)?),
        FileFormat::Txt => Box::new(prompts::Plain::open(path)?),
        FileFormat::BurstGpt | FileFormat::Azure => Box::new(trace::Csv::open(path)?),
        FileFormat::Mooncake => Box::new(trace::Mooncake::open(path)?),
        FileFormat::OpenAiBatch => Box::new(batch::Batch::open(path)?),
        FileFormat::Trace => return open(detect(format, path)?, path),
    })
}

/// The format itself, or for [`FileFormat::Trace`] the one of the trace, by its first line.
pub(crate) fn detect(format: FileFormat, path: &Path) -> Result<FileFormat, WorkloadError> {
    let mut lines = Lines::open(path)?;
    if format != FileFormat::Trace {
        return Ok(format);
    }
    let first = lines.next_line()?.unwrap_or("").to_ascii_lowercase();
    if first.starts_with('{') && first.contains("input_length") {
        return Ok(FileFormat::Mooncake);
    }
    if trace::is_header(&first) {
        return Ok(FileFormat::Azure);
    }
    Err(lines.bad(
        "no trace starts like this: expected a header with a timestamp, input and output tokens (BurstGPT, Azure), \
         or a JSON object with timestamp, input_length and output_length (Mooncake)",
    ))
}

// Numbered lines of a file, unpacked while it is read.

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

// CSV files with a header, row by row.

/// The rows of a CSV file.
struct Table {
    path: PathBuf,
    reader: csv::Reader<Rows>,
    header: csv::StringRecord,
    record: csv::StringRecord,
}

impl Table {
    fn open(path: &Path) -> Result<Self, WorkloadError> {
        let mut reader = csv::Reader::from_reader(bytes(path)?);
        let header = reader.headers().map_err(|cause| failed(path, &cause))?;
        Ok(Self {
            path: path.to_owned(),
            header: header.clone(),
            record: csv::StringRecord::new(),
            reader,
        })
    }

    /// The column with one of these names, whatever their case.
    fn column(&self, names: &[&str]) -> Option<usize> {
        column(&self.header, names)
    }

    /// The column with one of these names; without it the file is of no use.
    fn wanted(&self, names: &[&str], what: &str) -> Result<usize, WorkloadError> {
        self.column(names).ok_or_else(|| WorkloadError::BadLine {
            path: self.path.clone(),
            line: 1,
            why: format!("the header has no column {what}`{}`", names.join("`, `")),
        })
    }

    /// Reads the next row; false at the end.
    fn next(&mut self) -> Result<bool, WorkloadError> {
        self.reader.get_mut().begin_row();
        let read = self.reader.read_record(&mut self.record);
        read.map_err(|cause| failed(&self.path, &cause))
    }

    /// A field of the row, without blanks around it; empty where there is none.
    fn field(&self, column: usize) -> &str {
        self.raw(column).trim()
    }

    /// A field of the row as it is.
    fn raw(&self, column: usize) -> &str {
        self.record.get(column).unwrap_or("")
    }

    /// That this row is wrong.
    fn bad(&self, why: String) -> WorkloadError {
        WorkloadError::BadLine {
            path: self.path.clone(),
            line: self.record.position().map_or(0, csv::Position::line),
            why,
        }
    }
}

/// The column with one of these names, whatever their case.
fn column(header: &csv::StringRecord, names: &[&str]) -> Option<usize> {
    let is_named = |field: &str| names.iter().any(|n| field.trim().eq_ignore_ascii_case(n));
    header
        .iter()
        .position(|field| is_named(field.trim_start_matches('\u{feff}')))
}

fn failed(path: &Path, cause: &csv::Error) -> WorkloadError {
    if let csv::ErrorKind::Io(cause) = cause.kind() {
        return row_error(path, io::Error::new(cause.kind(), cause.to_string()));
    }
    WorkloadError::BadLine {
        path: path.to_owned(),
        line: cause.position().map_or(1, csv::Position::line),
        why: cause.to_string(),
    }
}
