//! What a run's page says around its charts.

use bench_schema::{Benchmark, CellRecord, Code, Finding, Metric, RunRecord, TrustVerdict};

use super::Page;
use crate::findings as words;
use crate::markdown::conclusions::fastest;
use crate::number::{duration, short};
use crate::table::Table;
use crate::tables;
use crate::terminal::{commonest_message, verdict_meaning, verdict_word};
use crate::text::{self, html, shortened};

/// Title, trust, key figures.
pub(super) fn head(page: &mut Page, run: &RunRecord) {
    let mut facts = vec![format!("bench-{}", run.experiment.name())];
    facts.extend(
        run.server
            .model
            .as_deref()
            .map(|model| shortened(model, 80)),
    );
    facts.push(run.started_at.clone());
    facts.push(duration(run.duration.as_f64()));
    let facts: Vec<String> = facts
        .iter()
        .map(|fact| format!("<bdi>{}</bdi>", html(fact)))
        .collect();
    page.header(&format!(
        "<header><div><h1><bdi>{}</bdi></h1><p class=\"soft\">{}</p></div>\
         <button id=\"theme\" type=\"button\" hidden aria-pressed=\"false\">Light / dark</button></header>",
        html(&run.title),
        facts.join(" · ")
    ));
    page.push(&trust(run));
    page.push(&tiles(run));
}

fn trust(run: &RunRecord) -> String {
    let class = match run.trust.verdict {
        TrustVerdict::Trusted => "trusted",
        TrustVerdict::Doubtful => "doubtful",
        TrustVerdict::Untrusted => "untrusted",
    };
    let verdict = run.trust.verdict;
    let mut out = format!(
        "<section class=\"card trust {class}\" id=\"trust\"><strong class=\"verdict\">{}</strong>: {}.",
        verdict_word(verdict),
        verdict_meaning(verdict)
    );
    if !run.complete {
        let why = run
            .incomplete_reason
            .as_deref()
            .map_or_else(String::new, |why| format!(": {}", html(why)));
        out.push_str(&format!("<p><strong>INCOMPLETE</strong>{why}. What was measured before is here all the same.</p>"));
    }
    if !run.trust.reasons.is_empty() {
        out.push_str("<ul>");
        for reason in &run.trust.reasons {
            let cell = reason
                .cell
                .as_deref()
                .map_or_else(String::new, |cell| format!(" in {}", html(cell)));
            let (code, message) = (html(&reason.code.replace('_', " ")), html(&reason.message));
            out.push_str(&format!(
                "<li><strong>{code}</strong>{cell}: {message}</li>"
            ));
        }
        out.push_str("</ul>");
    }
    out.push_str("</section>");
    out
}

/// The key figures: of the fastest cell of a load sweep, of the longest answers of a grid.
fn tiles(run: &RunRecord) -> String {
    let cell = if run.experiment == Benchmark::Throughput {
        fastest(run)
    } else {
        slowest(run)
    };
    let mut tiles: Vec<Tile> = Vec::new();
    if let Some(cell) = cell {
        let at = if run.cells.len() > 1 {
            format!(", {}", tables::label(cell))
        } else {
            String::new()
        };
        if let Some(rates) = cell
            .headline_rates()
            .filter(|_| run.experiment == Benchmark::Throughput)
        {
            tiles.extend(
                rates
                    .output_tokens_per_s
                    .map(|x| (short(x), "tok/s", format!("output{at}"))),
            );
            tiles.push((
                short(rates.requests_per_s),
                "req/s",
                format!("requests{at}"),
            ));
        }
        let shown = [
            (Metric::Ttft, 0.5, "TTFT p50"),
            (Metric::Itl, 0.5, "ITL p50"),
            (Metric::E2e, 0.5, "E2E p50"),
            (Metric::E2e, 0.95, "E2E p95"),
        ];
        for (metric, q, words) in shown {
            let value = cell.headline(metric).and_then(|d| d.quantile(q));
            tiles.extend(value.map(|ns| (short(ns / 1e6), "ms", format!("{words}{at}"))));
        }
        if run.experiment != Benchmark::Throughput {
            tiles.extend(
                cell.analysis
                    .ms_per_token
                    .map(|ms| (short(ms), "ms/token", format!("E2E over output tokens{at}"))),
            );
        }
    }
    tiles.extend(completed(run));
    let tile = |(value, unit, words): &Tile| {
        format!(
            "<div class=\"tile\"><b>{} <small>{unit}</small></b><span>{}</span></div>",
            html(value),
            html(words)
        )
    };
    format!(
        "<div class=\"tiles\">{}</div>",
        tiles.iter().map(tile).collect::<String>()
    )
}

fn completed(run: &RunRecord) -> Option<Tile> {
    let planned: u64 = run.cells.iter().map(|cell| cell.counts.planned).sum();
    let completed: u64 = run.cells.iter().map(|cell| cell.counts.completed).sum();
    let share = || short(completed as f64 * 100.0 / planned as f64);
    (planned > 0).then(|| (share(), "%", format!("of {planned} requests completed")))
}

/// Number, unit, what it is.
type Tile = (String, &'static str, String);

fn slowest(run: &RunRecord) -> Option<&CellRecord> {
    let seen = run
        .cells
        .iter()
        .filter_map(|cell| Some((cell, cell.headline(Metric::E2e)?.mean)));
    seen.max_by(|a, b| a.1.total_cmp(&b.1))
        .map(|(cell, _)| cell)
}

/// Answers and causes, the gravest first; facts behind a line that opens.
pub(super) fn findings(page: &mut Page, run: &RunRecord) {
    if run.findings.is_empty() {
        return;
    }
    page.section("findings", "Findings");
    let is_fact = |finding: &&Finding| matches!(finding.code, Code::Fact(_));
    let told = run.findings.iter().filter(|finding| !is_fact(finding));
    let list: String = told.map(finding).collect();
    if !list.is_empty() {
        page.push(&format!("<ul class=\"findings\">{list}</ul>"));
    }
    let facts: String = run
        .findings
        .iter()
        .filter(is_fact)
        .map(|finding| format!("<li>{}</li>", html(&claim(finding))))
        .collect();
    if !facts.is_empty() {
        page.push(&format!(
            "<details class=\"card\" data-print><summary>Facts</summary><ul>{facts}</ul></details>"
        ));
    }
}

fn claim(finding: &Finding) -> String {
    text::heading(&words::headline(finding))
}

fn finding(finding: &Finding) -> String {
    let class = match finding.severity {
        s if s >= 0.5 => "grave",
        s if s >= 0.1 => "mid",
        _ => "light",
    };
    let mut out = format!(
        "<li class=\"{class}\"><span class=\"kind\">{}</span><h3>{}</h3>",
        words::kind(finding),
        html(&claim(finding))
    );
    if !finding.evidence.is_empty() {
        let lines: String = finding
            .evidence
            .iter()
            .map(|evidence| format!("<li>{}</li>", html(&words::evidence(evidence))))
            .collect();
        out.push_str(&format!(
            "<details data-print><summary>Its numbers</summary><ul>{lines}</ul></details>"
        ));
    }
    out.push_str(&reasons(finding));
    out.push_str("</li>");
    out
}

/// What follows, what was ruled out, what would refute it, what to try: behind a line that opens.
fn reasons(finding: &Finding) -> String {
    let mut out = String::new();
    let join = |words: Vec<String>| (!words.is_empty()).then(|| words.join("; "));
    let lines = [
        (
            "What follows from it",
            join(
                words::consequences(finding)
                    .into_iter()
                    .map(str::to_owned)
                    .collect(),
            ),
        ),
        ("Ruled out", join(words::ruled_out(finding))),
        (
            "What would refute it",
            finding.refute.map(|e| words::experiment(e).to_owned()),
        ),
    ];
    for (lead, words) in lines {
        if let Some(words) = words {
            out.push_str(&format!("<p><em>{lead}:</em> {}</p>", html(&words)));
        }
    }
    if !finding.advice.is_empty() {
        let advice: String = finding
            .advice
            .iter()
            .map(|advice| format!("<li>{}</li>", html(&words::advice(advice))))
            .collect();
        out.push_str(&format!("<p><em>Try:</em></p><ol>{advice}</ol>"));
    }
    let asks = if finding.advice.is_empty() {
        "Why, and what would refute it"
    } else {
        "Why, and what to try"
    };
    if out.is_empty() {
        out
    } else {
        format!("<details data-print><summary>{asks}</summary>{out}</details>")
    }
}

fn card(page: &mut Page, table: &Table) {
    let html = format!("<section class=\"card\">{}</section>", table.to_html());
    page.push(&html);
}

/// The tables that answer the question, objectives, counts.
pub(super) fn results(page: &mut Page, run: &RunRecord) {
    page.section("results", "Results");
    for table in tables::results(run) {
        card(page, &table);
    }
    page.push(&format!(
        "<p class=\"note\">Requests: {}.</p>",
        html(&tables::summary_line(run))
    ));
    for table in [tables::counts(run), tables::failures(run)]
        .into_iter()
        .flatten()
    {
        card(page, &table);
    }
    if let Some((message, n)) = commonest_message(run) {
        page.push(&format!(
            "<p class=\"note\">The commonest message ({n} times): <bdi>{}</bdi></p>",
            html(message)
        ));
    }
    let objectives = [tables::objectives(run), tables::targets(run)];
    if objectives.iter().any(Option::is_some) {
        page.section("objectives", "Objectives");
    }
    for table in objectives.into_iter().flatten() {
        card(page, &table);
    }
}

/// Context, everything else as tables, the configuration.
pub(super) fn details(page: &mut Page, run: &RunRecord, torn: u64) {
    page.section("context", "Run context");
    let context = format!(
        "<section class=\"card context\">{}</section>",
        tables::context(run).to_html()
    );
    page.push(&context);
    page.section("details", "Details");
    let all = [
        tables::distributions(run, crate::markdown::LATENCIES, "All latencies"),
        tables::distributions(
            run,
            &[
                Metric::InputTokens,
                Metric::OutputTokens,
                Metric::TokensPerChunk,
            ],
            "Lengths",
        ),
        tables::distributions(run, &[Metric::TokensPerSUser], "Speed of each answer"),
        tables::phases(run),
        tables::fits(run),
        tables::derived(run),
        tables::hardware(run),
        tables::client(run),
    ];
    for table in all.into_iter().flatten() {
        page.push(&format!(
            "<details class=\"card\"><summary>{}</summary>{}</details>",
            html(&table.title),
            table.to_html()
        ));
    }
    let config = serde_json::to_string_pretty(&run.config).unwrap_or_default();
    page.push(&format!(
        "<details class=\"card\"><summary>Effective configuration</summary><pre>{}</pre></details>",
        text::html_block(&config)
    ));
    if torn > 0 {
        page.push(&format!("<p class=\"note\">{torn} lines of requests.jsonl could not be read (a run that was killed leaves a torn last line); the charts are without them.</p>"));
    }
}
