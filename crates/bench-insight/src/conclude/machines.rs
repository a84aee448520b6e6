//! What machines and server did during a cell, from the readings that were taken meanwhile.

use std::collections::BTreeMap;
use std::sync::Arc;

use bench_metrics::readings::{self, Work};
use bench_schema::{
    CellRecord, HardwareSummary, Metric, Nanos, Reading, ReadingSource, Stamp, Window,
};

use crate::{CellSamples, RequestSample};

/// Beyond these many readings of a cell every second one of each source is left out of its summary, about 60 MB; the journal has them all.
const MOST_READINGS: usize = 30_000;

/// Readings of which, beyond a number, only every second, fourth, … of each source is kept: memory stays bounded however long the cell.
pub(super) struct Thinned {
    kept: Vec<Arc<Reading>>,
    most: usize,
    keep_every: usize,
    seen: BTreeMap<(ReadingSource, String), usize>,
}

impl Default for Thinned {
    fn default() -> Self {
        Self::new(MOST_READINGS)
    }
}

impl Thinned {
    fn new(most: usize) -> Self {
        Self {
            kept: Vec::new(),
            most,
            keep_every: 1,
            seen: BTreeMap::new(),
        }
    }

    /// Leaves what was taken during a cell, and around it what its counters and levels begin and end with: of each source the nearest reading,
    /// and a farther one where it has values that no nearer one has. A thousand short cells would else read each other's readings.
    pub(super) fn retain_around(&mut self, span: Option<(Stamp, Stamp)>) {
        self.kept.retain(|reading| is_near(span, reading));
        let Some((from, to)) = span else { return };
        let mut nearer = BTreeMap::new();
        self.kept.reverse();
        self.kept
            .retain(|reading| reading.to >= from || adds(reading, &mut nearer));
        self.kept.reverse();
        nearer.clear();
        self.kept
            .retain(|reading| reading.from <= to || adds(reading, &mut nearer));
    }

    pub(super) fn push(&mut self, reading: Arc<Reading>) {
        let seen = self.seen.entry(key(&reading)).or_default();
        let wanted = seen.is_multiple_of(self.keep_every);
        *seen += 1;
        if !wanted {
            return;
        }
        self.kept.push(reading);
        if self.kept.len() > self.most {
            // what is kept of a source are its numbers 0, k, 2k, …: every second of them stays
            let mut kept: BTreeMap<(ReadingSource, String), usize> = BTreeMap::new();
            self.kept.retain(|reading| {
                let index = kept.entry(key(reading)).or_default();
                *index += 1;
                !index.is_multiple_of(2)
            });
            self.keep_every *= 2;
        }
    }
}

/// How far around a cell its readings reach: beyond the slowest period of any source, so that counters have a value before and after it.
pub(super) const LEAD: Nanos = Nanos::from_secs(2);

/// Whether a reading was taken during a cell or shortly before or after it.
pub(super) fn is_near(span: Option<(Stamp, Stamp)>, reading: &Reading) -> bool {
    span.is_some_and(|(from, to)| reading.to >= from - LEAD && reading.from <= to + LEAD)
}

/// Whether a reading has more than the nearer ones of its source.
fn adds(reading: &Reading, nearer: &mut BTreeMap<(ReadingSource, String), usize>) -> bool {
    let values = reading.values.len();
    let most = nearer.entry(key(reading)).or_insert(0);
    let more = values > *most || !reading.unknown.is_empty();
    *most = values.max(*most);
    more
}

fn key(reading: &Reading) -> (ReadingSource, String) {
    (reading.source, reading.instance.clone())
}

/// The summary over the headline's windows; `None` where there is nothing to summarise.
pub(super) fn summary(
    readings: &Thinned,
    windows: &[Window],
    cell: &CellRecord,
    samples: &CellSamples,
) -> Option<HardwareSummary> {
    if readings.kept.is_empty() || windows.is_empty() {
        return None;
    }
    let rates = cell.headline_rates();
    let latencies: Vec<(Stamp, f64)> = samples
        .requests
        .iter()
        .map(|request| (request.start, request.e2e()))
        .collect();
    let work = Work {
        output_tokens: rates.and_then(|rates| Some(rates.output_tokens_per_s? * rates.seconds)),
        requests: rates.and_then(|rates| Some(rates.requests_per_s? * rates.seconds)),
        latencies: &latencies,
        // A server's histograms count what happened within the windows, not the requests that were sent within them.
        ttft_mean: mean_within(windows, samples, |request| {
            let ttft = request.ttft?;
            Some((request.start + Nanos::from_secs_f64(ttft / 1e9), ttft))
        }),
        itl_mean: cell.metrics.get(&Metric::Itl).map(|itl| itl.mean),
        e2e_mean: mean_within(windows, samples, |request| {
            Some((request.end, request.e2e()))
        }),
    };
    Some(readings::summarise(
        readings.kept.iter().map(Arc::as_ref),
        windows,
        &work,
    ))
}

/// Mean of what `value` gives for those requests for which that happened, by its stamp, within the windows.
fn mean_within(
    windows: &[Window],
    samples: &CellSamples,
    value: impl Fn(&RequestSample) -> Option<(Stamp, f64)>,
) -> Option<f64> {
    let happened = samples.requests.iter().filter_map(value);
    let within = happened.filter(|(at, _)| windows.iter().any(|window| window.contains(*at)));
    let (count, sum) = within.fold((0_u64, 0.0), |(n, sum), (_, value)| (n + 1, sum + value));
    (count > 0).then(|| sum / count as f64)
}

#[cfg(test)]
#[path = "../../tests/unit/conclude_machines.rs"]
mod tests;
