//! What is kept of each request, and the groups it belongs to.

use std::collections::BTreeMap;

use bench_schema::{
    Distribution, GroupRecord, Metric, Outcome, RequestRecord, SloOutcome, Stamp, Unit,
};

use crate::counts::CountKeeper;
use crate::gaps::{GapRange, GapStore, gaps};
use crate::histogram::{Histogram, Layout};
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
            groups,
            lost,
        }
    }

    /// When it was sent, or due where it never was.
    pub(crate) fn started(&self) -> Stamp {
        started(&self.instants)
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
    coarse: Option<(Histogram, Histogram, bool)>,
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
            let Some(range) = row.gaps else { continue };
            let (icl, itl) = (exact.icl(range, false).0, exact.itl(range, false).0);
            for id in row.groups {
                let Some(group) = self.groups.get_mut(usize::from(id)) else {
                    continue;
                };
                group.add(icl.iter().copied(), itl.iter().copied());
            }
        }
    }

    /// Adds a request's gaps to the histograms of its groups.
    pub(crate) fn record_gaps(&mut self, record: &RequestRecord, groups: GroupIds) {
        if !record.wire.outcome.is_completed() {
            return;
        }
        let icl: Vec<f64> = gaps(record).map(|g| g.length.as_f64()).collect();
        let itl = crate::gaps::token_gaps(record);
        for id in groups {
            let Some(group) = self.groups.get_mut(usize::from(id)) else {
                continue;
            };
            group.add(icl.iter().copied(), itl.iter().copied());
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
            let mut metrics = distributions::of_rows(&members, gaps, None);
            if let Some(coarse) = &group.coarse {
                metrics.remove(&Metric::Icl);
                metrics.remove(&Metric::Itl);
                metrics.extend(group_gaps(coarse));
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

impl Group {
    fn add(&mut self, icl: impl Iterator<Item = f64>, itl: impl Iterator<Item = f64>) {
        let empty = || Histogram::new(Layout::with_bits(9));
        let (chunks, tokens, has_tokens) =
            self.coarse.get_or_insert_with(|| (empty(), empty(), true));
        let before = (chunks.len(), tokens.len());
        icl.for_each(|gap| chunks.record(crate::num::floor_index(gap) as u64));
        itl.for_each(|gap| tokens.record(crate::num::floor_index(gap) as u64));
        *has_tokens &= chunks.len() == before.0 || tokens.len() > before.1;
    }
}

/// Distributions from a group's histograms; without intervals, because no blocks were kept.
fn group_gaps(
    (chunks, tokens, has_tokens): &(Histogram, Histogram, bool),
) -> BTreeMap<Metric, Distribution> {
    let bare = |h: &Histogram| {
        let mut d = h.summary(Unit::Ns)?;
        d.mean_interval = None;
        d.quantiles.iter_mut().for_each(|q| q.interval = None);
        Some(d)
    };
    let itl = if *has_tokens { bare(tokens) } else { None };
    [(Metric::Icl, bare(chunks)), (Metric::Itl, itl)]
        .into_iter()
        .filter_map(|(m, d)| Some((m, d?)))
        .collect()
}
