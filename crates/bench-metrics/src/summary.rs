//! From values to the schema's [`Distribution`]: the one shape in which every sample is reported.

use bench_schema::{Distribution, FailureView, Interval, Quantile, Unit};

use crate::blocks::{BlockMean, Part};
use crate::estimate::{Estimate, LEVEL};
use crate::num::{float, is_zero};
use crate::quantile::{Dependence, below, clusters_below, quantile_with};
use crate::sample::{Sample, values_needed};

/// The quantiles of every distribution.
pub const QUANTILES: [f64; 5] = [0.5, 0.9, 0.95, 0.99, 0.999];

/// The distribution of values in time order, with intervals by blocks of time; `None` for no values or one not finite.
pub fn summarise(in_time_order: &[f64], unit: Unit) -> Option<Distribution> {
    let sample = Sample::of(in_time_order)?;
    let mean = BlockMean::of_values(in_time_order);
    Some(describe(&sample, unit, mean, |x| {
        BlockMean::of_parts(below(in_time_order, x))
    }))
}

/// The distribution of clustered values (token gaps by request), clusters in time order, with intervals by whole clusters.
///
/// `None` for no values or one not finite. Empty clusters count for nothing.
pub fn summarise_clusters<C: AsRef<[f64]>>(clusters: &[C], unit: Unit) -> Option<Distribution> {
    summarise_each(&clusters.iter().map(AsRef::as_ref), unit)
}

/// The same of slices.
pub(crate) fn summarise_each<'a>(
    clusters: &(impl Iterator<Item = &'a [f64]> + Clone),
    unit: Unit,
) -> Option<Distribution> {
    let full = || clusters.clone().filter(|c| !c.is_empty());
    let sample = Sample::new(full().flatten().copied().collect()).ok()?;
    let sum = |c: &[f64]| Part {
        num: c.iter().sum(),
        den: float(c.len()),
    };
    let mean = BlockMean::of_parts(full().map(sum).collect::<Vec<_>>().iter());
    Some(describe(&sample, unit, mean, |x| {
        BlockMean::of_parts(clusters_below(clusters.clone(), x).iter())
    }))
}

/// Puts a sample, its mean's error and its quantiles together; `below` gives the share of the data at most a value.
fn describe(
    sample: &Sample,
    unit: Unit,
    mean: Option<BlockMean>,
    below: impl Fn(f64) -> Option<BlockMean>,
) -> Distribution {
    let n = sample.len() as u64;
    let (average, sd) = (sample.mean(), sample.sd());
    let effective_n = mean.zip(sd).map(|(error, sd)| {
        if is_zero(error.std_err) {
            float(sample.len())
        } else {
            (sd / error.std_err).powi(2).clamp(1.0, float(sample.len()))
        }
    });
    let dependence = Dependence::in_sample(sample, &below, LEVEL);
    let quantile = |q: f64| {
        let below = below(sample.quantile(q));
        let found = quantile_with(sample, below, q, dependence, LEVEL).estimate;
        quantile_entry(q, found.value, interval(&found), n)
    };
    Distribution {
        unit,
        n,
        effective_n,
        mean: average,
        mean_interval: mean.and_then(|m| interval(&m.interval(LEVEL))),
        sd,
        cov: sd.filter(|_| average > 0.0).map(|sd| sd / average),
        min: sample.min(),
        max: sample.max(),
        quantiles: QUANTILES.map(quantile).to_vec(),
        with_failures: None,
        bounded_share: None,
        resolution: None,
    }
}

/// The view in which `failed` further values are +∞; `None` where nothing failed.
pub(crate) fn failure_view(sample: &Sample, failed: u64) -> Option<FailureView> {
    let count = usize::try_from(failed).ok().filter(|f| *f > 0)?;
    Some(FailureView {
        n: sample.len() as u64 + failed,
        failed,
        quantiles: QUANTILES
            .iter()
            .map(|&q| (q, sample.quantile_with_failures(q, count)))
            .collect(),
    })
}

/// The schema's interval of an estimate; absent where a bound is.
pub fn interval(estimate: &Estimate) -> Option<Interval> {
    let (low, high) = estimate.bounds()?;
    interval_of(low, high, estimate.level)
}

/// The schema's interval; absent unless both ends are finite.
pub(crate) fn interval_of(low: f64, high: f64, confidence: f64) -> Option<Interval> {
    (low.is_finite() && high.is_finite()).then_some(Interval {
        low,
        high,
        confidence,
    })
}

/// A quantile with its few-samples mark.
pub(crate) fn quantile_entry(q: f64, value: f64, interval: Option<Interval>, n: u64) -> Quantile {
    let few_samples = usize::try_from(n).is_ok_and(|n| n < values_needed(q));
    Quantile {
        q,
        value,
        interval,
        few_samples,
        at_least: None,
        at_most: None,
    }
}

// Values that belong together, one cluster after another.

/// Clusters of values (the gaps of each request) in order; a cluster may be empty. Memory: 8 bytes a value and 8 a cluster.
#[derive(Clone, Debug, Default)]
pub(crate) struct Clusters {
    values: Vec<f64>,
    ends: Vec<usize>,
}

impl Clusters {
    pub(crate) fn push(&mut self, cluster: impl IntoIterator<Item = f64>) {
        self.values.extend(cluster);
        self.ends.push(self.values.len());
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &[f64]> + Clone {
        let starts = std::iter::once(&0).chain(&self.ends);
        starts
            .zip(&self.ends)
            .map(|(from, to)| &self.values[*from..*to])
    }

    /// All of them.
    pub(crate) fn values(&self) -> &[f64] {
        &self.values
    }

    /// All of them.
    pub(crate) fn into_values(self) -> Vec<f64> {
        self.values
    }
}

impl<C: IntoIterator<Item = f64>> FromIterator<C> for Clusters {
    fn from_iter<I: IntoIterator<Item = C>>(clusters: I) -> Self {
        let mut all = Self::default();
        clusters.into_iter().for_each(|cluster| all.push(cluster));
        all
    }
}

#[cfg(test)]
#[path = "../tests/unit/summary.rs"]
mod tests;
