//! Which readings are worth a chart, which of them belong together, and what people call them. The rest are in
//! `hardware.jsonl` and in the table of the run.

use bench_schema::{ReadingSource, SeriesKey, Unit};

use crate::text;

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

impl Topic {
    /// Every topic, in the order in which a reader wants them.
    pub(crate) const ALL: [Self; 12] = [
        Self::Queue,
        Self::Cache,
        Self::ServerTokens,
        Self::Gpu,
        Self::GpuMemory,
        Self::Power,
        Self::Temperature,
        Self::GpuClock,
        Self::Cpu,
        Self::Contention,
        Self::Memory,
        Self::Asked,
    ];

    /// Part of a file name.
    pub(crate) fn id(self) -> &'static str {
        match self {
            Self::Queue => "queue",
            Self::Cache => "cache",
            Self::ServerTokens => "server-tokens",
            Self::Gpu => "gpu",
            Self::GpuMemory => "gpu-memory",
            Self::Power => "power",
            Self::Temperature => "temperature",
            Self::GpuClock => "gpu-clock",
            Self::Cpu => "cpu",
            Self::Contention => "contention",
            Self::Memory => "memory",
            Self::Asked => "prometheus",
        }
    }

    /// The value axis with its unit.
    pub(crate) fn axis(self) -> &'static str {
        match self {
            Self::Queue => "requests in the server",
            Self::Cache => "share (%)",
            Self::ServerTokens => "tokens/s, as the server counts",
            Self::Gpu => "busy (% of the time)",
            Self::GpuMemory | Self::Memory => "memory (GiB)",
            Self::Power => "power (W)",
            Self::Temperature => "temperature (°C)",
            Self::GpuClock => "clock (MHz)",
            Self::Cpu => "CPUs in use",
            Self::Contention => "share of the time (%)",
            Self::Asked => "as the query gives it",
        }
    }

    /// Whether its values cannot exceed 100 %.
    pub(crate) fn is_share(self) -> bool {
        matches!(self, Self::Cache | Self::Gpu | Self::Contention)
    }

    /// What a stored value is divided by.
    pub(crate) fn scale(self) -> f64 {
        match self {
            Self::Cache | Self::Gpu | Self::Contention => 0.01,
            Self::GpuMemory | Self::Memory => 1024.0 * 1024.0 * 1024.0,
            Self::GpuClock => 1e6,
            _ => 1.0,
        }
    }
}

/// Where a series is shown, under which name, and how early among the others; `None` where no chart needs it.
pub(crate) fn place(key: &SeriesKey, unit: Unit) -> Option<(Topic, String, u8)> {
    use ReadingSource as From;
    let shown = |topic, rank, name: &str| Some((topic, name.to_owned(), rank));
    match (key.source, key.name.as_str()) {
        (From::ServerMetrics, "running") => shown(Topic::Queue, 0, "running"),
        (From::ServerMetrics, "waiting") => shown(Topic::Queue, 1, "waiting"),
        (From::ServerMetrics, "swapped") => shown(Topic::Queue, 2, "swapped out"),
        (From::ServerMetrics, "kv_cache_share") => shown(Topic::Cache, 0, "KV cache in use"),
        (From::ServerMetrics, "prefix_cache_hit_share") => {
            shown(Topic::Cache, 1, "prefix cache hits")
        }
        (From::ServerMetrics, "generation_tokens_total") => {
            shown(Topic::ServerTokens, 0, "generated")
        }
        (From::ServerMetrics, "prompt_tokens_total") => shown(Topic::ServerTokens, 1, "prompts"),
        (From::Host, "cpu_busy_s_total") => shown(Topic::Cpu, 0, "whole host"),
        (From::ServerProcess, "cpu_s_total") => shown(Topic::Cpu, 1, "server"),
        (From::Client, "cpu_s_total") if key.instance.is_empty() => {
            shown(Topic::Cpu, 2, "this client")
        }
        (From::Host, "pressure_cpu_some_s_total") => {
            shown(Topic::Contention, 0, "a task waits for a CPU")
        }
        (From::Host, "pressure_io_some_s_total") => {
            shown(Topic::Contention, 1, "a task waits for a disk")
        }
        (From::ServerProcess, "memory_resident_bytes") => shown(Topic::Memory, 0, "server"),
        (From::Host, "memory_used_bytes") => shown(Topic::Memory, 1, "whole host"),
        (From::Client, "memory_resident_bytes") => shown(Topic::Memory, 2, "this client"),
        (From::Gpu | From::Dcgm, name) => gpu(&key.instance, name),
        (From::Prometheus, name) => {
            Some(gpu(&key.instance, name).unwrap_or_else(|| asked(name, unit)))
        }
        _ => None,
    }
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
mod tests {
    use super::*;

    fn key(source: ReadingSource, instance: &str, name: &str) -> SeriesKey {
        SeriesKey {
            source,
            instance: instance.to_owned(),
            name: name.to_owned(),
        }
    }

    #[test]
    fn what_says_nothing_of_the_server_gets_no_chart() {
        for name in ["load_1m", "core.0.cpu_busy_s_total", "memory_total_bytes"] {
            assert!(place(&key(ReadingSource::Host, "", name), Unit::Count).is_none());
        }
        let sampler = key(ReadingSource::Client, "sampler.host", "cpu_s_total");
        assert!(place(&sampler, Unit::Count).is_none());
    }

    #[test]
    fn cards_are_told_apart() {
        let placed = place(
            &key(ReadingSource::Gpu, "1", "utilisation_share"),
            Unit::Ratio,
        );
        assert_eq!(placed, Some((Topic::Gpu, "GPU 1".to_owned(), 0)));
    }

    #[test]
    fn a_prometheus_servers_gpus_are_among_the_gpus_and_its_queries_for_themselves() {
        let prometheus = |instance, name| {
            let key = key(ReadingSource::Prometheus, instance, name);
            place(&key, Unit::Ratio).unwrap()
        };
        let card = prometheus("http://prom:9090 gpu-1:0", "utilisation_share");
        assert_eq!((card.0, card.1.as_str()), (Topic::Gpu, "GPU gpu-1:0"));
        assert_eq!(prometheus("http://prom:9090", "my_figure").0, Topic::Asked);
    }
}
