//! Windows of each repeat, and what fell into them.

use std::collections::BTreeMap;

use bench_schema::{Load, Rates, Stationarity, Window, WindowRates};

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
        let steady = found.window.and_then(|w| timeline.snap(w));
        Some(Repeat {
            index: run.first()?.repeat,
            whole: Window { from, to },
            steady,
            stationarity: found.stationarity,
            in_flight,
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
    let whole: Vec<(&Repeat, Window)> = repeats.iter().map(|r| (r, r.whole)).collect();
    let steady: Vec<(&Repeat, Window)> = repeats
        .iter()
        .filter_map(|r| Some((r, r.steady?)))
        .collect();
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

fn rates(windows: &[(&Repeat, Window)], timeline: &Timeline) -> Option<Rates> {
    let window = windows.first()?.1;
    let seconds: f64 = windows.iter().map(|(_, w)| w.length().as_secs_f64()).sum();
    if seconds <= 0.0 {
        return None;
    }
    let mut total = TimeCounts::default();
    for (_, window) in windows {
        total.add(&timeline.total(*window));
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
    let parts = |count: &dyn Fn(&TimeCounts) -> f64| -> Vec<Part> {
        windows
            .iter()
            .flat_map(|(_, w)| timeline.parts(*w, count))
            .collect()
    };
    let rate_interval = |count: &dyn Fn(&TimeCounts) -> f64| {
        BlockMean::of_parts(&parts(count)).and_then(|m| interval(&m.interval(LEVEL)))
    };
    let output = per_event.map(|_| tokens_of(&total));
    let area =
        |(r, w): &(&Repeat, Window)| r.in_flight.mean(*w).unwrap_or(0.0) * w.length().as_secs_f64();
    Some(Rates {
        window,
        seconds,
        requests_per_s: total.completed as f64 / seconds,
        requests_per_s_interval: rate_interval(&|c| c.completed as f64),
        output_tokens_per_s: output.map(|n| n / seconds),
        output_tokens_per_s_interval: output.and_then(|_| rate_interval(&tokens_of)),
        total_tokens_per_s: output.map(|n| (n + total.input_tokens as f64) / seconds),
        chunks_per_s: total.events as f64 / seconds,
        mean_in_flight: windows.iter().map(area).sum::<f64>() / seconds,
        peak_in_flight: windows
            .iter()
            .map(|(r, w)| r.in_flight.peak_within(*w))
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
