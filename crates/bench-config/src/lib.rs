//! The configuration of a run, in one struct: [`Settings`].
//!
//! Each field is a key of the TOML file, a flag of the command line and a variable of the environment; its doc comment is what `--help` and `examples/configs/full.toml` say of it,
//! its attribute has the default and the bounds, and the result stores its value. A new key is a new field. `docs/adr/0024-one-configuration.md`
//! has the reasons.

mod given;
mod keys;
mod rank;
mod settings;
mod values;
mod vary;

pub use given::{Flags, Given, Place, Problem, Surroundings, flags};
pub use keys::command;
pub use settings::{
    BadLines, ClientSettings, Connections, Credentials, LimitSettings, Live, LoadSettings,
    MachineSettings, ObjectiveSettings, OutputSettings, ServerSettings, Settings, Stdout,
    TargetSettings, WorkloadSettings,
};
pub use values::{Address, Amount, Concurrency, Header, Lengths, Reset, Wanted, carries_its_rate};
pub use vary::{Only, Values, Vary};
