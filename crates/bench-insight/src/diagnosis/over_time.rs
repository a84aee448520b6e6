//! What happens in some moments of a cell: streams that stop together, requests that come close together.

use bench_schema::{Cause, ClockKind, Evidence, Experiment, Finding, Known, Metric};

use super::fit::{mean, median, quantile};
use super::load::gap;
use super::look::{Look, Seen};
use super::machines::is_local;
use super::quiet::Quiet;
use super::spans::Cover;
use super::speed::Change;
use crate::draft::Draft;
use crate::outages::{EARLY, MOST_ALONE, Standstill, all_wait, go_on_beside, silences};
use crate::signals::derived;
use crate::view;

/// From when on requests of a closed loop were sent that ended when no more followed: fewer and fewer compete with them.
pub(super) fn draining(look: &Look<'_>) -> f64 {
    if look.is_open() {
        return f64::INFINITY;
    }
    let last_sent = look.seen.iter().map(|s| s.sent).fold(0.0, f64::max);
    let late = look.seen.iter().filter(|s| s.end > last_sent);
    late.map(|s| s.sent).fold(f64::INFINITY, f64::min)
}

/// The time per token of each request that has one, by when it was sent.
pub(super) fn per_token(look: &Look<'_>) -> Vec<(f64, f64)> {
    let seen = look.seen.iter();
    seen.filter_map(|s| Some((s.sent, s.request.tpot()?)))
        .collect()
}

/// Of what levels differ by, the part that has to be left among requests beside which as many were under way: what more at once cost is no straight line.
const LEFT: f64 = 0.3;

/// Whether the number in flight, as it comes and goes by chance, makes what is slow in some stretches of an open loop.
pub(super) fn are_of_load(look: &Look<'_>, stretches: &[(f64, f64)]) -> bool {
    let points = beside_others(look);
    let held = |at: f64| {
        stretches
            .iter()
            .any(|(from, to)| (*from..=*to).contains(&at))
    };
    let differ = |points: &[(f64, f64)]| {
        let level = |within: bool| {
            let own = points.iter().filter(|p| held(p.0) == within);
            mean(own.map(|p| p.1)).unwrap_or(0.0)
        };
        level(true) - level(false)
    };
    let values: Vec<(f64, f64)> = points.iter().map(|p| (p.0, p.1)).collect();
    let left = at_equal_load(&points, |at| usize::from(held(at)));
    look.is_open() && differ(&left) < LEFT * differ(&values)
}

/// `(when it was sent, its time per token, how many were under way while its tokens came)` of each request; where few have such a time, that of whole answers.
fn beside_others(look: &Look<'_>) -> Vec<(f64, f64, f64)> {
    let under_way = look.under_way();
    let tokens = look.seen.iter().filter_map(|s| {
        let beside = under_way.during(s.first?, s.end);
        Some((s.sent, s.request.tpot()?, beside))
    });
    let tokens: Vec<_> = tokens.collect();
    if tokens.len() * 2 >= look.seen.len() {
        return tokens;
    }
    let whole = |s: &Seen<'_>| (s.sent, s.slow, under_way.during(s.sent, s.end));
    look.seen.iter().map(whole).collect()
}

/// `(when, value)` of `(when, value, how many beside it)`, without what one more beside it adds among neighbours of one level.
fn at_equal_load(points: &[(f64, f64, f64)], level: impl Fn(f64) -> usize) -> Vec<(f64, f64)> {
    let (mut products, mut squares) = (0.0, 0.0);
    for own in points.chunk_by(|a, b| level(a.0) == level(b.0)) {
        let value = mean(own.iter().map(|p| p.1)).unwrap_or(0.0);
        let beside = mean(own.iter().map(|p| p.2)).unwrap_or(0.0);
        for p in own {
            products += (p.1 - value) * (p.2 - beside);
            squares += (p.2 - beside).powi(2);
        }
    }
    let each = if squares > 0.0 {
        (products / squares).max(0.0)
    } else {
        0.0
    };
    let usual = mean(points.iter().map(|p| p.2)).unwrap_or(0.0);
    let equal = |p: &(f64, f64, f64)| (p.0, p.1 - each * (p.2 - usual));
    points.iter().map(equal).collect()
}

/// Whether far more requests than usual came in some stretches of an open loop: then they compete with each other.
pub(super) fn are_bursts(look: &Look<'_>, stretches: &[(f64, f64)]) -> bool {
    const MORE: f64 = 1.5;
    const ERRORS: f64 = 2.0;
    const FEWEST: f64 = 6.0;
    let mut due: Vec<f64> = look.seen.iter().map(|seen| seen.from).collect();
    due.sort_by(f64::total_cmp);
    let (Some(first), Some(last)) = (due.first().copied(), due.last().copied()) else {
        return false;
    };
    // the first of each begins its stretch
    let after_first = |(from, to): &(f64, f64)| {
        let before = due.partition_point(|due| due < from);
        let upto = due.partition_point(|due| due <= to);
        upto.saturating_sub(before + 1)
    };
    let came = stretches.iter().map(after_first).sum::<usize>() as f64;
    let lasted: f64 = stretches
        .iter()
        .map(|(from, to)| to - from.max(first))
        .sum();
    let usual = due.len() as f64 * lasted / (last - first);
    look.is_open() && came >= FEWEST.max(MORE * usual) && came - usual >= ERRORS * usual.sqrt()
}

/// Multiple of the mean gap from which on it is a stall.
const STANDS_OUT: f64 = 2.5;
/// Up to this multiple of the shortest stalls are about as long each time.
const ALIKE: f64 = 1.5;
/// Share of the time over which stalls that come again and again are spread.
const MOST: f64 = 0.4;

/// A stop of all streams, or of those of one endpoint beside which others go on: whichever costs more.
pub(super) fn stop(look: &Look<'_>, all: &[Look<'_>], change: Option<&Change>) -> Option<Finding> {
    let found = |look: &Look<'_>| stalls(look, change).or_else(|| silence(look, all));
    let of_one = look.endpoints().into_iter().filter_map(|endpoint| {
        let own = look.at_endpoint(endpoint);
        let mut found = found(&own)?;
        found.severity *= own.taken() / look.taken();
        let is_length = |e: &&mut Evidence| e.figure == Known::StallLength.into();
        for length in found.evidence.iter_mut().filter(is_length) {
            length.of = Some(look.url(endpoint));
        }
        Some(found)
    });
    let found = of_one.chain(found(look)).chain(in_warm_up(look, all));
    found.max_by(|a, b| a.severity.total_cmp(&b.severity))
}

/// A stop in the warm-up of an open loop that is none of the first cell, for which those that were measured still waited: far longer than a first token takes without load,
/// than the prompts that ended it do one after the other, and than any other time in which no token came.
pub(super) fn in_warm_up(look: &Look<'_>, all: &[Look<'_>]) -> Option<Finding> {
    const LONGER: f64 = 10.0;
    const TIMES: f64 = 3.0;
    /// Multiple of a first token's time without load, up to which it did not wait.
    const WAITED: f64 = 2.0;
    let is_first =
        look.run.analysis.capacity.is_none() && look.run.cells.first()?.id == look.cell.id;
    let stop = look.silence.filter(|_| look.is_open() && !is_first)?;
    let quick = all.iter().filter_map(|look| {
        quantile(
            look.seen.iter().filter_map(|s| s.request.ttft).collect(),
            0.1,
        )
    });
    let quiet = Quiet::of(look, all).and_then(|quiet| quiet.ttft);
    let quiet = quiet.or_else(|| quick.reduce(f64::min))?;
    let usual = look.mean(|request| request.input_tokens.map(f64::from));
    let prompt = stop.prompt.map(f64::from).zip(usual);
    let prompt = prompt.map_or(1.0, |(longest, usual)| (longest / usual).max(1.0));
    let least = (LONGER * prompt * quiet).max(TIMES * stop.firsts * quiet);
    let stands_out = stop.length >= least.max(TIMES * stop.next) && stop.under_way >= 2.0;
    (stands_out && stop.quickest > WAITED * quiet).then_some(())?;
    let waits = look.seen.iter().map(|s| s.first.unwrap_or(s.end) - s.sent);
    let waited = waits.take_while(|wait| *wait > WAITED * quiet);
    let lost: f64 = waited.map(|wait| wait - quiet).sum();
    Draft::in_cell(Cause::Frozen, lost / look.taken(), look.cell)
        .because(Known::StallLength, stop.length)
        .because(Known::InFlight, stop.under_way)
        .refuted_by(Experiment::AgainWithLog)
        .done()
}

/// Whether levels tell a slow start, which several stops at the beginning and none later are.
fn starts_slowly(look: &Look<'_>, change: Option<&Change>) -> bool {
    let change = change.or_else(|| look.of_requests());
    change.is_some_and(Change::is_cold_start)
}

/// All streams stop together: again and again, or once or twice.
fn stalls(look: &Look<'_>, change: Option<&Change>) -> Option<Finding> {
    let Unprompted {
        stops: unexplained,
        period,
        time,
    } = look.unprompted();
    let whole = look.whole();
    let (first, last) = (unexplained.first()?, unexplained.last()?);
    let alone = unexplained.iter().all(|stop| stop.streams < 2.0);
    let are_early = unexplained.len() > 1 && last.from + last.length < EARLY * whole;
    if are_early && starts_slowly(look, change) {
        return None;
    }
    let cost = lost_in(look, time);
    let length = median(unexplained.iter().map(|s| s.length).collect())?;
    let longest = unexplained.iter().map(|s| s.length).fold(0.0, f64::max);
    let cause = match period {
        Some(_) => Cause::PeriodicStall,
        // One pause among thousands of tokens has to be long to be anything, and that of a single stream longer; so have those that come early only.
        None if longest >= if alone || are_early { 0.03 } else { 0.01 } * whole => Cause::Frozen,
        None => return None,
    };
    let client = &look.cell.client;
    let paused = client.lag.as_ref().map(|lag| lag.max.as_f64());
    // A machine that holds up the client for about as long, or the server's threads for longer in all, stops both: that is none of the server's making.
    if is_local(look.run) && period.is_none() {
        let stood = unexplained.iter().map(|s| s.length).sum::<f64>();
        let held_up = paused.is_some_and(|pause| pause >= 0.5 * longest);
        if held_up || waited_for_a_cpu(look).is_some_and(|waited| waited >= stood) {
            return None;
        }
    }
    let exact = look.run.clock.arrival == ClockKind::Kernel;
    if !exact
        && paused.is_none_or(|pause| pause >= 0.5 * length)
        && client.run_queue_wait.is_none_or(|w| w > 0.1)
    {
        return None;
    }
    let experiment = period.map_or(Experiment::AgainWithLog, |_| Experiment::Longer);
    // The next token would have come a gap later all the same.
    let beyond = |length: f64| length - gap(look.cell).unwrap_or(0.0);
    let shortest = unexplained.iter().map(|s| s.length).fold(longest, f64::min);
    let alike = longest <= ALIKE * shortest;
    let ends = match period {
        Some(_) if alike => [Some(length), None],
        Some(_) => [Some(shortest), Some(longest)],
        None => [Some(longest), None],
    };
    Draft::in_cell(cause, cost, look.cell)
        .because(Known::Stalls, several(unexplained.len()))
        .because(Known::StallPeriod, *period)
        .because(Known::StallLength, ends[0].map(beyond))
        .because(Known::StallLength, ends[1].map(beyond))
        // of one that began before, while the warm-up streamed, as much as was measured
        .because(Known::At, first.from.max(0.0))
        .because(Known::InFlight, first.streams)
        .rules_out(
            Cause::ClientLimited,
            Known::ClientRunQueue,
            client.run_queue_wait,
        )
        .refuted_by(experiment)
        .done()
}

/// How long the server's threads waited for a CPU in all, ns, where others used the machine.
fn waited_for_a_cpu(look: &Look<'_>) -> Option<f64> {
    const OTHERS: f64 = 0.25;
    let pressure = derived(look.cell, "host_cpu_pressure_share")?;
    let waited = derived(look.cell, "server_run_queue_wait")?;
    (pressure >= OTHERS).then(|| waited * look.whole())
}

/// Share of their time that users spend in stretches in which nothing moves: those whose first tokens do not come lose it too.
fn lost_in(look: &Look<'_>, still: &Cover) -> f64 {
    let spans = || look.seen.iter().map(|s| (s.from, s.end));
    let lost: f64 = spans().map(|(from, to)| still.within(from, to)).sum();
    lost / spans().map(|(from, to)| to - from).sum::<f64>()
}

/// How many, where it is not one.
fn several(n: usize) -> Option<f64> {
    (n > 1).then_some(n as f64)
}

/// All requests wait for a token, and none comes: a server that stands still while few answers stream.
fn silence(look: &Look<'_>, all: &[Look<'_>]) -> Option<Finding> {
    let requests = || look.seen.iter().map(|seen| seen.request);
    let starts_slowly = || look.of_requests().is_some_and(Change::is_cold_start);
    let starts_slowly = look.begins.then_some(starts_slowly);
    let own = look.stops().one_by_one;
    let prompts = &look.prompts().in_progress;
    let warm_up = &look.warm_up;
    let mut found = silences(requests, warm_up, look.epoch, (prompts, own), starts_slowly);
    found.retain(|stop| go_on_beside(&look.others, stop, look.epoch));
    let longest = found.iter().max_by(|a, b| a.length.total_cmp(&b.length))?;
    // What keeps single requests waiting in one cell after another is theirs.
    let as_long = |s: &&Seen<'_>| {
        let first = s.first.unwrap_or(s.end);
        s.in_flight < 2.0 && first - s.sent >= longest.length / 2.0
    };
    let waited = || all.iter().flat_map(|look| &look.seen).filter(as_long);
    if longest.streams < 2.0 && waited().count() > MOST_ALONE {
        return None;
    }
    Draft::in_cell(
        Cause::Frozen,
        lost_in(look, &Cover::of(found.iter().map(Standstill::span))),
        look.cell,
    )
    .because(Known::Stalls, several(found.len()))
    .because(Known::StallLength, longest.length)
    .because(Known::At, found.first()?.from)
    .because(Known::InFlight, longest.streams)
    .refuted_by(Experiment::AgainWithLog)
    .done()
}

/// The stops that nobody's prompt explains.
pub(super) struct Unprompted {
    pub(super) stops: Vec<Standstill>,
    /// From one to the next, where it is the same each time.
    pub(super) period: Option<f64>,
    /// The time they take.
    pub(super) time: Cover,
}

impl Unprompted {
    pub(super) fn of(look: &Look<'_>) -> Self {
        let (stops, period) = not_of_prompts(look);
        Self {
            time: Cover::of(stops.iter().map(Standstill::span)),
            stops,
            period,
        }
    }
}

fn not_of_prompts(look: &Look<'_>) -> (Vec<Standstill>, Option<f64>) {
    let (stops, prompts) = (look.stops(), look.prompts());
    let n = stops.of_all.len();
    // tokens that are read together make an answer's usual gap next to nothing, and the one between reads stand out
    let usual = view::mean(look.cell, Metric::Icl).unwrap_or(0.0);
    let is_one = |stall: &Standstill| {
        let prompts = prompts.explain(stall, stops);
        let beside = || go_on_beside(&look.others, stall, look.epoch);
        stall.length >= STANDS_OUT * usual && !prompts && beside()
    };
    let all = stops.of_all.iter().copied();
    let rest: Vec<Standstill> = all.filter(is_one).collect();
    // A job takes about as long each time: what is much shorter or longer is something else, and hides no period. Neither does what differs less where
    // the rest differs hardly at all.
    let typical = median(rest.iter().map(|s| s.length).collect()).unwrap_or(0.0);
    let whole = look.whole();
    let found = [2.0, 1.2].into_iter().find_map(|times| {
        let is_alike = |s: &&Standstill| (1.0 / times..=times).contains(&(s.length / typical));
        let alike: Vec<Standstill> = rest.iter().filter(is_alike).copied().collect();
        // Waves of prompts come as regularly as a job of the server's: a few of them are not seen for what they are.
        let period = period(&alike).filter(|_| alike.len() >= 3 && alike.len() * 2 >= n)?;
        // What comes again and again does so for most of the time.
        let lasted = alike.last()?.from - alike.first()?.from >= MOST * whole;
        lasted.then_some((alike, Some(period)))
    });
    found
        .or_else(|| with_unseen(look, &rest, typical))
        .unwrap_or((rest, None))
}

/// Stops that come evenly though some met no stream. Where all wait for first tokens then and these come together, it ended with them and is taken to be as
/// long as the others; where nobody streams, one may be missing.
fn with_unseen(
    look: &Look<'_>,
    rest: &[Standstill],
    typical: f64,
) -> Option<(Vec<Standstill>, Option<f64>)> {
    /// Off the period on average, and times the typical length.
    const OFF: f64 = 0.03;
    const ALIKE: std::ops::RangeInclusive<f64> = 0.8..=1.25;
    const WAITED: std::ops::RangeInclusive<f64> = 0.3..=1.5;
    const FEWEST: usize = 4;
    let stops = look.stops();
    let alike = |s: &&Standstill| ALIKE.contains(&(s.length / typical));
    let mut all: Vec<Standstill> = rest.iter().filter(alike).copied().collect();
    if all.len() < 2 || all.len() < rest.len() {
        return None;
    }
    let waits = all_wait(
        look.seen.iter().map(|s| s.request),
        look.epoch,
        stops.one_by_one,
    );
    let prompts = &look.prompts().in_progress;
    let is_new = |wait: &Standstill| {
        let (from, to) = (wait.from, wait.from + wait.length);
        WAITED.contains(&(wait.length / typical))
            && prompts.within(from, to) < 0.5 * wait.length
            && !rest.iter().any(|s| s.from < to && from < s.from + s.length)
    };
    let waits: Vec<Standstill> = waits.into_iter().filter(is_new).collect();
    all.extend(waits.iter().map(|wait| Standstill {
        from: wait.from + wait.length - typical,
        length: typical,
        ..*wait
    }));
    all.sort_by(|a, b| a.from.total_cmp(&b.from));
    let period = even(&all, OFF)?;
    let is_whole = all.windows(2).all(|pair| {
        let periods = ((pair[1].from - pair[0].from) / period).round();
        let missing = pair[0].from + period + typical / 2.0;
        periods <= 1.0 || periods <= 2.0 && stops.streams_at(missing) == 0
    });
    let lasted = all.last()?.from - all.first()?.from;
    let is_it = is_whole && all.len() >= FEWEST && lasted >= MOST * look.whole();
    is_it.then_some((all, Some(period)))
}

/// The time between stalls, where it is the same each time, but for one of several.
pub(super) fn period(stalls: &[Standstill]) -> Option<f64> {
    /// Of more the mean forgives one.
    const SEVERAL: std::ops::RangeInclusive<usize> = 6..=40;
    /// Of fewer each has to be there, and at its time: two of three distances are even by chance too often.
    const FEW: usize = 4;
    if stalls.len() <= FEW {
        let even = even(stalls, 0.03)?;
        let lasted = stalls.last()?.from - stalls.first()?.from;
        return (lasted < even * (stalls.len() as f64 - 0.5)).then_some(even);
    }
    // by chance they are off by a quarter of it on average
    even(stalls, 0.1).or_else(|| {
        let without = |i: usize| Some([stalls.get(..i)?, stalls.get(i + 1..)?].concat());
        (0..stalls.len())
            .filter(|_| SEVERAL.contains(&stalls.len()))
            .find_map(|i| even(&without(i)?, 0.05))
    })
}

/// The time between stalls, where they are off by less than this part of it; one that was not seen counts as two periods.
fn even(stalls: &[Standstill], most: f64) -> Option<f64> {
    let gaps: Vec<f64> = stalls.windows(2).map(|p| p[1].from - p[0].from).collect();
    let shortest = quantile(gaps.clone(), 0.25).filter(|p| *p > 0.0)?;
    let periods: f64 = gaps
        .iter()
        .map(|gap| (gap / shortest).round().max(1.0))
        .sum();
    let period = gaps.iter().sum::<f64>() / periods;
    let off = |gap: &f64| (gap / period - (gap / period).round()).abs();
    let off = gaps.iter().map(off).sum::<f64>() / gaps.len() as f64;
    let missed = periods - gaps.len() as f64;
    // of stops that follow each other at once the time between is even because they are as long as each other
    let free = 1.0 - mean(stalls.iter().map(|s| s.length)).unwrap_or(0.0) / period;
    (off < most * free && missed <= gaps.len() as f64).then_some(period)
}
