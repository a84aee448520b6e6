//! What is kept of each request, and the groups it belongs to.

use std::collections::BTreeMap;

use bench_schema::{GroupRecord, Metric, Outcome, RequestRecord, SloOutcome, Stamp};

use crate::blocks::Part;
use crate::counts::CountKeeper;
use crate::gaps::{GapBatch, GapHistograms, GapRange, GapStore};
use crate::latency::Instants;

use super::{LengthCategories, distributions, started};

/// Group labels beyond this many are not kept apart (turns of endless conversations).
const MOST_GROUPS: usize = 512;
/// No group.
const NONE: u16 = u16::MAX;

/// The groups of a request, by position in the table: use case, category, endpoint, turn.
pub(crate) type GroupIds = [u16; 4];

/// One request after its events were counted.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) instants: Instants,
    pub(crate) repeat: u32,
    /// Absent where nothing was kept one by one.
    pub(crate) gaps: Option<GapRange>,
    /// Of its gaps, how many are within each objective on gaps: kept where the gaps themselves are not.
    pub(crate) within: Option<Box<[Part]>>,
    pub(crate) groups: GroupIds,
    /// Counts as +∞: failed, timed out, truncated or never sent.
    pub(crate) lost: bool,
}

impl Row {
    pub(crate) fn new(
        record: &RequestRecord,
        instants: Instants,
        gaps: Option<GapRange>,
        groups: GroupIds,
    ) -> Self {
        let lost = !matches!(
            record.wire.outcome,
            Outcome::Completed | Outcome::Cancelled { .. }
        );
        Self {
            instants,
            repeat: record.repeat,
            gaps,
            within: None,
            groups,
            lost,
        }
    }

    /// When it was sent, or due where it never was.
    pub(crate) fn started(&self) -> Stamp {
        started(&self.instants)
    }

    /// Its last known instant: the last content event of a whole answer, else when the client was done with it.
    pub(crate) fn left(&self) -> Stamp {
        let instants = &self.instants;
        let end = if instants.completed {
            instants.last.or(instants.closed)
        } else {
            instants.closed.or(instants.last)
        };
        end.or(instants.sent)
            .or(instants.dispatched)
            .map_or(instants.due, |at| at.max(instants.due))
    }

    /// Whether it ended one way or the other by itself: cancelled requests say nothing about the server.
    pub(crate) fn counts(&self) -> bool {
        self.lost || self.instants.completed
    }
}

#[derive(Clone, Debug)]
struct Group {
    by: &'static str,
    name: String,
    counts: CountKeeper,
    /// Histograms of gaps, once the exact store was full.
    coarse: Option<GapHistograms>,
}

/// All groups met so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct GroupTable {
    groups: Vec<Group>,
    index: BTreeMap<(&'static str, String), u16>,
}

impl GroupTable {
    /// Counts the request in its groups and returns them.
    pub(crate) fn place(
        &mut self,
        record: &RequestRecord,
        categories: &LengthCategories,
    ) -> GroupIds {
        let category = record
            .total_tokens()
            .and_then(|n| categories.of(n))
            .map(str::to_owned);
        let endpoint = Some(record.wire.connection.endpoint.to_string());
        let turn = record.turn.map(|t| t.to_string());
        let labels = [
            ("use_case", record.use_case.clone()),
            ("category", category),
            ("endpoint", endpoint),
            ("turn", turn),
        ];
        labels.map(|(by, name)| {
            let id = name.map_or(NONE, |name| self.id(by, name));
            if let Some(group) = self.groups.get_mut(usize::from(id)) {
                group.counts.push(record);
            }
            id
        })
    }

    fn id(&mut self, by: &'static str, name: String) -> u16 {
        if let Some(&id) = self.index.get(&(by, name.clone())) {
            return id;
        }
        let id = u16::try_from(self.groups.len()).unwrap_or(NONE);
        if self.groups.len() >= MOST_GROUPS {
            return NONE;
        }
        self.index.insert((by, name.clone()), id);
        self.groups.push(Group {
            by,
            name,
            counts: CountKeeper::default(),
            coarse: None,
        });
        id
    }

    /// Names of use cases by group id.
    pub(crate) fn use_cases(&self) -> BTreeMap<String, u16> {
        let of_use_case = self.index.iter().filter(|((by, _), _)| *by == "use_case");
        of_use_case
            .map(|((_, name), id)| (name.clone(), *id))
            .collect()
    }

    /// Moves the gaps kept so far into one histogram per group; called once, before the exact store is given up.
    pub(crate) fn start_histograms(&mut self, rows: &[Row], gaps: &GapStore) {
        let GapStore::Exact(exact) = gaps else { return };
        for row in rows {
            if let Some(range) = row.gaps {
                self.record_gaps(row.groups, &exact.batch(range));
            }
        }
    }

    /// Adds a request's gaps to the histograms of its groups.
    pub(crate) fn record_gaps(&mut self, groups: GroupIds, request: &GapBatch) {
        for id in groups {
            if let Some(group) = self.groups.get_mut(usize::from(id)) {
                group.coarse.get_or_insert_default().add(request);
            }
        }
    }

    /// The records of all groups that tell something: a label that all requests share is none.
    pub(crate) fn records(
        &self,
        chosen: &[&Row],
        gaps: &GapStore,
        slos: &[SloOutcome],
    ) -> Vec<GroupRecord> {
        let alone = |by: &str| self.groups.iter().filter(|g| g.by == by).count() < 2;
        let told = self
            .groups
            .iter()
            .enumerate()
            .filter(|(_, g)| !(alone(g.by) && matches!(g.by, "endpoint" | "turn")));
        told.map(|(id, group)| {
            let members: Vec<&Row> = chosen
                .iter()
                .copied()
                .filter(|row| row.groups.iter().any(|g| usize::from(*g) == id))
                .collect();
            let mut metrics = distributions::of_rows(&members, gaps, &BTreeMap::new());
            if let Some(coarse) = &group.coarse {
                metrics.remove(&Metric::Icl);
                metrics.remove(&Metric::Itl);
                metrics.extend(coarse.distribution(false).map(|d| (Metric::Icl, d)));
                metrics.extend(coarse.distribution(true).map(|d| (Metric::Itl, d)));
            }
            let for_it = |s: &&SloOutcome| {
                group.by == "use_case" && s.slo.use_case.as_ref() == Some(&group.name)
            };
            GroupRecord {
                by: group.by.to_owned(),
                name: group.name.clone(),
                counts: group.counts.finish(),
                metrics,
                slos: slos.iter().filter(for_it).cloned().collect(),
            }
        })
        .collect()
    }
}
