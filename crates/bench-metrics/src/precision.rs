//! The stop rule `--precision p99:ttft=5%`: a cell ends when a figure is known well enough.

use std::fmt;
use std::str::FromStr;

use bench_schema::Metric;

use crate::MetricsError;
use crate::blocks::BlockMean;
use crate::estimate::LEVEL;
use crate::num::{ceil_count, float};
use crate::quantile::{QuantileEstimate, quantile_in_time};
use crate::sample::{Sample, values_needed};
use crate::tables::z_critical;

/// Which figure of a metric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Figure {
    /// The arithmetic mean.
    Mean,
    /// A quantile, 0…1.
    Quantile(f64),
}

/// "The `figure` of `metric` to ± `relative` with 95 % confidence."
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Precision {
    /// Which figure.
    pub figure: Figure,
    /// Of which metric.
    pub metric: Metric,
    /// Relative half-width asked for; 0.05 is ± 5 %.
    pub relative: f64,
}

/// Where a precision rule stands.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// Whether the rule is met.
    pub reached: bool,
    /// Relative half-width so far; absent where the interval has an open end.
    pub half_width: Option<f64>,
    /// About how many requests it will take in all; absent where the data cannot say yet.
    pub needed: Option<usize>,
}

impl Precision {
    /// Where the rule stands with these values, in time order.
    ///
    /// Met only with the values the few-samples rule asks for (at least 100 for a mean) and a narrow enough interval.
    /// Looking often raises the chance of stopping on a lucky streak: call it at [`Precision::next_look`].
    pub fn check(&self, in_time_order: &[f64]) -> Progress {
        let n = in_time_order.len();
        let Some(sample) = Sample::of(in_time_order) else {
            return Progress {
                reached: false,
                half_width: None,
                needed: None,
            };
        };
        let (half_width, needed) = match self.figure {
            Figure::Mean => {
                let width = BlockMean::of_values(in_time_order)
                    .and_then(|m| m.interval(LEVEL).relative_half_width());
                (
                    width,
                    width.and_then(|w| requests_for_mean(n, w, self.relative)),
                )
            }
            Figure::Quantile(q) => {
                let seen = quantile_in_time(&sample, in_time_order, q, LEVEL);
                (
                    seen.estimate.relative_half_width(),
                    requests_for_quantile(&sample, &seen, self.relative),
                )
            }
        };
        let narrow = half_width.is_some_and(|w| w <= self.relative);
        Progress {
            reached: n >= self.fewest() && narrow,
            half_width,
            needed: needed.map(|n| n.max(self.fewest())),
        }
    }

    /// The fewest values before the rule can be met.
    pub fn fewest(&self) -> usize {
        match self.figure {
            Figure::Mean => 100,
            Figure::Quantile(q) => values_needed(q).max(100),
        }
    }

    /// At how many values to look next, having looked at `n`: a quarter more each time, so that a run of any length has
    /// few looks (about ten per tenfold) and their false stops stay rare.
    pub fn next_look(&self, n: usize) -> usize {
        (n + n / 4 + 1).max(self.fewest())
    }
}

/// The quantile of a percentile, above 0 and below 1: 0.999 of `p99.9`.
pub fn parse_quantile(text: &str) -> Option<f64> {
    let percent: f64 = text.strip_prefix('p')?.parse().ok()?;
    (percent > 0.0 && percent < 100.0).then_some(percent / 100.0)
}

impl FromStr for Precision {
    type Err = MetricsError;

    /// `p99:ttft=5%`, `p99.9:e2e=0.1`, `mean:itl=2%`; without a figure the median.
    fn from_str(text: &str) -> Result<Self, MetricsError> {
        let bad = |problem: &str| MetricsError::BadPrecision {
            text: text.to_owned(),
            problem: problem.to_owned(),
        };
        let (left, right) = text.split_once('=').ok_or_else(|| bad("there is no `=`"))?;
        let (figure, metric) = left.split_once(':').unwrap_or(("p50", left));
        let metric = metric
            .trim()
            .parse::<Metric>()
            .map_err(|problem| bad(&problem))?;
        let figure =
            match figure.trim() {
                "mean" => Figure::Mean,
                percentile => Figure::Quantile(parse_quantile(percentile).ok_or_else(|| {
                    bad("the figure is neither `mean` nor a percentile like `p99`")
                })?),
            };
        let right = right.trim();
        let relative = match right.strip_suffix('%') {
            Some(percent) => percent.trim().parse::<f64>().map(|p| p / 100.0),
            None => right.parse::<f64>(),
        };
        let relative = relative.ok().filter(|r| *r > 0.0 && *r < 1.0);
        Ok(Self {
            figure,
            metric,
            relative: relative.ok_or_else(|| bad("the width is not between 0 and 100 %"))?,
        })
    }
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Rounded to 1e-6 percent, so that 0.999 is shown as p99.9 and not as p99.90000000000001.
        let tidy = |share: f64| (share * 1e8).round() / 1e6;
        match self.figure {
            Figure::Mean => f.write_str("mean")?,
            Figure::Quantile(q) => write!(f, "p{}", tidy(q))?,
        }
        write!(f, ":{}={}%", self.metric, tidy(self.relative))
    }
}

/// Requests needed for the interval of a quantile to be no wider than ± `relative` of its value.
///
/// From a pilot: its quantile function says how far the value moves when the rank does, and its effective sample size
/// how many requests an independent one costs. Never below the few-samples rule ([`values_needed`]). `None` where even the
/// widest tail that the pilot has seen cannot answer (take a longer pilot), or where the value or `relative` is not positive.
fn requests_for_quantile(pilot: &Sample, seen: &QuantileEstimate, relative: f64) -> Option<usize> {
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
fn requests_for_mean(n: usize, relative_half_width: f64, asked: f64) -> Option<usize> {
    (asked > 0.0 && relative_half_width > 0.0)
        .then(|| ceil_count(float(n) * (relative_half_width / asked).powi(2)).max(2))
}

#[cfg(test)]
#[path = "../tests/unit/precision.rs"]
mod tests;
