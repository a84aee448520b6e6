//! Threads that carry the load: each owns a runtime, its connections and its share of the plan.
//!
//! The life of one request is in [`one`]: due, dispatched, sent and answered (by the client), recorded.

mod closed;
mod open;

use std::rc::Rc;
use std::sync::Arc;
use std::thread::JoinHandle;

use bench_client::{Client, ClientError, Clock, ReadBatching, SchedStat, Target, thread_schedstat};
use bench_schema::{Nanos, Prompt, Stamp};
use bench_workload::continue_conversation;
use tokio::sync::mpsc;
use tokio::task::LocalSet;

use crate::RunError;
use crate::feed::{Conversation, Turn};
use crate::phase::{Phase, Times};
use crate::stop::Ending;

/// The worker threads of a run.
pub(crate) struct Workers {
    threads: Vec<Worker>,
    reports: mpsc::Receiver<Result<PhaseReport, RunError>>,
}

struct Worker {
    orders: mpsc::Sender<Arc<Phase>>,
    thread: JoinHandle<()>,
}

/// What one worker knows of itself after a phase.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PhaseReport {
    /// Time on a CPU; absent where the kernel does not tell.
    pub(crate) cpu: Option<Nanos>,
    /// Time runnable but not running.
    pub(crate) wait: Option<Nanos>,
    /// Length of the phase for this worker.
    pub(crate) wall: Nanos,
    /// The longest pause that it made on purpose before it read.
    pub(crate) pause: Option<Nanos>,
}

impl Workers {
    /// Start `count` threads that talk to `target`.
    pub(crate) fn start(
        count: u32,
        target: &Arc<Target>,
        clock: &Clock,
        late_read: bool,
    ) -> Result<Self, RunError> {
        let (report, reports) = mpsc::channel(usize::try_from(count).unwrap_or(1));
        let mut threads = Vec::new();
        for index in 0..count {
            let (orders, inbox) = mpsc::channel(1);
            let seat = Seat {
                index,
                count,
                target: Arc::clone(target),
                clock: clock.clone(),
                report: report.clone(),
                late: late_read.then(|| ReadBatching::new(clock.clone(), MOST_LATE)),
            };
            let thread = std::thread::Builder::new()
                .name(format!("worker-{index}"))
                .spawn(move || seat.work(inbox))
                .map_err(RunError::Thread)?;
            threads.push(Worker { orders, thread });
        }
        Ok(Self { threads, reports })
    }

    /// How many there are.
    pub(crate) fn count(&self) -> u32 {
        u32::try_from(self.threads.len()).unwrap_or(u32::MAX)
    }

    /// Carry out one phase; returns when every worker is done with it.
    pub(crate) async fn run(&mut self, phase: &Arc<Phase>) -> Result<Vec<PhaseReport>, RunError> {
        for worker in &self.threads {
            worker
                .orders
                .send(Arc::clone(phase))
                .await
                .map_err(|_| RunError::WorkerGone)?;
        }
        let mut reports = Vec::with_capacity(self.threads.len());
        for _ in &self.threads {
            reports.push(self.reports.recv().await.ok_or(RunError::WorkerGone)??);
        }
        Ok(reports)
    }

    /// Let the threads end, and wait for them.
    pub(crate) fn finish(self) {
        for Worker { orders, thread } in self.threads {
            drop(orders);
            // a worker that panicked has already been reported as gone
            let _joined = thread.join();
        }
    }
}

/// What one worker thread is given.
struct Seat {
    index: u32,
    count: u32,
    target: Arc<Target>,
    clock: Clock,
    report: mpsc::Sender<Result<PhaseReport, RunError>>,
    late: Option<ReadBatching>,
}

/// Longest pause of a client that reads late on purpose.
const MOST_LATE: Nanos = Nanos::from_millis(1);

impl Seat {
    fn work(self, mut inbox: mpsc::Receiver<Arc<Phase>>) {
        let runtime = match self.runtime() {
            Ok(runtime) => runtime,
            Err(error) => {
                let _run_is_over = self.report.blocking_send(Err(RunError::Thread(error)));
                return;
            }
        };
        LocalSet::new().block_on(&runtime, async {
            let client = self.client().await.map(Rc::new);
            while let Some(phase) = inbox.recv().await {
                let result = match &client {
                    Ok(client) => self.until_cut(&phase, client).await,
                    Err(error) => Err(RunError::Client(error.to_string())),
                };
                if self.report.send(result).await.is_err() {
                    break;
                }
            }
        });
    }

    fn runtime(&self) -> std::io::Result<tokio::runtime::Runtime> {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_all();
        if let Some(late) = &self.late {
            builder.on_thread_park(late.park_hook());
        }
        builder.build()
    }

    async fn client(&self) -> Result<Client, ClientError> {
        let mut client = Client::new(Arc::clone(&self.target), self.clock.clone())?;
        if let Some(late) = &self.late {
            client.batch_reads(late);
        }
        client.prewarm().await?;
        Ok(client)
    }

    /// Since it was last asked.
    fn longest_pause(&self) -> Option<Nanos> {
        let pause = self.late.as_ref()?.take_longest();
        Some(pause).filter(|pause| *pause > Nanos::ZERO)
    }

    /// Carry out a phase; when the run's grace is over, what is in flight is called back and keeps what it has.
    async fn until_cut(
        &self,
        phase: &Arc<Phase>,
        client: &Rc<Client>,
    ) -> Result<PhaseReport, RunError> {
        let mut work = std::pin::pin!(self.carry_out(phase, client));
        tokio::select! {
            done = &mut work => return done,
            () = phase.stop.reached(Ending::Cutting) => client.recall(),
        }
        work.await
    }

    async fn carry_out(
        &self,
        phase: &Arc<Phase>,
        client: &Rc<Client>,
    ) -> Result<PhaseReport, RunError> {
        let _of_earlier_phases = self.longest_pause();
        let (before, began) = (thread_schedstat(), self.clock.now());
        if phase.load.is_open() {
            open::run(self, phase, client).await?;
        } else {
            closed::run(self, phase, client).await?;
        }
        let (after, ended) = (thread_schedstat(), self.clock.now());
        let spent =
            |field: fn(&SchedStat) -> Nanos| Some(field(after.as_ref()?) - field(before.as_ref()?));
        Ok(PhaseReport {
            cpu: spent(|stat| stat.cpu),
            wait: spent(|stat| stat.run_queue_wait),
            wall: ended - began,
            pause: self.longest_pause(),
        })
    }
}

const NO_ANSWER_BEFORE: &str = "the answer that it waits for did not come";

/// A conversation: each turn waits for the answer before it. Most have one turn.
async fn converse(
    phase: &Phase,
    client: &Client,
    conversation: Conversation,
    due: Stamp,
    worker: u32,
) {
    let mut due = due;
    let mut said: Option<(Prompt, String)> = None;
    for (number, mut turn) in conversation.turns.into_iter().enumerate() {
        if number > 0 {
            let Some((before, answer)) = said.take() else {
                phase.leave_unsent(&turn, phase.clock.now(), worker, NO_ANSWER_BEFORE);
                continue;
            };
            let item = &mut turn.planned.item;
            let whole = continue_conversation(&before, &answer, &item.request.prompt, phase.chat);
            item.request.prompt = whole;
            due = phase.clock.now() + item.after.map_or(Nanos::ZERO, |after| after.delay);
            wait_until(phase, due).await;
        }
        phase.tally.started();
        let answer = one(phase, client, &turn, due, worker).await;
        said = answer.map(|answer| (turn.planned.item.request.prompt, answer));
    }
}

/// One request's life: it is due, a worker takes it up, the client sends it and stamps what arrives, the recorder keeps it.
/// Returns the answer's text, where it is kept and whole.
async fn one(
    phase: &Phase,
    client: &Client,
    turn: &Turn,
    due: Stamp,
    worker: u32,
) -> Option<String> {
    let dispatched = phase.clock.now();
    let name = format!("{}-{}-{}", phase.cell, phase.repeat, turn.planned.index);
    let wire = client.send(&turn.planned.item.request, &name).await;
    let answer = wire.text.clone().filter(|_| wire.outcome.is_completed());
    phase.record(
        turn,
        Times {
            due,
            dispatched: Some(dispatched),
            worker,
        },
        wire,
    );
    answer
}

/// A pause between turns; it is between seconds, and tokio's millisecond is good enough.
async fn wait_until(phase: &Phase, due: Stamp) {
    let pause = (due - phase.clock.now()).to_duration();
    tokio::select! {
        () = phase.stop.reached(Ending::Draining) => {}
        () = tokio::time::sleep(pause) => {}
    }
}
