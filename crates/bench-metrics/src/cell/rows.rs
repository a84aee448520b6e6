//! The groups that requests belong to.

use std::collections::BTreeMap;

use bench_schema::{Counts, Distribution, GroupRecord, Metric, Origin, RequestRecord, SloOutcome};

use crate::counts::CountKeeper;
use crate::gaps::{GapBatch, GapHistograms, GapStore};

use super::row::Row;
use super::{LengthCategories, distributions};

/// Group labels beyond this many are not kept apart (turns of endless conversations).
const MOST_GROUPS: usize = 512;
/// No group.
const NONE: u16 = u16::MAX;

/// The groups of a request, by position in the table: use case, category, endpoint, turn.
pub(crate) type GroupIds = [u16; 4];

/// A set of groups that requests are in, by position in the table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct GroupSet(pub(super) u16);

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
    sets: Vec<GroupIds>,
    set_index: BTreeMap<GroupIds, GroupSet>,
}

impl GroupTable {
    /// Counts the request in its groups and returns them.
    pub(crate) fn place(
        &mut self,
        record: &RequestRecord,
        categories: &LengthCategories,
    ) -> GroupSet {
        let category = record
            .total_tokens()
            .and_then(|n| categories.of(n))
            .map(str::to_owned);
        let endpoint = Some(record.wire.connection.endpoint.to_string());
        let turn = record.turn.map(|t| t.to_string());
        let [by_use_case, by_category, by_endpoint, by_turn] = GroupRecord::LABELS;
        let labels = [
            (by_use_case, record.use_case.clone()),
            (by_category, category),
            (by_endpoint, endpoint),
            (by_turn, turn),
        ];
        let ids = labels.map(|(by, name)| {
            let id = name.map_or(NONE, |name| self.id(by, name));
            if let Some(group) = self.groups.get_mut(usize::from(id)) {
                group.counts.push(record);
            }
            id
        });
        if let Some(known) = self.set_index.get(&ids) {
            return *known;
        }
        let set = GroupSet(u16::try_from(self.sets.len()).unwrap_or(u16::MAX));
        self.sets.push(ids);
        self.set_index.insert(ids, set);
        set
    }

    /// Whether requests are told apart by this.
    pub(crate) fn tell(&self, label: &str) -> bool {
        self.groups.iter().any(|group| group.by == label)
    }

    /// The groups of a set; more sets than there is room for are the last one.
    pub(crate) fn ids(&self, set: GroupSet) -> GroupIds {
        let ids = self.sets.get(usize::from(set.0));
        ids.copied().unwrap_or([NONE; 4])
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

    /// Whether a set has this group, told by its label and name.
    pub(crate) fn holds(&self, set: GroupSet, (by, name): &(String, String)) -> bool {
        let mut groups = self.ids(set).into_iter();
        groups.any(|id| {
            let group = self.groups.get(usize::from(id));
            group.is_some_and(|group| group.by == by && group.name == *name)
        })
    }

    /// Names of use cases by group id.
    pub(crate) fn use_cases(&self) -> BTreeMap<String, u16> {
        let of_use_case = self.index.iter().filter(|((by, _), _)| *by == "use_case");
        of_use_case
            .map(|((_, name), id)| (name.clone(), *id))
            .collect()
    }

    /// Adds a request's gaps to the histograms of its groups.
    pub(crate) fn record_gaps(&mut self, groups: GroupSet, request: &GapBatch) {
        for id in self.ids(groups) {
            if let Some(group) = self.groups.get_mut(usize::from(id)) {
                group.coarse.get_or_insert_default().add(request);
            }
        }
    }

    /// The records of all groups that tell something: a label that all requests share is none.
    pub(crate) fn records(&self, cell: &Population<'_>, slos: &[SloOutcome]) -> Vec<GroupRecord> {
        let alone = |by: &str| self.groups.iter().filter(|g| g.by == by).count() < 2;
        let told = self
            .groups
            .iter()
            .enumerate()
            .filter(|(_, g)| !(alone(g.by) && matches!(g.by, "endpoint" | "turn")));
        told.map(|(id, group)| {
            let for_it = |s: &&SloOutcome| {
                group.by == "use_case" && s.slo.use_case.as_ref() == Some(&group.name)
            };
            let mut record = GroupRecord {
                by: group.by.to_owned(),
                name: group.name.clone(),
                counts: group.counts.finish(),
                metrics: BTreeMap::new(),
                slos: slos.iter().filter(for_it).cloned().collect(),
            };
            if !record.is_all_of(cell.counts) {
                let has = |row: &&Row| self.ids(row.groups).iter().any(|g| usize::from(*g) == id);
                let members: Vec<&Row> = cell.rows.iter().copied().filter(has).collect();
                record.metrics = group.metrics(&members, cell);
            }
            record
        })
        .collect()
    }
}

/// The requests of a cell that its distributions are of.
pub(crate) struct Population<'a> {
    pub(crate) rows: &'a [&'a Row],
    pub(crate) gaps: &'a GapStore,
    pub(crate) counts: &'a Counts,
    pub(crate) headline: Origin,
}

impl Group {
    /// The distributions of its own requests.
    fn metrics(&self, members: &[&Row], cell: &Population<'_>) -> BTreeMap<Metric, Distribution> {
        let told = |metric: Metric| {
            metric.is_told_of_groups() && metric.from_origin(cell.headline) == metric
        };
        let mut metrics = distributions::of_rows(members, cell.gaps, &BTreeMap::new(), told);
        if let Some(coarse) = &self.coarse {
            for (metric, per_token) in [(Metric::Icl, false), (Metric::Itl, true)] {
                metrics.remove(&metric);
                metrics.extend(coarse.distribution(per_token).map(|d| (metric, d)));
            }
        }
        metrics
    }
}
