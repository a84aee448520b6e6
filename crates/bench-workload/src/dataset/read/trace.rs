//! Traces: times and lengths, without texts.

use std::cell::Cell;
use std::path::Path;
use std::time::SystemTime;

use bench_schema::Nanos;
use serde::Deserialize;

use super::{RowReader, Table, columns, of_table, of_values};
use crate::WorkloadError;
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

/// Whether this is the header of a CSV trace, in lower case.
pub(super) fn is_header(line: &str) -> bool {
    let header: csv::StringRecord = line.split(',').collect();
    let has = |names: &[&str]| columns(&header, names).next().is_some();
    has(&TIMES) && has(&INPUTS) && has(&OUTPUTS)
}

/// A CSV trace: Azure's, `BurstGPT`'s, or one's own with columns of such names.
pub(super) fn csv(path: &Path) -> Result<RowReader, WorkloadError> {
    let table = Table::open(path)?;
    let time = table.wanted(&TIMES, "of times, such as ")?;
    let columns = (
        table.wanted(&INPUTS, "of prompt lengths, such as ")?,
        table.wanted(&OUTPUTS, "of output lengths, such as ")?,
    );
    // `BurstGPT` tells chats from calls of the API.
    let log_type = table.column(&["log type"])?;
    let since = Cell::new(Since::default());
    Ok(of_table(table, move |table| {
        let count = |at: usize| {
            let text = table.field(at);
            // some exports write whole numbers as 12.0
            let whole = text.strip_suffix(".0").unwrap_or(text).parse::<u64>();
            whole.map_err(|_| table.bad(format!("`{text}` is not a number of tokens")))
        };
        let both = (count(columns.0)?, count(columns.1)?);
        let text = table.field(time);
        let at = time_of(text).ok_or_else(|| table.bad(format!("`{text}` is not a time")))?;
        let label = log_type
            .map(|at| table.field(at))
            .filter(|label| !label.is_empty());
        let use_case = label.map(|label| label.to_ascii_lowercase().replace(' ', "-"));
        let at = offset(&since, at).ok_or_else(|| table.bad(BACKWARDS.to_owned()))?;
        Ok(lengths(at, both, Vec::new(), use_case))
    }))
}

fn lengths(
    at: Nanos,
    (input, output): (u64, u64),
    blocks: Vec<u64>,
    use_case: Option<String>,
) -> Row {
    let body = Body::Lengths {
        input: input.max(1),
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

#[derive(Deserialize)]
struct Line {
    /// Milliseconds.
    timestamp: f64,
    input_length: u64,
    output_length: u64,
    #[serde(default)]
    hash_ids: Vec<u64>,
}

/// Mooncake's trace.
pub(super) fn mooncake(path: &Path) -> Result<RowReader, WorkloadError> {
    let since = Cell::new(Since::default());
    of_values(path, move |lines, line: Line| {
        let at = offset(&since, Nanos::from_f64(line.timestamp * 1e6));
        let at = at.ok_or_else(|| lines.bad(BACKWARDS))?;
        let both = (line.input_length, line.output_length);
        Ok(Some(lengths(at, both, line.hash_ids, None)))
    })
}

// Times of traces.

const BACKWARDS: &str = "its time is before that of the previous row";

/// The first time, and the offset of the last one.
#[derive(Clone, Copy, Default)]
struct Since {
    first: Option<Nanos>,
    last: Nanos,
}

/// The offset of this time from the first; `None` where it lies before the one before it.
fn offset(since: &Cell<Since>, at: Nanos) -> Option<Nanos> {
    let mut now = since.get();
    let offset = at - *now.first.get_or_insert(at);
    let is_in_order = offset >= now.last;
    if is_in_order {
        now.last = offset;
    }
    since.set(now);
    is_in_order.then_some(offset)
}

/// Seconds (`12.5`) or a date and time (`2025-03-01 09:30:15.1234567`, with or without `T`, `Z` or an offset).
fn time_of(text: &str) -> Option<Nanos> {
    let text = text.trim();
    if let Ok(seconds) = text.parse::<f64>() {
        return seconds.is_finite().then(|| Nanos::from_secs_f64(seconds));
    }
    let (_, time) = text.split_once([' ', 'T'])?;
    let (clock, offset_s) = zone(time)?;
    let end = text.len() - (time.len() - clock.len());
    let at = humantime::parse_rfc3339_weak(text.get(..end)?).ok()?;
    let since = at.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    Some(Nanos::from_duration(since) - Nanos::from_secs(offset_s))
}

/// Cuts `Z` or `+hh:mm` from the end; the offset in seconds.
fn zone(time: &str) -> Option<(&str, i64)> {
    if let Some(time) = time.strip_suffix('Z') {
        return Some((time, 0));
    }
    let Some(at) = time.rfind(['+', '-']) else {
        return Some((time, 0));
    };
    let (clock, offset) = time.split_at(at);
    let sign = if offset.starts_with('-') { -1 } else { 1 };
    let (hours, minutes) = offset.get(1..)?.split_once(':')?;
    let seconds = hours.parse::<i64>().ok()? * 3_600 + minutes.parse::<i64>().ok()? * 60;
    Some((clock, sign * seconds))
}

#[cfg(test)]
#[path = "../../../tests/unit/dataset_read_trace.rs"]
mod tests;
