//! Readings of machines and server over the run: which are worth a chart, which of them belong together, and what people call them. The rest
//! are in `hardware.jsonl` and in the table of the run.

use std::collections::BTreeMap;

use bench_schema::{Reading, ReadingSource, RunRecord, SeriesKey, Unit};

use super::{RunFiles, bin, stream};
use crate::{ReportError, text};

const BINS: usize = 240;
/// Series of one topic: more cannot be told apart.
const SHOWN: usize = 8;

/// One series in equal parts of the run.
#[derive(Clone, Debug)]
pub(crate) struct Series {
    pub(crate) topic: Topic,
    /// What people call it.
    pub(crate) name: String,
    rank: u8,
    key: SeriesKey,
    /// Seconds and mean in the topic's unit, where there was a reading.
    pub(crate) points: Vec<(f64, f64)>,
}

#[derive(Default)]
struct Bins {
    sums: BTreeMap<usize, (f64, f64)>,
    last: Option<(f64, f64)>,
}

/// Read `hardware.jsonl`, where there is one; only series that some cell summarises, for those have a unit.
///
/// # Errors
/// [`ReportError::Read`] where it is there and cannot be read.
pub(crate) fn readings(run: &RunRecord, files: &RunFiles) -> Result<Vec<Series>, ReportError> {
    let parts = files.hardware.as_slice();
    if parts.is_empty() {
        return Ok(Vec::new());
    }
    let known = summarised(run);
    let seconds = run.duration.as_secs_f64();
    let mut bins: BTreeMap<SeriesKey, Bins> = BTreeMap::new();
    stream(parts, |reading: Reading| {
        let at = f64::midpoint(reading.from.as_secs_f64(), reading.to.as_secs_f64());
        for (name, value) in reading.values {
            let key = SeriesKey {
                source: reading.source,
                instance: reading.instance.clone(),
                name,
            };
            let wanted = known
                .get(&key)
                .filter(|(unit, _)| place(&key, *unit).is_some());
            if let Some(&(_, counter)) = wanted {
                bins.entry(key)
                    .or_default()
                    .add(at, value, seconds, counter);
            }
        }
    })?;
    let width = seconds / BINS as f64;
    let mut all: Vec<Series> = bins
        .into_iter()
        .filter_map(|(key, bins)| {
            let &(unit, _) = known.get(&key)?;
            series(key, unit, bins, width)
        })
        .collect();
    all.sort_by_key(|series| (series.topic, series.rank));
    tell_apart(&mut all);
    let mut seen: BTreeMap<Topic, usize> = BTreeMap::new();
    all.retain(|series| {
        let n = seen.entry(series.topic).or_default();
        *n += 1;
        *n <= SHOWN
    });
    Ok(all)
}

fn series(key: SeriesKey, unit: Unit, bins: Bins, width: f64) -> Option<Series> {
    let (topic, name, rank) = place(&key, unit)?;
    // A query's figure may have any unit; the others have their topic's.
    let scale = match topic {
        Topic::Asked => crate::tables::scale_of(unit).0,
        topic => topic.shown().2,
    };
    let point = |(i, (sum, n)): (usize, (f64, f64))| ((i as f64 + 0.5) * width, sum / n / scale);
    let points: Vec<(f64, f64)> = bins.sums.into_iter().map(point).collect();
    (!points.is_empty()).then_some(Series {
        topic,
        name,
        rank,
        key,
        points,
    })
}

/// Two servers, or two exporters, have series of the same name: their instance is added.
fn tell_apart(all: &mut [Series]) {
    let names: Vec<(Topic, String)> = all.iter().map(|s| (s.topic, s.name.clone())).collect();
    for series in all {
        let twins = names
            .iter()
            .filter(|(topic, name)| *topic == series.topic && *name == series.name);
        if twins.count() > 1 && !series.key.instance.is_empty() {
            let instance = series.key.instance.replace("http://", "");
            series.name = format!("{} {}", series.name, text::shortened(&instance, 24));
        }
    }
}

/// Units of the series of all cells, and whether they are counters.
fn summarised(run: &RunRecord) -> BTreeMap<SeriesKey, (Unit, bool)> {
    let resources = run
        .cells
        .iter()
        .filter_map(|cell| cell.hardware.as_ref())
        .flat_map(|h| &h.resources);
    resources
        .map(|r| (r.series.clone(), (r.unit, r.increase.is_some())))
        .collect()
}

impl Bins {
    fn add(&mut self, at: f64, value: f64, seconds: f64, counter: bool) {
        let shown = if counter {
            let rate = self.last.and_then(|(then, before)| {
                (at > then && value >= before).then(|| (value - before) / (at - then))
            });
            self.last = Some((at, value));
            rate
        } else {
            Some(value)
        };
        if let Some(value) = shown.filter(|v| v.is_finite()) {
            let (sum, n) = self
                .sums
                .entry(bin(at, 0.0, seconds, BINS))
                .or_insert((0.0, 0.0));
            *sum += value;
            *n += 1.0;
        }
    }
}

/// A question that one chart over time answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Topic {
    Queue,
    Cache,
    ServerTokens,
    Gpu,
    GpuMemory,
    Power,
    Temperature,
    GpuClock,
    Cpu,
    Contention,
    Memory,
    Asked,
}

/// Every topic, in the order in which a reader wants them: part of a file name, the value axis with its unit, and what a stored value is divided by.
const TOPICS: [(Topic, &str, &str, f64); 12] = [
    (Topic::Queue, "queue", "requests in the server", 1.0),
    (Topic::Cache, "cache", "share (%)", 0.01),
    (
        Topic::ServerTokens,
        "server-tokens",
        "tokens/s, reported by the server",
        1.0,
    ),
    (Topic::Gpu, "gpu", "busy (% of the time)", 0.01),
    (Topic::GpuMemory, "gpu-memory", "memory (GiB)", GIB),
    (Topic::Power, "power", "power (W)", 1.0),
    (Topic::Temperature, "temperature", "temperature (°C)", 1.0),
    (Topic::GpuClock, "gpu-clock", "clock (MHz)", 1e6),
    (Topic::Cpu, "cpu", "CPUs in use", 1.0),
    (
        Topic::Contention,
        "contention",
        "share of the time (%)",
        0.01,
    ),
    (Topic::Memory, "memory", "memory (GiB)", GIB),
    (Topic::Asked, "prometheus", "query result", 1.0),
];

const GIB: f64 = 1024.0 * 1024.0 * 1024.0;

impl Topic {
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        TOPICS.into_iter().map(|(topic, ..)| topic)
    }

    /// Part of a file name, the value axis, and what a stored value is divided by.
    pub(crate) fn shown(self) -> (&'static str, &'static str, f64) {
        let own = TOPICS.into_iter().find(|(topic, ..)| *topic == self);
        own.map_or(("", "", 1.0), |(_, id, axis, scale)| (id, axis, scale))
    }

    /// Whether its values cannot exceed 100 %.
    pub(crate) fn is_share(self) -> bool {
        matches!(self, Self::Cache | Self::Gpu | Self::Contention)
    }
}

/// Where a series is shown, under which name, and how early among the others; `None` where no chart needs it.
pub(crate) fn place(key: &SeriesKey, unit: Unit) -> Option<(Topic, String, u8)> {
    use ReadingSource as From;
    let (topic, rank, name) = match (key.source, key.name.as_str()) {
        (From::ServerMetrics, "running") => (Topic::Queue, 0, "running"),
        (From::ServerMetrics, "waiting") => (Topic::Queue, 1, "waiting"),
        (From::ServerMetrics, "swapped") => (Topic::Queue, 2, "swapped out"),
        (From::ServerMetrics, "kv_cache_share") => (Topic::Cache, 0, "KV cache in use"),
        (From::ServerMetrics, "prefix_cache_hit_share") => (Topic::Cache, 1, "prefix cache hits"),
        (From::ServerMetrics, "generation_tokens_total") => (Topic::ServerTokens, 0, "generated"),
        (From::ServerMetrics, "prompt_tokens_total") => (Topic::ServerTokens, 1, "prompts"),
        (From::Host, "cpu_busy_s_total") => (Topic::Cpu, 0, "whole host"),
        (From::ServerProcess, "cpu_s_total") => (Topic::Cpu, 1, "server"),
        (From::Client, "cpu_s_total") if key.instance.is_empty() => (Topic::Cpu, 2, "this client"),
        (From::Host, "pressure_cpu_some_s_total") => {
            (Topic::Contention, 0, "a task waits for a CPU")
        }
        (From::Host, "pressure_io_some_s_total") => {
            (Topic::Contention, 1, "a task waits for a disk")
        }
        (From::ServerProcess, "memory_resident_bytes") => (Topic::Memory, 0, "server"),
        (From::Host, "memory_used_bytes") => (Topic::Memory, 1, "whole host"),
        (From::Client, "memory_resident_bytes") => (Topic::Memory, 2, "this client"),
        (From::Gpu | From::Dcgm, name) => return gpu(&key.instance, name),
        (From::Prometheus, name) => {
            return Some(gpu(&key.instance, name).unwrap_or_else(|| asked(name, unit)));
        }
        _ => return None,
    };
    Some((topic, name.to_owned(), rank))
}

/// What a query was named, as it stands: nobody else knows what it means.
fn asked(name: &str, unit: Unit) -> (Topic, String, u8) {
    let (_, unit) = crate::tables::scale_of(unit);
    let name = text::shortened(&name.replace('_', " "), 30);
    let shown = format!("{name} {unit}").trim_end().to_owned();
    (Topic::Asked, shown, 0)
}

fn gpu(instance: &str, name: &str) -> Option<(Topic, String, u8)> {
    // An exporter's instance is its address and the card: `http://node:9400/metrics gpu 0`.
    let card = instance.rsplit([' ', '#']).next().unwrap_or(instance);
    let card = format!("GPU {}", text::shortened(card, 24));
    let (topic, rank, name) = match name {
        "utilisation_share" => (Topic::Gpu, 0, card),
        "sm_active_share" => (Topic::Gpu, 1, format!("{card}, SMs")),
        "memory_used_bytes" => (Topic::GpuMemory, 0, card),
        "power_w" => (Topic::Power, 0, card),
        "temperature_celsius" => (Topic::Temperature, 0, card),
        "sm_clock_hz" => (Topic::GpuClock, 0, card),
        _ => return None,
    };
    Some((topic, name, rank))
}

#[cfg(test)]
#[path = "../../tests/unit/trace_series.rs"]
mod tests;
