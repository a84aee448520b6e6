//! Regression gates: `e2e.p95:5%` fails when E2E p95 is known to be worse, and by more than 5 %.

use serde::{Deserialize, Serialize};

use super::{ComparisonRow, ComparisonVerdict, RunComparison};
use crate::InsightError;
use bench_schema::{Interval, Metric};

/// The most that a quantity may get worse.
#[derive(Clone, Debug, PartialEq)]
pub struct RegressionRule {
    text: String,
    quantity: String,
    /// A share of the base.
    allowed: f64,
}

impl RegressionRule {
    /// Reads lists of rules, separated by commas.
    ///
    /// # Errors
    /// [`InsightError::BadRule`] for the first that cannot be read.
    pub fn list<S: AsRef<str>>(lists: &[S]) -> Result<Vec<Self>, InsightError> {
        let rules = lists.iter().flat_map(|list| list.as_ref().split(','));
        let rules = rules.map(str::trim).filter(|rule| !rule.is_empty());
        rules.map(Self::parse).collect()
    }

    /// Reads `QUANTITY:PERCENT%`; the quantity `all` is every row, and a metric alone (`e2e:5%`) compares request by request.
    ///
    /// # Errors
    /// [`InsightError::BadRule`], naming the part that is wrong.
    fn parse(text: &str) -> Result<Self, InsightError> {
        let bad = |problem: &str| InsightError::BadRule {
            rule: text.to_owned(),
            problem: problem.to_owned(),
        };
        let (quantity, percent) = text
            .split_once(':')
            .ok_or_else(|| bad("it has no `:`; write `e2e.p95:5%`"))?;
        let percent = percent
            .trim()
            .strip_suffix('%')
            .ok_or_else(|| bad("the allowed regression has no `%`; write `e2e.p95:5%`"))?;
        let allowed: f64 = percent
            .trim()
            .parse()
            .ok()
            .filter(|x: &f64| x.is_finite() && *x >= 0.0)
            .ok_or_else(|| {
                bad("the allowed regression must be a number of at least 0; write `e2e.p95:5%`")
            })?;
        if quantity.trim().is_empty() {
            return Err(bad("the quantity is missing; write `e2e.p95:5%`"));
        }
        Ok(Self {
            text: text.trim().to_owned(),
            quantity: match quantity.trim().parse::<Metric>() {
                Ok(metric) if super::figures::is_paired(metric) => {
                    format!("{}.paired", metric.key())
                }
                Ok(metric) => {
                    return Err(bad(&format!(
                        "`{0}` does not have one value per request, so requests cannot be paired; write `{0}.p50:5%`, or use `e2e`, `ttft` or `tpot`",
                        metric.key()
                    )));
                }
                Err(_) => quantity.trim().to_owned(),
            },
            allowed: allowed / 100.0,
        })
    }
}

/// How one rule came out in one cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GateOutcome {
    /// The rule as written.
    pub rule: String,
    /// The cell.
    pub cell: String,
    /// The quantity.
    pub quantity: String,
    /// How much worse it got, a share of the base; negative where it got better.
    pub regression: f64,
    /// The most allowed, a share.
    pub allowed: f64,
    /// Its interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<Interval>,
    /// What it comes to.
    pub verdict: GateVerdict,
}

impl GateOutcome {
    /// Whether a regression beyond what is allowed is excluded: the whole interval is within it.
    pub fn is_certain(&self) -> bool {
        self.verdict == GateVerdict::Passed && self.interval.is_some_and(|i| i.high <= self.allowed)
    }

    /// How many times as many requests would decide; absent where it is decided, or where nothing would.
    pub fn times_as_many(&self) -> Option<f64> {
        let interval = self.interval.as_ref()?;
        crate::target::times_as_much(self.regression, interval, self.allowed)
            .filter(|_| !self.is_certain() && self.verdict != GateVerdict::Regressed)
    }
}

/// What a gate says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GateVerdict {
    /// Not worse than allowed, as far as was measured.
    Passed,
    /// Worse by more than allowed, and the difference is significant.
    Regressed,
    /// It looks worse than allowed, but chance is not excluded: measure longer, or allow more. That is no pass.
    CannotTell,
    /// Not judged, because the runs cannot be compared.
    NotJudged,
}

/// Every rule in every cell that has its quantity, and the share of requests that were answered in each: a side that loses
/// requests is worse, whatever the rules are about, because only those that were answered have a latency.
///
/// # Errors
/// [`InsightError::BadRule`] for a rule whose quantity no cell has: a gate that checks nothing must not pass. [`InsightError::NotCompared`] where that is the runs' doing and not the rule's: they cannot be compared, or not request by request.
pub fn gate(
    comparison: &RunComparison,
    rules: &[RegressionRule],
) -> Result<Vec<GateOutcome>, InsightError> {
    let mut outcomes = Vec::new();
    for rule in rules {
        let before = outcomes.len();
        outcomes.extend(
            comparison
                .rows
                .iter()
                .filter(|row| rule.quantity == "all" || row.quantity == rule.quantity)
                .filter_map(|row| outcome(rule, row, comparison.alpha)),
        );
        if outcomes.len() == before {
            let (rule, quantity) = (rule.text.clone(), &rule.quantity);
            let paired = quantity.strip_suffix(".paired");
            let missing = paired.map_or(
                format!("no cell has `{quantity}`"),
                |metric| format!("requests are paired only between two single runs of one plan, and these are not; write `{metric}.p50`"),
            );
            let problem = format!("{missing}; compared quantities: {}", known(comparison));
            let of_the_runs = !comparison.incomparable.is_empty() || paired.is_some();
            return Err(if of_the_runs {
                InsightError::NotCompared { rule, problem }
            } else {
                InsightError::BadRule { rule, problem }
            });
        }
    }
    let lost = comparison.rows.iter().filter(|row| {
        row.quantity == "success_rate"
            && (row.base - row.new > MOST_LOST || row.verdict == ComparisonVerdict::Worse)
    });
    outcomes.extend(lost.map(|row| GateOutcome {
        rule: "lost requests".to_owned(),
        cell: row.cell.clone(),
        quantity: row.quantity.clone(),
        regression: row.base - row.new,
        allowed: 0.0,
        interval: None,
        verdict: GateVerdict::Regressed,
    }));
    Ok(outcomes)
}

/// More requests lost than this, as a share of the planned, are a regression by themselves.
const MOST_LOST: f64 = 0.01;

fn known(comparison: &RunComparison) -> String {
    let mut names: Vec<&str> = comparison
        .rows
        .iter()
        .filter(|row| row.relative.is_some())
        .map(|row| row.quantity.as_str())
        .collect();
    names.sort_unstable();
    names.dedup();
    if names.is_empty() {
        "no quantities at all".to_owned()
    } else {
        names.join(", ")
    }
}

fn outcome(rule: &RegressionRule, row: &ComparisonRow, alpha: f64) -> Option<GateOutcome> {
    let change = row.relative?;
    let worse = |change: f64| row.direction.for_the_worse(change);
    let regression = worse(change)?;
    let verdict = if row.verdict == ComparisonVerdict::OtherLengths {
        GateVerdict::CannotTell
    } else if regression <= rule.allowed {
        GateVerdict::Passed
    } else if row.p < alpha && row.relative_interval.is_some() {
        GateVerdict::Regressed
    } else {
        GateVerdict::CannotTell
    };
    // of other lengths more requests decide nothing
    let told = row.relative_interval;
    let told = told.filter(|_| row.verdict != ComparisonVerdict::OtherLengths);
    let interval = told.and_then(|i| {
        let (a, b) = (worse(i.low)?, worse(i.high)?);
        Some(Interval {
            low: a.min(b),
            high: a.max(b),
            ..i
        })
    });
    Some(GateOutcome {
        rule: rule.text.clone(),
        cell: row.cell.clone(),
        quantity: row.quantity.clone(),
        regression,
        allowed: rule.allowed,
        interval,
        verdict,
    })
}
