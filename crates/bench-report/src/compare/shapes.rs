//! Charts of a comparison that need the requests themselves: distributions of each run, and over parts of their time.

use bench_metrics::Sample;
use bench_schema::RunRecord;

use super::points::{Point, Study};
use crate::charts::capital;
use crate::charts::median_p95;
use crate::charts::violins::{self, ENOUGH, Named, OVER_TIME};
use crate::figure::{Figure, category_axis};
use crate::markdown::conclusions::fastest;
use crate::number::short;
use crate::trace::{self, Row, Trace};
use crate::{ReportError, tables};

/// Points that fit beside each other.
const SHOWN: usize = 12;

/// What was kept of each run's requests.
pub(super) struct Traces<'a>(Vec<(&'a RunRecord, Option<Trace>)>);

impl<'a> Traces<'a> {
    /// Where the files of a run are missing, so are its charts.
    ///
    /// # Errors
    /// [`ReportError::Read`] where a file is there and cannot be read.
    pub(super) fn read(study: &Study<'a>) -> Result<Self, ReportError> {
        let runs = study.points.iter();
        let runs = runs.flat_map(|point| point.runs.iter().zip(&point.files));
        let traces = runs.map(|(run, files)| Ok((*run, trace::trace(run, files)?)));
        traces.collect::<Result<_, ReportError>>().map(Self)
    }

    fn of(&self, run: &RunRecord) -> Option<&Trace> {
        let known = self.0.iter().find(|(known, _)| std::ptr::eq(*known, run));
        known?.1.as_ref()
    }
}

/// The cell whose requests are shown: the baseline's fastest where every run has it, else each run's own fastest.
fn shown_cell(study: &Study<'_>) -> Option<String> {
    let id = &fastest(study.baseline()?.runs.first()?)?.id;
    let mut runs = study.points.iter().flat_map(|point| &point.runs);
    runs.all(|run| run.cell(id).is_some()).then(|| id.clone())
}

fn cell_of(run: &RunRecord, shown: Option<&str>) -> Option<u32> {
    let id = match shown {
        Some(id) => id,
        None => &fastest(run)?.id,
    };
    let index = run.cells.iter().position(|cell| cell.id == id)?;
    u32::try_from(index).ok()
}

/// Distributions of E2E, of output and tails over time, and speed against p95, a colour for each point.
pub(super) fn figures(study: &Study<'_>, traces: &Traces<'_>) -> Vec<Figure> {
    let shown = shown_cell(study);
    let shown = shown.as_deref();
    let at = shown
        .and_then(|id| study.baseline()?.runs.first()?.cell(id))
        .map_or_else(|| "each run's best cell".to_owned(), tables::label);
    let each = |of: &dyn Fn(&Trace, u32) -> Vec<f64>| -> Vec<Named> {
        let points = study.points.iter().take(SHOWN);
        points
            .filter_map(|point| Some((point.name.clone(), pooled(point, traces, shown, of)?)))
            .collect()
    };
    let mut all = Vec::new();
    let e2e = each(&|trace, cell| values(trace, cell, Row::e2e_ms));
    let note = format!("Completed requests of {at}; the bar is the median.");
    all.extend(violin(&e2e, ("shape-e2e", "E2E", "E2E (ms)"), &note));
    for (words, id, unit, of) in OVER_TIME {
        let seen = each(&of);
        let note = format!(
            "{} of {at} over equal parts of its time, as many for each run; the bar is the median.",
            capital(words)
        );
        all.extend(violin(&seen, (id, words, unit), &note));
    }
    let speeds: Vec<(String, median_p95::Points)> = study
        .points
        .iter()
        .map(|point| {
            let runs = point
                .runs
                .iter()
                .filter_map(|run| Some(median_p95::points(traces.of(run)?, cell_of(run, shown)?)));
            (point.name.clone(), runs.flatten().collect())
        })
        .filter(|(_, points): &(String, median_p95::Points)| !points.is_empty())
        .collect();
    let note = format!("Each point is a part of the time of {at}; points in groups are regimes.");
    all.extend(median_p95::of(&speeds).map(|figure| figure.note(note)));
    all
}

fn values(trace: &Trace, cell: u32, pick: fn(&Row) -> Option<f64>) -> Vec<f64> {
    let rows = trace.rows.iter().filter(|row| row.cell == cell);
    rows.filter_map(pick).collect()
}

/// The values of all runs of a point.
fn pooled(
    point: &Point<'_>,
    traces: &Traces<'_>,
    shown: Option<&str>,
    of: &dyn Fn(&Trace, u32) -> Vec<f64>,
) -> Option<Sample> {
    let runs = point
        .runs
        .iter()
        .filter_map(|run| Some(of(traces.of(run)?, cell_of(run, shown)?)));
    let all: Vec<f64> = runs.flatten().collect();
    Sample::of(&all).filter(|sample| sample.len() >= ENOUGH)
}

fn violin(seen: &[Named], (id, words, unit): (&str, &str, &str), note: &str) -> Option<Figure> {
    if seen.len() < 2 {
        return None;
    }
    let measure = unit
        .rsplit_once('(')
        .map_or("", |(_, end)| end.trim_end_matches(')'));
    let by_median = |a: &&Named, b: &&Named| a.1.median().total_cmp(&b.1.median());
    let (low, high) = (
        seen.iter().min_by(by_median)?,
        seen.iter().max_by(by_median)?,
    );
    let title = format!(
        "{}: the median goes from {} ({}) to {} {measure} ({})",
        capital(words),
        short(low.1.median()),
        low.0,
        short(high.1.median()),
        high.0
    );
    let axis = category_axis(seen.iter().map(|(name, _)| name));
    violins::figure(axis, (id, title), unit, seen).map(|figure| figure.note(note))
}
