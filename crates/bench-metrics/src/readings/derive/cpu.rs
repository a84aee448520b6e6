//! CPUs: of the host, the client, the server, the sampler.

use bench_schema::{ReadingSource, ResourceSummary, SeriesKey, Unit};

use super::{Derived, ratio};

pub(super) fn derive(d: &mut Derived<'_>) {
    host(d);
    processes(d);
    let own = d.history.instances(ReadingSource::Client, "cpu_s_total");
    let own = own.filter(|instance| instance.starts_with("sampler."));
    let cost = own.filter_map(|own| d.gained(ReadingSource::Client, own, "cpu_s_total"));
    let cost = cost.map(|gained| gained.rate()).reduce(|a, b| a + b);
    d.put_some("sampler_cpu_cores", cost, Unit::Count);
}

fn host(d: &mut Derived<'_>) {
    let source = ReadingSource::Host;
    let gained = |name: &str| d.gained(source, "", name);
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
        let memory = |instance: &str| d.level(source, instance, "memory_resident_bytes");
        let instances = d.history.instances(source, "memory_resident_bytes");
        let seen = instances.filter_map(|instance| Some((instance, memory(instance)?.max)));
        let Some((instance, memory)) = seen.last() else {
            continue;
        };
        let rate = |series: &str| Some(d.gained(source, instance, series)?.rate());
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
            d.put_some(&format!("{name}_{figure}"), value, unit);
        }
    }
}
