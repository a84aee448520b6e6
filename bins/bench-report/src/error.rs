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
    #[error(
        "there is no run in {0}; give a run directory (it holds run.json), or the run.json itself"
    )]
    NoRun(PathBuf),
    #[error("{0} is a folder of several runs; name one of them, such as {1}")]
    SeveralRuns(PathBuf, PathBuf),
    #[error(
        "{path}: the journals are not whole: {damage}; take them from a copy, or go on with --damaged-ok (the run is untrusted then)"
    )]
    Damaged { path: PathBuf, damage: String },
    #[error(
        "{0} has no run.json, but what it was to measure; make run.json again with `bench-report recover`"
    )]
    LostRecord(PathBuf),
    #[error(
        "{path}: request {id} of {cell} is in two shards; give each shard once, as it was measured"
    )]
    Twice {
        path: PathBuf,
        cell: String,
        id: u64,
    },
    #[error("{path} holds the files of two runs: {whose}; put the files of each run together")]
    OtherRun { path: PathBuf, whose: String },
    #[error("cannot read {path}: {source}; check that it exists and may be read")]
    Read { path: PathBuf, source: io::Error },
    #[error("{path} is not a result that this program reads: {source}")]
    Schema { path: PathBuf, source: SchemaError },
    #[error(
        "{path}: of cell {} the outcomes are not as many as the planned requests, so the file was changed or damaged; make it again with `bench-report recover`",
        .cell.escape_debug()
    )]
    Counts { path: PathBuf, cell: String },
    #[error("cannot write {path}: {source}; make room there, and see that it may be written")]
    Write { path: PathBuf, source: io::Error },
    #[error(
        "{path}: the run names a file `{name}`, which is no plain file name; the result was not written by these benchmarks, so nothing is written for it"
    )]
    UnsafeName { path: PathBuf, name: String },
    #[error("{0} is not empty; choose a new folder with --out, results are not overwritten")]
    OutExists(PathBuf),
    #[error(
        "{0} holds a result (run.json), which is not overwritten; choose another folder with --out"
    )]
    HoldsRun(PathBuf),
    #[error(
        "{0} is what a run was to measure, not what came of it; give its folder, or make run.json again with `bench-report recover`"
    )]
    Begun(PathBuf),
    #[error(
        "{0} is still being measured (or recovered); wait for its end, or look at it meanwhile with render --stdout"
    )]
    StillRunning(PathBuf),
    #[error("{0} has no requests.jsonl, so there is nothing to take its numbers from")]
    NoRequests(PathBuf),
    #[error(
        "{other} is not a shard of the same run as {first}: `{key}` is {theirs} there and {ours} here; merge joins shards of one plan, use compare for different runs"
    )]
    NotOneRun {
        first: PathBuf,
        other: PathBuf,
        key: String,
        ours: String,
        theirs: String,
    },
    #[error(
        "{0} was not measured as a shard (--shard I/N), so it is no part of a larger run; use compare for runs of their own"
    )]
    NoShard(PathBuf),
    #[error("{first} and {other} are the same run, and a copy is no repeat; give each run once")]
    SameRun { first: PathBuf, other: PathBuf },
    #[error("{first} and {other} are both shard {shard}; give each shard once")]
    SameShard {
        first: PathBuf,
        other: PathBuf,
        shard: String,
    },
    #[error(
        "{0} does not say when its clock began (`clock.unix_epoch_ns`), so its times cannot be put beside those of other shards; run the shards again with this version"
    )]
    NoEpoch(PathBuf),
    #[error(
        "`{}` cannot be the name of a baseline; use letters, digits and -_.+=,@, and no point at the beginning",
        .0.escape_debug()
    )]
    BaselineName(String),
    #[error(
        "there is a baseline {0} already; choose another name, or put this one in its place with --replace"
    )]
    BaselineExists(String),
    #[error(
        "there is no baseline {name} in {folder}{}; save one with `bench-report baseline save {name} RUN`, or name its folder with --baselines",
        if known.is_empty() { String::new() } else { format!(" (it has {})", known.join(", ")) }
    )]
    NoBaseline {
        name: String,
        folder: PathBuf,
        known: Vec<String>,
    },
    #[error("{path} is not a baseline that this program reads: {problem}; save it again")]
    BadBaseline { path: PathBuf, problem: String },
    #[error(
        "{run} cannot be trusted: {why}; a baseline of it would mislead every comparison: measure it again, or save it all the same with --untrusted"
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
            | Self::NotOneRun { .. }
            | Self::SameRun { .. }
            | Self::SameShard { .. }
            | Self::NoShard(_)
            | Self::Report(ReportError::TooFewRuns { .. }) => USAGE,
            _ => FAILED,
        }
    }
}
