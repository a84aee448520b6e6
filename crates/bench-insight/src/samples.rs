//! Single requests, as far as time, length and outcome go: what the diagnosis looks at beside the cells.

mod packed;
mod silence;

use std::collections::BTreeMap;

use bench_schema::{
    Counts, Exchange, FailureKind, Nanos, Outcome, Phase, RequestRecord, Stage, Stamp,
};
use packed::PackedSamples;
pub use silence::Silence;

use crate::diagnosis::median;

/// One completed request, or one that was stopped on purpose while it was answered.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RequestSample {
    /// Index in the cell's plan; with `repeat` the same request in another run of the plan.
    pub id: u64,
    /// Which repeat of the cell, from 0.
    pub repeat: u32,
    /// When the schedule wanted it to start; in a closed loop, when its slot became free.
    pub due: Stamp,
    /// When it was sent.
    pub start: Stamp,
    /// Its last content event.
    pub end: Stamp,
    /// First content event − sent, ns; absent for an answer without content.
    pub ttft: Option<f64>,
    /// Prompt tokens; four billion stand for more, as in all counts.
    pub input_tokens: Option<u32>,
    /// Output tokens.
    pub output_tokens: Option<u32>,
    /// Content events.
    pub events: u32,
    /// Moments at which these came: a server that guesses tokens ahead sends several at one.
    pub moments: u32,
    /// How many of these came with the first.
    pub at_first: u32,
    /// Tokens of reasoning that the server made before the first it sent, by its own count.
    pub hidden_tokens: Option<u32>,
    /// Prompt tokens that the server found in its prefix cache, where it tells.
    pub cached_tokens: Option<u32>,
    /// Index of the target URL.
    pub endpoint: u32,
    /// Gaps between content events that stand out: when each began, and its length in ns. At most 32, the longest, in order of time.
    pub stalls: Box<[(Stamp, f64)]>,
    /// Moments that part its content events into 2, 4, … equal numbers: absent where it has few, and in cells of very many requests.
    pub parts: Box<[Stamp]>,
    /// Label of the kind of request.
    pub use_case: Option<Box<str>>,
    /// Whether its connection ended before a byte of the answer, and it was asked again on another.
    pub replaced: bool,
    /// Whether its first or its last event may have come so much before it was read that nobody knows its time per token.
    pub read_late: bool,
}

impl RequestSample {
    /// Last content event − sent, ns.
    pub fn e2e(&self) -> f64 {
        (self.end - self.start).as_f64()
    }

    /// Output tokens that came as content events.
    pub fn streamed_tokens(&self) -> Option<u32> {
        Some(
            self.output_tokens?
                .saturating_sub(self.hidden_tokens.unwrap_or(0)),
        )
    }

    /// What the tokens before the first that was sent took, at the pace of those behind it, ns: no prompt is processed in that time.
    pub(crate) fn hidden_time(&self) -> f64 {
        let hidden = self.hidden_tokens.map(f64::from).zip(self.tpot());
        let hidden = hidden.map_or(0.0, |(tokens, each)| tokens * each);
        hidden.min(self.ttft.unwrap_or(0.0))
    }

    /// Time per output token after the first, ns; absent for fewer than two tokens, for an answer that came at once, and where TTFT is.
    pub fn tpot(&self) -> Option<f64> {
        let decode = self.e2e() - self.ttft?;
        let gaps = self.streamed_tokens()?.checked_sub(1).filter(|n| *n > 0)?;
        (decode > 0.0).then(|| decode / f64::from(gaps))
    }
}

/// A request that was sent or should have been, and got no whole answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LostSample {
    /// Which repeat of the cell.
    pub repeat: u32,
    /// When it was to start.
    pub due: Stamp,
    /// When it was over.
    pub end: Stamp,
    /// Whether the whole request was handed to the socket.
    pub sent: bool,
    /// What became of it.
    pub how: Lost,
    /// HTTP status, once there was one.
    pub status: Option<u16>,
    /// Index of the target URL.
    pub endpoint: u32,
}

/// How a request was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// The server or the network failed.
    Failed(Stage, FailureKind),
    /// The client's limit was reached.
    TimedOut,
    /// The stream just ended.
    Truncated,
    /// It was never sent.
    Unsent,
}

impl Lost {
    /// How many requests of a cell were lost so; absent in results that do not part their failures.
    pub(crate) fn counted(self, counts: &Counts) -> Option<u64> {
        let of = |same: &dyn Fn(Stage, FailureKind) -> bool| {
            let failures = counts.failures.iter();
            let failures = failures.filter(|(stage, kind, _)| same(*stage, *kind));
            failures.map(|(.., n)| n).sum::<u64>()
        };
        match self {
            Self::Failed(stage, kind) => {
                let all = of(&|_, _| true) == counts.failed;
                all.then(|| of(&|at, what| (at, what) == (stage, kind)))
            }
            Self::TimedOut => Some(counts.timed_out),
            Self::Truncated => Some(counts.truncated),
            Self::Unsent => Some(counts.unsent),
        }
    }
}

/// The measured requests of one cell.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CellSamples {
    /// The cell.
    pub cell: String,
    /// The completed ones, ordered by `start`.
    pub requests: Vec<RequestSample>,
    /// The others, ordered by `due`; those that were stopped on purpose are not among them.
    pub lost: Vec<LostSample>,
    /// Those that were stopped on purpose after something of their answer had come.
    pub stopped: Vec<RequestSample>,
    /// Answers of the warm-up that were under way when the first request was due: while one of them streams, the server does not stand still. Their stalls are
    /// those from then on.
    pub warm_up: Vec<RequestSample>,
    /// When no token came in a warm-up, of each repeat in which one did not for long.
    pub silences: Vec<Silence>,
    /// Of how many requests one is kept; 0 and 1 mean all.
    pub keep_every: u64,
}

/// Beyond these many requests a cell's single requests are thinned out evenly: memory stays bounded.
const MOST_SAMPLES: usize = 200_000;
/// What each of many cells may keep all the same.
const FEWEST_SAMPLES: usize = 5_000;
/// A gap stands out from this multiple of its answer's median gap on.
pub(crate) const STANDS_OUT: f64 = 4.0;
/// Bundles of an answer from which on there is a usual gap between them.
const BUNDLES: usize = 4;
/// Of the mean gap, what is none.
pub(crate) const NOTHING: f64 = 0.05;
/// Events of a part of an answer, at least.
const PART: usize = 8;
/// Into how many parts an answer is divided, at most.
const MOST_PARTS: usize = 64;
/// Moments of them that are kept of a cell; of more, every second.
const MOST_PARTED: usize = 4_096;
/// So many requests of a cell tell by themselves how its speed changes; of more, no parts are kept.
pub(crate) const FEW: usize = 1_000;
/// Gaps that are kept of one answer.
const MOST_STALLS: usize = 32;
/// Answers of the warm-up that are kept, the last to end.
const MOST_WARM_UP: usize = 4_096;

/// Collects [`CellSamples`] record by record. Beyond 200,000 requests only every second, fourth, … one is kept.
#[derive(Clone, Debug)]
pub struct SampleKeeper {
    samples: CellSamples,
    /// The completed ones, as they end.
    completed: PackedSamples,
    seen: u64,
    most: usize,
    /// Into how many parts an answer is divided now, and how many moments that took.
    most_parts: usize,
    parted: usize,
}

impl SampleKeeper {
    /// Nothing of this cell yet.
    pub fn new(cell: &str) -> Self {
        Self {
            samples: CellSamples {
                cell: cell.to_owned(),
                keep_every: 1,
                ..CellSamples::default()
            },
            completed: PackedSamples::default(),
            seen: 0,
            most: MOST_SAMPLES,
            most_parts: MOST_PARTS,
            parted: 0,
        }
    }

    /// One of so many cells, whose samples are kept together until the run ends: they share the room, but each has enough for its findings.
    #[must_use]
    pub fn share_of(mut self, cells: usize) -> Self {
        self.most = (MOST_SAMPLES / cells.max(1)).max(FEWEST_SAMPLES);
        self
    }

    /// Adds the record.
    pub fn push(&mut self, record: &RequestRecord) {
        if record.phase != Phase::Measure {
            let warm_up = &mut self.samples.warm_up;
            warm_up.extend(sample(record));
            if warm_up.len() > 2 * MOST_WARM_UP {
                warm_up.drain(..MOST_WARM_UP);
            }
            return;
        }
        self.seen += 1;
        let kept = &mut self.samples;
        if !self.seen.is_multiple_of(kept.keep_every) {
            return;
        }
        match record.wire.outcome {
            Outcome::Completed => {
                if let Some(mut completed) = sample(record) {
                    if self.completed.len() < FEW {
                        completed.parts = parts(record, self.most_parts);
                        self.parted += completed.parts.len();
                    }
                    self.completed.push(&completed);
                }
            }
            Outcome::Cancelled { .. } => kept.stopped.extend(sample(record)),
            _ => kept.lost.extend(lost(record)),
        }
        if self.completed.len() + kept.lost.len() + kept.stopped.len() > self.most {
            let mut index = 0_u64;
            let all = std::mem::take(&mut self.completed).into_requests();
            for request in all.filter(|_| every_second(&mut index)) {
                self.completed.push(&request);
            }
            kept.lost.retain(|_| every_second(&mut index));
            kept.stopped.retain(|_| every_second(&mut index));
            kept.keep_every *= 2;
        }
        self.keep_fewer_parts();
    }

    /// Halves the numbers of parts until their moments have room.
    fn keep_fewer_parts(&mut self) {
        while self.parted > MOST_PARTED && self.most_parts > 1 {
            self.most_parts /= 2;
            self.parted = 0;
            for mut request in std::mem::take(&mut self.completed).into_requests() {
                while request.parts.len() >= self.most_parts {
                    let every_second = request.parts.iter().skip(1).step_by(2);
                    request.parts = every_second.copied().collect();
                }
                self.parted += request.parts.len();
                self.completed.push(&request);
            }
        }
    }

    /// The samples, in the order in which the requests started.
    pub fn finish(mut self) -> CellSamples {
        self.samples.requests.reserve_exact(self.completed.len());
        self.samples.requests.extend(self.completed.into_requests());
        self.samples.requests.sort_by_key(|request| request.start);
        self.samples.lost.sort_by_key(|lost| lost.due);
        self.samples.keep_of_warm_up();
        self.samples
    }
}

fn every_second(index: &mut u64) -> bool {
    *index += 1;
    index.is_multiple_of(2)
}

impl CellSamples {
    /// The repeats that were measured, the one with the most requests first.
    pub(crate) fn repeats(&self) -> Vec<u32> {
        let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
        let completed = self.requests.iter().map(|request| request.repeat);
        for repeat in completed.chain(self.lost.iter().map(|lost| lost.repeat)) {
            *counts.entry(repeat).or_default() += 1;
        }
        let mut repeats: Vec<(u32, usize)> = counts.into_iter().collect();
        repeats.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
        repeats.into_iter().map(|(repeat, _)| repeat).collect()
    }

    fn keep_of_warm_up(&mut self) {
        let due = self.requests.iter().chain(&self.stopped);
        let due = due.map(|request| (request.repeat, request.due));
        let lost = self.lost.iter().map(|lost| (lost.repeat, lost.due));
        let mut began: BTreeMap<u32, Stamp> = BTreeMap::new();
        for (repeat, due) in due.chain(lost) {
            let first = began.entry(repeat).or_insert(due);
            *first = due.min(*first);
        }
        let silence = |(&repeat, &began): (&u32, &Stamp)| self.silence(repeat, began);
        self.silences = began.iter().filter_map(silence).collect();
        let is_under_way = |warm: &mut RequestSample| {
            let Some(&began) = began.get(&warm.repeat) else {
                return false;
            };
            let rest = |(at, length): &(Stamp, f64)| {
                let before = (began - *at).or_zero();
                let rest = length - before.as_f64();
                (rest > 0.0).then_some((*at + before, rest))
            };
            warm.stalls = warm.stalls.iter().filter_map(rest).collect();
            warm.start < began && began < warm.end
        };
        self.warm_up.retain_mut(is_under_way);
    }

    /// Of a repeat whose measurement began then, with as much of that as there is of the warm-up.
    fn silence(&self, repeat: u32, began: Stamp) -> Option<Silence> {
        let is_own = |request: &&RequestSample| request.repeat == repeat;
        let first = self
            .warm_up
            .iter()
            .filter(is_own)
            .map(|request| request.start)
            .min()?;
        let until = began + (began - first);
        let measured = self.requests.iter().chain(&self.stopped);
        let measured = measured.filter(|request| request.start < until);
        let all = self.warm_up.iter().chain(measured).filter(is_own);
        let all: Vec<_> = all.collect();
        Silence::of(repeat, &all, began)
    }

    /// From the records of a run: the measured requests of `cell`. All times are from `sent`.
    pub fn of<'a>(cell: &str, records: impl IntoIterator<Item = &'a RequestRecord>) -> Self {
        let mut keeper = SampleKeeper::new(cell);
        records
            .into_iter()
            .filter(|record| record.cell == cell)
            .for_each(|record| keeper.push(record));
        keeper.finish()
    }
}

fn sample(record: &RequestRecord) -> Option<RequestSample> {
    let wire = &record.wire;
    let start = wire.sent?;
    let (first, end) = (wire.events.first()?, wire.events.last()?);
    let ns = |span: Nanos| span.as_f64();
    let narrow = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
    let (stalls, moments) = stalls(record);
    Some(RequestSample {
        id: record.id,
        repeat: record.repeat,
        due: record.due,
        start,
        end,
        ttft: wire.streamed.then(|| ns(first - start)),
        input_tokens: record.input_tokens().map(narrow),
        output_tokens: record.output_tokens.map(narrow),
        events: narrow(wire.events.len() as u64),
        moments: narrow(moments as u64),
        at_first: narrow(at_first(record) as u64),
        hidden_tokens: record.hidden_tokens().filter(|n| *n > 0).map(narrow),
        cached_tokens: (wire.usage.as_ref())
            .and_then(|usage| usage.cached_tokens)
            .map(narrow),
        endpoint: wire.connection.endpoint,
        stalls,
        parts: Box::default(),
        use_case: record.use_case.as_deref().map(Box::from),
        replaced: wire.connection.replaced > 0,
        read_late: is_read_late(wire),
    })
}

/// Whether the stamps of its first and its last event leave a thirtieth of the time between them open, or of all its time where nothing lies between.
fn is_read_late(wire: &Exchange) -> bool {
    const OPEN: f64 = 1.0 / 30.0;
    let events = &wire.events;
    let last = events.len().saturating_sub(1);
    let (Some(sent), Some(first), Some(end)) = (wire.sent, events.first(), events.last()) else {
        return false;
    };
    let from = if first < end { first } else { sent };
    let open = events.bound(0).max(events.bound(last));
    open.as_f64() > OPEN * (end - from).as_f64()
}

fn lost(record: &RequestRecord) -> Option<LostSample> {
    let wire = &record.wire;
    let how = match wire.outcome {
        Outcome::Completed | Outcome::Cancelled { .. } => return None,
        Outcome::Failed { stage, failure, .. } => Lost::Failed(stage, failure),
        Outcome::TimedOut { .. } => Lost::TimedOut,
        Outcome::Truncated { .. } => Lost::Truncated,
        Outcome::Unsent { .. } => Lost::Unsent,
    };
    Some(LostSample {
        repeat: record.repeat,
        due: record.due,
        end: record.last_instant(),
        sent: wire.sent.is_some(),
        how,
        status: wire.status,
        endpoint: wire.connection.endpoint,
    })
}

/// The gaps of an answer that stand out from its median gap; where most events come with the one before, from that of the others. And how many events do not.
fn stalls(record: &RequestRecord) -> (Box<[(Stamp, f64)]>, usize) {
    let stamps: Vec<Stamp> = record.wire.events.stamps().collect();
    let each = stamps.windows(2);
    let each: Vec<(Stamp, f64)> = each
        .map(|pair| (pair[0], (pair[1] - pair[0]).as_f64()))
        .collect();
    let mut gaps: Vec<f64> = each.iter().map(|(_, gap)| *gap).collect();
    if gaps.len() < 3 {
        return (Box::default(), stamps.len());
    }
    let typical = |gaps: &mut [f64]| {
        let middle = gaps.len() / 2;
        *gaps.select_nth_unstable_by(middle, f64::total_cmp).1
    };
    let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
    let mut median = typical(&mut gaps);
    let all = gaps.len();
    gaps.retain(|gap| *gap >= NOTHING * mean);
    let moments = 1 + gaps.len();
    // fewer are the stops themselves
    if median < NOTHING * mean && gaps.len() >= BUNDLES.max(all / 10) {
        median = typical(&mut gaps);
    }
    let least = STANDS_OUT * median.max(mean / 2.0);
    let usual = pace(&stamps).unwrap_or(median);
    let events = &record.wire.events;
    let stands_out = |(i, gap): (usize, &(Stamp, f64))| {
        let may_be_read_late = gap.1 - events.bound(i + 1).as_f64() <= least;
        let seen = gap.1 >= SEEN && !may_be_read_late;
        (gap.1 > least && (seen || !is_made_up(each.get(i..)?, usual))).then_some(*gap)
    };
    let mut found: Vec<(Stamp, f64)> = each.iter().enumerate().filter_map(stands_out).collect();
    found.sort_by(|a, b| b.1.total_cmp(&a.1));
    found.truncate(MOST_STALLS);
    found.sort_by_key(|(at, _)| *at);
    (found.into(), moments)
}

/// The moments at which an answer's parts end, but for the last.
fn parts(record: &RequestRecord, most: usize) -> Box<[Stamp]> {
    let gaps = record.wire.events.len().saturating_sub(1);
    let Some(halvings) = (gaps / PART).min(most).checked_ilog2().filter(|n| *n > 0) else {
        return Box::default();
    };
    let parts = 1_usize << halvings;
    let stamps: Vec<Stamp> = record.wire.events.stamps().collect();
    let ends = (1..parts).filter_map(|part| stamps.get(part * gaps / parts));
    ends.copied().collect()
}

/// How many events come at the moment of the first.
fn at_first(record: &RequestRecord) -> usize {
    let events = &record.wire.events;
    let gaps = events.len().saturating_sub(1) as f64;
    let (Some(first), Some(last)) = (events.first(), events.last()) else {
        return 0;
    };
    let nothing = NOTHING * (last - first).as_f64() / gaps;
    let mut from = first;
    let with_it = events.stamps().skip(1).take_while(|at| {
        let gap = *at - std::mem::replace(&mut from, *at);
        gap.as_f64() < nothing
    });
    1 + with_it.count()
}

/// The usual time from one event to the next, however unevenly they travel: over eight of them, where there are as many.
fn pace(stamps: &[Stamp]) -> Option<f64> {
    const OVER: usize = 8;
    let spans = stamps.iter().zip(stamps.get(OVER..)?);
    median(
        spans
            .map(|(from, to)| (*to - *from).as_f64() / OVER as f64)
            .collect(),
    )
}

/// So long a gap is seen by users, though what was late on its way comes with it.
const SEEN: f64 = 1e8;

/// Whether a gap is a token that was late on its way, or read late: those behind it come the sooner, so that soon a part of the delay is gone.
fn is_made_up(from_it: &[(Stamp, f64)], usual: f64) -> bool {
    const LEFT: f64 = 0.8;
    let Some(((_, gap), behind)) = from_it.split_first() else {
        return false;
    };
    let late = gap - usual;
    let (mut passed, mut left) = (0.0, late);
    let soon = behind.iter().take_while(|(_, gap)| {
        passed += gap;
        passed <= SEEN
    });
    let mut left = soon.map(|(_, gap)| {
        left += gap - usual;
        left
    });
    left.any(|left| left <= LEFT * late)
}

#[cfg(test)]
#[path = "../tests/unit/samples.rs"]
mod tests;
