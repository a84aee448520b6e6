//! A run from beginning to end. Read [`carry_out`] for the order of things.

mod cells;
mod cells_file;
mod conclude;
mod dry;
mod meeting;
mod phases;
mod preflight;
mod prepare;
mod reset;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use bench_client::{Clock, RequestEncoder};
use bench_insight::{Asked, CellSamples};
use bench_schema::RunRecord;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::RunError;
use crate::config::{Live, Settings};
use crate::entry::{Cell, Engine, Program};
use crate::folder::RunDirectory;
use crate::launch::Launched;
use crate::live_metrics::{self, LiveMetrics};
use crate::meet::Meeting;
use crate::open_record::AnswerTexts;
use crate::otlp::{Pusher, Pushing};
use crate::planner::Planner;
use crate::progress::Progress;
use crate::recorder::{Recorder, RecorderThread};
use crate::redact::{self, Secrets};
use crate::screen::{Screen, Watched};
use crate::server::Server;
use crate::stop::{self, Deadline, Signals, Stop, was_interrupted};
use crate::worker_pool::WorkerPool;

use meeting::{Together, compare_clocks};

/// What came of it.
pub(crate) enum Outcome {
    /// A dry run: the plan as text.
    Planned(String),
    /// A run, whole or cut short.
    Done {
        /// The results.
        record: Arc<RunRecord>,
        /// Where they lie.
        folder: PathBuf,
        /// Whether shard 0 shows and judges it, with the parts of the others.
        is_part: bool,
        /// What went wrong although there are results.
        trouble: Option<RunError>,
        /// Its single requests, of a turn of two sides: these are compared request by request.
        samples: Vec<CellSamples>,
    },
}

/// Everything that is alive during a run.
pub(crate) struct Run<'a> {
    program: &'a Program,
    settings: &'a Settings,
    secrets: Secrets,
    /// Kept alive: dropping it stops the engine.
    engine: Option<Engine>,
    /// Likewise a server that was started for this run.
    launched: Option<Launched>,
    /// Where it listens, as it is connected to.
    urls: Vec<String>,
    server: Server,
    token_counter: Arc<dyn bench_workload::TokenCounter>,
    started: SystemTime,
    clock: Clock,
    stop: Stop,
    progress: Progress,
    /// Where somebody may scrape it.
    live: Option<Arc<LiveMetrics>>,
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
    let whole = carry_out(program, settings);
    tokio::task::LocalSet::new().block_on(&runtime, whole)
}

/// How far it is before there is a folder.
enum Begun<'a> {
    Planned(String),
    Ready(Box<Ready<'a>>),
}

/// What a run begins with.
type Ready<'a> = (
    Run<'a>,
    Vec<Cell>,
    WorkerPool,
    Option<TcpListener>,
    Option<Meeting>,
);

/// Everything before the first folder: what has to be started, found and asked, and who is to be met.
async fn begin<'a>(program: &'a Program, settings: &'a Settings) -> Result<Begun<'a>, RunError> {
    let (mut run, cells) = Run::prepare(program, settings).await?;
    if settings.output.dry_run {
        return run.plan_as_text(&cells).map(Begun::Planned);
    }
    let listener = match settings.output.metrics_listen {
        Some(address) => Some(live_metrics::listen(address).await?),
        None => None,
    };
    let pool = WorkerPool::start(
        (run.worker_count(), settings.client.part().0),
        &run.server.target,
        &run.clock,
        settings.client.late_read,
    )?;
    if let Err(error) = run.preflight(&pool).await {
        return Err(run.told_by_the_server(error));
    }
    let meeting = run.roll_call(&cells).await?;
    Ok(Begun::Ready(Box::new((
        run, cells, pool, listener, meeting,
    ))))
}

#[expect(
    clippy::too_many_lines,
    reason = "the order of things, read from top to bottom"
)]
async fn carry_out(program: &Program, settings: &Settings) -> Result<Outcome, RunError> {
    let mut signals = Signals::listen();
    let mut deadline = Deadline::of(&settings.limits);
    let begun = tokio::select! {
        begun = begin(program, settings) => begun?,
        // whatever was started ends with what is dropped here
        who = signals.next() => return Err(RunError::Interrupted(who)),
        after = deadline.over() => return Err(RunError::DeadlineOver(after)),
    };
    let (mut run, cells, mut pool, listener, mut meeting) = match begun {
        Begun::Planned(plan) => return Ok(Outcome::Planned(plan)),
        Begun::Ready(ready) => *ready,
    };
    let directory = RunDirectory::create(settings, run.started, run.progress.clone())?;
    let directory = Arc::new(directory);
    if let (Some(told), (index, count)) = (&settings.client.shard_told, settings.client.part()) {
        run.progress.note(&format!(
            "{told}: this is shard {index}/{count}; it writes to {}",
            directory.name().display()
        ));
    }
    let mut record = conclude::blank(&run, &cells);
    compare_clocks(&mut record.clock, meeting.as_ref());
    if let Some(meeting) = &mut meeting {
        meeting.writes_to(directory.name().display().to_string());
    }
    run.secrets.hide_in_run(&mut record);
    directory.begin(&record)?;
    let watches = run.wants_a_screen();
    if listener.is_some() || watches || settings.output.otlp.is_some() {
        let live = LiveMetrics::new(&record, &run.progress.counters());
        run.live = Some(Arc::new(live));
    }
    let _serving = listener.map(|listener| run.serve_metrics(listener));
    let pushing = run.push_metrics();

    let workload = &settings.workload;
    let counter = (workload.tokenizer.as_ref()).map(|_| Arc::clone(&run.token_counter));
    let texts = AnswerTexts {
        counter: counter.clone(),
        keep: workload.keep_text,
    };
    let recorder = RecorderThread::start(
        &directory,
        run.clock.clone(),
        run.secrets.clone(),
        texts,
        run.live.clone(),
    )?;
    let sampler = run.start_sampler(&recorder.recorder)?;
    let encoder = RequestEncoder::new(&run.server.target)?;
    let planner = Planner::start(encoder, run.server.chat, counter)?;
    let grace = settings.limits.grace.to_duration();
    let screen = watches.then(|| run.screen(&record, &cells, &recorder.recorder));
    let (screen, signals) = match screen.flatten() {
        Some((screen, keys)) => (Some(screen), signals.or_keys(keys)),
        None => (None, signals),
    };
    let ending = stop::watch_for_the_end(&run.stop, (signals, deadline, grace), &run.progress);

    run.wait_for_the_start().await;
    let mut signals = None;
    let measured = run
        .all_cells(
            &cells,
            cells::Tools {
                pool: &mut pool,
                planner: planner.handle(),
                recorder: &recorder.recorder,
                sampler: sampler.as_ref(),
                meeting: meeting.as_mut(),
                cells: cells.len(),
                // The settings were checked; what cannot be read all the same is told when the run is concluded.
                asked: Asked::of(&record.config).unwrap_or_default(),
                signals: &mut signals,
            },
            &directory,
            &mut record,
        )
        .await;

    // from here on Ctrl-C is a signal again
    drop(screen);
    let signals = signals.unwrap_or_else(Signals::listen);
    drop(ending);
    pool.finish();
    drop(planner);
    let cost = sampler.map(bench_hardware::Sampler::stop);
    let held_up = recorder.recorder.held_up();
    let (journal, lost) = recorder.close();
    record.journal = journal;
    if let Some(pushing) = pushing {
        pushing.finish().await;
    }
    let (seen, failed) = match measured {
        Ok(seen) => (seen, None),
        Err((seen, error)) => (seen, Some(error)),
    };
    let failed = failed.or_else(|| run.server_ended());
    compare_clocks(&mut record.clock, meeting.as_ref());
    let kept = seen.iter().filter(|_| settings.versus.is_asked());
    let requests = kept.map(|cell| cell.samples.clone()).collect();
    run.conclude(&mut record, seen, cost.as_ref(), failed.as_ref());
    let ids: Vec<String> = record.cells.iter().map(|cell| cell.id.clone()).collect();
    record
        .trust
        .add(meeting.iter().flat_map(|met| met.doubts(&ids)));
    conclude::recorder_trust(&mut record, held_up, &lost);
    run.progress.finish();
    run.secrets.hide_in_run(&mut record);
    // what cannot be stored is shown all the same
    let stored = directory.write_run(&record);
    let folder = directory.name();
    let stored = stored.map_err(|error| RunError::NotStored(folder.clone(), Box::new(error)));
    let (mut record, mut folder, mut is_part) = (Arc::new(record), folder, false);
    let no_report = run.write_reports(&record, &directory, signals).await;
    if let Some(meeting) = meeting {
        match run.together(meeting).await {
            Together::Apart => {}
            Together::Elsewhere => is_part = true,
            Together::Merged(whole, at) => (record, folder) = (Arc::from(whole), at),
        }
    }
    let troubles = failed.into_iter().chain(stored.err()).chain(lost);
    let mut troubles = troubles.chain(no_report);
    let trouble = troubles
        .next()
        .or_else(|| nothing_answered(&record, settings));
    troubles.for_each(|also| run.progress.note(&redact::told(&also)));
    Ok(Outcome::Done {
        record,
        folder,
        is_part,
        trouble,
        samples: requests,
    })
}

/// A run in which nothing worked is an error, with the most frequent reason. Stopping answers on purpose is what was asked for, and so is
/// ending the run before its first answer.
fn nothing_answered(record: &RunRecord, settings: &Settings) -> Option<RunError> {
    let counts = || record.cells.iter().map(|cell| &cell.counts);
    let planned: u64 = counts().map(|counts| counts.planned).sum();
    let completed: u64 = counts().map(|counts| counts.completed).sum();
    let cancelled: u64 = counts().map(|counts| counts.cancelled).sum();
    let stopped = cancelled > 0 && settings.load.cancel_after.is_some();
    let ended = record
        .cells
        .iter()
        .find_map(|cell| cell.ended_early.clone());
    if completed > 0 || stopped || was_interrupted(record) || (planned == 0 && ended.is_none()) {
        return None;
    }
    let reason = counts()
        .flat_map(|counts| &counts.messages)
        .max_by_key(|(_, count)| *count);
    let reason = reason.map(|(message, _)| message.clone()).or(ended);
    Some(RunError::NothingAnswered(reason.unwrap_or_else(|| {
        "all requests were truncated or timed out".to_owned()
    })))
}

impl Run<'_> {
    /// Let whoever wants scrape what is counted, until what this returns is dropped.
    fn serve_metrics(&self, listener: TcpListener) -> JoinSet<()> {
        if let Some(url) = live_metrics::url(&listener) {
            self.progress.note(&format!("metrics of this run: {url}"));
        }
        let mut serving = JoinSet::new();
        if let Some(live) = &self.live {
            serving.spawn_local(Arc::clone(live).serve(listener));
        }
        serving
    }

    /// Push what is counted to the collector that was named, until what this returns is finished or dropped.
    fn push_metrics(&self) -> Option<Pushing> {
        let to = self.settings.output.otlp.as_ref()?;
        let (fetcher, live) = (self.server.fetcher.clone()?, self.live.clone()?);
        let whose = (self.clock.clone(), self.progress.clone());
        Some(Pusher::new(to, fetcher, live, whose).start())
    }

    /// Whether there is to be a screen, now or once the run has lasted a while.
    fn wants_a_screen(&self) -> bool {
        self.settings.output.live != Live::No && self.progress.is_drawn()
    }

    /// The live screen, and where it says that a key is to end the run.
    fn screen(
        &self,
        record: &RunRecord,
        cells: &[Cell],
        recorder: &Recorder,
    ) -> Option<(Screen, mpsc::Receiver<&'static str>)> {
        let load = &self.settings.load;
        let lengths = cells.iter().map(|cell| phases::whole_cell(cell, load));
        let server = &record.server;
        let of = server.model.iter().chain(&server.urls);
        let of: Vec<&str> = of.map(String::as_str).collect();
        let watched = Watched {
            title: format!("{} · {}", record.tool.name, of.join(" · ")),
            cells: (!load.find_capacity).then(|| lengths.collect()),
            live: Arc::clone(self.live.as_ref()?),
            progress: self.progress.clone(),
            recorder: recorder.clone(),
            clock: self.clock.clone(),
        };
        Some(Screen::start(watched, self.settings.output.live))
    }

    /// That a server which was started for this run has ended by itself, if it has.
    fn server_ended(&mut self) -> Option<RunError> {
        let launched = self.launched.as_mut()?;
        let error = launched.ended()?;
        Some(launched.with_log(error))
    }

    /// An error with what a server that was started for this run said last.
    fn told_by_the_server(&mut self, error: RunError) -> RunError {
        match &mut self.launched {
            Some(launched) => {
                let error = launched.ended().unwrap_or(error);
                launched.with_log(error)
            }
            None => error,
        }
    }

    /// Shards that are to start together wait for their instant.
    async fn wait_for_the_start(&self) {
        let told = self.settings.client.start_at.as_deref();
        let at = told.and_then(|text| humantime::parse_rfc3339(text).ok());
        if let Some(at) = at {
            self.progress.note(&format!("waiting for {}", rfc3339(at)));
            let left = at.duration_since(wall_clock()).unwrap_or_default();
            tokio::select! {
                () = self.stop.reached(stop::Ending::Draining) => {}
                () = tokio::time::sleep(left) => {}
            }
        }
    }

    /// One thread for each two CPUs: the kernel's stamps make a late read harmless, and the server may share this machine.
    pub(crate) fn worker_count(&self) -> u32 {
        let cpus =
            std::thread::available_parallelism().map_or(1, |n| u32::try_from(n.get()).unwrap_or(1));
        self.settings
            .client
            .workers
            .unwrap_or_else(|| (cpus / 2).clamp(1, 8))
    }

    /// Make the reports, and return what went wrong. The page takes longest, on a thread of its own: who wants the program to end now need not wait for it.
    async fn write_reports(
        &self,
        record: &Arc<RunRecord>,
        directory: &Arc<RunDirectory>,
        mut signals: Signals,
    ) -> Option<RunError> {
        let reports = self.program.reports;
        let markdown = directory.write("report.md", &(reports.markdown)(record));
        let (page_of, place) = (Arc::clone(record), Arc::clone(directory));
        let make = move || {
            let page = (reports.html)(&page_of, &place.name()).map_err(RunError::Client)?;
            place.write("report.html", &page)
        };
        let page = async {
            if !self.settings.output.html {
                return Ok(());
            }
            tokio::select! {
                written = aside("report", make) => written.flatten(),
                who = signals.next() => {
                    self.progress.note(&format!(
                        "{who}: report.html was not written; run `bench-report render {}` to write it",
                        directory.name().display()
                    ));
                    Ok(())
                }
            }
        };
        let written = page.await.and(markdown);
        written
            .err()
            .map(|error| RunError::NoReport(directory.name(), Box::new(error)))
    }
}

/// Work that waits for something else than this thread's own tasks, on a thread with this name: signals and the deadline are heard meanwhile. Who
/// does not wait for it leaves it to itself.
fn aside<T: Send + 'static>(
    name: &'static str,
    work: impl FnOnce() -> T + Send + 'static,
) -> impl Future<Output = Result<T, RunError>> {
    let (say, done) = tokio::sync::oneshot::channel();
    let started = std::thread::Builder::new()
        .name(name.to_owned())
        // nobody listens any more where the program is to end
        .spawn(move || drop(say.send(work())));
    async move {
        started.map_err(RunError::Thread)?;
        done.await.map_err(|_| RunError::AsideGone(name.to_owned()))
    }
}

/// The wall clock: read once when a run starts, and to start shards together.
#[expect(
    clippy::disallowed_methods,
    reason = "this is the one place where the wall clock is read"
)]
pub(crate) fn wall_clock() -> SystemTime {
    SystemTime::now()
}

/// RFC 3339 in UTC, to the second: `2026-01-28T17:46:28Z`.
pub(crate) fn rfc3339(at: SystemTime) -> String {
    humantime::format_rfc3339_seconds(at).to_string()
}

#[cfg(test)]
#[path = "../tests/unit/run.rs"]
mod tests;
