//! Shards that meet: they ask what one program asks, refuse to differ, and go on without one that is lost.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use bench_engine::config::{EngineKind, Fixed};
use bench_engine::{EngineConfig, Entry, Server};
use bench_schema::{CellRecord, Nanos, Phase, PlanHash, RunRecord, Stamp, TrustVerdict};
use rustix::process::{Pid, Signal, kill_process};

use crate::common::{Killed, Result, bench, lines, quick, records, stderr, stored, two_at_a_time};

const SHARDS: usize = 3;
const ASKED: [&str; 6] = [
    "--dataset",
    "random",
    "--output-tokens",
    "4",
    "--server-metrics",
    "none",
];

/// Shard `index` of [`SHARDS`] that meets the others, with these arguments too.
fn shard(server: &Server, index: usize, at: &str, run: &Path, more: &[&str]) -> Result<Child> {
    Ok(command(server, index, at, run, more).spawn()?)
}

fn command(server: &Server, index: usize, at: &str, run: &Path, more: &[&str]) -> Command {
    let (url, shard) = (server.url(), format!("{index}/{SHARDS}"));
    let args = ["--url", &url, "--shard", &shard, "--meet", at, "--quiet"];
    let mut command = bench(&args);
    command
        .args(ASKED)
        .args(more)
        .arg("--out")
        .arg(run)
        .env("BENCH_MEET_TOKEN", "a token of the tests")
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    command
}

/// An address that was free a moment ago.
fn free_address() -> Result<String> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string())
}

/// All shards, each with arguments of its own, and what they said.
fn all(
    server: &Server,
    folder: &Path,
    more: impl Fn(usize) -> Vec<&'static str>,
) -> Result<Vec<(PathBuf, Output)>> {
    let at = free_address()?;
    let started: Result<Vec<_>> = (0..SHARDS)
        .map(|index| {
            let run = folder.join(format!("shard-{index}"));
            let child = shard(server, index, &at, &run, &more(index))?;
            Ok((run, child))
        })
        .collect();
    let ended = started?
        .into_iter()
        .map(|(run, child)| Ok((run, child.wait_with_output()?)));
    ended.collect()
}

/// What the server saw of each measured request, in the order of their names.
fn seen(server: Server) -> Vec<(String, u64, u64)> {
    let of = |entry: Entry| (entry.id, entry.prompt_tokens, entry.completion_tokens);
    let asked = |(id, ..): &(String, u64, u64)| !id.starts_with("preflight");
    let mut seen: Vec<_> = server
        .shutdown()
        .into_iter()
        .map(of)
        .filter(asked)
        .collect();
    seen.sort();
    seen
}

/// A busy machine may make its stamps untrusted: that is not what is looked at here.
fn came_to_the_end(output: &Output) {
    let code = output.status.code();
    assert!(matches!(code, Some(0 | 3)), "{code:?}: {}", stderr(output));
}

/// When a shard sent its first measured request of a cell, on shard 0's clock.
fn began(run: &Path, shard: &RunRecord, cell: &str) -> Result<Stamp> {
    let records = records(run)?;
    let mine = records
        .iter()
        .filter(|record| record.cell == cell && record.phase == Phase::Measure);
    let first = mine
        .filter_map(|record| record.wire.sent)
        .min()
        .ok_or("nothing was sent")?;
    let met = shard.clock.met.last().ok_or("no exchange")?;
    Ok(first + met.offset)
}

#[test]
fn a_shard_that_waits_for_the_others_ends_at_a_signal_or_its_deadline() -> Result {
    let folder = tempfile::tempdir()?;
    let server = quick(EngineConfig::default())?;
    let run = folder.path().join("run");
    let wait = |more: &[&str]| {
        let more = [&["--concurrency", "3", "--requests", "30"], more].concat();
        shard(&server, 0, &free_address()?, &run, &more).map(Killed)
    };
    let mut signalled = wait(&[])?;
    let said = signalled.0.stderr.take().ok_or("no stderr")?;
    let mut said = BufReader::new(said).lines();
    while !said
        .next()
        .ok_or("it ended")??
        .contains("waiting for 2 other shards")
    {}
    let pid = Pid::from_raw(i32::try_from(signalled.0.id())?).ok_or("no process")?;
    kill_process(pid, Signal::TERM)?;
    assert_eq!(signalled.0.wait()?.code(), Some(5));
    assert_eq!(wait(&["--deadline", "1s"])?.0.wait()?.code(), Some(1));
    assert!(!run.exists());
    Ok(())
}

#[test]
fn shards_that_meet_ask_what_one_program_asks_and_begin_together() -> Result {
    let folder = tempfile::tempdir()?;
    let args = ["--concurrency", "4,6", "--requests", "60", "--warmup-drain"];
    let server = quick(EngineConfig::default())?;
    let shards = all(&server, folder.path(), |_| args.to_vec())?;
    let asked = seen(server);

    let server = quick(EngineConfig::default())?;
    let one = folder.path().join("one");
    let url = server.url();
    let all = [&["--url", &url][..], &ASKED, &args].concat();
    let output = bench(&all).arg("--out").arg(&one).output()?;
    came_to_the_end(&output);
    assert_eq!(asked, seen(server));

    let found: Result<Vec<_>> = shards.iter().map(|(run, _)| stored(run)).collect();
    let found = found?;
    for (cell, of_all) in stored(&one)?.cells.iter().enumerate() {
        let mut sum = PlanHash::default();
        for shard in &found {
            let part = shard.cells[cell].plan.hash.as_ref().ok_or("no hash")?;
            sum += part.parse()?;
        }
        assert_eq!(of_all.plan.hash, Some(sum.to_string()));
        let starts: Result<Vec<_>> = shards
            .iter()
            .zip(&found)
            .map(|((run, _), shard)| began(run, shard, &of_all.id))
            .collect();
        let starts = starts?;
        // on a machine that has other things to do, too: they were let go at one instant
        let apart = starts
            .iter()
            .max()
            .zip(starts.iter().min())
            .map(|(last, first)| *last - *first);
        assert!(apart < Some(Nanos::from_secs(1)), "{starts:?}");
    }
    for (shard, (_, output)) in found.iter().zip(&shards) {
        came_to_the_end(output);
        // at the roll call, and of two cells before the warm-up, before the measurement and after it
        assert_eq!(shard.clock.met.len(), 7);
        let meeting = |shard: &RunRecord| shard.clock.meeting.clone();
        assert!(meeting(shard).is_some_and(|name| Some(name) == meeting(&found[0])));
        assert!(
            !shard
                .trust
                .reasons
                .iter()
                .any(|reason| reason.code == "shard_lost")
        );
    }
    Ok(())
}

/// A hundred requests are the fewest of a mean. Where each shard counted its own, three shards would make three hundred.
#[test]
fn the_requests_of_all_shards_decide_when_a_cell_is_precise_enough() -> Result {
    let folder = tempfile::tempdir()?;
    let fixed = Fixed {
        ttft_ms: 40.0,
        itl_ms: 1.0,
        jitter: 0.0,
        ..Fixed::default()
    };
    let server = Server::start(EngineConfig {
        engine: EngineKind::Fixed(fixed),
        ..EngineConfig::default()
    })?;
    let shards = all(&server, folder.path(), |_| {
        let load = ["--concurrency", "3", "--requests", "3000", "--warmup", "0"];
        [&load[..], &["--precision", "mean:e2e=50%"]].concat()
    })?;
    let mut measured = 0;
    for (run, output) in &shards {
        came_to_the_end(output);
        let of_this = stored(run)?.cells[0].counts.planned;
        assert!((1..100).contains(&of_this), "{of_this}: {}", stderr(output));
        measured += of_this;
    }
    assert!(measured >= 100, "{measured}");
    Ok(())
}

#[test]
fn without_a_meeting_no_shard_can_know_whether_all_are_precise_enough() -> Result {
    let args = [
        "--shard",
        "0/2",
        "--precision",
        "mean:e2e=5%",
        "--rate",
        "5",
    ];
    let output = bench(&[&["--url", "http://127.0.0.1:1"], &args[..]].concat()).output()?;
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(
        said.contains("by its own requests") && said.contains("`meet`"),
        "{said}"
    );
    Ok(())
}

#[test]
fn a_shard_that_would_ask_something_else_is_refused_before_any_load() -> Result {
    let folder = tempfile::tempdir()?;
    let server = quick(EngineConfig::default())?;
    let shards = all(&server, folder.path(), |index| {
        let requests = if index == 2 { "31" } else { "30" };
        vec!["--concurrency", "3", "--requests", requests]
    })?;
    for (run, output) in &shards {
        let said = stderr(output);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("shard 2 has a different configuration than shard 0: `requests` is 31 in shard 2 and 30 in shard 0"), "{said}");
        assert!(!run.exists(), "nothing was measured");
    }
    assert_eq!(seen(server), []);
    Ok(())
}

/// Another build of the same version: the file differs, what it says of itself does not.
#[test]
fn a_shard_of_another_build_is_refused_before_any_load() -> Result {
    let folder = tempfile::tempdir()?;
    let server = quick(EngineConfig::default())?;
    let program = folder.path().join("bench-throughput");
    std::fs::copy(env!("CARGO_BIN_EXE_bench-throughput"), &program)?;
    let file = std::fs::OpenOptions::new().append(true).open(&program);
    file?.write_all(b"another build")?;
    let at = free_address()?;
    let args = ["--concurrency", "3", "--requests", "30"];
    let started: Result<Vec<Child>> = (0..SHARDS)
        .map(|index| {
            let run = folder.path().join(format!("shard-{index}"));
            let shard = command(&server, index, &at, &run, &args);
            let built = if index == 2 {
                program.as_os_str()
            } else {
                shard.get_program()
            };
            let child = Command::new(built)
                .args(shard.get_args())
                .env("BENCH_MEET_TOKEN", "a token of the tests")
                .stderr(Stdio::piped())
                .spawn()?;
            Ok(child)
        })
        .collect();
    for child in started? {
        let output = child.wait_with_output()?;
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("the program file is SHA-256 "), "{said}");
    }
    assert_eq!(seen(server), []);
    Ok(())
}

#[test]
fn a_search_chooses_the_same_stages_in_all_shards_by_the_requests_of_all() -> Result {
    for load in ["", "--closed"] {
        let folder = tempfile::tempdir()?;
        let server = two_at_a_time()?;
        let shards = all(&server, folder.path(), |_| {
            let asked = [
                "--find-capacity",
                "--slo",
                "p90:e2e=400ms",
                "--budget",
                "300",
            ];
            let load = [load].into_iter().filter(|load| !load.is_empty());
            asked.into_iter().chain(load).collect()
        })?;
        let found: Result<Vec<_>> = shards.iter().map(|(run, _)| stored(run)).collect();
        let found = found?;
        let stages = |run: &RunRecord| -> Vec<_> {
            let cells = run.cells.iter();
            let design = |cell: &CellRecord| (cell.id.clone(), cell.stop.clone());
            cells.map(design).collect()
        };
        for (shard, (_, output)) in found.iter().zip(&shards) {
            // a busy machine may leave a search without an answer: what it finds is not looked at here
            let code = output.status.code();
            assert!(
                matches!(code, Some(0 | 3 | 4)),
                "{code:?}: {}",
                stderr(output)
            );
            assert_eq!(stages(shard), stages(&found[0]), "{}", stderr(output));
            let part = shard.analysis.capacity.as_ref().ok_or("no capacity")?;
            assert_eq!((part.value, part.low, part.high), (None, None, None));
            assert!(part.why.as_ref().is_some_and(|why| why.contains("merge")));
        }
        assert!(!found[0].cells.is_empty(), "{}", stderr(&shards[0].1));
        let sent = |cell: &CellRecord| cell.counts.planned + cell.counts.warmup;
        let all: u64 = found.iter().flat_map(|run| &run.cells).map(sent).sum();
        assert!(all <= 300, "{all} requests are more than the budget");
        for at in 0..found[0].cells.len() {
            let of_this = found.iter().map(|run| &run.cells[at]);
            let planned: u64 = of_this.map(|cell| cell.counts.planned).sum();
            let asked = found[0].cells[at].stop.requests;
            assert!(Some(planned) <= asked, "{planned} of {asked:?}");
        }
    }
    Ok(())
}

#[test]
fn the_others_go_on_without_a_shard_that_was_killed() -> Result {
    let folder = tempfile::tempdir()?;
    let server = quick(EngineConfig::default())?;
    let at = free_address()?;
    let run = |index| folder.path().join(format!("shard-{index}"));
    let args = ["--concurrency", "3,6", "--requests", "900"];
    let start = |index| shard(&server, index, &at, &run(index), &args);
    let mut killed = Killed(start(2)?);
    let others = [start(0)?, start(1)?];
    while lines(&run(2))?.is_empty() {
        assert!(killed.0.try_wait()?.is_none(), "it ended by itself");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    drop(killed);
    for (index, child) in others.into_iter().enumerate() {
        let output = child.wait_with_output()?;
        came_to_the_end(&output);
        // what is left of it is to be merged too
        let said = stderr(&output);
        let command = said.contains("2 of 3 shards finished") && said.contains("shard-2 --out");
        assert_eq!(command, index == 0, "{said}");
        let found = stored(&run(index))?;
        let part = format!("throughput (shard {index}/3: a part of the load) of ");
        assert!(found.title.starts_with(&part), "{}", found.title);
        let lost = found
            .trust
            .reasons
            .iter()
            .find(|reason| reason.code == "shard_lost");
        let lost = lost.ok_or("nobody misses it")?;
        assert!(
            lost.message.contains("shard 2 of 3 was lost"),
            "{}",
            lost.message
        );
        assert!(
            lost.concerns("c3") && lost.concerns("c6") && lost.verdict == TrustVerdict::Doubtful
        );
        for cell in &found.cells {
            assert_eq!(
                (cell.counts.planned, cell.counts.completed),
                (300, 300),
                "{}",
                cell.id
            );
        }
    }
    // it has what it asked, each request once
    let kept = records(&run(2))?;
    let mut ids: Vec<_> = kept
        .iter()
        .map(|record| (record.phase, record.id))
        .collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), kept.len());
    assert!(!stored(&run(2))?.complete);
    Ok(())
}
