//! GPUs: utilisation, memory, energy per token.

use bench_schema::{ReadingSource, Unit};

use super::{Derived, ratio};
use crate::num::mean;

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

pub(super) fn derive(d: &mut Derived<'_>) {
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
    d.put_some("gpu_utilisation_mean", mean(&means), Unit::Ratio);
    d.put_some("gpu_utilisation_peak", largest(&peaks), Unit::Ratio);
    d.put_some("gpu_idle_share", mean(&idle), Unit::Ratio);
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
    d.put_some("gpu_memory_peak_share", largest(&shares), Unit::Ratio);
    d.put_some("gpu_memory_peak_bytes", largest(&bytes), Unit::Bytes);
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
    d.put_some("gpu_throttled_share", largest(&shares), Unit::Ratio);
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
    d.put_some("gpu_power_mean_w", power, Unit::Watts);
    let per_token = ratio(Some(joules), d.work.output_tokens);
    d.put_some("energy_per_output_token_j", per_token, Unit::Joules);
    let per_request = ratio(Some(joules), d.work.requests);
    d.put_some("energy_per_request_j", per_request, Unit::Joules);
}
