//! Looking at a cell: the few figures that the rules ask for again and again. Absent stays absent, and only positive,
//! finite values count as measured latencies and rates.

use std::collections::BTreeMap;

use bench_metrics::Estimate;
pub(crate) use bench_metrics::interval;
use bench_schema::{
    CellRecord, Distribution, Factor, GroupRecord, Interval, Load, Metric, RunRecord,
};

use crate::samples::NOTHING;
use crate::signals::{Signal, derived};

/// Load factors in order of preference: the first with two levels is what a run scales along.
pub(crate) const LOAD_FACTORS: &[&str] = &[
    "concurrency",
    "rate",
    "gpus",
    "replicas",
    "tensor_parallel",
    "pipeline_parallel",
    "shards",
    "batch",
];
/// Factors that multiply hardware: what they cost is communication, not queueing.
pub(crate) const DEVICE_FACTORS: &[&str] = &[
    "gpus",
    "replicas",
    "tensor_parallel",
    "pipeline_parallel",
    "shards",
];
/// Names of an output-length factor.
pub(crate) const OUTPUT_FACTORS: &[&str] = &["output_tokens", "output"];
/// Names of a prompt-length factor, best first.
pub(crate) const PROMPT_FACTORS: &[&str] =
    &["input_tokens", "prompt_tokens", "prompt_words", "prompt"];

/// Beyond this (31 years in nanoseconds) a number is a mistake, and would be shown as nonsense.
const LARGEST: f64 = 1e18;

/// A positive, finite number of a size that can have been measured.
pub(crate) fn positive(x: f64) -> Option<f64> {
    (x > 0.0 && x < LARGEST).then_some(x)
}

/// The level of a numeric factor.
pub(crate) fn level(cell: &CellRecord, factor: &str) -> Option<f64> {
    cell.factors
        .get(factor)
        .and_then(Factor::as_number)
        .filter(|x| x.is_finite())
}

/// A quantile of a metric from the headline origin, nanoseconds.
pub(crate) fn quantile(cell: &CellRecord, metric: Metric, q: f64) -> Option<f64> {
    cell.headline(metric)?.quantile(q).and_then(positive)
}

/// The mean of a metric from the headline origin, nanoseconds.
pub(crate) fn mean(cell: &CellRecord, metric: Metric) -> Option<f64> {
    positive(cell.headline(metric)?.mean)
}

/// Whether tokens come several at a time: most gaps are next to nothing beside the mean one, and those between are no pauses.
pub(crate) fn in_bundles(cell: &CellRecord) -> bool {
    cell.headline(Metric::Icl).is_some_and(|icl| {
        // of answers that come whole both are 0
        let usual = icl.quantile(0.5);
        usual.is_some_and(|usual| usual < NOTHING * icl.mean || icl.mean <= 0.0)
    })
}

/// What a server does for clients other than this one.
pub(crate) struct OtherClients {
    /// Output tokens that it made, over those that this client received.
    pub(crate) tokens: f64,
    /// Requests that ran and that waited in it on average, and those that this client had in flight.
    pub(crate) running: f64,
    pub(crate) waiting: f64,
    pub(crate) in_flight: f64,
}

/// Where the server both made more tokens than this client received and had more requests than this client had sent. Of several addresses nobody knows whose
/// figures are whose.
pub(crate) fn other_clients(run: &RunRecord, cell: &CellRecord) -> Option<OtherClients> {
    const MORE_TOKENS: f64 = 1.25;
    const MORE_REQUESTS: f64 = 1.2;
    let tokens = derived(cell, "server_output_tokens_over_client")?;
    let running = Signal::Running.of(cell)?.mean;
    let waiting = Signal::Waiting.of(cell).map_or(0.0, |waiting| waiting.mean);
    let in_flight = cell.headline_rates()?.mean_in_flight;
    let more = tokens >= MORE_TOKENS && running + waiting >= MORE_REQUESTS * in_flight;
    (more && run.server.urls.len() <= 1).then_some(OtherClients {
        tokens,
        running,
        waiting,
        in_flight,
    })
}

/// Output tokens per second over the headline window.
pub(crate) fn tokens_per_s(cell: &CellRecord) -> Option<f64> {
    cell.headline_rates()?
        .output_tokens_per_s
        .and_then(positive)
}

/// Completed requests per second over the headline window.
pub(crate) fn requests_per_s(cell: &CellRecord) -> Option<f64> {
    cell.headline_rates()?.requests_per_s.and_then(positive)
}

/// Output tokens per second, or requests where tokens are not known.
pub(crate) fn throughput(cell: &CellRecord) -> Option<f64> {
    tokens_per_s(cell).or(requests_per_s(cell))
}

/// How fast an open loop's requests were sent, where that was slower than they were due: as a part of the plan's rate, without those left unsent.
fn pace(cell: &CellRecord) -> Option<f64> {
    const NOTICED: f64 = 0.99;
    let due = cell.windows.whole.as_ref()?.offered_requests_per_s?;
    let unsent = cell.counts.unsent as f64 / cell.counts.planned.max(1) as f64;
    let pace = cell.plan.offered_rate_per_s? / positive(due * (1.0 - unsent))?;
    (pace < NOTICED).then_some(pace)
}

/// What of an open loop was sent and answered beside what it was served, requests per second.
pub(crate) struct Behind {
    pub(crate) offered: f64,
    /// Of that, what was answered in the end.
    pub(crate) answered: f64,
    pub(crate) served: f64,
}

/// An open loop that is served less than this part of what it offers and answers is an overload.
const LEAST_SERVED: f64 = 0.96;

/// Whether nobody can tell if an open loop's queue grew: its row has what was served while load was offered, and up to all that was offered and answered.
pub(crate) fn undecided(cell: &CellRecord) -> bool {
    let most = || {
        let rates = cell.headline_rates().filter(|_| cell.load.is_open())?;
        let most = rates.requests_per_s_interval?.high;
        let offered = rates.offered_requests_per_s.and_then(positive)?;
        let answered = offered * cell.counts.completed as f64 / cell.counts.planned.max(1) as f64;
        let untold = rates.served_requests_per_s.is_none() && rates.requests_per_s? < most;
        Some(untold && most >= 0.99 * pace(cell).unwrap_or(1.0) * answered)
    };
    most().unwrap_or(false)
}

/// Of an open loop whose queue grows. A table that does not follow its requests to their ends tells it by its rate over a long window.
pub(crate) fn behind(cell: &CellRecord) -> Option<Behind> {
    behind_with(cell, 0)
}

/// The same where this many requests that the client's time limit cut off would have been answered.
pub(crate) fn behind_with(cell: &CellRecord, cut_off: u64) -> Option<Behind> {
    let rates = cell.headline_rates().filter(|_| cell.load.is_open())?;
    let offered = rates
        .offered_requests_per_s
        .or(cell.plan.offered_rate_per_s);
    let offered = offered.and_then(positive)? * pace(cell).unwrap_or(1.0);
    let counts = &cell.counts;
    let answered = match counts.planned {
        0 => offered,
        planned => offered * (counts.completed + cut_off) as f64 / planned as f64,
    };
    let long = || mean(cell, Metric::E2e).is_some_and(|e2e| rates.seconds * 1e9 >= 20.0 * e2e);
    let (served, least) = match rates.served_requests_per_s {
        Some(served) => (served, LEAST_SERVED),
        None if !undecided(cell) && long() => (rates.requests_per_s?, 0.9),
        None => return None,
    };
    (served < least * answered).then_some(Behind {
        offered,
        answered,
        // the row has less where less was answered
        served: rates.requests_per_s.map_or(served, |row| row.min(served)),
    })
}

/// Mean output tokens of the answers; the asked number where answers were not counted.
pub(crate) fn output_tokens(cell: &CellRecord) -> Option<f64> {
    tokens(cell, Metric::OutputTokens, OUTPUT_FACTORS)
}

/// Mean prompt tokens; the factor's level (tokens or words) where prompts were not counted.
pub(crate) fn input_tokens(cell: &CellRecord) -> Option<f64> {
    tokens(cell, Metric::InputTokens, PROMPT_FACTORS)
}

fn tokens(cell: &CellRecord, metric: Metric, factors: &[&str]) -> Option<f64> {
    let asked = || factors.iter().find_map(|factor| level(cell, factor));
    mean_tokens(&cell.metrics, metric).or_else(|| asked().and_then(positive))
}

/// The mean of a token count among `metrics`.
pub(crate) fn mean_tokens(metrics: &BTreeMap<Metric, Distribution>, metric: Metric) -> Option<f64> {
    positive(metrics.get(&metric)?.mean)
}

/// A group's distribution of a metric, from the cell's headline origin where it has it, else from the other.
pub(crate) fn of_group<'a>(
    cell: &'a CellRecord,
    group: &'a GroupRecord,
    metric: Metric,
) -> Option<&'a Distribution> {
    let metrics = cell.metrics_of(group);
    metrics
        .get(&metric.from_origin(cell.headline))
        .or_else(|| metrics.get(&metric))
}

/// A value and its interval as one thing to calculate with.
pub(crate) fn estimate(value: f64, interval: Option<Interval>) -> Estimate {
    match interval {
        Some(i) if i.low.is_finite() && i.high.is_finite() => {
            Estimate::bounded(value, i.low, i.high, i.confidence)
        }
        _ => Estimate::unbounded(value, bench_metrics::LEVEL),
    }
}

/// The factors of a cell other than `without`, as one key: cells with the same key differ only in `without`.
pub(crate) fn key_without(cell: &CellRecord, without: &str) -> String {
    let rest: Vec<String> = cell
        .factors
        .iter()
        .filter(|(name, _)| name.as_str() != without)
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    rest.join(",")
}

/// Cells in series along a numeric factor: each series differs in nothing else, is sorted by level, and has two or more levels.
/// Repeated levels keep the first cell.
pub(crate) fn series<'a>(
    cells: impl IntoIterator<Item = &'a CellRecord>,
    factor: &str,
) -> Series<'a> {
    let mut places = BTreeMap::new();
    let mut groups: Vec<Vec<(f64, &CellRecord)>> = Vec::new();
    for cell in cells {
        let Some(at) = level(cell, factor) else {
            continue;
        };
        let place = *(places.entry(key_without(cell, factor))).or_insert(groups.len());
        match groups.get_mut(place) {
            Some(members) => members.push((at, cell)),
            None => groups.push(vec![(at, cell)]),
        }
    }
    groups
        .into_iter()
        .map(|mut members| {
            members.sort_by(|a, b| a.0.total_cmp(&b.0));
            members.dedup_by(|a, b| (a.0 - b.0).abs() < 1e-9);
            members
        })
        .filter(|members| members.len() > 1)
        .collect()
}

/// The slots of a closed loop whose number stays and that never wait on purpose, as users who think or talk may.
pub(crate) fn busy_slots(cell: &CellRecord) -> Option<f64> {
    let Load::Closed {
        concurrency,
        think_time: None,
        ramp: None,
    } = cell.load
    else {
        return None;
    };
    let talks = cell.groups.iter().any(|group| group.by == "turn");
    (!talks).then(|| f64::from(concurrency))
}

/// The most requests that a closed loop can have had in flight on average before it ran out of them, of those that it was asked to have. Nothing of
/// slots that wait on purpose, whose number moves or that wait for a server that refuses, nor where there was a steady part.
pub(crate) fn load_reached(cell: &CellRecord) -> Option<(f64, f64)> {
    let (counts, asked) = (&cell.counts, busy_slots(cell)?);
    let refused = counts.completed < counts.planned;
    let whole = cell.windows.whole.as_ref()?;
    if refused || cell.windows.steady.is_some() || whole.peak_in_flight == 0 {
        return None;
    }
    let (mean, seconds) = (positive(whole.mean_in_flight)?, positive(whole.seconds)?);
    if (counts.planned as f64) < asked {
        return Some((mean, asked));
    }
    // The last one started no earlier than the longest answer before the end.
    let drain = cell.metrics.get(&Metric::E2e)?.max / 1e9;
    let most = if seconds > 2.0 * drain {
        mean * seconds / (seconds - drain)
    } else {
        asked
    };
    Some((most.min(whole.peak_in_flight as f64), asked))
}

/// Whether an open loop's answers, or conversations, take longer than load was offered.
pub(crate) fn is_outlasted(cell: &CellRecord) -> bool {
    let rates = cell.headline_rates().filter(|_| cell.load.is_open());
    rates.is_some_and(|rates| rates.requests_per_s.is_none())
}

/// A closed loop that reached less than this part of its concurrency is no point of that concurrency.
pub(crate) const REACHED: f64 = 0.9;

/// Whether a cell had the load that its row says, and anything came of it.
pub(crate) fn is_reached(cell: &CellRecord) -> bool {
    throughput(cell).is_some()
        && load_reached(cell).is_none_or(|(most, asked)| most >= REACHED * asked)
}

/// The load factor that the cells scale along, with its series; without cells that never reached their load.
pub(crate) fn load_series(cells: &[CellRecord]) -> Option<(&'static str, Series<'_>)> {
    LOAD_FACTORS.iter().find_map(|factor| {
        let found = series(cells.iter().filter(|cell| is_reached(cell)), factor);
        (!found.is_empty()).then_some((*factor, found))
    })
}

/// Series of cells along one factor, each sorted by level.
pub(crate) type Series<'a> = Vec<Vec<(f64, &'a CellRecord)>>;
