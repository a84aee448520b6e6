//! The engine over its API, seen by a client of plain sockets.

mod common;
mod simulated;
mod transformer;
