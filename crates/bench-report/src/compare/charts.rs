//! The charts of a comparison.

use bench_metrics::{CompareOptions, Estimate, Verdict};
use bench_schema::{CellRecord, Metric, RunRecord};
use serde_json::{Value, json};

use super::beside;
use super::change::{Change, Measure};
use super::points::{Point, Study};
use super::tables;
use crate::charts::{Section, capital};
use crate::figure::{Figure, Plot, category_axis, level_axis, value_axis};
use crate::number::short;
use crate::table::{Cell, Column, Table};

/// Points that can be told apart by colour.
const SHOWN: usize = 8;
/// Rows of the change chart.
const ROWS: usize = 24;

pub(super) fn section(study: &Study<'_>) -> Section {
    let measures = [
        Measure::OutputTokensPerS,
        Measure::Quantile(Metric::Ttft, 0.95),
        Measure::Quantile(Metric::Itl, 0.5),
        Measure::Quantile(Metric::E2e, 0.95),
    ];
    let mut figures: Vec<Figure> = scaling(study).into_iter().collect();
    figures.extend(
        study
            .others()
            .take(SHOWN)
            .enumerate()
            .filter_map(|(i, point)| changes(study, point, i)),
    );
    figures.extend(
        measures
            .into_iter()
            .filter_map(|measure| measured(study, measure)),
    );
    let others = [
        beside::tradeoff(study),
        beside::phases(study),
        beside::utilisation(study),
    ];
    figures.extend(others.into_iter().flatten());
    Section {
        id: "charts",
        title: "Charts",
        figures,
    }
}

/// One figure of every common cell, the points beside each other.
fn measured(study: &Study<'_>, measure: Measure) -> Option<Figure> {
    let base: &RunRecord = study.baseline()?.runs.first()?;
    let cells: Vec<_> = base
        .cells
        .iter()
        .filter(|cell| measure.of(cell).is_some())
        .take(12)
        .collect();
    if cells.is_empty() {
        return None;
    }
    let (unit, scale) = measure.unit();
    let points: Vec<&Point<'_>> = study.points.iter().take(SHOWN).collect();
    let mut plot = Plot::new(
        category_axis(cells.iter().map(|cell| crate::tables::label(cell))),
        value_axis(&format!("{} ({unit})", measure.title())),
    );
    for (i, point) in points.iter().enumerate() {
        let run = point.runs.first()?;
        let seen: Vec<_> = cells
            .iter()
            .map(|cell| measure.of(run.cell(&cell.id)?))
            .collect();
        let values: Vec<Option<f64>> = seen.iter().map(|e| e.map(|e| e.value / scale)).collect();
        let spans: Vec<_> = (0_u32..)
            .zip(&seen)
            .filter_map(|(x, e)| {
                (*e)?
                    .bounds()
                    .map(|(low, high)| (f64::from(x), low / scale, high / scale))
            })
            .collect();
        let color = format!("@{i}");
        plot = plot.bars(&point.name, &color, &values).whiskers(
            &point.name,
            &color,
            &spans,
            (i, points.len()),
        );
    }
    let title = title(measure, &points)?;
    let id = format!(
        "beside-{}",
        measure.title().to_lowercase().replace([' ', '.'], "-")
    );
    let note = "First run of each point, with 95 % intervals.";
    Some(
        Figure::new(id, title, plot)
            .note(note)
            .table(table(measure, &cells, &points)),
    )
}

/// Where the figure is best, and where it is worst, over all cells shown.
fn title(measure: Measure, points: &[&Point<'_>]) -> Option<String> {
    let (unit, scale) = measure.unit();
    let mut all: Vec<(f64, &str, String)> = Vec::new();
    for point in points {
        let run = point.runs.first()?;
        all.extend(run.cells.iter().filter_map(|cell| {
            let value = measure.of(cell)?.value / scale;
            Some((value, point.name.as_str(), crate::tables::label(cell)))
        }));
    }
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    let ((low, of_low, at_low), (high, of_high, at_high)) = (all.first()?, all.last()?);
    Some(format!(
        "{} goes from {} {unit} ({of_low}, {at_low}) to {} {unit} ({of_high}, {at_high})",
        capital(&measure.title()),
        short(*low),
        short(*high)
    ))
}

fn table(measure: Measure, cells: &[&CellRecord], points: &[&Point<'_>]) -> Option<Table> {
    let (unit, scale) = measure.unit();
    let mut columns = vec![Column::text("cell")];
    columns.extend(
        points
            .iter()
            .map(|point| Column::number(point.name.clone(), unit)),
    );
    let mut table = Table::new(capital(&measure.title()), columns);
    for cell in cells {
        let mut row = vec![Cell::text(crate::tables::label(cell))];
        row.extend(points.iter().map(|point| {
            let same = point.runs.first().and_then(|run| run.cell(&cell.id));
            Cell::number(same.and_then(|cell| Some(measure.of(cell)?.value / scale)))
        }));
        table.push(row);
    }
    table.not_empty()
}

/// Relative changes with their intervals, the baseline as the zero line.
fn changes(study: &Study<'_>, point: &Point<'_>, index: usize) -> Option<Figure> {
    let seen: Vec<_> = point
        .changes
        .iter()
        .filter_map(|change| Some((change, change.comparison.relative()?)))
        .collect();
    // Of many, those of the last whole cells: the highest load.
    let cut = seen.len().saturating_sub(ROWS);
    let before = cut
        .checked_sub(1)
        .and_then(|i| seen.get(i))
        .map(|(change, _)| &change.cell);
    let shown: Vec<_> = seen
        .iter()
        .skip(cut)
        .skip_while(|(change, _)| Some(&change.cell) == before)
        .collect();
    if shown.is_empty() {
        return None;
    }
    let names = shown
        .iter()
        .map(|(change, _)| format!("{} {}", change.cell, change.measure.title()));
    let (points, spans) = dots(&shown);
    let zero = json!({"silent": true, "symbol": "none", "label": {"show": false}, "lineStyle": {"color": "@soft", "type": "solid"}, "data": [{"xAxis": 0}]});
    let plot = Plot::new(
        value_axis("change against the baseline (%)"),
        category_axis(names).inverse(true),
    )
    .custom(
        "",
        "@muted",
        "span",
        json!({"data": spans, "encode": {"x": [1, 2], "y": 0}, "tooltip": {"show": false}}),
    )
    .points("", "@0", &[])
    .with("data", points.into())
    .with("symbolSize", 10.into())
    .with("markLine", zero)
    .point_at_items()
    .height(120 + u32::try_from(shown.len()).unwrap_or(0) * 22);
    let base = study.baseline().map_or("", |base| base.name.as_str());
    let title = format!("{} against {base}: {}", capital(&point.name), tally(point));
    let note = "Changes with 95 % intervals. Green is better, red is worse, grey cannot be told or makes no difference.";
    Some(
        Figure::new(format!("changes-{index}"), title, plot)
            .note(note)
            .table(tables::changes(study, point)),
    )
}

/// `3 of 9 figures better, 1 worse`.
fn tally(point: &Point<'_>) -> String {
    let options = CompareOptions::default();
    let with = |wanted| {
        let verdicts = point.changes.iter().map(|c| c.comparison.verdict(&options));
        verdicts.filter(|verdict| *verdict == Some(wanted)).count()
    };
    let (better, worse) = (with(Verdict::Better), with(Verdict::Worse));
    let all = point.changes.len();
    match (better, worse) {
        (0, 0) => format!("of {all} figures none is better or worse as far as can be told"),
        (better, 0) => format!("{better} of {all} figures better, none worse"),
        (0, worse) => format!("{worse} of {all} figures worse, none better"),
        (better, worse) => format!("{better} of {all} figures better, {worse} worse"),
    }
}

/// Points and intervals of a chart of changes, each at its row.
fn dots(shown: &[&(&Change, Estimate)]) -> (Vec<Value>, Vec<Value>) {
    let percent = |share: f64| crate::number::rounded(share * 100.0);
    let (mut points, mut spans) = (Vec::new(), Vec::new());
    for (row, (change, relative)) in shown.iter().enumerate() {
        let color = match change.comparison.verdict(&CompareOptions::default()) {
            Some(Verdict::Better) => "@good",
            Some(Verdict::Worse) => "@bad",
            _ => "@muted",
        };
        points
            .push(json!({"value": [percent(relative.value), row], "itemStyle": {"color": color}}));
        if let Some((low, high)) = relative
            .bounds()
            .map(|(low, high)| (percent(low), percent(high)))
        {
            spans.push(
                json!({"value": [row, low, high], "parts": [[low, high, "@muted"]], "thin": true}),
            );
        }
    }
    (points, spans)
}

/// The best rate along a numeric axis.
fn scaling(study: &Study<'_>) -> Option<Figure> {
    let table = tables::scaling(study)?;
    let levels: Vec<f64> = study
        .points
        .iter()
        .filter_map(|point| point.level)
        .collect();
    let rates: Vec<Option<f64>> = study.points.iter().map(tables::best_rate).collect();
    let (base, first) = (levels.first().copied()?, rates.first().copied().flatten()?);
    let ideal: Vec<Option<f64>> = levels
        .iter()
        .map(|level| Some(first * level / base))
        .collect();
    let last = rates.last().copied().flatten()?;
    let axis = study.axis.clone().unwrap_or_default();
    let efficiency = last / first * base / levels.last()? * 100.0;
    let plot = Plot::new(
        level_axis(&crate::text::shortened(&axis, 40), levels.iter().copied()),
        value_axis("best rate (per second)"),
    )
    .bars("best rate", "@0", &rates)
    .levels("proportional", "@muted", &ideal)
    .with("lineStyle", json!({"type": "dashed", "width": 1.5}));
    let title = format!(
        "Scaling efficiency at {} is {} %",
        levels.last()?,
        short(efficiency)
    );
    Some(
        Figure::new("axis-scaling", title, plot)
            .note("The best cell of each point; output tokens/s where they are known.")
            .table(table),
    )
}
