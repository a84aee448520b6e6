//! The thread that keeps what was measured: it writes records and readings to the journals and adds them up, off the hot path.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, SyncSender, TrySendError};
use std::thread::JoinHandle;
use std::time::Duration;

use bench_client::Clock;
use bench_insight::CellConclusion;
use bench_schema::{JOURNAL_FILE, JournalFile, JournalPart, Nanos, Reading, RequestRecord, Stamp};

use crate::RunError;
use crate::folder::RunDirectory;
use crate::journal::{Journal, JournalError};
use crate::live_metrics::LiveMetrics;
use crate::meet::Ended;
use crate::open_record::AnswerTexts;
use crate::redact::Secrets;

/// Messages that may wait for the recorder; a request record is a few kilobytes.
const CAPACITY: usize = 1 << 15;
/// Size at which a journal goes on in another file.
const PART_BYTES: u64 = 256 << 20;
/// Longest time that something measured stays in memory only.
const FLUSH_EVERY: Duration = Duration::from_millis(500);
/// Longest time between two writings of what the journals hold: of a run that is killed, what came since cannot be checked.
const LIST_EVERY: Nanos = Nanos::from_secs(5);
/// How far before a cell its readings reach back: beyond the slowest period of the sampler's sources, so that a cell that begins between
/// two readings has both.
const LEAD: Nanos = Nanos::from_secs(2);
/// Pending bytes that are written at once.
const FLUSH_BYTES: usize = 4 << 20;

/// The running conclusion of one cell, and what ends it once it is precise enough.
pub(crate) struct CellAggregator {
    conclusion: CellConclusion,
    end: EndOfCell,
}

/// Who ends a cell once it is precise enough.
pub(crate) enum EndOfCell {
    /// This program by its own requests: this is set.
    Own(Arc<AtomicBool>),
    /// Shard 0 by those of all shards: they are put here.
    Pooled(Ended),
}

impl CellAggregator {
    pub(crate) fn new(conclusion: CellConclusion, end: EndOfCell) -> Self {
        Self { conclusion, end }
    }

    /// One request is over.
    pub(crate) fn request(&mut self, record: &RequestRecord) {
        self.conclusion.push(record);
        match &self.end {
            EndOfCell::Own(enough) if self.conclusion.is_enough() => {
                enough.store(true, Ordering::Relaxed);
            }
            EndOfCell::Own(_) => {}
            EndOfCell::Pooled(ended) => {
                if let Some(request) = self.conclusion.ended(record) {
                    ended.push(request);
                }
            }
        }
    }

    /// One reading was taken.
    pub(crate) fn reading(&mut self, reading: Arc<Reading>) {
        self.conclusion.push_reading(reading);
    }

    pub(crate) fn into_conclusion(self) -> CellConclusion {
        self.conclusion
    }
}

enum Message {
    Request(Box<RequestRecord>),
    Reading(Box<Reading>),
    Begin(Box<CellAggregator>),
    End(SyncSender<Option<Box<CellAggregator>>>),
    Close,
}

/// A handle to the recorder thread; cheap to clone.
///
/// Messages come out in the order in which they went in. Where the queue is full workers wait, for memory is not endless and a record must not
/// be lost; it is counted, and the run says so.
#[derive(Clone)]
pub(crate) struct Recorder {
    queue: SyncSender<Message>,
    held_up: Arc<AtomicU64>,
}

/// The running thread, and the way to end it.
pub(crate) struct RecorderThread {
    pub(crate) recorder: Recorder,
    thread: JoinHandle<(Vec<JournalPart>, Vec<JournalError>)>,
}

impl Recorder {
    pub(crate) fn request(&self, record: Box<RequestRecord>) {
        self.push(Message::Request(record));
    }

    pub(crate) fn reading(&self, reading: Reading) {
        self.push(Message::Reading(Box::new(reading)));
    }

    /// From now on, add up into `aggregator`.
    pub(crate) fn begin(&self, aggregator: CellAggregator) {
        self.push(Message::Begin(Box::new(aggregator)));
    }

    /// The aggregator of everything since [`Recorder::begin`]; waits until all of it has been seen.
    pub(crate) fn end(&self) -> Result<CellAggregator, RunError> {
        let (answer, receive) = mpsc::sync_channel(1);
        self.push(Message::End(answer));
        receive
            .recv()
            .ok()
            .flatten()
            .map(|aggregator| *aggregator)
            .ok_or(RunError::RecorderGone)
    }

    /// Messages that had to wait for room.
    pub(crate) fn held_up(&self) -> u64 {
        self.held_up.load(Ordering::Relaxed)
    }

    fn push(&self, message: Message) {
        if let Err(TrySendError::Full(message)) = self.queue.try_send(message) {
            self.held_up.fetch_add(1, Ordering::Relaxed);
            let _recorder_is_gone = self.queue.send(message);
        }
    }

    /// One that keeps requests in memory.
    #[cfg(test)]
    pub(crate) fn to_memory() -> (Self, Kept) {
        let (queue, inbox) = mpsc::sync_channel(CAPACITY);
        let recorder = Self {
            queue,
            held_up: Arc::default(),
        };
        (recorder, Kept(inbox))
    }
}

/// What was recorded in memory.
#[cfg(test)]
pub(crate) struct Kept(mpsc::Receiver<Message>);

#[cfg(test)]
impl Kept {
    /// Everything since this was last asked.
    pub(crate) fn take(&self) -> Vec<RequestRecord> {
        let requests = self.0.try_iter().filter_map(|message| match message {
            Message::Request(record) => Some(*record),
            _ => None,
        });
        requests.collect()
    }
}

impl RecorderThread {
    /// Create the journals in `directory` and start; trouble is said there as it happens. `secrets` are taken out of what servers said; `live` counts what is recorded.
    pub(crate) fn start(
        directory: &Arc<RunDirectory>,
        clock: Clock,
        secrets: Secrets,
        texts: AnswerTexts,
        live: Option<Arc<LiveMetrics>>,
    ) -> Result<Self, RunError> {
        let folder = directory.path()?;
        let requests = Journal::create(&folder, JournalFile::Requests, PART_BYTES)?;
        let readings = Journal::create(&folder, JournalFile::Readings, PART_BYTES)?;
        let (queue, inbox) = mpsc::sync_channel(CAPACITY);
        let recorder = Recorder {
            queue,
            held_up: Arc::default(),
        };
        let mut recorder_loop = RecorderLoop {
            directory: Arc::clone(directory),
            requests,
            readings,
            secrets,
            texts,
            live,
            aggregator: None,
            latest: VecDeque::new(),
            flushed: clock.now(),
            listed: (clock.now(), 0),
            clock,
        };
        recorder_loop.tell(recorder_loop.flushed);
        let thread = std::thread::Builder::new()
            .name("recorder".to_owned())
            .spawn(move || {
                bench_hardware::give_way();
                recorder_loop.work(&inbox)
            })
            .map_err(RunError::Thread)?;
        Ok(Self { recorder, thread })
    }

    /// Write everything and end. Tells what the journals hold, and what they lack.
    pub(crate) fn close(self) -> (Vec<JournalPart>, Vec<RunError>) {
        self.recorder.push(Message::Close);
        match self.thread.join() {
            Ok((parts, lost)) => (parts, lost.into_iter().map(RunError::Journal).collect()),
            Err(_) => (Vec::new(), vec![RunError::RecorderGone]),
        }
    }
}

/// What the thread works on.
struct RecorderLoop {
    directory: Arc<RunDirectory>,
    requests: Journal,
    readings: Journal,
    secrets: Secrets,
    texts: AnswerTexts,
    live: Option<Arc<LiveMetrics>>,
    aggregator: Option<Box<CellAggregator>>,
    /// Readings of the last [`LEAD`], for the cell that begins next.
    latest: VecDeque<Arc<Reading>>,
    clock: Clock,
    flushed: Stamp,
    /// When it was last written what the journals hold, and how many parts they had.
    listed: (Stamp, u32),
}

impl RecorderLoop {
    fn work(mut self, inbox: &mpsc::Receiver<Message>) -> (Vec<JournalPart>, Vec<JournalError>) {
        let mut open = true;
        while open {
            match inbox.recv_timeout(FLUSH_EVERY) {
                Ok(message) => open = self.take(message),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => open = false,
            }
            open = open && self.take_waiting(inbox);
            self.flush();
        }
        self.settle();
        let closed = [self.requests.close(), self.readings.close()];
        let (parts, lost): (Vec<_>, Vec<_>) = closed.into_iter().unzip();
        (
            parts.concat(),
            lost.into_iter().filter_map(Result::err).collect(),
        )
    }

    /// Everything that waits, until a flush is due by size.
    fn take_waiting(&mut self, inbox: &mpsc::Receiver<Message>) -> bool {
        let mut open = true;
        while open && self.requests.pending() < FLUSH_BYTES {
            let Ok(message) = inbox.try_recv() else { break };
            open = self.take(message);
        }
        open
    }

    /// Returns whether more may come.
    fn take(&mut self, message: Message) -> bool {
        match message {
            Message::Request(mut record) => {
                self.texts.settle(&mut record);
                self.secrets.hide_in(&mut record);
                self.requests.append(&record);
                if let Some(live) = &self.live {
                    live.ended(&record);
                }
                if let Some(aggregator) = &mut self.aggregator {
                    aggregator.request(&record);
                }
            }
            Message::Reading(mut reading) => {
                self.secrets.hide_in_reading(&mut reading);
                self.readings.append(&reading);
                if let Some(live) = &self.live {
                    live.reading(&reading);
                }
                let reading: Arc<Reading> = Arc::from(reading);
                if let Some(aggregator) = &mut self.aggregator {
                    aggregator.reading(Arc::clone(&reading));
                }
                let since = reading.to - LEAD;
                self.latest.push_back(reading);
                while self.latest.front().is_some_and(|old| old.to < since) {
                    self.latest.pop_front();
                }
            }
            Message::Begin(mut aggregator) => {
                for reading in &self.latest {
                    aggregator.reading(Arc::clone(reading));
                }
                self.aggregator = Some(aggregator);
            }
            Message::End(answer) => {
                // Who says that a cell has ended says that its records are written.
                self.write(self.clock.now());
                let _run_is_over = answer.send(self.aggregator.take());
            }
            Message::Close => return false,
        }
        true
    }

    /// Write when it is time or when much is waiting; a write for each record would cost more than the record.
    fn flush(&mut self) {
        let now = self.clock.now();
        if now - self.flushed < Nanos::from_duration(FLUSH_EVERY)
            && self.requests.pending() < FLUSH_BYTES
        {
            return;
        }
        self.write(now);
    }

    fn write(&mut self, now: Stamp) {
        self.flushed = now;
        self.settle();
        let troubles = [self.requests.flush(), self.readings.flush()];
        for trouble in troubles.into_iter().flatten() {
            self.directory.say(&trouble);
        }
        let parts = self.requests.parts() + self.readings.parts();
        if parts != self.listed.1 || now - self.listed.0 >= LIST_EVERY {
            self.tell(now);
        }
    }

    /// The journals are where the run's directory is now. Where it cannot be made again they say what they could not write.
    fn settle(&mut self) {
        if let Ok(folder) = self.directory.path() {
            self.requests.settle(&folder);
            self.readings.settle(&folder);
        }
    }

    /// Write what the journals hold. An older list is true as well, and of a disk that is full the journals themselves tell.
    fn tell(&mut self, now: Stamp) {
        if self.requests.is_in_trouble() || self.readings.is_in_trouble() {
            return;
        }
        self.listed = (now, self.requests.parts() + self.readings.parts());
        let mut held = [self.requests.record(), self.readings.record()].concat();
        held.extend(self.directory.begun());
        let text = serde_json::to_string(&held).unwrap_or_default();
        self.directory.write(JOURNAL_FILE, &text).ok();
    }
}

#[cfg(test)]
#[path = "../tests/unit/recorder.rs"]
mod tests;
