//! `baseline`: runs kept under a name, for later runs to be held against.

mod show;
mod store;

use std::path::PathBuf;

use bench_insight::RunComparison;
use clap::{Args, Subcommand};

use crate::arguments::Output;
use crate::error::CommandError;
use crate::run_folder::{Reads, RunFolder, no_copies, notes, open_group};
use crate::{Done, json};

pub(crate) use show::Goals;

use store::Store;

#[derive(Debug, Args)]
pub(crate) struct Baseline {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Save runs under a name, and print the path.
    Save(Save),
    /// List all baselines with their date, source and trust.
    List {
        /// Format of stdout.
        #[arg(long, default_value = "table")]
        output: Output,
        #[command(flatten)]
        place: Place,
    },
    /// Show a baseline: its numbers, bottlenecks and targets.
    Show {
        /// Name of the baseline.
        name: String,
        /// Format of stdout.
        #[arg(long, default_value = "table")]
        output: Output,
        #[command(flatten)]
        place: Place,
    },
    /// Delete a baseline.
    Remove {
        /// Name of the baseline.
        name: String,
        #[command(flatten)]
        place: Place,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Place {
    /// Folder of the baselines. Put it under version control to share them.
    #[arg(long, value_name = "DIR", default_value = "baselines")]
    baselines: PathBuf,
}

#[derive(Debug, Args)]
struct Save {
    /// Name of the baseline: letters, digits and -_.+=,@
    name: String,
    /// Run directories, or folders of runs; several runs are treated as repeats.
    #[arg(required = true, value_name = "RUN")]
    runs: Vec<PathBuf>,
    /// Note to store with the baseline.
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,
    /// Goals for the next round, written like --target of the benchmarks: `requests_per_s>=10,ttft.p95<=200ms`.
    #[arg(long, value_name = "LIST")]
    goal: Vec<String>,
    /// Store only run.json, which is small enough for a repository. Comparisons of single runs then use the stored intervals.
    #[arg(long)]
    small: bool,
    /// Replace an existing baseline of this name.
    #[arg(long)]
    replace: bool,
    /// Save the runs even if they are untrusted.
    #[arg(long)]
    untrusted: bool,
    #[command(flatten)]
    reads: Reads,
    #[command(flatten)]
    place: Place,
}

/// `--baseline` of `compare` and `gate`.
#[derive(Debug, Args)]
pub(crate) struct FromBaseline {
    /// Compare with the baseline of this name instead of BASE (see `bench-report baseline`).
    #[arg(long, value_name = "NAME")]
    baseline: Option<String>,
    #[command(flatten)]
    place: Place,
}

impl FromBaseline {
    /// What was there before, and what is there now: the baseline and every path, or the first path and the others.
    pub(crate) fn sides(&self, paths: &[PathBuf]) -> Result<(PathBuf, Vec<PathBuf>), CommandError> {
        match (&self.baseline, paths) {
            (Some(name), [_, ..]) => {
                let (_, folder) = Store::at(&self.place.baselines).whole(name)?;
                Ok((folder, paths.to_vec()))
            }
            (None, [base, new @ ..]) if !new.is_empty() => Ok((base.clone(), new.to_vec())),
            _ => Err(CommandError::Usage(
                "nothing to compare with; give BASE and NEW, or --baseline NAME and NEW (`bench-report baseline list` shows the names)"
                    .to_owned(),
            )),
        }
    }
}

pub(crate) fn run(arguments: &Baseline) -> Result<Done, CommandError> {
    match &arguments.action {
        Action::Save(save) => keep(save),
        Action::List { output, place } => {
            let (known, notes) = Store::at(&place.baselines).list()?;
            let output = match output {
                Output::Json => json(&known),
                Output::Table => show::list(&known).alone(),
                Output::Markdown => show::list(&known).to_markdown(),
            };
            Ok(Done::well(output, notes))
        }
        Action::Show {
            name,
            output,
            place,
        } => {
            let (manifest, folder) = Store::at(&place.baselines).whole(name)?;
            let runs = open_group(&folder, Reads::default())?;
            let output = match output {
                Output::Json => json(&show::Whole::of(&manifest, &runs)),
                Output::Table => show::document(&manifest, &runs, false)?,
                Output::Markdown => show::document(&manifest, &runs, true)?,
            };
            Ok(Done::well(output, Vec::new()))
        }
        Action::Remove { name, place } => {
            Store::at(&place.baselines).remove(name)?;
            let said = format!("baseline {name} removed");
            Ok(Done::well(String::new(), vec![said]))
        }
    }
}

fn keep(arguments: &Save) -> Result<Done, CommandError> {
    let groups: Vec<Vec<RunFolder>> = arguments
        .runs
        .iter()
        .map(|path| open_group(path, arguments.reads))
        .collect::<Result<_, _>>()?;
    let runs: Vec<RunFolder> = groups.into_iter().flatten().collect();
    no_copies(&runs)?;
    let goals = show::read(&arguments.goal)?;
    let store = Store::at(&arguments.place.baselines);
    let folder = store.save(&runs, arguments, &goals)?;
    let mut notes = notes(&runs);
    notes.extend(show::unmeasured(&goals, &runs)?);
    notes.extend(store::cautions(&runs));
    Ok(Done::well(format!("{}\n", folder.display()), notes))
}

/// What a baseline says beside a comparison with it: how far its targets got, and what to reach next.
pub(crate) struct Beside {
    name: String,
    goals: Vec<String>,
    base: bench_schema::RunRecord,
}

/// The baseline that a command names, if it names one.
pub(crate) fn beside(
    from: &FromBaseline,
    base: &[RunFolder],
) -> Result<Option<Beside>, CommandError> {
    let Some(name) = &from.baseline else {
        return Ok(None);
    };
    let (manifest, _) = Store::at(&from.place.baselines).find(name)?;
    Ok(base.first().map(|first| Beside {
        name: name.clone(),
        goals: manifest.goals,
        base: first.record.clone(),
    }))
}

impl Beside {
    /// Calls the base of a comparison by its name.
    pub(crate) fn name(&self, found: &mut RunComparison) {
        found.base = format!("baseline {}", self.name);
    }

    /// Its targets and where `new` stands, then those of the next round.
    pub(crate) fn goals(&self, new: &[RunFolder]) -> Result<Option<Goals>, CommandError> {
        let Some(first) = new.first() else {
            return Ok(None);
        };
        Goals::of(&self.goals, &self.base, &first.record).map(Some)
    }
}
