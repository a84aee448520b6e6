//! `bench-throughput`: how much can it serve, and what does load cost?

mod design;

use std::process::ExitCode;

use bench_engine::EngineConfig;
use bench_runner::{Engine, Program, Reports};
use bench_schema::Benchmark;

fn main() -> ExitCode {
    if let Some(code) = bench_engine::child::run_if_requested() {
        return code;
    }
    bench_runner::main(&Program {
        benchmark: Benchmark::Throughput,
        about: "How much a server can serve and what load costs: a sweep of concurrency (closed loop) or of arrival rate (open loop).",
        design: design::cells,
        start_engine,
        reports: Reports {
            table: |run, folder| bench_report::terminal::render(run, Some(folder)),
            markdown: |run| bench_report::markdown::render(run, &[]),
            html: |run, folder| {
                bench_report::html::render(run, &bench_report::RunFiles::in_dir(folder))
                    .map_err(|error| error.to_string())
            },
        },
    })
}

/// The engine runs in a process of its own, so that the client's CPU time is the client's.
fn start_engine(profile: &str) -> Result<Engine, String> {
    let config = EngineConfig::profile_or_file(profile).map_err(|error| error.to_string())?;
    let child = bench_engine::child::spawn(&config).map_err(|error| error.to_string())?;
    Ok(Engine::new(child.url().to_owned(), child.pid(), child))
}
