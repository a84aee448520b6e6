//! The stop rule `--precision p99:ttft=5%`: a cell ends when a figure is known well enough.

use std::fmt;
use std::str::FromStr;

use bench_schema::Metric;

use crate::MetricsError;
use crate::blocks::BlockMean;
use crate::estimate::LEVEL;
use crate::num::ceil_count;
use crate::planning::{requests_for_mean, requests_for_quantile};
use crate::quantile::quantile_in_time;
use crate::sample::{Sample, values_needed};

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
        let figure = match figure.trim() {
            "mean" => Figure::Mean,
            p => {
                let percent = p.strip_prefix('p').and_then(|p| p.parse::<f64>().ok());
                let q = percent.map(|p| p / 100.0).filter(|q| *q > 0.0 && *q < 1.0);
                Figure::Quantile(q.ok_or_else(|| {
                    bad("the figure is neither `mean` nor a percentile like `p99`")
                })?)
            }
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

/// The relative half-width of a rate from `events` independent events: z/√n; how long a rate must be watched.
pub fn events_for_rate(relative: f64) -> Option<usize> {
    (relative > 0.0).then(|| ceil_count((crate::tables::z_critical(LEVEL) / relative).powi(2)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_read_and_shown_alike() {
        for text in [
            "p99:ttft=5%",
            "mean:itl=2%",
            "p99.9:e2e=10%",
            "p50:tpot=0.5%",
        ] {
            assert_eq!(text.parse::<Precision>().unwrap().to_string(), text);
        }
        assert_eq!(
            "ttft=3%".parse::<Precision>().unwrap().to_string(),
            "p50:ttft=3%"
        );
    }

    #[test]
    fn a_bad_rule_says_what_is_wrong_with_it() {
        for (text, part) in [
            ("p99:ttft", "no `=`"),
            ("p99:tfft=5%", "unknown metric"),
            ("q9:ttft=5%", "figure"),
            ("p99:ttft=0", "width"),
        ] {
            let message = text.parse::<Precision>().unwrap_err().to_string();
            assert!(
                message.contains(part) && message.contains(text),
                "{message}"
            );
        }
    }

    #[test]
    fn a_rule_is_met_once_the_interval_is_narrow_and_not_before_enough_values() {
        let rule: Precision = "p90:ttft=10%".parse().unwrap();
        let values: Vec<f64> = (0..20_000)
            .map(|i| 100.0 + f64::from(i * 7919 % 1009) / 10.0)
            .collect();
        assert!(!rule.check(&values[..50]).reached);
        assert!(rule.check(&values).reached);
        assert_eq!(
            rule.check(&[]),
            Progress {
                reached: false,
                half_width: None,
                needed: None
            }
        );
    }

    #[test]
    fn looks_get_rarer_as_the_run_grows() {
        let rule: Precision = "p99:ttft=5%".parse().unwrap();
        assert_eq!(
            (
                rule.next_look(0),
                rule.next_look(1_000),
                rule.next_look(100_000)
            ),
            (1_000, 1_251, 125_001)
        );
    }
}
