//! The distribution of every metric over a set of requests.

use std::collections::BTreeMap;

use bench_schema::{Distribution, FailureView, Metric, Quantile, Unit, Window};

use crate::gaps::GapStore;
use crate::latency::{Instants, Within};
use crate::sample::Sample;
use crate::summary::{Clusters, failure_view, summarise, summarise_each};

use super::row::Row;

/// Each of these metrics that has a value in these rows, in time order. `steady` filters coarse gaps, by repeat; empty means all of them.
pub(super) fn of_rows(
    rows: &[&Row],
    gaps: &GapStore,
    steady: &BTreeMap<u32, Window>,
    metrics: impl Fn(Metric) -> bool,
) -> BTreeMap<Metric, Distribution> {
    let lost = rows.iter().filter(|r| r.lost).count() as u64;
    let per_request = Metric::ALL
        .iter()
        .filter(|m| metrics(**m) && !matches!(m, Metric::Icl | Metric::Itl));
    let mut all: BTreeMap<Metric, Distribution> = per_request
        .filter_map(|&m| Some((m, of_requests(rows, m, lost)?)))
        .collect();
    for metric in [Metric::Icl, Metric::Itl] {
        if let Some(found) = of_gaps(rows, gaps, metric, steady, lost) {
            all.insert(metric, found);
        }
    }
    all
}

/// Whether users wait for its end, which never comes of a lost request.
pub(super) fn is_waited_for(metric: Metric) -> bool {
    metric.unit() == Unit::Ns && !matches!(metric, Metric::Lateness | Metric::Connect)
}

fn of_requests(rows: &[&Row], metric: Metric, lost: u64) -> Option<Distribution> {
    // Whatever became of a request, the client sent it in time or late.
    let counts = |row: &&&Row| row.tells(metric) || metric == Metric::Lateness;
    let told = || rows.iter().filter(counts).map(|row| row.instants());
    let mut bounded = 0_usize;
    let value = |instants: Instants| {
        let value = instants.value(metric)?;
        bounded += usize::from(instants.is_bounded(metric));
        Some(value)
    };
    let values: Vec<f64> = told().filter_map(value).collect();
    let mut found = summarise(&values, metric.unit())?;
    if lost > 0 && is_waited_for(metric) {
        found.with_failures = Sample::of(&values).and_then(|s| failure_view(&s, lost));
    }
    if bounded > 0 {
        found.bounded_share = Some(crate::num::float(bounded) / crate::num::float(values.len()));
        let end = |within| -> Vec<f64> {
            told()
                .filter(|instants| instants.value(metric).is_some())
                .filter_map(|instants| instants.value_within(metric, within))
                .collect()
        };
        set_ends(&mut found, metric, &end(Within::Least), &end(Within::Most));
    }
    Some(found)
}

fn of_gaps(
    rows: &[&Row],
    gaps: &GapStore,
    metric: Metric,
    steady: &BTreeMap<u32, Window>,
    lost: u64,
) -> Option<Distribution> {
    let exact = match gaps {
        GapStore::Coarse(coarse) => {
            let mut found = coarse.distribution(steady, metric == Metric::Itl)?;
            found.with_failures = coarse_failures(&found, lost);
            return Some(found);
        }
        GapStore::Exact(exact) => exact,
    };
    let mut bounded = 0;
    let ranges: Vec<_> = rows
        .iter()
        .filter(|r| r.completed())
        .filter_map(|r| r.gaps())
        .collect();
    let mut of = |within: Within| -> Clusters {
        bounded = 0;
        let clusters = ranges.iter().map(|range| {
            let (values, marked) = if metric == Metric::Icl {
                exact.icl(*range, within)
            } else {
                exact.itl(*range, within)
            };
            bounded += marked;
            values
        });
        clusters.collect()
    };
    let clusters = of(Within::Stamped);
    let mut found = summarise_each(&clusters.iter(), Unit::Ns)?;
    // One answer without token counts and the cell's ITL would be of the others only: not reported, ICL is.
    let untold = |row: &&&Row| row.completed() && row.instants().events > 1;
    let told = clusters.iter().filter(|c| !c.is_empty()).count();
    if metric == Metric::Itl && told < rows.iter().filter(untold).count() {
        return None;
    }
    let values = clusters.into_values();
    if lost > 0 {
        let sample = Sample::new(values).ok();
        found.with_failures = sample.and_then(|s| failure_view(&s, lost));
    }
    if exact.any_bounded {
        let [least, most] = [Within::Least, Within::Most].map(|end| of(end).into_values());
        if bounded > 0 {
            found.bounded_share = Some(bounded as f64 / found.n as f64);
            set_ends(&mut found, metric, &least, &most);
        }
    }
    Some(found)
}

/// The view with failures of a distribution of which only quantiles are kept.
fn coarse_failures(found: &Distribution, lost: u64) -> Option<FailureView> {
    let n = found.n + lost;
    let at = |q: f64| {
        let rank = q * n as f64 / found.n as f64;
        let entries = &found.quantiles;
        let next = entries.iter().position(|entry| entry.q >= rank)?;
        let (high, low) = (entries.get(next)?, entries.get(next.checked_sub(1)?)?);
        Some(low.value + (high.value - low.value) * (rank - low.q) / (high.q - low.q))
    };
    (lost > 0).then(|| FailureView {
        n,
        failed: lost,
        quantiles: found.quantiles.iter().map(|e| (e.q, at(e.q))).collect(),
    })
}

/// Sets between which values each quantile lies. A quantile never falls when a value rises, so that every value at its least gives the
/// quantile's least, and every value at its most its most. The interval of a mean reaches as far, but that of gaps: what one is longer by, its neighbour is shorter by.
/// Where those are more than 2 % off, trust judges the quantile; one that is the largest value, or of a
/// metric by which no run is judged, is not told.
fn set_ends(found: &mut Distribution, metric: Metric, least: &[f64], most: &[f64]) {
    const OPEN: f64 = 0.02;
    if let (Some(least), Some(most)) = (Sample::of(least), Sample::of(most)) {
        for entry in &mut found.quantiles {
            let differs = |end: &f64| end.total_cmp(&entry.value).is_ne();
            entry.at_least = Some(least.quantile(entry.q)).filter(differs);
            entry.at_most = Some(most.quantile(entry.q)).filter(differs);
        }
        let gaps = matches!(metric, Metric::Icl | Metric::Itl);
        if let Some(interval) = found.mean_interval.as_mut().filter(|_| !gaps) {
            interval.low -= (found.mean - least.mean()).max(0.0);
            interval.high += (most.mean() - found.mean).max(0.0);
        }
        let n = crate::num::float(most.len());
        let by_others = !matches!(metric, Metric::Ttst | Metric::Ttfa);
        let judged = |entry: &Quantile| by_others && n * (1.0 - entry.q) >= 1.0 - 1e-9;
        let is_told = |entry: &Quantile| entry.stamp_error() <= OPEN * entry.value.abs();
        found
            .quantiles
            .retain(|entry| judged(entry) || is_told(entry));
    }
}
