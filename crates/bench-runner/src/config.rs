//! Configuration: one table of keys, read from flags and a TOML file, checked as a whole.

mod build;
mod concurrency;
mod documented;
mod entries;
mod flags;
mod keys;
pub(crate) mod parse;
mod reader;
mod settings;

pub use build::{Surroundings, build};
pub use concurrency::Concurrency;
pub use documented::full_toml;
pub use entries::{Entries, Entry, Place, Problem, from_toml};
pub use flags::{Flags, parse as parse_flags};
pub use keys::{KEYS, Key, Shape};
pub use reader::Reader;
pub use settings::{
    Amount, ClientSettings, Connections, LimitSettings, LoadSettings, MachineSettings,
    ObjectiveSettings, OutputSettings, Settings, Stdout, TargetSettings, WorkloadSettings,
};

#[doc(hidden)]
pub use crate::entry::settings_for_tests as for_tests;
