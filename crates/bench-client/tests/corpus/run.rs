//! Drives the client's decoder with made-up stamps and compares what it says with what a case expects.

use std::fmt::Debug;

use bench_client::{Answer, AnswerDecoder, AnswerLimits, ReadMark, StreamEnd};
use bench_schema::{FailureKind, Nanos, Outcome, Stamp};

use crate::case::{Case, End, ExpectedEvent};

/// Reads return every millisecond; their last segment arrived 0.3 ms earlier.
const PERIOD: i64 = 1_000_000;
const LAG: i64 = 300_000;

/// How uncertain a stamp that is not exact is under these marks.
pub(crate) const BOUND: Nanos = Nanos::new(PERIOD - LAG);

pub(crate) struct Decoded {
    pub(crate) answer: Answer,
    /// Content events by the count of each push, the one at the end of a whole answer excepted.
    pub(crate) progress: usize,
}

fn mark(read: usize) -> ReadMark {
    let returned = Stamp::new((i64::try_from(read).unwrap() + 1) * PERIOD);
    ReadMark {
        arrival: returned - Nanos::new(LAG),
        stamped: true,
        returned,
        previous_return: returned - Nanos::new(PERIOD),
        arrived_from: returned - Nanos::new(LAG),
        last_token_from: returned - Nanos::new(PERIOD),
        merged: false,
        continues: false,
    }
}

/// The read that a stamp belongs to.
pub(crate) fn read_of(stamp: Stamp) -> usize {
    usize::try_from((stamp.get() + LAG) / PERIOD - 1).unwrap()
}

pub(crate) fn decode(case: &Case, reads: &[&[u8]]) -> Decoded {
    decode_in_pieces(case, reads, 1)
}

/// Pushes each read in up to `pieces` pieces, all with the mark of that read.
pub(crate) fn decode_in_pieces(case: &Case, reads: &[&[u8]], pieces: usize) -> Decoded {
    let (decoder, progress) = push_all(case, reads, pieces);
    let stage = decoder.stage();
    let end = match case.end {
        End::Eof => StreamEnd::Eof,
        End::Reset => StreamEnd::Cut {
            stage,
            failure: FailureKind::Reset,
            message: "connection reset by peer".to_owned(),
        },
    };
    Decoded {
        answer: decoder.finish(end),
        progress,
    }
}

/// The first reads only, and then a client that gives up.
pub(crate) fn decode_part(case: &Case, reads: &[&[u8]]) -> Answer {
    push_all(case, reads, 1)
        .0
        .finish(StreamEnd::Cancelled("the test has seen enough".to_owned()))
}

fn push_all(case: &Case, reads: &[&[u8]], pieces: usize) -> (AnswerDecoder, usize) {
    let limits = AnswerLimits {
        keep_text: Some(usize::MAX),
        ..AnswerLimits::default()
    };
    let mut decoder = AnswerDecoder::new(case.protocol(), case.stream, limits);
    let mut progress = 0;
    for (index, read) in reads.iter().enumerate() {
        for piece in read.chunks(read.len().div_ceil(pieces).max(1)) {
            progress += decoder.push(piece, mark(index)).content_events;
        }
    }
    (decoder, progress)
}

/// What differs from what the case expects, if anything.
pub(crate) fn check(case: &Case, decoded: &Decoded) -> Result<(), String> {
    let (expect, answer) = (&case.expect, &decoded.answer);
    check_outcome(case, &answer.outcome)?;
    same("usage", &answer.usage, &expect.usage)?;
    same(
        "finish reason",
        &answer.finish_reason,
        &expect.finish_reason,
    )?;
    same("server timings", &answer.server, &expect.server)?;

    check_stamps(case, answer)?;
    check_channels(case, answer)?;
    check_text(case, answer)?;
    check_progress(case, decoded)
}

fn check_stamps(case: &Case, answer: &Answer) -> Result<(), String> {
    let (expected, events) = (&case.expect.events, &answer.events);
    let reads: Vec<usize> = events.stamps().map(read_of).collect();
    same(
        "reads",
        &reads,
        &expected.iter().map(|event| event.read).collect(),
    )?;
    let exact: Vec<bool> = (0..events.len())
        .map(|i| events.bound(i) == Nanos::ZERO)
        .collect();
    same(
        "exactness",
        &exact,
        &expected.iter().map(|event| event.exact).collect(),
    )?;
    if events.lags().any(|lag| lag != Nanos::new(LAG)) {
        return Err("an event's lag is not its read's".to_owned());
    }
    let tokens = events.tokens().map(<[u32]>::to_vec);
    let counts: Option<Vec<u32>> = expected.iter().map(|event| event.tokens).collect();
    same(
        "tokens",
        &tokens,
        &counts.filter(|counts| !counts.is_empty()),
    )
}

fn check_channels(case: &Case, answer: &Answer) -> Result<(), String> {
    let mut channels = Vec::new();
    let mut runs = answer.events.runs().peekable();
    let mut current = None;
    for index in 0..answer.events.len() {
        current = runs
            .next_if(|&(at, _)| at == index)
            .map(|(_, channel)| channel)
            .or(current);
        channels.extend(current);
    }
    let expected = case
        .expect
        .events
        .iter()
        .map(|event| event.channel)
        .collect();
    same("channels", &channels, &expected)
}

fn check_text(case: &Case, answer: &Answer) -> Result<(), String> {
    let expected = &case.expect.events;
    let text: Option<String> = expected.iter().map(|event| event.text.clone()).collect();
    if let Some(text) = text {
        same("text", &answer.text, &Some(text))?;
    }
    let length = |text: &String| text.chars().count() as u64;
    let chars = |event: &ExpectedEvent| event.chars.or(event.text.as_ref().map(length));
    same(
        "characters",
        &Some(answer.text_chars),
        &expected.iter().map(chars).sum(),
    )
}

/// Progress counts every event but one that only the end of the transfer completed.
fn check_progress(case: &Case, decoded: &Decoded) -> Result<(), String> {
    let events = decoded.answer.events.len();
    let at_the_end = !case.stream || case.name == "sse-last-event-without-blank-line";
    same(
        "progress",
        &decoded.progress,
        &(events - usize::from(at_the_end && events > 0)),
    )
}

fn check_outcome(case: &Case, outcome: &Outcome) -> Result<(), String> {
    let expected = &case.expect.outcome;
    let (failure, stage) = match outcome {
        Outcome::Failed {
            failure,
            stage,
            message,
        } => {
            if message.is_empty() {
                return Err("a failure without a message".to_owned());
            }
            (Some(failure.to_string()), Some(stage.to_string()))
        }
        _ => (None, None),
    };
    let found = (outcome.name(), failure, stage);
    let wanted = (
        expected.kind.as_str(),
        expected.failure.clone(),
        expected.stage.clone(),
    );
    same("outcome", &found, &wanted).map_err(|what| format!("{what} ({outcome:?})"))
}

fn same<T: PartialEq + Debug>(what: &str, found: &T, expected: &T) -> Result<(), String> {
    if found == expected {
        return Ok(());
    }
    Err(format!("{what}: found {found:?}, expected {expected:?}"))
}
