//! When the rules of `--precision` are looked at, and what they say: of one program's requests, or of all shards' together. For the stage of a search, whose
//! objectives need more than single values, shards hand on the records themselves.

use bench_metrics::Precision;
use bench_schema::{
    CellRecord, ClientRecord, Metric, Nanos, PrecisionOutcome, RequestRecord, Stamp,
};
use serde::{Deserialize, Serialize};

use super::{Asked, CellConclusion};

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

    /// It was looked after so many measured requests. What was enough ends the cell, whatever the requests that were still in flight say.
    pub(super) fn looked(&mut self, measured: usize, is_enough: bool) {
        self.enough |= is_enough;
        let rules = self.rules.iter().map(|rule| rule.next_look(measured));
        self.next_look = rules.max().unwrap_or(measured + measured / 4 + 1);
    }

    /// Where each rule stands with these values, in the order in which the requests ended.
    pub(super) fn outcomes(&self, values: impl Fn(Metric) -> Vec<f64>) -> Vec<PrecisionOutcome> {
        let outcome = |rule: &Precision| {
            let found = rule.check(&values(rule.metric));
            PrecisionOutcome {
                rule: rule.to_string(),
                reached: found.reached || self.enough,
                half_width: found.half_width,
                needed: found.needed.map(|n| n as u64),
            }
        };
        self.rules.iter().map(outcome).collect()
    }
}

/// What shards tell of one request that is over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EndedRequest {
    /// When it ended.
    pub at: Stamp,
    /// The value for each rule of `--precision`, in their order; absent where the request did not complete or has none.
    pub values: Vec<Option<f64>>,
    /// The request itself, where a search has to judge its stage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record: Option<Box<RequestRecord>>,
}

impl EndedRequest {
    pub(super) fn of(at: Stamp, stop: &StopRule, value: impl Fn(Metric) -> Option<f64>) -> Self {
        let values = stop.rules.iter().map(|rule| value(rule.metric)).collect();
        Self {
            at,
            values,
            record: None,
        }
    }

    /// Moves it onto another clock.
    pub fn shift(&mut self, by: Nanos) {
        self.at = self.at + by;
        if let Some(record) = &mut self.record {
            record.shift(by);
        }
    }

    /// About how many bytes it has as JSON, and rather more than fewer.
    pub fn bytes(&self) -> usize {
        const OF_A_RECORD: usize = 4 << 10;
        const OF_AN_EVENT: usize = 48;
        let record = self.record.as_ref();
        let record = record.map_or(0, |r| OF_A_RECORD + OF_AN_EVENT * r.wire.events.len());
        64 + 24 * self.values.len() + record
    }
}

/// What ends a cell by the requests of all its shards. It decides what one program with all the requests would.
pub struct PooledStop {
    stop: StopRule,
    ended: Vec<EndedRequest>,
    stage: Option<PooledStage>,
}

/// The stage of a search: its design, and what its requests have come to so far.
struct PooledStage {
    cell: CellRecord,
    asked: Asked,
    so_far: CellConclusion,
}

impl PooledStop {
    /// No request yet. The cell's design is what counts; it has the load of all shards.
    pub fn new(cell: &CellRecord, asked: &Asked) -> Self {
        Self {
            stop: StopRule::of(cell),
            ended: Vec::new(),
            stage: asked.search.map(|_| PooledStage {
                cell: cell.clone(),
                asked: asked.clone(),
                so_far: CellConclusion::new(cell, asked),
            }),
        }
    }

    /// Adds requests, their ends on one clock, and looks where it is time to. They come late and in any order: those of a look are put in order.
    pub fn add(&mut self, requests: impl IntoIterator<Item = EndedRequest>) {
        let Self { stop, ended, stage } = self;
        let before = ended.len();
        ended.extend(requests);
        if let Some(stage) = stage {
            let records = ended.iter().skip(before);
            for record in records.filter_map(|request| request.record.as_ref()) {
                stage.so_far.push(record);
            }
            stop.enough = stage.so_far.is_enough();
            return;
        }
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

    /// Whether every rule was met when it was last looked at, or the stage of a search is plainly beyond the capacity.
    pub fn is_enough(&self) -> bool {
        self.stop.enough
    }

    /// The stage of all shards, as merging their results would have it; these are the clients, and the stages before. Nothing where there is no search.
    pub fn into_stage(
        mut self,
        clients: &[&ClientRecord],
        before: &[CellRecord],
    ) -> Option<CellRecord> {
        let PooledStage {
            mut cell, asked, ..
        } = self.stage?;
        self.ended.sort_by_key(|request| request.at);
        let mut conclusion = CellConclusion::new(&cell, &asked);
        for record in self
            .ended
            .iter()
            .filter_map(|request| request.record.as_ref())
        {
            conclusion.push(record);
        }
        cell.client = ClientRecord::of_all(clients);
        conclusion.finish(&mut cell, before, &[]);
        Some(cell)
    }
}

#[cfg(test)]
#[path = "../../tests/unit/stop_rule.rs"]
mod tests;
