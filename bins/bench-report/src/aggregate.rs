//! From records back to cells, figures, trust and findings: what `recover` and `merge` share.

use std::collections::BTreeMap;
use std::path::Path;

use bench_insight::{CellFacts, CellSamples, FactKeeper, SampleKeeper, Target, TrustFacts};
use bench_metrics::{CellAccumulator, CellContext};
use bench_schema::{Load, Metric, RequestRecord, RunRecord, Slo};

use crate::error::CommandError;
use crate::settings;

/// Adds records up, all cells side by side. Memory: about 300 bytes a request.
pub(crate) struct Aggregator {
    cells: BTreeMap<String, Tally>,
    slos: Vec<Slo>,
    unknown: BTreeMap<String, u64>,
}

struct Tally {
    accumulator: CellAccumulator,
    facts: FactKeeper,
    samples: SampleKeeper,
    records: u64,
    workers: u32,
}

impl Tally {
    fn push(&mut self, record: &RequestRecord) {
        self.accumulator.push(record);
        self.records += 1;
        self.workers = self
            .workers
            .max(record.worker.map_or(0, |w| w.saturating_add(1)));
        self.facts.push(record);
        self.samples.push(record);
    }
}

/// What was added up beside the cells themselves.
pub(crate) struct Aggregated {
    /// Single requests, cell by cell.
    pub(crate) samples: Vec<CellSamples>,
    /// Requests that were added.
    pub(crate) requests: u64,
    /// Cells without a single record.
    pub(crate) empty: Vec<String>,
    /// Records of cells that the run does not have, by that name.
    pub(crate) unknown: BTreeMap<String, u64>,
    facts: BTreeMap<String, CellFacts>,
    slos: Vec<Slo>,
}

impl Aggregator {
    /// For the cells of `run`, which was read from `path`.
    pub(crate) fn new(run: &RunRecord, path: &Path) -> Result<Self, CommandError> {
        let slos = settings::slos(run, path)?;
        let tally = |load: &Load, id: &str| Tally {
            accumulator: CellAccumulator::new(CellContext {
                slos: slos.clone(),
                ..CellContext::new(load.clone())
            }),
            facts: FactKeeper::default(),
            samples: SampleKeeper::new(id),
            records: 0,
            workers: 0,
        };
        let cells = run
            .cells
            .iter()
            .map(|cell| (cell.id.clone(), tally(&cell.load, &cell.id)))
            .collect();
        Ok(Self {
            cells,
            slos,
            unknown: BTreeMap::new(),
        })
    }

    /// Adds one record, in the order they ended.
    pub(crate) fn push(&mut self, record: &RequestRecord) {
        match self.cells.get_mut(&record.cell) {
            Some(tally) => tally.push(record),
            None => *self.unknown.entry(record.cell.clone()).or_default() += 1,
        }
    }

    /// Only the single requests, for tests that permute time.
    pub(crate) fn into_samples(self) -> Vec<CellSamples> {
        self.cells
            .into_values()
            .map(|tally| tally.samples.finish())
            .collect()
    }

    /// Writes the aggregates into the run's cells. What records do not tell (CPU, hardware, cap hits) is left as it is.
    pub(crate) fn fill(mut self, run: &mut RunRecord) -> Aggregated {
        let mut done = Aggregated {
            samples: Vec::new(),
            requests: 0,
            empty: Vec::new(),
            unknown: self.unknown,
            facts: BTreeMap::new(),
            slos: self.slos,
        };
        let mut baseline = None;
        for cell in &mut run.cells {
            let Some(mut tally) = self.cells.remove(&cell.id) else {
                continue;
            };
            if tally.records == 0 {
                done.empty.push(cell.id.clone());
                continue;
            }
            tally.accumulator.set_queue_baseline(baseline);
            let summary = tally.accumulator.finish();
            cell.plan.requests = summary.counts.planned;
            summary.fill(cell);
            if let Some(phases) = bench_insight::server_phases(cell) {
                cell.phases = Some(phases);
            }
            cell.name_endpoints(&run.server.urls);
            if cell.client.workers == 0 {
                cell.client.workers = tally.workers;
            }
            if baseline.is_none() && matches!(cell.load, Load::Closed { concurrency: 1, .. }) {
                baseline = cell
                    .metrics
                    .get(&Metric::Ttft)
                    .and_then(bench_schema::Distribution::p50);
            }
            done.requests += tally.records;
            done.facts.insert(cell.id.clone(), tally.facts.finish());
            done.samples.push(tally.samples.finish());
        }
        done
    }
}

impl Aggregated {
    /// Everything that follows from the cells: figures across them, gates, trust, findings.
    pub(crate) fn conclude(&self, run: &mut RunRecord) -> Result<(), CommandError> {
        let gates = settings::texts(run, "target");
        run.analysis = bench_insight::analyse_run(run);
        run.targets = bench_insight::targets(&gates, &run.cells)?;
        let mut asked: Vec<(Metric, f64)> =
            self.slos.iter().map(|slo| (slo.metric, slo.q)).collect();
        asked.extend(
            gates
                .iter()
                .filter_map(|text| Target::parse(text).ok()?.quantile()),
        );
        let facts = TrustFacts {
            complete: run.complete,
            incomplete_reason: run.incomplete_reason.as_deref(),
            server_kind: run.server.kind.as_deref(),
            ignore_eos: settings::switch(run, "ignore_eos"),
            shared_prefixes: settings::texts(run, "dataset")
                .iter()
                .any(|spec| repeats_prompts(spec)),
            asked_quantiles: &asked,
            ..TrustFacts::of(&run.clock, &self.facts)
        };
        run.trust = bench_insight::trust(&facts, &run.cells);
        run.findings = bench_insight::findings(run, &self.samples);
        Ok(())
    }
}

/// Datasets whose prompts share their beginnings, or repeat, on purpose.
fn repeats_prompts(dataset: &str) -> bool {
    let kind = dataset.split(':').next().unwrap_or_default();
    kind == "prefix" || kind == "multiturn" || dataset == "study:gpt2"
}
