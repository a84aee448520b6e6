//! `site`: the runs of a folder as pages.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use bench_frames::run_dirs;
use bench_report::RunFiles;
use bench_report::site::{Listed, list};
use bench_schema::counted;

use crate::Done;
use crate::arguments::Site;
use crate::error::CommandError;
use crate::files;
use crate::run_folder::{Reads, RunFolder};

/// The run directories of a folder by what stands for them in links.
///
/// # Errors
/// [`CommandError::NoRun`] where there are none.
pub(crate) fn shelf(folder: &Path) -> Result<BTreeMap<String, PathBuf>, CommandError> {
    folder.read_dir().map_err(CommandError::read(folder))?;
    let runs: BTreeMap<_, _> = run_dirs(folder)
        .into_iter()
        .map(|path| (key(&path), path))
        .collect();
    if runs.is_empty() {
        return Err(CommandError::NoRun(folder.to_owned()));
    }
    Ok(runs)
}

/// The folder's name in letters that are themselves in a URL and in a file's name; every other byte is `~` and two digits.
fn key(path: &Path) -> String {
    let whole = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let name = path.file_name().or(whole.file_name());
    let mut key = String::new();
    for &byte in name.unwrap_or_default().as_encoded_bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.".contains(&byte) {
            key.push(char::from(byte));
        } else {
            // a string takes all that is written
            write!(key, "~{byte:02x}").ok();
        }
    }
    key
}

/// What the list says of a run, and the run where it can be read.
pub(crate) fn listed(key: &str, path: &Path) -> (Listed, Option<RunFolder>) {
    match RunFolder::open(path, Reads::default()) {
        Ok(run) => (Listed::new(key, path, Ok(&run.record)), Some(run)),
        Err(why) => (Listed::new(key, path, Err(why.to_string())), None),
    }
}

/// The report of a run, as `render` writes it.
pub(crate) fn page(run: &RunFolder) -> Result<String, CommandError> {
    let files = RunFiles::in_dir(&run.path);
    Ok(bench_report::html::render(&run.record, &files)?)
}

pub(crate) fn run(arguments: &Site) -> Result<Done, CommandError> {
    let mut runs = Vec::new();
    for (key, path) in shelf(&arguments.folder)? {
        let (mut entry, run) = listed(&key, &path);
        match run.as_ref().map(page) {
            Some(Ok(page)) => {
                let file = arguments.out.join("runs").join(format!("{key}.html"));
                files::write_whole(&file, page.as_bytes())?;
            }
            Some(Err(why)) => entry = Listed::new(&key, &path, Err(why.to_string())),
            None => {}
        }
        runs.push(entry);
    }
    let index = arguments.out.join("index.html");
    let said = format!("{} listed", counted(runs.len(), "run"));
    let text = list(&arguments.folder.display().to_string(), runs, false);
    files::write_whole(&index, text.as_bytes())?;
    Ok(Done::well(format!("{}\n", index.display()), vec![said]))
}
