//! What can be wrong with a workload.

use std::path::PathBuf;

/// A workload that cannot be made. The message names the thing, the place and the next step.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the message says what each field is")]
pub enum WorkloadError {
    /// A length, dataset or mixture that does not parse.
    #[error("`{given}` is not a valid {what}: {why}; write {expected}")]
    Spec {
        what: &'static str,
        given: String,
        why: String,
        expected: &'static str,
    },
    /// Settings that do not go together.
    #[error("{what}; {next}")]
    Conflict { what: String, next: &'static str },
    /// A file that cannot be opened or read.
    #[error("cannot read {} ({doing}); check the path and its permissions", path.display())]
    File {
        path: PathBuf,
        doing: &'static str,
        #[source]
        cause: std::io::Error,
    },
    /// A file, or a row of one, that is larger than any of its kind.
    #[error("{}: {what} is larger than {limit_mib} MiB; check that it is the intended file", path.display())]
    TooLarge {
        path: PathBuf,
        what: &'static str,
        /// The most, in MiB.
        limit_mib: u64,
    },
    /// A line of a dataset that is not what the format says.
    #[error("{}:{line}: {why}; fix the line, or skip such lines with --bad-lines skip", path.display())]
    BadLine {
        path: PathBuf,
        /// Its line, from 1.
        line: u64,
        why: String,
    },
    /// A file that holds nothing to ask.
    #[error("{} contains no usable {wanted}; check that the file has the given format", path.display())]
    Empty { path: PathBuf, wanted: &'static str },
    /// A dataset that names a file outside its own folder.
    #[error("{}:{line}: `{named}` is outside the dataset's folder; copy the file into that folder", path.display())]
    Outside {
        path: PathBuf,
        /// Its line, from 1.
        line: u64,
        named: String,
    },
    /// A tokenizer that cannot be loaded or that fails.
    #[error("tokenizer {name}: {why}; use the server's tokenizer.json or its folder")]
    Tokenizer { name: String, why: String },
    /// No text of this length could be made with this tokenizer.
    #[error(
        "no prompt of exactly {asked} tokens could be made with {token_counter} (nearest: {nearest}); use another length, or send token ids"
    )]
    Inexact {
        /// Tokens asked for.
        asked: u64,
        nearest: u64,
        token_counter: String,
    },
}
