//! Runs beside each other.

use bench_report::{ReportError, RunFiles, compare};
use bench_schema::RunRecord;

use crate::support::{requests, runs};

/// The golden sweep with its latencies and rates changed by these factors.
fn changed(latency: f64, rate: f64, tags: &[(&str, &str)]) -> RunRecord {
    let mut run = runs::sweep();
    run.tags
        .extend(tags.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())));
    for cell in &mut run.cells {
        for seen in cell.metrics.values_mut() {
            for q in &mut seen.quantiles {
                q.value *= latency;
                q.interval
                    .iter_mut()
                    .for_each(|iv| (iv.low, iv.high) = (iv.low * latency, iv.high * latency));
            }
        }
        if let Some(rates) = &mut cell.windows.whole {
            rates.requests_per_s *= rate;
            rates.output_tokens_per_s = rates.output_tokens_per_s.map(|x| x * rate);
            for iv in [
                &mut rates.output_tokens_per_s_interval,
                &mut rates.requests_per_s_interval,
            ]
            .into_iter()
            .flatten()
            {
                (iv.low, iv.high) = (iv.low * rate, iv.high * rate);
            }
        }
    }
    run
}

#[test]
fn before_and_after_name_what_got_better_and_what_cannot_be_told() {
    let runs = [
        changed(1.0, 1.0, &[("commit", "before")]),
        changed(0.8, 1.3, &[("commit", "after")]),
    ];
    let text = compare::markdown(&runs, None).unwrap();
    insta::assert_snapshot!("compare_before_after", text);
    assert!(text.contains("better in"), "{text}");
}

#[test]
fn a_run_against_itself_is_never_better_or_worse() {
    let run = runs::sweep();
    let found = compare::changes(&[&run], &[&run]);
    assert!(found.len() > 30);
    for change in found {
        assert!(
            change.comparison.difference.value.abs() < 1e-9 && change.comparison.adjusted_p > 0.99,
            "{change:?}"
        );
    }
}

#[test]
fn a_tag_as_axis_gives_the_scaling_efficiency_along_it() {
    let runs = [
        changed(0.9, 3.2, &[("gpus", "4")]),
        changed(1.0, 1.0, &[("gpus", "1")]),
        changed(0.95, 1.8, &[("gpus", "2")]),
    ];
    let text = compare::markdown(&runs, Some("gpus")).unwrap();
    insta::assert_snapshot!("compare_gpus", text);
    assert!(text.contains("a scaling efficiency of 80"), "{text}");
}

#[test]
fn repeats_of_a_level_make_the_run_the_unit() {
    let repeats = |rate: f64, commit: &'static str| {
        [0.98, 1.0, 1.02].map(|wobble| changed(1.0, rate * wobble, &[("commit", commit)]))
    };
    let runs: Vec<RunRecord> = repeats(1.0, "a")
        .into_iter()
        .chain(repeats(1.5, "b"))
        .collect();
    let text = compare::markdown(&runs, Some("commit")).unwrap();
    assert!(
        text.contains("the run is the unit: one figure for each run"),
        "{text}"
    );
}

#[test]
fn one_run_is_nothing_to_compare() {
    let runs = [runs::sweep()];
    assert!(matches!(
        compare::markdown(&runs, None),
        Err(ReportError::TooFewRuns { given: 1 })
    ));
    let same = [runs::sweep(), runs::sweep()];
    assert!(matches!(
        compare::html(&same, Some("gpus")),
        Err(ReportError::TooFewRuns { given: 1 })
    ));
}

/// A page for the browser test.
pub(crate) fn pages() -> Vec<(&'static str, String)> {
    let pair = [
        changed(1.0, 1.0, &[("commit", "before")]),
        changed(0.8, 1.3, &[("commit", "after")]),
    ];
    let gpus = [
        changed(1.0, 1.0, &[("gpus", "1")]),
        changed(0.95, 1.8, &[("gpus", "2")]),
        changed(0.9, 3.2, &[("gpus", "4")]),
    ];
    let hostile = [
        crate::hostile::run_with("</script><b>\u{202e}|a"),
        crate::hostile::run_with("plain"),
    ];
    let dirs: Vec<_> = gpus.iter().map(requests::directory).collect();
    let files: Vec<RunFiles> = dirs.iter().map(|d| RunFiles::in_dir(d.path())).collect();
    let with_requests = compare::html_with_requests(&gpus, &files, Some("gpus")).unwrap();
    let pages = vec![
        ("compare_pair", compare::html(&pair, None).unwrap()),
        ("compare_gpus", with_requests),
        ("compare_hostile", compare::html(&hostile, None).unwrap()),
    ];
    for (name, page) in &pages {
        std::fs::write(
            std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.html")),
            page,
        )
        .unwrap();
    }
    pages
}

#[test]
fn hostile_names_stay_text_in_a_comparison() {
    for (_, page) in pages() {
        crate::hostile::is_harmless_html(&page, 3);
    }
}
