//! Results in the words of other tools, each by that tool's own definitions, and as CSV.

mod tools;

use std::collections::BTreeSet;

use bench_schema::{CellRecord, Counts, Distribution, Metric, RunRecord};

pub use tools::{Exporter, Tool};

use crate::table::Sheet;
use crate::tables;

/// One line for each cell: the verdicts on the run and on the cell itself, its factors, rates, counts and the main percentiles in milliseconds, at full precision. What is
/// not known is an empty field.
pub fn cells(run: &RunRecord) -> String {
    let factors: BTreeSet<&String> = run
        .cells
        .iter()
        .flat_map(|cell| cell.factors.keys())
        .collect();
    let mut sheet = Sheet::new()
        .text("cell", |cell: &&CellRecord| cell.id.clone())
        .text("trust", |_| run.trust.verdict.as_str().to_owned())
        .text("cell_trust", |cell| {
            run.trust.of_cell(&cell.id).as_str().to_owned()
        });
    for name in factors {
        sheet = sheet.text(name, move |cell| Some(cell.factors.get(name)?.to_string()));
    }
    let mut sheet = sheet
        .number(("load", ""), |cell| tables::load_level(&cell.load))
        .count("planned", |cell| cell.counts.planned);
    for (name, of) in Counts::ENDS {
        sheet = sheet.count(name, move |cell| of(&cell.counts));
    }
    let mut sheet = sheet
        .number(("requests_per_s", ""), |cell| {
            cell.headline_rates()?.requests_per_s
        })
        .number(("output_tokens_per_s", ""), |cell| {
            cell.headline_rates()?.output_tokens_per_s
        })
        .number(("mean_in_flight", ""), |cell| {
            Some(cell.headline_rates()?.mean_in_flight)
        });
    for metric in [Metric::Ttft, Metric::Itl, Metric::Tpot, Metric::E2e] {
        let name = |figure: &str| format!("{}_{figure}_ms", metric.key());
        sheet = sheet.number((&name("mean"), ""), move |cell| {
            Some(cell.headline(metric)?.mean / 1e6)
        });
        for (figure, q) in [("p50", 0.5), ("p95", 0.95), ("p99", 0.99)] {
            sheet = sheet.number((&name(figure), ""), move |cell| {
                Some(cell.headline(metric)?.quantile(q)? / 1e6)
            });
        }
    }
    sheet.all_columns("", &run.cells).to_csv()
}

/// One line for each metric of each cell, with its unit: milliseconds, tokens, tokens/s.
pub fn distributions(run: &RunRecord) -> String {
    type Row<'a> = (&'a CellRecord, Metric, &'a Distribution);
    let number = |(_, metric, _): &Row<'_>, value: f64| value / tables::scale_of(metric.unit()).0;
    let mut sheet = Sheet::new()
        .text("cell", |(cell, ..): &Row<'_>| cell.id.clone())
        .text("metric", |(_, metric, _)| metric.key().to_owned())
        .text("unit", |(_, metric, _)| {
            tables::scale_of(metric.unit()).1.to_owned()
        })
        .count("n", |(.., seen)| seen.n)
        .number(("mean", ""), move |row| number(row, row.2.mean))
        .number(("sd", ""), move |row| Some(number(row, row.2.sd?)))
        .number(("min", ""), move |row| number(row, row.2.min));
    for (name, q) in tables::QUANTILES {
        sheet = sheet.number((name, ""), move |row| Some(number(row, row.2.quantile(q)?)));
    }
    let rows = run.cells.iter();
    let rows = rows.flat_map(|cell| {
        cell.metrics
            .iter()
            .map(move |(metric, seen)| (cell, *metric, seen))
    });
    let sheet = sheet.number(("max", ""), move |row| number(row, row.2.max));
    sheet.all_columns("", rows).to_csv()
}
