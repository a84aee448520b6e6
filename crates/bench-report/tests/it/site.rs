//! The list of many runs.

use std::path::Path;

use bench_insight::Trend;
use bench_metrics::Estimate;
use bench_report::site::{Listed, list};
use bench_schema::{Benchmark, Trust, TrustReason, TrustVerdict};

use crate::support::runs;

pub(crate) const LIST: &str = "list";
pub(crate) const TRENDS: &str = "trends";

/// Twenty trusted runs of as many commits; from the thirteenth on they complete a fifth less, and their latency is level.
pub(crate) fn trends() -> String {
    let points = |lower: f64| -> Vec<(String, Estimate)> {
        let run = |i: u32| {
            let level = if i < 12 { 1.0 } else { lower };
            let value = 29.5 * level * (1.0 + f64::from(i * 37 % 11) / 1000.0);
            let seen = Estimate::bounded(value, value * 0.97, value * 1.03, 0.95);
            (format!("{:07x}", 0x8e_78aa + i * 7919), seen)
        };
        (0..20).map(run).collect()
    };
    let figures = [("requests_per_s", 0.8), ("e2e.p95", 1.0), ("itl.p50", 1.0)];
    let cells = ["concurrency 1 · mixed", "concurrency 32 · mixed"];
    let trends = cells.iter().flat_map(|cell| {
        figures.iter().filter_map(|(figure, lower)| {
            let of = ("throughput · qwen2.5-0.5b".to_owned(), (*cell).to_owned());
            Trend::new(of, figure, points(*lower))
        })
    });
    let trends: Vec<Trend> = trends.collect();
    bench_report::trend::page("results", (20, 23), &trends)
}

#[test]
fn a_change_of_level_is_named_with_its_first_commit_and_what_it_comes_to() {
    let page = trends();
    let since = format!("{:07x}", 0x8e_78aa + 12 * 7919);
    let found = page.matches(&format!("<bdi>{since}</bdi>")).count();
    assert!(found >= 1, "{since} is in no row");
    let fifth = page.contains(">-19.") || page.contains(">-20.");
    assert!(fifth, "no change of a fifth");
    assert!(page.contains("20 trusted runs of 23 runs"));
    assert!(
        page.contains("no change of level in 20 runs"),
        "the others are level"
    );
}

/// Three runs, the newest first: `a`, `b`, `c`; one that cannot be read.
pub(crate) fn page() -> String {
    let runs = [
        ("c", runs::sweep()),
        ("a", runs::seqlen()),
        ("b", runs::open_loop()),
    ];
    let mut listed = vec![Listed::new(
        "d",
        "d",
        Path::new("results/d"),
        Err("results/d/run.json is not a valid result".to_owned()),
    )];
    for (key, mut run) in runs {
        run.started_at = format!(
            "2026-11-2{}T10:00:00Z",
            if key == "a" { 3 } else { u8::from(key == "b") }
        );
        run.tags.clear();
        if key == "b" {
            run.server.model =
                Some("organisation/a-model-of-seventy-billion-parameters-instruct-awq".to_owned());
            run.server.urls = vec![
                "https://inference.eu-central-1.example.com:8443/deployments/seventy".to_owned(),
            ];
            run.tags.insert(
                "commit".to_owned(),
                "8e78aaa0f0e14a6b8d1f2a3b4c5d6e7f80910111".to_owned(),
            );
            let reason = |code: &str| TrustReason::new(code, TrustVerdict::Doubtful, "a reason");
            run.trust = Trust::from_reasons(vec![
                reason("not_stationary"),
                reason("few_samples"),
                reason("sent_late"),
            ]);
        }
        let gpus = if run.experiment == Benchmark::Throughput && key == "c" {
            "2"
        } else {
            "1"
        };
        run.tags.insert("gpus".to_owned(), gpus.to_owned());
        listed.push(Listed::new(
            key,
            key,
            &Path::new("results").join(key),
            Ok(&run),
        ));
    }
    list("results", listed, true)
}

#[test]
fn the_newest_run_is_first_and_what_cannot_be_read_is_last() {
    let page = page();
    let keys = page.split("<th scope=\"row\">").skip(1);
    let names: Vec<&str> = keys
        .map(|row| {
            row.split("<bdi>")
                .nth(1)
                .unwrap()
                .split('<')
                .next()
                .unwrap()
        })
        .collect();
    assert_eq!(names, ["a", "b", "c", "d"]);
    assert!(page.contains("1 unreadable"));
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("list.html");
    std::fs::write(path, &page).unwrap();
}
