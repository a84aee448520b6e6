//! What a terminal shows.

use std::path::Path;

use bench_report::{markdown, terminal};
use bench_schema::{Answer, RunRecord};
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
fn a_result_fits_a_screen_and_a_report_a_comment_on_a_pull_request() {
    let mut all = all();
    all.push((
        "hostile",
        crate::hostile::run_with("a \u{1b}[31m b|c `d` http://x/"),
    ));
    let mut many = runs::sweep();
    many.cells = many.cells.iter().cycle().take(60).cloned().collect();
    for (i, cell) in many.cells.iter_mut().enumerate() {
        cell.id = format!("c{i}");
        cell.counts.failed = 3;
        cell.counts.planned += 3;
    }
    many.findings = many.findings.iter().cycle().take(40).cloned().collect();
    let reason = many.trust.reasons[0].clone();
    many.trust.reasons = vec![reason; 30];
    all.push(("many", many));
    for (name, run) in all {
        let shown = terminal::render(&run, Some(Path::new("results/example")));
        assert!(shown.lines().count() <= 40, "{name}: {shown}");
        let text = markdown::render(&run, &[]);
        assert!(
            text.lines().count() <= 120,
            "{name}: {}",
            text.lines().count()
        );
        assert!(text.len() <= 20_000, "{name}: {} bytes", text.len());
        assert!(!text.contains("http&#58;//"), "{name}");
        let whole = terminal::render_all(&run, None);
        assert!(whole.lines().count() > shown.lines().count(), "{name}");
        assert!(whole.lines().all(|line| line.width() <= 100), "{name}");
    }
}

#[test]
fn one_miss_stands_for_all_that_the_table_of_objectives_has() {
    let mut run = runs::sweep();
    let mut miss = run.findings[0].clone();
    miss.code = Answer::SloMissed.into();
    run.findings.splice(0..0, vec![miss; 5]);
    let text = markdown::render(&run, &[]);
    let said = "- more misses in the table of objectives: 4\n";
    assert!(text.contains(said), "{text}");
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

#[test]
fn no_figure_of_a_reason_is_cut_off() {
    let mut run = runs::sweep();
    let message = "the measured window is not steady: latency rises to 1.47 times its level, time per token rises to 1.47 times its level, number in flight rises to 4.11 times its level, from the first third of the window to the last (tested from when 3 (the median) were in flight to the last request sent; an open loop, so every request counts)";
    message.clone_into(&mut run.trust.reasons[0].message);
    run.trust.reasons.truncate(1);
    let shown = terminal::render(&run, None);
    let words: Vec<&str> = shown.split_whitespace().collect();
    assert!(words.join(" ").contains(message), "{shown}");
}
