//! Measured against written: the errors of stamps, and the cost of a token.

use std::collections::HashMap;
use std::fmt;

use bench_engine::Entry;
use bench_schema::{Nanos, Stamp};

use crate::options::Options;
use crate::worker::Measured;

/// The table's head.
pub(crate) const HEADER: &str = "\
| load | events | TTFT p99, measured / true, ms | ITL p99, measured / true, ms | TTFT error p50 / p99 / max, µs | the same, read-return | ITL error p50 / p99 / max, µs | the same, read-return | bounded | CPU s per million | bare reader | runnable, waiting, ms | KiB per stream |
|---|---|---|---|---|---|---|---|---|---|---|---|---|";

/// One row of the table.
#[derive(Debug)]
pub(crate) struct Row {
    load: String,
    failed: usize,
    events: usize,
    bounded: usize,
    ttft: [Vec<i64>; 2],
    itl: [Vec<i64>; 2],
    ttft_error: [Vec<i64>; 2],
    itl_error: [Vec<i64>; 2],
    cpu_per_million: f64,
    waited: Nanos,
    per_stream_kib: f64,
    pub(crate) bare: Option<f64>,
}

/// Hold every answer against the ledger. `idle` is the process's memory before the load.
pub(crate) fn row(options: &Options, ours: &Measured, ledger: &[Entry], idle: u64) -> Row {
    let truth: HashMap<&str, &Entry> = ledger.iter().map(|e| (e.id.as_str(), e)).collect();
    let mut row = Row {
        load: options.load(),
        failed: 0,
        events: 0,
        bounded: 0,
        ttft: Default::default(),
        itl: Default::default(),
        ttft_error: Default::default(),
        itl_error: Default::default(),
        cpu_per_million: 0.0,
        waited: ours.waited,
        per_stream_kib: 0.0,
        bare: None,
    };
    for (id, exchange) in &ours.exchanges {
        let matching = truth
            .get(id.as_str())
            .filter(|entry| entry.before_ns.len() == exchange.events.len());
        match matching {
            Some(entry) if exchange.outcome.is_completed() => row.add(ours, exchange, entry),
            _ => {
                row.failed += 1;
                eprintln!(
                    "{id}: {:?}, {} events",
                    exchange.outcome,
                    exchange.events.len()
                );
            }
        }
    }
    row.cpu_per_million = ours.cpu.as_secs_f64() / row.events.max(1) as f64 * 1e6;
    row.per_stream_kib =
        ours.resident.saturating_sub(idle) as f64 / options.streams as f64 / 1024.0;
    row
}

impl Row {
    fn add(&mut self, ours: &Measured, exchange: &bench_schema::Exchange, entry: &Entry) {
        let Some(sent) = exchange.sent else { return };
        // Written: just before the write call. The segment arrives inside that call on a loopback.
        let written: Vec<i64> = entry
            .before_ns
            .iter()
            .map(|&ns| {
                let ns = i64::try_from(ns).unwrap_or(i64::MAX);
                ours.clock.at_monotonic_ns(ns).get()
            })
            .collect();
        let kernel: Vec<i64> = exchange.events.stamps().map(Stamp::get).collect();
        let returned: Vec<i64> = kernel
            .iter()
            .zip(exchange.events.lags())
            .map(|(at, lag)| at + lag.get())
            .collect();
        self.events += kernel.len();
        self.bounded += exchange.events.bounds().len();
        for (series, errors) in [(&kernel, 0), (&returned, 1)] {
            let Some((first, true_first)) = series.first().zip(written.first()) else {
                continue;
            };
            self.ttft_error[errors].push(first - true_first);
            let gaps = series.windows(2).zip(written.windows(2));
            self.itl_error[errors].extend(gaps.map(|(m, t)| (m[1] - m[0]) - (t[1] - t[0])));
        }
        if let Some((first, true_first)) = kernel.first().zip(written.first()) {
            self.ttft[0].push(first - sent.get());
            self.ttft[1].push(true_first - sent.get());
        }
        self.itl[0].extend(kernel.windows(2).map(|w| w[1] - w[0]));
        self.itl[1].extend(written.windows(2).map(|w| w[1] - w[0]));
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |v: &[i64]| quantile(v, 0.99) / 1e6;
        let errors = |v: &[i64]| {
            let mut size: Vec<i64> = v.iter().map(|e| e.abs()).collect();
            size.sort_unstable();
            format!(
                "{:.1} / {:.1} / {:.0}",
                quantile(&size, 0.5) / 1e3,
                quantile(&size, 0.99) / 1e3,
                quantile(&size, 1.0) / 1e3
            )
        };
        let failed = if self.failed > 0 {
            format!(" ({} failed)", self.failed)
        } else {
            String::new()
        };
        write!(
            f,
            "| {}{failed} | {} | {:.3} / {:.3} | {:.3} / {:.3} | {} | {} | {} | {} | {:.2} % | {:.2} | {} | {:.1} | {:.1} |",
            self.load,
            self.events,
            ms(&self.ttft[0]),
            ms(&self.ttft[1]),
            ms(&self.itl[0]),
            ms(&self.itl[1]),
            errors(&self.ttft_error[0]),
            errors(&self.ttft_error[1]),
            errors(&self.itl_error[0]),
            errors(&self.itl_error[1]),
            self.bounded as f64 / self.events.max(1) as f64 * 100.0,
            self.cpu_per_million,
            self.bare
                .map_or("–".to_owned(), |bare| format!("{bare:.2}")),
            self.waited.as_millis_f64(),
            self.per_stream_kib,
        )
    }
}

/// Type 7 (linear between order statistics), as everywhere in this project; NaN for nothing.
fn quantile(values: &[i64], q: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    let rank = q * sorted.len().saturating_sub(1) as f64;
    let (below, above) = (index(rank.floor()), index(rank.ceil()));
    let at = |i: usize| sorted.get(i).map_or(f64::NAN, |&v| v as f64);
    at(below) + (at(above) - at(below)) * rank.fract()
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a rank is not negative and within the sample"
)]
fn index(rank: f64) -> usize {
    rank as usize
}

/// Resident memory of this process, from `/proc/self/statm`; 0 where there is none.
pub(crate) fn resident_bytes() -> u64 {
    const PAGE: u64 = 4096;
    std::fs::read_to_string("/proc/self/statm")
        .ok()
        .and_then(|text| text.split_ascii_whitespace().nth(1)?.parse::<u64>().ok())
        .map_or(0, |pages| pages * PAGE)
}
