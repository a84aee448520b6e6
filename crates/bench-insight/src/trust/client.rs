//! The client itself: was it quick enough, are its stamps exact.

use bench_schema::{CellRecord, Metric, Nanos, TrustReason, TrustVerdict};

use super::{by_kernel, crossed, graded};
use crate::facts::TrustFacts;
use crate::signals::derived;
use crate::text;
use crate::view;

/// Events below which a p99 of the lag is one event's luck.
const LAG_EVENTS: u64 = 100;
/// Seconds below which shares of CPU time are about nothing.
const SHORTEST: f64 = 0.5;

/// The median time between tokens, whatever of it is known.
fn token_gap(cell: &CellRecord) -> Option<(f64, &'static str)> {
    [
        (Metric::Itl, "ITL"),
        (Metric::Tpot, "TPOT"),
        (Metric::Icl, "ICL"),
    ]
    .into_iter()
    .find_map(|(metric, name)| Some((view::quantile(cell, metric, 0.5)?, name)))
}

/// The pause of late reading is no lateness: it ends before the next token of a stream, and the stamps are the kernel's.
pub(super) fn lag(_: &TrustFacts<'_>, cell: &CellRecord) -> Option<TrustReason> {
    let lag = cell.client.lag.as_ref().filter(|lag| lag.n >= LAG_EVENTS)?;
    let (gap, name) = token_gap(cell)?;
    let late = lag.p99 - cell.client.pause.unwrap_or(Nanos::ZERO);
    let share = late.as_f64() / gap;
    let (verdict, limit) = graded(share, 0.10, 0.50)?;
    let on_purpose = cell.client.pause.map_or(String::new(), |pause| {
        format!(" beyond the {pause} that it paused on purpose")
    });
    let message = format!(
        "the client read tokens late: lag p99 {late}{on_purpose} is {} of the median {name} ({}), limit {}; give the client a core of its own, \
         fewer streams per worker, or another machine",
        text::percent(share),
        text::time(gap),
        text::percent(limit),
    );
    Some(crossed("client_lag", verdict, message, share, limit))
}

/// What matters of a bounded stamp is how far it can move a number.
pub(super) fn bounded_stamps(_: &TrustFacts<'_>, cell: &CellRecord) -> Option<TrustReason> {
    let stamps = cell.client.stamps.as_ref().filter(|s| s.bounded > 0)?;
    let (share, what) = widest_move(cell).or_else(|| {
        let (gap, name) = token_gap(cell)?;
        let bounded = stamps.bounded as f64 / stamps.n.max(1) as f64;
        let width = stamps.width_p50?.as_f64() / gap;
        Some((bounded * width, format!("the median {name}")))
    })?;
    let (verdict, limit) = graded(share, 0.10, 0.50)?;
    let message = format!(
        "stamps of {} of {} content events are bounds, not instants (several tokens shared a read); {what} may be off by {}, limit {}; \
         lower the client's load, or compare numbers at both ends of the bounds",
        text::grouped(stamps.bounded as f64),
        text::grouped(stamps.n as f64),
        text::percent(share),
        text::percent(limit),
    );
    Some(crossed("bounded_stamps", verdict, message, share, limit))
}

/// The largest relative move of a central latency figure when bounded stamps are taken at their other end.
fn widest_move(cell: &CellRecord) -> Option<(f64, String)> {
    let figures = [
        (Metric::Itl, 0.5),
        (Metric::Itl, 0.95),
        (Metric::Ttft, 0.5),
        (Metric::Ttft, 0.95),
    ];
    figures
        .into_iter()
        .filter_map(|(metric, q)| {
            let entry = cell.headline(metric)?.quantile_entry(q)?;
            let moved = (entry.other_end? - entry.value).abs();
            let scale = view::positive(entry.value)?;
            Some((
                moved / scale,
                format!("{} p{}", metric.title(), text::level(q * 100.0)),
            ))
        })
        .max_by(|a, b| a.0.total_cmp(&b.0))
}

pub(super) fn no_kernel_stamps(facts: &TrustFacts<'_>, cell: &CellRecord) -> Option<TrustReason> {
    if by_kernel(facts) {
        return None;
    }
    let client = &cell.client;
    let waited = client.run_queue_wait.unwrap_or(0.0);
    let busy = client.busiest_worker.unwrap_or(0.0);
    let observed = client.run_queue_wait.is_some() || client.busiest_worker.is_some();
    if observed && waited <= 0.05 && busy <= 0.5 {
        return None;
    }
    let seen = if observed {
        format!(
            "its busiest worker used {} of a core and waited for one {} of the time",
            text::percent(busy),
            text::percent(waited)
        )
    } else {
        "how busy the client was is not known".to_owned()
    };
    let why = facts
        .clock
        .fallback_reason
        .as_deref()
        .unwrap_or("the kernel gave none");
    let message = format!(
        "arrival times are when the client read, not when the kernel received ({why}), and {seen}; \
         measure from Linux, or keep the client below half a core"
    );
    Some(crossed(
        "no_kernel_stamps",
        TrustVerdict::Doubtful,
        message,
        busy.max(waited),
        0.5,
    ))
}

/// Kernel stamps are on the real-time clock; stamps of the read's return are not, and no step moves them.
pub(super) fn clock_step(facts: &TrustFacts<'_>, cell: &CellRecord) -> Option<TrustReason> {
    let step = cell.client.clock_step.filter(|_| by_kernel(facts))?;
    let size = step.as_f64().abs();
    let (verdict, limit) = graded(size, 1e6, 1e9)?;
    let message = format!(
        "the real-time clock stepped by {} while kernel stamps were taken; stop the time service's corrections (or let it slew) and run again",
        text::time(size)
    );
    Some(crossed("clock_step", verdict, message, size, limit))
}

fn long_enough(cell: &CellRecord) -> bool {
    cell.windows
        .whole
        .as_ref()
        .is_none_or(|whole| whole.seconds >= SHORTEST)
}

pub(super) fn cpu(_: &TrustFacts<'_>, cell: &CellRecord) -> Option<TrustReason> {
    let busy = cell.client.busiest_worker.filter(|_| long_enough(cell))?;
    (busy > 0.9).then(|| {
        let message = format!(
            "the client's busiest worker used {} of its core, limit 90 %; add workers or a second client",
            text::percent(busy)
        );
        crossed("client_cpu", TrustVerdict::Doubtful, message, busy, 0.9)
    })
}

pub(super) fn run_queue(facts: &TrustFacts<'_>, cell: &CellRecord) -> Option<TrustReason> {
    let waited = cell.client.run_queue_wait.filter(|_| long_enough(cell))?;
    // The kernel stamped the tokens while the client waited, and what came together was little: it cost nothing.
    let harmless = by_kernel(facts)
        && cell.client.lag.is_some()
        && lag(facts, cell).is_none()
        && bounded_stamps(facts, cell).is_none();
    if harmless {
        return None;
    }
    let (verdict, limit) = graded(waited, 0.10, 0.50)?;
    let message = format!(
        "the client was runnable but waiting for a core {} of the time, limit {}; something else uses its cores: move it, or pin both",
        text::percent(waited),
        text::percent(limit),
    );
    Some(crossed("run_queue", verdict, message, waited, limit))
}

pub(super) fn steal(_: &TrustFacts<'_>, cell: &CellRecord) -> Option<TrustReason> {
    let stolen = cell.client.steal.filter(|_| long_enough(cell))?;
    (stolen > 0.1).then(|| {
        let message = format!(
            "the hypervisor took {} of the host's CPU, limit 10 %; use a machine that is not shared",
            text::percent(stolen)
        );
        crossed("steal", TrustVerdict::Doubtful, message, stolen, 0.1)
    })
}

/// A quota of the client's control group stops all its threads at once, for milliseconds.
pub(super) fn throttled(_: &TrustFacts<'_>, cell: &CellRecord) -> Option<TrustReason> {
    let held = derived(cell, "client_throttled_share").filter(|_| long_enough(cell))?;
    let (verdict, limit) = graded(held, 0.01, 0.10)?;
    let message = format!(
        "a CPU quota held the client back {} of the time, limit {}; raise its container's CPU limit",
        text::percent(held),
        text::percent(limit),
    );
    Some(crossed("client_throttled", verdict, message, held, limit))
}
