//! What the numbers say: headline figures, findings with their evidence, what to try.

use bench_schema::{
    Answer, Benchmark, CellRecord, Code, Finding, Metric, Quantile, RunRecord, counted,
};

use crate::findings as words;
use crate::number;
use crate::tables;
use crate::terminal::telling;
use crate::text;

fn claim(finding: &Finding) -> String {
    text::markdown(&text::heading(&words::headline(finding)))
}

/// How a sentence is dressed: names of strangers escaped, figures made to stand out.
#[derive(Clone, Copy)]
pub(crate) struct Dress {
    pub(crate) name: fn(&str) -> String,
    pub(crate) strong: fn(&str) -> String,
}

pub(super) const MARKDOWN: Dress = Dress {
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
pub(crate) fn fastest<'a>(
    cells: impl IntoIterator<Item = &'a CellRecord>,
) -> Option<&'a CellRecord> {
    let rate = |cell: &CellRecord| {
        cell.headline_rates()
            .and_then(|r| r.output_tokens_per_s.or(r.requests_per_s))
    };
    let with_rate = cells.into_iter();
    let with_rate = with_rate.filter_map(|cell| Some((cell, rate(cell)?)));
    with_rate
        .max_by(|a, b| a.1.total_cmp(&b.1))
        .map(|(cell, _)| cell)
}

fn throughput(run: &RunRecord, dress: Dress) -> Option<String> {
    if let Some(found) = tables::capacity_words(run) {
        return Some(format!("Capacity: {}", (dress.name)(&found)));
    }
    let cell = fastest(&run.cells)?;
    let rates = cell.headline_rates()?;
    let requests_per_s = rates.requests_per_s.filter(|rate| *rate > 0.0)?;
    let label = (dress.name)(&tables::label(cell));
    let mut said = match rates.output_tokens_per_s {
        Some(tokens) => format!(
            "Highest output: {} ({} requests/s) at {label}",
            (dress.strong)(&format!("{} tokens/s", number::short(tokens))),
            number::short(requests_per_s)
        ),
        None => format!(
            "Highest rate: {} at {label}",
            (dress.strong)(&format!("{} requests/s", number::short(requests_per_s)))
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
        said.push_str(&format!("; {}", parts.join("; ")));
    }
    said.push('.');
    Some(said)
}

/// The cells with the least and the largest median E2E: a few slow requests move a mean as far as lengths do.
fn latency(run: &RunRecord, dress: Dress) -> Option<String> {
    let mut seen: Vec<(&CellRecord, &Quantile)> = run
        .cells
        .iter()
        .filter_map(|cell| Some((cell, cell.headline(Metric::E2e)?.quantile_entry(0.5)?)))
        .collect();
    seen.sort_by(|a, b| a.1.value.total_cmp(&b.1.value));
    let ((shortest, low), (longest, high)) = (*seen.first()?, *seen.last()?);
    if shortest.id == longest.id {
        let e2e = shortest.headline(Metric::E2e)?;
        return Some(format!(
            "E2E over {}: mean {}, p50 {}, p95 {}, p99 {}.",
            counted(e2e.n, "request"),
            (dress.strong)(&super::ms(e2e.mean)),
            super::ms(e2e.p50()?),
            super::ms(e2e.quantile(0.95)?),
            super::ms(e2e.quantile(0.99)?)
        ));
    }
    let cells = seen.len();
    let [from, to] = [low, high].map(|median| (dress.strong)(&super::ms(median.value)));
    let overlap = low.interval.zip(high.interval);
    if overlap.is_some_and(|(low, high)| low.high >= high.low) {
        return Some(format!(
            "Median E2E is {from} to {to} over {cells} cells, which the data cannot tell apart."
        ));
    }
    Some(format!(
        "Median E2E goes from {from} ({}) to {to} ({}) over {cells} cells.",
        (dress.name)(&tables::label(shortest)),
        (dress.name)(&tables::label(longest)),
    ))
}

/// Answers and causes, the gravest of each kind, numbered: what it is, its evidence, what to try; then every other one in a line.
pub(super) fn findings(run: &RunRecord, most: usize, longest: usize, most_lines: usize) -> String {
    let (mut shown, _) = telling(run);
    shown.truncate(most);
    let mut out: String = shown
        .iter()
        .enumerate()
        .map(|(i, found)| format!("{}. {}", i + 1, finding(found, longest)))
        .collect();
    let others = run.findings.iter().filter(|finding| {
        let is_shown = shown.iter().any(|other| std::ptr::eq(*other, *finding));
        !matches!(finding.code, Code::Fact(_)) && !is_shown
    });
    // The gravest miss stands for all: each has its row under the objectives.
    let missed = Code::Answer(Answer::SloMissed);
    let (alike, others): (Vec<&Finding>, Vec<_>) =
        others.partition(|finding| finding.code == missed);
    let mut lines = lines(others.into_iter(), most_lines, tables::page(run));
    if !alike.is_empty() {
        let more = counted(alike.len(), "more missed objective");
        lines.insert_str(0, &format!("- {more}: see the table of objectives\n"));
    }
    if !lines.is_empty() {
        out.push_str(&format!("\n{lines}"));
    }
    out
}

/// Facts, a line each.
pub(super) fn facts(run: &RunRecord, most: usize) -> String {
    let facts = run.findings.iter();
    lines(
        facts.filter(|finding| matches!(finding.code, Code::Fact(_))),
        most,
        tables::page(run),
    )
}

fn lines<'a>(findings: impl Iterator<Item = &'a Finding>, most: usize, page: &str) -> String {
    let mut all: Vec<String> = findings
        .map(|found| format!("- {}\n", claim(found)))
        .collect();
    let more = all.len().saturating_sub(most);
    all.truncate(most);
    if more > 0 {
        all.push(format!("- {more} more in {page}\n"));
    }
    all.concat()
}

/// Numbers that a finding is told with.
const EVIDENCE: usize = 4;

fn finding(finding: &Finding, longest: usize) -> String {
    let safe = |words: &str| text::markdown(&text::shortened(words, longest));
    let cost = match finding.severity {
        cost if cost > 0.0 => format!(" (severity {} %)", number::percent(cost)),
        _ => String::new(),
    };
    let heading = safe(&text::heading(&words::headline(finding)));
    let mut out = format!("**{heading}**{cost}\n");
    let evidence = finding.evidence.iter().take(EVIDENCE).map(words::evidence);
    let evidence = evidence.collect::<Vec<_>>().join("; ");
    let [_, ruled_out, refute] = words::reasons(finding);
    let parts = [("Evidence", evidence), ruled_out, refute].into_iter();
    let parts = parts.filter(|(_, words)| !words.is_empty());
    let parts: Vec<String> = parts
        .map(|(lead, words)| format!("*{lead}:* {}.", safe(&words)))
        .collect();
    if !parts.is_empty() {
        out.push_str(&format!("   {}\n", parts.join(" ")));
    }
    let advice: Vec<String> = finding
        .advice
        .iter()
        .map(|advice| words::advice_to_measure(advice, finding))
        .collect();
    if !advice.is_empty() {
        out.push_str(&format!("   *Try:* {}.\n", safe(&advice.join("; "))));
    }
    out
}

/// The key figures, and which cell they are of: the fastest of a load sweep, the one with the longest answers of a grid.
pub(crate) fn key_figures(run: &RunRecord) -> (Option<String>, Vec<Tile>) {
    let is_sweep = run.experiment == Benchmark::Throughput;
    let cell = if run.analysis.capacity.is_some() {
        bench_insight::nearest_stage(run)
    } else if is_sweep {
        fastest(&run.cells)
    } else {
        slowest(run)
    };
    let mut tiles: Vec<Tile> = Vec::new();
    if let Some(cell) = cell {
        let mut add = |value: Option<f64>, unit, words| {
            tiles.extend(value.map(|value| (number::short(value), unit, String::from(words))));
        };
        if let Some(rates) = cell.headline_rates().filter(|_| is_sweep) {
            add(rates.output_tokens_per_s, "tok/s", "output");
            add(rates.requests_per_s, "req/s", "requests");
        }
        for (metric, q, words) in [
            (Metric::Ttft, 0.5, "TTFT p50"),
            (Metric::Itl, 0.5, "ITL p50"),
            (Metric::E2e, 0.5, "E2E p50"),
            (Metric::E2e, 0.95, "E2E p95"),
        ] {
            let value = cell.headline(metric).and_then(|d| d.quantile(q));
            add(value.map(|ns| ns / 1e6), "ms", words);
        }
        if !is_sweep {
            add(
                cell.analysis.ms_per_token,
                "ms/token",
                "E2E per output token",
            );
        }
    }
    tiles.extend(completed(run, cell));
    let at = cell.filter(|_| run.cells.len() > 1).map(tables::label);
    (at, tiles)
}

/// Whole answers of the cell whose figures stand beside them; of the run where there is none.
fn completed(run: &RunRecord, cell: Option<&CellRecord>) -> Option<Tile> {
    let cells = cell.map_or(run.cells.as_slice(), std::slice::from_ref);
    let planned: u64 = cells.iter().map(|cell| cell.counts.planned).sum();
    let completed: u64 = cells.iter().map(|cell| cell.counts.completed).sum();
    let words = format!("of {planned} requests completed");
    (planned > 0).then(|| (completed.to_string(), "", words))
}

/// Number, unit, what it is.
pub(crate) type Tile = (String, &'static str, String);

fn slowest(run: &RunRecord) -> Option<&CellRecord> {
    let seen = run
        .cells
        .iter()
        .filter_map(|cell| Some((cell, cell.headline(Metric::E2e)?.mean)));
    seen.max_by(|a, b| a.1.total_cmp(&b.1))
        .map(|(cell, _)| cell)
}
