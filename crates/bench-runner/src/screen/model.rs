//! What the screen shows, as plain data, taken from the counters at one instant.

use bench_insight::rounded;
use bench_schema::{Metric, Nanos, ReadingSource, Stamp};

use super::Watched;
use crate::recent::{Quantiles, Rates, Recent};

/// Lines of what was said meanwhile.
const NOTES: usize = 12;
/// Where GPU figures come from, that which was asked for by address first.
const GPUS: [ReadingSource; 3] = [
    ReadingSource::Dcgm,
    ReadingSource::Prometheus,
    ReadingSource::Gpu,
];

/// A latency over the latest seconds, and of each second before.
#[derive(Clone, Debug, Default)]
pub(super) struct Latency {
    pub(super) name: &'static str,
    pub(super) now: Option<Quantiles>,
    pub(super) curve: Vec<Option<Quantiles>>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Model {
    pub(super) title: String,
    pub(super) running: Nanos,
    pub(super) phase: String,
    /// Cells done and to come, and the time that is left.
    pub(super) cells: String,
    /// How far the phase is, from 0 to 1, where its plan says where it ends.
    pub(super) share: Option<f64>,
    pub(super) phase_so_far: String,
    pub(super) offered: String,
    pub(super) rates: Option<Rates>,
    pub(super) in_flight: u64,
    pub(super) latencies: [Latency; 2],
    pub(super) requests: String,
    pub(super) failures: Option<String>,
    pub(super) gpus: Option<String>,
    pub(super) server: Option<String>,
    pub(super) against: Vec<String>,
    pub(super) notes: Vec<String>,
}

impl Model {
    /// How it stands `now`.
    pub(super) fn new(watched: &Watched, recent: &Recent, began: Stamp, now: Stamp) -> Self {
        let counters = watched.progress.counters();
        let [ttft, itl] = recent.curves();
        let latency = |name, metric, curve| Latency {
            name,
            now: recent.quantiles(metric),
            curve,
        };
        let mut model = Self {
            title: watched.title.clone(),
            running: now - began,
            cells: cells(watched.cells.as_deref(), recent, now),
            rates: recent.rates(),
            in_flight: counters.in_flight(),
            latencies: [
                latency("TTFT", Metric::Ttft, ttft),
                latency("ITL", Metric::Itl, itl),
            ],
            requests: listed(recent.outcomes.iter().map(|(name, n)| (plain(name), *n)))
                .unwrap_or_else(|| "none ended yet".to_owned()),
            failures: listed(
                (recent.failures.iter())
                    .map(|((kind, stage), n)| (format!("{} in {stage}", plain(kind)), *n)),
            ),
            gpus: gpus(recent, now),
            server: server(recent, now),
            against: against(recent, watched.recorder.held_up()),
            notes: watched.progress.kept(NOTES),
            ..Self::default()
        };
        if let Some(stage) = &recent.stage {
            model.phase.clone_from(&stage.phase);
            model.offered.clone_from(&stage.offered);
            let (over, passed) = (
                counters.over().saturating_sub(stage.over_before),
                now - stage.began,
            );
            let share = |part: f64, whole: f64| (whole > 0.0).then(|| (part / whole).min(1.0));
            let by_time = stage
                .length
                .and_then(|all| share(passed.as_f64(), all.as_f64()));
            let by_requests = stage
                .requests
                .and_then(|all| share(over as f64, all as f64));
            model.share = by_time.or(by_requests);
            model.phase_so_far = match stage.requests {
                Some(all) => format!("{over} of {all} requests"),
                None => format!("{over} requests"),
            };
            // by its pace so far, once there is one
            let at_this_pace =
                by_requests.map(|share| Nanos::from_f64(passed.as_f64() * (1.0 - share) / share));
            let by_plan = stage.length.map(|all| all - passed);
            let left = by_plan.or(at_this_pace.filter(|_| over > 0));
            if let Some(left) = left.filter(|left| *left > Nanos::ZERO) {
                model.phase_so_far = format!("{} · {} left", model.phase_so_far, clock(left));
            }
        }
        model
    }
}

/// Cells done and to come, and the time that all of it takes yet, where all plans say how long they last.
fn cells(plan: Option<&[Option<Nanos>]>, recent: &Recent, now: Stamp) -> String {
    let done = recent.cells_ended;
    let Some(plan) = plan else {
        return format!("stage {} of a search", done + 1);
    };
    let under_way = recent.stage.as_ref().map(|stage| stage.cell);
    let Some(cell) = under_way.filter(|_| done < plan.len()) else {
        return format!("{done} of {} cells done", plan.len());
    };
    let to_come = plan.len().saturating_sub(cell + 1);
    let mut text = format!(
        "cell {} of {} · {done} done, {to_come} to come",
        cell + 1,
        plan.len()
    );
    let passed = recent.cell_began.map_or(Nanos::ZERO, |began| now - began);
    let rest: Option<Nanos> = plan.iter().skip(cell + 1).copied().sum();
    let this = plan.get(cell).copied().flatten();
    if let (Some(rest), Some(this)) = (rest, this) {
        let left = (this - passed).or_zero() + rest;
        text = format!("{text} · about {} left in total", clock(left));
    }
    text
}

/// From here on the verdict may ask why requests of an open loop left late.
const LATE: Nanos = Nanos::from_millis(1);

/// What the verdict will ask, as far as it is counted while the run goes; `held_up` is how often the recorder had no room for a record at once. The limits
/// are the verdict's own and stand there.
fn against(recent: &Recent, held_up: u64) -> Vec<String> {
    let open = recent.stage.as_ref().is_some_and(|stage| stage.open);
    let p99 = recent.quantiles(Metric::Lateness).map(|(_, p99)| p99);
    let late = p99.map(Nanos::from_f64).filter(|p99| open && *p99 > LATE);
    let late = late.map(|p99| format!("lateness of this client: p99 {p99} (last 10 s)"));
    let all: u64 = recent.outcomes.values().sum();
    let completed = recent.outcomes.get("completed").copied().unwrap_or(0);
    let without = (all > completed).then(|| {
        let share = (all - completed) as f64 / all as f64 * 100.0;
        format!(
            "{} of {all} requests without a complete response ({share:.1} %)",
            all - completed
        )
    });
    let waited = (held_up > 0).then(|| format!("the recorder fell behind {held_up} times"));
    late.into_iter().chain(without).chain(waited).collect()
}

fn gpus(recent: &Recent, now: Stamp) -> Option<String> {
    let told = |source: &ReadingSource| {
        let told = recent.told(*source, now);
        let gpus = told
            .into_iter()
            .filter(|gpu| gpu.contains_key("utilisation_share") || gpu.contains_key("power_w"));
        let gpus: Vec<_> = gpus.collect();
        (!gpus.is_empty()).then_some(gpus)
    };
    let gpus = GPUS.iter().find_map(told)?;
    let values = |name: &str| -> Vec<f64> {
        gpus.iter()
            .filter_map(|gpu| gpu.get(name).copied())
            .collect()
    };
    let busy = values("utilisation_share");
    let mut parts = vec![format!("{} monitored", gpus.len())];
    if !busy.is_empty() {
        let mean = busy.iter().sum::<f64>() / busy.len() as f64;
        parts.push(format!("{:.0} % busy on average", mean * 100.0));
    }
    let sum = |name: &str| values(name).into_iter().reduce(|a, b| a + b);
    parts.extend(sum("power_w").map(|watts| format!("{watts:.0} W")));
    let gib = |bytes: f64| bytes / f64::from(1 << 30);
    parts.extend(
        match (sum("memory_used_bytes"), sum("memory_total_bytes")) {
            (Some(used), Some(all)) => {
                Some(format!("{:.0} of {:.0} GiB used", gib(used), gib(all)))
            }
            (Some(used), None) => Some(format!("{:.0} GiB used", gib(used))),
            _ => None,
        },
    );
    Some(parts.join(" · "))
}

/// Requests of replicas add up; of their caches the fullest counts.
fn server(recent: &Recent, now: Stamp) -> Option<String> {
    let told = recent.told(ReadingSource::ServerMetrics, now);
    let values = |name: &'static str| told.iter().filter_map(move |page| page.get(name).copied());
    let count = |name, what: &str| {
        let sum = values(name).reduce(|a, b| a + b)?;
        Some(format!("{} {what}", rounded(sum)))
    };
    let fullest = values("kv_cache_share").reduce(f64::max);
    let cache = fullest.map(|share| format!("KV cache {:.0} % full", share * 100.0));
    let parts = [
        count("running", "running"),
        count("waiting", "waiting"),
        cache,
    ];
    let parts: Vec<_> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join(" · "))
}

fn plain(name: &str) -> String {
    name.replace('_', " ")
}

fn listed(counts: impl Iterator<Item = (String, u64)>) -> Option<String> {
    let parts: Vec<_> = counts.map(|(name, n)| format!("{n} {name}")).collect();
    (!parts.is_empty()).then(|| parts.join(" · "))
}

/// Time as a clock of a run shows it: `45 s`, `3 min 05 s`, `2 h 10 min`.
pub(super) fn clock(time: Nanos) -> String {
    let seconds = time.or_zero().to_duration().as_secs();
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    match (hours, minutes) {
        (0, 0) => format!("{seconds} s"),
        (0, _) => format!("{minutes} min {:02} s", seconds % 60),
        _ => format!("{hours} h {:02} min", minutes % 60),
    }
}

#[cfg(test)]
#[path = "../../tests/unit/screen_model.rs"]
mod tests;
