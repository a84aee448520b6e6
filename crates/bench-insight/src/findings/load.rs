//! What load buys and what it costs.

mod degrade;
mod operate;

use bench_schema::{Finding, FindingKind, ScalingRow};

use super::Scene;
use crate::draft::Draft;
use crate::text;
use crate::tuning::{Symptom, actions};
use crate::view;

pub(super) fn all(scene: &Scene<'_>) -> Vec<Finding> {
    let mut found = of_rows(scene);
    found.extend(degrade::all(scene));
    found.extend(operate::all(scene));
    found
}

/// What the scaling table alone says.
pub(super) fn of_rows(scene: &Scene<'_>) -> Vec<Finding> {
    let rows = load_rows(&scene.analysis.scaling);
    series(&rows)
        .iter()
        .flat_map(|rows| {
            [
                growth(scene, rows),
                devices(scene, rows),
                diminishing(rows),
                operate::best(rows),
            ]
        })
        .flatten()
        .collect()
}

fn load_rows(rows: &[ScalingRow]) -> Vec<&ScalingRow> {
    rows.iter()
        .filter(|row| row.throughput_gain.is_some())
        .collect()
}

/// Rows split where a new baseline begins.
fn series<'a>(rows: &[&'a ScalingRow]) -> Vec<Vec<&'a ScalingRow>> {
    let mut all: Vec<Vec<&ScalingRow>> = Vec::new();
    for row in rows {
        match all.last_mut() {
            Some(current) if current.last().is_some_and(|last| last.level < row.level) => {
                current.push(row);
            }
            _ => all.push(vec![row]),
        }
    }
    all.retain(|rows| rows.len() > 1);
    all
}

fn is_device(row: &ScalingRow) -> bool {
    view::DEVICE_FACTORS.contains(&row.factor.as_str())
}

/// `concurrency 8`, `2 gpus`.
fn at(row: &ScalingRow) -> String {
    format!("{} {}", row.factor, text::level(row.level))
}

/// Throughput from the baseline to the highest level, for load (not for devices or rates).
fn growth(scene: &Scene<'_>, rows: &[&ScalingRow]) -> Option<Finding> {
    let base = rows.first()?;
    let best = rows.iter().max_by(|a, b| a.value.total_cmp(&b.value))?;
    if is_device(base) || base.factor == "rate" || best.scaling_factor < 1.2 {
        return None;
    }
    let efficiency = best.efficiency?;
    let shape = if efficiency >= 0.65 && best.level > base.level {
        ", nearly in proportion"
    } else {
        ""
    };
    let counts_tokens = scene
        .run
        .cell(&base.cell)
        .and_then(view::tokens_per_s)
        .is_some_and(|rate| (rate - base.value).abs() < 1e-9 * rate);
    let unit = if counts_tokens {
        "output tokens/s"
    } else {
        "requests/s"
    };
    let claim = format!(
        "batching multiplies throughput {}: {} to {} {unit} from {} to {}{shape}",
        text::times(best.scaling_factor),
        text::grouped_or_plain(base.value),
        text::grouped_or_plain(best.value),
        at(base),
        text::level(best.level),
    );
    let draft = Draft::new("batching_speedup", FindingKind::Capacity, 0.2, claim);
    rows.iter()
        .fold(draft, |draft, row| {
            draft.because_in(&row.cell, "speed-up", row.scaling_factor, "×")
        })
        .because("efficiency at the best level", efficiency * 100.0, "%")
        .perhaps("a step over many sequences costs little more than over one")
        .decided_by("higher levels, until throughput stops rising")
        .done()
}

/// Devices: how much of each added one arrives.
fn devices(scene: &Scene<'_>, rows: &[&ScalingRow]) -> Option<Finding> {
    let base = rows.first().filter(|row| is_device(row))?;
    let last = rows.last()?;
    let parts: Vec<String> = rows
        .iter()
        .skip(1)
        .filter_map(|row| {
            Some(format!(
                "{} {} reach {} ({})",
                text::level(row.level),
                row.factor,
                text::times_exact(row.scaling_factor),
                text::percent(row.efficiency?),
            ))
        })
        .collect();
    let efficiency = last.efficiency?;
    let claim = format!(
        "scaling efficiency falls to {}: {}",
        text::percent(efficiency),
        text::list(&parts)
    );
    if efficiency >= 0.9 {
        let claim = format!("scaling is nearly linear: {}", text::list(&parts));
        return Draft::new("scaling_efficiency", FindingKind::Scaling, 0.1, claim)
            .because("efficiency", efficiency * 100.0, "%")
            .decided_by("the next count of devices")
            .done();
    }
    let draft = Draft::new(
        "scaling_efficiency",
        FindingKind::Scaling,
        1.0 - efficiency,
        claim,
    );
    rows.iter()
        .filter_map(|row| Some((row, row.efficiency?)))
        .fold(draft, |draft, (row, efficiency)| {
            draft.because_share(&row.cell, format!("efficiency at {}", at(row)), efficiency)
        })
        .because("efficiency lost to the baseline", (1.0 - efficiency) * 100.0, "%")
        .perhaps(format!(
            "communication between devices grows with their number, while the work of each shrinks below what fills it ({} baseline)",
            at(base)
        ))
        .decided_by("interconnect traffic and time in collectives at each count; the same total split into independent replicas")
        .attempt(actions(Symptom::Communication, scene.server()))
        .done()
}

/// The last step of load: how much of it came through.
fn diminishing(rows: &[&ScalingRow]) -> Option<Finding> {
    let [.., before, last] = rows else {
        return None;
    };
    if is_device(last) || last.factor == "rate" {
        return None;
    }
    let (gain, added) = (
        last.value / before.value - 1.0,
        last.level / before.level - 1.0,
    );
    let came = gain / added;
    if came > 0.5 {
        return None;
    }
    let efficiencies: Vec<String> = rows
        .iter()
        .filter_map(|row| {
            Some(format!(
                "{} at {}",
                text::percent(row.efficiency?),
                text::level(row.level)
            ))
        })
        .collect();
    let claim = format!(
        "returns diminish: {} {} brings {} {} throughput than {}; efficiency is {}",
        last.factor,
        text::level(last.level),
        text::percent(gain.abs()),
        if gain < 0.0 { "less" } else { "more" },
        text::level(before.level),
        text::list(&efficiencies),
    );
    Draft::new(
        "diminishing_returns",
        FindingKind::Scaling,
        (0.6 * (1.0 - came)).clamp(0.0, 0.7),
        claim,
    )
    .because("throughput gained by the last step", gain * 100.0, "%")
    .because("load added by the last step", added * 100.0, "%")
    .perhaps("the resource that serves is full, so added requests share what there is")
    .decided_by("utilisation of CPU or GPU at both levels")
    .attempt(["scale out (more instances) rather than up from here"])
    .about([before.cell.clone(), last.cell.clone()])
    .done()
}
