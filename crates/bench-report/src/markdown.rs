//! `report.md`: at most 120 lines and 20 KB, so that it can be pasted into a pull request. `report.html` has everything.

pub(crate) mod conclusions;

use std::collections::{BTreeMap, BTreeSet};

use bench_schema::{ClockKind, Origin, RunRecord, SloVerdict, TargetOutcome, TrustVerdict};

use crate::table::legend;
use crate::table::{Mark, Table};
use crate::terminal::{commonest_message, verdict_meaning, verdict_word};
use crate::{number, tables, text};

/// A figure that lies beside the report: its title and its path relative to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FigureLink {
    /// The figure's title, which says its conclusion.
    pub title: String,
    /// Path relative to the report.
    pub path: String,
}

/// Lines and bytes of a report without figures.
const LINES: usize = 120;
const BYTES: usize = 20_000;

/// How much of each part is shown.
#[derive(Clone, Copy)]
struct Room {
    /// Rows of the main table.
    rows: usize,
    /// Rows of a folded table.
    folded: usize,
    findings: usize,
    reasons: usize,
    /// Characters of a text of strangers.
    longest: usize,
}

/// Findings and reasons give way before tables do: what was measured is what is pasted.
const ROOMS: [Room; 8] = [
    room((24, 12), (8, 8, 400)),
    room((16, 8), (6, 6, 400)),
    room((16, 8), (3, 3, 300)),
    room((12, 6), (3, 2, 250)),
    room((12, 5), (2, 1, 250)),
    room((9, 5), (1, 1, 200)),
    room((9, 4), (1, 1, 200)),
    room((6, 2), (1, 1, 120)),
];

impl Room {
    /// Findings and facts that have a line each.
    fn lines(self) -> usize {
        3 * self.folded
    }
}

const fn room(
    (rows, folded): (usize, usize),
    (findings, reasons, longest): (usize, usize, usize),
) -> Room {
    Room {
        rows,
        folded,
        findings,
        reasons,
        longest,
    }
}

/// A report in the making, with the signs that it has used: they are explained once.
struct Draft {
    out: String,
    room: Room,
    page: &'static str,
    marks: BTreeSet<Mark>,
}

/// The report as Markdown (`CommonMark` with GitHub's tables): at most 120 lines and 20 KB, figures apart.
///
/// `figures` are linked where they were made. A section without data is absent; every text that came from outside is
/// escaped, so that no name can become a link, an image, code or HTML.
pub fn render(run: &RunRecord, figures: &[FigureLink]) -> String {
    let mut texts = ROOMS.iter().map(|room| within(run, *room));
    let fits = |text: &String| text.lines().count() <= LINES && text.len() <= BYTES;
    let last = ROOMS.last().map(|room| within(run, *room));
    let mut out = texts.find(fits).or(last).unwrap_or_default();
    titled(&mut out, "Figures", &links(figures));
    out
}

fn within(run: &RunRecord, room: Room) -> String {
    let title = text::shortened(&run.title, room.longest);
    let mut draft = Draft {
        out: format!("# {}\n", text::markdown(&title)),
        room,
        page: tables::page(run),
        marks: BTreeSet::new(),
    };
    section(&mut draft.out, &trust(run, room));
    let headline = conclusions::headline(run, conclusions::MARKDOWN);
    section(&mut draft.out, &headline.unwrap_or_default());
    let mut results = tables::results(run).into_iter();
    if let Some(first) = results.next() {
        let (title, body) = (first.title.clone(), draft.cut(first, room.rows));
        titled(&mut draft.out, &title, &body);
    }
    draft.outcomes(run);
    let body = draft.objectives(run);
    titled(&mut draft.out, "Objectives", &body);
    titled(
        &mut draft.out,
        "Findings",
        &conclusions::findings(run, room.findings, room.longest, room.lines()),
    );
    for mut table in results.chain(tables::causes(run)) {
        if table.rows.len() > room.folded {
            table.of_most_load();
        }
        draft.fold(table);
    }
    let mut out = draft.out;
    folded(&mut out, "Facts", &conclusions::facts(run, room.lines()));
    folded(
        &mut out,
        "Run context",
        &tables::context(run).rows_to_markdown(),
    );
    folded(
        &mut out,
        "Method and missing data",
        &(how(run) + &unknown(run, room.findings)),
    );
    section(&mut out, &legend(&draft.marks));
    out
}

impl Draft {
    /// A table of at most so many rows, evenly spread with the first and the last.
    fn cut(&mut self, mut table: Table, rows: usize) -> String {
        let left_out = table.thin_out(rows.max(2));
        self.shown(&table, left_out, tables::rows_between)
    }

    /// A table of at most so many rows: what is missed, then what nobody can tell, then what holds.
    fn gravest(&mut self, mut table: Table, mut order: Vec<SloVerdict>) -> String {
        let weight = |verdict: &SloVerdict| match verdict {
            SloVerdict::Fail => 0,
            SloVerdict::CannotTell => 1,
            SloVerdict::Pass => 2,
        };
        order.resize(table.rows.len(), SloVerdict::Pass);
        let mut rows: Vec<_> = order.iter().map(weight).zip(table.rows).collect();
        rows.sort_by_key(|(weight, _)| *weight);
        let left_out = rows.len().saturating_sub(self.room.folded);
        let kept = rows.into_iter().take(self.room.folded);
        table.rows = kept.map(|(_, row)| row).collect();
        self.shown(&table, left_out, tables::rows_more)
    }

    fn shown(
        &mut self,
        table: &Table,
        left_out: usize,
        words: fn(usize, &str) -> String,
    ) -> String {
        self.marks.extend(table.marks());
        let mut shown = table.rows_to_markdown();
        if left_out > 0 {
            shown.push_str(&format!("\n{}.\n", words(left_out, self.page)));
        }
        shown
    }

    fn fold(&mut self, mut table: Table) {
        let left_out = table.thin_out(self.room.folded.max(2));
        let mut title = table.title.clone();
        if left_out > 0 {
            let shown = table.rows.len();
            title.push_str(&format!(" ({shown} of {} rows)", shown + left_out));
        }
        self.marks.extend(table.marks());
        folded(&mut self.out, &title, &table.rows_to_markdown());
    }

    /// What became of the requests; the tables of it where some got no whole answer.
    fn outcomes(&mut self, run: &RunRecord) {
        let said = format!("Requests: {}.\n", tables::summary_line(run));
        section(&mut self.out, &said);
        let counted = [tables::counts(run), tables::failures(run)];
        for table in counted.into_iter().flatten() {
            self.fold(table);
        }
        if let Some((lead, message)) = commonest_message(run) {
            let message = text::markdown(&text::shortened(message, self.room.longest));
            section(&mut self.out, &format!("Failures: {lead}: {message}\n"));
        }
    }

    /// How objectives and targets came out, those that are not met first.
    fn objectives(&mut self, run: &RunRecord) -> String {
        let mut out = String::new();
        if let Some(table) = tables::objectives(run) {
            let all = run.cells.iter().flat_map(bench_insight::objectives_of);
            let verdicts: Vec<SloVerdict> = all.map(|(_, outcome)| outcome.verdict).collect();
            let said = match run.analysis.capacity {
                Some(_) => tables::capacity_words(run),
                None => tables::verdict_counts(&verdicts),
            };
            let said = said.unwrap_or_default();
            out.push_str(&format!("{said}.\n\n"));
            out.push_str(&self.gravest(table, verdicts));
        }
        if let Some(table) = tables::targets(run) {
            if !out.is_empty() {
                out.push('\n');
            }
            let verdict = |target: &TargetOutcome| match target.verdict {
                _ if target.met => SloVerdict::Pass,
                Some(SloVerdict::CannotTell) => SloVerdict::CannotTell,
                _ => SloVerdict::Fail,
            };
            let verdicts = run.targets.iter().map(verdict).collect();
            out.push_str(&self.gravest(table, verdicts));
        }
        out
    }
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
        section(out, &format!("## {}\n\n{body}", text::markdown(title)));
    }
}

fn folded(out: &mut String, title: &str, body: &str) {
    if !body.trim().is_empty() {
        let (title, body) = (text::html(title), body.trim_end());
        section(
            out,
            &format!("<details><summary>{title}</summary>\n\n{body}\n</details>"),
        );
    }
}

fn trust(run: &RunRecord, room: Room) -> String {
    let verdict = run.trust.verdict;
    let mut out = format!(
        "**{}**: {}.\n",
        verdict_word(verdict),
        verdict_meaning(verdict)
    );
    let safe = |words: &str| text::markdown(&text::shortened(words, room.longest));
    if !run.complete {
        let why = run
            .incomplete_reason
            .as_deref()
            .map_or_else(String::new, |why| format!(": {}", safe(why)));
        out.push_str(&format!("\n**Incomplete**{why}.\n"));
    }
    if !run.trust.reasons.is_empty() {
        out.push('\n');
    }
    for reason in run.trust.reasons.iter().take(room.reasons) {
        let weight = if reason.verdict == TrustVerdict::Untrusted {
            "untrusted"
        } else {
            "doubtful"
        };
        let cell = reason
            .cell
            .as_deref()
            .map_or_else(String::new, |cell| format!(", cell {}", safe(cell)));
        let (code, message) = (safe(&reason.code), safe(&reason.sentence()));
        out.push_str(&format!("- {weight}{cell}: **{code}**: {message}\n"));
    }
    let others = run.trust.reasons.iter().skip(room.reasons);
    let others: Vec<String> = others
        .map(|reason| match &reason.cell {
            Some(cell) => format!("{} in {cell}", reason.code),
            None => reason.code.clone(),
        })
        .collect();
    if !others.is_empty() {
        let names = text::markdown(&text::shortened(&others.join(", "), 400));
        out.push_str(&format!("- in full in {}: {names}\n", tables::page(run)));
    }
    out
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

fn ms(ns: f64) -> String {
    format!("{} ms", number::short(ns / 1e6))
}

/// What the run, its readings and its windows could not find out, and why; each once.
fn unknown(run: &RunRecord, most: usize) -> String {
    let mut all: BTreeMap<(String, &str), Vec<String>> = BTreeMap::new();
    let of_host = run.host.unknown.iter();
    let of_host = of_host.map(|(what, why)| (what.replace('_', " "), why.as_str()));
    let readings = run.cells.iter().flat_map(|cell| &cell.hardware);
    let of_readings = readings.flat_map(|hardware| &hardware.unknown);
    let of_readings = of_readings.map(|(what, why)| (what.clone(), why.as_str()));
    all.extend(of_host.chain(of_readings).map(|it| (it, Vec::new())));
    for cell in &run.cells {
        let mut lacks = |what: &str, why| {
            let cells = all.entry((what.to_owned(), why)).or_default();
            cells.push(tables::label(cell));
        };
        if cell.windows.steady.is_none() {
            let looked = cell.windows.stationarity.as_ref();
            lacks(
                "steady-state window",
                looked.map_or("not searched for", |s| s.reason.as_str()),
            );
        }
        let rates = cell.headline_rates();
        if rates.is_some_and(|rates| rates.output_tokens_per_s.is_none()) {
            lacks(
                "output tokens",
                "reported neither by `usage` nor by a tokenizer",
            );
        }
    }
    // What is not there for one reason is told together.
    let mut reasons: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for ((what, why), cells) in &all {
        let of = match cells.len() {
            0 => String::new(),
            n if n == run.cells.len() => " in every cell".to_owned(),
            _ => format!(" in {}", cells.join("; ")),
        };
        reasons.entry(why).or_default().insert(what.clone() + &of);
    }
    let lines: BTreeSet<String> = reasons
        .iter()
        .map(|(why, what)| {
            let what: Vec<String> = what.iter().cloned().collect();
            let (what, why) = (text::markdown(&what.join(", ")), text::markdown(why));
            format!("{what} ({why})")
        })
        .collect();
    let more = lines.len().saturating_sub(most);
    let mut told: Vec<String> = lines.into_iter().take(most).collect();
    if more > 0 {
        told.push(format!("{more} more"));
    }
    if told.is_empty() {
        return String::new();
    }
    format!("\nNot available: {}.\n", told.join("; "))
}

/// How the numbers came about, as far as the record tells: a paragraph.
fn how(run: &RunRecord) -> String {
    let mut out = Vec::new();
    out.push(match run.clock.arrival {
        ClockKind::Kernel => "Token times are kernel arrival times (socket receive timestamps), not the times of the client's reads.".to_owned(),
        ClockKind::ReadReturn => format!(
            "Token times are the times at which the client's reads returned{}.",
            run.clock.fallback_reason.as_deref().map_or_else(String::new, |why| format!("; {}", text::markdown(why)))
        ),
    });
    let open = run.cells.iter().any(|cell| cell.headline == Origin::Due);
    let closed = run.cells.iter().any(|cell| cell.headline == Origin::Sent);
    if open {
        out.push("Open loop: latencies start at the due time of a request, so a slow server cannot hide its queue. Requests/s are the offered rate times the share that completed, or, if a queue grows, the rate of completions while load was offered. Tokens/s are all tokens of the responses over the time that the requests take at that rate, or, if a queue grows, the tokens that arrived while those completions were counted, per second.".to_owned());
    }
    if closed {
        out.push("Closed loop: latencies start when the last byte of a request was handed to the socket. Requests/s are the mean number in flight divided by mean E2E (Little's law). Tokens/s are the tokens that arrived in the window divided by its length; if users think between few requests or turns, all tokens over the time that the requests take at their rate.".to_owned());
    }
    let steady = run
        .cells
        .iter()
        .filter(|cell| cell.windows.steady.is_some())
        .count();
    out.push(format!(
        "The window is from the first due request to the last end{}.",
        match steady {
            0 => "",
            n if n == run.cells.len() => ", without ramp-up and drain",
            _ => ", in some cells without ramp-up and drain",
        }
    ));
    out.push("Percentiles are exact over all samples, with linear interpolation (type 7, as numpy). Failed requests are counted, never dropped.".to_owned());
    out.join(" ") + "\n"
}
