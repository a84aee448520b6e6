//! What the best cell comes to over a day.

use bench_schema::{Benchmark, CellRecord, Finding, FindingKind, Metric, SloVerdict};

use super::Scene;
use crate::capacity::{CapacityAssumptions, capacity};
use crate::draft::Draft;
use crate::text;
use crate::view;

/// Completed requests below which a rate is no capacity.
const FEWEST: u64 = 20;

pub(super) fn all(scene: &Scene<'_>) -> Vec<Finding> {
    if scene.run.experiment != Benchmark::Throughput {
        return Vec::new();
    }
    daily(scene).into_iter().collect()
}

fn daily(scene: &Scene<'_>) -> Option<Finding> {
    let holds = |cell: &&CellRecord| cell.slos.iter().all(|slo| slo.verdict != SloVerdict::Fail);
    let cells = || {
        scene
            .run
            .cells
            .iter()
            .filter(|c| c.counts.completed >= FEWEST)
    };
    let by_rate = |a: &&CellRecord, b: &&CellRecord| {
        let rate = |c: &CellRecord| view::requests_per_s(c).unwrap_or(0.0);
        rate(a).total_cmp(&rate(b))
    };
    let with_objectives = cells().any(|c| !c.slos.is_empty());
    let cell = cells().filter(holds).max_by(by_rate)?;
    let rate = view::requests_per_s(cell)?;
    let figures = capacity(cell, &CapacityAssumptions::default());
    let day = figures.iter().find(|f| f.name == "requests_per_day")?;
    let under = if with_objectives {
        ", its objectives not failed"
    } else {
        ""
    };
    let claim = format!(
        "{} requests/s in {}{under}: {} requests a day if sustained",
        text::number(rate),
        cell.label,
        text::grouped(day.value),
    );
    let mut draft = Draft::new("capacity", FindingKind::Capacity, 0.2, claim)
        .because_in(&cell.id, "requests per second", rate, "requests/s")
        .because_in(&cell.id, "requests per day", day.value, "requests");
    if let Some(tokens) = view::tokens_per_s(cell) {
        draft = draft.because_in(&cell.id, "output tokens per second", tokens, "tokens/s");
    }
    if let Some(p95) = view::quantile(cell, Metric::E2e, 0.95) {
        draft = draft.because_time(&cell.id, "E2E p95 at that rate", p95);
    }
    if let Some(i) = day.interval {
        draft = draft
            .because_in(&cell.id, "requests per day, lower end", i.low, "requests")
            .because_in(&cell.id, "requests per day, upper end", i.high, "requests");
    }
    draft
        .decided_by("an open loop at this rate for longer: E2E from due stays level if the rate is sustainable")
        .about([cell.id.clone()])
        .done()
}
