//! Where baselines lie: `DIR/NAME/baseline.json`, and beside it a run directory for each run, so that a baseline is a folder of
//! repeats like any other. It is a copy: the runs it was made of may be deleted.

use std::path::{Path, PathBuf};
use std::time::SystemTime;
use std::{fs, io};

use bench_frames::{run_dirs, run_name};
use bench_schema::{JournalFile, PlanRecord, TrustVerdict, check_digest, read_file};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::Save;
use crate::error::CommandError;
use crate::files;
use crate::run_folder::RunFolder;

const MANIFEST: &str = "baseline.json";
/// One with a thousand runs is a tenth of it.
const LONGEST: u64 = 4 << 20;
/// Raised when an older program could no longer read it.
const MAJOR: u32 = 1;

/// What `baseline.json` holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Manifest {
    /// Version of this file.
    major: u32,
    /// The folder's name.
    pub(super) name: String,
    /// UTC.
    pub(super) saved_at: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) note: Option<String>,
    /// Gates that the next round is to meet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) goals: Vec<String>,
    pub(super) runs: Vec<Kept>,
}

/// One run of a baseline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Kept {
    /// Its folder within the baseline.
    folder: String,
    pub(super) title: String,
    pub(super) benchmark: String,
    pub(super) started_at: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) model: Option<String>,
    pub(super) trust: TrustVerdict,
    /// Whether its single requests are kept.
    requests: bool,
}

/// A folder of baselines.
pub(super) struct Store<'a> {
    folder: &'a Path,
}

impl<'a> Store<'a> {
    pub(super) fn at(folder: &'a Path) -> Self {
        Self { folder }
    }

    /// Copies the runs. The baseline is there as a whole or not at all.
    pub(super) fn save(
        &self,
        runs: &[RunFolder],
        wanted: &Save,
        goals: &[String],
    ) -> Result<PathBuf, CommandError> {
        let name = named(&wanted.name)?;
        check(runs, wanted.untrusted)?;
        let place = self.folder.join(name);
        if place.exists() && !wanted.replace {
            return Err(CommandError::BaselineExists(name.to_owned()));
        }
        let beside = self.folder.join(format!(".{name}.part"));
        discard(&beside)?;
        let kept = runs
            .iter()
            .enumerate()
            .map(|(index, run)| copy(run, index, &beside, wanted.small))
            .collect::<Result<_, _>>()?;
        #[expect(
            clippy::disallowed_methods,
            reason = "the date at which a baseline was saved, for people; nothing is measured with it"
        )]
        let manifest = Manifest {
            major: MAJOR,
            name: name.to_owned(),
            saved_at: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
            note: wanted.note.clone(),
            goals: goals.to_vec(),
            runs: kept,
        };
        files::write_json(&beside.join(MANIFEST), &manifest)?;
        if place.exists() {
            // Only a baseline is ever replaced here, damaged or not.
            self.place(name)?;
        }
        put(&beside, &place).map_err(CommandError::write(&place))?;
        discard(&beside)?;
        Ok(place)
    }

    /// The baseline of that name, and its folder.
    pub(super) fn find(&self, name: &str) -> Result<(Manifest, PathBuf), CommandError> {
        let folder = self.place(name)?;
        Ok((read(&folder.join(MANIFEST))?, folder))
    }

    /// The folder of the baseline of that name, which nobody has read.
    fn place(&self, name: &str) -> Result<PathBuf, CommandError> {
        let folder = self.folder.join(named(name)?);
        if !folder.join(MANIFEST).is_file() {
            let (known, _) = self.list().unwrap_or_default();
            return Err(CommandError::NoBaseline {
                name: name.to_owned(),
                folder: self.folder.to_owned(),
                known: known.into_iter().map(|one| one.name).collect(),
            });
        }
        Ok(folder)
    }

    /// The baseline of that name with all of its runs, and its folder.
    ///
    /// # Errors
    /// [`CommandError::BadBaseline`] where a run is missing, is another one than was saved, or was not saved.
    pub(super) fn whole(&self, name: &str) -> Result<(Manifest, PathBuf), CommandError> {
        let (manifest, folder) = self.find(name)?;
        let mut there = run_dirs(&folder);
        for kept in &manifest.runs {
            let path = folder.join(files::plain_name(&kept.folder, &folder)?);
            there.retain(|other| *other != path);
            let run = RunFolder::stored(&path)?.record;
            if (&run.started_at, &run.title) != (&kept.started_at, &kept.title) {
                let problem = format!(
                    "its run {} is not the run saved from {}",
                    kept.folder, kept.started_at
                );
                return Err(CommandError::BadBaseline {
                    path: folder,
                    problem,
                });
            }
        }
        match there.first() {
            Some(other) => Err(CommandError::BadBaseline {
                problem: format!("{} does not belong to it", other.display()),
                path: folder,
            }),
            None => Ok((manifest, folder)),
        }
    }

    /// Every baseline by name, and what could not be read. A folder that is not there holds none.
    pub(super) fn list(&self) -> Result<(Vec<Manifest>, Vec<String>), CommandError> {
        if !self.folder.exists() {
            return Ok((Vec::new(), Vec::new()));
        }
        let entries = fs::read_dir(self.folder).map_err(CommandError::read(self.folder))?;
        let (mut known, mut notes) = (Vec::new(), Vec::new());
        for entry in entries.filter_map(Result::ok) {
            let path = entry.path().join(MANIFEST);
            let hidden = entry.file_name().to_string_lossy().starts_with('.');
            if hidden {
                continue;
            }
            if !path.is_file() {
                let holds_runs = !run_dirs(&entry.path()).is_empty();
                let told = || {
                    format!(
                        "{} contains runs, but no {MANIFEST}",
                        entry.path().display()
                    )
                };
                notes.extend(holds_runs.then(told));
                continue;
            }
            match read(&path) {
                Ok(manifest) => known.push(manifest),
                Err(error) => notes.push(error.to_string()),
            }
        }
        known.sort_by(|a, b| a.name.cmp(&b.name));
        Ok((known, notes))
    }

    pub(super) fn remove(&self, name: &str) -> Result<(), CommandError> {
        discard(&self.place(name)?)
    }
}

fn named(name: &str) -> Result<&str, CommandError> {
    let plain = files::plain_name(name, Path::new(""));
    plain.map_err(|_| CommandError::BaselineName(name.to_owned()))
}

fn read(path: &Path) -> Result<Manifest, CommandError> {
    let text = read_file(path, LONGEST).map_err(CommandError::read(path))?;
    let bad = |problem: String| CommandError::BadBaseline {
        path: path.to_owned(),
        problem,
    };
    let text = String::from_utf8_lossy(&text);
    let manifest: Manifest = serde_json::from_str(&text).map_err(|e| bad(e.to_string()))?;
    check_digest(&text).map_err(|_| {
        bad("it was changed or damaged after it was written (if the change was on purpose, remove its last key, `digest`)".to_owned())
    })?;
    if manifest.major != MAJOR {
        return Err(bad(format!(
            "it has version {}, but this program reads version {MAJOR}",
            manifest.major
        )));
    }
    Ok(manifest)
}

/// Runs of one baseline are repeats of each other, and can be believed.
fn check(runs: &[RunFolder], untrusted: bool) -> Result<(), CommandError> {
    let Some(first) = runs.first() else {
        return Ok(());
    };
    for run in runs {
        if run.record.experiment != first.record.experiment {
            return Err(CommandError::Usage(format!(
                "{} and {} are different benchmarks ({} and {}); save one baseline for each",
                first.path.display(),
                run.path.display(),
                first.record.experiment.as_str(),
                run.record.experiment.as_str(),
            )));
        }
        if run.record.trust.verdict == TrustVerdict::Untrusted && !untrusted {
            let why = run.record.trust.reasons.first();
            return Err(CommandError::UntrustedBaseline {
                run: run.path.clone(),
                why: why.map_or_else(String::new, bench_schema::TrustReason::sentence),
            });
        }
    }
    Ok(())
}

/// What later comparisons will have to put up with.
pub(super) fn cautions(runs: &[RunFolder]) -> Vec<String> {
    let mut all: Vec<String> = runs.iter().filter_map(RunFolder::doubt).collect();
    if let [one] = runs {
        all.push(format!(
            "{} is a single run, so variation between runs is unknown; save several repeats (baseline save NAME RUN RUN …)",
            one.path.display()
        ));
    }
    let same = |a: &RunFolder, b: &RunFolder| {
        let (a, b) = (&a.record.cells, &b.record.cells);
        // of cells that were made again from records the plan is not known
        let alike = |a: &PlanRecord, b: &PlanRecord| {
            let known = a.hash.as_ref().zip(b.hash.as_ref());
            known.is_none_or(|(a, b)| a == b)
        };
        a.len() == b.len()
            && a.iter()
                .zip(b)
                .all(|(a, b)| a.id == b.id && alike(&a.plan, &b.plan))
    };
    if let Some(first) = runs.first() {
        let others = runs.iter().filter(|run| !same(run, first));
        all.extend(others.map(|run| {
            format!(
                "{} has other cells or requests than {}; only what both have in common is compared",
                run.path.display(),
                first.path.display()
            )
        }));
    }
    all
}

fn copy(run: &RunFolder, index: usize, into: &Path, small: bool) -> Result<Kept, CommandError> {
    // The number keeps the order, and apart what has the same name elsewhere.
    let name = match files::plain_name(&run_name(&run.path), into) {
        Ok(own) => format!("{:02}-{own}", index + 1),
        _ => format!("{:02}", index + 1),
    };
    let folder = into.join(&name);
    fs::create_dir_all(&folder).map_err(CommandError::write(&folder))?;
    let requests = !small && run.has_requests();
    let mut record = run.record.clone();
    let kept = JournalFile::Requests.parts_of(&run.record.journal);
    record.journal = kept.filter(|_| requests).cloned().collect();
    if record.complete && record.journal == run.record.journal {
        duplicate(&run.path, &folder, "run.json")?;
    } else {
        // it lists what is kept
        files::write_json(&folder.join("run.json"), &record)?;
    }
    if requests {
        for part in JournalFile::Requests.parts_in(&run.path) {
            let name = part.file_name().map_or(part.as_path(), Path::new);
            duplicate(&run.path, &folder, name)?;
        }
    }
    Ok(Kept {
        folder: name,
        title: record.title,
        benchmark: record.experiment.as_str().to_owned(),
        started_at: record.started_at,
        model: record.server.model,
        trust: record.trust.verdict,
        requests,
    })
}

/// Gives a folder its name. What has that name changes places with it at once, so that there is always one or the other, whenever the program or the
/// machine stops; only where the file system cannot do that (some on networks), it is moved aside first.
fn put(beside: &Path, place: &Path) -> io::Result<()> {
    if !place.exists() {
        return fs::rename(beside, place);
    }
    match renameat_with(CWD, beside, CWD, place, RenameFlags::EXCHANGE) {
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
            let aside = beside.with_extension("old");
            fs::remove_dir_all(&aside).ok();
            fs::rename(place, &aside)?;
            fs::rename(beside, place)?;
            fs::rename(&aside, beside)
        }
        done => Ok(done?),
    }
}

fn duplicate(from: &Path, to: &Path, name: impl AsRef<Path> + Copy) -> Result<(), CommandError> {
    let (from, to) = (from.join(name), to.join(name));
    fs::copy(&from, &to)
        .map(drop)
        .map_err(CommandError::write(&to))
}

/// Deletes a folder that need not be there.
fn discard(folder: &Path) -> Result<(), CommandError> {
    if folder.exists() {
        fs::remove_dir_all(folder).map_err(CommandError::write(folder))?;
    }
    Ok(())
}
