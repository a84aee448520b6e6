//! Golden runs: small, deterministic, with the numbers of the studies that this project began from.

#![expect(
    clippy::too_many_lines,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "golden runs are long literals of small round numbers"
)]

pub(crate) mod cells;
mod disorder;
pub(crate) mod requests;
pub(crate) mod runs;

pub(crate) use disorder::Disorder;
