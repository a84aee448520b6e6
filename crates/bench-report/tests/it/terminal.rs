//! What a terminal shows.

use std::path::Path;

use bench_report::{markdown, terminal};
use bench_schema::RunRecord;
use unicode_width::UnicodeWidthStr;

use crate::support::runs;

fn all() -> Vec<(&'static str, RunRecord)> {
    vec![
        ("sweep", runs::sweep()),
        ("grid", runs::grid()),
        ("seqlen", runs::seqlen()),
        ("open_loop", runs::open_loop()),
    ]
}

#[test]
fn the_terminal_shows_trust_first_then_the_answer_with_the_studies_numbers() {
    for (name, run) in all() {
        insta::assert_snapshot!(
            format!("terminal_{name}"),
            terminal::render(&run, Some(Path::new("results/example")))
        );
    }
}

#[test]
fn the_markdown_report_reads_as_a_report_and_has_no_section_without_data() {
    for (name, run) in all() {
        insta::assert_snapshot!(format!("markdown_{name}"), markdown::render(&run, &[]));
    }
}

#[test]
fn no_line_in_the_terminal_is_wider_than_100_columns() {
    for (name, run) in all() {
        for line in terminal::render(&run, None).lines() {
            assert!(
                line.width() <= 100,
                "{name}: {} columns: {line}",
                line.width()
            );
        }
    }
}
