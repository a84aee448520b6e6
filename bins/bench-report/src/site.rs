//! `site`: the runs of a folder as pages.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use bench_frames::polars::prelude::DataFrame;
use bench_frames::{FramesError, run_dirs, run_name};
use bench_insight::Trend;
use bench_report::RunFiles;
use bench_report::site::{Listed, list};
use bench_schema::counted;

use crate::Done;
use crate::arguments::Site;
use crate::error::CommandError;
use crate::files;
use crate::run_folder::{Reads, RunFolder};

/// Folders below each other in which runs are looked for: `results/suite/RUN`, `results/TEAM/SERVER/RUN`.
const DEEP: usize = 3;

/// The run directories of a folder and of the folders in it, by what stands for them in links.
///
/// # Errors
/// [`CommandError::NoRun`] where there are none.
pub(crate) fn shelf(folder: &Path) -> Result<BTreeMap<String, PathBuf>, CommandError> {
    folder.read_dir().map_err(CommandError::read(folder))?;
    let runs: BTreeMap<_, _> = runs_below(folder, DEEP)
        .into_iter()
        .map(|path| (key(&name(folder, &path)), path))
        .collect();
    if runs.is_empty() {
        return Err(CommandError::NoRun(folder.to_owned()));
    }
    Ok(runs)
}

/// Those directly in a folder, and those of the folders in it that are neither runs themselves nor hidden.
fn runs_below(folder: &Path, deep: usize) -> Vec<PathBuf> {
    let mut runs = run_dirs(folder);
    if deep > 1 && !runs.iter().any(|run| run == folder) {
        let entries = folder.read_dir().into_iter().flatten().flatten();
        // a link may lead anywhere, also back
        let folders = entries.filter(|entry| {
            let is_hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
            !is_hidden && entry.file_type().is_ok_and(|kind| kind.is_dir())
        });
        for below in folders.map(|entry| entry.path()) {
            if !runs.contains(&below) {
                runs.extend(runs_below(&below, deep - 1));
            }
        }
    }
    runs
}

/// What a run is called in the list of a folder: its path from there, or its own name where it is that folder.
fn name(folder: &Path, path: &Path) -> OsString {
    let within = path.strip_prefix(folder).unwrap_or(path);
    if within.as_os_str().is_empty() {
        return run_name(path).into();
    }
    within.into()
}

/// A name in letters that are themselves in a URL and in a file's name; every other byte is `~` and two digits.
fn key(name: &OsStr) -> String {
    let mut key = String::new();
    for &byte in name.as_encoded_bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.".contains(&byte) {
            key.push(char::from(byte));
        } else {
            // a string takes all that is written
            write!(key, "~{byte:02x}").ok();
        }
    }
    key
}

/// A run of a folder: what the list says of it, and its figures for the trends where it can be read.
#[derive(Clone)]
pub(crate) struct Entry {
    pub(crate) listed: Listed,
    pub(crate) figures: Option<DataFrame>,
}

impl Entry {
    fn unreadable(folder: &Path, key: &str, path: &Path, why: &CommandError) -> Self {
        let name = name(folder, path);
        Self {
            listed: Listed::new(key, &name.to_string_lossy(), path, Err(why.to_string())),
            figures: None,
        }
    }

    /// The entry, and the run where it can be read.
    pub(crate) fn of(folder: &Path, key: &str, path: &Path) -> (Self, Option<RunFolder>) {
        let read = || {
            let run = RunFolder::open(path, Reads::default())?;
            Ok((bench_frames::history(&run.record)?, run))
        };
        match read() {
            Ok((figures, run)) => {
                let name = name(folder, path);
                let listed = Listed::new(key, &name.to_string_lossy(), path, Ok(&run.record));
                let figures = Some(figures);
                (Self { listed, figures }, Some(run))
            }
            Err(why) => (Self::unreadable(folder, key, path, &why), None),
        }
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

/// The trends of the runs of a folder.
pub(crate) fn trend_page(folder: &str, runs: &[Entry]) -> Result<String, CommandError> {
    let all = runs.iter().filter_map(|run| run.figures.as_ref());
    let trusted: Vec<&DataFrame> = all.filter(|figures| figures.height() > 0).collect();
    let mut series = Vec::new();
    if let Some((first, others)) = trusted.split_first() {
        let mut whole = (*first).clone();
        for figures in others {
            whole = whole.vstack(figures).map_err(FramesError::from)?;
        }
        series = bench_frames::series(&whole)?;
    }
    let trends = series.into_iter();
    let trends = trends.filter_map(|one| Trend::new((one.runs, one.cell), &one.figure, one.points));
    let trends: Vec<Trend> = trends.collect();
    let counts = (trusted.len(), runs.len());
    Ok(bench_report::trend::page(folder, counts, &trends))
}

pub(crate) fn run(arguments: &Site) -> Result<Done, CommandError> {
    let (mut runs, mut kept) = (Vec::new(), 0);
    for (key, path) in shelf(&arguments.folder)? {
        let (mut entry, run) = Entry::of(&arguments.folder, &key, &path);
        let file = arguments.out.join("runs").join(format!("{key}.html"));
        match run.map(|run| write_page(&file, &run)) {
            Some(Ok(false)) => kept += 1,
            // a page that cannot be written is no fault of the run
            Some(Err(why @ CommandError::Write { .. })) => return Err(why),
            Some(Err(why)) => entry = Entry::unreadable(&arguments.folder, &key, &path, &why),
            Some(Ok(true)) | None => {}
        }
        runs.push(entry);
    }
    let index = arguments.out.join("index.html");
    let mut said = vec![format!("{} listed", counted(runs.len(), "run"))];
    let unreadable = runs.iter().filter_map(|run| run.listed.unreadable());
    said.extend(unreadable.map(|why| format!("listed as unreadable: {why}")));
    if kept > 0 {
        said.push(format!("{} up to date already", counted(kept, "report")));
    }
    let folder = arguments.folder.display().to_string();
    let trends = arguments.out.join("trend.html");
    files::write_whole(&trends, trend_page(&folder, &runs)?.as_bytes())?;
    let listed = runs.into_iter().map(|run| run.listed).collect();
    let text = list(&folder, listed, false);
    files::write_whole(&index, text.as_bytes())?;
    Ok(Done::well(format!("{}\n", index.display()), said))
}
