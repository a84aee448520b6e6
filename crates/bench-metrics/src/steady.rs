//! The part of a run in which its load was whole, and a test of it for trends.

use bench_schema::{ArrivalKind, Load, Nanos, Stamp, Stationarity, Window};

use crate::change::bin_by_time;
use crate::fit::linear_fit;
use crate::in_flight::InFlight;
use crate::memory::lag_one;
use crate::num::{float, mean, sum};

/// A steady part is the headline only where it holds more than this share of all requests: of a closed loop in equal waves at least the first of two.
const LEAST_SHARE: f64 = 0.50;
/// Where more than this share of the requests was lost, nothing is cut: an outage must not look like a drain.
const LOST_SHARE: f64 = 0.01;
/// Fewer requests than this are not tested for trends; fewer than three times as many in an open loop, where by chance alone more may
/// arrive early than late, and wait for each other.
const FEWEST: usize = 20;
/// Bins of the trend test.
const BINS: i64 = 20;
/// The same, as a length.
const MANY_BINS: usize = 20;
/// A trend is one that is significant at this level, in each of up to three figures of every cell, neighbours' likeness considered …
const TREND_LEVEL: f64 = 0.999;
/// … and moves the figure by more than this share over the window.
const TREND_SHARE: f64 = 0.10;
/// A last third that is so many times the first, or the first the last, is told although it is not significant.
const MUCH: f64 = 1.5;

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

/// Finds the steady part of one repeat, of which `flights` are the requests in the order they were sent; `in_flight` is made of them and of those of the warm-up that were still under way. Only the number in flight is looked at, never the latencies that are reported over it.
///
/// - *Closed loop*: from when the concurrency (95 % of it from 20 on) was first reached to when it last was. Where nothing had ended before it was reached, it
///   begins with the first request: a first wave that is sent at once is part of the load. With think time, from when the number
///   in flight first reached its median to the last request sent.
/// - Where requests were cancelled at the end, it ends with the first of them that was sent: of the later ones only the short ones
///   completed.
/// - *Open loop*: there is none, and every request counts.
///
/// It is a window only where it holds more than half of the requests and at most 1 % of them were lost. Lines through twenty bins of
/// latency, time per token and, in an open loop of one rate, number in flight (what the arrivals made of it taken out) test the full part for trends: a slope that is significant at 99.9 %, the likeness
/// of neighbours and of requests that were under way together considered, and worth more than 10 % over the window makes it not stationary.
pub fn find_steady(
    flights: impl DoubleEndedIterator<Item = Flight> + Clone,
    in_flight: &InFlight,
    load: &Load,
) -> Steady {
    let found = full_load(flights.clone(), in_flight, load)
        .map(|(full, how)| before_cancelled(full, how, flights.clone()));
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
    let begun = |f: &Flight| f.sent >= full.from;
    let started = flights.clone().skip_while(|f| !begun(f));
    let started = started.take_while(|f| full.contains(f.sent));
    let (window, how) = match why_whole(flights, started.clone(), load) {
        Some(why) => (
            None,
            format!("tested {how}; all requests are used because {why}"),
        ),
        None => (Some(full), how),
    };
    let (stationary, tested) = match trend(&started, in_flight, full, load) {
        Trend::Untested => (None, "too short to test for trends".to_owned()),
        Trend::Absent => (Some(true), "no trend found".to_owned()),
        Trend::Unclear(change) => (
            None,
            format!("cannot tell: {change}, which may be chance in so short a time"),
        ),
        Trend::Found(trend) => (Some(false), trend),
    };
    Steady {
        window,
        stationarity: Stationarity {
            stationary,
            reason: format!("{tested} ({how})"),
        },
    }
}

/// Why nothing is cut although the load had a full part; nothing where it is the window.
fn why_whole(
    all: impl Iterator<Item = Flight> + Clone,
    started: impl Iterator<Item = Flight>,
    load: &Load,
) -> Option<String> {
    if load.is_open() {
        return Some("the load is an open loop".to_owned());
    }
    let (n, held) = (all.clone().count(), started.count());
    let lost = all.filter(|f| f.lost).count();
    if float(lost) > LOST_SHARE * float(n) {
        Some(format!("{lost} of {n} requests were lost"))
    } else if float(held) <= LEAST_SHARE * float(n) {
        Some(format!(
            "the part at full load holds only {held} of {n} requests"
        ))
    } else {
        None
    }
}

/// The window without ramp-up and drain, and how it was found; or why there is none.
fn full_load(
    mut flights: impl DoubleEndedIterator<Item = Flight> + Clone,
    in_flight: &InFlight,
    load: &Load,
) -> Result<(Window, String), String> {
    if load.ramp().is_some() {
        return Err("the load is ramped over the cell".to_owned());
    }
    let all = flights.clone();
    let Some(first) = flights.next() else {
        return Err("there were no requests".to_owned());
    };
    let last = flights.next_back().unwrap_or(first);
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
                "the number in flight reached only {} of {concurrency}",
                in_flight.peak()
            )
        })?;
        let at_once = all.clone().all(|f| f.ended >= full.from);
        let from = if at_once {
            first.sent
        } else {
            full.from.max(first.sent)
        };
        return Ok((
            Window { from, ..full },
            format!("while {concurrency} requests were in flight"),
        ));
    }
    let arrivals = Window {
        from: first.sent,
        to: last.sent,
    };
    let usual = in_flight.median(arrivals);
    let reached = in_flight
        .steps()
        .find(|s| s.1 >= usual)
        .map_or(first.sent, |s| s.0.max(first.sent));
    if reached >= last.sent {
        return Err("the number in flight grew until the last request was sent".to_owned());
    }
    let how =
        format!("from when {usual} requests (the median) were in flight to the last request sent");
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
fn before_cancelled(
    full: Window,
    how: String,
    flights: impl Iterator<Item = Flight> + Clone,
) -> (Window, String) {
    let mut cancelled = flights
        .clone()
        .filter(|f| f.cancelled && full.contains(f.sent));
    let Some(first) = cancelled.next().map(|f| f.sent) else {
        return (full, how);
    };
    let shorter = Window { to: first, ..full };
    let left = flights.clone().filter(|f| shorter.contains(f.sent)).count();
    if float(left) <= LEAST_SHARE * float(flights.count()) {
        return (full, how);
    }
    (
        shorter,
        format!("{how}, before the first cancelled request"),
    )
}

/// The outcome of a test for a trend.
enum Trend {
    Untested,
    Absent,
    /// It changed much, and by no more than chance may do; in words.
    Unclear(String),
    /// In words.
    Found(String),
}

/// Tests latency, time per token and, in an open loop, the number in flight.
fn trend(
    started: &(impl Iterator<Item = Flight> + Clone),
    in_flight: &InFlight,
    window: Window,
    load: &Load,
) -> Trend {
    let n = started.clone().count();
    if n < FEWEST * if load.is_open() { 3 } else { 1 } {
        return Trend::Untested;
    }
    let (from, to) = (window.from.as_secs_f64(), window.to.as_secs_f64());
    let stays = started.clone().map(|f| (f.ended - f.sent).as_f64());
    let stay = sum(stays) / float(n) / window.length().as_f64();
    let mut series = vec![
        ("TTFT", binned(started.clone(), |f| f.latency, window), 0.0),
        // Whoever is left over in the drain has the server to himself.
        (
            "time per token",
            binned(
                started.clone(),
                |f| per_token(f).filter(|_| f.ended <= window.to),
                window,
            ),
            0.0,
        ),
    ];
    // Where the rate itself is to move, so is the number in flight.
    if load.has_one_rate() {
        // Whether a third of the window holds a group more or less is where it was cut.
        let group = match load {
            Load::Open {
                arrival: ArrivalKind::Burst { size },
                ..
            } => f64::from(*size),
            _ => 1.0,
        };
        let level = level_beside_arrivals(started.clone(), in_flight, window);
        series.push(("number in flight", level, 3.0 * group * stay));
    }
    // Requests that are under way at the same time share what they find: bins narrower than a request say the same again.
    let shared = stay * BINS as f64;
    let tested: Vec<Trend> = series
        .iter()
        .map(|(name, points, edge)| trend_of(name, points, to - from, shared, *edge))
        .collect();
    if tested.iter().all(|t| matches!(t, Trend::Untested)) {
        return Trend::Untested;
    }
    let told = |of: fn(&Trend) -> Option<&String>| {
        let told: Vec<&str> = tested.iter().filter_map(of).map(String::as_str).collect();
        let between = "between the first and the last third of the window";
        (!told.is_empty()).then(|| format!("{} {between}", told.join(", ")))
    };
    let found = told(|trend| match trend {
        Trend::Found(words) => Some(words),
        _ => None,
    });
    let unclear = told(|trend| match trend {
        Trend::Unclear(words) => Some(words),
        _ => None,
    });
    found
        .map(Trend::Found)
        .or_else(|| unclear.map(Trend::Unclear))
        .unwrap_or(Trend::Absent)
}

/// The mean number in flight in each bin, without what the arrivals made of it: a schedule that by chance hurries or slackens fills a server or
/// empties it, though each request takes what the first third of them took. Where that is longer than the window, none that was sent in it leaves in it, and what
/// arrives is what the number grows by.
fn level_beside_arrivals(
    started: impl Iterator<Item = Flight> + Clone,
    in_flight: &InFlight,
    window: Window,
) -> Vec<(f64, f64)> {
    let third = started.clone().count() / 3;
    let stays = started.take(third).map(|f| (f.ended - f.sent).as_f64());
    let stay = Nanos::from_f64(sum(stays) / float(third.max(1)));
    if stay >= window.length() {
        return level(in_flight, window);
    }
    let arrived = level(&in_flight.had_each_taken(stay), window);
    let usual = mean(&arrived.iter().map(|p| p.1).collect::<Vec<_>>()).unwrap_or(0.0);
    let came = arrived.iter().map(|p| p.1 - usual);
    let level = level(in_flight, window).into_iter().zip(came);
    level.map(|((at, n), came)| (at, n - came)).collect()
}

/// The mean number in flight in each bin.
fn level(in_flight: &InFlight, window: Window) -> Vec<(f64, f64)> {
    let width = window.length().get() / BINS;
    let edge = |b: i64| Stamp::new(window.from.get() + b * width);
    let bins = (0..BINS).map(|b| Window {
        from: edge(b),
        to: edge(b + 1),
    });
    bins.filter_map(|bin| Some((bin.from.as_secs_f64(), in_flight.mean(bin)?)))
        .collect()
}

/// Means of a figure of single requests over bins of when they were sent.
fn binned(
    flights: impl Iterator<Item = Flight>,
    of: impl Fn(&Flight) -> Option<f64>,
    window: Window,
) -> Vec<(f64, f64)> {
    let points = flights.filter_map(|f| Some((f.sent.as_secs_f64(), of(&f)?)));
    let (from, to) = (window.from.as_secs_f64(), window.to.as_secs_f64());
    let bins = bin_by_time(points, from, to, MANY_BINS);
    bins.iter()
        .filter_map(|b| Some((f64::midpoint(b.start, b.end), b.mean()?)))
        .collect()
}

/// Time per token after the first, where a request has some; what an answer takes to close is in it.
fn per_token(flight: &Flight) -> Option<f64> {
    let gaps = flight.tokens?.checked_sub(1).filter(|gaps| *gaps > 0)?;
    let streamed = (flight.ended - flight.sent).as_f64() - flight.latency?;
    (streamed > 0.0 && !flight.lost && !flight.cancelled).then(|| streamed / gaps as f64)
}

/// A line through the points that is steep and certain enough to be a trend, where the last third is more than `edge` off the first;
/// `shared` is how many points in a row are as good as one.
fn trend_of(name: &str, points: &[(f64, f64)], span: f64, shared: f64, edge: f64) -> Trend {
    let level = mean(&points.iter().map(|p| p.1).collect::<Vec<_>>()).filter(|m| *m > 0.0);
    let (Some(level), Some(fit)) = (level, linear_fit(points, TREND_LEVEL)) else {
        return Trend::Untested;
    };
    if points.len() < MANY_BINS / 2 {
        return Trend::Untested;
    }
    let share = fit.slope.value * span / level;
    let residuals: Vec<f64> = points.iter().map(|p| p.1 - fit.at(p.0)).collect();
    let Some(high) = fit.slope.high else {
        return Trend::Untested;
    };
    let third = points.len() / 3;
    let level = |of: &[(f64, f64)]| mean(&of.iter().map(|p| p.1).collect::<Vec<_>>());
    let (first, last) = (points.get(..third), points.get(points.len() - third..));
    let thirds = last.and_then(level).zip(first.and_then(level));
    if thirds.is_some_and(|(last, first)| (last - first).abs() <= edge) {
        return Trend::Absent;
    }
    let ratio = thirds.filter(|(_, first)| *first > 0.0);
    let ratio = ratio.map(|(last, first)| last / first);
    let rises = ratio.map_or(share > 0.0, |ratio| ratio > 1.0);
    let way = if rises { "rises" } else { "falls" };
    let words = match ratio {
        Some(ratio) => format!("{name} {way} to {ratio:.2}×"),
        None => format!("{name} {way}"),
    };
    let error = (high - fit.slope.value) * inflation(&residuals).max(shared.sqrt());
    if fit.slope.value.abs() > error && share.abs() > TREND_SHARE {
        Trend::Found(words)
    } else if ratio.is_some_and(|ratio| ratio.max(1.0 / ratio) >= MUCH) {
        Trend::Unclear(words)
    } else {
        Trend::Absent
    }
}

/// By how much likeness of neighbours widens the error of a slope: √((1 + ρ) / (1 − ρ)), at least 1.
fn inflation(residuals: &[f64]) -> f64 {
    // A step leaves residuals that are alike, and is none the less a change.
    let rho = lag_one(residuals.iter()).1.unwrap_or(0.0).clamp(0.0, 0.5);
    ((1.0 + rho) / (1.0 - rho)).sqrt()
}
