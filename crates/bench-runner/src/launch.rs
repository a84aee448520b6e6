//! A server that is started for a run (`--server`): found a port, waited for, and stopped whatever becomes of the run.
//!
//! It is started by a guard, which is this program again with a hidden argument: the guard's standard input is a pipe from the run, and when that ends,
//! because the run is over or was killed, the guard ends the server's process group (SIGTERM, then SIGKILL) and every process that has left it. Nothing is
//! left to the run's own good end. A signal that reaches the guard, as one for all processes of this name does, does not end it; and where it is killed, the run
//! ends the group that it told of.

use std::cell::OnceCell;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::AsFd as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

use bench_client::Clock;
use bench_schema::Nanos;
use rustix::process::{
    Pid, Signal, WaitOptions, WaitStatus, kill_current_process_group, kill_process,
    kill_process_group,
};

use crate::RunError;
use crate::config::{Place, Problem, Settings};
use crate::progress::Progress;
use crate::server::Server;
use crate::stop::Signals;

/// The hidden argument of the guard; the server's words follow.
const ARGUMENT: &str = "--server-guard";
/// The hidden argument of the guard of a process group; nothing follows.
const GROUP_ARGUMENT: &str = "--group-guard";
/// From asking a server to end to ending it.
const PATIENCE: Duration = Duration::from_secs(10);
/// Between two looks at whether it has ended.
const PAUSE: Duration = Duration::from_millis(100);
/// Of the end of a log, for a message.
const LAST_LINES: usize = 12;
const LAST_BYTES: usize = 4096;

/// A server that was started for this run; dropping it stops it.
#[derive(Debug)]
pub(crate) struct Launched {
    guard: Child,
    /// How the server ended, once the guard has said it.
    said: OnceCell<String>,
    pub(crate) urls: Vec<String>,
    log: PathBuf,
}

impl Launched {
    /// Start the command of the settings, if there is one. What it says goes into a file beside the run's folder.
    ///
    /// # Errors
    /// Where its port is taken, or it cannot be started at all.
    pub(crate) fn start(settings: &Settings, out: &Path) -> Result<Option<Self>, RunError> {
        let Some(command) = &settings.server.server else {
            return Ok(None);
        };
        let mut urls = settings.target.urls();
        let mut words = shlex::split(command).unwrap_or_default();
        if urls.is_empty() {
            let port = free_port().map_err(|error| RunError::Client(error.to_string()))?;
            urls.push(format!("http://127.0.0.1:{port}"));
            for word in &mut words {
                *word = word.replace("{port}", &port.to_string());
            }
        }
        let mut log = out.as_os_str().to_owned();
        log.push(".server.log");
        let log = PathBuf::from(log);
        let guard = spawn(&words, &log).map_err(|error| RunError::Server {
            what: format!("the server could not be started: {error}"),
            help: "check --server and --out".to_owned(),
        })?;
        Ok(Some(Self {
            guard,
            said: OnceCell::new(),
            urls,
            log,
        }))
    }

    /// Wait until it answers, and find out what it is.
    ///
    /// # Errors
    /// Where it ends before, or takes longer than it may.
    pub(crate) async fn ready(
        &mut self,
        settings: &Settings,
        clock: &Clock,
        progress: &Progress,
    ) -> Result<Server, RunError> {
        let mut waiting = settings.clone();
        waiting.target.wait = settings.server.server_start_timeout;
        let urls = self.urls.clone();
        let found = tokio::select! {
            found = Server::find(&waiting, &urls, clock, progress) => found,
            error = self.end() => Err(error),
        };
        found.map_err(|error| self.with_log(error))
    }

    /// Resolves when it has ended by itself.
    async fn end(&mut self) -> RunError {
        loop {
            if let Some(error) = self.ended() {
                return error;
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// That it has ended by itself, if it has.
    pub(crate) fn ended(&mut self) -> Option<RunError> {
        let status = self.guard.try_wait().ok().flatten()?;
        let how = self.said();
        Some(if how.is_empty() {
            RunError::Server {
                what: format!("the process that guards the server was killed ({status})"),
                help: "find out who killed it, and measure again".to_owned(),
            }
        } else {
            RunError::Server {
                what: format!("the server {how}"),
                help: "run the --server command manually, with a port in place of {port}"
                    .to_owned(),
            }
        })
    }

    /// How the server ended, by a guard that has ended. What one left behind that was killed, and so said nothing, is ended.
    fn said(&mut self) -> &str {
        let pipe = self.guard.stdout.take();
        self.said.get_or_init(|| {
            let mut said = String::new();
            let _read = pipe.map(|mut pipe| pipe.read_to_string(&mut said));
            let (group, how) = said.split_once('\n').unwrap_or(("", &said));
            let group = group.parse().ok().and_then(Pid::from_raw);
            if let Some(group) = group.filter(|_| how.is_empty()) {
                let _gone = kill_process_group(group, Signal::KILL);
            }
            how.trim().to_owned()
        })
    }

    /// An error with the last lines of what the server said.
    pub(crate) fn with_log(&self, error: RunError) -> RunError {
        let RunError::Server { what, help } = error else {
            return error;
        };
        let said = last_lines(&self.log);
        let log = self.log.display();
        let said = if said.is_empty() {
            format!("it printed nothing ({log})")
        } else {
            format!("its last output ({log}):\n{said}")
        };
        RunError::Server {
            what: format!("{what}\n  {said}"),
            help,
        }
    }
}

impl Drop for Launched {
    fn drop(&mut self) {
        drop(self.guard.stdin.take());
        // it ends when every process of the server has ended
        self.guard.wait().ok();
        self.said();
    }
}

/// Whatever the settings say of where the server listens, nobody else may answer there.
///
/// # Errors
/// Where somebody does.
pub(crate) async fn refuse_a_taken_port(
    settings: &Settings,
    clock: &Clock,
    progress: &Progress,
) -> Result<(), RunError> {
    let urls = settings.target.urls();
    if settings.server.server.is_none() || urls.is_empty() {
        return Ok(());
    }
    let mut once = settings.clone();
    once.target.wait = Nanos::ZERO;
    match Server::find(&once, &urls, clock, progress).await {
        Err(_) => Ok(()),
        Ok(found) => Err(RunError::Config(vec![Problem {
            place: Place::Flag("url".to_owned()),
            key: "url".to_owned(),
            message: format!(
                "a server is already running at {}, and would be measured instead of the one to start",
                found.record.urls.join(", ")
            ),
            help: Some(
                "stop that server, or write {port} in the command and remove `url` to use a free port".to_owned(),
            ),
        }])),
    }
}

/// One that nobody has now, on whatever address.
fn free_port() -> io::Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    Ok(listener.local_addr()?.port())
}

fn spawn(words: &[String], log: &Path) -> io::Result<Child> {
    if let Some(folder) = log.parent() {
        std::fs::create_dir_all(folder)?;
    }
    Command::new(std::env::current_exe()?)
        .arg(ARGUMENT)
        .args(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(File::create(log)?)
        // Ctrl-C at the terminal is for the benchmark
        .process_group(0)
        .spawn()
}

fn last_lines(log: &Path) -> String {
    let bytes = std::fs::read(log).unwrap_or_default();
    let from = bytes.len().saturating_sub(LAST_BYTES);
    let text = String::from_utf8_lossy(bytes.get(from..).unwrap_or_default());
    let lines: Vec<&str> = text.lines().collect();
    let from = lines.len().saturating_sub(LAST_LINES);
    let last = lines.get(from..).unwrap_or_default();
    let indented: Vec<String> = last.iter().map(|line| format!("    {line}")).collect();
    indented.join("\n")
}

/// A process group that dies with this process: its first member is this program again, which kills it when its standard input, a pipe from the run, ends.
/// Dropping it kills the group, too.
pub(crate) struct Group {
    /// Until the group is released. It is not waited for before: its number is the group's.
    guard: Option<Child>,
    group: Pid,
}

impl Group {
    pub(crate) fn new() -> io::Result<Self> {
        let mut guard = Command::new(std::env::current_exe()?);
        let guard = guard.arg(GROUP_ARGUMENT).stdin(Stdio::piped());
        let guard = guard.stdout(Stdio::null()).stderr(Stdio::null());
        let guard = guard.process_group(0).spawn()?;
        let group = Pid::from_child(&guard);
        Ok(Self {
            guard: Some(guard),
            group,
        })
    }

    /// Start a command in the group.
    pub(crate) fn spawn(&self, command: &mut Command) -> io::Result<Child> {
        command
            .process_group(self.group.as_raw_nonzero().get())
            .spawn()
    }

    /// Let what is left of the group go on.
    pub(crate) fn release(mut self) {
        if let Some(mut guard) = self.guard.take() {
            let _gone = guard.kill();
            let _gone = guard.wait();
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(guard) = &mut self.guard {
            let _gone = kill_process_group(self.group, Signal::KILL);
            let _gone = guard.wait();
        }
    }
}

/// If this process was started as a guard: of a group, waits for the run's end and kills it; of a server, starts the server, waits for its end or the run's,
/// and leaves nothing of it behind.
///
/// To be called first thing in `main`; `None` means that this is an ordinary start.
pub fn guard_if_requested() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    let first = arguments.next()?;
    if first != GROUP_ARGUMENT && first != ARGUMENT {
        return None;
    }
    // what cannot be caught is no reason to leave anything behind
    let _caught = catch_signals();
    if first == GROUP_ARGUMENT {
        wait_for_the_run();
        let _gone = kill_current_process_group(Signal::KILL);
        return Some(ExitCode::SUCCESS);
    }
    let words: Vec<OsString> = arguments.collect();
    let said = match guard(&words) {
        Ok(said) => said,
        Err(error) => {
            let name = words.first().map(OsString::as_os_str);
            let name = name.unwrap_or(OsStr::new("")).display();
            format!("\ncould not be started: {name}: {error}")
        }
    };
    // nobody may be listening any more
    writeln!(io::stdout(), "{said}").ok();
    Some(ExitCode::SUCCESS)
}

/// A signal for all processes of a name, or of a unit that is stopped, is the benchmark's, whose end a guard sees. A handler that was set once stays, and
/// what the guard starts does not inherit it.
fn catch_signals() -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()?;
    let _entered = runtime.enter();
    let _caught_from_now_on = Signals::listen();
    Ok(())
}

/// How the server ended. What process group it is in is said at once.
fn guard(words: &[OsString]) -> io::Result<String> {
    let (program, rest) = words.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    // those whose parent ends become this process's children, and are waited for
    #[cfg(target_os = "linux")]
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    let server = Command::new(program)
        .args(rest)
        .stdin(Stdio::null())
        .stdout(io::stderr().as_fd().try_clone_to_owned()?)
        .process_group(0)
        .spawn()?;
    let group = i32::try_from(server.id()).ok().and_then(Pid::from_raw);
    let group = group.ok_or(io::ErrorKind::InvalidData)?;
    writeln!(io::stdout(), "{}", group.as_raw_nonzero()).ok();
    std::thread::spawn(move || {
        wait_for_the_run();
        end_all(group);
    });
    let mut how = String::new();
    while let Ok(Some((child, status))) = rustix::process::wait(WaitOptions::empty()) {
        if child == group {
            how = format!("ended by itself: {}", ending(status));
            std::thread::spawn(move || end_all(group));
        }
    }
    Ok(how)
}

/// Until the run is over or was killed.
fn wait_for_the_run() {
    let mut sink = [0; 64];
    let mut input = io::stdin().lock();
    while input.read(&mut sink).is_ok_and(|n| n > 0) {}
}

fn ending(status: WaitStatus) -> String {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => format!("exit status {code}"),
        (_, Some(signal)) => format!("signal {signal}"),
        _ => "for an unknown reason".to_owned(),
    }
}

/// Ask the group to end, then end it, and whoever has left it; the guard is over as soon as it has no child.
fn end_all(group: Pid) {
    let _gone = kill_process_group(group, Signal::TERM);
    std::thread::sleep(PATIENCE);
    loop {
        let _gone = kill_process_group(group, Signal::KILL);
        for child in children() {
            let _gone = kill_process(child, Signal::KILL);
        }
        std::thread::sleep(PAUSE);
    }
}

/// This process's children, where the system tells.
fn children() -> Vec<Pid> {
    let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten();
    let lists = threads
        .filter_map(|thread| std::fs::read_to_string(thread.ok()?.path().join("children")).ok());
    let all: String = lists.map(|list| list + " ").collect();
    let ids = all.split_whitespace();
    ids.filter_map(|id| Pid::from_raw(id.parse().ok()?))
        .collect()
}
