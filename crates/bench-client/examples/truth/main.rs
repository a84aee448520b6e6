//! The client against a server that knows the truth, beside a bare reader that only counts.
//!
//! `cargo run --release -p bench-client --example truth -- --streams 64 --itl 10` prints one row of a Markdown table: how far the
//! client's stamps are from the engine's ledger (both on `CLOCK_MONOTONIC` of this machine), and what a token costs.
//!
//! The engine runs in a process of its own, the client in one worker thread, as in a run. With two cores, one each: put
//! `taskset -c 1` before the command and the client pins the engine to core 0 with `--engine-core 0`.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "this is a program; its output is its result"
)]

mod bare;
mod compare;
mod options;
mod worker;

use std::process::ExitCode;

use bench_client::{Endpoint, Fetcher, Target, protocol_by_name};
use bench_engine::config::{EngineKind, Fixed};
use bench_engine::{EngineConfig, child};

use options::Options;

fn main() -> ExitCode {
    if let Some(code) = child::run_if_requested() {
        return code;
    }
    match Options::from_arguments(std::env::args().skip(1)).and_then(|options| run(&options)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<(), String> {
    let engine = child::spawn(&config(options)).map_err(|error| error.to_string())?;
    if let Some(core) = &options.engine_core {
        pin(engine.pid(), core)?;
    }
    let protocol = protocol_by_name("openai-chat").map_err(|error| error.to_string())?;
    let mut target =
        Target::new(engine.url(), protocol, engine.model()).map_err(|error| error.to_string())?;
    target.timeouts.whole = bench_schema::Nanos::from_secs(600);
    let idle = compare::resident_bytes();
    let ours = worker::measure(options, &target)?;
    let ledger = ledger(&target)?;
    let mut row = compare::row(options, &ours, &ledger, idle);
    if options.bare {
        let endpoint = Endpoint::parse(engine.url()).map_err(|error| error.to_string())?;
        let bare = bare::measure(options, &endpoint, engine.model())?;
        row.bare = Some(bare.cpu.as_secs_f64() / bare.events.max(1) as f64 * 1e6);
    }
    if options.header {
        println!("{}", compare::HEADER);
    }
    println!("{row}");
    Ok(())
}

fn config(options: &Options) -> EngineConfig {
    EngineConfig {
        engine: EngineKind::Fixed(Fixed {
            ttft_ms: options.ttft_ms,
            itl_ms: options.itl_ms,
            jitter: options.jitter,
            ..Fixed::default()
        }),
        ledger_capacity: options.streams * options.rounds + 16,
        ..EngineConfig::default()
    }
}

fn ledger(target: &Target) -> Result<Vec<bench_engine::Entry>, String> {
    let fetcher = Fetcher::new(target).map_err(|error| error.to_string())?;
    let url = format!(
        "{}/ledger",
        target
            .endpoints
            .first()
            .map_or(String::new(), ToString::to_string)
    );
    let body = fetcher.get(&url, std::time::Duration::from_mins(2), 1 << 30)?;
    body.split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_slice(line).map_err(|error| format!("ledger: {error}")))
        .collect()
}

/// `taskset` rather than a system call: this crate's one unsafe module is not for examples.
fn pin(pid: u32, core: &str) -> Result<(), String> {
    let status = std::process::Command::new("taskset")
        .args(["-a", "-p", "-c", core, &pid.to_string()])
        .stdout(std::process::Stdio::null())
        .status()
        .map_err(|error| format!("taskset: {error}"))?;
    if status.success() {
        Ok(())
    } else {
        Err("taskset could not pin the engine".to_owned())
    }
}
