//! `bench-engine`: serves the simulated or the transformer engine until it is interrupted.

mod arguments;

use std::fmt::Display;
use std::io::{self, ErrorKind, Write as _};
use std::process::ExitCode;

use bench_engine::{EngineError, Server, child};
use clap::{CommandFactory as _, Parser as _};

use arguments::{Arguments, Command};

/// The program.
pub fn main() -> ExitCode {
    if let Some(code) = child::run_if_requested() {
        return code;
    }
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(told) => {
            let code = ExitCode::from(u8::try_from(told.exit_code()).unwrap_or(2));
            let written = printed(told.print());
            return match written {
                Err(why) if !told.use_stderr() => complain(&why, 1),
                _ => code,
            };
        }
    };
    match run(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Trouble::Output(why)) => complain(&why, 1),
        Err(Trouble::Engine(error)) => {
            let code = match error {
                EngineError::Config { .. }
                | EngineError::Profile { .. }
                | EngineError::Format { .. } => 2,
                _ => 1,
            };
            complain(&error, code)
        }
    }
}

/// What its command line takes.
pub fn command() -> clap::Command {
    Arguments::command()
}

/// Why it ends.
enum Trouble {
    Engine(EngineError),
    /// Nobody gets what it prints.
    Output(String),
}

impl From<EngineError> for Trouble {
    fn from(error: EngineError) -> Self {
        Self::Engine(error)
    }
}

fn run(arguments: Arguments) -> Result<(), Trouble> {
    match arguments.command {
        Command::Profiles => {
            let lines = bench_engine::config::PROFILES
                .iter()
                .map(|(name, line, _)| format!("{name:16} {line}"));
            say(&lines.collect::<Vec<_>>().join("\n"))
        }
        Command::Faults => {
            let lines = bench_engine::FaultKind::ALL.iter().map(|kind| {
                let argument = kind.default_argument();
                let argument = argument.map_or_else(String::new, |n| format!(":{n}"));
                let name = format!("{}{argument}", kind.name());
                format!("{name:34} {}", kind.summary())
            });
            say(&lines.collect::<Vec<_>>().join("\n"))
        }
        Command::Serve(serve) => {
            let config = serve.config()?;
            if serve.print_config {
                return say(&toml::to_string(&config).unwrap_or_default());
            }
            let server = Server::start(config)?;
            say(&format!("{} listening on {}", server.model(), server.url()))?;
            // The default action of SIGINT and SIGTERM ends the process; nothing here needs saving.
            loop {
                std::thread::park();
            }
        }
    }
}

fn say(text: &str) -> Result<(), Trouble> {
    printed(writeln!(io::stdout().lock(), "{text}")).map_err(Trouble::Output)
}

/// A closed pipe is the reader's choice; any other error means that the text is lost.
fn printed(written: io::Result<()>) -> Result<(), String> {
    match written {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(format!("cannot write to standard output: {error}"))
        }
        _ => Ok(()),
    }
}

fn complain(why: &impl Display, code: u8) -> ExitCode {
    // Nobody may be reading.
    writeln!(io::stderr().lock(), "bench-engine: {why}").ok();
    ExitCode::from(code)
}
