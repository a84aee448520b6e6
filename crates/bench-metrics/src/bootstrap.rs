//! The bootstrap for statistics that have no formula: by blocks of time, or by whole clusters.
//!
//! Seeded, so that the same input gives the same report. Work is bounded: see [`Bootstrap::resamples_for`].

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::estimate::{Estimate, LEVEL};
use crate::num::{ceil_count, float, mean, variance};
use crate::sample::quantile_of;
use crate::tables::{t_critical, z_critical};

/// Values touched by one bootstrap at most; beyond it there are fewer resamples (never below [`FEWEST`]).
const WORK: usize = 50_000_000;
/// Fewer resamples than this say nothing about a 95 % interval.
const FEWEST: usize = 100;

/// How a bootstrap is run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bootstrap {
    /// Resamples asked for.
    pub resamples: usize,
    /// Confidence level.
    pub level: f64,
    /// Seed of the resampling.
    pub seed: u64,
}

impl Default for Bootstrap {
    /// 2000 resamples, 95 %, seed 0.
    fn default() -> Self {
        Self {
            resamples: 2_000,
            level: LEVEL,
            seed: 0,
        }
    }
}

impl Bootstrap {
    /// Resamples used for `n` values: as asked, but at most 5·10⁷ values drawn in all, and at least 100 resamples.
    pub fn resamples_for(&self, n: usize) -> usize {
        self.resamples.min((WORK / n.max(1)).max(FEWEST))
    }

    /// Percentile interval of `statistic` over circular blocks of values in time order.
    ///
    /// Blocks are twice as long as [`block_length`], which aims at the least error of the variance and leaves it too small.
    /// The statistic sees a resample in drawn order. `None` for fewer than
    /// two values or where the statistic of the data is `None`. Cost: resamples × the statistic.
    pub fn by_time(
        &self,
        values: &[f64],
        statistic: impl Fn(&[f64]) -> Option<f64>,
    ) -> Option<Estimate> {
        let n = values.len();
        let value = statistic(values).filter(|_| n > 1)?;
        let length = (2 * block_length(values)).min((n / 10).max(1));
        let mut rng = ChaCha8Rng::seed_from_u64(self.seed);
        let mut drawn = Vec::with_capacity(n);
        let replicas = (0..self.resamples_for(n)).filter_map(|_| {
            drawn.clear();
            while drawn.len() < n {
                let start = rng.random_range(0..n);
                let take = length.min(n - drawn.len());
                drawn.extend((0..take).map(|i| values[(start + i) % n]));
            }
            statistic(&drawn)
        });
        self.percentile_interval(value, replicas.collect(), n / length)
    }

    /// Percentile interval of `statistic` over whole clusters (all token gaps of a request together).
    ///
    /// The statistic sees the drawn clusters, not their values, so that it can be computed without copying. `None` for
    /// fewer than two clusters.
    pub fn by_cluster<C>(
        &self,
        clusters: &[C],
        statistic: impl Fn(&[&C]) -> Option<f64>,
    ) -> Option<Estimate> {
        let all: Vec<&C> = clusters.iter().collect();
        let value = statistic(&all).filter(|_| clusters.len() > 1)?;
        let mut rng = ChaCha8Rng::seed_from_u64(self.seed);
        let mut drawn = Vec::with_capacity(clusters.len());
        let replicas = (0..self.resamples_for(clusters.len())).filter_map(|_| {
            drawn.clear();
            drawn.extend(
                (0..clusters.len()).map(|_| &clusters[rng.random_range(0..clusters.len())]),
            );
            statistic(&drawn)
        });
        self.percentile_interval(value, replicas.collect(), clusters.len())
    }

    /// Percentiles of the replicas, stretched for the small number of `units` drawn: by √(k/(k − 1)) and t over z.
    fn percentile_interval(
        &self,
        value: f64,
        mut replicas: Vec<f64>,
        units: usize,
    ) -> Option<Estimate> {
        replicas.retain(|x| x.is_finite());
        if replicas.len() < FEWEST / 2 || units < 2 {
            return None;
        }
        replicas.sort_unstable_by(f64::total_cmp);
        let alpha = f64::midpoint(1.0, -self.level);
        let (low, high) = (
            quantile_of(&replicas, alpha),
            quantile_of(&replicas, 1.0 - alpha),
        );
        let df = float(units) - 1.0;
        let stretch =
            (float(units) / df).sqrt() * t_critical(self.level, df) / z_critical(self.level);
        Some(Estimate::bounded(
            value,
            value + stretch * (low - value),
            value + stretch * (high - value),
            self.level,
        ))
    }
}

/// The block length for a circular block bootstrap, chosen from the data (Politis and White 2004, corrected 2009).
///
/// The flat-top lag window finds how far correlation reaches; the length then grows as n^(1/3). At least 1, at most
/// n / 10 (below ten blocks a bootstrap is blind). Values without variance give 1. Lags are limited to 1000, which bounds
/// the cost at 1000·n.
pub fn block_length(values: &[f64]) -> usize {
    let n = values.len();
    let (Some(centre), Some(spread)) = (mean(values), variance(values)) else {
        return 1;
    };
    if spread <= 0.0 || n < 20 {
        return 1;
    }
    let size = float(n);
    let run = ceil_count(size.log10().sqrt()).max(5);
    let furthest = (ceil_count(size.sqrt()) + run).min(1_000).min(n - 1);
    let covariance = |lag: usize| {
        values
            .iter()
            .zip(&values[lag..])
            .map(|(a, b)| (a - centre) * (b - centre))
            .sum::<f64>()
            / size
    };
    let gamma: Vec<f64> = (0..=furthest).map(covariance).collect();
    let noise = 2.0 * (size.log10() / size).sqrt() * gamma[0];
    let reach = (1..=furthest)
        .find(|m| (0..run).all(|k| gamma.get(m + k).is_none_or(|g| g.abs() < noise)))
        .map_or(furthest, |m| m - 1);
    let window = (2 * reach).min(furthest);
    let mut slope = 0.0;
    let mut total = gamma[0];
    for (lag, g) in gamma.iter().enumerate().take(window + 1).skip(1) {
        let at = float(lag) / float(window);
        let weight = if at <= 0.5 { 1.0 } else { 2.0 * (1.0 - at) };
        slope += 2.0 * weight * float(lag) * g;
        total += 2.0 * weight * g;
    }
    let denominator = 4.0 / 3.0 * total * total;
    if denominator <= 0.0 {
        return 1;
    }
    let length = (2.0 * slope * slope / denominator).cbrt() * size.cbrt();
    ceil_count(length).clamp(1, (n / 10).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noise(n: usize, memory: f64) -> Vec<f64> {
        let mut rng = ChaCha8Rng::seed_from_u64(5);
        let mut at = 0.0;
        (0..n)
            .map(|_| {
                at = memory * at + rng.random_range(-1.0..1.0);
                at
            })
            .collect()
    }

    #[test]
    fn blocks_grow_with_the_memory_of_the_data() {
        let (short, long) = (
            block_length(&noise(4000, 0.0)),
            block_length(&noise(4000, 0.9)),
        );
        assert!(short <= 5, "{short}");
        assert!((20..=200).contains(&long), "{long}");
    }

    #[test]
    fn the_same_seed_gives_the_same_interval() {
        let values = noise(300, 0.5);
        let boot = Bootstrap {
            resamples: 200,
            ..Bootstrap::default()
        };
        assert_eq!(boot.by_time(&values, mean), boot.by_time(&values, mean));
        let other = Bootstrap { seed: 1, ..boot };
        assert_ne!(boot.by_time(&values, mean), other.by_time(&values, mean));
    }

    #[test]
    fn work_is_bounded_for_large_samples() {
        let boot = Bootstrap::default();
        assert_eq!(boot.resamples_for(1_000), 2_000);
        assert_eq!(boot.resamples_for(100_000), 500);
        assert_eq!(boot.resamples_for(100_000_000), FEWEST);
    }

    #[test]
    fn clusters_are_drawn_whole() {
        let clusters = vec![vec![1.0; 10], vec![3.0; 10], vec![5.0; 10]];
        let pooled = |drawn: &[&Vec<f64>]| {
            mean(
                &drawn
                    .iter()
                    .flat_map(|c| c.iter().copied())
                    .collect::<Vec<f64>>(),
            )
        };
        let estimate = Bootstrap::default().by_cluster(&clusters, pooled).unwrap();
        let (low, high) = estimate.bounds().unwrap();
        assert!(
            (estimate.value - 3.0).abs() < 1e-12 && low < 1.7 && high > 4.3,
            "{estimate:?}"
        );
    }
}
