//! Readings of machines and server over the run.

use std::collections::BTreeMap;

use bench_schema::{Reading, RunRecord, SeriesKey, Unit};

use super::bin;
use super::topics::{Topic, place};
use crate::ReportError;
use crate::files::{self, RunFiles};

const BINS: usize = 240;
/// Series of one topic: more cannot be told apart.
const SHOWN: usize = 8;

/// One series in equal parts of the run.
#[derive(Clone, Debug)]
pub(crate) struct Series {
    pub(crate) topic: Topic,
    /// What people call it.
    pub(crate) name: String,
    rank: u8,
    key: SeriesKey,
    /// Seconds and mean in the topic's unit, where there was a reading.
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
            let wanted = known
                .get(&key)
                .filter(|(unit, _)| place(&key, *unit).is_some());
            if let Some(&(_, counter)) = wanted {
                bins.entry(key)
                    .or_default()
                    .add(at, value, seconds, counter);
            }
        }
    })?;
    let width = seconds / BINS as f64;
    let mut all: Vec<Series> = bins
        .into_iter()
        .filter_map(|(key, bins)| {
            let &(unit, _) = known.get(&key)?;
            series(key, unit, bins, width)
        })
        .collect();
    all.sort_by_key(|series| (series.topic, series.rank));
    tell_apart(&mut all);
    let mut seen: BTreeMap<Topic, usize> = BTreeMap::new();
    all.retain(|series| {
        let n = seen.entry(series.topic).or_default();
        *n += 1;
        *n <= SHOWN
    });
    Ok(all)
}

fn series(key: SeriesKey, unit: Unit, bins: Bins, width: f64) -> Option<Series> {
    let (topic, name, rank) = place(&key, unit)?;
    // A query's figure may have any unit; the others have their topic's.
    let scale = if topic == Topic::Asked {
        crate::tables::scale_of(unit).0
    } else {
        topic.scale()
    };
    let point = |(i, (sum, n)): (usize, (f64, f64))| ((i as f64 + 0.5) * width, sum / n / scale);
    let points: Vec<(f64, f64)> = bins.sums.into_iter().map(point).collect();
    (!points.is_empty()).then_some(Series {
        topic,
        name,
        rank,
        key,
        points,
    })
}

/// Two servers, or two exporters, have series of the same name: their instance is added.
fn tell_apart(all: &mut [Series]) {
    let names: Vec<(Topic, String)> = all.iter().map(|s| (s.topic, s.name.clone())).collect();
    for series in all {
        let twins = names
            .iter()
            .filter(|(topic, name)| *topic == series.topic && *name == series.name);
        if twins.count() > 1 && !series.key.instance.is_empty() {
            let instance = series.key.instance.replace("http://", "");
            series.name = format!("{} {}", series.name, crate::text::shortened(&instance, 24));
        }
    }
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
