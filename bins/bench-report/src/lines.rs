//! JSON lines as a killed program leaves them: streamed, a torn end passed over, damage named by its line.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

use bench_schema::JournalFile;
use serde::de::DeserializeOwned;

use crate::error::CommandError;

/// Beyond this a line is damage: the record of a million tokens is a tenth of it.
pub(crate) const LONGEST_LINE: u64 = 256 << 20;
/// Line numbers that are kept for the message.
const MOST_NAMED: usize = 5;

/// What was passed over in one file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Damage {
    /// Lines that are no record, and the first ones' numbers, from 1.
    pub(crate) lines: u64,
    pub(crate) named: Vec<u64>,
    /// Whether the file ends inside a line.
    pub(crate) torn: bool,
}

impl Damage {
    fn add(&mut self, line: u64) {
        self.lines += 1;
        if self.named.len() < MOST_NAMED {
            self.named.push(line);
        }
    }

    /// For people; nothing where nothing was passed over.
    pub(crate) fn notes(&self, path: &Path) -> Vec<String> {
        let mut notes = Vec::new();
        if self.lines > 0 {
            let named: Vec<String> = self.named.iter().map(ToString::to_string).collect();
            let more = if self.lines > self.named.len() as u64 {
                ", …"
            } else {
                ""
            };
            notes.push(format!(
                "{}: {} cannot be read and {} left out (line {}{more})",
                path.display(),
                if self.lines == 1 {
                    "1 line".to_owned()
                } else {
                    format!("{} lines", self.lines)
                },
                if self.lines == 1 { "is" } else { "are" },
                named.join(", "),
            ));
        }
        if self.torn {
            notes.push(format!(
                "{}: its last line is torn, as a killed program leaves it; it is left out",
                path.display()
            ));
        }
        notes
    }
}

/// The values of a journal, one at a time, part after part.
pub(crate) struct Lines<T> {
    parts: VecDeque<PathBuf>,
    open: Option<Part>,
    notes: Vec<String>,
    of: PhantomData<T>,
}

/// The part that is being read.
struct Part {
    path: PathBuf,
    reader: BufReader<File>,
    line: Vec<u8>,
    number: u64,
    damage: Damage,
}

impl<T: DeserializeOwned> Lines<T> {
    /// The lines of a journal in a run directory; none where there is no such journal.
    pub(crate) fn open(run: &Path, file: JournalFile) -> Self {
        let missing = file.missing_in(run);
        let mut lines = Self {
            parts: file.parts_in(run).into(),
            open: None,
            notes: Vec::new(),
            of: PhantomData,
        };
        if !missing.is_empty() {
            let named: Vec<_> = missing.iter().take(MOST_NAMED).cloned().collect();
            lines.notes.push(format!(
                "{}: parts of the journal are missing ({}); what they held is left out",
                run.display(),
                named.join(", ")
            ));
        }
        lines
    }

    /// The next value; `None` at the end.
    pub(crate) fn next(&mut self) -> Result<Option<T>, CommandError> {
        loop {
            if self.open.is_none() {
                let Some(path) = self.parts.pop_front() else {
                    return Ok(None);
                };
                self.open = Some(Part::open(path)?);
            }
            if let Some(part) = &mut self.open {
                if let Some(value) = part.next()? {
                    return Ok(Some(value));
                }
                self.notes.extend(part.damage.notes(&part.path));
            }
            self.open = None;
        }
    }

    /// What was passed over so far, for people.
    pub(crate) fn notes(&self) -> Vec<String> {
        let now = self.open.iter();
        let now = now.flat_map(|part| part.damage.notes(&part.path));
        self.notes.iter().cloned().chain(now).collect()
    }
}

impl Part {
    fn open(path: PathBuf) -> Result<Self, CommandError> {
        let file = File::open(&path).map_err(CommandError::read(&path))?;
        Ok(Self {
            path,
            reader: BufReader::with_capacity(1 << 20, file),
            line: Vec::new(),
            number: 0,
            damage: Damage::default(),
        })
    }

    fn next<T: DeserializeOwned>(&mut self) -> Result<Option<T>, CommandError> {
        while self.read_line().map_err(CommandError::read(&self.path))? {
            self.number += 1;
            if self.line.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            match serde_json::from_slice(&self.line) {
                Ok(value) => return Ok(Some(value)),
                Err(_) if self.line.last() == Some(&b'\n') => self.damage.add(self.number),
                Err(_) => self.damage.torn = true,
            }
        }
        Ok(None)
    }

    /// One line with its end; an endless one is cut, and no record then.
    fn read_line(&mut self) -> io::Result<bool> {
        self.line.clear();
        let read = (&mut self.reader)
            .take(LONGEST_LINE)
            .read_until(b'\n', &mut self.line)?;
        if read as u64 == LONGEST_LINE && self.line.last() != Some(&b'\n') {
            self.line.clear();
            self.line.extend_from_slice(b"too long\n");
            self.reader.skip_until(b'\n')?;
        }
        Ok(read > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (Vec<u32>, Damage) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.jsonl");
        std::fs::write(&path, text).unwrap();
        let mut part = Part::open(path).unwrap();
        let mut values = Vec::new();
        while let Some(value) = part.next().unwrap() {
            values.push(value);
        }
        (values, part.damage)
    }

    #[test]
    fn parts_are_read_one_after_another_with_the_damage_of_each() {
        let folder = tempfile::tempdir().unwrap();
        let write =
            |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        write("requests.jsonl", "1\n2\n");
        write("requests.0001.jsonl", "3\nx\n");
        write("requests.0003.jsonl", "4\n5");
        write("hardware.jsonl", "9\n");
        let mut lines = Lines::<u32>::open(folder.path(), JournalFile::Requests);
        let mut values = Vec::new();
        while let Some(value) = lines.next().unwrap() {
            values.push(value);
        }
        assert_eq!(values, [1, 2, 3, 4, 5]);
        let notes = lines.notes();
        assert_eq!(notes.len(), 2, "{notes:?}");
        assert!(notes[0].contains("requests.0002.jsonl"), "{notes:?}");
        assert!(
            notes[1].contains("requests.0001.jsonl") && notes[1].contains("line 2"),
            "{notes:?}"
        );
    }

    #[test]
    fn a_torn_last_line_is_passed_over_without_being_called_damage() {
        let (values, damage) = read("1\n2\n{\"a");
        assert_eq!(values, [1, 2]);
        assert_eq!((damage.lines, damage.torn), (0, true));
    }

    #[test]
    fn a_last_line_that_only_lacks_its_end_counts() {
        assert_eq!(read("1\n2"), (vec![1, 2], Damage::default()));
    }

    #[test]
    fn damaged_lines_are_counted_and_named_by_their_numbers() {
        let (values, damage) = read("1\nx\n\n4\n{}\n");
        assert_eq!(values, [1, 4]);
        assert_eq!(
            (damage.lines, damage.named.as_slice()),
            (2, [2, 5].as_slice())
        );
        let notes = damage.notes(Path::new("r.jsonl"));
        assert_eq!(
            notes,
            ["r.jsonl: 2 lines cannot be read and are left out (line 2, 5)"]
        );
    }
}
