//! Permutation tests: how often would a random relabelling look this different?

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::num::{float, is_zero, mean};

/// Random relabellings behind a p-value; the smallest p is 1 / 5000.
const PERMUTATIONS: usize = 4_999;
/// Blocks of time per run.
const BLOCKS: usize = 20;

/// The two-sided permutation p-value of Welch's t between two groups of exchangeable units.
///
/// The statistic is studentised, which keeps the test honest where the groups differ in spread but not in mean (Janssen
/// 1997). All arrangements are equally likely; the observed one counts, so p is never 0.
pub(super) fn permutation_p(a: &[f64], b: &[f64], seed: u64) -> f64 {
    let mut pool = [a, b].concat();
    // Centred, so that variances from sums of squares keep their digits.
    let centre = mean(&pool).unwrap_or(0.0);
    for x in &mut pool {
        *x -= centre;
    }
    let all = Sums::of(&pool);
    let statistic = |left: Sums| welch(&left, &all.without(&left));
    let observed = statistic(Sums::of(&pool[..a.len()]));
    if is_zero(observed) {
        return 1.0;
    }
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let reach = observed * (1.0 - 1e-9);
    let mut as_far = 0_usize;
    for _ in 0..PERMUTATIONS {
        for i in 0..a.len() {
            let j = rng.random_range(i..pool.len());
            pool.swap(i, j);
        }
        as_far += usize::from(statistic(Sums::of(&pool[..a.len()])) >= reach);
    }
    float(as_far + 1) / float(PERMUTATIONS + 1)
}

/// Number, sum and sum of squares of a group.
#[derive(Clone, Copy)]
struct Sums {
    n: f64,
    sum: f64,
    squares: f64,
}

impl Sums {
    fn of(values: &[f64]) -> Self {
        let squares = values.iter().map(|x| x * x).sum();
        Self {
            n: float(values.len()),
            sum: values.iter().sum(),
            squares,
        }
    }

    fn without(&self, part: &Self) -> Self {
        Self {
            n: self.n - part.n,
            sum: self.sum - part.sum,
            squares: self.squares - part.squares,
        }
    }

    /// The squared standard error of the mean; 0 for a single value.
    fn error(&self) -> f64 {
        if self.n < 2.0 {
            return 0.0;
        }
        ((self.squares - self.sum * self.sum / self.n) / (self.n - 1.0)).max(0.0) / self.n
    }
}

/// |t| of Welch; infinite where both sides are constant and differ.
fn welch(a: &Sums, b: &Sums) -> f64 {
    let scale = (a.squares + b.squares) / (a.n + b.n);
    let (difference, error) = ((a.sum / a.n - b.sum / b.n).abs(), a.error() + b.error());
    // Differences and errors that are rounding only count as none.
    if difference * difference <= 1e-24 * scale {
        return 0.0;
    }
    if error <= 1e-24 * scale {
        f64::INFINITY
    } else {
        difference / error.sqrt()
    }
}

/// How many ways there are to deal `a + b` units into groups of `a` and `b`.
pub(super) fn arrangements(a: usize, b: usize) -> f64 {
    (1..=a).map(|i| float(b + i) / float(i)).product()
}

/// Means of up to twenty blocks of `map(value)`, values in time order.
pub(super) fn time_blocks(values: &[f64], map: impl Fn(f64) -> f64) -> Vec<f64> {
    let blocks = values.len().min(BLOCKS);
    (0..blocks)
        .filter_map(|b| {
            let block = &values[values.len() * b / blocks..values.len() * (b + 1) / blocks];
            mean(&block.iter().map(|x| map(*x)).collect::<Vec<f64>>())
        })
        .collect()
}

#[cfg(test)]
#[path = "../../tests/unit/compare_permutation.rs"]
mod tests;
