//! A server that is started for a run: measured, stopped, and told about where it does not start.
#![expect(clippy::unwrap_used, reason = "helpers of tests are tests too")]

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

const FILE: &str = env!("CARGO_BIN_EXE_serving-bench");

/// The throughput benchmark of a server that it starts itself.
fn bench(server: &str, out: &Path, more: &[&str]) -> Command {
    let mut command = Command::new(FILE);
    let load = ["--concurrency", "2", "--dataset", "random"];
    let shape = ["--input-tokens", "4..9", "--output-tokens", "4..12"];
    let quiet = ["--no-hardware", "--no-html", "--no-progress"];
    command
        .args(["throughput", "--server", server])
        .args([load, shape].concat())
        .args(quiet)
        .args(more)
        .arg("--out")
        .arg(out)
        .stdin(Stdio::null());
    command
}

fn engine() -> String {
    format!("'{FILE}' engine serve --profile instant --port {{port}}")
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// `HOST:PORT` that the engine says it listens on.
fn address(said: &str) -> &str {
    said.trim().rsplit_once("http://").unwrap().1
}

fn until_nobody_listens(address: &str) {
    // the guard ends it within its patience; a test that hangs here has failed
    while TcpStream::connect(address).is_ok() {
        std::thread::yield_now();
    }
}

#[test]
fn a_server_is_started_measured_and_stopped_with_its_log_beside_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    let output = bench(&engine(), &out, &["--requests", "20"])
        .output()
        .unwrap();
    assert!(
        matches!(output.status.code(), Some(0 | 3)),
        "{}",
        stderr(&output)
    );
    let run = std::fs::read_to_string(out.join("run.json")).unwrap();
    assert!(run.contains("--port {port}"), "the command as it was given");
    assert!(
        !run.contains("\"embedded\": true"),
        "it is no engine of ours"
    );
    let log = std::fs::read_to_string(folder.path().join("run.server.log")).unwrap();
    let refused = TcpStream::connect(address(&log));
    assert!(refused.is_err(), "it was stopped before the program ended");
}

#[test]
fn a_server_does_not_outlive_a_benchmark_that_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    // a shell between the two
    let server = format!("sh -c '{}; true'", engine().replace('\'', ""));
    let mut child = begun(&server, &out);
    child.kill().unwrap();
    child.wait().unwrap();
    let log = std::fs::read_to_string(folder.path().join("run.server.log")).unwrap();
    until_nobody_listens(address(&log));
}

/// Sends a process a signal.
fn signal(name: &str, process: u32) {
    let sent = Command::new("kill")
        .args([name, &process.to_string()])
        .status();
    assert!(sent.unwrap().success());
}

/// The guard of a benchmark's server.
fn guard_of(child: &Child) -> u32 {
    let id = child.id();
    let children = std::fs::read_dir(format!("/proc/{id}/task")).unwrap();
    let lists = children
        .filter_map(|task| std::fs::read_to_string(task.unwrap().path().join("children")).ok());
    let all: String = lists.collect();
    let is_guard = |id: &&str| {
        let command = std::fs::read_to_string(format!("/proc/{id}/cmdline"));
        command.is_ok_and(|command| command.contains("--server-guard"))
    };
    all.split_whitespace()
        .find(is_guard)
        .unwrap()
        .parse()
        .unwrap()
}

/// An endless benchmark of a server that it starts, from the moment at which it has records.
fn begun(server: &str, out: &Path) -> Child {
    let mut child = bench(server, out, &["--requests", "100000000"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let journal = out.join("requests.jsonl");
    while std::fs::metadata(&journal).map_or(0, |file| file.len()) == 0 {
        assert!(child.try_wait().unwrap().is_none(), "it ended too early");
        std::thread::yield_now();
    }
    child
}

#[test]
fn a_signal_for_all_processes_of_the_name_ends_the_run_and_leaves_nothing() {
    for name in ["-TERM", "-INT", "-HUP"] {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("run");
        let child = begun(&engine(), &out);
        signal(name, guard_of(&child));
        signal(name, child.id());
        let ended = child.wait_with_output().unwrap();
        assert_eq!(ended.status.code(), Some(5), "{name}: {}", stderr(&ended));
        let log = std::fs::read_to_string(folder.path().join("run.server.log")).unwrap();
        assert!(TcpStream::connect(address(&log)).is_err(), "{name}");
    }
}

#[test]
fn a_server_does_not_outlive_a_guard_that_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    let child = begun(&engine(), &out);
    signal("-KILL", guard_of(&child));
    signal("-TERM", child.id());
    let ended = child.wait_with_output().unwrap();
    let said = stderr(&ended);
    assert!(
        said.contains("the process that guards the server was killed"),
        "{said}"
    );
    let log = std::fs::read_to_string(folder.path().join("run.server.log")).unwrap();
    until_nobody_listens(address(&log));
}

#[test]
fn a_signal_while_a_server_is_stopped_ends_the_matrix() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let stops = folder.path().join("stops");
    // it says that it is to stop, and does so when somebody has taken note
    let server = format!(
        "sh -c 'trap \"echo stops > {0}; cat {0}; kill $!; exit\" TERM; {1} & wait' {{n}}",
        stops.display(),
        engine().replace('\'', "")
    );
    let made = Command::new("mkfifo").arg(&stops).status().unwrap();
    assert!(made.success());
    let more = [
        "--vary",
        "n=1,2",
        "--rounds",
        "1",
        "--requests",
        "10",
        "--in-order",
    ];
    let child = bench(&server, &out, &more)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    assert_eq!(std::fs::read_to_string(&stops).unwrap(), "stops\n");
    signal("-TERM", child.id());
    std::fs::write(&stops, "go on\n").unwrap();
    let ended = child.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(5), "{}", stderr(&ended));
    assert!(out.join("n=1/001/run.json").exists());
    assert!(!out.join("n=2").exists(), "{}", stderr(&ended));
}

#[test]
fn a_reset_command_does_not_outlive_a_benchmark_that_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    // who reads it to its end knows that every process that had it open is gone
    let pipe = folder.path().join("pipe");
    let made = Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    let reset = format!("sh -c 'exec 9>{}; sleep 1000 & sleep 1000'", pipe.display());
    let mut child = bench(&engine(), &out, &["--requests", "20", "--reset", &reset])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // waits until the command has opened it
    let mut held = File::open(&pipe).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    // a test that hangs here has failed
    held.read_to_end(&mut Vec::new()).unwrap();
}

#[test]
fn a_server_that_does_not_start_is_told_with_the_last_that_it_said() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    for (server, said) in [
        (
            "sh -c 'echo no memory left >&2; exit 7' {port}",
            &["ended by itself: exit status 7", "no memory left"][..],
        ),
        (
            "no-such-server --port {port}",
            &["could not be started: no-such-server: No such file"],
        ),
    ] {
        let output = bench(server, &out, &[]).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        let told = stderr(&output);
        assert!(said.iter().all(|said| told.contains(said)), "{told}");
        assert!(!out.exists(), "there is nothing to keep");
    }
    let waited = ["--server-start-timeout", "300ms"];
    let output = bench("sleep 1000 {port}", &out, &waited).output().unwrap();
    assert!(
        stderr(&output).contains("cannot be measured after"),
        "{}",
        stderr(&output)
    );
}

/// A process that ends with the test.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

#[test]
fn a_port_that_somebody_has_is_refused_before_anything_starts() {
    let mut other = Command::new(FILE);
    other.args(["engine", "serve", "--profile", "instant", "--port", "0"]);
    let mut other = Killed(other.stdout(Stdio::piped()).spawn().unwrap());
    let mut said = String::new();
    let stdout = other.0.stdout.take().unwrap();
    BufReader::new(stdout).read_line(&mut said).unwrap();
    let url = format!("http://{}", address(&said));
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    let output = bench("sleep 1000", &out, &["--url", &url])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).contains("already running at"),
        "{}",
        stderr(&output)
    );
    assert!(!folder.path().join("run.server.log").exists());
}

/// The settings of a small matrix: one that cannot start between two of known speeds.
fn settings(out: &Path, more: &[&str]) -> Command {
    let server = format!(
        "'{FILE}' engine serve --profile fixed --set engine.itl_ms={{itl}} --port {{port}}"
    );
    let vary = [
        "--vary",
        "itl=1.0,never,4.0",
        "--rounds",
        "2",
        "--requests",
        "10",
        // one is hidden where it is stored, the other is a word of what is stored
        "--extra-body",
        "{\"api_key\": \"sk-in-a-body\"}",
        "--header",
        "x-mode: requests",
    ];
    bench(&server, out, &[&vary[..], more].concat())
}

fn is_shown_where_it_cannot_be_stored(out: &Path, again: &Output) {
    let asked = std::fs::read_to_string(out.join("matrix.json")).unwrap();
    assert!(asked.contains("\"requests\": 10") && !asked.contains("sk-in-a-body"));
    std::fs::remove_file(out.join("matrix.md")).unwrap();
    std::fs::create_dir(out.join("matrix.md")).unwrap();
    let shown = settings(out, &[]).output().unwrap();
    assert_eq!(shown.status.code(), Some(1), "{}", stderr(&shown));
    assert_eq!(shown.stdout, again.stdout);
    assert!(stderr(&shown).contains("matrix.md"), "{}", stderr(&shown));
}

#[test]
fn settings_are_measured_once_and_the_faster_one_is_best_whatever_does_not_start() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let first = settings(&out, &[]).output().unwrap();
    assert!(
        matches!(first.status.code(), Some(0 | 3)),
        "{}",
        stderr(&first)
    );
    let said = String::from_utf8_lossy(&first.stdout).into_owned();
    // on a machine that is too busy nothing is believed
    if first.status.code() == Some(0) {
        assert!(
            said.contains("itl=1.0 has the best output tokens/s"),
            "{said}"
        );
    }
    assert!(
        said.contains("engine.itl_ms"),
        "why the other failed: {said}"
    );
    for (setting, rounds) in [("itl=1.0", 2), ("itl=4.0", 2), ("itl=never", 0)] {
        for round in 1..=2 {
            let run = out.join(setting).join(format!("{round:03}/run.json"));
            assert_eq!(run.exists(), round <= rounds, "{}", run.display());
        }
    }
    // one of them was killed half way
    let run = out.join("itl=4.0/002/run.json");
    std::fs::remove_file(&run).unwrap();
    let kept = out.join("itl=1.0/001/run.json");
    let before = std::fs::metadata(&kept).unwrap().modified().unwrap();
    let again = settings(&out, &[]).output().unwrap();
    assert!(
        matches!(again.status.code(), Some(0 | 3)),
        "{}",
        stderr(&again)
    );
    assert_eq!(
        std::fs::metadata(&kept).unwrap().modified().unwrap(),
        before
    );
    assert!(
        stderr(&again).contains("was already measured"),
        "{}",
        stderr(&again)
    );
    assert!(run.exists() && out.join("itl=4.0/broken-off/002").exists());
    assert!(!out.join("itl=1.0/broken-off").exists());
    is_shown_where_it_cannot_be_stored(&out, &again);
    let other = settings(&out, &["--seed", "9"]).output().unwrap();
    assert_eq!(other.status.code(), Some(2));
    assert!(
        stderr(&other).contains("different `seed`"),
        "{}",
        stderr(&other)
    );
}
