//! Many runs as one page: a list with a filter, a link to each report, two runs to hold beside each other.

use std::cmp::Reverse;
use std::path::Path;

use bench_schema::{RunRecord, TrustVerdict, counted};
use maud::{Markup, html};

use crate::html::{PAGE, Page};
use crate::markdown::conclusions::key_figures;
use crate::terminal::verdict_word;
use crate::text::Plain;

const LIST: &str = include_str!("html/list.js");

/// A run as the list shows it.
#[derive(Clone, Debug)]
pub struct Listed {
    key: String,
    path: String,
    name: String,
    /// What is known of it, or why nothing is.
    state: Result<Facts, String>,
}

#[derive(Clone, Debug)]
struct Facts {
    started: String,
    benchmark: &'static str,
    model: String,
    server: String,
    tags: Vec<String>,
    /// The cell that the figures are of, where there are several.
    at: Option<String>,
    figures: Vec<String>,
    verdict: TrustVerdict,
    codes: Vec<String>,
    /// Why it was cut short, where it was.
    cut: Option<String>,
}

impl Listed {
    /// The run called `name` in `path`, or the reason why it cannot be read. `key` stands for it in links: letters, digits and `-_.~` only.
    pub fn new(key: &str, name: &str, path: &Path, run: Result<&RunRecord, String>) -> Self {
        Self {
            key: key.to_owned(),
            path: path.display().to_string(),
            name: name.to_owned(),
            state: run.map(Facts::of),
        }
    }

    /// Why it cannot be read.
    pub fn unreadable(&self) -> Option<&str> {
        self.state.as_ref().err().map(String::as_str)
    }

    /// Whether it can be read and came to its end: nothing but its `run.json` changes it any more.
    pub fn is_whole(&self) -> bool {
        self.state.as_ref().is_ok_and(|facts| facts.cut.is_none())
    }
}

impl Facts {
    fn of(run: &RunRecord) -> Self {
        let (at, tiles) = key_figures(run);
        let last = tiles.len().saturating_sub(1);
        // the first three, and how many requests were answered
        let told = tiles.into_iter().enumerate();
        let told = told.filter(|(i, _)| *i < 3 || *i == last);
        let figures = told.map(|(_, (value, unit, words))| match unit {
            "" => format!("{value} {words}"),
            unit => format!("{words} {value} {unit}"),
        });
        let mut codes: Vec<String> = Vec::new();
        for reason in &run.trust.reasons {
            if !codes.contains(&reason.code) {
                codes.push(reason.code.clone());
            }
        }
        let cut = || run.incomplete_reason.clone().unwrap_or_default();
        Self {
            started: run.started_at.clone(),
            benchmark: run.experiment.as_str(),
            model: run.server.model.clone().unwrap_or_default(),
            server: run.server.urls.join(" "),
            tags: run.tags.iter().map(|(k, v)| format!("{k}={v}")).collect(),
            at,
            figures: figures.collect(),
            verdict: run.trust.verdict,
            codes,
            cut: (!run.complete).then(cut),
        }
    }
}

/// The list, the newest run first, those that cannot be read at its end. Links lead to `trend.html` and `runs/KEY.html`; where the page is `served`, two
/// ticked runs lead to `compare/BASE/NEW`, else to the command that makes their comparison.
pub fn list(folder: &str, mut runs: Vec<Listed>, served: bool) -> String {
    runs.sort_by(|a, b| {
        let newest = |run: &Listed| Reverse(run.state.as_ref().ok().map(|f| f.started.clone()));
        newest(a).cmp(&newest(b)).then_with(|| a.name.cmp(&b.name))
    });
    let unread = runs.iter().filter_map(Listed::unreadable).count();
    let mut facts = vec![counted(runs.len(), "run")];
    if unread > 0 {
        facts.push(format!("{unread} unreadable, listed last"));
    }
    let mut page = Page::new(&format!("Runs in {folder}"), facts);
    page.scripts = vec![PAGE, LIST];
    page.card(&html! {
        p { a href="trend.html" { "Trends" } " of the trusted runs, with changes of level" }
        div #tools hidden {
            label { "Filter " input #filter type="search" placeholder="words or tag=value" autocomplete="off"; }
            " " span #shown.soft role="status" {}
            p #pair.note data-served[served] aria-live="polite" { "Select two runs to compare them." }
        }
        div.scroll tabindex="0" role="region" aria-label="Runs" {
            table #runs {
                caption { "Runs, newest first" }
                thead { tr { @for heading in ["", "run", "started", "benchmark", "model", "server", "tags", "key figures", "trust"] { th scope="col" { (heading) } } } }
                tbody { @for run in &runs { (row(run)) } }
            }
        }
    });
    page.finish()
}

fn row(run: &Listed) -> Markup {
    let name = html! { bdi { (Plain(&run.name)) } };
    html! {
        tr {
            @match &run.state {
                Err(why) => {
                    td {}
                    th scope="row" { (name) }
                    td.bad.words colspan="7" { "CANNOT BE READ: " (Plain(why)) }
                }
                Ok(facts) => {
                    td { input type="checkbox" hidden value=(run.key) data-path=(Plain(&run.path)) aria-label={ "compare " (Plain(&run.name)) }; }
                    th scope="row" { a href={ "runs/" (run.key) ".html" } { (name) } }
                    td { (Plain(&facts.started)) }
                    td { (facts.benchmark) }
                    td.words { (Plain(&facts.model)) }
                    td.words { (Plain(&facts.server)) }
                    td.words { @for tag in &facts.tags { bdi { (Plain(tag)) } " " } }
                    td {
                        @if let Some(at) = &facts.at { div.soft { "at " (Plain(at)) } }
                        @for figure in &facts.figures { div { (Plain(figure)) } }
                    }
                    td.words.(tone(facts)) {
                        (verdict_word(facts.verdict))
                        @if !facts.codes.is_empty() { " (" (Plain(&facts.codes.join(", "))) ")" }
                        @if let Some(why) = &facts.cut { div.bad { "INCOMPLETE" @if !why.is_empty() { ": " (Plain(why)) } } }
                    }
                }
            }
        }
    }
}

fn tone(facts: &Facts) -> &'static str {
    match facts.verdict {
        TrustVerdict::Trusted => "good",
        TrustVerdict::Doubtful => "warn",
        TrustVerdict::Untrusted => "bad",
    }
}
