//! `bench-engine`: serves the simulated or the transformer engine until it is interrupted.

mod arguments;

use std::io::Write as _;
use std::process::ExitCode;

use bench_engine::{EngineError, Server, child};
use clap::{CommandFactory as _, Parser as _};

use arguments::{Arguments, Command};

/// The program.
pub fn main() -> ExitCode {
    if let Some(code) = child::run_if_requested() {
        return code;
    }
    match run(Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Nobody may be reading.
            writeln!(std::io::stderr().lock(), "bench-engine: {error}").ok();
            ExitCode::from(match error {
                EngineError::Config { .. }
                | EngineError::Profile { .. }
                | EngineError::Format { .. } => 2,
                _ => 1,
            })
        }
    }
}

/// What its command line takes.
pub fn command() -> clap::Command {
    Arguments::command()
}

fn run(arguments: Arguments) -> Result<(), EngineError> {
    match arguments.command {
        Command::Profiles => {
            for (name, line, _) in bench_engine::config::PROFILES {
                say(&format!("{name:16} {line}"));
            }
            Ok(())
        }
        Command::Faults => {
            for kind in bench_engine::FaultKind::ALL {
                let argument = kind
                    .default_argument()
                    .map(|n| format!(":{n}"))
                    .unwrap_or_default();
                say(&format!(
                    "{:34} {}",
                    format!("{}{argument}", kind.name()),
                    kind.summary()
                ));
            }
            Ok(())
        }
        Command::Serve(serve) => {
            let config = serve.config()?;
            if serve.print_config {
                say(&toml::to_string(&config).unwrap_or_default());
                return Ok(());
            }
            let server = Server::start(config)?;
            say(&format!("{} listening on {}", server.model(), server.url()));
            // The default action of SIGINT and SIGTERM ends the process; nothing here needs saving.
            loop {
                std::thread::park();
            }
        }
    }
}

fn say(line: &str) {
    // A closed pipe is the reader's choice.
    writeln!(std::io::stdout().lock(), "{line}").ok();
}
