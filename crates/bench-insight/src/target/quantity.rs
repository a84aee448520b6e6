//! What a gate can be about.

use bench_schema::{CellRecord, Counts, Distribution, Goodput, GroupRecord, Metric, Rates, Unit};

use crate::view;

/// Something measured that a gate compares.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Quantity {
    Rate(&'static str),
    Count(&'static str),
    Figure(&'static str),
    Metric(Metric, Statistic),
}

/// Which number of a distribution.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Statistic {
    Mean,
    Min,
    Max,
    Sd,
    Cov,
    Quantile(f64),
}

/// What a gate looks at: a cell, or a group within one.
#[derive(Clone, Copy)]
pub(super) enum Subject<'a> {
    Cell(&'a CellRecord),
    Group(&'a CellRecord, &'a GroupRecord),
}

const RATES: &[&str] = &[
    "requests_per_s",
    "output_tokens_per_s",
    "total_tokens_per_s",
    "chunks_per_s",
    "goodput_requests_per_s",
    "goodput_tokens_per_s",
];
const COUNTS: &[&str] = &[
    "planned",
    "completed",
    "failed",
    "timed_out",
    "truncated",
    "cancelled",
    "unsent",
    "without_answer",
];
const FIGURES: &[&str] = &["attainment", "success_rate", "tail_ratio", "mean_in_flight"];

impl Quantity {
    /// By name.
    pub(super) fn parse(name: &str) -> Result<Self, String> {
        let known = |list: &'static [&'static str]| list.iter().find(|known| **known == name);
        if let Some(rate) = known(RATES) {
            return Ok(Self::Rate(rate));
        }
        if let Some(count) = known(COUNTS) {
            return Ok(Self::Count(count));
        }
        if let Some(figure) = known(FIGURES) {
            return Ok(Self::Figure(figure));
        }
        let Some((metric, statistic)) = name.split_once('.') else {
            return Err(if name.parse::<Metric>().is_ok() {
                format!("which number of {name}? write `{name}.p95`, `{name}.mean` or `{name}.max`")
            } else {
                format!("unknown quantity `{name}`; known are {}", all_names())
            });
        };
        Ok(Self::Metric(metric.parse()?, Statistic::parse(statistic)?))
    }

    /// The unit its limit is in.
    pub(super) fn unit(self) -> Unit {
        match self {
            Self::Rate(name) if name.contains("tokens") => Unit::TokensPerS,
            Self::Rate(_) => Unit::RequestsPerS,
            Self::Count(_) => Unit::Count,
            Self::Figure(_) | Self::Metric(_, Statistic::Cov) => Unit::Ratio,
            Self::Metric(metric, _) => metric.unit(),
        }
    }

    /// Whether it adds up over cells.
    pub(super) fn is_count(self) -> bool {
        matches!(self, Self::Count(_))
    }

    /// What was measured; `None` where it was not.
    pub(super) fn of(self, subject: &Subject<'_>) -> Option<f64> {
        match self {
            Self::Rate(name) => rate(subject, name),
            Self::Count(name) => Some(count(subject.counts(), name) as f64),
            Self::Figure(name) => figure(subject, name),
            Self::Metric(metric, statistic) => statistic.of(subject.distribution(metric)?),
        }
    }
}

fn all_names() -> String {
    let fixed: Vec<&str> = [RATES, COUNTS, FIGURES].concat();
    let metrics: Vec<&str> = Metric::ALL.iter().map(|m| m.key()).collect();
    format!(
        "{}, and METRIC.p95 (or .mean, .min, .max, .sd, .cov) with METRIC one of {}",
        fixed.join(", "),
        metrics.join(", ")
    )
}

impl Statistic {
    fn parse(name: &str) -> Result<Self, String> {
        Ok(match name {
            "mean" => Self::Mean,
            "min" => Self::Min,
            "max" => Self::Max,
            "sd" | "std" => Self::Sd,
            "cov" => Self::Cov,
            "median" => Self::Quantile(0.5),
            other => {
                let percent = other
                    .strip_prefix('p')
                    .and_then(|digits| digits.parse::<f64>().ok())
                    .filter(|p| *p > 0.0 && *p < 100.0)
                    .ok_or_else(|| {
                        format!(
                            "unknown statistic `{other}`; known are mean, min, max, sd, cov, median and p50 to p99.9"
                        )
                    })?;
                Self::Quantile(percent / 100.0)
            }
        })
    }

    /// The quantile it is, if it is one.
    pub(super) fn quantile(self) -> Option<f64> {
        match self {
            Self::Quantile(q) => Some(q),
            _ => None,
        }
    }

    fn of(self, d: &Distribution) -> Option<f64> {
        match self {
            Self::Mean => Some(d.mean),
            Self::Min => Some(d.min),
            Self::Max => Some(d.max),
            Self::Sd => d.sd,
            Self::Cov => d.cov,
            // A failed request is slower than any limit: with failures counted, the quantile may not exist.
            Self::Quantile(q) => match &d.with_failures {
                Some(view) => view
                    .quantiles
                    .iter()
                    .find(|(at, _)| (at - q).abs() < 1e-9)
                    .map_or_else(|| d.quantile(q), |(_, value)| *value),
                None => d.quantile(q),
            },
        }
    }
}

impl<'a> Subject<'a> {
    fn counts(&self) -> &'a Counts {
        match self {
            Self::Cell(cell) => &cell.counts,
            Self::Group(_, group) => &group.counts,
        }
    }

    fn distribution(&self, metric: Metric) -> Option<&'a Distribution> {
        match self {
            // A metric named with its origin is meant so; without one, the cell's headline decides.
            Self::Cell(cell) => match metric {
                Metric::TtftDue | Metric::E2eDue | Metric::TtfaDue => cell.metrics.get(&metric),
                _ => cell.headline(metric),
            },
            Self::Group(cell, group) => view::of_group(cell, group, metric),
        }
    }

    fn rates(&self) -> Option<&'a Rates> {
        match self {
            Self::Cell(cell) => cell.headline_rates(),
            Self::Group(..) => None,
        }
    }

    fn goodput(&self) -> Option<&'a Goodput> {
        match self {
            Self::Cell(cell) => cell.goodput.as_ref(),
            Self::Group(..) => None,
        }
    }
}

fn rate(subject: &Subject<'_>, name: &str) -> Option<f64> {
    match name {
        "requests_per_s" => subject.rates().map(|r| r.requests_per_s),
        "output_tokens_per_s" => subject.rates()?.output_tokens_per_s,
        "total_tokens_per_s" => subject.rates()?.total_tokens_per_s,
        "chunks_per_s" => subject.rates().map(|r| r.chunks_per_s),
        "goodput_requests_per_s" => subject.goodput().map(|g| g.requests_per_s),
        "goodput_tokens_per_s" => subject.goodput().map(|g| g.tokens_per_s),
        _ => None,
    }
}

fn count(counts: &Counts, name: &str) -> u64 {
    match name {
        "planned" => counts.planned,
        "completed" => counts.completed,
        "failed" => counts.failed + counts.timed_out + counts.truncated,
        "timed_out" => counts.timed_out,
        "truncated" => counts.truncated,
        "cancelled" => counts.cancelled,
        "unsent" => counts.unsent,
        _ => counts.without_answer(),
    }
}

fn figure(subject: &Subject<'_>, name: &str) -> Option<f64> {
    match name {
        "attainment" => subject.goodput().map(|g| g.attainment),
        "success_rate" => {
            let counts = subject.counts();
            (counts.planned > 0).then(|| counts.completed as f64 / counts.planned as f64)
        }
        "tail_ratio" => {
            let e2e = subject.distribution(Metric::E2e)?;
            let median = view::positive(e2e.p50()?)?;
            Some(e2e.quantile(0.95)? / median)
        }
        "mean_in_flight" => subject.rates().map(|r| r.mean_in_flight),
        _ => None,
    }
}
