//! Runs beside each other.

use bench_insight::{ComparedSamples, ComparisonVerdict, RunComparison};
use bench_metrics::CompareOptions;
use bench_report::compare::{Point, Study};
use bench_report::{ReportError, RunFiles, compare};
use bench_schema::{Distribution, Metric, PhaseShares, RunRecord};
use serde_json::json;

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
            *rates.requests_per_s.as_mut().unwrap() *= rate;
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

fn held(base: &[&RunRecord], new: &[&RunRecord]) -> RunComparison {
    let samples = ComparedSamples::default();
    bench_insight::compare(base, new, samples, &CompareOptions::default()).unwrap()
}

/// Runs that share a level of the axis as a point each; without an axis each run.
fn study<'a>(runs: &'a [RunRecord], axis: Option<&str>) -> Result<Study<'a>, ReportError> {
    study_with(runs, axis, &|_| None)
}

/// The same with the files of each run.
fn study_with<'a>(
    runs: &'a [RunRecord],
    axis: Option<&str>,
    files: &dyn Fn(&RunRecord) -> Option<RunFiles>,
) -> Result<Study<'a>, ReportError> {
    let mut points: Vec<Point<'a>> = Vec::new();
    for (i, run) in runs.iter().enumerate() {
        let name = axis.map_or_else(
            || format!("run {i}"),
            |tag| format!("{tag} {}", run.tags[tag]),
        );
        match points.iter_mut().find(|point| point.name == name) {
            Some(known) => known.runs.push(run),
            None => points.push(Point {
                name,
                runs: vec![run],
                files: files(run).into_iter().collect(),
                held: None,
            }),
        }
    }
    points.sort_by(|a, b| a.name.cmp(&b.name));
    let base = points.first().map(|point| point.runs.clone());
    for point in points.iter_mut().skip(1) {
        point.held = base.as_ref().map(|base| RunComparison {
            base: "the first".to_owned(),
            new: point.name.clone(),
            ..held(base, &point.runs)
        });
    }
    Study::new(points, axis, None)
}

#[test]
fn before_and_after_name_what_got_better_and_what_cannot_be_told() {
    let runs = [
        changed(1.0, 1.0, &[("commit", "before")]),
        changed(0.8, 1.3, &[("commit", "after")]),
    ];
    let text = compare::markdown(&study(&runs, None).unwrap());
    insta::assert_snapshot!("compare_before_after", text);
    assert!(text.contains("better in"), "{text}");
}

#[test]
fn a_comparison_in_the_terminal_shows_both_values() {
    let runs = [changed(1.0, 1.0, &[]), changed(0.8, 1.3, &[])];
    let shown = compare::terminal(&held(&[&runs[0]], &[&runs[1]]));
    assert!(shown.contains("1.30 → 1.69 req/s"), "{shown}");
    let rows = shown.lines().filter(|line| line.starts_with("  "));
    for row in rows {
        assert!(row.chars().count() <= 100, "{row}");
    }
}

#[test]
fn titles_of_two_runs_go_from_the_baseline_to_the_other() {
    for (latency, rate) in [(0.8, 1.3), (1.25, 0.7), (0.8, 0.7)] {
        let runs = [changed(1.0, 1.0, &[]), changed(latency, rate, &[])];
        let page = compare::html(&study(&runs, None).unwrap()).unwrap();
        let titles = page.split(" goes from ").skip(1);
        let titles: Vec<&str> = titles.filter_map(|title| title.get(..60)).collect();
        assert!(titles.len() >= 4, "{titles:?}");
        for title in titles {
            let (base, new) = (title.find("(run 0)"), title.find("(run 1)"));
            assert!(base.is_some() && base < new, "{title}");
        }
    }
}

/// The golden sweep as a search that found this capacity, or these bounds, or none.
fn searched(value: Option<f64>, bounds: [Option<f64>; 2]) -> RunRecord {
    let mut run = runs::sweep();
    let [low, high] = bounds;
    let capacity = json!({
        "factor": "concurrency", "stopped": "budget", "value": value, "low": low, "high": high, "precision": 0.05, "objectives": [],
        "requests": 100, "seconds": 60.0,
    });
    run.analysis.capacity = Some(serde_json::from_value(capacity).unwrap());
    run
}

#[test]
fn what_one_search_found_is_not_said_of_one_that_found_nothing() {
    for bounds in [[None; 2], [Some(1.0), None]] {
        let other = searched(Some(4.0), [Some(3.0), Some(5.0)]);
        let runs = [searched(None, bounds), other];
        let page = compare::html(&study(&runs, None).unwrap()).unwrap();
        assert!(!page.contains("in every run"));
        assert!(page.contains("in run 1 at the best cell of each run"));
        assert!(page.contains("nothing to compare, since a search found no capacity"));
        assert!(!page.contains("no common cells"));
    }
}

#[test]
fn of_a_search_that_found_a_range_the_range_is_shown() {
    let range = searched(None, [Some(10.0), Some(30.0)]);
    let runs = [range, searched(Some(4.0), [Some(3.0), Some(5.0)])];
    let study = study(&runs, None).unwrap();
    for shown in [
        compare::markdown(&study),
        compare::terminal(&held(&[&runs[0]], &[&runs[1]])),
    ] {
        assert!(shown.contains("10 to 30 → 4"), "{shown}");
        assert!(!shown.contains("nothing to compare"), "{shown}");
    }
    let page = compare::html(&study).unwrap();
    assert!(page.contains("capacity in flight -90.0 % to -50.0 % (search)"));
    assert!(!page.contains("in every run"));
    assert!(page.contains("in run 1 at the best cell of each run"));
}

#[test]
fn a_run_against_itself_is_never_better_or_worse() {
    let run = runs::sweep();
    let found = held(&[&run], &[&run]);
    assert!(found.rows.len() > 30);
    let differs = [ComparisonVerdict::Better, ComparisonVerdict::Worse];
    assert!(
        found.rows.iter().all(|row| !differs.contains(&row.verdict)),
        "{found:?}"
    );
    let shown = compare::terminal(&found);
    assert!(shown.contains("0 better, 0 worse"), "{shown}");
}

#[test]
fn a_tag_as_axis_says_how_throughput_scales_along_it() {
    let runs = [
        changed(0.9, 3.2, &[("gpus", "4")]),
        changed(1.0, 1.0, &[("gpus", "1")]),
        changed(0.95, 1.59, &[("gpus", "2")]),
    ];
    let text = compare::markdown(&study(&runs, Some("gpus")).unwrap());
    insta::assert_snapshot!("compare_gpus", text);
    for said in [
        "1.59× at 2 gpus (efficiency 79.5 %)",
        "3.20× at 4 gpus (efficiency 80.0 %)",
    ] {
        assert!(text.contains(said), "{said} is not in {text}");
    }
}

#[test]
fn a_named_axis_says_that_the_model_decides_the_rate() {
    let runs = [
        changed(1.0, 1.0, &[("model", "13b")]),
        changed(0.5, 4.65, &[("model", "124m")]),
    ];
    let text = compare::markdown(&study(&runs, Some("model")).unwrap());
    assert!(
        text.contains("Along model: request rates differ by a factor of 4.65"),
        "{text}"
    );
}

#[test]
fn models_that_keep_up_with_one_rate_are_told_apart_by_their_latency() {
    let runs = ["a", "b"].map(|model| changed(1.0, 1.0, &[("model", model)]));
    let said = compare::conclusions(&study(&runs, Some("model")).unwrap());
    let rate = said
        .iter()
        .find(|line| line.contains("at the same request rate"));
    assert!(
        rate.is_some_and(|line| line.contains("mean E2E is")),
        "{said:?}"
    );
}

/// A distribution with every value multiplied.
fn stretched(times: &mut Distribution, by: f64) {
    let ends = [&mut times.mean, &mut times.min, &mut times.max];
    let of_mean = times.mean_interval.iter_mut();
    let of_mean = of_mean.flat_map(|i| [&mut i.low, &mut i.high]);
    let quantiles = times.quantiles.iter_mut().flat_map(|q| {
        let interval = q.interval.iter_mut();
        interval
            .flat_map(|i| [&mut i.low, &mut i.high])
            .chain([&mut q.value])
    });
    for value in ends.into_iter().chain(of_mean).chain(quantiles) {
        *value *= by;
    }
}

#[test]
fn along_a_dataset_waiting_is_no_part_of_prefill_and_other_requests_are_said() {
    let mut runs = [("short", 128.0), ("long", 768.0)].map(|(name, tokens)| {
        let mut run = changed(1.0, 1.0, &[("dataset", name)]);
        for cell in &mut run.cells {
            // where no answer tells its waiting, this is the whole time before the first token
            cell.metrics.remove(&Metric::Queue);
            for metric in [Metric::Ttft, Metric::TtftDue] {
                if let Some(times) = cell.metrics.get_mut(&metric) {
                    stretched(times, tokens / 128.0);
                }
            }
            let ttft = cell.metrics[&Metric::Ttft].clone();
            cell.metrics.insert(Metric::Prefill, ttft);
            cell.plan.hash = Some(name.to_owned());
            let prompts = cell.metrics.get_mut(&Metric::InputTokens).unwrap();
            prompts.mean = tokens;
            let share = tokens / 3840.0;
            cell.phases = Some(PhaseShares {
                queue: 0.3,
                prefill: share,
                decode: 0.7 - share,
                queue_source: "server_metrics".to_owned(),
                by_percentile: Vec::new(),
            });
        }
        run
    });
    // answers of another length: only what comes before them is compared
    for cell in &mut runs[1].cells {
        cell.metrics.get_mut(&Metric::OutputTokens).unwrap().mean *= 2.0;
    }
    let said = compare::conclusions(&study(&runs, Some("dataset")).unwrap()).join("\n");
    for wanted in [
        "prefill grows 6×",
        "without queueing (30.0 % of E2E)",
        "differ in requests or load",
    ] {
        assert!(said.contains(wanted), "{wanted} is not in {said}");
    }
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
    let text = compare::markdown(&study(&runs, Some("commit")).unwrap());
    assert!(text.contains("over runs"), "{text}");
}

#[test]
fn one_run_is_nothing_to_compare() {
    let runs = [runs::sweep()];
    assert!(matches!(
        study(&runs, None),
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
    let dir_of = |run: &RunRecord| gpus.iter().position(|known| std::ptr::eq(known, run));
    let files = |run: &RunRecord| dir_of(run).map(|i| RunFiles::in_dir(dirs[i].path()));
    let with_requests = study_with(&gpus, Some("gpus"), &files).unwrap();
    let page = |study: Result<Study<'_>, ReportError>| compare::html(&study.unwrap()).unwrap();
    let pages = vec![
        ("compare_pair", page(study(&pair, None))),
        ("compare_gpus", page(Ok(with_requests))),
        ("compare_hostile", page(study(&hostile, None))),
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

#[test]
fn a_change_of_many_times_is_written_as_a_factor() {
    let (base, new) = (runs::sweep(), changed(376.0, 1.0, &[]));
    let said = compare::terminal(&held(&[&base], &[&new]));
    assert!(said.contains("376×") && !said.contains("37500"), "{said}");
}

#[test]
fn a_chart_of_some_changes_says_how_many_it_leaves_out() {
    let study_of =
        |runs: &[RunRecord]| compare::html(&study(runs, Some("commit")).unwrap()).unwrap();
    let page = study_of(&["a", "b"].map(|commit| changed(1.0, 1.0, &[("commit", commit)])));
    assert!(
        page.contains("more rows are in the table."),
        "nothing is said"
    );
}
