//! Reports from results: terminal tables, Markdown, HTML with charts, figures, exports.
//!
//! Everything here reads a [`bench_schema::RunRecord`] and says only what it carries. [`terminal::render`] is for the moment a
//! run is over, [`markdown::render`] for a pull request, [`html::render`] for looking.

mod charts;
mod error;
mod figure;
mod files;
mod mark;
mod number;
mod table;
mod tables;
mod text;
mod trace;

pub mod html;
pub mod markdown;
pub mod terminal;

pub use error::ReportError;
pub use files::RunFiles;
