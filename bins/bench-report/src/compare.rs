//! `compare`: runs held against a first one.

use std::path::{Path, PathBuf};

use bench_frames::run_name;
use bench_insight::{BLOCK, CellSamples, ComparedSamples, RunComparison};
use bench_metrics::CompareOptions;
use bench_report::RunFiles;
use bench_report::compare::{Point, Study, changes_markdown, terminal};
use bench_schema::{RunRecord, TrustVerdict};
use serde::Serialize;

use crate::arguments::{Compare, Output, Test};
use crate::baseline::{Beside, Goals, beside};
use crate::error::{CommandError, UNTRUSTED};
use crate::files;
use crate::frames;
use crate::run_folder::{Reads, RunFolder, against_themselves, notes, open_group};
use crate::{Done, json};

pub(crate) fn run(arguments: &Compare) -> Result<Done, CommandError> {
    let options = options(&arguments.test)?;
    let (base, new) = arguments.from.sides(&arguments.runs)?;
    let groups: Vec<Vec<RunFolder>> = std::iter::once(&base)
        .chain(&new)
        .map(|path| open_group(path, arguments.reads))
        .collect::<Result<_, _>>()?;
    let groups = match &arguments.axis {
        Some(tag) => by_tag(groups, tag)?,
        None => groups,
    };
    let base = groups.first().map_or(&[][..], Vec::as_slice);
    let beside = beside(&arguments.from, base)?;
    let axis = arguments.axis.as_deref();
    let named = point_names(&groups, axis);
    let mut held = held_against_first(&groups, &options)?;
    for (one, name) in held.iter_mut().zip(named.iter().skip(1)) {
        one.new.clone_from(name);
        match &beside {
            Some(beside) => beside.name(one),
            None => one.base = named.first().cloned().unwrap_or_default(),
        }
    }
    let mut notes = notes(groups.iter().flatten());
    let others = groups.iter().skip(1);
    notes.extend(others.flat_map(|new| against_themselves(base, new)));
    let study = study(&groups, &held, (axis, &named))?;
    if let Some(path) = &arguments.html {
        let page = bench_report::compare::html(&study)?;
        files::write_whole(path, page.as_bytes())?;
        notes.push(format!("comparison written to {}", path.display()));
    }
    let output = match (beside, arguments.output) {
        (Some(beside), output) => with_baseline(&beside, &groups, &held, output)?,
        (None, Output::Markdown) => bench_report::compare::markdown(&study),
        (None, Output::Table) => {
            let found = axis.map_or_else(Vec::new, |_| bench_report::compare::conclusions(&study));
            let mut out: String = found.iter().map(|line| format!("{line}\n")).collect();
            out += &bench_report::compare::along(&study);
            out += &held.iter().map(terminal).collect::<String>();
            out
        }
        (None, Output::Json) => json(&bench_report::compare::json(&study)),
    };
    let untrusted = untrusted(&groups);
    let code = if untrusted.is_empty() { 0 } else { UNTRUSTED };
    notes.extend(untrusted);
    Ok(Done {
        output,
        notes,
        code,
    })
}

/// Two runs as the page that `--html` writes.
pub(crate) fn page(base: &Path, new: &Path) -> Result<String, CommandError> {
    let open = |run| Ok(vec![RunFolder::open(run, Reads::default())?]);
    let groups = [open(base), open(new)]
        .into_iter()
        .collect::<Result<Vec<_>, CommandError>>()?;
    let named = point_names(&groups, None);
    let held = held_against_first(&groups, &CompareOptions::default())?;
    Ok(bench_report::compare::html(&study(
        &groups,
        &held,
        (None, &named),
    )?)?)
}

/// What makes a comparison one that nobody should use.
fn untrusted(groups: &[Vec<RunFolder>]) -> Vec<String> {
    let runs = groups.iter().flatten();
    runs.filter(|run| run.record.trust.verdict == TrustVerdict::Untrusted)
        .map(|run| {
            let path = run.path.display();
            format!("{path} is untrusted, and so is any comparison with it")
        })
        .collect()
}

/// What each group is called: its level of the axis, else its folder.
fn point_names(groups: &[Vec<RunFolder>], axis: Option<&str>) -> Vec<String> {
    let each: Vec<&[RunFolder]> = groups.iter().map(Vec::as_slice).collect();
    let level = |group: &[RunFolder]| {
        let (tag, tags) = (axis?, &group.first()?.record.tags);
        Some(format!("{tag} {}", tags.get(tag)?))
    };
    let named = each.iter().zip(names(&each));
    named
        .map(|(group, name)| level(group).unwrap_or(name))
        .collect()
}

/// The groups as points with what they were found to be against the first.
fn study<'a>(
    groups: &'a [Vec<RunFolder>],
    held: &[RunComparison],
    (axis, named): (Option<&str>, &[String]),
) -> Result<Study<'a>, CommandError> {
    let held = std::iter::once(None).chain(held.iter().cloned().map(Some));
    let point =
        |((group, name), held): ((&'a Vec<RunFolder>, &String), Option<RunComparison>)| Point {
            name: name.clone(),
            runs: group.iter().map(|run| &run.record).collect(),
            files: group
                .iter()
                .map(|run| RunFiles::in_dir(&run.path))
                .collect(),
            held,
        };
    let points = groups.iter().zip(named).zip(held).map(point).collect();
    let along = frames::along(groups, axis, named)?;
    Ok(Study::new(points, axis, Some(along))?)
}

/// A baseline beside a comparison with it: the table, then how far its targets got and what to reach next.
#[derive(Serialize)]
struct Round<'a> {
    comparison: &'a RunComparison,
    goals: Option<Goals>,
}

fn with_baseline(
    beside: &Beside,
    groups: &[Vec<RunFolder>],
    held: &[RunComparison],
    output: Output,
) -> Result<String, CommandError> {
    let mut rounds = Vec::new();
    for (comparison, new) in held.iter().zip(groups.iter().skip(1)) {
        rounds.push(Round {
            comparison,
            goals: beside.goals(new)?,
        });
    }
    let goals = |round: &Round<'_>, as_markdown| {
        let goals = round.goals.as_ref();
        goals.map_or_else(String::new, |goals| goals.text(as_markdown))
    };
    let rounds_of = |text: fn(&RunComparison) -> String, as_markdown| -> String {
        let round = |round: &Round<'_>| text(round.comparison) + &goals(round, as_markdown);
        rounds.iter().map(round).collect()
    };
    Ok(match output {
        Output::Table => rounds_of(terminal, false),
        Output::Markdown => rounds_of(changes_markdown, true),
        Output::Json => json(&rounds),
    })
}

/// Percentages of the command line as shares.
pub(crate) fn options(test: &Test) -> Result<CompareOptions, CommandError> {
    let share = |name: &str, percent: f64, most: f64| {
        if percent > 0.0 && percent < most {
            Ok(percent / 100.0)
        } else {
            Err(CommandError::Usage(format!(
                "--{name} {percent} is not between 0 and {most} percent; a typical value is 5"
            )))
        }
    };
    Ok(CompareOptions {
        alpha: share("alpha", test.alpha, 50.0)?,
        margin: share("margin", test.margin, 100.0)?,
        ..CompareOptions::default()
    })
}

/// The runs grouped anew by the value of a tag: numbers in order, else in the order given.
fn by_tag(groups: Vec<Vec<RunFolder>>, tag: &str) -> Result<Vec<Vec<RunFolder>>, CommandError> {
    let mut levels: Vec<(String, Vec<RunFolder>)> = Vec::new();
    for run in groups.into_iter().flatten() {
        let Some(level) = run.record.tags.get(tag).cloned() else {
            let known: Vec<&str> = run.record.tags.keys().map(String::as_str).collect();
            return Err(CommandError::Usage(format!(
                "{} has no tag `{tag}` ({}); set it with --tag {tag}=VALUE when measuring, or compare without --axis",
                run.path.display(),
                if known.is_empty() {
                    "it has no tags".to_owned()
                } else {
                    format!("its tags are {}", known.join(", "))
                },
            )));
        };
        match levels.iter_mut().find(|(name, _)| *name == level) {
            Some((_, runs)) => runs.push(run),
            None => levels.push((level, vec![run])),
        }
    }
    let numbers: Option<Vec<f64>> = levels.iter().map(|(level, _)| level.parse().ok()).collect();
    if numbers.is_some() {
        levels.sort_by(|(a, _), (b, _)| {
            let number = |text: &str| text.parse::<f64>().unwrap_or(f64::MAX);
            number(a).total_cmp(&number(b))
        });
    }
    Ok(levels.into_iter().map(|(_, runs)| runs).collect())
}

fn held_against_first(
    groups: &[Vec<RunFolder>],
    options: &CompareOptions,
) -> Result<Vec<RunComparison>, CommandError> {
    let Some((base, others)) = groups
        .split_first()
        .filter(|(_, others)| !others.is_empty())
    else {
        return Err(bench_report::ReportError::TooFewRuns {
            given: groups.len(),
        }
        .into());
    };
    others.iter().map(|new| hold(base, new, options)).collect()
}

/// Two groups beside each other. Single requests are read where a single run stands on both sides, or where runs were made in turns: only then are they looked at.
pub(crate) fn hold(
    base: &[RunFolder],
    new: &[RunFolder],
    options: &CompareOptions,
) -> Result<RunComparison, CommandError> {
    let single = base.len() == 1 || new.len() == 1;
    let in_turns = (base.iter().chain(new)).all(|run| run.record.tags.contains_key(BLOCK));
    let samples = |runs: &[RunFolder]| -> Result<Vec<Vec<CellSamples>>, CommandError> {
        let looked_at = match (in_turns, single) {
            (true, _) => runs.len(),
            (false, true) => 1,
            (false, false) => 0,
        };
        runs.iter()
            .take(looked_at)
            .map(RunFolder::samples)
            .collect()
    };
    let (before, after) = (samples(base)?, samples(new)?);
    let [before, after] =
        [&before, &after].map(|side| side.iter().map(Vec::as_slice).collect::<Vec<_>>());
    let mut found = bench_insight::compare(
        &records_of(base),
        &records_of(new),
        ComparedSamples {
            base: &before,
            new: &after,
        },
        options,
    )
    .ok_or(bench_report::ReportError::TooFewRuns { given: 1 })?;
    let [of_base, of_new] = <[String; 2]>::try_from(names(&[base, new])).unwrap_or_default();
    (found.base, found.new) = (of_base, of_new);
    Ok(found)
}

fn records_of(runs: &[RunFolder]) -> Vec<&RunRecord> {
    runs.iter().map(|run| &run.record).collect()
}

pub(crate) fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// Each group's folder, which says more than the title: that of its one run, or the one that all of its runs lie in, else its first run's. The whole path where folders
/// in different places have one name.
pub(crate) fn names(groups: &[&[RunFolder]]) -> Vec<String> {
    let shared: Vec<Option<&Path>> = groups.iter().map(|runs| folder_of(runs)).collect();
    let folders = groups.iter().zip(&shared).map(|(runs, own)| match own {
        Some(own) if shared.iter().filter(|other| **other == Some(*own)).count() == 1 => {
            (own.to_path_buf(), 0)
        }
        _ => {
            let first = runs.first().map(|run| run.path.clone());
            (first.unwrap_or_default(), runs.len().saturating_sub(1))
        }
    });
    let folders: Vec<(PathBuf, usize)> = folders.collect();
    let short: Vec<String> = folders.iter().map(|(folder, _)| run_name(folder)).collect();
    let name = |((folder, more), own): (&(PathBuf, usize), &String)| {
        let shared = short.iter().filter(|name| *name == own).count() > 1;
        let name = if shared {
            folder.display().to_string()
        } else {
            own.clone()
        };
        match more {
            0 => name,
            more => format!("{name} and {more} more"),
        }
    };
    folders.iter().zip(&short).map(name).collect()
}

/// The folder that several runs lie in.
fn folder_of(runs: &[RunFolder]) -> Option<&Path> {
    let parent = runs.first().filter(|_| runs.len() > 1)?.path.parent()?;
    let mut all = runs.iter();
    (!parent.as_os_str().is_empty() && all.all(|run| run.path.parent() == Some(parent)))
        .then_some(parent)
}
