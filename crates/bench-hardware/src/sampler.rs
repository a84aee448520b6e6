//! The sampler: its own threads, which read, and one more, which hands the readings on.
//!
//! The host's readings, NVML and every scraped page have a thread each, so that a driver that hangs or a server that does not answer
//! delays only itself. Readings travel over a bounded queue to the thread that calls the sink; when that queue is full a reading
//! is dropped and counted, because waiting for a disk would falsify the windows.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, TrySendError};
use std::sync::{Arc, mpsc};
use std::thread;
use std::thread::JoinHandle;
use std::time::Duration;

use bench_schema::{Nanos, Reading, ReadingSource, Stamp};
use rustix::time::{ClockId, clock_gettime};

use crate::HardwareError;
use crate::config::{Gpus, SamplerConfig};
use crate::gpu::GpuSource;
use crate::host::HostSource;
use crate::process::ProcessSource;
use crate::query::QuerySource;
use crate::reading::{Named, Round};
use crate::scrape::{Fetch, FetchLimits, ScrapeSource};

/// The run's clock, as the sampler is given it.
pub(crate) type Clock = Arc<dyn Fn() -> Stamp + Send + Sync>;

/// Something that can be asked again and again.
pub(crate) trait Source: Send {
    /// What its readings come from, and its cost is booked under.
    fn source(&self) -> ReadingSource;

    /// Read once and hand on what was read.
    fn read(&mut self, round: &mut Round<'_>);

    /// CPU time that another thread has spent for it since this was last asked.
    fn cpu_elsewhere(&self) -> Nanos {
        Nanos::ZERO
    }

    /// What was found out on the way about the server, and does not change.
    fn facts(&self) -> BTreeMap<String, String> {
        BTreeMap::new()
    }
}

/// Readings that may wait for the sink. At the default rates this is minutes.
const QUEUE: usize = 4096;

/// How long [`Sampler::stop`] waits for a thread beyond its longest scrapes: a driver may hang for ever.
const GRACE: Duration = Duration::from_secs(2);

/// A running sampler. Dropping it without [`Sampler::stop`] stops its threads too, but loses the report.
///
/// ```
/// use std::sync::{Arc, mpsc};
/// use bench_hardware::{NoFetch, Sampler, SamplerConfig};
/// use bench_metrics::readings::{History, Work, summarise};
/// use bench_schema::{Nanos, Stamp, Window};
///
/// let epoch = std::time::Instant::now();
/// let now = move || Stamp::EPOCH + Nanos::from_duration(epoch.elapsed());
/// let (send, readings) = mpsc::channel();
/// let sink = move |reading| {
///     send.send(reading).ok();
/// };
/// let sampler = Sampler::start(&SamplerConfig::default(), now, Arc::new(NoFetch), sink)?;
/// // … the measurement …
/// let report = sampler.stop();
/// let mut history = History::default();
/// for reading in readings.try_iter() {
///     history.push(&reading);
/// }
/// let whole = Window { from: Stamp::EPOCH, to: now() };
/// let summary = history.summarise(&[whole], &Work::default());
/// assert!(report.cpu_share().is_some());
/// # assert!(!summary.resources.is_empty() || !summary.unknown.is_empty());
/// # Ok::<(), bench_hardware::HardwareError>(())
/// ```
pub struct Sampler {
    workers: Vec<(String, Sender<Asker>, JoinHandle<()>)>,
    reports: Receiver<Vec<SourceCost>>,
    queue: SyncSender<Parcel>,
    collector: JoinHandle<()>,
    patience: Duration,
    started: Stamp,
    now: Clock,
}

/// What a sampler cost and what it did not get.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct SamplerReport {
    /// From start to stop.
    pub lasted: Nanos,
    /// Each source: its CPU time, its readings, the ticks that it missed.
    pub sources: Vec<SourceCost>,
    /// What the sampler itself could not do, and why: a thread that did not end, a sink that panicked.
    pub unknown: BTreeMap<String, String>,
}

impl SamplerReport {
    /// CPU time of all sources.
    pub fn cpu(&self) -> Nanos {
        self.sources.iter().map(|source| source.cpu).sum()
    }

    /// CPU time over the time it ran: 0.01 is one percent of one core. `None` where it ran for no time.
    pub fn cpu_share(&self) -> Option<f64> {
        (self.lasted > Nanos::ZERO).then(|| self.cpu().as_f64() / self.lasted.as_f64())
    }

    /// What pages told of the server itself, in its own words: `block_size`, `gpu_memory_utilization`, `gpus`, …
    pub fn server_facts(&self) -> BTreeMap<String, String> {
        let facts = self.sources.iter().map(|source| source.facts.clone());
        facts.flatten().collect()
    }

    /// Readings that were dropped because the sink did not keep up.
    pub fn dropped(&self) -> u64 {
        self.sources.iter().map(|source| source.dropped).sum()
    }

    /// Ticks that passed while a source was still busy with an earlier one.
    pub fn missed_ticks(&self) -> u64 {
        self.sources.iter().map(|source| source.missed_ticks).sum()
    }
}

impl Sampler {
    /// Start reading. Every source is read at once, then at its period, and a last time when it is stopped.
    ///
    /// `now` is the run's clock; `fetch` brings the pages; `sink` gets each reading, in the order of arrival (not of `from`), on a
    /// thread of its own. A source that is absent (no GPU, no such process) says so in a reading.
    ///
    /// # Errors
    /// [`HardwareError::Thread`] where the system gives no thread.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "the sampler's threads share it, and callers have no further use for theirs"
    )]
    pub fn start(
        config: &SamplerConfig,
        now: impl Fn() -> Stamp + Send + Sync + 'static,
        fetch: Arc<dyn Fetch>,
        mut sink: impl FnMut(Reading) + Send + 'static,
    ) -> Result<Self, HardwareError> {
        let now: Clock = Arc::new(now);
        let started = now();
        let (queue, parcels) = mpsc::sync_channel(QUEUE);
        let collector = spawn("collector", move || collect(&parcels, &mut sink))?;
        let (report, reports) = mpsc::channel();
        let mut workers = Vec::new();
        for worker in wanted(config, &fetch) {
            let (tell, orders) = mpsc::channel();
            let (name, now, queue, report) = (
                worker.name.clone(),
                now.clone(),
                queue.clone(),
                report.clone(),
            );
            let run = move || {
                // The report is only missed where the sampler has been dropped.
                report.send(worker.run(&now, &orders, &queue)).ok();
            };
            workers.push((name.clone(), tell, spawn(&name, run)?));
        }
        Ok(Self {
            workers,
            reports,
            queue,
            collector,
            // a page in progress, and the last one
            patience: config.scrape_timeout * 2 + GRACE,
            started,
            now,
        })
    }

    /// Read everything now, beside the usual ticks, and wait until the sink has had it: a window that ends now then ends within
    /// readings. Waits for at most `patience`, for a page that does not answer must not hold up a measurement.
    pub fn read_now(&self, patience: Duration) {
        let (done, answers) = mpsc::channel();
        for (_, tell, _) in &self.workers {
            // A worker that has panicked is told of when the sampler stops.
            tell.send(done.clone()).ok();
        }
        drop(done);
        let until = (self.now)() + Nanos::from_duration(patience);
        let left = || (until - (self.now)()).or_zero().to_duration();
        while answers.recv_timeout(left()).is_ok() {}
    }

    /// Read a last time, stop, and say what it cost. Waits for a scrape in progress and the last one at most as long as they may take, and
    /// leaves behind a thread that hangs in a driver.
    pub fn stop(self) -> SamplerReport {
        let mut report = SamplerReport::default();
        let threads = self
            .workers
            .into_iter()
            .map(|(name, _, thread)| (name, thread));
        let threads: Vec<_> = threads.collect();
        // Each thread reports once and then ends; one that panicked ends without.
        let all_ended = loop {
            match self.reports.recv_timeout(self.patience) {
                Ok(sources) => report.sources.extend(sources),
                Err(RecvTimeoutError::Timeout) => break false,
                Err(RecvTimeoutError::Disconnected) => break true,
            }
        };
        for (name, thread) in threads {
            let reported = report.sources.iter().any(|source| source.worker == name);
            if !(reported || all_ended) {
                let why = "its thread did not stop and was abandoned";
                report.unknown.insert(name, why.to_owned());
            } else if thread.join().is_err() {
                let why = "its thread panicked; please report this";
                report.unknown.insert(name, why.to_owned());
            }
        }
        // A hanging worker still holds a sender, so the end has to be said.
        self.queue.send(Parcel::End).ok();
        if self.collector.join().is_err() {
            let why = "it panicked; later readings are lost";
            report.unknown.insert("sink".to_owned(), why.to_owned());
        }
        report.lasted = (self.now)() - self.started;
        report
    }
}

fn collect(parcels: &Receiver<Parcel>, sink: &mut impl FnMut(Reading)) {
    while let Ok(parcel) = parcels.recv() {
        match parcel {
            Parcel::Reading(reading) => sink(*reading),
            Parcel::Mark(asker) => drop(asker.send(())),
            Parcel::End => break,
        }
    }
}

/// Lower the calling thread's priority, where the kernel lets a thread do that: the threads that watch and write a measurement
/// are not to hold up the ones that make it, when they have to share a processor.
pub fn give_way() {
    /// About a tenth of the share of a thread that has not given way.
    #[cfg(target_os = "linux")]
    const NICENESS: i32 = 10;
    // On Linux "this process" is this thread. A refusal changes nothing that is measured.
    #[cfg(target_os = "linux")]
    let _refused = rustix::process::setpriority_process(None, NICENESS);
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, HardwareError> {
    thread::Builder::new()
        .name(format!("hw-{name}"))
        .spawn(|| {
            give_way();
            run();
        })
        .map_err(|source| HardwareError::Thread {
            worker: name.to_owned(),
            source,
        })
}

// One thread: its sources, its ticks.

/// What travels to the thread that calls the sink.
enum Parcel {
    Reading(Box<Reading>),
    /// Everything before this has been handed on: to be said to whoever waits for it.
    Mark(Asker),
    End,
}

/// Asks a worker between its ticks to read now; the answer follows the readings. It ends when nobody can ask it any more.
type Asker = Sender<()>;

/// The shortest period: below it the sampler would be the load.
const SHORTEST: Duration = Duration::from_millis(10);

/// How often what changes slowly, or costs more, is read too: about once a second.
const WHOLE_EVERY: Nanos = Nanos::from_millis(990);

/// How often a worker says what it has cost so far.
const COST_EVERY: Nanos = Nanos::from_secs(1);

/// Sources that are read one after the other on one thread.
struct Worker {
    /// Of its thread, unique within a sampler: its number and the kind of its first source.
    name: String,
    every: Duration,
    sources: Vec<Box<dyn Source>>,
    /// When what changes slowly, or costs more, was last read too.
    whole: Option<Stamp>,
    named: Named,
}

fn wanted(config: &SamplerConfig, fetch: &Arc<dyn Fetch>) -> Vec<Worker> {
    let mut host: Vec<Box<dyn Source>> = vec![
        Box::new(HostSource::new()),
        Box::new(ProcessSource::client()),
    ];
    host.extend(
        config
            .server
            .map(|target| Box::new(ProcessSource::server(target)) as Box<dyn Source>),
    );
    let mut workers = vec![Worker::new(config.host_every, host)];
    let gpu_every = match config.gpus {
        Gpus::Read { .. } => config.gpu_every,
        // There is one thing to say, once.
        Gpus::LeftOut(_) => config.scrape_every,
    };
    let gpus = GpuSource::new(config.gpus.clone());
    workers.push(Worker::new(gpu_every, vec![Box::new(gpus)]));
    let limits = FetchLimits {
        timeout: config.scrape_timeout,
        max_bytes: config.scrape_max_bytes,
    };
    let pages = [
        (
            ReadingSource::ServerMetrics,
            config.server_metrics.as_slice(),
        ),
        (ReadingSource::Dcgm, config.dcgm.as_slice()),
    ];
    for (source, urls) in pages {
        for url in urls {
            let page = ScrapeSource::new(source, url, fetch.clone(), limits);
            workers.push(Worker::new(config.scrape_every, vec![Box::new(page)]));
        }
    }
    if let Some(queries) = &config.prometheus {
        let source = QuerySource::new(queries, fetch.clone(), limits);
        workers.push(Worker::new(config.scrape_every, vec![Box::new(source)]));
    }
    for (index, worker) in workers.iter_mut().enumerate() {
        worker.name = format!("{index}-{}", worker.name);
    }
    workers
}

impl Worker {
    fn new(every: Duration, sources: Vec<Box<dyn Source>>) -> Self {
        let first = sources.first();
        Self {
            name: first.map_or_else(String::new, |source| source.source().to_string()),
            every: every.max(SHORTEST),
            sources,
            whole: None,
            named: Named::default(),
        }
    }

    /// Read at every tick until told to stop, then once more.
    fn run(
        mut self,
        now: &Clock,
        orders: &Receiver<Asker>,
        queue: &SyncSender<Parcel>,
    ) -> Vec<SourceCost> {
        let worker = self.name.clone();
        let mut costs: Vec<SourceCost> = self
            .sources
            .iter()
            .map(|source| SourceCost {
                source: source.source().to_string(),
                worker: worker.clone(),
                ..SourceCost::default()
            })
            .collect();
        let mut ticks = Ticks::new(now(), Nanos::from_duration(self.every));
        let mut last_cost = now() - COST_EVERY;
        self.tick(now, queue, &mut costs);
        loop {
            if now() - last_cost >= COST_EVERY {
                last_cost = now();
                report_cost(now, queue, &mut costs);
            }
            let (wait, missed) = ticks.next(now());
            for cost in &mut costs {
                cost.missed_ticks += missed;
            }
            match orders.recv_timeout(wait.to_duration()) {
                Err(RecvTimeoutError::Timeout) => self.tick(now, queue, &mut costs),
                Ok(first) => {
                    // orders that waited for a slow source are all met by one reading
                    let askers: Vec<_> = std::iter::once(first).chain(orders.try_iter()).collect();
                    self.whole = None;
                    self.tick(now, queue, &mut costs);
                    last_cost = now();
                    report_cost(now, queue, &mut costs);
                    for asker in askers {
                        // A full queue is not waited for: the asker has patience, and no more than that.
                        let _full = queue.try_send(Parcel::Mark(asker));
                    }
                }
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        self.tick(now, queue, &mut costs);
        report_cost(now, queue, &mut costs);
        for (source, cost) in self.sources.iter().zip(&mut costs) {
            cost.facts = source.facts();
        }
        costs
    }

    fn tick(&mut self, now: &Clock, queue: &SyncSender<Parcel>, costs: &mut [SourceCost]) {
        let due = |last: Stamp| now() - last >= WHOLE_EVERY;
        let whole = self.whole.is_none_or(due);
        if whole {
            self.whole = Some(now());
        }
        for (source, cost) in self.sources.iter_mut().zip(costs) {
            let (began, cpu) = (now(), thread_cpu());
            source.read(&mut Round {
                now: now.as_ref(),
                whole,
                named: &mut self.named,
                emit: &mut |reading| hand_on(reading, queue, cost),
            });
            cost.cpu += thread_cpu() - cpu + source.cpu_elsewhere();
            cost.ticks += 1;
            cost.longest = cost.longest.max(now() - began);
        }
    }
}

fn hand_on(reading: Reading, queue: &SyncSender<Parcel>, cost: &mut SourceCost) {
    match queue.try_send(Parcel::Reading(Box::new(reading))) {
        Ok(()) => cost.readings += 1,
        Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => cost.dropped += 1,
    }
}

/// The sampler's own cost is a series like any other, so that each cell's window has its share of it.
fn report_cost(now: &Clock, queue: &SyncSender<Parcel>, costs: &mut [SourceCost]) {
    for cost in costs {
        let at = now();
        let values = [
            ("cpu_s_total", cost.cpu.as_secs_f64()),
            ("readings_total", cost.readings as f64),
            ("dropped_readings_total", cost.dropped as f64),
            ("missed_ticks_total", cost.missed_ticks as f64),
        ];
        let reading = Reading {
            from: at,
            to: at,
            source: ReadingSource::Client,
            instance: format!("sampler.{}", cost.source),
            values: values.map(|(name, v)| (name.to_owned(), v)).into(),
            unknown: [].into(),
        };
        hand_on(reading, queue, cost);
    }
}

/// Absolute due times from one start, one in each period and each at another part of it, so that what happens at even intervals is met. A slow tick is
/// followed by the next that is still ahead, and those between are counted.
struct Ticks {
    start: Stamp,
    every: Nanos,
    taken: i64,
}

impl Ticks {
    fn new(start: Stamp, every: Nanos) -> Self {
        Self {
            start,
            every: every.max(Nanos::new(1)),
            taken: 0,
        }
    }

    /// How long to wait for the next tick, and how many were missed by now.
    fn next(&mut self, now: Stamp) -> (Nanos, u64) {
        let by_now = (now - self.start).get() / self.every.get();
        let ahead = by_now + i64::from(self.due(by_now) <= now);
        let missed = (ahead - self.taken - 1).max(0);
        self.taken += missed + 1;
        let wait = (self.due(self.taken) - now).or_zero();
        (wait, u64::try_from(missed).unwrap_or(0))
    }

    /// Within its period at a multiple of the golden section, which comes near every part of it soon.
    fn due(&self, tick: i64) -> Stamp {
        let part = (tick as f64 * 0.381_966_011_250_105).fract();
        let whole = Nanos::new(self.every.get().saturating_mul(tick));
        self.start + whole + Nanos::from_f64(self.every.as_f64() * part)
    }
}

// What a source costs, measured with the thread's own CPU clock.

/// What one source cost from start to stop.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SourceCost {
    /// `host`, `client`, `server_process`, `gpu`, `server_metrics`, `dcgm`, `prometheus`.
    pub source: String,
    /// The thread it shares with others, or has for itself.
    pub worker: String,
    /// CPU time spent in reading (for scrapes: fetching, parsing and mapping).
    pub cpu: Nanos,
    /// Times it was asked.
    pub ticks: u64,
    /// Ticks that passed while the thread was still busy.
    pub missed_ticks: u64,
    /// Readings handed on.
    pub readings: u64,
    /// Readings dropped because the queue to the sink was full.
    pub dropped: u64,
    /// What it found out about the server.
    pub facts: BTreeMap<String, String>,
    /// The longest time one tick took on the run's clock, waiting included.
    pub longest: Nanos,
}

/// CPU time of the calling thread.
pub(crate) fn thread_cpu() -> Nanos {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Nanos::from_secs(time.tv_sec) + Nanos::new(time.tv_nsec)
}

#[cfg(test)]
#[path = "../tests/unit/sampler.rs"]
mod tests;
