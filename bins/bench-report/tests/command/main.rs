//! The command as it is used, on run directories made from records.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

mod baselines;
mod journals;
mod mutations;
mod sites;
mod support;

use std::fs;
use std::path::Path;
use std::process::Command;

use bench_schema::{Metric, Nanos, RequestRecord, RunRecord, Stamp, TrustVerdict};
use proptest::prelude::*;
use serde_json::Value;
use support::{assert_cell_is, blank, both_cells, command, ended, expected, killed, lines, stored};

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_whole_after_a_cut_at_any_byte_gives_the_same_aggregates(cut in 0.0_f64..1.0) {
        let folder = tempfile::tempdir().unwrap();
        let records = both_cells(1.0);
        let run = killed(&folder.path().join("run"), &blank(), &records);
        let whole = lines(&records);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of a length")]
        let at = (cut * whole.len() as f64) as usize;
        fs::write(run.join("requests.jsonl"), &whole.as_bytes()[..at]).unwrap();
        // a record without its line's end is whole all the same
        let left = whole[..at].lines().filter(|line| serde_json::from_str::<Value>(line).is_ok()).count();
        let out = folder.path().join("out");
        let said = command(&["export", text(&run), "--format", "json", "--out", text(&out)]);
        prop_assert_eq!(said.code, Some(0), "{}", said.err);
        let found = stored(&out);
        prop_assert!(!found.complete);
        let one = expected("c1", 1, &records[..left], None);
        let baseline = one.metrics.get(&Metric::Ttft).and_then(bench_schema::Distribution::p50);
        let four = expected("c4", 4, &records[..left], baseline);
        for (id, wanted) in [("c1", one), ("c4", four)] {
            if let Some(cell) = found.cell(id) {
                assert_cell_is(cell, &wanted);
            } else {
                prop_assert_eq!(wanted.counts.planned, 0, "cell {} is missing", id);
            }
        }
    }
}

#[test]
fn tables_are_as_wide_as_the_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let run = killed(folder.path(), &blank(), &both_cells(1.0));
    let widest = |columns: &str| {
        let output = Command::new(env!("CARGO_BIN_EXE_bench-report"))
            .args(["render", text(&run), "--verbose"])
            .env("COLUMNS", columns)
            .output()
            .unwrap();
        let shown = String::from_utf8(output.stdout).unwrap();
        let widest = shown.lines().map(|line| line.chars().count()).max();
        (widest.unwrap(), shown)
    };
    let (narrow, shown) = widest("72");
    assert!(narrow <= 72, "{shown}");
    assert!((73..=100).contains(&widest("").0), "no width is known");
    let (wide, shown) = widest("200");
    assert!((101..=200).contains(&wide), "{shown}");
}

#[test]
fn recover_tells_which_cells_had_started_and_which_of_them_ended_early() {
    let folder = tempfile::tempdir().unwrap();
    let records = support::requests("c1", 1, 40, Nanos::ZERO, 1.0);
    let mut design = blank();
    let cells = design["cells"].as_array_mut().unwrap();
    let mut third = cells[1].clone();
    third["id"] = "c9".into();
    cells.push(third);
    let run = killed(folder.path(), &design, &records);
    let began = r#"[{"cell":"c1","began":1,"ended":9,"ended_early":"10 of 10 requests failed"},{"cell":"c4","began":10}]"#;
    fs::write(run.join("cells.json"), began).unwrap();
    let said = command(&["recover", text(&run)]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    let found = stored(&run);
    let early = found.cells[0].ended_early.as_deref();
    assert_eq!(early, Some("10 of 10 requests failed"));
    let why = found.incomplete_reason.unwrap();
    let told = "recovered from 40 records, none of c4; it ended during c4; not started: c9";
    assert!(why.ends_with(told), "{why}");
}

#[test]
fn recover_names_damaged_lines_and_cells_without_records_and_keeps_the_rest() {
    let folder = tempfile::tempdir().unwrap();
    let records = support::requests("c1", 1, 40, Nanos::ZERO, 1.0);
    let run = killed(folder.path(), &blank(), &records);
    let damaged: String = lines(&records)
        .lines()
        .enumerate()
        .map(|(i, line)| {
            if i == 4 {
                "{\"id\":4,\"ce\n".to_owned()
            } else {
                format!("{line}\n")
            }
        })
        .collect();
    fs::write(
        run.join("requests.jsonl"),
        damaged + "{\"id\":41,\"cell\":\"c1\",\"pha",
    )
    .unwrap();
    let said = command(&["recover", text(&run)]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(
        said.err.contains("line 5 cannot be read; left out"),
        "{}",
        said.err
    );
    assert!(said.err.contains("incomplete last line"), "{}", said.err);
    let found = stored(&run);
    assert!(!found.complete);
    let why = found.incomplete_reason.clone().unwrap();
    assert!(
        why.contains("recovered from 39 records, none of c4"),
        "{why}"
    );
    // One request in seven failed, and that counts whether the run ended or not.
    assert_eq!(found.trust.verdict, TrustVerdict::Untrusted);
    assert!(found.trust.reasons.iter().any(|r| r.code == "incomplete"));
    assert_eq!(found.cells.len(), 1);
    assert_eq!(found.cells[0].counts.planned, 39);
    assert!(found.duration > Nanos::ZERO);
    assert_eq!(found.targets.len(), 1);
    assert!(run.join("report.html").is_file() && run.join("report.md").is_file());
    // once more: the same again
    assert_eq!(command(&["recover", text(&run)]).code, Some(0));
    assert_eq!(stored(&run).cells, found.cells);
}

#[test]
fn a_run_that_ended_is_not_touched_by_recover() {
    let folder = tempfile::tempdir().unwrap();
    let run = ended(folder.path(), &blank(), &both_cells(1.0));
    let before = fs::read(run.join("run.json")).unwrap();
    let said = command(&["recover", text(&run)]);
    assert_eq!(said.code, Some(0));
    assert!(said.err.contains("nothing to recover"));
    assert_eq!(fs::read(run.join("run.json")).unwrap(), before);
}

#[test]
fn render_makes_the_reports_of_a_killed_run_without_being_told_that_it_was_killed() {
    let folder = tempfile::tempdir().unwrap();
    let run = killed(folder.path(), &blank(), &both_cells(1.0));
    let said = command(&["render", text(&run)]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(said.out.contains("INCOMPLETE"), "{}", said.out);
    assert!(
        said.err.contains("2 cells rebuilt from 160 records"),
        "{}",
        said.err
    );
    assert!(
        fs::read_to_string(run.join("report.md"))
            .unwrap()
            .contains("concurrency 4")
    );
    assert!(
        !stored(&run).complete && stored(&run).cells[0].metrics.is_empty(),
        "run.json is left alone"
    );
}

#[cfg(feature = "figures")]
#[test]
fn figures_are_written_beside_the_report_that_links_them() {
    let folder = tempfile::tempdir().unwrap();
    let run = ended(folder.path(), &blank(), &both_cells(1.0));
    let said = command(&[
        "render",
        text(&run),
        "--figures",
        "svg",
        "--output",
        "markdown",
    ]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    let drawn: Vec<_> = run
        .join("figures")
        .read_dir()
        .unwrap()
        .map(|f| f.unwrap().file_name())
        .collect();
    assert!(
        drawn.iter().any(|name| name == "dashboard.svg"),
        "{drawn:?}"
    );
    assert!(
        fs::read_to_string(run.join("report.md"))
            .unwrap()
            .contains("figures/dashboard.svg")
    );
}

/// Shard `index` of 2: every second request, on a clock that began `late` after the other's.
fn shard(folder: &Path, index: u64, late: Nanos) -> std::path::PathBuf {
    let mut run = blank();
    let part = format!("{index}/2");
    let title = format!("{} of m", RunRecord::title_of_part(&part));
    run["title"] = format!("throughput{title}").into();
    run["config"]["shard"] = part.into();
    run["clock"]["unix_epoch_ns"] = (support::EPOCH + late.get()).into();
    run["clock"]["monotonic_epoch_ns"] = (1_000_000_000 + late.get()).into();
    let mut mine: Vec<_> = both_cells(1.0)
        .into_iter()
        .filter(|record| record.id % 2 == index)
        .collect();
    for record in &mut mine {
        record.shift(-late);
    }
    ended(&folder.join(format!("shard-{index}")), &run, &mine)
}

#[test]
fn merged_shards_are_the_whole_run() {
    let folder = tempfile::tempdir().unwrap();
    let late = Nanos::from_millis(5_250);
    let (zero, one) = (
        shard(folder.path(), 0, late),
        shard(folder.path(), 1, Nanos::ZERO),
    );
    let out = folder.path().join("whole");
    let said = command(&["merge", text(&one), text(&zero), "--out", text(&out)]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(said.err.contains("epochs are 5.25 s apart"), "{}", said.err);
    assert_eq!(stored(&out).title, "throughput of m in 2 shards");
    let records = both_cells(1.0);
    let found = stored(&out);
    assert!(found.complete);
    assert_eq!(found.clock.unix_epoch_ns, Some(support::EPOCH));
    assert_eq!(found.host.facts["shards.clock_disagreement"], "0 ns");
    // each shard kept the whole concurrency in flight
    assert_eq!(found.cells[0].factors["concurrency"].as_number(), Some(2.0));
    assert_eq!(
        fs::read_to_string(out.join("hardware.jsonl"))
            .unwrap()
            .lines()
            .count(),
        2
    );
    let whole = expected("c4", 8, &records, None);
    assert_cell_is(found.cell("c4").unwrap(), &whole);
    // a second merge does not overwrite the first
    let again = command(&["merge", text(&one), text(&zero), "--out", text(&out)]);
    assert_eq!(again.code, Some(2));
    assert!(again.err.contains("is not empty"));
}

#[test]
fn requests_that_waited_for_their_prompts_add_up() {
    let folder = tempfile::tempdir().unwrap();
    let of = |index: u64| {
        let at = shard(folder.path(), index, Nanos::ZERO);
        let file = at.join("run.json");
        let mut run: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
        run["cells"][0]["client"]["starved"] = (3 + index).into();
        fs::write(file, run.to_string()).unwrap();
        at
    };
    let (zero, one) = (of(0), of(1));
    let out = folder.path().join("whole");
    let said = command(&["merge", text(&one), text(&zero), "--out", text(&out)]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    let found = stored(&out);
    assert_eq!(found.cells[0].client.starved, Some(7));
    assert_eq!(found.cells[1].client.starved, None);
}

/// A folder of an earlier try lies where a shard's was to be: its clock was compared with another shard 0's.
#[test]
fn shards_of_two_meetings_are_not_merged() {
    let folder = tempfile::tempdir().unwrap();
    let of = |index: u64, meeting: &str| {
        let at = shard(folder.path(), index, Nanos::ZERO);
        let text = fs::read_to_string(at.join("run.json")).unwrap();
        let mut run: Value = serde_json::from_str(&text).unwrap();
        run["clock"]["met"] = serde_json::json!([{"at": 1, "offset": 0, "bound": 0}]);
        run["clock"]["meeting"] = meeting.into();
        fs::write(at.join("run.json"), run.to_string()).unwrap();
        at
    };
    for (other, code) in [("7a01", 0), ("7a02", 2)] {
        let (zero, one) = (of(0, "7a01"), of(1, other));
        let out = folder.path().join(format!("whole-{other}"));
        let said = command(&["merge", text(&one), text(&zero), "--out", text(&out)]);
        assert_eq!(said.code, Some(code), "{}", said.err);
        let told = "`clock.meeting` is 7a02 in";
        assert_eq!(said.err.contains(told), code == 2, "{}", said.err);
        assert_eq!(out.exists(), code == 0);
    }
}

/// The wall clock of the second host is an hour wrong: what counts is how the shards compared theirs.
#[test]
fn shards_that_met_are_put_beside_each_other_by_their_own_comparison() {
    let folder = tempfile::tempdir().unwrap();
    let late = Nanos::from_millis(5_250);
    let of = |index: u64, bound: i64| {
        let at = shard(
            folder.path(),
            index,
            if index == 0 { Nanos::ZERO } else { late },
        );
        let text = fs::read_to_string(at.join("run.json")).unwrap();
        let mut run: Value = serde_json::from_str(&text).unwrap();
        let mut met = serde_json::json!([{"at": 1, "offset": 0, "bound": 0}, {"at": 60_000_000_000_i64, "offset": 0, "bound": 0}]);
        if index == 1 {
            run["clock"]["unix_epoch_ns"] = (support::EPOCH + 3_600_000_000_000).into();
            run["host"]["name"] = "elsewhere".into();
            for exchange in met.as_array_mut().unwrap() {
                exchange["offset"] = late.get().into();
                exchange["bound"] = bound.into();
            }
        }
        run["clock"]["met"] = met;
        fs::write(at.join("run.json"), run.to_string()).unwrap();
        at
    };
    for (bound, doubted) in [(20_000, false), (900_000_000, true)] {
        let (zero, one) = (of(0, bound), of(1, bound));
        let out = folder.path().join(format!("whole-{bound}"));
        let said = command(&["merge", text(&one), text(&zero), "--out", text(&out)]);
        assert_eq!(said.code, Some(0), "{}", said.err);
        assert!(
            said.err.contains("their clocks were compared"),
            "{}",
            said.err
        );
        let found = stored(&out);
        assert_eq!(found.clock.unix_epoch_ns, Some(support::EPOCH));
        assert!(found.clock.met.is_empty());
        let offset = &found.host.facts["shards.clock_offset 1/2"];
        assert!(
            offset.starts_with("5.25 s ± ") && offset.ends_with(" in 2 comparisons"),
            "{offset}"
        );
        let whole = expected("c4", 8, &both_cells(1.0), None);
        assert_cell_is(found.cell("c4").unwrap(), &whole);
        let codes: Vec<&str> = found
            .trust
            .reasons
            .iter()
            .map(|reason| reason.code.as_str())
            .collect();
        assert!(!codes.contains(&"shards_apart"), "{codes:?}");
        assert_eq!(codes.contains(&"clock_bound"), doubted, "{codes:?}");
    }
}

/// Since `per_shard` is stored a shard's load is its part of what was asked for.
#[test]
fn merged_parts_of_a_load_are_what_was_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let shards = [(0, 3), (1, 2)].map(|(index, in_flight)| {
        let at = shard(folder.path(), index, Nanos::ZERO);
        let text = fs::read_to_string(at.join("run.json")).unwrap();
        let mut run: Value = serde_json::from_str(&text).unwrap();
        run["config"]["per_shard"] = false.into();
        run["cells"][1]["load"]["concurrency"] = in_flight.into();
        run["cells"][1]["factors"]["concurrency"] = 5.into();
        fs::write(at.join("run.json"), run.to_string()).unwrap();
        at
    });
    let out = folder.path().join("whole");
    let said = command(&[
        "merge",
        text(&shards[0]),
        text(&shards[1]),
        "--out",
        text(&out),
    ]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    let found = stored(&out);
    let cell = &found.cells[1];
    assert_eq!(cell.load, bench_schema::Load::closed(5));
    assert_eq!(cell.factors["concurrency"].as_number(), Some(5.0));
    assert!(!cell.label.contains("shards"), "{}", cell.label);
}

#[test]
fn merge_refuses_what_is_no_shard_of_the_same_run_and_names_the_key() {
    let folder = tempfile::tempdir().unwrap();
    let zero = shard(folder.path(), 0, Nanos::ZERO);
    let out = folder.path().join("whole");
    let twin = command(&["merge", text(&zero), text(&zero), "--out", text(&out)]);
    assert_eq!(twin.code, Some(2));
    assert!(twin.err.contains("are both shard 0/2"), "{}", twin.err);
    let alone = ended(&folder.path().join("alone"), &blank(), &both_cells(1.0));
    let no_shard = command(&["merge", text(&zero), text(&alone), "--out", text(&out)]);
    assert_eq!(no_shard.code, Some(2));
    assert!(
        no_shard.err.contains("was not measured as a shard"),
        "{}",
        no_shard.err
    );
    for (pointer, value, key) in [
        ("/seed", Value::from(8), "`seed` is 8 in "),
        ("/config/requests", "60".into(), "`config.requests`"),
        ("/config/shard", "1/3".into(), "`number of shards`"),
        ("/experiment", "latency".into(), "`experiment`"),
        (
            "/cells/1/plan/dataset",
            "random".into(),
            "`cells.c4.plan.dataset`",
        ),
    ] {
        let one = shard(folder.path(), 1, Nanos::ZERO);
        let mut run: Value =
            serde_json::from_str(&fs::read_to_string(one.join("run.json")).unwrap()).unwrap();
        *run.pointer_mut(pointer).unwrap() = value;
        fs::write(one.join("run.json"), run.to_string()).unwrap();
        let said = command(&["merge", text(&zero), text(&one), "--out", text(&out)]);
        assert_eq!(said.code, Some(2), "{key}");
        assert!(said.err.contains(key), "{key}: {}", said.err);
        assert!(!out.exists(), "nothing is written for what is refused");
    }
}

#[test]
fn a_merge_without_all_shards_is_incomplete_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let mut runs = Vec::new();
    for index in 0..2 {
        let run = shard(folder.path(), index, Nanos::ZERO);
        let json = fs::read_to_string(run.join("run.json")).unwrap();
        fs::write(run.join("run.json"), json.replace("/2\"", "/3\"")).unwrap();
        runs.push(run);
    }
    let out = folder.path().join("whole");
    let said = command(&["merge", text(&runs[0]), text(&runs[1]), "--out", text(&out)]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    let found = stored(&out);
    assert!(!found.complete && found.trust.verdict > TrustVerdict::Trusted);
    assert_eq!(
        found.incomplete_reason.as_deref(),
        Some("shard 2/3 is missing")
    );
}

#[test]
fn shards_that_ran_one_after_the_other_are_not_trusted_as_one_load() {
    let folder = tempfile::tempdir().unwrap();
    let zero = shard(folder.path(), 0, Nanos::ZERO);
    let one = shard(folder.path(), 1, Nanos::ZERO);
    let mut run: Value =
        serde_json::from_str(&fs::read_to_string(one.join("run.json")).unwrap()).unwrap();
    run["clock"]["unix_epoch_ns"] = (support::EPOCH + 3_600_000_000_000).into();
    fs::write(one.join("run.json"), run.to_string()).unwrap();
    let out = folder.path().join("whole");
    let said = command(&["merge", text(&zero), text(&one), "--out", text(&out)]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    let trust = stored(&out).trust;
    assert_eq!(trust.verdict, TrustVerdict::Untrusted);
    assert!(
        trust
            .reasons
            .iter()
            .any(|reason| reason.code == "shards_apart")
    );
    // no record tells of it, and concluding them again does not forget it
    assert_eq!(command(&["recover", "--anew", text(&out)]).code, Some(0));
    let again = stored(&out).trust;
    assert!(again.reasons.iter().any(|r| r.code == "shards_apart"));
}

/// What `vllm bench serve --save-result --save-detailed` writes, from a file of its own.
const VLLM_KEYS: &str = "date endpoint_type backend label model_id tokenizer_id num_prompts request_rate burstiness \
    max_concurrency duration completed failed total_input_tokens total_output_tokens request_throughput request_goodput \
    output_throughput total_token_throughput latencies start_times queue_times max_output_tokens_per_s \
    max_concurrent_requests rtfx VLLM_STATISTICS input_lens output_lens ttfts itls generated_texts errors";

#[test]
fn the_vllm_export_has_that_tools_keys_one_file_a_cell() {
    let folder = tempfile::tempdir().unwrap();
    let run = ended(folder.path(), &blank(), &both_cells(1.0));
    let said = command(&["export", text(&run), "--format", "vllm"]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    let paths: Vec<&str> = said.out.lines().collect();
    assert_eq!(
        paths,
        ["c1", "c4"].map(|cell| format!("{}/export/vllm-{cell}.json", text(&run)))
    );
    let found: Value = serde_json::from_str(&fs::read_to_string(paths[1]).unwrap()).unwrap();
    let mut wanted: Vec<String> = VLLM_KEYS
        .split_whitespace()
        .filter(|key| *key != "VLLM_STATISTICS")
        .map(str::to_owned)
        .collect();
    for metric in ["ttft", "tpot", "itl", "e2el"] {
        wanted.extend(
            ["mean", "median", "std", "p50", "p90", "p99"]
                .map(|figure| format!("{figure}_{metric}_ms")),
        );
    }
    for key in &wanted {
        assert!(found.get(key).is_some(), "{key} is missing");
    }
    let records: Vec<_> = both_cells(1.0)
        .into_iter()
        .filter(|record| record.cell == "c4")
        .collect();
    let completed = records
        .iter()
        .filter(|record| record.wire.outcome.is_completed())
        .count();
    assert_eq!(found["completed"], completed);
    assert_eq!(found["failed"], records.len() - completed);
    for list in [
        "input_lens",
        "output_lens",
        "ttfts",
        "itls",
        "errors",
        "latencies",
        "start_times",
    ] {
        assert_eq!(
            found[list].as_array().unwrap().len(),
            records.len(),
            "{list}"
        );
    }
    let starts: Vec<f64> = found["start_times"]
        .as_array()
        .unwrap()
        .iter()
        .map(|t| t.as_f64().unwrap())
        .collect();
    assert!(starts.is_sorted(), "in the order they were sent");
}

#[test]
fn cells_whose_records_do_not_stand_together_are_exported_as_those_that_do() {
    let folder = tempfile::tempdir().unwrap();
    let apart = both_cells(1.0);
    let mut mixed = apart.clone();
    mixed.sort_by_key(|record| record.id);
    let [apart, mixed] = [("apart", apart), ("mixed", mixed)].map(|(name, records)| {
        let run = ended(&folder.path().join(name), &blank(), &records);
        let said = command(&["export", text(&run), "--format", "vllm"]);
        let paths = said.out.lines();
        let files: Vec<_> = paths.map(|path| fs::read(path).unwrap()).collect();
        files
    });
    assert!(apart.len() == 2 && apart == mixed);
}

#[test]
fn ids_that_lead_out_of_the_folder_are_refused_and_nothing_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let run = killed(&folder.path().join("run"), &blank(), &both_cells(1.0));
    let hostile = fs::read_to_string(run.join("run.json"))
        .unwrap()
        .replace("\"c4\"", "\"../../c4\"");
    fs::write(run.join("run.json"), hostile).unwrap();
    let records = fs::read_to_string(run.join("requests.jsonl"))
        .unwrap()
        .replace("\"c4\"", "\"../../c4\"");
    fs::write(run.join("requests.jsonl"), records).unwrap();
    let said = command(&["export", text(&run), "--format", "vllm"]);
    assert_eq!(said.code, Some(1));
    assert!(said.err.contains("not a plain file name"), "{}", said.err);
    let outside: Vec<_> = folder
        .path()
        .read_dir()
        .unwrap()
        .map(|f| f.unwrap().file_name())
        .collect();
    assert_eq!(outside, ["run"]);
}

#[test]
fn the_other_exports_print_the_paths_they_wrote() {
    let folder = tempfile::tempdir().unwrap();
    let run = ended(&folder.path().join("run"), &blank(), &both_cells(1.0));
    let out = folder.path().join("out");
    for (format, files) in [("aiperf", 2), ("csv", 5), ("json", 1)] {
        let said = command(&[
            "export",
            text(&run),
            "--format",
            format,
            "--out",
            text(&out),
        ]);
        assert_eq!(said.code, Some(0), "{}", said.err);
        assert_eq!(said.out.lines().count(), files);
        assert!(
            said.out.lines().all(|path| Path::new(path).is_file()),
            "{}",
            said.out
        );
    }
    assert_eq!(stored(&out), stored(&run));
    fs::remove_file(run.join("requests.jsonl")).unwrap();
    for format in ["vllm", "aiperf"] {
        let said = command(&["export", text(&run), "--format", format]);
        assert_eq!(said.code, Some(1), "lists of nothing are no export");
        assert!(said.err.contains("no requests.jsonl"), "{}", said.err);
    }
}

#[test]
fn gates_pass_miss_and_cannot_tell_by_exit_code() {
    let folder = tempfile::tempdir().unwrap();
    let base = ended(&folder.path().join("base"), &blank(), &both_cells(1.0));
    let same = ended(&folder.path().join("same"), &blank(), &both_cells(1.0));
    let slow = ended(&folder.path().join("slow"), &blank(), &both_cells(2.0));
    let gate = |new: &Path, rules: &str| {
        command(&["gate", text(&base), text(new), "--max-regression", rules])
    };
    let passed = gate(&same, "e2e.p50:5%,ttft.p50:5%");
    assert_eq!(passed.code, Some(0), "{}{}", passed.out, passed.err);
    let missed = gate(&slow, "e2e.p50:5%");
    assert_eq!(missed.code, Some(4), "{}{}", missed.out, missed.err);
    assert!(missed.out.contains("MISSED"), "{}", missed.out);
    for wrong in ["e2e.p50", "e2e.p50:5", "speed:5%", " , "] {
        let said = gate(&same, wrong);
        assert_eq!(said.code, Some(2), "{wrong}: {}", said.err);
    }
    let mut run: Value =
        serde_json::from_str(&fs::read_to_string(slow.join("run.json")).unwrap()).unwrap();
    run["trust"] = serde_json::json!({"verdict": "untrusted", "reasons": [{"code": "client_lag", "verdict": "untrusted", "message": "the client was late"}]});
    fs::write(slow.join("run.json"), run.to_string()).unwrap();
    for rule in ["e2e.p50:5%", "e2e:5%"] {
        let unsure = gate(&slow, rule);
        assert_eq!(unsure.code, Some(3), "{rule}: {}", unsure.err);
    }
    let unsure = gate(&slow, "e2e.p50:5%");
    assert!(unsure.err.contains("the client was late"), "{}", unsure.err);
    let compared = command(&["compare", text(&base), text(&slow)]);
    assert_eq!(compared.code, Some(3), "{}", compared.err);
    assert!(
        compared.out.contains("worse") && compared.err.contains("slow is untrusted"),
        "{}{}",
        compared.out,
        compared.err
    );
    let json = command(&[
        "gate",
        text(&base),
        text(&slow),
        "--max-regression",
        "all:5%",
        "--output",
        "json",
    ]);
    let answer: Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!(answer["verdict"], "refused: the runs cannot be compared");
}

#[test]
fn compare_holds_runs_against_the_first_in_every_form() {
    let folder = tempfile::tempdir().unwrap();
    let base = ended(&folder.path().join("base"), &blank(), &both_cells(1.0));
    let slow = ended(&folder.path().join("slow"), &blank(), &both_cells(2.0));
    let page = folder.path().join("compare.html");
    let table = command(&["compare", text(&base), text(&slow), "--html", text(&page)]);
    assert_eq!(table.code, Some(0), "{}", table.err);
    assert!(
        table.out.contains("slow against base") && table.out.contains("worse"),
        "{}",
        table.out
    );
    assert!(fs::read_to_string(&page).unwrap().contains("<html"));
    let json = command(&["compare", text(&base), text(&slow), "--output", "json"]);
    let found: Value = serde_json::from_str(&json.out).unwrap();
    assert!(found[0]["rows"].as_array().unwrap().len() > 4);
    let markdown = command(&["compare", text(&base), text(&slow), "--output", "markdown"]);
    assert!(markdown.out.starts_with("# "), "{}", markdown.out);
    let axis = command(&["compare", text(&base), text(&slow), "--axis", "model"]);
    assert_eq!(axis.code, Some(2));
    assert!(
        axis.err.contains("has no tag `model` (its tags are gpus)"),
        "{}",
        axis.err
    );
}

#[test]
fn pivot_gives_a_figure_of_many_runs_as_the_runs_have_it() {
    let folder = tempfile::tempdir().unwrap();
    let base = ended(&folder.path().join("base"), &blank(), &both_cells(1.0));
    let slow = ended(&folder.path().join("slow"), &blank(), &both_cells(2.0));
    let asked = [
        "pivot",
        text(&base),
        text(&slow),
        "--rows",
        "run",
        "--columns",
        "cell",
    ];
    let said = command(&[&asked[..], &["--value", "e2e.p95", "--output", "json"]].concat());
    assert_eq!(said.code, Some(0), "{}", said.err);
    let rows: Value = serde_json::from_str(&said.out).unwrap();
    for (row, run) in rows.as_array().unwrap().iter().zip([&base, &slow]) {
        let record: Value =
            serde_json::from_str(&fs::read_to_string(run.join("run.json")).unwrap()).unwrap();
        for cell in record["cells"].as_array().unwrap() {
            let quantiles = cell["metrics"]["e2e"]["quantiles"].as_array().unwrap();
            let p95 = quantiles.iter().find(|entry| entry["q"] == 0.95).unwrap();
            let wanted = p95["value"].as_f64().unwrap() / 1e6;
            let found = row[cell["id"].as_str().unwrap()].as_f64().unwrap();
            assert_eq!(found.to_bits(), wanted.to_bits(), "{row}");
        }
    }
    let unknown = command(&[&asked[..], &["--value", "speed"]].concat());
    assert_eq!(unknown.code, Some(1));
    assert!(unknown.err.contains("no column `speed`"), "{}", unknown.err);
    let mixed = command(&["pivot", text(&base), "--rows", "run", "--columns", "seed"]);
    assert!(mixed.err.contains("several cells"), "{}", mixed.err);
}

#[test]
fn compare_along_a_tag_says_how_it_scales() {
    let folder = tempfile::tempdir().unwrap();
    let runs: Vec<_> = [("1", 2.0), ("2", 1.0)]
        .iter()
        .map(|(gpus, stretch)| {
            let mut run = blank();
            run["tags"]["gpus"] = (*gpus).into();
            let mut records = both_cells(*stretch);
            // requests follow each other as much more slowly
            for record in &mut records {
                let due = (record.due - Stamp::EPOCH).as_f64();
                record.shift(Nanos::from_f64(due * (stretch - 1.0)));
            }
            records.sort_by_key(RequestRecord::last_instant);
            ended(&folder.path().join(gpus), &run, &records)
        })
        .collect();
    let said = command(&["compare", text(&runs[1]), text(&runs[0]), "--axis", "gpus"]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    for words in [
        "Along gpus: throughput relative to 1 gpu:",
        "efficiency",
        "scaling",
        "gpus 2 against gpus 1 (1 and 1 run)",
    ] {
        assert!(said.out.contains(words), "{words} is not in {}", said.out);
    }
    let paths = [text(&runs[1]), text(&runs[0])];
    let json = command(
        &[
            &["compare"],
            &paths[..],
            &["--axis", "gpus", "--output", "json"],
        ]
        .concat(),
    );
    let found: Value = serde_json::from_str(&json.out).unwrap();
    let conclusion = found["conclusions"][0].as_str().unwrap();
    assert!(said.out.contains(conclusion), "{conclusion}");
    assert_eq!(found["findings"][0]["code"], "scaling");
    assert_eq!(found["along"].as_array().unwrap().len(), 2);
    assert!(found["comparisons"][0]["rows"].as_array().unwrap().len() > 4);
}

#[test]
fn a_folder_of_runs_is_a_group_of_repeats() {
    let folder = tempfile::tempdir().unwrap();
    for (side, stretch) in [("before", 1.0), ("after", 1.5)] {
        for repeat in 0..3 {
            let wobble = stretch + f64::from(repeat) * 0.002;
            ended(
                &folder.path().join(side).join(format!("run-{repeat}")),
                &blank(),
                &both_cells(wobble),
            );
        }
    }
    let (before, after) = (folder.path().join("before"), folder.path().join("after"));
    let said = command(&[
        "gate",
        text(&before),
        text(&after),
        "--max-regression",
        "e2e.p50:10%",
        "--output",
        "json",
    ]);
    assert_eq!(said.code, Some(4), "{}{}", said.out, said.err);
    let found = command(&["compare", text(&before), text(&after), "--output", "json"]);
    let found: Value = serde_json::from_str(&found.out).unwrap();
    assert_eq!(found[0]["runs"], serde_json::json!([3, 3]));
}

#[test]
fn a_copy_of_a_run_is_no_repeat_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let (group, single) = (folder.path().join("group"), folder.path().join("single"));
    for name in ["one", "two"] {
        ended(&group.join(name), &blank(), &both_cells(1.0));
    }
    ended(&single, &blank(), &both_cells(1.0));
    let kept = folder.path().join("kept");
    let (group, single) = (text(&group), text(&single));
    for arguments in [
        vec!["compare", single, group],
        vec!["gate", single, group, "--max-regression", "e2e.p50:10%"],
        vec![
            "baseline",
            "save",
            "b",
            single,
            single,
            "--baselines",
            text(&kept),
        ],
    ] {
        let said = command(&arguments);
        assert_eq!(said.code, Some(2), "{arguments:?}: {}", said.err);
        assert!(said.err.contains("are the same run"), "{}", said.err);
    }
    let path = Path::new(single).join("run.json");
    let mut later: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    later["started_at"] = "2026-11-21T13:00:00Z".into();
    let copy = folder.path().join("copy");
    fs::create_dir(&copy).unwrap();
    for name in ["requests.jsonl", "hardware.jsonl"] {
        fs::copy(Path::new(single).join(name), copy.join(name)).unwrap();
    }
    fs::write(copy.join("run.json"), later.to_string()).unwrap();
    for other in [single, text(&copy)] {
        let said = command(&["compare", single, other]);
        assert_eq!(said.code, Some(0), "{}", said.err);
        assert!(
            said.err.contains("so there are no differences"),
            "{}",
            said.err
        );
    }
}

#[test]
fn errors_say_what_to_give_instead() {
    let folder = tempfile::tempdir().unwrap();
    let nothing = command(&["render", text(folder.path())]);
    assert_eq!(nothing.code, Some(1));
    assert!(nothing.err.contains("no run found in"), "{}", nothing.err);
    for side in ["a/001", "b/001"] {
        let run = folder.path().join("turns").join(side);
        fs::create_dir_all(&run).unwrap();
        fs::write(run.join("run.json"), "{}").unwrap();
    }
    let turns = command(&["recover", text(&folder.path().join("turns"))]);
    assert_eq!(turns.code, Some(2));
    assert!(turns.err.contains("compare"), "{}", turns.err);
    let matrix = folder.path().join("matrix");
    fs::create_dir(&matrix).unwrap();
    fs::write(matrix.join("matrix.json"), "{}").unwrap();
    let matrix = command(&["recover", text(&matrix)]);
    assert!(matrix.err.contains("with the same --out"), "{}", matrix.err);
    fs::write(
        folder.path().join("run.json"),
        "{\"schema\":{\"name\":\"other\",\"major\":1,\"minor\":0}}",
    )
    .unwrap();
    let other = command(&["render", text(folder.path())]);
    assert!(other.err.contains("is not a valid result"), "{}", other.err);
    assert_eq!(command(&["merge", "one", "--out", "two"]).code, Some(2));
    let help = command(&["--help"]);
    for word in [
        "render",
        "compare",
        "pivot",
        "gate",
        "export",
        "merge",
        "recover",
        "Exit codes",
    ] {
        assert!(help.out.contains(word), "{word}");
    }
}

#[test]
fn output_that_cannot_be_written_is_a_failure() {
    let folder = tempfile::tempdir().unwrap();
    let run = ended(folder.path(), &blank(), &both_cells(1.0));
    for args in [
        &["render", text(&run)][..],
        &["--help"],
        &["export", "--help"],
    ] {
        let full = fs::File::options().write(true).open("/dev/full").unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_bench-report"))
            .args(args)
            .stdout(full)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{args:?}: {said}");
        assert!(said.contains("cannot write to standard output"), "{said}");
    }
}

#[test]
fn a_limit_on_the_size_of_files_is_an_error_that_names_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let run = ended(folder.path(), &blank(), &both_cells(1.0));
    let out = folder.path().join("out");
    for (format, file) in [
        ("json", "run.json"),
        ("parquet", ".parquet"),
        ("csv", ".csv"),
        ("vllm", "vllm-"),
        ("aiperf", "aiperf-"),
    ] {
        let output = Command::new("sh")
            .args(["-c", "ulimit -f 2; exec \"$0\" \"$@\""])
            .arg(env!("CARGO_BIN_EXE_bench-report"))
            .args(["export", text(&run), "--format", format])
            .args(["--out", text(&out)])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{format}: {said}");
        assert!(
            said.contains("cannot write") && said.contains("File too large"),
            "{format}: {said}"
        );
        assert!(
            said.contains(file) || said.contains("/out"),
            "{format}: {said}"
        );
        assert!(!out.exists(), "{format}: half a file is left");
    }
}

#[test]
fn runs_are_laid_out_side_by_side_for_queries() {
    let folder = tempfile::tempdir().unwrap();
    let run = ended(&folder.path().join("run"), &blank(), &both_cells(1.0));
    let all = folder.path().join("all");
    let export = |more: &[&str]| {
        let args = ["export", text(&run), "--out", text(&all), "--partition"];
        command(&[&args[..], more].concat())
    };
    let refused = export(&["--format", "csv"]);
    assert_eq!(refused.code, Some(2));
    assert!(refused.err.contains("--format parquet"), "{}", refused.err);
    let written = export(&["--format", "parquet"]);
    assert_eq!(written.code, Some(0), "{}", written.err);
    for path in written.out.lines() {
        let below = path.strip_prefix(text(&all)).unwrap();
        let parts: Vec<&str> = below.split('/').collect();
        let [_, date, benchmark, run, file] = parts[..] else {
            panic!("{below}");
        };
        assert!(date.starts_with("date=20") && benchmark == "benchmark=throughput");
        assert!(run.starts_with("run=") && run.ends_with("-run"), "{run}");
        assert!(file.ends_with(".parquet"));
    }
    assert_eq!(written.out.lines().count(), 5);
}

#[test]
fn an_export_replaces_no_result_and_what_was_planned_is_none() {
    let folder = tempfile::tempdir().unwrap();
    let run = ended(&folder.path().join("run"), &blank(), &both_cells(1.0));
    let other = killed(&folder.path().join("other"), &blank(), &both_cells(1.2));
    for out in [&other, &run] {
        let before = fs::read(out.join("run.json")).unwrap();
        let export = ["export", text(&run), "--format", "json", "--out", text(out)];
        let said = command(&export);
        assert_eq!(said.code, Some(2), "{}", said.err);
        assert!(said.err.contains("contains a result"), "{}", said.err);
        assert_eq!(fs::read(out.join("run.json")).unwrap(), before);
    }
    // its own place may be written again, and whoever was killed there is told of
    for left in ["", "requests.csv.part", "requests.csv.part"] {
        let said = command(&["export", text(&run), "--format", "json"]);
        assert_eq!(said.code, Some(0), "{}", said.err);
        assert_eq!(
            said.err.contains("half a file"),
            !left.is_empty(),
            "{}",
            said.err
        );
        assert!(said.err.contains(left), "{}", said.err);
        fs::write(run.join("export/requests.csv.part"), "id,").unwrap();
    }
    let begin = run.join(bench_schema::BEGIN_FILE);
    fs::write(&begin, blank().to_string()).unwrap();
    fs::write(run.join("report.md"), "whole").unwrap();
    for name in ["render", "recover"] {
        let said = command(&[name, text(&begin)]);
        assert_eq!(said.code, Some(2), "{}", said.err);
        assert!(said.err.contains("the plan of a run"), "{}", said.err);
    }
    assert_eq!(fs::read_to_string(run.join("report.md")).unwrap(), "whole");
}

#[test]
fn whoever_takes_numbers_of_an_untrusted_run_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let run = ended(&folder.path().join("bad"), &blank(), &both_cells(1.0));
    let good = ended(&folder.path().join("good"), &blank(), &both_cells(1.1));
    let path = run.join("run.json");
    let mut record: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    record["trust"] = serde_json::json!({"verdict": "untrusted", "reasons": [
        {"code": "client_lag", "verdict": "untrusted", "message": "late", "cell": "c4"},
        {"code": "warm_cache", "verdict": "doubtful", "message": "warm"}]});
    fs::write(&path, record.to_string()).unwrap();
    let note = "bad is untrusted (client_lag, warm_cache)";
    let pivot = command(&[
        "pivot",
        text(&run),
        text(&good),
        "--value",
        "requests_per_s",
    ]);
    assert!(pivot.err.contains(note), "{}", pivot.err);
    let row = |name: &str| {
        let mut lines = pivot.out.lines();
        lines
            .find(|line| line.trim_start().starts_with(name))
            .unwrap()
    };
    let marks = |line: &str| (line.matches('?').count(), line.matches('!').count());
    assert_eq!(marks(row("bad")), (1, 1), "{}", pivot.out);
    assert_eq!(marks(row("good")), (0, 0), "{}", pivot.out);
    let export = |format: &str| {
        let said = command(&["export", text(&run), "--format", format]);
        assert_eq!(said.code, Some(0), "{}", said.err);
        assert!(said.err.contains(note), "{}", said.err);
        said.out
    };
    for tool in ["vllm", "aiperf"] {
        let trust: Vec<Value> = export(tool)
            .lines()
            .map(|path| {
                let file = fs::read_to_string(path).unwrap();
                serde_json::from_str::<Value>(&file).unwrap()["trust"].clone()
            })
            .collect();
        assert_eq!(trust, ["doubtful", "untrusted"], "{tool}");
    }
    export("parquet");
    export("csv");
    let cells = fs::read_to_string(run.join("export").join("cells.csv")).unwrap();
    let verdicts: Vec<Vec<&str>> = cells
        .lines()
        .map(|line| line.split(',').skip(1).take(2).collect())
        .collect();
    let wanted = [
        ["trust", "cell_trust"],
        ["untrusted", "doubtful"],
        ["untrusted"; 2],
    ];
    assert_eq!(verdicts, wanted);
}
