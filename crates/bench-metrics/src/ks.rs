//! Kolmogorov–Smirnov distances: do the gaps between arrivals follow the process that was asked for?

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::num::float;
use crate::sample::Sample;

/// The largest distance between the empirical distribution function and `cdf`.
pub fn ks_distance(sample: &Sample, cdf: impl Fn(f64) -> f64) -> f64 {
    let n = float(sample.len());
    let at = sample.sorted().iter().enumerate();
    at.map(|(i, x)| {
        let p = cdf(*x);
        (p - float(i) / n).abs().max((float(i + 1) / n - p).abs())
    })
    .fold(0.0, f64::max)
}

/// The largest distance between two empirical distribution functions.
pub fn ks_two_samples(a: &Sample, b: &Sample) -> f64 {
    let points = a.sorted().iter().chain(b.sorted());
    points
        .map(|x| (a.share_at_most(*x) - b.share_at_most(*x)).abs())
        .fold(0.0, f64::max)
}

/// P(distance ≥ d) for n independent values of a fully known distribution: Kolmogorov's limit with Stephens' correction.
///
/// Good to about 0.01 from n = 5 on. Too large where the distribution's parameters were estimated from the sample.
pub fn ks_p_value(d: f64, n: usize) -> f64 {
    let root = float(n).sqrt();
    let t = (root + 0.12 + 0.11 / root) * d;
    if t < 0.2 {
        return 1.0;
    }
    let term = |k: f64| (-2.0 * k * k * t * t).exp();
    let series: f64 = (1..=100)
        .map(|k| {
            if k % 2 == 1 {
                term(f64::from(k))
            } else {
                -term(f64::from(k))
            }
        })
        .sum();
    (2.0 * series).clamp(0.0, 1.0)
}

/// How gaps compare with an arrival process.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GapCheck {
    /// KS distance to the process with the gaps' own mean.
    pub distance: f64,
    /// Chance of such a distance under the process; the mean being estimated is accounted for by simulation.
    pub p: f64,
}

/// Are these gaps those of a Poisson process (exponential, any rate)? `None` below five gaps or a mean of 0.
///
/// The p-value is simulated (499 samples of at most 500 gaps, scaled by √n), because the rate is estimated (Lilliefors).
pub fn exponential_gaps(gaps: &Sample, seed: u64) -> Option<GapCheck> {
    let mean = gaps.mean();
    if gaps.len() < 5 || mean <= 0.0 {
        return None;
    }
    let exponential = |mean: f64| move |x: f64| -(-x / mean).exp_m1();
    let distance = ks_distance(gaps, exponential(mean));
    let size = gaps.len().min(500);
    let reach = distance * float(gaps.len()).sqrt();
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let simulations = 499;
    let as_far = (0..simulations).filter(|_| {
        let drawn: Vec<f64> = (0..size)
            .map(|_| -(1.0 - rng.random_range(0.0_f64..1.0)).ln())
            .collect();
        Sample::of(&drawn)
            .is_some_and(|s| ks_distance(&s, exponential(s.mean())) * float(size).sqrt() >= reach)
    });
    Some(GapCheck {
        distance,
        p: float(as_far.count() + 1) / float(simulations + 1),
    })
}

/// Are these gaps constant? The KS distance to a single value is blunt, so it is the largest deviation over the mean gap.
///
/// `None` for a mean of 0.
pub fn constant_gaps(gaps: &Sample) -> Option<f64> {
    let mean = gaps.mean();
    (mean > 0.0).then(|| (gaps.max() - mean).max(mean - gaps.min()) / mean)
}

#[cfg(test)]
mod tests {
    use super::*;

    // scipy 1.17.1: stats.kstest([.1,.2,.35,.5,.9], "uniform").statistic = 0.3; stats.kstwobign.sf is the limit law.
    #[test]
    fn the_distance_to_the_uniform_is_that_of_scipy() {
        let sample = Sample::of(&[0.1, 0.2, 0.35, 0.5, 0.9]).unwrap();
        assert!((ks_distance(&sample, |x| x.clamp(0.0, 1.0)) - 0.3).abs() < 1e-12);
    }

    #[test]
    fn exponential_gaps_pass_and_constant_gaps_do_not() {
        let n = 400;
        let exponential: Vec<f64> = (0..n)
            .map(|i| -(1.0 - (f64::from(i) + 0.5) / f64::from(n)).ln())
            .collect();
        let good = exponential_gaps(&Sample::of(&exponential).unwrap(), 1).unwrap();
        assert!(good.distance < 0.01 && good.p > 0.9, "{good:?}");
        let constant = Sample::of(&[10.0; 50]).unwrap();
        assert!(exponential_gaps(&constant, 1).unwrap().p < 0.01);
        assert!(constant_gaps(&constant).unwrap() < 1e-12);
    }
}
