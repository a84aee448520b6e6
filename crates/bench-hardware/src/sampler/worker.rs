//! One thread: its sources, its ticks.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, TrySendError};
use std::time::Duration;

use bench_schema::{Nanos, Reading, ReadingSource, Stamp};

use super::thread_cpu;
use super::{Clock, Source, SourceCost};
use crate::config::{Gpus, SamplerConfig};
use crate::gpu::GpuSource;
use crate::host::HostSource;
use crate::process::ProcessSource;
use crate::query::QuerySource;
use crate::scrape::{Fetch, FetchLimits};
use crate::scrape::{ScrapeKind, ScrapeSource};

/// What travels to the thread that calls the sink.
pub(super) enum Parcel {
    Reading(Box<Reading>),
    /// Everything before this has been handed on: to be said to whoever waits for it.
    Mark(Sender<()>),
    End,
}

/// What a worker is told between its ticks. It ends when nobody can tell it anything any more.
pub(super) enum Order {
    /// Read now; the answer follows the readings.
    Read(Sender<()>),
}

/// The shortest period: below it the sampler would be the load.
const SHORTEST: Duration = Duration::from_millis(10);

/// How often a worker says what it has cost so far.
const COST_EVERY: Nanos = Nanos::from_secs(1);

/// Sources that are read one after the other on one thread.
pub(super) struct Worker {
    name: String,
    every: Duration,
    sources: Vec<Box<dyn Source>>,
}

/// The workers that `config` asks for.
pub(super) fn all(config: &SamplerConfig, fetch: &Arc<dyn Fetch>) -> Vec<Worker> {
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
        (ScrapeKind::Server, config.server_metrics.as_slice()),
        (ScrapeKind::Dcgm, config.dcgm.as_slice()),
    ];
    for (kind, urls) in pages {
        for url in urls {
            let source = ScrapeSource::new(kind, url, fetch.clone(), limits);
            workers.push(Worker::new(config.scrape_every, vec![Box::new(source)]));
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
            name: first.map_or_else(String::new, |source| source.name().to_owned()),
            every: every.max(SHORTEST),
            sources,
        }
    }

    /// The name of its thread, unique within a sampler: its number and the kind of its first source.
    pub(super) fn name(&self) -> String {
        self.name.clone()
    }

    /// Read at every tick until told to stop, then once more.
    pub(super) fn run(
        mut self,
        now: &Clock,
        orders: &Receiver<Order>,
        queue: &SyncSender<Parcel>,
    ) -> Vec<SourceCost> {
        let worker = self.name();
        let mut costs: Vec<SourceCost> = self
            .sources
            .iter()
            .map(|source| SourceCost {
                source: source.name().to_owned(),
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
                Ok(Order::Read(first)) => {
                    // orders that waited for a slow source are all met by one reading
                    let waiting = orders.try_iter().map(|Order::Read(asker)| asker);
                    let askers: Vec<_> = std::iter::once(first).chain(waiting).collect();
                    self.tick(now, queue, &mut costs);
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
        for (source, cost) in self.sources.iter_mut().zip(costs) {
            let (began, cpu) = (now(), thread_cpu());
            source.read(now.as_ref(), &mut |reading| hand_on(reading, queue, cost));
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

/// Absolute due times from one start: a slow tick is followed by the next that is still ahead, and those between are counted.
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
        let due_by_now = (now - self.start).get() / self.every.get();
        let missed = (due_by_now - self.taken).max(0);
        self.taken += missed + 1;
        let due = self.start + Nanos::new(self.every.get().saturating_mul(self.taken));
        ((due - now).or_zero(), u64::try_from(missed).unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_keep_their_raster_and_count_those_that_passed_while_busy() {
        let mut ticks = Ticks::new(Stamp::new(1000), Nanos::new(100));
        assert_eq!(ticks.next(Stamp::new(1030)), (Nanos::new(70), 0));
        // woken at 1104, busy until 1390: 1200 and 1300 are missed, 1400 is next
        assert_eq!(ticks.next(Stamp::new(1390)), (Nanos::new(10), 2));
        assert_eq!(ticks.next(Stamp::new(1401)), (Nanos::new(99), 0));
    }

    #[test]
    fn a_clock_that_steps_back_only_waits_longer() {
        let mut ticks = Ticks::new(Stamp::new(1000), Nanos::new(100));
        assert_eq!(ticks.next(Stamp::new(900)), (Nanos::new(200), 0));
    }
}
