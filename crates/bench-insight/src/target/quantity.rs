//! What a gate can be about.

use bench_schema::{
    CellRecord, Counts, Distribution, Goodput, GroupRecord, Interval, Metric, Origin, Rates, Slo,
    SloOutcome, SloVerdict, Unit,
};

use crate::findings::same_objective;
use crate::{text, view};

/// Something measured that a gate compares.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Quantity {
    Rate(&'static str),
    Count(&'static str),
    Figure(&'static str),
    Metric(Metric, Statistic),
    /// What a search found, in its own unit.
    Capacity,
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
/// What is of no cell.
const CAPACITY: &str = "capacity";
const FIGURES: &[&str] = &["attainment", "success_rate", "tail_ratio", "mean_in_flight"];
const FIGURES_OF_GROUPS: &[&str] = &["success_rate", "tail_ratio"];

impl Quantity {
    pub(super) fn parse(name: &str) -> Result<Self, String> {
        let known = |list: &'static [&'static str]| list.iter().find(|known| **known == name);
        if name == CAPACITY {
            return Ok(Self::Capacity);
        }
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
                format!(
                    "`{name}` needs a statistic; write `{name}.p95`, `{name}.mean` or `{name}.max`"
                )
            } else {
                format!(
                    "unknown quantity `{name}`; known quantities: {}",
                    all_names()
                )
            });
        };
        Ok(Self::Metric(metric.parse()?, Statistic::parse(statistic)?))
    }

    /// The unit its limit is in.
    pub(super) fn unit(self) -> Unit {
        match self {
            Self::Rate(name) if name.contains("tokens") => Unit::TokensPerS,
            Self::Rate(_) | Self::Capacity => Unit::RequestsPerS,
            Self::Count(_) => Unit::Count,
            Self::Figure(_) | Self::Metric(_, Statistic::Cov) => Unit::Ratio,
            Self::Metric(metric, _) => metric.unit(),
        }
    }

    /// Whether it adds up over cells.
    pub(super) fn is_count(self) -> bool {
        matches!(self, Self::Count(_))
    }

    /// Whether groups of a cell of an open loop, or of a closed one, have it.
    ///
    /// A group that happens to have all requests of its cell could answer for any figure, by the cell's. It does not: whether it has all is known only
    /// afterwards, and the same target would be met in one run and without an answer in the next.
    pub(super) fn is_told_of_groups(self, open: bool) -> bool {
        match self {
            Self::Rate(_) | Self::Capacity => false,
            Self::Count(_) => true,
            Self::Figure(name) => FIGURES_OF_GROUPS.contains(&name),
            Self::Metric(metric, _) => is_told_of_groups(metric, open),
        }
    }

    /// The same of a subject: every cell has it, as far as it was measured.
    pub(super) fn is_told_of(self, subject: &Subject<'_>) -> bool {
        match subject {
            Subject::Cell(_) => true,
            Subject::Group(cell, _) => self.is_told_of_groups(cell.load.is_open()),
        }
    }

    /// Whether it is about what the objectives ask for.
    pub(super) fn needs_objectives(self) -> bool {
        matches!(self, Self::Figure("attainment"))
            || matches!(self, Self::Rate(name) if name.starts_with("goodput"))
    }

    /// What it takes to decide, of so many values: single gaps are no requests.
    pub(super) fn would_decide(self, n: u64, times: f64) -> String {
        match self {
            Self::Metric(Metric::Itl | Metric::Icl, _) => format!(
                "about {} times as many requests would decide",
                text::number(times.ceil())
            ),
            _ => format!(
                "about {} requests in total would decide",
                text::rounded(n as f64 * times)
            ),
        }
    }

    /// What was measured; `None` where it was not, and of a quantile, which is judged by single requests.
    pub(super) fn of(self, subject: &Subject<'_>) -> Option<Measured> {
        match self {
            Self::Rate(name) => rate(subject, name),
            Self::Count(name) => Some(Measured::exact(count(subject.counts(), name) as f64)),
            Self::Figure(name) => figure(subject, name),
            Self::Metric(metric, statistic) => statistic.of(subject.distribution(metric)?),
            Self::Capacity => None,
        }
        .filter(|measured| !measured.value.is_nan())
    }
}

/// How a quantile came out by what a record stores: the objective with its limit, else its distribution.
pub(super) fn stored_outcome(subject: &Subject<'_>, limited: &Slo) -> Option<SloOutcome> {
    let (judged, name) = match subject {
        Subject::Cell(cell) => (&cell.slos, None),
        Subject::Group(_, group) => (&group.slos, Some(&group.name)),
    };
    let is_it = |outcome: &&SloOutcome| {
        let of_all = outcome.slo.use_case.is_none() || outcome.slo.use_case.as_ref() == name;
        of_all && same_objective(&outcome.slo, limited)
    };
    let stored = judged.iter().find(is_it).cloned();
    let distribution = subject.distribution(limited.metric);
    stored.or_else(|| bench_metrics::outcome_of_distribution(distribution?, limited))
}

/// A measured value and how well it is known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Measured {
    /// +∞ for a quantile that failed requests push beyond every limit.
    pub(super) value: f64,
    pub(super) known: Known,
}

/// How well a value is known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Known {
    /// A fact of this run, not an estimate: a count, an extreme.
    Exactly,
    /// An estimate from so many values, with its interval where there is one.
    Estimate { interval: Option<Interval>, n: u64 },
    /// An estimate over so many seconds.
    OverTime {
        interval: Option<Interval>,
        seconds: f64,
    },
}

impl Measured {
    /// The quantile that was judged, of so many requests: +∞ where too many were lost; `None` where nothing was measured.
    pub(super) fn of_judged(judged: &SloOutcome, n: u64) -> Option<Self> {
        let value = match judged.verdict {
            SloVerdict::Fail => judged.measured.unwrap_or(f64::INFINITY),
            _ => judged.measured?,
        };
        let interval = judged.interval;
        let known = Known::Estimate { interval, n };
        Some(Self { value, known })
    }

    fn exact(value: f64) -> Self {
        Self {
            value,
            known: Known::Exactly,
        }
    }
}

fn all_names() -> String {
    names(&[RATES, COUNTS, FIGURES, &[CAPACITY]], |_| true)
}

/// What groups of a cell of an open loop, or of a closed one, have.
pub(super) fn names_of_groups(open: bool) -> String {
    names(&[COUNTS, FIGURES_OF_GROUPS], |metric| {
        Quantity::Metric(metric, Statistic::Mean).is_told_of_groups(open)
    })
}

fn names(fixed: &[&[&str]], wanted: impl Fn(Metric) -> bool) -> String {
    let metrics = Metric::ALL.iter().filter(|metric| wanted(**metric));
    let metrics: Vec<&str> = metrics.map(|metric| metric.key()).collect();
    format!(
        "{}, and METRIC.p95 (or .mean, .min, .max, .sd, .cov), where METRIC is one of {}",
        fixed.concat().join(", "),
        metrics.join(", ")
    )
}

impl Statistic {
    pub(super) fn parse(name: &str) -> Result<Self, String> {
        Ok(match name {
            "mean" => Self::Mean,
            "min" => Self::Min,
            "max" => Self::Max,
            "sd" | "std" => Self::Sd,
            "cov" => Self::Cov,
            "median" => Self::Quantile(0.5),
            other => {
                let known = bench_metrics::parse_quantile(other).map(Self::Quantile);
                known.ok_or_else(|| {
                    format!(
                        "unknown statistic `{other}`; known statistics: mean, min, max, sd, cov, median and p50 to p99.9"
                    )
                })?
            }
        })
    }

    fn of(self, d: &Distribution) -> Option<Measured> {
        match self {
            Self::Mean => Some(Measured {
                value: d.mean,
                known: Known::Estimate {
                    interval: d.mean_interval,
                    n: d.n,
                },
            }),
            Self::Min => Some(Measured::exact(d.min)),
            Self::Max => Some(Measured::exact(d.max)),
            Self::Sd => d.sd.map(Measured::exact),
            Self::Cov => d.cov.map(Measured::exact),
            Self::Quantile(_) => None,
        }
    }
}

impl<'a> Subject<'a> {
    /// Label and name of the group, where it is one.
    pub(super) fn group(&self) -> Option<(&'a str, &'a str)> {
        match self {
            Self::Cell(_) => None,
            Self::Group(_, group) => Some((&group.by, &group.name)),
        }
    }

    pub(super) fn counts(&self) -> &'a Counts {
        match self {
            Self::Cell(cell) => &cell.counts,
            Self::Group(_, group) => &group.counts,
        }
    }

    fn distribution(&self, metric: Metric) -> Option<&'a Distribution> {
        match self {
            // A metric named with its origin is meant so; without one, the cell's headline decides.
            Self::Cell(cell) if is_from_due(metric) => cell.metrics.get(&metric),
            Self::Cell(cell) => cell.headline(metric),
            Self::Group(cell, _) if !is_told_of_groups(metric, cell.load.is_open()) => None,
            Self::Group(cell, group) if is_from_due(metric) => cell.metrics_of(group).get(&metric),
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

fn is_told_of_groups(metric: Metric, open: bool) -> bool {
    metric.is_told_of_groups() && (open || !is_from_due(metric))
}

/// Whether a latency is named with the origin `due`.
fn is_from_due(metric: Metric) -> bool {
    metric.from_origin(Origin::Sent) != metric
}

fn rate(subject: &Subject<'_>, name: &str) -> Option<Measured> {
    let rates = subject.rates();
    let over_time = |value: f64, interval| {
        let seconds = rates.map_or(0.0, |r| r.seconds);
        Measured {
            value,
            known: Known::OverTime { interval, seconds },
        }
    };
    // A rate without an interval of its own is as uncertain as the one it follows.
    let like = |value: f64, of: f64, interval: Option<Interval>| {
        let scale = view::positive(of).map_or(1.0, |of| value / of);
        let scaled = interval.map(|i| Interval {
            low: i.low * scale,
            high: i.high * scale,
            ..i
        });
        over_time(value, scaled)
    };
    let good = |pick: fn(&Goodput) -> f64| {
        let goodput = subject.goodput()?;
        let interval = Some(goodput.attainment_interval);
        Some(like(pick(goodput), goodput.attainment, interval))
    };
    match name {
        "requests_per_s" => {
            let r = rates?;
            Some(over_time(r.requests_per_s?, r.requests_per_s_interval))
        }
        "output_tokens_per_s" => {
            let r = rates?;
            Some(over_time(
                r.output_tokens_per_s?,
                r.output_tokens_per_s_interval,
            ))
        }
        "total_tokens_per_s" => {
            let r = rates?;
            let interval = r.output_tokens_per_s_interval;
            Some(like(
                r.total_tokens_per_s?,
                r.output_tokens_per_s?,
                interval,
            ))
        }
        "chunks_per_s" => rates.map(|r| {
            let tokens = r.output_tokens_per_s.unwrap_or(r.chunks_per_s);
            like(r.chunks_per_s, tokens, r.output_tokens_per_s_interval)
        }),
        "goodput_requests_per_s" => good(|g| g.requests_per_s),
        "goodput_tokens_per_s" => good(|g| g.tokens_per_s),
        _ => None,
    }
}

fn count(counts: &Counts, name: &str) -> u64 {
    let end = Counts::ENDS.iter().find(|(known, _)| *known == name);
    match name {
        "planned" => counts.planned,
        "failed" => counts.went_wrong(),
        _ => end.map_or_else(|| counts.without_answer(), |(_, of)| of(counts)),
    }
}

fn figure(subject: &Subject<'_>, name: &str) -> Option<Measured> {
    match name {
        "attainment" => subject.goodput().map(|g| Measured {
            value: g.attainment,
            known: Known::Estimate {
                interval: Some(g.attainment_interval),
                n: subject.counts().planned,
            },
        }),
        "success_rate" => {
            let counts = subject.counts();
            (counts.planned > 0)
                .then(|| Measured::exact(counts.completed as f64 / counts.planned as f64))
        }
        "tail_ratio" => {
            let e2e = subject.distribution(Metric::E2e)?;
            let median = view::positive(e2e.p50()?)?;
            Some(Measured::exact(e2e.quantile(0.95)? / median))
        }
        "mean_in_flight" => subject.rates().map(|r| Measured::exact(r.mean_in_flight)),
        _ => None,
    }
}
