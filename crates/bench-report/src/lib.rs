//! Reports from results: terminal tables, Markdown, HTML with charts, figures, exports.
//!
//! Everything here reads a [`bench_schema::RunRecord`] and says only what it carries. [`terminal::render`] is for the moment a
//! run is over, [`markdown::render`] for a pull request, [`html::render`] for looking.

#![expect(
    clippy::format_push_string,
    clippy::format_collect,
    reason = "reports are short; `write!` to a String would need its impossible error dropped each time"
)]

mod charts;
mod figure;
mod number;
mod table;
mod tables;
mod text;
mod trace;

pub mod compare;
pub mod export;
#[cfg(feature = "figures")]
pub mod figures;
pub mod findings;
pub mod html;
pub mod markdown;
pub mod matrix;
pub mod site;
pub mod terminal;
pub mod trend;

pub use table::{Cell, Column, Table};
pub use tables::{capacity_words, measured_words};
pub use text::{harmless, markdown as markdown_text, plain as plain_text};
pub use trace::RunFiles;

use std::io;
use std::path::PathBuf;

/// Why a report could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the message says what each field is")]
pub enum ReportError {
    /// A file of the run could not be read.
    #[error("cannot read {path}: {source}; check the run directory, or render from run.json alone")]
    Read { path: PathBuf, source: io::Error },
    /// A static figure could not be drawn.
    #[error("figure `{figure}` cannot be drawn: {reason}; the HTML report has the same chart")]
    Figure { figure: String, reason: String },
    /// Nothing to compare.
    #[error("a comparison needs at least two runs, {given} given; name more run directories")]
    TooFewRuns { given: usize },
}
