//! Rows out of files, one at a time.

mod batch;
mod chat;
mod json;
mod lines;
mod prompts;
mod table;
mod time;
mod trace;

use std::path::Path;

use super::FileFormat;
use crate::WorkloadError;
use crate::source::Row;

/// Reads a file row by row; never the whole of it.
pub(crate) trait RowReader: Send {
    /// The next row; `None` at the end. After a bad line the next call goes on behind it.
    fn next_row(&mut self) -> Result<Option<Row>, WorkloadError>;
}

/// A reader from the start of the file.
pub(crate) fn open(format: FileFormat, path: &Path) -> Result<Box<dyn RowReader>, WorkloadError> {
    Ok(match format {
        FileFormat::ShareGpt => Box::new(chat::ShareGpt::open(path, 1)?),
        FileFormat::ShareGptTurns => Box::new(chat::ShareGpt::open(path, usize::MAX)?),
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
    let mut lines = lines::Lines::open(path)?;
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
