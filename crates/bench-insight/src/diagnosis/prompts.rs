//! When prompts were worked on, and what of the streams beside them that explains.

use std::collections::BTreeMap;

use bench_schema::Stamp;

use super::fit::{Line, median, quantile};
use super::spans::Cover;
use super::stops::Stops;
use crate::outages::Standstill;
use crate::samples::{RequestSample, STANDS_OUT};

/// Prompts, and their tokens.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Together {
    pub(super) prompts: f64,
    pub(super) tokens: f64,
}

/// The time in which a prompt was worked on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Prefill {
    /// Without those that the server knew, where it tells.
    pub(super) tokens: u64,
    /// All prompts whose first tokens came after it was sent, up to the moment of its own.
    pub(super) meanwhile: Together,
    /// TTFT of the quick quarter of as long prompts.
    pub(super) quick: f64,
    pub(super) sent: f64,
    pub(super) from: f64,
    pub(super) to: f64,
}

/// When prompts were worked on, or waited to be.
#[derive(Clone, Debug)]
pub(crate) struct Prompts {
    pub(crate) in_progress: Cover,
    firsts: Vec<Firsts>,
    /// The lengths of all stops, and of those that began while nobody waited for a first token, in order.
    stops: Vec<f64>,
    without: Vec<f64>,
}

/// First tokens that came at one moment.
#[derive(Clone, Debug)]
struct Firsts {
    at: f64,
    /// When each was sent, and the tokens of its prompt.
    prompts: Vec<(f64, f64)>,
    /// Prompt tokens behind them.
    tokens: f64,
    /// When the first of them was sent.
    sent: f64,
}

impl Firsts {
    /// Tokens of the prompts that had been sent by then.
    fn tokens_by(&self, at: f64) -> f64 {
        let sent = self.prompts.iter().filter(|prompt| prompt.0 <= at);
        sent.map(|prompt| prompt.1).sum()
    }
}

impl Prompts {
    /// Of these requests, in ns from `epoch`, whose streams stop so.
    pub(crate) fn of_requests<'a, I: Iterator<Item = &'a RequestSample>>(
        requests: impl Fn() -> I,
        epoch: Stamp,
        stops: &Stops,
    ) -> Self {
        Self::of(&prefills(requests, epoch), stops)
    }

    pub(super) fn of(prefills: &[Prefill], stops: &Stops) -> Self {
        let mut each: Vec<&Prefill> = prefills.iter().collect();
        each.sort_by(|a, b| a.to.total_cmp(&b.to));
        let at_once = each.chunk_by(|a, b| b.to - a.to <= 0.5 * stops.usual);
        let step = |of: &[&Prefill]| {
            Some(Firsts {
                at: of.last()?.to,
                prompts: of.iter().map(|p| (p.sent, p.tokens as f64)).collect(),
                tokens: of.iter().map(|p| p.tokens as f64).sum(),
                sent: of.iter().map(|p| p.sent).fold(f64::INFINITY, f64::min),
            })
        };
        let waits = Cover::of(prefills.iter().map(|p| (p.sent, p.to)));
        let alone = |stop: &&Standstill| waits.within(stop.from, begun(stop)) <= 0.0;
        let lengths = |stops: &mut dyn Iterator<Item = &Standstill>| {
            let mut lengths: Vec<f64> = stops.map(|stop| stop.length).collect();
            lengths.sort_by(f64::total_cmp);
            lengths
        };
        let of_all = || stops.of_all.iter().filter(|stop| stop.streams >= 2.0);
        Self {
            in_progress: Cover::of(prefills.iter().map(|p| (p.from, p.to))),
            firsts: at_once.filter_map(step).collect(),
            without: lengths(&mut of_all().filter(alone)),
            stops: lengths(&mut of_all()),
        }
    }

    /// Whether streams stop for as long while nobody's prompt is there too, again and again: what does that is no prompt, and is none beside one either.
    fn come_without(&self, length: f64) -> bool {
        const FEWEST: usize = 3;
        const PART: f64 = 0.2;
        let alike = |of: &[f64]| {
            let until = |most: f64| of.partition_point(|own| *own <= most);
            until(1.25 * length) - until(0.8 * length)
        };
        let without = alike(&self.without);
        without >= FEWEST && without as f64 >= PART * alike(&self.stops) as f64
    }

    /// Whether they are what streams waited for in one of their stops: they were in progress, streams hardly moved until the next first token, and as long prompts
    /// make streams stand still at other times too. Of a prompt that is processed in parts what is left is short: streams stood still since it was sent, and
    /// moved for less than the stop. Behind a queue some are always in progress, and any stop may end with a first token.
    pub(crate) fn explain(&self, stop: &Standstill, stops: &Stops) -> bool {
        /// Share of a stop in which prompts were in progress, from which on they are what it waited for.
        const OF_PROMPTS: f64 = 0.7;
        /// Of the time up to the first token, and of a stop's own length, the part for which streams stand still.
        const STOOD: f64 = 0.5;
        const REST: f64 = 0.75;
        let (from, to) = (stop.from, stop.from + stop.length);
        // A server may make the first token of a prompt and then all others' next.
        let next = self
            .firsts
            .partition_point(|first| first.at < to - 1.5 * stops.usual);
        let Some(firsts) = self.firsts.get(next) else {
            return false;
        };
        // What is sent while streams stand still is none of what they wait for, however many come to wait for them.
        let (first, sent, tokens) = (firsts.at, firsts.sent, firsts.tokens_by(begun(stop)));
        // Where nobody streams nobody stands still or moves, whatever is worked on meanwhile.
        let in_parts = stops.stood(sent, first) >= STOOD * stops.streamed(sent, first);
        let rest = if in_parts {
            REST * stop.length
        } else {
            0.5 * stops.usual
        };
        let moved = stops.streamed(to, first) - stops.stood(to, first);
        moved <= (STOOD * (first - to)).max(rest)
            && self.in_progress.within(from, to) >= OF_PROMPTS * stop.length
            && tokens > 0.0
            && !self.come_without(stop.length)
            && self.make_streams_stand(tokens, first - from, STOOD * stop.length, stops)
    }

    /// Whether streams stand still for so long within some time before first tokens of as many prompt tokens.
    fn make_streams_stand(&self, tokens: f64, within: f64, length: f64, stops: &Stops) -> bool {
        /// Prompts whose beginnings are known are sooner over, and not all servers tell.
        const SHARE: f64 = 0.3;
        /// So many are looked at.
        const MOST: usize = 100;
        // what is shorter is not kept of an answer
        if length < STANDS_OUT * stops.usual {
            return true;
        }
        let alike = |step: &&Firsts| {
            step.tokens >= 0.75 * tokens && stops.streams_at(step.at - 0.5 * within) > 0
        };
        let spread = self.firsts.iter().step_by(self.firsts.len() / MOST + 1);
        let (mut n, mut stood) = (0.0, 0.0);
        for Firsts { at, .. } in spread.filter(alike) {
            let before = stops.stood(at - within, at + 1.5 * stops.usual);
            n += 1.0;
            stood += if before >= length { 1.0 } else { 0.0 };
        }
        stood >= SHARE * n
    }
}

/// Until when a prompt may be sent that a stop's step takes up: a stop is four steps at least.
fn begun(stop: &Standstill) -> f64 {
    stop.from + 0.125 * stop.length
}

/// First tokens of prompts of about one length.
struct Quick {
    n: usize,
    /// TTFT of the quick quarter.
    ttft: f64,
    tokens: f64,
}

impl Quick {
    /// Requests of a length below which all may have been late.
    const FEW: usize = 8;

    fn of(kind: &[(f64, f64)]) -> Option<Self> {
        Some(Self {
            n: kind.len(),
            ttft: quantile(kind.iter().map(|p| p.1).collect(), 0.25)?,
            tokens: median(kind.iter().map(|p| p.0).collect())?,
        })
    }

    /// For a prompt of this length: of a few of them no longer than longer ones take, or than as many tokens of shorter ones.
    fn beside<'a>(&self, tokens: f64, all: impl Iterator<Item = &'a Self>) -> f64 {
        let many = all.filter(|of| self.n < Self::FEW && of.n >= Self::FEW);
        let by = many.map(|of| of.ttft * (tokens / of.tokens.max(1.0)).max(1.0));
        by.fold(self.ttft, f64::min)
    }
}

pub(super) fn prefills<'a, I: Iterator<Item = &'a RequestSample>>(
    requests: impl Fn() -> I,
    epoch: Stamp,
) -> Vec<Prefill> {
    // Prompts of about one length, within a factor of √2: octaves of the square.
    let about = |tokens: u64| tokens.saturating_mul(tokens).max(1).ilog2();
    // What the server knew of a prompt is not worked on.
    let new = |r: &RequestSample| {
        let input = u64::from(r.input_tokens.unwrap_or(0));
        input.saturating_sub(r.cached_tokens.unwrap_or(0).into())
    };
    let told = || {
        requests().filter_map(|r| {
            let (sent, ttft) = ((r.start - epoch).as_f64(), r.ttft?);
            Some((new(r), sent, sent + ttft, ttft))
        })
    };
    let mut kinds: BTreeMap<u32, Vec<(f64, f64)>> = BTreeMap::new();
    for (tokens, _, _, ttft) in told() {
        let kind = kinds.entry(about(tokens)).or_default();
        kind.push((tokens as f64, ttft));
    }
    let quick: BTreeMap<u32, Quick> = kinds
        .into_iter()
        .filter_map(|(length, of)| Some((length, Quick::of(&of)?)))
        .collect();
    let quick = |tokens: u64, ttft: f64| {
        let own = quick.get(&about(tokens));
        own.map_or(ttft, |own| own.beside(tokens as f64, quick.values()))
    };
    let each = Line::of(
        &told()
            .map(|(n, .., ttft)| (n as f64, ttft))
            .collect::<Vec<_>>(),
    )
    .slope;
    let mut alone: Vec<(Prefill, f64)> = told()
        .map(|(tokens, sent, first, ttft)| {
            let quick = quick(tokens, ttft);
            let prefill = Prefill {
                tokens,
                meanwhile: Together::default(),
                quick,
                sent,
                from: sent,
                to: first,
            };
            (prefill, quick)
        })
        .collect();
    in_steps(&mut alone, each);
    let hidden = requests().filter(|r| r.ttft.is_some());
    let of_each = alone
        .into_iter()
        .zip(hidden.map(RequestSample::hidden_time));
    let without = of_each.map(|((prefill, takes), hidden)| {
        let to = prefill.to - hidden;
        Prefill {
            from: prefill.from.max(to - 1.2 * (takes - hidden).max(0.0)),
            to,
            ..prefill
        }
    });
    without.collect()
}

/// Counts what was processed before each first token, and adds what the others of its step cost; each with the time that it takes alone.
fn in_steps(prompts: &mut [(Prefill, f64)], each: f64) {
    let mut by_end: Vec<&mut (Prefill, f64)> = prompts.iter_mut().collect();
    by_end.sort_by(|a, b| a.0.to.total_cmp(&b.0.to));
    // Within a tenth of what the quicker one takes it is one moment.
    let at_once = |a: &Prefill, b: &Prefill| b.to - a.to <= 0.1 * a.quick.min(b.quick);
    // Prompts of one length tell what a token costs where more or fewer of them share a step.
    let each = if each > 0.0 {
        each
    } else {
        // The largest step may be all that came during a stop of the server.
        let steps = || by_end.chunk_by(|a, b| at_once(&a.0, &b.0));
        let largest = steps().map(<[_]>::len).enumerate().max_by_key(|(_, n)| *n);
        let rest = steps()
            .enumerate()
            .filter(|(i, _)| largest.is_none_or(|(largest, _)| largest != *i));
        let points = rest.flat_map(|(_, step)| {
            let tokens: f64 = step.iter().map(|(prefill, _)| prefill.tokens as f64).sum();
            step.iter()
                .map(move |(prefill, _)| (tokens, prefill.to - prefill.sent))
        });
        Line::of(&points.collect::<Vec<_>>()).slope
    };
    // When first tokens came, with all prompts and tokens until then.
    let mut until: Vec<(f64, Together)> = Vec::new();
    let mut all = Together::default();
    for step in by_end.chunk_by_mut(|a, b| at_once(&a.0, &b.0)) {
        let tokens: f64 = step.iter().map(|(prefill, _)| prefill.tokens as f64).sum();
        let one_by_one: f64 = step.iter().map(|(prefill, _)| prefill.quick).sum();
        let to = step.last().map_or(0.0, |(prefill, _)| prefill.to);
        all.prompts += step.len() as f64;
        all.tokens += tokens;
        for (prefill, takes) in step {
            let ended = until.partition_point(|(to, _)| *to <= prefill.sent);
            let before = ended.checked_sub(1).and_then(|last| until.get(last));
            let before = before.map_or(Together::default(), |(_, before)| *before);
            prefill.meanwhile = Together {
                prompts: all.prompts - before.prompts,
                tokens: all.tokens - before.tokens,
            };
            // Together they take no longer than one after the other: when a server goes on after a stop, all first tokens come at once.
            let others = each * (tokens - prefill.tokens as f64);
            *takes += others.min(one_by_one - prefill.quick);
        }
        until.push((to, all));
    }
}

#[cfg(test)]
#[path = "../../tests/unit/diagnosis_prompts.rs"]
mod tests;
