//! The sampler: its own threads, which read, and one more, which hands the readings on.
//!
//! The host's readings, NVML and every scraped page have a thread each, so that a driver that hangs or a server that does not answer
//! delays only itself. Readings travel over a bounded queue to the thread that calls the sink; when that queue is full a reading
//! is dropped and counted, because waiting for a disk would falsify the windows.

mod worker;

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender};
use std::sync::{Arc, mpsc};
use std::thread;
use std::thread::JoinHandle;
use std::time::Duration;

use bench_schema::{Nanos, Reading, Stamp};
use rustix::time::{ClockId, clock_gettime};

use crate::config::SamplerConfig;
use crate::error::HardwareError;
use crate::scrape::Fetch;
use worker::{Order, Parcel};

/// The run's clock, as the sampler is given it.
pub(crate) type Clock = Arc<dyn Fn() -> Stamp + Send + Sync>;

/// Something that can be asked again and again.
pub(crate) trait Source: Send {
    /// What its cost is booked under: `host`, `client`, `gpu`, …
    fn name(&self) -> &'static str;

    /// Read once and hand on what was read.
    fn read(&mut self, now: &dyn Fn() -> Stamp, emit: &mut dyn FnMut(Reading));

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

/// How long [`Sampler::stop`] waits for a thread beyond the longest scrape: a driver may hang for ever.
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
    workers: Vec<(String, Sender<Order>, JoinHandle<()>)>,
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
        let facts = self.sources.iter().flat_map(|source| &source.facts);
        facts
            .map(|(name, fact)| (name.clone(), fact.clone()))
            .collect()
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
        for worker in worker::all(config, &fetch) {
            let (tell, orders) = mpsc::channel();
            let (name, now, queue, report) =
                (worker.name(), now.clone(), queue.clone(), report.clone());
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
            patience: config.scrape_timeout + GRACE,
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
            tell.send(Order::Read(done.clone())).ok();
        }
        drop(done);
        let until = (self.now)() + Nanos::from_duration(patience);
        let left = || (until - (self.now)()).or_zero().to_duration();
        while answers.recv_timeout(left()).is_ok() {}
    }

    /// Read a last time, stop, and say what it cost. Waits for a scrape in progress at most as long as that may take, and
    /// leaves behind a thread that hangs in a driver.
    pub fn stop(self) -> SamplerReport {
        let mut report = SamplerReport::default();
        let mut names: Vec<String> = Vec::new();
        let mut threads = Vec::new();
        for (name, tell, thread) in self.workers {
            drop(tell);
            names.push(name);
            threads.push(thread);
        }
        // Each thread reports once and then ends; one that panicked ends without.
        let all_ended = loop {
            match self.reports.recv_timeout(self.patience) {
                Ok(sources) => report.sources.extend(sources),
                Err(RecvTimeoutError::Timeout) => break false,
                Err(RecvTimeoutError::Disconnected) => break true,
            }
        };
        for (name, thread) in names.into_iter().zip(threads) {
            let reported = report.sources.iter().any(|source| source.worker == name);
            if !(reported || all_ended) {
                let why = "its thread did not end when told to, and was left behind";
                report.unknown.insert(name, why.to_owned());
            } else if thread.join().is_err() {
                let why = "its thread panicked; please report this";
                report.unknown.insert(name, why.to_owned());
            }
        }
        // A hanging worker still holds a sender, so the end has to be said.
        self.queue.send(Parcel::End).ok();
        if self.collector.join().is_err() {
            let why = "it panicked, and readings after that are lost";
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
