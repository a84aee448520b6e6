//! What the program itself did to the measurement.

use bench_schema::{RunRecord, Trust, TrustReason, TrustVerdict};

use crate::RunError;

/// Say so where workers had to wait for the recorder, or records could not be written.
pub(super) fn own_up(record: &mut RunRecord, held_up: u64, lost: Option<&RunError>) {
    let mut reasons = std::mem::take(&mut record.trust.reasons);
    if held_up > 0 {
        reasons.push(TrustReason {
            code: "recorder_held_up".to_owned(),
            verdict: TrustVerdict::Doubtful,
            message: format!(
                "{held_up} records had to wait until the recorder had room, and their workers with them"
            ),
            next: Some("write to a faster disk, or offer less".to_owned()),
            cell: None,
            measured: Some(held_up as f64),
            threshold: Some(0.0),
        });
    }
    if let Some(error) = lost {
        reasons.push(TrustReason {
            code: "journal_incomplete".to_owned(),
            verdict: TrustVerdict::Doubtful,
            message: error.to_string(),
            next: None,
            cell: None,
            measured: None,
            threshold: None,
        });
    }
    record.trust = Trust::from_reasons(reasons);
}
