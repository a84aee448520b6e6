//! Readings as series: what a run has said so far, ready to be asked about any window.

mod counter;
mod gauge;
mod histogram;
mod summary;
mod unknown;

use std::collections::BTreeMap;

use bench_schema::{Reading, ReadingSource, SeriesKey, Stamp, Window};

pub(crate) use counter::Increase;
pub(crate) use gauge::Level;
pub use histogram::{Bracketed, HistogramDelta};

use bench_schema::histogram_bucket;

/// All readings of a run, by series. Sixteen bytes a value: an hour at the default rates is about 40 MB.
#[derive(Clone, Debug, Default)]
pub struct History {
    series: BTreeMap<ReadingSource, BTreeMap<String, BTreeMap<String, Vec<Point>>>>,
    unknown: unknown::Reasons,
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
        let at = reading.from + bench_schema::Nanos::new(half);
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
        self.series.iter().flat_map(|(&source, instances)| {
            instances.iter().flat_map(move |(instance, names)| {
                names.keys().map(move |name| SeriesKey {
                    source,
                    instance: instance.clone(),
                    name: name.clone(),
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

    /// A gauge of one instance over windows.
    pub(crate) fn level(
        &self,
        source: ReadingSource,
        instance: &str,
        name: &str,
        windows: &[Window],
    ) -> Option<Level> {
        gauge::level(self.points(source, instance, name), windows)
    }

    /// A counter of one instance over windows.
    pub(crate) fn increase(
        &self,
        source: ReadingSource,
        instance: &str,
        name: &str,
        windows: &[Window],
    ) -> Option<Increase> {
        counter::increase(self.points(source, instance, name), windows)
    }

    /// A counter over windows, summed over all instances; `None` where no instance has it.
    pub(crate) fn total_increase(
        &self,
        source: ReadingSource,
        name: &str,
        windows: &[Window],
    ) -> Option<Increase> {
        self.instances(source, name)
            .filter_map(|instance| self.increase(source, instance, name, windows))
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
        let mut delta = HistogramDelta {
            count: count.amount,
            sum: sum.amount,
            buckets: Vec::new(),
        };
        let mut by_bound: BTreeMap<String, f64> = BTreeMap::new();
        for names in self.series.get(&source).into_iter().flatten() {
            for (series, points) in names.1 {
                let is_ours =
                    histogram_bucket(series).is_some_and(|(histogram, _)| histogram == name);
                if let Some(increase) = counter::increase(points, windows).filter(|_| is_ours) {
                    *by_bound.entry(series.clone()).or_default() += increase.amount;
                }
            }
        }
        delta.buckets = by_bound
            .into_iter()
            .filter_map(|(series, amount)| Some((histogram_bucket(&series)?.1, amount)))
            .collect();
        delta.buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
        Some(delta)
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
        .map(|window| (window.to - window.from).as_secs_f64())
        .sum()
}

/// Index of the first point that is at or after `at`.
pub(crate) fn first_from(points: &[Point], at: Stamp) -> usize {
    points.partition_point(|point| point.at < at)
}

#[cfg(test)]
#[path = "../../tests/unit/readings_history.rs"]
mod tests;
