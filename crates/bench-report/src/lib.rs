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
mod error;
mod figure;
mod files;
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
pub mod terminal;

pub use error::ReportError;
pub use files::RunFiles;
pub use table::{Cell, Column, Table};
pub use tables::measured_words;
pub use text::{harmless, markdown as markdown_text, markdown_cell, plain as plain_text};
