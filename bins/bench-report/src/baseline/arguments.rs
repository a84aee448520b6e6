//! The words of `baseline`, and of `--baseline`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::store::Store;
use crate::arguments::Output;
use crate::error::CommandError;
use crate::run_folder::Reads;

#[derive(Debug, Args)]
pub(crate) struct Baseline {
    #[command(subcommand)]
    pub(super) action: Action,
}

#[derive(Debug, Subcommand)]
pub(super) enum Action {
    /// Copy runs to a place under a name; the path is printed.
    Save(Save),
    /// Every baseline: when it was saved, of what, and whether it can be trusted.
    List(List),
    /// One baseline as a reference document: its numbers, its limits, its targets.
    Show(Show),
    /// Delete one.
    Remove(Remove),
}

#[derive(Debug, Args)]
pub(crate) struct Place {
    /// Where baselines are kept. Put it under version control to share them.
    #[arg(long, value_name = "DIR", default_value = "baselines")]
    pub(super) baselines: PathBuf,
}

#[derive(Debug, Args)]
pub(super) struct Save {
    /// What to call it: letters, digits and -_.+=,@
    pub(super) name: String,
    /// Run directories, or folders of runs; several are repeats of each other.
    #[arg(required = true, value_name = "RUN")]
    pub(super) runs: Vec<PathBuf>,
    /// A remark to keep with it.
    #[arg(long, value_name = "TEXT")]
    pub(super) note: Option<String>,
    /// What the next round is to reach, written like --target of the benchmarks: `requests_per_s>=10,ttft.p95<=200ms`.
    #[arg(long, value_name = "LIST")]
    pub(super) goal: Vec<String>,
    /// Keep run.json only: small enough for a repository. Comparisons of single runs then rest on stored intervals.
    #[arg(long)]
    pub(super) small: bool,
    /// Put it in the place of a baseline of that name.
    #[arg(long)]
    pub(super) replace: bool,
    /// Also save what cannot be trusted.
    #[arg(long)]
    pub(super) untrusted: bool,
    #[command(flatten)]
    pub(super) reads: Reads,
    #[command(flatten)]
    pub(super) place: Place,
}

#[derive(Debug, Args)]
pub(super) struct List {
    /// What stdout gets.
    #[arg(long, default_value = "table")]
    pub(super) output: Output,
    #[command(flatten)]
    pub(super) place: Place,
}

#[derive(Debug, Args)]
pub(super) struct Show {
    /// Which one.
    pub(super) name: String,
    /// What stdout gets.
    #[arg(long, default_value = "table")]
    pub(super) output: Output,
    #[command(flatten)]
    pub(super) place: Place,
}

#[derive(Debug, Args)]
pub(super) struct Remove {
    /// Which one.
    pub(super) name: String,
    #[command(flatten)]
    pub(super) place: Place,
}

/// `--baseline` of `compare` and `gate`.
#[derive(Debug, Args)]
pub(crate) struct FromBaseline {
    /// Hold the runs against the baseline of this name, instead of against BASE (see `bench-report baseline`).
    #[arg(long, value_name = "NAME")]
    pub(super) baseline: Option<String>,
    #[command(flatten)]
    pub(super) place: Place,
}

impl FromBaseline {
    /// What was there before, and what is there now: the baseline and every path, or the first path and the others.
    pub(crate) fn sides(&self, paths: &[PathBuf]) -> Result<(PathBuf, Vec<PathBuf>), CommandError> {
        match (&self.baseline, paths) {
            (Some(name), [_, ..]) => {
                let (_, folder) = Store::at(&self.place.baselines).find(name)?;
                Ok((folder, paths.to_vec()))
            }
            (None, [base, new @ ..]) if !new.is_empty() => Ok((base.clone(), new.to_vec())),
            _ => Err(CommandError::Usage(
                "there is nothing to hold it against; give BASE and NEW, or --baseline NAME and NEW (`bench-report baseline list` has the names)"
                    .to_owned(),
            )),
        }
    }
}
