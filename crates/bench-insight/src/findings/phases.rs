//! Where the time of a request goes: waiting, prompt, answer.

use bench_metrics::decode_residual;
use bench_schema::{CellRecord, Finding, FindingKind, Metric};

use super::Scene;
use crate::bottleneck::{Bottleneck, BottleneckKind, bottlenecks};
use crate::draft::Draft;
use crate::text;
use crate::tuning::{Symptom, actions};
use crate::view;

pub(super) fn all(scene: &Scene<'_>) -> Vec<Finding> {
    let rows: Vec<Bottleneck> = scene.run.cells.iter().flat_map(bottlenecks).collect();
    let raised = |kind| worst(&rows, kind);
    [
        raised(BottleneckKind::Queueing).and_then(|found| queueing(scene, &found)),
        raised(BottleneckKind::Prefill).and_then(|found| phase_bound(scene, &found)),
        raised(BottleneckKind::Decode).and_then(|found| phase_bound(scene, &found)),
        split(&scene.run.cells),
        identity(&scene.run.cells),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The worst raised row of a kind, and the cells in which it is raised.
pub(super) struct Worst {
    pub(super) row: Bottleneck,
    pub(super) cells: Vec<String>,
}

pub(super) fn worst(rows: &[Bottleneck], kind: BottleneckKind) -> Option<Worst> {
    let raised: Vec<&Bottleneck> = rows
        .iter()
        .filter(|row| row.kind == kind && row.raised)
        .collect();
    let row = raised
        .iter()
        .max_by(|a, b| a.severity.total_cmp(&b.severity))?;
    Some(Worst {
        row: (*row).clone(),
        cells: raised.iter().map(|row| row.cell.clone()).collect(),
    })
}

/// ` in 2 of 3 cells`, or nothing where there is only one.
pub(super) fn extent(cells: &[String], of: usize) -> String {
    if of > 1 {
        format!(" in {} of {of} cells", cells.len())
    } else {
        String::new()
    }
}

fn queueing(scene: &Scene<'_>, found: &Worst) -> Option<Finding> {
    let cell = scene.run.cell(&found.row.cell)?;
    let measured = found.row.measured;
    // The row may rest on the server's counts of waiting requests instead of on shares of time.
    let by_time = cell
        .phases
        .as_ref()
        .filter(|p| p.queue_source != "none" && (p.queue - measured).abs() < 1e-9);
    let median = by_time.and_then(|p| {
        p.by_percentile
            .iter()
            .find(|(q, ..)| (q - 0.5).abs() < 1e-9)
    });
    let (claim, times) = match median {
        Some((_, queue, generation)) => (
            format!(
                "requests spend {} of their time waiting: {} in the queue and {} generating at the median",
                text::percent(measured),
                text::time(*queue),
                text::time(*generation),
            ),
            Some((*queue, *generation)),
        ),
        None => (
            format!(
                "requests queue: {}{}",
                found.row.evidence,
                extent(&found.cells, scene.run.cells.len())
            ),
            None,
        ),
    };
    let source = by_time.map_or("waiting and running requests", |p| p.queue_source.as_str());
    let mut draft = Draft::new(
        "queueing",
        FindingKind::Bottleneck,
        found.row.severity,
        claim,
    )
    .because_share(&cell.id, format!("queue share (from {source})"), measured);
    if let Some((queue, generation)) = times {
        draft = draft
            .because_time(&cell.id, "queue time p50", queue)
            .because_time(&cell.id, "generation time p50", generation);
    }
    draft
        .perhaps(if source == "estimate" {
            "the server takes up fewer requests at once than arrive; the queue time is estimated from TTFT without load, so it holds slower prefill too"
        } else {
            "the server takes up fewer requests at once than arrive, while each one alone is served quickly"
        })
        .decided_by("the server's waiting and running counts with a higher limit of concurrent sequences: queue share falls, or GPU use is full")
        .attempt(actions(Symptom::Queueing, scene.server()))
        .about(found.cells.clone())
        .done()
}

fn phase_bound(scene: &Scene<'_>, found: &Worst) -> Option<Finding> {
    let row = &found.row;
    let (symptom, word, threshold, why, decide) = if row.kind == BottleneckKind::Prefill {
        (
            Symptom::Prefill,
            "prefill",
            "30 %",
            "long prompts, or prompts that wait for each other's steps",
            "TTFT with the same prompts one at a time, and with a warm prefix cache",
        )
    } else {
        (
            Symptom::Decode,
            "decode",
            "80 %",
            "tokens are generated one after the other, each step bound by memory bandwidth",
            "ITL at a larger batch: if it stays flat, a step costs the same for more answers, and batching is the way",
        )
    };
    // Decoding dominates nearly every run, and that is seldom news; in the table it keeps its share.
    let severity = if row.kind == BottleneckKind::Decode {
        row.severity - 0.5
    } else {
        row.severity
    };
    let claim = format!(
        "{word} takes {} of E2E (over {threshold}){}",
        text::percent(row.measured),
        extent(&found.cells, scene.run.cells.len()),
    );
    Draft::new(row.kind.code(), FindingKind::Bottleneck, severity, claim)
        .because_share(&row.cell, format!("{word} share of E2E"), row.measured)
        .perhaps(why)
        .decided_by(decide)
        .attempt(actions(symptom, scene.server()))
        .about(found.cells.clone())
        .done()
}

/// Shares of prefill and decode over all cells that have them.
fn split(cells: &[CellRecord]) -> Option<Finding> {
    let known: Vec<(&CellRecord, f64, f64)> = cells
        .iter()
        .filter_map(|cell| {
            let p = cell.phases.as_ref()?;
            (p.decode > 0.0 && p.prefill > 0.0).then_some((cell, p.prefill, p.decode))
        })
        .collect();
    let ends = |pick: fn(&(&CellRecord, f64, f64)) -> f64| {
        let low = known.iter().map(pick).min_by(f64::total_cmp)?;
        let high = known.iter().map(pick).max_by(f64::total_cmp)?;
        Some((low, high))
    };
    let (prefill, decode) = (ends(|k| k.1)?, ends(|k| k.2)?);
    let always = if decode.0 > prefill.1 {
        ", and decode always dominates"
    } else {
        ""
    };
    let claim = format!(
        "decode is {} of E2E and prefill {} in {}{always}",
        text::span(decode.0, decode.1, text::percent),
        text::span(prefill.0, prefill.1, text::percent),
        text::count(known.len(), "cell"),
    );
    let draft = Draft::new("phase_split", FindingKind::Scaling, 0.2, claim);
    known
        .iter()
        .fold(draft, |draft, (cell, prefill, decode)| {
            draft
                .because_share(&cell.id, "prefill share", *prefill)
                .because_share(&cell.id, "decode share", *decode)
        })
        .decided_by("the server's own prefill and decode times, where it exports them")
        .done()
}

/// E2E ≈ TTFT + (n − 1)·ITL: how much of E2E is token gaps, and how well the sum fits.
fn identity(cells: &[CellRecord]) -> Option<Finding> {
    let mut rows: Vec<(&CellRecord, f64, f64)> = Vec::new();
    for cell in cells {
        let Some(tokens) = view::output_tokens(cell).filter(|n| *n > 2.0) else {
            continue;
        };
        let medians = [Metric::E2e, Metric::Ttft].map(|metric| view::quantile(cell, metric, 0.5));
        let gap = view::quantile(cell, Metric::Itl, 0.5)
            .or_else(|| view::quantile(cell, Metric::Tpot, 0.5));
        let ([Some(e2e), Some(ttft)], Some(gap)) = (medians, gap) else {
            continue;
        };
        let residual = cell
            .analysis
            .decode_identity_residual
            .or_else(|| decode_residual(e2e, ttft, gap, tokens).map(|(_, share)| share));
        if let Some(residual) = residual {
            rows.push((cell, (tokens - 1.0) * gap / e2e, residual));
        }
    }
    let worst = rows.iter().map(|r| r.2.abs()).max_by(f64::total_cmp)?;
    let low = rows.iter().map(|r| r.1).min_by(f64::total_cmp)?;
    let high = rows.iter().map(|r| r.1).max_by(f64::total_cmp)?;
    if worst > 0.10 || low < 0.5 || high > 1.1 {
        return None;
    }
    let claim = format!(
        "E2E is decode-dominated: TTFT + (n − 1) × ITL gives it within {}, and token gaps are {} of it",
        text::percent(worst),
        text::span(low, high.min(1.0), text::percent),
    );
    let draft = Draft::new("decode_dominated", FindingKind::Scaling, 0.15, claim);
    rows.iter()
        .fold(draft, |draft, (cell, share, residual)| {
            draft
                .because_share(&cell.id, "decode share of E2E (medians)", *share)
                .because_share(&cell.id, "residual", *residual)
        })
        .decided_by("the residual by request: it grows where streams stall")
        .attempt(["to shorten E2E, shorten answers or ITL; TTFT matters little to it"])
        .done()
}
