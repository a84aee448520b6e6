//! The life of one request: connection, request out, head, events, end; under all the limits.

use std::cell::Cell;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

use bench_schema::{Exchange, FailureKind, Nanos, Outcome, Stage, Stamp};
use hyper::http::response::Parts;

use crate::fault::{ErrorBody, Fault, retry_after, unusable_content};
use crate::pool::{Checkout, Pool};
use crate::read_batching::{GapTracker, Hold};
use crate::request::HttpRequest;
use crate::socket::ReadLog;
use crate::target::CancelAfter;
use crate::timer::{Deadline, Recall};
use crate::transfer::{Break, Connection, Http1, Step, Transfer};
use crate::{AnswerDecoder, AnswerLimits, Clock, ReadMark, StreamEnd, Target};

pub(crate) struct RequestExecution<'a> {
    target: &'a Target,
    clock: &'a Clock,
    exchange: Exchange,
    keep_text: Option<usize>,
    max_events: usize,
    /// Whether a request waits for the answer.
    awaited: bool,
    deadline: Deadline,
    /// When `send` was called.
    begun: Stamp,
    /// When the connection was there and the request could go out.
    ready: Option<Stamp>,
    /// When it went out first, on a connection that turned out to be stale.
    first_sent: Option<Stamp>,
    decoder: Option<AnswerDecoder>,
    events: u64,
    last_event: Stamp,
    last_arrival: Option<Stamp>,
    gaps: Option<&'a GapTracker>,
    /// Until the request is out.
    unsent: Option<Hold>,
    error_body: Option<ErrorBody>,
}

/// How an exchange ended, as far as the connection is concerned.
pub(crate) enum ConnectionFate {
    /// The exchange is over; the connection can carry another one.
    Reusable(Http1),
    /// The exchange is over, and so is the connection (or it is shared and stays where it is).
    Over,
    /// The connection, which kept this log, was closed before a byte of the answer: nothing has happened, try another.
    Stale(Rc<ReadLog>),
}

#[derive(Debug)]
enum Ending {
    /// The transfer ended properly.
    Whole(Stamp),
    Broken(Break),
    Fault(Fault),
    /// A limit was reached.
    Late,
    /// The decoder has seen enough.
    Enough,
    /// `--cancel-after` so many events.
    Cancelled(String),
}

impl<'a> RequestExecution<'a> {
    pub(crate) fn new(
        target: &'a Target,
        clock: &'a Clock,
        request: HttpRequest<'_>,
        endpoint: u32,
        recall: Rc<Recall>,
    ) -> Self {
        let begun = clock.now();
        let mut exchange = Exchange::nothing(Outcome::Completed);
        exchange.request_bytes = u64::try_from(request.prepared.body().len()).unwrap_or(u64::MAX);
        exchange.streamed = request.prepared.is_streaming();
        exchange.connection.endpoint = endpoint;
        let limit = target.timeouts.connect.min(target.timeouts.whole);
        Self {
            target,
            clock,
            exchange,
            keep_text: request.prepared.kept_text(),
            max_events: request.prepared.max_events(),
            awaited: request.prepared.is_awaited(),
            deadline: Deadline::new(clock.clone(), begun + limit, recall),
            begun,
            ready: None,
            first_sent: None,
            decoder: None,
            events: 0,
            last_event: begun,
            last_arrival: None,
            gaps: None,
            unsent: None,
            error_body: None,
        }
    }

    /// Tell `gaps` the gaps between events.
    pub(crate) fn track_gaps(&mut self, gaps: Option<&'a GapTracker>) {
        self.gaps = gaps;
    }

    pub(crate) fn into_exchange(self) -> Exchange {
        self.exchange
    }

    /// Get a connection. `None` means that the request is over.
    pub(crate) async fn connect(
        &mut self,
        checkout: impl Future<Output = Result<Checkout, Fault>>,
        stage: &Cell<Stage>,
    ) -> Option<Connection> {
        self.unsent = self.gaps.map(GapTracker::hold);
        let limit = self.clock.now() + self.target.timeouts.connect;
        self.deadline.set(limit.min(self.whole_limit()));
        let end = match self.deadline.within(checkout).await {
            Some(Ok(checkout)) => {
                let facts = &mut self.exchange.connection;
                *facts = bench_schema::ConnectionFacts {
                    endpoint: facts.endpoint,
                    replaced: facts.replaced + checkout.facts.replaced,
                    ..checkout.facts
                };
                self.exchange.connected.get_or_insert(checkout.ready);
                return Some(checkout.connection);
            }
            Some(Err(fault)) => cut(fault),
            None => self.late(stage.get()),
        };
        self.finish_answer(end, self.clock.now());
        None
    }

    /// Send the request and follow the answer to its end. Whether the connection was stale is asked if it can be replaced.
    pub(crate) async fn exchange(
        &mut self,
        connection: Connection,
        request: HttpRequest<'_>,
        pool: &Pool,
        replaceable: bool,
    ) -> ConnectionFate {
        let log = Rc::clone(connection.log());
        let is_http2 = connection.is_http2();
        if is_http2 {
            // Its streams share reads: a pause would gather tokens of several of them under one stamp.
            (self.gaps, self.unsent) = (None, None);
        }
        let now = self.clock.now();
        let begin = log.begin(now);
        self.ready = Some(now);
        self.deadline.set(self.due());
        let mut transfer = connection.start(request);
        let streaming = request.prepared.is_streaming();
        let ending = self.follow(&mut transfer, &log, streaming).await;
        if self.exchange.headers.is_some() {
            pool.note_answer(self.exchange.connection.reused);
        }
        // A reused connection that the server had closed. llama-server closes after every streamed answer although it announces
        // otherwise: a client that calls this a failure fails by itself.
        let broken = self.exchange.connection.reused && matches!(ending, Ending::Broken(_));
        // Over HTTP/2 the server says so, or hyper had not handed the request over yet.
        let not_taken = match ending {
            Ending::Broken(Break::NotTaken) => true,
            Ending::Broken(Break::Closed) => is_http2 && transfer.sent().is_none(),
            _ => false,
        };
        let over = self.clock.now();
        let is_stale = replaceable
            && (not_taken || broken && transfer.was_closed_before(begin, over, pool.keeps()).await);
        if is_stale {
            self.exchange.connection.replaced += 1;
            // the time that the stale connection cost is the request's
            self.first_sent
                .get_or_insert(transfer.sent().unwrap_or(now));
            self.ready = None;
            return ConnectionFate::Stale(log);
        }
        self.exchange.sent = self.first_sent.or(transfer.sent());
        self.exchange.reads = log.reads().saturating_sub(begin.reads);
        let whole = matches!(ending, Ending::Whole(_));
        self.finish(ending, over, &log, &request.route.peer);
        let reusable = if whole {
            transfer.into_reusable()
        } else {
            None
        };
        reusable.map_or(ConnectionFate::Over, ConnectionFate::Reusable)
    }

    /// Step through the answer until it ends one way or another.
    async fn follow(&mut self, transfer: &mut Transfer, log: &ReadLog, streaming: bool) -> Ending {
        loop {
            let step = poll_fn(|cx| {
                let step = transfer.poll_step(cx);
                if self.unsent.is_some() && transfer.sent().is_some() {
                    self.unsent = None;
                }
                match step {
                    Poll::Ready(step) => Poll::Ready(Some(step)),
                    Poll::Pending => self.deadline.poll(cx).map(|()| None),
                }
            });
            let ending = match step.await {
                Some(Step::Data(mark)) => self.data(transfer.data(), mark, log),
                Some(Step::Head(head, mark)) => self.head(&head, mark, streaming),
                Some(Step::End(at)) => Some(Ending::Whole(at)),
                Some(Step::Broken(broken)) => Some(Ending::Broken(broken)),
                None => {
                    self.exchange.sent = self.first_sent.or(transfer.sent());
                    Some(Ending::Late)
                }
            };
            if let Some(ending) = ending {
                return ending;
            }
        }
    }

    fn head(&mut self, head: &Parts, mark: ReadMark, streaming: bool) -> Option<Ending> {
        self.exchange.headers = Some(mark.arrival);
        self.exchange.status = Some(head.status.as_u16());
        if !head.status.is_success() {
            self.exchange.retry_after = retry_after(&head.headers);
            self.error_body = Some(ErrorBody::new(head, mark.returned));
            self.deadline.set(self.due());
            return None;
        }
        if let Some(problem) = unusable_content(&head.headers) {
            return Some(Ending::Fault(Fault::new(
                Stage::Headers,
                FailureKind::ContentType,
                problem,
            )));
        }
        let limits = AnswerLimits {
            max_event_bytes: if streaming {
                self.target.limits.event_bytes
            } else {
                self.target.limits.body_bytes
            },
            held: self.target.held.clone(),
            keep_text: self.keep_text,
            max_events: self.max_events,
        };
        let protocol = Arc::clone(&self.target.protocol);
        let mut decoder = AnswerDecoder::new(protocol, streaming, limits);
        for (name, value) in &head.headers {
            if let Ok(text) = value.to_str() {
                decoder.header(name.as_str(), text);
            }
        }
        self.decoder = Some(decoder);
        None
    }

    fn data(&mut self, bytes: &[u8], mark: ReadMark, log: &ReadLog) -> Option<Ending> {
        let len = bytes.len();
        self.exchange.response_bytes += u64::try_from(len).unwrap_or(u64::MAX);
        if let Some(error_body) = &mut self.error_body {
            if !error_body.push(bytes) {
                return Some(Ending::Enough);
            }
        } else if let Some(decoder) = &mut self.decoder {
            let progress = decoder.push(bytes, mark);
            if progress.content_events > 0 {
                log.note_events(progress.content_events);
                self.events += u64::try_from(progress.content_events).unwrap_or(u64::MAX);
                self.last_event = mark.returned;
                if let Some(gaps) = self.gaps {
                    let asked = self.awaited.then(|| self.ready.unwrap_or(self.begun));
                    gaps.note(asked, self.last_arrival, mark, progress.content_events);
                    log.note_busy(gaps.is_pausing());
                    self.last_arrival = Some(mark.arrival);
                }
                self.deadline.set(self.due());
            }
            if progress.failed {
                return Some(Ending::Enough);
            }
            if let Some(CancelAfter::Events(most)) = self.target.cancel_after
                && self.events >= most
                && !progress.done
            {
                let reason = Outcome::stopped_after(format_args!("{most} content events"));
                return Some(Ending::Cancelled(reason));
            }
        }
        // A server that never pauses must not outrun the timer.
        self.deadline
            .has_passed(mark.returned)
            .then_some(Ending::Late)
    }

    fn finish(&mut self, ending: Ending, now: Stamp, log: &ReadLog, peer: &str) {
        if let Some(error_body) = self.error_body.take() {
            // The status is the outcome, however its page ended.
            let at = if let Ending::Whole(at) = ending {
                at
            } else {
                now
            };
            let message = error_body.into_message();
            let fault = Fault::new(Stage::Headers, FailureKind::Status, message);
            return self.close(fault.into_outcome(), at);
        }
        let stage = self.stage();
        let (end, at) = match ending {
            Ending::Whole(at) => (StreamEnd::Eof, at),
            Ending::Enough => (StreamEnd::Eof, now),
            Ending::Broken(broken) => (cut(Fault::broken(stage, broken, log, peer)), now),
            Ending::Fault(fault) => (cut(fault), now),
            Ending::Cancelled(reason) => (StreamEnd::Cancelled(reason), now),
            Ending::Late => (self.late(stage), now),
        };
        if let Some(delay) = self.finish_answer(end, at) {
            log.note_closing(delay);
        }
    }

    /// Gives how long the closing events took to follow the last token, where that was seen.
    fn finish_answer(&mut self, end: StreamEnd, at: Stamp) -> Option<Nanos> {
        let Some(decoder) = self.decoder.take() else {
            let nothing = Fault::new(
                Stage::Headers,
                FailureKind::Closed,
                "the connection ended without a response",
            );
            self.close(end.into_outcome(|| nothing.into_outcome()), at);
            return None;
        };
        let answer = decoder.finish(end);
        self.exchange.events = answer.events;
        self.exchange.finish_reason = answer.finish_reason;
        self.exchange.usage = answer.usage;
        self.exchange.server = answer.server;
        self.exchange.text_chars = answer.text_chars;
        self.exchange.text = answer.text;
        self.close(answer.outcome, at);
        answer.closing_delay
    }

    fn close(&mut self, outcome: Outcome, at: Stamp) {
        self.exchange.outcome = outcome;
        self.exchange.closed = Some(at);
    }

    /// The next limit, given what has happened so far.
    fn due(&self) -> Stamp {
        let mut due = self.whole_limit();
        if let Some(error_body) = &self.error_body {
            return due.min(error_body.give_up);
        }
        let Some(ready) = self.ready else {
            return due;
        };
        let (limit, since) = if self.events == 0 {
            (self.target.timeouts.first_token, ready)
        } else {
            (self.target.timeouts.between_tokens, self.last_event)
        };
        if let Some(limit) = limit {
            due = due.min(since + limit);
        }
        if let Some(limit) = self.cancel_limit() {
            due = due.min(ready + limit);
        }
        due
    }

    fn whole_limit(&self) -> Stamp {
        self.begun + self.target.timeouts.whole
    }

    fn cancel_limit(&self) -> Option<Nanos> {
        match self.target.cancel_after {
            Some(CancelAfter::Time(limit)) => Some(limit),
            _ => None,
        }
    }

    /// Which limit it was that has just been reached.
    fn late(&self, stage: Stage) -> StreamEnd {
        if self.deadline.is_recalled() {
            return StreamEnd::Cancelled("the run was ended".to_owned());
        }
        let now = self.clock.now();
        if now >= self.whole_limit() {
            return StreamEnd::TimedOut(Stage::Whole);
        }
        match (self.cancel_limit(), self.ready) {
            (Some(limit), Some(ready)) if now >= ready + limit => {
                StreamEnd::Cancelled(Outcome::stopped_after(limit))
            }
            _ => StreamEnd::TimedOut(stage),
        }
    }

    /// What the request is waiting for.
    fn stage(&self) -> Stage {
        match &self.decoder {
            Some(decoder) => decoder.stage(),
            None if self.exchange.headers.is_some() || self.exchange.sent.is_some() => {
                Stage::Headers
            }
            None => Stage::Send,
        }
    }
}

fn cut(fault: Fault) -> StreamEnd {
    StreamEnd::Cut {
        stage: fault.stage,
        failure: fault.kind,
        message: fault.message,
    }
}
