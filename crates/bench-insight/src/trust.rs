//! Whether a run should be believed: the rules of `docs/metrics.md` (Trust), each with its numbers and the next step.

mod answers;
mod client;
mod load;

use bench_schema::{CellRecord, ClockKind, Trust, TrustReason, TrustVerdict};

use crate::facts::TrustFacts;
use crate::text;

/// Judge a run.
///
/// A rule whose input was not measured does not speak. The same rule in several cells gives one reason, that of the worst cell;
/// its message says in how many others it holds. Too few samples count only where the user named the quantile; elsewhere the
/// number carries its mark and nothing more.
///
/// | code | doubtful | untrusted |
/// |---|---|---|
/// | `client_lag` | p99, less the pause of late reading, > 10 % of the median ITL | > 50 % |
/// | `bounded_stamps` | an ITL or TTFT quantile moves > 10 % within the bounds of its stamps | > 50 % |
/// | `no_kernel_stamps` | arrival is the read's return and the client was busy or not observed | |
/// | `clock_step` | > 1 ms with kernel stamps | > 1 s |
/// | `client_cpu` | busiest worker > 90 % | |
/// | `run_queue` | runnable but waiting > 10 % of the time, unless kernel stamps and a small lag show that it cost nothing | > 50 % |
/// | `steal` | > 10 % of the host's CPU stolen | |
/// | `client_throttled` | the client's CPU quota held it back > 1 % of the time | > 10 % |
/// | `lateness` | p99 > 1 ms and > 1 % of the mean gap | p99 > 10 ms and > the mean gap |
/// | `offered_rate` | > 1 % below the requested (random arrivals: beyond their own chance too) | > 10 % |
/// | `in_flight_cap` | requests refused by the cap | |
/// | `warm_cache` | > 10 % of prompt tokens cached though no prefix was meant to be shared | |
/// | `prompt_length` | mean differs > 5 % from the asked (server's count: beyond a 40-token template) | |
/// | `short_answers` | > 1 % of answers shorter than asked with `ignore_eos` | |
/// | `few_samples` | fewer than 10 / (1 − q) behind a quantile that the user named | |
/// | `not_stationary` | a trend within the steady window | |
/// | `nothing_measured` | | a cell planned requests and completed none |
/// | `incomplete` | the run was cut short | |
/// | `counts` | | planned ≠ completed + failed + timed out + truncated + cancelled + unsent |
pub fn trust(facts: &TrustFacts<'_>, cells: &[CellRecord]) -> Trust {
    let mut reasons = Vec::new();
    if !facts.complete {
        let why = facts
            .incomplete_reason
            .unwrap_or("it did not say why")
            .trim_end_matches('.');
        reasons.push(reason(
            "incomplete",
            TrustVerdict::Doubtful,
            format!(
                "the run was cut short: {why}; what was measured is here, run it again for the rest"
            ),
        ));
    }
    for rule in RULES {
        let found: Vec<TrustReason> = cells
            .iter()
            .filter_map(|cell| {
                let mut reason = rule(facts, cell)?;
                reason.cell = Some(cell.id.clone());
                Some(reason)
            })
            .collect();
        reasons.extend(worst(found));
    }
    Trust::from_reasons(reasons)
}

/// One rule over one cell.
type Rule = fn(&TrustFacts<'_>, &CellRecord) -> Option<TrustReason>;

/// The rules over cells, in the order their reasons are listed within a verdict.
const RULES: &[Rule] = &[
    answers::counts,
    answers::nothing_measured,
    client::lag,
    client::bounded_stamps,
    client::no_kernel_stamps,
    client::clock_step,
    client::cpu,
    client::run_queue,
    client::steal,
    client::throttled,
    load::lateness,
    load::offered_rate,
    load::in_flight_cap,
    load::not_stationary,
    answers::short,
    answers::prompt_length,
    answers::warm_cache,
    answers::few_samples,
];

/// The worst of the same rule's reasons, which tells how many other cells it holds for.
fn worst(mut found: Vec<TrustReason>) -> Option<TrustReason> {
    let excess = |r: &TrustReason| match (r.measured, r.threshold) {
        (Some(m), Some(t)) if t.abs() > 0.0 => m / t,
        _ => 0.0,
    };
    found.sort_by(|a, b| {
        b.verdict
            .cmp(&a.verdict)
            .then(excess(b).total_cmp(&excess(a)))
    });
    let others = found.len().saturating_sub(1);
    let mut first = found.into_iter().next()?;
    if others > 0 {
        first.message = format!(
            "{} (the same in {})",
            first.message,
            text::count(others, "other cell")
        );
    }
    Some(first)
}

/// A reason without numbers.
fn reason(code: &str, verdict: TrustVerdict, message: String) -> TrustReason {
    TrustReason {
        code: code.to_owned(),
        verdict,
        message,
        cell: None,
        measured: None,
        threshold: None,
    }
}

/// A reason with the number and the threshold it crossed.
fn crossed(
    code: &str,
    verdict: TrustVerdict,
    message: String,
    measured: f64,
    threshold: f64,
) -> TrustReason {
    TrustReason {
        measured: Some(measured).filter(|m| m.is_finite()),
        threshold: Some(threshold),
        ..reason(code, verdict, message)
    }
}

/// Doubtful beyond the first limit, untrusted beyond the second, silent below both.
fn graded(measured: f64, doubtful: f64, untrusted: f64) -> Option<(TrustVerdict, f64)> {
    if measured > untrusted {
        Some((TrustVerdict::Untrusted, untrusted))
    } else if measured > doubtful {
        Some((TrustVerdict::Doubtful, doubtful))
    } else {
        None
    }
}

/// Whether arrival stamps are the kernel's.
fn by_kernel(facts: &TrustFacts<'_>) -> bool {
    facts.clock.arrival == ClockKind::Kernel
}
