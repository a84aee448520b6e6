//! Gates: `--target "output_tokens_per_s>=20, failed==0, ttft.p95<=200ms, concurrency=1:requests_per_s>1"`.
//!
//! ```text
//! gate     = [ selector ":" ] quantity operator limit
//! selector = name "=" level { "+" name "=" level }        factors of a cell, or one group label (use_case=code)
//! quantity = rate | count | figure | metric "." statistic
//! operator = ">=" | ">" | "<=" | "<" | "==" | "!="
//! limit    = number [ "ns" | "us" | "µs" | "ms" | "s" | "%" ]
//! ```

mod parse;
mod quantity;

use bench_schema::{CellRecord, Factor, TargetOutcome};

use crate::InsightError;
use parse::{Gate, Operator};
use quantity::{Quantity, Subject};

/// How each gate came out, in the order given; a text may hold several, separated by commas.
///
/// Without a selector, a gate on a rate, latency or figure asks whether *some* cell meets it, and the best cell decides; a gate
/// on a count is about the sum over all cells. `failed` in a gate counts every request that was sent and got no whole answer
/// for reasons of its own: failed, timed out and truncated together. A gate whose quantity was not measured is not met.
///
/// # Errors
/// [`InsightError::BadTarget`] for the first gate that cannot be read, naming the part and what is known.
pub fn targets<S: AsRef<str>>(
    gates: &[S],
    cells: &[CellRecord],
) -> Result<Vec<TargetOutcome>, InsightError> {
    gates
        .iter()
        .flat_map(|text| text.as_ref().split(','))
        .map(str::trim)
        .filter(|text| !text.is_empty())
        .map(|text| Ok(outcome(text, &parse::gate(text)?, cells)))
        .collect()
}

/// Whether every gate can be read: to refuse a wrong one before the run, not after it.
///
/// # Errors
/// As [`targets`].
pub fn check_targets<S: AsRef<str>>(gates: &[S]) -> Result<(), InsightError> {
    targets(gates, &[]).map(|_| ())
}

/// The quantiles that gates rest on, as (metric, q): what the user asked to know well.
///
/// # Errors
/// As [`targets`].
pub fn target_quantiles<S: AsRef<str>>(
    gates: &[S],
) -> Result<Vec<(bench_schema::Metric, f64)>, InsightError> {
    let mut asked = Vec::new();
    for text in gates.iter().flat_map(|text| text.as_ref().split(',')) {
        let text = text.trim();
        if text.is_empty() {
            continue;
        }
        if let Quantity::Metric(metric, statistic) = parse::gate(text)?.quantity
            && let Some(q) = statistic.quantile()
        {
            asked.push((metric, q));
        }
    }
    Ok(asked)
}

fn outcome(text: &str, gate: &Gate, cells: &[CellRecord]) -> TargetOutcome {
    let found: Vec<(String, f64)> = cells
        .iter()
        .flat_map(|cell| subjects(cell, &gate.selector))
        .filter_map(|(id, subject)| Some((id, gate.quantity.of(&subject)?)))
        .filter(|(_, value)| value.is_finite())
        .collect();
    let decided = if gate.quantity.is_count() {
        // A count is a promise about the whole run, not about its luckiest cell.
        let sum = found.iter().map(|(_, value)| value).sum();
        let only = match found.as_slice() {
            [(id, _)] => Some(id.clone()),
            _ => None,
        };
        (!found.is_empty()).then_some((only, sum))
    } else {
        best(&found, gate.operator).map(|(id, value)| (Some(id), value))
    };
    TargetOutcome {
        target: text.to_owned(),
        measured: decided.as_ref().map(|(_, value)| *value),
        cell: decided.as_ref().and_then(|(id, _)| id.clone()),
        met: decided.is_some_and(|(_, value)| gate.operator.holds(value, gate.limit)),
    }
}

fn best(found: &[(String, f64)], operator: Operator) -> Option<(String, f64)> {
    let by_value = |a: &&(String, f64), b: &&(String, f64)| a.1.total_cmp(&b.1);
    let chosen = if operator.wants_less() {
        found.iter().min_by(by_value)
    } else {
        found.iter().max_by(by_value)
    };
    chosen.cloned()
}

/// The parts of a cell that the selector means: the cell, one of its groups, or nothing.
fn subjects<'a>(cell: &'a CellRecord, selector: &[(String, String)]) -> Vec<(String, Subject<'a>)> {
    let matches_factor =
        |(name, wanted): &(String, String)| cell.factors.get(name).is_some_and(|f| same(f, wanted));
    let (factors, labels): (Vec<_>, Vec<_>) = selector.iter().partition(|(name, _)| {
        cell.factors.contains_key(name.as_str()) || !cell.groups.iter().any(|g| g.by == *name)
    });
    if !factors.into_iter().all(|pair| matches_factor(pair)) {
        return Vec::new();
    }
    match labels.as_slice() {
        [] => vec![(cell.id.clone(), Subject::Cell(cell))],
        [(by, name)] => cell
            .groups
            .iter()
            .filter(|group| group.by == *by && group.name == *name)
            .map(|group| (cell.id.clone(), Subject::Group(cell, group)))
            .collect(),
        _ => Vec::new(),
    }
}

fn same(factor: &Factor, wanted: &str) -> bool {
    match (factor.as_number(), wanted.parse::<f64>()) {
        (Some(level), Ok(asked)) => (level - asked).abs() <= 1e-9 * level.abs().max(1.0),
        _ => factor.to_string() == wanted,
    }
}
