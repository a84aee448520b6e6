//! When the rules of `--precision` are looked at, and what they say: of one program's requests, or of all shards' together.

use bench_metrics::Precision;
use bench_schema::{CellRecord, Metric, PrecisionOutcome, Stamp};
use serde::{Deserialize, Serialize};

/// The rules of one cell.
#[derive(Clone, Debug)]
pub(super) struct StopRule {
    rules: Vec<Precision>,
    /// At how many measured requests to look next.
    next_look: usize,
    enough: bool,
}

impl StopRule {
    pub(super) fn of(cell: &CellRecord) -> Self {
        let rules = cell.stop.precision.iter();
        let rules: Vec<Precision> = rules.filter_map(|text| text.parse().ok()).collect();
        Self {
            next_look: (rules.iter().map(Precision::fewest).max()).unwrap_or(usize::MAX),
            rules,
            enough: false,
        }
    }

    pub(super) fn has_no_rules(&self) -> bool {
        self.rules.is_empty()
    }

    pub(super) fn look_at(&mut self, measured: usize) {
        self.next_look = measured;
    }

    pub(super) fn is_due(&self, measured: usize) -> bool {
        measured >= self.next_look
    }

    pub(super) fn is_enough(&self) -> bool {
        self.enough
    }

    /// Looks at the rules, where it is time to. Looking often raises the chance of stopping on a lucky streak, so the looks get rarer.
    pub(super) fn look(&mut self, measured: usize, values: impl Fn(Metric) -> Vec<f64>) {
        if self.is_due(measured) {
            let all = self.outcomes(values).iter().all(|outcome| outcome.reached);
            self.looked(measured, all);
        }
    }

    /// It was looked after so many measured requests.
    pub(super) fn looked(&mut self, measured: usize, is_enough: bool) {
        self.enough = is_enough;
        let rules = self.rules.iter().map(|rule| rule.next_look(measured));
        self.next_look = rules.max().unwrap_or(measured + measured / 4 + 1);
    }

    /// Where each rule stands with these values, in the order in which the requests ended.
    pub(super) fn outcomes(&self, values: impl Fn(Metric) -> Vec<f64>) -> Vec<PrecisionOutcome> {
        let outcome = |rule: &Precision| {
            let found = rule.check(&values(rule.metric));
            PrecisionOutcome {
                rule: rule.to_string(),
                reached: found.reached,
                half_width: found.half_width,
                needed: found.needed.map(|n| n as u64),
            }
        };
        self.rules.iter().map(outcome).collect()
    }
}

/// What the rules of `--precision` look at in one measured request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EndedRequest {
    /// When it ended.
    pub at: Stamp,
    /// The value for each rule, in their order; absent where the request did not complete or has none.
    pub values: Vec<Option<f64>>,
}

impl EndedRequest {
    pub(super) fn of(at: Stamp, stop: &StopRule, value: impl Fn(Metric) -> Option<f64>) -> Self {
        let values = stop.rules.iter().map(|rule| value(rule.metric)).collect();
        Self { at, values }
    }
}

/// The rules of `--precision` over the requests of all shards of a cell. It decides what one program with all the requests would.
#[derive(Clone, Debug)]
pub struct PooledStop {
    stop: StopRule,
    ended: Vec<EndedRequest>,
}

impl PooledStop {
    /// No request yet. The cell's stop rule is what counts.
    pub fn new(cell: &CellRecord) -> Self {
        Self {
            stop: StopRule::of(cell),
            ended: Vec::new(),
        }
    }

    /// Adds requests, their ends on one clock, and looks where it is time to. They come late and in any order: those of a look are put in order.
    pub fn add(&mut self, requests: impl IntoIterator<Item = EndedRequest>) {
        let Self { stop, ended } = self;
        ended.extend(requests);
        if stop.enough || !stop.is_due(ended.len()) {
            return;
        }
        ended.sort_by_key(|request| request.at);
        let metrics: Vec<Metric> = stop.rules.iter().map(|rule| rule.metric).collect();
        stop.look(ended.len(), |metric| {
            let place = metrics.iter().position(|of| *of == metric);
            let value = |request: &EndedRequest| *request.values.get(place?)?;
            ended.iter().filter_map(value).collect()
        });
    }

    /// Whether every rule was met when it was last looked at.
    pub fn is_enough(&self) -> bool {
        self.stop.enough
    }
}

#[cfg(test)]
#[path = "../../tests/unit/stop_rule.rs"]
mod tests;
