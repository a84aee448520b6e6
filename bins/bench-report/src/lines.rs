//! JSON lines as a killed program leaves them: streamed, a torn end passed over, damage named by its line.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;

use crate::error::CommandError;

/// Beyond this a line is damage: the record of a million tokens is a tenth of it.
const LONGEST_LINE: u64 = 256 << 20;
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

/// The values of a JSON-lines file, one at a time.
pub(crate) struct Lines<T> {
    path: PathBuf,
    reader: BufReader<File>,
    line: Vec<u8>,
    number: u64,
    damage: Damage,
    of: PhantomData<T>,
}

impl<T: DeserializeOwned> Lines<T> {
    pub(crate) fn open(path: &Path) -> Result<Self, CommandError> {
        let file = File::open(path).map_err(CommandError::read(path))?;
        Ok(Self {
            path: path.to_owned(),
            reader: BufReader::with_capacity(1 << 20, file),
            line: Vec::new(),
            number: 0,
            damage: Damage::default(),
            of: PhantomData,
        })
    }

    /// The next value; `None` at the end.
    pub(crate) fn next(&mut self) -> Result<Option<T>, CommandError> {
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

    /// What was passed over so far, for people.
    pub(crate) fn notes(&self) -> Vec<String> {
        self.damage.notes(&self.path)
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
        let mut lines = Lines::open(&path).unwrap();
        let mut values = Vec::new();
        while let Some(value) = lines.next().unwrap() {
            values.push(value);
        }
        (values, lines.damage.clone())
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
