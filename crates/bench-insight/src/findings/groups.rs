//! Kinds of requests beside each other: use cases within a cell.

use bench_schema::{CellRecord, Finding, FindingKind, GroupRecord, Metric};

use super::Scene;
use crate::draft::Draft;
use crate::text;
use crate::view;

pub(super) fn all(scene: &Scene<'_>) -> Vec<Finding> {
    // The cell with the most requests tells most; the others would repeat it.
    let Some(cell) = scene
        .run
        .cells
        .iter()
        .filter(|cell| use_cases(cell).count() > 1)
        .max_by_key(|cell| cell.counts.completed)
    else {
        return Vec::new();
    };
    [slowest(cell), speed(cell)].into_iter().flatten().collect()
}

fn use_cases(cell: &CellRecord) -> impl Iterator<Item = &GroupRecord> {
    cell.groups.iter().filter(|group| group.by == "use_case")
}

fn slowest(cell: &CellRecord) -> Option<Finding> {
    let mut rows: Vec<(&str, f64)> = use_cases(cell)
        .filter_map(|group| {
            let p95 = view::of_group(cell, group, Metric::E2e)?.quantile(0.95)?;
            Some((group.name.as_str(), view::positive(p95)?))
        })
        .collect();
    rows.sort_by(|a, b| a.1.total_cmp(&b.1));
    let (first, last) = (rows.first()?, rows.last().filter(|_| rows.len() > 1)?);
    let ratio = last.1 / first.1;
    if ratio < 1.5 {
        return None;
    }
    // Where answers differ as much in length, that is what was asked for.
    let tokens = |name: &str| {
        let group = use_cases(cell).find(|group| group.name == name)?;
        view::mean_tokens(&group.metrics, Metric::OutputTokens)
    };
    let by_length = tokens(first.0)
        .zip(tokens(last.0))
        .is_some_and(|(short, long)| long / short >= 0.8 * ratio);
    let severity = if by_length {
        0.15
    } else {
        (ratio / 40.0).clamp(0.2, 0.5)
    };
    let claim = format!(
        "use cases differ {} at P95: {} takes {}, {} takes {}",
        text::times(ratio),
        first.0,
        text::time(first.1),
        last.0,
        text::time(last.1),
    );
    let draft = Draft::new("use_case_latency", FindingKind::Objective, severity, claim);
    rows.iter()
        .fold(draft, |draft, (name, p95)| {
            draft.because_time(&cell.id, format!("E2E p95 of {name}"), *p95)
        })
        .perhaps(if by_length {
            "their answers differ as much in length"
        } else {
            "the length of the answers explains most of it, unless kinds wait for each other"
        })
        .decided_by("E2E per output token by use case: what differs there is not length")
        .attempt(["set objectives per use case (`--slo`, or a scenario file)"])
        .about([cell.id.clone()])
        .done()
}

/// Tokens per second within one answer, by use case.
fn speed(cell: &CellRecord) -> Option<Finding> {
    let rows: Vec<(&str, f64)> = use_cases(cell)
        .filter_map(|group| {
            let speed = view::positive(group.metrics.get(&Metric::TokensPerSUser)?.mean)?;
            Some((group.name.as_str(), speed))
        })
        .collect();
    let low = rows.iter().min_by(|a, b| a.1.total_cmp(&b.1))?;
    let high = rows
        .iter()
        .max_by(|a, b| a.1.total_cmp(&b.1))
        .filter(|_| rows.len() > 1)?;
    let even = high.1 / low.1 < 1.5;
    let claim = if even {
        format!(
            "every kind of request is generated at about the same speed: {:.0} to {:.0} tokens/s per request",
            low.1, high.1
        )
    } else {
        format!(
            "kinds of requests are generated at different speeds: {} {:.0}, {} {:.0} tokens/s",
            low.0, low.1, high.0, high.1
        )
    };
    let draft = Draft::new(
        "speed_by_use_case",
        FindingKind::Scaling,
        if even { 0.1 } else { 0.25 },
        claim,
    );
    rows.iter()
        .fold(draft, |draft, (name, speed)| draft.because_in(&cell.id, format!("speed of {name}"), *speed, "tokens/s"))
        .perhaps("short answers spend a larger part of their time on the prompt, so their speed looks lower")
        .decided_by("TPOT by use case, which leaves the prompt out")
        .about([cell.id.clone()])
        .done()
}
