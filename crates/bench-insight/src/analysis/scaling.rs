//! Scaling rows along load, output length and length category.

use bench_metrics::{scaling_efficiency, scaling_factor, trade_off_ratio};
use bench_schema::{CellRecord, Metric, RunRecord, ScalingRow};

use crate::lengths::category_tokens;
use crate::view;

/// One level of a factor with what was measured at it.
struct Point {
    cell: String,
    level: f64,
    /// What the efficiency is of: the level, or the rate that was really offered.
    asked: f64,
    value: f64,
    latency: Option<f64>,
}

/// Rows along the first load factor with two levels.
pub(super) fn by_load(cells: &[CellRecord]) -> Option<Vec<ScalingRow>> {
    let (factor, series) = view::load_series(cells)?;
    some(series.iter().flat_map(|members| load_rows(factor, members)))
}

/// Nothing where there are no rows.
fn some(rows: impl Iterator<Item = ScalingRow>) -> Option<Vec<ScalingRow>> {
    let rows: Vec<ScalingRow> = rows.collect();
    (!rows.is_empty()).then_some(rows)
}

fn load_rows(factor: &str, members: &[(f64, &CellRecord)]) -> Vec<ScalingRow> {
    // One measure for the whole series: of arrival rates what was served of what was really offered; else tokens where every level
    // counted them, or requests.
    let offered = |cell: &CellRecord| {
        let whole = cell.windows.whole.as_ref()?;
        view::positive(whole.offered_requests_per_s?)
    };
    let by_rate = !view::DEVICE_FACTORS.contains(&factor)
        && members
            .iter()
            .all(|(_, cell)| cell.load.is_open() && offered(cell).is_some());
    let tokens = !by_rate
        && members
            .iter()
            .all(|(_, cell)| view::tokens_per_s(cell).is_some());
    let value = |cell| {
        if tokens {
            view::tokens_per_s(cell)
        } else {
            view::requests_per_s(cell)
        }
    };
    let points: Vec<Point> = members
        .iter()
        .filter_map(|(level, cell)| {
            Some(Point {
                cell: cell.id.clone(),
                level: *level,
                asked: offered(cell).filter(|_| by_rate).unwrap_or(*level),
                value: value(cell)?,
                latency: view::mean(cell, Metric::E2e),
            })
        })
        .collect();
    rows(factor, &points)
}

/// Rows over runs that differ in a numeric tag (`gpus=2`), best first cell of each; sorted by the tag.
///
/// Runs without the tag, or where it is no number, are left out; so is one whose cells have no rate or never had their load.
pub fn scaling_by_tag(tag: &str, runs: &[&RunRecord]) -> Vec<ScalingRow> {
    let mut members: Vec<(f64, &CellRecord)> = runs
        .iter()
        .filter_map(|run| {
            let level = view::positive(run.tags.get(tag)?.parse().ok()?)?;
            let reached = run.cells.iter().filter(|cell| view::is_reached(cell));
            let rates = reached.filter_map(|cell| Some((cell, view::throughput(cell)?)));
            let (best, _) = rates.max_by(|a, b| a.1.total_cmp(&b.1))?;
            Some((level, best))
        })
        .collect();
    members.sort_by(|a, b| a.0.total_cmp(&b.0));
    load_rows(tag, &members)
}

fn rows(factor: &str, points: &[Point]) -> Vec<ScalingRow> {
    let Some(base) = points.first().filter(|_| points.len() > 1) else {
        return Vec::new();
    };
    points
        .iter()
        .filter_map(|point| {
            let penalty = point
                .latency
                .zip(base.latency)
                .and_then(|(now, then)| scaling_factor(now, then))
                .map(|factor| factor - 1.0);
            let trade = point.latency.zip(base.latency).and_then(|(now, then)| {
                trade_off_ratio(point.value, base.value, now, then).filter(|_| now > then)
            });
            let grown = scaling_factor(point.value, base.value)?;
            Some(ScalingRow {
                cell: point.cell.clone(),
                factor: factor.to_owned(),
                level: point.level,
                value: point.value,
                scaling_factor: grown,
                efficiency: scaling_efficiency(point.value, base.value, point.asked / base.asked)
                    .filter(|e| e.is_finite()),
                throughput_gain: Some(grown - 1.0),
                latency_penalty: penalty,
                tradeoff_ratio: trade,
            })
        })
        .collect()
}

/// Rows along output length: mean E2E per level.
pub(super) fn by_output(cells: &[CellRecord]) -> Option<Vec<ScalingRow>> {
    let (factor, series) = view::OUTPUT_FACTORS.iter().find_map(|factor| {
        let series = view::series(cells, factor);
        (!series.is_empty()).then_some((*factor, series))
    })?;
    some(series.iter().flat_map(|members| {
        let points: Vec<(String, f64, f64)> = members
            .iter()
            .filter_map(|(level, cell)| {
                Some((cell.id.clone(), *level, view::mean(cell, Metric::E2e)?))
            })
            .collect();
        length_rows(factor, &points)
    }))
}

/// Rows along length categories: P95 of E2E per category, the smallest first; of the first cell that has them.
pub(super) fn by_category(cells: &[CellRecord]) -> Option<Vec<ScalingRow>> {
    cells.iter().find_map(|cell| {
        let mut points: Vec<(String, f64, f64)> = cell
            .groups
            .iter()
            .filter(|group| group.by == "category")
            .filter_map(|group| {
                let p95 = view::of_group(cell, group, Metric::E2e)?
                    .quantile(0.95)
                    .and_then(view::positive)?;
                Some((group.name.clone(), category_tokens(cell, group)?, p95))
            })
            .collect();
        points.sort_by(|a, b| a.1.total_cmp(&b.1));
        some(length_rows("category", &points).into_iter())
    })
}

fn length_rows(factor: &str, points: &[(String, f64, f64)]) -> Vec<ScalingRow> {
    let Some((_, _, base)) = points.first().filter(|_| points.len() > 1) else {
        return Vec::new();
    };
    points
        .iter()
        .filter_map(|(cell, level, value)| {
            Some(ScalingRow {
                cell: cell.clone(),
                factor: factor.to_owned(),
                level: *level,
                value: *value,
                scaling_factor: scaling_factor(*value, *base)?,
                efficiency: None,
                throughput_gain: None,
                latency_penalty: None,
                tradeoff_ratio: None,
            })
        })
        .collect()
}
