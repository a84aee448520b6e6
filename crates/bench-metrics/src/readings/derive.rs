//! Figures that follow from several series, and from what the client did meanwhile.

mod correlation;
mod cpu;
mod gpu;
mod server;

use bench_schema::{
    HardwareSummary, Interval, Quantity, Reading, ReadingSource, Stamp, Unit, Window,
};

use super::history::{Bracketed, History, Increase, Level, seconds};

/// What the client did within the windows: without it there is no energy per token and nothing to compare the server's view with.
#[derive(Clone, Debug, Default)]
pub struct Work<'a> {
    /// Output tokens that arrived within the windows, where they are known.
    pub output_tokens: Option<f64>,
    /// Requests that ended successfully within the windows.
    pub requests: Option<f64>,
    /// When a request was sent, and its latency (E2E or TTFT, in any one unit): for the correlations.
    pub latencies: &'a [(Stamp, f64)],
    /// The client's mean TTFT from `sent` of the requests whose first token came within the windows, nanoseconds.
    pub ttft_mean: Option<f64>,
    /// The client's mean ITL, nanoseconds.
    pub itl_mean: Option<f64>,
    /// The client's mean E2E from `sent` of the requests that ended within the windows, nanoseconds.
    pub e2e_mean: Option<f64>,
}

/// What machines and server did within `windows`: each series, the figures derived from them, and what is not known, with why.
///
/// The derived names are listed in `docs/hardware.md`. `windows` are the repeats of one cell, together. For many cells over the same readings make a [`History`] once.
pub fn summarise<'r>(
    readings: impl IntoIterator<Item = &'r Reading>,
    windows: &[Window],
    work: &Work<'_>,
) -> HardwareSummary {
    let mut history = History::default();
    for reading in readings {
        history.push(reading);
    }
    history.summarise(windows, work)
}

impl History {
    /// What machines and server did within `windows`; see [`summarise`]. Cost: one pass over the points of the window.
    pub fn summarise(&self, windows: &[Window], work: &Work<'_>) -> HardwareSummary {
        let mut derived = Derived {
            history: self,
            windows,
            work,
            summary: HardwareSummary {
                resources: self.resources(windows),
                unknown: self.unknown_in(windows),
                ..HardwareSummary::default()
            },
        };
        gpu::derive(&mut derived);
        server::derive(&mut derived);
        cpu::derive(&mut derived);
        correlation::derive(&mut derived);
        let resources = &mut derived.summary.resources;
        resources.sort_by(|a, b| a.series.cmp(&b.series));
        derived.summary
    }
}

/// A summary that is being made.
struct Derived<'a> {
    history: &'a History,
    windows: &'a [Window],
    work: &'a Work<'a>,
    summary: HardwareSummary,
}

impl Derived<'_> {
    /// A gauge of one instance.
    fn level(&self, source: ReadingSource, instance: &str, name: &str) -> Option<Level> {
        self.history.level(source, instance, name, self.windows)
    }

    /// The same of every instance that has it.
    fn levels(&self, source: ReadingSource, name: &str) -> Vec<Level> {
        let instances = self.history.instances(source, name);
        let levels = instances.filter_map(|instance| self.level(source, instance, name));
        levels.collect()
    }

    /// What a counter of one instance gained.
    fn gained(&self, source: ReadingSource, instance: &str, name: &str) -> Option<Increase> {
        self.history.increase(source, instance, name, self.windows)
    }

    fn seconds(&self) -> f64 {
        seconds(self.windows)
    }

    fn put(&mut self, name: &str, value: f64, unit: Unit) {
        if value.is_finite() {
            let quantity = Quantity {
                value,
                unit,
                interval: None,
            };
            self.summary.derived.insert(name.to_owned(), quantity);
        }
    }

    /// A quantile in seconds, with its bucket as the interval that holds it for certain.
    fn put_quantile(&mut self, name: &str, quantile: Bracketed) {
        let ns = |seconds: f64| seconds * 1e9;
        let interval = Interval {
            low: ns(quantile.low),
            high: ns(quantile.high),
            confidence: 1.0,
        };
        let quantity = Quantity {
            value: ns(quantile.value),
            unit: Unit::Ns,
            interval: Some(interval),
        };
        self.summary.derived.insert(name.to_owned(), quantity);
    }

    fn put_some(&mut self, name: &str, value: Option<f64>, unit: Unit) {
        if let Some(value) = value {
            self.put(name, value, unit);
        }
    }

    fn miss(&mut self, name: &str, why: impl Into<String>) {
        self.summary.unknown.insert(name.to_owned(), why.into());
    }

    fn get(&self, name: &str) -> Option<f64> {
        self.summary.derived.get(name).map(|q| q.value)
    }
}

/// `a / b`, where there is something to divide by.
fn ratio(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    let (a, b) = (a?, b?);
    (b > 0.0).then(|| a / b)
}

#[cfg(test)]
#[path = "../../tests/unit/readings_derive.rs"]
mod tests;
