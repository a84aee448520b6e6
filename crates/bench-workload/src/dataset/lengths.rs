//! Lengths out of files, for empirical distributions.

use std::path::Path;

use super::{FileFormat, read};
use crate::length::MAX_LENGTH;
use crate::source::Body;
use crate::{WorkloadError, bounded};

/// Which column of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Input,
    Output,
}

/// Whole numbers separated by blanks, or one side of the pairs of a trace.
pub(crate) fn values(path: &Path, side: Side) -> Result<Vec<u64>, WorkloadError> {
    let text = bounded::read_text(path, "reading lengths")?;
    let numbers: Result<Vec<u64>, _> = text.split_whitespace().map(str::parse).collect();
    match numbers {
        Ok(numbers) if !numbers.is_empty() => Ok(numbers
            .into_iter()
            .map(|n| n.clamp(1, MAX_LENGTH))
            .collect()),
        _ => {
            let pick =
                |(input, output): (u64, u64)| if side == Side::Input { input } else { output };
            Ok(pairs(path)?.into_iter().map(pick).collect())
        }
    }
}

/// Input and output lengths of a trace.
pub(crate) fn pairs(path: &Path) -> Result<Vec<(u64, u64)>, WorkloadError> {
    let mut reader = read::open(FileFormat::Trace, path)?;
    let mut pairs = Vec::new();
    while let Some(row) = reader.next_row()? {
        if let (Body::Lengths { input, .. }, Some(output)) = (&row.body, row.output) {
            pairs.push((*input, output));
        }
    }
    if pairs.is_empty() {
        return Err(WorkloadError::Empty {
            path: path.to_owned(),
            wanted: "pair of lengths",
        });
    }
    Ok(pairs)
}
