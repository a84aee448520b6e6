//! Turns plans into requests that are ready to go out, ahead of the workers, on a thread of its own; the queues between it and them.

use std::collections::VecDeque;
use std::iter::Peekable;
use std::sync::{Arc, OnceLock};
use std::thread::{JoinHandle, Thread};

use bench_client::RequestEncoder;
use bench_schema::{Nanos, PlanHash, Stamp};
use bench_workload::{
    PlanIter, Planned, TokenCounter, WorkloadError, continue_conversation, continued_size,
};
use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};

use crate::RunError;
use crate::open_record::{Conversation, ConversationMaker, Label, Later, Ready, RecordSink, Said};

/// The planner of a run. It has two things to do: to fill the queues, and before that to write the turns that somebody waits for.
pub(crate) struct Planner {
    handle: PlannerHandle,
    thread: Option<JoinHandle<()>>,
}

/// What others leave for the planner; cheap to clone.
#[derive(Clone)]
pub(crate) struct PlannerHandle {
    shared: Arc<Shared>,
}

struct Shared {
    inbox: Mutex<Inbox>,
    /// Who is to be woken: nobody where a test does the work itself.
    thread: OnceLock<Thread>,
    encoder: Arc<RequestEncoder>,
    /// Whether requests are chats: how a conversation goes on.
    chat: bool,
    counter: Option<Arc<dyn TokenCounter>>,
}

#[derive(Default)]
struct Inbox {
    feeds: Vec<Feed>,
    turns: VecDeque<NextTurn>,
    closed: bool,
}

/// A turn to be written now that the answer before it is there.
struct NextTurn {
    /// What was said, and the answer.
    exchange: (Said, String),
    later: Later,
    goes_on: bool,
    reply: oneshot::Sender<Ready>,
}

impl Planner {
    /// Start its thread. With `chat`, conversations go on as messages; `counter` counts the tokens of their answers.
    pub(crate) fn start(
        encoder: RequestEncoder,
        chat: bool,
        counter: Option<Arc<dyn TokenCounter>>,
    ) -> Result<Self, RunError> {
        let handle = PlannerHandle::new(encoder, chat, counter);
        let mut bench = PlannerLoop::new(handle.clone());
        let thread = std::thread::Builder::new()
            .name("planner".to_owned())
            .spawn(move || {
                bench_hardware::give_way();
                while bench.is_open() {
                    if !bench.work() {
                        std::thread::park();
                    }
                }
            })
            .map_err(RunError::Thread)?;
        handle.shared.thread.get_or_init(|| thread.thread().clone());
        // what came before the thread was known is seen now
        handle.wake();
        Ok(Self {
            handle,
            thread: Some(thread),
        })
    }

    /// Where work for it is left.
    pub(crate) fn handle(&self) -> &PlannerHandle {
        &self.handle
    }
}

impl Drop for Planner {
    fn drop(&mut self) {
        self.handle.shared.inbox.lock().closed = true;
        self.handle.wake();
        if let Some(thread) = self.thread.take() {
            // one that panicked has left its queues ended, and whoever waited was told
            let _joined = thread.join();
        }
    }
}

impl PlannerHandle {
    pub(crate) fn new(
        encoder: RequestEncoder,
        chat: bool,
        counter: Option<Arc<dyn TokenCounter>>,
    ) -> Self {
        Self {
            shared: Arc::new(Shared {
                encoder: Arc::new(encoder),
                inbox: Mutex::default(),
                thread: OnceLock::new(),
                chat,
                counter,
            }),
        }
    }

    fn wake(&self) {
        if let Some(thread) = self.shared.thread.get() {
            thread.unpark();
        }
    }

    /// Deal a plan's conversations to so many queues in turn, each `depth` of them ahead.
    pub(crate) fn deal(
        &self,
        plan: PlanIter,
        queues: usize,
        depth: usize,
        (label, sink): (Label, Arc<RecordSink>),
    ) -> Vec<Arc<Queue>> {
        let planner = self.shared.thread.get();
        let queues: Vec<_> = (0..queues.max(1))
            .map(|_| Arc::new(Queue::new(depth, planner.cloned())))
            .collect();
        let feed = Feed {
            plan: plan.peekable(),
            queues: queues.clone(),
            dealt: 0,
            maker: ConversationMaker {
                label,
                sink,
                encoder: Arc::clone(&self.shared.encoder),
            },
        };
        let mut inbox = self.shared.inbox.lock();
        if inbox.closed {
            drop(feed); // which ends its queues with an error
        } else {
            inbox.feeds.push(feed);
        }
        drop(inbox);
        self.wake();
        queues
    }

    /// The next turn of a conversation in which this was said and answered; `None` where the planner is gone.
    pub(crate) async fn write_turn(
        &self,
        exchange: (Said, String),
        later: Later,
        goes_on: bool,
    ) -> Option<Ready> {
        let (reply, written) = oneshot::channel();
        let turn = NextTurn {
            exchange,
            later,
            goes_on,
            reply,
        };
        {
            let mut inbox = self.shared.inbox.lock();
            if inbox.closed {
                return None; // the turn is dropped here, and recorded as lost
            }
            inbox.turns.push_back(turn);
        }
        self.wake();
        written.await.ok()
    }
}

/// A plan on its way into its queues.
struct Feed {
    plan: Peekable<PlanIter>,
    queues: Vec<Arc<Queue>>,
    /// Conversations dealt.
    dealt: usize,
    maker: ConversationMaker,
}

impl Feed {
    fn queue(&self) -> Option<&Arc<Queue>> {
        self.queues.get(self.dealt % self.queues.len().max(1))
    }

    fn is_over(&self) -> bool {
        self.queues.iter().all(|queue| queue.is_over())
    }

    /// Make one conversation more, or end the queues.
    fn make(&mut self) {
        let planned = match self.planned() {
            Ok(Some(planned)) => planned,
            Ok(None) => return self.end(None),
            Err(error) => return self.end(Some(RunError::Workload(error))),
        };
        match self.maker.conversation(&planned.0, planned.1) {
            Ok(conversation) => {
                if let Some(queue) = self.queue() {
                    queue.push(conversation);
                }
                self.dealt += 1;
            }
            Err(error) => self.end(Some(RunError::Client(error.to_string()))),
        }
    }

    /// All requests of the next conversation, one where there are no turns.
    fn planned(&mut self) -> Result<Option<(Planned, Vec<Planned>)>, WorkloadError> {
        let Some(first) = self.plan.next().transpose()? else {
            return Ok(None);
        };
        let mut later = Vec::new();
        let is_later = |next: &Result<Planned, WorkloadError>| {
            next.as_ref()
                .is_ok_and(|planned| planned.item.after.is_some())
        };
        while let Some(turn) = self.plan.next_if(is_later) {
            later.push(turn?);
        }
        Ok(Some((first, later)))
    }

    /// The first queue is told what was wrong.
    fn end(&self, mut error: Option<RunError>) {
        for queue in &self.queues {
            queue.end(error.take());
        }
    }
}

/// Whoever waits must not wait for ever, whatever made an end of the planner.
impl Drop for Feed {
    fn drop(&mut self) {
        if !self.is_over() {
            self.end(Some(RunError::WorkerGone));
        }
    }
}

/// The planner at work.
pub(crate) struct PlannerLoop {
    handle: PlannerHandle,
    feeds: Vec<Feed>,
}

impl PlannerLoop {
    pub(crate) fn new(handle: PlannerHandle) -> Self {
        Self {
            handle,
            feeds: Vec::new(),
        }
    }

    fn is_open(&self) -> bool {
        !self.handle.shared.inbox.lock().closed
    }

    /// Do one thing; false where there was nothing to do.
    pub(crate) fn work(&mut self) -> bool {
        let turn = {
            let mut inbox = self.handle.shared.inbox.lock();
            self.feeds.append(&mut inbox.feeds);
            inbox.turns.pop_front()
        };
        if let Some(turn) = turn {
            self.write(turn);
            return true;
        }
        self.feeds.retain(|feed| !feed.is_over());
        let room = |feed: &&mut Feed| feed.queue().is_some_and(|queue| queue.has_room());
        match self.feeds.iter_mut().find(room) {
            Some(feed) => {
                feed.make();
                true
            }
            None => false,
        }
    }

    fn write(&self, turn: NextTurn) {
        let NextTurn {
            exchange: (said, answer),
            later,
            goes_on,
            reply,
        } = turn;
        let Shared {
            chat,
            encoder,
            counter,
            ..
        } = &*self.handle.shared;
        let ready = later.continued(goes_on, encoder, |next, own| {
            let prompt = continue_conversation(&said.prompt, &answer, next, *chat);
            let size = continued_size(&prompt, &answer, [&said.size, own], counter.as_deref());
            Said { prompt, size }
        });
        // one that cannot be written, or that nobody waits for any more, is recorded as lost, here
        if let Ok(ready) = ready {
            reply.send(ready).ok();
        }
    }
}

impl Drop for PlannerLoop {
    fn drop(&mut self) {
        let left = {
            let mut inbox = self.handle.shared.inbox.lock();
            let left = std::mem::take(&mut *inbox);
            inbox.closed = true;
            left
        };
        // outside the lock: feeds end their queues, turns are recorded as lost
        drop(left);
    }
}

/// Conversations that are ready. Its lock is only ever held to move one of them.
pub(crate) struct Queue {
    stock: Mutex<Stock>,
    depth: usize,
    arrived: Notify,
    filled: Notify,
    planner: Option<Thread>,
}

#[derive(Default)]
struct Stock {
    ready: VecDeque<Conversation>,
    /// Nothing more will come; the first to see an error has it.
    over: bool,
    error: Option<RunError>,
    handed_out: u64,
    hash: PlanHash,
}

/// What there is to take.
pub(crate) enum Next<T> {
    Ready(T),
    /// Nothing yet.
    Later,
    /// Nothing any more.
    Over,
}

impl Queue {
    /// Room for `depth` conversations; `planner` is woken when there is room again.
    pub(crate) fn new(depth: usize, planner: Option<Thread>) -> Self {
        Self {
            stock: Mutex::default(),
            depth: depth.max(1),
            arrived: Notify::new(),
            filled: Notify::new(),
            planner,
        }
    }

    /// Whether the planner may put one more here.
    pub(crate) fn has_room(&self) -> bool {
        let stock = self.stock.lock();
        !stock.over && stock.ready.len() < self.depth
    }

    /// One more is ready.
    pub(crate) fn push(&self, conversation: Conversation) {
        let full = {
            let mut stock = self.stock.lock();
            stock.ready.push_back(conversation);
            stock.ready.len() >= self.depth
        };
        self.arrived.notify_one();
        if full {
            self.filled.notify_one();
        }
    }

    /// Nothing more will come.
    pub(crate) fn end(&self, error: Option<RunError>) {
        {
            let mut stock = self.stock.lock();
            stock.over = true;
            stock.error = stock.error.take().or(error);
        }
        self.arrived.notify_waiters();
        self.arrived.notify_one();
        self.filled.notify_one();
    }

    /// Nobody takes any more: what is here was never handed out.
    pub(crate) fn close(&self) {
        let left = {
            let mut stock = self.stock.lock();
            stock.over = true;
            std::mem::take(&mut stock.ready)
        };
        drop(left);
        self.wake_planner();
    }

    /// How many are ready.
    pub(crate) fn len(&self) -> usize {
        self.stock.lock().ready.len()
    }

    /// Whether nothing more is put here.
    pub(crate) fn is_over(&self) -> bool {
        self.stock.lock().over
    }

    /// Wait until it is full, or holds all there is.
    pub(crate) async fn primed(&self) {
        loop {
            let filled = self.filled.notified();
            {
                let stock = self.stock.lock();
                if stock.over || stock.ready.len() >= self.depth {
                    return;
                }
            }
            filled.await;
        }
    }

    /// Take one: from now on it counts as planned.
    pub(crate) fn take(&self, now: Stamp) -> Result<Next<Conversation>, RunError> {
        let (taken, left) = {
            let mut stock = self.stock.lock();
            let Some(mut conversation) = stock.ready.pop_front() else {
                return nothing(&mut stock);
            };
            let (requests, hash) = conversation.hand_out(now);
            stock.handed_out += requests;
            stock.hash += hash;
            (conversation, stock.ready.len())
        };
        if left == self.depth / 2 {
            self.wake_planner();
        }
        Ok(Next::Ready(taken))
    }

    /// When the next one is due.
    pub(crate) fn next_due(&self) -> Result<Next<Nanos>, RunError> {
        let mut stock = self.stock.lock();
        match stock.ready.front() {
            Some(conversation) => Ok(Next::Ready(conversation.due)),
            None => nothing(&mut stock),
        }
    }

    /// Something has changed since this was called.
    pub(crate) fn change(&self) -> impl Future<Output = ()> {
        self.arrived.notified()
    }

    /// How many requests were taken, and the sum of their hashes.
    pub(crate) fn handed_out(&self) -> (u64, PlanHash) {
        let stock = self.stock.lock();
        (stock.handed_out, stock.hash)
    }

    fn wake_planner(&self) {
        if let Some(planner) = &self.planner {
            planner.unpark();
        }
    }
}

fn nothing<T>(stock: &mut Stock) -> Result<Next<T>, RunError> {
    match (stock.over, stock.error.take()) {
        (_, Some(error)) => Err(error),
        (true, None) => Ok(Next::Over),
        (false, None) => Ok(Next::Later),
    }
}
