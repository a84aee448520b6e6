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
        requests: rates.map(|rates| rates.requests_per_s * rates.seconds),
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
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn reading(source: ReadingSource, at: i64) -> Reading {
        let at = Stamp::EPOCH + Nanos::new(at);
        Reading {
            from: at,
            to: at,
            source,
            instance: String::new(),
            values: BTreeMap::new(),
            unknown: BTreeMap::new(),
        }
    }

    proptest! {
        #[test]
        fn of_many_readings_every_source_keeps_evenly_spaced_ones_from_its_first(
            most in 4_usize..40,
            sources in prop::collection::vec(any::<bool>(), 1..600),
        ) {
            let mut readings = Thinned::new(most);
            let mut counts = [0_i64; 2];
            for host in sources {
                let source = if host { ReadingSource::Host } else { ReadingSource::Client };
                let count = &mut counts[usize::from(host)];
                readings.push(reading(source, *count).into());
                *count += 1;
            }
            prop_assert!(readings.kept.len() <= most);
            for (source, count) in [(ReadingSource::Client, counts[0]), (ReadingSource::Host, counts[1])] {
                let kept: Vec<i64> = readings
                    .kept
                    .iter()
                    .filter(|reading| reading.source == source)
                    .map(|reading| (reading.from - Stamp::EPOCH).get())
                    .collect();
                let every = i64::try_from(readings.keep_every).unwrap();
                let expected: Vec<i64> = (0..count).filter(|n| n % every == 0).collect();
                prop_assert_eq!(kept, expected);
            }
        }
    }

    /// One source whose every third reading has a slow value too, 100 ms apart, around a cell from 5 to 6 s.
    #[test]
    fn around_a_cell_only_what_its_counters_begin_and_end_with_stays_and_its_summary_with_it() {
        let second = 1_000_000_000;
        let span = (Stamp::new(5 * second), Stamp::new(6 * second));
        let mut readings = Thinned::default();
        for n in 0..100_i64 {
            let mut one = reading(ReadingSource::Host, n * second / 10);
            one.values.insert("cpu_busy_s_total".to_owned(), n as f64);
            if n % 3 == 0 {
                one.values.insert("load_1m".to_owned(), (n % 7) as f64);
            }
            readings.push(one.into());
        }
        let summary = |readings: &Thinned| {
            let windows = [Window {
                from: span.0,
                to: span.1,
            }];
            let all = readings.kept.iter().map(Arc::as_ref);
            readings::summarise(all, &windows, &Work::default())
        };
        let all = summary(&readings);
        readings.retain_around(Some(span));
        // eleven within; before it 4.9 s and, with the slow value, 4.8 s; after it 6.1 s and 6.3 s
        let kept: Vec<i64> = readings
            .kept
            .iter()
            .map(|r| r.to.get() / 100_000_000)
            .collect();
        let expected: Vec<i64> = (48..=61).chain([63]).collect();
        assert_eq!(kept, expected);
        assert_eq!(summary(&readings), all);
        assert_eq!(all.resources.len(), 2);
    }

    #[test]
    fn a_mean_is_of_what_happened_within_the_windows() {
        let request = |end: i64, e2e: i64| RequestSample {
            start: Stamp::new(end - e2e),
            end: Stamp::new(end),
            ..RequestSample::default()
        };
        let samples = CellSamples {
            cell: "c".to_owned(),
            requests: vec![
                request(5, 1),
                request(15, 2),
                request(25, 4),
                request(35, 64),
            ],
            ..CellSamples::default()
        };
        let window = |from, to| Window {
            from: Stamp::new(from),
            to: Stamp::new(to),
        };
        let mean = |windows: &[Window]| {
            mean_within(windows, &samples, |request| {
                Some((request.end, request.e2e()))
            })
        };
        assert_eq!(mean(&[window(10, 20), window(20, 30)]), Some(3.0));
        assert_eq!(mean(&[window(100, 200)]), None);
    }
}
