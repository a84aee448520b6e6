//! When a server was away, and when its streams stood still, from its answers alone.

use std::collections::BTreeSet;

use bench_schema::{FailureKind, Nanos, Stage, Stamp};

use crate::diagnosis::{Cover, Prompts, Stops, median, quantile};
use crate::facts::{Outage, Stall};
use crate::samples::{CellSamples, Lost, LostSample, RequestSample};

/// A shorter time is a gap between two answers, or a long one between tokens.
pub(crate) const SHORTEST: Nanos = Nanos::from_millis(500);

impl CellSamples {
    fn began(&self) -> Option<Stamp> {
        let due = self.requests.iter().map(|request| request.due);
        let stopped = self.stopped.iter().map(|stopped| stopped.start);
        due.chain(stopped)
            .chain(self.lost.iter().map(|lost| lost.due))
            .min()
    }

    /// The time in which most requests failed and none was answered.
    pub(crate) fn outage(&self) -> Option<Outage> {
        let answered = self.requests.iter().chain(&self.stopped);
        outage(answered, self.lost.iter(), self.began()?)
    }

    /// The longest time in which answers were under way, of all endpoints or of one while others went on, and none of them got a token, though no prompt
    /// that takes so long was in progress.
    pub(crate) fn stall(&self) -> Option<Stall> {
        let began = self.began()?;
        let all: Vec<&RequestSample> = self.requests.iter().chain(&self.stopped).collect();
        let warm_up: Vec<&RequestSample> = self.warm_up.iter().collect();
        let stall = |of: &[&RequestSample], warm_up: &[_], others: &[&RequestSample]| {
            let found = longest_stop((of, warm_up), others, began)?;
            Some(Stall {
                from: Nanos::from_f64(found.from),
                length: Nanos::from_f64(found.length),
                of_one_endpoint: !others.is_empty(),
            })
        };
        let of_one = endpoints(all.iter().copied()).into_iter().map(|endpoint| {
            let is_own = |request: &&RequestSample| request.endpoint == endpoint;
            let (own, others): (Vec<_>, Vec<_>) = all.iter().copied().partition(is_own);
            let warm_up: Vec<_> = warm_up.iter().copied().filter(is_own).collect();
            stall(&own, &warm_up, &others)
        });
        let found = of_one.chain([stall(&all, &warm_up, &[])]).flatten();
        let longest = found.max_by_key(|stall| stall.length);
        longest.filter(|stall| stall.length >= SHORTEST)
    }
}

/// The longest time in which none of some answers and of those that the warm-up left got a token, and others did, where there are any; no prompt that takes
/// so long was in progress.
fn longest_stop(
    (of, warm_up): (&[&RequestSample], &[&RequestSample]),
    others: &[&RequestSample],
    began: Stamp,
) -> Option<Standstill> {
    let stops = Stops::of(&[of, warm_up].concat(), began, 1.0);
    let all = || of.iter().copied();
    let prompts = Prompts::of_requests(all, began, &stops);
    let streams = stops.of_all.iter().copied();
    let streams = streams.filter(|stop| !prompts.explain(stop, &stops));
    let own = stops.one_by_one;
    let prompts = &prompts.in_progress;
    let silences = silences(all, warm_up, began, (prompts, own), Some(|| false));
    let found = streams.chain(silences);
    let found = found.filter(|stop| go_on_beside(others, stop, began));
    found.max_by(|a, b| a.length.total_cmp(&b.length))
}

/// The endpoints of requests, where there are several.
pub(crate) fn endpoints<'a>(requests: impl Iterator<Item = &'a RequestSample>) -> Vec<u32> {
    let found: BTreeSet<u32> = requests.map(|request| request.endpoint).collect();
    let several = found.into_iter().collect::<Vec<_>>();
    if several.len() > 1 {
        several
    } else {
        Vec::new()
    }
}

/// Whether others got tokens in the midst of a stop, in ns from `epoch`; of no others nothing is asked. What one server does for several addresses stops all of them.
pub(crate) fn go_on_beside(others: &[&RequestSample], stop: &Standstill, epoch: Stamp) -> bool {
    const EDGE: f64 = 0.1;
    let (from, to) = (stop.from, stop.from + stop.length);
    let (from, to) = (from + EDGE * stop.length, to - EDGE * stop.length);
    let got_one = |request: &&RequestSample| {
        let (sent, end) = (
            (request.start - epoch).as_f64(),
            (request.end - epoch).as_f64(),
        );
        let first = request.ttft.map_or(end, |ttft| sent + ttft);
        let still = request.stalls.iter().map(|(at, length)| {
            let at = (*at - epoch).as_f64();
            (at + length).min(to) - at.max(from)
        });
        let streams = first <= from && end >= to && still.fold(0.0, f64::max) < 0.5 * (to - from);
        streams || [first, end].iter().any(|at| (from..to).contains(at))
    };
    others.is_empty() || others.iter().any(got_one)
}

/// The [`stretch_of_failures`] of all endpoints, or of one that failed while others were there: that these answered nothing for a moment is chance.
pub(crate) fn outage<'a>(
    answers: impl Iterator<Item = &'a RequestSample>,
    lost: impl Iterator<Item = &'a LostSample>,
    began: Stamp,
) -> Option<Outage> {
    let (answers, lost): (Vec<_>, Vec<_>) = (answers.collect(), lost.collect());
    let of = |is_own: &dyn Fn(u32) -> bool| {
        let own = answers.iter().filter(|answer| is_own(answer.endpoint));
        let own = own.map(|answer| (answer.start, answer.end));
        let lost = lost.iter().copied().filter(|lost| is_own(lost.endpoint));
        stretch_of_failures(own, lost, began)
    };
    let at = answers.iter().map(|answer| answer.endpoint);
    let endpoints: BTreeSet<u32> = at.chain(lost.iter().map(|lost| lost.endpoint)).collect();
    if endpoints.len() < 2 {
        let whole = of(&|_| true)?;
        return Some(Outage {
            of_one_endpoint: false,
            ..whole
        });
    }
    let of_one = endpoints
        .iter()
        .filter_map(|one| of(&|endpoint| endpoint == *one));
    let of_several = of(&|_| true).filter(|outage| !outage.of_one_endpoint);
    of_one.chain(of_several).max_by_key(|outage| outage.failed)
}

/// The stretch of failures without an answer between them that holds most of them, of answers (sent, last content event) and lost requests that
/// began with `began`. It begins when the first of them was due, but not before the last answer, and is over when a request is sent that is
/// answered, or with an answer that ends before. A request that was lost although a later one was answered tells nothing of it, nor does one that was never sent.
///
/// It is none where requests that were sent in it were answered later: at first nothing has been answered yet, and where some fail by chance no answer may end for a
/// moment.
fn stretch_of_failures<'a>(
    answers: impl Iterator<Item = (Stamp, Stamp)>,
    lost: impl Iterator<Item = &'a LostSample>,
    began: Stamp,
) -> Option<Outage> {
    /// Of those that failed, so many may be answered who were sent as it began or ended.
    const SERVED: f64 = 0.25;
    let mut answers: Vec<(Stamp, Stamp)> = answers.collect();
    answers.sort_unstable_by_key(|(_, end)| *end);
    let mut starts: Vec<Stamp> = answers.iter().map(|(start, _)| *start).collect();
    starts.sort_unstable();
    // the latest start of an answer that had ended by then
    let mut last_sent = began;
    let ends: Vec<(Stamp, Stamp)> = answers
        .iter()
        .map(|(start, end)| {
            last_sent = last_sent.max(*start);
            (last_sent, *end)
        })
        .collect();
    let mut lost: Vec<&LostSample> = lost.filter(|lost| lost.how != Lost::Unsent).collect();
    lost.sort_by_key(|lost| lost.end);
    let answered = |lost: &LostSample| ends.partition_point(|(_, end)| *end <= lost.end);
    let of = |together: &[&LostSample]| {
        let first = together.first()?;
        let before = answered(first);
        let answer = before.checked_sub(1).and_then(|i| ends.get(i));
        let after = |lost: &&&LostSample| answer.is_none_or(|(sent, _)| lost.due >= *sent);
        let within = || together.iter().filter(after);
        let due = within().map(|lost| lost.due).min()?;
        let end = within().map(|lost| lost.end).max()?;
        let from = answer.map_or(due, |(_, end)| due.max(*end));
        let back = starts
            .get(starts.partition_point(|start| *start < end))
            .copied();
        // whatever comes first: an answer to one that was sent before or meanwhile, or one that was sent later
        let next = ends.get(before).map(|(_, end)| *end);
        let until = next.map(|next| back.map_or(next, |back| back.min(next)));
        // Who was sent meanwhile and answered later was sent to a server that was there.
        let sent = |at: Stamp| starts.partition_point(|start| *start < at);
        let served = sent(end).saturating_sub(sent(from)) as f64;
        let none_served = served < SERVED * within().count() as f64;
        (none_served && until.unwrap_or(end) - from >= SHORTEST).then(|| Outage {
            from: (from - began).or_zero(),
            until: until.map(|until| until - began),
            failed: within().count() as u64,
            refused: within().filter(|lost| is_refusal(lost)).count() as u64,
            of_one_endpoint: within().all(|lost| lost.endpoint == first.endpoint),
        })
    };
    let all = lost
        .chunk_by(|a, b| answered(a) == answered(b))
        .filter_map(of);
    all.max_by_key(|outage| outage.failed)
}

/// Whether nobody was there to answer.
fn is_refusal(lost: &LostSample) -> bool {
    matches!(
        lost.how,
        Lost::Failed(Stage::Connect, _)
            | Lost::Failed(_, FailureKind::Refused | FailureKind::Unreachable)
    )
}

/// A stretch in which streams stood still, in ns from some epoch, with the most that did.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Standstill {
    pub(crate) from: f64,
    pub(crate) length: f64,
    pub(crate) streams: f64,
}

impl Standstill {
    /// From when to when.
    pub(crate) fn span(&self) -> (f64, f64) {
        (self.from, self.from + self.length)
    }
}

/// Stretches in which at least this part of the streams stood still.
pub(crate) fn standstills<'a>(
    requests: impl Iterator<Item = &'a RequestSample>,
    epoch: Stamp,
    part: f64,
) -> Vec<Standstill> {
    let ns = |at: Stamp| (at - epoch).as_f64();
    let mut edges: Vec<(f64, f64, f64)> = Vec::new();
    for request in requests {
        let Some(ttft) = request.ttft else { continue };
        edges.push((ns(request.start) + ttft, 1.0, 0.0));
        edges.push((ns(request.end), -1.0, 0.0));
        for (at, length) in &request.stalls {
            let from = ns(*at);
            edges.push((from, 0.0, 1.0));
            edges.push((from + length, 0.0, -1.0));
        }
    }
    edges.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.2.total_cmp(&b.2)));
    let goes_on = edges.iter().filter(|edge| edge.2 < 0.0).map(|edge| edge.0);
    let goes_on: Vec<f64> = goes_on.collect();
    let found = stretches(edges, |streams, at_rest| {
        (at_rest >= 1.0 && at_rest >= part * streams).then_some(at_rest)
    });
    let pieces = |all: Standstill| without_tokens(all, &goes_on, (1.0 - part) * all.streams);
    found.into_iter().flat_map(pieces).collect()
}

/// The pieces of a stretch between which more than a few streams got a token: each stood still again at once, and all together they did not.
fn without_tokens(all: Standstill, goes_on: &[f64], few: f64) -> Vec<Standstill> {
    let to = all.from + all.length;
    let begun = goes_on.partition_point(|at| *at <= all.from);
    let ended = goes_on.partition_point(|at| *at < to);
    let within = goes_on.get(begun..ended).unwrap_or_default();
    if within.len() as f64 <= few {
        return vec![all];
    }
    let starts = std::iter::once(all.from).chain(within.iter().copied());
    let ends = within.iter().copied().chain([to]);
    let piece = |(from, to): (f64, f64)| Standstill {
        from,
        length: to - from,
        ..all
    };
    starts.zip(ends).map(piece).collect()
}

/// TTFT of the requests that found nobody else under way, where they are a few.
pub(crate) fn ttft_alone<'a>(
    requests: impl Iterator<Item = &'a RequestSample>,
) -> Option<Vec<f64>> {
    const FEWEST: usize = 5;
    let mut spans: Vec<(Stamp, Stamp, Option<f64>)> =
        requests.map(|r| (r.start, r.end, r.ttft)).collect();
    spans.sort_by_key(|span| span.0);
    let mut busy = None;
    let mut alone = Vec::new();
    for (start, end, ttft) in spans {
        if busy.is_none_or(|busy| busy <= start) {
            alone.extend(ttft);
        }
        busy = busy.max(Some(end));
    }
    (alone.len() >= FEWEST).then_some(alone)
}

/// Share of the time in which all stalls of a slow start lie.
pub(crate) const EARLY: f64 = 0.4;
/// Share of the time, multiple of the median TTFT, and nanoseconds from which a silence counts; shorter than this it may be the machine's.
const LONG_SILENCE: (f64, f64, f64) = (0.02, 3.0, 5e8);
/// Share of the time, and multiple of the median TTFT, from which a silence that a single request met counts: a shorter one may be that request's own.
const LONG_ALONE: (f64, f64) = (0.05, 10.0);
/// So many of them at the most: more are the requests' own, too.
pub(crate) const MOST_ALONE: usize = 2;

/// Long stretches after the first answer in which requests were under way, none of them and of those that the warm-up left got a token, and no prompt explains it. Where
/// few answers stream, a server that stands still keeps its users from their first tokens. Streams that stand still one by one do so by themselves. A server that starts slowly may be silent at
/// first; one that had answered others before does not start.
pub(crate) fn silences<'a, I: Iterator<Item = &'a RequestSample>>(
    requests: impl Fn() -> I,
    warm_up: &[&'a RequestSample],
    epoch: Stamp,
    (prompts, one_by_one): (&Cover, bool),
    starts_slowly: Option<impl FnOnce() -> bool>,
) -> Vec<Standstill> {
    let ends = || requests().map(|request| (request.end - epoch).as_f64());
    let whole = ends().fold(0.0, f64::max);
    let firsts: Vec<f64> = requests().filter_map(|request| request.ttft).collect();
    let come_whole = firsts.is_empty();
    let whole_times = || median(requests().map(RequestSample::e2e).collect());
    let Some(usual) = median(firsts).or_else(whole_times) else {
        return Vec::new();
    };
    // Who comes to a server that does nothing may have to wake it, and others wait with them.
    let alone = ttft_alone(requests()).and_then(|alone| quantile(alone, 0.75));
    let usual = alone.map_or(usual, |alone| alone.max(usual));
    let (share, times, least) = LONG_SILENCE;
    let least = (share * whole).max(least);
    // Nobody is told what a model thinks.
    let hidden = median(requests().map(RequestSample::hidden_time).collect()).unwrap_or(0.0);
    let (mut long, least) = if come_whole {
        (between_answers(&requests, epoch, least), least)
    } else {
        let all = requests().chain(warm_up.iter().copied());
        let mut long = all_wait(all, epoch, one_by_one);
        for silence in &mut long {
            silence.length -= hidden;
        }
        (long, least.max(times * (usual - hidden)))
    };
    let of_prompts = |s: &Standstill| prompts.within(s.from, s.from + s.length);
    long.retain(|s| s.length >= least && of_prompts(s) < 0.5 * s.length);
    let waits = Waits::of(requests(), epoch, one_by_one);
    long.retain(|s| !waits.meet_by_chance(s));
    // One by one it is requests that are slow, not the server that stops.
    let (share, times) = LONG_ALONE;
    let alone = |s: &Standstill| s.streams < 2.0;
    let least_alone = (share * whole).max(times * usual);
    long.retain(|s| !alone(s) || s.length >= least_alone);
    let seldom = long.iter().filter(|s| alone(s)).count() <= MOST_ALONE;
    long.retain(|s| seldom || !alone(s));
    let Some(starts_slowly) = starts_slowly else {
        return long;
    };
    let is_early = long
        .last()
        .is_some_and(|last| last.from + last.length < EARLY * whole);
    if is_early && (long.len() > 1 || starts_slowly()) {
        return Vec::new();
    }
    let first_end = ends().fold(f64::INFINITY, f64::min);
    long.retain(|s| s.from >= first_end);
    long
}

/// From when to when requests waited for their first tokens, and whether one that was sent later had its own well before.
struct Waits {
    each: Vec<(f64, f64, bool)>,
    /// When streams stood still, unless they do so one by one.
    still: Vec<(f64, f64)>,
}

impl Waits {
    fn of<'a>(
        requests: impl Iterator<Item = &'a RequestSample>,
        epoch: Stamp,
        one_by_one: bool,
    ) -> Self {
        /// Of a wait.
        const WELL: f64 = 0.1;
        let ns = |at: Stamp| (at - epoch).as_f64();
        let (mut each, mut still) = (Vec::new(), Vec::new());
        for request in requests {
            let sent = ns(request.start);
            each.extend(request.ttft.map(|ttft| (sent, sent + ttft, false)));
            let stalls = request.stalls.iter().filter(|_| !one_by_one);
            still.extend(stalls.map(|(at, length)| (ns(*at), ns(*at) + length)));
        }
        each.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut soonest = f64::INFINITY;
        for (sent, first, overtaken) in each.iter_mut().rev() {
            *overtaken = soonest < *first - WELL * (*first - *sent);
            soonest = soonest.min(*first);
        }
        Self { each, still }
    }

    /// Whether a stretch in which nobody gets a token needs no stop: no stream stands still in it, and as many as wait through a part of it, were not overtaken and
    /// go on together are late at once by chance, as often as others are who were overtaken.
    fn meet_by_chance(&self, stop: &Standstill) -> bool {
        const CHANCE: f64 = 0.05;
        const PART: f64 = 0.25;
        /// Of the stretch, how long after it those go on who go on together.
        const TOGETHER: f64 = 0.2;
        let end = stop.from + stop.length;
        let through = |from: f64, to: f64| to.min(end) - from.max(stop.from);
        let meets = |(sent, first, overtaken): &&(f64, f64, bool)| {
            let together = *first <= end + TOGETHER * stop.length;
            !overtaken && together && through(*sent, *first) >= PART * stop.length
        };
        let is_own = |(sent, first, overtaken): &&(f64, f64, bool)| {
            *overtaken && first - sent >= stop.length / 2.0
        };
        let (n, own) = (
            self.each.len() as f64,
            self.each.iter().filter(is_own).count(),
        );
        let each = TOGETHER * own as f64 / n;
        let met = self.each.iter().filter(meets);
        let by_chance = met.fold(n / TOGETHER, |so_far, _| so_far * each);
        let mut still = self.still.iter();
        let streams = still.any(|(from, to)| through(*from, *to) >= stop.length / 2.0);
        own > 0 && !streams && by_chance >= CHANCE
    }
}

/// Stretches between answers that come whole, longer than any of those under way usually takes.
fn between_answers<'a, I: Iterator<Item = &'a RequestSample>>(
    requests: &impl Fn() -> I,
    epoch: Stamp,
    least: f64,
) -> Vec<Standstill> {
    const TO_SPARE: f64 = 1.5;
    let ns = |at: Stamp| (at - epoch).as_f64();
    let each = requests().filter_map(|r| Some(r.e2e() / f64::from(r.output_tokens?)));
    let each = median(each.filter(|each| each.is_finite()).collect()).unwrap_or(0.0);
    let mut ends: Vec<f64> = requests().map(|request| ns(request.end)).collect();
    ends.sort_by(f64::total_cmp);
    let takes = |r: &RequestSample| each * f64::from(r.output_tokens.unwrap_or(0));
    let silent = |pair: &[f64]| {
        let (before, after) = (*pair.first()?, *pair.last()?);
        (after - before >= least).then_some(())?;
        let held = || requests().filter(|r| ns(r.start) < after && ns(r.end) >= after);
        let sent = held().map(|r| ns(r.start)).fold(f64::INFINITY, f64::min);
        let from = before.max(sent);
        let first = || held().filter(|r| ns(r.start) <= from);
        let works = TO_SPARE * first().map(takes).fold(0.0, f64::max);
        // whoever was under way all the time took longer by as much
        let longer = first().map(|r| r.e2e() - takes(r)).fold(0.0, f64::max);
        let length = longer.min(after - from);
        (after - from >= works && length >= least).then(|| Standstill {
            from,
            length,
            streams: held().count() as f64,
        })
    };
    ends.windows(2).filter_map(silent).collect()
}

/// Stretches in which requests were under way and none of them got a token, with the most that were; or none had got its first, where streams stand
/// still one by one.
pub(crate) fn all_wait<'a>(
    requests: impl Iterator<Item = &'a RequestSample>,
    epoch: Stamp,
    one_by_one: bool,
) -> Vec<Standstill> {
    let ns = |at: Stamp| (at - epoch).as_f64();
    // (when, requests in flight, of them with tokens flowing)
    let mut edges: Vec<(f64, f64, f64)> = Vec::new();
    for request in requests {
        let (sent, end) = (ns(request.start), ns(request.end));
        edges.push((sent, 1.0, 0.0));
        edges.push((end, -1.0, 0.0));
        let Some(ttft) = request.ttft else { continue };
        edges.push((sent + ttft, 0.0, 1.0));
        edges.push((end, 0.0, -1.0));
        for (at, length) in request.stalls.iter().filter(|_| !one_by_one) {
            let from = ns(*at);
            edges.push((from, 0.0, -1.0));
            edges.push((from + length, 0.0, 1.0));
        }
    }
    edges.sort_by(|a, b| a.0.total_cmp(&b.0).then(b.2.total_cmp(&a.2)));
    stretches(edges, |under_way, flowing| {
        (under_way >= 1.0 && flowing < 1.0).then_some(under_way)
    })
}

/// Walks over `(when, change of one count, change of another)`, in order: the stretches in which `standing` makes of the two counts how
/// many streams stand still, each with the most that did.
pub(crate) fn stretches(
    edges: Vec<(f64, f64, f64)>,
    standing: impl Fn(f64, f64) -> Option<f64>,
) -> Vec<Standstill> {
    let (mut one, mut other) = (0.0, 0.0);
    let mut open: Option<Standstill> = None;
    let mut found = Vec::new();
    for (at, change, of_other) in edges {
        one += change;
        other += of_other;
        match (&mut open, standing(one, other)) {
            (None, Some(streams)) => {
                open = Some(Standstill {
                    from: at,
                    length: 0.0,
                    streams,
                });
            }
            (Some(stall), Some(streams)) => stall.streams = stall.streams.max(streams),
            (Some(stall), None) => {
                stall.length = at - stall.from;
                found.push(*stall);
                open = None;
            }
            (None, None) => {}
        }
    }
    found
}

#[cfg(test)]
#[path = "../tests/unit/outages.rs"]
mod tests;
