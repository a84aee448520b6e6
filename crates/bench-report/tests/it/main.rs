//! The reports of a few golden runs, hostile ones among them.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on must stop; clippy allows it only inside test functions"
)]

mod chromium;
mod compare;
mod export;
#[cfg(feature = "figures")]
mod figures;
mod hostile;
mod html;
mod large;
mod matrix;
mod seeds;
mod site;
mod support;
mod tables;
mod terminal;
mod text;
