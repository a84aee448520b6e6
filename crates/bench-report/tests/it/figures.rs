//! Charts as files, without a browser.

use bench_report::RunFiles;
use bench_report::figures::{self, FigureFormat};

use crate::support::{requests, runs};

#[test]
fn every_chart_of_the_page_is_drawn_as_svg_and_twice_the_same() {
    let run = runs::sweep();
    let dir = requests::directory(&run);
    let files = RunFiles::in_dir(dir.path());
    let first = figures::render(&run, &files, FigureFormat::Svg).unwrap();
    let page = bench_report::html::render(&run, &files).unwrap();
    assert_eq!(
        first.len(),
        page.matches("data-chart>").count() + 1,
        "and the dashboard"
    );
    for figure in &first {
        let svg = std::str::from_utf8(&figure.bytes).unwrap();
        assert!(
            svg.starts_with("<svg") && svg.contains("<path") && svg.contains("<text"),
            "{} is empty",
            figure.name
        );
        std::fs::write(
            std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(&figure.name),
            &figure.bytes,
        )
        .unwrap();
    }
    assert!(
        first == figures::render(&run, &files, FigureFormat::Svg).unwrap(),
        "figures depend on what was drawn before"
    );
}

#[test]
fn a_figure_as_png_has_ink_on_it() {
    let run = runs::grid();
    let all = figures::render(&run, &RunFiles::default(), FigureFormat::Png).unwrap();
    for figure in all {
        assert!(figure.bytes.starts_with(b"\x89PNG"), "{}", figure.name);
        assert!(
            figure.bytes.len() > 8_000,
            "{}: {} bytes",
            figure.name,
            figure.bytes.len()
        );
        std::fs::write(
            std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(&figure.name),
            &figure.bytes,
        )
        .unwrap();
    }
}
