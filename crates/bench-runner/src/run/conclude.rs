//! From measured cells to the run record: trust, figures across cells, gates, findings, and what the program itself did to the measurement.

use std::collections::BTreeMap;

use bench_hardware::{SamplerReport, Surroundings};
use bench_insight::CellEvidence;
use bench_schema::{
    Analysis, CellAnalysis, CellRecord, ClientRecord, ClockRecord, Counts, Load, Nanos, Origin,
    PlanRecord, RunRecord, Schema, Stamp, ToolRecord, Trust, TrustReason, TrustVerdict,
    WindowRates, counted,
};

use super::Run;
use crate::RunError;
use crate::config::{self, Settings};
use crate::entry::Cell;
use crate::journal::JournalError;
use crate::worker_pool::PhaseReport;

/// The record of a run that has just begun.
pub(super) fn blank(run: &Run<'_>, cells: &[Cell]) -> RunRecord {
    let settings = run.settings;
    let (arrival, fallback_reason) = run.server.arrival.clone();
    let clock = ClockRecord {
        arrival,
        fallback_reason,
        monotonic_epoch_ns: Some(run.clock.monotonic_epoch_ns()),
        unix_epoch_ns: Some(run.clock.unix_epoch_ns()),
        met: Vec::new(),
        meeting: None,
    };
    RunRecord {
        schema: Schema::current(),
        experiment: settings.benchmark,
        title: title(run),
        trust: unfinished(),
        tool: ToolRecord {
            name: format!("bench-{}", settings.benchmark.as_str()),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        },
        started_at: super::rfc3339(run.started),
        duration: Nanos::ZERO,
        complete: false,
        incomplete_reason: Some(UNFINISHED.to_owned()),
        seed: settings.seed,
        config: settings.stored(),
        journal: Vec::new(),
        tags: settings.output.tag.iter().cloned().collect(),
        clock,
        host: bench_hardware::host_record(&surroundings(settings)),
        server: run.server.record.clone(),
        cells: cells.iter().map(|cell| run.blank_cell(cell)).collect(),
        analysis: Analysis::default(),
        targets: Vec::new(),
        findings: Vec::new(),
    }
}

/// Until a run has ended nobody may trust it: this stays where the program is killed.
fn unfinished() -> Trust {
    Trust::from_reasons(vec![TrustReason {
        next: Some(
            "run `bench-report recover` to rebuild the result from what was measured".to_owned(),
        ),
        ..TrustReason::new("incomplete", TrustVerdict::Untrusted, UNFINISHED)
    }])
}

/// Why a run is not complete as long as nothing else is known.
const UNFINISHED: &str = "the run has not ended, or the program was killed";

/// What the host's record is made from. The environment is looked through for containers and schedulers, by name.
fn surroundings(settings: &Settings) -> Surroundings {
    Surroundings {
        environment: std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect(),
        directory: std::env::current_dir().ok(),
        gpus: config::gpus(&settings.machines),
    }
}

fn title(run: &Run<'_>) -> String {
    let what = run.server.record.model.as_deref().unwrap_or("the server");
    let at = if run.server.record.embedded {
        "the embedded engine".to_owned()
    } else {
        run.server.record.urls.join(", ")
    };
    let shard = run.settings.client.shard.filter(|(_, count)| *count > 1);
    let part = shard.map(|(index, count)| RunRecord::title_of_part(&format!("{index}/{count}")));
    let part = part.unwrap_or_default();
    let benchmark = run.settings.benchmark.as_str();
    format!("{benchmark}{part} of {what} on {at}")
}

fn plan_record(run: &Run<'_>, cell: &Cell) -> PlanRecord {
    PlanRecord {
        dataset: cell.dataset.to_string(),
        sized_by: run.token_counter.name().to_owned(),
        template_tokens: run
            .server
            .calibration
            .map(|learned| learned.overhead_tokens),
        requested_rate_per_s: match &cell.load {
            Load::Open { rate_per_s, .. } => *rate_per_s,
            Load::Closed { .. } => None,
        },
        ..PlanRecord::default()
    }
}

impl Run<'_> {
    /// A cell's record before anything was measured, with what this program keeps in flight.
    pub(super) fn blank_cell(&self, cell: &Cell) -> CellRecord {
        self.blank(cell, self.part(&cell.load))
    }

    /// The same with what all shards keep in flight.
    pub(super) fn cell_of_all(&self, cell: &Cell) -> CellRecord {
        self.blank(cell, cell.load.clone())
    }

    fn blank(&self, cell: &Cell, load: Load) -> CellRecord {
        CellRecord {
            id: cell.id.clone(),
            label: cell.label.clone(),
            factors: cell.factors.clone(),
            load,
            stop: cell.stop.clone(),
            repeats: cell.repeats,
            plan: plan_record(self, cell),
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
            client: ClientRecord {
                workers: self.worker_count(),
                ..ClientRecord::default()
            },
            ended_early: None,
            ended_by: None,
            hardware: None,
            slos: Vec::new(),
            goodput: None,
        }
    }

    /// What the client knows of itself after the phases of a cell.
    pub(super) fn own_facts(&self, reports: &[PhaseReport], workers: u32) -> ClientRecord {
        let sum = |field: fn(&PhaseReport) -> Option<Nanos>| {
            reports.iter().map(field).sum::<Option<Nanos>>()
        };
        let wall: Nanos = reports.iter().map(|report| report.wall).sum();
        let share =
            |part: Nanos, of: Nanos| (of > Nanos::ZERO).then(|| part.as_f64() / of.as_f64());
        let busiest = reports
            .iter()
            .filter_map(|report| share(report.cpu?, report.wall))
            .reduce(f64::max);
        ClientRecord {
            cpu_seconds: sum(|report| report.cpu).map(Nanos::as_secs_f64),
            busiest_worker: busiest,
            run_queue_wait: sum(|report| report.wait).and_then(|wait| share(wait, wall)),
            pause: reports.iter().filter_map(|report| report.pause).max(),
            workers,
            clock_step: self.clock.take_largest_step(),
            ..ClientRecord::default()
        }
    }

    /// Everything that follows from the cells.
    pub(super) fn conclude(
        &self,
        record: &mut RunRecord,
        evidence: Vec<CellEvidence>,
        cost: Option<&SamplerReport>,
        failed: Option<&RunError>,
    ) {
        record.duration = self.clock.now() - Stamp::EPOCH;
        let interrupted = self.stop.reason().map(crate::stop::ended_by);
        let ended_early = record.cells.iter().find_map(|cell| {
            let why = cell.ended_early.as_ref()?;
            Some(format!("cell {} ended early: {why}", cell.id))
        });
        record.incomplete_reason = failed
            .map(ToString::to_string)
            .or(interrupted)
            .or(ended_early);
        record.complete = record.incomplete_reason.is_none();
        if let Some(report) = cost {
            let (mut unknown, mut facts) = (report.unknown.clone(), report.server_facts());
            self.secrets.hide_in_values(&mut unknown);
            self.secrets.hide_in_values(&mut facts);
            record.host.unknown.extend(unknown);
            record.server.facts.extend(facts);
            if let Some(share) = report.cpu_share() {
                record
                    .host
                    .facts
                    .insert("sampler_cpu_share".to_owned(), format!("{share:.5}"));
            }
        }
        if let Err(error) = bench_insight::conclude_run(record, evidence) {
            self.progress.note(&format!("warning: {error}"));
        }
    }
}

/// Say so where workers had to wait for the recorder, or records could not be written.
pub(super) fn recorder_trust(record: &mut RunRecord, held_up: u64, lost: &[RunError]) {
    let held_up = (held_up > 0).then(|| TrustReason {
        next: Some("write to a faster disk, or use a lower load".to_owned()),
        measured: Some(held_up as f64),
        threshold: Some(0.0),
        ..TrustReason::new(
            "recorder_held_up",
            TrustVerdict::Doubtful,
            format!(
                "{} had to wait for the recorder, which delayed the client's workers",
                counted(held_up, "record")
            ),
        )
    });
    let lost = lost.iter().map(|error| {
        let what = match error {
            RunError::Journal(JournalError::Lost { path, lost_lines, source }) => {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                format!("{} of {name} could not be written ({source}): the figures counted during the run include them, the figures computed from the file do not", counted(lost_lines, "line"))
            }
            other => other.to_string(),
        };
        TrustReason {
            next: Some(format!("{}, and measure again", error.cure())),
            ..TrustReason::new("journal_incomplete", TrustVerdict::Doubtful, what)
        }
    });
    record.trust.add(held_up.into_iter().chain(lost));
}
