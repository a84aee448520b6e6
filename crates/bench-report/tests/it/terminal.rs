//! What a terminal shows.

use std::path::Path;

use bench_report::{Cell, Column, Table, markdown, terminal};
use bench_schema::{Answer, Cause, Metric, PrecisionOutcome, RunRecord, SloVerdict};
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
fn a_precision_that_was_asked_for_is_told_where_it_was_not_reached_and_where_it_was() {
    let mut run = runs::sweep();
    assert!(!markdown::render(&run, &[]).contains("precise"));
    let rule = |reached, needed: Option<u64>| PrecisionOutcome {
        rule: "p99:ttft=1%".to_owned(),
        reached,
        half_width: needed.map(|_| 0.34),
        needed,
    };
    run.cells[0].analysis.precision = vec![rule(true, Some(300))];
    let said = "; requested precision reached";
    assert!(markdown::render(&run, &[]).contains(said));
    run.cells[1].analysis.precision = vec![rule(false, Some(177_332)), rule(false, None)];
    let said = "precision p99:ttft=1% NOT reached in concurrency 2 (± 34.0 %, about 177300 requests needed, 1 more";
    let shown = markdown::render(&run, &[]);
    assert!(shown.contains(said), "{shown}");
    let shown = terminal::render(&run, None);
    let words: Vec<&str> = shown.split_whitespace().collect();
    assert!(words.join(" ").contains("NOT reached"), "{shown}");
}

#[test]
fn a_severity_is_that_of_the_worst_cell_and_an_upper_bound_for_the_others() {
    let mut run = runs::sweep();
    let mut found = run.findings[0].clone();
    found.code = Cause::Queueing.into();
    found.severity = 0.585;
    found.cells = vec![run.cells[1].id.clone(), run.cells[0].id.clone()];
    run.findings = vec![found];
    let text = markdown::render(&run, &[]);
    assert!(text.contains("| 58.5 % |"), "{text}");
    assert!(text.contains("| up to 58.5 % |"), "{text}");
}

#[test]
fn one_miss_stands_for_all_that_the_table_of_objectives_has() {
    let mut run = runs::sweep();
    let mut miss = run.findings[0].clone();
    miss.code = Answer::SloMissed.into();
    run.findings.splice(0..0, vec![miss; 5]);
    let text = markdown::render(&run, &[]);
    let said = "- 4 more missed objectives: see the table of objectives\n";
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
fn what_is_left_out_is_in_a_report_that_there_is_or_that_a_command_writes() {
    let mut run = runs::sweep();
    let mut told = |html: &str| {
        run.config["html"] = html.into();
        let shown = terminal::render(&run, None);
        let words: Vec<&str> = shown.split_whitespace().collect();
        words.join(" ")
    };
    let written = "report.html (`bench-report render` writes it)";
    assert!(!told("true").contains(written));
    assert!(told("false").contains(&format!("more columns in {written}: ")));
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

#[test]
fn long_words_of_a_table_are_broken_into_lines_and_never_cut() {
    let advice = "spread the model over more devices, and then look at what is in between: --tensor-parallel-size";
    let columns = [Column::text("cell"), Column::text("try first")];
    let mut columns = columns.to_vec();
    columns.extend(["p50", "p95", "p99"].map(|name| Column::number(name, "ms")));
    let mut table = Table::new("Bottleneck of each cell", columns);
    for cell in ["concurrency 8, prompts of five hundred words", "c1"] {
        let mut row = vec![Cell::text(cell), Cell::text(advice)];
        row.extend([1.0, 20.0, 300.0].map(Cell::number));
        table.push(row);
    }
    let shown = table.alone();
    assert!(
        !shown.contains('…') && !shown.contains("more columns"),
        "{shown}"
    );
    assert!(shown.lines().all(|line| line.width() <= 100), "{shown}");
    let in_column = |from: &str| {
        let start = shown.lines().nth(1).unwrap().find(from).unwrap();
        let rows = shown.lines().skip(4);
        let cut: Vec<String> = rows
            .map(|line| line.chars().skip(start).take(60).collect())
            .collect();
        cut.join(" ")
    };
    let found = in_column("try first");
    for word in advice.split(' ') {
        let times = |text: &str| text.split_whitespace().filter(|w| *w == word).count();
        assert_eq!(times(&found), 2 * times(advice), "{word}: {shown}");
    }
}

#[test]
fn each_finding_and_each_miss_names_its_cell_and_the_answer_comes_first() {
    let mut run = runs::sweep();
    run.targets[0].met = false;
    let cause = run.findings[0].clone();
    let mut unplaced = cause.clone();
    (unplaced.code, unplaced.message) = (
        Cause::ClientLimited.into(),
        Some("the client is slow".to_owned()),
    );
    let mut answers = [Answer::SloMissed, Answer::SloUndecided, Answer::Planning].map(|answer| {
        let mut found = cause.clone();
        found.code = answer.into();
        found.message = Some(format!("{answer:?} is what it says"));
        found
    });
    answers[2].message = Some("in c32 that costs 3".to_owned());
    let [missed, undecided, planned] = answers;
    run.findings = vec![missed, undecided, cause, unplaced, planned];
    let shown = terminal::render(&run, None);
    let (before, findings) = shown.split_once("Findings\n").unwrap();
    let numbered = |n: usize| {
        let mut lines = findings.lines();
        lines
            .find(|line| line.trim_start().starts_with(&format!("{n}. ")))
            .unwrap()
    };
    assert!(
        numbered(1).contains("SloMissed is what it says in c32"),
        "{shown}"
    );
    assert!(
        numbered(2).contains("in c32") && numbered(2).contains("GPU"),
        "{shown}"
    );
    assert!(numbered(3).contains("The client is slow in c32"), "{shown}");
    assert!(before.contains("(3773 tok/s in c32)"), "{shown}");
    assert!(before.contains("failed: p95 E2E ≤ 1000 ms in c"), "{shown}");
    run.findings.drain(..2);
    let shown = terminal::render(&run, None);
    assert!(shown.contains("3. In c32 that costs 3"), "{shown}");
    // what is assumed stands behind the cell
    run.findings[2].message = Some("energy: 3 J, assuming idle power".to_owned());
    let shown = terminal::render(&run, None);
    assert!(shown.contains("Energy in c32: 3 J, assuming"), "{shown}");
}

#[test]
fn a_gap_between_tokens_that_is_none_is_explained_on_the_same_screen() {
    let mut run = runs::sweep();
    let mut bundles = run.findings[0].clone();
    bundles.code = bench_schema::Fact::Bundles.into();
    bundles.message = Some("tokens come several at a time".to_owned());
    run.findings.truncate(1);
    run.findings.push(bundles);
    let shown = terminal::render(&run, None);
    assert!(
        shown.contains("2. Tokens come several at a time"),
        "{shown}"
    );
}

#[test]
fn answers_that_were_all_stopped_on_purpose_have_no_rate() {
    let mut run = runs::sweep();
    run.cells.truncate(1);
    let has_rate = |run: &RunRecord| {
        let shown = terminal::render(run, None);
        let mut lines = shown.lines();
        let head = lines.find(|line| line.trim_start().starts_with("concurrency "));
        head.unwrap().contains("requests")
    };
    assert!(has_rate(&run));
    let counts = &mut run.cells[0].counts;
    (counts.cancelled, counts.completed) = (counts.completed, 0);
    assert!(!has_rate(&run));
}

#[test]
fn an_objective_that_no_request_was_held_against_is_met_by_no_share_of_them() {
    let mut run = runs::sweep();
    run.cells.truncate(1);
    let outcome = &mut run.cells[0].slos[0];
    (outcome.measured, outcome.verdict, outcome.attainment) = (None, SloVerdict::CannotTell, 0.0);
    (
        outcome.attainment_interval.low,
        outcome.attainment_interval.high,
    ) = (0.0, 1.0);
    run.cells[0].slos.truncate(1);
    let shown = terminal::render_all(&run, None);
    let row = shown
        .lines()
        .find(|line| line.contains("cannot tell  p95"))
        .unwrap();
    assert!(row.contains("no matching request"), "{shown}");
    assert!(!row.contains("0–100"), "{shown}");
}

#[test]
fn a_target_that_nobody_can_tell_says_what_would_decide() {
    let mut run = runs::sweep();
    let target = &mut run.targets[0];
    (target.met, target.verdict) = (false, Some(SloVerdict::CannotTell));
    let note =
        "the 95 % interval in c8 contains the limit; about 400 requests in total would decide";
    target.note = Some(note.to_owned());
    let shown = terminal::render(&run, None);
    let words: Vec<&str> = shown.split_whitespace().collect();
    assert!(
        words.join(" ").contains(&format!(
            "; cannot tell: {} ({note})",
            run.targets[0].target
        )),
        "{shown}"
    );
}

#[test]
fn a_prompt_length_of_its_own_hides_no_categories_and_has_no_factor_of_theirs() {
    let mut run = runs::seqlen();
    let mut long = run.cells[0].clone();
    (long.id, long.label) = ("in-1024".to_owned(), "1024 tokens in".to_owned());
    long.groups
        .retain(|group| group.by == "category" && group.name == "very long");
    run.cells.push(long);
    let shown = terminal::render(&run, None);
    assert!(
        shown.contains("tiny") && shown.contains("1024 tokens in"),
        "{shown}"
    );
    let shown = markdown::render(&run, &[]);
    let factor = |cell: &str| {
        let mut lines = shown.lines();
        let begins = format!("| {cell} | very long |");
        let row = lines.find(|line| line.starts_with(&begins)).unwrap();
        row.trim_end_matches(" |")
            .rsplit(" | ")
            .next()
            .unwrap()
            .to_owned()
    };
    assert!(factor("mixed lengths").starts_with("15.7"), "{shown}");
    assert_eq!(factor("1024 tokens in"), "–", "{shown}");
}

/// Bursts that lay between all readings of the server's page.
#[test]
fn readings_that_met_hardly_any_of_the_requests_in_flight_have_no_peak() {
    let mut run = runs::sweep();
    assert!(terminal::render(&run, None).contains("32 requests running"));
    for cell in &mut run.cells {
        let hardware = cell.hardware.as_mut().unwrap();
        for name in ["running_mean", "running_peak"] {
            if let Some(running) = hardware.derived.get_mut(name) {
                running.value = 0.0;
            }
        }
        for of in &mut hardware.resources {
            if of.series.name.contains("running") {
                (of.mean, of.peak) = (0.0, 0.0);
            }
        }
    }
    let shown = terminal::render(&run, None);
    assert!(
        shown.contains("Peaks") && !shown.contains("running,"),
        "{shown}"
    );
}

/// A missing column alone does not say why it is missing.
#[test]
fn where_nobody_told_the_tokens_the_requests_line_says_so() {
    let mut run = runs::sweep();
    let said = |run: &_| {
        let shown = terminal::render(run, None);
        let words: Vec<&str> = shown.split_whitespace().collect();
        words.join(" ").contains("no usable token counts")
    };
    assert!(!said(&run));
    for cell in &mut run.cells {
        cell.metrics.remove(&Metric::OutputTokens);
        let windows = &mut cell.windows;
        for rates in [&mut windows.whole, &mut windows.steady]
            .into_iter()
            .flatten()
        {
            rates.output_tokens_per_s = None;
        }
    }
    assert!(said(&run));
    for cell in &mut run.cells {
        cell.metrics.clear();
    }
    assert!(!said(&run));
}

#[test]
fn of_more_targets_than_a_line_holds_the_rest_is_counted() {
    let mut run = runs::sweep();
    let one = run.targets[0].clone();
    run.targets = (0..5)
        .map(|i| bench_schema::TargetOutcome {
            target: format!("c{i}:ttft.p95<=1ms"),
            met: false,
            verdict: Some(SloVerdict::Fail),
            ..one.clone()
        })
        .collect();
    let shown = terminal::render(&run, None);
    let words: Vec<&str> = shown.split_whitespace().collect();
    let words = words.join(" ");
    assert!(words.contains("0 of 5 met; NOT met:"), "{shown}");
    assert!(words.contains(" and 2 more"), "{shown}");
    // nobody missed what cannot be told
    for target in &mut run.targets {
        (target.verdict, target.note) = (Some(SloVerdict::CannotTell), None);
    }
    let shown = terminal::render(&run, None);
    assert!(!shown.contains("NOT met"), "{shown}");
    let words = "0 of 5 met; cannot tell: c0:ttft.p95<=1ms, c1:ttft.p95<=1ms";
    assert!(shown.contains(words), "{shown}");
}
