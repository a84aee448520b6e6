//! The page: self-contained, harmless, complete.

use bench_report::{RunFiles, html};

use crate::support::{requests, runs};

/// The golden pages, each with its name, requests and readings included.
pub(crate) fn pages() -> Vec<(&'static str, String)> {
    let runs = [
        ("sweep", runs::sweep()),
        ("grid", runs::grid()),
        ("seqlen", runs::seqlen()),
        ("open_loop", runs::open_loop()),
    ];
    let page = |(name, run)| {
        let dir = requests::directory(&run);
        (
            name,
            html::render(&run, &RunFiles::in_dir(dir.path())).unwrap(),
        )
    };
    runs.into_iter().map(page).collect()
}

#[test]
fn golden_pages_are_written_for_people_to_look_at() {
    for (name, page) in pages() {
        let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.html"));
        std::fs::write(&path, &page).unwrap();
        assert!(page.len() < 2_000_000, "{name}: {} bytes", page.len());
    }
}

#[test]
fn the_same_run_gives_the_same_page() {
    assert_eq!(pages(), pages());
}

#[test]
fn every_chart_has_its_numbers_as_a_table_under_it() {
    let mut all = pages();
    all.extend(crate::compare::pages());
    for (name, page) in all {
        for figure in page.split("<figure").skip(1) {
            let figure = figure.split("</figure>").next().unwrap();
            let id = figure.split("id=\"").nth(1).unwrap_or_default();
            let id = id.split('"').next().unwrap();
            assert!(
                figure.contains("<summary>Show as table</summary>") && figure.contains("<td"),
                "{name}: {id} has no table"
            );
        }
    }
}

#[test]
fn what_is_said_of_the_widest_cell_is_said_otherwise_of_the_only_one() {
    let mut run = runs::open_loop();
    run.cells.truncate(1);
    let dir = requests::directory(&run);
    let page = html::render(&run, &RunFiles::in_dir(dir.path())).unwrap();
    let title = |id: &str| title(&page, id);
    // of so few requests a hundredth is nobody
    assert!(title("distributions").starts_with("E2E is between "));
    assert!(title("time-tokens").starts_with("Output over time: CoV "));
    for id in ["distributions", "time-tokens", "time-p95"] {
        assert!(!title(id).contains(" at "), "of one cell: {}", title(id));
    }
}

/// What stands above a chart.
fn title(page: &str, id: &str) -> String {
    let figure = page
        .split("<figure")
        .find(|figure| figure.contains(&format!("id=\"{id}\"")));
    let after = figure.and_then(|figure| figure.split("<h3>").nth(1));
    let title = after.unwrap_or_default().split('<').next();
    title.unwrap_or_default().to_owned()
}

/// Marks the percentiles from `from` on, or takes their marks, of so many groups and of the cell.
fn mark_few(cell: &mut bench_schema::CellRecord, from: f64, groups: usize, few: bool) {
    let groups = cell.groups.iter_mut().take(groups);
    let all = groups.flat_map(|group| group.metrics.values_mut());
    for seen in all.chain(cell.metrics.values_mut()) {
        for entry in seen.quantiles.iter_mut().filter(|entry| entry.q >= from) {
            entry.few_samples = few;
        }
    }
}

#[test]
fn no_headline_rests_on_a_percentile_that_its_table_marks_as_one_of_few() {
    let mut run = runs::seqlen();
    let mut told = |from, groups, few| {
        mark_few(&mut run.cells[0], from, groups, few);
        let page = html::render(&run, &RunFiles::default()).unwrap();
        ["categories", "use-cases", "percentiles"].map(|id| title(&page, id))
    };
    let enough = [
        "The p95 of very long requests is 15.8× that of tiny requests",
        "The slowest use case is long-form: p95 4396 ms",
        "The p95 of E2E is 2.99× its median",
    ];
    assert_eq!(told(0.5, usize::MAX, false), enough);
    let few = [
        "The median of very long requests is 20× that of tiny requests",
        "The slowest use case is long-form: median 2500 ms",
        "The median of E2E is 850 ms",
    ];
    assert_eq!(told(0.9, usize::MAX, true), few);
    // the first of them has not enough for its median either
    let first = "The median of very long requests is 4.93× that of short requests";
    assert_eq!(told(0.5, 1, true)[0], first);
    let none = [
        "The length categories have too few requests to be compared",
        "The use cases have too few requests to be compared",
    ];
    assert_eq!(told(0.5, usize::MAX, true)[..2], none);
}

#[test]
fn a_limit_for_a_use_case_is_none_for_all_requests() {
    let mut run = runs::seqlen();
    let mut outcome = run.cells[0]
        .groups
        .iter()
        .flat_map(|group| &group.slos)
        .next()
        .unwrap()
        .clone();
    outcome.slo.limit = 1234e6;
    let page = |run: &bench_schema::RunRecord| {
        let dir = requests::directory(run);
        html::render(run, &RunFiles::in_dir(dir.path())).unwrap()
    };
    for cell in &mut run.cells {
        cell.slos = vec![outcome.clone()];
        cell.groups.iter_mut().for_each(|group| group.slos.clear());
    }
    assert!(title(&page(&run), "cdf").ends_with(" complete within 1234 ms"));
    for cell in &mut run.cells {
        cell.slos[0].slo.use_case = Some("short-qa".to_owned());
    }
    let page = page(&run);
    assert!(
        title(&page, "cdf").starts_with("90 % of the requests "),
        "{}",
        title(&page, "cdf")
    );
    // the histogram has a most common E2E, of bars of equal width; rows of the heat map are not
    let heatmap = title(&page, "heatmap");
    assert!(
        heatmap.contains("; the median over the run is "),
        "{heatmap}"
    );
    assert!(
        page.contains("short-qa: p95 ≤ 1234 ms"),
        "the line does not say whose limit it is"
    );
}

#[test]
fn a_title_calls_a_cell_the_widest_only_where_the_intervals_bear_it() {
    let mut run = runs::sweep();
    let page = |run: &bench_schema::RunRecord| html::render(run, &RunFiles::default()).unwrap();
    let set = |run: &mut bench_schema::RunRecord, wide: f64| {
        for (i, cell) in (0_u32..).zip(&mut run.cells) {
            let e2e = cell.metrics.get_mut(&bench_schema::Metric::E2e).unwrap();
            for entry in &mut e2e.quantiles {
                let ratio = match entry.q {
                    q if (q - 0.95).abs() < 1e-9 && i == 0 => 2.0 * wide,
                    q if q > 0.9 => 2.0,
                    _ => 1.0,
                };
                entry.value = 1e9 * ratio;
                entry.few_samples = false;
                let ends = [0.9, 1.1].map(|x| x * entry.value);
                entry.interval = Some(bench_schema::Interval {
                    low: ends[0],
                    high: ends[1],
                    confidence: 0.95,
                });
            }
        }
    };
    set(&mut run, 1.05);
    assert_eq!(
        title(&page(&run), "percentiles"),
        "The p95 of E2E is 2× to 2.10× its median"
    );
    set(&mut run, 3.0);
    assert_eq!(
        title(&page(&run), "percentiles"),
        "The tail is widest at concurrency 1: p95 is 6× the median"
    );
}

#[test]
fn a_run_of_schema_version_1_is_rendered_in_every_form() {
    let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/results/v1");
    let text = std::fs::read_to_string(dir.join("run.json")).unwrap();
    let run = bench_schema::RunRecord::from_json(&text).unwrap();
    let page = html::render(&run, &RunFiles::in_dir(&dir)).unwrap();
    assert!(page.matches("data-chart>").count() > 5);
    let cell = &run.cells[0].label;
    assert!(bench_report::markdown::render(&run, &[]).contains(cell));
    assert!(bench_report::terminal::render(&run, None).contains(&run.title));
}
