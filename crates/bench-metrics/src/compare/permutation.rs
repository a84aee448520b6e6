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
mod tests {
    use super::*;

    #[test]
    fn groups_without_overlap_are_as_unlikely_as_it_gets() {
        let a: Vec<f64> = (0..10).map(f64::from).collect();
        let b: Vec<f64> = (20..30).map(f64::from).collect();
        assert!(permutation_p(&a, &b, 1) <= 2.0 / 5_000.0);
        assert!((permutation_p(&a, &a, 1) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn p_values_are_those_of_every_arrangement() {
        // scipy 1.17.1, permutation_test over all 462 (and 210) arrangements of Welch's |t|; 4999 draws know them to ± 0.5 %
        let near = |a: &[f64], b: &[f64], exact: f64| {
            let p = permutation_p(a, b, 3);
            assert!(
                (p - exact).abs() < 4.0 * (exact * (1.0 - exact) / 5_000.0).sqrt(),
                "{p} is not {exact}"
            );
        };
        near(
            &[1.0, 2.0, 4.0, 8.0, 16.0],
            &[3.0, 6.0, 12.0, 24.0, 48.0, 96.0],
            0.090_909_090_909,
        );
        near(
            &[5.0, 1.0, 4.0, 9.0],
            &[2.0, 7.0, 11.0, 13.0, 17.0, 6.0],
            0.142_857_142_857,
        );
        // as far apart as the observed one are two of the six arrangements: itself and its mirror image
        near(&[0.0, 1.0], &[10.0, 11.0], 2.0 / 6.0);
        // far from zero nothing changes: a queue's times are large numbers with small differences
        near(&[1e9, 1e9 + 1.0], &[1e9 + 10.0, 1e9 + 11.0], 2.0 / 6.0);
    }

    #[test]
    fn blocks_are_consecutive_and_have_the_mean_of_what_is_in_them() {
        let values: Vec<f64> = (0..40).map(f64::from).collect();
        let means = time_blocks(&values, |x| 10.0 * x);
        let wanted: Vec<f64> = (0..20).map(|b| 10.0 * (f64::from(2 * b) + 0.5)).collect();
        assert!(
            means.iter().zip(&wanted).all(|(a, b)| (a - b).abs() < 1e-9),
            "{means:?}"
        );
        assert_eq!(time_blocks(&values[..7], |x| x).len(), 7);
        assert!(time_blocks(&[], |x| x).is_empty());
    }

    #[test]
    fn arrangements_are_binomial_coefficients() {
        assert!(
            (arrangements(3, 3) - 20.0).abs() < 1e-9 && (arrangements(6, 6) - 924.0).abs() < 1e-9
        );
    }

    #[test]
    fn blocks_cover_every_value_once() {
        let values: Vec<f64> = (0..47).map(f64::from).collect();
        assert_eq!(time_blocks(&values, |x| x).len(), 20);
    }
}
