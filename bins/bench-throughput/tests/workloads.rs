//! What is asked and when, as a user asks for it: every dataset, ramps, shards, several servers.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use bench_engine::{EngineConfig, Server};
use bench_schema::{Load, Phase, PlanHash, RequestRecord, RunRecord};

type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;

fn bench(args: &[&str]) -> Result<Output> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bench-throughput"));
    command
        .args(args)
        .args(["--no-progress", "--no-html", "--no-hardware"])
        .stdin(Stdio::null());
    Ok(command.output()?)
}

/// A run on a simulated engine that answers as fast as the socket takes it.
fn run(folder: &Path, args: &[&str]) -> Result<(RunRecord, Vec<RequestRecord>)> {
    let out = folder.join("run");
    let place = out.to_str().ok_or("no path")?;
    let fixed = ["--warmup", "0", "--out", place];
    let engine: &[&str] = if args.contains(&"--engine") {
        &[]
    } else {
        &["--engine", "instant"]
    };
    let output = bench(&[&fixed, engine, args].concat())?;
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    let text = std::fs::read_to_string(out.join("run.json"))
        .map_err(|error| format!("{args:?}: {error}: {told}"))?;
    let lines = std::fs::read_to_string(out.join("requests.jsonl"))?;
    let records = lines
        .lines()
        .map(serde_json::from_str)
        .collect::<std::result::Result<_, _>>()?;
    Ok((RunRecord::from_json(&text)?, records))
}

fn fixture(name: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/datasets");
    path.join(name).display().to_string()
}

#[test]
fn every_dataset_makes_a_plan_and_a_run() -> Result {
    let of_file = |kind: &str, file: &str| format!("{kind}:{}", fixture(file));
    let datasets = [
        "mixed".to_owned(),
        "random".to_owned(),
        "text".to_owned(),
        "joint:7*16/4+3*32..64/2".to_owned(),
        of_file("joint:empirical", "burstgpt.csv"),
        "study:short".to_owned(),
        "study:gpt2".to_owned(),
        "spread:tiny,short".to_owned(),
        "prefix:3:64:8..32:zipf=1".to_owned(),
        "multiturn:2..3:16:8".to_owned(),
        of_file("sharegpt", "sharegpt.json"),
        of_file("sharegpt-turns", "sharegpt.json"),
        of_file("c4", "c4.jsonl"),
        of_file("c4", "c4.jsonl.gz"),
        of_file("burstgpt", "burstgpt.csv"),
        of_file("azure", "azure.csv"),
        of_file("mooncake", "mooncake.jsonl"),
        of_file("trace", "azure.csv"),
        of_file("jsonl", "prompts.jsonl"),
        of_file("csv", "prompts.csv"),
        of_file("txt", "prompts.txt"),
        of_file("openai-batch", "openai-batch.jsonl"),
    ];
    for dataset in datasets {
        let folder = tempfile::tempdir()?;
        let mut args = vec![
            "--dataset",
            &dataset,
            "--concurrency",
            "2",
            "--requests",
            "9",
        ];
        if dataset.ends_with("prompts.jsonl") {
            // one of its prompts is of token ids
            args.extend(["--api", "openai-completions"]);
        }
        let dry = bench(&[&args[..], &["--dry-run"]].concat())?;
        let shown = String::from_utf8_lossy(&dry.stdout).into_owned();
        assert!(shown.contains("9 requests"), "{dataset}: {dry:?}");
        assert!(shown.contains("prompt: "), "{dataset}: {shown}");
        let (run, _) = run(folder.path(), &args)?;
        let cell = run.cells.first().ok_or("no cell")?;
        assert_eq!(
            (cell.counts.planned, cell.counts.completed),
            (9, 9),
            "{dataset}"
        );
        assert_eq!(
            cell.plan.hash.as_ref().map(String::len),
            Some(64),
            "{dataset}"
        );
    }
    Ok(())
}

#[test]
fn token_ids_go_to_completions_and_to_no_chat() -> Result {
    let folder = tempfile::tempdir()?;
    let args = [
        "--dataset",
        "random-ids:100",
        "--requests",
        "4",
        "--input-tokens",
        "7",
    ];
    let chat = bench(&[&args[..], &["--dry-run"]].concat())?;
    assert!(!chat.status.success());
    let completions = ["--api", "openai-completions", "--concurrency", "1"];
    let (_, records) = run(folder.path(), &[&args[..], &completions[..]].concat())?;
    let counted = |record: &RequestRecord| record.wire.usage.as_ref()?.prompt_tokens;
    assert!(records.iter().all(|record| counted(record) == Some(7)));
    Ok(())
}

#[test]
fn a_dry_run_says_what_only_the_server_can_tell() -> Result {
    let shown = |args: &[&str]| -> Result<String> {
        let output = bench(&[&["--dry-run"], args].concat())?;
        Ok(String::from_utf8(output.stdout)?)
    };
    let open = shown(&["--url", "http://127.0.0.1:1"])?;
    assert!(
        open.contains("the server was not asked (--dry-run): prompts are sized by its /tokenize"),
        "{open}"
    );
    assert!(shown(&[])?.ends_with("nothing was sent (--dry-run)\n"));
    Ok(())
}

#[test]
fn a_replay_ends_with_its_trace() -> Result {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("trace.csv");
    let rows = (0..130).map(|i| format!("{}.{:02},10,2\n", i / 100, i % 100));
    let text: String = std::iter::once("timestamp,input_tokens,output_tokens\n".to_owned())
        .chain(rows)
        .collect();
    std::fs::write(&file, text)?;
    let dataset = format!("trace:{}", file.display());
    let args = ["--arrival", "trace:4", "--dataset", &dataset];
    let (run, records) = run(folder.path(), &args)?;
    let cell = run.cells.first().ok_or("no cell")?;
    assert_eq!((cell.counts.planned, records.len()), (130, 130));
    Ok(())
}

#[test]
fn every_kind_of_arrivals_runs() -> Result {
    let series = tempfile::NamedTempFile::new()?;
    writeln!(series.as_file(), "seconds,requests_per_s\n0,200\n0.05,400")?;
    let series = format!("series:{}", series.path().display());
    let trace = format!("trace:{}", fixture("azure.csv"));
    let kinds: [(&str, &[&str]); 9] = [
        ("poisson", &["--rate", "200"]),
        ("constant", &["--rate", "200"]),
        ("gamma:2", &["--rate", "200"]),
        ("burst:4", &["--rate", "200"]),
        ("ramp:50:400", &[]),
        ("steps:100:300", &[]),
        (&series, &[]),
        ("trace:200", &["--dataset", &trace]),
        ("users:4:20ms", &[]),
    ];
    for (kind, more) in kinds {
        let folder = tempfile::tempdir()?;
        let args = ["--arrival", kind, "--output-tokens", "2", "--requests", "6"];
        let (run, records) = run(folder.path(), &[&args[..], more].concat())?;
        let cell = run.cells.first().ok_or("no cell")?;
        assert_eq!(
            (cell.counts.planned, cell.counts.completed),
            (6, 6),
            "{kind}"
        );
        assert_eq!(records.len(), 6, "{kind}");
    }
    Ok(())
}

/// Most requests that were in flight at once, of these.
fn most_at_once<'a>(records: impl Iterator<Item = &'a RequestRecord>) -> usize {
    let spans: Vec<_> = records
        .filter(|record| record.phase == Phase::Measure)
        .filter_map(|record| Some((record.dispatched?, record.wire.closed?)))
        .collect();
    let at = |instant| {
        spans
            .iter()
            .filter(|(from, to)| *from <= instant && instant < *to)
            .count()
    };
    spans.iter().map(|(from, _)| at(*from)).max().unwrap_or(0)
}

#[test]
fn a_ramp_of_concurrency_keeps_to_its_levels() -> Result {
    let folder = tempfile::tempdir()?;
    let args = [
        "--concurrency",
        "steps:1:4",
        "--requests",
        "40",
        "--output-tokens",
        "8",
        "--workers",
        "2",
    ];
    let (run, records) = run(folder.path(), &args)?;
    let cell = run.cells.first().ok_or("no cell")?;
    assert_eq!(cell.counts.completed, 40);
    assert_eq!(
        (cell.id.as_str(), cell.label.as_str()),
        ("c1-4", "concurrency 1 → 4")
    );
    // the first half of the requests belongs to the level of one
    let first_half = records.iter().filter(|record| record.id < 20);
    assert_eq!(most_at_once(first_half), 1);
    assert!((2..=4).contains(&most_at_once(records.iter())), "of four");
    let reason = cell
        .windows
        .stationarity
        .as_ref()
        .map(|s| s.reason.as_str());
    assert_eq!(reason, Some("the load is ramped over the cell"));
    let report = std::fs::read_to_string(folder.path().join("run/report.md"))?;
    assert!(report.contains("concurrency 1 → 4"), "{report}");
    Ok(())
}

#[test]
fn a_ramp_over_time_ends_with_it() -> Result {
    let folder = tempfile::tempdir()?;
    let args = [
        "--concurrency",
        "ramp:3:1",
        "--duration",
        "300ms",
        "--output-tokens",
        "2",
    ];
    let (run, records) = run(folder.path(), &args)?;
    let cell = run.cells.first().ok_or("no cell")?;
    assert_eq!(cell.id, "c3-to-1");
    assert!(cell.counts.completed > 0 && cell.counts.completed == cell.counts.planned);
    assert!(most_at_once(records.iter()) <= 3);
    Ok(())
}

#[test]
fn shards_ask_together_what_one_program_asks() -> Result {
    let part = |shard: &str| -> Result<(PlanHash, Load)> {
        let folder = tempfile::tempdir()?;
        let args = [
            "--concurrency",
            "4",
            "--requests",
            "20",
            "--output-tokens",
            "2",
        ];
        let (run, _) = run(folder.path(), &[&args[..], &["--shard", shard]].concat())?;
        let cell = run.cells.first().ok_or("no cell")?;
        assert_eq!((cell.id.as_str(), cell.counts.failed), ("c4", 0));
        let hash = cell.plan.hash.as_ref().ok_or("no hash")?;
        Ok((hash.parse()?, cell.load.clone()))
    };
    let mut sum = PlanHash::default();
    for (shard, in_flight) in [("0/3", 2), ("1/3", 1), ("2/3", 1)] {
        let (hash, load) = part(shard)?;
        assert_eq!(load, Load::closed(in_flight), "{shard}");
        sum += hash;
    }
    assert_eq!((sum, Load::closed(4)), part("0/1")?);
    Ok(())
}

#[test]
fn fewer_slots_than_shards_are_refused_unless_each_shard_is_to_have_them_all() -> Result {
    let shown = |args: &[&str]| -> Result<(Option<i32>, String)> {
        let fixed = ["--dry-run", "--concurrency", "8,2", "--shard", "1/3"];
        let output = bench(&[&fixed[..], args].concat())?;
        let text = [output.stdout, output.stderr].concat();
        Ok((output.status.code(), String::from_utf8(text)?))
    };
    let (code, said) = shown(&[])?;
    assert_eq!(code, Some(2), "{said}");
    assert!(
        said.contains("3 shards cannot share 2 in flight in cell c2") && said.contains("per_shard"),
        "{said}"
    );
    let (code, said) = shown(&["--per-shard"])?;
    assert_eq!(code, Some(0), "{said}");
    assert!(
        said.contains("closed loop, 2 in flight") && said.contains("this is shard 1/3"),
        "{said}"
    );
    Ok(())
}

#[test]
fn a_level_that_comes_again_is_a_cell_of_its_own() -> Result {
    let folder = tempfile::tempdir()?;
    let server = Server::start(EngineConfig::profile("instant")?)?;
    let url = server.url();
    let args = ["--url", &url, "--concurrency", "2,1,2", "--requests", "10"];
    let (run, _) = run(folder.path(), &args)?;
    let ids: Vec<&str> = run.cells.iter().map(|cell| cell.id.as_str()).collect();
    assert_eq!(ids, ["c2", "c1", "c2-again2"]);
    assert_ne!(
        run.cells[0].plan.hash, run.cells[2].plan.hash,
        "other prompts"
    );
    Ok(())
}

#[test]
fn several_urls_take_turns_and_are_told_apart() -> Result {
    let folder = tempfile::tempdir()?;
    let servers = [
        Server::start(EngineConfig::profile("instant")?)?,
        Server::start(EngineConfig::profile("instant")?)?,
    ];
    let urls = servers.each_ref().map(Server::url);
    let both = urls.join(",");
    let args = [
        "--url",
        &both,
        "--concurrency",
        "1",
        "--requests",
        "20",
        "--output-tokens",
        "2",
        "--workers",
        "1",
    ];
    let (run, _) = run(folder.path(), &args)?;
    let cell = run.cells.first().ok_or("no cell")?;
    let seen: Vec<(&str, u64)> = cell
        .groups
        .iter()
        .filter(|group| group.by == "endpoint")
        .map(|group| (group.name.as_str(), group.counts.completed))
        .collect();
    assert_eq!(seen, urls.each_ref().map(|url| (url.as_str(), 10)));
    let report = std::fs::read_to_string(folder.path().join("run/report.md"))?;
    for url in &urls {
        // the colon is written so that no page makes a link of it
        let (_, host) = url.split_once("://").ok_or("no scheme")?;
        let host = format!("//{host}");
        let its_row = |line: &str| line.contains(&host) && line.contains("| 10 |");
        assert!(report.lines().any(its_row), "{report}");
    }
    Ok(())
}

#[test]
fn answers_that_are_stopped_on_purpose_are_no_failure() -> Result {
    let folder = tempfile::tempdir()?;
    let args = [
        "--concurrency",
        "1",
        "--requests",
        "5",
        "--output-tokens",
        "50",
    ];
    let (run, records) = run(
        folder.path(),
        &[&args[..], &["--cancel-after", "4", "--engine", "fixed"]].concat(),
    )?;
    let counts = &run.cells.first().ok_or("no cell")?.counts;
    assert_eq!((counts.planned, counts.cancelled), (5, 5));
    assert!(run.complete, "{:?}", run.incomplete_reason);
    for record in &records {
        assert!(record.wire.events.len() >= 4, "{record:?}");
    }
    Ok(())
}

#[test]
fn a_file_is_read_again_or_ends_the_cell_and_is_salted_or_not() -> Result {
    let shown = |args: &[&str]| -> Result<String> {
        let dataset = format!("txt:{}", fixture("prompts.txt"));
        let fixed = ["--dry-run", "--dataset", &dataset, "--concurrency", "1"];
        let output = bench(&[&fixed[..], &["--requests", "7"], args].concat())?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let usual = shown(&[])?;
    assert!(usual.contains("7 requests"), "{usual}");
    assert!(!usual.contains("prompt: What is a glacier?"), "{usual}");
    let plain = shown(&["--salt", "never", "--no-cycle"])?;
    assert!(plain.contains("3 requests"), "{plain}");
    assert!(plain.contains("prompt: What is a glacier?"), "{plain}");
    Ok(())
}

#[test]
fn a_bad_line_far_into_a_file_is_named_or_passed_over() -> Result {
    let mut file = tempfile::NamedTempFile::new()?;
    let mut text = "{\"prompt\": \"one\"}\n".repeat(99_999);
    text.push_str("{\"prompt\": \n{\"prompt\": \"last\"}\n");
    file.write_all(text.as_bytes())?;
    let dataset = format!("jsonl:{}", file.path().display());
    // the last shard of as many as there are requests has one of its own, and reads all lines before it
    let args = [
        "--dataset",
        &dataset,
        "--concurrency",
        "1",
        "--requests",
        "100000",
        "--shard",
        "99999/100000",
        "--per-shard",
    ];
    let folder = tempfile::tempdir()?;
    let out = folder.path().join("stopped").display().to_string();
    let here = ["--engine", "instant", "--warmup", "0", "--out", &out];
    let stopped = bench(&[&args[..], &here].concat())?;
    let told = String::from_utf8_lossy(&stopped.stderr).into_owned();
    assert!(told.contains(":100000: "), "{told}");
    assert_eq!(stopped.status.code(), Some(1), "{told}");
    let (run, _) = run(
        folder.path(),
        &[&args[..], &["--bad-lines", "skip"]].concat(),
    )?;
    let cell = run.cells.first().ok_or("no cell")?;
    assert_eq!((cell.counts.planned, cell.counts.completed), (1, 1));
    Ok(())
}
