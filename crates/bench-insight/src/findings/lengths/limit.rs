//! The longest answer that still meets an objective on E2E.

use bench_schema::{CellRecord, Finding, FindingKind, Metric, Slo};

use super::{LINEAR_R2, tokens_within};
use crate::draft::Draft;
use crate::findings::Scene;
use crate::text;
use crate::view;

/// One finding for each objective on E2E of a run whose answers fit a line.
pub(super) fn all(scene: &Scene<'_>) -> Vec<Finding> {
    let mut slos: Vec<&Slo> = Vec::new();
    for slo in scene
        .run
        .cells
        .iter()
        .flat_map(|cell| cell.slos.iter().map(|o| &o.slo))
        .filter(|slo| matches!(slo.metric, Metric::E2e | Metric::E2eDue))
    {
        let known =
            |other: &&Slo| (other.limit - slo.limit).abs() < 1.0 && (other.q - slo.q).abs() < 1e-9;
        if !slos.iter().any(known) {
            slos.push(slo);
        }
    }
    slos.into_iter()
        .filter_map(|slo| longest(scene, slo))
        .collect()
}

/// How far the quantile lies above the mean, in the worst of the cells; 1 where none has it.
fn above_mean(cells: &[CellRecord], q: f64) -> f64 {
    cells
        .iter()
        .filter_map(|cell| {
            Some(view::quantile(cell, Metric::E2e, q)? / view::mean(cell, Metric::E2e)?)
        })
        .fold(1.0, f64::max)
}

fn longest(scene: &Scene<'_>, slo: &Slo) -> Option<Finding> {
    let fit = scene.analysis.fits.get("latency_by_output_tokens")?;
    let r2 = fit.r_squared.filter(|r2| *r2 >= LINEAR_R2)?;
    let spread = above_mean(&scene.run.cells, slo.q);
    let tokens = tokens_within(fit, slo.limit / spread)?;
    let measured_to = crate::lengths::output_points(&scene.run.cells)
        .iter()
        .map(|p| p.tokens)
        .max_by(f64::total_cmp)?;
    let beyond = if tokens > measured_to {
        format!(", beyond the {} tokens measured", text::level(measured_to))
    } else {
        String::new()
    };
    let claim = format!(
        "answers of up to {} tokens meet P{} of E2E within {} by the fitted line{beyond}",
        text::grouped(tokens),
        text::level(slo.q * 100.0),
        text::time(slo.limit),
    );
    Draft::new("longest_output", FindingKind::Objective, 0.25, claim)
        .because("longest answer", tokens, "tokens")
        .because("limit", slo.limit / 1e6, "ms")
        .because("quantile over mean, worst cell", spread, "×")
        .because("R² of the line", r2, "")
        .perhaps("holds for the load of this run; under more load each token takes longer")
        .decided_by("a cell at that length")
        .attempt([format!(
            "set the largest answer (`max_tokens`) to {}",
            text::level(tokens)
        )])
        .done()
}
