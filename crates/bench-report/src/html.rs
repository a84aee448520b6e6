//! `report.html`: one self-contained page, offline, with charts.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bench_schema::{Code, Finding, RunRecord, TrustReason};
use sha2::{Digest, Sha256};

use crate::charts::{self, Section};
use crate::figure::Figure;
use crate::files::RunFiles;
use crate::findings as words;
use crate::markdown::conclusions::{Tile, key_figures};
use crate::number::duration;
use crate::table::Table;
use crate::terminal::{commonest_message, telling, verdict_meaning, verdict_word};
use crate::text::{self, escape_html, html, html_with_code, json_in_script, shortened};
use crate::{ReportError, tables, trace};

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
    let mut page = Page::new(&run.title);
    head(&mut page, run);
    let first = first.map(|figure| chart(&figure, false));
    first_screen(&mut page, run, first);
    results(&mut page, run);
    for section in &sections {
        page.charts(section);
    }
    findings(&mut page, run);
    details(&mut page, run, trace.as_ref().map_or(0, |trace| trace.torn));
    Ok(page.finish())
}

const CSS: &str = include_str!("html/page.css");
const PAGE: &str = include_str!("html/page.js");

/// A page under construction.
pub(crate) struct Page {
    title: String,
    head: String,
    body: String,
    links: Vec<(String, String)>,
}

impl Page {
    pub(crate) fn new(title: &str) -> Self {
        Self {
            title: html(title),
            head: String::new(),
            body: String::new(),
            links: Vec::new(),
        }
    }

    /// What stands before the navigation.
    pub(crate) fn header(&mut self, html: &str) {
        self.head.push_str(html);
    }

    /// HTML that was made of escaped parts.
    pub(crate) fn push(&mut self, html: &str) {
        self.body.push_str(html);
    }

    /// A heading that the navigation links to.
    pub(crate) fn section(&mut self, id: &str, title: &str) {
        self.links.push((id.to_owned(), title.to_owned()));
        self.push(&format!("<h2 id=\"{id}\">{}</h2>", escape_html(title)));
    }

    /// A section of charts.
    pub(crate) fn charts(&mut self, section: &Section) {
        if section.figures.is_empty() {
            return;
        }
        self.section(section.id, section.title);
        self.push("<div class=\"charts\">");
        for figure in &section.figures {
            self.push(&chart(figure, section.figures.len() == 1));
        }
        self.push("</div>");
    }

    /// The whole page.
    pub(crate) fn finish(self) -> String {
        let links: String = self
            .links
            .iter()
            .map(|(id, title)| format!("<a href=\"#{id}\">{}</a>", escape_html(title)))
            .collect();
        let scripts = [ECHARTS, DRAW, PAGE];
        let hashes: Vec<String> = scripts
            .iter()
            .map(|script| format!("'sha256-{}'", hash(script)))
            .collect();
        let policy = format!(
            "default-src 'none'; script-src {}; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'",
            hashes.join(" ")
        );
        let scripts: String = scripts
            .iter()
            .map(|script| format!("<script>{script}</script>\n"))
            .collect();
        format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"referrer\" content=\"no-referrer\">\n<title>{}</title>\n<style>\n{CSS}</style>\n</head>\n<body>\n{}\n\
             <nav aria-label=\"Sections\"><div>{links}</div></nav>\n<main>\n{}\n</main>\n{FOOTER}\n{scripts}</body>\n</html>\n",
            self.title, self.head, self.body
        )
    }
}

const FOOTER: &str = "<footer><p>Charts are drawn by Apache ECharts 5.5.1, Copyright 2017-2024 The Apache Software \
Foundation, licensed under the Apache License, Version 2.0 (https://www.apache.org/licenses/LICENSE-2.0); this product includes \
software developed at The Apache Software Foundation. The library is part of this file; the page asks the network for \
nothing.</p></footer>";

/// One chart with its table; wide where it is alone or tall.
fn chart(figure: &Figure, alone: bool) -> String {
    let class = if alone || figure.height > 420 {
        " class=\"wide\""
    } else {
        ""
    };
    let note = if figure.note.is_empty() {
        String::new()
    } else {
        format!("<p class=\"note\">{}</p>", html(&figure.note))
    };
    let table = figure.table.as_ref().map_or_else(String::new, |table| {
        format!(
            "<details><summary>The numbers as a table</summary>{}</details>",
            table.to_html()
        )
    });
    let json = json_in_script(&figure.option.to_string());
    format!(
        "<figure{class} id=\"{id}\" data-chart><h3>{title}</h3>{note}<div class=\"chart\" style=\"height:{height}px\" role=\"img\" \
         aria-label=\"{title}\"></div><script type=\"application/json\">{json}</script>{table}</figure>",
        id = figure.id,
        title = html(&figure.title),
        height = figure.height,
    )
}

/// SHA-256 in base64, as a Content-Security-Policy names a script.
fn hash(script: &str) -> String {
    BASE64_STANDARD.encode(Sha256::digest(script.as_bytes()))
}

/// Title, trust, key figures.
fn head(page: &mut Page, run: &RunRecord) {
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

/// Characters of reasons that are seen at once; the others open with a line.
const REASONS: usize = 260;

fn trust(run: &RunRecord) -> String {
    let verdict = run.trust.verdict;
    let mut out = format!(
        "<section class=\"card trust {}\" id=\"trust\"><strong class=\"verdict\">{}</strong>: {}.",
        verdict.as_str(),
        verdict_word(verdict),
        verdict_meaning(verdict)
    );
    if !run.complete {
        let why = run
            .incomplete_reason
            .as_deref()
            .map_or_else(String::new, |why| format!(": {}", html(why)));
        out.push_str(&format!("<p><strong>INCOMPLETE</strong>{why}.</p>"));
    }
    let reason = |reason: &TrustReason| {
        let cell = reason
            .cell
            .as_deref()
            .map_or_else(String::new, |cell| format!(" in {}", html(cell)));
        let code = html(&reason.code.replace('_', " "));
        let message = html_with_code(&reason.sentence());
        format!("<li><strong>{code}</strong>{cell}: {message}</li>")
    };
    let mut left = REASONS;
    let reasons = run.trust.reasons.iter().enumerate();
    let (seen, rest): (Vec<_>, Vec<_>) = reasons.partition(|(i, reason)| {
        left = left.saturating_sub(reason.message.len());
        *i == 0 || left > 0
    });
    let items = |reasons: Vec<(usize, &TrustReason)>| -> Vec<String> {
        reasons.into_iter().map(|(_, r)| reason(r)).collect()
    };
    let (seen, rest) = (items(seen), items(rest));
    if !seen.is_empty() {
        out.push_str(&format!("<ul>{}</ul>", seen.concat()));
    }
    if !rest.is_empty() {
        out.push_str(&format!(
            "<details data-print><summary>{} more</summary><ul>{}</ul></details>",
            rest.len(),
            rest.concat()
        ));
    }
    out.push_str("</section>");
    out
}

fn tiles(run: &RunRecord) -> String {
    let tile = |(value, unit, words): &Tile| {
        format!(
            "<div class=\"tile\"><b>{} <small>{unit}</small></b><span>{}</span></div>",
            html(value),
            html(words)
        )
    };
    let (at, tiles) = key_figures(run);
    let at = at.map_or_else(String::new, |at| {
        format!("<p class=\"note at\">At {}:</p>", html(&at))
    });
    let tiles: String = tiles.iter().map(tile).collect();
    format!("{at}<div class=\"tiles\">{tiles}</div>")
}

/// Findings beside the first chart.
const FIRST: usize = 3;

/// The most telling chart with what was found first: both are seen without scrolling.
fn first_screen(page: &mut Page, run: &RunRecord, chart: Option<String>) {
    let (told, _) = telling(run);
    let item = |finding: &&Finding| {
        let advice = finding.advice.first().map_or_else(String::new, |advice| {
            format!("<p><em>Try:</em> {}</p>", html(&words::advice(advice)))
        });
        format!(
            "<li class=\"{}\"><h3>{}</h3>{advice}</li>",
            weight(finding),
            html_with_code(&claim(finding))
        )
    };
    let list: String = told.iter().take(FIRST).map(item).collect();
    let list = if list.is_empty() {
        list
    } else {
        format!(
            "<div><ul class=\"findings one\">{list}</ul><p class=\"note\"><a href=\"#findings\">All findings, with their evidence</a></p></div>"
        )
    };
    page.push(&format!(
        "<div class=\"first\">{}{list}</div>",
        chart.unwrap_or_default()
    ));
}

/// Answers and causes, the gravest first; facts behind a line that opens.
fn findings(page: &mut Page, run: &RunRecord) {
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
        .map(|finding| format!("<li>{}</li>", html_with_code(&claim(finding))))
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

fn weight(finding: &Finding) -> &'static str {
    match finding.severity {
        s if s >= 0.5 => "grave",
        s if s >= 0.1 => "mid",
        _ => "light",
    }
}

fn finding(finding: &Finding) -> String {
    let mut out = format!(
        "<li class=\"{}\"><span class=\"kind\">{}</span><h3>{}</h3>",
        weight(finding),
        words::kind(finding),
        html_with_code(&claim(finding))
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
    for (lead, words) in words::reasons(finding) {
        if !words.is_empty() {
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
fn results(page: &mut Page, run: &RunRecord) {
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
fn details(page: &mut Page, run: &RunRecord, torn: u64) {
    page.section("context", "Run context");
    let context = format!(
        "<section class=\"card context\">{}</section>",
        tables::context(run).to_html()
    );
    page.push(&context);
    page.section("details", "Details");
    for table in tables::details(run) {
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
