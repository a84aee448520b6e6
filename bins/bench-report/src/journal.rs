//! Whether the journals of a run are those that were written: held against `run.json` before any command reads them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read};
use std::path::Path;

use bench_schema::{
    JournalFile, JournalPart, Phase, RunRecord, RunningHash, Trust, TrustReason, TrustVerdict,
};
use serde::Deserialize;

use crate::error::CommandError;

/// The reason of the trust's verdict.
const DAMAGED: &str = "journal_damaged";
/// Pieces of damage that are named; of more only the number is told.
const MOST_NAMED: usize = 10;

/// What is wrong with the journals of a run, each with its file and line; nothing where they are whole.
///
/// A run that ended says how many lines and bytes each part has, and their hash. One of an older program says only how many requests each
/// cell had. Of one that was killed nothing is known but that lines are records, and that no part is missing between others; a torn last
/// line is no damage there. No journal at all is no damage either: a run may be kept without its requests.
pub(crate) fn damage(run: &RunRecord, dir: &Path) -> Result<Vec<String>, CommandError> {
    let mut found = Vec::new();
    for file in [JournalFile::Requests, JournalFile::Readings] {
        let parts = file.parts_in(dir);
        if parts.is_empty() {
            continue;
        }
        found.extend(
            file.missing_in(dir)
                .iter()
                .map(|name| format!("{name} is missing, though later parts are there")),
        );
        let own = |part: &&JournalPart| part.file.starts_with(file.stem());
        let listed: Vec<&JournalPart> = run.journal.iter().filter(own).collect();
        if listed.is_empty() {
            continue;
        }
        for part in &listed {
            found.extend(changed(part, dir)?);
        }
        let names = parts.iter().filter_map(|path| path.file_name()?.to_str());
        let strange = names.filter(|name| !listed.iter().any(|part| part.file == *name));
        found.extend(strange.map(|name| format!("{name} is no part of this run")));
    }
    if run.journal.is_empty() && found.is_empty() {
        found.extend(counted(run, dir)?);
    }
    found.dedup();
    if found.len() > MOST_NAMED {
        let more = found.len() - MOST_NAMED;
        found.truncate(MOST_NAMED);
        found.push(format!("{more} more"));
    }
    Ok(found)
}

/// How a part differs from what was written.
fn changed(part: &JournalPart, dir: &Path) -> Result<Option<String>, CommandError> {
    let name = &part.file;
    let path = dir.join(name);
    if !path.is_file() {
        return Ok(Some(format!(
            "{name} is missing; it held {} lines",
            part.lines
        )));
    }
    let mut reader = open(&path)?;
    let mut buffer = vec![0; 1 << 20];
    let (mut hash, mut bytes, mut lines) = (RunningHash::default(), 0_u64, 0_u64);
    loop {
        let read = reader
            .read(&mut buffer)
            .map_err(CommandError::read(&path))?;
        let Some(new) = buffer.get(..read).filter(|new| !new.is_empty()) else {
            break;
        };
        hash.update(new);
        bytes += new.len() as u64;
        lines += memchr::memchr_iter(b'\n', new).count() as u64;
    }
    if bytes == part.bytes && hash.hex() == part.hash {
        return Ok(None);
    }
    if let Some(line) = unreadable(&path)? {
        return Ok(Some(format!("{name}, line {line}, cannot be read")));
    }
    let told = if lines == part.lines {
        format!("{name} was changed: its {lines} lines are not those that were written")
    } else {
        format!(
            "{name} ends after line {lines}; {} lines were written",
            part.lines
        )
    };
    Ok(Some(told))
}

/// The number of the first line that is no JSON.
fn unreadable(path: &Path) -> Result<Option<u64>, CommandError> {
    let mut found = None;
    each_line(path, |number, line, _| {
        if found.is_none() && serde_json::from_slice::<serde::de::IgnoredAny>(line).is_err() {
            found = Some(number);
        }
    })?;
    Ok(found)
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

/// Every record of the journal read without a list of its parts: damaged lines, requests that are there twice, cells that lack some.
fn counted(run: &RunRecord, dir: &Path) -> Result<Vec<String>, CommandError> {
    let mut found = Vec::new();
    let mut seen = Seen::default();
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for path in JournalFile::Requests.parts_in(dir) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        each_line(&path, |number, line, whole| {
            match serde_json::from_slice::<Head>(line) {
                Ok(head) => {
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
                Err(_) if !whole && !run.complete => {}
                Err(_) => found.push(format!("{name}, line {number}, cannot be read")),
            }
        })?;
    }
    if run.complete && !counts.is_empty() {
        let lacking = run.cells.iter().filter_map(|cell| {
            let told = cell.counts.planned + cell.counts.warmup;
            let there = counts.get(&cell.id).copied().unwrap_or(0);
            (there != told).then(|| {
                format!(
                    "requests.jsonl has {there} records of {}; run.json counts {told}",
                    cell.id.escape_debug()
                )
            })
        });
        found.extend(lacking);
    }
    Ok(found)
}

/// Which requests were met: a bit each, since ids are places in a plan.
#[derive(Default)]
pub(crate) struct Seen {
    bits: BTreeMap<(String, u32, bool), Vec<u64>>,
    /// Ids that are no places in any plan.
    far: BTreeSet<(String, u32, bool, u64)>,
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

fn open(path: &Path) -> Result<File, CommandError> {
    File::open(path).map_err(CommandError::read(path))
}

/// Hands on each line that is not empty, with its number from 1 and whether it has its end.
fn each_line(path: &Path, mut each: impl FnMut(u64, &[u8], bool)) -> Result<(), CommandError> {
    let mut reader = BufReader::with_capacity(1 << 20, open(path)?);
    let (mut line, mut number) = (Vec::new(), 0);
    loop {
        line.clear();
        let mut limited = (&mut reader).take(crate::lines::LONGEST_LINE);
        let read = limited.read_until(b'\n', &mut line);
        if read.map_err(CommandError::read(path))? == 0 {
            return Ok(());
        }
        number += 1;
        if !line.iter().all(u8::is_ascii_whitespace) {
            each(number, &line, line.last() == Some(&b'\n'));
        }
    }
}

/// Marks a run whose journals are damaged: what is made of them cannot be believed.
pub(crate) fn distrust(run: &mut RunRecord, damage: &[String]) {
    if damage.is_empty() {
        return;
    }
    let mut reasons = std::mem::take(&mut run.trust.reasons);
    reasons.push(TrustReason {
        code: DAMAGED.to_owned(),
        verdict: TrustVerdict::Untrusted,
        message: format!(
            "the journals are not those that were written: {}; take them from a copy, or measure again",
            damage.join("; ")
        ),
        cell: None,
        measured: None,
        threshold: None,
    });
    run.trust = Trust::from_reasons(reasons);
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
    }
}
