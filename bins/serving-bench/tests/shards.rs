//! Shards that met and the program that makes one result of theirs.
#![expect(clippy::unwrap_used, reason = "helpers of tests are tests too")]

use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use bench_engine::config::{EngineKind, Fixed};
use bench_engine::{EngineConfig, Server};
use serde_json::Value;

/// The programs of these names in a folder of their own; links would be seen through.
fn programs(folder: &Path, names: &[&str]) {
    for name in names {
        let file = folder.join(name);
        let from = env!("CARGO_BIN_EXE_serving-bench");
        std::fs::hard_link(from, &file)
            .or_else(|_| std::fs::copy(from, &file).map(drop))
            .unwrap();
    }
}

/// An address that was free a moment ago.
fn free_address() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().to_string()
}

/// Both shards of a load of 30 requests that meet, by the programs in the folder, one after the other.
fn both(folder: &Path) -> Vec<Output> {
    let load = ["--concurrency", "4", "--requests", "30", "--warmup", "0"];
    both_of(folder, EngineConfig::default(), &load)
}

fn both_of(folder: &Path, server: EngineConfig, load: &[&str]) -> Vec<Output> {
    let server = Server::start(server).unwrap();
    let at = free_address();
    let shard = |index: usize| -> Child {
        let sizes = ["--output-tokens", "2", "--dataset", "random"];
        let shown = ["--output", "json", "--no-html", "--server-metrics", "none"];
        Command::new(folder.join("bench-throughput"))
            .args(load.iter().chain(&sizes).chain(&shown))
            .args(["--url", &server.url(), "--meet", &at])
            .args(["--shard", &format!("{index}/2"), "--out"])
            .arg(folder.join(format!("shard-{index}")))
            .env("BENCH_MEET_TOKEN", "a token of the tests")
            .env("PATH", folder)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    };
    let shards = [0, 1].map(shard);
    shards.map(|shard| shard.wait_with_output().unwrap()).into()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// Requests of all cells that a shown result counts.
fn planned(shown: &Output) -> u64 {
    let run: Value = serde_json::from_slice(&shown.stdout).unwrap();
    let cells = run["cells"].as_array().unwrap().iter();
    cells
        .map(|cell| cell["counts"]["planned"].as_u64().unwrap())
        .sum()
}

#[test]
fn shard_0_shows_the_result_of_all_and_the_others_leave_it_to_it() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    programs(folder.path(), &["bench-throughput", "bench-report"]);
    let shards = both(folder.path());
    let said = text(&shards[0].stderr);
    // 3: whether the numbers can be believed depends on what else this machine does
    assert!(matches!(shards[0].status.code(), Some(0 | 3)), "{said}");
    assert_eq!(planned(&shards[0]), 30, "{said}");
    let stored = std::fs::read(folder.path().join("merged/run.json")).unwrap();
    assert_eq!(text(&shards[0].stdout), text(&stored));

    let said = text(&shards[1].stderr);
    assert_eq!(shards[1].status.code(), Some(0), "{said}");
    assert_eq!(text(&shards[1].stdout), "");
    assert!(said.contains("shard 0 has merged all results"), "{said}");
}

#[test]
fn without_the_program_that_merges_each_shows_its_own_and_shard_0_says_what_to_do() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    programs(folder.path(), &["bench-throughput"]);
    let shards = both(folder.path());
    let said = text(&shards[0].stderr);
    assert!(
        said.contains("shard 0 cannot merge: bench-report: "),
        "{said}"
    );
    assert!(said.contains("2 of 2 shards finished"), "{said}");
    assert!(said.contains("bench-report merge "), "{said}");
    assert_eq!(planned(&shards[0]) + planned(&shards[1]), 30);
}

/// Two slots of 21 ms: nobody serves more than 96 requests/s of it, and 2 in flight is where it is full.
#[test]
fn what_a_search_of_two_shards_found_is_that_of_all_their_requests() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    programs(folder.path(), &["bench-throughput", "bench-report"]);
    let fixed = Fixed {
        ttft_ms: 20.0,
        itl_ms: 1.0,
        jitter: 0.0,
        max_num_seqs: Some(2),
        ..Fixed::default()
    };
    let server = EngineConfig {
        engine: EngineKind::Fixed(fixed),
        ..EngineConfig::default()
    };
    let asked = [
        "--find-capacity",
        "--slo",
        "p90:e2e=100ms",
        "--budget",
        "1500",
    ];
    let shards = both_of(folder.path(), server, &asked);
    let said = text(&shards[0].stderr);
    let shown: Value = serde_json::from_slice(&shards[0].stdout).unwrap();
    // 4: a busy machine makes requests miss the objective that this server meets
    assert!(
        matches!(shards[0].status.code(), Some(0 | 3 | 4)),
        "{said}{shown}"
    );
    let found = &shown["analysis"]["capacity"];
    // on a machine that is too busy to offer a load it says that instead
    let ended = found["stopped"].as_str().unwrap();
    assert!(matches!(ended, "budget" | "client_limit"), "{found}");
    assert!(found["requests"].as_u64().unwrap() <= 1_500, "{found}");
    assert!(
        found["low"].as_f64().is_none_or(|low| low < 110.0),
        "{found}"
    );
    // the first requests are one at a time, which one of the two sends: no reason to doubt it
    let reasons = shown["trust"]["reasons"].as_array().unwrap().iter();
    let mut alone = reasons.filter(|reason| reason["cell"] == "alone");
    assert!(
        !alone.any(|reason| reason["code"] == "shards_apart"),
        "{shown}"
    );
}
