//! Errors of means and ratios that survive autocorrelation and clustering: batch means over blocks of time.
//!
//! Neighbouring requests share batches, queues and caches, so n of them know less than n independent ones. The data is
//! cut into blocks that follow each other in time; block totals are nearly independent, and their spread gives the error.
//! Twenty blocks (Schmeiser 1982: 10 to 30) are corrected with forty: the bias of batch means is about c/b for blocks of
//! length b, so 2·V₂₀ − V₄₀ removes it (the "lugsail" of Vats and Flegal 2022); the larger of the two is taken.
//!
//! Blocks see a memory only as far as they are longer than it, which those of a few hundred requests are not. So the wider of
//! two intervals is taken: that of the blocks, and what [`Memory`] makes of parts that know nothing of each other.

use std::borrow::Borrow;

use crate::estimate::{Estimate, LEVEL};
use crate::memory::Memory;
use crate::num::float;
use crate::tables::t_critical;

/// Blocks of the main estimate.
const BLOCKS: usize = 20;

/// One indivisible piece of the data, in time order: a numerator with its denominator.
///
/// A plain value is `(x, 1)`; a request's token gaps are `(their sum, their number)`; a bin of time is `(tokens, seconds)`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Part {
    /// What is summed above the line.
    pub num: f64,
    /// What is summed below it; not negative.
    pub den: f64,
}

/// A ratio of sums (a mean is one) with its standard error.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BlockMean {
    /// Σ num / Σ den.
    pub value: f64,
    /// Standard error by blocks, or by memory where that makes the wider interval.
    pub std_err: f64,
    /// Degrees of freedom of the error: blocks − 1, or what memory leaves of the parts.
    pub df: f64,
    /// Standard error if no part knew another.
    pub(crate) alone: f64,
    /// How alike neighbouring parts are.
    pub(crate) memory: Memory,
}

impl BlockMean {
    /// Of parts in time order; `None` with fewer than two parts or without a denominator. They are gone through a few times, and not kept.
    pub fn of_parts(parts: impl Iterator<Item = impl Borrow<Part>> + Clone) -> Option<Self> {
        let parts = move || parts.clone().map(|part| *part.borrow());
        let count = parts().count();
        let den: f64 = parts().map(|p| p.den).sum();
        if count < 2 || den <= 0.0 {
            return None;
        }
        let value = crate::num::sum(parts().map(|p| p.num)) / den;
        let residuals = || parts().map(|p| p.num - value * p.den);
        let variance = |blocks| ratio_variance(residuals(), (count, blocks), den);
        let blocks = count.min(BLOCKS);
        let coarse = variance(blocks);
        // The correction needs blocks that can be halved: at least two parts in each of the forty.
        let squared = if count >= 4 * BLOCKS {
            coarse.max(2.0 * coarse - variance(2 * BLOCKS))
        } else {
            coarse
        };
        let memory = Memory::of(residuals());
        let alone = variance(count);
        let (inflation, n) = (memory.of_mean(), float(count));
        // What neighbours share is missing from the spread around their own mean.
        let remembered = alone * inflation * (n - 1.0) / (n - inflation);
        let by_blocks = (squared.sqrt(), float(blocks - 1));
        let by_memory = (remembered.sqrt(), (n / inflation - 1.0).max(1.0));
        let half = |(error, df): (f64, f64)| error * t_critical(LEVEL, df);
        let (std_err, df) = if half(by_memory) > half(by_blocks) {
            by_memory
        } else {
            by_blocks
        };
        Some(Self {
            value,
            std_err,
            df,
            alone: alone.sqrt(),
            memory,
        })
    }

    /// Of plain values in time order; `None` below two.
    pub fn of_values(values: &[f64]) -> Option<Self> {
        Self::of_parts(values.iter().map(|&num| Part { num, den: 1.0 }))
    }

    /// The t interval.
    pub fn interval(&self, level: f64) -> Estimate {
        let half = t_critical(level, self.df) * self.std_err;
        Estimate::bounded(self.value, self.value - half, self.value + half, level)
    }
}

/// The error variance of the ratio Σ num / Σ den from what is left of each of `count` parts, in `blocks` contiguous groups (linearised ratio estimator).
fn ratio_variance(
    mut residuals: impl Iterator<Item = f64>,
    (count, blocks): (usize, usize),
    den: f64,
) -> f64 {
    let mut squares = 0.0;
    for b in 0..blocks {
        let parts = count * (b + 1) / blocks - count * b / blocks;
        let block: f64 = residuals.by_ref().take(parts).sum();
        squares += block * block;
    }
    let k = float(blocks);
    k / (k - 1.0) * squares / (den * den)
}

#[cfg(test)]
#[path = "../tests/unit/blocks.rs"]
mod tests;
