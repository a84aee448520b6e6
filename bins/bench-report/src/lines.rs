//! The values of a journal as a killed program leaves them: a torn end is passed over, damage is named by its line.

use std::marker::PhantomData;
use std::path::{Path, PathBuf};

use bench_schema::{JournalFile, Lines};
use serde::de::DeserializeOwned;

use crate::error::CommandError;

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
    fn add(&mut self, line: u64, torn: bool) {
        if torn {
            self.torn = true;
            return;
        }
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
pub(crate) struct Values<T> {
    lines: Lines,
    /// The part that is being read, and what was passed over in it.
    part: Option<(PathBuf, Damage)>,
    notes: Vec<String>,
    of: PhantomData<T>,
}

impl<T: DeserializeOwned> Values<T> {
    /// Those of a journal in a run directory; none where there is no such journal.
    pub(crate) fn open(run: &Path, file: JournalFile) -> Self {
        let missing = file.missing_in(run);
        let mut notes = Vec::new();
        if !missing.is_empty() {
            let named: Vec<_> = missing.iter().take(MOST_NAMED).cloned().collect();
            notes.push(format!(
                "{}: parts of the journal are missing ({}); what they held is left out",
                run.display(),
                named.join(", ")
            ));
        }
        Self {
            lines: file.lines_in(run),
            part: None,
            notes,
            of: PhantomData,
        }
    }

    /// The next value; `None` at the end.
    pub(crate) fn next(&mut self) -> Result<Option<T>, CommandError> {
        while let Some(line) = self.lines.next_line()? {
            if self.part.as_ref().is_none_or(|part| part.0 != line.part) {
                let before = self.part.replace((line.part.to_owned(), Damage::default()));
                self.notes.extend(before.iter().flat_map(notes));
            }
            if let Some(value) = line.value() {
                return Ok(Some(value));
            }
            if let Some((_, damage)) = &mut self.part {
                damage.add(line.number, line.is_torn());
            }
        }
        Ok(None)
    }

    /// What was passed over so far, for people.
    pub(crate) fn notes(&self) -> Vec<String> {
        let now = self.part.iter().flat_map(notes);
        self.notes.iter().cloned().chain(now).collect()
    }
}

fn notes((path, damage): &(PathBuf, Damage)) -> Vec<String> {
    damage.notes(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (Vec<u32>, Damage) {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("requests.jsonl"), text).unwrap();
        let mut all = Values::<u32>::open(folder.path(), JournalFile::Requests);
        let mut values = Vec::new();
        while let Some(value) = all.next().unwrap() {
            values.push(value);
        }
        (values, all.part.unwrap().1)
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
        let mut lines = Values::<u32>::open(folder.path(), JournalFile::Requests);
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
