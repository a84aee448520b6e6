//! Reading a run, also one that was killed: its cells are then made again from its records.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use bench_frames::run_dirs;
use bench_insight::{CellSamples, Concluded, Conclusion, SampleKeeper, conclude_run};
use bench_schema::{
    BEGIN_FILE, CELLS_FILE, CellProgress, CellRecord, Entry, JournalFile, MOST_RUN_BYTES, Nanos,
    Reading, RequestRecord, RunRecord, SchemaError, Stamp, TrustVerdict, counted, read_file,
};
use clap::Args;

use crate::error::CommandError;
use crate::journal::{PartStates, Values};
use crate::{files, journal};

/// How runs are read.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct Reads {
    /// Continue with damaged journals, using what can be read; the run is then untrusted.
    #[arg(long)]
    pub(crate) damaged_ok: bool,
}

/// How many records each cell has, its first due and its last end.
#[derive(Debug, Default)]
pub(crate) struct Extents {
    records: BTreeMap<String, u64>,
    spans: BTreeMap<String, (Stamp, Stamp)>,
}

impl Extents {
    pub(crate) fn add(&mut self, record: &RequestRecord) {
        let (from, to) = (record.due, record.last_instant());
        if let (Some(records), Some(span)) = (
            self.records.get_mut(&record.cell),
            self.spans.get_mut(&record.cell),
        ) {
            *records += 1;
            *span = (span.0.min(from), span.1.max(to));
        } else {
            self.records.insert(record.cell.clone(), 1);
            self.spans.insert(record.cell.clone(), (from, to));
        }
    }
}

/// A run and where it lies.
#[derive(Debug)]
pub(crate) struct RunFolder {
    pub(crate) path: PathBuf,
    /// What is known of the run.
    pub(crate) record: RunRecord,
    /// What the reader should be told: damage that was passed over, cells that were made again.
    pub(crate) notes: Vec<String>,
    /// How many records of each cell its journal has, where they were counted.
    records: BTreeMap<String, u64>,
    /// What is wrong with its journals, where that may be passed over.
    pub(crate) damage: Vec<String>,
    /// Why nothing tells whether they are whole, where that is so.
    unlisted: Option<String>,
    pub(crate) damaged_ok: bool,
    /// Its journals as they were when they were held.
    seen: Option<[PartStates; 2]>,
    /// Whether it was read from what was written when it began.
    begun: bool,
}

impl RunFolder {
    /// Opens a run directory, or the one that a `run.json` lies in, and holds its journals against it. A run that did not end is
    /// recovered in memory.
    ///
    /// # Errors
    /// [`CommandError::Damaged`] where the journals are not those that were written, unless that was allowed.
    pub(crate) fn open(path: &Path, reads: Reads) -> Result<Self, CommandError> {
        let mut run = Self::stored(path)?;
        run.hold(reads)?;
        if !run.record.complete && run.record.cells.iter().any(is_blank) && run.has_requests() {
            if files::is_held(&run.path) {
                run.notes.push(format!(
                    "{} is still being measured; this shows its requests so far",
                    run.path.display()
                ));
            }
            run.recover()?;
        }
        run.distrust();
        Ok(run)
    }

    /// Marks it for what is wrong with its journals, and for what could not be held against anything.
    pub(crate) fn distrust(&mut self) {
        journal::distrust(&mut self.record, &self.damage);
        journal::doubt(&mut self.record, self.unlisted.clone());
    }

    /// What `run.json` says, as it stands.
    pub(crate) fn stored(path: &Path) -> Result<Self, CommandError> {
        let file = if path.is_dir() {
            path.join("run.json")
        } else {
            path.to_owned()
        };
        if file.file_name().is_some_and(|name| name == BEGIN_FILE) {
            return Err(CommandError::Begun(file));
        }
        if !file.exists() {
            let within = run_dirs(path);
            return Err(match within.iter().find(|one| *one != path) {
                Some(one) => CommandError::SeveralRuns(path.to_owned(), one.clone()),
                None if path.join(BEGIN_FILE).is_file() => {
                    CommandError::LostRecord(path.to_owned())
                }
                None => experiment(path).unwrap_or_else(|| CommandError::NoRun(path.to_owned())),
            });
        }
        Self::read(&file)
    }

    /// What `run.json` says; where it is damaged or gone, what was planned when the run began.
    pub(crate) fn stored_or_begun(path: &Path) -> Result<Self, CommandError> {
        let begun = path.join(BEGIN_FILE);
        match Self::stored(path) {
            Err(
                why @ (CommandError::Schema {
                    // what another program wrote is not damaged, and not ours to replace
                    source: SchemaError::Json(_) | SchemaError::Changed,
                    ..
                }
                | CommandError::Counts { .. }
                | CommandError::LostRecord(_)),
            ) if begun.is_file() => {
                let mut run = Self::read(&begun)?;
                run.begun = true;
                run.notes.push(format!(
                    "{why}; the configuration is taken from {BEGIN_FILE}"
                ));
                run.record.incomplete_reason = Some("run.json was damaged or lost".to_owned());
                Ok(run)
            }
            other => other,
        }
    }

    fn read(file: &Path) -> Result<Self, CommandError> {
        let bytes = read_file(file, MOST_RUN_BYTES).map_err(CommandError::read(file))?;
        let text = String::from_utf8_lossy(&bytes);
        let record = RunRecord::from_json(&text).map_err(|source| CommandError::Schema {
            path: file.to_owned(),
            source,
        })?;
        let odd = record.cells.iter().find(|cell| !cell.counts.add_up());
        if let Some(cell) = odd.filter(|_| record.complete) {
            return Err(CommandError::Counts {
                path: file.to_owned(),
                cell: cell.id.clone(),
            });
        }
        let path = file.parent().map_or_else(PathBuf::new, Path::to_owned);
        Ok(Self::of(&path, record, Vec::new()))
    }

    /// A run in `path`, whose journals were not looked at.
    pub(crate) fn of(path: &Path, record: RunRecord, notes: Vec<String>) -> Self {
        Self {
            path: path.to_owned(),
            record,
            notes,
            records: BTreeMap::new(),
            damage: Vec::new(),
            unlisted: None,
            damaged_ok: false,
            seen: None,
            begun: false,
        }
    }

    /// Holds its journals against what is known of them.
    pub(crate) fn hold(&mut self, reads: Reads) -> Result<(), CommandError> {
        self.damaged_ok = reads.damaged_ok;
        // those of a run that has not ended may still grow
        self.seen = (!self.record.journal.is_empty()).then(|| {
            [JournalFile::Requests, JournalFile::Readings]
                .map(|file| PartStates::of(&self.path, file))
        });
        let journal::Check {
            damage,
            unchecked,
            unlisted,
            records,
            foreign,
        } = journal::check(&self.record, &self.path, self.begun)?;
        if let Some(whose) = foreign {
            return Err(CommandError::OtherRun {
                path: self.path.clone(),
                whose,
            });
        }
        self.records = records;
        if !damage.is_empty() && !reads.damaged_ok {
            return Err(CommandError::Damaged {
                path: self.path.clone(),
                damage: damage.join("; "),
            });
        }
        let named = damage
            .iter()
            .chain(&unchecked)
            .chain(&unlisted)
            .map(|what| format!("{}: {what}", self.path.display()));
        self.notes.extend(named);
        self.damage = damage;
        self.unlisted = unlisted.or_else(|| journal::unlisted(&self.record));
        Ok(())
    }

    /// Whether it is the same run, whatever its folder and its `run.json` are called: no two runs have the same records to the last byte.
    fn is_copy_of(&self, other: &Self) -> bool {
        let (a, b) = (&self.record, &other.record);
        let [records, others] = [a, b].map(|run| JournalFile::Requests.parts_of(&run.journal));
        a.experiment == b.experiment
            && (records.clone().any(|part| part.lines > 0) && records.eq(others)
                || (&a.started_at, &a.clock) == (&b.started_at, &b.clock) && a.cells == b.cells)
    }

    /// Whether its journals are those that its `run.json` lists.
    pub(crate) fn is_sound(&self) -> bool {
        self.damage.is_empty() && self.unlisted.is_none()
    }

    pub(crate) fn has_requests(&self) -> bool {
        !JournalFile::Requests.parts_in(&self.path).is_empty()
    }

    /// That they are there, for what cannot do without.
    pub(crate) fn needs_requests(&self) -> Result<(), CommandError> {
        if self.has_requests() {
            Ok(())
        } else {
            Err(CommandError::NoRequests(self.path.clone()))
        }
    }

    /// The entries of one of its journals, as they were when they were held.
    pub(crate) fn values<T: Entry>(&self, file: JournalFile) -> Values<T> {
        let seen = self.seen.as_ref().map(|[requests, readings]| match file {
            JournalFile::Requests => requests,
            JournalFile::Readings => readings,
        });
        Values::open(&self.path, file, seen.cloned(), self.damaged_ok)
    }

    pub(crate) fn requests(&self) -> Values<RequestRecord> {
        self.values(JournalFile::Requests)
    }

    pub(crate) fn readings(&self) -> Values<Reading> {
        self.values(JournalFile::Readings)
    }

    /// Makes every cell again from the records that are whole, and everything that follows from the cells.
    pub(crate) fn recover(&mut self) -> Result<(), CommandError> {
        let begun = self.begun_cells();
        let done = self.cells_again(None)?;
        let run = &mut self.record;
        if !run.complete {
            run.incomplete_reason = Some(reason(run, &done, begun.as_deref()));
        }
        let told = journal::told(run, journal::FARED);
        conclude_run(run, done.evidence)?;
        run.trust.add(told);
        Ok(())
    }

    /// The cells that had begun, where that is known; what is known of them beside their records is taken over.
    fn begun_cells(&mut self) -> Option<Vec<CellProgress>> {
        let path = self.path.join(CELLS_FILE);
        if self.record.complete || !path.exists() {
            return None;
        }
        let read = read_file(&path, MOST_RUN_BYTES).map_err(|error| error.to_string());
        let read = read.and_then(|text| serde_json::from_slice(&text).map_err(|e| e.to_string()));
        let begun: Vec<CellProgress> = match read {
            Ok(begun) => begun,
            Err(error) => {
                let path = path.display();
                self.notes.push(format!(
                    "{path} is damaged ({error}); it is not known which cells had started"
                ));
                return None;
            }
        };
        for known in &begun {
            let cells = self.record.cells.iter_mut();
            for cell in cells.filter(|cell| cell.id == known.cell) {
                cell.ended_early = cell.ended_early.take().or(known.ended_early.clone());
                cell.ended_by = cell.ended_by.or(known.ended_by);
            }
        }
        Some(begun)
    }

    /// Makes every cell again from the records that are whole, whose extents may be known already.
    pub(crate) fn cells_again(
        &mut self,
        extents: Option<Extents>,
    ) -> Result<Concluded, CommandError> {
        self.needs_requests()?;
        let mut records = std::mem::take(&mut self.records);
        let mut spans = BTreeMap::new();
        if self.record.host.facts.contains_key("shards") {
            // their cells overlap
            let known = extents.map_or_else(|| self.extents(), Ok)?;
            (records, spans) = (known.records, known.spans);
        }
        let conclusion = Conclusion::new(&self.record)?.expecting(records);
        let mut conclusion = conclusion.within(spans);
        let mut lines = self.requests();
        let mut readings = self.readings();
        let mut last = Stamp::EPOCH;
        while let Some(record) = lines.next()? {
            last = last.max(record.last_instant());
            conclusion.push(&record);
            if let Some(until) = conclusion.whole_until() {
                let mut read = Stamp::EPOCH;
                while read <= until
                    && let Some(reading) = readings.next()?
                {
                    read = reading.from;
                    conclusion.push_reading(reading);
                }
                conclusion.finish_cell();
            }
        }
        while let Some(reading) = readings.next()? {
            conclusion.push_reading(reading);
        }
        let run = &mut self.record;
        run.duration = run.duration.max(last - Stamp::EPOCH).max(Nanos::ZERO);
        let done = conclusion.finish(run);
        self.notes.extend(lines.notes());
        self.notes.extend(readings.notes());
        let unread = lines.unread().chain(readings.unread()).collect();
        self.left_out(&done, unread)?;
        self.notes.push(format!(
            "{}: {} rebuilt from {}",
            self.path.display(),
            counted(self.record.cells.len(), "cell"),
            counted(done.requests, "record")
        ));
        Ok(done)
    }

    /// Takes down what was left out as its cells were made again.
    ///
    /// # Errors
    /// [`CommandError::OtherRun`] where that is every request: none is of a cell that this run has.
    fn left_out(&mut self, done: &Concluded, unread: Vec<String>) -> Result<(), CommandError> {
        let unknown = done.unknown.iter().map(|(cell, records)| {
            let cell = cell.escape_debug();
            let are = if *records == 1 { "is" } else { "are" };
            let records = counted(records, "request");
            format!("{records} {are} from cell {cell}, which this run does not have")
        });
        let unknown: Vec<String> = unknown.collect();
        if done.requests == 0 && !unknown.is_empty() {
            let file = if self.begun { BEGIN_FILE } else { "run.json" };
            let (titled, unknown) = (journal::titled(&self.record), unknown.join(", "));
            return Err(CommandError::OtherRun {
                path: self.path.clone(),
                whose: format!("{file} is from the run {titled}, and in the journals {unknown}"),
            });
        }
        let left_out = |what| format!("{}: {what}; they are left out", self.path.display());
        self.notes.extend(unknown.iter().map(left_out));
        for damage in unread.into_iter().chain(unknown) {
            if !self.damage.contains(&damage) {
                self.damage.push(damage);
            }
        }
        Ok(())
    }

    /// That it is not trusted and why, for people who see its numbers only.
    pub(crate) fn doubt(&self) -> Option<String> {
        let trust = &self.record.trust;
        let codes: BTreeSet<&str> = trust.reasons.iter().map(|r| r.code.as_str()).collect();
        (trust.verdict > TrustVerdict::Trusted).then(|| {
            let (path, verdict) = (self.path.display(), trust.verdict.as_str());
            let codes: Vec<&str> = codes.into_iter().collect();
            format!("{path} is {verdict} ({})", codes.join(", "))
        })
    }

    fn extents(&self) -> Result<Extents, CommandError> {
        let mut extents = Extents::default();
        let mut lines = self.requests();
        while let Some(record) = lines.next()? {
            extents.add(&record);
        }
        Ok(extents)
    }

    /// Its single requests, cell by cell; none where there is no journal.
    pub(crate) fn samples(&self) -> Result<Vec<CellSamples>, CommandError> {
        if !self.has_requests() {
            return Ok(Vec::new());
        }
        let cells = self.record.cells.iter();
        let mut keepers: BTreeMap<&str, SampleKeeper> = cells
            .map(|cell| (cell.id.as_str(), SampleKeeper::new(&cell.id)))
            .collect();
        let mut lines = self.requests();
        while let Some(record) = lines.next()? {
            if let Some(keeper) = keepers.get_mut(record.cell.as_str()) {
                keeper.push(&record);
            }
        }
        Ok(keepers.into_values().map(SampleKeeper::finish).collect())
    }
}

/// What a folder of an experiment of many runs is, and what to do with it.
fn experiment(folder: &Path) -> Option<CommandError> {
    let sides = ["a", "b"].map(|side| folder.join(side));
    let (experiment, next) = if sides.iter().all(|side| !run_dirs(side).is_empty()) {
        let [a, b] = sides.map(|side| side.display().to_string());
        (
            "two sides in turns",
            format!(
                "`bench-report compare {a} {b}` compares their whole blocks, also of an experiment that was killed"
            ),
        )
    } else if folder.join("matrix.json").is_file() {
        (
            "a matrix of settings",
            "the command that began it, with the same --out, measures what is missing".to_owned(),
        )
    } else {
        return None;
    };
    Some(CommandError::Experiment {
        folder: folder.to_owned(),
        experiment,
        next,
    })
}

/// Designed and not aggregated.
fn is_blank(cell: &CellRecord) -> bool {
    cell.counts.planned == 0 && cell.counts.warmup == 0 && cell.metrics.is_empty()
}

/// Why a run did not end, and how far it came: by the cells that had `begun`, where that is known.
fn reason(run: &RunRecord, done: &Concluded, begun: Option<&[CellProgress]>) -> String {
    let why = run.incomplete_reason.as_deref().unwrap_or("it did not end");
    // of a merged run it says what each shard's records are
    if why.starts_with("shard ") {
        return why.to_owned();
    }
    let why = why
        .split("; recovered from")
        .next()
        .unwrap_or(why)
        .trim_end_matches('.');
    let records = counted(done.requests, "record");
    let told = format!("{why}; recovered from {records}");
    let has_begun = |id: &&String| begun.is_none_or(|all| all.iter().any(|cell| cell.cell == **id));
    let (missing, ahead): (Vec<_>, Vec<_>) = done.empty.iter().partition(has_begun);
    let under_way = begun.and_then(|all| all.last().filter(|cell| cell.ended.is_none()));
    let parts = [
        (
            ", none of ",
            missing.into_iter().cloned().collect::<Vec<_>>(),
        ),
        (
            "; it ended during ",
            under_way.iter().map(|cell| cell.cell.clone()).collect(),
        ),
        ("; not started: ", ahead.into_iter().cloned().collect()),
    ];
    let parts = parts.iter().filter(|(_, cells)| !cells.is_empty());
    let parts = parts.map(|(what, cells)| format!("{what}{}", cells.join(", ")));
    told + &parts.collect::<String>()
}

/// A run, or every run of a folder of runs.
pub(crate) fn open_group(path: &Path, reads: Reads) -> Result<Vec<RunFolder>, CommandError> {
    let within = run_dirs(path);
    if within.is_empty() {
        return Ok(vec![RunFolder::open(path, reads)?]);
    }
    let runs = within.iter().map(|run| RunFolder::open(run, reads));
    let runs = runs.collect::<Result<Vec<_>, _>>()?;
    no_copies(&runs)?;
    Ok(runs)
}

/// That no run is there twice: a copy is no repeat, and tells nothing of what changes from run to run.
pub(crate) fn no_copies(runs: &[RunFolder]) -> Result<(), CommandError> {
    for (place, run) in runs.iter().enumerate() {
        let mut before = runs.iter().take(place);
        if let Some(first) = before.find(|first| first.is_copy_of(run)) {
            return Err(CommandError::SameRun {
                first: first.path.clone(),
                other: run.path.clone(),
            });
        }
    }
    Ok(())
}

/// What readers of these runs should be told.
pub(crate) fn notes<'a>(runs: impl IntoIterator<Item = &'a RunFolder>) -> Vec<String> {
    let notes = runs.into_iter().flat_map(|run| &run.notes);
    notes.cloned().collect()
}

/// Runs that are held against themselves, for people.
pub(crate) fn against_themselves(base: &[RunFolder], new: &[RunFolder]) -> Vec<String> {
    let pairs = base
        .iter()
        .flat_map(|old| new.iter().map(move |new| (old, new)));
    let same = pairs.filter(|(old, new)| old.is_copy_of(new));
    let told = same.map(|(old, new)| {
        let (old, new) = (old.path.display(), new.path.display());
        format!("{old} and {new} are the same run, so there are no differences")
    });
    told.collect()
}
