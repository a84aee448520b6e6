//! Pages from the fixtures, through the whole sampler. `fixtures/ORIGIN.md` says what they are.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bench_hardware::{Fetch, FetchLimits, SamplerConfig};
use bench_schema::{Reading, ReadingSource};

use crate::common::{sample, without_gpus};

pub(crate) fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../fixtures/prometheus")
        .join(name)
}

/// Pages from the fixtures: an address is a file's name.
pub(crate) struct Fixtures;

impl Fetch for Fixtures {
    fn get(&self, url: &str, limits: FetchLimits) -> Result<Vec<u8>, String> {
        let page = std::fs::read(fixture(url)).map_err(|e| format!("{url}: {e}"))?;
        assert!(page.len() <= limits.max_bytes);
        Ok(page)
    }
}

/// The readings that two scrapes of one page make.
pub(crate) fn scraped(file: &str, source: ReadingSource) -> Vec<Reading> {
    let pages = vec![file.to_owned()];
    let mut config = SamplerConfig {
        scrape_every: Duration::from_millis(10),
        ..without_gpus()
    };
    if source == ReadingSource::Dcgm {
        config.dcgm = pages;
    } else {
        config.server_metrics = pages;
    }
    let of = |readings: &[Reading]| readings.iter().filter(|r| r.source == source).count();
    let (readings, _) = sample(&config, Arc::new(Fixtures), |readings| of(readings) >= 2);
    readings
        .into_iter()
        .filter(|r| r.source == source)
        .collect()
}
