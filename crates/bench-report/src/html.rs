//! `report.html`: one self-contained page, offline, with charts. Text is escaped by its type (`Plain`).

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bench_schema::{Answer, Code, Finding, RunRecord, TrustReason, counted};
use maud::{DOCTYPE, Markup, PreEscaped, html};
use sha2::{Digest, Sha256};

use crate::charts::{self, Section};
use crate::figure::Figure;
use crate::findings as words;
use crate::markdown::conclusions::key_figures;
use crate::number::duration;
use crate::table::Table;
use crate::terminal::{commonest_message, telling, verdict_meaning, verdict_word};
use crate::text::{self, Plain, json_in_script, shortened, with_code};
use crate::{ReportError, RunFiles, tables, trace};

/// ECharts 5.5.1 (Apache-2.0) from charming's package; see `build.rs`.
pub(crate) const ECHARTS: &str = include_str!(concat!(env!("OUT_DIR"), "/echarts.min.js"));
/// What makes options drawable.
pub(crate) const DRAW: &str = include_str!("html/draw.js");

/// The report as one HTML page that needs nothing else: no network, no files beside it.
///
/// With `files` the charts of single requests and readings are there too; they hold summaries, so that a run of a million
/// requests makes a page of a few hundred kilobytes beside the 1 MB of the charting library.
///
/// # Errors
/// [`ReportError`] where a file of the run is there and cannot be read.
pub fn render(run: &RunRecord, files: &RunFiles) -> Result<String, ReportError> {
    let trace = trace::trace(run, files)?;
    let readings = trace::readings(run, files)?;
    let mut sections = charts::all(run, trace.as_ref(), &readings);
    let first = charts::take_first(&mut sections);
    let mut facts = vec![format!("bench-{}", run.experiment.as_str())];
    let model = run.server.model.as_deref();
    facts.extend(model.map(|model| shortened(model, 80)));
    facts.push(run.started_at.clone());
    facts.push(duration(run.duration.as_f64()));
    let mut page = Page::new(&run.title, facts);
    page.push(&trust(run));
    page.push(&tiles(run));
    page.push(&first_screen(run, first.as_ref()));
    results(&mut page, run);
    for section in &sections {
        page.charts(section);
    }
    findings(&mut page, run);
    details(&mut page, run, trace.as_ref().map_or(0, |trace| trace.torn));
    Ok(page.finish())
}

const CSS: &str = include_str!("html/page.css");
pub(crate) const PAGE: &str = include_str!("html/page.js");

pub(crate) struct Page {
    title: String,
    facts: Vec<String>,
    body: String,
    links: Vec<(&'static str, &'static str)>,
    /// In their order; a page without charts does without the library.
    pub(crate) scripts: Vec<&'static str>,
}

impl Page {
    /// With its title and what stands under it.
    pub(crate) fn new(title: &str, facts: Vec<String>) -> Self {
        Self {
            title: title.to_owned(),
            facts,
            body: String::new(),
            links: Vec::new(),
            scripts: vec![ECHARTS, DRAW, PAGE],
        }
    }

    pub(crate) fn push(&mut self, part: &Markup) {
        self.body += &part.0;
    }

    pub(crate) fn card(&mut self, part: &Markup) {
        self.push(&html! { section.card { (part) } });
    }

    pub(crate) fn list(&mut self, lines: &[String]) {
        self.card(&bullets(lines));
    }

    /// Above everything else, what speaks against the numbers; nothing where nothing does.
    pub(crate) fn doubts(&mut self, lines: &[String]) {
        if !lines.is_empty() {
            self.push(&html! { section.card.trust.doubtful { (bullets(lines)) } });
        }
    }

    /// A chart beside what was found: both are seen without scrolling.
    pub(crate) fn first(&mut self, figure: Option<&Figure>, found: &[String]) {
        self.links.push(("conclusions", "Conclusions"));
        self.push(&html! {
            div.first {
                @if let Some(figure) = figure { (chart(figure, false)) }
                div { section.card #conclusions { (bullets(found)) } }
            }
        });
    }

    /// A heading that the navigation links to.
    pub(crate) fn section(&mut self, id: &'static str, title: &'static str) {
        self.links.push((id, title));
        self.push(&html! { h2 id=(id) { (title) } });
    }

    pub(crate) fn charts(&mut self, section: &Section) {
        let all = &section.figures;
        if !all.is_empty() {
            self.section(section.id, section.title);
            // one that no other stands beside takes the whole width
            let narrow = all.iter().filter(|figure| !is_tall(figure));
            let alone = narrow
                .clone()
                .next_back()
                .filter(|_| narrow.count() % 2 == 1);
            let is_alone = |figure| alone.is_some_and(|alone| std::ptr::eq(alone, figure));
            self.push(
                &html! { div.charts { @for figure in all { (chart(figure, is_alone(figure))) } } },
            );
        }
    }

    pub(crate) fn finish(self) -> String {
        let scripts = &self.scripts;
        let hashes = scripts
            .iter()
            .map(|script| format!("'sha256-{}'", hash(script)));
        let hashes: Vec<String> = hashes.collect();
        let policy = format!(
            "default-src 'none'; script-src {}; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'",
            hashes.join(" ")
        );
        let page = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta http-equiv="Content-Security-Policy" content=(policy);
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="referrer" content="no-referrer";
                    title { (Plain(&self.title)) }
                    style { (PreEscaped(CSS)) }
                }
                body {
                    header {
                        div {
                            h1 { bdi { (Plain(&self.title)) } }
                            p.soft { @for (i, fact) in self.facts.iter().enumerate() { @if i > 0 { " · " } bdi { (Plain(fact)) } } }
                        }
                        button #theme type="button" hidden aria-pressed="false" { "Light / dark" }
                    }
                    @if !self.links.is_empty() { nav aria-label="Sections" { div { @for (id, title) in &self.links { a href={ "#" (id) } { (title) } } } } }
                    main { (PreEscaped(&self.body)) }
                    @if scripts.contains(&ECHARTS) { footer { p { (FOOTER) } } }
                    @for script in scripts { script { (PreEscaped(script)) } }
                }
            }
        };
        page.into_string()
    }
}

const FOOTER: &str = "Charts are drawn by Apache ECharts 5.5.1, Copyright 2017-2024 The Apache Software \
Foundation, licensed under the Apache License, Version 2.0 (https://www.apache.org/licenses/LICENSE-2.0); this product includes \
software developed at The Apache Software Foundation. The library is part of this file; the page asks the network for \
nothing.";

fn is_tall(figure: &Figure) -> bool {
    figure.height > 420
}

fn bullets(lines: &[String]) -> Markup {
    html! { ul { @for line in lines { li { (with_code(line)) } } } }
}

/// Rows of a table that is behind a line that opens: of a thousand cells such tables were most of 19 MB.
const ROWS: usize = 200;

/// A table behind such a line, of a long one the beginning.
fn opened(table: &Table) -> Markup {
    let (all, mut table) = (table.rows.len(), table.clone());
    table.rows.truncate(ROWS);
    html! {
        (table.to_html())
        @if all > ROWS {
            p.note { "The first " (ROWS) " of " (all) " rows; for all of them, run " code { "bench-report render --verbose" } " with the run's directory." }
        }
    }
}

/// One chart with its table; wide where it is alone or tall.
fn chart(figure: &Figure, alone: bool) -> Markup {
    let wide = (alone || is_tall(figure)).then_some("wide");
    html! {
        figure class=[wide] id=(figure.id) data-chart {
            h3 { (Plain(&figure.title)) }
            @if !figure.note.is_empty() { p.note { (Plain(&figure.note)) } }
            div.chart style={ "height:" (figure.height) "px" } role="img" aria-label=(Plain(&figure.title)) {}
            script type="application/json" { (PreEscaped(json_in_script(&figure.option.to_string()))) }
            @if let Some(table) = &figure.table {
                details { summary { "Show as table" } (opened(table)) }
            }
        }
    }
}

/// SHA-256 in base64, as a Content-Security-Policy names a script.
fn hash(script: &str) -> String {
    BASE64_STANDARD.encode(Sha256::digest(script.as_bytes()))
}

/// Characters of reasons that are seen at once; the others open with a line.
const REASONS: usize = 260;

fn trust(run: &RunRecord) -> Markup {
    let verdict = run.trust.verdict;
    let list = |reasons: &[&TrustReason]| {
        html! {
            ul {
                @for reason in reasons {
                    li {
                        strong { (Plain(&reason.code.replace('_', " "))) }
                        @if let Some(cell) = &reason.cell { " in " (Plain(cell)) }
                        ": " (with_code(&reason.sentence()))
                    }
                }
            }
        }
    };
    let mut left = REASONS;
    let all: Vec<&TrustReason> = run.trust.reasons.iter().collect();
    let seen = all.iter().enumerate().take_while(|(i, reason)| {
        left = left.saturating_sub(reason.message.len());
        *i == 0 || left > 0
    });
    let (seen, rest) = all.split_at(seen.count());
    html! {
        section.card.trust.(verdict.as_str()) #trust {
            strong.verdict { (verdict_word(verdict)) } ": " (verdict_meaning(verdict)) "."
            @if !run.complete {
                p {
                    strong { "INCOMPLETE" }
                    @if let Some(why) = &run.incomplete_reason { ": " (Plain(why)) }
                    "."
                }
            }
            @if !seen.is_empty() { (list(seen)) }
            @if !rest.is_empty() { details data-print { summary { (rest.len()) " more" } (list(rest)) } }
        }
    }
}

fn tiles(run: &RunRecord) -> Markup {
    let (at, tiles) = key_figures(run);
    html! {
        @if let Some(at) = at { p.note.at { "At " (Plain(&at)) ":" } }
        div.tiles {
            @for (value, unit, words) in tiles {
                div.tile { b { (Plain(&value)) " " small { (unit) } } span { (Plain(&words)) } }
            }
        }
    }
}

/// Findings beside the first chart.
const FIRST: usize = 3;

/// The most telling chart with what was found first: both are seen without scrolling.
fn first_screen(run: &RunRecord, first: Option<&Figure>) -> Markup {
    let (told, _) = telling(run);
    html! {
        div.first {
            @if let Some(figure) = first { (chart(figure, false)) }
            @if !told.is_empty() {
                div {
                    ul.findings.one {
                        @for finding in told.iter().take(FIRST) {
                            li.(weight(finding)) {
                                h3 { (claim(finding)) }
                                @if let Some(advice) = finding.advice.first() { p { em { "Try:" } " " (Plain(&words::advice(advice))) } }
                            }
                        }
                    }
                    p.note { a href="#findings" { "All findings, with their evidence" } }
                }
            }
        }
    }
}

/// Answers and causes, the gravest first; facts behind a line that opens.
fn findings(page: &mut Page, run: &RunRecord) {
    if run.findings.is_empty() {
        return;
    }
    page.section("findings", "Findings");
    let is_fact = |finding: &&Finding| matches!(finding.code, Code::Fact(_));
    let (facts, mut told): (Vec<&Finding>, Vec<_>) = run.findings.iter().partition(is_fact);
    // The gravest miss stands for all: each has its row under the objectives.
    let mut misses = 0_u64;
    told.retain(|found| {
        let is_miss = found.code == Code::Answer(Answer::SloMissed);
        misses += u64::from(is_miss);
        !is_miss || misses == 1
    });
    page.push(&html! {
        @if !told.is_empty() { ul.findings { @for found in told { (finding(found)) } } }
        @if misses > 1 {
            p.note { a href="#objectives" { (counted(misses - 1, "more missed objective")) } " in the table of objectives" }
        }
        @if !facts.is_empty() {
            details.card data-print { summary { "Facts" } ul { @for fact in facts { li { (claim(fact)) } } } }
        }
    });
}

fn claim(finding: &Finding) -> Markup {
    with_code(&text::heading(&words::headline(finding)))
}

fn weight(finding: &Finding) -> &'static str {
    match finding.severity {
        s if s >= 0.5 => "grave",
        s if s >= 0.1 => "mid",
        _ => "light",
    }
}

/// What follows, what was ruled out, what would refute it, what to try stand behind a line that opens.
fn finding(finding: &Finding) -> Markup {
    let reasons = words::reasons(finding).into_iter();
    let reasons: Vec<_> = reasons.filter(|(_, words)| !words.is_empty()).collect();
    let asks = match finding.advice.as_slice() {
        [] => "Reasons and how to check",
        _ => "Reasons and what to try",
    };
    html! {
        li.(weight(finding)) {
            span.kind { (words::kind(finding)) }
            h3 { (claim(finding)) }
            @if !finding.evidence.is_empty() {
                details data-print {
                    summary { "Evidence" }
                    ul { @for evidence in &finding.evidence { li { (Plain(&words::evidence(evidence))) } } }
                }
            }
            @if !(reasons.is_empty() && finding.advice.is_empty()) {
                details data-print {
                    summary { (asks) }
                    @for (lead, words) in reasons { p { em { (lead) ":" } " " (Plain(&words)) } }
                    @if !finding.advice.is_empty() {
                        p { em { "Try:" } }
                        ol { @for advice in &finding.advice { li { (Plain(&words::advice_to_measure(advice, finding))) } } }
                    }
                }
            }
        }
    }
}

/// The tables that answer the question, objectives, counts.
fn results(page: &mut Page, run: &RunRecord) {
    page.section("results", "Results");
    for table in tables::results(run) {
        page.card(&table.to_html());
    }
    page.push(&html! { p.note { "Requests: " (Plain(&tables::summary_line(run))) "." } });
    let counted = [tables::counts(run), tables::failures(run)];
    for table in counted.into_iter().flatten() {
        page.card(&table.to_html());
    }
    if let Some((lead, message)) = commonest_message(run) {
        page.push(&html! { p.note { "Failures: " (lead) ": " bdi { (Plain(message)) } } });
    }
    for (table, id, title) in [
        (tables::objectives(run), "objectives", "Objectives"),
        (tables::targets(run), "targets", "Targets"),
    ] {
        if let Some(table) = table {
            page.section(id, title);
            page.push(&html! { section.card.headed { (table.to_html()) } });
        }
    }
}

/// Context, everything else as tables, the configuration.
fn details(page: &mut Page, run: &RunRecord, torn: u64) {
    page.section("context", "Run context");
    page.push(&html! { section.card.headed.context { (tables::context(run).to_html()) } });
    page.section("details", "Details");
    let config = serde_json::to_string_pretty(&run.config).unwrap_or_default();
    page.push(&html! {
        @for table in tables::details(run) {
            details.card { summary { (Plain(&table.title)) } (opened(&table)) }
        }
        details.card { summary { "Effective configuration" } pre { (text::block(&config)) } }
        @if torn > 0 {
            p.note {
                (torn) " lines of requests.jsonl were skipped (an incomplete last line of a killed run, a damaged line or a duplicate request); the charts do not include them."
            }
        }
    });
}
