//! Shares of requests: Wilson's interval.

use crate::estimate::Estimate;
use crate::num::float;
use crate::tables::z_critical;

/// Wilson's score interval for `hits` of `n`; `None` when n is 0.
///
/// Behaves at 0 and n (Wilson 1927): 10 of 10 is not "100 % ± 0".
pub fn wilson(hits: usize, n: usize, level: f64) -> Option<Estimate> {
    let n = float(n);
    wilson_share(float(hits) / n, n, level)
}

/// Wilson's interval of a share that is worth `effective` independent values; `None` where it is no share of anything.
pub(crate) fn wilson_share(share: f64, effective: f64, level: f64) -> Option<Estimate> {
    if !(0.0..=1.0).contains(&share) || effective <= 0.0 {
        return None;
    }
    let z2 = z_critical(level).powi(2);
    let shrink = 1.0 + z2 / effective;
    let centre = (share + z2 / (2.0 * effective)) / shrink;
    let spread = share * (1.0 - share) / effective + z2 / (4.0 * effective * effective);
    let half = z_critical(level) * spread.sqrt() / shrink;
    // The score interval touches 0 and 1 exactly at the ends; rounding must not undo that.
    let low = if share > 0.0 {
        (centre - half).max(0.0)
    } else {
        0.0
    };
    let high = if share < 1.0 {
        (centre + half).min(1.0)
    } else {
        1.0
    };
    Some(Estimate::bounded(share, low, high, level))
}

#[cfg(test)]
#[path = "../tests/unit/proportion.rs"]
mod tests;
