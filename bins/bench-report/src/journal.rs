//! Whether the journals of a run are those that were written: held against what the run says of them before any command reads them; and their values, as a
//! killed program leaves them: a torn end is passed over, damage is named by its line.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use bench_schema::{
    BEGIN_FILE, BadLine, ClockRecord, Entries, Entry, JOURNAL_FILE, JournalFile, JournalPart,
    Lines, MOST_RUN_BYTES, PartMeter, Problem, RequestRecord, RunRecord, TrustReason, TrustVerdict,
    read_file,
};
use serde::de::IgnoredAny;

use crate::error::CommandError;

/// The reason of the trust's verdict.
const DAMAGED: &str = "journal_damaged";
/// That of a run of which nothing tells whether its journals are those that were written.
const UNLISTED: &str = "journal_unlisted";
/// The list of ten thousand parts, of 256 MiB each, is a tenth of it.
const LONGEST_LIST: u64 = 16 << 20;
/// Pieces of damage that are named; of more only the number is told.
const MOST_NAMED: usize = 10;

/// What came of holding the journals of a run against what it says of them.
#[derive(Debug, Default)]
pub(crate) struct Check {
    /// What is wrong, each with its file and line; nothing where they are whole.
    pub(crate) damage: Vec<String>,
    /// What could not be looked at.
    pub(crate) unchecked: Vec<String>,
    /// Why nothing tells whether the journals are whole, where that is so.
    pub(crate) unlisted: Option<String>,
    /// How many records each cell has; nothing where that is not known.
    pub(crate) records: BTreeMap<String, u64>,
    /// Which run they are of and which one is told beside them, where these are two.
    pub(crate) foreign: Option<String>,
}

/// Hold the journals against what is known of them.
///
/// A run that ended says how many lines and bytes each part has, and their hash. One of an older program says only how many requests each
/// cell had. One that was killed says what its parts held a few seconds before; what came later is only known to be records, and a torn last
/// line is no damage there. No journal at all is no damage either: a run may be kept without its requests. `begun` says that `run` is what
/// [`BEGIN_FILE`] holds.
pub(crate) fn check(run: &RunRecord, dir: &Path, begun: bool) -> Result<Check, CommandError> {
    let known = Known::of(run, dir)?;
    let mut found = Check::default();
    found.whose(run, dir, begun, &known)?;
    for file in [JournalFile::Requests, JournalFile::Readings] {
        found.look(file, dir, &known)?;
    }
    if !run.journal.is_empty() {
        found.damage.extend(unwritten(run, dir));
        if found.damage.is_empty() {
            found.records = counted(run).collect();
        }
    } else if found.damage.is_empty() {
        found.count(run, dir)?;
    }
    let any = !JournalFile::Requests.parts_in(dir).is_empty();
    if any && !run.complete && !known.lists(JournalFile::Requests) {
        found.unlisted = Some(format!(
            "{}: it cannot be verified that the journals are unchanged and complete",
            known.problem
        ));
    }
    found.damage.dedup();
    if found.damage.len() > MOST_NAMED {
        let more = found.damage.len() - MOST_NAMED;
        found.damage.truncate(MOST_NAMED);
        found.damage.push(format!("{more} more"));
    }
    Ok(found)
}

/// Requests that the run counted and could not write, as on a full disk: what is made of single requests lacks them.
fn unwritten(run: &RunRecord, dir: &Path) -> Option<String> {
    let requests = JournalFile::Requests;
    let parts = requests.parts_of(&run.journal);
    let written: u64 = parts.map(|part| part.lines).sum();
    let counted: u64 = counted(run).map(|(_, records)| records).sum();
    let kept = !requests.parts_in(dir).is_empty();
    (kept && written < counted).then(|| {
        format!(
            "{written} of {counted} requests were written; the others are only counted in run.json"
        )
    })
}

/// How many records each cell has by its counts.
fn counted(run: &RunRecord) -> impl Iterator<Item = (String, u64)> {
    let cells = run.cells.iter();
    cells.map(|cell| (cell.id.clone(), cell.counts.planned + cell.counts.warmup))
}

/// What a run says of the parts of its journals.
struct Known {
    parts: Vec<JournalPart>,
    /// Whether the last of each journal grew after that was written.
    grew: bool,
    /// Why its requests are not among them, where they are not.
    problem: String,
}

impl Known {
    fn of(run: &RunRecord, dir: &Path) -> Result<Self, CommandError> {
        let mut known = Self {
            parts: run.journal.clone(),
            grew: run.journal.is_empty(),
            problem: format!("{JOURNAL_FILE} lists no requests"),
        };
        if known.grew {
            let path = dir.join(JOURNAL_FILE);
            match read_file(&path, LONGEST_LIST) {
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    known.problem = format!("there is no {JOURNAL_FILE}");
                }
                read => match serde_json::from_slice(&read.map_err(CommandError::read(&path))?) {
                    Ok(parts) => known.parts = parts,
                    Err(error) => known.problem = format!("{JOURNAL_FILE} is damaged ({error})"),
                },
            }
        }
        Ok(known)
    }

    /// Whether it tells anything of a journal: the list that is written when a run begins has no line of it.
    fn lists(&self, file: JournalFile) -> bool {
        file.parts_of(&self.parts).any(|part| part.lines > 0)
    }
}

/// What the journals in a folder hold as they lie there.
pub(crate) fn parts(dir: &Path) -> Result<Vec<JournalPart>, CommandError> {
    let all = [JournalFile::Requests, JournalFile::Readings].map(|file| file.parts_in(dir));
    let one = |path: &PathBuf| Ok(metered(path, u64::MAX)?.part(&name(path)));
    all.iter().flatten().map(one).collect()
}

/// The first bytes of a part, counted.
fn metered(path: &Path, most: u64) -> Result<PartMeter, CommandError> {
    PartMeter::of_file(path, most).map_err(CommandError::read(path))
}

impl Check {
    /// Whether the run is the one whose journals these are: their list says how the [`BEGIN_FILE`] beside them begins.
    fn whose(
        &mut self,
        run: &RunRecord,
        dir: &Path,
        begun: bool,
        known: &Known,
    ) -> Result<(), CommandError> {
        let path = dir.join(BEGIN_FILE);
        let listed = known.parts.iter().find(|part| part.file == BEGIN_FILE);
        let Some(listed) = listed.filter(|_| path.exists()) else {
            return Ok(());
        };
        let same = metered(&path, listed.bytes)?.part(BEGIN_FILE) == *listed;
        let text = read_file(&path, MOST_RUN_BYTES).ok().filter(|_| same);
        // the digest tells of what stands behind the part that is listed
        let owner =
            text.and_then(|text| RunRecord::from_json(&String::from_utf8_lossy(&text)).ok());
        let Some(owner) = owner else {
            let told = format!("{BEGIN_FILE} does not belong to {JOURNAL_FILE}");
            if begun {
                self.foreign = Some(format!(
                    "{told}: it is from the run {} (if it was changed on purpose, remove {JOURNAL_FILE})",
                    titled(run)
                ));
            } else {
                let told = format!("{told}: it cannot be verified that run.json is from this run");
                self.unchecked.push(told);
            }
            return Ok(());
        };
        // shards meet again and again after the run began
        let clock = |run: &RunRecord| ClockRecord {
            met: Vec::new(),
            ..run.clock.clone()
        };
        if (&owner.started_at, clock(&owner)) != (&run.started_at, clock(run)) {
            self.foreign = Some(format!(
                "run.json is from the run {}, but the journals are from {}",
                titled(run),
                titled(&owner)
            ));
        }
        Ok(())
    }

    /// Look at the parts of one journal.
    fn look(&mut self, file: JournalFile, dir: &Path, known: &Known) -> Result<(), CommandError> {
        let listed: Vec<_> = file.parts_of(&known.parts).collect();
        let parts = file.parts_in(dir);
        if parts.is_empty() {
            let lines: u64 = listed.iter().map(|part| part.lines).sum();
            let name = file.part_name(0);
            let told = format!(
                "{name} is missing; its {} are left out",
                bench_schema::counted(lines, "line")
            );
            self.unchecked.extend((lines > 0).then_some(told));
            return Ok(());
        }
        if listed.is_empty() {
            let missing = file.missing_in(dir).into_iter();
            let told = |name| format!("{name} is missing although later parts exist");
            self.damage.extend(missing.map(told));
            return Ok(());
        }
        self.hold(&listed, dir, known.grew)?;
        let next = u32::try_from(listed.len()).unwrap_or(u32::MAX);
        let may_follow = known.grew.then(|| file.part_name(next));
        let names = parts.iter().filter_map(|path| path.file_name()?.to_str());
        let strange = names.filter(|name| {
            !listed.iter().any(|part| part.file == *name) && may_follow.as_deref() != Some(name)
        });
        let strange = strange.map(|name| format!("{name} does not belong to this run"));
        self.damage.extend(strange);
        Ok(())
    }

    /// Hold the parts of one journal against their list; the last of them may have grown.
    fn hold(
        &mut self,
        listed: &[&JournalPart],
        dir: &Path,
        grew: bool,
    ) -> Result<(), CommandError> {
        for (at, part) in listed.iter().enumerate() {
            let grew = grew && at + 1 == listed.len();
            let difference = changed(part, dir, grew)?;
            if grew && difference.is_none() {
                let after = match part.lines {
                    0 => String::new(),
                    lines => format!(" after line {lines}"),
                };
                self.unchecked.push(format!(
                    "data written to {}{after}, in the last seconds before the program ended, cannot be verified",
                    part.file
                ));
            }
            self.damage.extend(difference);
        }
        Ok(())
    }
}

/// How a part differs from what was written; of one that may have grown, its beginning.
fn changed(part: &JournalPart, dir: &Path, grew: bool) -> Result<Option<String>, CommandError> {
    let name = &part.file;
    let path = dir.join(name);
    if !path.exists() {
        return Ok(Some(format!(
            "{name} is missing; it held {}",
            bench_schema::counted(part.lines, "line")
        )));
    }
    let found = metered(&path, if grew { part.bytes } else { u64::MAX })?.part(name);
    if found == *part {
        return Ok(None);
    }
    if let Some(line) = unreadable(&path)? {
        return Ok(Some(format!("{name}: line {line} cannot be read")));
    }
    let told = if found.lines == part.lines {
        format!(
            "{name} was changed: its {} lines differ from those written",
            found.lines
        )
    } else {
        format!(
            "{name} ends after line {}; {} lines were written",
            found.lines, part.lines
        )
    };
    Ok(Some(told))
}

/// The number of the first line that is no JSON.
fn unreadable(path: &Path) -> Result<Option<u64>, CommandError> {
    let mut lines = Lines::of([path.to_owned()]);
    while let Some(line) = lines.next_line()? {
        if line.value::<IgnoredAny>().is_none() {
            return Ok(Some(line.number));
        }
    }
    Ok(None)
}

impl Check {
    /// Every record of the journal read where the run does not list its parts to the end: damaged lines, requests that are there twice, cells that
    /// lack some.
    fn count(&mut self, run: &RunRecord, dir: &Path) -> Result<(), CommandError> {
        let mut counts: BTreeMap<String, u64> = BTreeMap::new();
        let mut requests = Values::<RequestRecord>::open(dir, JournalFile::Requests, None, true);
        while let Some(record) = requests.next()? {
            *counts.entry(record.cell).or_default() += 1;
        }
        let found = &mut self.damage;
        found.extend(requests.unread());
        // a killed program leaves no other part so than the last
        let last = JournalFile::Requests.parts_in(dir).pop();
        let last = last.filter(|_| !run.complete);
        let torn = requests
            .torn()
            .filter(|part| Some(*part) != last.as_deref());
        found.extend(torn.map(|part| format!("{} ends inside a line", name(part))));
        if run.complete && !counts.is_empty() {
            let lacking = counted(run).filter_map(|(cell, told)| {
                let there = counts.get(&cell).copied().unwrap_or(0);
                (there != told).then(|| {
                    format!(
                        "requests.jsonl has {there} records of {}, but run.json counts {told}",
                        cell.escape_debug()
                    )
                })
            });
            found.extend(lacking);
        }
        self.records = counts;
        // of a shard only every n-th request is here
        let is_shard = run.config.get("shard").is_some();
        let (holes, records) = (
            requests.entries.seen().holes(),
            self.records.values().sum::<u64>(),
        );
        if !is_shard && holes > records.saturating_mul(FAR) {
            self.damage.push(format!(
                "{holes} request ids are missing between {records} records: some records are damaged"
            ));
        } else if !(run.complete || is_shard || holes == 0) {
            self.unchecked.push(format!(
                "no record of {} from before the last record: in flight when the program ended, or lost",
                bench_schema::counted(holes, "request")
            ));
        }
        Ok(())
    }
}

/// So many times more requests than records cannot have been in flight.
const FAR: u64 = 1000;

/// How the programs fared that measured, and whether shards did so together, which no record tells.
pub(crate) const FARED: &[&str] = &[
    "recorder_held_up",
    "journal_incomplete",
    "shard_lost",
    "shards_apart",
];
/// What was found wrong with the journals when they were read.
pub(crate) const FOUND: &[&str] = &[DAMAGED, UNLISTED];

/// What a run says against itself by these codes: concluding its records anew would leave it out.
pub(crate) fn told(run: &RunRecord, codes: &[&str]) -> Vec<TrustReason> {
    let reasons = run.trust.reasons.iter();
    let told = reasons.filter(|reason| codes.contains(&reason.code.as_str()));
    told.cloned().collect()
}

/// Marks a run whose journals are damaged: what is made of them cannot be believed.
pub(crate) fn distrust(run: &mut RunRecord, damage: &[String]) {
    if damage.is_empty() {
        return;
    }
    let message = format!(
        "the journals are incomplete or damaged: {}",
        damage.join("; ")
    );
    run.trust.reasons.retain(|reason| reason.code != DAMAGED);
    run.trust.add([TrustReason {
        next: Some("use an intact copy, or measure again".to_owned()),
        ..TrustReason::new(DAMAGED, TrustVerdict::Untrusted, message)
    }]);
}

/// Marks a run whose journals nothing was held against, also where that was said of it before: to have been recovered once proves nothing.
pub(crate) fn doubt(run: &mut RunRecord, unlisted: Option<String>) {
    if let Some(message) = unlisted {
        run.trust.reasons.retain(|reason| reason.code != UNLISTED);
        run.trust
            .add([TrustReason::new(UNLISTED, TrustVerdict::Doubtful, message)]);
    }
}

/// Why a run was marked so.
pub(crate) fn unlisted(run: &RunRecord) -> Option<String> {
    let mut told = told(run, &[UNLISTED]);
    told.pop().map(|reason| reason.message)
}

/// Line numbers that are kept for the message.
const MOST_LINES: usize = 5;

/// What was passed over in one file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Damage {
    /// Lines that do not count, and the first of them.
    pub(crate) lines: u64,
    pub(crate) named: Vec<BadLine>,
    /// Whether the file ends inside a line.
    pub(crate) torn: bool,
}

impl Damage {
    fn add(&mut self, bad: BadLine) {
        if bad.problem == Problem::Torn {
            self.torn = true;
            return;
        }
        self.lines += 1;
        if self.named.len() < MOST_LINES {
            self.named.push(bad);
        }
    }

    /// The lines that do not count, for people.
    fn unread(&self) -> Option<String> {
        let mut named: Vec<String> = self.named.iter().map(ToString::to_string).collect();
        let more = self.lines - named.len() as u64;
        named.extend((more > 0).then(|| format!("{more} more")));
        (self.lines > 0).then(|| named.join(", "))
    }

    /// All of it; nothing where nothing was passed over.
    fn notes(&self, path: &Path) -> impl Iterator<Item = String> {
        let path = path.display();
        let unread = self
            .unread()
            .map(|lines| format!("{path}: {lines}; left out"));
        let torn = self
            .torn
            .then(|| format!("{path}: the incomplete last line of the killed run is left out"));
        unread.into_iter().chain(torn)
    }
}

/// What the parts of a journal were when they were held against what the run says of them: their lengths, and when each was last changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PartStates(Vec<(PathBuf, u64, Option<SystemTime>)>);

impl PartStates {
    /// As they are now.
    pub(crate) fn of(dir: &Path, file: JournalFile) -> Self {
        let state = |path: PathBuf| {
            let now = std::fs::metadata(&path).ok();
            let len = now.as_ref().map_or(0, std::fs::Metadata::len);
            (path, len, now.and_then(|now| now.modified().ok()))
        };
        Self(file.parts_in(dir).into_iter().map(state).collect())
    }
}

/// The entries of a journal, one at a time, part after part.
pub(crate) struct Values<T> {
    entries: Entries<T>,
    dir: PathBuf,
    file: JournalFile,
    /// What its parts were when they were checked; nothing where they may still grow.
    seen: Option<PartStates>,
    damaged_ok: bool,
    missing: Option<String>,
    /// The parts in which something was passed over so far.
    parts: Vec<(PathBuf, Damage)>,
}

impl<T: Entry> Values<T> {
    /// Those of a journal in a run directory; none where there is no such journal. Lines that are none are passed over where that is allowed. Parts that were
    /// `seen` before have to be the same still when all is read.
    pub(crate) fn open(
        run: &Path,
        file: JournalFile,
        seen: Option<PartStates>,
        damaged_ok: bool,
    ) -> Self {
        let missing = file.missing_in(run);
        let named: Vec<_> = missing.into_iter().take(MOST_LINES).collect();
        let told = || {
            format!(
                "{}: parts of the journal are missing ({}); their content is left out",
                run.display(),
                named.join(", ")
            )
        };
        Self {
            entries: Entries::of(file.lines_in(run)),
            dir: run.to_owned(),
            file,
            seen,
            damaged_ok,
            missing: (!named.is_empty()).then(told),
            parts: Vec::new(),
        }
    }

    /// The next value; `None` at the end.
    ///
    /// # Errors
    /// Where a line is none, but for the torn end that a killed program leaves; at the end, where the files changed since they were checked.
    pub(crate) fn next(&mut self) -> Result<Option<T>, CommandError> {
        while let Some(entry) = self.entries.next_entry()? {
            let bad = match entry {
                Ok(value) => return Ok(Some(value)),
                Err(bad) => bad,
            };
            if bad.problem != Problem::Torn && !self.damaged_ok {
                let why = match bad.problem {
                    Problem::Unreadable => ": it is damaged, or from a newer version",
                    _ => "",
                };
                return Err(CommandError::Damaged {
                    path: bad.part.parent().unwrap_or(&bad.part).to_owned(),
                    damage: format!("{}: {bad}{why}", name(&bad.part)),
                });
            }
            if self.parts.last().is_none_or(|part| part.0 != bad.part) {
                self.parts.push((bad.part.clone(), Damage::default()));
            }
            if let Some((_, damage)) = self.parts.last_mut() {
                damage.add(bad);
            }
        }
        let now = |seen: &PartStates| *seen != PartStates::of(&self.dir, self.file);
        if self.seen.as_ref().is_some_and(now) {
            let name = self.file.part_name(0);
            return Err(CommandError::Damaged {
                path: self.dir.clone(),
                damage: format!("{name}, or a later part of it, was changed while it was read"),
            });
        }
        Ok(None)
    }

    /// What was passed over so far, for people.
    pub(crate) fn notes(&self) -> impl Iterator<Item = String> {
        let parts = self.parts.iter();
        let notes = parts.flat_map(|(path, damage)| damage.notes(path));
        self.missing.iter().cloned().chain(notes)
    }

    /// The lines that do not count so far, by the names of their files.
    pub(crate) fn unread(&self) -> impl Iterator<Item = String> {
        let parts = self.parts.iter();
        parts.filter_map(|(path, damage)| Some(format!("{}: {}", name(path), damage.unread()?)))
    }

    /// The parts that end inside a line.
    fn torn(&self) -> impl Iterator<Item = &Path> {
        let torn = self.parts.iter().filter(|(_, damage)| damage.torn);
        torn.map(|(path, _)| path.as_path())
    }
}

/// Which run it is, for people who have the files of two.
pub(crate) fn titled(run: &RunRecord) -> String {
    format!("`{}, started at {}`", run.title, run.started_at)
}

/// The name of a part, without its folder.
fn name(part: &Path) -> String {
    let name = part.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

#[cfg(test)]
#[path = "../tests/unit/journal.rs"]
mod tests;
