//! `baseline`: runs kept under a name, for later runs to be held against.

mod arguments;
mod goals;
mod show;
mod store;

use bench_insight::RunComparison;

use crate::Done;
use crate::arguments::Output;
use crate::error::CommandError;
use crate::run_folder::{Reads, RunFolder, open_group};

pub(crate) use arguments::{Baseline, FromBaseline};
pub(crate) use goals::Goals;

use arguments::{Action, List, Save, Show};
use store::{Store, Wanted};

pub(crate) fn run(arguments: &Baseline) -> Result<Done, CommandError> {
    match &arguments.action {
        Action::Save(save) => keep(save),
        Action::List(list) => names(list),
        Action::Show(show) => document(show),
        Action::Remove(remove) => {
            Store::at(&remove.place.baselines).remove(&remove.name)?;
            let said = format!("baseline {} is removed", remove.name);
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
    let goals = goals::read(&arguments.goal)?;
    let store = Store::at(&arguments.place.baselines);
    let wanted = Wanted {
        name: &arguments.name,
        note: arguments.note.as_deref(),
        goals: &goals,
        small: arguments.small,
        replace: arguments.replace,
        untrusted: arguments.untrusted,
    };
    let folder = store.save(&runs, &wanted)?;
    let mut notes: Vec<String> = runs.iter().flat_map(|run| run.notes.clone()).collect();
    notes.extend(goals::unmeasured(&goals, &runs)?);
    notes.extend(store::cautions(&runs));
    Ok(Done::well(format!("{}\n", folder.display()), notes))
}

fn names(arguments: &List) -> Result<Done, CommandError> {
    let (known, notes) = Store::at(&arguments.place.baselines).list()?;
    let output = match arguments.output {
        Output::Json => serde_json::to_string_pretty(&known).unwrap_or_default() + "\n",
        Output::Table => show::list(&known).to_terminal(),
        Output::Markdown => show::list(&known).to_markdown(),
    };
    Ok(Done::well(output, notes))
}

fn document(arguments: &Show) -> Result<Done, CommandError> {
    let store = Store::at(&arguments.place.baselines);
    let (manifest, folder) = store.find(&arguments.name)?;
    let runs = open_group(&folder, Reads::default())?;
    let output = match arguments.output {
        Output::Json => {
            let whole = show::Whole::of(&manifest, &runs);
            serde_json::to_string_pretty(&whole).unwrap_or_default() + "\n"
        }
        Output::Table => show::document(&manifest, &runs, false)?,
        Output::Markdown => show::document(&manifest, &runs, true)?,
    };
    Ok(Done::well(output, Vec::new()))
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
