//! CPUs: of the host, the client, the server, the sampler.

use bench_schema::{ReadingSource, ResourceSummary, SeriesKey, Unit};

use super::{Derived, ratio};

pub(super) fn derive(d: &mut Derived<'_>) {
    host(d);
    processes(d);
    let cost: Vec<f64> = d
        .history
        .instances(ReadingSource::Client, "cpu_s_total")
        .filter(|instance| instance.starts_with("sampler."))
        .filter_map(|instance| {
            let source = ReadingSource::Client;
            let gained = d
                .history
                .increase(source, instance, "cpu_s_total", d.windows)?;
            Some(gained.rate())
        })
        .collect();
    if !cost.is_empty() {
        d.put("sampler_cpu_cores", cost.iter().sum(), Unit::Count);
    }
}

fn host(d: &mut Derived<'_>) {
    let source = ReadingSource::Host;
    let gained = |name: &str| d.history.increase(source, "", name, d.windows);
    let (busy, idle) = (gained("cpu_busy_s_total"), gained("cpu_idle_s_total"));
    let (iowait, steal) = (gained("cpu_iowait_s_total"), gained("cpu_steal_s_total"));
    let pressure = gained("pressure_cpu_some_s_total").map(|p| p.rate());
    let busiest = d
        .history
        .keys()
        .filter(|key| key.source == source && key.name.starts_with("core."))
        .filter_map(|key| Some(gained(&key.name)?.rate()))
        .reduce(f64::max)
        .map(|share| share.min(1.0));
    if let (Some(busy), Some(idle), Some(iowait), Some(steal)) = (busy, idle, iowait, steal) {
        let cores = busy.rate() + idle.rate() + iowait.rate() + steal.rate();
        // Counted in ticks, a busy second may seem to have more than a second.
        let of_all = |rate: f64| ratio(Some(rate), Some(cores)).map(|share| share.min(1.0));
        let (mean, peak) = (of_all(busy.rate()), of_all(busy.rates.1));
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
        d.put_some("host_cpu_share", mean, Unit::Ratio);
        d.put_some("host_cpu_peak_share", peak, Unit::Ratio);
        d.put_some("host_steal_share", of_all(steal.rate()), Unit::Ratio);
    }
    d.put_some("host_cpu_pressure_share", pressure, Unit::Ratio);
    d.put_some("busiest_core_share", busiest, Unit::Ratio);
}

fn processes(d: &mut Derived<'_>) {
    for (source, name) in [
        (ReadingSource::Client, "client"),
        (ReadingSource::ServerProcess, "server"),
    ] {
        // The last tree that was seen, should the server have been restarted; the sampler's own costs are not the client.
        let instance = d
            .history
            .instances(source, "memory_resident_bytes")
            .filter(|i| {
                d.history
                    .level(source, i, "memory_resident_bytes", d.windows)
                    .is_some()
            })
            .last()
            .map(str::to_owned);
        let Some(instance) = instance else { continue };
        let gained = |series: &str| d.history.increase(source, &instance, series, d.windows);
        let (cpu, wait) = (gained("cpu_s_total"), gained("run_queue_wait_s_total"));
        let throttled = gained("cgroup_throttled_s_total");
        let memory = d
            .history
            .level(source, &instance, "memory_resident_bytes", d.windows);
        d.put_some(
            &format!("{name}_cpu_cores"),
            cpu.map(|c| c.rate()),
            Unit::Count,
        );
        d.put_some(
            &format!("{name}_run_queue_wait"),
            wait.map(|w| w.rate()),
            Unit::Count,
        );
        d.put_some(
            &format!("{name}_throttled_share"),
            throttled.map(|t| t.rate()),
            Unit::Ratio,
        );
        d.put_some(
            &format!("{name}_memory_peak_bytes"),
            memory.map(|m| m.max),
            Unit::Bytes,
        );
    }
}
