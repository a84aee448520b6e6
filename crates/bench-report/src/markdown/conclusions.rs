//! What the numbers say: headline figures, findings with their evidence, what to try.

use bench_schema::{Benchmark, CellRecord, Code, Finding, Metric, RunRecord};

use crate::findings as words;
use crate::number;
use crate::table::Table;
use crate::tables;
use crate::text;

/// Findings in the summary.
const HEADLINES: usize = 6;

/// The conclusions with their numbers: the measured headline first, then the gravest findings.
pub(super) fn summary(run: &RunRecord) -> String {
    let mut lines: Vec<String> = headline(run, MARKDOWN).into_iter().collect();
    let told = run
        .findings
        .iter()
        .filter(|finding| !matches!(finding.code, Code::Fact(_)));
    lines.extend(told.take(HEADLINES).map(claim));
    if lines.is_empty() {
        return String::new();
    }
    let list: String = lines.iter().map(|line| format!("- {line}\n")).collect();
    format!("## In short\n\n{list}")
}

fn claim(finding: &Finding) -> String {
    text::markdown(&text::heading(&words::headline(finding)))
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

/// Every answer and cause with its evidence, what was ruled out, what would refute it; facts, a line each.
pub(super) fn findings(run: &RunRecord) -> String {
    let is_fact = |finding: &&Finding| matches!(finding.code, Code::Fact(_));
    let told = run.findings.iter().filter(|finding| !is_fact(finding));
    let mut out: String = told.map(finding).collect();
    let facts: String = run
        .findings
        .iter()
        .filter(is_fact)
        .map(|finding| format!("- {}\n", claim(finding)))
        .collect();
    if !facts.is_empty() {
        out.push_str(&format!("### Facts\n\n{facts}"));
    }
    out
}

fn finding(finding: &Finding) -> String {
    let mut out = format!("### {}\n\n", claim(finding));
    let cost = if finding.severity > 0.0 {
        format!(", costs {} %", number::percent(finding.severity))
    } else {
        String::new()
    };
    out.push_str(&format!("{}{cost}", words::kind(finding)));
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
        out.push_str(&format!(
            "- {}\n",
            text::markdown(&words::evidence(evidence))
        ));
    }
    let advice: Vec<String> = finding.advice.iter().map(words::advice).collect();
    let refute = finding.refute.map(words::experiment).map(str::to_owned);
    let consequences: Vec<String> = words::consequences(finding)
        .into_iter()
        .map(str::to_owned)
        .collect();
    for (lead, words) in [
        ("What follows from it", consequences),
        ("Ruled out", words::ruled_out(finding)),
        ("What would refute it", refute.into_iter().collect()),
        ("Try", advice),
    ] {
        if !words.is_empty() {
            let words: Vec<String> = words.iter().map(|words| text::markdown(words)).collect();
            out.push_str(&format!("\n*{lead}:* {}\n", words.join("; ")));
        }
    }
    out.push('\n');
    out
}

/// Next steps: what each cause asks to try, the costliest first.
pub(super) fn next_steps(run: &RunRecord) -> String {
    let causes = run.findings.iter().filter(|f| !f.advice.is_empty());
    causes
        .enumerate()
        .map(|(i, finding)| {
            let advice: Vec<String> = finding.advice.iter().map(words::advice).collect();
            format!(
                "{}. {}. Try: {}.\n",
                i + 1,
                claim(finding),
                text::markdown(&advice.join("; "))
            )
        })
        .collect()
}
