//! The binary as a user runs it, against the embedded engine and against servers that misbehave.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Output;

use bench_engine::config::{EngineKind, Fixed};
use bench_engine::{EngineConfig, Server};
use bench_schema::{Outcome, Phase, RequestRecord, RunRecord, json_schemas};

use crate::common::{Result, bench, stderr};

fn run_in(folder: &Path, args: &[&str]) -> Result<(Output, RunRecord)> {
    let out = folder.join("run");
    let output = bench(args).arg("--out").arg(&out).output()?;
    let text = std::fs::read_to_string(out.join("run.json")).map_err(|error| {
        format!(
            "{error}; stderr: {}",
            String::from_utf8_lossy(&output.stderr)
        )
    })?;
    Ok((output, RunRecord::from_json(&text)?))
}

fn records(folder: &Path) -> Result<Vec<RequestRecord>> {
    let text = std::fs::read_to_string(folder.join("run/requests.jsonl"))?;
    Ok(text
        .lines()
        .map(serde_json::from_str)
        .collect::<std::result::Result<_, _>>()?)
}

/// A simulated engine that answers as fast as the socket takes it.
fn instant() -> Result<Server> {
    Ok(Server::start(EngineConfig::profile("instant")?)?)
}

#[test]
fn json_that_is_asked_for_is_printed_also_by_a_quiet_run() -> Result {
    let server = instant()?;
    let folder = tempfile::tempdir()?;
    let url = server.url();
    let args = ["--url", &url, "--requests", "4", "--warmup", "0"];
    let quiet = ["--no-hardware", "--quiet", "--output", "json"];
    let (output, run) = run_in(folder.path(), &[&args[..], &quiet].concat())?;
    let shown = RunRecord::from_json(&String::from_utf8_lossy(&output.stdout))?;
    assert_eq!(shown.cells.len(), run.cells.len());
    Ok(())
}

#[test]
fn each_endpoint_is_asked_before_any_load() -> Result {
    let server = instant()?;
    let gone = TcpListener::bind("127.0.0.1:0")?;
    let address = format!("http://{}", gone.local_addr()?);
    drop(gone);
    let urls = format!("{},{address}", server.url());
    let folder = tempfile::tempdir()?;
    let args = ["--url", &urls, "--requests", "20", "--no-hardware"];
    let output = bench(&args)
        .arg("--out")
        .arg(folder.path().join("run"))
        .output()?;
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains(&address) && said.contains("--keep-going"),
        "{said}"
    );
    let asked = server.ledger().take();
    assert!(
        asked.iter().all(|entry| entry.id == "preflight"),
        "{asked:?}"
    );
    Ok(())
}

/// A phase that ends as it begins would be no repeat, and its worker busy for all of it.
#[test]
fn a_cell_that_is_precise_enough_is_not_repeated() -> Result {
    let server = instant()?;
    let folder = tempfile::tempdir()?;
    let url = server.url();
    let args = [
        "--url",
        &url,
        "--concurrency",
        "2",
        "--requests",
        "1000",
        "--precision",
        "mean:e2e=80%",
        "--repeat",
        "3",
        "--warmup",
        "0",
        "--no-hardware",
    ];
    let (output, run) = run_in(folder.path(), &args)?;
    let cell = run.cells.first().ok_or("no cell")?;
    assert!(cell.counts.planned < 1000, "{:?}", cell.counts);
    assert!(
        records(folder.path())?
            .iter()
            .all(|record| record.repeat == 0)
    );
    let said = stderr(&output);
    assert!(
        said.contains("the requested precision was reached after 1 of 3 repeats"),
        "{said}"
    );
    Ok(())
}

#[test]
fn what_does_not_go_together_is_wrong_usage_and_leaves_no_folder() -> Result {
    let folder = tempfile::tempdir()?;
    let run = folder.path().join("run");
    let dataset = ["--dataset", "multiturn:3:10:6", "--input-tokens", "12"];
    let output = bench(&[&["--engine", "instant"][..], &dataset].concat())
        .arg("--out")
        .arg(&run)
        .output()?;
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(stderr(&output).contains("sets these lengths itself"));
    assert!(!run.exists());
    Ok(())
}

fn valid_against_schema(name: &str, value: &serde_json::Value) -> Result {
    let schema = json_schemas()
        .into_iter()
        .find(|(known, _)| *known == name)
        .ok_or("no such schema")?
        .1;
    let validator = jsonschema::validator_for(&serde_json::to_value(schema)?)?;
    let errors: Vec<String> = validator
        .iter_errors(value)
        .map(|error| format!("{error} at {}", error.instance_path()))
        .collect();
    assert!(errors.is_empty(), "{name}: {errors:?}");
    Ok(())
}

#[test]
fn a_closed_loop_accounts_for_every_request_and_keeps_to_its_schema() -> Result {
    let folder = tempfile::tempdir()?;
    let args = [
        "--engine",
        "instant",
        "--concurrency",
        "1,3",
        "--requests",
        "9",
        "--dataset",
        "random",
        "--input-tokens",
        "12",
        "--output-tokens",
        "7",
    ];
    let (output, run) = run_in(folder.path(), &args)?;
    assert!(
        output
            .status
            .code()
            .is_some_and(|code| code == 0 || code == 3),
        "{}",
        stderr(&output)
    );
    assert!(run.complete && run.server.embedded);
    for cell in &run.cells {
        assert!(cell.counts.add_up());
        assert_eq!(
            (cell.counts.planned, cell.counts.completed),
            (9, 9),
            "{:?}",
            cell.counts
        );
    }
    let records = records(folder.path())?;
    assert!(records.iter().all(|record| record.output_tokens == Some(7)));
    assert_eq!(
        records
            .iter()
            .filter(|record| record.phase == Phase::Measure)
            .count(),
        18
    );

    let stored: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(
        folder.path().join("run/run.json"),
    )?)?;
    valid_against_schema("run.schema.json", &stored)?;
    for record in &records {
        valid_against_schema("request.schema.json", &serde_json::to_value(record)?)?;
    }
    let readings = std::fs::read_to_string(folder.path().join("run/hardware.jsonl"))?;
    for line in readings.lines().take(50) {
        valid_against_schema("reading.schema.json", &serde_json::from_str(line)?)?;
    }
    assert!(
        std::fs::read_to_string(folder.path().join("run/report.md"))?.contains("concurrency 3")
    );
    Ok(())
}

#[test]
fn a_cell_that_is_shorter_than_a_scrapes_period_has_the_servers_counters_whole() -> Result {
    let folder = tempfile::tempdir()?;
    let args = [
        "--engine",
        "fixed",
        "--concurrency",
        "1,2,3",
        "--requests",
        "6",
        "--dataset",
        "random",
        "--input-tokens",
        "12",
        "--output-tokens",
        "8",
    ];
    let (output, run) = run_in(folder.path(), &args)?;
    let code = output.status.code();
    assert!(matches!(code, Some(0 | 3)), "{}", stderr(&output));
    assert_eq!(run.cells.len(), 3);
    for cell in &run.cells {
        let hardware = cell.hardware.as_ref().ok_or("no hardware")?;
        let over = hardware.derived.get("server_output_tokens_over_client");
        let over = over.ok_or_else(|| format!("{}: {:?}", cell.id, hardware.unknown))?;
        // the readings that enclose the window are a little wider than it
        assert!((0.5..1.2).contains(&over.value), "{}: {over:?}", cell.id);
    }
    Ok(())
}

#[test]
fn the_same_seed_asks_the_same_whatever_the_server_does() -> Result {
    let mut hashes = Vec::new();
    for profile in ["instant", "fixed"] {
        let folder = tempfile::tempdir()?;
        let args = [
            "--engine",
            profile,
            "--concurrency",
            "2",
            "--requests",
            "4",
            "--seed",
            "9",
            "--output-tokens",
            "3",
            "--warmup",
            "0",
        ];
        let (_, run) = run_in(folder.path(), &args)?;
        hashes.push(run.cells.first().ok_or("no cell")?.plan.hash.clone());
    }
    assert_eq!(hashes.first(), hashes.last());
    let first = hashes.first().and_then(Option::as_deref);
    assert_eq!(first.map(str::len), Some(64));
    Ok(())
}

#[test]
fn an_open_loop_offers_what_was_asked_and_says_what_the_cap_refused() -> Result {
    let folder = tempfile::tempdir()?;
    // answers so slow that none is over while the burst is worked off, however busy the machine is
    let slow = Fixed {
        ttft_ms: 2_000.0,
        jitter: 0.0,
        ..Fixed::default()
    };
    let server = Server::start(EngineConfig {
        engine: EngineKind::Fixed(slow),
        ..EngineConfig::default()
    })?;
    let url = server.url();
    // a burst of 20 at once, 4 of which fit: the rest are records, not delays
    let args = [
        "--url",
        url.as_str(),
        "--rate",
        "100",
        "--arrival",
        "burst:20",
        "--requests",
        "20",
        "--in-flight-cap",
        "4",
        "--output-tokens",
        "3",
        "--warmup",
        "0",
    ];
    let (_, run) = run_in(folder.path(), &args)?;
    let cell = run.cells.first().ok_or("no cell")?;
    assert!(cell.counts.add_up());
    assert_eq!(
        (
            cell.counts.planned,
            cell.counts.completed,
            cell.counts.unsent
        ),
        (20, 4, 16)
    );
    assert_eq!(cell.client.cap_hits, 16);
    let unsent = records(folder.path())?
        .into_iter()
        .filter(|record| matches!(record.wire.outcome, Outcome::Unsent { .. }));
    assert!(unsent.into_iter().all(|record| record.dispatched.is_none()));
    Ok(())
}

#[test]
fn a_closed_loop_is_warmed_up_for_a_time_where_the_server_sizes_prompts() -> Result {
    let folder = tempfile::tempdir()?;
    let asked = "--engine fixed --dataset random --input-tokens 12 --output-tokens 3 --concurrency 2 --requests 4 --warmup 100ms";
    let (_, run) = run_in(folder.path(), &asked.split(' ').collect::<Vec<_>>())?;
    let cell = run.cells.first().ok_or("no cell")?;
    assert_eq!(cell.plan.sized_by, "server /tokenize");
    assert_eq!(cell.counts.completed, 4);
    assert!(cell.counts.warmup > 0);
    Ok(())
}

#[test]
fn a_missed_target_is_exit_code_four_and_a_met_one_is_not() -> Result {
    let server = instant()?;
    let url = server.url();
    for (target, missed) in [("failed==0", false), ("output_tokens_per_s>=1e12", true)] {
        let folder = tempfile::tempdir()?;
        let args = [
            "--url",
            url.as_str(),
            "--concurrency",
            "1",
            "--requests",
            "3",
            "--output-tokens",
            "2",
            "--target",
            target,
        ];
        let (output, run) = run_in(folder.path(), &args)?;
        assert_eq!(run.targets.iter().all(|outcome| outcome.met), !missed);
        if output.status.code() != Some(3) {
            assert_eq!(
                output.status.code(),
                Some(if missed { 4 } else { 0 }),
                "{}",
                stderr(&output)
            );
        }
    }
    Ok(())
}

#[test]
fn a_conversation_waits_for_each_answer_and_holds_what_was_said() -> Result {
    let folder = tempfile::tempdir()?;
    let args = [
        "--engine",
        "instant",
        "--concurrency",
        "2",
        "--requests",
        "6",
        "--dataset",
        "multiturn:3:8:4",
        "--output-tokens",
        "4",
        "--warmup",
        "0",
    ];
    let (_, run) = run_in(folder.path(), &args)?;
    assert_eq!(run.cells.first().map(|cell| cell.counts.completed), Some(6));
    let mut turns = records(folder.path())?;
    turns.sort_by_key(|record| (record.session, record.turn));
    let sent: Vec<_> = turns
        .iter()
        .map(|record| record.wire.request_bytes)
        .collect();
    assert!(
        sent.iter()
            .zip(sent.iter().skip(1))
            .take(2)
            .all(|(before, after)| before < after),
        "{sent:?}"
    );
    Ok(())
}

/// A server that answers every connection with these bytes and closes.
fn server_that_says(bytes: &'static [u8]) -> Result<(String, std::thread::JoinHandle<()>)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let url = format!("http://{}", listener.local_addr()?);
    let thread = std::thread::spawn(move || {
        // as many connections as the probe and a run of one request may make, and then no more
        for stream in listener.incoming().take(64) {
            let Ok(mut stream) = stream else { continue };
            let mut head = [0; 4096];
            let _asked = stream.read(&mut head);
            let _said = stream.write_all(bytes);
        }
    });
    Ok((url, thread))
}

#[test]
fn what_cannot_be_measured_is_one_clear_message_and_exit_code_one() -> Result {
    let html = b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 13\r\nconnection: close\r\n\r\n<html></html>" as &[u8];
    let unauthorised = b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 26\r\nconnection: close\r\n\r\n{\"error\":\"no key, no answer\"" as &[u8];
    for (what, bytes, expected) in [
        ("an HTML page", html, "html"),
        ("a 401", unauthorised, "401"),
        ("a server that closes at once", b"", "clos"),
    ] {
        let (url, _server) = server_that_says(bytes)?;
        let folder = tempfile::tempdir()?;
        let args = [
            "--url",
            url.as_str(),
            "--model",
            "m",
            "--concurrency",
            "1",
            "--requests",
            "2",
            "--warmup",
            "0",
            "--timeout",
            "5s",
            "--server-metrics",
            "none",
        ];
        let output = bench(&args)
            .arg("--out")
            .arg(folder.path().join("run"))
            .output()?;
        assert_eq!(output.status.code(), Some(1), "{what}: {}", stderr(&output));
        assert!(
            stderr(&output).to_lowercase().contains(expected),
            "{what}: {}",
            stderr(&output)
        );
    }
    Ok(())
}

#[test]
fn a_wrong_model_is_said_once_with_the_servers_own_words() -> Result {
    let server = instant()?;
    let folder = tempfile::tempdir()?;
    let url = server.url();
    let wrong = [
        "--url",
        &url,
        "--model",
        "no-such-model",
        "--concurrency",
        "1",
        "--requests",
        "2",
        "--warmup",
        "0",
    ];
    let out = folder.path().join("refused");
    let refused = bench(&wrong).arg("--out").arg(&out).output()?;
    assert_eq!(refused.status.code(), Some(1));
    let said = stderr(&refused);
    assert!(said.contains("404") && said.contains("--model"), "{said}");
    assert!(!out.exists(), "nothing was measured");
    assert_eq!(server.shutdown().len(), 1, "it was asked once");

    let server = instant()?;
    let url = server.url();
    let mut going_on = wrong;
    going_on[1] = &url;
    let (output, run) = run_in(folder.path(), &[&going_on[..], &["--keep-going"]].concat())?;
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        run.cells
            .first()
            .map(|cell| (cell.counts.planned, cell.counts.failed)),
        Some((2, 2))
    );
    Ok(())
}

#[test]
fn every_shipped_configuration_makes_a_plan() -> Result {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../examples/configs");
    let mut seen = 0;
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or_default()
            .to_owned();
        if !name.starts_with("throughput-") {
            continue;
        }
        seen += 1;
        let output = bench(&["--dry-run"]).arg("--config").arg(&path).output()?;
        assert!(output.status.success(), "{name}: {}", stderr(&output));
    }
    assert!(seen >= 5, "only {seen} configurations found");
    Ok(())
}

#[test]
fn closed_loops_open_a_connection_for_each_stream_over_all_their_cells_and_pages_have_their_own()
-> Result {
    // The cells, most streams at once, connections for pages: what the server is, its tokenizer, the length of each prompt are one
    // thread's to ask; the metrics page may be asked for while that one waits.
    for (cells, streams, pages) in [
        (
            "12 --requests 36 --workers 2 --server-metrics none",
            12,
            1..=1,
        ),
        ("64 --requests 96 --repeat 3", 64, 1..=2),
        ("16,256,64 --requests 300", 256, 1..=2),
    ] {
        let folder = tempfile::tempdir()?;
        let server = Server::start(EngineConfig::profile("fixed")?)?;
        let url = server.url();
        let asked = format!(
            "--url {url} --dataset random --input-tokens 12 --output-tokens 3 --concurrency {cells}"
        );
        let args: Vec<&str> = asked.split(' ').collect();
        let (output, run) = run_in(folder.path(), &args)?;
        assert!(run.complete, "{cells}: {}", stderr(&output));
        let mut own = std::net::TcpStream::connect(server.addr().ok_or("a TCP server")?)?;
        own.write_all(b"GET /connections HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")?;
        let mut page = String::new();
        own.read_to_string(&mut page)?;
        let carried: Vec<u64> =
            serde_json::from_str(page.split("\r\n\r\n").nth(1).ok_or("a body")?)?;
        let generations = server.shutdown();
        let with_generations: BTreeSet<u64> =
            generations.iter().map(|entry| entry.connection).collect();
        assert_eq!(with_generations.len(), streams, "{cells}: {carried:?}");
        // and the one that has asked just now
        let others = carried.len() - streams - 1;
        assert!(pages.contains(&others), "{cells}: {carried:?}");
        assert!(!carried.contains(&0), "{cells}: {carried:?}");
    }
    Ok(())
}

#[test]
fn a_cold_start_opens_its_connections_before_the_load_and_tells_what_each_took() -> Result {
    let load =
        "--engine instant --concurrency 8 --workers 2 --warmup 0 --requests 64 --output-tokens 2";
    // slots that begin one after the other too
    for load in [load, &format!("{load} --ramp-up 200ms")] {
        let folder = tempfile::tempdir()?;
        let words: Vec<&str> = load.split(' ').collect();
        run_in(folder.path(), &words)?;
        let records = records(folder.path())?;
        let connections = records.iter().map(|record| &record.wire.connection);
        let new: Vec<_> = connections
            .filter(|connection| !connection.reused)
            .collect();
        // one slot has the connection of the request that tried the server
        assert!((1..8).contains(&new.len()), "{load}: {new:?}");
        for connection in new {
            assert!(connection.beforehand && connection.connect.is_some());
        }
    }
    Ok(())
}
