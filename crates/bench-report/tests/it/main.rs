//! The reports of a few golden runs, hostile ones among them.

mod chromium;
mod hostile;
mod html;
mod support;
mod terminal;
