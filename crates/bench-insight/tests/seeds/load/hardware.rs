//! What a document says of GPU, CPU and the server's own counts.

use bench_schema::{HardwareSummary, ReadingSource, ResourceSummary, SeriesKey, Unit};
use serde::Deserialize;

use super::Cell;

#[derive(Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Level {
    pub(super) mean: Option<f64>,
    pub(super) peak: Option<f64>,
}

pub(super) fn hardware(from: &Cell) -> Option<HardwareSummary> {
    let flat = |peak: f64| Level {
        mean: Some(peak),
        peak: Some(peak),
    };
    let known = [
        (
            ReadingSource::Gpu,
            "utilisation_share",
            Unit::Ratio,
            from.gpu_use,
        ),
        (
            ReadingSource::ServerProcess,
            "cpu_share",
            Unit::Ratio,
            from.cpu,
        ),
        (
            ReadingSource::ServerMetrics,
            "kv_cache_share",
            Unit::Ratio,
            from.kv_cache_peak.map(flat),
        ),
        (
            ReadingSource::ServerMetrics,
            "waiting",
            Unit::Count,
            from.waiting_peak.map(flat),
        ),
        (
            ReadingSource::ServerMetrics,
            "running",
            Unit::Count,
            from.running_peak.map(flat),
        ),
    ];
    let resources: Vec<ResourceSummary> = known
        .into_iter()
        .filter_map(|(source, name, unit, level)| resource(source, name, unit, level?))
        .collect();
    (!resources.is_empty()).then(|| HardwareSummary {
        resources,
        ..HardwareSummary::default()
    })
}

fn resource(
    source: ReadingSource,
    name: &str,
    unit: Unit,
    level: Level,
) -> Option<ResourceSummary> {
    let (mean, peak) = (level.mean.or(level.peak)?, level.peak.or(level.mean)?);
    Some(ResourceSummary {
        series: SeriesKey {
            source,
            instance: String::new(),
            name: name.to_owned(),
        },
        unit,
        n: 1,
        mean,
        min: mean.min(peak),
        peak,
        increase: None,
    })
}
