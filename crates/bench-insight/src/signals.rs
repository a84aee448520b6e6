//! What machine and server said during a cell, under one name whatever the source called it.

use bench_schema::{CellRecord, HardwareSummary, ReadingSource, ResourceSummary, Unit};

/// One thing that can be read from more than one source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
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
pub(crate) struct Level {
    /// Mean of the instances' time-weighted means.
    pub(crate) mean: f64,
    /// Highest of the instances' peaks.
    pub(crate) peak: f64,
    /// Sum of the increases of a counter.
    pub(crate) increase: Option<f64>,
}

impl Signal {
    fn sources(self) -> &'static [ReadingSource] {
        use ReadingSource::{Dcgm, Gpu, Host, Prometheus, ServerMetrics, ServerProcess};
        match self {
            Self::GpuUse | Self::GpuMemory => &[Gpu, Dcgm, Prometheus],
            Self::Cpu => &[ServerProcess, Host, Prometheus],
            _ => &[ServerMetrics, Prometheus],
        }
    }

    /// The names it goes by: ours first, then those of the servers and exporters.
    fn names(self) -> &'static [&'static str] {
        match self {
            Self::GpuUse => &[
                "utilisation",
                "gpu_utilisation",
                "utilization",
                "gpu_use",
                "DCGM_FI_DEV_GPU_UTIL",
            ],
            Self::GpuMemory => &[
                "memory_share",
                "gpu_memory_share",
                "memory_use",
                "memory_used_share",
            ],
            Self::KvCache => &[
                "kv_cache_use",
                "kv_cache_usage",
                "vllm:kv_cache_usage_perc",
                "vllm:gpu_cache_usage_perc",
                "sglang:token_usage",
                "llamacpp:kv_cache_usage_ratio",
            ],
            Self::Waiting => &[
                "waiting",
                "requests_waiting",
                "vllm:num_requests_waiting",
                "sglang:num_queue_reqs",
                "tgi_queue_size",
                "llamacpp:requests_deferred",
            ],
            Self::Running => &[
                "running",
                "requests_running",
                "vllm:num_requests_running",
                "sglang:num_running_reqs",
                "tgi_batch_current_size",
                "llamacpp:requests_processing",
            ],
            Self::Preemptions => &[
                "preemptions",
                "vllm:num_preemptions_total",
                "vllm:num_preemptions",
            ],
            Self::Cpu => &["cpu", "cpu_use", "cpu_share", "cpu_utilisation"],
        }
    }

    /// Whether it is a share, so that a percentage has to be divided.
    fn is_share(self) -> bool {
        matches!(
            self,
            Self::GpuUse | Self::GpuMemory | Self::KvCache | Self::Cpu
        )
    }

    /// The signal during `cell`: of the first source, and the first name, that has it.
    pub(crate) fn of(self, cell: &CellRecord) -> Option<Level> {
        let hardware = cell.hardware.as_ref()?;
        self.sources()
            .iter()
            .find_map(|source| {
                self.names()
                    .iter()
                    .find_map(|name| self.combine(hardware, *source, name))
            })
            .or_else(|| self.from_bytes(hardware))
    }

    fn combine(
        self,
        hardware: &HardwareSummary,
        source: ReadingSource,
        name: &str,
    ) -> Option<Level> {
        let found: Vec<&ResourceSummary> = hardware
            .series(source, name)
            .filter(|r| r.n > 0 && r.mean.is_finite() && r.peak.is_finite())
            .collect();
        if found.is_empty() {
            return None;
        }
        let scale = |r: &ResourceSummary| self.scale(r);
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

    /// Shares that a source states in percent (no unit, or a plain count) come down to 0…1.
    fn scale(self, resource: &ResourceSummary) -> f64 {
        let percent = self.is_share() && resource.unit != Unit::Ratio;
        if percent { 0.01 } else { 1.0 }
    }

    /// GPU memory as used bytes over total bytes, where no share was read.
    fn from_bytes(self, hardware: &HardwareSummary) -> Option<Level> {
        if self != Self::GpuMemory {
            return None;
        }
        let read = |name: &str| self.raw(hardware, name);
        let (used, total) = (read("memory_used")?, read("memory_total")?);
        (total.mean > 0.0).then(|| Level {
            mean: used.mean / total.mean,
            peak: used.peak / total.mean,
            increase: None,
        })
    }

    fn raw(self, hardware: &HardwareSummary, name: &str) -> Option<Level> {
        let found: Vec<&ResourceSummary> = hardware
            .series(ReadingSource::Gpu, name)
            .filter(|r| r.mean.is_finite() && r.peak.is_finite())
            .collect();
        (!found.is_empty()).then(|| Level {
            mean: found.iter().map(|r| r.mean).sum(),
            peak: found.iter().map(|r| r.peak).sum(),
            increase: None,
        })
    }
}

/// A derived hardware figure by name, where it is a finite number.
pub(crate) fn derived(cell: &CellRecord, name: &str) -> Option<f64> {
    let value = cell.hardware.as_ref()?.derived.get(name)?.value;
    value.is_finite().then_some(value)
}
