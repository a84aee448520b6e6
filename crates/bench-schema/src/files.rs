//! The files of a run directory: what journals are called and hold; how files are replaced as a whole, held by one program at a time, and read line by line.

use std::collections::VecDeque;
use std::fs::{self, File, TryLockError};
use std::io::{self, BufRead as _, BufReader, BufWriter, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::{FailureKind, Stamp};

/// Beyond this a line is damage: the record of a million tokens is a tenth of it.
const LONGEST_LINE: u64 = 256 << 20;

/// What was to be measured, as `run.json` stood when the run began: written once, so that the records are enough where `run.json` is lost.
pub const BEGIN_FILE: &str = "begin.json";

/// What each part of the journals held when this was written, as a list of [`JournalPart`]: a program that is killed cannot say it in `run.json`.
/// Parts only grow, so that what it says of the last one is true of its beginning. It lists [`BEGIN_FILE`] too: whose journals they are.
pub const JOURNAL_FILE: &str = "journal.json";

/// The cells that have begun so far, as a list of [`CellProgress`]: a program that is killed cannot say it in `run.json`.
pub const CELLS_FILE: &str = "cells.json";

/// A cell that has begun. Since 2.3.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct CellProgress {
    /// Its id.
    pub cell: String,
    /// When it began, warm-up included.
    pub began: Stamp,
    /// When it was over; absent while it is under way.
    pub ended: Option<Stamp>,
    /// Why it was ended before its plan was; absent where it was not.
    pub ended_early: Option<String>,
    /// The kind of failure that did.
    pub ended_by: Option<FailureKind>,
}

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

    /// Their lines.
    pub fn lines_in(self, dir: &Path) -> Lines {
        Lines::of(self.parts_in(dir))
    }

    /// Names of parts that must have been there, since later ones are: what they held is lost. A name may be anything, so that a hundred are named at most.
    pub fn missing_in(self, dir: &Path) -> Vec<String> {
        let mut expected = 0;
        let numbers = self.numbers_in(dir).into_iter();
        let gaps = numbers.flat_map(|number| {
            let gap = expected..number;
            expected = number.saturating_add(1);
            gap
        });
        gaps.take(100).map(|part| self.part_name(part)).collect()
    }

    /// Those of the listed parts that are of this journal.
    pub fn parts_of(self, listed: &[JournalPart]) -> impl Iterator<Item = &JournalPart> + Clone {
        let own = move |part: &&JournalPart| part.file.starts_with(self.stem());
        listed.iter().filter(own)
    }

    /// What the names of all its parts begin with.
    fn stem(self) -> &'static str {
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
            .filter(|entry| !entry.path().is_dir())
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

impl JournalPart {
    /// Whether the file of this name in `dir` holds this, to the last byte. One that cannot be read does not.
    pub fn is_whole_in(&self, dir: &Path) -> bool {
        let found = PartMeter::of_file(&dir.join(&self.file), u64::MAX);
        found.is_ok_and(|found| found.part(&self.file) == *self)
    }
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
    /// The first bytes of a file of a run directory, at most so many, counted.
    ///
    /// # Errors
    /// Where it cannot be read, or is no plain file.
    pub fn of_file(path: &Path, most: u64) -> io::Result<Self> {
        let mut meter = Self::default();
        meter.read(open_file(path)?.take(most))?;
        Ok(meter)
    }

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
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
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

/// Opens a file of a run directory. What is no file (a pipe, a device) is refused: reading it may never end.
///
/// # Errors
/// That, and whatever the system says.
pub fn open_file(path: &Path) -> io::Result<File> {
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is no plain file"));
    }
    File::open(path)
}

/// Most bytes of a `run.json` or `begin.json`: that of a thousand cells is a tenth of it.
pub const MOST_RUN_BYTES: u64 = 256 << 20;

/// Reads all of such a file, which must have no more than `most` bytes.
///
/// # Errors
/// Where it has more, or cannot be read.
pub fn read_file(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    read_within(open_file(path)?, most)
}

/// Reads to the end, which must come within `most` bytes: a device may never end.
///
/// # Errors
/// [`ErrorKind::FileTooLarge`] where there is more, and whatever the system says.
pub fn read_within(from: impl Read, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if from.take(most.saturating_add(1)).read_to_end(&mut bytes)? as u64 > most {
        let wrong = format!("it has more than {} KiB", most / 1024);
        return Err(io::Error::new(ErrorKind::FileTooLarge, wrong));
    }
    Ok(bytes)
}

/// Replaces a file as a whole: readers see the old one or the new one, never half, and nothing is left beside it. Its folder is made where it is missing.
/// What is no file (a device, a pipe) is written into, and stays what it is.
///
/// # Errors
/// Whatever the system, or `write`, says.
pub fn replace_file(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
) -> io::Result<()> {
    if fs::metadata(path).is_ok_and(|there| !there.is_file() && !there.is_dir()) {
        let mut device = BufWriter::new(File::options().write(true).open(path)?);
        return write(&mut device).and_then(|()| device.flush());
    }
    let mut file = NewFile::create(path)?;
    write(&mut file.file)?;
    file.finish()
}

/// A file that has another name until it is whole, and is gone where it never was.
#[derive(Debug)]
pub struct NewFile {
    path: PathBuf,
    beside: PathBuf,
    file: BufWriter<File>,
}

impl NewFile {
    /// Beside `path`, in a folder that is made where it is missing.
    ///
    /// # Errors
    /// Whatever the system says.
    pub fn create(path: &Path) -> io::Result<Self> {
        fs::create_dir_all(path.parent().unwrap_or(Path::new(".")))?;
        let mut beside = path.as_os_str().to_owned();
        beside.push(".part");
        Ok(Self {
            path: path.to_owned(),
            file: BufWriter::new(File::create(&beside)?),
            beside: beside.into(),
        })
    }

    /// It is whole, and gets its name.
    ///
    /// # Errors
    /// Whatever the system says.
    pub fn finish(&mut self) -> io::Result<()> {
        self.file.flush()?;
        self.file.get_ref().sync_all()?;
        fs::rename(&self.beside, &self.path)?;
        self.beside = PathBuf::new();
        sync_folder(self.path.parent().unwrap_or(Path::new(".")))
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        // half a file under another name helps nobody, and the disk may be full
        fs::remove_file(&self.beside).ok();
    }
}

/// Has the system put a folder's names on disk: a new file is there for good when its folder is.
///
/// # Errors
/// Whatever the system says; a file system that has no sync of folders is none.
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    match File::open(or_here(folder))?.sync_all() {
        Err(error) if error.kind() == ErrorKind::InvalidInput => Ok(()),
        result => result,
    }
}

/// Holds a run directory as long as the returned file lives: nobody else writes or recovers in it meanwhile. The system lets go of it when the program ends,
/// however it ends. `None` where it cannot be opened, or its file system has no locks: a run is not worse for it.
///
/// # Errors
/// [`InUse`] where somebody holds it.
pub fn hold_folder(folder: &Path) -> Result<Option<File>, InUse> {
    let Ok(handle) = File::open(or_here(folder)) else {
        return Ok(None);
    };
    match handle.try_lock() {
        Ok(()) => Ok(Some(handle)),
        Err(TryLockError::WouldBlock) => Err(InUse),
        Err(TryLockError::Error(_)) => Ok(None),
    }
}

/// Somebody holds a run directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InUse;

/// The folder of a file that was given by its name alone is this one.
fn or_here(folder: &Path) -> &Path {
    if folder.as_os_str().is_empty() {
        Path::new(".")
    } else {
        folder
    }
}

/// The lines of a journal, part after part, as a killed program may leave them; those that are blank are passed over.
#[derive(Debug)]
pub struct Lines {
    parts: VecDeque<PathBuf>,
    open: Option<(PathBuf, BufReader<File>)>,
    number: u64,
    text: Vec<u8>,
}

/// One line of a journal.
#[derive(Clone, Copy, Debug)]
pub struct Line<'a> {
    /// The part that it stands in.
    pub part: &'a Path,
    /// Its number there, from 1.
    pub number: u64,
    text: &'a [u8],
}

impl Line<'_> {
    /// What it says; `None` where it is damaged.
    pub fn value<T: DeserializeOwned>(&self) -> Option<T> {
        // a text is checked as a whole, bytes string by string
        let text = std::str::from_utf8(self.text).ok()?;
        serde_json::from_str(text).ok()
    }

    /// Whether it ends inside: the last one of a program that was killed may.
    pub fn is_torn(&self) -> bool {
        self.text.last() != Some(&b'\n')
    }
}

/// A part of a journal that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot read {}", path.display())]
pub struct UnreadablePart {
    /// The file.
    pub path: PathBuf,
    /// What the system said.
    pub source: io::Error,
}

impl Lines {
    /// The lines of these files, one file after another.
    pub fn of(parts: impl IntoIterator<Item = PathBuf>) -> Self {
        Self {
            parts: parts.into_iter().collect(),
            open: None,
            number: 0,
            text: Vec::new(),
        }
    }

    /// The next line; `None` at the end.
    ///
    /// # Errors
    /// Where a part cannot be opened or read.
    pub fn next_line(&mut self) -> Result<Option<Line<'_>>, UnreadablePart> {
        while self.open.is_some() || self.open_next()? {
            if self.read()? {
                break;
            }
            self.open = None;
        }
        let (number, text) = (self.number, self.text.as_slice());
        let open = self.open.as_ref();
        Ok(open.map(|(part, _)| Line { part, number, text }))
    }

    fn open_next(&mut self) -> Result<bool, UnreadablePart> {
        let Some(path) = self.parts.pop_front() else {
            return Ok(false);
        };
        self.number = 0;
        match open_file(&path) {
            Ok(file) => self.open = Some((path, BufReader::with_capacity(1 << 20, file))),
            Err(source) => return Err(UnreadablePart { path, source }),
        }
        Ok(true)
    }

    /// One line with its end that is not blank; an endless one is cut, and no record then.
    fn read(&mut self) -> Result<bool, UnreadablePart> {
        let Some((path, reader)) = &mut self.open else {
            return Ok(false);
        };
        let failed = |source| UnreadablePart {
            path: path.clone(),
            source,
        };
        loop {
            self.text.clear();
            let mut limited = reader.by_ref().take(LONGEST_LINE);
            let read = limited.read_until(b'\n', &mut self.text).map_err(failed)?;
            if read == 0 {
                return Ok(false);
            }
            self.number += 1;
            if read as u64 == LONGEST_LINE && self.text.last() != Some(&b'\n') {
                self.text.clear();
                self.text.extend_from_slice(b"too long\n");
                reader.skip_until(b'\n').map_err(failed)?;
            }
            if !self.text.iter().all(u8::is_ascii_whitespace) {
                return Ok(true);
            }
        }
    }
}

// What all programs of this workspace do alike: a result goes to standard output, and a limit on file sizes is an error.

/// Writes a result to standard output. A closed pipe (`| head`) is the reader's choice. (An output that was closed before the start is
/// `/dev/null` by then, which nobody can tell from one that was asked for.)
///
/// # Errors
/// Everything else for which nobody gets it, such as a full disk.
pub fn print_result(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error),
        _ => Ok(()),
    }
}

/// Makes what is beyond a limit on file sizes (`ulimit -f`) an error of the write, as a full disk is; the system's own way, which stays where it
/// takes no handler, is to end the program.
pub fn outlive_file_limits() {
    let noted = Arc::<AtomicBool>::default();
    let _registered = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, noted);
}
