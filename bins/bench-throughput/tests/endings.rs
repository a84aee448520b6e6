//! Ctrl-C, SIGTERM, SIGHUP and the deadline: sending stops, requests in flight get their grace, everything is written and marked.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::common::{Killed, Result, bench, endless, lines, records, stderr, stored};
use bench_engine::config::{EngineKind, Fixed};
use bench_engine::{EngineConfig, Server};
use bench_schema::{Outcome, RunRecord};
use rustix::process::{Pid, Signal, kill_process};

/// Answers of about a quarter of a second.
fn engine(fault: Option<&str>) -> Result<Server> {
    let fixed = Fixed {
        ttft_ms: 10.0,
        itl_ms: 30.0,
        jitter: 0.0,
        ..Fixed::default()
    };
    let faults = fault.map(|fault| {
        Ok::<_, bench_engine::EngineError>(bench_engine::PlannedFault {
            fault: fault.parse()?,
            from: 6,
            until: None,
            every: 1,
            share: 1.0,
        })
    });
    Ok(Server::start(EngineConfig {
        engine: EngineKind::Fixed(fixed),
        faults: faults.into_iter().collect::<std::result::Result<_, _>>()?,
        ..EngineConfig::default()
    })?)
}

/// It takes every request and answers none.
fn silent() -> Result<Server> {
    let fault = bench_engine::PlannedFault {
        fault: "stall-head".parse()?,
        from: 0,
        until: None,
        every: 1,
        share: 1.0,
    };
    Ok(Server::start(EngineConfig {
        faults: vec![fault],
        ..EngineConfig::default()
    })?)
}

/// The way to an engine that lets so many questions for the length of a text through and swallows the others.
fn swallowing_tokenize(server: &Server, free: usize) -> Result<String> {
    let door = TcpListener::bind("127.0.0.1:0")?;
    let at = format!("http://{}", door.local_addr()?);
    let behind = server.url().trim_start_matches("http://").to_owned();
    let asked = Arc::new(AtomicUsize::new(0));
    std::thread::spawn(move || {
        for mut guest in door.incoming().flatten() {
            let (behind, asked) = (behind.clone(), Arc::clone(&asked));
            std::thread::spawn(move || -> std::io::Result<()> {
                let mut host = TcpStream::connect(behind)?;
                let (mut from, mut to) = (host.try_clone()?, guest.try_clone()?);
                std::thread::spawn(move || std::io::copy(&mut from, &mut to));
                let mut some = vec![0; 1 << 16];
                loop {
                    let read = guest.read(&mut some)?;
                    let some = some.get(..read).unwrap_or_default();
                    let length = some.starts_with(b"POST /tokenize");
                    if some.is_empty() || length && asked.fetch_add(1, Ordering::Relaxed) >= free {
                        continue;
                    }
                    host.write_all(some)?;
                }
            });
        }
    });
    Ok(at)
}

fn start(server: &Server, run: &Path, more: &[&str]) -> Result<Killed> {
    let more = [&["--input-tokens", "4", "--no-hardware"], more].concat();
    endless(server, 3, run, &more)
}

fn send(child: &Child, signal: Signal) -> Result {
    let pid = i32::try_from(child.id())?;
    kill_process(Pid::from_raw(pid).ok_or("no process")?, signal)?;
    Ok(())
}

fn until_requests_are_over(child: &mut Killed, run: &Path) -> Result {
    // the fourth is over long after the slots took up those from which on the engine has its fault
    while lines(run)?.len() < 4 {
        assert!(child.0.try_wait()?.is_none(), "it ended too early");
        std::thread::yield_now();
    }
    Ok(())
}

/// What every early end leaves: an incomplete run that says why, with counts of all its records.
fn ended(run: &Path, by: &str) -> Result<RunRecord> {
    let record = stored(run)?;
    assert!(!record.complete);
    let reason = record.incomplete_reason.as_deref().unwrap_or_default();
    assert!(reason.contains(by), "{reason}");
    let cell = record.cells.first().ok_or("no cell")?;
    assert!(cell.counts.add_up());
    assert_eq!(cell.counts.planned, records(run)?.len() as u64);
    assert!(run.join("report.md").exists());
    Ok(record)
}

#[test]
fn a_signal_stops_sending_and_lets_the_answers_in_flight_finish() -> Result {
    for (signal, name) in [
        (Signal::INT, "Ctrl-C"),
        (Signal::TERM, "SIGTERM"),
        (Signal::HUP, "SIGHUP"),
    ] {
        let server = engine(None)?;
        let folder = tempfile::tempdir()?;
        let run = folder.path().join("run");
        let mut child = start(&server, &run, &["--grace", "60s"])?;
        until_requests_are_over(&mut child, &run)?;
        send(&child.0, signal)?;
        assert_eq!(child.0.wait()?.code(), Some(5), "{name}");
        let record = ended(&run, name)?;
        let counts = record
            .cells
            .first()
            .map(|cell| &cell.counts)
            .ok_or("no cell")?;
        assert_eq!(counts.completed, counts.planned, "{name}: {counts:?}");
    }
    Ok(())
}

#[test]
fn what_is_still_in_flight_when_the_grace_is_over_is_cut_and_keeps_what_it_has() -> Result {
    let server = engine(Some("endless"))?;
    let folder = tempfile::tempdir()?;
    let run = folder.path().join("run");
    let mut child = start(&server, &run, &["--grace", "2s"])?;
    until_requests_are_over(&mut child, &run)?;
    send(&child.0, Signal::TERM)?;
    let _code = child.0.wait()?;
    let record = ended(&run, "SIGTERM")?;
    let cancelled = record.cells.first().map_or(0, |cell| cell.counts.cancelled);
    assert!(
        cancelled > 0,
        "{:?}",
        record.cells.first().map(|cell| &cell.counts)
    );
    let cut: Vec<_> = records(&run)?
        .into_iter()
        .filter(|record| matches!(record.wire.outcome, Outcome::Cancelled { .. }))
        .collect();
    assert_eq!(cut.len() as u64, cancelled);
    assert!(cut.iter().any(|record| !record.wire.events.is_empty()));
    Ok(())
}

#[test]
fn a_second_signal_does_not_wait_for_the_grace() -> Result {
    let server = engine(Some("endless"))?;
    let folder = tempfile::tempdir()?;
    let run = folder.path().join("run");
    // an hour of grace, which the test would not survive
    let mut child = start(&server, &run, &["--grace", "1h", "--timeout", "2h"])?;
    until_requests_are_over(&mut child, &run)?;
    // of another kind, as from somebody who has lost patience
    send(&child.0, Signal::INT)?;
    let mut said = BufReader::new(child.0.stderr.take().ok_or("no stderr")?).lines();
    while !said.next().ok_or("it ended")??.contains("no new requests") {}
    send(&child.0, Signal::TERM)?;
    assert_eq!(child.0.wait()?.code(), Some(5));
    ended(&run, "Ctrl-C")?;
    Ok(())
}

#[test]
fn a_deadline_ends_a_run_like_a_signal() -> Result {
    let server = engine(None)?;
    let folder = tempfile::tempdir()?;
    let run = folder.path().join("run");
    let mut child = start(&server, &run, &["--deadline", "3s", "--grace", "60s"])?;
    let _code = child.0.wait()?;
    ended(&run, "the deadline")?;
    Ok(())
}

#[test]
fn a_deadline_ends_a_run_whose_server_never_answers_the_first_request() -> Result {
    let server = silent()?;
    let folder = tempfile::tempdir()?;
    let run = folder.path().join("run");
    // without it the first request would have its own time
    let mut child = start(&server, &run, &["--deadline", "1s", "--timeout", "60s"])?;
    assert_eq!(child.0.wait()?.code(), Some(1));
    let mut said = String::new();
    let mut stderr = child.0.stderr.take().ok_or("no stderr")?;
    stderr.read_to_string(&mut said)?;
    assert!(said.contains("error: --deadline 1s passed"), "{said}");
    assert!(!run.exists());
    Ok(())
}

#[test]
fn a_deadline_is_heard_while_the_server_is_asked_for_the_lengths_of_prompts() -> Result {
    let server = engine(None)?;
    let url = swallowing_tokenize(&server, 4)?;
    let folder = tempfile::tempdir()?;
    let run = folder.path().join("run");
    let asked = ["--url", &url, "--dataset", "random", "--input-tokens", "40"];
    let load = ["--concurrency", "2", "--requests", "30", "--warmup", "0"];
    let output = bench(&[&asked[..], &load, &["--deadline", "3s", "--no-hardware"]].concat())
        .arg("--out")
        .arg(&run)
        .output()?;
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    ended(&run, "the deadline")?;
    Ok(())
}

#[test]
fn a_signal_while_the_page_is_made_leaves_it_out() -> Result {
    leaves_the_page_out(&engine(None)?, 8, |run| Ok(run.join("report.md").exists()))
}

#[test]
fn a_signal_while_the_last_figures_are_made_leaves_the_page_out() -> Result {
    let fast = Fixed {
        ttft_ms: 0.1,
        itl_ms: 0.1,
        ..Fixed::default()
    };
    let server = Server::start(EngineConfig {
        engine: EngineKind::Fixed(fast),
        ..EngineConfig::default()
    })?;
    let requests = 4_000;
    leaves_the_page_out(&server, requests, |run| Ok(lines(run)?.len() == requests))
}

/// A run that a signal meets once `now` says so, after its last request.
fn leaves_the_page_out(
    server: &Server,
    requests: usize,
    now: impl Fn(&Path) -> Result<bool>,
) -> Result {
    let folder = tempfile::tempdir()?;
    let run = folder.path().join("run");
    let url = server.url();
    let mut child = Command::new(env!("CARGO_BIN_EXE_bench-throughput"))
        .args(["--url", &url, "--concurrency", "2"])
        .args(["--requests", &requests.to_string()])
        .args("--dataset random --input-tokens 4 --output-tokens 8 --warmup 0".split(' '))
        .args("--server-metrics none --no-hardware --no-progress --out".split(' '))
        .arg(&run)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()?;
    let until = |child: &mut Child, now: &dyn Fn(&Path) -> Result<bool>| -> Result {
        while !now(&run)? {
            assert!(child.try_wait()?.is_none(), "it ended too early");
            std::thread::yield_now();
        }
        Ok(())
    };
    // where the page is written to, a pipe that nobody reads: it is not done before the signal
    until(&mut child, &|run| Ok(run.join("begin.json").exists()))?;
    let pipe = Command::new("mkfifo")
        .arg(run.join("report.html.part"))
        .status()?;
    assert!(pipe.success());
    let stderr = child.stderr.take().ok_or("no stderr")?;
    until(&mut child, &now)?;
    send(&child, Signal::TERM)?;
    let (mut said, mut complete) = (String::new(), true);
    for line in BufReader::new(stderr).lines() {
        said += &line?;
        if complete && said.contains("no new requests") {
            // it came while the last worker was ending
            complete = false;
            until(&mut child, &|run| Ok(run.join("report.md").exists()))?;
            send(&child, Signal::TERM)?;
        }
    }
    let code = child.wait()?.code();
    assert!(
        said.contains("SIGTERM: report.html was not written"),
        "{said}"
    );
    assert!(code.is_some_and(|code| code != 1), "{said}");
    assert_eq!(stored(&run)?.complete, complete, "{said}");
    assert!(!run.join("report.html").exists());
    Ok(())
}
