//! What can go wrong while a report is made.

use std::io;
use std::path::PathBuf;

/// Why a report could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReportError {
    /// A file of the run could not be read.
    #[error("cannot read {path}: {source}; check the run directory, or render from run.json alone")]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A chart could not be described as JSON.
    #[error(
        "chart `{chart}` cannot be written as JSON: {source}; please report this with the run.json"
    )]
    Chart {
        /// The chart's id.
        chart: String,
        /// What the serialiser said.
        source: serde_json::Error,
    },
    /// A static figure could not be drawn.
    #[error("figure `{figure}` cannot be drawn: {reason}; the HTML report has the same chart")]
    Figure {
        /// The chart's id.
        figure: String,
        /// What the engine said.
        reason: String,
    },
    /// Nothing to compare.
    #[error("a comparison needs at least two runs, {given} given; name more run directories")]
    TooFewRuns {
        /// How many there were.
        given: usize,
    },
}
