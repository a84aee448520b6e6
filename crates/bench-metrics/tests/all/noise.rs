//! Seeded noise with memory, whose true figures are known.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// A source of normal and autoregressive values.
pub(crate) struct Noise(ChaCha8Rng);

impl Noise {
    pub(crate) fn seeded(seed: u64) -> Self {
        Self(ChaCha8Rng::seed_from_u64(seed))
    }

    /// A standard normal (Box–Muller).
    pub(crate) fn normal(&mut self) -> f64 {
        let (u, v): (f64, f64) = (
            self.0.random_range(1e-15..1.0),
            self.0.random_range(0.0..1.0),
        );
        (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
    }

    /// A value between 0 and 1.
    pub(crate) fn uniform(&mut self) -> f64 {
        self.0.random_range(1e-15..1.0)
    }

    /// A whole number of these.
    pub(crate) fn one_of(&mut self, range: std::ops::RangeInclusive<u32>) -> u32 {
        self.0.random_range(range)
    }

    /// An exponential value with this mean.
    pub(crate) fn exponential(&mut self, mean: f64) -> f64 {
        -mean * self.uniform().ln()
    }

    /// A stationary AR(1) series with standard normal values: x' = memory·x + √(1 − memory²)·e.
    pub(crate) fn series(&mut self, n: usize, memory: f64) -> Vec<f64> {
        let fresh = (1.0 - memory * memory).sqrt();
        let mut x = self.normal();
        (0..n)
            .map(|_| {
                x = memory * x + fresh * self.normal();
                x
            })
            .collect()
    }

    /// Latencies: lognormal values 100·exp(0.5·x) of such a series; the median is 100.
    pub(crate) fn latencies(&mut self, n: usize, memory: f64) -> Vec<f64> {
        self.series(n, memory)
            .into_iter()
            .map(|x| 100.0 * (0.5 * x).exp())
            .collect()
    }

    /// Token gaps of `requests` requests: each has its own level (sd 1 in 10) beside noise within it.
    pub(crate) fn clusters(&mut self, requests: usize, gaps: usize) -> Vec<Vec<f64>> {
        (0..requests)
            .map(|_| {
                let level = 10.0 + self.normal();
                (0..gaps).map(|_| level + 0.5 * self.normal()).collect()
            })
            .collect()
    }
}
