//! The run: configuration, pacing, execution, journal, progress, and the three binaries' shared [`main`].
//!
//! ```text
//! config --design--> Cell --plan(seed)--> planner --queue--> worker --client--> RequestRecord --> journal
//!                                                                                         \--> tally --> CellRecord --> RunRecord
//! ```
//!
//! A binary hands in a [`Program`]: its experiment design, the engine to start where no URL is given, and the reports to write.

pub mod config;
mod entry;
mod folder;
mod health;
mod journal;
mod launch;
mod limiter;
mod live_metrics;
mod matrix;
mod meet;
mod open_record;
mod otlp;
mod phase;
mod planner;
mod progress;
mod recent;
mod recorder;
mod redact;
mod run;
mod screen;
mod server;
mod stop;
mod versus;
mod worker;
mod worker_pool;

pub use entry::{Cell, Engine, Program, Reports, main};
pub use journal::JournalError;
pub use launch::guard_if_requested;

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use config::Problem;
use journal::cure;

/// Why a run could not be made, or ended early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the message says what each field is")]
pub enum RunError {
    /// The configuration is wrong; every problem is here.
    #[error("{}", listed(.0))]
    Config(Vec<Problem>),
    /// The configuration file cannot be read.
    #[error("cannot read {path}; check the path given with --config or BENCH_CONFIG")]
    ConfigFile { path: PathBuf, source: io::Error },
    /// The embedded engine did not start.
    #[error("the embedded engine did not start: {0}")]
    Engine(String),
    /// The server cannot be measured.
    #[error("{what}\n  help: {help}")]
    Server { what: String, help: String },
    /// Somebody ended it before there was anything to keep.
    #[error("{}, before anything was measured", crate::stop::ended_by(.0))]
    Interrupted(&'static str),
    /// `--deadline` was over before there was anything to keep.
    #[error(
        "--deadline {0:?} passed before anything was measured\n  help: check what the run was waiting for (the server's log, other shards), or use a longer --deadline"
    )]
    DeadlineOver(Duration),
    /// The folder holds a matrix of settings that was asked for otherwise.
    #[error(
        "{0} holds a matrix with a different `{1}`; use the original value, or choose another folder with --out"
    )]
    OtherMatrix(PathBuf, String),
    /// No setting of a matrix could be measured.
    #[error("no setting could be measured; the output of each server is in {0}")]
    NoSetting(PathBuf),
    /// The client cannot be set up.
    #[error("{0}")]
    Client(String),
    /// The workload cannot be made.
    #[error(transparent)]
    Workload(bench_workload::WorkloadError),
    /// The results cannot be written.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The result itself cannot be written.
    #[error(
        "the result could not be stored; the requests written so far are in {0}: {cure}, then run `bench-report recover {0}`",
        cure = .1.cure()
    )]
    NotStored(PathBuf, #[source] Box<RunError>),
    /// A report cannot be written.
    #[error(
        "a report could not be written: {cure}, then run `bench-report render {0}`",
        cure = .1.cure()
    )]
    NoReport(PathBuf, #[source] Box<RunError>),
    /// A thread or its runtime could not be started.
    #[error(
        "cannot start a thread; raise the limit on threads (ulimit -u) or on memory (ulimit -v)"
    )]
    Thread(#[source] io::Error),
    /// A thread beside the run ended when it should not have.
    #[error("the thread `{0}` ended unexpectedly")]
    AsideGone(String),
    /// A worker thread ended when it should not have.
    #[error(
        "a worker thread ended unexpectedly; the run directory has what was measured until then"
    )]
    WorkerGone,
    /// The recorder thread ended when it should not have.
    #[error(
        "the recorder thread ended unexpectedly; the run directory has what was measured until then"
    )]
    RecorderGone,
    /// The run directory exists and is not empty.
    #[error("{0} exists and is not empty; choose another folder with --out")]
    OutExists(PathBuf),
    /// Another run, or a recovery, is at work in the run directory.
    #[error("{0} is in use by another run; choose another folder with --out")]
    OutInUse(PathBuf),
    /// The shards do not come together.
    #[error("{0}")]
    Meet(String),
    /// Two sides in turns that have not had turns enough.
    #[error(
        "a comparison needs at least {fewest} complete blocks; what was measured is in {0}",
        fewest = bench_metrics::FEWEST_BLOCKS
    )]
    TooFewBlocks(PathBuf),
    /// No request of the run got a whole answer.
    #[error(
        "no request completed: {0}\n  help: requests.jsonl in the run directory has the outcome of every request"
    )]
    NothingAnswered(String),
}

impl RunError {
    /// What helps where something could not be written.
    pub(crate) fn cure(&self) -> &'static str {
        let known = match self {
            Self::Journal(JournalError::Create { cause, .. }) => cure(cause),
            Self::Journal(JournalError::Lost { source, .. }) => cure(source),
            _ => None,
        };
        known.unwrap_or("remove the cause")
    }
}

impl From<bench_client::ClientError> for RunError {
    fn from(error: bench_client::ClientError) -> Self {
        Self::Client(error.to_string())
    }
}

fn listed(problems: &[Problem]) -> String {
    let count = problems.len();
    let mut text = if count == 1 {
        "a problem in the configuration".to_owned()
    } else {
        format!("{count} problems in the configuration")
    };
    for problem in problems {
        text.push_str("\n  ");
        text.push_str(&problem.to_string().replace('\n', "\n  "));
    }
    text
}
