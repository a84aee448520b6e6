//! Do latencies rise where a resource is in use? Rank correlation over slices of time.

use bench_schema::{Nanos, ReadingSource, Stamp, Unit, Window, as_stored, is_counter};

use super::{Derived, increase, level};
use crate::num::mean;

/// Name of the figure, source, series.
const PAIRS: [(&str, ReadingSource, &str); 8] = [
    ("gpu_utilisation", ReadingSource::Gpu, "utilisation_share"),
    ("gpu_power", ReadingSource::Gpu, "power_w"),
    ("dcgm_utilisation", ReadingSource::Dcgm, "utilisation_share"),
    ("host_cpu", ReadingSource::Host, "cpu_busy_s_total"),
    ("server_cpu", ReadingSource::ServerProcess, "cpu_s_total"),
    ("running", ReadingSource::ServerMetrics, "running"),
    ("waiting", ReadingSource::ServerMetrics, "waiting"),
    ("kv_cache", ReadingSource::ServerMetrics, "kv_cache_share"),
];

/// The shortest slice of time; slices are longer where the window has more than [`MOST`] of them.
const SLICE: Nanos = Nanos::from_secs(1);
const MOST: i64 = 60;

/// Fewer slices than this say nothing.
const FEWEST: usize = 10;

pub(super) fn derive(d: &mut Derived<'_>) {
    if d.work.latencies.is_empty() {
        return;
    }
    let slices: Vec<Window> = d
        .windows
        .iter()
        .flat_map(|&window| slices(window))
        .collect();
    let latencies: Vec<Option<f64>> = slices
        .iter()
        .map(|&slice| mean_within(d.work.latencies, slice))
        .collect();
    for (name, source, series) in PAIRS {
        let resource: Vec<Option<f64>> = slices
            .iter()
            .map(|&slice| in_slice(d, source, series, slice))
            .collect();
        let pairs: Vec<(f64, f64)> = resource
            .into_iter()
            .zip(&latencies)
            .filter_map(|(resource, latency)| Some((resource?, (*latency)?)))
            .collect();
        if pairs.len() >= FEWEST {
            let name = format!("correlation_{name}_latency");
            d.put(&name, rank_correlation(&pairs), Unit::Ratio);
        }
    }
}

fn slices(window: Window) -> Vec<Window> {
    let length = window.to - window.from;
    let count = (length.get() / SLICE.get()).clamp(1, MOST);
    let edge = |i: i64| window.from + Nanos::new(length.get() / count * i);
    (0..count)
        .map(|i| Window {
            from: edge(i),
            to: edge(i + 1),
        })
        .collect()
}

fn mean_within(latencies: &[(Stamp, f64)], slice: Window) -> Option<f64> {
    let within = latencies
        .iter()
        .filter(|(at, _)| *at >= slice.from && *at < slice.to);
    mean(&within.map(|(_, latency)| *latency).collect::<Vec<_>>())
}

/// The mean over the instances of a series.
fn in_slice(d: &Derived<'_>, source: ReadingSource, series: &str, slice: Window) -> Option<f64> {
    let values: Vec<f64> = d
        .history
        .instances(source, series)
        .filter_map(|instance| {
            let points = d.history.points(source, instance, series);
            if is_counter(series) {
                return Some(increase(points, &[slice])?.rate);
            }
            Some(level(points, &[slice])?.mean)
        })
        .collect();
    mean(&values)
}

/// Spearman's rank correlation; `None` where either side does not vary.
fn rank_correlation(pairs: &[(f64, f64)]) -> Option<f64> {
    let a = ranks(&pairs.iter().map(|pair| pair.0).collect::<Vec<_>>());
    let b = ranks(&pairs.iter().map(|pair| pair.1).collect::<Vec<_>>());
    let middle = f64::midpoint(1.0, pairs.len() as f64);
    let product = |x: &[f64], y: &[f64]| -> f64 {
        let pairs = x.iter().zip(y);
        pairs.map(|(x, y)| (x - middle) * (y - middle)).sum()
    };
    let spread = (product(&a, &a) * product(&b, &b)).sqrt();
    (spread > 0.0).then(|| product(&a, &b) / spread)
}

/// Ranks from 1; values that are equal as they are stored share the mean of theirs: what a journal's numbers lose in their last digit when they are
/// read again must not break a tie.
fn ranks(values: &[f64]) -> Vec<f64> {
    let values: Vec<f64> = values.iter().copied().map(as_stored).collect();
    let mut order: Vec<usize> = (0..values.len()).collect();
    let at = |index: usize| values.get(index).copied().unwrap_or_default();
    order.sort_by(|&a, &b| at(a).total_cmp(&at(b)));
    let mut ranks = vec![0.0; values.len()];
    let mut begin = 0;
    for same in order.chunk_by(|&a, &b| at(a).total_cmp(&at(b)).is_eq()) {
        let end = begin + same.len();
        let rank = f64::midpoint((begin + 1) as f64, end as f64);
        for &index in same {
            if let Some(slot) = ranks.get_mut(index) {
                *slot = rank;
            }
        }
        begin = end;
    }
    ranks
}

#[cfg(test)]
#[path = "../../../tests/unit/readings_derive_correlation.rs"]
mod tests;
