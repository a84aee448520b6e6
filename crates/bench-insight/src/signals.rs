//! What machine and server said during a cell, under one name whatever the source called it.

use bench_schema::{CellRecord, HardwareSummary, ReadingSource, ResourceSummary, Unit};

/// One thing that can be read from more than one source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// GPU utilisation, a share.
    GpuUse,
    /// GPU memory in use, a share of the card.
    GpuMemory,
    /// KV-cache blocks in use, a share.
    KvCache,
    /// Requests waiting in the server.
    Waiting,
    /// Requests running in the server.
    Running,
    /// Preempted requests, a counter.
    Preemptions,
    /// CPU of the server's host or process, a share of what it may use.
    Cpu,
}

/// A signal over the cell's window, over all instances.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Level {
    /// Mean of the instances' time-weighted means.
    pub mean: f64,
    /// Highest of the instances' peaks.
    pub peak: f64,
    /// Sum of the increases of a counter.
    pub increase: Option<f64>,
}

/// Waiting's share of E2E of which a few readings, that are all 0, cannot say that it is none.
const MISSED: f64 = 0.05;
/// So many can: somebody who waits would have been seen once.
const ENOUGH: u64 = 10;

impl Signal {
    fn sources(self) -> &'static [ReadingSource] {
        use ReadingSource::{Dcgm, Gpu, Host, Prometheus, ServerMetrics, ServerProcess};
        match self {
            // As bench-hardware has it: what was asked for by address is meant; this host's GPUs may not be the server's.
            Self::GpuUse | Self::GpuMemory => &[Dcgm, Prometheus, Gpu],
            Self::Cpu => &[ServerProcess, Host, Prometheus],
            _ => &[ServerMetrics, Prometheus],
        }
    }

    /// The names it goes by: ours first, then those of the servers and exporters.
    fn names(self) -> &'static [&'static str] {
        match self {
            Self::GpuUse => &["utilisation_share", "DCGM_FI_DEV_GPU_UTIL"],
            Self::GpuMemory => &["memory_used_share"],
            Self::KvCache => &[
                "kv_cache_share",
                "vllm:kv_cache_usage_perc",
                "vllm:gpu_cache_usage_perc",
                "sglang:token_usage",
                "llamacpp:kv_cache_usage_ratio",
            ],
            Self::Waiting => &[
                "waiting",
                "vllm:num_requests_waiting",
                "sglang:num_queue_reqs",
                "tgi_queue_size",
                "llamacpp:requests_deferred",
            ],
            Self::Running => &[
                "running",
                "vllm:num_requests_running",
                "sglang:num_running_reqs",
                "tgi_batch_current_size",
                "llamacpp:requests_processing",
            ],
            Self::Preemptions => &[
                "preemptions_total",
                "vllm:num_preemptions_total",
                "vllm:num_preemptions",
            ],
            Self::Cpu => &["cpu_share", "cpu_busy_share"],
        }
    }

    /// The derived figures that hold its mean and its peak; the mean's name is empty where only a peak is derived.
    fn derived_names(self) -> (&'static str, &'static str) {
        match self {
            Self::GpuUse => ("gpu_utilisation_mean", "gpu_utilisation_peak"),
            Self::GpuMemory => ("", "gpu_memory_peak_share"),
            Self::KvCache => ("kv_cache_mean", "kv_cache_peak"),
            Self::Waiting => ("waiting_mean", "waiting_peak"),
            Self::Running => ("running_mean", "running_peak"),
            Self::Preemptions => ("preemptions", "preemptions"),
            Self::Cpu => ("host_cpu_share", "host_cpu_peak_share"),
        }
    }

    /// The signal as `bench-hardware` derives it, over the GPUs and replicas that took part.
    fn derived_level(self, cell: &CellRecord) -> Option<Level> {
        let (mean, peak) = self.derived_names();
        let (mean, peak) = (derived(cell, mean), derived(cell, peak));
        Some(Level {
            mean: mean.or(peak)?,
            peak: peak.or(mean)?,
            increase: mean.filter(|_| self == Self::Preemptions),
        })
    }

    /// Whether the server's own process or exporter was read, rather than the client's host.
    pub(crate) fn is_of_server(self, cell: &CellRecord) -> bool {
        let own = [ReadingSource::ServerProcess, ReadingSource::Prometheus];
        cell.hardware.as_ref().is_some_and(|hardware| {
            self.names().iter().any(|name| {
                own.iter()
                    .any(|s| hardware.series(*s, name).next().is_some())
            })
        })
    }

    /// The signal during `cell`: as derived, else of the first source, and the first name, that has it. A gauge of waiting requests that was 0
    /// the few times that it was read is no reading of a cell in which, by the server's own count, requests waited.
    pub fn of(self, cell: &CellRecord) -> Option<Level> {
        let missed = |level: &Level| {
            let phases = cell.phases.as_ref().filter(|p| p.queue_is_told());
            let few = || self.readings(cell).is_none_or(|n| n < ENOUGH);
            let told = phases.is_some_and(|p| p.queue >= MISSED);
            self == Self::Waiting && level.peak <= 0.0 && told && few()
        };
        self.read(cell).filter(|level| !missed(level))
    }

    /// How often the page or device that tells it was read during `cell`; absent where that is not kept.
    pub fn readings(self, cell: &CellRecord) -> Option<u64> {
        let hardware = cell.hardware.as_ref()?;
        let names = self.names();
        let own = hardware.resources.iter().filter(|resource| {
            let series = &resource.series;
            self.sources().contains(&series.source) && names.contains(&series.name.as_str())
        });
        own.map(|resource| resource.n).max()
    }

    fn read(self, cell: &CellRecord) -> Option<Level> {
        let hardware = cell.hardware.as_ref()?;
        if let Some(level) = self.derived_level(cell) {
            return Some(level);
        }
        self.sources()
            .iter()
            .find_map(|source| {
                self.names()
                    .iter()
                    .find_map(|name| combine(hardware, *source, name))
            })
            .or_else(|| match self {
                Self::GpuMemory => memory_share(hardware),
                Self::Cpu => cpu_share(hardware),
                _ => None,
            })
    }
}

/// Every instance of a series as one level.
fn combine(hardware: &HardwareSummary, source: ReadingSource, name: &str) -> Option<Level> {
    let found: Vec<&ResourceSummary> = hardware
        .series(source, name)
        .filter(|r| r.n > 0 && r.mean.is_finite() && r.peak.is_finite())
        .collect();
    if found.is_empty() {
        return None;
    }
    let means: f64 = found.iter().map(|r| r.mean * scale(r)).sum();
    Some(Level {
        mean: means / found.len() as f64,
        peak: found
            .iter()
            .map(|r| r.peak * scale(r))
            .fold(f64::NEG_INFINITY, f64::max),
        increase: found.iter().filter_map(|r| r.increase).reduce(|a, b| a + b),
    })
}

/// DCGM states utilisation in percent; a Prometheus server hands on the raw series.
fn scale(resource: &ResourceSummary) -> f64 {
    let percent = resource.series.name.starts_with("DCGM") && resource.unit != Unit::Ratio;
    if percent { 0.01 } else { 1.0 }
}

/// Sums over instances of (mean, peak) of a series.
fn total(hardware: &HardwareSummary, source: ReadingSource, name: &str) -> Option<(f64, f64)> {
    hardware
        .series(source, name)
        .filter(|r| r.n > 0 && r.mean.is_finite() && r.peak.is_finite())
        .map(|r| (r.mean, r.peak))
        .reduce(|a, b| (a.0 + b.0, a.1 + b.1))
}

/// GPU memory in use over what the cards have.
fn memory_share(hardware: &HardwareSummary) -> Option<Level> {
    // Both figures of one source: used bytes of one host over the size of another's cards would be nonsense.
    Signal::GpuMemory.sources().iter().find_map(|source| {
        let used = total(hardware, *source, "memory_used_bytes")?;
        let all = total(hardware, *source, "memory_total_bytes")?;
        (all.0 > 0.0).then(|| Level {
            mean: used.0 / all.0,
            peak: used.1 / all.0,
            increase: None,
        })
    })
}

/// Busy over busy and idle CPU time, both read as counters whose rates are in cores.
fn cpu_share(hardware: &HardwareSummary) -> Option<Level> {
    let of_host = |name| total(hardware, ReadingSource::Host, name);
    let (busy, idle) = (of_host("cpu_busy_s_total")?, of_host("cpu_idle_s_total")?);
    let cores = busy.0 + idle.0;
    (cores > 0.0).then(|| Level {
        mean: busy.0 / cores,
        peak: (busy.1 / cores).min(1.0),
        increase: None,
    })
}

/// A derived hardware figure by name, where it is a finite number.
pub(crate) fn derived(cell: &CellRecord, name: &str) -> Option<f64> {
    let value = cell.hardware.as_ref()?.derived.get(name)?.value;
    value.is_finite().then_some(value)
}
