//! What machine and server had left: GPU, memory, CPU.

use bench_schema::{CellRecord, Finding, FindingKind};

use super::Scene;
use super::phases::{extent, worst};
use crate::bottleneck::{Bottleneck, BottleneckKind, bottlenecks};
use crate::draft::Draft;
use crate::signals::{Signal, derived};
use crate::text;
use crate::tuning::{Symptom, actions};
use crate::view;

pub(super) fn all(scene: &Scene<'_>) -> Vec<Finding> {
    let rows: Vec<Bottleneck> = scene.run.cells.iter().flat_map(bottlenecks).collect();
    [
        low_gpu(scene, &rows),
        memory(scene, &rows),
        compute_not_memory(scene),
        saturated(scene),
        super::cpu::found(scene),
        throttled(&scene.run.cells),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn low_gpu(scene: &Scene<'_>, rows: &[Bottleneck]) -> Option<Finding> {
    let found = worst(rows, BottleneckKind::LowGpuUse)?;
    let idle = 1.0 - found.row.measured;
    let claim = format!(
        "the GPU is idle {} of the time{}: use {} on average, below 60 %",
        text::percent(idle),
        extent(&found.cells, scene.run.cells.len()),
        text::percent(found.row.measured),
    );
    let busier = scene
        .run
        .cells
        .iter()
        .filter_map(|cell| Some((cell, Signal::GpuUse.of(cell)?.mean)))
        .filter(|(_, mean)| *mean >= 0.6)
        .max_by(|a, b| a.1.total_cmp(&b.1));
    let why = match busier {
        Some((cell, mean)) => format!(
            "too little load: in {} the same GPU is used {}",
            cell.label,
            text::percent(mean)
        ),
        None => {
            "too little load, small batches, or a limit before the GPU: CPU, scheduler, network"
                .to_owned()
        }
    };
    Draft::new(
        "low_gpu_use",
        FindingKind::Bottleneck,
        found.row.severity,
        claim,
    )
    .because_share(&found.row.cell, "mean GPU use", found.row.measured)
    .perhaps(why)
    .decided_by(
        "the same cell with twice the load: if GPU use does not rise, the limit is elsewhere",
    )
    .attempt(actions(Symptom::IdleGpu, scene.server()))
    .about(found.cells)
    .done()
}

fn memory(scene: &Scene<'_>, rows: &[Bottleneck]) -> Option<Finding> {
    let found = worst(rows, BottleneckKind::Memory)?;
    let claim = format!(
        "memory is short{}: {}",
        extent(&found.cells, scene.run.cells.len()),
        found.row.evidence
    );
    let reserved = found.row.evidence.starts_with("GPU memory");
    Draft::new(
        "memory_pressure",
        FindingKind::Bottleneck,
        // A full card may be nothing but the server's reservation.
        if reserved { 0.4 } else { found.row.severity },
        claim,
    )
    .because_share(&found.row.cell, "peak use", found.row.measured)
    .perhaps(if reserved {
        "servers reserve most of the card at the start, so this may be a reservation and no pressure; the KV cache's own use is not known here"
    } else {
        "sequences are kept waiting or preempted for lack of cache blocks"
    })
    .decided_by("KV-cache use and preemptions while concurrency is halved: pressure disappears, a reservation stays")
    .attempt(actions(Symptom::Memory, scene.server()))
    .about(found.cells)
    .done()
}

/// GPU pinned, KV cache idle, nothing waiting: compute is what runs out first.
fn compute_not_memory(scene: &Scene<'_>) -> Option<Finding> {
    let cells = &scene.run.cells;
    let peak = |signal: Signal| {
        cells
            .iter()
            .filter_map(|cell| signal.of(cell))
            .map(|level| level.peak)
            .max_by(f64::total_cmp)
    };
    let (gpu, cache) = (peak(Signal::GpuUse)?, peak(Signal::KvCache)?);
    let waiting = peak(Signal::Waiting);
    if gpu < 0.95 || cache > 0.5 || waiting.is_some_and(|w| w >= 1.0) {
        return None;
    }
    let queue = if waiting.is_some() {
        ", and nothing waited"
    } else {
        ""
    };
    let claim = format!(
        "compute is the limit, not memory: GPU use reached {}, the KV cache at most {}{queue}",
        text::percent(gpu),
        text::percent(cache),
    );
    let mut draft = Draft::new("compute_bound", FindingKind::Bottleneck, 0.5, claim)
        .because("peak GPU use", gpu * 100.0, "%")
        .because("peak KV-cache use", cache * 100.0, "%");
    if let Some(waiting) = waiting {
        draft = draft.because("peak of waiting requests", waiting, "requests");
    }
    draft
        .perhaps("for this model the cache of a request is small, so arithmetic runs out first; more replicas on the same GPU would share it and not help")
        .decided_by("SM occupancy and memory-bandwidth counters at the highest load: utilisation alone says that something ran, not how full it was")
        .attempt(actions(Symptom::FullGpu, scene.server()))
        .done()
}

/// Utilisation over 95 % while throughput has stopped following the load.
fn saturated(scene: &Scene<'_>) -> Option<Finding> {
    let (factor, series) = view::load_series(&scene.run.cells)?;
    let (before, last, usage) = series.iter().find_map(|members| {
        let [.., before, last] = members.as_slice() else {
            return None;
        };
        let usage = Signal::GpuUse.of(last.1)?.mean;
        (usage > 0.95).then_some((*before, *last, usage))
    })?;
    let rate = |cell: &CellRecord| view::tokens_per_s(cell).or(view::requests_per_s(cell));
    let gain = rate(last.1)? / rate(before.1)? - 1.0;
    let added = last.0 / before.0 - 1.0;
    // Less than a quarter of the added load came through.
    if gain > 0.25 * added {
        return None;
    }
    let claim = format!(
        "the GPU is saturated at {factor} {}: use {}, and {} more load than at {} brought {} more throughput",
        text::level(last.0),
        text::percent(usage),
        text::percent(added),
        text::level(before.0),
        text::percent(gain),
    );
    Draft::new("saturated_compute", FindingKind::Bottleneck, 0.8, claim)
        .because_share(&last.1.id, "mean GPU use", usage)
        .because("throughput gained", gain * 100.0, "%")
        .because("load added", added * 100.0, "%")
        .perhaps("the GPU has nothing left; what comes in on top waits")
        .decided_by(
            "a level between the two: throughput flattens where utilisation reaches its ceiling",
        )
        .attempt(actions(Symptom::FullGpu, scene.server()))
        .about([last.1.id.clone()])
        .done()
}

/// Share of the time that a GPU may be held back by heat or power before it is said.
const THROTTLED: f64 = 0.05;

fn throttled(cells: &[CellRecord]) -> Option<Finding> {
    let (cell, share) = cells
        .iter()
        .filter_map(|cell| Some((cell, derived(cell, "gpu_throttled_share")?)))
        .max_by(|a, b| a.1.total_cmp(&b.1))
        .filter(|(_, share)| *share > THROTTLED)?;
    let claim = format!(
        "the GPU was held back by heat or power {} of the time in {}",
        text::percent(share.min(1.0)),
        cell.label
    );
    Draft::new("gpu_throttled", FindingKind::Stability, (0.3 + share / 2.0).min(0.8), claim)
        .because_share(&cell.id, "throttled share", share)
        .perhaps("clocks were lowered, so the numbers depend on temperature and power limit as well as on the server")
        .decided_by("the same with a lower, fixed clock: the spread goes away")
        .attempt(["check cooling and the power limit", "fix the clocks for comparisons"])
        .about([cell.id.clone()])
        .done()
}
