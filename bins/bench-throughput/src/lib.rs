//! `bench-throughput`: how much can it serve, and what does load cost?
//!
//! The load sweep: a cell for each concurrency of a closed loop, or for each rate of an open one.

use bench_runner::config::{Concurrency, Settings, carries_its_rate};
use bench_runner::{Cell, Program};
use bench_schema::{ArrivalKind, Benchmark, Factor, Load};
use bench_workload::{DatasetSpec, LengthSpec};

/// The program.
pub const PROGRAM: Program = bench_program::program(
    Benchmark::Throughput,
    "Throughput of a server and latency under load: a sweep of concurrency (closed loop) or of request rate (open loop).",
    cells,
);

/// Levels where nothing is said; a small design (the embedded engine, `--quick`) ends at the fourth.
const CONCURRENCY: [u32; 7] = [1, 2, 4, 8, 16, 32, 64];
const SMALL: usize = 4;

/// Prompts where nothing is said and a server is measured: hundreds of tokens, as those of applications are.
const PROMPTS: LengthSpec = LengthSpec::Uniform {
    low: 128,
    high: 896,
};
/// Context that such prompts and the longest answers of the mixed workload need.
const CONTEXT: u64 = 2048;

fn cells(settings: &Settings, context: Option<u64>) -> Vec<Cell> {
    let mut cells = by_load(settings);
    let workload = &settings.workload;
    let unsaid = workload.dataset.is_none() && workload.input_tokens.is_none();
    if unsaid && !settings.small() && context.is_none_or(|tokens| tokens >= CONTEXT) {
        for cell in &mut cells {
            cell.input = Some(PROMPTS);
        }
    }
    cells
}

fn by_load(settings: &Settings) -> Vec<Cell> {
    let load = &settings.load;
    if carries_its_rate(&load.arrival) {
        return vec![open(settings, own_rate(&load.arrival))];
    }
    if !load.rate.is_empty() {
        let rates = load.rate.iter();
        return rates.map(|&rate| open(settings, Some(rate))).collect();
    }
    let levels = if load.concurrency.is_empty() {
        let most = if settings.small() {
            SMALL
        } else {
            CONCURRENCY.len()
        };
        let levels = CONCURRENCY.into_iter().take(most);
        levels.map(Concurrency::from).collect()
    } else {
        load.concurrency.clone()
    };
    levels.iter().map(|level| closed(settings, level)).collect()
}

/// Mean rate of an arrival process that says itself how fast; that of a file is nobody's wish.
fn own_rate(arrival: &ArrivalKind) -> Option<f64> {
    match arrival {
        ArrivalKind::Ramp {
            from_per_s,
            to_per_s,
        } => Some(f64::midpoint(*from_per_s, *to_per_s)),
        ArrivalKind::Steps { rates_per_s } => {
            let levels = u32::try_from(rates_per_s.len()).ok().map(f64::from)?;
            Some(rates_per_s.iter().sum::<f64>() / levels)
        }
        ArrivalKind::Users { users, every } => Some(f64::from(*users) / every.as_secs_f64()),
        _ => None,
    }
}

fn closed(settings: &Settings, level: &Concurrency) -> Cell {
    let load = level.load(settings.load.think_time);
    Cell {
        id: level.id(),
        label: level.label(),
        factors: level.factors(),
        stop: settings.stop_rule(Some(settings.requests_for(level.most))),
        ..Cell::of(settings, load, DatasetSpec::Mixed)
    }
}

fn open(settings: &Settings, rate_per_s: Option<f64>) -> Cell {
    let arrival = settings.load.arrival.clone();
    let kind = arrival.name();
    let load = Load::Open {
        rate_per_s,
        arrival: arrival.clone(),
        in_flight_cap: settings.load.in_flight_cap,
    };
    let cell = Cell::of(settings, load, DatasetSpec::Mixed);
    let (id, label) = match (rate_per_s, &arrival) {
        (Some(rate), _) => {
            // the mean of steps may have no end
            let exact = rate.to_string();
            let rate = if exact.len() > 8 {
                format!("{rate:.3}")
            } else {
                exact
            };
            let label = format!("{rate} {} {kind}", cell.rate_unit());
            (format!("r{rate}-{kind}"), label)
        }
        (None, ArrivalKind::Trace { speed }) if (speed - 1.0).abs() > f64::EPSILON => {
            (format!("{kind}-x{speed}"), format!("{kind} × {speed}"))
        }
        (None, _) => (kind.to_owned(), kind.to_owned()),
    };
    let factor = match rate_per_s {
        Some(rate) => ("rate".to_owned(), Factor::from(rate)),
        None => ("arrival".to_owned(), Factor::from(label.as_str())),
    };
    let factors = [factor].into();
    // a replay ends with its trace
    let replays = matches!(arrival, ArrivalKind::Trace { .. });
    let requests = (!replays).then(|| settings.requests_for(1));
    Cell {
        id,
        label,
        factors,
        stop: settings.stop_rule(requests),
        ..cell
    }
}

#[cfg(test)]
#[path = "../tests/unit/lib.rs"]
mod tests;
