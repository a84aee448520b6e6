//! Figures of many runs side by side, by polars: `pivot`, and the first table of `compare`.

use bench_frames::FramesError;
use bench_frames::polars::prelude::{AnyValue, Column as Series, DataFrame, PlSmallStr};
use bench_report::{Cell, Column, Table};
use bench_schema::{Metric, RunRecord, ScalingRow, TrustVerdict, Unit};

use crate::arguments::{Output, Pivot};
use crate::compare::names;
use crate::error::CommandError;
use crate::run_folder::{RunFolder, open_group};
use crate::{Done, json};

pub(crate) fn pivot(arguments: &Pivot) -> Result<Done, CommandError> {
    let mut runs = Vec::new();
    for path in &arguments.runs {
        runs.extend(open_group(path, arguments.reads)?);
    }
    let each: Vec<&[RunFolder]> = runs.iter().map(std::slice::from_ref).collect();
    let records = runs.iter().map(|run| &run.record);
    let of: Vec<(String, &RunRecord)> = names(&each).into_iter().zip(records).collect();
    let cells = bench_frames::cells(&of)?;
    let (rows, columns, value) = (&arguments.rows, &arguments.columns, &arguments.value);
    let (frame, trust) = bench_frames::pivot_cells(&cells, rows, columns, value)?;
    let title = match heading(value) {
        // Shares stand as they are stored.
        (_, "" | "%") => format!("{value} by {rows} and {columns}"),
        (what, unit) => format!("{what} ({unit}) by {rows} and {columns}"),
    };
    let mut table = table(&frame, &title)?;
    mark(&mut table, &frame, &trust)?;
    let output = match arguments.output {
        Output::Table => table.alone(),
        Output::Markdown => table.section(true),
        Output::Json => json(&table.to_json()),
    };
    let mut notes: Vec<String> = runs.iter().filter_map(RunFolder::doubt).collect();
    notes.extend(runs.into_iter().flat_map(|run| run.notes));
    Ok(Done::well(output, notes))
}

/// The best cell of each level of the axis, or of each group of runs under its name.
pub(crate) fn along(
    groups: &[Vec<RunFolder>],
    axis: Option<&str>,
    names: &[String],
) -> Result<Table, CommandError> {
    let runs = groups.iter().flatten().map(|run| &run.record).enumerate();
    let runs: Vec<(String, &RunRecord)> = runs.map(|(i, run)| (i.to_string(), run)).collect();
    let mut cells = bench_frames::cells(&runs)?;
    let by = format!("tag.{}", axis.unwrap_or("run"));
    let records: Vec<&RunRecord> = runs.iter().map(|(_, run)| *run).collect();
    if axis.is_none() {
        let of_cells = groups.iter().zip(names).flat_map(|(group, name)| {
            let cells = group.iter().map(|run| run.record.cells.len()).sum();
            std::iter::repeat_n(name.as_str(), cells)
        });
        let column = Series::new(PlSmallStr::from_str(&by), of_cells.collect::<Vec<_>>());
        cells.with_column(column).map_err(FramesError::from)?;
    }
    let is_best = records.iter().flat_map(|run| {
        let best = bench_insight::best_cell(run).map(|cell| &cell.id);
        run.cells.iter().map(move |cell| Some(&cell.id) == best)
    });
    let best = cells
        .filter(&is_best.collect())
        .map_err(FramesError::from)?;
    let (mut frame, trust) = bench_frames::along(&best, &by)?;
    if let Some(tag) = axis {
        scaling(&mut frame, &bench_insight::scaling_by_tag(tag, &records))?;
    }
    let title = axis.map_or_else(
        || "Each run at its best cell".to_owned(),
        |tag| format!("Along {tag}, each level at its best cell"),
    );
    let mut table = table(&frame, &title)?;
    mark(&mut table, &frame, &trust)?;
    Ok(table)
}

/// Adds how each level's rate scales, as the conclusions have it: `scaling` and `efficiency` behind the best cell.
fn scaling(frame: &mut DataFrame, rows: &[ScalingRow]) -> Result<(), FramesError> {
    let levels = match frame.columns().first() {
        Some(levels) => levels.str()?.iter().collect(),
        None => Vec::new(),
    };
    let row_of = |level: Option<&str>| {
        let number: f64 = level?.parse().ok()?;
        rows.iter().find(|row| row.level.total_cmp(&number).is_eq())
    };
    let found: Vec<Option<&ScalingRow>> = levels.into_iter().map(row_of).collect();
    let of = |figure: fn(&ScalingRow) -> Option<f64>| -> Vec<Option<f64>> {
        found.iter().map(|row| figure((*row)?)).collect()
    };
    let (factors, shares) = (of(|row| Some(row.scaling_factor)), of(|row| row.efficiency));
    for (at, name, values) in [(3, "scaling", factors), (4, "efficiency", shares)] {
        frame.insert_column(at, Series::new(PlSmallStr::from_static(name), values))?;
    }
    Ok(())
}

/// Puts the verdict on its cells behind each figure of the columns that have one.
fn mark(table: &mut Table, frame: &DataFrame, trust: &DataFrame) -> Result<(), CommandError> {
    let shown = columns(frame);
    for (place, column) in shown.iter().enumerate().skip(1) {
        let Ok(grades) = trust.column(column.name()) else {
            continue;
        };
        for line in 0..frame.height() {
            let grade = grades.get(line).map_err(FramesError::from)?;
            let verdict = match grade.extract::<u8>() {
                Some(2) => TrustVerdict::Untrusted,
                Some(1) => TrustVerdict::Doubtful,
                _ => continue,
            };
            table.distrust((line, place), verdict);
        }
    }
    Ok(())
}

/// The columns of a frame in which some row has a value: what no run has is left out.
fn columns(frame: &DataFrame) -> Vec<&Series> {
    let columns = frame.columns().iter();
    columns.filter(|c| c.null_count() < c.len()).collect()
}

/// A frame as a table: numbers stay numbers, null is a dash.
fn table(frame: &DataFrame, title: &str) -> Result<Table, CommandError> {
    let columns = columns(frame);
    let headings = columns.iter().map(|column| {
        let name = column.name().to_string();
        let (name, unit) = heading(&name);
        if column.dtype().is_primitive_numeric() {
            Column::number(name, unit)
        } else {
            Column::text(name)
        }
    });
    let mut table = Table::new(title, headings.collect());
    for line in 0..frame.height() {
        let mut row = Vec::new();
        for column in &columns {
            let value = column.get(line).map_err(FramesError::from)?;
            let is_share = heading(column.name()).1 == "%";
            let factor = if is_share { 100.0 } else { 1.0 };
            row.push(match &value {
                AnyValue::Null => Cell::default(),
                value if column.dtype().is_integer() => value
                    .extract::<u64>()
                    .map_or_else(Cell::default, Cell::count),
                value if column.dtype().is_primitive_numeric() => {
                    Cell::number(value.extract::<f64>().map(|x| x * factor))
                }
                value => Cell::text(value.str_value()),
            });
        }
        table.push(row);
    }
    Ok(table)
}

/// What people call a column, and its unit.
fn heading(name: &str) -> (String, &'static str) {
    let plain = || {
        let short = ["tag.", "factor."]
            .iter()
            .find_map(|begin| name.strip_prefix(begin));
        short.unwrap_or(name).replace('_', " ")
    };
    match name {
        "output_tokens_per_s" => ("output".to_owned(), "tok/s"),
        "requests_per_s" => ("requests".to_owned(), "req/s"),
        "scaling" => (plain(), "×"),
        "efficiency" => (plain(), "%"),
        "gpu_use" => ("GPU use".to_owned(), "%"),
        "gpu_memory" => ("peak GPU memory".to_owned(), "%"),
        _ => {
            let parts = name.split_once('.');
            let metric = parts.and_then(|(metric, _)| metric.parse::<Metric>().ok());
            match metric.filter(|metric| metric.unit() == Unit::Ns).zip(parts) {
                Some((metric, (_, figure))) => (format!("{} {figure}", metric.title()), "ms"),
                None => (plain(), ""),
            }
        }
    }
}
