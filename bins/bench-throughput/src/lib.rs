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
    "How much a server can serve and what load costs: a sweep of concurrency (closed loop) or of arrival rate (open loop).",
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
    let (id, label) = match (rate_per_s, &arrival) {
        (Some(rate), _) => {
            // the mean of steps may have no end
            let exact = rate.to_string();
            let rate = if exact.len() > 8 {
                format!("{rate:.3}")
            } else {
                exact
            };
            (format!("r{rate}-{kind}"), format!("{rate} req/s {kind}"))
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
    let load = Load::Open {
        rate_per_s,
        arrival,
        in_flight_cap: settings.load.in_flight_cap,
    };
    Cell {
        id,
        label,
        factors,
        stop: settings.stop_rule(requests),
        ..Cell::of(settings, load, DatasetSpec::Mixed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(args: &str, context: Option<u64>) -> Vec<Cell> {
        let args: Vec<&str> = args.split(' ').collect();
        let settings = bench_runner::config::for_tests(Benchmark::Throughput, &args);
        cells(&settings, context)
    }

    fn ids(args: &str) -> Vec<String> {
        let cells = made(&format!("--url http://h {args}"), None).into_iter();
        cells
            .map(|cell| format!("{} {:?}", cell.id, cell.stop.requests))
            .collect()
    }

    #[test]
    fn a_closed_loop_has_a_cell_for_each_concurrency_with_enough_requests_for_it() {
        let two = ids("--concurrency 1,64");
        assert_eq!(two, ["c1 Some(100)", "c64 Some(2048)"]);
    }

    #[test]
    fn a_ramp_of_concurrency_is_a_cell_with_requests_for_its_peak() {
        let three = ids("--concurrency 2,ramp:1:8,steps:4:16:4");
        let expected = ["c2 Some(100)", "c1-to-8 Some(256)", "c4-16-4 Some(512)"];
        assert_eq!(three, expected);
    }

    #[test]
    fn prompts_have_hundreds_of_tokens_unless_the_server_has_no_room_or_something_else_was_asked() {
        let input = |args: &str, context| made(args, context).first().unwrap().input.clone();
        let server = "--url http://h";
        assert_eq!(input(server, None), Some(PROMPTS));
        assert_eq!(input(server, Some(4096)), Some(PROMPTS));
        assert_eq!(input(server, Some(1024)), None);
        assert_eq!(input("--quick --url http://h", None), None);
        assert_eq!(input("--dataset mixed --url http://h", None), None);
        assert_eq!(input("--seed 0", None), None);
    }

    #[test]
    fn an_open_loop_has_a_cell_for_each_rate() {
        let two = ids("--rate 2,0.5 --arrival constant --requests 7");
        assert_eq!(two, ["r2-constant Some(7)", "r0.5-constant Some(7)"]);
    }

    #[test]
    fn a_pace_that_a_file_has_is_no_rate_that_was_asked_for() {
        assert_eq!(ids("--arrival trace --dataset trace:x"), ["trace None"]);
        let quick = made("--url http://h --arrival trace:2 --dataset trace:x", None);
        assert_eq!((&*quick[0].id, &*quick[0].label), ("trace-x2", "trace × 2"));
        assert!(!quick[0].factors.contains_key("rate"));
        let told = serde_json::to_string(&quick[0].load).unwrap();
        assert!(!told.contains("rate_per_s"), "{told}");
    }

    #[test]
    fn a_ramp_needs_no_rate() {
        let third = ids("--arrival steps:10:40:20 --duration 10s");
        assert_eq!(third, ["r23.333-steps None"]);
        let one = ids("--arrival ramp:1:9 --duration 10s");
        assert_eq!(one, ["r5-ramp None"]);
    }
}
