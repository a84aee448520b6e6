//! Results in the words of other tools, each by that tool's own definitions, and as CSV; the arithmetic that the tools share is numpy's.

mod aiperf;
mod vllm;

use std::collections::{BTreeMap, BTreeSet};

use bench_metrics::{Histogram, Layout, Sample};
use bench_schema::{
    CellRecord, Distribution, Metric, Nanos, Outcome, RequestRecord, RunRecord, Stamp,
};
use serde_json::{Map, Value};

pub use aiperf::aiperf;
pub use vllm::{Spill, vllm};

use crate::table::Sheet;
use crate::tables;

/// One line for each cell: its factors, rates, counts and the main percentiles in milliseconds, at full precision. What is
/// not known is an empty field.
pub fn cells(run: &RunRecord) -> String {
    let factors: BTreeSet<&String> = run
        .cells
        .iter()
        .flat_map(|cell| cell.factors.keys())
        .collect();
    let mut sheet = Sheet::new().text("cell", |cell: &&CellRecord| cell.id.clone());
    for name in factors {
        sheet = sheet.text(name, move |cell| Some(cell.factors.get(name)?.to_string()));
    }
    let mut sheet = sheet
        .number(("load", ""), |cell| tables::load_level(&cell.load).0)
        .count("planned", |cell| cell.counts.planned)
        .count("completed", |cell| cell.counts.completed)
        .count("failed", |cell| cell.counts.without_answer())
        .number(("requests_per_s", ""), |cell| {
            Some(cell.headline_rates()?.requests_per_s)
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

/// Just before the connection was asked for. What this client did before that (making the prompt, being late) is none of the server's, and
/// not in the other tools' figures either.
fn start(record: &RequestRecord) -> Stamp {
    let wire = &record.wire;
    let set_up = [
        wire.connection.resolve,
        wire.connection.connect,
        wire.connection.tls,
    ];
    let taken_up = record.dispatched.unwrap_or(record.due);
    let asked_for = wire.connected.map(|ready| {
        let set_up: Nanos = set_up.into_iter().flatten().sum();
        ready - set_up
    });
    asked_for.map_or(taken_up, |at| at.max(taken_up))
}

/// Values that are kept one by one; of more a histogram is kept, exact to a thousandth.
const EXACT: usize = 4 << 20;

/// Mean, population standard deviation (`numpy.std`'s default) and percentiles of values that come one by one.
#[derive(Default)]
struct Figures {
    exact: Vec<f64>,
    coarse: Option<Histogram>,
    n: u64,
    mean: f64,
    squares: f64,
    min: f64,
    max: f64,
}

impl Figures {
    fn push(&mut self, value: f64) {
        self.n += 1;
        let off = value - self.mean;
        self.mean += off / self.n as f64;
        self.squares += off * (value - self.mean);
        self.min = if self.n == 1 {
            value
        } else {
            self.min.min(value)
        };
        self.max = if self.n == 1 {
            value
        } else {
            self.max.max(value)
        };
        match &mut self.coarse {
            Some(coarse) => coarse.record(billionths(value)),
            None => self.exact.push(value),
        }
        if self.exact.len() > EXACT {
            let mut coarse = Histogram::new(Layout::with_bits(9));
            for value in std::mem::take(&mut self.exact) {
                coarse.record(billionths(value));
            }
            self.coarse = Some(coarse);
        }
    }

    fn std(&self) -> f64 {
        if self.n > 0 {
            (self.squares / self.n as f64).sqrt()
        } else {
            0.0
        }
    }

    /// The quantiles; 0 without values.
    fn quantiles(self, at: &[f64]) -> Vec<f64> {
        let exact = Sample::new(self.exact).ok();
        let one = |&q: &f64| match (&exact, &self.coarse) {
            (_, Some(coarse)) => coarse.quantile(q).unwrap_or(0.0) / 1e9,
            (Some(exact), None) => exact.quantile(q),
            (None, None) => 0.0,
        };
        at.iter().map(one).collect()
    }
}

fn billionths(value: f64) -> u64 {
    u64::try_from(Nanos::from_secs_f64(value).get()).unwrap_or(0)
}

/// What both tools take from one request, in seconds.
struct Times {
    /// Where that tool's latency begins: just before the connection is asked for, once the prompt exists.
    start: Stamp,
    ttft: Option<f64>,
    /// Start to last content event.
    latency: Option<f64>,
    /// The server's count, else that of the content events.
    output_tokens: u64,
    input_tokens: u64,
}

impl Times {
    fn of(record: &RequestRecord) -> Self {
        let wire = &record.wire;
        let start = start(record);
        let events = wire.events.len() as u64;
        Self {
            start,
            ttft: wire.events.first().map(|at| (at - start).as_secs_f64()),
            latency: wire.events.last().map(|at| (at - start).as_secs_f64()),
            output_tokens: record.output_tokens.unwrap_or(events),
            input_tokens: record
                .input_tokens()
                .or(record.prompt.asked_tokens)
                .unwrap_or(0),
        }
    }
}

/// First start and last end of everything that was sent, seconds, by repeat: what lies between repeats is no time of the measurement.
#[derive(Clone, Default)]
struct Span(BTreeMap<u32, (f64, f64)>);

impl Span {
    fn add(&mut self, record: &RequestRecord, times: &Times) {
        if !matches!(record.wire.outcome, Outcome::Unsent { .. }) {
            let (start, end) = (
                times.start.as_secs_f64(),
                record.last_instant().as_secs_f64(),
            );
            let (from, to) = self.0.entry(record.repeat).or_insert((start, end));
            (*from, *to) = (from.min(start), to.max(end));
        }
    }

    fn start(&self) -> f64 {
        self.0
            .values()
            .map(|(from, _)| *from)
            .reduce(f64::min)
            .unwrap_or(0.0)
    }

    fn seconds(&self) -> f64 {
        self.0.values().map(|(from, to)| to - from).sum()
    }

    fn per_s(&self, n: f64) -> f64 {
        let seconds = self.seconds();
        if seconds > 0.0 { n / seconds } else { 0.0 }
    }
}

/// The members of an object.
fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(members) => members,
        _ => Map::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_values_have_the_figures_of_a_few_of_them_to_a_thousandth() {
        let mut figures = Figures::default();
        for i in 0..=EXACT {
            figures.push(0.01 + 1e-5 * (i % 1000) as f64);
        }
        assert!(figures.coarse.is_some() && figures.exact.is_empty());
        let near = |got: f64, want: f64| assert!((got / want - 1.0).abs() < 2e-3, "{got} {want}");
        near(figures.mean, 0.014_995);
        near(figures.std(), 1e-5 * (999_999.0_f64 / 12.0).sqrt());
        near(figures.max, 0.019_99);
        let quantiles = figures.quantiles(&[0.5, 0.99]);
        near(quantiles[0], 0.014_995);
        near(quantiles[1], 0.019_895);
    }
}
