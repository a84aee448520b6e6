//! The part of a run in which its load was whole, and a test of it for trends.

use bench_schema::{Load, Stamp, Stationarity, Window};

use crate::density::bin_by_time;
use crate::fit::linear_fit;
use crate::in_flight::InFlight;
use crate::num::{float, mean};

/// A steady part is the headline only where it holds more than this share of all requests.
const LEAST_SHARE: f64 = 0.80;
/// Where more than this share of the requests was lost, nothing is cut: an outage must not look like a drain.
const LOST_SHARE: f64 = 0.01;
/// Fewer requests than this are not tested for trends.
const FEWEST: usize = 20;
/// Bins of the trend test.
const BINS: i64 = 20;
/// The same, as a length.
const MANY_BINS: usize = 20;
/// A trend is one that is significant at this level …
const TREND_LEVEL: f64 = 0.99;
/// … and moves the figure by more than this share over the window.
const TREND_SHARE: f64 = 0.10;

/// One request on the time axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Flight {
    /// When it was sent; of one that never was, when it should have been.
    pub sent: Stamp,
    /// When it left; of one that was never sent, the same instant.
    pub ended: Stamp,
    /// Its TTFT (or another latency), where it has one.
    pub latency: Option<f64>,
    /// Its output tokens, where known.
    pub tokens: Option<u64>,
    /// Whether the client stopped it, at the end of a timed cell for instance.
    pub cancelled: bool,
    /// Whether it failed, timed out, was cut short or was never sent.
    pub lost: bool,
}

/// What was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Steady {
    /// The steady window; absent where everything counts.
    pub window: Option<Window>,
    /// Whether the load's full part is stationary, and how the window was found or why there is none.
    pub stationarity: Stationarity,
}

/// Finds the steady part of one repeat; `in_flight` is made of its requests and of those of the warm-up that were still under way. Only the number in flight is looked at, never the latencies that are reported over it.
///
/// - *Closed loop*: from when the concurrency (95 % of it from 20 on) was first reached to when it last was. Where nothing had ended before it was reached, it
///   begins with the first request: a first wave that is sent at once is part of the load. With think time, from when the number
///   in flight first reached its median to the last request sent.
/// - Where requests were cancelled at the end, it ends with the first of them that was sent: of the later ones only the short ones
///   completed.
/// - *Open loop*: there is none, and every request counts.
///
/// It is a window only where it holds more than 80 % of the requests and at most 1 % of them were lost. Lines through twenty bins of
/// latency, output tokens/s and, in an open loop, number in flight test the full part for trends: a slope that is significant at 99 %
/// and worth more than 10 % over the window makes it not stationary.
pub fn find_steady(flights: &[Flight], in_flight: &InFlight, load: &Load) -> Steady {
    let mut flights = flights.to_vec();
    flights.sort_by_key(|f| f.sent);
    let found = full_load(&flights, in_flight, load)
        .map(|(full, how)| before_cancelled(full, how, &flights));
    let (full, how) = match found {
        Ok(found) => found,
        Err(reason) => {
            return Steady {
                window: None,
                stationarity: Stationarity {
                    stationary: None,
                    reason,
                },
            };
        }
    };
    let started: Vec<Flight> = flights
        .iter()
        .copied()
        .filter(|f| full.contains(f.sent))
        .collect();
    let (window, how) = match why_whole(&flights, &started, load) {
        Some(why) => (None, format!("{why}: every request counts; tested {how}")),
        None => (Some(full), how),
    };
    let (stationary, tested) = match trend(&started, &flights, in_flight, full, load) {
        Trend::Untested => (None, "too short to test for trends".to_owned()),
        Trend::Absent => (Some(true), "no trend found".to_owned()),
        Trend::Found(trend) => (Some(false), trend),
    };
    Steady {
        window,
        stationarity: Stationarity {
            stationary,
            reason: format!("{how}; {tested}"),
        },
    }
}

/// Why nothing is cut although the load had a full part; nothing where it is the window.
fn why_whole(all: &[Flight], started: &[Flight], load: &Load) -> Option<String> {
    let (n, held) = (all.len(), started.len());
    let lost = all.iter().filter(|f| f.lost).count();
    if load.is_open() {
        Some("an open loop".to_owned())
    } else if float(lost) > LOST_SHARE * float(n) {
        Some(format!("{lost} of {n} requests were lost"))
    } else if float(held) <= LEAST_SHARE * float(n) {
        Some(format!("the full part holds {held} of {n} requests"))
    } else {
        None
    }
}

/// The window without ramp-up and drain, and how it was found; or why there is none.
fn full_load(
    flights: &[Flight],
    in_flight: &InFlight,
    load: &Load,
) -> Result<(Window, String), String> {
    if load.ramp().is_some() {
        return Err("the number in flight is moved over the cell".to_owned());
    }
    let (Some(first), Some(last)) = (flights.first(), flights.last()) else {
        return Err("there were no requests".to_owned());
    };
    if let Load::Closed {
        concurrency,
        think_time: None,
        ..
    } = load
    {
        // A twentieth less is full as well: between two requests of a slot there is a moment.
        let full = in_flight.span_at_least(u64::from(concurrency - concurrency / 20));
        let full = full.ok_or_else(|| {
            format!(
                "the number in flight reached {} of {concurrency}",
                in_flight.peak()
            )
        })?;
        let at_once = flights.iter().all(|f| f.ended >= full.from);
        let from = if at_once {
            first.sent
        } else {
            full.from.max(first.sent)
        };
        return Ok((
            Window { from, ..full },
            format!("while {concurrency} were in flight"),
        ));
    }
    let arrivals = Window {
        from: first.sent,
        to: last.sent,
    };
    let usual = in_flight.median(arrivals);
    let reached = in_flight
        .steps()
        .iter()
        .find(|s| s.1 >= usual)
        .map_or(first.sent, |s| s.0);
    if reached >= last.sent {
        return Err("the number in flight grew until the last request was sent".to_owned());
    }
    let how = format!("from when {usual} (the median) were in flight to the last request sent");
    Ok((
        Window {
            from: reached,
            to: last.sent,
        },
        how,
    ))
}

/// Ends the window where the first request was sent that was cancelled later, unless that leaves too little: then requests are
/// cancelled all along, and not at the end.
fn before_cancelled(full: Window, how: String, flights: &[Flight]) -> (Window, String) {
    let cancelled = flights
        .iter()
        .filter(|f| f.cancelled && full.contains(f.sent));
    let Some(first) = cancelled.map(|f| f.sent).min() else {
        return (full, how);
    };
    let shorter = Window { to: first, ..full };
    let left = flights.iter().filter(|f| shorter.contains(f.sent)).count();
    if float(left) <= LEAST_SHARE * float(flights.len()) {
        return (full, how);
    }
    (
        shorter,
        format!("{how}, before the first request that was cancelled"),
    )
}

/// The outcome of a test for a trend.
enum Trend {
    Untested,
    Absent,
    /// In words.
    Found(String),
}

/// Tests latency, output rate and, in an open loop, the number in flight.
fn trend(
    started: &[Flight],
    all: &[Flight],
    in_flight: &InFlight,
    window: Window,
    load: &Load,
) -> Trend {
    if started.len() < FEWEST {
        return Trend::Untested;
    }
    let (from, to) = (window.from.as_secs_f64(), window.to.as_secs_f64());
    let middle = |start: f64, end: f64| f64::midpoint(start, end);
    let latency = bin_by_time(
        started
            .iter()
            .filter_map(|f| Some((f.sent.as_secs_f64(), f.latency?))),
        from,
        to,
        MANY_BINS,
    );
    let latency: Vec<(f64, f64)> = latency
        .iter()
        .filter_map(|b| Some((middle(b.start, b.end), b.mean()?)))
        .collect();
    let tokens = bin_by_time(all.iter().flat_map(spread_tokens), from, to, MANY_BINS);
    let tokens: Vec<(f64, f64)> = tokens
        .iter()
        .map(|b| (middle(b.start, b.end), b.rate()))
        .collect();
    let mut series = vec![("latency", latency), ("output tokens/s", tokens)];
    if load.is_open() {
        let width = window.length().get() / BINS;
        let edge = |b: i64| Stamp::new(window.from.get() + b * width);
        let bins = (0..BINS).map(|b| Window {
            from: edge(b),
            to: edge(b + 1),
        });
        let level = bins.filter_map(|bin| Some((bin.from.as_secs_f64(), in_flight.mean(bin)?)));
        series.push(("number in flight", level.collect()));
    }
    let tested: Vec<Trend> = series
        .iter()
        .map(|(name, points)| drift(name, points, to - from))
        .collect();
    if tested.iter().all(|t| matches!(t, Trend::Untested)) {
        return Trend::Untested;
    }
    let found: Vec<String> = tested
        .into_iter()
        .filter_map(|t| {
            if let Trend::Found(words) = t {
                Some(words)
            } else {
                None
            }
        })
        .collect();
    if found.is_empty() {
        Trend::Absent
    } else {
        Trend::Found(format!("not stationary: {}", found.join(", ")))
    }
}

/// A request's tokens spread evenly over its decode, as ten weights: fine enough for twenty bins.
fn spread_tokens(flight: &Flight) -> impl Iterator<Item = (f64, f64)> + use<> {
    let tokens = flight.tokens.unwrap_or(0) as f64;
    let (end, start) = (flight.ended.as_secs_f64(), flight.sent.as_secs_f64());
    let start = (start + flight.latency.unwrap_or(0.0) / 1e9).min(end);
    (0..10).map(move |i| {
        (
            start + (end - start) * (f64::from(i) + 0.5) / 10.0,
            tokens / 10.0,
        )
    })
}

/// A line through the points that is steep and certain enough to be a trend.
fn drift(name: &str, points: &[(f64, f64)], span: f64) -> Trend {
    let level = mean(&points.iter().map(|p| p.1).collect::<Vec<_>>()).filter(|m| *m > 0.0);
    let (Some(level), Some(fit)) = (level, linear_fit(points, TREND_LEVEL)) else {
        return Trend::Untested;
    };
    if points.len() < MANY_BINS / 2 {
        return Trend::Untested;
    }
    let share = fit.slope.value * span / level;
    if fit.slope.covers(0.0) || share.abs() <= TREND_SHARE {
        return Trend::Absent;
    }
    let way = if share > 0.0 { "rises" } else { "falls" };
    Trend::Found(format!(
        "{name} {way} by {:.0} % over the window",
        100.0 * share.abs()
    ))
}
