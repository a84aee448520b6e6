//! The result as text for a terminal ([`fit_terminal`]). The short form fits a screen of 40 lines: trust, the answer, what to do.

use std::collections::BTreeMap;
use std::path::Path;

use bench_insight::Signal;
use bench_schema::{
    Answer, Code, Fact, Finding, RunRecord, SloVerdict, TargetOutcome, TrustVerdict,
};

use crate::table::{Table, fit, hanging, text_width};
use crate::{findings as words, number, tables, text};

/// Lines of the short form.
const SCREEN: usize = 40;

/// How much is shown: tables, reasons, rows of a table, findings.
type Room = [usize; 4];

/// From what is wanted to what fits whatever a run holds. Three findings are worth more than a second table, or a third reason.
const ROOMS: [Room; 8] = [
    [2, 3, 16, 3],
    [1, 3, 16, 3],
    [1, 2, 12, 3],
    [1, 1, 9, 3],
    [1, 1, 6, 3],
    [1, 1, 6, 2],
    [1, 1, 6, 1],
    [1, 1, 3, 0],
];

/// Makes tables and paragraphs as wide as the terminal is when they are shown: what `COLUMNS` says, else stdout's terminal, else 100. For `main`.
pub fn fit_terminal() {
    fit();
}

/// What a person wants to see first when a run is over: whether its numbers can be trusted, the main table, at most three findings
/// with what to do, and where the rest is; at most 40 lines.
///
/// `dir` is where the results lie, for the last line; without it that line is left out. Names and messages of strangers are
/// made harmless: no control character of theirs reaches the terminal.
pub fn render(run: &RunRecord, dir: Option<&Path>) -> String {
    let mut text = String::new();
    for room in ROOMS {
        text = short(run, dir, room);
        if text.lines().count() <= SCREEN {
            break;
        }
    }
    let lines = text.lines().take(SCREEN);
    lines.map(|line| format!("{line}\n")).collect()
}

/// Every table and every finding.
pub fn render_all(run: &RunRecord, dir: Option<&Path>) -> String {
    let mut blocks = vec![head(run) + &capacity(run), trust(run, usize::MAX)];
    let shown_as = |table: &Table| table.to_terminal(tables::page(run));
    blocks.extend(tables::results(run).iter().map(shown_as));
    blocks.push(outcomes(run));
    let counted = [tables::counts(run), tables::failures(run)];
    blocks.extend(counted.iter().flatten().map(shown_as));
    let all: Vec<&Finding> = run.findings.iter().collect();
    blocks.extend(findings(&all, usize::MAX, 0));
    let judged = [tables::objectives(run), tables::targets(run)];
    blocks.extend(judged.iter().flatten().map(shown_as));
    blocks.extend(tables::details(run).iter().map(shown_as));
    blocks.push(shown_as(&tables::context(run)));
    blocks.extend(dir.map(|dir| paragraph("", &format!("Results in {}", shown(dir)))));
    blocks.join("\n")
}

/// The answer to what was searched; nothing where nothing was.
fn capacity(run: &RunRecord) -> String {
    let found = tables::capacity_words(run);
    found.map_or_else(String::new, |found| paragraph("Capacity  ", &found))
}

fn short(run: &RunRecord, dir: Option<&Path>, room: Room) -> String {
    let [most_tables, reasons, rows, most] = room;
    let mut blocks = vec![head(run) + &capacity(run), trust(run, reasons)];
    for mut table in tables::results(run).into_iter().take(most_tables) {
        let (others, between) = (table.of_most_load(), table.thin_out(rows));
        let mut shown = table.to_terminal(tables::page(run));
        let left_out = match (others, between) {
            (0, 0) => None,
            (0, between) => Some(tables::rows_between(between, "report.md")),
            (others, between) => Some(tables::rows_more(others + between, "report.md")),
        };
        shown.extend(left_out.map(|words| paragraph("", &words)));
        blocks.push(shown);
    }
    blocks.push(outcomes(run));
    let (mut told, mut more) = telling(run);
    answer_first(&mut told);
    // without them nobody knows what to make of the gaps above, or of all times
    for needed in [Fact::OtherClients, Fact::Bundles] {
        let found = run.findings.iter().find(|f| f.code == needed.into());
        if let Some(found) = found.filter(|_| told.len() < most) {
            told.push(found);
            more -= 1;
        }
    }
    blocks.extend(findings(&told, most, more));
    blocks.extend(dir.map(|dir| {
        let dir = shown(dir);
        paragraph(
            "",
            &format!("Reports in {dir}; all tables: bench-report render --verbose {dir}"),
        )
    }));
    blocks.join("\n")
}

fn shown(dir: &Path) -> String {
    text::plain(&dir.display().to_string())
}

fn paragraph(lead: &str, words: &str) -> String {
    hanging(lead, words)
        .iter()
        .map(|line| format!("{}\n", line.trim_end()))
        .collect()
}

fn head(run: &RunRecord) -> String {
    let mut lines = vec![text::fitted(&run.title, text_width())];
    let mut facts = vec![format!("bench-{}", run.experiment.as_str())];
    facts.extend(
        run.server
            .model
            .as_deref()
            .map(|model| text::shortened(model, 60)),
    );
    if run.server.embedded {
        facts.push("embedded engine".to_owned());
    } else {
        facts.extend(run.server.urls.first().map(|url| text::shortened(url, 60)));
    }
    facts.push(number::duration(run.duration.as_f64()));
    lines.push(text::fitted(&facts.join(" · "), text_width()));
    lines.iter().map(|line| format!("{line}\n")).collect()
}

pub(crate) fn verdict_word(verdict: TrustVerdict) -> &'static str {
    match verdict {
        TrustVerdict::Trusted => "TRUSTED",
        TrustVerdict::Doubtful => "DOUBTFUL",
        TrustVerdict::Untrusted => "UNTRUSTED",
    }
}

pub(crate) fn verdict_meaning(verdict: TrustVerdict) -> &'static str {
    match verdict {
        TrustVerdict::Trusted => "no check found a problem with these measurements",
        TrustVerdict::Doubtful => "a check found a problem that may affect these numbers",
        TrustVerdict::Untrusted => {
            "the affected numbers may be wrong by more than 10 %; do not rely on them"
        }
    }
}

fn trust(run: &RunRecord, most: usize) -> String {
    let verdict = run.trust.verdict;
    let mut out = paragraph(
        "",
        &format!("{}: {}", verdict_word(verdict), verdict_meaning(verdict)),
    );
    if !run.complete {
        let why = run
            .incomplete_reason
            .as_deref()
            .map_or_else(String::new, |why| format!(": {}", text::plain(why)));
        out.push_str(&paragraph("", &format!("INCOMPLETE{why}")));
    }
    for (i, reason) in run.trust.reasons.iter().take(most).enumerate() {
        let sign = if reason.verdict == TrustVerdict::Untrusted {
            "! "
        } else {
            "? "
        };
        let cell = reason.cell.as_deref().map_or_else(String::new, |cell| {
            format!(" [{}]", text::shortened(cell, 40))
        });
        let words = format!(
            "{}{cell}: {}",
            text::shortened(&reason.code, 40),
            text::shortened(&reason.message, text::SENTENCE)
        );
        out.push_str(&paragraph(&format!("  {sign}"), &words));
        let before = run.trust.reasons.iter().take(i);
        let next = reason.next.as_ref();
        if let Some(next) =
            next.filter(|next| before.clone().all(|r| r.next.as_ref() != Some(next)))
        {
            out.push_str(&paragraph("    try: ", &text::plain(next)));
        }
    }
    let more = run.trust.reasons.len().saturating_sub(most);
    if more > 0 {
        out.push_str(&paragraph("  ", &format!("{more} more in report.md")));
    }
    out
}

/// How objectives and targets came out, what became of the requests, what machines and server reached: a line each.
fn outcomes(run: &RunRecord) -> String {
    let lines = [
        // the stages of a search miss on purpose
        (
            "Objectives  ",
            objectives(run).filter(|_| run.analysis.capacity.is_none()),
        ),
        ("Targets     ", targets(run)),
        ("Requests    ", Some(tables::summary_line(run))),
        ("Failures    ", failures(run)),
        ("Peaks       ", peaks(run)),
    ];
    let said = lines.into_iter();
    said.filter_map(|(lead, said)| Some(paragraph(lead, &said?)))
        .collect()
}

/// `31 reset (stream), 12 timed out (first token); most common message (30 times): connection reset by peer`.
fn failures(run: &RunRecord) -> Option<String> {
    let counted = tables::failure_counts(run);
    let mut said: Vec<String> = counted
        .iter()
        .take(4)
        .map(|(n, stage, kind)| format!("{n} {kind} ({stage})"))
        .collect();
    if counted.len() > 4 {
        said.push(format!("{} other kinds", counted.len() - 4));
    }
    let message = commonest_message(run).map_or_else(String::new, |(lead, message)| {
        format!("; {lead}: {}", text::shortened(message, 80))
    });
    (!said.is_empty()).then(|| said.join(", ") + &message)
}

/// `GPU use 100 %, KV cache 1.1 %, 31 requests running, 0 waiting; 42 samples of the server's metrics`.
fn peaks(run: &RunRecord) -> Option<String> {
    let share = |signal: Signal, words: &str| {
        let peak = tables::peak(run, signal)?;
        Some(format!("{words} {} %", number::percent(peak)))
    };
    let count = |signal: Signal, words: &str| {
        let peak = number::short(tables::peak(run, signal)?);
        let words = match peak.as_str() {
            "1" => words.replace("requests", "request"),
            _ => words.to_owned(),
        };
        Some(format!("{peak} {words}"))
    };
    let said: Vec<String> = [
        share(Signal::GpuUse, "GPU use"),
        share(Signal::GpuMemory, "GPU memory"),
        share(Signal::KvCache, "KV cache"),
        count(Signal::Running, "requests running"),
        count(Signal::Waiting, "waiting"),
        share(Signal::Cpu, "host CPU"),
    ]
    .into_iter()
    .flatten()
    .collect();
    // What is read now and then was higher in between.
    let readings = run
        .cells
        .iter()
        .filter_map(|cell| Signal::Running.readings(cell));
    let readings = match readings.sum::<u64>() {
        0 => String::new(),
        1 => "; 1 sample of the server's metrics".to_owned(),
        n => format!("; {n} samples of the server's metrics"),
    };
    (!said.is_empty()).then(|| said.join(", ") + &readings)
}

/// ` in c8 and 2 more cells`; nothing where the run has one cell.
fn place(run: &RunRecord, cells: &[String]) -> String {
    match run.cells.as_slice() {
        [_] => String::new(),
        _ => words::place(cells),
    }
}

/// Targets and objectives that are named in a line.
const SHOWN: usize = 3;

/// `9 pass, 2 FAIL, 1 cannot tell; failed: p95 E2E ≤ 3000 ms for long-form in c8`.
fn objectives(run: &RunRecord) -> Option<String> {
    let (mut verdicts, mut failed) = (Vec::new(), BTreeMap::<String, Vec<String>>::new());
    for cell in &run.cells {
        for (whom, outcome) in bench_insight::objectives_of(cell) {
            verdicts.push(outcome.verdict);
            let whom = match whom {
                "all requests" => String::new(),
                whom => format!(" for {}", text::shortened(whom, 30)),
            };
            if outcome.verdict == SloVerdict::Fail {
                let cells = failed.entry(tables::objective_words(&outcome.slo) + &whom);
                cells.or_default().push(cell.id.clone());
            }
        }
    }
    let more = text::and_more(failed.len(), SHOWN);
    let failed = failed.iter().take(SHOWN);
    let failed: Vec<String> = failed
        .map(|(objective, cells)| objective.clone() + &place(run, cells))
        .collect();
    let failed = match failed.as_slice() {
        [] => String::new(),
        failed => format!("; failed: {}{more}", failed.join(", ")),
    };
    Some(tables::verdict_counts(&verdicts)? + &failed)
}

/// `1 of 3 met; NOT met: failed==0 (3 in c8); cannot tell: e2e.p99<=1s (300 values are needed)`.
fn targets(run: &RunRecord) -> Option<String> {
    let (met, rest): (Vec<_>, Vec<_>) = run.targets.iter().partition(|target| target.met);
    let (open, missed): (Vec<_>, Vec<_>) = rest
        .into_iter()
        .partition(|target| target.verdict == Some(SloVerdict::CannotTell));
    let named = |lead: &str, all: &[&TargetOutcome], why: &dyn Fn(&TargetOutcome) -> String| {
        let said = all.iter().take(SHOWN).map(|target| {
            let words = text::shortened(&target.target, 50);
            match why(target).as_str() {
                "" => words,
                why => format!("{words} ({why})"),
            }
        });
        let said: Vec<String> = said.collect();
        let more = text::and_more(all.len(), SHOWN);
        match said.as_slice() {
            [] => String::new(),
            said => format!("; {lead}: {}{more}", said.join(", ")),
        }
    };
    let missed = named("NOT met", &missed, &|target| {
        let cell = place(run, target.cell.as_slice());
        tables::measured_words(&target.target, target.measured) + &cell
    });
    let open = named("cannot tell", &open, &|target| {
        let note = target.note.as_deref().unwrap_or_default();
        text::shortened(note, text::SENTENCE)
    });
    let all = run.targets.len();
    (all > 0).then(|| format!("{} of {all} met{missed}{open}", met.len()))
}

/// What the message of the most failures of all cells is, and the message.
pub(crate) fn commonest_message(run: &RunRecord) -> Option<(String, &str)> {
    let mut all: BTreeMap<&str, u64> = BTreeMap::new();
    for (message, n) in run.cells.iter().flat_map(|cell| &cell.counts.messages) {
        *all.entry(message).or_default() += n;
    }
    let (message, n) = all.into_iter().max_by_key(|(_, n)| *n)?;
    let lead = match n {
        1 => "message of one".to_owned(),
        n => format!("most common message ({n} times)"),
    };
    Some((lead, message))
}

/// Answers and causes, the gravest of each kind, and how many findings that leaves out.
pub(crate) fn telling(run: &RunRecord) -> (Vec<&Finding>, usize) {
    let mut told: Vec<&Finding> = Vec::new();
    for finding in &run.findings {
        let is_fact = matches!(finding.code, Code::Fact(_));
        if !is_fact && !told.iter().any(|known| known.code == finding.code) {
            told.push(finding);
        }
    }
    let more = run.findings.len() - told.len();
    (told, more)
}

/// The answer to what the flags asked, then causes, then the other answers: of few lines not all are of one kind.
fn answer_first(told: &mut [&Finding]) {
    let asked = |finding: &&Finding| {
        // what a rate comes to in a day or in money follows from what was measured
        let follows = [Answer::Capacity, Answer::Planning].map(Code::from);
        matches!(finding.code, Code::Answer(_)) && !follows.contains(&finding.code)
    };
    let answer = told.iter().position(asked);
    if let Some(first) = answer.and_then(|at| told.get_mut(..=at)) {
        first.rotate_right(1);
        let rest = told.get_mut(1..).unwrap_or_default();
        rest.sort_by_key(|finding| !matches!(finding.code, Code::Cause(_)));
    }
}

fn findings(told: &[&Finding], most: usize, more: usize) -> Option<String> {
    let more = more + told.len().saturating_sub(most);
    if told.is_empty() {
        return None;
    }
    let mut out = "Findings\n".to_owned();
    for (i, finding) in told.iter().take(most).enumerate() {
        let words = text::heading(&words::placed(finding));
        out.push_str(&paragraph(&format!("{}. ", i + 1), &words));
        if let Some(advice) = finding.advice.first() {
            out.push_str(&paragraph(
                "   try: ",
                &words::advice_to_measure(advice, finding),
            ));
        }
    }
    if more > 0 {
        out.push_str(&paragraph("", &format!("{more} more in report.md")));
    }
    Some(out)
}
