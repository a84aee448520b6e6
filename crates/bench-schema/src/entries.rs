//! What the lines of a journal say, as every reader takes it: what can have been measured, and each request once.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::path::PathBuf;

use serde::de::DeserializeOwned;

use crate::{Lines, Phase, Reading, RequestRecord, UnreadablePart};

/// What stands on a line of a journal.
pub trait Entry: DeserializeOwned {
    /// Why it does not count although it can be read; `seen` are the requests before it.
    fn problem(&self, seen: &mut Seen) -> Option<Problem>;
}

impl Entry for Reading {
    fn problem(&self, _: &mut Seen) -> Option<Problem> {
        None
    }
}

impl Entry for RequestRecord {
    fn problem(&self, seen: &mut Seen) -> Option<Problem> {
        if !self.is_possible() {
            return Some(Problem::Unreadable);
        }
        let again = || Problem::Again(self.cell.clone(), self.id);
        (!seen.insert(self)).then(again)
    }
}

/// Why a line does not count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// It ends inside, as the last one of a program that was killed may.
    Torn,
    /// It is damaged, nobody can have measured what it says, or a newer program wrote it.
    Unreadable,
    /// A request that is on an earlier line: its cell and its id.
    Again(String, u64),
}

/// A line that does not count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadLine {
    /// The part that it stands in.
    pub part: PathBuf,
    /// Its number there, from 1.
    pub number: u64,
    /// Why.
    pub problem: Problem,
}

impl fmt::Display for BadLine {
    /// After the name of the part: `line 7 cannot be read`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {} ", self.number)?;
        match &self.problem {
            Problem::Torn => f.write_str("is torn"),
            Problem::Unreadable => f.write_str("cannot be read"),
            Problem::Again(cell, id) => {
                write!(f, "is request {id} of {} again", cell.escape_debug())
            }
        }
    }
}

/// The entries of a journal, one at a time, part after part. Memory: a bit for each request.
#[derive(Debug)]
pub struct Entries<T> {
    lines: Lines,
    seen: Seen,
    of: PhantomData<T>,
}

impl<T: Entry> Entries<T> {
    /// What these lines say.
    pub fn of(lines: Lines) -> Self {
        Self {
            lines,
            seen: Seen::default(),
            of: PhantomData,
        }
    }

    /// The next one, or the line that is none; `None` at the end.
    ///
    /// # Errors
    /// Where a part cannot be opened or read.
    pub fn next_entry(&mut self) -> Result<Option<Result<T, BadLine>>, UnreadablePart> {
        let Some(line) = self.lines.next_line()? else {
            return Ok(None);
        };
        let problem = match line.value::<T>() {
            Some(value) => match value.problem(&mut self.seen) {
                None => return Ok(Some(Ok(value))),
                Some(problem) => problem,
            },
            None if line.is_torn() => Problem::Torn,
            None => Problem::Unreadable,
        };
        Ok(Some(Err(BadLine {
            part: line.part.to_owned(),
            number: line.number,
            problem,
        })))
    }

    /// The requests so far.
    pub fn seen(&self) -> &Seen {
        &self.seen
    }
}

/// Which requests of which phase of a repeat were met: a bit each in words of 64, since ids are places in a plan; of a damaged id there is one word.
type Words = BTreeMap<(u32, bool), BTreeMap<u64, u64>>;

/// Which requests were met, so that none counts twice.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    cells: BTreeMap<String, Words>,
}

impl Seen {
    /// Whether this request was not met before.
    pub fn insert(&mut self, request: &RequestRecord) -> bool {
        if !self.cells.contains_key(&request.cell) {
            self.cells.insert(request.cell.clone(), Words::new());
        }
        let Some(words) = self.cells.get_mut(&request.cell) else {
            return true;
        };
        let key = (request.repeat, request.phase == Phase::Warmup);
        let word = words.entry(key).or_default();
        let word = word.entry(request.id / 64).or_default();
        let bit = 1_u64 << (request.id % 64);
        let new = *word & bit == 0;
        *word |= bit;
        new
    }

    /// Requests that were not met although later ones of their plan were.
    pub fn holes(&self) -> u64 {
        let holes = |words: &BTreeMap<u64, u64>| {
            let met: u64 = words
                .values()
                .map(|word| u64::from(word.count_ones()))
                .sum();
            let last = words.last_key_value();
            let last = last.map_or(0, |(at, word)| at * 64 + u64::from(word.ilog2()));
            last.saturating_add(1).saturating_sub(met)
        };
        let all = self.cells.values().flat_map(BTreeMap::values).map(holes);
        all.fold(0, u64::saturating_add)
    }
}
