//! What a binary hands to [`crate::main`]: its experiment design, an engine to start, and reports to write.

use std::any::Any;
use std::collections::BTreeMap;
use std::path::Path;

use bench_schema::{Benchmark, Factor, Load, RunRecord, StopRule};
use bench_workload::{DatasetSpec, LengthSpec};

use crate::config::{Amount, Settings};

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

/// What distinguishes a point of the experiment, and what is to be done there. The three binaries differ only in these.
#[derive(Clone, Debug)]
pub struct Cell {
    /// Unique, short, usable in a file name.
    pub id: String,
    /// For people.
    pub label: String,
    /// What distinguishes it.
    pub factors: BTreeMap<String, Factor>,
    /// How load is offered.
    pub load: Load,
    /// What ends it.
    pub stop: StopRule,
    /// How often it is run.
    pub repeats: u32,
    /// What goes before each run, where it was said.
    pub warmup: Option<Amount>,
    /// What is asked.
    pub ask: Ask,
}

/// What a cell asks.
#[derive(Clone, Debug)]
pub struct Ask {
    /// Where prompts come from.
    pub dataset: DatasetSpec,
    /// Prompt length; absent leaves it to the dataset.
    pub input: Option<LengthSpec>,
    /// Output length; absent leaves it to the dataset.
    pub output: Option<LengthSpec>,
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
