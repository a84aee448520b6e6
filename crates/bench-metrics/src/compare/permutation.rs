//! Permutation tests: how often would a random relabelling look this different?

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::num::{float, is_zero, mean, variance};

/// Random relabellings behind a p-value; the smallest p is 1 / 5000.
const PERMUTATIONS: usize = 4_999;
/// Blocks of time per run.
const BLOCKS: usize = 20;

/// The two-sided permutation p-value of Welch's t between two groups of exchangeable units.
///
/// The statistic is studentised, which keeps the test honest where the groups differ in spread but not in mean (Janssen
/// 1997). All arrangements are equally likely; the observed one counts, so p is never 0.
pub(super) fn permutation_p(a: &[f64], b: &[f64], seed: u64) -> f64 {
    let observed = welch(a, b);
    if is_zero(observed) {
        return 1.0;
    }
    let mut pool = [a, b].concat();
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let reach = observed * (1.0 - 1e-9);
    let mut as_far = 0_usize;
    for _ in 0..PERMUTATIONS {
        for i in 0..a.len() {
            let j = rng.random_range(i..pool.len());
            pool.swap(i, j);
        }
        let (left, right) = pool.split_at(a.len());
        as_far += usize::from(welch(left, right) >= reach);
    }
    float(as_far + 1) / float(PERMUTATIONS + 1)
}

/// |t| of Welch; infinite where both sides are constant and differ.
fn welch(a: &[f64], b: &[f64]) -> f64 {
    let part = |v: &[f64]| Some((mean(v)?, variance(v).unwrap_or(0.0) / float(v.len())));
    let (Some((ma, va)), Some((mb, vb))) = (part(a), part(b)) else {
        return 0.0;
    };
    let (difference, error) = ((ma - mb).abs(), (va + vb).sqrt());
    if is_zero(difference) {
        0.0
    } else {
        difference / error
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
