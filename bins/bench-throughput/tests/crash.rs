//! A run that is killed at any point keeps every request that was over, and nothing has to be done for it.
//!
//! `CRASHES=200 CRASH_LAG_MS=1000 cargo test -p bench-throughput --test crash -- --nocapture` (`just crash`) kills that often, and holds what was not
//! on disk yet against a second. On a machine that also does other things the kernel may take longer, so that limit is off by default.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::common::{Killed, Result, bench, endless, lines, quick, records, stored};
use bench_engine::{EngineConfig, Server, clock};
use bench_metrics::{CellContext, summarise_cell};
use bench_schema::{CELLS_FILE, CellProgress, JournalFile, Metric, Phase, RequestRecord};

/// Requests in flight.
const SLOTS: usize = 4;
/// Kills where nobody asks for more.
const CRASHES: u64 = 6;
/// Longest life of a run, ms.
const LONGEST_MS: u64 = 2_000;

#[test]
fn a_run_that_is_killed_at_any_point_keeps_every_request_that_was_over() -> Result {
    let crashes = number("CRASHES")?.unwrap_or(CRASHES);
    let limit_ms = number("CRASH_LAG_MS")?;
    let (mut kept, mut worst_ms, mut lost) = (0, 0, 0);
    for crash in 0..crashes {
        let after = one_crash(crash).map_err(|error| format!("crash {crash}: {error}"))?;
        kept += after.kept;
        lost += after.lost;
        worst_ms = worst_ms.max(after.oldest_lost_ms);
    }
    println!(
        "{crashes} kills: {kept} requests kept, {lost} were over and not yet on disk, the oldest of them for {worst_ms} ms"
    );
    assert!(kept > 0, "every run was killed before its first request");
    assert!(
        limit_ms.is_none_or(|limit| worst_ms <= limit),
        "a request was over for {worst_ms} ms without being on disk"
    );
    Ok(())
}

fn number(variable: &str) -> Result<Option<u64>> {
    std::env::var_os(variable)
        .map(|text| Ok(text.to_string_lossy().parse()?))
        .transpose()
}

struct After {
    kept: usize,
    lost: usize,
    oldest_lost_ms: u64,
}

fn one_crash(crash: u64) -> Result<After> {
    let server = quick(EngineConfig::default())?;
    let folder = tempfile::tempdir()?;
    let run = folder.path().join("run");
    let mut child = start(&server, &run)?;
    // where the machine is too busy for a run to begin in the time below, every third one is under way all the same
    while crash % 3 == 2 && lines(&run)?.is_empty() && child.0.try_wait()?.is_none() {
        std::thread::yield_now();
    }
    // any point of its life: a number that is spread over it, and the same each time
    let spread = (crash.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 11) % LONGEST_MS;
    std::thread::sleep(Duration::from_millis(spread));
    if let Some(status) = child.0.try_wait()? {
        return Err(format!("it ended before it was killed: {status}").into());
    }
    let killed_ns = clock::now_ns();
    drop(child);
    if !run.join("run.json").exists() {
        // it had not begun
        assert!(lines(&run)?.is_empty());
        return Ok(After {
            kept: 0,
            lost: 0,
            oldest_lost_ms: 0,
        });
    }
    let kept = records(&run)?;
    let begun: Vec<CellProgress> = serde_json::from_slice(&fs::read(run.join(CELLS_FILE))?)?;
    let has_begun = |record: &RequestRecord| begun.iter().any(|cell| cell.cell == record.cell);
    assert!(kept.iter().all(has_begun), "{begun:?}");
    no_holes(&kept)?;
    recovered(&run, &kept)?;
    let on_disk: BTreeSet<String> = kept.iter().map(name).collect();
    let lost = server
        .shutdown()
        .into_iter()
        .filter(|entry| !on_disk.contains(&entry.id) && entry.id != "preflight")
        .filter_map(|entry| entry.end_ns.filter(|end| *end < killed_ns))
        .map(|end| (killed_ns - end) / 1_000_000)
        .collect::<Vec<_>>();
    Ok(After {
        kept: kept.len(),
        lost: lost.len(),
        oldest_lost_ms: lost.into_iter().max().unwrap_or(0),
    })
}

fn start(server: &Server, run: &Path) -> Result<Killed> {
    endless(
        server,
        SLOTS,
        run,
        &["--input-tokens", "12", "--workers", "1"],
    )
}

fn name(record: &RequestRecord) -> String {
    format!("{}-{}-{}", record.cell, record.repeat, record.id)
}

/// A slot takes its next request when the one before is recorded. So when request N was over, all before it were, but those in the other
/// slots: what is on disk has no holes, whatever the moment.
fn no_holes(kept: &[RequestRecord]) -> Result {
    let ids: BTreeSet<u64> = kept.iter().map(|record| record.id).collect();
    assert_eq!(ids.len(), kept.len(), "a request is there twice");
    for (before, id) in ids.iter().enumerate() {
        let missing = id - before as u64;
        if missing >= SLOTS as u64 {
            return Err(format!("{missing} requests before {id} are not on disk").into());
        }
    }
    Ok(())
}

/// `bench-report recover` gives what the records on disk say, and calls the run incomplete.
fn recovered(run: &Path, kept: &[RequestRecord]) -> Result {
    let before = stored(run)?;
    assert!(!before.complete && before.incomplete_reason.is_some());
    let output = Command::new(bench_report()?)
        .arg("recover")
        .arg(run)
        .output()?;
    if kept.is_empty() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(format!("recover: {said}").into());
    }
    let after = stored(run)?;
    assert!(!after.complete, "a killed run is not complete");
    let cell = after.cells.first().ok_or("no cell")?;
    let expected = summarise_cell(kept, CellContext::new(cell.load.clone()));
    let measured = kept.iter().filter(|record| record.phase == Phase::Measure);
    assert_eq!(cell.counts.planned, measured.count() as u64);
    assert!(cell.counts.add_up());
    assert_eq!(cell.counts, expected.counts);
    for metric in [Metric::Ttft, Metric::E2e, Metric::Itl] {
        let (own, its) = (expected.metrics.get(&metric), cell.metrics.get(&metric));
        assert_eq!(own.map(|d| d.n), its.map(|d| d.n), "{metric:?}");
        // on a busy machine every token may have waited for the one read: then all gaps are 0
        let means = own.zip(its).map(|(own, its)| (own.mean, its.mean));
        let same = means.is_none_or(|(own, its)| (own - its).abs() <= 1e-6 * its.abs());
        assert!(same, "{metric:?}: {means:?}");
    }
    Ok(())
}

#[test]
fn a_run_that_is_going_on_is_neither_recovered_nor_measured_over() -> Result {
    let server = quick(EngineConfig::default())?;
    let folder = tempfile::tempdir()?;
    let run = folder.path().join("run");
    let mut child = start(&server, &run)?;
    let journal = run.join(JournalFile::Requests.part_name(0));
    while fs::metadata(&journal).map_or(0, |meta| meta.len()) == 0 {
        assert!(child.0.try_wait()?.is_none(), "it ended");
        std::thread::yield_now();
    }
    let before = fs::read_to_string(run.join("run.json"))?;
    let refused = Command::new(bench_report()?)
        .arg("recover")
        .arg(&run)
        .output()?;
    assert!(!refused.status.success());
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(said.contains("still being measured"), "{said}");
    let second = bench(&["--engine", "instant", "--quick"])
        .arg("--out")
        .arg(&run)
        .output()?;
    assert!(!second.status.success());
    assert_eq!(fs::read_to_string(run.join("run.json"))?, before);
    assert!(child.0.try_wait()?.is_none(), "the first run goes on");
    drop(child);
    let allowed = Command::new(bench_report()?)
        .arg("recover")
        .arg(&run)
        .output()?;
    assert!(allowed.status.success(), "the lock ends with the run");
    Ok(())
}

/// The command that lies beside this benchmark; built where the tests of this package run alone.
pub(crate) fn bench_report() -> Result<PathBuf> {
    let path = Path::new(env!("CARGO_BIN_EXE_bench-throughput")).with_file_name("bench-report");
    if !path.exists() {
        let built = Command::new(env!("CARGO"))
            .args(["build", "--quiet", "--bin", "bench-report"])
            .status()?;
        assert!(
            built.success() && path.exists(),
            "bench-report is not there"
        );
    }
    Ok(path)
}
