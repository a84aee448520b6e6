//! The run directory.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use bench_schema::{BEGIN_FILE, Benchmark, MOST_RUN_BYTES, RunRecord, read_file};

use crate::config::OutputSettings;
use crate::journal::{JournalError, replace_file};
use crate::{RunError, wall_clock};

/// Make the run directory: the one that was asked for, or a new one under `results/`.
pub(crate) fn create(
    output: &OutputSettings,
    benchmark: Benchmark,
    started: SystemTime,
) -> Result<PathBuf, RunError> {
    let folder = match &output.out {
        Some(folder) => folder.clone(),
        None => unused(&PathBuf::from("results").join(format!(
            "{}-{}",
            wall_clock::compact(started),
            benchmark.name()
        ))),
    };
    if folder
        .read_dir()
        .is_ok_and(|mut entries| entries.next().is_some())
    {
        return Err(RunError::OutExists(folder));
    }
    std::fs::create_dir_all(&folder).map_err(|source| JournalError::Create {
        path: folder.clone(),
        source,
    })?;
    Ok(folder)
}

/// Hold the run directory until the run is over: nobody else may write or recover in it meanwhile.
pub(crate) fn claim(folder: &Path) -> Result<Option<File>, RunError> {
    bench_schema::hold_folder(folder).map_err(|_| RunError::OutInUse(folder.to_owned()))
}

/// Two runs may start in one second.
fn unused(wanted: &Path) -> PathBuf {
    let numbered = (2_u32..).map(|n| PathBuf::from(format!("{}-{n}", wanted.display())));
    std::iter::once(wanted.to_owned())
        .chain(numbered)
        .find(|folder| !folder.exists())
        .unwrap_or_else(|| wanted.to_owned())
}

/// Write what is to be measured, once: enough to recover the records where `run.json` is lost.
pub(crate) fn write_begin(folder: &Path, record: &RunRecord) -> Result<(), RunError> {
    write(folder, BEGIN_FILE, record)
}

/// Write `run.json` as it stands.
///
/// # Errors
/// Where the folder was moved away and another run has its name now: that one's result is not replaced.
pub(crate) fn write_run(folder: &Path, record: &RunRecord) -> Result<(), RunError> {
    let begun = read_file(&folder.join(BEGIN_FILE), MOST_RUN_BYTES).ok();
    let begun = begun.and_then(|text| RunRecord::from_json(&String::from_utf8_lossy(&text)).ok());
    let of = |run: &RunRecord| (run.started_at.clone(), run.clock.unix_epoch_ns);
    if begun.is_some_and(|begun| of(&begun) != of(record)) {
        return Err(RunError::OutInUse(folder.to_owned()));
    }
    write(folder, "run.json", record)
}

fn write(folder: &Path, name: &str, record: &RunRecord) -> Result<(), RunError> {
    let path = folder.join(name);
    let text = bench_schema::to_json(record).map_err(|error| JournalError::Create {
        path: path.clone(),
        source: error.into(),
    })?;
    Ok(replace_file(&path, &text)?)
}

/// Write a report beside it.
pub(crate) fn write_report(folder: &Path, name: &str, text: &str) -> Result<(), RunError> {
    Ok(replace_file(&folder.join(name), text)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_whose_folder_was_moved_away_does_not_replace_the_result_of_the_one_that_has_its_name()
    {
        let folder = tempfile::tempdir().unwrap();
        let text = include_str!("../../../fixtures/results/v1.2/run.json");
        let one = RunRecord::from_json(text).unwrap();
        write_begin(folder.path(), &one).unwrap();
        write_run(folder.path(), &one).unwrap();
        let other = RunRecord {
            started_at: "2030-01-01T00:00:00Z".to_owned(),
            ..one
        };
        let refused = write_run(folder.path(), &other);
        assert!(matches!(refused, Err(RunError::OutInUse(_))));
        std::fs::remove_file(folder.path().join(BEGIN_FILE)).unwrap();
        write_run(folder.path(), &other).unwrap();
    }
}
