//! Names of the append-only files of a run directory.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// What was to be measured, as `run.json` stood when the run began: written once, so that the records are enough where `run.json` is lost.
pub const BEGIN_FILE: &str = "begin.json";

/// What each part of the journals held when this was written, as a list of [`JournalPart`]: a program that is killed cannot say it in `run.json`.
/// Parts only grow, so that what it says of the last one is true of its beginning.
pub const JOURNAL_FILE: &str = "journal.json";

/// The two journals of a run. A long run writes each in parts, so that no file grows without end.
///
/// The first part has the plain name (`requests.jsonl`), the following ones carry a number (`requests.0001.jsonl`). Lines are never torn between
/// parts, and a part is never written again once the next one has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum JournalFile {
    /// One line per request that is over: [`crate::RequestRecord`].
    Requests,
    /// One line per reading: [`crate::Reading`].
    Readings,
}

impl JournalFile {
    /// Name of part `part`, from 0.
    pub fn part_name(self, part: u32) -> String {
        let stem = self.stem();
        if part == 0 {
            format!("{stem}.jsonl")
        } else {
            format!("{stem}.{part:04}.jsonl")
        }
    }

    /// The parts that lie in a run directory, in the order they were written; none where there is no directory.
    pub fn parts_in(self, dir: &Path) -> Vec<PathBuf> {
        let numbers = self.numbers_in(dir);
        numbers
            .into_iter()
            .map(|part| dir.join(self.part_name(part)))
            .collect()
    }

    /// Names of parts that must have been there, since later ones are: what they held is lost.
    pub fn missing_in(self, dir: &Path) -> Vec<String> {
        let numbers = self.numbers_in(dir);
        let last = numbers.last().copied().unwrap_or(0);
        (0..last)
            .filter(|part| !numbers.contains(part))
            .map(|part| self.part_name(part))
            .collect()
    }

    /// What the names of all its parts begin with.
    pub fn stem(self) -> &'static str {
        match self {
            Self::Requests => "requests",
            Self::Readings => "hardware",
        }
    }

    fn numbers_in(self, dir: &Path) -> Vec<u32> {
        let Ok(entries) = dir.read_dir() else {
            return Vec::new();
        };
        let mut numbers: Vec<u32> = entries
            .filter_map(Result::ok)
            .filter(|entry| entry.path().is_file())
            .filter_map(|entry| self.number_of(entry.file_name().to_str()?))
            .collect();
        numbers.sort_unstable();
        numbers
    }

    /// The part that a file name stands for; names that are written another way stand for none.
    fn number_of(self, name: &str) -> Option<u32> {
        let middle = name.strip_prefix(self.stem())?.strip_suffix(".jsonl")?;
        let number = match middle.strip_prefix('.') {
            None if middle.is_empty() => 0,
            None => return None,
            Some(digits) => digits.parse().ok()?,
        };
        (self.part_name(number) == name).then_some(number)
    }
}

/// What one part of a journal holds, so that a reader can tell whether it is whole. Since 2.0.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct JournalPart {
    /// File name within the run directory.
    pub file: String,
    /// Lines.
    pub lines: u64,
    /// Bytes.
    pub bytes: u64,
    /// FNV-1a of all of its bytes, 64 bits, in hexadecimal: guards against damage, not against forgery.
    pub hash: String,
}

/// Counts what is written to a part of a journal, or read from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartMeter {
    lines: u64,
    bytes: u64,
    hash: u64,
}

impl Default for PartMeter {
    fn default() -> Self {
        Self {
            lines: 0,
            bytes: 0,
            hash: 0xcbf2_9ce4_8422_2325,
        }
    }
}

impl PartMeter {
    /// Takes further bytes in.
    pub fn update(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.lines += u64::from(byte == b'\n');
            self.hash = (self.hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        self.bytes += bytes.len() as u64;
    }

    /// Takes everything in that a reader has.
    ///
    /// # Errors
    /// Where it cannot be read.
    pub fn read(&mut self, mut from: impl Read) -> io::Result<()> {
        let mut buffer = vec![0; 1 << 18];
        loop {
            match from.read(&mut buffer) {
                Ok(0) => return Ok(()),
                Ok(read) => self.update(buffer.get(..read).unwrap_or_default()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Bytes so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// What the part of this name holds, after all of it was taken in.
    pub fn part(&self, file: &str) -> JournalPart {
        JournalPart {
            file: file.to_owned(),
            lines: self.lines,
            bytes: self.bytes,
            hash: format!("{:016x}", self.hash),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_found_in_order_and_gaps_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let names = [
            "requests.0010.jsonl",
            "requests.jsonl",
            "requests.0002.jsonl",
            "requests.2.jsonl",
            "requests.0000.jsonl",
            "requests-old.jsonl",
            "hardware.jsonl",
            "requests.jsonl.part",
        ];
        for name in names {
            std::fs::write(dir.path().join(name), "").unwrap();
        }
        std::fs::create_dir(dir.path().join("requests.0011.jsonl")).unwrap();
        let found: Vec<_> = JournalFile::Requests
            .parts_in(dir.path())
            .iter()
            .map(|path| path.file_name().unwrap().to_str().unwrap().to_owned())
            .collect();
        assert_eq!(
            found,
            [
                "requests.jsonl",
                "requests.0002.jsonl",
                "requests.0010.jsonl"
            ]
        );
        let missing = JournalFile::Requests.missing_in(dir.path());
        assert_eq!(missing.len(), 8);
        assert_eq!(
            missing.first().map(String::as_str),
            Some("requests.0001.jsonl")
        );
        assert!(JournalFile::Readings.missing_in(dir.path()).is_empty());
    }

    #[test]
    fn a_folder_that_is_not_there_has_no_parts() {
        let nowhere = Path::new("/no/such/folder");
        assert!(JournalFile::Requests.parts_in(nowhere).is_empty());
        assert!(JournalFile::Requests.missing_in(nowhere).is_empty());
    }
}
