//! The binary as a user runs it, and what it leaves.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::allow_attributes,
    reason = "each test file uses its own part of this"
)]

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use bench_engine::config::{EngineKind, Fixed};
use bench_engine::{EngineConfig, Server};
use bench_schema::{JournalFile, RequestRecord, RunRecord};

pub type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;

/// The benchmark with these arguments, without what only people look at.
pub fn bench(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bench-throughput"));
    command
        .args(args)
        .args(["--no-progress", "--no-html"])
        .stdin(Stdio::null());
    command
}

/// Two requests at a time, 21 ms each: at most 96 requests/s, whatever the machine does beside it.
pub fn two_at_a_time() -> Result<Server> {
    let fixed = Fixed {
        ttft_ms: 20.0,
        itl_ms: 1.0,
        jitter: 0.0,
        max_num_seqs: Some(2),
        ..Fixed::default()
    };
    Ok(Server::start(EngineConfig {
        engine: EngineKind::Fixed(fixed),
        ..EngineConfig::default()
    })?)
}

/// Short answers one after the other in so many slots, for longer than any test waits: to be ended. What it says can be read.
pub fn endless(server: &Server, slots: usize, run: &Path, more: &[&str]) -> Result<Killed> {
    let (url, slots) = (server.url(), slots.to_string());
    let args = [
        "--url",
        &url,
        "--concurrency",
        &slots,
        "--requests",
        "100000",
        "--warmup",
        "0",
        "--dataset",
        "random",
        "--output-tokens",
        "8",
        "--server-metrics",
        "none",
        "--quiet",
    ];
    let child = bench(&args)
        .args(more)
        .arg("--out")
        .arg(run)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()?;
    Ok(Killed(child))
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The record of a run directory.
pub fn stored(run: &Path) -> Result<RunRecord> {
    let text = std::fs::read_to_string(run.join("run.json"))?;
    Ok(RunRecord::from_json(&text)?)
}

/// The whole lines of a run's journal, part after part; a last one that is torn is left out.
pub fn lines(run: &Path) -> Result<Vec<String>> {
    let mut lines = Vec::new();
    for part in JournalFile::Requests.parts_in(run) {
        let mut whole = std::fs::read(part)?;
        let end = whole.iter().rposition(|byte| *byte == b'\n');
        whole.truncate(end.unwrap_or(0));
        lines.extend(String::from_utf8(whole)?.lines().map(str::to_owned));
    }
    Ok(lines)
}

pub fn records(run: &Path) -> Result<Vec<RequestRecord>> {
    let lines = lines(run)?;
    let parsed: std::result::Result<_, _> = lines
        .iter()
        .map(|line| serde_json::from_str(line))
        .collect();
    Ok(parsed?)
}

/// A simulated engine in this process whose answers take a few milliseconds, with whatever else is asked for.
pub fn quick(config: EngineConfig) -> Result<Server> {
    let fixed = Fixed {
        ttft_ms: 2.0,
        itl_ms: 1.0,
        jitter: 0.0,
        ..Fixed::default()
    };
    Ok(Server::start(EngineConfig {
        engine: EngineKind::Fixed(fixed),
        ..config
    })?)
}

/// A process that ends with the test, whatever becomes of it.
pub struct Killed(pub Child);

impl Drop for Killed {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}
