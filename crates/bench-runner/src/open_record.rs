//! A planned request on its way: handed out once, recorded once, whatever happens to it.

use std::collections::VecDeque;
use std::sync::Arc;

use bench_client::{ClientError, PreparedRequest, RequestEncoder};
use bench_schema::{
    Exchange, FailureKind, GenerationRequest, Nanos, Outcome, Phase as PhaseKind, PlanHash, Prompt,
    PromptSize, RequestRecord, Stage, Stamp, TokenSource,
};
use bench_workload::{Planned, TokenCounter};

use crate::health::Health;
use crate::progress::ProgressCounters;
use crate::recorder::Recorder;
use crate::server::{KEPT_TEXT, LONGEST_ANSWER};

const LOST: &str = "a task of the client ended unexpectedly";

/// Where the records of a phase go, and what is noted of them on the way.
pub(crate) struct RecordSink {
    pub(crate) recorder: Recorder,
    pub(crate) counters: Arc<ProgressCounters>,
    pub(crate) health: Arc<Health>,
}

/// What requests of one part of a cell have in common.
#[derive(Clone)]
pub(crate) struct Label {
    pub(crate) cell: String,
    pub(crate) repeat: u32,
    pub(crate) kind: PhaseKind,
}

impl Label {
    /// The name under which a request goes out: no two requests of a run, or of its shards, share one.
    fn name(&self, index: u64) -> String {
        let warmup = match self.kind {
            PhaseKind::Warmup => "w",
            PhaseKind::Measure => "",
        };
        format!("{}-{}-{warmup}{index}", self.cell, self.repeat)
    }
}

/// One planned request. From [`OpenRecord::hand_out`] on it becomes exactly one record: the one that is made of it, else one that says that it was lost.
pub(crate) struct OpenRecord {
    record: Option<Box<RequestRecord>>,
    hash: PlanHash,
    sink: Arc<RecordSink>,
    handed_out: bool,
    is_first: bool,
}

impl OpenRecord {
    fn new(label: &Label, planned: &Planned, sink: &Arc<RecordSink>) -> Self {
        let item = &planned.item;
        let record = RequestRecord {
            repeat: label.repeat,
            phase: label.kind,
            use_case: item.use_case.clone(),
            session: item.session,
            turn: item.turn,
            prompt: item.size.clone(),
            asked_output_tokens: item.request.asked_tokens(),
            ..RequestRecord::bare(
                planned.index,
                &label.cell,
                Exchange::nothing(Outcome::Failed {
                    stage: Stage::Whole,
                    failure: FailureKind::Other,
                    message: LOST.to_owned(),
                }),
            )
        };
        Self {
            record: Some(Box::new(record)),
            hash: planned.hash(),
            sink: Arc::clone(sink),
            handed_out: false,
            is_first: false,
        }
    }

    /// From now on it counts.
    fn hand_out(&mut self, now: Stamp) -> PlanHash {
        self.handed_out = true;
        if let Some(record) = &mut self.record {
            record.due = now;
        }
        self.hash
    }

    /// A worker has taken it up.
    pub(crate) fn begin(&mut self, due: Stamp, dispatched: Stamp, worker: u32) {
        self.sink.counters.started();
        self.is_first = self.sink.health.begin(dispatched);
        if let Some(record) = &mut self.record {
            record.due = due;
            record.dispatched = Some(dispatched);
            record.worker = Some(worker);
        }
    }

    pub(crate) fn end(mut self, wire: Exchange) {
        if let Some(record) = &mut self.record {
            (record.output_tokens, record.token_source) =
                output_tokens(&wire, record.asked_output_tokens);
            record.wire = wire;
        }
    }

    /// The load was over before it was due: it was not planned, and has no record. Returns what it was planned as.
    pub(crate) fn take_back(mut self) -> (Option<PhaseKind>, PlanHash) {
        self.handed_out = false;
        (self.record.as_ref().map(|record| record.phase), self.hash)
    }

    /// It was due and is not sent.
    pub(crate) fn leave_unsent(mut self, due: Stamp, worker: u32, reason: &str) {
        self.sink.counters.started();
        if let Some(record) = &mut self.record {
            record.due = due;
            record.worker = Some(worker);
            record.wire = Exchange::nothing(Outcome::Unsent {
                reason: reason.to_owned(),
            });
        }
    }
}

/// The one place where a record leaves: no way through the code, a panic included, can lose or double it.
impl Drop for OpenRecord {
    fn drop(&mut self) {
        if let Some(record) = self.record.take().filter(|_| self.handed_out) {
            self.sink.counters.ended(&record);
            let now = record.last_instant();
            self.sink
                .health
                .note(&record.wire.outcome, self.is_first, now);
            self.sink.recorder.request(record);
        }
    }
}

/// A request that can go out as it is.
pub(crate) struct Ready {
    pub(crate) open_record: OpenRecord,
    pub(crate) request: PreparedRequest,
    /// What was said, where a later turn goes on from it.
    pub(crate) said: Option<Said>,
}

/// What a later turn goes on from, and how long that was.
pub(crate) struct Said {
    pub(crate) prompt: Prompt,
    pub(crate) size: PromptSize,
}

/// A turn that cannot be written before the answer to the one before it is there.
pub(crate) struct Later {
    pub(crate) open_record: OpenRecord,
    /// Only the new message is its own.
    request: GenerationRequest,
    name: String,
    /// From the end of that answer until it is due.
    pub(crate) pause: Nanos,
}

/// Requests that follow each other, each waiting for the answer before it. Most are one request long.
pub(crate) struct Conversation {
    /// When it begins, from the beginning of its part; in a closed loop that is for the slot to say.
    pub(crate) due: Nanos,
    pub(crate) first: Ready,
    pub(crate) later: VecDeque<Later>,
}

/// Makes conversations of what was planned.
pub(crate) struct ConversationMaker {
    pub(crate) label: Label,
    pub(crate) sink: Arc<RecordSink>,
    pub(crate) encoder: Arc<RequestEncoder>,
}

impl ConversationMaker {
    /// A conversation that begins with `first`.
    pub(crate) fn conversation(
        &self,
        first: &Planned,
        later: Vec<Planned>,
    ) -> Result<Conversation, ClientError> {
        let goes_on = !later.is_empty();
        let name = self.label.name(first.index);
        let mut request = encoded(&self.encoder, &first.item.request, &name, goes_on)?;
        if first.due.is_some() && !goes_on {
            request = request.unawaited();
        }
        Ok(Conversation {
            due: first.due.unwrap_or(Nanos::ZERO),
            first: Ready {
                open_record: OpenRecord::new(&self.label, first, &self.sink),
                request,
                said: goes_on.then(|| Said {
                    prompt: first.item.request.prompt.clone(),
                    size: first.item.size.clone(),
                }),
            },
            later: later
                .into_iter()
                .map(|planned| self.later(planned))
                .collect(),
        })
    }

    fn later(&self, planned: Planned) -> Later {
        Later {
            open_record: OpenRecord::new(&self.label, &planned, &self.sink),
            name: self.label.name(planned.index),
            pause: planned.item.after.map_or(Nanos::ZERO, |after| after.delay),
            request: planned.item.request,
        }
    }
}

impl Conversation {
    /// All its requests leave the planner. Returns how many they are, and the sum of their hashes.
    pub(crate) fn hand_out(&mut self, now: Stamp) -> (u64, PlanHash) {
        let mut sum = (1, self.first.open_record.hand_out(now));
        for later in &mut self.later {
            sum.0 += 1;
            sum.1 += later.open_record.hand_out(now);
        }
        sum
    }

    /// None of it is sent.
    pub(crate) fn leave_unsent(self, due: Stamp, worker: u32, reason: &str) {
        self.first.open_record.leave_unsent(due, worker, reason);
        leave_unsent(self.later, due, worker, reason);
    }
}

/// What is left of a conversation is not sent.
pub(crate) fn leave_unsent(
    later: impl IntoIterator<Item = Later>,
    due: Stamp,
    worker: u32,
    reason: &str,
) {
    for later in later {
        later.open_record.leave_unsent(due, worker, reason);
    }
}

impl Later {
    /// The turn as it goes out: `write` makes the whole prompt of its own message, and its length of that one's.
    pub(crate) fn continued(
        self,
        goes_on: bool,
        encoder: &RequestEncoder,
        write: impl FnOnce(&Prompt, &PromptSize) -> Said,
    ) -> Result<Ready, ClientError> {
        let Self {
            mut open_record,
            mut request,
            name,
            ..
        } = self;
        let own = open_record.record.as_ref();
        let own = own.map_or_else(PromptSize::default, |record| record.prompt.clone());
        let said = write(&request.prompt, &own);
        if let Some(record) = &mut open_record.record {
            record.prompt = said.size.clone();
        }
        request.prompt = said.prompt.clone();
        Ok(Ready {
            open_record,
            request: encoded(encoder, &request, &name, goes_on)?,
            said: goes_on.then_some(said),
        })
    }
}

/// The bytes that ask for it. An answer that somebody goes on from is kept until then.
fn encoded(
    encoder: &RequestEncoder,
    request: &GenerationRequest,
    name: &str,
    goes_on: bool,
) -> Result<PreparedRequest, ClientError> {
    let prepared = encoder.prepare(request, name)?;
    Ok(if goes_on {
        prepared.keeping_text(Some(LONGEST_ANSWER))
    } else {
        prepared
    })
}

/// Output tokens and how they are known while the answer is read: the server's usage, else counts in the stream.
///
/// A server that tells more than was asked for, and more than it sent events, is believed up to the larger of the two; what it told stays
/// in `usage`, and trust judges it.
fn output_tokens(wire: &Exchange, asked: Option<u64>) -> (Option<u64>, TokenSource) {
    let usage = wire.usage.as_ref();
    let told = usage.and_then(|usage| usage.completion_tokens);
    let summed = || Some(wire.events.tokens()?.iter().copied().map(u64::from).sum());
    let (count, source): (Option<u64>, _) = match told {
        Some(_) => (told, TokenSource::Usage),
        None => (summed(), TokenSource::Stream),
    };
    let Some(count) = count else {
        return (None, TokenSource::Unknown);
    };
    (Some(believed(count, wire, asked)), source)
}

/// Of a count of tokens as many as were asked for or came as events.
fn believed(count: u64, wire: &Exchange, asked: Option<u64>) -> u64 {
    let most = asked.map_or(count, |asked| asked.max(wire.events.len() as u64));
    count.min(most)
}

/// What becomes of the texts of answers, off the threads that send and read.
pub(crate) struct AnswerTexts {
    /// Counts tokens where the server tells none; absent where no tokenizer was given.
    pub(crate) counter: Option<Arc<dyn TokenCounter>>,
    /// Whether their beginnings stay in the records.
    pub(crate) keep: bool,
}

impl AnswerTexts {
    /// Count the text where its tokens are not known, and cut it to what is stored. One that is not there as a whole is not counted.
    pub(crate) fn settle(&self, record: &mut RequestRecord) {
        let Some(text) = record.wire.text.take() else {
            return;
        };
        let is_whole = !text.is_empty() && text.chars().count() as u64 == record.wire.text_chars;
        if let Some(counter) = self.counter.as_ref().filter(|_| is_whole)
            && record.output_tokens.is_none()
            && let Ok(count) = counter.count(&text)
        {
            let count = believed(count, &record.wire, record.asked_output_tokens);
            (record.output_tokens, record.token_source) = (Some(count), TokenSource::Tokenizer);
        }
        record.wire.text = self.keep.then(|| text.chars().take(KEPT_TEXT).collect());
    }
}

#[cfg(test)]
#[path = "../tests/unit/open_record.rs"]
mod tests;
