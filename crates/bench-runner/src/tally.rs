//! What a cell comes to while it runs: fed by the recorder thread, finished by the run.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bench_hardware::Work;
use bench_insight::{CellFacts, CellSamples, FactKeeper, RequestSample, SampleKeeper};
use bench_metrics::{CellAccumulator, CellContext, Precision};
use bench_schema::{
    CellAnalysis, CellRecord, ClientRecord, Counts, HardwareSummary, Metric, Nanos, Origin, Phase,
    PlanRecord, Reading, ReadingSource, RequestRecord, Stamp, Window, WindowRates,
};

use crate::cell::Cell;
use crate::config::Settings;

/// Beyond these many readings of a cell every second one of each source is left out of its summary, about 60 MB; the journal has them all.
const MOST_READINGS: usize = 30_000;

/// The running aggregates of one cell.
pub(crate) struct CellTally {
    accumulator: CellAccumulator,
    readings: Thinned,
    samples: SampleKeeper,
    facts: FactKeeper,
    seen: usize,
    rule: Option<Rule>,
}

/// A precision that ends the cell.
struct Rule {
    wanted: Vec<Precision>,
    next_look: usize,
    enough: Arc<AtomicBool>,
}

/// What a finished cell leaves for the findings.
pub(crate) struct Samples {
    pub(crate) cell: CellSamples,
    pub(crate) facts: CellFacts,
}

impl CellTally {
    /// An empty one. `baseline` is the TTFT at concurrency 1, where a cell before has measured it.
    pub(crate) fn new(
        cell: &Cell,
        settings: &Settings,
        baseline: Option<f64>,
        enough: Arc<AtomicBool>,
    ) -> Self {
        let context = CellContext {
            slos: settings.objectives.all_slos(),
            queue_baseline: baseline,
            ..CellContext::new(cell.load.clone())
        };
        let wanted: Vec<Precision> = cell
            .stop
            .precision
            .iter()
            .filter_map(|text| text.parse().ok())
            .collect();
        let fewest = wanted.iter().map(Precision::fewest).max();
        Self {
            accumulator: CellAccumulator::new(context),
            readings: Thinned::new(MOST_READINGS),
            samples: SampleKeeper::new(&cell.id),
            facts: FactKeeper::default(),
            seen: 0,
            rule: fewest.map(|next_look| Rule {
                wanted,
                next_look,
                enough,
            }),
        }
    }

    /// One request is over.
    pub(crate) fn request(&mut self, record: &RequestRecord) {
        self.accumulator.push(record);
        if record.phase == Phase::Warmup {
            return;
        }
        self.seen += 1;
        self.facts.push(record);
        self.samples.push(record);
        self.look_at_precision();
    }

    /// One reading was taken.
    pub(crate) fn reading(&mut self, reading: Reading) {
        self.readings.push(reading);
    }

    fn look_at_precision(&mut self) {
        let Some(rule) = &mut self.rule else { return };
        if self.seen < rule.next_look {
            return;
        }
        let met = |precision: &Precision| {
            precision
                .check(&self.accumulator.values(precision.metric))
                .reached
        };
        if rule.wanted.iter().all(met) {
            rule.enough.store(true, Ordering::Relaxed);
        }
        let next = rule
            .wanted
            .iter()
            .map(|precision| precision.next_look(self.seen))
            .max();
        rule.next_look = next.unwrap_or(usize::MAX);
    }

    /// The cell's record and what the findings need beside it.
    pub(crate) fn finish(self, mut record: CellRecord) -> (CellRecord, Samples) {
        let summary = self.accumulator.finish();
        let samples = self.samples.finish();
        let windows = watched(&summary.steady, &summary.windows);
        record.plan.requests = summary.counts.planned;
        summary.fill(&mut record);
        if !self.readings.kept.is_empty() && !windows.is_empty() {
            record.hardware = Some(hardware(&self.readings.kept, &windows, &record, &samples));
            // What the server itself says of waiting counts more than an estimate, or than nothing.
            if let Some(phases) = bench_insight::server_phases(&record) {
                record.phases = Some(phases);
            }
        }
        (
            record,
            Samples {
                cell: samples,
                facts: self.facts.finish(),
            },
        )
    }
}

/// Readings of which, beyond a number, only every second, fourth, … of each source is kept: memory stays bounded however long the cell.
struct Thinned {
    kept: Vec<Reading>,
    most: usize,
    keep_every: usize,
    seen: BTreeMap<(ReadingSource, String), usize>,
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

    fn push(&mut self, reading: Reading) {
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

fn key(reading: &Reading) -> (ReadingSource, String) {
    (reading.source, reading.instance.clone())
}

/// The windows over which hardware is summarised: the headline's.
fn watched(steady: &BTreeMap<u32, Window>, windows: &WindowRates) -> Vec<Window> {
    if steady.is_empty() {
        windows.whole.iter().map(|rates| rates.window).collect()
    } else {
        steady.values().copied().collect()
    }
}

fn hardware(
    readings: &[Reading],
    windows: &[Window],
    record: &CellRecord,
    samples: &CellSamples,
) -> HardwareSummary {
    let rates = record.headline_rates();
    let latencies: Vec<(Stamp, f64)> = samples
        .requests
        .iter()
        .map(|request| (request.start, request.e2e))
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
        itl_mean: record.metrics.get(&Metric::Itl).map(|itl| itl.mean),
        e2e_mean: mean_within(windows, samples, |request| Some((request.end, request.e2e))),
    };
    bench_hardware::summarise(readings, windows, &work)
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

/// A cell's record before anything was measured: its design.
pub(crate) fn blank(cell: &Cell, plan: PlanRecord) -> CellRecord {
    CellRecord {
        id: cell.id.clone(),
        label: cell.label.clone(),
        factors: cell.factors.clone(),
        load: cell.load.clone(),
        stop: cell.stop.clone(),
        repeats: cell.repeats,
        plan,
        headline: if cell.load.is_open() {
            Origin::Due
        } else {
            Origin::Sent
        },
        counts: Counts::default(),
        windows: WindowRates::default(),
        metrics: BTreeMap::new(),
        groups: Vec::new(),
        phases: None,
        analysis: CellAnalysis::default(),
        client: ClientRecord::default(),
        ended_early: None,
        hardware: None,
        slos: Vec::new(),
        goodput: None,
    }
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
                readings.push(reading(source, *count));
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

    #[test]
    fn a_mean_is_of_what_happened_within_the_windows() {
        let request = |end: i64, e2e: f64| RequestSample {
            start: Stamp::EPOCH,
            end: Stamp::new(end),
            e2e,
            ..RequestSample::default()
        };
        let samples = CellSamples {
            cell: "c".to_owned(),
            requests: vec![
                request(5, 1.0),
                request(15, 2.0),
                request(25, 4.0),
                request(35, 64.0),
            ],
            ..CellSamples::default()
        };
        let window = |from, to| Window {
            from: Stamp::new(from),
            to: Stamp::new(to),
        };
        let mean = |windows: &[Window]| {
            mean_within(windows, &samples, |request| {
                Some((request.end, request.e2e))
            })
        };
        assert_eq!(mean(&[window(10, 20), window(20, 30)]), Some(3.0));
        assert_eq!(mean(&[window(100, 200)]), None);
    }
}
