//! What follows from the readings: energy per token, the server's own times beside the client's, correlations.

use bench_schema::{CellRecord, HardwareSummary, Quantity, RunRecord, Unit};

use crate::number;
use crate::table::{Cell, Column, Table};
use crate::text;

/// Beyond these many cells a table would be wider than a page: then the ends are shown.
const MOST_COLUMNS: usize = 8;

/// Beginnings of names in the order they are shown; what begins with none of them comes last.
const ORDER: [&str; 9] = [
    "energy",
    "gpu",
    "server_queue",
    "server_",
    "running",
    "waiting",
    "kv_cache",
    "host",
    "correlation",
];

/// The figures derived from readings, a row each, a column for each cell; the lowest and the highest where there are many cells.
pub(crate) fn derived(run: &RunRecord) -> Option<Table> {
    let cells: Vec<(&CellRecord, &HardwareSummary)> = run
        .cells
        .iter()
        .filter_map(|cell| Some((cell, cell.hardware.as_ref()?)))
        .filter(|(_, hardware)| !hardware.derived.is_empty())
        .collect();
    let mut names: Vec<&str> = cells
        .iter()
        .flat_map(|(_, hardware)| hardware.derived.keys().map(String::as_str))
        .collect();
    names.sort_unstable_by_key(|name| (place(name), *name));
    names.dedup();
    let each = cells.len() <= MOST_COLUMNS;
    let mut columns = vec![Column::text("figure"), Column::text("unit")];
    if each {
        columns.extend(
            cells
                .iter()
                .map(|(cell, _)| Column::number(text::shortened(&cell.id, 24), "")),
        );
    } else {
        columns.extend(["lowest", "highest"].map(|end| Column::number(end, "")));
    }
    let mut table = Table::new("What follows from the readings", columns);
    for name in names {
        let of = |hardware: &'_ HardwareSummary| hardware.derived.get(name).cloned();
        let known: Vec<Option<Quantity>> = cells.iter().map(|(_, hardware)| of(hardware)).collect();
        let Some(unit) = known.iter().flatten().map(|q| q.unit).next() else {
            continue;
        };
        let (scale, shown) = scale_of(name, unit);
        let figure = |value: f64| Cell::text(number::short(value / scale));
        let mut row = vec![
            Cell::text(text::shortened(&name.replace('_', " "), 48)),
            Cell::text(shown),
        ];
        if each {
            row.extend(
                known
                    .iter()
                    .map(|q| q.as_ref().map_or_else(Cell::default, |q| figure(q.value))),
            );
        } else {
            let values = || known.iter().flatten().map(|q| q.value);
            let ends = [values().reduce(f64::min), values().reduce(f64::max)];
            row.extend(ends.map(|end| end.map_or_else(Cell::default, figure)));
        }
        table.push(row);
    }
    table.not_empty()
}

fn place(name: &str) -> usize {
    let found = ORDER.iter().position(|begin| name.starts_with(begin));
    found.unwrap_or(ORDER.len())
}

/// As elsewhere, but for ratios that are no shares of a whole.
fn scale_of(name: &str, unit: Unit) -> (f64, &'static str) {
    let plain = name.starts_with("correlation") || name.contains("_over_");
    if unit == Unit::Ratio && plain {
        (1.0, "")
    } else {
        super::scale_of(unit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stored run with so many cells, each with these figures.
    fn with(cells: u32, figures: &[(&str, f64, Unit)]) -> RunRecord {
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../fixtures/results/v1/run.json"
        );
        let mut run = RunRecord::from_json(&std::fs::read_to_string(path).unwrap()).unwrap();
        let one = run.cells.swap_remove(0);
        run.cells = (0..cells)
            .map(|i| {
                let mut cell = one.clone();
                cell.id = format!("cell-{i}");
                let of = |&(name, value, unit): &(&str, f64, Unit)| {
                    let value = value * f64::from(i + 1);
                    let interval = None;
                    (
                        name.to_owned(),
                        Quantity {
                            value,
                            unit,
                            interval,
                        },
                    )
                };
                cell.hardware = Some(HardwareSummary {
                    derived: figures.iter().map(of).collect(),
                    ..HardwareSummary::default()
                });
                cell
            })
            .collect();
        run
    }

    #[test]
    fn every_figure_that_was_derived_is_shown_in_its_unit_for_each_cell() {
        let figures = [
            ("correlation_running_latency", 0.41, Unit::Ratio),
            ("energy_per_output_token_j", 1.25, Unit::Joules),
            ("gpu_idle_share", 0.125, Unit::Ratio),
            ("server_queue_mean", 868e6, Unit::Ns),
            ("server_ttft_over_client", 1.03, Unit::Ratio),
        ];
        let shown = derived(&with(2, &figures)).unwrap().to_markdown();
        let rows: Vec<&str> = shown.lines().skip(2).collect();
        assert_eq!(rows.len(), figures.len(), "{shown}");
        for (row, start) in rows.iter().zip([
            "| energy per output token j | J | 1.25 | 2.50 |",
            "| gpu idle share | % | 12.5 | 25 |",
            "| server queue mean | ms | 868 | 1736 |",
            "| server ttft over client |  | 1.03 | 2.06 |",
            "| correlation running latency |  | 0.41 | 0.82 |",
        ]) {
            assert!(row.starts_with(start), "{row} is not {start}");
        }
    }

    #[test]
    fn many_cells_are_shown_by_their_ends_and_none_by_nothing() {
        let figures = [("waiting_mean", 0.5, Unit::Count)];
        let shown = derived(&with(12, &figures)).unwrap().to_markdown();
        assert!(
            shown.contains("lowest") && shown.contains("highest"),
            "{shown}"
        );
        assert!(shown.contains("| waiting mean |  | 0.50 | 6 |"), "{shown}");
        assert!(derived(&with(2, &[])).is_none());
    }
}
