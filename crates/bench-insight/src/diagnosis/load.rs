//! What load does: a queue that grows, token gaps that grow, a GPU that has nothing left.

use bench_schema::{Cause, CellRecord, Experiment, Finding, Known, Metric, RunRecord, SloVerdict};

use super::fit::{Line, mean, median, quantile, squares};
use super::look::{Look, Seen};
use super::quiet::Quiet;
use crate::draft::Draft;
use crate::samples::{Lost, LostSample};
use crate::signals::Signal;
use crate::view;

/// An open loop that is served less than it offers and answers, so that requests pile up for as long as load is offered.
pub(super) fn overload(look: &Look<'_>) -> Option<Finding> {
    if stops_answering(look) {
        return None;
    }
    let behind = view::behind(look.cell).or_else(|| behind_its_limit(look));
    // The rates are of all repeats together, whose answers end after the last request of each.
    let is_own = || look.cell.repeats < 2 || piles_up(look);
    let Some(behind) = behind.filter(|_| !is_only_slower(look) && is_own()) else {
        return without_an_end(look);
    };
    let left = 1.0 - behind.served / behind.answered;
    Draft::in_cell(Cause::Overload, waited(look).max(left), look.cell)
        .because(Known::OfferedRate, behind.offered)
        .because(Known::ServedRate, behind.served)
        .because(Known::InFlight, in_flight(look))
        .refuted_by(Experiment::LowerRate)
        .done()
}

/// The users' time beyond that of the first requests: they wait for what piled up.
fn waited(look: &Look<'_>) -> f64 {
    let times: Vec<f64> = look.seen.iter().map(|s| s.end - s.from).collect();
    let early = times
        .get(..(times.len() / 10).max(5))
        .and_then(|early| median(early.to_vec()));
    let waited = early.zip(mean(times.iter().copied()));
    waited.map_or(0.0, |(early, all)| 1.0 - early / all)
}

/// An open loop of which nothing can be said to be served, since answers outlast it, while requests pile up and first tokens take longer and longer: a queue,
/// or prompts that wait for each other. Long answers alone fill a server too, and nobody waits for their first tokens.
fn without_an_end(look: &Look<'_>) -> Option<Finding> {
    const LONGER: f64 = 3.0;
    /// Of E2E, for those that came last.
    const MUCH: f64 = 0.25;
    let rates = look.cell.headline_rates()?;
    let untold = rates.served_requests_per_s.is_none() && look.is_open();
    let offered = rates.offered_requests_per_s.filter(|_| untold)?;
    let quarter = look.seen.len() / 4;
    let last = || look.seen.iter().rev().take(quarter);
    let ttft = |of: &mut dyn Iterator<Item = &Seen<'_>>| {
        median(of.filter_map(|s| s.request.ttft).collect())
    };
    let (early, late) = ttft(&mut look.seen.iter().take(quarter)).zip(ttft(&mut last()))?;
    let whole = mean(last().map(|s| s.end - s.sent))?;
    let waits = late >= LONGER * early && late >= MUCH * whole && piles_up(look);
    waits.then_some(())?;
    let all = look.mean(|r| r.ttft).zip(look.mean(|r| Some(r.e2e())));
    let for_first = all.map_or(0.0, |(ttft, e2e)| (ttft - early) / e2e);
    Draft::in_cell(Cause::Overload, waited(look).max(for_first), look.cell)
        .because(Known::OfferedRate, offered)
        .because(Known::Ttft, late)
        .because(Known::QuietTtft, early)
        .because(Known::InFlight, in_flight(look))
        .refuted_by(Experiment::LowerRate)
        .done()
}

/// An open loop in which requests pile up until the client's time limit cuts them off: they were offered, and would have been answered later. Where the server
/// refuses those that find it full, no queue grows.
fn behind_its_limit(look: &Look<'_>) -> Option<view::Behind> {
    let counts = &look.cell.counts;
    let cut_off: u64 = counts.timeouts.iter().map(|(_, n)| *n).sum();
    let behind = view::behind_with(look.cell, cut_off)?;
    let slow = become_slow(look) || waits_for_the_limit(look);
    let cut_off = is_of_time_limit(look) && slow;
    (cut_off && (piles_up(look) || stays_full(look))).then_some(behind)
}

/// The requests that the client's time limit cut off.
fn cut_off<'a>(look: &'a Look<'_>) -> impl Iterator<Item = &'a LostSample> {
    let lost = look.lost.iter().copied();
    lost.filter(|lost| lost.how == Lost::TimedOut)
}

/// After what time that was.
fn time_limit(look: &Look<'_>) -> Option<f64> {
    median(
        cut_off(look)
            .map(|lost| (lost.end - lost.due).as_f64())
            .collect(),
    )
}

/// Whether those that were answered waited for half of the time after which others were cut off: a warm-up had filled the queue before.
fn waits_for_the_limit(look: &Look<'_>) -> bool {
    const PART: f64 = 0.5;
    let waited = median(look.seen.iter().filter_map(|s| s.request.ttft).collect());
    waited
        .zip(time_limit(look))
        .is_some_and(|(waited, limit)| waited >= PART * limit)
}

/// Whether next to nobody who came between the first and the last request that was cut off is answered, and those before had not waited: the server hangs. Where
/// load makes requests wait until they are cut off, the wait grows to that limit, or others are served meanwhile.
fn stops_answering(look: &Look<'_>) -> bool {
    /// Fewest requests that are cut off, of one that is answered.
    const EACH: usize = 20;
    /// The most that those before waited, of the limit.
    const PART: f64 = 0.3;
    let mut cut_off: Vec<f64> = cut_off(look).map(|lost| look.ns(lost.due)).collect();
    cut_off.sort_by(f64::total_cmp);
    let (Some(first), Some(last), Some(limit)) =
        (cut_off.first(), cut_off.last(), time_limit(look))
    else {
        return false;
    };
    let within = |s: &&Seen<'_>| (*first..=*last).contains(&s.from);
    let answered = look.seen.iter().filter(within).count();
    let before = look.seen.iter().filter(|s| s.from < *first);
    let waited = quantile(before.map(|s| s.end - s.from).collect(), 0.9);
    let quick = waited.is_some_and(|waited| waited < PART * limit);
    cut_off.len() >= EACH * answered.max(1) && quick
}

/// Requests that find a server without a queue.
const FIRST: usize = 5;

/// Whether those that were answered took longer than the first ones: where some hang until they are given up the others are as quick as ever.
fn become_slow(look: &Look<'_>) -> bool {
    let typical = |of: &[Seen<'_>]| median(of.iter().map(|s| s.slow).collect());
    let parts = look.seen.split_at_checked(FIRST);
    let parts = parts.and_then(|(first, rest)| typical(first).zip(typical(rest)));
    parts.is_some_and(|(quick, slow)| slow >= SLOWER * quick)
}

/// Whether about as many are in flight for most of the time: between bursts a server is empty again.
fn stays_full(look: &Look<'_>) -> bool {
    const INSTANTS: u32 = 64;
    let in_flight = look.in_flight_over_time(INSTANTS);
    let level = |q: f64| quantile(in_flight.clone(), q);
    level(0.25)
        .zip(level(0.75))
        .is_some_and(|(few, many)| few >= 1.0 && few * 2.0 >= many)
}

/// Whether nearly all lost requests were cut off by the client's time limit.
pub(super) fn is_of_time_limit(look: &Look<'_>) -> bool {
    let timed_out = look.lost.iter().filter(|lost| lost.how == Lost::TimedOut);
    !look.lost.is_empty() && timed_out.count() * 10 >= look.lost.len() * 9
}

/// Whether more are in flight because each token takes longer, by as much: a level that moves. Twice as many and more are a queue or a batch that grows.
fn is_only_slower(look: &Look<'_>) -> bool {
    /// Time per token over what it was, from which on it moved.
    const MOVED: f64 = 1.2;
    let grown = |of: &dyn Fn(&Seen<'_>) -> Option<f64>| {
        let quarter = (look.seen.len() / 4).max(1);
        let of_part =
            |part: &mut dyn Iterator<Item = &Seen<'_>>| median(part.filter_map(of).collect());
        let first = of_part(&mut look.seen.iter().take(quarter))?;
        Some(of_part(&mut look.seen.iter().rev().take(quarter))? / first)
    };
    let more = grown(&|s| Some(s.in_flight));
    let slower = grown(&|s| s.request.tpot());
    let is_it = |(more, slower): (f64, f64)| more < 2.0 && slower >= (0.8 * more).max(MOVED);
    more.zip(slower).is_some_and(is_it)
}

/// Whether about as many requests are in flight in the last quarter as in the one before.
pub(super) fn has_settled(look: &Look<'_>) -> bool {
    const GROWN: f64 = 1.3;
    let quarter = (look.seen.len() / 4).max(1);
    let in_flight = |skip: usize| {
        let own = look.seen.iter().rev().skip(skip).take(quarter);
        mean(own.map(|s| s.in_flight))
    };
    let both = in_flight(0).zip(in_flight(quarter));
    both.is_some_and(|(last, before)| last <= GROWN * before)
}

/// Whether more requests are in flight at the end of an open loop than when it had filled the server.
pub(super) fn piles_up(look: &Look<'_>) -> bool {
    let n = look.seen.len();
    let filled = look.seen.get(n / 16).zip(look.seen.last());
    filled.is_some_and(|(first, last)| last.in_flight - first.in_flight >= 0.04 * n as f64)
}

/// Slower by this factor than at low load, and this share of E2E lost by it.
const SLOWER: f64 = 1.5;
const COSTS: f64 = 0.15;

/// Token gaps beside those at low load.
pub(super) fn decode_slows(look: &Look<'_>, quiet: Option<&Quiet>) -> Option<Finding> {
    let quiet = quiet.filter(|quiet| !quiet.own || follows_load(look))?;
    let quiet_gap = quiet.tpot?;
    let now = of_tokens(look)?;
    // What a drift makes of the time between is not the load's.
    let at_that_time = quiet_gap * quiet.by_time;
    let cost = (1.0 - at_that_time / now) * decodes(look)?;
    // What is shown has to show it, however fast the server was meanwhile.
    if now < SLOWER * at_that_time.max(quiet_gap) || cost < COSTS || only_at_times(look, quiet) {
        return None;
    }
    Draft::in_cell(Cause::DecodeSlowsWithLoad, cost, look.cell)
        .because(Known::Tpot, now)
        .because(Known::QuietTpot, quiet_gap)
        .because(Known::SlowDown, now / quiet_gap)
        .because(Known::ScalingFactor, served_more(look))
        .because(Known::InFlight, in_flight(look))
        .refuted_by(Experiment::LowerConcurrency)
        .done()
}

/// Whether most gaps are as short as at low load: then few steps are slow, as those that prompts share, and not all.
fn only_at_times(look: &Look<'_>, quiet: &Quiet) -> bool {
    const ALIKE: f64 = 1.1;
    let gaps = gap(look.cell)
        .zip(quiet.gap)
        .filter(|_| !view::in_bundles(look.cell));
    gaps.is_some_and(|(now, quiet)| now <= ALIKE * quiet)
}

/// Whether the number in flight while an answer streams explains most of its time per token, and that grows less than the number: then arrivals by chance make
/// both. Where a server is slow at times more are in flight because of that, by as much as it is slower, and by chance.
pub(super) fn follows_load(look: &Look<'_>) -> bool {
    const EXPLAINED: f64 = 0.8;
    /// What grows as much as the number makes it grow.
    const LESS: f64 = 0.8;
    let logs = by_number(look).into_iter().map(|p| (p.0.ln(), p.1.ln()));
    let growth = Line::of(&logs.collect::<Vec<_>>()).slope;
    growth > 0.0 && growth <= LESS && explained(look) >= EXPLAINED
}

/// Share of the variance of the time per token that the number in flight while an answer streams explains.
pub(super) fn explained(look: &Look<'_>) -> f64 {
    const LEVELS: f64 = 10.0;
    let mut points = by_number(look);
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    let squares = |of: &[(f64, f64)]| squares(of.iter().map(|p| p.1));
    let most = points.last().map_or(0.0, |p| p.0);
    let level = |p: &(f64, f64)| (p.0 / most * LEVELS).floor();
    let parts = points.chunk_by(|a, b| level(a) >= level(b));
    let left: f64 = parts.map(squares).sum();
    1.0 - left / squares(&points)
}

/// `(how many were in flight while an answer streamed, its time per token)`.
fn by_number(look: &Look<'_>) -> Vec<(f64, f64)> {
    let under_way = look.under_way();
    let point = |s: &Seen<'_>| Some((under_way.during(s.first?, s.end), s.request.tpot()?));
    look.seen.iter().filter_map(point).collect()
}

/// Throughput over that of the lowest level, where no lower level serves as much: slower tokens are what more of them cost then.
fn served_more(look: &Look<'_>) -> Option<f64> {
    /// As much, within what rates of equal cells differ by.
    const AS_MUCH: f64 = 1.05;
    let (_, series) = view::load_series(&look.run.cells)?;
    let is_own = |(_, cell): &(f64, &CellRecord)| cell.id == look.cell.id;
    let lower = series
        .iter()
        .find_map(|members| members.get(..members.iter().position(is_own)?))?;
    let own = view::throughput(look.cell)?;
    let least = view::throughput(lower.first()?.1)?;
    let most = lower.iter().filter_map(|(_, cell)| view::throughput(cell));
    (own > AS_MUCH * most.fold(0.0, f64::max)).then(|| own / least)
}

/// Whether fewer at once would only serve less: in an open loop requests wait for their turn then, and in a closed one throughput rises with the load.
/// Where an objective is missed there is a reason to.
pub(super) fn serves_more(run: &RunRecord, finding: &Finding) -> bool {
    let mut cells = run
        .cells
        .iter()
        .filter(|cell| finding.cells.contains(&cell.id));
    let is_missed = |cell: &CellRecord| {
        let mut judged = crate::objectives_of(cell).into_iter();
        judged.any(|(_, outcome)| outcome.verdict == SloVerdict::Fail)
    };
    let rises = finding.figure(&Known::ScalingFactor.into()).is_some();
    cells.all(|cell| (rises || cell.load.is_open()) && !is_missed(cell))
}

/// Share of E2E after the first token.
fn decodes(look: &Look<'_>) -> Option<f64> {
    match (look.mean(|r| r.ttft), look.mean(|r| Some(r.e2e()))) {
        (Some(ttft), Some(e2e)) => Some(1.0 - ttft / e2e),
        _ => Some(look.cell.phases.as_ref()?.decode),
    }
}

/// The median time per token.
pub(super) fn of_tokens(look: &Look<'_>) -> Option<f64> {
    look.tpot().or_else(|| gap(look.cell))
}

/// The median gap between tokens, whatever of it is known.
pub(crate) fn gap(cell: &CellRecord) -> Option<f64> {
    view::quantile(cell, Metric::Itl, 0.5).or_else(|| view::quantile(cell, Metric::Tpot, 0.5))
}

/// The requests in flight on average: the slots of a closed loop; of an open one, over the headline's window.
pub(super) fn in_flight(look: &Look<'_>) -> Option<f64> {
    if let (Some(slots), false) = (look.concurrency(), look.load_moves()) {
        return Some(f64::from(slots));
    }
    let rates = look.cell.headline_rates()?;
    Some(rates.mean_in_flight)
}

/// Share of added load below which throughput counts as flat.
const FLAT: f64 = 0.25;

/// What the GPU did where throughput stopped following the load.
pub(super) fn gpu(cells: &[CellRecord]) -> Option<Finding> {
    let (_, series) = view::load_series(cells)?;
    let (before, last, usage) = series.iter().find_map(|members| {
        let [.., before, last] = members.as_slice() else {
            return None;
        };
        Some((*before, *last, Signal::GpuUse.of(last.1)?.mean))
    })?;
    let gain = view::throughput(last.1)? / view::throughput(before.1)? - 1.0;
    let added = last.0 / before.0 - 1.0;
    if gain > FLAT * added {
        return None;
    }
    let (cause, experiment) = match usage {
        u if u > GPU_FULL => (Cause::GpuSaturated, Experiment::MoreLevels),
        u if u < 0.6 => (Cause::GpuLow, Experiment::HigherLimit),
        _ => return None,
    };
    let slower = view::mean(before.1, Metric::E2e)
        .zip(view::mean(last.1, Metric::E2e))
        .map_or(0.0, |(then, now)| 1.0 - then / now);
    Draft::in_cell(cause, slower.max(super::LEAST), last.1)
        .because(Known::GpuUse, usage)
        .because(Known::ThroughputGained, gain)
        .because(Known::LoadAdded, added)
        .refuted_by(experiment)
        .done()
}

/// Whether the GPU has nothing left in the cells of a finding, so that more at once would only share it.
pub(super) fn gpu_is_full(run: &RunRecord, finding: &Finding) -> bool {
    let mut cells = run
        .cells
        .iter()
        .filter(|cell| finding.cells.contains(&cell.id));
    cells.any(|cell| {
        Signal::GpuUse
            .of(cell)
            .is_some_and(|level| level.mean > GPU_FULL)
    })
}

/// Mean use from which on a GPU counts as full.
const GPU_FULL: f64 = 0.95;

/// A GPU that heat or power holds back.
pub(super) fn gpu_throttled(cell: &CellRecord) -> Option<Finding> {
    let share = crate::signals::derived(cell, "gpu_throttled_share")?.min(1.0);
    if share < 0.05 {
        return None;
    }
    Draft::in_cell(Cause::GpuThrottled, share, cell)
        .because(Known::GpuHeldBack, share)
        .because(Known::GpuUse, Signal::GpuUse.of(cell).map(|l| l.mean))
        .refuted_by(Experiment::FixedClock)
        .done()
}

/// Memory that requests wait for, or are thrown out of.
pub(super) fn memory(cell: &CellRecord) -> Option<Finding> {
    let peak = Signal::KvCache.of(cell)?.peak;
    let lost = Signal::Preemptions.of(cell).and_then(|l| l.increase);
    let preempted = lost.unwrap_or(0.0);
    let waiting = Signal::Waiting.of(cell).map(|level| level.mean);
    let waits = waiting.unwrap_or(0.0);
    if peak <= 0.9 || (preempted <= 0.0 && waits < 0.5) {
        return None;
    }
    let running = Signal::Running.of(cell).map_or(0.0, |level| level.mean);
    let waiting_share = waits / (waits + running).max(1.0);
    // What a preemption costs its request is not known: at least something.
    Draft::in_cell(Cause::MemoryPressure, waiting_share.max(super::LEAST), cell)
        .because(Known::KvCachePeak, peak.min(1.0))
        // Between two readings a counter is taken to grow evenly.
        .because(Known::Preemptions, lost.map(f64::round))
        .because(Known::Waiting, waiting)
        .refuted_by(Experiment::HalfConcurrency)
        .done()
}
