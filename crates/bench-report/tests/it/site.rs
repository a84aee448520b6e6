//! The list of many runs.

use std::path::Path;

use bench_report::site::{Listed, list};
use bench_schema::{Benchmark, Trust, TrustReason, TrustVerdict};

use crate::support::runs;

pub(crate) const LIST: &str = "list";

/// Three runs, the newest first: `a`, `b`, `c`; one that cannot be read.
pub(crate) fn page() -> String {
    let runs = [
        ("c", runs::sweep()),
        ("a", runs::seqlen()),
        ("b", runs::open_loop()),
    ];
    let mut listed = vec![Listed::new(
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
        listed.push(Listed::new(key, &Path::new("results").join(key), Ok(&run)));
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
