//! The result as text of at most 100 columns: trust first, then the answer, then what is behind it.

use std::path::Path;

use bench_schema::{Code, Finding, RunRecord, TrustVerdict};

use crate::table::Table;
use crate::table::terminal::{WIDTH, hanging};
use crate::{findings as words, number, tables, text};

/// Findings that the terminal shows; the reports have them all.
const FINDINGS: usize = 3;

/// Everything a person wants to see when a run is over.
///
/// `dir` is where the results lie, for the last line; without it that line is left out. Names and messages of strangers are
/// made harmless: no control character of theirs reaches the terminal.
pub fn render(run: &RunRecord, dir: Option<&Path>) -> String {
    let mut blocks = vec![head(run), trust(run)];
    blocks.extend(tables::results(run).iter().map(Table::to_terminal));
    blocks.push(requests(run));
    blocks.extend(findings(run));
    blocks.extend(tables::objectives(run).as_ref().map(Table::to_terminal));
    blocks.extend(tables::targets(run).as_ref().map(Table::to_terminal));
    blocks.extend(dir.map(|dir| {
        paragraph(
            "",
            &format!("Results in {}", text::plain(&dir.display().to_string())),
        )
    }));
    blocks.join("\n")
}

fn paragraph(lead: &str, words: &str) -> String {
    hanging(lead, words)
        .iter()
        .map(|line| format!("{}\n", line.trim_end()))
        .collect()
}

fn head(run: &RunRecord) -> String {
    let mut lines = text::wrapped(&text::plain(&run.title), WIDTH);
    let mut facts = vec![format!("bench-{}", run.experiment.name())];
    facts.extend(
        run.server
            .model
            .as_deref()
            .map(|model| text::shortened(model, 60)),
    );
    if run.server.embedded {
        facts.push("embedded engine".to_owned());
    } else {
        facts.extend(run.server.urls.first().map(|url| text::shortened(url, 60)));
    }
    facts.push(number::duration(run.duration.as_f64()));
    lines.extend(text::wrapped(&facts.join(" · "), WIDTH));
    lines.iter().map(|line| format!("{line}\n")).collect()
}

/// One word for each verdict.
pub(crate) fn verdict_word(verdict: TrustVerdict) -> &'static str {
    match verdict {
        TrustVerdict::Trusted => "TRUSTED",
        TrustVerdict::Doubtful => "DOUBTFUL",
        TrustVerdict::Untrusted => "UNTRUSTED",
    }
}

/// What the verdict means, in a sentence.
pub(crate) fn verdict_meaning(verdict: TrustVerdict) -> &'static str {
    match verdict {
        TrustVerdict::Trusted => {
            "nothing that the run knows of itself speaks against these numbers"
        }
        TrustVerdict::Doubtful => "something may have moved these numbers",
        TrustVerdict::Untrusted => "something moved these numbers: do not use them",
    }
}

fn trust(run: &RunRecord) -> String {
    let verdict = run.trust.verdict;
    let mut out = paragraph(
        "",
        &format!("{}: {}", verdict_word(verdict), verdict_meaning(verdict)),
    );
    if !run.complete {
        let why = run
            .incomplete_reason
            .as_deref()
            .map_or_else(String::new, |why| format!(": {}", text::plain(why)));
        out.push_str(&paragraph("", &format!("INCOMPLETE{why}")));
    }
    for reason in &run.trust.reasons {
        let sign = if reason.verdict == TrustVerdict::Untrusted {
            "! "
        } else {
            "? "
        };
        let cell = reason.cell.as_deref().map_or_else(String::new, |cell| {
            format!(" [{}]", text::shortened(cell, 40))
        });
        let words = format!(
            "{}{cell}: {}",
            text::plain(&reason.code),
            text::plain(&reason.message)
        );
        out.push_str(&paragraph(&format!("  {sign}"), &words));
    }
    out
}

fn requests(run: &RunRecord) -> String {
    let mut out = paragraph("Requests  ", &tables::summary_line(run));
    if let Some(table) = tables::counts(run) {
        out.push('\n');
        out.push_str(&table.to_terminal());
    }
    if let Some(table) = tables::failures(run) {
        out.push('\n');
        out.push_str(&table.to_terminal());
        if let Some((message, n)) = commonest_message(run) {
            out.push_str(&paragraph(
                "",
                &format!("commonest message ({n} times): {}", text::plain(message)),
            ));
        }
    }
    out
}

/// The message of the most failures.
pub(crate) fn commonest_message(run: &RunRecord) -> Option<(&str, u64)> {
    let all = run.cells.iter().flat_map(|cell| &cell.counts.messages);
    all.max_by_key(|(_, n)| *n)
        .map(|(message, n)| (message.as_str(), *n))
}

/// The answer to what was asked, then the gravest causes; facts stand in the reports.
fn findings(run: &RunRecord) -> Option<String> {
    let told: Vec<&Finding> = run
        .findings
        .iter()
        .filter(|finding| !matches!(finding.code, Code::Fact(_)))
        .collect();
    if run.findings.is_empty() {
        return None;
    }
    let mut out = "Findings\n".to_owned();
    for (i, finding) in told.iter().take(FINDINGS).enumerate() {
        let words = words::headline(finding);
        out.push_str(&paragraph(&format!("{}. ", i + 1), &words));
        if let Some(advice) = finding.advice.first() {
            out.push_str(&paragraph("   try: ", &words::advice(advice)));
        }
    }
    let more = run.findings.len() - told.len().min(FINDINGS);
    if more > 0 {
        out.push_str(&paragraph("", &format!("and {more} more in the reports")));
    }
    Some(out)
}
