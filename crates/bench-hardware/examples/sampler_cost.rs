//! What the sampler costs on this machine: `cargo run --release -p bench-hardware --example sampler_cost -- 20` (seconds).
//!
//! Everything is on: host, client, a server's process tree (this process), NVML if there is one, and a page of vLLM with two
//! engines twice a second. The page comes from the fixtures, so that fetching is not in the figures and parsing is.
#![expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a program for people, with its own clock"
)]

use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use bench_hardware::{Fetch, FetchLimits, Page, Sampler, SamplerConfig, ServerProcess};
use bench_schema::{Nanos, Reading, Stamp};

struct Fixture(Vec<u8>);

impl Fetch for Fixture {
    fn get(&self, _url: &str, _limits: FetchLimits) -> Result<Vec<u8>, String> {
        Ok(self.0.clone())
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let seconds = std::env::args().nth(1).map_or(Ok(20), |s| s.parse())?;
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../fixtures/prometheus/vllm.txt"
    );
    let page = std::fs::read(path)?;
    time_parsing(&page)?;
    let config = SamplerConfig {
        server: Some(ServerProcess::Pid(std::process::id())),
        server_metrics: vec!["vllm.txt".to_owned()],
        ..SamplerConfig::default()
    };
    let epoch = Instant::now();
    let now = move || Stamp::EPOCH + Nanos::from_duration(epoch.elapsed());
    let (send, readings) = mpsc::channel();
    let sink = move |reading| {
        // Only fails when this program is over.
        send.send(reading).ok();
    };
    let sampler = Sampler::start(&config, now, Arc::new(Fixture(page)), sink)?;
    std::thread::sleep(Duration::from_secs(seconds));
    let report = sampler.stop();
    let lasted = report.lasted.as_secs_f64();
    for source in &report.sources {
        println!(
            "{:15} {:4} ticks, {:4} missed: {:8} of CPU each, {:.3} % of a core; the longest took {}",
            source.source,
            source.ticks,
            source.missed_ticks,
            Nanos::from_f64(source.cpu.as_f64() / source.ticks as f64).to_string(),
            100.0 * source.cpu.as_secs_f64() / lasted,
            source.longest,
        );
    }
    let readings: Vec<Reading> = readings.try_iter().collect();
    let bytes: usize = readings
        .iter()
        .map(|reading| serde_json::to_string(reading).map_or(0, |line| line.len() + 1))
        .sum();
    println!(
        "together {:.3} % of a core over {lasted:.1} s; {} readings, {:.1} kB of JSON a second; {} dropped; unknown: {:?}",
        100.0 * report.cpu_share().unwrap_or_default(),
        readings.len(),
        bytes as f64 / 1e3 / lasted,
        report.dropped(),
        report.unknown,
    );
    Ok(())
}

/// The fastest of a hundred: what parsing costs when nothing else happens.
fn time_parsing(page: &[u8]) -> Result<(), Box<dyn std::error::Error>> {
    let mut best = Duration::MAX;
    let mut samples = 0;
    for _ in 0..100 {
        let began = Instant::now();
        samples = Page::parse(page)?.samples.len();
        best = best.min(began.elapsed());
    }
    println!("parsing {} bytes, {samples} samples: {best:?}", page.len());
    Ok(())
}
