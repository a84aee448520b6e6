//! The only place that writes to stdout and stderr. A closed pipe (`| head`) is not an error.

use std::io::Write;

/// A result, to stdout.
pub(crate) fn result(text: &str) {
    let mut out = std::io::stdout().lock();
    let _closed_pipe = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// Something to know, to stderr.
pub(crate) fn note(line: &str) {
    let _closed_pipe = writeln!(std::io::stderr().lock(), "{line}");
}

/// An error and its causes, to stderr: `error: …`, then `because: …` for each source.
pub(crate) fn error(error: &dyn std::error::Error) {
    note(&format!("error: {error}"));
    let mut source = error.source();
    while let Some(cause) = source {
        note(&format!("  because: {cause}"));
        source = cause.source();
    }
}
