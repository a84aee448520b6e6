//! The values of a journal as a killed program leaves them: a torn end is passed over, damage is named by its line.

use std::marker::PhantomData;
use std::path::{Path, PathBuf};

use bench_schema::{JournalFile, Lines, Reading, RequestRecord};
use serde::de::DeserializeOwned;

use crate::error::CommandError;

/// Line numbers that are kept for the message.
const MOST_NAMED: usize = 5;

/// What stands on a line.
pub(crate) trait Measured: DeserializeOwned {
    /// Whether it can have been measured; else it is damaged, though it can be read.
    fn is_possible(&self) -> bool {
        true
    }
}

impl Measured for Reading {}

impl Measured for RequestRecord {
    fn is_possible(&self) -> bool {
        self.is_possible()
    }
}

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

    /// The lines that cannot be read, for people.
    fn unread(&self, path: &Path) -> Option<String> {
        let named: Vec<String> = self.named.iter().map(ToString::to_string).collect();
        let more = if self.lines > self.named.len() as u64 {
            ", …"
        } else {
            ""
        };
        let are = match self.lines {
            0 => return None,
            1 => "1 line cannot be read and is left out".to_owned(),
            lines => format!("{lines} lines cannot be read and are left out"),
        };
        let (path, named) = (path.display(), named.join(", "));
        Some(format!("{path}: {are} (line {named}{more})"))
    }

    /// All of it; nothing where nothing was passed over.
    fn notes(&self, path: &Path) -> impl Iterator<Item = String> {
        let torn = self.torn.then(|| {
            format!(
                "{}: its last line is torn, as a killed program leaves it; it is left out",
                path.display()
            )
        });
        self.unread(path).into_iter().chain(torn)
    }
}

/// The values of a journal, one at a time, part after part.
pub(crate) struct Values<T> {
    lines: Lines,
    damaged_ok: bool,
    missing: Option<String>,
    /// The parts so far, and what was passed over in each.
    parts: Vec<(PathBuf, Damage)>,
    of: PhantomData<T>,
}

impl<T: Measured> Values<T> {
    /// Those of a journal in a run directory; none where there is no such journal. Lines that are no value are passed over where that is allowed.
    pub(crate) fn open(run: &Path, file: JournalFile, damaged_ok: bool) -> Self {
        let missing = file.missing_in(run);
        let named: Vec<_> = missing.into_iter().take(MOST_NAMED).collect();
        let told = || {
            format!(
                "{}: parts of the journal are missing ({}); what they held is left out",
                run.display(),
                named.join(", ")
            )
        };
        Self {
            lines: file.lines_in(run),
            damaged_ok,
            missing: (!named.is_empty()).then(told),
            parts: Vec::new(),
            of: PhantomData,
        }
    }

    /// The next value; `None` at the end.
    ///
    /// # Errors
    /// Where a line is no value, but for the torn end that a killed program leaves.
    pub(crate) fn next(&mut self) -> Result<Option<T>, CommandError> {
        while let Some(line) = self.lines.next_line()? {
            if self.parts.last().is_none_or(|part| part.0 != line.part) {
                self.parts.push((line.part.to_owned(), Damage::default()));
            }
            let value: Option<T> = line.value();
            if let Some(value) = value.filter(T::is_possible) {
                return Ok(Some(value));
            }
            if !(line.is_torn() || self.damaged_ok) {
                let name = line.part.file_name().unwrap_or_default().to_string_lossy();
                let (run, number) = (line.part.parent().unwrap_or(line.part), line.number);
                return Err(CommandError::Damaged {
                    path: run.to_owned(),
                    damage: format!(
                        "{name}, line {number}, cannot be read: it is damaged, or of a newer version"
                    ),
                });
            }
            if let Some((_, damage)) = self.parts.last_mut() {
                damage.add(line.number, line.is_torn());
            }
        }
        Ok(None)
    }

    /// What was passed over so far, for people.
    pub(crate) fn notes(&self) -> impl Iterator<Item = String> {
        let parts = self.parts.iter();
        let notes = parts.flat_map(|(path, damage)| damage.notes(path));
        self.missing.iter().cloned().chain(notes)
    }

    /// The lines that could not be read so far, by the names of their files.
    pub(crate) fn unread(&self) -> impl Iterator<Item = String> {
        let name = |path: &Path| PathBuf::from(path.file_name().unwrap_or_default());
        let parts = self.parts.iter();
        parts.filter_map(move |(path, damage)| damage.unread(&name(path)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Measured for u32 {}

    fn read(text: &str) -> (Vec<u32>, Damage) {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("requests.jsonl"), text).unwrap();
        let mut all = Values::<u32>::open(folder.path(), JournalFile::Requests, true);
        let mut values = Vec::new();
        while let Some(value) = all.next().unwrap() {
            values.push(value);
        }
        (values, all.parts.pop().unwrap().1)
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
        let mut lines = Values::<u32>::open(folder.path(), JournalFile::Requests, true);
        let mut values = Vec::new();
        while let Some(value) = lines.next().unwrap() {
            values.push(value);
        }
        assert_eq!(values, [1, 2, 3, 4, 5]);
        let notes: Vec<_> = lines.notes().collect();
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
        let notes: Vec<_> = damage.notes(Path::new("r.jsonl")).collect();
        assert_eq!(
            notes,
            ["r.jsonl: 2 lines cannot be read and are left out (line 2, 5)"]
        );
    }
}
