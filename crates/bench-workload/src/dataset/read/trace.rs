//! Traces: times and lengths, without texts.

use std::path::Path;

use bench_schema::Nanos;
use serde::Deserialize;

use super::RowReader;
use super::json::Values;
use super::table::{Table, column};
use super::time::{self, Since};
use crate::WorkloadError;
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
    table: Table,
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
        let table = Table::open(path)?;
        Ok(Self {
            time: table.wanted(&TIMES, "of times, such as ")?,
            input: table.wanted(&INPUTS, "of prompt lengths, such as ")?,
            output: table.wanted(&OUTPUTS, "of answer lengths, such as ")?,
            log_type: table.column(&["log type"]),
            since: Since::default(),
            table,
        })
    }
}

impl RowReader for Csv {
    fn next_row(&mut self) -> Result<Option<Row>, WorkloadError> {
        if !self.table.next()? {
            return Ok(None);
        }
        let table = &self.table;
        let field = |at: usize| table.field(at);
        let bad = |why: String| table.bad(why);
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
