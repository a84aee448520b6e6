//! Readings as series: what a run has said so far, ready to be asked about any window.

mod summary;

use std::collections::BTreeMap;

use bench_schema::{Nanos, Reading, ReadingSource, SeriesKey, Stamp, Window, histogram_bucket};

/// All readings of a run, by series. Sixteen bytes a value: an hour at the default rates is about 40 MB.
#[derive(Clone, Debug, Default)]
pub struct History {
    series: BTreeMap<ReadingSource, BTreeMap<String, BTreeMap<String, Vec<Point>>>>,
    unknown: Reasons,
}

/// One value, dated to the middle of its reading's window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// When.
    pub at: Stamp,
    /// What.
    pub value: f64,
}

impl History {
    /// Take in one reading. Those of one series may come out of order, but cost more then.
    pub fn push(&mut self, reading: &Reading) {
        let half = (reading.to - reading.from).get() / 2;
        let at = reading.from + Nanos::new(half);
        if !reading.values.is_empty() {
            let instances = self.series.entry(reading.source).or_default();
            if !instances.contains_key(&reading.instance) {
                instances.insert(reading.instance.clone(), BTreeMap::new());
            }
            if let Some(names) = instances.get_mut(&reading.instance) {
                for (name, &value) in &reading.values {
                    insert(names, name, Point { at, value });
                }
            }
        }
        self.unknown.note(reading, at);
    }

    /// The values of one series, in order of time; empty where there are none.
    pub fn series(&self, key: &SeriesKey) -> &[Point] {
        self.points(key.source, &key.instance, &key.name)
    }

    pub(crate) fn points(&self, source: ReadingSource, instance: &str, name: &str) -> &[Point] {
        self.series
            .get(&source)
            .and_then(|instances| instances.get(instance)?.get(name))
            .map_or(&[], Vec::as_slice)
    }

    /// Every series that has been read.
    pub fn keys(&self) -> impl Iterator<Item = SeriesKey> {
        self.all().map(|(key, _)| key)
    }

    /// Every series with its values.
    fn all(&self) -> impl Iterator<Item = (SeriesKey, &[Point])> {
        self.series.iter().flat_map(|(&source, instances)| {
            instances.iter().flat_map(move |(instance, names)| {
                names.iter().map(move |(name, points)| {
                    let key = SeriesKey {
                        source,
                        instance: instance.clone(),
                        name: name.clone(),
                    };
                    (key, points.as_slice())
                })
            })
        })
    }

    /// The instances of `source` that have a series of `name`.
    pub(crate) fn instances<'a>(
        &'a self,
        source: ReadingSource,
        name: &'a str,
    ) -> impl Iterator<Item = &'a str> {
        self.series
            .get(&source)
            .into_iter()
            .flatten()
            .filter(move |(_, names)| names.contains_key(name))
            .map(|(instance, _)| instance.as_str())
    }

    /// A counter over windows, summed over all instances; `None` where no instance has it.
    pub(crate) fn total_increase(
        &self,
        source: ReadingSource,
        name: &str,
        windows: &[Window],
    ) -> Option<Increase> {
        self.instances(source, name)
            .filter_map(|instance| increase(self.points(source, instance, name), windows))
            .reduce(Increase::plus)
    }

    /// What a histogram of the server gained over windows, all replicas together.
    ///
    /// `name` without suffix: `ttft_s`, `itl_s`, `tpot_s`, `e2e_s`, `queue_s`, `prefill_s`, `decode_s`. `None` where the server
    /// has none, or none that was read before and after some part of them.
    pub fn histogram(&self, name: &str, windows: &[Window]) -> Option<HistogramDelta> {
        let source = ReadingSource::ServerMetrics;
        let count = self.total_increase(source, &format!("{name}.count"), windows)?;
        let sum = self.total_increase(source, &format!("{name}.sum"), windows)?;
        let mut by_bound: BTreeMap<String, f64> = BTreeMap::new();
        for names in self.series.get(&source).into_iter().flatten() {
            for (series, points) in names.1 {
                let is_ours =
                    histogram_bucket(series).is_some_and(|(histogram, _)| histogram == name);
                if let Some(increase) = increase(points, windows).filter(|_| is_ours) {
                    *by_bound.entry(series.clone()).or_default() += increase.amount;
                }
            }
        }
        let mut buckets: Vec<_> = by_bound
            .into_iter()
            .filter_map(|(series, amount)| Some((histogram_bucket(&series)?.1, amount)))
            .collect();
        buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
        Some(HistogramDelta {
            count: count.amount,
            sum: sum.amount,
            buckets,
        })
    }
}

fn insert(names: &mut BTreeMap<String, Vec<Point>>, name: &str, point: Point) {
    if !names.contains_key(name) {
        names.insert(name.to_owned(), Vec::new());
    }
    let Some(points) = names.get_mut(name) else {
        return;
    };
    if points.last().is_none_or(|last| last.at <= point.at) {
        points.push(point);
    } else {
        let after = points.partition_point(|earlier| earlier.at <= point.at);
        points.insert(after, point);
    }
}

/// How long windows are together, in seconds.
pub(crate) fn seconds(windows: &[Window]) -> f64 {
    windows
        .iter()
        .map(|window| window.length().as_secs_f64())
        .sum()
}

/// Index of the first point that is at or after `at`.
pub(crate) fn first_from(points: &[Point], at: Stamp) -> usize {
    points.partition_point(|point| point.at < at)
}

// Counters over a window: increases, with restarts and with windows that begin and end between readings.

/// What a counter gained over the part of a window in which it was known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Increase {
    /// The gain over the covered part.
    pub(crate) amount: f64,
    /// How much of the window lies between two readings; of several instances, the least.
    pub(crate) covered: Nanos,
    /// Gain per second of the covered part; of several instances the sum, each over its own.
    pub(crate) rate: f64,
    /// Readings within the window.
    pub(crate) n: u64,
    /// Times the counter began again.
    pub(crate) resets: u64,
    /// The slowest and the fastest rate per second over spans of at least [`SPAN`] that fill the covered part; the mean where that is shorter.
    pub(crate) rates: (f64, f64),
}

/// Rates are not taken over shorter spans: the kernel counts in ticks of 10 ms, and drivers renew their counters when they like.
const SPAN: Nanos = Nanos::from_secs(1);

/// A fall by less than this share is jitter (the kernel's I/O wait does it), not a restart.
const JITTER: f64 = 0.1;

/// Share of a window that must be covered before a gain is scaled to the whole of it.
const ENOUGH: f64 = 0.8;

impl Increase {
    /// The gain scaled to the whole of the windows, or why that would be a guess.
    pub(crate) fn over(&self, windows: &[Window]) -> Result<f64, String> {
        let length = seconds(windows);
        let share = self.covered.as_secs_f64() / length;
        if share >= ENOUGH {
            Ok(self.rate * length)
        } else {
            let percent = (share * 100.0).round();
            Err(format!("it was read over only {percent} % of the time"))
        }
    }

    /// The same counter over two windows, one after the other.
    fn then(self, later: Self) -> Self {
        let (amount, covered) = (self.amount + later.amount, self.covered + later.covered);
        Self {
            amount,
            covered,
            rate: amount / covered.as_secs_f64(),
            n: self.n + later.n,
            resets: self.resets + later.resets,
            rates: (
                self.rates.0.min(later.rates.0),
                self.rates.1.max(later.rates.1),
            ),
        }
    }

    /// Two instances of the same counter together. The rates' bounds are those of the sums, which is as far as they can go.
    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            amount: self.amount + other.amount,
            covered: self.covered.min(other.covered),
            rate: self.rate + other.rate,
            n: self.n.min(other.n),
            resets: self.resets + other.resets,
            rates: (self.rates.0 + other.rates.0, self.rates.1 + other.rates.1),
        }
    }
}

/// The gain from one reading to the next. After a restart the counter began at zero, and what it had gained before is lost.
fn gain(before: f64, after: f64) -> (f64, bool) {
    if after >= before {
        (after - before, false)
    } else if after >= before * (1.0 - JITTER) {
        (0.0, false)
    } else {
        (after, true)
    }
}

/// `None` where no two readings enclose a part of a window. Between two readings a counter is taken to grow evenly.
pub(crate) fn increase(points: &[Point], windows: &[Window]) -> Option<Increase> {
    windows
        .iter()
        .filter_map(|&window| increase_within(points, window))
        .reduce(Increase::then)
}

fn increase_within(points: &[Point], window: Window) -> Option<Increase> {
    let inside = first_from(points, window.from);
    let begin = inside.saturating_sub(1);
    let mut sum = Increase {
        amount: 0.0,
        covered: Nanos::ZERO,
        rate: 0.0,
        n: 0,
        resets: 0,
        rates: (0.0, 0.0),
    };
    let mut spans = vec![(0.0, Nanos::ZERO)];
    let mut pairs = points.get(begin..)?.windows(2);
    while let Some([a, b]) = pairs.next() {
        if a.at >= window.to {
            break;
        }
        let (from, to) = (a.at.max(window.from), b.at.min(window.to));
        let (overlap, length) = ((to - from).or_zero(), b.at - a.at);
        if length <= Nanos::ZERO {
            continue;
        }
        let (gained, reset) = gain(a.value, b.value);
        let part = gained * (overlap.as_f64() / length.as_f64());
        sum.amount += part;
        sum.covered += overlap;
        sum.resets += u64::from(reset);
        match spans.last_mut() {
            Some(span) if span.1 < SPAN => *span = (span.0 + part, span.1 + overlap),
            _ => spans.push((part, overlap)),
        }
    }
    let until = points.partition_point(|point| point.at <= window.to);
    sum.n = u64::try_from(until.saturating_sub(inside)).unwrap_or(0);
    if sum.covered <= Nanos::ZERO {
        return None;
    }
    sum.rate = sum.amount / sum.covered.as_secs_f64();
    sum.rates = bounds(spans);
    Some(sum)
}

/// The lowest and highest rate of spans that fill what was covered, so that the mean lies between them. What is left at the end is too short to
/// have a rate: it belongs to the span before.
fn bounds(mut spans: Vec<(f64, Nanos)>) -> (f64, f64) {
    if let [.., before, rest] = &mut *spans
        && rest.1 < SPAN
    {
        *before = (before.0 + rest.0, before.1 + rest.1);
        spans.pop();
    }
    let rates = spans
        .iter()
        .map(|(gained, length)| gained / length.as_secs_f64());
    rates.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), rate| {
        (low.min(rate), high.max(rate))
    })
}

#[cfg(test)]
#[path = "../../tests/unit/readings_history_counter.rs"]
mod counter_tests;

// Gauges over a window: time-weighted, each value holding until the next.

/// A gauge over a window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Level {
    /// Readings within the window.
    pub(crate) n: u64,
    /// Time-weighted mean.
    pub(crate) mean: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
    /// Time-weighted share of the window in which it was zero.
    pub(crate) zero: f64,
    /// Nanoseconds over which it was known; at least 1, so that levels can be joined.
    weight: f64,
}

impl Level {
    /// The same gauge over two windows.
    fn then(self, later: Self) -> Self {
        let weight = self.weight + later.weight;
        let join = |a: f64, b: f64| (a * self.weight + b * later.weight) / weight;
        Self {
            n: self.n + later.n,
            mean: join(self.mean, later.mean),
            min: self.min.min(later.min),
            max: self.max.max(later.max),
            zero: join(self.zero, later.zero),
            weight,
        }
    }
}

/// Longest time that a value is taken to hold: after that nobody knows, and the time is left out of the mean.
const HOLD: Nanos = Nanos::from_secs(5);

/// `None` where no reading is within a window. The value before a window holds into it.
pub(crate) fn level(points: &[Point], windows: &[Window]) -> Option<Level> {
    windows
        .iter()
        .filter_map(|&window| level_within(points, window))
        .reduce(Level::then)
}

fn level_within(points: &[Point], window: Window) -> Option<Level> {
    let inside = first_from(points, window.from);
    let until = points.partition_point(|point| point.at <= window.to);
    let read = points.get(inside..until).filter(|read| !read.is_empty())?;
    let (mut weight, mut weighted, mut zero) = (0.0, 0.0, 0.0);
    let held = points.iter().enumerate().take(until);
    for (index, point) in held.skip(inside.saturating_sub(1)) {
        let next = points.get(index + 1).map_or(window.to, |next| next.at);
        let to = next.min(window.to).min(point.at + HOLD);
        let held = (to - point.at.max(window.from)).or_zero().as_f64();
        weight += held;
        weighted += held * point.value;
        // A share of exactly nothing is what an idle device reports; a small one is not idle.
        if point.value <= 0.0 {
            zero += held;
        }
    }
    let values = || read.iter().map(|point| point.value);
    let n = u64::try_from(read.len()).ok()?;
    let plain = values().sum::<f64>() / read.len() as f64;
    let timed = weight > 0.0;
    Some(Level {
        n,
        mean: if timed { weighted / weight } else { plain },
        min: values().fold(f64::INFINITY, f64::min),
        max: values().fold(f64::NEG_INFINITY, f64::max),
        zero: if timed {
            zero / weight
        } else {
            f64::from(u8::from(plain <= 0.0))
        },
        weight: weight.max(1.0),
    })
}

#[cfg(test)]
#[path = "../../tests/unit/readings_history_gauge.rs"]
mod gauge_tests;

// What a server's histogram gained: its mean exactly, its quantiles as well as the buckets allow.

/// Observations of a histogram that fell into a window. Seconds, or whatever the histogram counts.
#[derive(Clone, Debug, PartialEq)]
pub struct HistogramDelta {
    /// Observations; fractional where the window begins or ends between two readings.
    pub count: f64,
    /// Their sum.
    pub sum: f64,
    /// Upper bound and cumulative count, sorted by bound.
    pub buckets: Vec<(f64, f64)>,
}

/// Fewer observations than this are none: interpolation at a window's edges leaves crumbs.
const CRUMB: f64 = 0.5;

impl HistogramDelta {
    /// `sum / count`; `None` of no observation.
    pub fn mean(&self) -> Option<f64> {
        (self.count >= CRUMB).then(|| self.sum / self.count)
    }

    /// The `q`-quantile, taking observations to lie evenly within their bucket (as PromQL's `histogram_quantile`).
    ///
    /// Off by at most the width of that bucket; see [`Self::bracketed`]. `None` of no observation, and where it lies beyond the
    /// last finite bound: then it is only known to be larger.
    pub fn quantile(&self, q: f64) -> Option<f64> {
        self.bracketed(q).map(|quantile| quantile.value)
    }

    /// The `q`-quantile with the bounds of its bucket, between which it lies for certain.
    pub fn bracketed(&self, q: f64) -> Option<Bracketed> {
        let total = self.buckets.last()?.1;
        if total < CRUMB {
            return None;
        }
        let rank = q.clamp(0.0, 1.0) * total;
        // The first bucket has no lower bound of its own: times begin at zero.
        let (mut low, mut below) = (0.0_f64, 0.0_f64);
        for &(high, cumulative) in &self.buckets {
            if cumulative >= rank && cumulative > below {
                let low = low.min(high);
                let share = (rank - below).max(0.0) / (cumulative - below);
                return high.is_finite().then_some(Bracketed {
                    value: low + (high - low) * share,
                    low,
                    high,
                });
            }
            (low, below) = (high, cumulative.max(below));
        }
        None
    }
}

/// A quantile of a histogram: an estimate, and the bucket that holds it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bracketed {
    /// The estimate.
    pub value: f64,
    /// Lower bound of the bucket.
    pub low: f64,
    /// Upper bound of the bucket.
    pub high: f64,
}

#[cfg(test)]
#[path = "../../tests/unit/readings_history_histogram.rs"]
mod histogram_tests;

// What could not be read, and whether it still could not be in a given window.

/// Reasons by source, instance and name, each with the moments at which they were given.
#[derive(Clone, Debug, Default)]
struct Reasons(BTreeMap<(ReadingSource, String, String), Vec<(Stamp, String)>>);

impl Reasons {
    fn note(&mut self, reading: &Reading, at: Stamp) {
        for (name, why) in &reading.unknown {
            let key = (reading.source, reading.instance.clone(), name.clone());
            self.0.entry(key).or_default().push((at, why.clone()));
        }
    }
}

impl History {
    /// What was not known within `windows`, with the last reason given until their end, by `source/instance/name`.
    ///
    /// A reason is given once, so that one from before the windows still holds, unless the value has been read within them.
    pub(crate) fn unknown_in(&self, windows: &[Window]) -> BTreeMap<String, String> {
        let Some(end) = windows.iter().map(|window| window.to).max() else {
            return BTreeMap::new();
        };
        self.unknown
            .0
            .iter()
            .filter(|((source, instance, name), _)| {
                !self.recovered(*source, instance, name, windows)
            })
            .filter_map(|((source, instance, name), reasons)| {
                let (_, why) = reasons.iter().rfind(|(at, _)| *at <= end)?;
                let parts = [source.as_str(), instance, name];
                let shown: Vec<&str> = parts.into_iter().filter(|p| !p.is_empty()).collect();
                Some((shown.join("/"), why.clone()))
            })
            .collect()
    }

    fn recovered(
        &self,
        source: ReadingSource,
        instance: &str,
        name: &str,
        windows: &[Window],
    ) -> bool {
        let read = |instance: &str, name: &str| {
            let points = self.points(source, instance, name);
            windows.iter().any(|window| {
                let first = points.get(first_from(points, window.from));
                first.is_some_and(|point| point.at <= window.to)
            })
        };
        match name {
            // A page that came is no longer missing, if every one came.
            "page" => {
                let failures = self.points(source, instance, "scrape_failures_total");
                let failures = increase(failures, windows);
                read(instance, "page_bytes") && failures.is_none_or(|f| f.amount <= 0.0)
            }
            // A process that was found is another instance of its source.
            "process" => self
                .instances(source, "memory_resident_bytes")
                .any(|found| read(found, "memory_resident_bytes")),
            _ => read(instance, name),
        }
    }
}

#[cfg(test)]
#[path = "../../tests/unit/readings_history.rs"]
mod tests;

#[cfg(test)]
#[path = "../../tests/unit/readings_history_unknown.rs"]
mod unknown_tests;
