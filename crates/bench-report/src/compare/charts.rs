//! The charts of a comparison.

use bench_insight::{ComparisonRow, ComparisonVerdict, RunComparison};
use bench_schema::{CellRecord, Interval, Metric, RunRecord};
use serde_json::{Value, json};

use super::beside;
use super::points::{Point, Study};
use super::tables;
use crate::charts::{Section, capital};
use crate::figure::{Figure, Plot, category_axis, level_axis, value_axis};
use crate::number::short;
use crate::table::{Cell, Column, Table};
use crate::tables::{label, scaling_of};

/// Points that can be told apart by colour.
const SHOWN: usize = 8;
/// Rows of the change chart.
const ROWS: usize = 24;

pub(super) fn section(study: &Study<'_>) -> Section {
    let mut figures: Vec<Figure> = scaling(study).into_iter().collect();
    let measured = MEASURES
        .iter()
        .filter_map(|measure| measured(study, measure));
    figures.extend(measured);
    let others = [
        beside::tradeoff(study),
        beside::phases(study),
        beside::utilisation(study),
    ];
    figures.extend(others.into_iter().flatten());
    let held = study.held().take(SHOWN).enumerate();
    figures.extend(held.filter_map(|(i, (point, held))| changes(point, held, i)));
    Section {
        id: "charts",
        title: "Charts",
        figures,
    }
}

/// A value with its interval.
type Bounded = (f64, Option<Interval>);

/// A figure of a cell that is shown for every point.
struct Measure {
    id: &'static str,
    title: &'static str,
    unit: &'static str,
    of: fn(&CellRecord) -> Option<Bounded>,
}

const MEASURES: [Measure; 5] = [
    Measure {
        id: "beside-output",
        title: "Output",
        unit: "tok/s",
        of: |cell| {
            let rates = cell.headline_rates()?;
            Some((
                rates.output_tokens_per_s?,
                rates.output_tokens_per_s_interval,
            ))
        },
    },
    Measure {
        id: "beside-requests",
        title: "Request rate",
        unit: "req/s",
        of: |cell| {
            let rates = cell.headline_rates()?;
            Some((rates.requests_per_s, rates.requests_per_s_interval))
        },
    },
    Measure {
        id: "beside-ttft-p95",
        title: "TTFT p95",
        unit: "ms",
        of: |cell| quantile(cell, Metric::Ttft, 0.95),
    },
    Measure {
        id: "beside-itl-p50",
        title: "ITL p50",
        unit: "ms",
        of: |cell| quantile(cell, Metric::Itl, 0.5),
    },
    Measure {
        id: "beside-e2e-p95",
        title: "E2E p95",
        unit: "ms",
        of: |cell| quantile(cell, Metric::E2e, 0.95),
    },
];

/// In milliseconds with its interval.
fn quantile(cell: &CellRecord, metric: Metric, q: f64) -> Option<Bounded> {
    let entry = cell.headline(metric)?.quantile_entry(q)?;
    let interval = entry.interval.map(|i| Interval {
        low: i.low / 1e6,
        high: i.high / 1e6,
        ..i
    });
    Some((entry.value / 1e6, interval))
}

/// One figure of every common cell, the points beside each other.
fn measured(study: &Study<'_>, measure: &Measure) -> Option<Figure> {
    let base: &RunRecord = study.baseline()?.runs.first()?;
    let has = |cell: &&CellRecord| (measure.of)(cell).is_some();
    let cells: Vec<_> = base.cells.iter().filter(has).take(12).collect();
    if cells.is_empty() {
        return None;
    }
    let points: Vec<&Point<'_>> = study.points.iter().take(SHOWN).collect();
    let mut plot = Plot::new(
        category_axis(cells.iter().map(|cell| label(cell))),
        value_axis(&format!("{} ({})", measure.title, measure.unit)),
    );
    let mut table_of = vec![Column::text("cell")];
    let mut all: Vec<(f64, &str, String)> = Vec::new();
    let mut rows: Vec<Vec<Cell>> = cells
        .iter()
        .map(|cell| vec![Cell::text(label(cell))])
        .collect();
    for (i, point) in points.iter().enumerate() {
        let run = point.runs.first()?;
        let seen: Vec<_> = cells
            .iter()
            .map(|cell| (measure.of)(run.cell(&cell.id)?))
            .collect();
        let values: Vec<Option<f64>> = seen.iter().map(|e| e.map(|e| e.0)).collect();
        let spans: Vec<_> = (0_u32..)
            .zip(&seen)
            .filter_map(|(x, e)| (*e)?.1.map(|iv| (f64::from(x), iv.low, iv.high)))
            .collect();
        let color = format!("@{i}");
        plot = plot.bars(&point.name, &color, &values).whiskers(
            &point.name,
            &color,
            &spans,
            (i, points.len()),
        );
        table_of.push(Column::number(point.name.clone(), measure.unit));
        for ((row, value), cell) in rows.iter_mut().zip(values).zip(&cells) {
            row.push(Cell::number(value));
            all.extend(value.map(|value| (value, point.name.as_str(), label(cell))));
        }
    }
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    let ((low, of_low, at_low), (high, of_high, at_high)) = (all.first()?, all.last()?);
    let (name, unit) = (measure.title, measure.unit);
    let title = match (short(*low), short(*high)) {
        (low, high) if low == high => format!("{name} is {low} {unit} in all"),
        (low, high) => format!(
            "{name} goes from {low} {unit} ({of_low}, {at_low}) to {high} {unit} ({of_high}, {at_high})"
        ),
    };
    let mut table = Table::new(measure.title, table_of);
    for row in rows {
        table.push(row);
    }
    Some(
        Figure::new(measure.id, title, plot)
            .note("First run of each point, with 95 % intervals.")
            .table(table),
    )
}

/// Relative changes with their intervals, the baseline as the zero line.
fn changes(point: &Point<'_>, held: &RunComparison, index: usize) -> Option<Figure> {
    let seen: Vec<(&ComparisonRow, f64)> = held
        .rows
        .iter()
        .filter_map(|row| Some((row, row.relative?)))
        .collect();
    // Of many, those of the last whole cells: the highest load.
    let cut = seen.len().saturating_sub(ROWS);
    let before = cut
        .checked_sub(1)
        .and_then(|i| seen.get(i))
        .map(|(row, _)| &row.cell);
    let shown: Vec<_> = seen
        .iter()
        .skip(cut)
        .skip_while(|(row, _)| Some(&row.cell) == before)
        .collect();
    if shown.is_empty() {
        return None;
    }
    let names = shown
        .iter()
        .map(|(row, _)| format!("{} {}", row.cell, row.title));
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
    let title = format!(
        "{} against {}: {}",
        capital(&point.name),
        held.base,
        held.summary()
    );
    let note = "Changes with 95 % intervals. Green is better, red is worse, grey cannot be told or makes no difference.";
    Some(
        Figure::new(format!("changes-{index}"), title, plot)
            .note(note)
            .table(tables::changes(held)),
    )
}

/// Points and intervals of a chart of changes, each at its row.
fn dots(shown: &[&(&ComparisonRow, f64)]) -> (Vec<Value>, Vec<Value>) {
    let percent = |share: f64| crate::number::rounded(share * 100.0);
    let (mut points, mut spans) = (Vec::new(), Vec::new());
    for (at, (row, relative)) in shown.iter().enumerate() {
        let color = match row.verdict {
            ComparisonVerdict::Better => "@good",
            ComparisonVerdict::Worse => "@bad",
            _ => "@muted",
        };
        points.push(json!({"value": [percent(*relative), at], "itemStyle": {"color": color}}));
        if let Some(interval) = row.relative_interval {
            let (low, high) = (percent(interval.low), percent(interval.high));
            spans.push(
                json!({"value": [at, low, high], "parts": [[low, high, "@muted"]], "thin": true}),
            );
        }
    }
    (points, spans)
}

/// The best rate along a numeric axis.
fn scaling(study: &Study<'_>) -> Option<Figure> {
    let axis = study.axis.as_deref()?;
    let rows = bench_insight::scaling_by_tag(axis, &study.firsts());
    let (first, last) = (rows.first()?, rows.last()?);
    let rates: Vec<Option<f64>> = rows.iter().map(|row| Some(row.value)).collect();
    let linear = |level: f64| Some(first.value * level / first.level);
    let ideal: Vec<Option<f64>> = rows.iter().map(|row| linear(row.level)).collect();
    let plot = Plot::new(
        level_axis(
            &crate::text::shortened(axis, 40),
            rows.iter().map(|row| row.level),
        ),
        value_axis("best rate (per second)"),
    )
    .bars("best rate", "@0", &rates)
    .levels("proportional", "@muted", &ideal)
    .with("lineStyle", json!({"type": "dashed", "width": 1.5}));
    let title = format!(
        "Scaling efficiency at {} is {} %",
        last.level,
        short(last.efficiency? * 100.0)
    );
    Some(
        Figure::new("axis-scaling", title, plot)
            .note("The best cell of each point's first run; output tokens/s where they are known.")
            .table(scaling_of(&rows)),
    )
}
