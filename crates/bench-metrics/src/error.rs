//! What can be wrong with the numbers handed in.

use thiserror::Error;

/// Why an arithmetic function could not take its input.
///
/// "Not enough data for an answer" is not an error: such functions return `Option`.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the message says what each field is")]
pub enum MetricsError {
    /// A sample needs at least one value.
    #[error("a sample needs at least one value; keep it absent instead")]
    EmptySample,
    /// A value was NaN or infinite.
    #[error("value {index} of the sample is {value}; leave out what was not measured")]
    NotFinite { index: usize, value: f64 },
    /// Two histograms with different bucket layouts were to be merged or subtracted.
    #[error(
        "histograms of {left} and {right} precision bits cannot be combined; record both with the same precision"
    )]
    DifferentPrecision { left: u32, right: u32 },
    /// A precision rule could not be read.
    #[error("precision rule `{text}`: {problem}; write it as `p99:ttft=5%` or `mean:e2e=2%`")]
    BadPrecision { text: String, problem: String },
}
