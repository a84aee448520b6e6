//! Read a run directory from another program: `cargo run -p examples --example read_results -- results/RUN`.
//!
//! `run.json` has the aggregates; `requests.jsonl` has one line per request, from which anything else can be derived with
//! `bench-metrics`, which is done here for the slowest request.

use std::error::Error;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;

use bench_schema::{JournalFile, Metric, Nanos, Phase, RequestRecord, RunRecord};

fn main() -> Result<(), Box<dyn Error>> {
    let folder = PathBuf::from(
        std::env::args_os()
            .nth(1)
            .ok_or("usage: read_results RUN_DIRECTORY")?,
    );
    let run = RunRecord::from_json(&std::fs::read_to_string(folder.join("run.json"))?)?;
    let mut out = std::io::stdout().lock();
    writeln!(out, "{} ({:?})", run.title, run.trust.verdict)?;
    for cell in &run.cells {
        let ms = |metric| {
            cell.headline(metric)
                .and_then(bench_schema::Distribution::p50)
                .map_or("-".to_owned(), |ns| format!("{:.1} ms", ns / 1e6))
        };
        let rate = cell.headline_rates().and_then(|rates| rates.requests_per_s);
        let rate = rate.map_or("-".to_owned(), |rate| format!("{rate:.2}"));
        let counts = &cell.counts;
        writeln!(
            out,
            "{:<28} {:>4}/{:<4} {:>7} req/s   TTFT p50 {:>9}   E2E p50 {:>9}",
            cell.label,
            counts.completed,
            counts.planned,
            rate,
            ms(Metric::Ttft),
            ms(Metric::E2e)
        )?;
    }
    if let Some((e2e, record)) = slowest(&folder)? {
        writeln!(
            out,
            "slowest: request {} of {} took {e2e}, {} events",
            record.id,
            record.cell,
            record.wire.events.len()
        )?;
    }
    Ok(())
}

fn slowest(folder: &std::path::Path) -> Result<Option<(Nanos, RequestRecord)>, Box<dyn Error>> {
    let mut slowest: Option<(Nanos, RequestRecord)> = None;
    let parts = JournalFile::Requests.parts_in(folder);
    let files: Result<Vec<File>, _> = parts.iter().map(File::open).collect();
    for line in files?
        .into_iter()
        .flat_map(|file| BufReader::new(file).lines())
    {
        let record: RequestRecord = serde_json::from_str(&line?)?;
        let e2e = record
            .wire
            .events
            .last()
            .zip(record.wire.sent)
            .map(|(last, sent)| last - sent);
        if let Some(e2e) = e2e.filter(|_| record.phase == Phase::Measure)
            && slowest.as_ref().is_none_or(|(most, _)| e2e > *most)
        {
            slowest = Some((e2e, record));
        }
    }
    Ok(slowest)
}
