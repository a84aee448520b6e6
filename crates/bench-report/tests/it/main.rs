//! The reports of a few golden runs, hostile ones among them.

mod support;
mod terminal;
