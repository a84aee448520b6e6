//! CSV files with a header, row by row.

use std::io;
use std::path::{Path, PathBuf};

use super::lines;
use crate::WorkloadError;
use crate::bounded::{self, Rows};

/// The rows of a CSV file.
pub(super) struct Table {
    path: PathBuf,
    reader: csv::Reader<Rows>,
    header: csv::StringRecord,
    record: csv::StringRecord,
}

impl Table {
    pub(super) fn open(path: &Path) -> Result<Self, WorkloadError> {
        let mut reader = csv::Reader::from_reader(lines::bytes(path)?);
        let header = reader.headers().map_err(|cause| failed(path, &cause))?;
        Ok(Self {
            path: path.to_owned(),
            header: header.clone(),
            record: csv::StringRecord::new(),
            reader,
        })
    }

    /// The column with one of these names, whatever their case.
    pub(super) fn column(&self, names: &[&str]) -> Option<usize> {
        column(&self.header, names)
    }

    /// The column with one of these names; without it the file is of no use.
    pub(super) fn wanted(&self, names: &[&str], what: &str) -> Result<usize, WorkloadError> {
        self.column(names).ok_or_else(|| WorkloadError::BadLine {
            path: self.path.clone(),
            line: 1,
            why: format!("the header has no column {what}`{}`", names.join("`, `")),
        })
    }

    /// Reads the next row; false at the end.
    pub(super) fn next(&mut self) -> Result<bool, WorkloadError> {
        self.reader.get_mut().begin_row();
        let read = self.reader.read_record(&mut self.record);
        read.map_err(|cause| failed(&self.path, &cause))
    }

    /// A field of the row, without blanks around it; empty where there is none.
    pub(super) fn field(&self, column: usize) -> &str {
        self.raw(column).trim()
    }

    /// A field of the row as it is.
    pub(super) fn raw(&self, column: usize) -> &str {
        self.record.get(column).unwrap_or("")
    }

    /// That this row is wrong.
    pub(super) fn bad(&self, why: String) -> WorkloadError {
        WorkloadError::BadLine {
            path: self.path.clone(),
            line: self.record.position().map_or(0, csv::Position::line),
            why,
        }
    }
}

/// The column with one of these names, whatever their case.
pub(super) fn column(header: &csv::StringRecord, names: &[&str]) -> Option<usize> {
    let is_named = |field: &str| names.iter().any(|n| field.trim().eq_ignore_ascii_case(n));
    header
        .iter()
        .position(|field| is_named(field.trim_start_matches('\u{feff}')))
}

fn failed(path: &Path, cause: &csv::Error) -> WorkloadError {
    if let csv::ErrorKind::Io(cause) = cause.kind() {
        return bounded::row_error(path, io::Error::new(cause.kind(), cause.to_string()));
    }
    WorkloadError::BadLine {
        path: path.to_owned(),
        line: cause.position().map_or(1, csv::Position::line),
        why: cause.to_string(),
    }
}
