//! The runner, the embedded engine and the reports brought together: the [`main`] that the three benchmarks share.
//!
//! The runner knows neither the engine nor the reports, and neither knows the runner. A benchmark is its experiment design and one call:
//!
//! ```no_run
//! use bench_runner::{Cell, Program, config::Settings};
//! use bench_schema::Benchmark;
//!
//! fn cells(_settings: &Settings, _context: Option<u64>) -> Vec<Cell> {
//!     Vec::new() // the design
//! }
//!
//! const PROGRAM: Program =
//!     bench_program::program(Benchmark::Latency, "How long one request takes.", cells);
//!
//! fn main() -> std::process::ExitCode {
//!     bench_program::main(&PROGRAM)
//! }
//! ```

use std::process::ExitCode;

use bench_engine::{EngineConfig, child};
use bench_runner::config::Settings;
use bench_runner::{Cell, Engine, Program, Reports};
use bench_schema::Benchmark;

/// glibc gives a thread's heap more room page by page, with a system call for each: a fifth of what a worker does in a cold start.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A benchmark with its engine and its reports. `about` is the line of `--help`, `design` makes the cells of the experiment from the
/// settings and, where the server tells it, its context length.
pub const fn program(
    benchmark: Benchmark,
    about: &'static str,
    design: fn(&Settings, Option<u64>) -> Vec<Cell>,
) -> Program {
    Program {
        benchmark,
        about,
        design,
        start_engine,
        reports: Reports {
            table: |run, folder| bench_report::terminal::render(run, Some(folder)),
            tables: |run, folder| bench_report::terminal::render_all(run, Some(folder)),
            markdown: |run| bench_report::markdown::render(run, &[]),
            capacity: bench_report::capacity_words,
            versus: bench_report::compare::terminal,
            versus_markdown: bench_report::compare::changes_markdown,
            matrix: bench_report::matrix::terminal,
            matrix_markdown: bench_report::matrix::markdown,
            html: |run, folder| {
                bench_report::html::render(run, &bench_report::RunFiles::in_dir(folder))
                    .map_err(|error| error.to_string())
            },
        },
    }
}

/// Run a benchmark as the process's command line says, and give the process's exit code.
///
/// To be called first thing in `main`: the embedded engine and the guard of a started server are this same program, started again.
pub fn main(program: &Program) -> ExitCode {
    started_again().unwrap_or_else(|| {
        bench_report::terminal::fit_terminal();
        bench_runner::main(program)
    })
}

/// If this process is a benchmark's helper, the embedded engine or the guard of a server: does its work. `None` for an ordinary start.
pub fn started_again() -> Option<ExitCode> {
    child::run_if_requested().or_else(bench_runner::guard_if_requested)
}

/// The engine runs in a process of its own, so that the client's CPU time is the client's.
fn start_engine(profile: &str) -> Result<Engine, String> {
    let config = EngineConfig::profile_or_file(profile).map_err(|error| error.to_string())?;
    let child = child::spawn(&config).map_err(|error| error.to_string())?;
    Ok(Engine::new(child.url().to_owned(), child.pid(), child))
}
