//! Across repeats of a cell: the run is the unit, and its spread is the honest error.

use crate::estimate::Estimate;
use crate::num::{float, mean, variance};
use crate::tables::t_critical;

/// One figure over several repeats of the same cell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AcrossRuns {
    /// How many repeats.
    pub runs: usize,
    /// Mean over the repeats with its t interval (n − 1 degrees of freedom).
    pub mean: Estimate,
    /// Between-run standard deviation.
    pub sd: f64,
    /// Between-run coefficient of variation; `None` where the mean is 0.
    pub cov: Option<f64>,
}

/// The mean of one figure per repeat, with a t interval; `None` below two repeats.
pub fn across_runs(figures: &[f64], level: f64) -> Option<AcrossRuns> {
    let (value, spread) = (mean(figures)?, variance(figures)?);
    let n = float(figures.len());
    let sd = spread.sqrt();
    let half = t_critical(level, n - 1.0) * sd / n.sqrt();
    Some(AcrossRuns {
        runs: figures.len(),
        mean: Estimate::bounded(value, value - half, value + half, level),
        sd,
        cov: (value.abs() > 0.0).then(|| sd / value.abs()),
    })
}

/// How much more the repeats differ than one run's own error explains: between-run sd over the typical within-run
/// standard error.
///
/// Near 1, a single run's interval can be believed; well above it, something changes between runs (caches, clocks,
/// neighbours) and only the interval across repeats is honest. `None` below two repeats or without within-run errors.
pub fn between_over_within(figures: &[f64], within_std_errs: &[f64]) -> Option<f64> {
    let between = variance(figures)?;
    let squares: Vec<f64> = within_std_errs.iter().map(|e| e * e).collect();
    let within = mean(&squares).filter(|w| *w > 0.0)?;
    Some((between / within).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_repeats_have_two_degrees_of_freedom() {
        // scipy 1.17.1: stats.t.interval(.95, 2, 10, sem([9, 10, 11])) = (7.5158622882, 12.4841377118)
        let across = across_runs(&[9.0, 10.0, 11.0], 0.95).unwrap();
        let (low, high) = across.mean.bounds().unwrap();
        assert!(
            (low - 7.515_862_288_2).abs() < 1e-6 && (high - 12.484_137_711_8).abs() < 1e-6,
            "{low} {high}"
        );
        assert_eq!(across.cov.map(|c| (c * 1e6).round()), Some(100_000.0));
    }

    #[test]
    fn one_run_says_nothing_about_its_repeats() {
        assert_eq!(across_runs(&[1.0], 0.95), None);
        assert_eq!(between_over_within(&[1.0, 2.0], &[]), None);
    }
}
