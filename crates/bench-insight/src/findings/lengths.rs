//! How cost grows with the length of answers and prompts.

mod categories;
mod limit;

use bench_schema::{CellRecord, Finding, FindingKind, FitRecord, Metric};

use super::Scene;
use crate::draft::Draft;
use crate::lengths::output_points;
use crate::text;
use crate::tuning::{Symptom, actions};
use crate::view;

pub(super) fn all(scene: &Scene<'_>) -> Vec<Finding> {
    let cells = &scene.run.cells;
    let mut found: Vec<Finding> = [
        linear(scene),
        prompt_length(cells),
        prefill_growth(scene),
        power(scene),
    ]
    .into_iter()
    .flatten()
    .collect();
    // Cells at other loads would repeat it.
    found.extend(cells.iter().find_map(categories::growth));
    found.extend(limit::all(scene));
    found
}

/// Share of variance from which a line may be called one.
const LINEAR_R2: f64 = 0.98;

fn linear(scene: &Scene<'_>) -> Option<Finding> {
    let fit = scene.analysis.fits.get("latency_by_output_tokens")?;
    let (per_token, r2) = (*fit.parameters.get("b")?, fit.r_squared?);
    // The interval must exclude a flat line, or it is no growth at all.
    let grows = fit.intervals.get("b").is_some_and(|i| i.low > 0.0);
    if r2 < LINEAR_R2 || per_token <= 0.0 || !grows {
        return None;
    }
    let points = output_points(&scene.run.cells);
    let (from, to) = ends(points.iter().map(|p| p.tokens))?;
    let claim = format!(
        "E2E grows linearly with the answer: {} per output token from {} to {} tokens (R² {r2:.3})",
        text::time(per_token),
        text::level(from),
        text::level(to),
    );
    let draft = Draft::new("linear_output_scaling", FindingKind::Scaling, 0.15, claim)
        .because("time per output token", per_token / 1e6, "ms")
        .because("R²", r2, "")
        .because("output tokens per second of one request", 1e9 / per_token, "tokens/s")
        .perhaps("each token costs one decode step of constant time in this range")
        .decided_by("longer answers on the same grid: the time per token rises where attention over the context begins to cost")
        .attempt([format!(
            "plan with {} + {} × tokens; {}",
            text::time(fit.parameters.get("a").copied().unwrap_or(0.0).max(0.0)),
            text::time(per_token),
            longest_within(fit),
        )]);
    with_interval(draft, fit, "b").done()
}

/// The slope's interval as evidence, where it has one.
fn with_interval(draft: Draft, fit: &FitRecord, parameter: &str) -> Draft {
    match fit.intervals.get(parameter) {
        Some(i) => draft
            .because("lower end (95 %)", i.low / 1e6, "ms")
            .because("upper end (95 %)", i.high / 1e6, "ms"),
        None => draft,
    }
}

/// How many tokens the line allows within 1, 2 and 3 seconds.
fn longest_within(fit: &FitRecord) -> String {
    let shown: Vec<String> = [1.0, 2.0, 3.0]
        .iter()
        .filter_map(|s| Some((s, tokens_within(fit, s * 1e9)?)))
        .map(|(s, tokens)| format!("{tokens:.0} tokens within {s} s"))
        .collect();
    text::list(&shown)
}

/// The longest answer whose mean E2E is at most `limit_ns`, by the fitted line; at least one token.
pub(crate) fn tokens_within(fit: &FitRecord, limit_ns: f64) -> Option<f64> {
    let (a, b) = (*fit.parameters.get("a")?, *fit.parameters.get("b")?);
    let tokens = ((limit_ns - a) / b).floor();
    (b > 0.0 && tokens.is_finite() && tokens >= 1.0).then_some(tokens)
}

fn ends(values: impl Iterator<Item = f64> + Clone) -> Option<(f64, f64)> {
    let low = values.clone().min_by(f64::total_cmp)?;
    let high = values.max_by(f64::total_cmp)?;
    Some((low, high))
}

/// Mean E2E over prompt lengths at one output length.
pub(crate) struct PromptEffect {
    /// (max − min) / min.
    pub(crate) relative: f64,
    /// The output length that was held.
    pub(crate) output_tokens: f64,
    /// Shortest prompt, in the unit of the factor.
    pub(crate) from: f64,
    /// Longest.
    pub(crate) to: f64,
    /// Prompt lengths compared.
    pub(crate) n: usize,
    /// `tokens` or `words`.
    unit: &'static str,
    low_ns: f64,
    high_ns: f64,
    cells: Vec<String>,
}

/// The widest comparison of prompt lengths that the cells hold: most prompt lengths, then the longest answers.
pub(crate) fn prompt_effect(cells: &[CellRecord]) -> Option<PromptEffect> {
    let factor = view::PROMPT_FACTORS
        .iter()
        .find(|factor| cells.iter().any(|cell| cell.factors.contains_key(**factor)))?;
    let mut keys: Vec<String> = cells.iter().map(|c| view::key_without(c, factor)).collect();
    keys.sort();
    keys.dedup();
    keys.iter()
        .filter_map(|key| {
            let members: Vec<&CellRecord> = cells
                .iter()
                .filter(|cell| view::key_without(cell, factor) == *key)
                .collect();
            effect_of(factor, &members)
        })
        .max_by(|a, b| {
            a.n.cmp(&b.n)
                .then(a.output_tokens.total_cmp(&b.output_tokens))
        })
}

fn effect_of(factor: &str, members: &[&CellRecord]) -> Option<PromptEffect> {
    let rows: Vec<(f64, f64, f64)> = members
        .iter()
        .filter_map(|cell| {
            Some((
                view::input_tokens(cell)?,
                view::mean(cell, Metric::E2e)?,
                view::output_tokens(cell)?,
            ))
        })
        .collect();
    let (from, to) = ends(rows.iter().map(|r| r.0))?;
    let (low, high) = ends(rows.iter().map(|r| r.1))?;
    let (fewest, most) = ends(rows.iter().map(|r| r.2))?;
    // Answers of other lengths would be compared, not prompts.
    let comparable = rows.len() > 1 && to > from && most <= fewest * 1.02;
    let counted = members
        .iter()
        .all(|cell| cell.metrics.contains_key(&Metric::InputTokens));
    comparable.then(|| PromptEffect {
        relative: (high - low) / low,
        output_tokens: most,
        from,
        to,
        n: rows.len(),
        unit: if factor == "prompt_words" && !counted {
            "words"
        } else {
            "tokens"
        },
        low_ns: low,
        high_ns: high,
        cells: members.iter().map(|cell| cell.id.clone()).collect(),
    })
}

/// Below this a change of E2E is called none.
const NO_EFFECT: f64 = 0.05;

fn prompt_length(cells: &[CellRecord]) -> Option<Finding> {
    let effect = prompt_effect(cells)?;
    let range = format!(
        "from {} to {} {}",
        text::level(effect.from),
        text::level(effect.to),
        effect.unit
    );
    let output = text::level(effect.output_tokens);
    let draft = if effect.relative < NO_EFFECT {
        let claim = format!(
            "prompt length has no effect {range}: E2E of {output} output tokens stays at {}",
            text::span(effect.low_ns, effect.high_ns, text::time),
        );
        Draft::new("prompt_length_no_effect", FindingKind::Scaling, 0.1, claim)
            .perhaps("prompts of this size are processed in parallel in one short step, and decoding is all the rest")
            .decided_by("prompts ten times as long at the same output length: TTFT must rise at some length")
            .attempt(["optimise for output length first"])
    } else {
        let claim = format!(
            "longer prompts cost: E2E of {output} output tokens rises by {} {range}",
            text::percent(effect.relative),
        );
        Draft::new(
            "prompt_length_effect",
            FindingKind::Scaling,
            effect.relative.min(0.6),
            claim,
        )
        .perhaps("prefill grows with the prompt, and each decode step reads a longer context")
        .decided_by("TTFT against prompt length at one output token: it tells prefill from decode")
        .attempt(actions(Symptom::Prefill, None))
    };
    draft
        .because("relative change of E2E", effect.relative * 100.0, "%")
        .because("shortest prompt", effect.from, effect.unit)
        .because("longest prompt", effect.to, effect.unit)
        .about(effect.cells)
        .done()
}

/// TTFT (prefill, where it is known apart) from the shortest to the longest prompt.
fn prefill_growth(scene: &Scene<'_>) -> Option<Finding> {
    let cells = &scene.run.cells;
    // Under varying load TTFT grows for another reason.
    if view::load_series(cells).is_some() {
        return None;
    }
    let mut points: Vec<(f64, f64, &CellRecord)> = cells
        .iter()
        .filter_map(|cell| {
            let prefill =
                view::mean(cell, Metric::Prefill).or_else(|| view::mean(cell, Metric::Ttft))?;
            Some((view::input_tokens(cell)?, prefill, cell))
        })
        .collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (first, last) = (points.first()?, points.last()?);
    let (longer, growth) = (last.0 / first.0, last.1 / first.1);
    if longer < 1.5 || growth < 1.25 {
        return None;
    }
    let claim = format!(
        "prefill grows {} while prompts grow {}: {} at {} tokens, {} at {}",
        text::times(growth),
        text::times(longer),
        text::time(first.1),
        text::level(first.0),
        text::time(last.1),
        text::level(last.0),
    );
    Draft::new("prefill_grows_with_prompt", FindingKind::Scaling, (0.1 * growth).min(0.6), claim)
        .because_time(&first.2.id, "prefill of the shortest prompts", first.1)
        .because_time(&last.2.id, "prefill of the longest prompts", last.1)
        .because("growth of prefill", growth, "×")
        .because("growth of prompts", longer, "×")
        .perhaps("prompt processing is proportional to the prompt, and more than that where attention dominates")
        .decided_by("TTFT at more prompt lengths with one output token, cold and warm prefix cache")
        .attempt(actions(Symptom::Prefill, scene.server()))
        .about([first.2.id.clone(), last.2.id.clone()])
        .done()
}

/// The log–log slope, where its interval lies on one side of 1.
fn power(scene: &Scene<'_>) -> Option<Finding> {
    let fit = scene.analysis.fits.get("latency_power_law")?;
    let (slope, interval) = (
        *fit.parameters.get("exponent")?,
        fit.intervals.get("exponent")?,
    );
    // A straight line with a negative intercept bends upwards in logarithms too, and is no law of its own.
    let linear = scene
        .analysis
        .fits
        .get("latency_by_output_tokens")
        .and_then(|line| line.r_squared)
        .is_some_and(|r2| r2 >= LINEAR_R2);
    if interval.low <= 1.0 || linear {
        return None;
    }
    let claim = format!(
        "latency grows faster than length: log–log slope {slope:.2} (95 %: {:.2} to {:.2})",
        interval.low, interval.high
    );
    Draft::new(
        "superlinear_length",
        FindingKind::Scaling,
        (slope - 0.5).clamp(0.2, 0.8),
        claim,
    )
    .because("log–log slope", slope, "")
    .because("lower end (95 %)", interval.low, "")
    .because("points", fit.n as f64, "")
    .perhaps("attention over a longer context, or more waiting behind other long requests")
    .decided_by("the same lengths one at a time: if the slope falls to 1, it was waiting")
    .attempt(actions(Symptom::Prefill, scene.server()))
    .done()
}
