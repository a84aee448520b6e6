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
    assert!(page.contains("E2E varies: p1 "), "no such title");
    assert!(page.contains(" over time varies: CoV "), "no such title");
    assert!(!page.contains(" most at "), "of one cell");
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
