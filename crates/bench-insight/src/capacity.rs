//! What a measured cell comes to in days, users, replicas, money and energy; each figure with its interval and what was assumed.

use bench_metrics::{Estimate, LEVEL};
use bench_schema::{CellRecord, Interval, Metric, RunRecord};
use serde::{Deserialize, Serialize};

use crate::InsightError;
use crate::search;
use crate::signals::derived;
use crate::text;
use crate::view;

/// What has to be assumed to make a plan of a measurement; what is absent is not calculated.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CapacityAssumptions {
    /// Seconds that a user reads and types between an answer and the next request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub think_time_s: Option<f64>,
    /// Requests per second that have to be served.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_rate_per_s: Option<f64>,
    /// Price of what was measured (all of its replicas and GPUs together) per hour, in any currency.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub price_per_hour: Option<f64>,
    /// Share of the measured capacity to plan with, 0 to 1; the rest is headroom for peaks. Absent: all of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub planned_use: Option<f64>,
}

impl CapacityAssumptions {
    /// Refuses what makes no sense.
    ///
    /// # Errors
    /// [`InsightError::BadAssumption`] for a negative or non-finite number, a target rate of 0, or a planned use beyond 1.
    pub fn check(&self) -> Result<(), InsightError> {
        let check = |name: &str, value: Option<f64>, good: fn(f64) -> bool, next: &str| match value
            .filter(|value| !(value.is_finite() && good(*value)))
        {
            None => Ok(()),
            Some(value) => Err(InsightError::BadAssumption {
                name: name.to_owned(),
                value: value.to_string(),
                next: next.to_owned(),
            }),
        };
        let (think, price) = (self.think_time_s, self.price_per_hour);
        check("think_time_s", think, |x| x >= 0.0, "use 0 or more")?;
        check("price_per_hour", price, |x| x >= 0.0, "use 0 or more")?;
        let rate = self.target_rate_per_s;
        check("target_rate_per_s", rate, |x| x > 0.0, "use more than 0")?;
        let next = "use a share above 0 and at most 1";
        check(
            "planned_use",
            self.planned_use,
            |x| x > 0.0 && x <= 1.0,
            next,
        )
    }
}

/// One planning figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CapacityFigure {
    /// Stable name: `requests_per_day`, `users`, `replicas`, `cost_per_million_output_tokens`, …
    pub name: String,
    /// The figure.
    pub value: f64,
    /// Its unit, as shown.
    pub unit: String,
    /// Its interval, from that of the measured rate; absent where that has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<Interval>,
    /// On which side of it the truth lies, where the load asked for no more than it got.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound: Option<Bound>,
    /// What it takes for granted, each a short sentence.
    pub assumptions: Vec<String>,
}

/// What an open loop that was served whole tells of the server: it carries this, and nobody asked for more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// The truth is this or more.
    AtLeast,
    /// The truth is this or less.
    AtMost,
}

impl CapacityFigure {
    /// The rate was asked for and got, so that an interval of it would be of the plan; or no more of it is known.
    fn be_a_bound(&mut self, why: &str) {
        let grows = matches!(self.name.as_str(), "requests_per_day" | "users");
        self.bound = Some(if grows { Bound::AtLeast } else { Bound::AtMost });
        self.interval = None;
        self.assumptions.push(why.to_owned());
    }

    /// `replicas: 5 (95 % CI 4 to 5), assuming …`.
    pub fn sentence(&self) -> String {
        let shown = |x: f64| {
            if x.fract().abs() < 1e-9 {
                text::grouped(x)
            } else {
                text::grouped_or_plain(x)
            }
        };
        let range = self.interval.map_or_else(String::new, |i| {
            format!(" (95 % CI {} to {})", shown(i.low), shown(i.high))
        });
        let bound = match self.bound {
            Some(Bound::AtLeast) => "at least ",
            Some(Bound::AtMost) => "at most ",
            None => "",
        };
        let name = self.name.replace('_', " ");
        // `cost per million output tokens` has said what a cost is per
        let said = self.unit.starts_with("per ") || self.unit.replace('/', " per ") == name;
        let unit = if said {
            String::new()
        } else {
            format!(" {}", self.unit)
        };
        format!(
            "{name}: {bound}{}{range}{unit}, assuming {}",
            shown(self.value),
            text::list(&self.assumptions),
        )
    }
}

/// Every figure that the cell and the assumptions carry; empty for a cell without a rate.
///
/// - `requests_per_day` = X · 86,400
/// - `users` = X · (R + Z), R the mean E2E and Z the think time (interactive response time law)
/// - `replicas` = ⌈target / X⌉
/// - `cost_per_million_output_tokens` = price / 3600 / output tokens per second · 10⁶; `cost_per_thousand_requests` likewise
/// - `energy_per_output_token`, `energy_per_request` as the hardware summary has them
///
/// X is the completed requests per second of the headline window, times `planned_use` where that is given.
pub fn capacity(cell: &CellRecord, assumptions: &CapacityAssumptions) -> Vec<CapacityFigure> {
    let Some(rates) = cell.headline_rates() else {
        return energy(cell);
    };
    let told = |value: Option<f64>, interval| {
        let value = value.and_then(view::positive)?;
        Some(view::estimate(value, interval))
    };
    let requests = told(rates.requests_per_s, rates.requests_per_s_interval);
    let tokens = told(
        rates.output_tokens_per_s,
        rates.output_tokens_per_s_interval,
    );
    let of = format!("the load and request mix of {}", cell.label);
    let mut figures = of_rates(cell, (requests, tokens), of, assumptions);
    if cell.load.is_open() && view::behind(cell).is_none() {
        let why = "the requested load was no higher, so the server's limit is unknown";
        for figure in &mut figures {
            figure.be_a_bound(why);
        }
    }
    figures.extend(energy(cell));
    figures.retain(|f| f.value.is_finite());
    figures
}

/// The same of what a search found: of a rate that itself, or its lower bound where it is no more than between two; of a concurrency the stage that had it, or the next
/// lower one. Empty where nothing is known of it, and of a run that searched nothing.
pub fn capacity_found(run: &RunRecord, assumptions: &CapacityAssumptions) -> Vec<CapacityFigure> {
    let Some(found) = &run.analysis.capacity else {
        return Vec::new();
    };
    let told = found.value.or(found.low).and_then(view::positive);
    let stage = told.and_then(|load| Some((load, search::stage_up_to(run, load)?)));
    let Some((load, cell)) = stage else {
        return Vec::new();
    };
    if !cell.load.is_open() {
        return capacity(cell, assumptions);
    }
    let requests = search::capacity_of(found).unwrap_or(Estimate::unbounded(load, LEVEL));
    let tokens = cell.headline_rates().and_then(|rates| {
        let of_one = rates.output_tokens_per_s? / rates.requests_per_s?;
        view::positive(of_one).map(|of_one| requests.scaled(of_one))
    });
    let of = format!(
        "the capacity that the search found with the request mix of {}",
        cell.label
    );
    let mut figures = of_rates(cell, (Some(requests), tokens), of, assumptions);
    if found.value.is_none() {
        let why = "the search found no more than a lower bound of the capacity";
        for figure in &mut figures {
            figure.be_a_bound(why);
        }
    }
    figures
}

/// What these requests and tokens per second come to, before headroom; the cell has the times of the requests.
fn of_rates(
    cell: &CellRecord,
    (requests, tokens): (Option<Estimate>, Option<Estimate>),
    of: String,
    assumptions: &CapacityAssumptions,
) -> Vec<CapacityFigure> {
    let share = assumptions.planned_use.unwrap_or(1.0);
    let scale = |rate: Estimate| rate.scaled(share);
    let (requests, tokens) = (requests.map(scale), tokens.map(scale));
    let mut base = vec![of];
    if assumptions.planned_use.is_some() {
        base.push(format!(
            "planned at {} of the measured rate",
            text::percent(share)
        ));
    }
    let mut figures = Vec::new();
    if let Some(x) = requests {
        figures.push(figure(
            "requests_per_day",
            &x.scaled(86_400.0),
            "requests/day",
            &base,
            "this rate all day",
        ));
        figures.extend(users(cell, assumptions, &x, &base));
        figures.extend(replicas(assumptions, &x, &base));
    }
    figures.extend(costs(assumptions, tokens, requests, &base));
    figures
}

fn figure(
    name: &str,
    estimate: &Estimate,
    unit: &str,
    base: &[String],
    also: &str,
) -> CapacityFigure {
    let mut assumptions = base.to_vec();
    assumptions.push(also.to_owned());
    CapacityFigure {
        name: name.to_owned(),
        value: estimate.value,
        unit: unit.to_owned(),
        interval: view::interval(estimate),
        bound: None,
        assumptions,
    }
}

fn users(
    cell: &CellRecord,
    given: &CapacityAssumptions,
    x: &Estimate,
    base: &[String],
) -> Option<CapacityFigure> {
    let think = given.think_time_s?;
    let response = view::mean(cell, Metric::E2e)? / 1e9;
    let also = format!(
        "each user sends the next request {} s after a response, which takes {} on average",
        text::number(think),
        text::time(response * 1e9)
    );
    Some(figure(
        "users",
        &x.scaled(response + think),
        "users",
        base,
        &also,
    ))
}

fn replicas(given: &CapacityAssumptions, x: &Estimate, base: &[String]) -> Option<CapacityFigure> {
    let target = given.target_rate_per_s?;
    let needed = |rate: f64| (target / rate - 1e-9).ceil().max(1.0);
    let also = format!(
        "{} requests/s spread evenly over independent replicas",
        text::number(target)
    );
    let mut made = figure(
        "replicas",
        &Estimate::unbounded(needed(x.value), x.level),
        "replicas",
        base,
        &also,
    );
    // More capacity, fewer replicas: the ends change places.
    made.interval = x
        .bounds()
        .filter(|(low, _)| *low > 0.0)
        .map(|(low, high)| Interval {
            low: needed(high),
            high: needed(low),
            confidence: x.level,
        });
    Some(made)
}

fn costs(
    given: &CapacityAssumptions,
    tokens: Option<Estimate>,
    requests: Option<Estimate>,
    base: &[String],
) -> Vec<CapacityFigure> {
    let Some(price) = given.price_per_hour else {
        return Vec::new();
    };
    let also = format!(
        "{} per hour for the whole measured system, at full load all the time",
        text::number(price)
    );
    let per = |rate: &Estimate, amount: f64| {
        let cost = |x: f64| price / 3600.0 / x * amount;
        let (low, high) = match rate.bounds() {
            Some((low, high)) if low > 0.0 => (Some(cost(high)), Some(cost(low))),
            _ => (None, None),
        };
        Estimate {
            value: cost(rate.value),
            low,
            high,
            level: rate.level,
        }
    };
    let mut all = Vec::new();
    if let Some(rate) = tokens {
        all.push(figure(
            "cost_per_million_output_tokens",
            &per(&rate, 1e6),
            "per million tokens",
            base,
            &also,
        ));
    }
    if let Some(rate) = requests {
        all.push(figure(
            "cost_per_thousand_requests",
            &per(&rate, 1e3),
            "per thousand requests",
            base,
            &also,
        ));
    }
    all
}

fn energy(cell: &CellRecord) -> Vec<CapacityFigure> {
    [
        (
            "energy_per_output_token",
            "energy_per_output_token_j",
            "J/token",
        ),
        ("energy_per_request", "energy_per_request_j", "J/request"),
    ]
    .into_iter()
    .filter_map(|(name, key, unit)| {
        let interval = cell.hardware.as_ref()?.derived.get(key)?.interval;
        Some(CapacityFigure {
            name: name.to_owned(),
            value: derived(cell, key)?,
            unit: unit.to_owned(),
            interval,
            bound: None,
            assumptions: vec!["the power of all monitored GPUs, idle power included".to_owned()],
        })
    })
    .collect()
}
