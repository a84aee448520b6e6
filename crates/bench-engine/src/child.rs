//! The engine in a process of its own, so that a client's CPU time is the client's alone.
//!
//! A binary calls [`run_if_requested`] first thing in `main`; [`spawn`] then starts the same binary again with a hidden
//! argument, writes the configuration to its standard input (arguments can be read by everyone on the machine, and there may
//! be a key in it), and gets the engine's URL from its first line of output. What the engine knew is its second, once its input has ended.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child as Process, ChildStdout, Command, ExitCode, Stdio};

use serde::{Deserialize, Serialize};

use crate::EngineError;
use crate::config::EngineConfig;
use crate::ledger::Entry;
use crate::server::Server;

/// The hidden argument. The configuration is the first line of standard input, in JSON.
pub const ARGUMENT: &str = "--embedded-engine";

/// The line with which the engine says where it listens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// `HOST:PORT`, or `unix:PATH`.
    pub listening: String,
    /// Base URL.
    pub url: String,
    /// The model's name.
    pub model: String,
}

/// What an engine knew when it ended.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Known {
    /// The ledger.
    pub entries: Vec<Entry>,
    /// Requests that each connection carried, in the order of accepting.
    pub connections: Vec<u64>,
}

/// If this process was started by [`spawn`]: serves until its standard input ends, and says how it went.
///
/// To be called before anything else in `main`; `None` means that this is an ordinary start.
pub fn run_if_requested() -> Option<ExitCode> {
    if std::env::args_os().nth(1)? != ARGUMENT {
        return None;
    }
    match serve_until_eof() {
        Ok(()) => Some(ExitCode::SUCCESS),
        Err(message) => {
            // Nobody may be listening any more.
            writeln!(std::io::stderr().lock(), "embedded engine: {message}").ok();
            Some(ExitCode::FAILURE)
        }
    }
}

fn serve_until_eof() -> Result<(), String> {
    let mut input = std::io::stdin().lock();
    let mut config = String::new();
    input
        .read_line(&mut config)
        .map_err(|error| error.to_string())?;
    let config: EngineConfig = serde_json::from_str(&config).map_err(|error| {
        format!("the first line of standard input must be a configuration in JSON: {error}")
    })?;
    let server = Server::start(config).map_err(|error| error.to_string())?;
    let hello = hello(&server);
    let line = serde_json::to_string(&hello).map_err(|error| error.to_string())?;
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")
        .and_then(|()| out.flush())
        .map_err(|error| error.to_string())?;
    let mut sink = [0; 256];
    while input.read(&mut sink).is_ok_and(|n| n > 0) {}
    let known = Known {
        connections: server.connections(),
        entries: server.shutdown(),
    };
    let known = serde_json::to_vec(&known).map_err(|error| error.to_string())?;
    // Nobody may want to know.
    out.write_all(&known).and_then(|()| out.flush()).ok();
    Ok(())
}

/// What a running server says about itself.
pub fn hello(server: &Server) -> Hello {
    let listening = server
        .addr()
        .map_or_else(|| server.url(), |address| address.to_string());
    Hello {
        listening,
        url: server.url(),
        model: server.model().to_owned(),
    }
}

/// A running engine in a process of its own. Dropping it ends and reaps the process.
#[derive(Debug)]
pub struct Child {
    process: Process,
    said: BufReader<ChildStdout>,
    hello: Hello,
}

impl Child {
    /// The process's id.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Base URL, without a path.
    pub fn url(&self) -> &str {
        &self.hello.url
    }

    /// The model's name.
    pub fn model(&self) -> &str {
        &self.hello.model
    }

    /// What the engine said when it was ready.
    pub fn hello(&self) -> &Hello {
        &self.hello
    }

    /// Ends it in order, and takes what it knew.
    ///
    /// # Errors
    /// [`EngineError::Child`] if it ended before.
    pub fn end(mut self) -> Result<Known, EngineError> {
        drop(self.process.stdin.take());
        serde_json::from_reader(&mut self.said)
            .map_err(|error| failed(&format!("did not say what it knew: {error}")))
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // It may have ended by itself; then there is nothing to end, and the wait reaps it.
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

/// Starts this program again as an engine and waits until it listens.
///
/// The program must call [`run_if_requested`] first thing, otherwise it would start its own work a second time.
///
/// # Errors
/// [`EngineError::Config`] before anything is started; [`EngineError::Child`] if the process cannot be started, or ends
/// or says something else before it listens.
pub fn spawn(config: &EngineConfig) -> Result<Child, EngineError> {
    let program = std::env::current_exe().map_err(|error| failed(&error.to_string()))?;
    spawn_program(Command::new(program), config)
}

/// The same with another program that calls [`run_if_requested`].
///
/// # Errors
/// As [`spawn`].
pub fn spawn_program(mut command: Command, config: &EngineConfig) -> Result<Child, EngineError> {
    config.check()?;
    let json = serde_json::to_string(config).map_err(|error| failed(&error.to_string()))?;
    command
        .arg(ARGUMENT)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit());
    // A group of its own: Ctrl-C at the terminal is for the benchmark, which still has answers in flight.
    command.process_group(0);
    let mut process = command
        .spawn()
        .map_err(|error| failed(&error.to_string()))?;
    match greet(&mut process, &json) {
        Ok((said, hello)) => Ok(Child {
            process,
            said,
            hello,
        }),
        Err(error) => {
            process.kill().ok();
            process.wait().ok();
            Err(error)
        }
    }
}

/// Hands the process its configuration and waits for what it says. Its standard input stays open: the process ends with it.
fn greet(
    process: &mut Process,
    config: &str,
) -> Result<(BufReader<ChildStdout>, Hello), EngineError> {
    if let Some(input) = &mut process.stdin {
        // A process that has ended already says why on its standard error; the read below finds that it says nothing else.
        writeln!(input, "{config}")
            .and_then(|()| input.flush())
            .ok();
    }
    let silent = || failed("ended before it listened; its standard error says why");
    let mut said = BufReader::new(process.stdout.take().ok_or_else(silent)?);
    let mut line = String::new();
    if !said.read_line(&mut line).is_ok_and(|n| n > 0) {
        return Err(silent());
    }
    let hello =
        serde_json::from_str(&line).map_err(|error| failed(&format!("said {line:?}: {error}")))?;
    Ok((said, hello))
}

fn failed(reason: &str) -> EngineError {
    EngineError::Child {
        reason: reason.to_owned(),
    }
}
