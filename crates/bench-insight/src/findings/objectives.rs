//! Objectives: which are missed, by whom, and what would pass.

use bench_schema::{Finding, FindingKind, Metric, SloOutcome, SloVerdict, Unit};

use super::Scene;
use super::lengths::tokens_within;
use crate::draft::Draft;
use crate::target::times_as_much;
use crate::text;
use crate::tuning::{Symptom, actions};
use crate::view;

pub(super) fn all(scene: &Scene<'_>) -> Vec<Finding> {
    let judged = outcomes(scene);
    let mut found: Vec<Finding> = judged
        .iter()
        .filter(|(_, o)| o.verdict == SloVerdict::Fail)
        .filter_map(|(cell, outcome)| missed(scene, cell, outcome))
        .collect();
    found.extend(met(&judged));
    found.extend(undecided(&judged));
    found
}

/// Every outcome with its cell, those of groups included.
fn outcomes<'a>(scene: &Scene<'a>) -> Vec<(String, &'a SloOutcome)> {
    let cells: &'a [_] = &scene.run.cells;
    cells
        .iter()
        .flat_map(|cell| {
            let groups = cell.groups.iter().flat_map(|group| group.slos.iter());
            cell.slos
                .iter()
                .chain(groups)
                .map(|outcome| (cell.id.clone(), outcome))
        })
        .collect()
}

/// `P95 of E2E`, with the use case where it is for one.
pub(crate) fn name(outcome: &SloOutcome) -> String {
    let slo = &outcome.slo;
    let whom = slo
        .use_case
        .as_ref()
        .map_or_else(String::new, |case| format!(" of {case}"));
    format!(
        "P{} {}{whom}",
        text::level(slo.q * 100.0),
        slo.metric.title()
    )
}

fn shown(metric: Metric, value: f64) -> String {
    match metric.unit() {
        Unit::Ns => text::time(value),
        _ => text::number(value),
    }
}

/// A limit that people would write, at least `value`: 1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10 times a power of ten.
fn round_up(value: f64) -> f64 {
    let power = 10_f64.powf(value.log10().floor());
    [1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0]
        .into_iter()
        .map(|step| step * power)
        .find(|limit| *limit >= value * (1.0 - 1e-12))
        .unwrap_or(10.0 * power)
}

fn missed(scene: &Scene<'_>, cell: &str, outcome: &SloOutcome) -> Option<Finding> {
    let limit = view::positive(outcome.slo.limit)?;
    let metric = outcome.slo.metric;
    let Some(measured) = outcome.measured.and_then(view::positive) else {
        return missed_by_failures(cell, outcome);
    };
    let over = measured / limit - 1.0;
    let safe = outcome.interval.map_or(measured, |i| i.high.max(measured));
    let relaxed = round_up(safe);
    let claim = format!(
        "{} is {} and misses {} by {}; it would pass at {}",
        name(outcome),
        shown(metric, measured),
        shown(metric, limit),
        text::percent(over),
        shown(metric, relaxed),
    );
    let longest = longest_within(scene, metric, limit);
    let symptom = match metric {
        Metric::Ttft | Metric::TtftDue | Metric::Ttfa | Metric::TtfaDue => Symptom::Queueing,
        Metric::Itl | Metric::Tpot | Metric::Icl => Symptom::Variance,
        _ => Symptom::Decode,
    };
    let mut draft = Draft::new(
        "slo_missed",
        FindingKind::Objective,
        (0.5 + over / 2.0).min(0.95),
        claim,
    )
    .because_in(cell, "measured", in_ms(metric, measured), unit(metric))
    .because_in(cell, "limit", in_ms(metric, limit), unit(metric))
    .because_share(cell, "requests that met it", outcome.attainment);
    if let Some(tokens) = longest {
        draft = draft.because(
            "longest answer within the limit, by the fitted line",
            tokens,
            "tokens",
        );
    }
    draft
        .decided_by("the same after each change alone, with enough requests for the interval to leave the limit")
        .attempt(ways(metric, limit, relaxed, longest))
        .attempt(actions(symptom, scene.server()))
        .about([cell.to_owned()])
        .done()
}

/// What would make the objective pass without a faster server.
fn ways(metric: Metric, limit: f64, relaxed: f64, longest: Option<f64>) -> Vec<String> {
    let mut ways = Vec::new();
    if let Some(tokens) = longest {
        ways.push(format!(
            "cap answers at {} tokens: by the fitted line their mean E2E is within {}",
            text::level(tokens),
            shown(metric, limit)
        ));
    }
    ways.push(format!(
        "promise {} instead of {}",
        shown(metric, relaxed),
        shown(metric, limit)
    ));
    if matches!(metric, Metric::E2e | Metric::E2eDue) {
        ways.push("stream: people wait for the first token, not for the last".to_owned());
    }
    ways
}

fn missed_by_failures(cell: &str, outcome: &SloOutcome) -> Option<Finding> {
    let claim = format!(
        "{} is unbounded: failed requests count as slower than any limit, and {} of the planned ones met {}",
        name(outcome),
        text::percent(outcome.attainment),
        shown(outcome.slo.metric, outcome.slo.limit),
    );
    Draft::new("slo_missed", FindingKind::Objective, 0.95, claim)
        .because_share(cell, "requests that met it", outcome.attainment)
        .decided_by("the failures' kinds and stages")
        .about([cell.to_owned()])
        .done()
}

fn unit(metric: Metric) -> &'static str {
    if metric.unit() == Unit::Ns { "ms" } else { "" }
}

/// Milliseconds where the metric is a time, else as it is: what evidence shows.
pub(crate) fn in_ms(metric: Metric, value: f64) -> f64 {
    if metric.unit() == Unit::Ns {
        value / 1e6
    } else {
        value
    }
}

/// The longest answer whose fitted mean E2E is within the limit, where the limit is on E2E and a line was found.
fn longest_within(scene: &Scene<'_>, metric: Metric, limit: f64) -> Option<f64> {
    let fit = scene.analysis.fits.get("latency_by_output_tokens")?;
    let trusted = fit.r_squared.is_some_and(|r2| r2 >= 0.9);
    (trusted && matches!(metric, Metric::E2e | Metric::E2eDue))
        .then(|| tokens_within(fit, limit))
        .flatten()
}

fn met(judged: &[(String, &SloOutcome)]) -> Option<Finding> {
    let passed: Vec<&(String, &SloOutcome)> = judged
        .iter()
        .filter(|(_, o)| o.verdict == SloVerdict::Pass)
        .collect();
    let tightest = passed
        .iter()
        .filter_map(|(cell, o)| {
            Some((
                cell,
                o,
                view::positive(o.measured?)? / view::positive(o.slo.limit)?,
            ))
        })
        .max_by(|a, b| a.2.total_cmp(&b.2))?;
    let claim = format!(
        "{} of {} met; the tightest is {} at {} of its limit",
        text::count(passed.len(), "objective"),
        judged.len(),
        name(tightest.1),
        text::percent(tightest.2),
    );
    let draft = Draft::new("slo_met", FindingKind::Objective, 0.1, claim);
    passed
        .iter()
        .filter_map(|(cell, o)| Some((cell, o, o.measured?)))
        .fold(draft, |draft, (cell, o, measured)| {
            draft.because_in(
                cell,
                name(o),
                in_ms(o.slo.metric, measured),
                unit(o.slo.metric),
            )
        })
        .decided_by("the same over a longer run, at the highest load that is expected")
        .done()
}

fn undecided(judged: &[(String, &SloOutcome)]) -> Option<Finding> {
    let open: Vec<String> = judged
        .iter()
        .filter(|(_, o)| o.verdict == SloVerdict::CannotTell && o.measured.is_some())
        .map(|(cell, o)| {
            let interval = o.interval.map_or_else(
                || "too few values for an interval".to_owned(),
                |i| text::span(i.low, i.high, |x| shown(o.slo.metric, x)),
            );
            let times = o
                .interval
                .zip(o.measured)
                .and_then(|(i, x)| times_as_much(x, &i, o.slo.limit));
            let more = times.map_or_else(String::new, |times| {
                format!(
                    "; about {:.0} times as many requests would decide",
                    times.ceil().max(2.0)
                )
            });
            format!(
                "{} in {cell} against {} ({interval}{more})",
                name(o),
                shown(o.slo.metric, o.slo.limit)
            )
        })
        .collect();
    if open.is_empty() {
        return None;
    }
    let claim = format!(
        "the data cannot decide {}: {}",
        text::count(open.len(), "objective"),
        text::list(&open)
    );
    Draft::new("slo_undecided", FindingKind::Objective, 0.3, claim)
        .because(
            "objectives whose interval straddles the limit",
            open.len() as f64,
            "",
        )
        .decided_by("more requests: four times as many halve the interval")
        .done()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_that_would_pass_is_one_that_people_write() {
        let rounded: Vec<f64> = [2.544e9, 4.396e9, 3.0e9, 0.85e9]
            .into_iter()
            .map(round_up)
            .collect();
        let expected = [3e9, 5e9, 3e9, 1e9];
        assert!(
            rounded
                .iter()
                .zip(expected)
                .all(|(a, b)| (a - b).abs() < 1.0),
            "{rounded:?}"
        );
    }
}
