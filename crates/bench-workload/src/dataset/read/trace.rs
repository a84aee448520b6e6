//! Traces: times and lengths, without texts.

use std::path::{Path, PathBuf};

use bench_schema::Nanos;
use serde::Deserialize;

use super::RowReader;
use super::json::Values;
use super::lines;
use super::prompts::{column, csv_error};
use super::time::{self, Since};
use crate::WorkloadError;
use crate::bounded::Rows;
use crate::length::MAX_LENGTH;
use crate::source::{Body, Row};

const TIMES: [&str; 2] = ["timestamp", "time"];
const INPUTS: [&str; 5] = [
    "contexttokens",
    "request tokens",
    "input_tokens",
    "prompt_tokens",
    "input_length",
];
const OUTPUTS: [&str; 5] = [
    "generatedtokens",
    "response tokens",
    "output_tokens",
    "completion_tokens",
    "output_length",
];

/// Tokens behind one hash id of a Mooncake trace.
const BLOCK_TOKENS: u64 = 512;

/// A CSV trace: Azure's, `BurstGPT`'s, or one's own with columns of such names.
pub(super) struct Csv {
    path: PathBuf,
    reader: csv::Reader<Rows>,
    record: csv::StringRecord,
    time: usize,
    input: usize,
    output: usize,
    /// `BurstGPT` tells chats from calls of the API.
    log_type: Option<usize>,
    since: Since,
}

/// Whether this is the header of a CSV trace, in lower case.
pub(super) fn is_header(line: &str) -> bool {
    let header: csv::StringRecord = line.split(',').collect();
    let has = |names: &[&str]| column(&header, names).is_some();
    has(&TIMES) && has(&INPUTS) && has(&OUTPUTS)
}

impl Csv {
    pub(super) fn open(path: &Path) -> Result<Self, WorkloadError> {
        let mut reader = csv::Reader::from_reader(lines::bytes(path)?);
        let header = reader
            .headers()
            .map_err(|cause| csv_error(path, &cause))?
            .clone();
        let find = |names: &[&str], what: &str| {
            column(&header, names).ok_or_else(|| WorkloadError::BadLine {
                path: path.to_owned(),
                line: 1,
                why: format!(
                    "the header has no column of {what}, such as `{}`",
                    names.join("`, `")
                ),
            })
        };
        Ok(Self {
            time: find(&TIMES, "times")?,
            input: find(&INPUTS, "prompt lengths")?,
            output: find(&OUTPUTS, "answer lengths")?,
            log_type: column(&header, &["log type"]),
            path: path.to_owned(),
            record: csv::StringRecord::new(),
            since: Since::default(),
            reader,
        })
    }
}

impl RowReader for Csv {
    fn next_row(&mut self) -> Result<Option<Row>, WorkloadError> {
        self.reader.get_mut().begin_row();
        let read = self.reader.read_record(&mut self.record);
        if !read.map_err(|cause| csv_error(&self.path, &cause))? {
            return Ok(None);
        }
        let line = self.record.position().map_or(0, csv::Position::line);
        let field = |at: usize| self.record.get(at).unwrap_or("").trim();
        let bad = |why: String| WorkloadError::BadLine {
            path: self.path.clone(),
            line,
            why,
        };
        let count = |at: usize| {
            let text = field(at);
            // some exports write whole numbers as 12.0
            let whole = text.strip_suffix(".0").unwrap_or(text).parse::<u64>();
            whole.map_err(|_| bad(format!("`{text}` is no number of tokens")))
        };
        let (input, output) = (count(self.input)?, count(self.output)?);
        let at = time::parse(field(self.time))
            .ok_or_else(|| bad(format!("`{}` is no time", field(self.time))))?;
        let label = self.log_type.map(field).filter(|label| !label.is_empty());
        let use_case = label.map(|label| label.to_ascii_lowercase().replace(' ', "-"));
        let at = self.since.offset(at);
        let at = at.ok_or_else(|| bad("its time lies before that of the row before".to_owned()))?;
        Ok(Some(lengths(at, (input, output), Vec::new(), use_case)))
    }
}

fn lengths(
    at: Nanos,
    (input, output): (u64, u64),
    blocks: Vec<u64>,
    use_case: Option<String>,
) -> Row {
    let body = Body::Lengths {
        input: input.clamp(1, MAX_LENGTH),
        blocks,
        block_tokens: BLOCK_TOKENS,
    };
    Row {
        at: Some(at),
        output: Some(output.max(1)),
        use_case,
        ..Row::new(body)
    }
}

/// Mooncake's trace.
pub(super) struct Mooncake {
    values: Values,
    since: Since,
}

#[derive(Deserialize)]
struct Line {
    /// Milliseconds.
    timestamp: f64,
    input_length: u64,
    output_length: u64,
    #[serde(default)]
    hash_ids: Vec<u64>,
}

impl Mooncake {
    pub(super) fn open(path: &Path) -> Result<Self, WorkloadError> {
        Ok(Self {
            values: Values::open(path)?,
            since: Since::default(),
        })
    }
}

impl RowReader for Mooncake {
    fn next_row(&mut self) -> Result<Option<Row>, WorkloadError> {
        let Some(line) = self.values.next_value::<Line>()? else {
            return Ok(None);
        };
        let at = self.since.offset(Nanos::from_f64(line.timestamp * 1e6));
        let at = at.ok_or_else(|| {
            self.values
                .bad("its time lies before that of the row before")
        })?;
        Ok(Some(lengths(
            at,
            (line.input_length, line.output_length),
            line.hash_ids,
            None,
        )))
    }
}
