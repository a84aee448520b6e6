//! What the trust rules have to know beside the cells.

use std::collections::BTreeMap;

use bench_schema::{
    Benchmark, ClockRecord, ConnectionFacts, Metric, Nanos, Outcome, Phase, RequestRecord, Stamp,
    TokenSource,
};

use crate::samples::{CellSamples, SampleKeeper};

/// What the trust rules need of a run beside its cells.
#[derive(Clone, Debug)]
pub struct TrustFacts<'a> {
    /// Whether it ran to its planned end.
    pub complete: bool,
    /// Why not.
    pub incomplete_reason: Option<&'a str>,
    /// How time was measured.
    pub clock: &'a ClockRecord,
    /// Whether answers of exactly the asked length were asked for (`--ignore-eos`).
    pub ignore_eos: bool,
    /// Whether prompts share prefixes, or repeat, on purpose: then a warm cache is what is measured.
    pub shared_prefixes: bool,
    /// Quantiles that the user named by a precision rule, or by a target that nobody can tell.
    pub asked_quantiles: &'a [(Metric, f64)],
    /// What kind of server it is, so that the next step names its own switches.
    pub server_kind: Option<&'a str>,
    /// Which program it is of, whose flags a next step names.
    pub program: Benchmark,
    /// Facts that only single requests tell, by cell id; cells without an entry are not judged by them.
    pub cells: &'a BTreeMap<String, CellFacts>,
}

impl<'a> TrustFacts<'a> {
    /// Facts of a complete run without flags; set what differs.
    pub fn of(clock: &'a ClockRecord, cells: &'a BTreeMap<String, CellFacts>) -> Self {
        Self {
            complete: true,
            incomplete_reason: None,
            clock,
            ignore_eos: false,
            shared_prefixes: false,
            asked_quantiles: &[],
            server_kind: None,
            program: Benchmark::Throughput,
            cells,
        }
    }

    /// The flags by which more requests are measured.
    pub(crate) fn more_requests(&self) -> &'static str {
        match self.program {
            Benchmark::Latency => "`--repeat`",
            Benchmark::Throughput | Benchmark::Seqlen => "`--requests`, `--duration`",
        }
    }
}

/// What single requests of a cell tell about the measurement.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CellFacts {
    /// Completed requests whose answer had no content at all.
    pub answers_empty: u64,
    /// Completed streamed answers with content whose number of tokens nobody told.
    pub answers_untold: u64,
    /// Completed requests whose output tokens were counted from their text, since the server told none.
    pub answers_by_text: u64,
    /// Completed requests of which the server told the output tokens, and that asked for a number.
    pub answers_counted: u64,
    /// Those of them that got fewer tokens than asked, by the server's count or, where the content events contradict it, by these.
    pub answers_short: u64,
    /// Those of them that got more tokens than asked, by the count that is believed.
    pub answers_long: u64,
    /// Output tokens of streamed answers of which only the server's count at the end is known, without reasoning that was not sent.
    pub tokens_told: u64,
    /// Content events of the same answers.
    pub events: u64,
    /// Those of the same answers whose count is wrong by their content events: far below them, or below them where these are as many as was asked.
    pub answers_missed: u64,
    /// Content events of these beyond their count.
    pub tokens_missed: u64,
    /// Content events of all requests, whatever became of them.
    pub all_events: u64,
    /// Requests that did not complete and went on to more than twice the output tokens that they asked for.
    pub answers_runaway: u64,
    /// Their content events beyond what they asked for.
    pub events_runaway: u64,
    /// Requests that were stopped on purpose (`--cancel-after`) before any content came.
    pub cancelled_unanswered: u64,
    /// Mean time from having a connection to the request's last byte leaving, over completed requests.
    pub to_send: Nanos,
    /// Mean time that they opened a connection themselves, over the same requests.
    pub connecting: Nanos,
    /// Whether there are turns that waited for the answer before them.
    pub later_turns: bool,
    /// The time in which users thought, between an answer and their next turn, all of them together.
    pub thought: Nanos,
    /// Requests that left late because those before them had to be sent first, where most late ones are such.
    pub bunch: Option<Bunch>,
    /// The longest time without an answer while requests failed.
    pub outage: Option<Outage>,
    /// The longest time in which all streams stood still together.
    pub stall: Option<Stall>,
    /// Mean asked prompt tokens, over requests where a length was asked and one is known.
    pub prompt_asked: Option<f64>,
    /// Mean known prompt tokens of the same requests: the server's count where it tells one, else the client's.
    pub prompt_known: Option<f64>,
    /// Whether nothing but the server counted them, so that they hold a chat template which nobody took off the asked length.
    pub prompt_by_server: bool,
    /// Whether the known tokens are the server's count.
    pub prompt_told: bool,
    /// Share of prompt tokens that the server found in its prefix cache; absent where it does not tell.
    pub cached_share: Option<f64>,
}

/// A time in which requests failed and none was answered, counted from the cell's first due time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outage {
    /// When the first of them was due, or the last answer before it ended.
    pub from: Nanos,
    /// When the first request after it was sent that was answered, or the first answer ended, if sooner; absent where nothing was answered.
    pub until: Option<Nanos>,
    /// Requests that failed meanwhile.
    pub failed: u64,
    /// Those of them that found nobody to connect to.
    pub refused: u64,
    /// Whether they are those of one of several endpoints.
    pub of_one_endpoint: bool,
}

/// A time in which answers were under way and none of them got a token, counted from the cell's first due time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stall {
    /// Whether they are those of one of several endpoints, beside which others went on.
    pub of_one_endpoint: bool,
    /// When it began.
    pub from: Nanos,
    /// How long it was.
    pub length: Nanos,
}

/// Requests that were due faster than the client sends them one after another: the longest row of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bunch {
    /// How many.
    pub requests: u64,
    /// From the first due time to the last.
    pub within: Nanos,
    /// Mean time from sending one to sending the next.
    pub each: Nanos,
}

impl CellFacts {
    /// From the measured requests of one cell.
    pub fn of<'a>(records: impl IntoIterator<Item = &'a RequestRecord>) -> Self {
        let (mut keeper, mut samples) = (FactKeeper::default(), SampleKeeper::new(""));
        for record in records {
            keeper.push(record);
            samples.push(record);
        }
        keeper.finish(&samples.finish())
    }
}

/// Collects [`CellFacts`] record by record, so that a long run need not keep its records.
#[derive(Clone, Debug, Default)]
pub struct FactKeeper {
    facts: CellFacts,
    asked: u64,
    known: u64,
    sized: u64,
    cached: u64,
    prompt: u64,
    cache_told: bool,
    /// Sums of the times to a connection and from there to the last byte, and their number.
    connecting: f64,
    to_send: f64,
    sent: u64,
    /// Answers that are short by their count, and of which as many content events came as tokens were asked for.
    filled: u64,
    /// Their content events beyond their count.
    beyond: u64,
    /// When the latest turn of each conversation was over.
    turns: BTreeMap<(u32, u64), Stamp>,
}

impl FactKeeper {
    /// Adds a record; one that is not measured counts for nothing.
    pub fn push(&mut self, record: &RequestRecord) {
        if record.phase != Phase::Measure {
            return;
        }
        let later = record.turn.is_some_and(|turn| turn > 0);
        self.facts.later_turns |= later;
        if let Some(session) = record.session {
            let over = record.wire.closed.unwrap_or(record.due);
            let before = self.turns.insert((record.repeat, session), over);
            let thought = before.filter(|_| later).map(|before| record.due - before);
            self.facts.thought += thought.map_or(Nanos::ZERO, Nanos::or_zero);
        }
        let stopped = matches!(record.wire.outcome, Outcome::Cancelled { .. });
        self.facts.cancelled_unanswered += u64::from(stopped && record.wire.events.is_empty());
        let events = record.wire.events.len() as u64;
        self.facts.all_events += events;
        if !record.wire.outcome.is_completed() {
            let asked = record.asked_output_tokens;
            if let Some(asked) = asked.filter(|asked| events > asked.saturating_mul(2)) {
                self.facts.answers_runaway += 1;
                self.facts.events_runaway += events - asked;
            }
            return;
        }
        if let (Some(ready), Some(sent)) = (record.wire.connected, record.wire.sent) {
            self.to_send += (sent - ready).as_f64();
            let own = Some(&record.wire.connection).filter(|connection| !connection.beforehand);
            let own = own.and_then(ConnectionFacts::set_up);
            self.connecting += own.map_or(0.0, Nanos::as_f64);
            self.sent += 1;
        }
        self.facts.answers_empty += u64::from(record.wire.events.is_empty());
        self.tokens(record);
        // of a later turn the asked length is that of its own message, and the server counts all that was said
        let first = record.turn.is_none_or(|turn| turn == 0);
        let served = record.wire.usage.as_ref().and_then(|u| u.prompt_tokens);
        if let (Some(want), Some(have), true) = (
            record.prompt.asked_tokens,
            served.or(record.prompt.sent_tokens),
            first,
        ) {
            self.facts.prompt_told |= served.is_some();
            self.facts.prompt_by_server |= record.prompt.sent_tokens.is_none();
            self.asked = self.asked.saturating_add(want);
            self.known = self.known.saturating_add(have);
            self.sized += 1;
        }
        if let Some(usage) = &record.wire.usage
            && let (Some(hit), Some(all)) = (usage.cached_tokens, usage.prompt_tokens)
        {
            self.cached = self.cached.saturating_add(hit.min(all));
            self.prompt = self.prompt.saturating_add(all);
            self.cache_told = true;
        }
    }

    /// Output tokens against what was asked and what was seen.
    fn tokens(&mut self, record: &RequestRecord) {
        // what the server said, whatever is believed of it
        let events = &record.wire.events;
        let summed = events
            .tokens()
            .map(|all| all.iter().copied().map(u64::from).sum());
        let told = record.wire.usage.as_ref().and_then(|u| u.completion_tokens);
        let told = told.max(summed);
        let by_text = record.token_source == TokenSource::Tokenizer;
        self.facts.answers_by_text += u64::from(by_text);
        // a count of the text is no sign that an answer is short or long: it may cut the same text into other tokens
        let got = told.or(record.output_tokens).filter(|_| !by_text);
        let streamed = told.filter(|_| record.wire.streamed && record.event_tokens().is_none());
        let streamed =
            streamed.map(|told| told.saturating_sub(record.hidden_tokens().unwrap_or(0)));
        let all = events.len() as u64;
        let missed = streamed.map_or(0, |told| missed(told, all));
        if let (Some(got), Some(want)) = (got, record.asked_output_tokens) {
            self.facts.answers_counted += 1;
            let short = got.saturating_add(missed) < want;
            self.facts.answers_short += u64::from(short);
            let beyond = streamed.and_then(|told| all.checked_sub(told));
            if let Some(beyond) = beyond.filter(|_| short && missed == 0 && fills(all, want)) {
                self.filled += 1;
                self.beyond += beyond;
            }
            self.facts.answers_long += u64::from(got > want);
        }
        let untold = record.wire.streamed && !events.is_empty() && record.output_tokens.is_none();
        self.facts.answers_untold += u64::from(untold);
        if let Some(streamed) = streamed {
            self.facts.tokens_told = self.facts.tokens_told.saturating_add(streamed);
            self.facts.events += all;
            self.facts.answers_missed += u64::from(missed > 0);
            self.facts.tokens_missed += missed;
        }
    }

    /// The facts so far, with what the cell's single requests tell of its server's time.
    pub fn finish(mut self, samples: &CellSamples) -> CellFacts {
        // Tokens that come in pieces are as many events as was asked for by chance only, hardly in most of the short answers.
        if self.filled * 2 > self.facts.answers_short {
            self.facts.answers_short -= self.filled;
            self.facts.answers_missed += self.filled;
            self.facts.tokens_missed += self.beyond;
        }
        let mean = |sum: u64| (self.sized > 0).then(|| sum as f64 / self.sized as f64);
        let by_request = |ns: f64| Nanos::from_secs_f64(ns * 1e-9 / self.sent.max(1) as f64);
        let cached =
            (self.cache_told && self.prompt > 0).then(|| self.cached as f64 / self.prompt as f64);
        CellFacts {
            prompt_asked: mean(self.asked),
            prompt_known: mean(self.known),
            cached_share: cached,
            to_send: by_request(self.to_send),
            connecting: by_request(self.connecting),
            bunch: samples.bunch(),
            outage: samples.outage(),
            stall: samples.stall(),
            ..self.facts
        }
    }
}

/// Content events beyond the tokens that the server told of an answer, where they are many: a token may come in pieces, but hardly every second one.
fn missed(told: u64, events: u64) -> u64 {
    const TOO_FEW: f64 = 0.7;
    let few = (told as f64) < TOO_FEW * events as f64;
    if few { events - told } else { 0 }
}

/// Whether so many content events are as many tokens as was asked for; of many, some may have come together.
fn fills(events: u64, want: u64) -> bool {
    events.abs_diff(want) <= want / 50
}

impl CellSamples {
    /// Of the requests that left more than a millisecond late: whether most were due before the one before them had left, of a row whose first
    /// left in time and that left evenly. What a machine takes away is missing at once, at the beginning of a row or within it.
    fn bunch(&self) -> Option<Bunch> {
        const LATE: Nanos = Nanos::from_millis(1);
        const FEWEST: usize = 5;
        let mut order: Vec<(Stamp, Stamp)> =
            self.requests.iter().map(|r| (r.due, r.start)).collect();
        order.sort_unstable();
        let late = |row: &[(Stamp, Stamp)]| {
            row.iter()
                .filter(|(due, start)| *start - *due > LATE)
                .count()
        };
        let (mut explained, mut longest): (usize, Option<&[(Stamp, Stamp)]>) = (0, None);
        for row in order.chunk_by(|before, next| next.0 < before.1) {
            let (Some((due, first)), Some((_, last))) = (row.first(), row.last()) else {
                continue;
            };
            let own = *first - *due;
            let gaps = row.windows(2).map(|pair| pair[1].1 - pair[0].1);
            let even = gaps.max().is_some_and(|gap| gap + gap <= *last - *first);
            if row.len() < FEWEST || !even {
                continue;
            }
            explained += row
                .iter()
                .filter(|(due, start)| *start - *due > LATE.max(own + own))
                .count();
            longest = longest
                .filter(|other| other.len() >= row.len())
                .or(Some(row));
        }
        let row = longest.filter(|_| explained * 2 > late(&order))?;
        let ((first_due, first), (last_due, last)) = (row.first()?, row.last()?);
        let (kept, of) = (row.len() as u64, self.keep_every.max(1));
        let gaps = (kept - 1).saturating_mul(of).max(1) as f64;
        Some(Bunch {
            requests: kept.saturating_mul(of),
            within: *last_due - *first_due,
            each: Nanos::from_f64((*last - *first).as_f64() / gaps),
        })
    }
}
