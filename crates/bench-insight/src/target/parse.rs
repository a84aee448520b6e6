//! Reading one gate.

use bench_schema::{Metric, Unit};

use super::quantity::{Quantity, Statistic};
use super::{Scope, Target};
use crate::InsightError;

/// How the measured value has to stand to the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operator {
    AtLeast,
    Above,
    AtMost,
    Below,
    Equal,
    Unequal,
}

/// Longest spelling first, so that `>` does not take the head of `>=`.
const OPERATORS: &[(&str, Operator)] = &[
    (">=", Operator::AtLeast),
    ("<=", Operator::AtMost),
    ("==", Operator::Equal),
    ("!=", Operator::Unequal),
    (">", Operator::Above),
    ("<", Operator::Below),
];

impl Operator {
    pub(super) fn holds(self, value: f64, limit: f64) -> bool {
        let equal = (value - limit).abs() <= 1e-9 * limit.abs().max(1.0);
        match self {
            Self::AtLeast => value >= limit || equal,
            Self::Above => value > limit,
            Self::AtMost => value <= limit || equal,
            Self::Below => value < limit,
            Self::Equal => equal,
            Self::Unequal => !equal,
        }
    }

    /// Whether a smaller value is nearer to holding.
    pub(super) fn wants_less(self) -> bool {
        matches!(self, Self::AtMost | Self::Below)
    }

    /// Whether an estimate has to be on one side of the limit with its whole interval.
    pub(super) fn has_sides(self) -> bool {
        !matches!(self, Self::Equal | Self::Unequal)
    }
}

pub(super) fn gate(text: &str) -> Result<Target, InsightError> {
    let bad = |problem: String| InsightError::BadTarget {
        target: text.to_owned(),
        problem,
    };
    let of_objective = of_objective(text);
    let text = of_objective.as_deref().unwrap_or(text);
    let (left, operator, right) = split(text).ok_or_else(|| {
        bad(
            "it has no comparison operator; write for example `ttft.p95<=200ms` (>=, >, <=, <, ==, !=)"
                .to_owned(),
        )
    })?;
    let (scope, name) = match left.rsplit_once(':') {
        Some((selector, name)) => (scope(selector).map_err(bad)?, name.trim()),
        None => (Scope::Every, left),
    };
    let quantity = Quantity::parse(name).map_err(bad)?;
    let limit = limit(right, quantity.unit()).map_err(bad)?;
    Ok(Target {
        text: text.trim().to_owned(),
        scope,
        quantity,
        operator,
        limit,
    })
}

/// `p95:ttft=200ms`, as an objective is written, is `ttft.p95<=200ms`; a scope may stand before it.
fn of_objective(text: &str) -> Option<String> {
    let (left, limit) = text.split_once("<=").or_else(|| text.rsplit_once('='))?;
    let (before, metric) = left.rsplit_once(':')?;
    let (scope, quantile) = before.split_at(before.rfind(':').map_or(0, |colon| colon + 1));
    let (metric, quantile) = (metric.trim(), quantile.trim());
    let is_one = metric.parse::<Metric>().is_ok()
        && matches!(Statistic::parse(quantile), Ok(Statistic::Quantile(_)));
    is_one.then(|| format!("{scope}{metric}.{quantile}<={}", limit.trim()))
}

/// The text around the first operator. A lone `=` belongs to a selector.
fn split(text: &str) -> Option<(&str, Operator, &str)> {
    text.char_indices().find_map(|(at, _)| {
        let rest = text.get(at..)?;
        let (word, operator) = OPERATORS.iter().find(|(word, _)| rest.starts_with(word))?;
        let after = rest.get(word.len()..)?;
        Some((text.get(..at)?.trim(), *operator, after.trim()))
    })
}

fn scope(selector: &str) -> Result<Scope, String> {
    let selector = selector.trim();
    if selector == "any" {
        return Ok(Scope::Any);
    }
    if !selector.is_empty() && !selector.contains('=') {
        return Ok(Scope::Cell(selector.to_owned()));
    }
    let pairs = selector.split('+').map(|pair| match pair.split_once('=') {
        Some((name, level)) if !name.trim().is_empty() && !level.trim().is_empty() => {
            Ok((name.trim().to_owned(), level.trim().to_owned()))
        }
        _ => Err(format!(
            "`{pair}` is not a cell selector; write a cell's id (`c8:`), `concurrency=8:` or `use_case=code:` before the quantity"
        )),
    });
    pairs.collect::<Result<_, _>>().map(Scope::Where)
}

/// A limit in the quantity's own unit.
pub(crate) fn limit(text: &str, unit: Unit) -> Result<f64, String> {
    let end = text
        .find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '-' | '+' | '_' | 'e' | 'E')))
        .unwrap_or(text.len());
    let (digits, suffix) = text.split_at(end);
    let value: f64 = digits
        .replace('_', "")
        .parse()
        .ok()
        .filter(|x: &f64| x.is_finite())
        .ok_or_else(|| {
            format!("`{text}` is not a valid limit; write a number, such as `20` or `200ms`")
        })?;
    let factor = match (suffix.trim(), unit) {
        ("ns", Unit::Ns)
        | ("", Unit::TokensPerS | Unit::RequestsPerS | Unit::Tokens)
        | ("" | "x", Unit::Count | Unit::Ratio) => 1.0,
        ("us" | "µs", Unit::Ns) => 1e3,
        ("ms", Unit::Ns) => 1e6,
        ("s", Unit::Ns) => 1e9,
        ("%", Unit::Ratio) => 0.01,
        ("", Unit::Ns) => {
            return Err(format!(
                "`{text}` has no unit; write `{text}ms` or `{text}s`"
            ));
        }
        (other, _) => {
            let fits = match unit {
                Unit::Ns => "use ns, us, ms or s",
                Unit::Ratio => "use a plain number or %",
                _ => "use a plain number",
            };
            return Err(format!("`{other}` is not a unit of this quantity; {fits}"));
        }
    };
    Ok(value * factor)
}

#[cfg(test)]
#[path = "../../tests/unit/target_parse.rs"]
mod tests;
