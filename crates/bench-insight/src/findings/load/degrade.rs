//! Which latency gives first as load rises, and which holds.

use bench_schema::{CellRecord, Finding, FindingKind, Metric};

use crate::draft::Draft;
use crate::findings::Scene;
use crate::text;
use crate::tuning::{Symptom, actions};
use crate::view;

pub(super) fn all(scene: &Scene<'_>) -> Vec<Finding> {
    let Some((factor, series)) = view::load_series(&scene.run.cells) else {
        return Vec::new();
    };
    if view::DEVICE_FACTORS.contains(&factor) {
        return Vec::new();
    }
    series
        .iter()
        .flat_map(|members| {
            [
                ttft_first(scene, factor, members),
                itl_flat(factor, members),
            ]
        })
        .flatten()
        .collect()
}

type Members<'a> = [(f64, &'a CellRecord)];

/// The median gap between tokens, whatever of it is known.
fn gap(cell: &CellRecord, q: f64) -> Option<f64> {
    view::quantile(cell, Metric::Itl, q).or_else(|| view::quantile(cell, Metric::Tpot, q))
}

fn ttft_first(scene: &Scene<'_>, factor: &str, members: &Members<'_>) -> Option<Finding> {
    let (first, last) = (members.first()?, members.last()?);
    let median = |cell, metric| view::quantile(cell, metric, 0.5);
    let growth = |a: Option<f64>, b: Option<f64>| Some(b? / a?);
    let ttft = growth(median(first.1, Metric::Ttft), median(last.1, Metric::Ttft))?;
    let itl = growth(gap(first.1, 0.5), gap(last.1, 0.5))?;
    let e2e = growth(median(first.1, Metric::E2e), median(last.1, Metric::E2e))?;
    if ttft < 1.5 || ttft < 1.5 * itl.max(e2e) {
        return None;
    }
    let (from, to) = (
        median(first.1, Metric::Ttft)?,
        median(last.1, Metric::Ttft)?,
    );
    let claim = format!(
        "TTFT degrades first: its median grows {} ({} → {}) from {factor} {} to {}, ITL {} and E2E {}",
        text::times(ttft),
        text::time(from),
        text::time(to),
        text::level(first.0),
        text::level(last.0),
        text::times(itl),
        text::times(e2e),
    );
    Draft::new("ttft_degrades_first", FindingKind::Scaling, (ttft / 12.0).clamp(0.15, 0.6), claim)
        .because_time(&first.1.id, "TTFT p50", from)
        .because_time(&last.1.id, "TTFT p50", to)
        .because("growth of TTFT", ttft, "×")
        .because("growth of ITL", itl, "×")
        .because("growth of E2E", e2e, "×")
        .perhaps("more requests compete for prefill, so they queue at the front of the request: watch TTFT first under load")
        .decided_by("the server's queue time and waiting count at both levels")
        .attempt(actions(Symptom::Queueing, scene.server()))
        .about([first.1.id.clone(), last.1.id.clone()])
        .done()
}

/// A median gap within this of the baseline's counts as flat.
const FLAT: f64 = 1.2;

fn itl_flat(factor: &str, members: &Members<'_>) -> Option<Finding> {
    let base = members.first()?;
    let at_base = gap(base.1, 0.5)?;
    let flat = members
        .iter()
        .take_while(|(_, cell)| gap(cell, 0.5).is_some_and(|g| g <= FLAT * at_base))
        .last()?;
    // A claim about a range needs one.
    if flat.0 < 2.0 * base.0 {
        return None;
    }
    let at_flat = gap(flat.1, 0.5)?;
    let beyond = members.iter().rfind(|(level, _)| *level > flat.0);
    let after = match beyond {
        Some((level, cell)) => {
            let p95 =
                gap(cell, 0.95).map_or_else(String::new, |p| format!(", p95 {}", text::time(p)));
            format!(
                "; at {} it is {}{p95}",
                text::level(*level),
                text::time(gap(cell, 0.5)?)
            )
        }
        None => ", the highest level measured".to_owned(),
    };
    let claim = format!(
        "token gaps stay flat up to {factor} {}: ITL p50 {} against {} at {}{after}",
        text::level(flat.0),
        text::time(at_flat),
        text::time(at_base),
        text::level(base.0),
    );
    let draft = Draft::new("itl_flat", FindingKind::Scaling, 0.1, claim);
    members
        .iter()
        .filter_map(|(_, cell)| Some((cell, gap(cell, 0.5)?)))
        .fold(draft, |draft, (cell, g)| draft.because_time(&cell.id, "ITL p50", g))
        .perhaps("a decode step is bound by reading the weights, which batching shares; it rises once compute or the cache fills")
        .decided_by("levels beyond, until ITL rises in proportion to the batch")
        .done()
}
