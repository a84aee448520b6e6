//! Figures that follow from several series, and from what the client did meanwhile.

mod correlation;
mod server;

use bench_schema::{
    HardwareSummary, Interval, Quantity, Reading, ReadingSource, ResourceSummary, SeriesKey, Stamp,
    Unit, Window,
};

use super::history::{Bracketed, History, Increase, Level, increase, level, seconds};
use crate::num::mean;

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
        gpus(&mut derived);
        server::derive(&mut derived);
        cpus(&mut derived);
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
        level(self.history.points(source, instance, name), self.windows)
    }

    /// The same of every instance that has it.
    fn levels(&self, source: ReadingSource, name: &str) -> Vec<Level> {
        let instances = self.history.instances(source, name);
        let levels = instances.filter_map(|instance| self.level(source, instance, name));
        levels.collect()
    }

    /// What a counter of one instance gained.
    fn gained(&self, source: ReadingSource, instance: &str, name: &str) -> Option<Increase> {
        increase(self.history.points(source, instance, name), self.windows)
    }

    fn seconds(&self) -> f64 {
        seconds(self.windows)
    }

    fn put(&mut self, name: &str, value: impl Into<Option<f64>>, unit: Unit) {
        if let Some(value) = value.into().filter(|value| value.is_finite()) {
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

// CPUs: of the host, the client, the server, the sampler.

fn cpus(d: &mut Derived<'_>) {
    host(d);
    processes(d);
    let own = d.history.instances(ReadingSource::Client, "cpu_s_total");
    let own = own.filter(|instance| instance.starts_with("sampler."));
    let cost = own.filter_map(|own| d.gained(ReadingSource::Client, own, "cpu_s_total"));
    let cost = cost.map(|gained| gained.rate).reduce(|a, b| a + b);
    d.put("sampler_cpu_cores", cost, Unit::Count);
}

fn host(d: &mut Derived<'_>) {
    let source = ReadingSource::Host;
    let gained = |name: &str| d.gained(source, "", name);
    let (busy, idle) = (gained("cpu_busy_s_total"), gained("cpu_idle_s_total"));
    let (iowait, steal) = (gained("cpu_iowait_s_total"), gained("cpu_steal_s_total"));
    let pressure = gained("pressure_cpu_some_s_total").map(|p| p.rate);
    let busiest = d
        .history
        .keys()
        .filter(|key| key.source == source && key.name.starts_with("core."))
        .filter_map(|key| Some(gained(&key.name)?.rate))
        .reduce(f64::max)
        .map(|share| share.min(1.0));
    if let (Some(busy), Some(idle), Some(iowait), Some(steal)) = (busy, idle, iowait, steal) {
        let cores = busy.rate + idle.rate + iowait.rate + steal.rate;
        // Counted in ticks, a busy second may seem to have more than a second.
        let of_all = |rate: f64| ratio(Some(rate), Some(cores)).map(|share| share.min(1.0));
        let (mean, peak) = (of_all(busy.rate), of_all(busy.rates.1));
        // Beside the counters, which are in cores, the share that people and findings ask for.
        if let (Some(mean), Some(min), Some(peak)) = (mean, of_all(busy.rates.0), peak) {
            d.summary.resources.push(ResourceSummary {
                series: SeriesKey {
                    source,
                    instance: String::new(),
                    name: "cpu_busy_share".to_owned(),
                },
                unit: Unit::Ratio,
                n: busy.n,
                mean,
                min,
                peak,
                increase: None,
            });
        }
        d.put("host_cpu_share", mean, Unit::Ratio);
        d.put("host_cpu_peak_share", peak, Unit::Ratio);
        d.put("host_steal_share", of_all(steal.rate), Unit::Ratio);
    }
    d.put("host_cpu_pressure_share", pressure, Unit::Ratio);
    d.put("busiest_core_share", busiest, Unit::Ratio);
}

fn processes(d: &mut Derived<'_>) {
    for (source, name) in [
        (ReadingSource::Client, "client"),
        (ReadingSource::ServerProcess, "server"),
    ] {
        // The last tree that was seen, should the server have been restarted; the sampler's own costs are not the client.
        let memory = |instance: &str| d.level(source, instance, "memory_resident_bytes");
        let instances = d.history.instances(source, "memory_resident_bytes");
        let seen = instances.filter_map(|instance| Some((instance, memory(instance)?.max)));
        let Some((instance, memory)) = seen.last() else {
            continue;
        };
        let rate = |series: &str| Some(d.gained(source, instance, series)?.rate);
        let figures = [
            ("cpu_cores", rate("cpu_s_total"), Unit::Count),
            (
                "run_queue_wait",
                rate("run_queue_wait_s_total"),
                Unit::Count,
            ),
            (
                "throttled_share",
                rate("cgroup_throttled_s_total"),
                Unit::Ratio,
            ),
            ("memory_peak_bytes", Some(memory), Unit::Bytes),
        ];
        for (figure, value, unit) in figures {
            d.put(&format!("{name}_{figure}"), value, unit);
        }
    }
}

// GPUs: utilisation, memory, energy per token.

/// Where GPU figures may come from. What was asked for by address (an exporter, a Prometheus server) is meant, so that it is
/// preferred to this host's own GPUs, which may not be the server's.
const SOURCES: [ReadingSource; 3] = [
    ReadingSource::Dcgm,
    ReadingSource::Prometheus,
    ReadingSource::Gpu,
];

const TELLTALES: [&str; 3] = ["utilisation_share", "power_w", "energy_j_total"];

/// Below this utilisation, in every reading, a GPU did nothing.
const USED: f64 = 0.0;

fn gpus(d: &mut Derived<'_>) {
    let found = SOURCES.into_iter().find(|&source| {
        TELLTALES
            .iter()
            .any(|name| d.history.instances(source, name).next().is_some())
    });
    let Some(source) = found else {
        return;
    };
    let gpus = used(d, source);
    if gpus.is_empty() {
        return d.miss("gpu_utilisation_mean", "no GPU was read within the window");
    }
    d.put("gpus_used", gpus.len() as f64, Unit::Count);
    utilisation(d, source, &gpus);
    memory(d, source, &gpus);
    throttling(d, source, &gpus);
    energy(d, source, &gpus);
}

/// The GPUs that worked in the window; all of them where none did or nobody knows. Idle neighbours are not the server's energy.
fn used(d: &Derived<'_>, source: ReadingSource) -> Vec<String> {
    let mut all: Vec<String> = TELLTALES
        .iter()
        .flat_map(|name| d.history.instances(source, name).map(str::to_owned))
        .collect();
    all.sort_unstable();
    all.dedup();
    let level = |gpu: &String, name: &str| d.level(source, gpu, name);
    all.retain(|gpu| TELLTALES.iter().any(|name| level(gpu, name).is_some()));
    let works =
        |gpu: &&String| level(gpu, "utilisation_share").is_some_and(|level| level.max > USED);
    let busy: Vec<String> = all.iter().filter(works).cloned().collect();
    if busy.is_empty() { all } else { busy }
}

/// Of each GPU that has the series, one figure.
fn each(gpus: &[String], figure: impl Fn(&str) -> Option<f64>) -> Vec<f64> {
    gpus.iter().filter_map(|gpu| figure(gpu)).collect()
}

fn largest(values: &[f64]) -> Option<f64> {
    values.iter().copied().reduce(f64::max)
}

fn utilisation(d: &mut Derived<'_>, source: ReadingSource, gpus: &[String]) {
    let level = |gpu: &str| d.level(source, gpu, "utilisation_share");
    let means = each(gpus, |gpu| level(gpu).map(|l| l.mean));
    let peaks = each(gpus, |gpu| level(gpu).map(|l| l.max));
    let idle = each(gpus, |gpu| level(gpu).map(|l| l.zero));
    if means.is_empty() {
        return d.miss("gpu_utilisation_mean", "no GPU tells its utilisation");
    }
    d.put("gpu_utilisation_mean", mean(&means), Unit::Ratio);
    d.put("gpu_utilisation_peak", largest(&peaks), Unit::Ratio);
    d.put("gpu_idle_share", mean(&idle), Unit::Ratio);
}

fn memory(d: &mut Derived<'_>, source: ReadingSource, gpus: &[String]) {
    let level = |gpu: &str, name: &str| d.level(source, gpu, name);
    let shares = each(gpus, |gpu| {
        let used = level(gpu, "memory_used_bytes")?.max;
        let total = level(gpu, "memory_total_bytes").map(|total| total.max);
        let parts = || {
            let reserved = level(gpu, "memory_reserved_bytes").map_or(0.0, |level| level.max);
            Some(used + level(gpu, "memory_free_bytes")?.min + reserved)
        };
        let total = total.or_else(parts)?;
        ratio(Some(used), Some(total))
    });
    let bytes = each(gpus, |gpu| Some(level(gpu, "memory_used_bytes")?.max));
    d.put("gpu_memory_peak_share", largest(&shares), Unit::Ratio);
    d.put("gpu_memory_peak_bytes", largest(&bytes), Unit::Bytes);
}

/// Reasons that mean the GPU could have been faster; a limit that somebody set on its clocks is not one.
const THROTTLES: [&str; 5] = [
    "throttle_power_cap",
    "throttle_hardware",
    "throttle_thermal_software",
    "throttle_thermal_hardware",
    "throttle_power_brake",
];

fn throttling(d: &mut Derived<'_>, source: ReadingSource, gpus: &[String]) {
    let shares = each(gpus, |gpu| {
        let shares = THROTTLES.iter();
        let shares = shares.filter_map(|name| Some(d.level(source, gpu, name)?.mean));
        shares.reduce(f64::max)
    });
    d.put("gpu_throttled_share", largest(&shares), Unit::Ratio);
}

/// Energy from the cards' own counters; where a card has none, its mean power over the window. Per token and request only where
/// every GPU is known.
fn energy(d: &mut Derived<'_>, source: ReadingSource, gpus: &[String]) {
    let (mut joules, mut integrated) = (0.0, None);
    for gpu in gpus {
        let counter = d.gained(source, gpu, "energy_j_total");
        let power = d.level(source, gpu, "power_w");
        let watts = power.map(|power| power.mean).filter(|watts| *watts > 0.0);
        let read = match (counter.map(|counter| counter.over(d.windows)), power) {
            // An exporter renews its page every half minute or so: within a shorter window its counter stands still.
            (Some(Ok(gained)), _) if gained <= 0.0 && watts.is_some() => {
                integrated = Some("the energy counter stood still while power was drawn");
                Ok(watts.unwrap_or_default() * d.seconds())
            }
            (Some(read), _) => read,
            (None, Some(power)) => {
                integrated = Some("a GPU has no energy counter");
                Ok(power.mean * d.seconds())
            }
            (None, None) => Err("it tells neither energy nor power".to_owned()),
        };
        match read {
            Ok(read) => joules += read,
            Err(why) => return d.miss("energy_j", format!("GPU {gpu}: {why}")),
        }
    }
    if let Some(why) = integrated {
        d.miss(
            "energy_counter",
            format!("{why}: its readings of power were averaged instead"),
        );
    }
    d.put("energy_j", joules, Unit::Joules);
    let power = ratio(Some(joules), Some(d.seconds()));
    d.put("gpu_power_mean_w", power, Unit::Watts);
    let per_token = ratio(Some(joules), d.work.output_tokens);
    d.put("energy_per_output_token_j", per_token, Unit::Joules);
    let per_request = ratio(Some(joules), d.work.requests);
    d.put("energy_per_request_j", per_request, Unit::Joules);
}

#[cfg(test)]
#[path = "../../tests/unit/readings_derive.rs"]
mod tests;
