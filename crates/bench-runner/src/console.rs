//! The only place that writes to stdout and stderr: whatever leaves, leaves without secrets.

use std::io::{self, ErrorKind, Write};

use crate::redact::Secrets;

/// Stdout and stderr of a process that knows these secrets.
#[derive(Clone, Debug, Default)]
pub(crate) struct Console {
    secrets: Secrets,
}

impl Console {
    /// One that says none of `secrets`.
    pub(crate) fn without(secrets: Secrets) -> Self {
        Self { secrets }
    }

    /// A result, to stdout; of a record its secrets have been taken out before. A closed pipe (`| head`) is the reader's choice.
    ///
    /// # Errors
    /// Everything else for which it could not be written, such as a full disk.
    pub(crate) fn result(text: &str) -> io::Result<()> {
        let mut out = io::stdout().lock();
        match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
            Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error),
            _ => Ok(()),
        }
    }

    /// Something to know, to stderr.
    pub(crate) fn note(&self, line: &str) {
        let _nobody_reads = writeln!(io::stderr().lock(), "{}", self.secrets.hidden(line));
    }

    /// What the terminal may show of a text.
    pub(crate) fn shown(&self, text: &str) -> String {
        self.secrets.hidden(text)
    }
}

/// An error and its causes, as they are told: `error: …`, then `because: …` for each source.
pub(crate) fn told(error: &dyn std::error::Error) -> String {
    let mut text = format!("error: {error}");
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str("\n  because: ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
