//! What a cell comes to while it runs: fed by the recorder thread, finished by the run.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bench_hardware::Work;
use bench_insight::{CellFacts, CellSamples, FactKeeper};
use bench_metrics::{CellAccumulator, CellContext, Precision};
use bench_schema::{
    CellAnalysis, CellRecord, ClientRecord, Counts, HardwareSummary, Metric, Origin, Phase,
    PlanRecord, Reading, RequestRecord, Stamp, Window, WindowRates,
};

use crate::cell::Cell;
use crate::config::Settings;

/// Beyond these many requests a cell's single requests are thinned out for the rules that look at time: memory stays bounded.
const MOST_SAMPLES: usize = 200_000;

/// The running aggregates of one cell.
pub(crate) struct CellTally {
    accumulator: CellAccumulator,
    readings: Vec<Reading>,
    samples: CellSamples,
    facts: FactKeeper,
    seen: usize,
    keep_every: usize,
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
            readings: Vec::new(),
            samples: CellSamples {
                cell: cell.id.clone(),
                requests: Vec::new(),
            },
            facts: FactKeeper::default(),
            seen: 0,
            keep_every: 1,
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
        if self.seen.is_multiple_of(self.keep_every) {
            self.samples.push(record);
        }
        if self.samples.requests.len() > MOST_SAMPLES {
            let mut index = 0_usize;
            self.samples.requests.retain(|_| {
                index += 1;
                index.is_multiple_of(2)
            });
            self.keep_every *= 2;
        }
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
    pub(crate) fn finish(mut self, mut record: CellRecord) -> (CellRecord, Samples) {
        let summary = self.accumulator.finish();
        let windows = watched(&summary.steady, &summary.windows);
        record.plan.requests = summary.counts.planned;
        summary.fill(&mut record);
        if !self.readings.is_empty() && !windows.is_empty() {
            record.hardware = Some(hardware(&self.readings, &windows, &record, &self.samples));
        }
        self.samples.requests.sort_by_key(|request| request.start);
        (
            record,
            Samples {
                cell: self.samples,
                facts: self.facts.finish(),
            },
        )
    }
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
    let mean = |metric| {
        record
            .metrics
            .get(&metric)
            .map(|distribution| distribution.mean)
    };
    let latencies: Vec<(Stamp, f64)> = samples
        .requests
        .iter()
        .map(|request| (request.start, request.e2e))
        .collect();
    let work = Work {
        output_tokens: rates.and_then(|rates| Some(rates.output_tokens_per_s? * rates.seconds)),
        requests: rates.map(|rates| rates.requests_per_s * rates.seconds),
        latencies: &latencies,
        ttft_mean: mean(Metric::Ttft),
        itl_mean: mean(Metric::Itl),
        e2e_mean: mean(Metric::E2e),
    };
    bench_hardware::summarise(readings, windows, &work)
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
        hardware: None,
        slos: Vec::new(),
        goodput: None,
    }
}
