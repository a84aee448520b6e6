//! Rows out of files, one at a time.

mod prompts;
mod trace;

use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;
use serde::de::DeserializeOwned;

use crate::WorkloadError;
use crate::bounded::{self, Rows, row_error};
use crate::dataset::FileFormat;
use crate::length::MAX_LENGTH;
use crate::source::{Body, Row};

/// Reads a file row by row, never the whole of it: gives the next row, `None` at the end. After a bad line the next call goes on behind it.
pub(crate) type RowReader = Box<dyn FnMut() -> Result<Option<Row>, WorkloadError> + Send>;

pub(crate) fn open(format: FileFormat, path: &Path) -> Result<RowReader, WorkloadError> {
    match format {
        FileFormat::ShareGpt => prompts::share_gpt(path, 1),
        FileFormat::ShareGptTurns => prompts::share_gpt(path, usize::MAX),
        FileFormat::C4 | FileFormat::Jsonl => prompts::jsonl(path),
        FileFormat::Csv => prompts::csv(path),
        FileFormat::Txt => prompts::plain(path),
        FileFormat::BurstGpt | FileFormat::Azure => trace::csv(path),
        FileFormat::Mooncake => trace::mooncake(path),
        FileFormat::OpenAiBatch => prompts::batch(path),
        FileFormat::Trace => open(detect(format, path)?, path),
    }
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
        "this is not a known trace format: expected a header with a timestamp, input and output tokens (BurstGPT, Azure), \
         or a JSON object with timestamp, input_length and output_length (Mooncake)",
    ))
}

// Lines of a file, or JSON values out of it: the elements of one big array, or one value per line.

/// Lines or values of a plain or gzipped file, with the lines on which they begin, from 1.
pub(crate) struct Lines {
    path: PathBuf,
    from: Rows,
    /// Whether the elements of an array are read, and whether it has ended.
    is_array: bool,
    is_over: bool,
    /// Lines that have ended, and the one on which the current row begins.
    ended: u64,
    begins: u64,
    buffer: Vec<u8>,
}

impl Lines {
    pub(crate) fn open(path: &Path) -> Result<Self, WorkloadError> {
        Ok(Self {
            path: path.to_owned(),
            from: bytes(path)?,
            is_array: false,
            is_over: false,
            ended: 0,
            begins: 0,
            buffer: Vec::new(),
        })
    }

    /// Of JSON values: looks at the first byte, where `[` begins an array and everything else is lines.
    fn of_values(path: &Path) -> Result<Self, WorkloadError> {
        let mut lines = Self::open(path)?;
        if lines.skip_to_value()? == Some(b'[') {
            lines.from.consume(1);
            lines.is_array = true;
            return Ok(lines);
        }
        Self::open(path)
    }

    fn path(&self) -> &Path {
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
            self.ended += 1;
            self.begins = self.ended;
            if self.begins == 1 && self.buffer.starts_with(b"\xef\xbb\xbf") {
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

    /// The next JSON value; `None` at the end.
    fn next_value<T: DeserializeOwned>(&mut self) -> Result<Option<T>, WorkloadError> {
        let is_there = if self.is_array {
            self.next_element()?
        } else {
            self.next_line()?.is_some()
        };
        if !is_there {
            return Ok(None);
        }
        let value = serde_json::from_slice(&self.buffer);
        value.map(Some).map_err(|cause| {
            // Without its position: that counts from the start of the value, not of the file.
            let text = cause.to_string();
            let what = text.split(" at line ").next().unwrap_or(&text);
            // serde calls a key by its first name, whichever stands in the file
            self.bad(match what.strip_prefix("duplicate field ") {
                Some(key) => format!("it has {key} twice, under the same or an equivalent name"),
                None => format!("it is not JSON of the expected form: {what}"),
            })
        })
    }

    /// That the current row is wrong.
    pub(crate) fn bad(&self, why: impl Into<String>) -> WorkloadError {
        WorkloadError::BadLine {
            path: self.path.clone(),
            line: self.begins,
            why: why.into(),
        }
    }

    /// The next byte, left where it is.
    fn peek(&mut self) -> Result<Option<u8>, WorkloadError> {
        let bytes = self.from.fill_buf();
        let bytes = bytes.map_err(|cause| row_error(&self.path, cause))?;
        Ok(bytes.first().copied())
    }

    fn take(&mut self) -> Result<Option<u8>, WorkloadError> {
        let byte = self.peek()?;
        if byte.is_some() {
            self.from.consume(1);
        }
        self.ended += u64::from(byte == Some(b'\n'));
        Ok(byte)
    }

    /// Passes blanks, commas and a byte order mark.
    fn skip_to_value(&mut self) -> Result<Option<u8>, WorkloadError> {
        loop {
            match self.peek()? {
                Some(b' ' | b'\t' | b'\r' | b'\n' | b',' | 0xef | 0xbb | 0xbf) => {
                    self.take()?;
                }
                other => return Ok(other),
            }
        }
    }

    /// Reads an element, cut out by counting brackets, into the buffer; false at the end of the array.
    fn next_element(&mut self) -> Result<bool, WorkloadError> {
        self.buffer.clear();
        self.from.begin_row();
        if self.is_over {
            return Ok(false);
        }
        let first = self.skip_to_value()?;
        self.begins = self.ended + 1;
        if first == Some(b']') {
            self.is_over = true;
            return Ok(false);
        }
        let (mut depth, mut in_string, mut escaped) = (0_u32, false, false);
        loop {
            let Some(byte) = self.peek()? else {
                self.is_over = true;
                return Err(self.bad("the file ends inside this element"));
            };
            if depth == 0 && !in_string && matches!(byte, b',' | b']') {
                return Ok(true); // a bare value: what ends it belongs to the array
            }
            self.take()?;
            self.buffer.push(byte);
            match byte {
                _ if escaped => escaped = false,
                b'\\' if in_string => escaped = true,
                b'"' => in_string = !in_string,
                b'{' | b'[' if !in_string => depth += 1,
                b'}' | b']' if !in_string => depth = depth.saturating_sub(1),
                _ => {}
            }
            if depth == 0 && !in_string && matches!(byte, b'}' | b']') {
                return Ok(true);
            }
        }
    }
}

/// A reader of the rows that are made of JSON values; of some none is made.
fn of_values<T: DeserializeOwned>(
    path: &Path,
    row: impl Fn(&Lines, T) -> Result<Option<Row>, WorkloadError> + Send + 'static,
) -> Result<RowReader, WorkloadError> {
    let mut lines = Lines::of_values(path)?;
    Ok(Box::new(move || {
        while let Some(value) = lines.next_value()? {
            let row = row(&lines, value)?;
            if let Some(row) = row {
                return usable(row, |why| lines.bad(why)).map(Some);
            }
        }
        Ok(None)
    }))
}

/// A row of lengths that may be asked for.
fn usable(row: Row, bad: impl Fn(String) -> WorkloadError) -> Result<Row, WorkloadError> {
    let input = match row.body {
        Body::Lengths { input, .. } => Some(input),
        _ => None,
    };
    for (length, of) in [(input, "input"), (row.output, "output")] {
        match length {
            Some(0) => return Err(bad(format!("0 {of} tokens are too few; at least 1"))),
            Some(n) if n > MAX_LENGTH => {
                let why = format!("{n} {of} tokens are too many; at most {MAX_LENGTH}");
                return Err(bad(why));
            }
            _ => {}
        }
    }
    Ok(row)
}

/// The bytes of a file, unpacked where its name ends in `.gz`.
pub(crate) fn bytes(path: &Path) -> Result<Rows, WorkloadError> {
    let file = bounded::open(path).map_err(|cause| WorkloadError::File {
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

    /// The column with one of these names, whatever their case; two of them are an error, since they would say the same thing twice.
    fn column(&self, names: &[&str]) -> Result<Option<usize>, WorkloadError> {
        let mut columns = columns(&self.header, names);
        match (columns.next(), columns.next()) {
            (Some((_, first)), Some((_, second))) => Err(self.bad_header(format!(
                "the header has the equivalent columns `{first}` and `{second}`; keep one"
            ))),
            (found, _) => Ok(found.map(|(at, _)| at)),
        }
    }

    fn bad_header(&self, why: String) -> WorkloadError {
        WorkloadError::BadLine {
            path: self.path.clone(),
            line: 1,
            why,
        }
    }

    /// The column with one of these names; without it the file is of no use.
    fn wanted(&self, names: &[&str], what: &str) -> Result<usize, WorkloadError> {
        self.column(names)?.ok_or_else(|| {
            self.bad_header(format!(
                "the header has no column {what}`{}`",
                names.join("`, `")
            ))
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

/// The columns that have one of these names, whatever their case, with the name as it stands there.
fn columns<'a>(
    header: &'a csv::StringRecord,
    names: &[&str],
) -> impl Iterator<Item = (usize, &'a str)> {
    let plain = |field: &'a str| field.trim_start_matches('\u{feff}').trim();
    let fields = header.iter().map(plain).enumerate();
    fields.filter(|(_, field)| names.iter().any(|n| field.eq_ignore_ascii_case(n)))
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

/// A reader of the rows of a CSV file.
fn of_table(
    mut table: Table,
    row: impl Fn(&Table) -> Result<Row, WorkloadError> + Send + 'static,
) -> RowReader {
    Box::new(move || {
        Ok(if table.next()? {
            Some(usable(row(&table)?, |why| table.bad(why))?)
        } else {
            None
        })
    })
}

#[cfg(test)]
#[path = "../../tests/unit/dataset_read.rs"]
mod tests;
