//! Readings of machines and server over the run.

use std::collections::BTreeMap;

use bench_schema::{Reading, RunRecord, SeriesKey, Unit};

use super::bin;
use crate::ReportError;
use crate::files::{self, RunFiles};

const BINS: usize = 240;
/// Series shown; the rest are in `hardware.jsonl`.
const SHOWN: usize = 18;

/// One series in equal parts of the run.
#[derive(Clone, Debug)]
pub(crate) struct Series {
    pub(crate) key: SeriesKey,
    /// Unit of the stored values; a counter's rate is its unit per second.
    pub(crate) unit: Unit,
    /// Seconds and mean, where there was a reading.
    pub(crate) points: Vec<(f64, f64)>,
}

#[derive(Default)]
struct Bins {
    sums: BTreeMap<usize, (f64, f64)>,
    last: Option<(f64, f64)>,
}

/// Read `hardware.jsonl`, where there is one; only series that some cell summarises, for those have a unit.
///
/// # Errors
/// [`ReportError::Read`] where it is there and cannot be read.
pub(crate) fn readings(run: &RunRecord, files: &RunFiles) -> Result<Vec<Series>, ReportError> {
    let parts = files.hardware();
    if parts.is_empty() {
        return Ok(Vec::new());
    }
    let known = summarised(run);
    let seconds = run.duration.as_secs_f64();
    let mut bins: BTreeMap<SeriesKey, Bins> = BTreeMap::new();
    files::stream(parts, |reading: Reading| {
        let at = f64::midpoint(reading.from.as_secs_f64(), reading.to.as_secs_f64());
        for (name, value) in reading.values {
            let key = SeriesKey {
                source: reading.source,
                instance: reading.instance.clone(),
                name,
            };
            if let Some(&(_, counter)) = known.get(&key) {
                bins.entry(key)
                    .or_default()
                    .add(at, value, seconds, counter);
            }
        }
    })?;
    let width = seconds / BINS as f64;
    let series = bins.into_iter().filter_map(|(key, bins)| {
        let &(unit, _) = known.get(&key)?;
        let point = |(i, (sum, n)): (usize, (f64, f64))| ((i as f64 + 0.5) * width, sum / n);
        Some(Series {
            key,
            unit,
            points: bins.sums.into_iter().map(point).collect(),
        })
    });
    Ok(series
        .filter(|series| !series.points.is_empty())
        .take(SHOWN)
        .collect())
}

/// Units of the series of all cells, and whether they are counters.
fn summarised(run: &RunRecord) -> BTreeMap<SeriesKey, (Unit, bool)> {
    let resources = run
        .cells
        .iter()
        .filter_map(|cell| cell.hardware.as_ref())
        .flat_map(|h| &h.resources);
    resources
        .map(|r| (r.series.clone(), (r.unit, r.increase.is_some())))
        .collect()
}

impl Bins {
    fn add(&mut self, at: f64, value: f64, seconds: f64, counter: bool) {
        let shown = if counter {
            let rate = self.last.and_then(|(then, before)| {
                (at > then && value >= before).then(|| (value - before) / (at - then))
            });
            self.last = Some((at, value));
            rate
        } else {
            Some(value)
        };
        if let Some(value) = shown.filter(|v| v.is_finite()) {
            let (sum, n) = self
                .sums
                .entry(bin(at, 0.0, seconds, BINS))
                .or_insert((0.0, 0.0));
            *sum += value;
            *n += 1.0;
        }
    }
}
