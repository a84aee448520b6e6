//! What a plan looks like, for people who want to see it before it runs.

use std::collections::BTreeMap;

use bench_schema::{Nanos, PlanHash, Prompt, index};

use super::{Plan, PlanIter};
use crate::WorkloadError;
use crate::item::{Planned, text_of};

/// How many prompts are shown, and how much of each.
const HEADS: usize = 5;
const HEAD_CHARS: usize = 100;

/// A plan in numbers, from the requests that were looked at.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PlanSummary {
    /// Where prompts come from.
    pub dataset: String,
    /// What counted prompt lengths.
    pub sized_by: String,
    /// Requests of the whole plan, where that is known.
    pub requests: Option<u64>,
    /// Requests that these figures are of.
    pub looked_at: u64,
    /// The sum of their hashes.
    pub hash: PlanHash,
    /// Prompt lengths that were asked for.
    pub asked_input: Option<LengthSummary>,
    /// Prompt lengths by the tokenizer.
    pub sent_input: Option<LengthSummary>,
    /// Prompt lengths in words.
    pub words: Option<LengthSummary>,
    /// Answer lengths that are asked for.
    pub output: Option<LengthSummary>,
    /// Requests of each use case.
    pub use_cases: BTreeMap<String, u64>,
    /// Requests of each length category.
    pub categories: BTreeMap<String, u64>,
    /// Requests that wait for the answer of another.
    pub waiting: u64,
    /// Due times; absent in a closed loop.
    pub arrivals: Option<ArrivalSummary>,
    /// The beginnings of the first prompts.
    pub heads: Vec<String>,
    /// Bad lines that were passed over.
    pub skipped_lines: u64,
}

/// Lengths in numbers; quantiles by linear interpolation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LengthSummary {
    /// How many there are.
    pub count: u64,
    /// Least.
    pub min: u64,
    /// Median.
    pub p50: f64,
    /// 90 % are below.
    pub p90: f64,
    /// 99 % are below.
    pub p99: f64,
    /// Most.
    pub max: u64,
    /// Mean.
    pub mean: f64,
}

/// Due times in numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ArrivalSummary {
    /// Requests, or conversations, with a due time.
    pub count: u64,
    /// Whether they are all of the plan; else those of the requests that were looked at.
    pub of_all: bool,
    /// The first due time.
    pub first: Nanos,
    /// The last due time.
    pub last: Nanos,
    /// Gaps over the time from the first to the last due time, per second; absent where that is no time.
    pub mean_rate_per_s: Option<f64>,
    /// sd / mean of the gaps (n − 1); absent below two gaps.
    pub gap_cov: Option<f64>,
}

pub(super) fn summarise(
    plan: &Plan,
    mut all: PlanIter,
    at_most: u64,
) -> Result<PlanSummary, WorkloadError> {
    let mut seen = Tallies::default();
    let mut summary = PlanSummary {
        dataset: plan.spec().dataset.to_string(),
        sized_by: plan.sized_by().to_owned(),
        requests: plan.requests(),
        ..PlanSummary::default()
    };
    while summary.looked_at < at_most {
        let Some(planned) = all.next().transpose()? else {
            summary.requests = Some(summary.looked_at);
            break;
        };
        summary.looked_at += 1;
        summary.hash += planned.hash();
        seen.add(&planned, &mut summary);
    }
    summary.skipped_lines = all.skipped_lines();
    summary.asked_input = lengths(seen.asked);
    summary.sent_input = lengths(seen.sent);
    summary.words = lengths(seen.words);
    summary.output = lengths(seen.output);
    // Times are cheap, requests are not: all of the times are looked at where they do not come with the rows of a file.
    let all = plan.inner.due_times().map(|all| (all, true));
    let (due, of_all) = all.unwrap_or_else(|| {
        let whole = summary.requests == Some(summary.looked_at);
        (seen.due, whole)
    });
    summary.arrivals = arrivals(&due, of_all);
    Ok(summary)
}

#[derive(Default)]
struct Tallies {
    asked: Vec<u64>,
    sent: Vec<u64>,
    words: Vec<u64>,
    output: Vec<u64>,
    due: Vec<Nanos>,
}

impl Tallies {
    fn add(&mut self, planned: &Planned, summary: &mut PlanSummary) {
        let item = &planned.item;
        self.asked.extend(item.size.asked_tokens);
        self.sent.extend(item.size.sent_tokens);
        self.words.extend(item.size.words);
        self.output.extend(item.request.max_tokens.map(u64::from));
        self.due.extend(planned.due);
        summary.waiting += u64::from(item.after.is_some());
        for (name, counts) in [
            (&item.use_case, &mut summary.use_cases),
            (&item.category, &mut summary.categories),
        ] {
            if let Some(name) = name {
                *counts.entry(name.clone()).or_default() += 1;
            }
        }
        if summary.heads.len() < HEADS {
            summary.heads.push(head(&item.request.prompt));
        }
    }
}

fn head(prompt: &Prompt) -> String {
    let text = match prompt {
        Prompt::TokenIds(ids) => format!("{:?}", ids.get(..16).unwrap_or(ids)),
        other => text_of(other)
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" "),
    };
    match text.char_indices().nth(HEAD_CHARS) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or(&text)),
        None => text,
    }
}

fn lengths(mut values: Vec<u64>) -> Option<LengthSummary> {
    values.sort_unstable();
    let (min, max) = (*values.first()?, *values.last()?);
    let sum: f64 = values.iter().map(|n| *n as f64).sum();
    Some(LengthSummary {
        count: values.len() as u64,
        min,
        p50: quantile(&values, 0.5),
        p90: quantile(&values, 0.9),
        p99: quantile(&values, 0.99),
        max,
        mean: sum / values.len() as f64,
    })
}

/// Type 7, as everywhere in this project; `sorted` is not empty.
fn quantile(sorted: &[u64], q: f64) -> f64 {
    let at = q * (sorted.len().saturating_sub(1)) as f64;
    let low = at.floor();
    let value = |i: usize| sorted.get(i).or(sorted.last()).copied().unwrap_or(0) as f64;
    let (below, above) = (value(index(low)), value(index(low) + 1));
    below + (above - below) * (at - low)
}

fn arrivals(due: &[Nanos], of_all: bool) -> Option<ArrivalSummary> {
    let (first, last) = (*due.first()?, *due.last()?);
    let gaps: Vec<f64> = due
        .windows(2)
        .filter_map(|pair| Some((*pair.get(1)? - *pair.first()?).as_f64()))
        .collect();
    let n = gaps.len() as f64;
    let mean = gaps.iter().sum::<f64>() / n;
    let squares: f64 = gaps.iter().map(|gap| (gap - mean) * (gap - mean)).sum();
    let gap_cov = (gaps.len() >= 2 && mean > 0.0).then(|| libm::sqrt(squares / (n - 1.0)) / mean);
    let span = (last - first).as_secs_f64();
    Some(ArrivalSummary {
        count: due.len() as u64,
        of_all,
        first,
        last,
        mean_rate_per_s: (span > 0.0).then(|| n / span),
        gap_cov,
    })
}
