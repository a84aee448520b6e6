//! What the numbers say: headline figures, findings with their evidence, what to try.

use bench_schema::{Benchmark, CellRecord, Finding, FindingKind, Metric, RunRecord};

use crate::number;
use crate::table::Table;
use crate::tables;
use crate::terminal::evidence_words;
use crate::text;

/// Findings in the summary.
const HEADLINES: usize = 6;
/// Findings that become next steps, and actions of each: more are a catalogue.
const STEPS: usize = 5;
const ACTIONS: usize = 3;

/// The conclusions with their numbers: the measured headline first, then the gravest findings.
pub(super) fn summary(run: &RunRecord) -> String {
    let mut lines: Vec<String> = headline(run, MARKDOWN).into_iter().collect();
    // Of findings that say the same of several cells, the gravest.
    let mut codes: Vec<&str> = Vec::new();
    for finding in &run.findings {
        if codes.len() < HEADLINES && !codes.contains(&finding.code.as_str()) {
            codes.push(&finding.code);
            lines.push(claim(finding));
        }
    }
    if lines.is_empty() {
        return String::new();
    }
    let list: String = lines.iter().map(|line| format!("- {line}\n")).collect();
    format!("## In short\n\n{list}")
}

/// The claim; with its evidence where it has no number of its own.
fn claim(finding: &Finding) -> String {
    let numbers = evidence_words(finding);
    let told = finding.claim.contains(|c: char| c.is_ascii_digit());
    let behind = if told || numbers.is_empty() {
        String::new()
    } else {
        format!(" ({})", text::markdown(&numbers))
    };
    format!("{}{behind}", text::markdown(&text::heading(&finding.claim)))
}

/// How a sentence is dressed: names of strangers escaped, figures made to stand out.
#[derive(Clone, Copy)]
pub(crate) struct Dress {
    pub(crate) name: fn(&str) -> String,
    pub(crate) strong: fn(&str) -> String,
}

const MARKDOWN: Dress = Dress {
    name: text::markdown,
    strong: |figure| format!("**{figure}**"),
};

/// Without any markup.
#[cfg(feature = "figures")]
pub(crate) const PLAIN: Dress = Dress {
    name: text::plain,
    strong: str::to_owned,
};

/// One sentence with the figures that the benchmark exists for.
pub(crate) fn headline(run: &RunRecord, dress: Dress) -> Option<String> {
    match run.experiment {
        Benchmark::Throughput => throughput(run, dress),
        Benchmark::Latency | Benchmark::Seqlen => latency(run, dress),
    }
}

/// The cell with the highest output rate, or the highest request rate where tokens are unknown.
pub(crate) fn fastest(run: &RunRecord) -> Option<&CellRecord> {
    let rate = |cell: &CellRecord| {
        cell.headline_rates()
            .map(|r| r.output_tokens_per_s.unwrap_or(r.requests_per_s))
    };
    let with_rate = run
        .cells
        .iter()
        .filter_map(|cell| Some((cell, rate(cell)?)));
    with_rate
        .max_by(|a, b| a.1.total_cmp(&b.1))
        .map(|(cell, _)| cell)
}

fn throughput(run: &RunRecord, dress: Dress) -> Option<String> {
    let cell = fastest(run)?;
    let rates = cell.headline_rates()?;
    let label = (dress.name)(&tables::label(cell));
    let mut said = match rates.output_tokens_per_s {
        Some(tokens) => format!(
            "Highest output: {} ({} requests/s) at {label}",
            (dress.strong)(&format!("{} tokens/s", number::short(tokens))),
            number::short(rates.requests_per_s)
        ),
        None => format!(
            "Highest rate: {} at {label}",
            (dress.strong)(&format!(
                "{} requests/s",
                number::short(rates.requests_per_s)
            ))
        ),
    };
    let parts = [Metric::Ttft, Metric::E2e]
        .into_iter()
        .filter_map(|metric| {
            let seen = cell.headline(metric)?;
            Some(format!(
                "{} p50 {}, p95 {}",
                metric.title(),
                super::ms(seen.p50()?),
                super::ms(seen.quantile(0.95)?)
            ))
        });
    let parts: Vec<String> = parts.collect();
    if !parts.is_empty() {
        said.push_str(&format!("; there {}", parts.join("; ")));
    }
    said.push('.');
    Some(said)
}

fn latency(run: &RunRecord, dress: Dress) -> Option<String> {
    let mut seen: Vec<(&CellRecord, f64)> = run
        .cells
        .iter()
        .filter_map(|cell| Some((cell, cell.headline(Metric::E2e)?.mean)))
        .collect();
    seen.sort_by(|a, b| a.1.total_cmp(&b.1));
    let (shortest, longest) = (seen.first()?, seen.last()?);
    if shortest.0.id == longest.0.id {
        let e2e = shortest.0.headline(Metric::E2e)?;
        return Some(format!(
            "E2E over {} requests: mean {}, p50 {}, p95 {}, p99 {}.",
            e2e.n,
            (dress.strong)(&super::ms(e2e.mean)),
            super::ms(e2e.p50()?),
            super::ms(e2e.quantile(0.95)?),
            super::ms(e2e.quantile(0.99)?)
        ));
    }
    Some(format!(
        "Mean E2E goes from {} ({}) to {} ({}) over {} cells.",
        (dress.strong)(&super::ms(shortest.1)),
        (dress.name)(&tables::label(shortest.0)),
        (dress.strong)(&super::ms(longest.1)),
        (dress.name)(&tables::label(longest.0)),
        seen.len()
    ))
}

/// Phase shares and what waits.
pub(super) fn time(run: &RunRecord) -> String {
    tables::phases(run)
        .as_ref()
        .map(Table::to_markdown)
        .unwrap_or_default()
}

/// Every finding: claim, numbers, hypothesis, what would confirm it.
pub(super) fn findings(run: &RunRecord) -> String {
    let mut out = String::new();
    for finding in &run.findings {
        out.push_str(&format!(
            "### {}\n\n",
            text::markdown(&text::heading(&finding.claim))
        ));
        out.push_str(&format!(
            "{}, severity {}",
            kind_words(finding.kind),
            number::fixed(finding.severity, 2)
        ));
        if !finding.cells.is_empty() {
            let cells: Vec<String> = finding
                .cells
                .iter()
                .take(12)
                .map(|cell| text::markdown(cell))
                .collect();
            out.push_str(&format!("; cells {}", cells.join(", ")));
        }
        out.push_str(".\n\n");
        for evidence in &finding.evidence {
            let cell = evidence
                .cell
                .as_deref()
                .map_or_else(String::new, |cell| format!(" ({})", text::markdown(cell)));
            let unit = if evidence.unit.is_empty() {
                String::new()
            } else {
                format!(" {}", text::markdown(&evidence.unit))
            };
            out.push_str(&format!(
                "- {}: {}{unit}{cell}\n",
                text::markdown(&evidence.name),
                tables::significant(evidence.value)
            ));
        }
        if let Some(hypothesis) = &finding.hypothesis {
            out.push_str(&format!("\n*Hypothesis:* {}\n", text::markdown(hypothesis)));
        }
        if let Some(confirm) = &finding.confirm {
            out.push_str(&format!(
                "\n*What would settle it:* {}\n",
                text::markdown(confirm)
            ));
        }
        if !finding.actions.is_empty() {
            let actions: Vec<String> = finding.actions.iter().map(|a| text::markdown(a)).collect();
            out.push_str(&format!("\n*Try:* {}\n", actions.join("; ")));
        }
        out.push('\n');
    }
    out
}

/// What sort of statement it is.
pub(crate) fn kind_words(kind: FindingKind) -> &'static str {
    match kind {
        FindingKind::Bottleneck => "Bottleneck",
        FindingKind::Scaling => "Scaling",
        FindingKind::Stability => "Stability",
        FindingKind::Capacity => "Capacity",
        FindingKind::Objective => "Objective",
        FindingKind::Measurement => "Measurement",
    }
}

/// Next steps: what the gravest findings ask to try. A parameter is named once: where two findings pull it in two directions
/// the graver one is followed, and the other's advice stands with it alone.
pub(super) fn next_steps(run: &RunRecord) -> String {
    let mut seen: Vec<&str> = Vec::new();
    let mut lines: Vec<String> = Vec::new();
    let mut left = 0;
    for finding in &run.findings {
        let mut fresh: Vec<&str> = Vec::new();
        for action in &finding.actions {
            let what = parameter(action).unwrap_or(action);
            if seen.contains(&what) || fresh.len() == ACTIONS || lines.len() == STEPS {
                left += 1;
            } else {
                seen.push(what);
                fresh.push(action.strip_prefix("try ").unwrap_or(action));
            }
        }
        if !fresh.is_empty() {
            let reason = finding.claim.split("; ").next().unwrap_or_default();
            lines.push(format!(
                "{}. {}. Try: {}.\n",
                lines.len() + 1,
                text::markdown(&text::heading(reason)),
                text::markdown(&fresh.join("; "))
            ));
        }
    }
    let mut out = lines.concat();
    if left > 0 {
        out.push_str(&format!(
            "\n{left} more to try stand with their findings above. Where two findings pull a parameter in opposite directions, the graver one is followed here.\n"
        ));
    }
    out
}

/// What an action would change: `max_num_seqs: raise it` names a parameter of the server.
fn parameter(action: &str) -> Option<&str> {
    let (name, _) = action.split_once(':')?;
    (!name.contains(' ')).then_some(name)
}
