//! What can go wrong, and the exit code it has.

use std::io;
use std::path::{Path, PathBuf};

use bench_insight::InsightError;
use bench_report::ReportError;
use bench_schema::{SchemaError, UnreadablePart};

const FAILED: u8 = 1;
const USAGE: u8 = 2;
/// The numbers cannot be believed.
pub(crate) const UNTRUSTED: u8 = 3;

/// Why a command could not do its work.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CommandError {
    #[error("no run found in {0}; give a run directory (with run.json), or a run.json file")]
    NoRun(PathBuf),
    #[error("{0} is a folder of several runs; give one of them, such as {1}")]
    SeveralRuns(PathBuf, PathBuf),
    #[error("{folder} is no run but {experiment}: {next}")]
    Experiment {
        folder: PathBuf,
        experiment: &'static str,
        next: String,
    },
    #[error(
        "{path}: the journals are incomplete or damaged: {damage}; use an intact copy, or continue with --damaged-ok (the run is then untrusted)"
    )]
    Damaged { path: PathBuf, damage: String },
    #[error(
        "{0} has no run.json, only the plan of the run; rebuild run.json with `bench-report recover`"
    )]
    LostRecord(PathBuf),
    #[error("{path}: request {id} of {cell} is in two shards; give each shard once, unmodified")]
    Twice {
        path: PathBuf,
        cell: String,
        id: u64,
    },
    #[error("{path} contains files of two runs: {whose}; separate the files of the two runs")]
    OtherRun { path: PathBuf, whose: String },
    #[error("cannot read {path}: {source}; check that it exists and is readable")]
    Read { path: PathBuf, source: io::Error },
    #[error("{path} is not a valid result: {source}")]
    Schema { path: PathBuf, source: SchemaError },
    #[error(
        "{path}: in cell {} the number of outcomes differs from the number of planned requests, so the file was changed or damaged; rebuild it with `bench-report recover`",
        .cell.escape_debug()
    )]
    Counts { path: PathBuf, cell: String },
    #[error("cannot write {path}: {source}; check free space and permissions")]
    Write { path: PathBuf, source: io::Error },
    #[error(
        "{path}: the run refers to a file `{name}`, which is not a plain file name; the result was not written by these benchmarks, so nothing was written"
    )]
    UnsafeName { path: PathBuf, name: String },
    #[error("{0} is not empty; choose a new folder with --out (results are never overwritten)")]
    OutExists(PathBuf),
    #[error(
        "{0} contains a result (run.json), which is never overwritten; choose another folder with --out"
    )]
    HoldsRun(PathBuf),
    #[error(
        "{0} is the plan of a run, not its result; give the run directory, or rebuild run.json with `bench-report recover`"
    )]
    Begun(PathBuf),
    #[error("{0} is still being measured (or recovered); wait until it is finished")]
    StillRunning(PathBuf),
    #[error("{0} has no requests.jsonl, so nothing can be computed")]
    NoRequests(PathBuf),
    #[error(
        "{other} is not a shard of the same run as {first}: `{key}` is {theirs} in {other} and {ours} in {first}; merge is for shards of one run, use compare for different runs"
    )]
    NotOneRun {
        first: PathBuf,
        other: PathBuf,
        key: String,
        ours: String,
        theirs: String,
    },
    #[error("{0} was not measured as a shard (--shard I/N); use compare for separate runs")]
    NoShard(PathBuf),
    #[error("{first} and {other} are the same run; give each run once")]
    SameRun { first: PathBuf, other: PathBuf },
    #[error("{first} and {other} are both shard {shard}; give each shard once")]
    SameShard {
        first: PathBuf,
        other: PathBuf,
        shard: String,
    },
    #[error(
        "{0} does not record the start of its clock (`clock.unix_epoch_ns`), so its times cannot be aligned with other shards; run the shards again with this version"
    )]
    NoEpoch(PathBuf),
    #[error(
        "`{}` is not a valid baseline name; use letters, digits and -_.+=,@, and no leading dot",
        .0.escape_debug()
    )]
    BaselineName(String),
    #[error("baseline {0} already exists; choose another name, or replace it with --replace")]
    BaselineExists(String),
    #[error(
        "there is no baseline {name} in {folder}{}; save one with `bench-report baseline save {name} RUN`, or set the folder with --baselines",
        if known.is_empty() { String::new() } else { format!(" (it contains {})", known.join(", ")) }
    )]
    NoBaseline {
        name: String,
        folder: PathBuf,
        known: Vec<String>,
    },
    #[error("{path} is not a valid baseline: {problem}; save it again")]
    BadBaseline { path: PathBuf, problem: String },
    #[error(
        "{run} is untrusted: {why}; it would mislead every comparison: measure it again, or save it anyway with --untrusted"
    )]
    UntrustedBaseline { run: PathBuf, why: String },
    #[error("{0}")]
    Usage(String),
    #[error(transparent)]
    Report(#[from] ReportError),
    #[error(transparent)]
    Insight(#[from] InsightError),
    #[error(transparent)]
    Frames(#[from] bench_frames::FramesError),
}

impl From<UnreadablePart> for CommandError {
    fn from(UnreadablePart { path, source }: UnreadablePart) -> Self {
        Self::Read { path, source }
    }
}

impl CommandError {
    pub(crate) fn read(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        |source| Self::Read { path, source }
    }

    pub(crate) fn write(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        |source| Self::Write { path, source }
    }

    /// The process's exit code.
    pub(crate) fn code(&self) -> u8 {
        match self {
            Self::UntrustedBaseline { .. } => UNTRUSTED,
            Self::Usage(_)
            | Self::BaselineName(_)
            | Self::BaselineExists(_)
            | Self::NoBaseline { .. }
            | Self::Insight(_)
            | Self::OutExists(_)
            | Self::HoldsRun(_)
            | Self::Begun(_)
            | Self::SeveralRuns(..)
            | Self::Experiment { .. }
            | Self::NotOneRun { .. }
            | Self::SameRun { .. }
            | Self::SameShard { .. }
            | Self::NoShard(_)
            | Self::Report(ReportError::TooFewRuns { .. }) => USAGE,
            _ => FAILED,
        }
    }
}
