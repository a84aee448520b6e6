//! Length categories: how much longer the longest take than the shortest.

use bench_schema::{CellRecord, Finding, FindingKind, Metric};

use crate::draft::Draft;
use crate::lengths::{category_bounds, group_tokens};
use crate::text;
use crate::tuning::{Symptom, actions};
use crate::view;

/// The cell's length categories with their P95 of E2E, the shortest first.
fn category_rows(cell: &CellRecord) -> Vec<Category> {
    let mut rows: Vec<Category> = cell
        .groups
        .iter()
        .filter(|group| group.by == "category")
        .filter_map(|group| {
            let p95 = view::of_group(cell, group, Metric::E2e)?.quantile(0.95);
            Some(Category {
                name: group.name.clone(),
                p95: p95.and_then(view::positive)?,
                tokens: group_tokens(group),
                output: view::mean_tokens(&group.metrics, Metric::OutputTokens),
                bounds: category_bounds(&group.name),
            })
        })
        .collect();
    rows.sort_by(|a, b| a.order().total_cmp(&b.order()));
    rows
}

/// P95 of the longest category over that of the shortest, against how much longer its requests are.
pub(super) fn growth(cell: &CellRecord) -> Option<Finding> {
    let rows = category_rows(cell);
    let (first, last) = (rows.first()?, rows.last().filter(|_| rows.len() > 2)?);
    let factor = last.p95 / first.p95;
    let (longer, measured) = first.length_ratio(last)?;
    let superlinear = factor > 1.1 * longer;
    let (code, severity, how) = if superlinear {
        (
            "superlinear_categories",
            (factor / 40.0).clamp(0.3, 0.7),
            "faster than length",
        )
    } else {
        ("length_categories", 0.2, "no faster than length")
    };
    let (against, caution) = if measured {
        (
            "requests are",
            "longer requests may also wait longer behind each other",
        )
    } else {
        (
            "the categories' bounds are",
            "bounds hide where in a category its requests lie, so this is an upper limit on the growth per token; longer requests may also wait longer",
        )
    };
    let claim = format!(
        "P95 of E2E grows {how}: {} requests take {} as long as {} ones, and {against} {} as long",
        last.name,
        text::times(factor),
        first.name,
        text::times(longer),
    );
    let draft = Draft::new(code, FindingKind::Scaling, severity, claim);
    rows.iter()
        .fold(draft, |draft, row| {
            draft
                .because_time(&cell.id, format!("P95 of {}", row.name), row.p95)
                .because(
                    format!("{} over {}", row.name, first.name),
                    row.p95 / first.p95,
                    "×",
                )
        })
        .perhaps(caution)
        .decided_by("E2E against each request's own tokens, one request at a time")
        .attempt([
            "cap or stream long answers",
            "set objectives per length category",
        ])
        .attempt(actions(Symptom::Prefill, None))
        .about([cell.id.clone()])
        .done()
}

struct Category {
    name: String,
    p95: f64,
    /// Mean total tokens, where counted.
    tokens: Option<f64>,
    /// Mean output tokens, where counted.
    output: Option<f64>,
    bounds: Option<(f64, Option<f64>)>,
}

impl Category {
    fn order(&self) -> f64 {
        self.tokens
            .or_else(|| self.bounds.map(|(from, _)| from))
            .unwrap_or(f64::MAX)
    }

    /// How much longer `other` is, and whether that was measured or follows from the bounds: the lower bound of the longer
    /// over the upper bound of the shorter.
    fn length_ratio(&self, other: &Self) -> Option<(f64, bool)> {
        if let (Some(own), Some(long)) = (self.tokens, other.tokens) {
            // Answers cost more than prompts: where they grow more than the whole, they are the length that counts.
            let by_output = self.output.zip(other.output).map_or(0.0, |(a, b)| b / a);
            return view::positive((long / own).max(by_output)).map(|ratio| (ratio, true));
        }
        let (_, below) = self.bounds?;
        let (from, _) = other.bounds?;
        view::positive(from / below?).map(|ratio| (ratio, false))
    }
}
