//! Windows of each repeat, and what fell into them.

use std::collections::BTreeMap;

use bench_schema::{Load, Rates, Stamp, Stationarity, Window, WindowRates};

use crate::blocks::{BlockMean, Part};
use crate::estimate::LEVEL;
use crate::in_flight::InFlight;
use crate::ks::ks_two_samples;
use crate::num::float;
use crate::sample::Sample;
use crate::steady::{Flight, find_steady};
use crate::summary::interval;
use crate::timeline::{TimeCounts, Timeline};

use super::rows::Row;

/// One repeat on the time axis.
#[derive(Clone, Debug)]
pub(super) struct Repeat {
    pub(super) index: u32,
    pub(super) whole: Window,
    pub(super) steady: Option<Window>,
    stationarity: Stationarity,
    in_flight: InFlight,
    /// When each completed request ended.
    ends: Vec<Stamp>,
}

impl Repeat {
    /// Requests completed in a window. Its end belongs to it: a steady part ends as a request does, and that one was served
    /// within it.
    fn completed(&self, window: Window) -> u64 {
        self.ends
            .iter()
            .filter(|end| window.from < **end && **end <= window.to)
            .count() as u64
    }
}

/// A window of one repeat.
#[derive(Clone, Copy)]
struct Span<'a> {
    repeat: &'a Repeat,
    window: Window,
    /// The part of it that events are counted in: whole bins of the timeline for a steady part.
    counted: Window,
}

/// The repeats of rows sorted by repeat and start.
pub(super) fn repeats(rows: &[Row], load: &Load, timeline: &Timeline) -> Vec<Repeat> {
    let runs = rows.chunk_by(|a, b| a.repeat == b.repeat);
    runs.filter_map(|run| {
        let flights: Vec<Flight> = run.iter().filter_map(flight).collect();
        let from = flights.iter().map(|f| f.sent).min()?;
        let ends = run
            .iter()
            .filter(|r| r.instants.sent.is_some())
            .filter_map(|r| r.instants.last.or(r.instants.closed));
        let to = ends.max().filter(|to| *to > from)?;
        let found = find_steady(&flights, load);
        let in_flight = InFlight::of(flights.iter().map(|f| (f.sent, f.ended)));
        let steady = found.window.filter(|w| timeline.snap(*w).is_some());
        let completed = run.iter().filter(|r| r.instants.completed);
        Some(Repeat {
            index: run.first()?.repeat,
            whole: Window { from, to },
            steady,
            stationarity: found.stationarity,
            in_flight,
            ends: completed
                .filter_map(|r| r.instants.last.or(r.instants.closed))
                .collect(),
        })
    })
    .collect()
}

fn flight(row: &Row) -> Option<Flight> {
    let instants = &row.instants;
    let latency = instants
        .value(bench_schema::Metric::Ttft)
        .filter(|_| instants.completed);
    Some(Flight {
        sent: instants.sent?,
        ended: instants.ended()?,
        latency,
        tokens: instants.tokens,
        cancelled: !row.counts(),
    })
}

/// Rates over whole and steady windows, repeats together.
pub(super) fn window_rates(repeats: &[Repeat], timeline: &Timeline) -> WindowRates {
    let whole: Vec<Span<'_>> = repeats
        .iter()
        .map(|repeat| Span {
            repeat,
            window: repeat.whole,
            counted: repeat.whole,
        })
        .collect();
    let steady = |repeat| {
        Some(Span {
            repeat,
            window: repeat.steady?,
            counted: timeline.snap(repeat.steady?)?,
        })
    };
    let steady: Vec<Span<'_>> = repeats.iter().filter_map(steady).collect();
    WindowRates {
        whole: rates(&whole, timeline),
        steady: rates(&steady, timeline),
        stationarity: stationarity(repeats, steady.len()),
    }
}

/// The stationarity of all repeats: that of the first one that is worst.
fn stationarity(repeats: &[Repeat], found: usize) -> Option<Stationarity> {
    let badness = |s: &Stationarity| match s.stationary {
        Some(false) => 2,
        None => 1,
        Some(true) => 0,
    };
    // The first of the worst: max_by_key alone would give the last.
    let worst = repeats
        .iter()
        .rev()
        .max_by_key(|r| badness(&r.stationarity))?;
    let mut worst_of_all = worst.stationarity.clone();
    if repeats.len() > 1 {
        worst_of_all.reason = format!(
            "{} (repeat {}; {found} of {} repeats have a steady part)",
            worst_of_all.reason,
            worst.index,
            repeats.len()
        );
    }
    Some(worst_of_all)
}

fn rates(spans: &[Span<'_>], timeline: &Timeline) -> Option<Rates> {
    let length = |of: fn(&Span<'_>) -> Window| {
        spans
            .iter()
            .map(|s| of(s).length().as_secs_f64())
            .sum::<f64>()
    };
    let (seconds, counted_seconds) = (length(|s| s.window), length(|s| s.counted));
    if seconds <= 0.0 || counted_seconds <= 0.0 {
        return None;
    }
    let mut total = TimeCounts::default();
    for span in spans {
        total.add(&timeline.total(span.counted));
    }
    // Events of requests that were cut off before the server told their tokens: as many tokens each as the others have.
    let counted = total.events - total.uncounted_events;
    let per_event = if counted > 0 {
        Some(total.tokens / counted as f64)
    } else {
        None
    };
    let tokens_of =
        |c: &TimeCounts| c.tokens + c.uncounted_events as f64 * per_event.unwrap_or(0.0);
    let block_mean = |count: &dyn Fn(&TimeCounts) -> f64| {
        let parts: Vec<Part> = spans
            .iter()
            .flat_map(|s| timeline.parts(s.counted, count))
            .collect();
        BlockMean::of_parts(&parts)
    };
    // The interval's width is that of the bins, its centre the exact rate.
    let around = |value: f64, error: Option<BlockMean>| {
        interval(&BlockMean { value, ..error? }.interval(LEVEL))
    };
    let requests_per_s = spans
        .iter()
        .map(|s| s.repeat.completed(s.window))
        .sum::<u64>() as f64
        / seconds;
    let output = per_event.map(|_| tokens_of(&total) / counted_seconds);
    let area = |s: &Span<'_>| {
        s.repeat.in_flight.mean(s.window).unwrap_or(0.0) * s.window.length().as_secs_f64()
    };
    Some(Rates {
        window: spans.first()?.window,
        seconds,
        requests_per_s,
        requests_per_s_interval: around(requests_per_s, block_mean(&|c| c.completed as f64)),
        output_tokens_per_s: output,
        output_tokens_per_s_interval: output
            .and_then(|value| around(value, block_mean(&tokens_of))),
        total_tokens_per_s: output.map(|rate| rate + total.input_tokens as f64 / counted_seconds),
        chunks_per_s: total.events as f64 / counted_seconds,
        mean_in_flight: spans.iter().map(area).sum::<f64>() / seconds,
        peak_in_flight: spans
            .iter()
            .map(|s| s.repeat.in_flight.peak_within(s.window))
            .max()
            .unwrap_or(0),
    })
}

/// Length of the headline windows in seconds.
pub(super) fn headline_seconds(repeats: &[Repeat], steady: &BTreeMap<u32, Window>) -> f64 {
    let window = |r: &Repeat| {
        if steady.is_empty() {
            Some(r.whole)
        } else {
            r.steady
        }
    };
    repeats
        .iter()
        .filter_map(window)
        .map(|w| w.length().as_secs_f64())
        .sum()
}

/// Requests sent per second, first to last sent of each repeat; `None` below two.
pub(super) fn offered_rate(rows: &[Row]) -> Option<f64> {
    let (mut gaps, mut seconds) = (0_usize, 0.0);
    for run in rows.chunk_by(|a, b| a.repeat == b.repeat) {
        let sent: Vec<_> = run.iter().filter_map(|r| r.instants.sent).collect();
        if let (Some(first), Some(last)) = (sent.iter().min(), sent.iter().max()) {
            gaps += sent.len() - 1;
            seconds += (*last - *first).as_secs_f64();
        }
    }
    (seconds > 0.0).then(|| float(gaps) / seconds)
}

/// KS distance between planned gaps (due) and real ones (sent), of requests that were sent.
pub(super) fn gaps_ks(rows: &[Row]) -> Option<f64> {
    let (mut planned, mut real) = (Vec::new(), Vec::new());
    for run in rows.chunk_by(|a, b| a.repeat == b.repeat) {
        let mut due: Vec<_> = run
            .iter()
            .filter(|r| r.instants.sent.is_some())
            .map(|r| r.instants.due)
            .collect();
        let mut sent: Vec<_> = run.iter().filter_map(|r| r.instants.sent).collect();
        due.sort_unstable();
        sent.sort_unstable();
        planned.extend(due.windows(2).map(|w| (w[1] - w[0]).as_f64()));
        real.extend(sent.windows(2).map(|w| (w[1] - w[0]).as_f64()));
    }
    Some(ks_two_samples(&Sample::of(&planned)?, &Sample::of(&real)?))
}
