//! Stamps: by how much a reported quantile may be wrong because an arrival is not known exactly.

use bench_schema::{CellRecord, Metric, Nanos, Quantile};

use super::{Limits, Scene, Seen, sending};
use crate::text;
use crate::view;

/// The quantiles that tables and objectives show.
const REPORTED: [(Metric, f64); 12] = [
    (Metric::Ttft, 0.5),
    (Metric::Ttft, 0.95),
    (Metric::Ttft, 0.99),
    (Metric::Itl, 0.5),
    (Metric::Itl, 0.95),
    (Metric::Itl, 0.99),
    (Metric::Tpot, 0.5),
    (Metric::Tpot, 0.95),
    (Metric::Tpot, 0.99),
    (Metric::E2e, 0.5),
    (Metric::E2e, 0.95),
    (Metric::E2e, 0.99),
];

/// Share of the mean gap up to which a gap is next to nothing: as much may be open of any quantile.
const NOTHING: f64 = 0.02;

/// What the bounds of its stamps leave open of a quantile.
struct Open {
    /// As a part of it, or of what is said.
    share: f64,
    of: String,
    part_of: &'static str,
    limits: Limits,
}

/// Shares of a quantile from which on it is doubtful, and untrusted.
pub(super) const LIMITS: (f64, f64) = (0.02, 0.10);
/// The same of one that carries the mark of few samples, which chance moves more than that.
const LIMITS_OF_FEW: (f64, f64) = (0.02, 0.50);

/// The reported quantile of which the bounds of its stamps leave the largest part open, beside what may be. One that too few stamps could carry over a stretch
/// without values is left out: there chance moves more than stamps do.
fn largest_error(cell: &CellRecord) -> Option<Open> {
    let errors = REPORTED.into_iter().filter_map(|(metric, q)| {
        let seen = cell.headline(metric)?;
        let entry = seen.quantile_entry(q)?;
        let few = entry.few_samples && q > 0.5;
        if is_chance(cell, metric, entry) {
            return None;
        }
        let own = view::positive(entry.value).or(entry.at_most)?;
        let mean = cell.headline(metric)?.mean;
        // A gap between tokens that come together is next to nothing whatever it is off by, up to what counts of the time that a token takes.
        let is_nothing = metric == Metric::Itl && entry.value < NOTHING * mean;
        // where most do, that is the time from one bundle to the next
        let between = seen.quantiles.last().map(|last| last.value);
        let (scale, part_of) = match between.filter(|_| view::in_bundles(cell)) {
            _ if !is_nothing => (own, ""),
            None => (mean, " of the mean gap"),
            Some(between) => (between, " of the time between bundles"),
        };
        // The columns of a short result are p50 and p95 of TTFT, ITL and E2E.
        let aside = q > 0.95 || metric == Metric::Tpot;
        let name = format!(
            "{} p{}{}",
            metric.title(),
            text::level(q * 100.0),
            if aside { " (see the full tables)" } else { "" }
        );
        let share = view::positive(entry.stamp_error() / scale)?;
        let (doubtful, untrusted) = if few { LIMITS_OF_FEW } else { LIMITS };
        let open = Open {
            share,
            of: name,
            part_of,
            limits: Limits::Share(doubtful, untrusted),
        };
        Some((share / doubtful, open))
    });
    let largest = errors.max_by(|a, b| a.0.total_cmp(&b.0));
    largest.map(|(_, open)| open)
}

/// Whether the interval of a quantile holds both of its ends, and so few stamps are as wide as they lie off that they move its rank by no more
/// than its standard error. Between two kinds of values a few decide on which side the quantile falls.
fn is_chance(cell: &CellRecord, metric: Metric, entry: &Quantile) -> bool {
    let known = cell.headline(metric).zip(cell.client.stamps.as_ref());
    let (Some((of, stamps)), Some(interval)) = (known, entry.interval) else {
        return false;
    };
    let gaps = match metric {
        Metric::Tpot => view::output_tokens(cell).map_or(1.0, |n| n - 1.0),
        _ => 1.0,
    };
    let off = entry.stamp_error() * gaps.max(1.0);
    let wider = |width: Option<Nanos>| width.is_some_and(|width| off > width.as_f64());
    let as_wide = if wider(stamps.width_p99) {
        0.01
    } else if wider(stamps.width_p50) {
        0.5
    } else {
        1.0
    };
    let n = of.n as f64;
    let moved = as_wide * of.bounded_share.unwrap_or(1.0) * n;
    let holds =
        |end: Option<f64>| end.is_none_or(|at| (interval.low..=interval.high).contains(&at));
    moved <= (entry.q * (1.0 - entry.q) * n).sqrt() && holds(entry.at_least) && holds(entry.at_most)
}

/// Where histograms stand in for single gaps, the ends of a quantile are not known: then the mean width over the median gap.
fn mean_error(cell: &CellRecord) -> Option<Open> {
    let stamps = cell.client.stamps.as_ref()?;
    let gap = view::quantile(cell, Metric::Itl, 0.5)
        .or_else(|| view::quantile(cell, Metric::Icl, 0.5))?;
    let bounded = stamps.bounded as f64 / stamps.n.max(1) as f64;
    let width = stamps.width_p50?.as_f64() / gap;
    Some(Open {
        share: bounded * width,
        of: "the median token gap".to_owned(),
        part_of: "",
        limits: Limits::Share(LIMITS.0, LIMITS.1),
    })
}

pub(super) fn bounded_stamps(scene: &Scene<'_>) -> Option<Seen> {
    let cell = scene.cell;
    let stamps = cell.client.stamps.as_ref().filter(|s| s.bounded > 0)?;
    let open = largest_error(cell).or_else(|| mean_error(cell))?;
    let width = stamps
        .width_p50
        .map_or_else(String::new, |width| format!(", {width} wide at the median"));
    let why = if scene.by_kernel() {
        "were read together with later bytes, so their arrival is known only within an interval"
    } else {
        "have the time of the client's read, so their arrival is known only from when the client was woken on"
    };
    let detail = format!(
        ": {} of {} tokens {why}{width}",
        text::grouped(stamps.bounded as f64),
        text::grouped(stamps.n as f64),
    );
    Some(Seen {
        detail,
        limits: Some(open.limits),
        next: in_bundles(scene).or_else(|| sending::taken_or_slow(scene)),
        ..Seen::new(
            open.share,
            format!(
                "{} may be off by {}{}",
                open.of,
                text::percent(open.share),
                open.part_of
            ),
        )
    })
}

/// A client that reads much sooner than the tokens that it read together lie apart did not keep them: they came together.
fn in_bundles(scene: &Scene<'_>) -> Option<String> {
    const MANY: f64 = 0.1;
    let client = &scene.cell.client;
    let stamps = client.stamps.as_ref()?;
    let share = stamps.bounded as f64 / stamps.n.max(1) as f64;
    let (lag, width) = (client.lag.as_ref()?, stamps.width_p50?);
    let on_time = lag.p99.as_f64() < 0.25 * width.as_f64();
    (share >= MANY && on_time).then(|| {
        format!(
            "{} of the tokens arrive together with others, and the client read them within {}: the server, a proxy or the network sends several at a time; turn off response buffering, or measure closer to the server",
            text::percent(share),
            text::time(lag.p99.as_f64())
        )
    })
}

/// Whether each stamp is the kernel's or has bounds, and what those leave open moved nothing that counts.
pub(super) fn are_exact(scene: &Scene<'_>) -> bool {
    let harmless = |seen: Seen| {
        seen.limits
            .is_some_and(|limits| seen.value <= limits.both().0)
    };
    let by_kernel = scene.by_kernel() && scene.cell.client.lag.is_some();
    (by_kernel || all_are_known(scene)) && bounded_stamps(scene).is_none_or(harmless)
}

/// Whether of each event the kernel or the scheduler told how late its read was.
fn all_are_known(scene: &Scene<'_>) -> bool {
    let client = &scene.cell.client;
    let by_kernel = client.lag.as_ref().map_or(0, |lag| lag.n);
    let stamps = client.stamps.as_ref().filter(|stamps| stamps.n > 0);
    stamps.is_some_and(|stamps| by_kernel.saturating_add(stamps.bounded) >= stamps.n)
}

/// Without kernel stamps, how late the client read is the error. Where nothing says how late that was, how busy the client was has to do.
pub(super) fn no_kernel_stamps(scene: &Scene<'_>) -> Option<Seen> {
    if scene.by_kernel() || all_are_known(scene) {
        return None;
    }
    let client = &scene.cell.client;
    let waited = client.run_queue_wait.unwrap_or(0.0);
    let busy = client.busiest_worker.unwrap_or(0.0);
    let observed = client.run_queue_wait.is_some() || client.busiest_worker.is_some();
    if observed && waited <= 0.05 && busy <= 0.5 {
        return None;
    }
    let seen = if observed {
        format!(
            "the busiest client worker used {} of a core and waited for a core {} of the time",
            text::percent(busy),
            text::percent(waited)
        )
    } else {
        "the client's CPU use is unknown".to_owned()
    };
    let why = scene.facts.clock.fallback_reason.as_deref();
    let what = format!(
        "arrival times are those of the client's reads, not of the kernel ({}), and {seen}",
        why.unwrap_or("the kernel gave no timestamps")
    );
    Some(Seen::new(busy.max(waited).max(0.01), what))
}

/// Kernel stamps are on the real-time clock; stamps of the read's return are not, and no step moves them.
pub(super) fn clock_step(scene: &Scene<'_>) -> Option<Seen> {
    let step = scene.cell.client.clock_step.filter(|_| scene.by_kernel())?;
    let size = step.as_f64().abs();
    let what = format!(
        "the real-time clock stepped by {} while kernel timestamps were in use",
        text::time(size)
    );
    Some(Seen::new(size, what))
}
