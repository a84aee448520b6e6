//! `report.md`: what a good engineer would write, from the record alone.

pub(crate) mod conclusions;
mod method;

use bench_schema::{Metric, RunRecord, TrustVerdict};

use crate::table::Table;
use crate::terminal::{verdict_meaning, verdict_word};
use crate::{number, tables, text};

/// A figure that lies beside the report: its title and its path relative to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FigureLink {
    /// The figure's title, which says its conclusion.
    pub title: String,
    /// Path relative to the report.
    pub path: String,
}

/// The report as Markdown (`CommonMark` with GitHub's tables).
///
/// `figures` are linked where they were made. A section without data is absent; every text that came from outside is
/// escaped, so that no name can become a link, an image, code or HTML.
pub fn render(run: &RunRecord, figures: &[FigureLink]) -> String {
    let mut out = format!("# {}\n", text::markdown(&run.title));
    section(&mut out, &trust(run));
    section(&mut out, &conclusions::summary(run));
    titled(&mut out, "Run context", &tables::context(run).to_markdown());
    results(&mut out, run);
    titled(
        &mut out,
        "Objectives",
        &both(tables::objectives(run), tables::targets(run)),
    );
    titled(&mut out, "Where the time goes", &conclusions::time(run));
    titled(
        &mut out,
        "Findings, with their evidence",
        &conclusions::findings(run),
    );
    titled(&mut out, "Next steps", &conclusions::next_steps(run));
    titled(&mut out, "Figures", &links(figures));
    details(&mut out, run);
    titled(&mut out, "What is not known", &method::unknown(run));
    titled(&mut out, "How it was measured", &method::how(run));
    out
}

fn section(out: &mut String, body: &str) {
    if !body.is_empty() {
        out.push('\n');
        out.push_str(body.trim_end());
        out.push('\n');
    }
}

fn titled(out: &mut String, title: &str, body: &str) {
    if !body.trim().is_empty() {
        section(out, &format!("## {title}\n\n{body}"));
    }
}

fn both(first: Option<Table>, second: Option<Table>) -> String {
    [first, second]
        .into_iter()
        .flatten()
        .map(|table| table.to_markdown())
        .collect::<Vec<_>>()
        .join("\n")
}

fn trust(run: &RunRecord) -> String {
    let verdict = run.trust.verdict;
    let mut out = format!(
        "**{}**: {}.\n",
        verdict_word(verdict),
        verdict_meaning(verdict)
    );
    if !run.complete {
        let why = run
            .incomplete_reason
            .as_deref()
            .map_or_else(String::new, |why| format!(": {}", text::markdown(why)));
        out.push_str(&format!(
            "\n**Incomplete**{why}. What was measured before is here all the same.\n"
        ));
    }
    if !run.trust.reasons.is_empty() {
        out.push('\n');
    }
    for reason in &run.trust.reasons {
        let weight = if reason.verdict == TrustVerdict::Untrusted {
            "untrusted"
        } else {
            "doubtful"
        };
        let cell = reason.cell.as_deref().map_or_else(String::new, |cell| {
            format!(", cell {}", text::markdown(cell))
        });
        let (code, message) = (
            text::markdown(&reason.code),
            text::markdown(&reason.message),
        );
        out.push_str(&format!("- {weight}{cell}: **{code}**: {message}\n"));
    }
    out
}

fn results(out: &mut String, run: &RunRecord) {
    let mut body = String::new();
    for table in tables::results(run) {
        body.push_str(&format!(
            "### {}\n\n{}\n",
            text::markdown(&table.title),
            table.to_markdown()
        ));
    }
    body.push_str(&format!("Requests: {}.\n", tables::summary_line(run)));
    for table in [tables::counts(run), tables::failures(run)]
        .into_iter()
        .flatten()
    {
        body.push_str(&format!(
            "\n### {}\n\n{}",
            text::markdown(&table.title),
            table.to_markdown()
        ));
    }
    if let Some((message, n)) = crate::terminal::commonest_message(run) {
        body.push_str(&format!(
            "\nThe commonest message ({n} times): {}\n",
            text::markdown(message)
        ));
    }
    titled(out, "Results", &body);
}

fn links(figures: &[FigureLink]) -> String {
    let link = |figure: &FigureLink| {
        let path: String = figure
            .path
            .chars()
            .filter(|c| c.is_ascii_alphanumeric() || "-_./".contains(*c))
            .collect();
        format!("![{}]({path})\n\n", text::markdown(&figure.title))
    };
    figures.iter().map(link).collect()
}

/// The metrics whose whole distributions the long tables show.
pub(crate) const LATENCIES: &[Metric] = &[
    Metric::Ttft,
    Metric::TtftDue,
    Metric::Ttfa,
    Metric::Itl,
    Metric::Icl,
    Metric::Tpot,
    Metric::E2e,
    Metric::E2eDue,
    Metric::Queue,
    Metric::Tail,
];

fn details(out: &mut String, run: &RunRecord) {
    let lengths = [
        Metric::InputTokens,
        Metric::OutputTokens,
        Metric::TokensPerChunk,
    ];
    let tables = [
        tables::distributions(run, LATENCIES, "All latencies"),
        tables::distributions(run, &lengths, "Lengths"),
        tables::distributions(run, &[Metric::TokensPerSUser], "Speed of each answer"),
        tables::fits(run),
        tables::derived(run),
        tables::hardware(run),
        tables::client(run),
    ];
    let mut body = String::new();
    for table in tables.into_iter().flatten() {
        body.push_str(&format!(
            "### {}\n\n{}\n",
            text::markdown(&table.title),
            table.to_markdown()
        ));
    }
    if !body.is_empty() {
        section(
            out,
            &format!(
                "## Details\n\n<details><summary>All distributions, fits, machines, the client itself</summary>\n\n{body}\n</details>"
            ),
        );
    }
}

/// `12.3 ms`.
fn ms(ns: f64) -> String {
    format!("{} ms", number::short(ns / 1e6))
}
