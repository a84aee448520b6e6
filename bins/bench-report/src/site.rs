//! `site`: the runs of a folder as pages.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
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

/// The last line of a page that is made of nothing but a whole run: which run it is, and which version made the page.
fn made_of(run: &RunFolder) -> Option<String> {
    let record = &run.record;
    let is_whole = record.complete && !record.journal.is_empty() && run.is_sound();
    let text = bench_schema::to_json(record).ok().filter(|_| is_whole)?;
    let text = bench_schema::with_digest(text);
    let digest: String = text
        .rsplit(':')
        .next()?
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .collect();
    Some(format!(
        "<!-- {} of run {digest} -->\n",
        env!("CARGO_PKG_VERSION")
    ))
}

/// Whether a page ends with that line, and this program was not changed since.
fn is_up_to_date(file: &Path, last_line: &str) -> bool {
    let changed = |path: &Path| path.metadata().and_then(|file| file.modified());
    let program = std::env::current_exe().and_then(|program| changed(&program));
    let is_newer = program.is_ok_and(|then| changed(file).is_ok_and(|made| made > then));
    let end = || {
        let mut page = File::open(file)?;
        page.seek(SeekFrom::End(-i64::try_from(last_line.len()).unwrap_or(0)))?;
        let mut end = String::new();
        page.read_to_string(&mut end).map(|_| end)
    };
    is_newer && end().is_ok_and(|end| end == last_line)
}

/// Writes the report of a run unless it is there already; says whether it was written.
fn write_page(file: &Path, run: &RunFolder) -> Result<bool, CommandError> {
    let last_line = made_of(run);
    if last_line
        .as_deref()
        .is_some_and(|line| is_up_to_date(file, line))
    {
        return Ok(false);
    }
    let page = page(run)? + last_line.as_deref().unwrap_or_default();
    files::write_whole(file, page.as_bytes())?;
    Ok(true)
}

/// The trends of the runs of a list.
pub(crate) fn trend_page(folder: &str, runs: &[Listed]) -> String {
    let seen: Vec<_> = runs.iter().filter_map(Listed::observation).collect();
    bench_report::trend::page(folder, runs.len(), &seen)
}

pub(crate) fn run(arguments: &Site) -> Result<Done, CommandError> {
    let (mut runs, mut kept) = (Vec::new(), 0);
    for (key, path) in shelf(&arguments.folder)? {
        let (mut entry, run) = listed(&key, &path);
        let file = arguments.out.join("runs").join(format!("{key}.html"));
        match run.map(|run| write_page(&file, &run)) {
            Some(Ok(false)) => kept += 1,
            // a page that cannot be written is no fault of the run
            Some(Err(why @ CommandError::Write { .. })) => return Err(why),
            Some(Err(why)) => entry = Listed::new(&key, &path, Err(why.to_string())),
            Some(Ok(true)) | None => {}
        }
        runs.push(entry);
    }
    let index = arguments.out.join("index.html");
    let mut said = vec![format!("{} listed", counted(runs.len(), "run"))];
    let unreadable = runs.iter().filter_map(Listed::unreadable);
    said.extend(unreadable.map(|why| format!("listed as unreadable: {why}")));
    if kept > 0 {
        said.push(format!("{} up to date already", counted(kept, "report")));
    }
    let folder = arguments.folder.display().to_string();
    let trends = arguments.out.join("trend.html");
    files::write_whole(&trends, trend_page(&folder, &runs).as_bytes())?;
    let text = list(&folder, runs, false);
    files::write_whole(&index, text.as_bytes())?;
    Ok(Done::well(format!("{}\n", index.display()), said))
}
