//! Runs beside each other: before and after, models, GPU counts, layouts; any tag can be the axis.
//!
//! The verdicts are those of [`bench_insight::compare`], the same in every form; here they are only shown.

mod charts;
mod conclusions;
mod tables;

use bench_insight::RunComparison;
use bench_schema::{Cause, CellRecord, RunRecord};

use crate::files::RunFiles;
use crate::html::Page;
use crate::markdown::conclusions::fastest;
use crate::table::Table;
use crate::tables::label;
use crate::{ReportError, text};

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
    /// Of points along a tag, or of runs without an axis. `along` is a table of the points with their best cells.
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
            along,
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
    /// else its fastest.
    fn common(&self) -> Option<&'a CellRecord> {
        let base = *self.baseline()?.runs.first()?;
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
        common.or_else(|| fastest(&run.cells))
    }

    /// Where that is, in words.
    fn place(&self) -> String {
        let common = self.common();
        common.map_or_else(|| "its best cell".to_owned(), label)
    }

    /// The comparisons with it.
    fn held(&self) -> impl Iterator<Item = (&Point<'a>, &RunComparison)> {
        let points = self.points.iter();
        points.filter_map(|point| Some((point, point.held.as_ref()?)))
    }

    /// The first run of each point.
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
    let heading = text::plain(&conclusions::heading(held));
    table.title = format!("{heading}: {}", held.summary());
    let mut out = table.alone();
    for note in conclusions::notes(held) {
        out.push_str(&format!("note: {}\n", text::plain(&note)));
    }
    out.push('\n');
    out
}

/// The same for a pull request.
pub fn changes_markdown(held: &RunComparison) -> String {
    let mut out = format!(
        "# {}\n\n{}\n\n{}",
        text::markdown(&conclusions::heading(held)),
        held.summary(),
        tables::changes(held).to_markdown()
    );
    out.push('\n');
    out.push_str(&bullets(&conclusions::notes(held)));
    out
}

/// What a comparison comes to, in sentences.
pub fn conclusions(study: &Study<'_>) -> Vec<String> {
    let lines = conclusions::list(study).into_iter();
    lines.map(|line| text::plain(&line)).collect()
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
            "findings": bench_insight::findings_by_tag(axis, &study.firsts()),
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
    out.push_str(&bullets(&conclusions::list(study)));
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
            n => format!(
                "\n{n} rows more, most without a known difference, with `--output table`.\n"
            ),
        };
        out.push_str(&format!(
            "\n<details><summary>{title}</summary>\n\n{}{note}\n</details>\n",
            table.to_markdown()
        ));
    }
    out.push_str("\n## How to read this\n\n");
    out.push_str(&bullets(&conclusions::method(study)));
    out
}

/// The comparison as one self-contained page with charts, like the page of a run.
///
/// # Errors
/// [`ReportError::Read`] where a file of a run is there and cannot be read.
pub fn html(study: &Study<'_>) -> Result<String, ReportError> {
    let distributions = charts::distributions(study)?;
    let runs: usize = study.points.iter().map(|point| point.runs.len()).sum();
    let mut page = Page::new(&study.title());
    page.header(&format!(
        "<header><div><h1><bdi>{}</bdi></h1><p class=\"soft\">{runs} runs</p></div>\
         <button id=\"theme\" type=\"button\" hidden aria-pressed=\"false\">Light / dark</button></header>",
        text::html(&study.title()),
    ));
    page.section("conclusions", "Conclusions");
    page.push(&list(&conclusions::list(study)));
    page.charts(&charts::section(study));
    page.charts(&distributions);
    page.section("tables", "Numbers");
    for table in all_tables(study) {
        page.push(&format!(
            "<section class=\"card\">{}</section>",
            table.to_html()
        ));
    }
    page.section("method", "How to read this");
    page.push(&list(&conclusions::method(study)));
    Ok(page.finish())
}

fn bullets(lines: &[String]) -> String {
    let line = |line: &String| format!("- {}\n", text::markdown(line));
    lines.iter().map(line).collect()
}

fn list(lines: &[String]) -> String {
    let items: String = lines
        .iter()
        .map(|line| format!("<li>{}</li>", text::html(line)))
        .collect();
    format!("<section class=\"card\"><ul>{items}</ul></section>")
}

fn all_tables(study: &Study<'_>) -> Vec<Table> {
    let changes = study
        .held()
        .map(|(_, held)| tables::changes(held).not_empty());
    let along = study.along.clone().and_then(Table::not_empty);
    let first = [along, tables::tails(study)].into_iter();
    let all = first.chain(changes).chain([tables::differences(study)]);
    all.flatten().collect()
}
