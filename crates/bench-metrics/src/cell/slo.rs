//! Objectives: verdicts with intervals, attainment, goodput.

use std::collections::BTreeMap;

use bench_schema::{Distribution, Goodput, Interval, Metric, Origin, Slo, SloOutcome, SloVerdict};

use crate::blocks::{BlockMean, Part};
use crate::estimate::{Estimate, LEVEL};
use crate::gaps::GapStore;
use crate::latency::Within;
use crate::num::{float, is_zero};
use crate::proportion::wilson_effective;
use crate::quantile::{Dependence, Ranks, clusters_below, share_bounds};
use crate::sample::Sample;
use crate::summary::interval_of;

use super::CellAccumulator;
use super::row::Row;
use super::rows::GroupTable;

/// Whether single gaps are what it limits.
pub(super) fn is_on_gaps(slo: &Slo) -> bool {
    matches!(slo.metric, Metric::Itl | Metric::Icl)
}

/// Judges everything that was planned, sorted by time.
pub(super) struct Judge<'a> {
    slos: &'a [Slo],
    headline: Origin,
    rows: &'a [Row],
    gaps: &'a GapStore,
    within: &'a [Part],
    groups: &'a GroupTable,
    use_cases: BTreeMap<String, u16>,
}

impl<'a> Judge<'a> {
    pub(super) fn new(cell: &'a CellAccumulator) -> Self {
        Self {
            slos: &cell.context.slos,
            headline: cell.context.headline(),
            rows: &cell.rows,
            gaps: &cell.gaps,
            within: &cell.within,
            use_cases: cell.groups.use_cases(),
            groups: &cell.groups,
        }
    }

    /// The outcome of each objective.
    pub(super) fn outcomes(&self) -> Vec<SloOutcome> {
        self.slos.iter().map(|slo| self.outcome(slo)).collect()
    }

    /// Requests that met every objective, per second from the first due to the last end, and as a share of all that were planned;
    /// `None` where there is no objective or no window.
    pub(super) fn goodput(&self, seconds: f64) -> Option<Goodput> {
        if self.slos.is_empty() || seconds <= 0.0 || self.rows.is_empty() {
            return None;
        }
        let met: Vec<bool> = self
            .rows
            .iter()
            .map(|row| {
                self.slos
                    .iter()
                    .filter(|s| self.is_for(s, row))
                    .all(|s| self.meets(s, row).0)
            })
            .collect();
        let good = || {
            self.rows
                .iter()
                .zip(&met)
                .filter(|(_, met)| **met)
                .map(|(row, _)| row)
        };
        let vacuous = |row: &&Row| {
            self.slos
                .iter()
                .filter(|s| self.is_for(s, row))
                .any(|s| self.meets(s, row).1)
        };
        let tokens: u64 = good().filter_map(|row| row.instants().tokens).sum();
        let (attainment, attainment_interval) = attainment(&met);
        Some(Goodput {
            requests_per_s: float(good().count()) / seconds,
            planned: Some(self.rows.len() as u64),
            seconds: Some(seconds),
            tokens_per_s: tokens as f64 / seconds,
            attainment,
            attainment_interval,
            vacuous: good().filter(vacuous).count() as u64,
        })
    }

    /// The metric from the cell's headline origin, unless `due` was asked for by name.
    fn metric(&self, slo: &Slo) -> Metric {
        slo.metric
            .from_origin(if slo.metric.from_origin(Origin::Due) == slo.metric {
                Origin::Due
            } else {
                self.headline
            })
    }

    fn is_for(&self, slo: &Slo, row: &Row) -> bool {
        slo.use_case.as_ref().is_none_or(|name| {
            self.use_cases
                .get(name)
                .is_some_and(|id| self.groups.ids(row.groups)[0] == *id)
        })
    }

    /// Whether a request meets an objective, and whether only for want of the metric.
    fn meets(&self, slo: &Slo, row: &Row) -> (bool, bool) {
        if !row.completed() {
            return (false, false);
        }
        row.instants()
            .value(self.metric(slo))
            .map_or((true, true), |value| (value <= slo.limit, false))
    }

    fn outcome(&self, slo: &Slo) -> SloOutcome {
        let rows: Vec<&Row> = self.rows.iter().filter(|r| self.is_for(slo, r)).collect();
        let met: Vec<bool> = rows.iter().map(|row| self.meets(slo, row).0).collect();
        let (attainment, attainment_interval) = attainment(&met);
        // What the client stopped on purpose says nothing of how long it would have taken.
        let told: Vec<&Row> = rows.iter().copied().filter(|r| r.counts()).collect();
        let seen = match self.gaps {
            GapStore::Coarse(coarse) if is_on_gaps(slo) => {
                let all = coarse.distribution(&BTreeMap::new(), slo.metric == Metric::Itl);
                all.and_then(|all| judge_counted(&self.gaps_within(slo, &told), &all, slo))
            }
            _ => {
                let clusters: Vec<Vec<f64>> =
                    told.iter().map(|row| self.values(slo, row)).collect();
                judge(&clusters, slo.q, slo.limit)
            }
        };
        let verdict = match &seen {
            // An attainment that is all on one side decides, where the quantile of few requests has no bound.
            Some(Seen {
                verdict: SloVerdict::CannotTell,
                ..
            }) if !is_on_gaps(slo) && told.len() == rows.len() => {
                verdict_within(attainment_interval.low, attainment_interval.high, slo.q)
            }
            Some(seen) => seen.verdict,
            None => SloVerdict::CannotTell,
        };
        SloOutcome {
            slo: slo.clone(),
            measured: seen.as_ref().map(|s| s.value).filter(|x| x.is_finite()),
            interval: seen
                .as_ref()
                .and_then(|s| interval_of(s.low?, s.high?, LEVEL)),
            verdict,
            attainment,
            attainment_interval,
        }
    }

    /// How many gaps of each request are within an objective, where only that was kept; a lost one counts as one that is not.
    fn gaps_within(&self, slo: &Slo, rows: &[&Row]) -> Vec<Part> {
        let on_gaps = self.slos.iter().filter(|slo| is_on_gaps(slo));
        let place = on_gaps.take_while(|other| *other != slo).count();
        let part = |row: &&Row| {
            if row.lost {
                Some(Part { num: 0.0, den: 1.0 })
            } else {
                let first = usize::try_from(row.kept()?).ok()?;
                self.within.get(first + place).copied()
            }
        };
        let parts = rows.iter().filter_map(part);
        parts.filter(|part| part.den > 0.0).collect()
    }

    /// A request's values of an objective's metric: its gaps for ITL and ICL, else one; +∞ where it was lost.
    fn values(&self, slo: &Slo, row: &Row) -> Vec<f64> {
        if row.lost {
            return vec![f64::INFINITY];
        }
        match (self.metric(slo), self.gaps, row.gaps()) {
            (Metric::Itl, GapStore::Exact(exact), Some(range)) => {
                exact.itl(range, Within::Stamped).0
            }
            (Metric::Icl, GapStore::Exact(exact), Some(range)) => {
                exact.icl(range, Within::Stamped).0
            }
            // Without single gaps, the request's mean gap stands in.
            (metric, _, _) => row.instants().value(metric).into_iter().collect(),
        }
    }
}

/// The verdict from counts of gaps within the limit, request by request; the quantile itself is that of the histograms.
fn judge_counted(within: &[Part], all: &Distribution, slo: &Slo) -> Option<Seen> {
    let n: f64 = within.iter().map(|part| part.den).sum();
    let below = BlockMean::of_parts(within)?;
    let share = below.value.clamp(0.0, 1.0);
    let effective = Dependence::of_share(&below).effective(n, share, &below, LEVEL);
    // A quantile that histograms do not report is not shown, and is judged all the same; their intervals know nothing of lost requests.
    let value = all.quantile_entry(slo.q).map_or(f64::INFINITY, |e| e.value);
    Some(Seen {
        value,
        low: None,
        high: None,
        verdict: verdict_of(share, effective, slo.q),
    })
}

/// What the interval of the share within the limit says of the quantile.
fn verdict_of(share: f64, effective: f64, q: f64) -> SloVerdict {
    let (low, high) = share_bounds(effective, share, LEVEL);
    verdict_within(low, high, q)
}

/// All of the share's interval on one side of what is asked decides.
fn verdict_within(low: f64, high: f64, q: f64) -> SloVerdict {
    if low >= q {
        SloVerdict::Pass
    } else if high < q {
        SloVerdict::Fail
    } else {
        SloVerdict::CannotTell
    }
}

/// A quantile of values of which some are +∞ (failures), and are so here; an absent bound is unknown.
struct Seen {
    value: f64,
    low: Option<f64>,
    high: Option<f64>,
    verdict: SloVerdict,
}

/// The quantile with its order-statistic interval by clusters, and the verdict; `None` without values.
///
/// The interval that is shown is the one that decides: all of it within the limit passes, all of it beyond fails.
fn judge(clusters: &[Vec<f64>], q: f64, limit: f64) -> Option<Seen> {
    let all = clusters.concat();
    let lost = all.iter().filter(|x| x.is_infinite()).count();
    let finite = Sample::new(all.iter().copied().filter(|x| x.is_finite()).collect()).ok();
    let n = float(all.len());
    if all.is_empty() {
        return None;
    }
    let at = |q: f64| {
        finite
            .as_ref()
            .and_then(|s| s.quantile_with_failures(q, lost))
            .unwrap_or(f64::INFINITY)
    };
    let below = |x: f64| BlockMean::of_parts(&clusters_below(clusters, x));
    let dependence = Dependence::at_median(n, below(at(0.5)), LEVEL);
    let value = at(q);
    let ranks = Ranks::of(n, q, below(value), dependence, LEVEL);
    let low = ranks.and_then(|r| r.low).map(at);
    let high = ranks.and_then(|r| r.high).map(at);
    let verdict = match (low, high) {
        (_, Some(high)) if high <= limit => SloVerdict::Pass,
        (Some(low), _) if low > limit => SloVerdict::Fail,
        _ => SloVerdict::CannotTell,
    };
    Some(Seen {
        value,
        low,
        high,
        verdict,
    })
}

/// The share of `true`, with Wilson's interval for the effective number of requests; 0 within 0…1 where there are none.
fn attainment(met: &[bool]) -> (f64, Interval) {
    let hits = met.iter().filter(|m| **m).count();
    let parts: Vec<Part> = met
        .iter()
        .map(|m| Part {
            num: if *m { 1.0 } else { 0.0 },
            den: 1.0,
        })
        .collect();
    let n = float(met.len());
    let below = BlockMean::of_parts(&parts).filter(|b| !is_zero(b.std_err));
    let effective = below.map_or(n, |b| {
        Dependence::of_share(&b).effective(n, b.value, &b, LEVEL)
    });
    let nothing = Estimate::bounded(0.0, 0.0, 1.0, LEVEL);
    let wilson = wilson_effective(hits, met.len(), effective, LEVEL).unwrap_or(nothing);
    let (low, high) = wilson.bounds().unwrap_or((0.0, 1.0));
    (
        wilson.value,
        Interval {
            low,
            high,
            confidence: LEVEL,
        },
    )
}
