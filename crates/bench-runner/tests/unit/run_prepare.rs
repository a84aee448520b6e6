use super::*;

#[test]
fn metrics_are_looked_for_where_the_kind_of_server_has_them() {
    let urls = ["http://a:1/v1/".to_owned(), "http://b:2".to_owned()];
    let vllm = usual_pages(&urls, Some("vllm"));
    assert_eq!(vllm, ["http://a:1/metrics", "http://b:2/metrics"]);
    let trtllm = usual_pages(&urls[1..], Some("tensorrt_llm"));
    assert_eq!(trtllm, ["http://b:2/prometheus/metrics"]);
    assert_eq!(usual_pages(&urls[1..], None), ["http://b:2/metrics"]);
}

/// Else the worker whose connection does not fit waits for the kernel, and its other streams with it.
#[cfg(target_os = "linux")]
#[test]
fn there_is_room_in_the_table_of_open_files_before_any_load() {
    let settings = config::for_tests(bench_schema::Benchmark::Throughput, &[]);
    let cell = Cell::of(&settings, Load::closed(40), DatasetSpec::Mixed);
    assert_eq!(make_room_for(&[cell], &settings), None);
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let size = status.lines().find_map(|line| line.strip_prefix("FDSize:"));
    let size: u64 = size.unwrap().trim().parse().unwrap();
    let allowed = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    assert!(size >= USUAL.min(allowed), "{size} of {allowed}");
}

#[test]
fn a_target_that_nothing_measured_can_meet_is_refused_before_anything_is_measured() {
    let of = |targets: &str, dataset: DatasetSpec, more: &[&str]| {
        let args = [&["--target", targets], more].concat();
        let settings = config::for_tests(bench_schema::Benchmark::Throughput, &args);
        let cells = [2, 8].map(|concurrency| {
            let mut cell = Cell::of(&settings, Load::closed(concurrency), dataset.clone());
            cell.id = format!("c{concurrency}");
            let level = Factor::from(concurrency);
            cell.factors.extend([("concurrency".to_owned(), level)]);
            cell
        });
        targets_are_of(&cells, 1, &settings)
    };
    for fine in [
        "c2:failed==0",
        "failed==0",
        "any:failed==0",
        "concurrency=8.0:decode.p95<1s",
        "use_case=short-qa:failed==0",
        "use_case=short-qa+concurrency=2:e2e.p95<1s",
        "category=tiny:failed==0",
        "turn=2:failed==0",
    ] {
        let outcome = of(fine, DatasetSpec::Mixed, &[]);
        assert!(outcome.is_ok(), "{fine}: {outcome:?}");
    }
    assert!(of("attainment>0.9", DatasetSpec::Mixed, &["--slo", "ttft=1s"]).is_ok());
    for (wrong, what, help) in [
        ("c9:failed==0", "no cell `c9`", "the cells are c2, c8"),
        (
            "concurency=8:ttft.p99<1s",
            "no factor or label `concurency`",
            "concurrency, use_case",
        ),
        (
            "concurrency=9:failed==0",
            "no cell with concurrency=9",
            "cells have concurrency 2, 8",
        ),
        (
            "use_case=short-qa+turn=2:failed==0",
            "one label only, not by use_case and turn",
            "one target per label",
        ),
        (
            "use_case=shortqa:failed==0",
            "no use case `shortqa`",
            "short-qa",
        ),
        ("endpoint=a:failed==0", "one endpoint", "remove `endpoint=`"),
        ("attainment>0.9", "no objectives", "--slo"),
        ("use_case=short-qa:decode.p95<1s", "per use_case", "tpot"),
        ("use_case=short-qa:attainment>0.9", "per use_case", "e2e"),
        ("use_case=short-qa:e2e_due.p95<1s", "per use_case", "e2e"),
    ] {
        let said = of(wrong, DatasetSpec::Mixed, &[]).unwrap_err().to_string();
        let named = said.contains(what) && said.contains(help);
        assert!(named, "{wrong}: {said}");
    }
    let said = of("use_case=a:failed==0", DatasetSpec::Random, &[]);
    assert!(said.unwrap_err().to_string().contains("no use cases"));
}

#[test]
fn with_answers_of_a_length_that_is_asked_for_there_are_no_use_cases() {
    let args = ["--slo", "ttft=1s@short-qa", "--output-tokens", "64"];
    let settings = config::for_tests(bench_schema::Benchmark::Throughput, &args);
    let cells = [Cell::of(&settings, Load::closed(2), DatasetSpec::Mixed)];
    let said = objectives_are_of(&cells, &settings)
        .unwrap_err()
        .to_string();
    assert!(said.contains("no use case `short-qa`"), "{said}");
    assert!(said.contains("`--output-tokens`"), "{said}");
}

#[test]
fn an_objective_of_a_use_case_that_no_request_has_is_refused_before_anything_is_measured() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("prompts.jsonl");
    let rows = "{\"prompt\": \"a\", \"use_case\": \"mail\"}\n{\"prompt\": \"b\"}\n";
    std::fs::write(&file, rows).unwrap();
    let of = |dataset: DatasetSpec, slo: &str| {
        let args = ["--concurrency", "2", "--slo", slo];
        let settings = config::for_tests(bench_schema::Benchmark::Throughput, &args);
        objectives_are_of(&[Cell::of(&settings, Load::closed(2), dataset)], &settings)
    };
    let labelled = || DatasetSpec::File {
        format: bench_workload::FileFormat::Jsonl,
        path: file.clone(),
    };
    assert!(of(DatasetSpec::Mixed, "ttft=1s@short-qa").is_ok());
    assert!(of(labelled(), "ttft=1s@mail,e2e=2s").is_ok());
    assert!(of(DatasetSpec::Random, "ttft=1s").is_ok());
    for (dataset, wrong, hint) in [
        (DatasetSpec::Mixed, "ttft=1s@chat", "short-qa"),
        (labelled(), "ttft=1s@short-qa", "the use cases are mail"),
        (DatasetSpec::Random, "ttft=1s@chat", "remove the use case"),
    ] {
        let said = of(dataset, wrong).unwrap_err().to_string();
        assert!(
            said.contains("no use case") && said.contains(hint),
            "{said}"
        );
    }
}

#[test]
fn what_no_answer_will_have_is_refused_before_anything_is_measured() {
    let of = |asked: &[&str], more: &[&str]| {
        let args = [asked, more].concat();
        let settings = config::for_tests(bench_schema::Benchmark::Throughput, &args);
        let cells = [Cell::of(&settings, Load::closed(2), DatasetSpec::Random)];
        objectives_are_of(&cells, &settings).and_then(|()| targets_are_of(&cells, 1, &settings))
    };
    let one = ["--output-tokens", "1"];
    for (asked, more, why) in [
        (
            ["--slo", "e2e=1s,ttft=60ms"],
            &["--no-stream"][..],
            "will have TTFT",
        ),
        (
            ["--target", "ttft.p95<=60ms"],
            &["--no-stream"],
            "will have TTFT",
        ),
        (
            ["--slo", "p50:tpot=60ms"],
            &["--no-stream"],
            "will have TPOT",
        ),
        (["--slo", "ttft=1s,itl=20ms"], &one, "will have ITL"),
        (["--target", "tpot.mean<=60ms"], &one, "will have TPOT"),
    ] {
        let said = of(&asked, more).unwrap_err().to_string();
        assert!(said.contains(why), "{said}");
        assert!(said.contains(more[0]), "{said}");
        assert!(
            of(&asked, &["--output-tokens", "1..2"]).is_ok(),
            "{asked:?}"
        );
    }
    assert!(of(&["--slo", "e2e=1s"], &["--no-stream"]).is_ok());
    assert!(of(&["--slo", "ttft=1s,e2e=1s"], &one).is_ok());
}

#[test]
fn streams_that_do_not_fit_are_named_before_they_fail() {
    assert_eq!(short(900, Some(1024)), None);
    assert_eq!(short(1_000_000, None), None);
    let problem = short(256, Some(64)).unwrap();
    assert!(problem.contains("256 streams") && problem.contains("64") && problem.contains("320"));
}
