//! The search for a capacity, over sockets.

use std::path::Path;
use std::process::{Command, Output};

use crate::common::{Result, bench, quick, stderr, stored, two_at_a_time};
use crate::crash::bench_report;
use bench_engine::EngineConfig;
use bench_schema::SearchEnd;

fn search(url: &str, out: &Path, more: &[&str]) -> Result<Output> {
    let args = ["--url", url, "--find-capacity", "--no-hardware"];
    let shape = [
        "--dataset",
        "random",
        "--input-tokens",
        "4",
        "--output-tokens",
        "2",
    ];
    let mut command = bench(&[&args[..], &shape, more].concat());
    Ok(command.arg("--out").arg(out).output()?)
}

#[test]
fn a_search_stays_within_its_budget_and_what_it_found_does_not_contradict_the_server() -> Result {
    let server = two_at_a_time()?;
    let folder = tempfile::tempdir()?;
    let out = folder.path().join("run");
    let asked = ["--slo", "p95:e2e=400ms", "--budget", "700"];
    let gate = ["--target", "capacity>=100000"];
    let output = search(&server.url(), &out, &[&asked[..], &gate].concat())?;
    let run = stored(&out)?;
    let found = run.analysis.capacity.as_ref().ok_or("no capacity")?;
    assert!(found.requests <= 700, "{found:?}");
    assert!(run.cells.len() >= 3, "{}", stderr(&output));
    // on a machine that is too busy to offer a load it says that instead
    let known = [SearchEnd::Budget, SearchEnd::ClientLimit];
    assert!(known.contains(&found.stopped), "{found:?}");
    // nobody serves more than 100 requests/s of it
    assert!(found.low.is_none_or(|low| low < 110.0), "{found:?}");
    assert_ne!(output.status.code(), Some(0), "the target is not met");
    let said = String::from_utf8(output.stdout)?;
    assert!(said.contains("Capacity  "), "{said}");
    assert!(
        said.contains(&format!("{} requests", found.requests)),
        "{said}"
    );
    Ok(())
}

#[test]
fn a_search_whose_result_is_lost_is_recovered_with_every_stage() -> Result {
    let server = quick(EngineConfig::default())?;
    let folder = tempfile::tempdir()?;
    let out = folder.path().join("run");
    let asked = ["--slo", "p95:e2e=400ms", "--budget", "200"];
    search(&server.url(), &out, &asked)?;
    let cells = |run: &bench_schema::RunRecord| -> Vec<_> {
        let cells = run.cells.iter();
        let told = cells.map(|cell| (cell.id.clone(), cell.load.clone(), cell.counts.clone()));
        told.collect()
    };
    let before = cells(&stored(&out)?);
    assert!(before.len() >= 3, "{before:?}");
    std::fs::remove_file(out.join("run.json"))?;
    let mut recover = Command::new(bench_report()?);
    let output = recover.arg("recover").arg(&out).output()?;
    assert_eq!(cells(&stored(&out)?), before, "{}", stderr(&output));
    Ok(())
}

#[test]
fn an_objective_that_nothing_meets_is_said_at_once() -> Result {
    let server = two_at_a_time()?;
    let folder = tempfile::tempdir()?;
    let out = folder.path().join("runs");
    let asked = ["--slo", "p95:e2e=5ms", "--target", "capacity>=1"];
    for (load, at) in [("--closed", "at 1 in flight"), ("", "by requests sent one")] {
        let out = out.join(format!("run{load}"));
        let load = [load].into_iter().filter(|load| !load.is_empty());
        let asked: Vec<&str> = asked.into_iter().chain(load).collect();
        let output = search(&server.url(), &out, &asked)?;
        let run = stored(&out)?;
        let found = run.analysis.capacity.as_ref().ok_or("no capacity")?;
        assert_eq!(found.stopped, SearchEnd::MissedAlone, "{found:?}");
        assert_eq!(found.value, None);
        // higher loads are doubled until answers fall behind, which two at a time do soon
        assert!(run.cells.len() <= 6, "{found:?}");
        // which of the codes it is, trust has a say in
        assert_ne!(output.status.code(), Some(0));
        let said = String::from_utf8(output.stdout)?;
        let told = format!("Capacity  none; missed already {at}");
        assert!(said.contains(&told), "{said}");
    }
    Ok(())
}

#[test]
fn a_quiet_search_prints_its_answer() -> Result {
    let server = two_at_a_time()?;
    let folder = tempfile::tempdir()?;
    let out = folder.path().join("run");
    let output = search(&server.url(), &out, &["--slo", "p95:e2e=5ms", "--quiet"])?;
    let said = String::from_utf8(output.stdout)?;
    assert_eq!(said.lines().count(), 1, "{said}");
    // on a machine that is too busy to offer a load it says that instead
    let known = [
        ": capacity none; missed already by requests sent one",
        ": capacity cannot tell; the client is the limit",
    ];
    assert!(known.iter().any(|known| said.contains(known)), "{said}");
    Ok(())
}

#[test]
fn a_search_ends_when_its_server_is_dead_before_a_stage_is_measured() -> Result {
    let dead = bench_engine::PlannedFault {
        fault: "close-head".parse()?,
        from: 12,
        until: None,
        every: 1,
        share: 1.0,
    };
    let server = quick(EngineConfig {
        faults: vec![dead],
        ..EngineConfig::default()
    })?;
    let folder = tempfile::tempdir()?;
    let out = folder.path().join("run");
    let limits = ["--slo", "p95:e2e=1s", "--deadline", "60s"];
    let output = search(&server.url(), &out, &limits)?;
    let run = stored(&out)?;
    let early: Vec<_> = run.cells.iter().map(|cell| &cell.ended_early).collect();
    let (last, before) = early.split_last().ok_or("no cell")?;
    assert!(
        before.iter().all(|cell| cell.is_none()),
        "{}",
        stderr(&output)
    );
    let why = last.as_ref().ok_or("the last stage was not ended")?;
    assert!(run.incomplete_reason.is_some_and(|told| told.contains(why)));
    let found = run.analysis.capacity.ok_or("no capacity")?;
    assert_eq!((found.stopped, found.value), (SearchEnd::Ended, None));
    assert!(
        found.why.as_ref().is_some_and(|told| told.contains(why)),
        "{found:?}"
    );
    let mut codes = run.trust.reasons.iter().map(|reason| &reason.code);
    assert!(codes.any(|code| code == "nothing_measured"));
    assert_eq!(output.status.code(), Some(3));
    Ok(())
}

#[test]
fn what_does_not_go_with_a_search_is_refused_by_name() -> Result {
    let folder = tempfile::tempdir()?;
    let out = folder.path().join("run");
    let refused = |more: &[&str]| -> Result<String> {
        let output = search("http://127.0.0.1:9", &out, more)?;
        assert_eq!(output.status.code(), Some(2), "{more:?}");
        Ok(stderr(&output))
    };
    assert!(refused(&[])?.contains("slo"));
    for (key, flag) in [
        ("rate", &["--rate", "3"][..]),
        ("concurrency", &["--concurrency", "3"]),
        ("requests", &["--requests", "3"]),
        ("duration", &["--duration", "3s"]),
        ("repeat", &["--repeat", "3"]),
        ("meet", &["--shard", "0/2"]),
        ("versus", &["--versus", "http://127.0.0.1:8"]),
        ("in_flight_cap", &["--in-flight-cap", "3"]),
        ("precision", &["--precision", "p99:ttft=5%"]),
        ("arrival", &["--arrival", "ramp:1:4"]),
        ("budget", &["--budget", "0"]),
    ] {
        let said = refused(&[&["--slo", "p95:e2e=1s"], flag].concat())?;
        assert!(said.contains(key), "{flag:?}: {said}");
    }
    Ok(())
}
