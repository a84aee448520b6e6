//! What only single requests tell: modes, changes over time, and short requests stuck behind long prompts.

use bench_metrics::Sample;
use bench_schema::{ArrivalKind, CellRecord, Finding, FindingKind, Load, Nanos, Stamp};

use super::Scene;
use crate::draft::Draft;
use crate::facts::{CellSamples, RequestSample};
use crate::regimes::{RegimeSeries, Regimes, regimes};
use crate::text;
use crate::tuning::{Symptom, actions};

pub(super) fn all(scene: &Scene<'_>) -> Vec<Finding> {
    scene
        .samples
        .iter()
        .filter_map(|samples| Some((samples, scene.run.cell(&samples.cell)?)))
        .flat_map(|(samples, cell)| {
            let found = regimes(samples);
            let mut all = vec![
                several(scene, cell, samples, &found),
                change(scene, cell, &found),
            ];
            all.push(head_of_line(scene, cell, samples));
            all
        })
        .flatten()
        .collect()
}

fn shown(series: RegimeSeries, value: f64) -> String {
    if series.is_time() {
        text::time(value)
    } else {
        format!("{} tokens/s", text::number(value))
    }
}

fn measured(series: RegimeSeries, value: f64) -> (f64, &'static str) {
    if series.is_time() {
        (value / 1e6, "ms")
    } else {
        (value, "tokens/s")
    }
}

fn several(
    scene: &Scene<'_>,
    cell: &CellRecord,
    samples: &CellSamples,
    found: &[Regimes],
) -> Option<Finding> {
    let worst = found
        .iter()
        .filter(|r| r.modes.len() > 1)
        .max_by(|a, b| spread(a).total_cmp(&spread(b)))?;
    let modes: Vec<String> = worst
        .modes
        .iter()
        .map(|mode| {
            format!(
                "{} ({})",
                shown(worst.series, mode.at),
                text::percent(mode.share)
            )
        })
        .collect();
    let claim = format!(
        "{} has {} in {}: {}",
        worst.series.title(),
        text::count(worst.modes.len(), "mode"),
        cell.label,
        text::list(&modes),
    );
    let explained = explained_by_kind(worst.series, &samples.requests);
    let (severity, why) = why_several(explained);
    let others: Vec<&str> = found
        .iter()
        .filter(|r| r.modes.len() > 1 && r.series != worst.series)
        .map(|r| r.series.title())
        .collect();
    let mut draft = Draft::new("several_regimes", FindingKind::Stability, severity, claim)
        .because_in(&cell.id, "p of the dip test", worst.dip_p?, "")
        .because_share(
            &cell.id,
            "share of the spread that kinds of requests explain",
            explained,
        );
    for mode in &worst.modes {
        let (value, unit) = measured(worst.series, mode.at);
        draft = draft.because_in(&cell.id, "mode", value, unit);
    }
    if !others.is_empty() {
        draft = draft.because_in(
            &cell.id,
            format!("other series with several modes: {}", others.join(", ")),
            others.len() as f64,
            "",
        );
    }
    draft
        .perhaps(why)
        .decided_by("the server's waiting count and batch size at the times of the slow mode; the same with requests of one kind")
        .attempt(actions(Symptom::Variance, scene.server()))
        .about([cell.id.clone()])
        .done()
}

/// Severity and hypothesis of several modes, by how much of the spread the kinds of requests explain.
fn why_several(explained: f64) -> (f64, &'static str) {
    if explained > 0.6 {
        return (
            0.25,
            "kinds of requests differ, and each has its own level: most of the spread lies between them",
        );
    }
    (
        0.55,
        "the server switches between a normal and a stressed way of working: some requests wait or meet another batch",
    )
}

/// Highest mode over the lowest.
fn spread(found: &Regimes) -> f64 {
    let low = found.modes.iter().map(|m| m.at).min_by(f64::total_cmp);
    let high = found.modes.iter().map(|m| m.at).max_by(f64::total_cmp);
    low.zip(high)
        .map_or(0.0, |(low, high)| high / low.max(f64::MIN_POSITIVE))
}

/// Share of the variance of a latency's logarithm that lies between kinds of requests (use case, and size of the prompt in
/// powers of two): 0 none, 1 all.
fn explained_by_kind(series: RegimeSeries, requests: &[RequestSample]) -> f64 {
    let rows: Vec<(String, f64)> = requests
        .iter()
        .filter_map(|r| {
            let value = if series == RegimeSeries::Ttft {
                r.ttft?
            } else {
                r.tpot?
            };
            let size = r.input_tokens.map_or(0, |n| n.max(1).ilog2());
            let kind = format!("{}/{size}", r.use_case.as_deref().unwrap_or_default());
            (value > 0.0).then(|| (kind, value.ln()))
        })
        .collect();
    let mut kinds: std::collections::BTreeMap<&str, (f64, f64)> = std::collections::BTreeMap::new();
    for (kind, value) in &rows {
        let entry = kinds.entry(kind).or_default();
        entry.0 += 1.0;
        entry.1 += value;
    }
    let n = rows.len() as f64;
    let mean = rows.iter().map(|r| r.1).sum::<f64>() / n.max(1.0);
    let total: f64 = rows.iter().map(|r| (r.1 - mean).powi(2)).sum();
    let between: f64 = kinds
        .values()
        .map(|(count, sum)| count * (sum / count - mean).powi(2))
        .sum();
    // A kind of its own for each request would explain everything and nothing.
    if total <= 0.0 || kinds.len() < 2 || kinds.len() as f64 > n / 5.0 {
        return 0.0;
    }
    between / total
}

/// Whether the load itself changes over the cell.
fn load_changes(load: &Load) -> bool {
    matches!(
        load,
        Load::Open {
            arrival: ArrivalKind::Ramp { .. }
                | ArrivalKind::Steps { .. }
                | ArrivalKind::Series { .. }
                | ArrivalKind::Trace { .. },
            ..
        }
    )
}

/// Two spans of which the first is short and the worse one.
fn is_slow_start(found: &Regimes) -> bool {
    let [first, last] = found.spans.as_slice() else {
        return false;
    };
    let worse = if found.series.is_time() {
        first.mean > last.mean
    } else {
        first.mean < last.mean
    };
    worse && (first.to - first.from).as_f64() < 0.25 * (last.to - first.from).as_f64()
}

fn change(scene: &Scene<'_>, cell: &CellRecord, found: &[Regimes]) -> Option<Finding> {
    let worst = found
        .iter()
        .filter(|r| r.spans.len() > 1 && !load_changes(&cell.load))
        // 1/TPOT says nothing that TPOT does not.
        .filter(|r| r.series != RegimeSeries::RequestSpeed)
        .max_by_key(|r| r.spans.len())?;
    let spans: Vec<String> = worst
        .spans
        .iter()
        .take(5)
        .map(|s| {
            format!(
                "{} from {:.1} to {:.1} s",
                shown(worst.series, s.mean),
                s.from.as_secs_f64(),
                s.to.as_secs_f64()
            )
        })
        .collect();
    let claim = format!(
        "{} changes level over time in {}: {}",
        worst.series.title(),
        cell.label,
        text::list(&spans)
    );
    let slow_start = is_slow_start(worst);
    let why = if slow_start {
        "a slow start, then a steady state: more warm-up would leave it out"
    } else {
        "something changed while it ran: a queue that built up, clocks that were lowered, a neighbour, a cache that filled"
    };
    let low = worst.spans.iter().map(|s| s.mean).min_by(f64::total_cmp)?;
    let high = worst.spans.iter().map(|s| s.mean).max_by(f64::total_cmp)?;
    let mut draft = Draft::new(
        "regime_change",
        FindingKind::Stability,
        (0.2 + 0.1 * (high / low)).clamp(0.3, 0.8),
        claim,
    );
    for span in &worst.spans {
        let (value, unit) = measured(worst.series, span.mean);
        draft = draft.because_in(
            &cell.id,
            format!("level from {:.1} s", span.from.as_secs_f64()),
            value,
            unit,
        );
    }
    draft
        .perhaps(why)
        .decided_by(
            "the server's running, waiting and cache use, and GPU clocks, over the same time",
        )
        .attempt(if slow_start {
            vec!["raise `--warmup`".to_owned()]
        } else {
            actions(Symptom::Variance, scene.server())
        })
        .about([cell.id.clone()])
        .done()
}

/// Requests on each side of a comparison.
const SIDES: usize = 20;

/// TTFT of short requests that started while a long prompt was in prefill, and of those that did not.
fn sides(requests: &[RequestSample]) -> Option<(Vec<f64>, Vec<f64>)> {
    let prompts: Vec<f64> = requests
        .iter()
        .filter_map(|r| r.input_tokens)
        .map(|n| n as f64)
        .collect();
    let median = Sample::of(&prompts)?.median();
    let at_least =
        |r: &RequestSample, tokens: f64| r.input_tokens.is_some_and(|n| n as f64 >= tokens);
    let prefills: Vec<(Stamp, Stamp)> = requests
        .iter()
        .filter(|r| at_least(r, (4.0 * median).max(64.0)))
        .filter_map(|r| Some((r.start, r.start + Nanos::from_f64(r.ttft?))))
        .collect();
    let (beside, apart): (Vec<_>, Vec<_>) = requests
        .iter()
        .filter(|r| r.input_tokens.is_some_and(|n| n as f64 <= median))
        .filter_map(|r| Some((r.start, r.ttft?)))
        .partition(|(start, _)| {
            prefills
                .iter()
                .any(|(from, to)| from <= start && start < to)
        });
    let values = |side: Vec<(Stamp, f64)>| side.into_iter().map(|(_, ttft)| ttft).collect();
    Some((values(beside), values(apart)))
}

/// Short requests beside a long prompt in prefill, against short requests without one.
fn head_of_line(scene: &Scene<'_>, cell: &CellRecord, samples: &CellSamples) -> Option<Finding> {
    let (beside, apart) = sides(&samples.requests)?;
    if beside.len() < SIDES || apart.len() < SIDES {
        return None;
    }
    // With twenty values a P95 is nearly a maximum, so the P90 is compared.
    let (with, without) = (
        Sample::of(&beside)?.quantile(0.9),
        Sample::of(&apart)?.quantile(0.9),
    );
    if with < 1.5 * without {
        return None;
    }
    let claim = format!(
        "short requests wait behind long prompts in {}: TTFT p90 {} while one is in prefill, {} otherwise ({})",
        cell.label,
        text::time(with),
        text::time(without),
        text::times(with / without),
    );
    Draft::new("head_of_line", FindingKind::Bottleneck, (0.2 * with / without).clamp(0.3, 0.8), claim)
        .because_time(&cell.id, "TTFT p90 of short requests beside a long prefill", with)
        .because_time(&cell.id, "TTFT p90 of short requests otherwise", without)
        .because_in(&cell.id, "short requests beside one", beside.len() as f64, "requests")
        .perhaps("a long prompt fills the steps that short ones need; load may also be higher at such moments")
        .decided_by("the same arrivals with the long prompts left out, and with chunked prefill")
        .attempt(actions(Symptom::HeadOfLine, scene.server()))
        .about([cell.id.clone()])
        .done()
}
