//! Runs beside each other: before and after, models, GPU counts, layouts; any tag can be the axis.
//!
//! The verdicts are those of [`bench_metrics`]: differences with intervals, p-values corrected for the number of figures
//! that were compared. With one run on a side they rest on that run's own intervals and are blind to what changes from run
//! to run, which the page says; with two and more runs on each side the run is the unit.

mod beside;
mod change;
mod charts;
mod conclusions;
mod context;
mod points;
mod shapes;
mod tables;

use bench_schema::RunRecord;

pub use change::{Change, Measure, changes};

use crate::ReportError;
use crate::charts::Section;
use crate::files::RunFiles;
use crate::html::Page;
use crate::table::Table;
use crate::text;

use points::Study;

/// The comparison as Markdown. The first run, or the lowest level of `axis`, is the baseline.
///
/// `axis` is the name of a tag: runs that share its value make one point (and count as repeats of it); without it every run
/// is a point of its own.
///
/// # Errors
/// [`ReportError::TooFewRuns`] where there are not two points to compare.
pub fn markdown(runs: &[RunRecord], axis: Option<&str>) -> Result<String, ReportError> {
    let study = Study::new(runs, axis)?;
    let mut out = format!("# {}\n\n", text::markdown(&study.title()));
    out.push_str(
        &conclusions::list(&study)
            .iter()
            .map(|line| format!("- {}\n", text::markdown(line)))
            .collect::<String>(),
    );
    for table in all_tables(&study) {
        out.push_str(&format!(
            "\n## {}\n\n{}",
            text::markdown(&table.title),
            table.to_markdown()
        ));
    }
    out.push_str("\n## How to read this\n\n");
    out.push_str(
        &conclusions::method(&study)
            .iter()
            .map(|line| format!("- {}\n", text::markdown(line)))
            .collect::<String>(),
    );
    Ok(out)
}

/// The comparison as one self-contained page with charts, like the page of a run, from the records alone.
///
/// # Errors
/// As for [`markdown`].
pub fn html(runs: &[RunRecord], axis: Option<&str>) -> Result<String, ReportError> {
    html_with_requests(runs, &[], axis)
}

/// The same with distributions of the requests, and of parts of the time, of each run; `files` are those of `runs`, in
/// their order.
///
/// # Errors
/// As for [`markdown`], and [`ReportError::Read`] where a file of a run is there and cannot be read.
pub fn html_with_requests(
    runs: &[RunRecord],
    files: &[RunFiles],
    axis: Option<&str>,
) -> Result<String, ReportError> {
    let traces = shapes::Traces::read(runs, files)?;
    let study = Study::new(runs, axis)?;
    let mut page = Page::new(&study.title());
    page.header(&format!(
        "<header><div><h1><bdi>{}</bdi></h1><p class=\"soft\">{} runs</p></div>\
         <button id=\"theme\" type=\"button\" hidden aria-pressed=\"false\">Light / dark</button></header>",
        text::html(&study.title()),
        runs.len()
    ));
    page.section("conclusions", "Conclusions");
    page.push(&list(&conclusions::list(&study)));
    page.charts(&charts::section(&study));
    page.charts(&Section {
        id: "shapes",
        title: "Distributions",
        figures: shapes::figures(&study, &traces),
    });
    page.section("tables", "Numbers");
    for table in all_tables(&study) {
        page.push(&format!(
            "<section class=\"card\">{}</section>",
            table.to_html()
        ));
    }
    page.section("method", "How to read this");
    page.push(&list(&conclusions::method(&study)));
    Ok(page.finish())
}

fn list(lines: &[String]) -> String {
    let items: String = lines
        .iter()
        .map(|line| format!("<li>{}</li>", text::html(line)))
        .collect();
    format!("<section class=\"card\"><ul>{items}</ul></section>")
}

fn all_tables(study: &Study<'_>) -> Vec<Table> {
    let mut all = vec![tables::points(study)];
    all.extend(tables::scaling(study));
    all.extend(study.others().map(|point| tables::changes(study, point)));
    all.extend(context::differences(study));
    all.into_iter().filter_map(Table::not_empty).collect()
}
