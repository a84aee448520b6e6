//! The Linux kernel's own counters. Parsers are pure; elsewhere than on Linux the files are absent, and that is said.

pub(crate) mod cgroup;
pub(crate) mod cpu;
pub(crate) mod disk;
pub(crate) mod net;
pub(crate) mod pressure;
pub(crate) mod process;
pub(crate) mod sockets;

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// A file of `/proc` or `/sys` that is read again and again: opened once, its buffer kept.
pub(crate) struct ProcFile {
    path: PathBuf,
    file: Option<File>,
    text: String,
}

impl ProcFile {
    pub(crate) fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            file: None,
            text: String::new(),
        }
    }

    /// Its text now, or why it cannot be read.
    pub(crate) fn read(&mut self) -> Result<&str, String> {
        match self.read_again() {
            Ok(()) => Ok(&self.text),
            Err(error) => {
                self.file = None;
                Err(reason(&self.path, &error))
            }
        }
    }

    fn read_again(&mut self) -> std::io::Result<()> {
        self.text.clear();
        if let Some(file) = &mut self.file {
            file.seek(SeekFrom::Start(0))?;
            file.read_to_string(&mut self.text)?;
        } else {
            let mut file = File::open(&self.path)?;
            file.read_to_string(&mut self.text)?;
            self.file = Some(file);
        }
        Ok(())
    }
}

/// The text of a small file, trimmed, or why there is none.
pub(crate) fn text(path: &Path) -> Result<String, String> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(text.trim().to_owned()),
        Err(error) => Err(reason(path, &error)),
    }
}

fn reason(path: &Path, error: &std::io::Error) -> String {
    format!("{}: {error}", path.display())
}

/// What a file should have held.
pub(crate) fn malformed(what: &str) -> String {
    format!("{what} is not written as expected on this kernel")
}
