//! What the time to the first token is made of: waiting, the prompt, other people's prompts, or a known beginning.

use bench_schema::{Cause, Evidence, Experiment, Finding, Known, Metric, PhaseShares};

use super::fit::two_levels;
use super::fit::{Line, mean, median, quantile, squares};
use super::late;
use super::load::in_flight;
use super::look::Look;
use super::prompts::Prefill;
use super::quiet::Quiet;
use crate::draft::{Draft, of_cell};
use crate::outages::ttft_alone;
use crate::samples::RequestSample;
use crate::signals::Signal;
use crate::view;

/// Share of E2E from which waiting costs users something.
pub(super) const WAITING: f64 = 0.1;
/// The same where it is only inferred from quicker prompts at lower load: those of one wave wait for each other's prefill.
const INFERRED: f64 = 0.25;
/// Share of E2E from which prefill does.
const PREFILL: f64 = 0.3;
/// The same where it may be waiting as well.
const EITHER: f64 = 0.25;
/// A first token that takes as long as these many others is late.
const LATE: f64 = 20.0;
/// TTFT over that of the same prompts alone, from which something is in between.
const SLOWER: f64 = 1.5;

/// What is known of waiting in a cell that does not show it.
#[derive(Default)]
struct Waited {
    /// Its share of E2E, where the server tells.
    told: Option<f64>,
    /// The figure that shows that it is small. A server's own count is none: prompts that wait for each other's prefill run, by that count.
    excluded: Option<(Known, f64)>,
    /// Whether equal prompts differ so much that something is in between.
    differs: bool,
}

/// Shares of E2E until the first token.
pub(super) struct Start {
    pub(super) ttft: f64,
    /// Of that, what tokens take that the server tells and does not send, or that are kept until several can be sent.
    hidden: f64,
    pub(super) e2e: f64,
    /// The usual time from one token to the next.
    gap: Option<f64>,
}

impl Start {
    pub(super) fn of(look: &Look<'_>) -> Option<Self> {
        let ttft = look
            .mean(|r| r.ttft)
            .or_else(|| view::mean(look.cell, Metric::Ttft))?;
        let e2e = look
            .mean(|r| r.ttft.map(|_| r.e2e()))
            .or_else(|| view::mean(look.cell, Metric::E2e))?;
        // The median gap: a mean one is as long as what interrupts the tokens makes it. Where tokens come several at a time, the median is nothing.
        let bundled = view::in_bundles(look.cell);
        let gap = super::load::gap(look.cell).filter(|_| !bundled);
        let bundle = bundled.then(|| {
            let longest = view::quantile(look.cell, Metric::Icl, 0.99);
            longest.filter(|gap| *gap > 0.0).unwrap_or(ttft)
        });
        let tokens = look.mean(|r| r.hidden_tokens.map(f64::from));
        let gaps = view::mean(look.cell, Metric::Icl);
        let hidden = tokens.zip(gaps).map_or(0.0, |(n, each)| n * each);
        Some(Self {
            ttft,
            hidden: (hidden + bundle.unwrap_or(0.0)).min(ttft),
            e2e,
            gap: gap.or_else(|| look.tpot()),
        })
    }

    /// Whether a first token takes longer than so many others.
    fn is_late(&self, times: f64) -> bool {
        self.gap
            .is_some_and(|gap| self.ttft - self.hidden > times * gap)
    }

    fn share(&self) -> f64 {
        (self.ttft - self.hidden) / self.e2e
    }
}

/// Waiting, prefill, or that nothing here tells one from the other.
pub(super) fn waiting_or_prefill(look: &Look<'_>, quiet: Option<&Quiet>) -> Option<Finding> {
    if let Some(found) = queue_of_phases(look) {
        return Some(found);
    }
    // What is in between keeps them, whatever the server does meanwhile.
    if crate::server_phases::held_back(look.cell).is_some() {
        return None;
    }
    let Some(start) = Start::of(look) else {
        return queue_of_whole_answers(look);
    };
    let waited = match waiting(look, quiet, &start) {
        Ok(found) => return Some(found),
        Err(waited) => waited,
    };
    if !waited.differs && (waited.told.is_some() || waited.excluded.is_some()) && is_prefill(look) {
        let found = prefill(look, &start, &waited);
        if found.is_some() || waited.told.is_none_or(|told| told < WAITING) {
            return found;
        }
    }
    if start.share() <= EITHER || !start.is_late(LATE) {
        return None;
    }
    either(look, start.share(), waited.told)
}

/// Whether those that were sent last wait for their first tokens.
pub(super) fn waits_at_last(look: &Look<'_>) -> bool {
    const PART: f64 = 0.1;
    let last = || look.seen.iter().rev().take(look.seen.len() / 4);
    let ttft = mean(last().filter_map(|s| s.request.ttft));
    let whole = mean(last().map(|s| s.end - s.sent));
    ttft.zip(whole)
        .is_none_or(|(ttft, whole)| ttft > PART * whole)
}

/// The share of E2E that passes before the first token, where that is so much, and so much longer than any other takes, that nobody can call it nothing.
pub(super) fn is_long(look: &Look<'_>) -> Option<f64> {
    /// Of a first token over the median gap.
    const LONG: f64 = 8.0;
    let start = Start::of(look).filter(|start| start.is_late(LONG))?;
    Some(start.share()).filter(|share| *share > EITHER)
}

/// Whether nothing tells how much of the time is waiting: answers come whole, and neither they nor the server's metrics say it. One at a time wait for nobody.
pub(super) fn is_untold(look: &Look<'_>) -> bool {
    Start::of(look).is_none() && !queue_is_told(look) && look.concurrency() != Some(1)
}

/// Whether the server tells anything of how much of the time is waiting.
pub(super) fn queue_is_told(look: &Look<'_>) -> bool {
    let phases = look.cell.phases.as_ref();
    phases.is_some_and(PhaseShares::queue_is_told)
        || level(look, Signal::Waiting).is_some()
        || crate::signals::derived(look.cell, "server_queue_share").is_some()
}

/// A long way to the first token of prompts so short that a server processes them in a few steps, in a closed loop: they wait for something.
pub(super) fn of_short_prompts(look: &Look<'_>) -> Option<Finding> {
    /// Time of a prompt token over that of an output token, from which on it is not processing.
    const SHORT: f64 = 0.125;
    let start =
        Start::of(look).filter(|start| start.share() > PREFILL && is_long(look).is_some())?;
    let short = start.ttft / view::input_tokens(look.cell)? >= SHORT * start.gap?;
    (short && !look.is_open() && look.concurrency() != Some(1)).then_some(())?;
    either(look, start.share(), None)
}

/// A long way to the first token that nothing here takes apart, with what the server counts of it as waiting.
pub(super) fn either(look: &Look<'_>, cost: f64, told: Option<f64>) -> Option<Finding> {
    late::late_kind(look).or_else(|| untold(look, cost, told))
}

/// The same whatever single requests tell.
pub(super) fn untold(look: &Look<'_>, cost: f64, told: Option<f64>) -> Option<Finding> {
    let start = Start::of(look)?;
    // One request at a time waits for no other.
    let (alone, others) = match look.concurrency() {
        Some(1) => (Some(1.0), None),
        _ => (None, in_flight(look)),
    };
    Draft::in_cell(Cause::WaitingOrPrefill, cost, look.cell)
        .because(Known::TtftShare, start.share())
        .because(Known::Ttft, start.ttft)
        .because(Known::InFlight, others)
        .because(Known::QueueShare, told)
        .rules_out(Cause::Queueing, Known::InFlight, alone)
        .refuted_by(match (told, look.concurrency()) {
            (_, Some(1)) => Experiment::BesideTheServer,
            (Some(_), _) => Experiment::OneAtATime,
            _ => Experiment::WithServerMetrics,
        })
        .done()
}

/// Requests of an open loop that take longer than others before their first token: waiting, where the server tells that it is.
pub(super) fn by_chance(look: &Look<'_>, cost: f64) -> Option<Finding> {
    let shares = look.cell.phases.as_ref();
    let told = shares.filter(|p| p.queue_is_told());
    match told {
        // Of the users' time no more is lost in a queue than passes in it, however much slower that makes a short answer.
        Some(told) if told.queue > told.prefill => queueing(look, told, cost.min(told.queue)),
        _ => either(look, cost, told.map(|told| told.queue)),
    }
}

/// The server's own queue time, or that of its answers.
fn queue_of_phases(look: &Look<'_>) -> Option<Finding> {
    let shares = look.cell.phases.as_ref()?;
    let told = shares.queue_is_told();
    if !told || shares.queue < WAITING || waits_elsewhere(look, shares.queue) {
        return None;
    }
    if nobody_is_held(look) && shares.queue <= shares.prefill {
        // A prompt that is over soon waits for the next step on any server.
        Start::of(look).filter(|start| shares.prefill > PREFILL && start.is_late(LATE))?;
        // What it calls its queue is told beside it, and is no part of what prefill costs.
        return Draft::in_cell(Cause::Prefill, shares.prefill, look.cell)
            .because(Known::PrefillShare, shares.prefill)
            .because(Known::QueueShare, shares.queue)
            .because(Known::Running, level(look, Signal::Running))
            .because(Known::InFlight, in_flight(look))
            .refuted_by(Experiment::OneAtATime)
            .done();
    }
    if is_slow_alone(look) {
        return None;
    }
    queueing(look, shares, shares.queue)
}

/// Waiting by the server's own account, of answers that come whole and tell no time to a first token.
fn queue_of_whole_answers(look: &Look<'_>) -> Option<Finding> {
    let (waits, running) = (level(look, Signal::Waiting), level(look, Signal::Running));
    let counted = waits.zip(running).filter(|(waits, _)| *waits >= 0.5);
    let share = crate::signals::derived(look.cell, "server_queue_share")
        .or_else(|| counted.map(|(waits, running)| waits / (waits + running)))?;
    if share < WAITING || nobody_is_held(look) || waits_elsewhere(look, share) {
        return None;
    }
    Draft::in_cell(Cause::Queueing, share, look.cell)
        .because(Known::QueueShare, share)
        .because(Known::Waiting, waits)
        .because(Known::Running, running)
        .refuted_by(Experiment::HigherLimit)
        .done()
}

/// Waiting for one of a number of places by the answers alone, where the server does not tell: of those that hold their first token none does.
pub(super) fn of_places(look: &Look<'_>) -> Option<Finding> {
    if look.concurrency() == Some(1) {
        return None;
    }
    let places = look
        .places()
        .filter(|p| p.after_first || !queue_is_told(look))?;
    if places.may_be_prefill {
        return untold(look, places.share, None);
    }
    let (until_first, after_first) = if places.after_first {
        (None, Some(places.share))
    } else {
        (Start::of(look).map(|start| start.share()), None)
    };
    Draft::in_cell(Cause::Queueing, places.share, look.cell)
        .because(Known::Waiting, places.waiting)
        .because(Known::Running, places.running)
        .because(Known::TtftShare, until_first)
        .because(Known::PauseShare, after_first)
        .refuted_by(Experiment::HigherLimit)
        .done()
}

/// Whether requests of an open loop that found nobody else under way wait as long for their first token as all do: whatever the server counts as
/// its queue, it is not others that they wait for.
fn is_slow_alone(look: &Look<'_>) -> bool {
    let start = Start::of(look).filter(|start| look.is_open() && start.is_late(LATE));
    let alone = ttft_alone(look.seen.iter().map(|seen| seen.request));
    start
        .zip(alone.and_then(|alone| mean(alone.into_iter())))
        .is_some_and(|(start, alone)| alone * SLOWER >= start.ttft)
}

/// From when and for how long requests queue, where that is one part of the time: next to all first tokens are late in it, and next to none before
/// or after.
pub(super) fn queued_for(look: &Look<'_>) -> Vec<Evidence> {
    /// Over the quick quarter's of as long prompts.
    const LATE: f64 = 3.0;
    /// Of the variance of being late or not.
    const LEFT: f64 = 0.15;
    let prompts = look.prefills().iter();
    let mut firsts: Vec<(f64, f64)> = prompts
        .map(|p| (p.sent, f64::from(u8::from(p.to - p.sent > LATE * p.quick))))
        .collect();
    firsts.sort_by(|a, b| a.0.total_cmp(&b.0));
    let late: Vec<f64> = firsts.iter().map(|p| p.1).collect();
    let most = LEFT * squares(late.iter().copied());
    let two = two_levels(&late, FEWEST.max(late.len() / 10));
    let two = two.filter(|two| most > 0.0 && two.left <= most);
    let at = two.as_ref().and_then(|two| firsts.get(two.n));
    let Some((two, (at, _))) = two.as_ref().zip(at) else {
        return Vec::new();
    };
    let (from, to) = if two.before > two.after {
        (0.0, *at)
    } else {
        (*at, look.whole())
    };
    let from_when = Some(from).filter(|from| *from > 0.0 || !look.begins);
    let told = from_when.map(|from| (Known::At, from));
    let told = told.into_iter().chain([(Known::Lasted, to - from)]);
    told.map(|(figure, value)| of_cell(figure, value, &look.cell.id))
        .collect()
}

/// Whether far fewer answers stream while requests wait for their first tokens than at other times: then no limit on running requests is what they wait for.
pub(super) fn is_below_its_limit(look: &Look<'_>) -> bool {
    const LATE: f64 = 3.0;
    const PART: f64 = 0.7;
    let streaming = look.streams();
    let firsts = look.seen.iter().filter_map(|s| s.first);
    let most = quantile(
        firsts.map(|first| streaming.at(first) as f64).collect(),
        0.9,
    );
    let late = look
        .prefills()
        .iter()
        .filter(|p| p.to - p.sent > LATE * p.quick);
    let waits = late.map(|p| (p.to - p.sent, streaming.mean(p.sent, p.to)));
    let (waited, beside) = waits.fold((0.0, 0.0), |(all, sum), (wait, n)| {
        (all + wait, sum + wait * n)
    });
    most.is_some_and(|most| beside < PART * most * waited)
}

/// What the server tells of waiting.
fn queueing(look: &Look<'_>, shares: &PhaseShares, cost: f64) -> Option<Finding> {
    let percentiles = shares.by_percentile.iter();
    let median = percentiles.copied().find(|(q, ..)| (q - 0.5).abs() < 1e-9);
    let quiet = crate::signals::derived(look.cell, "server_prefill_mean");
    Draft::in_cell(Cause::Queueing, cost, look.cell)
        .because(Known::QueueShare, shares.queue)
        .because(Known::QueueTimeP50, median.map(|m| m.1))
        .because(Known::GenerationTimeP50, median.map(|m| m.2))
        .because(Known::Waiting, level(look, Signal::Waiting))
        .because(Known::Running, level(look, Signal::Running))
        .rules_out(
            Cause::Prefill,
            Known::PrefillShare,
            Some(shares.prefill).filter(|_| quiet.is_some()),
        )
        .refuted_by(Experiment::HigherLimit)
        .done()
}

/// Whether as many ran at once as there were slots: then no limit of the server held a request back, and what it calls its queue is the
/// time until the next step takes the prompt up, which is no longer than prompts take.
pub(super) fn nobody_is_held(look: &Look<'_>) -> bool {
    let most = Signal::Running.of(look.cell).map(|running| running.peak);
    look.concurrency()
        .zip(most)
        .is_some_and(|(slots, most)| most >= f64::from(slots))
}

/// Whether the server tells that nobody waits in its queue, or hardly anybody beside what it counts as queue time.
pub(super) fn nobody_waits(look: &Look<'_>) -> bool {
    let told = look.cell.phases.as_ref().filter(|p| p.queue_is_told());
    level(look, Signal::Waiting) == Some(0.0)
        || told.is_some_and(|told| waits_elsewhere(look, told.queue))
}

/// Whether far fewer requests wait than a queue of that share of E2E holds in a closed loop (Little's law): then the server counts as its queue
/// what passes before its scheduler knows of the request, which no limit on running requests changes.
fn waits_elsewhere(look: &Look<'_>, share: f64) -> bool {
    /// Of those that would wait.
    const FEW: f64 = 0.25;
    let slots = look.concurrency().filter(|_| !look.is_open());
    let waiting = level(look, Signal::Waiting);
    let at_work = level(look, Signal::Running).is_some_and(|running| running > 0.0);
    at_work
        && slots
            .zip(waiting)
            .is_some_and(|(slots, waiting)| waiting < FEW * share * f64::from(slots))
}

fn level(look: &Look<'_>, signal: Signal) -> Option<f64> {
    signal.of(look.cell).map(|level| level.mean)
}

/// Waiting by the best reading there is, or what is known of it.
fn waiting(look: &Look<'_>, quiet: Option<&Quiet>, start: &Start) -> Result<Finding, Waited> {
    if look.concurrency() == Some(1) {
        return Err(Waited {
            excluded: Some((Known::InFlight, 1.0)),
            ..Waited::default()
        });
    }
    let shares = look.cell.phases.as_ref();
    let told = shares.filter(|p| p.queue_is_told());
    let gauge = level(look, Signal::Waiting);
    let running = level(look, Signal::Running).unwrap_or(0.0);
    let share = |waits: f64| waits / (waits + running).max(f64::MIN_POSITIVE);
    // What the server says of every request counts more than a gauge that is read now and then.
    let seen = gauge.filter(|waits| told.is_none() && *waits >= 0.5);
    // However often the gauge met the moment between two steps: nobody waits in the queue for longer than for a first token.
    let seen = seen.map(|waits| (waits, share(waits).min(start.share())));
    let seen = seen.filter(|(_, cost)| *cost >= WAITING && !nobody_is_held(look));
    if let Some((waits, cost)) = seen {
        let found = Draft::in_cell(Cause::Queueing, cost, look.cell)
            .because(Known::Waiting, waits)
            .because(Known::Running, running)
            .because(Known::TtftShare, start.share())
            .refuted_by(Experiment::HigherLimit);
        return found.done().ok_or_else(Waited::default);
    }
    let told = told.map(|told| told.queue).or_else(|| gauge.map(share));
    let is_queue = |f: &Finding| f.cause() == Some(Cause::Queueing) && f.severity >= WAITING;
    // Arrivals by chance wait for their first tokens on any server.
    let by_chance = |f: &Finding| look.is_open() && f.figure(&Known::PauseShare.into()).is_none();
    if let Some(found) = of_places(look).filter(|f| is_queue(f) && !by_chance(f)) {
        return Ok(found);
    }
    let alone = quiet.and_then(|quiet| Some(quiet.ttft? * quiet.by_time));
    if let Some(alone) = alone.filter(|t| *t > 0.0) {
        let lost = (start.ttft - alone) / start.e2e;
        // As much as would be told as one or the other is told as what it is.
        let is_little = lost < INFERRED && start.share() <= EITHER;
        if start.ttft < alone * in_steps(look).max(SLOWER) || is_little {
            return Err(Waited {
                told,
                excluded: Some((Known::QuietTtft, alone)),
                differs: false,
            });
        }
        let more = quiet.is_none_or(|quiet| quiet.fewer_are_late(look));
        if !more || !waits_more_than_it_slows(look, quiet, start.ttft / alone) {
            return either(look, lost, told).ok_or_else(Waited::default);
        }
        let found = Draft::in_cell(Cause::Queueing, lost, look.cell)
            .because(Known::Ttft, start.ttft)
            .because(Known::QuietTtft, alone)
            .because(Known::InFlight, in_flight(look))
            .because(Known::QueueShare, told)
            .rules_out(Cause::Prefill, Known::QuietTtft, Some(alone))
            .refuted_by(Experiment::WithServerMetrics);
        return found.done().ok_or_else(Waited::default);
    }
    let by_length = explained_by_length(look);
    Err(Waited {
        told,
        excluded: by_length.map(|by| (Known::TtftByLength, by.share)),
        differs: told.is_some() && by_length.is_none() && differs(look, start),
    })
}

/// First tokens up to a request's own since it was sent, on average, where streams stand still meanwhile or there are none: those prompts are processed with its own, and
/// it waits for no place. One where streams go on.
fn in_steps(look: &Look<'_>) -> f64 {
    let stops = look.stops();
    let mut firsts: Vec<f64> = look.seen.iter().filter_map(|s| s.first).collect();
    firsts.sort_by(f64::total_cmp);
    let until = |at: f64| firsts.partition_point(|first| *first <= at);
    let together = look.seen.iter().filter_map(|s| {
        let (sent, first) = (s.sent, s.first?);
        // Of no streams it is not known: those of its own moment.
        let from = if stops.streams_at(f64::midpoint(sent, first)) == 0 {
            first - stops.usual / 2.0
        } else {
            sent
        };
        let still = from > sent || stops.stood(sent, first) >= (first - sent) / 2.0;
        let all = until(first + stops.usual / 2.0).saturating_sub(until(from));
        Some(if still { all.max(1) as f64 } else { 1.0 })
    });
    mean(together).unwrap_or(1.0)
}

/// Whether first tokens take longer by more than all others do: what shares a server with others slows as a whole. Answers of one token tell nothing
/// of that.
fn waits_more_than_it_slows(look: &Look<'_>, quiet: Option<&Quiet>, longer: f64) -> bool {
    let slower = super::load::of_tokens(look).zip(quiet.and_then(|quiet| quiet.tpot));
    slower.is_some_and(|(now, quiet)| longer >= SLOWER * now / quiet)
}

/// Whether first tokens take much longer than those of the quick quarter of as long prompts.
fn differs(look: &Look<'_>, start: &Start) -> bool {
    look.quick_ttft()
        .is_some_and(|quick| start.ttft >= SLOWER * quick)
}

/// What a line over prompt length tells of TTFT.
#[derive(Clone, Copy, Debug)]
struct ByLength {
    /// Of the mean TTFT, what grows with the prompt.
    share: f64,
    per_token: f64,
}

/// A line over prompt length that explains most of TTFT, where single requests lie near it: waiting does not grow with one's own prompt. Or a line
/// over that of all prompts whose first tokens came since it was sent, where it is their length and not how many they are: a server that has
/// some in progress, or processes several together, has a prompt wait for those.
fn explained_by_length(look: &Look<'_>) -> Option<ByLength> {
    const MOST: f64 = 0.6;
    let own = prompts(look);
    let ttft = mean(own.iter().map(|p| p.1))?;
    let off = |points: &[(f64, f64)], line: Line| {
        median(points.iter().map(|p| (p.1 - line.at(p.0)).abs()).collect())
    };
    let along = |points: &[(f64, f64)], otherwise: f64| {
        let line = Line::of(points);
        let input = mean(points.iter().map(|p| p.0))?;
        let near = line.slope > 0.0 && off(points, line)? < 0.5 * otherwise;
        (near && points.len() >= 10).then(|| ByLength {
            share: line.slope * input / ttft,
            per_token: line.slope,
        })
    };
    let level = Line {
        intercept: ttft,
        slope: 0.0,
    };
    let steps = |of: fn(&Prefill) -> f64| -> Vec<(f64, f64)> {
        let all = look.prefills().iter();
        all.map(|p| (of(p), p.to - p.sent)).collect()
    };
    let many = steps(|p| p.meanwhile.prompts);
    let found = [
        along(&own, off(&own, level)?),
        along(&steps(|p| p.meanwhile.tokens), off(&many, Line::of(&many))?),
    ];
    let best = found.into_iter().flatten();
    let best = best.max_by(|a, b| a.share.total_cmp(&b.share));
    best.filter(|by| by.share >= MOST)
}

fn prompts(look: &Look<'_>) -> Vec<(f64, f64)> {
    look.seen
        .iter()
        .filter_map(|s| Some((f64::from(s.request.input_tokens?), s.request.ttft?)))
        .collect()
}

/// Whether what is no waiting is prefill and not the way to the server and back: it grows with the prompt, or the server counts as much of it.
fn is_prefill(look: &Look<'_>) -> bool {
    let told = |name: &str| crate::signals::derived(look.cell, name);
    let most = look.mean(|r| r.ttft).unwrap_or(0.0) / 2.0;
    let counted = match told("server_prefill_mean") {
        Some(prefill) => prefill >= most,
        None => told("server_ttft_mean").is_some(),
    };
    counted || explained_by_length(look).is_some()
}

/// Prefill, once waiting is excluded or the server counts little of it.
fn prefill(look: &Look<'_>, start: &Start, waited: &Waited) -> Option<Finding> {
    let share = start.share() - waited.told.unwrap_or(0.0);
    if share <= PREFILL || !start.is_late(LATE) {
        return None;
    }
    let per_token = explained_by_length(look).map(|by| by.per_token);
    let mut draft = Draft::in_cell(Cause::Prefill, share, look.cell)
        .because(Known::PrefillShare, share)
        .because(Known::Ttft, start.ttft)
        .because(Known::PromptTokens, view::input_tokens(look.cell))
        .because(Known::TtftPerToken, per_token)
        .because(Known::QueueShare, waited.told);
    if let Some((figure, value)) = waited.excluded {
        draft = draft.rules_out(Cause::Queueing, figure, Some(value));
    }
    let experiment = match look.concurrency() {
        Some(1) => Experiment::BesideTheServer,
        _ => Experiment::OneAtATime,
    };
    draft.refuted_by(experiment).done()
}

/// Requests that are needed on each side.
pub(super) const FEWEST: usize = 5;
/// TTFT with a known beginning over that without, up to which the cache helps.
const QUICKER: f64 = 0.7;

/// Share of a prompt that the server found in its cache, where it tells.
fn cached_share(request: &RequestSample) -> Option<f64> {
    let (cached, input) = (request.cached_tokens?, request.input_tokens?);
    (input > 0).then(|| f64::from(cached) / f64::from(input))
}

/// Whether the server knew the beginning of a prompt.
pub(super) fn is_known(request: &RequestSample) -> bool {
    /// Share of the prompt from which on it makes a difference.
    const KNOWN: f64 = 0.3;
    cached_share(request).is_some_and(|share| share >= KNOWN)
}

/// TTFT of the requests whose beginning the server knew, and of those whose it did not.
fn by_beginning(look: &Look<'_>) -> (Vec<f64>, Vec<f64>) {
    let told = look.seen.iter().map(|s| s.request);
    let told = told.filter(|r| cached_share(r).is_some() && r.ttft.is_some());
    let (known, unknown): (Vec<_>, Vec<_>) = told.partition(|r| is_known(r));
    let ttft = |of: Vec<&RequestSample>| of.iter().filter_map(|r| r.ttft).collect();
    (ttft(known), ttft(unknown))
}

/// Whether the server is quicker for prompts whose beginnings it knew, however few it did not.
pub(super) fn is_cached(look: &Look<'_>) -> bool {
    let (known, unknown) = by_beginning(look);
    let enough = known.len() >= FEWEST;
    let both = median(known).zip(median(unknown)).filter(|_| enough);
    both.is_some_and(|(with, without)| with <= QUICKER * without)
}

/// Requests whose beginning the server knew, beside those whose it did not, where as much of others' prompts was worked on until their first tokens: those
/// that come together before anything is known wait for each other.
pub(super) fn prefix_cache(look: &Look<'_>) -> Option<Finding> {
    let told = look.seen.iter().filter(|s| s.request.ttft.is_some());
    let told = told.zip(look.prefills()).filter_map(|(s, prefill)| {
        let (share, ttft) = (cached_share(s.request)?, s.request.ttft?);
        let others = prefill.meanwhile.tokens - prefill.tokens as f64;
        let length = f64::from(s.request.input_tokens?);
        // in prompts like its own: up to a half, one, two, four …
        let company = (others / length).max(0.5).log2().ceil();
        Some((company, is_known(s.request), share, ttft))
    });
    let mut all: Vec<(f64, bool, f64, f64)> = told.collect();
    let share = mean(all.iter().map(|request| request.2))?;
    let hits = all.iter().filter(|request| request.1).count() as f64;
    let n = all.len() as f64;
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    // with, without and how many of the fewer kind
    let mut alike: Vec<(f64, f64, f64)> = Vec::new();
    for same in all.chunk_by(|a, b| a.0.total_cmp(&b.0).is_eq()) {
        let (hits, misses): (Vec<_>, Vec<_>) = same.iter().partition(|request| request.1);
        let fewer = hits.len().min(misses.len()) as f64;
        let ttft = |of: Vec<&(f64, bool, f64, f64)>| median(of.iter().map(|r| r.3).collect());
        alike.extend(ttft(hits).zip(ttft(misses)).map(|(a, b)| (a, b, fewer)));
    }
    // as they came, whatever the company
    let usual = |of_known: bool| {
        let own = all.iter().filter(|request| request.1 == of_known);
        mean(own.map(|request| request.3))
    };
    let (known, unknown) = usual(true).zip(usual(false))?;
    let pairs: f64 = alike.iter().map(|of| of.2).sum();
    let with = alike.iter().map(|of| of.0 * of.2).sum::<f64>() / pairs;
    let without = alike.iter().map(|of| of.1 * of.2).sum::<f64>() / pairs;
    if pairs < FEWEST as f64 || with > QUICKER * without || known >= unknown {
        return None;
    }
    let e2e = look.mean(|r| Some(r.e2e()))?;
    let saved = (without - with) * hits / n / (e2e + without - with);
    Draft::in_cell(Cause::PrefixCache, saved, look.cell)
        .because(Known::CachedShare, share)
        .because(Known::CachedTtft, known)
        .because(Known::Ttft, unknown)
        .refuted_by(Experiment::ColdCache)
        .done()
}
