//! What machines and server did, of all shards: each client's own machine apart, the server once.

use bench_schema::HardwareSummary;

use super::check;
use super::journals::instance;
use crate::run_folder::RunFolder;

/// The summaries of a cell side by side. Figures per token or per request are left out: each was made with one shard's work.
pub(super) fn join(shards: &[RunFolder], cell: &str) -> Option<HardwareSummary> {
    let mut joined = HardwareSummary::default();
    let mut any = false;
    for shard in shards {
        let Some(hardware) = shard
            .record
            .cell(cell)
            .and_then(|cell| cell.hardware.as_ref())
        else {
            continue;
        };
        any = true;
        let name = check::name(&shard.record);
        for resource in &hardware.resources {
            let mut resource = resource.clone();
            let series = &mut resource.series;
            series.instance = instance(series.source, &series.instance, &name);
            let seen = joined
                .resources
                .iter()
                .any(|known| known.series == resource.series);
            if !seen {
                joined.resources.push(resource);
            }
        }
        for (what, why) in &hardware.unknown {
            joined
                .unknown
                .entry(what.clone())
                .or_insert_with(|| why.clone());
        }
        for (figure, quantity) in &hardware.derived {
            if figure.contains("_per_") {
                joined.unknown.insert(
                    figure.clone(),
                    "made of one shard's work; not known of all shards together".to_owned(),
                );
            } else {
                joined
                    .derived
                    .entry(figure.clone())
                    .or_insert_with(|| quantity.clone());
            }
        }
    }
    joined.resources.sort_by(|a, b| a.series.cmp(&b.series));
    any.then_some(joined)
}
