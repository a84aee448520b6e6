//! What a real GPU tells: its inventory, three seconds of readings, and their summary. `just gpu-smoke` runs it.
//!
//! Ends with 0 where a GPU was read, with 1 where there is none. What a card does not tell is listed, and is no failure.
#![expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a program for people, with its own clock"
)]

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use bench_hardware::{NoFetch, Sampler, SamplerConfig, Surroundings, host_record};
use bench_metrics::readings::{History, Work};
use bench_schema::{HardwareSummary, Nanos, ReadingSource, ResourceSummary, Stamp, Window};

const LENGTH: Duration = Duration::from_secs(3);

fn main() -> Result<ExitCode, Box<dyn std::error::Error>> {
    let host = host_record(&Surroundings::default());
    for (name, fact) in host.facts.iter().filter(|fact| fact.0.starts_with("gpu")) {
        println!("{name} = {fact}");
    }
    print_unknown(&host.unknown);
    let epoch = Instant::now();
    let now = move || Stamp::EPOCH + Nanos::from_duration(epoch.elapsed());
    let (send, readings) = mpsc::channel();
    let sink = move |reading| {
        // Only fails when this program is over.
        send.send(reading).ok();
    };
    let sampler = Sampler::start(&SamplerConfig::default(), now, Arc::new(NoFetch), sink)?;
    let mut history = History::default();
    while let Some(left) = LENGTH.checked_sub(epoch.elapsed()) {
        if let Ok(reading) = readings.recv_timeout(left) {
            history.push(&reading);
        }
    }
    let report = sampler.stop();
    for reading in readings.try_iter() {
        history.push(&reading);
    }
    let window = Window {
        from: Stamp::EPOCH,
        to: now(),
    };
    let summary = history.summarise(&[window], &Work::default());
    print_summary(&summary);
    for source in &report.sources {
        println!(
            "{}: {} of CPU for {} ticks in {}, the longest {}",
            source.source, source.cpu, source.ticks, report.lasted, source.longest
        );
    }
    let read = gpus(&summary).next().is_some();
    Ok(if read {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn gpus(summary: &HardwareSummary) -> impl Iterator<Item = &ResourceSummary> {
    let resources = summary.resources.iter();
    resources.filter(|resource| resource.series.source == ReadingSource::Gpu)
}

fn print_summary(summary: &HardwareSummary) {
    for resource in gpus(summary) {
        println!(
            "gpu {} {}: mean {} min {} peak {} ({:?}, {} readings)",
            resource.series.instance,
            resource.series.name,
            resource.mean,
            resource.min,
            resource.peak,
            resource.unit,
            resource.n
        );
    }
    for (name, quantity) in &summary.derived {
        println!("{name} = {} {:?}", quantity.value, quantity.unit);
    }
    print_unknown(&summary.unknown);
}

fn print_unknown(unknown: &BTreeMap<String, String>) {
    for (name, why) in unknown {
        println!("{name} is unknown: {why}");
    }
}
