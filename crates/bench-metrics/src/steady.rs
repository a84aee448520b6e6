//! The steady part of a run: ramp-up and drain cut, the start's transient cut, and what is left tested for trends.

use bench_schema::{Load, Stamp, Stationarity, Window};

use crate::density::bin_by_time;
use crate::fit::linear_fit;
use crate::in_flight::InFlight;
use crate::num::{float, mean, variance};

/// A steady part needs this many requests started in it.
const FEWEST: usize = 20;
/// And this share of all requests.
const LEAST_SHARE: f64 = 0.25;
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
    /// When it was sent.
    pub sent: Stamp,
    /// When it left.
    pub ended: Stamp,
    /// Its TTFT (or another latency), where it has one.
    pub latency: Option<f64>,
    /// Its output tokens, where known.
    pub tokens: Option<u64>,
    /// Whether the client stopped it, at the end of a timed cell for instance.
    pub cancelled: bool,
}

/// What was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Steady {
    /// The steady window; absent where there is none.
    pub window: Option<Window>,
    /// Whether it is stationary, and how it was found or why there is none.
    pub stationarity: Stationarity,
}

impl Steady {
    fn none(reason: String) -> Self {
        Self {
            window: None,
            stationarity: Stationarity {
                stationary: None,
                reason,
            },
        }
    }
}

/// Finds the steady part of one repeat.
///
/// 1. *Ramp and drain.* Closed loop: from when the concurrency was first reached to when it last was. Open loop (or closed
///    with think time): from when the number in flight first reached its median to the last request sent.
///    Where requests were cancelled at the end, the window ends with the first of them that was sent: of the later ones only
///    the short ones completed.
/// 2. *Transient.* MSER-5 (White 1997) over latencies in order of sending; a head is cut only where it differs from the
///    rest by more than three standard errors, and never more than half.
/// 3. *Trend.* Lines through twenty bins of latency, output tokens/s and, in an open loop, number in flight: a slope that
///    is significant at 99 % and worth more than 10 % over the window makes it not stationary.
///
/// No window where fewer than 20 requests, or less than a quarter of all, started in it.
pub fn find_steady(flights: &[Flight], load: &Load) -> Steady {
    if flights.len() < FEWEST {
        return Steady::none(format!(
            "{} requests are too few to look for a steady part ({FEWEST} needed)",
            flights.len()
        ));
    }
    let mut flights = flights.to_vec();
    flights.sort_by_key(|f| f.sent);
    let in_flight = InFlight::of(flights.iter().map(|f| (f.sent, f.ended)));
    let (full, how) = match cut_ramps(&flights, &in_flight, load) {
        Ok(found) => found,
        Err(reason) => return Steady::none(reason),
    };
    let (full, how) = before_cancelled(full, how, &flights);
    let started: Vec<Flight> = flights
        .iter()
        .copied()
        .filter(|f| full.contains(f.sent))
        .collect();
    let head = transient(&started);
    let window = match started.get(head) {
        Some(first) if head > 0 => Window {
            from: first.sent,
            ..full
        },
        _ => full,
    };
    let kept = started.len() - head;
    if kept < FEWEST || float(kept) < LEAST_SHARE * float(flights.len()) {
        return Steady::none(format!(
            "only {kept} of {} requests started between ramp-up and drain",
            flights.len()
        ));
    }
    let cut = if head > 0 {
        format!(", first {head} requests cut as transient")
    } else {
        String::new()
    };
    let (stationary, found) = match trend(&started[head..], &flights, &in_flight, window, load) {
        Trend::Untested => (None, "too short to test for trends".to_owned()),
        Trend::Absent => (Some(true), "no trend found".to_owned()),
        Trend::Found(trend) => (Some(false), trend),
    };
    let reason = format!("{how}{cut}; {found}");
    Steady {
        window: Some(window),
        stationarity: Stationarity { stationary, reason },
    }
}

/// The window without ramp-up and drain, and how it was found; or why there is none.
fn cut_ramps(
    flights: &[Flight],
    in_flight: &InFlight,
    load: &Load,
) -> Result<(Window, String), String> {
    if load.ramp().is_some() {
        return Err("the number in flight is moved over the cell".to_owned());
    }
    if let Load::Closed {
        concurrency,
        think_time: None,
        ..
    } = load
    {
        let full = in_flight.span_at_least(u64::from(*concurrency));
        let full = full.ok_or_else(|| {
            format!(
                "the number in flight reached {} of {concurrency}",
                in_flight.peak()
            )
        })?;
        return Ok((full, format!("while {concurrency} were in flight")));
    }
    let (Some(first), Some(last)) = (flights.first(), flights.last()) else {
        return Err("nothing was sent".to_owned());
    };
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
    let Some(first) = flights
        .iter()
        .filter(|f| f.cancelled && full.contains(f.sent))
        .map(|f| f.sent)
        .min()
    else {
        return (full, how);
    };
    let shorter = Window { to: first, ..full };
    let left = flights.iter().filter(|f| shorter.contains(f.sent)).count();
    if left < FEWEST || float(left) < LEAST_SHARE * float(flights.len()) {
        return (full, how);
    }
    (
        shorter,
        format!("{how}, before the first request that was cancelled"),
    )
}

/// How many requests at the start are a transient: MSER-5, accepted only where the head differs clearly from the rest.
fn transient(started: &[Flight]) -> usize {
    let values: Vec<(usize, f64)> = started
        .iter()
        .enumerate()
        .filter_map(|(i, f)| f.latency.map(|l| (i, l)))
        .collect();
    let batches: Vec<f64> = values
        .chunks_exact(5)
        .filter_map(|c| mean(&c.iter().map(|v| v.1).collect::<Vec<_>>()))
        .collect();
    let best = least_error_cut(&batches);
    let (head, rest) = batches.split_at(best);
    let clear = || {
        let error = (variance(rest)? * (1.0 / float(head.len()) + 1.0 / float(rest.len()))).sqrt();
        Some((mean(head)? - mean(rest)?).abs() > 3.0 * error)
    };
    if clear().unwrap_or(false) {
        values.get(best * 5).map_or(0, |v| v.0)
    } else {
        0
    }
}

/// The cut d within the first half at which the rest's squared error of the mean, SS / m², is least. Cost: O(n).
fn least_error_cut(batches: &[f64]) -> usize {
    let (mut m, mut centre, mut squares) = (0.0, 0.0, 0.0);
    let mut best = (f64::INFINITY, 0);
    // From the back, so that each rest is the one before and one more (Welford).
    for (d, x) in batches.iter().enumerate().rev() {
        m += 1.0;
        let off = x - centre;
        centre += off / m;
        squares += off * (x - centre);
        let error = squares / (m * m);
        if d <= batches.len() / 2 && error <= best.0 {
            best = (error, d);
        }
    }
    best.1
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
