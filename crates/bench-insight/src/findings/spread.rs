//! How far apart the slow and the usual are.

use bench_metrics::CovClass;
use bench_schema::{CellRecord, Distribution, Finding, FindingKind, Metric};

use super::Scene;
use super::phases::{extent, worst};
use crate::bottleneck::{Bottleneck, BottleneckKind, bottlenecks, lengths_explain};
use crate::draft::Draft;
use crate::text;
use crate::tuning::{Symptom, actions};
use crate::view;

pub(super) fn all(scene: &Scene<'_>) -> Vec<Finding> {
    let mut found: Vec<Finding> = [consistency(scene), variance(scene), degraded(scene)]
        .into_iter()
        .flatten()
        .collect();
    found.extend(tail(scene));
    found.extend(persistent(scene));
    found
}

/// Values below which a P95 is a maximum.
const TAIL_VALUES: u64 = 20;

/// P95 and P50 of a cell's E2E, where there are enough values for a tail.
fn tail_of(cell: &CellRecord) -> Option<(&Distribution, f64, f64)> {
    let e2e = cell.headline(Metric::E2e).filter(|d| d.n >= TAIL_VALUES)?;
    let p50 = view::positive(e2e.p50()?)?;
    Some((e2e, p50, view::positive(e2e.quantile(0.95)?)?))
}

fn tail(scene: &Scene<'_>) -> Option<Finding> {
    let (cell, e2e, p50, p95) = scene
        .run
        .cells
        .iter()
        .filter_map(|cell| tail_of(cell).map(|(d, p50, p95)| (cell, d, p50, p95)))
        .max_by(|a, b| (a.3 / a.2).total_cmp(&(b.3 / b.2)))
        .filter(|(.., p50, p95)| p95 / p50 >= 2.0)?;
    let ratio = p95 / p50;
    let claim = format!(
        "the slowest 5 % take {} as long as the median: P95 {} against P50 {}",
        text::times(ratio),
        text::time(p95),
        text::time(p50),
    );
    let lengths = cell
        .metrics
        .get(&Metric::OutputTokens)
        .and_then(|d| Some(d.quantile(0.95)? / view::positive(d.p50()?)?));
    let mixed = cell
        .groups
        .iter()
        .filter(|g| g.by == "use_case" || g.by == "category")
        .count()
        > 1;
    let why = match lengths {
        Some(by) if by >= 0.8 * ratio => {
            "answers differ as much in length, so this is the workload before it is the server"
        }
        _ if mixed => {
            "request kinds of different length are mixed, and some wait behind longer ones"
        }
        _ => "some requests wait, or share steps with long prompts",
    };
    let mut draft = Draft::new(
        "tail_gap",
        FindingKind::Stability,
        ((ratio - 1.0) / 4.0).clamp(0.2, 0.9),
        claim,
    )
    .because_time(&cell.id, "E2E p50", p50)
    .because_time(&cell.id, "E2E p95", p95)
    .because_time(&cell.id, "E2E mean", e2e.mean)
    .because_in(&cell.id, "P95 over P50", ratio, "×");
    if let Some(by) = lengths {
        draft = draft.because_in(&cell.id, "P95 over P50 of output tokens", by, "×");
    }
    draft
        .perhaps(why)
        .decided_by(
            "the same ratio within each use case, and of TPOT: what is left there is the server's",
        )
        .attempt([
            "promise percentiles, not means",
            "set objectives per use case",
        ])
        .attempt(actions(Symptom::Variance, scene.server()))
        .about([cell.id.clone()])
        .done()
}

/// P99 next to a P95 that is far from the median: the slow ones are a regime, not outliers.
fn persistent(scene: &Scene<'_>) -> Option<Finding> {
    let (cell, p50, p95, p99) = scene
        .run
        .cells
        .iter()
        .filter_map(|cell| {
            let (d, p50, p95) = tail_of(cell)?;
            let entry = d.quantile_entry(0.99)?;
            Some((cell, p50, p95, view::positive(entry.value)?))
        })
        .find(|(_, p50, p95, p99)| p95 / p50 >= 2.0 && p99 / p95 < 1.1)?;
    let claim = format!(
        "the worst case is a regime, not an outlier: P99 {} is next to P95 {}, both far from P50 {}",
        text::time(p99),
        text::time(p95),
        text::time(p50),
    );
    Draft::new("persistent_worst_case", FindingKind::Stability, 0.5, claim)
        .because_time(&cell.id, "E2E p99", p99)
        .because_time(&cell.id, "E2E p95", p95)
        .because_time(&cell.id, "E2E p50", p50)
        .perhaps("a share of requests regularly meets the same delay: head-of-line blocking behind large ones, or a second regime")
        .decided_by("the timeline of the slow requests: whether they cluster in time, and what ran beside them")
        .attempt(actions(Symptom::HeadOfLine, scene.server()))
        .about([cell.id.clone()])
        .done()
}

/// Cells that repeat one shape: their spread is the system's, not the workload's.
fn is_controlled(cell: &CellRecord) -> bool {
    let lengths_vary = cell
        .metrics
        .get(&Metric::OutputTokens)
        .and_then(|d| d.cov)
        .is_some_and(|cov| cov > 0.01);
    let grouped = cell
        .groups
        .iter()
        .filter(|g| g.by == "use_case" || g.by == "category")
        .count()
        > 1;
    !lengths_vary && !grouped
}

fn consistency(scene: &Scene<'_>) -> Option<Finding> {
    let rows: Vec<(&CellRecord, f64)> = scene
        .run
        .cells
        .iter()
        .filter(|cell| is_controlled(cell))
        .filter_map(|cell| {
            let e2e = cell.headline(Metric::E2e).filter(|d| d.n >= 5)?;
            Some((cell, e2e.cov.filter(|c| c.is_finite())?))
        })
        .collect();
    let (low, high) = (
        rows.iter().map(|r| r.1).min_by(f64::total_cmp)?,
        rows.iter().map(|r| r.1).max_by(f64::total_cmp)?,
    );
    let class = CovClass::of(high);
    let (code, severity) = match class {
        CovClass::Consistent => ("consistent", 0.05),
        CovClass::Mostly => ("consistent", 0.1),
        CovClass::Noticeable => ("noticeable_variation", 0.3),
        CovClass::Unstable => ("unstable_latency", 0.5),
    };
    let claim = format!(
        "the same request takes the same time within {} (CoV) in {}: {}",
        text::span(low, high, text::percent),
        text::count(rows.len(), "cell"),
        class.as_str(),
    );
    let draft = Draft::new(code, FindingKind::Stability, severity, claim);
    let draft = rows.iter().fold(draft, |draft, (cell, cov)| {
        draft.because_share(&cell.id, "CoV of E2E", *cov)
    });
    match class {
        CovClass::Consistent | CovClass::Mostly => draft
            .perhaps("nothing hidden disturbs it here: no throttling, no neighbours, no contention")
            .decided_by("the same cells under load, and on another day"),
        _ => draft
            .perhaps("a neighbour, thermal throttling, batching with other traffic, or a cache that is warm only sometimes")
            .decided_by("E2E over time beside clocks, temperatures and the server's running count")
            .attempt(actions(Symptom::Variance, scene.server())),
    }
    .done()
}

fn variance(scene: &Scene<'_>) -> Option<Finding> {
    let rows: Vec<Bottleneck> = scene.run.cells.iter().flat_map(bottlenecks).collect();
    let found = worst(&rows, BottleneckKind::Variance)?;
    let claim = format!(
        "{}{}: {}",
        if scene.run.cell(&found.row.cell).is_some_and(lengths_explain) {
            "latency varies with the length of answers"
        } else {
            "latency is hard to predict"
        },
        extent(&found.cells, scene.run.cells.len()),
        found.row.evidence
    );
    Draft::new(
        "high_variance",
        FindingKind::Bottleneck,
        found.row.severity,
        claim,
    )
    .because_share(&found.row.cell, "CoV", found.row.measured)
    .perhaps(
        "requests of very different length, bursts of arrivals, or batches that change in size",
    )
    .decided_by("the same at fixed lengths and constant arrivals: what remains is the server's")
    .attempt(actions(Symptom::Variance, scene.server()))
    .about(found.cells)
    .done()
}

/// Per-request speed that is usually low and now and then many times higher.
fn degraded(scene: &Scene<'_>) -> Option<Finding> {
    let (cell, usual, fast) = scene
        .run
        .cells
        .iter()
        .filter_map(|cell| {
            let speed = cell
                .headline(Metric::TokensPerSUser)
                .filter(|d| d.n >= TAIL_VALUES)?;
            let usual = view::positive(speed.p50()?)?;
            Some((
                cell,
                usual,
                speed
                    .quantile(0.99)
                    .unwrap_or(speed.max)
                    .max(speed.quantile(0.95)?),
            ))
        })
        .max_by(|a, b| (a.2 / a.1).total_cmp(&(b.2 / b.1)))
        .filter(|(_, usual, fast)| fast / usual >= 3.0)?;
    let claim = format!(
        "typical speed is low with rare spikes: {} tokens/s at the median, {} at the 99th percentile",
        text::number(usual),
        text::number(fast),
    );
    Draft::new("degraded_regime", FindingKind::Stability, (0.1 * fast / usual).clamp(0.3, 0.7), claim)
        .because_in(&cell.id, "tokens/s per request p50", usual, "tokens/s")
        .because_in(&cell.id, "tokens/s per request p99", fast, "tokens/s")
        .because_in(&cell.id, "p99 over p50", fast / usual, "×")
        .perhaps("the server is capable of the spikes but mostly runs in a degraded regime (saturated, badly batched, waiting); very short answers make noisy speeds too")
        .decided_by("speed of answers above 50 tokens only, against the number running at the time")
        .attempt(actions(Symptom::Degraded, scene.server()))
        .about([cell.id.clone()])
        .done()
}
