//! Objectives: verdicts with intervals, attainment, goodput.

use std::collections::BTreeMap;

use bench_schema::{
    Distribution, Goodput, Interval, Metric, Origin, Share, Slo, SloOutcome, SloVerdict,
};

use crate::blocks::{BlockMean, Part};
use crate::estimate::{LEVEL, wilson};
use crate::gaps::GapStore;
use crate::latency::Within;
use crate::num::{ceil_count, float, is_zero, mean};
use crate::objective::{halfway, share_interval, share_of_parts, share_within, verdict};
use crate::packed::PackedInts;
use crate::quantile::{Dependence, Ranks, clusters_below};
use crate::sample::Sample;
use crate::summary::{Clusters, interval_of};

use super::distributions::is_waited_for;
use super::row::Row;
use super::rows::GroupTable;
use super::{CellAccumulator, CellContext, Threshold};

/// Whether single gaps are what it limits.
pub(super) fn is_on_gaps(slo: &Slo) -> bool {
    matches!(slo.metric, Metric::Itl | Metric::Icl)
}

/// Judges everything that was planned, sorted by time.
pub(super) struct Judge<'a> {
    context: &'a CellContext,
    slos: &'a [Slo],
    rows: &'a [Row],
    gaps: &'a GapStore,
    within: &'a PackedInts,
    groups: &'a GroupTable,
    use_cases: BTreeMap<String, u16>,
}

impl<'a> Judge<'a> {
    pub(super) fn new(cell: &'a CellAccumulator, rows: &'a [Row]) -> Self {
        Self {
            context: &cell.context,
            slos: &cell.context.slos,
            rows,
            gaps: &cell.gaps,
            within: &cell.within,
            use_cases: cell.groups.use_cases(),
            groups: &cell.groups,
        }
    }

    /// The outcome of each objective.
    pub(super) fn outcomes(&self) -> Vec<SloOutcome> {
        let own = |slo| {
            self.rows
                .iter()
                .filter(|row| self.is_for(slo, row))
                .collect()
        };
        let outcome = |slo| self.outcome(slo, own(slo));
        self.slos.iter().map(outcome).collect()
    }

    /// The outcome of each threshold.
    pub(super) fn thresholds(&self) -> Vec<SloOutcome> {
        let outcome = |of: &Threshold| {
            let group = of.group.as_ref();
            let is_in = |row: &&Row| group.is_none_or(|of| self.groups.holds(row.groups, of));
            self.outcome(&of.slo, self.rows.iter().filter(is_in).collect())
        };
        self.context.thresholds.iter().map(outcome).collect()
    }

    /// Requests that met every objective, per second from the first due to the last end, and as a share of all that were planned;
    /// `None` where there is no objective or no window, and where those that met them are no whole answers, as `--cancel-after` stops them.
    pub(super) fn goodput(&self, seconds: f64, outcomes: &[SloOutcome]) -> Option<Goodput> {
        if self.slos.is_empty() || seconds <= 0.0 || self.rows.is_empty() {
            return None;
        }
        let meets_all = |row: &Row| {
            let mut own = self.slos.iter().filter(|s| self.is_for(s, row));
            !row.lost && own.all(|s| self.meets(s, row).0)
        };
        let met: Vec<bool> = self.rows.iter().map(meets_all).collect();
        if met.contains(&true) && !self.rows.iter().any(Row::completed) {
            return None;
        }
        let rows = || self.rows.iter().zip(&met);
        let good = || rows().filter_map(|(row, met)| (*met && row.completed()).then_some(row));
        let vacuous = |row: &&Row| {
            let mut own = self.slos.iter().filter(|s| self.is_for(s, row));
            own.any(|s| self.meets(s, row).1)
        };
        let tokens: u64 = good().filter_map(|row| row.instants().tokens).sum();
        let (attainment, own) = attainment(&met);
        // Where one objective alone decides, it is the same share of the same requests, and its values tell more than yes and no.
        let alone = outcomes
            .iter()
            .find(|o| o.slo.use_case.is_none() && (o.attainment - attainment).abs() < 1e-12);
        let rows: Vec<&Row> = self.rows.iter().collect();
        let attainment_interval = alone.map_or_else(
            || without_lost(own, &rows, |row| row.lost),
            |o| o.attainment_interval,
        );
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
                self.context.headline()
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
        let value = self.decisive(slo, row);
        (value <= slo.limit, value.is_infinite() && value < 0.0)
    }

    /// What decides whether a request meets an objective: +∞ where it was lost, −∞ where it has no such metric.
    fn decisive(&self, slo: &Slo, row: &Row) -> f64 {
        if self.tells(slo, row) && !is_lost(slo, row) {
            let value = row.instants().value(self.metric(slo));
            value.unwrap_or(f64::NEG_INFINITY)
        } else {
            f64::INFINITY
        }
    }

    /// Whether what became of a request says what an objective asks for. Whatever it was, the client sent it in time or late.
    fn tells(&self, slo: &Slo, row: &Row) -> bool {
        row.tells(self.metric(slo)) || slo.metric == Metric::Lateness
    }

    fn outcome(&self, slo: &Slo, mut rows: Vec<&Row>) -> SloOutcome {
        if !is_waited_for(slo.metric) {
            let metric = self.metric(slo);
            rows.retain(|row| self.tells(slo, row) && row.instants().value(metric).is_some());
        }
        let lost = |row: &Row| is_lost(slo, row);
        let share = |rows: &[&Row]| {
            let values: Vec<f64> = rows.iter().map(|row| self.decisive(slo, row)).collect();
            let share = share_within(&values, slo.limit, slo.q);
            let interval = share.map_or_else(anything, |share| share_interval(&share));
            (share, without_lost(interval, rows, lost))
        };
        let (attained, attainment_interval) = share(&rows);
        // What the client stopped on purpose says nothing of how long the rest would have taken.
        let tells = |r: &&Row| lost(r) || self.tells(slo, r);
        let told: Vec<&Row> = rows.iter().copied().filter(tells).collect();
        let (seen, within) = match self.gaps {
            GapStore::Coarse(coarse) if is_on_gaps(slo) => {
                let all = coarse.distribution(&BTreeMap::new(), slo.metric == Metric::Itl);
                let parts = self.gaps_within(slo, &told);
                let within = all
                    .as_ref()
                    .and_then(|_| share_of_parts(parts.iter(), None, slo.q));
                let lost = float(told.iter().filter(|row| lost(row)).count());
                let answered = 1.0 - lost / float(told.len());
                (all.map(|all| counted(&all, slo, answered)), within)
            }
            _ => {
                let mut clusters: Clusters = told.iter().map(|row| self.values(slo, row)).collect();
                let within = if is_on_gaps(slo) {
                    clusters = count_lost_in_full(&clusters);
                    share_of_clusters(&clusters, slo)
                } else {
                    share(&told).0
                };
                (quantile_seen(&clusters, slo.q), within)
            }
        };
        // Where no answer has the metric, each meets the objective for want of it, which shows nothing; lost requests miss it all the same.
        let vacuous = told.iter().filter(|row| self.meets(slo, row).1).count();
        let gone = told.iter().filter(|row| lost(row)).count();
        let nobody = vacuous > 0 && vacuous + gone == told.len();
        let within = if nobody { share(&told).0 } else { within };
        let by_share =
            |share: Share| verdict(&without_lost(share_interval(&share), &told, lost), slo.q);
        let verdict = match within.filter(|_| seen.is_some() || nobody).map(by_share) {
            Some(SloVerdict::Pass) if nobody => SloVerdict::CannotTell,
            verdict => verdict.unwrap_or(SloVerdict::CannotTell),
        };
        let tells = !nobody || verdict == SloVerdict::Fail;
        SloOutcome {
            slo: slo.clone(),
            measured: seen.as_ref().map(|s| s.value).filter(|x| x.is_finite()),
            interval: seen.as_ref().and_then(|s| s.told(verdict, slo.limit)),
            verdict,
            within: within.filter(|_| tells),
            attainment: attained.map_or(0.0, |share| share.value),
            attainment_interval,
            vacuous: vacuous as u64,
        }
    }

    /// How many gaps of each request are within an objective, where only that was kept; a lost one has as many as the others, none of them within.
    fn gaps_within(&self, slo: &Slo, rows: &[&Row]) -> Vec<Part> {
        let before = self.context.on_gaps().take_while(|other| *other != slo);
        let place = before.count();
        let kept = |row: &Row| {
            let mut counts = self.within.read_from(usize::try_from(row.kept()?).ok()?);
            for _ in 0..2 * place {
                counts.unsigned()?;
            }
            let [num, den] = [counts.unsigned()?, counts.unsigned()?].map(|n| n as f64);
            Some(Part { num, den })
        };
        let answered: Vec<f64> = rows.iter().filter_map(|row| Some(kept(row)?.den)).collect();
        let usual = mean(&answered).unwrap_or(1.0);
        let lost = Part {
            num: 0.0,
            den: usual,
        };
        let part = |row: &&Row| if row.lost { Some(lost) } else { kept(row) };
        let parts = rows.iter().filter_map(part);
        parts.filter(|part| part.den > 0.0).collect()
    }

    /// A request's values of an objective's metric: its gaps for ITL and ICL, else one; +∞ where it was lost.
    fn values(&self, slo: &Slo, row: &Row) -> Vec<f64> {
        if is_lost(slo, row) {
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

/// Whether a lost request counts as one that would have taken for ever.
fn is_lost(slo: &Slo, row: &Row) -> bool {
    row.lost && is_waited_for(slo.metric)
}

/// A quantile of values of which some are +∞ (failures), and are so here; an absent bound is unknown.
struct QuantileWithFailures {
    value: f64,
    low: Option<f64>,
    high: Option<f64>,
}

impl QuantileWithFailures {
    /// Its interval beside a verdict: what the share within the limit shows bounds the quantile too.
    fn told(&self, verdict: SloVerdict, limit: f64) -> Option<Interval> {
        let (low, high) = match verdict {
            SloVerdict::Pass => (
                self.low,
                self.high.map_or(Some(limit), |x| Some(x.min(limit))),
            ),
            SloVerdict::Fail => (
                self.low.map_or(Some(limit), |x| Some(x.max(limit))),
                self.high,
            ),
            SloVerdict::CannotTell => (
                self.low.filter(|x| *x <= limit),
                self.high.filter(|x| *x > limit),
            ),
        };
        interval_of(low?, high?, LEVEL)
    }
}

/// The quantile of histograms, +∞ where so many requests were lost; one that they do not report is not shown, and their intervals know nothing of
/// lost requests.
fn counted(all: &Distribution, slo: &Slo, answered: f64) -> QuantileWithFailures {
    let entry = all.quantile_entry(slo.q).filter(|_| slo.q < answered);
    QuantileWithFailures {
        value: entry.map_or(f64::INFINITY, |e| e.value),
        low: None,
        high: None,
    }
}

/// The quantile with its order-statistic interval by clusters; `None` without values.
fn quantile_seen(clusters: &Clusters, q: f64) -> Option<QuantileWithFailures> {
    let all = clusters.values();
    let lost = all.iter().filter(|x| x.is_infinite()).count();
    let finite = Sample::new(all.iter().copied().filter(|x| x.is_finite()).collect()).ok();
    if all.is_empty() {
        return None;
    }
    let at = |q: f64| {
        finite
            .as_ref()
            .and_then(|s| s.quantile_with_failures(q, lost))
            .unwrap_or(f64::INFINITY)
    };
    let below = |x: f64| BlockMean::of_parts(clusters_below(clusters.iter(), x).iter());
    let n = float(all.len());
    let dependence = Dependence::at_median(n, below(at(0.5)), LEVEL);
    let value = at(q);
    let ranks = Ranks::of(n, q, below(value), dependence, LEVEL);
    Some(QuantileWithFailures {
        value,
        low: ranks.and_then(|r| r.low).map(at),
        high: ranks.and_then(|r| r.high).map(at),
    })
}

/// A lost request would have had as many gaps as the others have on average, not one.
fn count_lost_in_full(clusters: &Clusters) -> Clusters {
    let is_lost = |gaps: &[f64]| gaps.first().is_some_and(|gap| gap.is_infinite());
    let answered: Vec<f64> = clusters
        .iter()
        .filter(|gaps| !is_lost(gaps))
        .map(|gaps| float(gaps.len()))
        .collect();
    let usual = mean(&answered).map_or(1, ceil_count).max(1);
    let in_full = |gaps: &[f64]| {
        if is_lost(gaps) {
            vec![f64::INFINITY; usual]
        } else {
            gaps.to_vec()
        }
    };
    clusters.iter().map(in_full).collect()
}

/// The interval of a share without what lost requests rule out: however alike they are, they were lost, and no limit holds for them.
fn without_lost(interval: Interval, rows: &[&Row], is_lost: impl Fn(&Row) -> bool) -> Interval {
    let lost = rows.iter().filter(|row| is_lost(row)).count();
    let least = wilson(lost, rows.len(), LEVEL).and_then(|share| share.low);
    let high = interval.high.min(1.0 - least.unwrap_or(0.0));
    Interval {
        low: interval.low.min(high),
        high,
        ..interval
    }
}

/// The share of gaps within the limit, request by request; where none is beyond halfway, a request counts once.
fn share_of_clusters(clusters: &Clusters, slo: &Slo) -> Option<Share> {
    let parts = clusters_below(clusters.iter(), slo.limit);
    let at = halfway(clusters.values().iter().copied(), slo.limit);
    let seen = BlockMean::of_parts(clusters_below(clusters.iter(), at).iter());
    let n: f64 = parts.iter().map(|p| p.den).sum();
    let dependence = match seen {
        Some(seen) if !is_zero(seen.std_err) => Dependence::at(n, seen.value, Some(seen), LEVEL),
        // Requests that are all alike know their share exactly.
        Some(seen) if seen.value > 0.0 && seen.value < 1.0 => Dependence::at_least(1.0),
        _ => Dependence::at_least(n / float(parts.len())),
    };

    share_of_parts(parts.iter(), Some(dependence), slo.q)
}

/// The share of `true`, with Wilson's interval for the effective number of requests; 0 within 0…1 where there are none.
fn attainment(met: &[bool]) -> (f64, Interval) {
    let part = |m: &bool| Part {
        num: if *m { 1.0 } else { 0.0 },
        den: 1.0,
    };
    let parts: Vec<Part> = met.iter().map(part).collect();
    share_of_parts(parts.iter(), None, 0.5).map_or((0.0, anything()), |share| {
        (share.value, share_interval(&share))
    })
}

fn anything() -> Interval {
    Interval {
        low: 0.0,
        high: 1.0,
        confidence: LEVEL,
    }
}
