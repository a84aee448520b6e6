//! From sequences to bytes: the stream's loop, the answer in one piece, and what faults do to both.

mod stream;

use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll};

use crate::api::{Job, Reply, Usage, Whole};
use crate::engine::{Finish, Gen, Step};
use crate::fault::{Fault, FaultKind as K, FaultSet};
use crate::http::{Gone, Head, Peer};
use crate::ledger::{Entry, Outcome};
use crate::metrics::Phases;
use crate::serve::{Left, send};
use crate::server::Local;
use crate::text::Decoder;

pub(crate) use stream::write_head;

/// Generates, and answers in the way that was asked for.
pub(crate) async fn run(
    local: &Local,
    job: Job,
    faults: &FaultSet,
    peer: Peer,
    entry: &mut Entry,
) -> Left {
    entry.stream = job.stream;
    entry.prompt_tokens = job.prompt_tokens;
    let Job {
        sequences,
        prompt_tokens,
        stream,
        mut dialect,
    } = job;
    let mut choices = Vec::with_capacity(sequences.len());
    for sequence in sequences {
        let Ok(generation) = local.server.engine.submit(sequence, &local.server.metrics) else {
            entry.outcome = Outcome::Refused;
            let full = Reply::error(503, "the engine's queue is full", None);
            return send(local, full, faults, peer, entry).await;
        };
        choices.push(Choice::new(generation, local.server.text.decoder()));
    }
    let mut generation = Generation::new(local, choices, prompt_tokens, entry.body_ns);
    if stream {
        stream::run(&mut generation, dialect.as_mut(), faults, peer, entry).await
    } else {
        whole(&mut generation, dialect.as_mut(), faults, peer, entry).await
    }
}

async fn whole(
    generation: &mut Generation<'_>,
    dialect: &mut dyn crate::api::Dialect,
    faults: &FaultSet,
    mut peer: Peer,
    entry: &mut Entry,
) -> Left {
    loop {
        match generation.next(&mut peer).await {
            Next::Step { choice, step } => generation.account(choice, &step, entry),
            Next::Gone => {
                entry.outcome = Outcome::ClientGone;
                return None;
            }
            Next::Over => break,
        }
    }
    let body = dialect.whole(&generation.summary(faults));
    let reply = Reply::json(200, &body);
    send(generation.local, reply, faults, peer, entry).await
}

pub(crate) struct Choice {
    generation: Option<Gen>,
    decoder: Decoder,
    text: String,
    ids: Vec<u32>,
    finish: Option<Finish>,
    last_ns: u64,
    /// Tokens before the current step.
    before: u64,
    /// Where the current step's text and ids begin.
    new_text: usize,
    new_ids: usize,
}

impl Choice {
    fn new(generation: Gen, decoder: Decoder) -> Self {
        Self {
            generation: Some(generation),
            decoder,
            text: String::new(),
            ids: Vec::new(),
            finish: None,
            last_ns: 0,
            before: 0,
            new_text: 0,
            new_ids: 0,
        }
    }
}

/// All sequences of an answer, and what is known about them.
pub(crate) struct Generation<'a> {
    pub(crate) local: &'a Local,
    choices: Vec<Choice>,
    usage: Usage,
    phases: Phases,
    /// Whether the texts are kept: not for a stream, whose memory must not grow.
    keep: bool,
}

pub(crate) enum Next {
    Step { choice: usize, step: Step },
    Over,
    Gone,
}

impl<'a> Generation<'a> {
    fn new(local: &'a Local, choices: Vec<Choice>, prompt: u64, arrived_ns: u64) -> Self {
        let usage = Usage {
            prompt,
            completion: 0,
            cached: 0,
        };
        let phases = Phases {
            arrived_ns,
            scheduled_ns: arrived_ns,
            first_ns: 0,
            last_ns: 0,
        };
        Self {
            local,
            choices,
            usage,
            phases,
            keep: true,
        }
    }

    /// Waits for the next step of any choice, or for the client to go.
    async fn next(&mut self, peer: &mut Peer) -> Next {
        std::future::poll_fn(|cx| {
            if let Poll::Ready(next) = self.poll_step(cx) {
                return Poll::Ready(next);
            }
            peer.poll_gone(cx).map(|()| Next::Gone)
        })
        .await
    }

    fn poll_step(&mut self, cx: &mut Context<'_>) -> Poll<Next> {
        let mut open = false;
        for (at, choice) in self.choices.iter_mut().enumerate() {
            let Some(generation) = &mut choice.generation else {
                continue;
            };
            if !self.keep {
                choice.text.clear();
                choice.ids.clear();
            }
            choice.new_ids = choice.ids.len();
            choice.new_text = choice.text.len();
            match generation.poll_next(&self.local.pacer, &mut choice.ids, cx) {
                Poll::Pending => open = true,
                Poll::Ready(None) => choice.generation = None,
                Poll::Ready(Some(step)) => {
                    if step.finish.is_some() {
                        choice.generation = None;
                        choice.finish = step.finish;
                    }
                    return Poll::Ready(Next::Step { choice: at, step });
                }
            }
        }
        if open {
            Poll::Pending
        } else {
            Poll::Ready(Next::Over)
        }
    }

    /// Counts a step, and decodes it.
    fn account(&mut self, at: usize, step: &Step, entry: &mut Entry) {
        let choice = &mut self.choices[at];
        let new = choice.ids.len() - choice.new_ids;
        let tokens = u32::try_from(new).unwrap_or(u32::MAX);
        choice
            .decoder
            .push(&choice.ids[choice.new_ids..], &mut choice.text);
        self.usage.completion += u64::from(tokens);
        entry.completion_tokens = self.usage.completion;
        let metrics = &self.local.server.metrics;
        metrics
            .generation_tokens
            .fetch_add(u64::from(tokens), Relaxed);
        if choice.last_ns == 0 {
            choice.before = 0;
            metrics.first_token(step.due_ns.saturating_sub(self.phases.arrived_ns) as f64 / 1e9);
            self.usage.cached += u64::from(step.cached_tokens);
            entry.cached_tokens = self.usage.cached;
            if self.phases.first_ns == 0 {
                self.phases.first_ns = step.due_ns;
                self.phases.scheduled_ns = step.scheduled_ns;
                entry.scheduled_ns = Some(step.scheduled_ns);
                metrics.prompt_tokens.fetch_add(self.usage.prompt, Relaxed);
            }
        } else {
            metrics.gap(step.due_ns.saturating_sub(choice.last_ns), tokens);
        }
        choice.last_ns = step.due_ns;
        self.phases.last_ns = self.phases.last_ns.max(step.due_ns);
    }

    fn summary(&mut self, faults: &FaultSet) -> Whole {
        let mut usage = self.usage;
        usage.completion += usage.completion * faults.get(K::UsageLies).unwrap_or(0) / 100;
        let take = |choice: &mut Choice| {
            (
                std::mem::take(&mut choice.text),
                std::mem::take(&mut choice.ids),
                choice.finish.unwrap_or(Finish::Stop),
            )
        };
        Whole {
            choices: self.choices.iter_mut().map(take).collect(),
            usage,
            phases: self.phases,
        }
    }
}

impl Drop for Generation<'_> {
    fn drop(&mut self) {
        let finish = self.choices.first().and_then(|choice| choice.finish);
        self.local.server.metrics.request_over(self.phases, finish);
    }
}

// Faults that take the place of the whole answer.

const PAGE: &str = "<!DOCTYPE html>\n<html><head><title>502 Bad Gateway</title></head>\
<body><h1>Bad Gateway</h1><p>The upstream is away. <script>alert(1)</script></p></body></html>\n";

/// The faults that do; of several the first.
pub(crate) const INSTEAD: [K; 10] = [
    K::ResetHead,
    K::CloseHead,
    K::StallHead,
    K::EndlessHeader,
    K::Html,
    K::EmptyBody,
    K::TooMany,
    K::Unavailable,
    K::Redirect,
    K::Internal,
];

/// Plays the fault.
pub(crate) async fn instead(
    local: &Local,
    Fault { kind, argument }: Fault,
    faults: &FaultSet,
    peer: Peer,
    entry: &mut Entry,
) -> Left {
    let page = |content_type, body: &str| Reply {
        status: 200,
        content_type,
        body: body.into(),
    };
    let seconds = ("retry-after", argument.to_string());
    match kind {
        K::ResetHead => peer.reset().await,
        K::CloseHead => peer.close().await,
        K::StallHead => stall(local, peer, argument).await,
        K::EndlessHeader => endless_header(peer, argument, entry).await,
        K::Html => {
            let page = page("text/html; charset=utf-8", PAGE);
            return send(local, page, faults, peer, entry).await;
        }
        K::EmptyBody => {
            let empty = page("text/event-stream; charset=utf-8", "");
            return send(local, empty, faults, peer, entry).await;
        }
        K::TooMany => return status(429, Some(seconds), peer, entry).await,
        K::Unavailable => return status(503, Some(seconds), peer, entry).await,
        K::Redirect => {
            let to = "http://redirected.invalid/v1/chat/completions".to_owned();
            return status(307, Some(("location", to)), peer, entry).await;
        }
        _ => return status(500, None, peer, entry).await,
    }
    None
}

/// An answer that is a status with a header.
async fn status(
    status: u16,
    header: Option<(&'static str, String)>,
    mut peer: Peer,
    entry: &mut Entry,
) -> Left {
    let reply = Reply::error(status, "a planned fault", None);
    let mut head = Head::new(status, reply.content_type, Some(reply.body.len() as u64));
    head.headers.extend(header);
    entry.status = Some(status);
    let written = async {
        entry.headers_ns = Some(peer.head(&head).await?.after_ns);
        peer.write(&reply.body).await
    };
    match written.await {
        Ok(written) => {
            entry.end_ns = Some(written.after_ns);
            Some(peer)
        }
        Err(Gone) => None,
    }
}

/// Holds the connection for so long, or until the client goes.
pub(crate) async fn stall(local: &Local, mut peer: Peer, ms: u64) {
    tokio::select! {
        () = local.pacer.pause(ms.saturating_mul(1_000_000)) => {}
        () = peer.gone() => {}
    }
}

async fn endless_header(mut peer: Peer, mut bytes: u64, entry: &mut Entry) {
    const PIECE: &[u8] = &[b'a'; 65_536];
    if !matches!(peer, Peer::H1 { .. }) {
        return peer.reset().await;
    }
    let mut sent = peer.write(b"HTTP/1.1 200 OK\r\nx-endless: ").await;
    while bytes > 0 && sent.is_ok() {
        let n = bytes.min(PIECE.len() as u64);
        sent = peer
            .write(&PIECE[..usize::try_from(n).unwrap_or(PIECE.len())])
            .await;
        bytes -= n;
    }
    entry.end_ns = sent.ok().map(|written| written.after_ns);
    peer.close().await;
}
