//! Where to run it: the best level of a sweep.

use bench_schema::{CellRecord, Finding, FindingKind, Metric, ScalingRow};

use super::at;
use crate::draft::Draft;
use crate::findings::Scene;
use crate::signals::Signal;
use crate::text;
use crate::view;

pub(super) fn all(scene: &Scene<'_>) -> Vec<Finding> {
    [operating_point(scene), knee(scene), overload(scene)]
        .into_iter()
        .flatten()
        .collect()
}

/// The highest level whose throughput gain is worth its latency penalty, as are all levels below it.
pub(super) fn best(rows: &[&ScalingRow]) -> Option<Finding> {
    let base = rows
        .first()
        .filter(|row| row.factor == "concurrency" || row.factor == "batch")?;
    let judged = |row: &&&ScalingRow| row.latency_penalty.is_some();
    rows.iter().skip(1).find(judged)?;
    let good = rows
        .iter()
        .skip(1)
        .take_while(|row| is_good(row))
        .last()
        .unwrap_or(base);
    let next = rows.iter().find(|row| row.level > good.level);
    let trade = |row: &ScalingRow| {
        let ratio = row
            .tradeoff_ratio
            .map_or_else(String::new, |r| format!(" ({}:1)", text::number(r)));
        format!(
            "{} throughput for {} latency{ratio}",
            signed(row.throughput_gain.unwrap_or(0.0)),
            signed(row.latency_penalty.unwrap_or(0.0)),
        )
    };
    let claim = match next {
        Some(next) if good.level > base.level => format!(
            "{} is the best trade: {}; {} is {}",
            at(good),
            trade(good),
            text::level(next.level),
            trade(next)
        ),
        Some(next) => format!(
            "{} is the best trade: already at {} it is {}",
            at(good),
            text::level(next.level),
            trade(next)
        ),
        None => format!(
            "load pays up to {}, the end of the sweep: {}",
            at(good),
            trade(good)
        ),
    };
    let draft = Draft::new("best_concurrency", FindingKind::Capacity, 0.3, claim);
    rows.iter()
        .filter_map(|row| Some((row, row.tradeoff_ratio?)))
        .fold(draft, |draft, (row, ratio)| draft.because_in(&row.cell, format!("trade-off ratio at {}", at(row)), ratio, ""))
        .because("best level", good.level, "")
        .decided_by(if next.is_none() {
            "higher levels: the limit was not reached"
        } else {
            "levels between, with repeats: the intervals of gain and penalty tell how sharp the optimum is"
        })
        .attempt([format!("run at {} unless an objective asks for less", at(good))])
        .about([good.cell.clone()])
        .done()
}

fn is_good(row: &ScalingRow) -> bool {
    match row.tradeoff_ratio {
        Some(ratio) => ratio >= 1.0,
        // No penalty at all is the best of trades.
        None => row.latency_penalty.is_some_and(|p| p <= 0.0) && row.scaling_factor >= 1.0,
    }
}

fn signed(share: f64) -> String {
    let sign = if share < 0.0 { "−" } else { "+" };
    format!("{sign}{}", text::percent(share.abs()))
}

/// GPU use that leaves neither idle time nor a queue.
const GOOD_USE: std::ops::RangeInclusive<f64> = 0.80..=0.90;

/// The level of a sweep whose GPU use is 80–90 %; of several, that with the most throughput.
fn operating_point(scene: &Scene<'_>) -> Option<Finding> {
    let (factor, series) = view::load_series(&scene.run.cells)?;
    let members = series.iter().find(|members| members.len() > 1)?;
    let levels: Vec<(f64, &CellRecord, f64)> = members
        .iter()
        .filter_map(|(level, cell)| Some((*level, *cell, Signal::GpuUse.of(cell)?.mean)))
        .collect();
    if view::DEVICE_FACTORS.contains(&factor) || levels.len() < 2 {
        return None;
    }
    let best = levels
        .iter()
        .filter(|(.., usage)| GOOD_USE.contains(usage))
        .max_by(|a, b| a.0.total_cmp(&b.0))?;
    let claim = format!(
        "{factor} {} is the operating point: GPU use {}, within 80–90 %{}",
        text::level(best.0),
        text::percent(best.2),
        beside(best, &levels),
    );
    let draft = Draft::new("operating_point", FindingKind::Capacity, 0.35, claim);
    levels
        .iter()
        .fold(draft, |draft, (_, cell, usage)| {
            let draft = draft.because_share(&cell.id, "mean GPU use", *usage);
            match view::mean(cell, Metric::E2e) {
                Some(e2e) => draft.because_time(&cell.id, "mean E2E", e2e),
                None => draft,
            }
        })
        .perhaps("below it the GPU idles, above it requests wait")
        .decided_by("levels around it with repeats, and E2E from due over a longer window: a queue that grows shows there")
        .attempt([format!("run at {factor} {}, and scale out when the demand is higher", text::level(best.0))])
        .about([best.1.id.clone()])
        .done()
}

/// What the neighbours of the best level look like.
fn beside(best: &(f64, &CellRecord, f64), levels: &[(f64, &CellRecord, f64)]) -> String {
    let below = levels.iter().rfind(|l| l.0 < best.0);
    let above = levels.iter().find(|l| l.0 > best.0);
    let mut parts = Vec::new();
    if let Some((level, _, usage)) = below {
        parts.push(format!(
            "at {} it is {}",
            text::level(*level),
            text::percent(*usage)
        ));
    }
    if let Some((level, cell, usage)) = above {
        let slower = view::mean(cell, Metric::E2e)
            .zip(view::mean(best.1, Metric::E2e))
            .map(|(now, then)| format!(" and E2E {} longer", text::percent(now / then - 1.0)))
            .unwrap_or_default();
        parts.push(format!(
            "at {} it is {}{slower}",
            text::level(*level),
            text::percent(*usage)
        ));
    }
    if parts.is_empty() {
        String::new()
    } else {
        format!("; {}", text::list(&parts))
    }
}

fn knee(scene: &Scene<'_>) -> Option<Finding> {
    let fit = scene.analysis.fits.get("usl")?;
    let knee = *fit.parameters.get("knee")?;
    let interval = fit.intervals.get("knee")?;
    let claim = format!(
        "throughput peaks near {} (95 %: {} to {}) by the scalability law",
        text::level(knee.round()),
        text::level(interval.low.round()),
        text::level(interval.high.round()),
    );
    Draft::new("knee", FindingKind::Capacity, 0.25, claim)
        .because("knee", knee, "")
        .because("contention σ", *fit.parameters.get("sigma")?, "")
        .because("coherency κ", *fit.parameters.get("kappa")?, "")
        .perhaps("beyond the knee each added request costs the others more than it brings")
        .decided_by(
            "levels on both sides of the knee; outside the measured range it is an extrapolation",
        )
        .done()
}

/// Less came out than was put in, over a window long enough to tell.
fn overload(scene: &Scene<'_>) -> Option<Finding> {
    let (cell, offered, served) = scene
        .run
        .cells
        .iter()
        .filter(|cell| cell.load.is_open())
        .filter_map(|cell| {
            let rates = cell.headline_rates()?;
            let offered = view::positive(cell.plan.offered_rate_per_s?)?;
            // A window that holds the drain of long answers shows fewer completions than arrivals without any overload.
            let long = rates.seconds >= 3.0 * view::mean(cell, Metric::E2e)? / 1e9;
            long.then_some((cell, offered, rates.requests_per_s))
        })
        .min_by(|a, b| (a.2 / a.1).total_cmp(&(b.2 / b.1)))
        .filter(|(_, offered, served)| *served < 0.9 * offered)?;
    let claim = format!(
        "the server does not keep up in {}: {} requests/s offered, {} served, so its queue grows as long as it lasts",
        cell.label,
        text::number(offered),
        text::number(served),
    );
    Draft::new("overload", FindingKind::Bottleneck, (1.0 - served / offered).clamp(0.3, 1.0), claim)
        .because_in(&cell.id, "offered", offered, "requests/s")
        .because_in(&cell.id, "served", served, "requests/s")
        .perhaps("the rate is beyond capacity: latencies here depend on how long the cell ran, not on the server alone")
        .decided_by("the same rate for twice as long: E2E from due grows with the duration")
        .attempt(["lower the rate below what is served", "add replicas"])
        .about([cell.id.clone()])
        .done()
}
