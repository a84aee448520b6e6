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

use bench_schema::{CellRecord, Factor, Metric, TargetOutcome};

use crate::InsightError;
use parse::Operator;
use quantity::{Quantity, Subject};

/// One gate, understood.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    text: String,
    selector: Vec<(String, String)>,
    quantity: Quantity,
    operator: Operator,
    /// In the quantity's unit.
    limit: f64,
}

impl Target {
    /// Reads one gate.
    ///
    /// # Errors
    /// [`InsightError::BadTarget`], naming the part that is wrong and what is known.
    pub fn parse(text: &str) -> Result<Self, InsightError> {
        parse::gate(text)
    }

    /// The quantile of a metric that it rests on, if it rests on one: something the user asked to know well.
    pub fn quantile(&self) -> Option<(Metric, f64)> {
        match self.quantity {
            Quantity::Metric(metric, statistic) => Some((metric, statistic.quantile()?)),
            _ => None,
        }
    }

    /// How it came out.
    ///
    /// Without a selector, a gate on a rate, latency or figure asks whether *some* cell meets it, and the best cell decides; a
    /// gate on a count is about the sum over all cells. `failed` in a gate counts every request that was sent and got no whole
    /// answer for reasons of its own: failed, timed out and truncated together. A latency's quantile counts failures as +∞. A
    /// gate whose quantity was not measured is not met.
    pub fn outcome(&self, cells: &[CellRecord]) -> TargetOutcome {
        let found: Vec<(String, f64)> = cells
            .iter()
            .flat_map(|cell| subjects(cell, &self.selector))
            .filter_map(|(id, subject)| Some((id, self.quantity.of(&subject)?)))
            .filter(|(_, value)| value.is_finite())
            .collect();
        let decided = if self.quantity.is_count() {
            // A count is a promise about the whole run, not about its luckiest cell.
            let sum = found.iter().map(|(_, value)| value).sum();
            let only = match found.as_slice() {
                [(id, _)] => Some(id.clone()),
                _ => None,
            };
            (!found.is_empty()).then_some((only, sum))
        } else {
            best(&found, self.operator).map(|(id, value)| (Some(id), value))
        };
        TargetOutcome {
            target: self.text.clone(),
            measured: decided.as_ref().map(|(_, value)| *value),
            cell: decided.as_ref().and_then(|(id, _)| id.clone()),
            met: decided.is_some_and(|(_, value)| self.operator.holds(value, self.limit)),
        }
    }
}

/// How each gate came out, in the order given; a text may hold several, separated by commas.
///
/// # Errors
/// [`InsightError::BadTarget`] for the first gate that cannot be read.
pub fn targets<S: AsRef<str>>(
    gates: &[S],
    cells: &[CellRecord],
) -> Result<Vec<TargetOutcome>, InsightError> {
    gates
        .iter()
        .flat_map(|text| text.as_ref().split(','))
        .map(str::trim)
        .filter(|text| !text.is_empty())
        .map(|text| Ok(Target::parse(text)?.outcome(cells)))
        .collect()
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
    if !factors.into_iter().all(matches_factor) {
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
