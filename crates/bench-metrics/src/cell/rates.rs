//! Windows of each repeat, and what fell into them.

use std::collections::BTreeMap;

use bench_schema::{Interval, Load, Metric, Rates, Stamp, Stationarity, Window, WindowRates};

use crate::blocks::{BlockMean, Part};
use crate::estimate::{Estimate, LEVEL};
use crate::in_flight::InFlight;
use crate::ks::ks_two_samples;
use crate::memory::Memory;
use crate::num::{float, mean};
use crate::sample::Sample;
use crate::steady::{Flight, find_steady};
use crate::summary::interval_of;
use crate::tables::t_critical;
use crate::timeline::{TimeCounts, Timeline};

use super::row::Row;

/// One repeat on the time axis.
#[derive(Clone, Debug)]
pub(super) struct Repeat<'a> {
    pub(super) index: u32,
    pub(super) whole: Window,
    pub(super) steady: Option<Window>,
    stationarity: Stationarity,
    in_flight: InFlight,
    rows: &'a [Row],
}

/// A window of one repeat.
#[derive(Clone, Copy)]
struct Span<'a> {
    repeat: &'a Repeat<'a>,
    window: Window,
    /// The part of it that events are counted in: whole bins of the timeline for a steady part.
    counted: Window,
    steady: bool,
}

impl Span<'_> {
    /// The requests that started in it.
    fn rows(&self) -> impl Iterator<Item = &Row> {
        let rows = self.repeat.rows.iter();
        rows.filter(|row| !self.steady || self.window.contains(row.started()))
    }
}

/// The repeats of rows sorted by repeat and start; `warm` are repeat, start and end of warm-up requests.
pub(super) fn repeats<'a>(
    rows: &'a [Row],
    warm: &[(u32, Stamp, Stamp)],
    load: &Load,
    timeline: &Timeline,
) -> Vec<Repeat<'a>> {
    let runs = rows.chunk_by(|a, b| a.repeat() == b.repeat());
    runs.filter_map(|run| {
        let flights: Vec<Flight> = run.iter().map(flight).collect();
        let from = run.iter().map(|r| r.instants().due).min()?;
        let to = run.iter().map(Row::left).max().filter(|to| *to > from)?;
        let index = run.first()?.repeat();
        let carried = warm
            .iter()
            .filter(|(repeat, _, ended)| *repeat == index && *ended > from);
        let carried = carried.map(|(_, sent, ended)| (*sent, *ended));
        let measured = flights.iter().map(|f| (f.sent, f.ended));
        let in_flight = InFlight::of(measured.chain(carried));
        let found = find_steady(&flights, &in_flight, load);
        Some(Repeat {
            index,
            whole: Window { from, to },
            steady: found.window.filter(|w| timeline.snap(*w).is_some()),
            stationarity: found.stationarity,
            in_flight,
            rows: run,
        })
    })
    .collect()
}

fn flight(row: &Row) -> Flight {
    let instants = row.instants();
    let latency = instants.value(Metric::Ttft).filter(|_| instants.completed);
    let sent = row.started();
    Flight {
        sent,
        // one that never reached the server is none of its load
        ended: instants.sent.and(instants.ended()).unwrap_or(sent),
        latency,
        tokens: instants.tokens,
        cancelled: !row.counts(),
        lost: row.lost,
    }
}

/// The steady window of each repeat; none unless every repeat has one, so that all tables have one population.
pub(super) fn steady_windows(repeats: &[Repeat<'_>]) -> BTreeMap<u32, Window> {
    let all: Option<BTreeMap<u32, Window>> =
        repeats.iter().map(|r| Some((r.index, r.steady?))).collect();
    all.unwrap_or_default()
}

/// Rates over whole and steady windows, repeats together.
pub(super) fn window_rates(
    repeats: &[Repeat<'_>],
    steady: &BTreeMap<u32, Window>,
    load: &Load,
    timeline: &Timeline,
) -> WindowRates {
    let whole: Vec<Span<'_>> = repeats
        .iter()
        .map(|repeat| Span {
            repeat,
            window: repeat.whole,
            counted: repeat.whole,
            steady: false,
        })
        .collect();
    let steady: Vec<Span<'_>> = repeats
        .iter()
        .filter_map(|repeat| {
            let window = *steady.get(&repeat.index)?;
            Some(Span {
                repeat,
                window,
                counted: timeline.snap(window)?,
                steady: true,
            })
        })
        .collect();
    WindowRates {
        whole: rates(&whole, load, timeline),
        steady: rates(&steady, load, timeline),
        stationarity: stationarity(repeats),
    }
}

/// The stationarity of all repeats: that of the first one that is worst.
fn stationarity(repeats: &[Repeat<'_>]) -> Option<Stationarity> {
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
        let found = repeats.iter().filter(|r| r.steady.is_some()).count();
        worst_of_all.reason = format!(
            "{} (repeat {}; {found} of {} repeats have a steady part)",
            worst_of_all.reason,
            worst.index,
            repeats.len()
        );
    }
    Some(worst_of_all)
}

fn rates(spans: &[Span<'_>], load: &Load, timeline: &Timeline) -> Option<Rates> {
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
    let output = per_event.map(|_| tokens_of(&total) / counted_seconds);
    let area = |s: &Span<'_>| {
        s.repeat.in_flight.mean(s.window).unwrap_or(0.0) * s.window.length().as_secs_f64()
    };
    let mean_in_flight = spans.iter().map(area).sum::<f64>() / seconds;
    let requests = spans.iter().flat_map(Span::rows).count();
    let followed = load.is_open().then(|| Followed::of(spans)).flatten();
    let (requests_per_s, requests_per_s_interval) = if load.is_open() {
        followed.map(|followed| (followed.served, followed.interval))
    } else if spans.iter().all(|s| s.steady) {
        by_littles_law(spans, mean_in_flight)
    } else {
        None
    }
    .unwrap_or_else(|| counted_out(spans, seconds, timeline));
    Some(Rates {
        window: spans.first()?.window,
        seconds,
        requests: Some(requests as u64),
        requests_per_s,
        requests_per_s_interval,
        offered_requests_per_s: load.is_open().then(|| offered(spans)).flatten(),
        served_requests_per_s: followed.map(|f| f.served),
        output_tokens_per_s: output,
        output_tokens_per_s_interval: output
            .and_then(|value| around(value, spans, timeline, &tokens_of)),
        total_tokens_per_s: output.map(|rate| rate + total.input_tokens as f64 / counted_seconds),
        chunks_per_s: total.events as f64 / counted_seconds,
        mean_in_flight,
        peak_in_flight: spans
            .iter()
            .map(|s| s.repeat.in_flight.peak_within(s.window))
            .max()
            .unwrap_or(0),
    })
}

/// What completed over the time, where nothing better is known.
fn counted_out(spans: &[Span<'_>], seconds: f64, timeline: &Timeline) -> (f64, Option<Interval>) {
    let completed = spans.iter().flat_map(Span::rows).filter(|r| r.completed());
    let rate = float(completed.count()) / seconds;
    (rate, around(rate, spans, timeline, &|c| c.completed as f64))
}

/// An interval around an exact rate, as wide as the bins of time make it.
fn around(
    value: f64,
    spans: &[Span<'_>],
    timeline: &Timeline,
    count: &dyn Fn(&TimeCounts) -> f64,
) -> Option<Interval> {
    let parts: Vec<Part> = spans
        .iter()
        .flat_map(|s| timeline.parts(s.counted, count))
        .collect();
    let error = BlockMean::of_parts(&parts)?;
    let (low, high) = BlockMean { value, ..error }.interval(LEVEL).bounds()?;
    interval_of(low.max(0.0), high, LEVEL)
}

/// A closed loop's rate by Little's law, `X = L / W` times the share that completed: L the mean in flight while the load was whole, W the
/// mean time in the system of the requests that started then. Exact for loads that finish in waves, where the number of ends in a window
/// says more of where it was cut than of the server. The interval is that of W, which lies between the shortest and the longest stay seen.
fn by_littles_law(spans: &[Span<'_>], mean_in_flight: f64) -> Option<(f64, Option<Interval>)> {
    let mut stays = Vec::new();
    let (mut ended, mut completed) = (0_usize, 0_usize);
    for row in spans.iter().flat_map(Span::rows) {
        ended += 1;
        completed += usize::from(row.completed());
        if let (Some(sent), Some(left)) = (row.instants().sent, row.instants().ended()) {
            stays.push((left - sent).as_secs_f64());
        }
    }
    let stay = mean(&stays).filter(|stay| *stay > 0.0)?;
    let shortest = stays.iter().copied().fold(f64::INFINITY, f64::min);
    let longest = stays.iter().copied().fold(0.0, f64::max);
    let throughput = mean_in_flight * float(completed) / float(ended);
    let bounds = BlockMean::of_values(&stays).and_then(|m| m.interval(LEVEL).bounds());
    let interval = bounds
        .map(|(low, high)| (low.max(shortest), high.min(longest)))
        .filter(|(low, _)| *low > 0.0)
        .and_then(|(low, high)| interval_of(throughput / high, throughput / low, LEVEL));
    Some((throughput / stay, interval))
}

/// Requests due per second, first due to last due; those due together at the last stand for the time after it.
fn offered(spans: &[Span<'_>]) -> Option<f64> {
    per_second(spans.iter().map(|span| {
        let due = span.rows().map(|row| row.instants().due);
        due.map(|due| (due, due)).collect()
    }))
}

/// Events per second from the first to the last of them, each with the instant it was due, repeats together: those due together at the
/// last are left out, since the time that they stand for is not in it. `None` where no time passed.
fn per_second(repeats: impl Iterator<Item = Vec<(Stamp, Stamp)>>) -> Option<f64> {
    let (mut events, mut seconds) = (0_usize, 0.0);
    for run in repeats {
        let at = || run.iter().map(|(at, _)| *at);
        let last_due = run.iter().map(|(_, due)| *due).max();
        if let (Some(first), Some(last)) = (at().min(), at().max()) {
            events += run.iter().filter(|(_, due)| Some(*due) < last_due).count();
            seconds += (last - first).as_secs_f64();
        }
    }
    (seconds > 0.0).then(|| float(events) / seconds)
}

/// An open loop's requests followed to their ends: how many of those offered in a second were served in one.
#[derive(Clone, Copy)]
struct Followed {
    served: f64,
    interval: Option<Interval>,
}

impl Followed {
    /// Completed requests below which growth cannot be told from chance.
    const FEWEST: usize = 10;

    /// What is served falls behind what is offered by the growth of the time that requests take: when those due a second later take
    /// g seconds longer, ends come 1 + g times as far apart as starts. So the rate is that offered over 1 + g, times the share that
    /// completed, however long the last answers take. A queue does not shrink below none: g is not negative.
    fn of(spans: &[Span<'_>]) -> Option<Self> {
        let offered = offered(spans)?;
        let rows = || spans.iter().flat_map(Span::rows);
        let completed = float(rows().filter(|row| row.completed()).count());
        let share = completed / float(rows().count());
        let (growth, most) = growth(spans)?;
        let served = |g: f64| offered * share / (1.0 + g.max(0.0));
        Some(Self {
            served: served(growth.value),
            interval: growth
                .low
                .and_then(|low| interval_of(served(most), served(low), LEVEL)),
        })
    }
}

/// By how many seconds the time that requests take grows in a second, with what their lengths explain taken out, and the upper end of it.
fn growth(spans: &[Span<'_>]) -> Option<(Estimate, f64)> {
    let mut points: Vec<[f64; 3]> = Vec::new();
    for span in spans {
        let rows: Vec<&Row> = span.rows().filter(|row| row.completed()).collect();
        let Some(first) = rows.iter().map(|row| row.instants().due).min() else {
            continue;
        };
        let of = |row: &&Row| {
            let due = row.instants().due;
            let tokens = row.instants().tokens.unwrap_or(0);
            [
                (due - first).as_secs_f64(),
                tokens as f64,
                (row.left() - due).as_secs_f64(),
            ]
        };
        let own: Vec<[f64; 3]> = rows.iter().map(of).collect();
        let centre =
            [0, 1, 2].map(|i| mean(&own.iter().map(|p| p[i]).collect::<Vec<_>>()).unwrap_or(0.0));
        points.extend(
            own.iter()
                .map(|p| [p[0] - centre[0], p[1] - centre[1], p[2] - centre[2]]),
        );
    }
    if points.len() < Followed::FEWEST {
        return None;
    }
    let dot = |i: usize, j: usize| points.iter().map(|p| p[i] * p[j]).sum::<f64>();
    let (due, both, tokens) = (dot(0, 0), dot(0, 1), dot(1, 1));
    // Lengths that do not vary, or only with time, explain nothing.
    let by_length = if due * tokens - both * both > 1e-6 * due * tokens {
        (due * dot(1, 2) - both * dot(0, 2)) / (due * tokens - both * both)
    } else {
        0.0
    };
    if due <= 0.0 {
        return None;
    }
    let value = (dot(0, 2) - by_length * both) / due;
    let left: Vec<f64> = points
        .iter()
        .map(|p| p[2] - value * p[0] - by_length * p[1])
        .collect();
    let inflation = Memory::of(&left).of_mean();
    let df = (float(left.len()) / inflation - 3.0).max(1.0);
    let squares: f64 = left.iter().map(|r| r * r).sum();
    let error = (squares / float(left.len() - 3) / due * inflation).sqrt();
    let half = t_critical(LEVEL, df) * error;
    Some((
        Estimate::bounded(value, value - half, value + half, LEVEL),
        value + half,
    ))
}

/// Length of the whole windows in seconds: what goodput is over.
pub(super) fn whole_seconds(repeats: &[Repeat<'_>]) -> f64 {
    repeats.iter().map(|r| r.whole.length().as_secs_f64()).sum()
}

/// Requests offered per second, first to last of each repeat; `None` where no time passed. One that found nobody to take it was offered
/// all the same.
pub(super) fn offered_rate(rows: &[Row]) -> Option<f64> {
    per_second(rows.chunk_by(|a, b| a.repeat() == b.repeat()).map(|run| {
        let offered = |r: &Row| r.instants().sent.or(r.instants().dispatched);
        let stamped = run.iter().map(|r| (offered(r), r.instants().due));
        stamped.filter_map(|(at, due)| Some((at?, due))).collect()
    }))
}

/// KS distance between planned gaps (due) and real ones (sent), of requests that were sent.
pub(super) fn gaps_ks(rows: &[Row]) -> Option<f64> {
    let (mut planned, mut real) = (Vec::new(), Vec::new());
    for run in rows.chunk_by(|a, b| a.repeat() == b.repeat()) {
        let mut due: Vec<_> = run
            .iter()
            .filter(|r| r.instants().sent.is_some())
            .map(|r| r.instants().due)
            .collect();
        let mut sent: Vec<_> = run.iter().filter_map(|r| r.instants().sent).collect();
        due.sort_unstable();
        sent.sort_unstable();
        planned.extend(due.windows(2).map(|w| (w[1] - w[0]).as_f64()));
        real.extend(sent.windows(2).map(|w| (w[1] - w[0]).as_f64()));
    }
    Some(ks_two_samples(&Sample::of(&planned)?, &Sample::of(&real)?))
}
