//! What a binary hands to [`crate::main`]: its experiment design, an engine to start, and reports to write.

use std::any::Any;
use std::path::Path;

use bench_schema::{Benchmark, RunRecord};

use crate::cell::Cell;
use crate::config::Settings;

/// One of the three benchmarks. The runner knows neither the engine nor the reports: the binary brings them together.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// Which one.
    pub benchmark: Benchmark,
    /// One line for `--help`.
    pub about: &'static str,
    /// The cells of the experiment, from the settings and the server's context length (in tokens), where it tells one.
    pub design: fn(&Settings, Option<u64>) -> Vec<Cell>,
    /// Starts the embedded engine of this profile or file; used where no URL is given.
    pub start_engine: fn(&str) -> Result<Engine, String>,
    /// Makes texts of a finished run.
    pub reports: Reports,
}

/// A running embedded engine; dropping it stops it.
pub struct Engine {
    /// Where it listens.
    pub url: String,
    /// Its process.
    pub pid: u32,
    guard: Box<dyn Any>,
}

impl Engine {
    /// An engine at `url` in process `pid`, alive as long as `guard` is.
    pub fn new(url: String, pid: u32, guard: impl Any) -> Self {
        Self {
            url,
            pid,
            guard: Box::new(guard),
        }
    }
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine")
            .field("url", &self.url)
            .field("pid", &self.pid)
            .field("alive", &self.guard.is::<()>())
            .finish()
    }
}

/// Texts made of a run record and its directory.
#[derive(Clone, Copy, Debug)]
pub struct Reports {
    /// For the terminal, with where the results lie: what fits one screen.
    pub table: fn(&RunRecord, &Path) -> String,
    /// For the terminal: every table.
    pub tables: fn(&RunRecord, &Path) -> String,
    /// For `report.md`.
    pub markdown: fn(&RunRecord) -> String,
    /// For `report.html`, which also shows single requests and readings from the directory.
    pub html: fn(&RunRecord, &Path) -> Result<String, String>,
}
