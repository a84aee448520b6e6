//! Does one thing go with another? Pearson's and Spearman's correlation with intervals.

use crate::estimate::Estimate;
use crate::num::{float, mean, squared_deviations, sum};
use crate::tables::z_critical;

/// Pearson's r with Fisher's z interval; `None` with fewer than three pairs or where one side does not vary.
///
/// The interval is unbounded for three pairs, and takes the pairs as independent.
pub fn pearson(pairs: &[(f64, f64)], level: f64) -> Option<Estimate> {
    Some(fisher(coefficient(pairs)?, pairs.len(), 1.0, level))
}

/// Spearman's rank correlation (mean ranks for ties), with Fisher's z interval in the variance of Bonett and Wright (2000).
pub fn spearman(pairs: &[(f64, f64)], level: f64) -> Option<Estimate> {
    let xs = ranks(&pairs.iter().map(|p| p.0).collect::<Vec<_>>());
    let ys = ranks(&pairs.iter().map(|p| p.1).collect::<Vec<_>>());
    let r = coefficient(&xs.into_iter().zip(ys).collect::<Vec<_>>())?;
    Some(fisher(r, pairs.len(), 1.0 + r * r / 2.0, level))
}

fn coefficient(pairs: &[(f64, f64)]) -> Option<f64> {
    let xs: Vec<f64> = pairs.iter().map(|p| p.0).collect();
    let ys: Vec<f64> = pairs.iter().map(|p| p.1).collect();
    let (mx, my) = (mean(&xs)?, mean(&ys)?);
    let spread = (squared_deviations(&xs, mx) * squared_deviations(&ys, my)).sqrt();
    let together = sum(pairs.iter().map(|(x, y)| (x - mx) * (y - my)));
    (pairs.len() >= 3 && spread > 0.0).then(|| (together / spread).clamp(-1.0, 1.0))
}

fn fisher(r: f64, n: usize, inflation: f64, level: f64) -> Estimate {
    if n <= 3 {
        return Estimate::unbounded(r, level);
    }
    if r.abs() >= 1.0 {
        return Estimate::bounded(r, r, r, level);
    }
    let half = z_critical(level) * (inflation / (float(n) - 3.0)).sqrt();
    let z = r.atanh();
    Estimate::bounded(r, (z - half).tanh(), (z + half).tanh(), level)
}

/// Ranks from 1, ties sharing their mean rank.
fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|a, b| values[*a].total_cmp(&values[*b]));
    let mut out = vec![0.0; values.len()];
    let mut start = 0;
    for tied in order.chunk_by(|a, b| values[*a].total_cmp(&values[*b]).is_eq()) {
        let rank = float(start) + f64::midpoint(1.0, float(tied.len()));
        for &i in tied {
            out[i] = rank;
        }
        start += tied.len();
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    // scipy 1.17.1 on x = [1,2,3,4,5,6], y = [2,1,4,3,7,5]: pearsonr 0.7917947, CI (−0.0553052, 0.9761146);
    // spearmanr 0.8285714.
    #[test]
    fn both_agree_with_scipy() {
        let pairs: Vec<(f64, f64)> = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
            .into_iter()
            .zip([2.0, 1.0, 4.0, 3.0, 7.0, 5.0])
            .collect();
        let r = pearson(&pairs, 0.95).unwrap();
        assert!((r.value - 0.791_794_654_888_6).abs() < 1e-9, "{r:?}");
        assert!(
            (r.low.unwrap() + 0.055_305_159_67).abs() < 1e-6
                && (r.high.unwrap() - 0.976_114_580_11).abs() < 1e-6,
            "{r:?}"
        );
        assert!((spearman(&pairs, 0.95).unwrap().value - 0.828_571_428_571_4).abs() < 1e-9);
    }

    #[test]
    fn a_side_that_does_not_vary_has_no_correlation() {
        assert_eq!(
            pearson(&[(1.0, 1.0), (2.0, 1.0), (3.0, 1.0), (4.0, 1.0)], 0.95),
            None
        );
    }

    #[test]
    fn ties_share_their_rank() {
        let got: Vec<u64> = ranks(&[5.0, 1.0, 5.0, 0.0])
            .into_iter()
            .map(f64::to_bits)
            .collect();
        assert_eq!(got, [3.5_f64, 2.0, 3.5, 1.0].map(f64::to_bits));
    }
}
