//! The engine over its API, seen by a client of plain sockets.
#![expect(clippy::unwrap_used, reason = "helpers of tests are tests too")]

mod common;
mod conditions;
mod faults;
mod protocols;
mod settings;
mod simulated;
mod transformer;
mod transports;
