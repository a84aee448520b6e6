//! What can be wrong with a workload.

use std::path::PathBuf;

/// A workload that cannot be made. The message names the thing, the place and the next step.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkloadError {
    /// A length, dataset or mixture that does not parse.
    #[error("`{given}` is no {what}: {why}; write it as {expected}")]
    Spec {
        /// What was being read: `length`, `dataset`.
        what: &'static str,
        /// The text as given.
        given: String,
        /// What is wrong with it.
        why: String,
        /// The forms that are accepted.
        expected: &'static str,
    },
    /// Settings that do not go together.
    #[error("{what}; {next}")]
    Conflict {
        /// The contradiction.
        what: String,
        /// What to change.
        next: &'static str,
    },
    /// A file that cannot be opened or read.
    #[error("cannot read {} ({doing}); check the path and its permissions", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What was being done.
        doing: &'static str,
        /// Why not.
        #[source]
        cause: std::io::Error,
    },
    /// A file, or a row of one, that is larger than any of its kind.
    #[error("{}: {what} is larger than {limit_mib} MiB; check that it is the file that was meant", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// What of it.
        what: &'static str,
        /// The most, in MiB.
        limit_mib: u64,
    },
    /// A line of a dataset that is not what the format says.
    #[error("{}:{line}: {why}; mend the line, or skip bad lines", path.display())]
    BadLine {
        /// The file.
        path: PathBuf,
        /// Its line, from 1.
        line: u64,
        /// What is wrong with it.
        why: String,
    },
    /// A file that holds nothing to ask.
    #[error("{} holds no usable {wanted}; check that it is the format that was named", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
        /// What was looked for.
        wanted: &'static str,
    },
    /// A dataset that names a file outside its own folder.
    #[error("{}:{line}: `{named}` lies outside the dataset's folder; copy the file beside the dataset", path.display())]
    Outside {
        /// The dataset.
        path: PathBuf,
        /// Its line, from 1.
        line: u64,
        /// The file it names.
        named: String,
    },
    /// A tokenizer that cannot be loaded or that fails.
    #[error(
        "tokenizer {name}: {why}; give the server's own tokenizer.json or the folder that holds it"
    )]
    Tokenizer {
        /// Which.
        name: String,
        /// What failed.
        why: String,
    },
    /// No text of this length could be made with this tokenizer.
    #[error(
        "no prompt of exactly {asked} tokens could be made with {token_counter} (nearest: {nearest}); ask for another length or send token ids"
    )]
    Inexact {
        /// Tokens asked for.
        asked: u64,
        /// The nearest that was reached.
        nearest: u64,
        /// Who counted.
        token_counter: String,
    },
}
