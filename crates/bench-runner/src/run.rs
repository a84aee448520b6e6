//! A run from beginning to end. Read [`carry_out`] for the order of things.

mod cells;
mod conclude;
mod dry;
mod ending;
mod own_up;
mod prepare;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use bench_client::Clock;
use bench_schema::RunRecord;

use crate::config::Settings;
use crate::program::{Engine, Program};
use crate::progress::Progress;
use crate::recorder::RecorderThread;
use crate::redact::Secrets;
use crate::server::Server;
use crate::stop::Stop;
use crate::workers::Workers;
use crate::{Cell, RunError, folder, wall_clock};

/// What came of it.
pub(crate) enum Outcome {
    /// A dry run: the plan as text.
    Planned(String),
    /// A run, whole or cut short.
    Done {
        /// The results.
        record: Box<RunRecord>,
        /// Where they lie.
        folder: PathBuf,
        /// What went wrong although there are results.
        trouble: Option<RunError>,
    },
}

/// Everything that is alive during a run.
pub(crate) struct Run<'a> {
    program: &'a Program,
    settings: &'a Settings,
    /// Kept alive: dropping it stops the engine.
    engine: Option<Engine>,
    server: Server,
    sizer: Arc<dyn bench_workload::Sizer>,
    started: SystemTime,
    clock: Clock,
    stop: Stop,
    progress: Progress,
}

/// Carry out what the settings ask for.
///
/// # Errors
/// [`RunError`] where there is nothing to measure or nowhere to write. Once requests have been sent, what was measured is in
/// [`Outcome::Done`], with the trouble beside it.
pub(crate) fn run(program: &Program, settings: &Settings) -> Result<Outcome, RunError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(RunError::Thread)?;
    tokio::task::LocalSet::new().block_on(&runtime, carry_out(program, settings))
}

async fn carry_out(program: &Program, settings: &Settings) -> Result<Outcome, RunError> {
    let cells = (program.design)(settings);
    let run = Run::prepare(program, settings, &cells).await?;
    if settings.output.dry_run {
        return run.plan_as_text(&cells).map(Outcome::Planned);
    }
    let folder = folder::create(&settings.output, settings.benchmark, run.started)?;
    let _held_until_the_end = folder::claim(&folder)?;
    let mut record = run.blank_record(&cells);
    folder::write_run(&folder, &record)?;

    let say = |line| crate::console::note(&format!("warning: {line}"));
    let recorder = RecorderThread::start(&folder, run.clock.clone(), Secrets::of(settings), say)?;
    let sampler = run.start_sampler(&recorder.recorder)?;
    let mut workers = Workers::start(
        run.worker_count(),
        &run.server.target,
        &run.clock,
        settings.client.late_read,
    )?;
    let ending = run.watch_for_the_end();

    run.wait_for_the_start().await;
    let measured = run
        .all_cells(
            &cells,
            &mut workers,
            cells::Watch {
                recorder: &recorder.recorder,
                sampler: sampler.as_ref(),
            },
            &folder,
            &mut record,
        )
        .await;

    drop(ending);
    workers.finish();
    let cost = sampler.map(bench_hardware::Sampler::stop);
    let held_up = recorder.recorder.held_up();
    let kept = recorder.close();
    let (seen, failed) = match measured {
        Ok(seen) => (seen, None),
        Err((seen, error)) => (seen, Some(error)),
    };
    run.conclude(&mut record, &seen, cost.as_ref(), failed.as_ref());
    own_up::own_up(&mut record, held_up, kept.as_ref().err());
    run.progress.finish();
    folder::write_run(&folder, &record)?;
    run.write_reports(&record, &folder);
    let trouble = failed
        .or(kept.err())
        .or_else(|| nothing_answered(&record, settings));
    Ok(Outcome::Done {
        record: Box::new(record),
        folder,
        trouble,
    })
}

/// A run in which nothing worked is an error, with the most frequent reason. Stopping answers on purpose is what was asked for.
fn nothing_answered(record: &RunRecord, settings: &Settings) -> Option<RunError> {
    let counts = || record.cells.iter().map(|cell| &cell.counts);
    let planned: u64 = counts().map(|counts| counts.planned).sum();
    let completed: u64 = counts().map(|counts| counts.completed).sum();
    let cancelled: u64 = counts().map(|counts| counts.cancelled).sum();
    let stopped = cancelled > 0 && settings.load.cancel_after.is_some();
    if planned == 0 || completed > 0 || stopped {
        return None;
    }
    let reason = counts()
        .flat_map(|counts| &counts.messages)
        .max_by_key(|(_, count)| *count);
    Some(RunError::NothingAnswered(reason.map_or_else(
        || "all were cut short or timed out".to_owned(),
        |(message, _)| message.clone(),
    )))
}

impl Run<'_> {
    /// Shards that are to start together wait for their instant.
    async fn wait_for_the_start(&self) {
        let at = self
            .settings
            .client
            .start_at
            .as_deref()
            .and_then(|text| wall_clock::parse_rfc3339(text).ok());
        if let Some(at) = at {
            self.progress
                .note(&format!("waiting for {}", wall_clock::rfc3339(at)));
            tokio::select! {
                () = self.stop.reached(crate::stop::Ending::Draining) => {}
                () = tokio::time::sleep(wall_clock::until(at)) => {}
            }
        }
    }

    /// One thread for each two CPUs: the kernel's stamps make a late read harmless, and the server may share this machine.
    fn worker_count(&self) -> u32 {
        let cpus =
            std::thread::available_parallelism().map_or(1, |n| u32::try_from(n.get()).unwrap_or(1));
        self.settings
            .client
            .workers
            .unwrap_or_else(|| (cpus / 2).clamp(1, 8))
    }

    fn write_reports(&self, record: &RunRecord, folder: &std::path::Path) {
        let reports = self.program.reports;
        let mut results = vec![
            folder::write_report(folder, "report.md", &(reports.markdown)(record))
                .map_err(|e| e.to_string()),
        ];
        if self.settings.output.html {
            let page = (reports.html)(record, folder);
            results.push(page.and_then(|page| {
                folder::write_report(folder, "report.html", &page).map_err(|e| e.to_string())
            }));
        }
        for error in results.into_iter().filter_map(Result::err) {
            crate::console::note(&format!(
                "warning: a report could not be written: {error}; run.json has everything"
            ));
        }
    }

    /// All cells of the design, empty: what was planned, should the program be killed.
    fn blank_record(&self, cells: &[Cell]) -> RunRecord {
        conclude::blank(self, cells)
    }
}
