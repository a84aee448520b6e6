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
