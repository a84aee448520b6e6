//! The worker threads of a run: each has a runtime, a client and a timer of its own, for as long as the run lasts.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::thread::JoinHandle;

use bench_client::{
    Client, ClientError, Clock, PreparedRequest, ReadBatching, SchedStat, Target, Timer,
    thread_schedstat,
};
use bench_schema::{Exchange, GenerationRequest, Nanos, Stamp};
use tokio::sync::{mpsc, oneshot};
use tokio::task::LocalSet;

use crate::RunError;
use crate::phase::Phase;
use crate::worker::{TimerQueue, Worker, WorkerIo, WorkerTimer};

/// Longest pause of a client that reads late on purpose.
const MOST_LATE: Nanos = Nanos::from_millis(1);
/// The timer is woken as much before an instant as the kernel is wont to be late, at most this, and spins the rest.
const SPIN: Nanos = Nanos::from_micros(100);

pub(crate) struct WorkerPool {
    members: Vec<Member>,
    reports: mpsc::Receiver<Result<PhaseReport, RunError>>,
}

struct Member {
    orders: mpsc::Sender<Order>,
    thread: JoinHandle<()>,
}

/// What a worker is told to do.
enum Order {
    Connect(Connect),
    CarryOut(Arc<Phase>),
    Ask(Box<Question>),
}

/// The connections of the first slots of a closed loop.
struct Connect {
    slots: u32,
    /// Dropped when they are there, or cannot be had. Nobody may wait any more.
    done: oneshot::Sender<()>,
}

/// One request beside the plan.
struct Question {
    endpoint: usize,
    request: GenerationRequest,
    name: String,
    reply: oneshot::Sender<Result<Exchange, RunError>>,
}

/// What one worker knows of itself after a phase, since its first measured request where there was one.
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

impl WorkerPool {
    /// Start `count` threads that talk to `target`; those of each `shard` begin with other endpoints.
    pub(crate) fn start(
        (count, shard): (u32, u32),
        target: &Arc<Target>,
        clock: &Clock,
        late_read: bool,
    ) -> Result<Self, RunError> {
        let (report, reports) = mpsc::channel(usize::try_from(count).unwrap_or(1));
        let mut members = Vec::new();
        for index in 0..count {
            let (orders, inbox) = mpsc::channel(1);
            let context = WorkerContext {
                index,
                count,
                first_endpoint: shard.wrapping_mul(count).wrapping_add(index),
                target: Arc::clone(target),
                clock: clock.clone(),
                report: report.clone(),
                late: ReadBatching::new(
                    clock.clone(),
                    if late_read { MOST_LATE } else { Nanos::ZERO },
                ),
            };
            let thread = std::thread::Builder::new()
                .name(format!("worker-{index}"))
                .spawn(move || context.work(inbox))
                .map_err(RunError::Thread)?;
            members.push(Member { orders, thread });
        }
        Ok(Self { members, reports })
    }

    pub(crate) fn count(&self) -> u32 {
        u32::try_from(self.members.len()).unwrap_or(u32::MAX)
    }

    /// Open the connections of the first `slots` slots of a closed loop; returns when they are there, or cannot be had.
    pub(crate) async fn connect(&self, slots: u32) {
        let mut opening = Vec::new();
        for member in &self.members {
            let (done, opened) = oneshot::channel();
            let order = Order::Connect(Connect { slots, done });
            // a worker that is gone is found when it is to carry out the phase
            member.orders.send(order).await.ok();
            opening.push(opened);
        }
        for opened in opening {
            opened.await.ok();
        }
    }

    /// Carry out one phase; returns when every worker is done with it.
    pub(crate) async fn run(&mut self, phase: &Arc<Phase>) -> Result<Vec<PhaseReport>, RunError> {
        for member in &self.members {
            member
                .orders
                .send(Order::CarryOut(Arc::clone(phase)))
                .await
                .map_err(|_| RunError::WorkerGone)?;
        }
        let mut reports = Vec::with_capacity(self.members.len());
        for _ in &self.members {
            reports.push(self.reports.recv().await.ok_or(RunError::WorkerGone)??);
        }
        Ok(reports)
    }

    /// Have the first worker ask one endpoint one thing. Its connection is then there for that worker's requests of the plan.
    pub(crate) async fn ask(
        &self,
        endpoint: usize,
        request: GenerationRequest,
        name: &str,
    ) -> Result<Exchange, RunError> {
        let (reply, answer) = oneshot::channel();
        let question = Box::new(Question {
            endpoint,
            request,
            name: name.to_owned(),
            reply,
        });
        let first = self.members.first().ok_or(RunError::WorkerGone)?;
        let sent = first.orders.send(Order::Ask(question)).await;
        sent.map_err(|_| RunError::WorkerGone)?;
        answer.await.unwrap_or(Err(RunError::WorkerGone))
    }

    /// Let the threads end, and wait for them.
    pub(crate) fn finish(self) {
        for Member { orders, thread } in self.members {
            drop(orders);
            // a worker that panicked has already been reported as gone
            let _joined = thread.join();
        }
    }
}

/// What one worker thread is given.
struct WorkerContext {
    index: u32,
    count: u32,
    first_endpoint: u32,
    target: Arc<Target>,
    clock: Clock,
    report: mpsc::Sender<Result<PhaseReport, RunError>>,
    late: ReadBatching,
}

impl WorkerContext {
    fn work(self, mut inbox: mpsc::Receiver<Order>) {
        bench_client::take_short_turns();
        let runtime = match self.runtime() {
            Ok(runtime) => runtime,
            Err(error) => {
                let _run_is_over = self.report.blocking_send(Err(RunError::Thread(error)));
                return;
            }
        };
        let tasks = LocalSet::new();
        let work = tasks.run_until(async {
            let mut equipment = self.equipment();
            while let Some(order) = inbox.recv().await {
                let unusable = |error: &ClientError| RunError::Client(error.to_string());
                match order {
                    Order::Connect(Connect { slots, mut done }) => {
                        if let Ok((worker, _)) = &equipment {
                            let own = worker.ranks(slots).count();
                            tokio::select! {
                                () = worker.io.client.open(own) => {}
                                () = done.closed() => {}
                            }
                        }
                    }
                    Order::CarryOut(phase) => {
                        let result = match &mut equipment {
                            Ok((worker, timer)) => self.carry_out(worker, timer, &phase).await,
                            Err(error) => Err(unusable(error)),
                        };
                        // the order is dropped before the report, so that a phase is nobody's any more when all have reported
                        drop(phase);
                        if self.report.send(result).await.is_err() {
                            break;
                        }
                    }
                    Order::Ask(question) => {
                        let answer = match &equipment {
                            Ok((worker, _)) => {
                                let client = &worker.io.client;
                                client.begin_with(question.endpoint);
                                let answer = client.send(&question.request, &question.name).await;
                                // or it would go from now on with the next worker to the same endpoints
                                self.begin_in_turn(client);
                                Ok(answer)
                            }
                            Err(error) => Err(unusable(error)),
                        };
                        // whoever asked may have given up
                        question.reply.send(answer).ok();
                    }
                }
            }
        });
        runtime.block_on(self.late.around(work));
    }

    fn runtime(&self) -> std::io::Result<tokio::runtime::Runtime> {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .on_thread_park(self.late.park_hook())
            .on_thread_unpark(self.late.wake_hook())
            .build()
    }

    fn begin_in_turn(&self, client: &Client) {
        client.begin_with(usize::try_from(self.first_endpoint).unwrap_or(0));
    }

    /// One client and one timer for the whole run: what gives way to the timer holds this one.
    fn equipment(&self) -> Result<(Rc<Worker<Wire>>, Timer), ClientError> {
        let timer = Timer::new(self.clock.clone(), SPIN)?;
        let mut client = Client::new(Arc::clone(&self.target), self.clock.clone())?;
        self.begin_in_turn(&client);
        self.late.give_way_to(&timer);
        client.batch_reads(&self.late);
        let worker = Worker {
            index: self.index,
            count: self.count,
            io: Wire {
                client,
                clock: self.clock.clone(),
            },
            timer_queue: TimerQueue::default(),
            since: Cell::new(None),
        };
        Ok((Rc::new(worker), timer))
    }

    async fn carry_out(
        &self,
        worker: &Rc<Worker<Wire>>,
        timer: &mut Timer,
        phase: &Arc<Phase>,
    ) -> Result<PhaseReport, RunError> {
        let _of_earlier_phases = self.longest_pause();
        worker.since.set(None);
        let began = (self.clock.now(), thread_schedstat());
        worker.carry_out(phase, timer).await?;
        let (since, before) = worker.since.take().unwrap_or(began);
        let (after, ended) = (thread_schedstat(), self.clock.now());
        let spent =
            |field: fn(&SchedStat) -> Nanos| Some(field(after.as_ref()?) - field(before.as_ref()?));
        Ok(PhaseReport {
            cpu: spent(|stat| stat.cpu),
            wait: spent(|stat| stat.run_queue_wait),
            wall: ended - since,
            pause: self.longest_pause(),
        })
    }

    /// Since it was last asked.
    fn longest_pause(&self) -> Option<Nanos> {
        Some(self.late.take_longest()).filter(|pause| *pause > Nanos::ZERO)
    }
}

/// The real io: the run's clock and this thread's client.
struct Wire {
    client: Client,
    clock: Clock,
}

impl WorkerIo for Wire {
    fn now(&self) -> Stamp {
        self.clock.now()
    }

    async fn send(&self, request: &PreparedRequest) -> Exchange {
        self.client.send_prepared(request).await
    }

    fn recall(&self) {
        self.client.recall();
    }
}

impl WorkerTimer for Timer {
    async fn wait_until(&mut self, due: Stamp) {
        Timer::wait_until(self, due).await;
    }
}
