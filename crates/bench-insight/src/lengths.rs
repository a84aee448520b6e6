//! Length categories on the length axis, and points of (length, latency) for the fits.

use bench_metrics::LengthCategories;
use bench_schema::{CellRecord, GroupRecord, Metric, Origin};

use crate::samples::CellSamples;
use crate::view;

/// Mean total tokens of the requests of a group, where both sides were counted.
fn group_tokens(cell: &CellRecord, group: &GroupRecord) -> Option<f64> {
    let metrics = cell.metrics_of(group);
    let input = view::mean_tokens(metrics, Metric::InputTokens)?;
    let output = view::mean_tokens(metrics, Metric::OutputTokens)?;
    Some(input + output)
}

/// Where a category lies on the length axis: the mean total tokens of its requests; else its upper bound (the lower one for
/// the open category). The bound is an ordering, not a measurement.
pub(crate) fn category_tokens(cell: &CellRecord, group: &GroupRecord) -> Option<f64> {
    group_tokens(cell, group).or_else(|| {
        let (from, below) = LengthCategories::default().bounds(&group.name)?;
        Some(below.unwrap_or(from + 1) as f64)
    })
}

/// One mean latency at one length.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LengthPoint {
    /// Prompt class it was measured with; empty where there is only one.
    pub(crate) class: String,
    pub(crate) tokens: f64,
    /// Mean E2E, ns.
    pub(crate) e2e: f64,
}

/// Mean E2E against output tokens: of the cells where the output length is a factor, else of the use cases or categories
/// within the cell at the lowest load.
///
/// A cell at another load does not belong on the line, so points of cells come from the lowest load only.
pub(crate) fn output_points(cells: &[CellRecord]) -> Vec<LengthPoint> {
    for factor in view::OUTPUT_FACTORS {
        let series = lowest_load(cells, view::series(cells, factor), factor);
        let points: Vec<LengthPoint> = series
            .iter()
            .flatten()
            .filter_map(|(_, cell)| {
                Some(LengthPoint {
                    class: view::key_without(cell, factor),
                    tokens: view::output_tokens(cell)?,
                    e2e: view::mean(cell, Metric::E2e)?,
                })
            })
            .collect();
        if !points.is_empty() {
            return points;
        }
    }
    lowest_loaded(cells).map(group_points).unwrap_or_default()
}

/// `[output tokens, prompt tokens, E2E]` of the single requests of the cell at the lowest load, E2E from the headline's origin; `None` where cells
/// differ in the length of answers, or nothing holds single requests.
pub(crate) fn single_requests(
    cells: &[CellRecord],
    samples: &[CellSamples],
) -> Option<Vec<[f64; 3]>> {
    let differ = |factor: &&str| !view::series(cells, factor).is_empty();
    let cell = lowest_loaded(cells).filter(|_| !view::OUTPUT_FACTORS.iter().any(differ))?;
    let own = samples.iter().find(|samples| samples.cell == cell.id)?;
    let due = cell.headline == Origin::Due;
    let lengths = own.requests.iter().filter_map(|r| {
        let waited = if due { (r.start - r.due).as_f64() } else { 0.0 };
        let input = f64::from(r.input_tokens.unwrap_or(0));
        Some([f64::from(r.output_tokens?), input, r.e2e() + waited])
    });
    let lengths: Vec<[f64; 3]> = lengths.collect();
    (!lengths.is_empty()).then_some(lengths)
}

/// The cell at the lowest load; the first where they do not differ in it.
pub(crate) fn lowest_loaded(cells: &[CellRecord]) -> Option<&CellRecord> {
    match view::load_series(cells) {
        Some((_, series)) => series.first()?.first().map(|(_, cell)| *cell),
        None => cells.first(),
    }
}

/// Series that share the lowest level of any load factor that also varies.
fn lowest_load<'a>(
    cells: &[CellRecord],
    series: view::Series<'a>,
    along: &str,
) -> view::Series<'a> {
    let Some((factor, _)) = view::load_series(cells).filter(|(factor, _)| *factor != along) else {
        return series;
    };
    let level_of = |members: &Vec<(f64, &CellRecord)>| {
        members
            .first()
            .and_then(|(_, cell)| view::level(cell, factor))
    };
    let lowest = series.iter().filter_map(level_of).min_by(f64::total_cmp);
    series
        .into_iter()
        .filter(|members| level_of(members) == lowest)
        .collect()
}

fn group_points(cell: &CellRecord) -> Vec<LengthPoint> {
    for by in ["use_case", "category"] {
        let points: Vec<LengthPoint> = cell
            .groups
            .iter()
            // The mean of a few says more of those few than of their length.
            .filter(|group| group.by == by && group.counts.completed >= 10)
            .filter_map(|group| {
                Some(LengthPoint {
                    class: String::new(),
                    tokens: view::mean_tokens(cell.metrics_of(group), Metric::OutputTokens)?,
                    e2e: view::positive(view::of_group(cell, group, Metric::E2e)?.mean)?,
                })
            })
            .collect();
        if points.len() > 2 {
            return points;
        }
    }
    Vec::new()
}
