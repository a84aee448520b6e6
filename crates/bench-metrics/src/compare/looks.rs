//! Looking at an experiment before its end: how large a difference has to be at each look, so that all looks together raise a false alarm no
//! more often than one look would.
//!
//! Boundaries are those of Wang and Tsiatis (1987) with Δ = 1/4, between Pocock's (as strict at every look) and O'Brien and Fleming's (hardly anything
//! stops early). A test statistic counts as z; that of a t test is turned into the z of the same p-value, which keeps the error close to what is asked also
//! for few degrees of freedom (Jennison and Turnbull 2000, section 4.4). `docs/verification.md` has how often it is wrong.

use super::FEWEST_BLOCKS;
use crate::num::{ceil_count, float};
use crate::tables::{normal_cdf, normal_quantile};

/// An experiment that may have so many blocks, looked at from the fourth on: after each of them, or at about twenty-four of them where there are more.
#[derive(Clone, Copy, Debug)]
pub struct Looks {
    most: usize,
}

/// Looks at most, about: more would cost a larger difference at each of them and end hardly earlier.
const MOST: usize = 24;

/// Δ of the boundaries.
const SHAPE: f64 = 0.25;
/// Step of the grid on which sums of blocks are followed, in standard deviations of what comes between two looks.
const STEP: f64 = 0.2;
/// A sum moves by no more than this from look to look, in standard deviations; nobody has to be further than this from 0 either.
const REACH: f64 = 8.0;

impl Looks {
    /// Those of an experiment of at most so many blocks; nothing where there is only the one at its end.
    pub fn new(most: usize) -> Option<Self> {
        (most > FEWEST_BLOCKS).then_some(Self { most })
    }

    /// The numbers of blocks after which it is looked at.
    pub fn at(self) -> impl Iterator<Item = usize> {
        let stride = self.stride();
        let before = (FEWEST_BLOCKS..self.most).step_by(stride);
        before.chain([self.most])
    }

    fn stride(self) -> usize {
        (self.most - FEWEST_BLOCKS).div_ceil(MOST)
    }

    /// The chance that a row without a difference looks at least as different at any look as this one does after `blocks`, whose p-value
    /// by itself is `p`.
    pub(super) fn p(self, p: f64, blocks: usize) -> f64 {
        let z = -normal_quantile((p / 2.0).clamp(1e-300, 0.5));
        self.crossed(z / self.widening(blocks))
    }

    /// The two-sided level at which a look after `blocks` is held, for an error of `alpha` over all looks.
    pub(super) fn level(self, alpha: f64, blocks: usize) -> f64 {
        let (mut low, mut high) = (0.0, REACH);
        for _ in 0..30 {
            let middle = f64::midpoint(low, high);
            if self.crossed(middle) > alpha {
                low = middle;
            } else {
                high = middle;
            }
        }
        2.0 * normal_cdf(-high * self.widening(blocks))
    }

    /// How much higher the boundary is than at the end.
    fn widening(self, blocks: usize) -> f64 {
        (float(self.most) / float(blocks))
            .powf(0.5 - SHAPE)
            .max(1.0)
    }

    /// The chance that the z of a row without a difference is beyond the boundary of this height at any look: the density of the sum of blocks is
    /// followed from look to look, within the boundary (Armitage, `McPherson` and Rowe 1969).
    fn crossed(self, height: f64) -> f64 {
        // by the end's alone it is less than 10⁻¹⁵
        let height = height.min(REACH);
        let unit = float(self.stride());
        let bound = |blocks: usize| {
            let z = height * self.widening(blocks);
            z * (float(blocks) / unit).sqrt() / STEP
        };
        let mut looked = FEWEST_BLOCKS;
        let first = (float(looked) / unit).sqrt();
        // it is symmetric: what is kept is from 0 on
        let mut mass = within(bound(looked), |i| normal_mass(float(i) * STEP, first));
        for blocks in self.at().skip(1) {
            let sd = (float(blocks - looked) / unit).sqrt();
            let reach = ceil_count(REACH * sd / STEP);
            let kernel: Vec<f64> = (0..=reach)
                .map(|i| normal_mass(float(i) * STEP, sd))
                .collect();
            let reached = |i: usize| {
                let from = |(j, mass): (usize, &f64)| {
                    let by = |far: usize| kernel.get(far).copied().unwrap_or(0.0);
                    let mirrored = if j == 0 { 0.0 } else { by(i + j) };
                    mass * (by(i.abs_diff(j)) + mirrored)
                };
                let near = mass.iter().enumerate().skip(i.saturating_sub(reach));
                near.take(2 * reach + 1).map(from).sum()
            };
            mass = within(bound(blocks), reached);
            looked = blocks;
        }
        let beyond_0: f64 = mass.iter().skip(1).sum();
        let kept = mass.first().copied().unwrap_or(0.0) + 2.0 * beyond_0;
        (1.0 - kept).clamp(0.0, 1.0)
    }
}

/// Masses at the points of the grid from 0 up to a bound, the last as far as its stretch is within.
fn within(bound: f64, mass: impl Fn(usize) -> f64) -> Vec<f64> {
    let points = ceil_count(bound + 0.5);
    let part = |i: usize| (bound - float(i) + 0.5).min(1.0);
    (0..points).map(|i| mass(i) * part(i)).collect()
}

/// The mass of one step of the grid at `x`.
fn normal_mass(x: f64, sd: f64) -> f64 {
    let z = x / sd;
    STEP / sd * (-z * z / 2.0).exp() / std::f64::consts::TAU.sqrt()
}

#[cfg(test)]
#[path = "../../tests/unit/compare_looks.rs"]
mod tests;
