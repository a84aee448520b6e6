//! `report.html`: one self-contained page, offline, with charts.

mod page;
mod parts;

use bench_schema::RunRecord;

use crate::charts;
use crate::files::RunFiles;
use crate::{ReportError, trace};

pub(crate) use page::Page;

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
    let chart = first.map(|figure| page::chart(&figure, false));
    parts::first_screen(&mut page, run, chart);
    parts::results(&mut page, run);
    for section in &sections {
        page.charts(section);
    }
    parts::findings(&mut page, run);
    parts::details(&mut page, run, trace.as_ref().map_or(0, |trace| trace.torn));
    Ok(page.finish())
}
