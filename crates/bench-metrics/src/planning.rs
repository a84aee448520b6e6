//! How many requests a precision needs, from what was seen so far.

use crate::num::{ceil_count, float};
use crate::quantile::QuantileEstimate;
use crate::sample::{Sample, values_needed};
use crate::tables::z_critical;

/// Requests needed for the interval of a quantile to be no wider than ± `relative` of its value.
///
/// From a pilot: its quantile function says how far the value moves when the rank does, and its effective sample size
/// how many requests an independent one costs. Never below the few-samples rule ([`values_needed`]). `None` where even the
/// widest tail that the pilot has seen cannot answer (take a longer pilot), or where the value or `relative` is not positive.
pub fn requests_for_quantile(
    pilot: &Sample,
    seen: &QuantileEstimate,
    relative: f64,
) -> Option<usize> {
    let (q, value) = (seen.q, seen.estimate.value);
    if value <= 0.0 || relative <= 0.0 {
        return None;
    }
    let n = float(pilot.len());
    let cost = (n / seen.effective).max(1.0);
    let last_rank = 1.0 - 1.0 / n;
    let reach = |shift: f64| {
        let (up, down) = (q + shift, (q - shift).max(0.0));
        (up <= last_rank || shift <= 0.0)
            .then(|| (pilot.quantile(up) - value).max(value - pilot.quantile(down)))
    };
    // The widest shift of rank that stays within the asked width, by bisection: reach grows with the shift.
    let (mut fits, mut fails) = (0.0, q.min(last_rank - q).max(0.0));
    if fails <= 0.0 {
        return None;
    }
    if reach(fails).is_some_and(|width| width <= relative * value) {
        fits = fails;
    }
    for _ in 0..60 {
        let middle = f64::midpoint(fits, fails);
        if reach(middle).is_some_and(|width| width <= relative * value) {
            fits = middle;
        } else {
            fails = middle;
        }
    }
    if fits <= 1e-12 {
        return None;
    }
    let independent = q * (1.0 - q) * (z_critical(seen.estimate.level) / fits).powi(2);
    Some(ceil_count(independent * cost).max(values_needed(q)))
}

/// Requests needed for the mean, given the pilot's relative half-width on `n` requests: n·(width / asked)².
///
/// `None` where either is not positive.
pub fn requests_for_mean(n: usize, relative_half_width: f64, asked: f64) -> Option<usize> {
    (asked > 0.0 && relative_half_width > 0.0)
        .then(|| ceil_count(float(n) * (relative_half_width / asked).powi(2)).max(2))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quantile::quantile_in_time;

    fn exponential_like(n: u32) -> Vec<f64> {
        (0..n)
            .map(|i| -(1.0 - f64::from(i * 7919 % n) / f64::from(n)).ln())
            .collect()
    }

    #[test]
    fn the_tail_of_an_exponential_needs_what_theory_says() {
        // Var(p99) = q(1-q)/(n f²), f = 1 - q = 0.01: relative se = sqrt(.99/.01/n)/4.605. For ± 5 % at 95 %: n = 7175.
        let values = exponential_like(100_000);
        let pilot = Sample::of(&values).unwrap();
        let seen = quantile_in_time(&pilot, &values, 0.99, 0.95);
        let independent = QuantileEstimate {
            effective: 100_000.0,
            ..seen
        };
        let needed = requests_for_quantile(&pilot, &independent, 0.05).unwrap();
        assert!((6_500..9_500).contains(&needed), "{needed}");
    }

    #[test]
    fn twice_the_precision_costs_four_times_the_requests() {
        assert_eq!(requests_for_mean(100, 0.10, 0.05), Some(400));
    }

    #[test]
    fn a_pilot_without_the_tail_cannot_plan_it() {
        let values = exponential_like(50);
        let pilot = Sample::of(&values).unwrap();
        let seen = quantile_in_time(&pilot, &values, 0.99, 0.95);
        assert_eq!(requests_for_quantile(&pilot, &seen, 0.05), None);
    }
}
