//! What users pay where no cause was found: requests that take longer than others like them, and answers that pause. Nobody is told
//! that a run is healthy before these were looked at.

use bench_schema::{Cause, Experiment, Finding, Known, Metric, Unit};

use super::first_token;
use super::look::{Look, Seen, median, quantile};
use crate::draft::Draft;
use crate::view;

/// Share of the users' time from which on it is told. Machines' own hiccups stay below.
const COSTS: f64 = 0.08;
/// Requests below which a quick quarter is chance.
const FEWEST: usize = 20;
/// Within this multiple of the quick quarter's time requests are alike.
const ALIKE: f64 = 1.25;
/// Share of their extra time before the first token from which on an open loop's slow requests are those that came at a bad moment.
const OF_WAITING: f64 = 0.8;
/// Share of the pauses in which another prompt is processed, from which on that is what they are.
const OF_PROMPTS: f64 = 0.6;

/// All that is left in a cell in which nothing else was found.
pub(super) fn all(look: &Look<'_>) -> Vec<Finding> {
    [slow_requests(look), pauses(look)]
        .into_iter()
        .flatten()
        .collect()
}

/// Requests that take much longer than the quick quarter of those of their lengths.
fn slow_requests(look: &Look<'_>) -> Option<Finding> {
    let times: Vec<f64> = look.slowness().into_iter().map(|(_, slow)| slow).collect();
    let quick = quantile(times.clone(), 0.25).filter(|quick| *quick > 0.0)?;
    let slow: Vec<f64> = times
        .iter()
        .copied()
        .filter(|t| *t > ALIKE * quick)
        .collect();
    let lost: f64 = slow.iter().map(|t| t - ALIKE * quick).sum();
    let cost = lost / times.iter().sum::<f64>();
    if times.len() < FEWEST || cost < COSTS {
        return None;
    }
    let share = slow.len() as f64 / times.len() as f64;
    let before_first = before_first(look);
    // Arrivals by chance wait for each other: nobody's request is slow by itself.
    if look.is_open() && before_first.is_some_and(|part| part >= OF_WAITING) {
        return first_token::either(look, cost);
    }
    Draft::in_cell(Cause::SlowRequests, cost, look.cell)
        .because(Known::SlowShare, share, Unit::Ratio)
        .because(Known::SlowRatio, median(slow)? / quick, Unit::Count)
        .because_some(Known::SlowBeforeFirst, before_first, Unit::Ratio)
        .refuted_by(Experiment::AgainWithLog)
        .done()
}

/// Of what slow requests take longer than the quick quarter, the part before their first token.
fn before_first(look: &Look<'_>) -> Option<f64> {
    let beyond = |part: &dyn Fn(&Seen<'_>) -> Option<(f64, f64)>| {
        let parts: Vec<(f64, f64)> = look.seen.iter().filter_map(part).collect();
        let quick = quantile(parts.iter().map(|(each, _)| *each).collect(), 0.25)?;
        let over = parts
            .iter()
            .map(|(each, n)| (each - ALIKE * quick).max(0.0) * n);
        Some(over.sum::<f64>())
    };
    let first = beyond(&|s| Some((s.request.ttft?, 1.0)))?;
    let rest = beyond(&|s| {
        let tokens = s.request.output_tokens?.checked_sub(1)?;
        Some((s.request.tpot?, tokens as f64))
    })?;
    (first + rest > 0.0).then(|| first / (first + rest))
}

/// Gaps of four times the usual and more.
fn pauses(look: &Look<'_>) -> Option<Finding> {
    let usual = view::quantile(look.cell, Metric::Icl, 0.5)?;
    if view::in_bundles(look.cell) || look.seen.len() < FEWEST {
        return None;
    }
    let taken: f64 = look.seen.iter().map(|s| s.end - s.sent).sum();
    let prompts = look.prefilling();
    let stalls = look.seen.iter().flat_map(|s| &s.request.stalls);
    let (mut stood, mut beside) = (0.0, 0.0);
    for (at, length) in stalls {
        let from = look.ns(*at);
        stood += length;
        beside += prompts.within(from, from + length);
    }
    let cost = stood / taken;
    if cost.is_nan() || cost < COSTS {
        return None;
    }
    let prompts = beside / stood;
    let (cause, experiment) = if prompts >= OF_PROMPTS {
        (Cause::DecodeInterrupted, Experiment::OneAtATime)
    } else {
        (Cause::Pauses, Experiment::AgainWithLog)
    };
    Draft::in_cell(cause, cost, look.cell)
        .because(Known::PauseShare, cost, Unit::Ratio)
        .because(Known::PausePrompts, prompts, Unit::Ratio)
        .because(Known::Itl, usual, Unit::Ns)
        .refuted_by(experiment)
        .done()
}
