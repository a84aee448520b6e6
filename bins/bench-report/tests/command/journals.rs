//! One conclusion however a run is read, and journals that are not those that were written.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use bench_insight::{CellConclusion, Conclusion, conclude_run};
use bench_schema::{
    ArrivalKind, BEGIN_FILE, ClientRecord, JOURNAL_FILE, JournalFile, JournalPart, Load, Nanos,
    PartMeter, RequestRecord, RunRecord, TrustVerdict,
};
use serde_json::{Value, json};

use crate::support::{EPOCH, blank, command, ended, killed, lines, requests, stored};

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A run of one open-loop cell, held against everything that can be asked.
pub(crate) fn open_run() -> Value {
    let mut run = blank();
    let mut cell = run["cells"][1].clone();
    cell["load"] = serde_json::to_value(Load::Open {
        rate_per_s: Some(30.0),
        arrival: ArrivalKind::Constant,
        in_flight_cap: None,
    })
    .unwrap();
    cell["headline"] = "due".into();
    cell["factors"] = json!({"rate": 30.0});
    cell["stop"] = json!({"precision": ["p90:e2e=50%"]});
    run["cells"] = json!([cell]);
    run["config"] = json!({
        "slo": ["e2e=200ms"], "target": ["failed<=1000", "ttft.p95<=1s"], "price_per_hour": 2.5,
        "scenario_set": {"scenario": [{"name": "chat", "use_cases": ["short-qa"], "slos": ["p90:e2e=10ms"]}]},
    });
    run
}

/// What does not depend on who measured: everything but the client's own facts and the plan's counts.
fn told(mut run: RunRecord) -> Value {
    for cell in &mut run.cells {
        cell.client = ClientRecord::default();
        cell.plan.hash = None;
    }
    json!({
        "cells": run.cells, "analysis": run.analysis, "targets": run.targets, "findings": run.findings,
        "trust": run.trust.reasons.iter().map(|reason| &reason.code).filter(|code| !["incomplete", "journal_unlisted"].contains(&code.as_str())).collect::<Vec<_>>(),
    })
}

/// Three cells, the second of which was never begun, and readings all the while: made again one by one, apart as one program measures them and overlapping as
/// those of shards do, they are what they are side by side.
#[test]
fn cells_that_are_concluded_one_by_one_are_those_that_are_concluded_together() {
    let folder = tempfile::tempdir().unwrap();
    let reading = |n: u64| {
        json!({"from": n * 250_000_000, "to": n * 250_000_000 + 1_000_000, "source": "host", "values":
            {"load_1m": (n * 7 % 5) as f64, "net_rx_bytes_total": (n * n) as f64}})
    };
    let readings: Vec<Value> = (0..80).map(reading).collect();
    for (how, from_s) in [("apart", 6), ("overlapping", 3)] {
        let mut run = blank();
        let cells = ["c1", "never", "c4"].map(|id| {
            let mut cell = run["cells"][usize::from(id == "c4")].clone();
            cell["id"] = id.into();
            cell
        });
        run["cells"] = json!(cells);
        if how == "overlapping" {
            run["host"]["facts"] = json!({"shards": "1"});
        }
        let mut records = requests("c1", 1, 40, Nanos::ZERO, 1.0);
        records.extend(requests("c4", 4, 120, Nanos::from_secs(from_s), 1.0));
        records.sort_by_key(RequestRecord::last_instant);
        let at = killed(&folder.path().join(how), &run, &records);
        let lines: Vec<String> = readings.iter().map(Value::to_string).collect();
        fs::write(
            at.join("hardware.jsonl"),
            lines.join(
                "
",
            ) + "
",
        )
        .unwrap();
        let said = command(&["recover", text(&at)]);
        assert_eq!(said.code, Some(0), "{}", said.err);
        assert!(
            said.err.contains("2 cells rebuilt from 160 records"),
            "{}",
            said.err
        );
        let recovered = stored(&at);

        let mut together = RunRecord::from_json(&run.to_string()).unwrap();
        let mut conclusion = Conclusion::new(&together).unwrap();
        for record in &records {
            conclusion.push(record);
        }
        for reading in &readings {
            conclusion.push_reading(serde_json::from_value(reading.clone()).unwrap());
        }
        let done = conclusion.finish(&mut together);
        together.duration = recovered.duration;
        conclude_run(&mut together, done.evidence).unwrap();
        assert_eq!(told(recovered), told(read_again(&together)), "{how}");
        let machines = together.cells.iter().map(|cell| cell.hardware.as_ref());
        let series: Vec<usize> = machines.map(|read| read.unwrap().resources.len()).collect();
        assert_eq!(series, [2, 2], "{how}");
    }
}

#[test]
fn a_run_has_one_conclusion_live_recovered_and_merged_from_its_shards() {
    let folder = tempfile::tempdir().unwrap();
    let records = requests("c4", 4, 240, Nanos::ZERO, 1.0);
    // live: cell by cell, as the recorder saw the requests
    let mut live = RunRecord::from_json(&open_run().to_string()).unwrap();
    let asked = bench_insight::Asked::of(&live.config).unwrap();
    let mut cell = live.cells.remove(0);
    let mut conclusion = CellConclusion::new(&cell, &asked);
    for record in &records {
        conclusion.push(record);
    }
    assert!(
        conclusion.is_enough(),
        "a rule of ± 50 % is met by 240 requests"
    );
    let evidence = conclusion.finish(&mut cell, &[], &live.server.urls);
    live.cells.push(cell);
    conclude_run(&mut live, vec![evidence]).unwrap();
    assert!(live.cells[0].analysis.precision[0].reached);
    assert_eq!(
        live.cells[0].slos.len(),
        2,
        "the scenario's objective is judged too"
    );
    let findings = serde_json::to_string(&live.findings).unwrap();
    assert!(
        findings.contains("P90 E2E of short-qa"),
        "the scenario's objective is told: {findings}"
    );

    let recovered = killed(&folder.path().join("killed"), &open_run(), &records);
    fs::remove_file(recovered.join("hardware.jsonl")).unwrap();
    assert_eq!(command(&["recover", text(&recovered)]).code, Some(0));
    assert_eq!(told(stored(&recovered)), told(read_again(&live)));

    let shards: Vec<PathBuf> = (0..2_u64)
        .map(|index| {
            let mut run = open_run();
            run["config"]["shard"] = format!("{index}/2").into();
            run["clock"]["unix_epoch_ns"] = EPOCH.into();
            let mine: Vec<RequestRecord> = records
                .iter()
                .filter(|record| record.id % 2 == index)
                .cloned()
                .collect();
            let at = ended(&folder.path().join(format!("shard-{index}")), &run, &mine);
            fs::remove_file(at.join("hardware.jsonl")).unwrap();
            at
        })
        .collect();
    let out = folder.path().join("merged");
    let said = command(&[
        "merge",
        text(&shards[0]),
        text(&shards[1]),
        "--out",
        text(&out),
    ]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    let merged = stored(&out);
    assert_eq!(told(merged.clone()), told(read_again(&live)));
    // and it is whole by its own list
    assert_eq!(command(&["render", text(&out)]).code, Some(0));
    assert_eq!(merged.journal[0].lines, 240);
}

fn stored_json(run: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(run.join("run.json")).unwrap()).unwrap()
}

fn read_again(run: &RunRecord) -> RunRecord {
    RunRecord::from_json(&bench_schema::to_json(run).unwrap()).unwrap()
}

/// What a part with this text is listed as.
pub(crate) fn part(name: &str, text: &str) -> JournalPart {
    let mut meter = PartMeter::default();
    meter.update(text.as_bytes());
    meter.part(name)
}

/// A run that ended, its requests in three parts, and run.json telling what each holds.
fn listed(folder: &Path) -> PathBuf {
    let records = requests("c4", 4, 120, Nanos::ZERO, 1.0);
    let mut run = blank();
    run["cells"].as_array_mut().unwrap().remove(0);
    let run = ended(&folder.join("run"), &run, &records);
    let mut parts = Vec::new();
    for (number, some) in records.chunks(40).enumerate() {
        let name = JournalFile::Requests.part_name(u32::try_from(number).unwrap());
        let text = lines(some);
        fs::write(run.join(&name), &text).unwrap();
        parts.push(part(&name, &text));
    }
    fs::remove_file(run.join("hardware.jsonl")).unwrap();
    let mut record = stored(&run);
    record.journal = parts;
    fs::write(
        run.join("run.json"),
        serde_json::to_string(&record).unwrap(),
    )
    .unwrap();
    run
}

/// Every command that reads a run refuses it, names `what`, and goes on where it is told to, with an untrusted run.
fn is_refused(run: &Path, what: &[&str]) {
    let out = run.with_file_name("out");
    let name = text(run);
    let mut commands = vec![
        vec!["render", name],
        vec!["compare", name, name],
        vec!["gate", name, name, "--max-regression", "e2e:50%"],
        vec!["capacity", name],
        vec!["export", name, "--format", "vllm", "--out", text(&out)],
        vec!["baseline", "save", "b", name, "--baselines", text(&out)],
    ];
    for arguments in &commands {
        let said = command(arguments);
        assert_eq!(said.code, Some(1), "{arguments:?}: {}", said.err);
        for what in what {
            assert!(said.err.contains(what), "{arguments:?}: {}", said.err);
        }
    }
    let mut render = commands.swap_remove(0);
    render.push("--damaged-ok");
    let said = command(&render);
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(said.out.contains("UNTRUSTED"), "{}", said.out);
    assert!(said.err.contains(what[0]), "{}", said.err);
}

#[test]
fn a_missing_part_is_refused() {
    for name in [
        "requests.jsonl",
        "requests.0001.jsonl",
        "requests.0002.jsonl",
    ] {
        let folder = tempfile::tempdir().unwrap();
        let run = listed(folder.path());
        assert_eq!(command(&["render", text(&run)]).code, Some(0));
        fs::remove_file(run.join(name)).unwrap();
        is_refused(&run, &[name, "missing"]);
    }
}

#[test]
fn a_truncated_part_is_refused_with_the_line_it_ends_after() {
    let folder = tempfile::tempdir().unwrap();
    let run = listed(folder.path());
    let path = run.join("requests.0001.jsonl");
    let whole = fs::read_to_string(&path).unwrap();
    let some: String = whole.split_inclusive('\n').take(25).collect();
    fs::write(&path, some).unwrap();
    is_refused(
        &run,
        &["requests.0001.jsonl ends after line 25; 40 lines were written"],
    );
}

#[test]
fn a_flipped_bit_is_refused_even_where_every_line_can_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let run = listed(folder.path());
    let path = run.join("requests.0002.jsonl");
    let whole = fs::read_to_string(&path).unwrap();
    let digit = whole.find("\"sent\":").unwrap() + 12;
    let mut bytes = whole.into_bytes();
    bytes[digit] ^= 1;
    fs::write(&path, &bytes).unwrap();
    is_refused(&run, &["requests.0002.jsonl was changed"]);
    bytes[3] = b'\\';
    fs::write(&path, &bytes).unwrap();
    is_refused(&run, &["requests.0002.jsonl: line 1 cannot be read"]);
}

#[test]
fn a_part_that_was_copied_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let run = listed(folder.path());
    fs::copy(run.join("requests.jsonl"), run.join("requests.0003.jsonl")).unwrap();
    is_refused(&run, &["requests.0003.jsonl does not belong to this run"]);
}

#[test]
fn requests_that_never_reached_the_disk_are_told_to_whoever_needs_them() {
    let folder = tempfile::tempdir().unwrap();
    let run = listed(folder.path());
    let mut record = stored(&run);
    record.journal.pop();
    fs::remove_file(run.join("requests.0002.jsonl")).unwrap();
    let text = bench_schema::to_json(&record).unwrap();
    fs::write(run.join("run.json"), text).unwrap();
    is_refused(&run, &["80 of 120 requests were written"]);
}

#[test]
fn a_run_of_an_older_program_is_held_against_its_counts() {
    let folder = tempfile::tempdir().unwrap();
    let run = listed(folder.path());
    let mut record = stored(&run);
    record.journal.clear();
    fs::write(
        run.join("run.json"),
        serde_json::to_string(&record).unwrap(),
    )
    .unwrap();
    assert_eq!(command(&["render", text(&run)]).code, Some(0));
    fs::remove_file(run.join("requests.0002.jsonl")).unwrap();
    is_refused(&run, &["has 80 records of c4, but run.json counts 120"]);
}

/// Shard `index` of 2, of those requests of the plan that are its own by `parity`.
fn shard(
    folder: &Path,
    index: u64,
    parity: u64,
    end: fn(&Path, &Value, &[RequestRecord]) -> PathBuf,
) -> PathBuf {
    let records = requests("c4", 4, 120, Nanos::ZERO, 1.0);
    let mine: Vec<_> = records.into_iter().filter(|r| r.id % 2 == parity).collect();
    let mut run = open_run();
    run["config"]["shard"] = format!("{index}/2").into();
    end(&folder.join(format!("shard-{index}")), &run, &mine)
}

#[test]
fn a_shard_that_is_there_twice_is_refused_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (zero, one) = (
        shard(folder.path(), 0, 0, ended),
        shard(folder.path(), 1, 0, ended),
    );
    let out = folder.path().join("merged");
    let said = command(&["merge", text(&zero), text(&one), "--out", text(&out)]);
    assert_eq!(said.code, Some(1), "{}", said.err);
    assert!(said.err.contains("is in two shards"), "{}", said.err);
    assert!(!out.exists());
}

#[test]
fn a_shard_that_was_killed_is_joined_with_what_it_has_and_one_that_is_damaged_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let (zero, one) = (
        shard(folder.path(), 0, 0, ended),
        shard(folder.path(), 1, 1, killed),
    );
    let lines = fs::read_to_string(one.join("requests.jsonl")).unwrap();
    let torn = lines.get(..lines.len() * 2 / 3).unwrap();
    fs::write(one.join("requests.jsonl"), torn).unwrap();
    let out = folder.path().join("merged");
    let said = command(&["merge", text(&zero), text(&one), "--out", text(&out)]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    let merged = stored(&out);
    let whole = torn.lines().count() as u64 - 1;
    assert_eq!(merged.cells[0].counts.planned, 60 + whole);
    assert!(!merged.complete && merged.trust.verdict > TrustVerdict::Trusted);
    assert!(merged.incomplete_reason.unwrap().contains("shard 1/2"));
    let unlisted = merged.trust.reasons.iter();
    let unlisted = unlisted.filter(|reason| reason.code == "journal_unlisted");
    let unlisted: Vec<&str> = unlisted.map(|reason| reason.message.as_str()).collect();
    assert!(
        matches!(unlisted[..], [one] if one.starts_with("shard 1/2: there is no journal.json")),
        "{unlisted:?}"
    );

    let journal = zero.join("requests.jsonl");
    let text_of_zero = fs::read_to_string(&journal).unwrap();
    fs::write(&journal, text_of_zero.replacen("completed", "complered", 1)).unwrap();
    let out = folder.path().join("damaged");
    let refused = command(&["merge", text(&zero), text(&one), "--out", text(&out)]);
    assert_eq!(refused.code, Some(1), "{}", refused.err);
    assert!(
        refused.err.contains("requests.jsonl") && !out.exists(),
        "{}",
        refused.err
    );
    let joined = command(&[
        "merge",
        text(&zero),
        text(&one),
        "--damaged-ok",
        "--out",
        text(&out),
    ]);
    assert_eq!(joined.code, Some(0), "{}", joined.err);
    let reasons = stored(&out).trust.reasons;
    assert!(
        reasons
            .iter()
            .any(|reason| reason.code == "journal_damaged")
    );
}

#[test]
fn what_a_program_said_of_itself_stays_said_when_its_records_are_concluded_anew() {
    let folder = tempfile::tempdir().unwrap();
    let runs = [0, 1].map(|index| shard(folder.path(), index, index, ended));
    for run in &runs {
        let mut record = stored_json(run);
        let reason =
            |code: &str| json!({"code": code, "verdict": "doubtful", "message": "as it was"});
        record["trust"] = json!({"verdict": "doubtful", "reasons": [reason("recorder_held_up"), reason("few_samples")]});
        fs::write(run.join("run.json"), record.to_string()).unwrap();
    }
    let out = folder.path().join("merged");
    let said = command(&["merge", text(&runs[0]), text(&runs[1]), "--out", text(&out)]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    let said = command(&["recover", text(&runs[0]), "--anew"]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    for (run, message) in [(&out, "shard 0/2: as it was"), (&runs[0], "as it was")] {
        let trust = stored(run).trust;
        let kept = trust
            .reasons
            .iter()
            .filter(|reason| reason.message.ends_with("as it was"));
        let kept: Vec<(&str, &str)> = kept
            .map(|reason| (reason.code.as_str(), reason.message.as_str()))
            .collect();
        assert_eq!(kept, [("recorder_held_up", message)]);
        // nobody knows the plan's hash any more, which is no text
        let plan = &stored_json(run)["cells"][0]["plan"];
        assert!(plan["requests"].is_u64() && plan.get("hash").is_none());
        assert!(trust.verdict > TrustVerdict::Trusted);
    }
}

#[test]
fn a_run_whose_run_json_is_damaged_or_gone_is_recovered_from_its_records() {
    for damage in [Some("{\"schema\": {\"na"), None] {
        let folder = tempfile::tempdir().unwrap();
        let records = requests("c4", 4, 120, Nanos::ZERO, 1.0);
        let run = ended(folder.path(), &open_run(), &records);
        let before = stored(&run);
        fs::write(run.join(BEGIN_FILE), open_run().to_string()).unwrap();
        match damage {
            Some(text) => fs::write(run.join("run.json"), text).unwrap(),
            None => fs::remove_file(run.join("run.json")).unwrap(),
        }
        let said = command(&["render", text(&run)]);
        assert_eq!(said.code, Some(1), "{}", said.err);
        let said = command(&["recover", text(&run)]);
        assert_eq!(said.code, Some(0), "{}", said.err);
        let found = stored(&run);
        assert_eq!(found.cells, before.cells);
        assert!(!found.complete && found.trust.verdict != TrustVerdict::Trusted);
    }
}

#[test]
fn nothing_to_recover_is_said_of_a_run_with_whole_records_only() {
    let folder = tempfile::tempdir().unwrap();
    let records = requests("c4", 4, 120, Nanos::ZERO, 1.0);
    let run = ended(folder.path(), &open_run(), &records);
    let said = command(&["recover", text(&run)]);
    assert!(
        said.code == Some(0) && said.err.contains("nothing to recover"),
        "{}",
        said.err
    );
    let journal = run.join("requests.jsonl");
    let whole = fs::read_to_string(&journal).unwrap();
    let half: String = whole.split_inclusive('\n').take(60).collect();
    fs::write(&journal, half).unwrap();
    let said = command(&["recover", text(&run)]);
    assert_eq!(said.code, Some(1), "{}", said.err);
    assert!(said.err.contains("requests.jsonl"), "{}", said.err);
}

#[test]
fn a_bit_that_flips_in_run_json_is_told_and_recover_makes_it_again_from_the_records() {
    let folder = tempfile::tempdir().unwrap();
    let records = requests("c4", 4, 120, Nanos::ZERO, 1.0);
    let run = killed(folder.path(), &open_run(), &records);
    fs::write(run.join(BEGIN_FILE), open_run().to_string()).unwrap();
    assert_eq!(command(&["recover", text(&run)]).code, Some(0));
    let file = run.join("run.json");
    let whole = fs::read_to_string(&file).unwrap();
    // one digit of the headline rate
    let at = whole.find("\"requests_per_s\":").unwrap() + "\"requests_per_s\":".len();
    let mut flipped = whole.clone().into_bytes();
    flipped[at] ^= 1;
    fs::write(&file, &flipped).unwrap();
    let name = text(&run);
    let commands: [&[&str]; 4] = [
        &["render", name],
        &["gate", "--max-regression", "requests_per_s:1%", name, name],
        &["export", name, "--format", "csv"],
        &["capacity", name],
    ];
    for arguments in commands {
        let said = command(arguments);
        assert_eq!(said.code, Some(1), "{arguments:?}: {}", said.err);
        assert!(said.err.contains("run.json") && said.err.contains("changed or damaged"));
    }
    let said = command(&["recover", name]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert_eq!(
        stored(&run).cells,
        RunRecord::from_json(&whole).unwrap().cells
    );
    // somebody who means it
    let on_purpose = whole.replace("\"gpus\":\"1\"", "\"gpus\":\"2\"");
    let (before, _) = on_purpose.rsplit_once(",\n \"digest\"").unwrap();
    fs::write(&file, format!("{before}}}")).unwrap();
    assert_eq!(command(&["render", name]).code, Some(0));
}

#[test]
fn names_and_ids_that_are_far_from_all_others_cost_no_memory() {
    let folder = tempfile::tempdir().unwrap();
    let run = listed(folder.path());
    fs::write(run.join("requests.4294967295.jsonl"), "{}\n").unwrap();
    is_refused(
        &run,
        &["requests.4294967295.jsonl does not belong to this run"],
    );

    let mut records = requests("c4", 4, 120, Nanos::ZERO, 1.0);
    for (repeat, record) in (0..).zip(&mut records[..6]) {
        (record.id, record.repeat) = (4_294_967_290, repeat);
    }
    let run = killed(&folder.path().join("far"), &open_run(), &records);
    // what a program may have that needs a bit for each id up to there
    let limited = Command::new("sh")
        .args(["-c", "ulimit -v 2000000; exec \"$0\" \"$@\""])
        .arg(env!("CARGO_BIN_EXE_bench-report"))
        .args(["render", text(&run)])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&limited.stderr);
    assert_eq!(limited.status.code(), Some(1), "{said}");
    assert!(said.contains("request ids are missing"), "{said}");
}

#[test]
fn a_record_that_nobody_can_have_measured_is_damage() {
    let far = |change: fn(&mut RequestRecord)| {
        let mut records = requests("c4", 4, 120, Nanos::ZERO, 1.0);
        change(&mut records[7]);
        records
    };
    for records in [
        far(|record| record.output_tokens = Some(u64::MAX)),
        far(|record| {
            record.wire.usage = Some(bench_schema::Usage {
                prompt_tokens: Some(u64::MAX),
                ..bench_schema::Usage::default()
            });
        }),
        far(|record| record.due = bench_schema::Stamp::new(i64::MAX)),
        far(|record| record.wire.closed = Some(bench_schema::Stamp::new(i64::MIN))),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let run = killed(&folder.path().join("run"), &open_run(), &records);
        is_refused(&run, &["requests.jsonl", "line"]);
        is_recovered_with(&run, &["line 8 cannot be read"]);
    }
    // events that do not lead to the last one
    let folder = tempfile::tempdir().unwrap();
    let records = requests("c4", 4, 120, Nanos::ZERO, 1.0);
    let run = killed(&folder.path().join("run"), &open_run(), &records);
    let changed = lines(&records).replacen("\"last\":", "\"last\":1", 1);
    fs::write(run.join("requests.jsonl"), changed).unwrap();
    is_refused(&run, &["requests.jsonl: line 1 cannot be read"]);
}

#[test]
fn what_a_server_said_moves_no_cursor() {
    let folder = tempfile::tempdir().unwrap();
    let mut design = blank();
    design["server"]["model"] = "a\u{1b}]52;c;eA==\u{7}\r\u{202e}\u{9b}31m".into();
    design["cells"][1]["label"] = "b\u{1b}[2J".into();
    design["tags"] = serde_json::json!({"k": "c\u{1b}]0;evil\u{7}\u{9b}2J"});
    let records = requests("c4", 4, 120, Nanos::ZERO, 1.0);
    let one = ended(&folder.path().join("one"), &design, &records);
    let other = ended(&folder.path().join("other"), &blank(), &records);
    let out = folder.path().join("out");
    for arguments in [
        vec![
            "gate",
            text(&one),
            text(&other),
            "--max-regression",
            "e2e:50%",
        ],
        vec!["merge", text(&one), text(&other), "--out", text(&out)],
        vec!["capacity", text(&one)],
        vec!["pivot", text(&one), "--rows", "model", "--columns", "tag.k"],
        vec!["pivot", text(&one), "--rows", "k", "--columns", "model"],
        vec![
            "baseline",
            "save",
            "b",
            text(&one),
            "--baselines",
            text(&out),
        ],
    ] {
        let said = command(&arguments);
        let all = said.out + &said.err;
        let moves = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
        assert!(!all.contains(moves), "{arguments:?}: {all:?}");
    }
}

#[test]
fn a_record_of_a_killed_run_that_cannot_be_read_is_damage_though_its_line_can() {
    let folder = tempfile::tempdir().unwrap();
    let records = requests("c4", 4, 120, Nanos::ZERO, 1.0);
    let run = killed(&folder.path().join("run"), &open_run(), &records);
    let changed = lines(&records).replacen("\"completed\"", "\"complfted\"", 1);
    fs::write(run.join("requests.jsonl"), changed).unwrap();
    is_refused(&run, &["requests.jsonl", "line"]);
    is_recovered_with(&run, &["line 1 cannot be read; left out"]);
}

#[test]
fn records_of_a_newer_version_are_left_out_by_nobody_in_silence() {
    let folder = tempfile::tempdir().unwrap();
    let run = listed(folder.path());
    let path = run.join("requests.jsonl");
    let newer = fs::read_to_string(&path).unwrap();
    let newer = newer.replace("\"failure\":\"status\"", "\"failure\":\"goaway\"");
    let mut record = stored(&run);
    record.journal[0] = part("requests.jsonl", &newer);
    fs::write(&path, newer).unwrap();
    fs::write(
        run.join("run.json"),
        bench_schema::to_json(&record).unwrap(),
    )
    .unwrap();
    let before = fs::read_to_string(run.join("run.json")).unwrap();
    let out = folder.path().join("out");
    let export = |format| {
        vec![
            "export",
            text(&run),
            "--format",
            format,
            "--out",
            text(&out),
        ]
    };
    let exports = ["csv", "vllm", "aiperf", "parquet"].map(export);
    let others = [
        vec!["recover", "--anew", text(&run)],
        vec!["compare", text(&run), text(&run)],
    ];
    for arguments in exports.into_iter().chain(others) {
        let said = command(&arguments);
        assert_eq!(said.code, Some(1), "{arguments:?}: {}", said.err);
        assert!(said.err.contains("newer version"), "{}", said.err);
        assert!(!out.exists(), "{arguments:?} wrote something");
    }
    assert_eq!(fs::read_to_string(run.join("run.json")).unwrap(), before);
}

#[test]
fn a_run_of_a_newer_program_is_refused_by_its_version_and_never_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let records = requests("c4", 4, 120, Nanos::ZERO, 1.0);
    let run = killed(folder.path(), &open_run(), &records);
    fs::write(run.join(BEGIN_FILE), open_run().to_string()).unwrap();
    let mut newer = open_run();
    newer["schema"]["major"] = 3.into();
    newer["cells"] = "of another shape".into();
    fs::write(run.join("run.json"), newer.to_string()).unwrap();
    for name in ["render", "recover"] {
        let said = command(&[name, text(&run)]);
        assert_eq!(said.code, Some(1), "{}", said.err);
        assert!(said.err.contains("schema version 3"), "{}", said.err);
    }
    let left = fs::read_to_string(run.join("run.json")).unwrap();
    assert_eq!(left, newer.to_string());
}

#[test]
fn files_that_never_end_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    let made = Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    for name in [
        "run.json",
        JOURNAL_FILE,
        "requests.jsonl",
        "requests.0001.jsonl",
        "hardware.jsonl",
    ] {
        for (number, endless) in [Path::new("/dev/zero"), &pipe].into_iter().enumerate() {
            let records = requests("c4", 4, 120, Nanos::ZERO, 1.0);
            let run = folder.path().join(format!("{name}-{number}"));
            killed(&run, &open_run(), &records);
            fs::remove_file(run.join(name)).ok();
            std::os::unix::fs::symlink(endless, run.join(name)).unwrap();
            let said = command(&["recover", text(&run)]);
            assert_eq!(said.code, Some(1), "{name}: {}", said.err);
            let file = format!("{name}: it is no plain file");
            assert!(said.err.contains(&file), "{}", said.err);
        }
    }
}

#[test]
fn a_request_that_is_there_twice_counts_once_and_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let records = requests("c4", 4, 120, Nanos::ZERO, 1.0);
    let whole = killed(&folder.path().join("whole"), &open_run(), &records);
    assert_eq!(command(&["recover", text(&whole)]).code, Some(0));
    for lost in [false, true] {
        let name = format!("lost-{lost}");
        let run = killed(&folder.path().join(name), &open_run(), &records);
        let again = lines(&records) + &lines(&records[40..41]);
        fs::write(run.join("requests.jsonl"), again).unwrap();
        if lost {
            fs::rename(run.join("run.json"), run.join(BEGIN_FILE)).unwrap();
        }
        let told = format!("line 121 is request {} of c4 again", records[40].id);
        if !lost {
            is_refused(&run, &[&told]);
        }
        is_recovered_with(&run, &[&told]);
        assert_eq!(stored(&run).cells, stored(&whole).cells);
        let out = folder.path().join(format!("out-{lost}"));
        let said = command(&[
            "export",
            text(&run),
            "--format",
            "csv",
            "--damaged-ok",
            "--out",
            text(&out),
        ]);
        assert_eq!(said.code, Some(0), "{}", said.err);
        let rows = fs::read_to_string(out.join("requests.csv")).unwrap();
        assert_eq!(rows.lines().count(), 121);
    }
}

#[test]
fn the_files_of_two_runs_in_one_folder_are_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let records = requests("c4", 4, 120, Nanos::ZERO, 1.0);
    let mut others = open_run();
    others["title"] = "of another server".into();
    others["started_at"] = "2026-11-21T13:00:00Z".into();
    others["clock"]["unix_epoch_ns"] = (EPOCH + 1).into();
    let begin = |run: &Path| {
        part(
            BEGIN_FILE,
            &fs::read_to_string(run.join(BEGIN_FILE)).unwrap(),
        )
    };
    let is_told = |run: &Path, what: &[&str]| {
        let said = command(&["recover", text(run)]);
        assert_eq!(said.code, Some(1), "{}", said.err);
        for what in what.iter().chain(&["two runs", "2026-11-2"]) {
            assert!(said.err.contains(what), "{}", said.err);
        }
    };
    // what was begun has none of the cells
    let run = killed(&folder.path().join("cells"), &open_run(), &records);
    fs::remove_file(run.join("run.json")).unwrap();
    let mut design = others.clone();
    design["cells"][0]["id"] = "c9".into();
    fs::write(run.join(BEGIN_FILE), design.to_string()).unwrap();
    is_told(
        &run,
        &["of another server", "120 requests are from cell c4"],
    );
    assert!(!run.join("run.json").exists());
    // it has the same ones; the list of the journals knows better
    let run = killed(&folder.path().join("list"), &open_run(), &records);
    fs::rename(run.join("run.json"), run.join(BEGIN_FILE)).unwrap();
    let held = part("requests.jsonl", &lines(&records));
    let list = serde_json::to_string(&[held, begin(&run)]).unwrap();
    fs::write(run.join(JOURNAL_FILE), list).unwrap();
    let own = fs::read_to_string(run.join(BEGIN_FILE)).unwrap();
    fs::write(run.join(BEGIN_FILE), others.to_string()).unwrap();
    is_told(&run, &["of another server", JOURNAL_FILE]);
    // its own begin.json, and a run.json of another
    fs::write(run.join(BEGIN_FILE), &own).unwrap();
    fs::write(run.join("run.json"), others.to_string()).unwrap();
    is_told(&run, &["of another server", "throughput of tiny"]);
    assert_eq!(command(&["render", text(&run)]).code, Some(1));
    // a shard that has met the others since then is the same run
    let mut met: Value = serde_json::from_str(&own).unwrap();
    met["clock"]["met"] = json!([{"at": 1, "offset": 2, "bound": 3}]);
    fs::write(run.join("run.json"), met.to_string()).unwrap();
    let said = command(&["render", text(&run)]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    fs::write(run.join("run.json"), &own).unwrap();
    // only how it begins is listed, since a search adds cells; where it is damaged behind that and run.json is whole, nothing is lost
    let beginning = part(BEGIN_FILE, own.get(..100).unwrap());
    let list = [part("requests.jsonl", &lines(&records)), beginning];
    let list = serde_json::to_string(&list).unwrap();
    fs::write(run.join(JOURNAL_FILE), list).unwrap();
    let render = || command(&["render", text(&run)]);
    let said = render();
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(!said.err.contains("does not belong"), "{}", said.err);
    fs::write(run.join(BEGIN_FILE), own.get(..own.len() - 2).unwrap()).unwrap();
    let said = render();
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(said.err.contains("does not belong"), "{}", said.err);
    assert_eq!(command(&["recover", text(&run)]).code, Some(0));
}

/// A run that was killed, its requests in three parts, `journal.json` as it stood after line 30 of the last one.
fn killed_in_parts(folder: &Path) -> PathBuf {
    let records = requests("c4", 4, 120, Nanos::ZERO, 1.0);
    let run = killed(&folder.join("run"), &open_run(), &[]);
    let mut parts = Vec::new();
    for (number, records) in records.chunks(40).enumerate() {
        let name = JournalFile::Requests.part_name(u32::try_from(number).unwrap());
        fs::write(run.join(&name), lines(records)).unwrap();
        let known = if number == 2 { &records[..30] } else { records };
        parts.push(part(&name, &lines(known)));
    }
    let hardware = fs::read_to_string(run.join("hardware.jsonl")).unwrap();
    parts.push(part("hardware.jsonl", &hardware));
    let list = serde_json::to_string(&parts).unwrap();
    fs::write(run.join(JOURNAL_FILE), list).unwrap();
    run
}

/// A killed run is recovered all the same; it says what is wrong and cannot be trusted because of it.
fn is_recovered_with(run: &Path, what: &[&str]) {
    assert_eq!(command(&["render", text(run)]).code, Some(1));
    let said = command(&["recover", text(run)]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    for what in what {
        assert!(said.err.contains(what), "{}", said.err);
    }
    let codes = |run: &RunRecord| run.trust.reasons.iter().map(|r| r.code.clone()).collect();
    let codes: Vec<String> = codes(&stored(run));
    assert!(codes.iter().any(|code| code == "journal_damaged"));
    // and again, since what was made of it is no better
    assert_eq!(command(&["render", text(run)]).code, Some(1));
}

#[test]
fn a_killed_run_says_what_of_its_journals_could_not_be_checked() {
    let folder = tempfile::tempdir().unwrap();
    let run = killed_in_parts(folder.path());
    let said = command(&["recover", text(&run)]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    let after = "written to requests.0002.jsonl after line 30";
    assert!(said.err.contains(after), "{}", said.err);
    assert!(!said.err.contains("no record of"), "{}", said.err);
    let found = stored(&run);
    assert_eq!(found.cells[0].counts.planned, 120);
    // from then on it is known to the last byte
    assert_eq!(found.journal.len(), 4);
    assert_eq!(command(&["render", text(&run)]).code, Some(0));
    let last = run.join("requests.0002.jsonl");
    let whole = fs::read_to_string(&last).unwrap();
    let some: String = whole.split_inclusive('\n').take(35).collect();
    fs::write(&last, some).unwrap();
    is_refused(&run, &["requests.0002.jsonl ends after line 35"]);
}

#[test]
fn a_killed_run_without_a_list_says_so_and_counts_the_requests_that_are_missing() {
    let folder = tempfile::tempdir().unwrap();
    let mut records = requests("c4", 4, 120, Nanos::ZERO, 1.0);
    records.retain(|record| record.id != 7 && record.id < 118);
    let run = killed(folder.path(), &open_run(), &records);
    let said = command(&["recover", text(&run)]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    for what in [
        JOURNAL_FILE,
        "no record of 1 request from before the last record",
    ] {
        assert!(said.err.contains(what), "{}", said.err);
    }
    // recovering it lists what is there, which proves nothing of what was written
    for again in [&["recover"][..], &["recover", "--anew"]] {
        let doubts = |run: &RunRecord| {
            let reasons = run.trust.reasons.iter();
            reasons.filter(|r| r.code == "journal_unlisted").count()
        };
        let found = stored(&run);
        assert_eq!(doubts(&found), 1, "{:?}", found.trust);
        assert!(found.trust.verdict >= TrustVerdict::Doubtful);
        let said = command(&[again, &[text(&run)]].concat());
        assert_eq!(said.code, Some(0), "{}", said.err);
    }
}

#[test]
fn a_list_of_journals_that_tells_nothing_of_the_requests_is_named_as_what_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let records = requests("c4", 4, 120, Nanos::ZERO, 1.0);
    let of_another = json!([{"file": "hardware.jsonl", "lines": 1, "bytes": 1, "hash": ""}]);
    for (name, list, told) in [
        ("gone", None, "there is no journal.json"),
        (
            "torn",
            Some("[{\"file\"".to_owned()),
            "journal.json is damaged",
        ),
        ("empty", Some("[]".to_owned()), "lists no requests"),
        ("other", Some(of_another.to_string()), "lists no requests"),
        // as it is written when a run begins, and stays where the program is killed soon
        (
            "begun",
            Some(json!([part("requests.jsonl", "")]).to_string()),
            "lists no requests",
        ),
    ] {
        let run = killed(&folder.path().join(name), &open_run(), &records);
        fs::remove_file(run.join("hardware.jsonl")).unwrap();
        if let Some(list) = list {
            fs::write(run.join(JOURNAL_FILE), list).unwrap();
        }
        let said = command(&["render", text(&run)]);
        assert_eq!(said.code, Some(0), "{name}: {}", said.err);
        assert!(said.err.contains(told), "{name}: {}", said.err);
        assert!(
            said.err.contains("cannot be verified"),
            "{name}: {}",
            said.err
        );
        assert!(!said.err.contains("line 0"), "{name}: {}", said.err);
    }
}

#[test]
fn a_killed_run_that_lacks_its_last_part_or_an_end_is_not_whole() {
    let folder = tempfile::tempdir().unwrap();
    let run = killed_in_parts(folder.path());
    fs::remove_file(run.join("requests.0002.jsonl")).unwrap();
    is_recovered_with(&run, &["requests.0002.jsonl is missing; it held 30 lines"]);

    for (name, kept, told) in [
        ("requests.0001.jsonl", 20, "ends after line 20; 40 lines"),
        ("requests.0002.jsonl", 29, "ends after line 29; 30 lines"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let run = killed_in_parts(folder.path());
        let whole = fs::read_to_string(run.join(name)).unwrap();
        let some: String = whole.split_inclusive('\n').take(kept).collect();
        fs::write(run.join(name), some).unwrap();
        is_recovered_with(&run, &[name, told]);
    }
}
