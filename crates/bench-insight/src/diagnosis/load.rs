//! What load does: a queue that grows, token gaps that grow, a GPU that has nothing left.

use bench_schema::{Cause, CellRecord, Experiment, Finding, Known, Metric, Unit};

use super::look::{Look, Seen, mean, median};
use super::quiet::Quiet;
use crate::draft::Draft;
use crate::signals::Signal;
use crate::view;

/// Stretches of the time in which load was offered.
const STRETCHES: usize = 16;
/// A growth of the requests in flight counts from these many standard errors on.
const ERRORS: f64 = 3.0;
/// Share of the offered requests that must have been left over.
const LEFT_OVER: f64 = 0.04;
/// Requests below which growth cannot be told from chance.
const FEWEST: usize = 40;

/// An open loop in which requests in flight grow for as long as load is offered.
pub(super) fn overload(look: &Look<'_>) -> Option<Finding> {
    if !look.is_open() {
        return None;
    }
    if look.seen.is_empty() {
        return overload_of_table(look.cell);
    }
    let growth = Growth::of(look)?;
    // What a burst leaves goes away again.
    let stays = growth.at_end >= 0.7 * growth.most && growth.late > 0.0;
    let left = growth.total >= LEFT_OVER * growth.offered;
    if !stays || !left || (growth.over_error < ERRORS && !growth.falls_short(look)) {
        return None;
    }
    // Users wait for what piled up: their time beyond that of the first requests.
    let times: Vec<f64> = look.seen.iter().map(|s| s.end - s.from).collect();
    let early = times.get(..(times.len() / 10).max(5))?.to_vec();
    let waited = 1.0 - median(early)? / mean(times.iter().copied())?;
    let left = growth.total / growth.offered;
    let seconds = growth.length / 1e9;
    Draft::in_cell(Cause::Overload, waited.max(left), look.cell)
        .because(
            Known::OfferedRate,
            growth.offered / seconds,
            Unit::RequestsPerS,
        )
        .because(
            Known::ServedRate,
            (growth.offered - growth.total) / seconds,
            Unit::RequestsPerS,
        )
        .because(Known::InFlightGrowth, growth.total, Unit::Count)
        .because(
            Known::InFlightGrowthOverError,
            growth.over_error.min(1e6),
            Unit::Count,
        )
        .refuted_by(Experiment::LowerRate)
        .done()
}

/// How requests in flight move while load is offered.
struct Growth {
    /// Length of that time, ns.
    length: f64,
    /// Requests that were to start in it.
    offered: f64,
    /// More in flight at its end than at its start.
    total: f64,
    /// That over its standard error, from the changes of equal stretches.
    over_error: f64,
    at_end: f64,
    most: f64,
    /// Change over the last third.
    late: f64,
    /// Served in the second half, a second.
    served_late: f64,
    /// Least and mean in flight in the second half.
    least_late: f64,
    mean_late: f64,
}

/// Times of the last quarter over those of the first, at the same lengths, of a server that falls behind.
const LONGER: f64 = 1.3;
/// Served in the second half over what was asked for, below which a busy server falls short.
const SHORT: f64 = 0.93;

impl Growth {
    /// Whether the server, busy all through the second half, served less than was asked for. The luck of a random schedule makes
    /// requests pile up too, but a server that is able to serve the rate then serves more than it.
    fn falls_short(&self, look: &Look<'_>) -> bool {
        let asked = look.cell.plan.requested_rate_per_s;
        let quarter = look.seen.len() / 4;
        let slow = |of: Option<&[Seen<'_>]>| median(of?.iter().map(|s| s.slow).collect());
        let early = slow(look.seen.get(..quarter));
        let late = slow(look.seen.get(look.seen.len() - quarter..));
        asked.is_some_and(|asked| self.served_late < SHORT * asked)
            && self.least_late >= (0.5 * self.mean_late).max(2.0)
            // Long answers fill a server for as long as they take, without being slower for it.
            && early.zip(late).is_some_and(|(early, late)| late >= LONGER * early)
    }

    fn of(look: &Look<'_>) -> Option<Self> {
        let spans: Vec<(f64, f64)> = look
            .seen
            .iter()
            .map(|seen| (seen.from, seen.end))
            .chain(look.lost.iter().map(|l| (look.ns(l.due), look.ns(l.end))))
            .collect();
        let length = spans.iter().map(|s| s.0).fold(0.0, f64::max);
        if spans.len() < FEWEST || length <= 0.0 {
            return None;
        }
        let mut started: Vec<f64> = spans.iter().map(|s| s.0).collect();
        let mut ended: Vec<f64> = spans.iter().map(|s| s.1).collect();
        started.sort_by(f64::total_cmp);
        ended.sort_by(f64::total_cmp);
        let level = |at: f64| {
            let count = |times: &[f64]| times.partition_point(|t| *t <= at) as f64;
            count(&started) - count(&ended)
        };
        // The first stretch fills an empty server, whatever the load.
        let levels: Vec<f64> = (1..=STRETCHES)
            .map(|i| level(length * i as f64 / STRETCHES as f64))
            .collect();
        let changes: Vec<f64> = levels.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let (first, last) = (*levels.first()?, *levels.last()?);
        let n = changes.len() as f64;
        let centre = (last - first) / n;
        let late = levels.get(STRETCHES / 2..)?;
        let half = length / 2.0;
        let served = ended
            .iter()
            .filter(|at| (half..length).contains(*at))
            .count();
        let sd = (changes.iter().map(|c| (c - centre).powi(2)).sum::<f64>() / (n - 1.0)).sqrt();
        let error = sd / n.sqrt();
        Some(Self {
            length: length * n / STRETCHES as f64,
            offered: started.len() as f64 * n / STRETCHES as f64,
            total: last - first,
            over_error: if error > 0.0 { centre / error } else { 1e6 },
            at_end: last,
            most: levels.iter().copied().fold(0.0, f64::max),
            late: last - levels.get(STRETCHES * 2 / 3)?,
            served_late: served as f64 / (half / 1e9),
            least_late: late.iter().copied().fold(f64::INFINITY, f64::min),
            mean_late: mean(late.iter().copied())?,
        })
    }
}

/// Whether requests are left over while load is offered.
pub(super) fn piles_up(look: &Look<'_>) -> bool {
    Growth::of(look).is_some_and(|growth| growth.total >= LEFT_OVER * growth.offered)
}

/// The same from a table: less came out than went in, over a window in which no ramp and no drain matter.
fn overload_of_table(cell: &CellRecord) -> Option<Finding> {
    let rates = cell.headline_rates()?;
    let offered = view::positive(cell.plan.offered_rate_per_s?)?;
    let served = view::positive(rates.requests_per_s)?;
    let long = rates.seconds * 1e9 >= 20.0 * view::mean(cell, Metric::E2e)?;
    if !long || served > 0.9 * offered {
        return None;
    }
    Draft::in_cell(Cause::Overload, 1.0 - served / offered, cell)
        .because(Known::OfferedRate, offered, Unit::RequestsPerS)
        .because(Known::ServedRate, served, Unit::RequestsPerS)
        .refuted_by(Experiment::LowerRate)
        .done()
}

/// Slower by this factor than at low load, and this share of E2E lost by it.
const SLOWER: f64 = 1.5;
const COSTS: f64 = 0.15;

/// Token gaps beside those at low load.
pub(super) fn decode_slows(look: &Look<'_>, quiet: Option<&Quiet>) -> Option<Finding> {
    let quiet_gap = quiet?.tpot?;
    let now = look.tpot().or_else(|| gap(look.cell))?;
    let decode = match (look.mean(|r| r.ttft), look.mean(|r| Some(r.e2e))) {
        (Some(ttft), Some(e2e)) => 1.0 - ttft / e2e,
        _ => look.cell.phases.as_ref()?.decode,
    };
    let cost = (1.0 - quiet_gap / now) * decode;
    if now < SLOWER * quiet_gap || cost < COSTS {
        return None;
    }
    Draft::in_cell(Cause::DecodeSlowsWithLoad, cost, look.cell)
        .because(Known::Tpot, now, Unit::Ns)
        .because(Known::QuietTpot, quiet_gap, Unit::Ns)
        .because(Known::SlowDown, now / quiet_gap, Unit::Count)
        .because_some(Known::InFlight, in_flight(look), Unit::Count)
        .refuted_by(Experiment::LowerConcurrency)
        .done()
}

/// The median gap between tokens, whatever of it is known.
pub(crate) fn gap(cell: &CellRecord) -> Option<f64> {
    view::quantile(cell, Metric::Itl, 0.5).or_else(|| view::quantile(cell, Metric::Tpot, 0.5))
}

/// The requests under way on average: the slots of a closed loop; of an open one, the time that its requests take over that in which they
/// came.
pub(super) fn in_flight(look: &Look<'_>) -> Option<f64> {
    if let (Some(slots), false) = (look.concurrency(), look.load_moves()) {
        return Some(f64::from(slots));
    }
    let taken: f64 = look.seen.iter().map(|s| s.end - s.from).sum();
    let came = look.seen.iter().map(|s| s.from).fold(0.0, f64::max);
    (came > 0.0).then(|| taken / came)
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
    let rate = |cell: &CellRecord| view::tokens_per_s(cell).or(view::requests_per_s(cell));
    let gain = rate(last.1)? / rate(before.1)? - 1.0;
    let added = last.0 / before.0 - 1.0;
    if gain > FLAT * added {
        return None;
    }
    let (cause, experiment) = match usage {
        u if u > 0.95 => (Cause::GpuSaturated, Experiment::MoreLevels),
        u if u < 0.6 => (Cause::GpuLow, Experiment::HigherLimit),
        _ => return None,
    };
    let slower = view::mean(before.1, Metric::E2e)
        .zip(view::mean(last.1, Metric::E2e))
        .map_or(0.0, |(then, now)| 1.0 - then / now);
    Draft::in_cell(cause, slower.max(super::LEAST), last.1)
        .because(Known::GpuUse, usage, Unit::Ratio)
        .because(Known::ThroughputGained, gain, Unit::Ratio)
        .because(Known::LoadAdded, added, Unit::Ratio)
        .refuted_by(experiment)
        .done()
}

/// A GPU that heat or power holds back.
pub(super) fn gpu_throttled(cell: &CellRecord) -> Option<Finding> {
    let share = crate::signals::derived(cell, "gpu_throttled_share")?.min(1.0);
    if share < 0.05 {
        return None;
    }
    Draft::in_cell(Cause::GpuThrottled, share, cell)
        .because(Known::GpuHeldBack, share, Unit::Ratio)
        .because_some(
            Known::GpuUse,
            Signal::GpuUse.of(cell).map(|l| l.mean),
            Unit::Ratio,
        )
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
        .because(Known::KvCachePeak, peak.min(1.0), Unit::Ratio)
        .because_some(Known::Preemptions, lost, Unit::Count)
        .because_some(Known::Waiting, waiting, Unit::Count)
        .refuted_by(Experiment::HalfConcurrency)
        .done()
}
