//! Runs beside each other: before and after, models, GPU counts, layouts; any tag can be the axis.
//!
//! The verdicts are those of [`bench_insight::compare`], the same in every form; here they are only shown.

mod charts;
pub(crate) mod tables;

use std::collections::{BTreeMap, BTreeSet};

use bench_insight::{ComparisonRow, ComparisonVerdict, RunComparison};
use bench_schema::{Cause, CellRecord, Interval, RunRecord, TrustVerdict, counted};

use crate::html::Page;
use crate::markdown::conclusions::fastest;
use crate::number::percent;
use crate::table::Table;
use crate::tables::label;
use crate::{ReportError, RunFiles, findings, text};

/// Runs that are repeats of each other, or share a level of the axis.
#[derive(Debug)]
pub struct Point<'a> {
    /// What it is called: a level of the axis, a folder.
    pub name: String,
    /// One at least.
    pub runs: Vec<&'a RunRecord>,
    /// Where the requests of each run lie, for the distributions.
    pub files: Vec<RunFiles>,
    /// How it stands against the first point; `None` for that one.
    pub held: Option<RunComparison>,
}

/// A baseline, which is the first point, and those that are held against it.
#[derive(Debug)]
pub struct Study<'a> {
    axis: Option<String>,
    points: Vec<Point<'a>>,
    along: Option<Table>,
}

impl<'a> Study<'a> {
    /// Of points along a tag, or of runs without an axis. `along` is a table of the points with their best cells, as `bench-frames` makes it.
    ///
    /// # Errors
    /// [`ReportError::TooFewRuns`] where there are not two points to compare.
    pub fn new(
        points: Vec<Point<'a>>,
        axis: Option<&str>,
        along: Option<Table>,
    ) -> Result<Self, ReportError> {
        if points.len() < 2 {
            return Err(ReportError::TooFewRuns {
                given: points.len(),
            });
        }
        Ok(Self {
            axis: axis.map(str::to_owned),
            points,
            along: along.and_then(Table::not_empty),
        })
    }

    fn title(&self) -> String {
        match (&self.axis, self.points.as_slice()) {
            (Some(axis), points) => format!("{} levels of {axis} compared", points.len()),
            (None, [base, new]) => format!("{} against {}", new.name, base.name),
            (None, points) => format!("{} runs compared", points.len()),
        }
    }

    /// The point that the others are held against.
    fn baseline(&self) -> Option<&Point<'a>> {
        self.points.first()
    }

    /// The cell that every run has and that the runs are held beside each other at: the baseline's fastest in which no run is overloaded,
    /// else its fastest. Searches for a capacity have none: their stages are their own choice.
    fn common(&self) -> Option<&'a CellRecord> {
        let base = *self.baseline()?.runs.first()?;
        if base.analysis.capacity.is_some() {
            return None;
        }
        let runs = || self.points.iter().flat_map(|point| &point.runs);
        let shared = |cell: &&CellRecord| runs().all(|run| run.cell(&cell.id).is_some());
        let calm = |cell: &&CellRecord| {
            let mut findings = runs().flat_map(|run| &run.findings);
            !findings.any(|f| f.cause() == Some(Cause::Overload) && f.cells.contains(&cell.id))
        };
        let cells = || base.cells.iter().filter(shared);
        fastest(cells().filter(calm)).or_else(|| fastest(cells()))
    }

    /// The cell that stands for a run: the common one, else its own fastest.
    fn cell_of(&self, run: &'a RunRecord) -> Option<&'a CellRecord> {
        let common = self.common().and_then(|cell| run.cell(&cell.id));
        common.or_else(|| match run.analysis.capacity {
            Some(_) => bench_insight::nearest_stage(run),
            None => fastest(&run.cells),
        })
    }

    /// Where that is, in words.
    fn place(&self) -> String {
        let common = self.common();
        common.map_or_else(|| "the best cell of each run".to_owned(), label)
    }

    fn held(&self) -> impl Iterator<Item = (&Point<'a>, &RunComparison)> {
        let points = self.points.iter();
        points.filter_map(|point| Some((point, point.held.as_ref()?)))
    }

    fn runs(&self) -> Vec<&'a RunRecord> {
        let points = self.points.iter();
        points
            .flat_map(|point| point.runs.iter().copied())
            .collect()
    }

    fn firsts(&self) -> Vec<&'a RunRecord> {
        let points = self.points.iter();
        points
            .filter_map(|point| point.runs.first().copied())
            .collect()
    }
}

/// What changed, as a table for a terminal, with what limits the comparison.
pub fn terminal(held: &RunComparison) -> String {
    let mut table = tables::changes(held);
    let heading = text::plain(&heading(held));
    table.title = format!("{heading}: {}", held.summary());
    let answer = held.answer().map(|answer| text::plain(&answer) + "\n\n");
    let mut out = answer.unwrap_or_default() + &table.alone();
    for note in notes(held) {
        out.push_str(&format!("note: {}\n", text::plain(&note)));
    }
    out.push('\n');
    out
}

/// The same for a pull request.
pub fn changes_markdown(held: &RunComparison) -> String {
    let heading = text::markdown(&heading(held));
    let answer = held.answer();
    let answer = answer.map(|answer| text::markdown_sentence(&answer) + "\n\n");
    let (answer, summary) = (answer.unwrap_or_default(), held.summary());
    let (changes, notes) = (tables::changes(held).to_markdown(), bullets(&notes(held)));
    format!("# {heading}\n\n{answer}{summary}\n\n{changes}\n{notes}")
}

/// What a comparison comes to, in sentences.
pub fn conclusions(study: &Study<'_>) -> Vec<String> {
    let lines = sentences(study).into_iter();
    lines
        .map(|line| text::shortened(&line, text::SENTENCE))
        .collect()
}

/// A comparison for programs: what each point is against the first; along an axis also what that comes to, as sentences and as findings, and the levels
/// with their best cells.
pub fn json(study: &Study<'_>) -> serde_json::Value {
    let held: Vec<&RunComparison> = study.held().map(|(_, held)| held).collect();
    match &study.axis {
        None => serde_json::json!(held),
        Some(axis) => serde_json::json!({
            "axis": axis,
            "conclusions": conclusions(study),
            "findings": bench_insight::findings_by_tag(axis, &study.runs()),
            "along": study.along.as_ref().map(Table::to_json),
            "comparisons": held,
        }),
    }
}

/// The points with their best cells as a table for a terminal; nothing where none was given.
pub fn along(study: &Study<'_>) -> String {
    let along = study.along.as_ref();
    along.map_or_else(String::new, |table| table.section(false))
}

/// A whole comparison as Markdown: conclusions, the points, what changed, in what the runs differ.
pub fn markdown(study: &Study<'_>) -> String {
    let mut out = format!("# {}\n\n", text::markdown(&study.title()));
    out.push_str(&bullets(&sentences(study)));
    let all = [
        study.along.clone(),
        tables::tails(study),
        tables::differences(study),
    ];
    for table in all.iter().flatten() {
        out.push_str(&table.section(true));
    }
    for (_, held) in study.held() {
        let (table, left_out) = tables::known_changes(held);
        let title = text::html(&table.title);
        let note = match left_out {
            0 => String::new(),
            n => {
                format!("\n{n} more rows, most without a known difference: use `--output table`.\n")
            }
        };
        out.push_str(&format!(
            "\n<details><summary>{title}</summary>\n\n{}{note}\n</details>\n",
            table.to_markdown()
        ));
    }
    out.push_str("\n## How to read this\n\n");
    out.push_str(&bullets(&method(study)));
    out
}

/// The comparison as one self-contained page with charts, like the page of a run.
///
/// # Errors
/// [`ReportError::Read`] where a file of a run is there and cannot be read.
pub fn html(study: &Study<'_>) -> Result<String, ReportError> {
    let distributions = charts::distributions(study)?;
    let runs: usize = study.points.iter().map(|point| point.runs.len()).sum();
    let mut page = Page::new(&study.title(), vec![counted(runs, "run")]);
    page.doubts(&doubts(study));
    let mut section = charts::section(study);
    let first = (!section.figures.is_empty()).then(|| section.figures.remove(0));
    page.first(first.as_ref(), &found(study));
    page.charts(&section);
    page.charts(&distributions);
    page.section("tables", "Numbers");
    for table in all_tables(study) {
        page.card(&table.to_html());
    }
    page.section("method", "How to read this");
    page.list(&method(study));
    Ok(page.finish())
}

pub(crate) fn bullets(lines: &[String]) -> String {
    let line = |line: &String| format!("- {}\n", text::markdown_sentence(line));
    lines.iter().map(line).collect()
}

fn all_tables(study: &Study<'_>) -> Vec<Table> {
    let changes = study
        .held()
        .map(|(_, held)| tables::changes(held).not_empty());
    let first = [study.along.clone(), tables::tails(study)].into_iter();
    let all = first.chain(changes).chain([tables::differences(study)]);
    all.flatten().collect()
}

/// Differences named for each point.
const NAMED: usize = 4;

/// `after against before (4 and 3 runs)`.
fn heading(held: &RunComparison) -> String {
    let (before, now) = held.runs;
    let before = counted(before, "run");
    format!("{} against {} ({now} and {before})", held.new, held.base)
}

/// The conclusions with their numbers: untrusted runs first, then what the axis decides, then each point.
fn sentences(study: &Study<'_>) -> Vec<String> {
    let mut lines = doubts(study);
    lines.extend(found(study));
    lines
}

/// Runs that are not trusted, and why.
fn doubts(study: &Study<'_>) -> Vec<String> {
    let mut doubts: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for point in &study.points {
        let worst = point.runs.iter().map(|run| run.trust.verdict).max();
        let follows = match worst.unwrap_or(TrustVerdict::Trusted) {
            TrustVerdict::Trusted => continue,
            TrustVerdict::Doubtful => "doubtful, so the results below may be inaccurate",
            TrustVerdict::Untrusted => "untrusted: do not use the results below",
        };
        let reasons = point.runs.iter().flat_map(|run| &run.trust.reasons);
        let codes: BTreeSet<&str> = reasons.map(|reason| &*reason.code).collect();
        let codes = codes.into_iter().collect::<Vec<_>>().join(", ");
        let points = doubts.entry(format!("{follows} ({codes})")).or_default();
        points.push(&point.name);
    }
    let doubts = doubts.into_iter();
    doubts
        .map(|(doubt, points)| format!("{}: {doubt}.", points.join(", ")))
        .collect()
}

/// What the axis decides, then what each point is against the first.
fn found(study: &Study<'_>) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(axis) = &study.axis {
        let found = bench_insight::findings_by_tag(axis, &study.runs());
        let said = found.iter().map(findings::headline);
        lines.extend(said.map(|said| format!("Along {axis}: {said}.")));
    }
    let base = study.baseline().map_or("", |base| base.name.as_str());
    lines.extend(
        study
            .held()
            .map(|(point, held)| {
                let others = match held.other_plans.len() {
                    0 => String::new(),
                    n => format!(" ({n} of its cells differ in requests or load, so differences are not due to the server alone)"),
                };
                let said = match point.runs.first() {
                    Some(run) if held.rows.is_empty() && run.analysis.capacity.is_some() => {
                        "nothing to compare, since a search found no capacity".to_owned()
                    }
                    _ => summary(held),
                };
                format!("{} against {base}{others}: {said}.", point.name)
            }),
    );
    lines
}

/// Verdicts that are only counted, with what stands before the number and behind it.
const UNDECIDED: [(ComparisonVerdict, &str, &str); 3] = [
    (
        ComparisonVerdict::NoDifferenceFound,
        "no difference found in ",
        "",
    ),
    (
        ComparisonVerdict::WithinMargin,
        "a difference below the margin in ",
        "",
    ),
    (
        ComparisonVerdict::CannotTell,
        "",
        " undecided with this much data",
    ),
];

fn summary(held: &RunComparison) -> String {
    if held.rows.is_empty() {
        return "no common cells".to_owned();
    }
    let with = |wanted: ComparisonVerdict| -> Vec<&ComparisonRow> {
        let rows = held.rows.iter();
        rows.filter(|row| row.verdict == wanted).collect()
    };
    let mut parts = Vec::new();
    for verdict in [ComparisonVerdict::Worse, ComparisonVerdict::Better] {
        let found = with(verdict);
        if !found.is_empty() {
            parts.push(format!(
                "{} in {} of {} metrics: {}",
                verdict.as_str(),
                found.len(),
                held.rows.len(),
                largest(found)
            ));
        }
    }
    for (verdict, before, behind) in UNDECIDED {
        let n = with(verdict).len();
        parts.extend((n > 0).then(|| format!("{before}{n}{behind}")));
    }
    let not_judged = with(ComparisonVerdict::OtherLengths);
    let n = not_judged.len();
    let mut known = not_judged;
    known.retain(|row| row.p < held.alpha && row.relative_interval.is_some());
    let changes = match known.len() {
        0 => String::new(),
        changed => format!(
            "; {changed} of them changed significantly: {}",
            largest(known)
        ),
    };
    parts.extend((n > 0).then(|| format!("{n} not judged because lengths differ{changes}")));
    parts.join("; ")
}

/// The largest changes by name, and how many more there are.
fn largest(mut rows: Vec<&ComparisonRow>) -> String {
    let size = |row: &ComparisonRow| row.relative.map_or(0.0, f64::abs);
    rows.sort_by(|a, b| size(b).total_cmp(&size(a)));
    let named = rows.iter().take(NAMED).map(|row| {
        let ends = |i: Interval| format!("{} to {}", tables::signed(i.low), tables::signed(i.high));
        let change = row.relative.map(tables::signed);
        let change = change.or_else(|| row.relative_interval.map(ends));
        let cell = text::shortened(&row.cell, 24);
        format!("{} {} ({cell})", row.title, change.unwrap_or_default())
    });
    let named: Vec<String> = named.collect();
    named.join(", ") + &text::and_more(rows.len(), NAMED)
}

/// What speaks against the comparison, or limits it.
fn notes(held: &RunComparison) -> Vec<String> {
    let mut all = Vec::new();
    for (side, cells) in [("base", &held.only_base), ("new", &held.only_new)] {
        if !cells.is_empty() {
            all.push(format!("only the {side} side has {}", cells.join(", ")));
        }
    }
    all.extend(held.cautions.iter().cloned());
    if held
        .rows
        .iter()
        .any(|row| row.quantity.ends_with(".paired"))
    {
        let means = "`.paired` is the mean change of the same requests, request by request";
        all.push(means.to_owned());
    }
    if !held.rows.is_empty() {
        all.push(format!(
            "intervals are per row; verdicts are corrected for {}, so the probability of any false alarm is {} %",
            counted(held.rows.len(), "row"),
            percent(held.alpha)
        ));
    }
    all
}

/// What the verdicts rest on, each once; what is not so of every comparison names those that it is of.
fn method(study: &Study<'_>) -> Vec<String> {
    let mut told: Vec<(String, Vec<&str>)> = Vec::new();
    for (point, held) in study.held() {
        for note in notes(held) {
            match told.iter_mut().find(|(known, _)| *known == note) {
                Some((_, of)) => of.push(&point.name),
                None => told.push((note, vec![&point.name])),
            }
        }
    }
    let all = study.held().count();
    let line = |(note, of): (String, Vec<&str>)| match of.len() {
        n if n == all => text::heading(&note),
        _ => format!("{}: {note}", text::heading(&of.join(", "))),
    };
    let mut lines: Vec<String> = told.into_iter().map(line).collect();
    let mut tests: Vec<&str> = study
        .held()
        .flat_map(|(_, held)| held.rows.iter().map(|row| row.test.as_str()))
        .collect();
    tests.sort_unstable();
    tests.dedup();
    lines.push(format!(
        "Latencies cover completed requests, measured from each cell's headline origin; cells are matched by id. Tests used: {}.",
        tests.join(", ")
    ));
    lines
}
