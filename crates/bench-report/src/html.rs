//! `report.html`: one self-contained page, offline, with charts.

mod parts;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bench_schema::RunRecord;
use sha2::{Digest, Sha256};

use crate::charts::{self, Section};
use crate::figure::Figure;
use crate::files::RunFiles;
use crate::text::{escape_html, html, json_in_script};
use crate::{ReportError, trace};

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
    parts::head(&mut page, run);
    let first = first.map(|figure| chart(&figure, false));
    parts::first_screen(&mut page, run, first);
    parts::results(&mut page, run);
    for section in &sections {
        page.charts(section);
    }
    parts::findings(&mut page, run);
    parts::details(&mut page, run, trace.as_ref().map_or(0, |trace| trace.torn));
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
