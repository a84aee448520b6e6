//! Whether the journals of a run are those that were written: held against what the run says of them before any command reads them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use bench_schema::{
    JOURNAL_FILE, JournalFile, JournalPart, Lines, PartMeter, Phase, RunRecord, TrustReason,
    TrustVerdict,
};
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::error::CommandError;

/// The reason of the trust's verdict.
const DAMAGED: &str = "journal_damaged";
/// Pieces of damage that are named; of more only the number is told.
const MOST_NAMED: usize = 10;

/// What came of holding the journals of a run against what it says of them.
#[derive(Debug, Default)]
pub(crate) struct Check {
    /// What is wrong, each with its file and line; nothing where they are whole.
    pub(crate) damage: Vec<String>,
    /// What could not be looked at.
    pub(crate) unchecked: Vec<String>,
    /// How many records each cell has; nothing where that is not known.
    pub(crate) records: BTreeMap<String, u64>,
}

/// Hold the journals against what is known of them.
///
/// A run that ended says how many lines and bytes each part has, and their hash. One of an older program says only how many requests each
/// cell had. One that was killed says what its parts held a few seconds before; what came later is only known to be records, and a torn last
/// line is no damage there. No journal at all is no damage either: a run may be kept without its requests.
pub(crate) fn check(run: &RunRecord, dir: &Path) -> Result<Check, CommandError> {
    let known = Known::of(run, dir);
    let mut found = Check::default();
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
    if known.parts.is_empty() && any && !run.complete {
        found.unchecked.push(format!(
            "there is no {JOURNAL_FILE}: whether the ends of the journals, or their last parts, are missing cannot be told"
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
    let parts = run.journal.iter();
    let parts = parts.filter(|part| part.file.starts_with(requests.stem()));
    let written: u64 = parts.map(|part| part.lines).sum();
    let counted: u64 = counted(run).map(|(_, records)| records).sum();
    let kept = !requests.parts_in(dir).is_empty();
    (kept && written < counted).then(|| {
        format!(
            "{written} of {counted} requests were written; the others are counted in run.json only"
        )
    })
}

/// How many records each cell has by its counts.
fn counted(run: &RunRecord) -> impl Iterator<Item = (String, u64)> {
    let cells = run.cells.iter();
    cells.map(|cell| (cell.id.clone(), cell.counts.planned + cell.counts.warmup))
}

fn number(parts: usize) -> u32 {
    u32::try_from(parts).unwrap_or(u32::MAX)
}

/// What a run says of the parts of its journals.
struct Known {
    parts: Vec<JournalPart>,
    /// Whether the last of each journal grew after that was written.
    grew: bool,
}

impl Known {
    fn of(run: &RunRecord, dir: &Path) -> Self {
        if !run.journal.is_empty() {
            let parts = run.journal.clone();
            return Self { parts, grew: false };
        }
        let text = std::fs::read(dir.join(JOURNAL_FILE)).unwrap_or_default();
        let parts = serde_json::from_slice(&text).unwrap_or_default();
        Self { parts, grew: true }
    }
}

/// What the journals in a folder hold as they lie there.
pub(crate) fn parts(dir: &Path) -> Result<Vec<JournalPart>, CommandError> {
    let all = [JournalFile::Requests, JournalFile::Readings].map(|file| file.parts_in(dir));
    let one = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        Ok(metered(path, u64::MAX)?.part(&name))
    };
    all.iter().flatten().map(one).collect()
}

/// The first bytes of a part, counted.
fn metered(path: &Path, most: u64) -> Result<PartMeter, CommandError> {
    let mut meter = PartMeter::default();
    let file = File::open(path).map_err(CommandError::read(path))?;
    let read = meter.read(file.take(most));
    read.map_err(CommandError::read(path)).map(|()| meter)
}

impl Check {
    /// Look at the parts of one journal.
    fn look(&mut self, file: JournalFile, dir: &Path, known: &Known) -> Result<(), CommandError> {
        let own = |part: &&JournalPart| part.file.starts_with(file.stem());
        let listed: Vec<&JournalPart> = known.parts.iter().filter(own).collect();
        let parts = file.parts_in(dir);
        if parts.is_empty() {
            let lines: u64 = listed.iter().map(|part| part.lines).sum();
            let name = file.part_name(0);
            let told = format!("{name} is not there; it held {lines} lines, which are left out");
            self.unchecked.extend((lines > 0).then_some(told));
            return Ok(());
        }
        let missing = file.missing_in(dir).into_iter();
        let missing =
            missing.map(|name| format!("{name} is missing, though later parts are there"));
        self.damage.extend(missing);
        self.hold(&listed, dir, known.grew)?;
        if listed.is_empty() {
            return Ok(());
        }
        let may_follow = known.grew.then(|| file.part_name(number(listed.len())));
        let names = parts.iter().filter_map(|path| path.file_name()?.to_str());
        let strange = names.filter(|name| {
            !listed.iter().any(|part| part.file == *name) && may_follow.as_deref() != Some(name)
        });
        let strange = strange.map(|name| format!("{name} is no part of this run"));
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
                self.unchecked.push(format!(
                    "what was written to {} after line {}, in the last seconds before the program ended, cannot be checked",
                    part.file, part.lines
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
    if !path.is_file() {
        return Ok(Some(format!(
            "{name} is missing; it held {} lines",
            part.lines
        )));
    }
    let found = metered(&path, if grew { part.bytes } else { u64::MAX })?.part(name);
    if found == *part {
        return Ok(None);
    }
    if let Some(line) = unreadable(&path)? {
        return Ok(Some(format!("{name}, line {line}, cannot be read")));
    }
    let told = if found.lines == part.lines {
        format!(
            "{name} was changed: its {} lines are not those that were written",
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

/// What a record says of itself.
#[derive(Deserialize)]
struct Head {
    id: u64,
    cell: String,
    #[serde(default)]
    repeat: u32,
    phase: Phase,
}

impl Check {
    /// Every record of the journal read where the run does not list its parts to the end: damaged lines, requests that are there twice, cells that
    /// lack some.
    fn count(&mut self, run: &RunRecord, dir: &Path) -> Result<(), CommandError> {
        let found = &mut self.damage;
        let mut seen = Seen::default();
        let mut counts: BTreeMap<String, u64> = BTreeMap::new();
        let mut lines = JournalFile::Requests.lines_in(dir);
        while let Some(line) = lines.next_line()? {
            let number = line.number;
            let name = line.part.file_name().unwrap_or_default().to_string_lossy();
            match line.value::<Head>() {
                Some(head) => {
                    if !seen.is_new(&head) {
                        found.push(format!(
                            "{name}, line {number}: request {} of {} is there twice",
                            head.id,
                            head.cell.escape_debug()
                        ));
                    }
                    *counts.entry(head.cell).or_default() += 1;
                }
                // what a killed program leaves
                None if line.is_torn() && !run.complete => {}
                None => found.push(format!("{name}, line {number}, cannot be read")),
            }
        }
        if run.complete && !counts.is_empty() {
            let lacking = counted(run).filter_map(|(cell, told)| {
                let there = counts.get(&cell).copied().unwrap_or(0);
                (there != told).then(|| {
                    format!(
                        "requests.jsonl has {there} records of {}; run.json counts {told}",
                        cell.escape_debug()
                    )
                })
            });
            found.extend(lacking);
        }
        self.records = counts;
        // of a shard only every n-th request is here
        let holes = seen.holes();
        if !run.complete && holes > 0 && run.config.get("shard").is_none() {
            self.unchecked.push(format!(
            "{holes} requests before the last ones have no record: they were in flight when the program ended, or are lost"
        ));
        }
        Ok(())
    }
}

/// Which requests were met: a bit each, since ids are places in a plan.
#[derive(Default)]
pub(crate) struct Seen {
    bits: BTreeMap<(String, u32, bool), Vec<u64>>,
    /// Ids that are no places in any plan.
    far: BTreeSet<(String, u32, bool, u64)>,
}

impl Seen {
    /// Requests that were not met although later ones of their plan were.
    fn holes(&self) -> u64 {
        let holes = |words: &Vec<u64>| {
            let met: u64 = words.iter().map(|word| u64::from(word.count_ones())).sum();
            let after = words
                .last()
                .map_or(0, |word| u64::from(word.leading_zeros()));
            (words.len() as u64 * 64).saturating_sub(after + met)
        };
        self.bits.values().map(holes).sum()
    }
}

/// Ids beyond this are kept one by one: a plan of more is not made, and a damaged id must not cost memory.
const FAR: u64 = 1 << 32;

impl Seen {
    /// Whether a record of this request was not met before.
    fn is_new(&mut self, head: &Head) -> bool {
        self.insert(&head.cell, head.repeat, head.phase, head.id)
    }

    /// Whether this request was not met before.
    pub(crate) fn insert(&mut self, cell: &str, repeat: u32, phase: Phase, id: u64) -> bool {
        let key = (cell.to_owned(), repeat, phase == Phase::Warmup);
        let Some(word) = usize::try_from(id / 64).ok().filter(|_| id < FAR) else {
            return self.far.insert((key.0, key.1, key.2, id));
        };
        let bits = self.bits.entry(key).or_default();
        if bits.len() <= word {
            bits.resize(word + 1, 0);
        }
        let mask = 1_u64 << (id % 64);
        let Some(place) = bits.get_mut(word) else {
            return true;
        };
        let new = *place & mask == 0;
        *place |= mask;
        new
    }
}

/// Marks a run whose journals are damaged: what is made of them cannot be believed.
pub(crate) fn distrust(run: &mut RunRecord, damage: &[String]) {
    if damage.is_empty() {
        return;
    }
    let message = format!("the journals are not whole: {}", damage.join("; "));
    run.trust.add([TrustReason {
        next: Some("take them from a copy, or measure again".to_owned()),
        ..TrustReason::new(DAMAGED, TrustVerdict::Untrusted, message)
    }]);
}

/// Whether a run was read although its journals are damaged.
pub(crate) fn is_damaged(run: &RunRecord) -> bool {
    let mut reasons = run.trust.reasons.iter();
    reasons.any(|reason| reason.code == DAMAGED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_new_once_in_its_repeat_and_phase() {
        let mut seen = Seen::default();
        assert!(seen.insert("c", 0, Phase::Measure, 70));
        assert!(!seen.insert("c", 0, Phase::Measure, 70));
        assert!(seen.insert("c", 1, Phase::Measure, 70));
        assert!(seen.insert("c", 0, Phase::Warmup, 70));
        assert!(seen.insert("c", 0, Phase::Measure, u64::MAX));
        assert!(!seen.insert("c", 0, Phase::Measure, u64::MAX));
        assert_eq!(seen.holes(), 70 + 70 + 70);
        assert!(seen.insert("c", 0, Phase::Measure, 64));
        assert_eq!(seen.holes(), 69 + 70 + 70);
    }
}
