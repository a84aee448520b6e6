//! The one rule of verdicts on "quantile q is at most a limit": it is where at least q of the values are within the limit, so the share
//! of those within decides with its interval, all of it on one side of q. That has an answer where the quantile has no bound.

use bench_schema::{Distribution, Interval, SloVerdict};

use crate::estimate::LEVEL;
use crate::proportion::wilson_share;
use crate::quantile::tail_effect;

/// What the interval of the share within a limit says of the quantile `q`.
pub fn verdict(share_within: &Interval, q: f64) -> SloVerdict {
    if share_within.low >= q {
        SloVerdict::Pass
    } else if share_within.high < q {
        SloVerdict::Fail
    } else {
        SloVerdict::CannotTell
    }
}

/// The verdict where only a distribution is known: what its quantiles and extremes tell of the share within, for as many independent values
/// as it is worth: as a tail is, or all where no value is beyond halfway from the median to the limit. `None` where that is unknown.
pub fn verdict_of_distribution(d: &Distribution, q: f64, limit: f64) -> Option<SloVerdict> {
    let failed = d.with_failures.as_ref().map_or(0, |view| view.failed);
    let all = (d.n + failed) as f64;
    let far = d.p50().is_some_and(|p50| {
        let halfway = f64::midpoint(p50, limit);
        if limit > p50 {
            d.max <= halfway && failed == 0
        } else {
            d.min >= halfway
        }
    });
    let effect = d.n as f64 / d.effective_n?;
    let worth = all / if far { 1.0 } else { tail_effect(effect) };
    let told: Vec<(f64, f64)> = match &d.with_failures {
        Some(view) => {
            let value = |x: Option<f64>| x.unwrap_or(f64::INFINITY);
            view.quantiles
                .iter()
                .map(|(q, x)| (*q, value(*x)))
                .collect()
        }
        None => d.quantiles.iter().map(|e| (e.q, e.value)).collect(),
    };
    let ends = [(0.0, d.min), (d.n as f64 / all, d.max)];
    let known = || told.iter().chain(&ends);
    let within = known().filter(|(_, x)| *x <= limit).map(|(q, _)| *q);
    let beyond = known().filter(|(_, x)| *x > limit).map(|(q, _)| *q);
    let (least, most) = (within.fold(0.0, f64::max), beyond.fold(1.0, f64::min));
    // However alike they are, lost requests were lost.
    let lost = wilson_share(failed as f64 / all, all, LEVEL)?.low?;
    let high = wilson_share(most, worth, LEVEL)?.high?.min(1.0 - lost);
    let shown = Interval {
        low: wilson_share(least, worth, LEVEL)?.low?.min(high),
        high,
        confidence: LEVEL,
    };
    Some(verdict(&shown, q))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bench_schema::Unit;

    fn distribution(values: &[f64]) -> Distribution {
        crate::summarise(values, Unit::Ns).unwrap()
    }

    #[test]
    fn all_within_or_none_decides_where_the_quantile_has_no_bound() {
        // 1547 is 0.387 of 4001: neighbours are unlike each other.
        let values: Vec<f64> = (0..80)
            .map(|i| 100.0 + f64::from(i * 1547 % 4001) / 40.0)
            .collect();
        let d = distribution(&values);
        let p99 = |limit| verdict_of_distribution(&d, 0.99, limit).unwrap();
        let p95 = |limit| verdict_of_distribution(&d, 0.95, limit).unwrap();
        // 80 of 80 show a share of 95.4 % at least: a p95, no p99.
        assert_eq!(
            (p95(250.0), p99(250.0)),
            (SloVerdict::Pass, SloVerdict::CannotTell)
        );
        // None is within, or at most half are.
        assert_eq!(
            (p99(90.0), p95(149.0)),
            (SloVerdict::Fail, SloVerdict::Fail)
        );
        // Between two neighbours of the quantile nobody can tell.
        assert_eq!(p95(d.quantile(0.95).unwrap()), SloVerdict::CannotTell);
    }

    #[test]
    fn a_share_at_the_limit_of_its_interval_passes_and_below_it_does_not() {
        let within = |low, high| Interval {
            low,
            high,
            confidence: 0.95,
        };
        assert_eq!(verdict(&within(0.95, 1.0), 0.95), SloVerdict::Pass);
        assert_eq!(verdict(&within(0.9, 0.95), 0.95), SloVerdict::CannotTell);
        assert_eq!(verdict(&within(0.9, 0.949), 0.95), SloVerdict::Fail);
    }
}
