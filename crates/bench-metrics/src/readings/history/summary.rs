//! Every series over a window.

use bench_schema::{ReadingSource, ResourceSummary, SeriesKey, Unit, Window, is_counter};

use super::{History, Point, increase, level};

impl History {
    /// Each series that was read within `windows`: gauges as levels, counters as rates with their increase.
    ///
    /// Parts of histograms (means and quantiles are made of them), single cores and the sampler's own counts are left out: they are many, and
    /// in the readings.
    pub fn resources(&self, windows: &[Window]) -> Vec<ResourceSummary> {
        let shown = self.all().filter(|(series, _)| shown(series));
        let summaries = shown.filter_map(|(series, points)| summary(series, points, windows));
        summaries.collect()
    }
}

fn shown(series: &SeriesKey) -> bool {
    let own = series.source == ReadingSource::Client && series.instance.starts_with("sampler.");
    let name = &series.name;
    let part = matches!(name.rsplit('.').next(), Some("sum" | "count"));
    let histogram = part || name.contains(".le.");
    let page = matches!(name.as_str(), "page_samples" | "scrapes_total");
    !histogram && !page && !name.starts_with("core.") && (!own || name == "cpu_s_total")
}

fn summary(series: SeriesKey, points: &[Point], windows: &[Window]) -> Option<ResourceSummary> {
    let (unit, factor) = unit_of(&series.name);
    if is_counter(&series.name) {
        let gained = increase(points, windows)?;
        return Some(ResourceSummary {
            series,
            unit,
            n: gained.n,
            mean: gained.rate * factor,
            min: gained.rates.0 * factor,
            peak: gained.rates.1 * factor,
            increase: Some(gained.amount),
        });
    }
    let level = level(points, windows)?;
    Some(ResourceSummary {
        series,
        unit,
        n: level.n,
        mean: level.mean * factor,
        min: level.min * factor,
        peak: level.max * factor,
        increase: None,
    })
}

/// The unit of a series in a summary, and what its values are multiplied by to be in it. Of a counter, the unit of its rate:
/// seconds of CPU per second are cores (a count), joules per second are watts.
pub(crate) fn unit_of(name: &str) -> (Unit, f64) {
    let is = |suffix: &str| name.ends_with(suffix);
    if let Some(counted) = name.strip_suffix("_total") {
        let unit = match counted {
            c if c.starts_with("pressure_") || c.contains("throttled") => Unit::Ratio,
            c if c.ends_with("_bytes") => Unit::BytesPerS,
            c if c.ends_with("_j") => Unit::Watts,
            c if c.ends_with("tokens") => Unit::TokensPerS,
            c if c.ends_with("requests") => Unit::RequestsPerS,
            _ => Unit::Count,
        };
        return (unit, 1.0);
    }
    match () {
        () if is("tokens_per_s") => (Unit::TokensPerS, 1.0),
        () if is("_bytes_per_s") => (Unit::BytesPerS, 1.0),
        () if is("_s") => (Unit::Ns, 1e9),
        () if is("_share") || name.starts_with("throttle_") => (Unit::Ratio, 1.0),
        () if is("_bytes") => (Unit::Bytes, 1.0),
        () if is("_w") => (Unit::Watts, 1.0),
        () if is("_celsius") => (Unit::Celsius, 1.0),
        () if is("_hz") => (Unit::Hertz, 1.0),
        () => (Unit::Count, 1.0),
    }
}

#[cfg(test)]
#[path = "../../../tests/unit/readings_history_summary.rs"]
mod tests;
