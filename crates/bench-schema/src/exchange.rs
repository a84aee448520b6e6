//! One request as the client saw it: from the plan's hand-over to the last byte.

use serde::{Deserialize, Serialize};

use crate::{EventLog, Nanos, Stamp};

/// What the wire told about one request. The client fills it; every latency is derived from it later.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Exchange {
    /// When the connection was ready; absent where the request never got one.
    pub connected: Option<Stamp>,
    /// When the last byte of the request was handed to the socket: the clock just before the system call that took it.
    pub sent: Option<Stamp>,
    /// Arrival of the response head.
    pub headers: Option<Stamp>,
    /// Content events.
    #[serde(default, skip_serializing_if = "EventLog::is_empty")]
    pub events: EventLog,
    /// When the response was over: its last byte arrived, or the client gave up.
    pub closed: Option<Stamp>,
    /// How it ended.
    pub outcome: Outcome,
    /// Whether the answer came as a stream. One that came whole has a single event, which tells its end and nothing before it.
    #[serde(default = "yes", skip_serializing_if = "Clone::clone")]
    pub streamed: bool,
    /// HTTP status, once there was one.
    pub status: Option<u16>,
    /// How long a refusal asked to wait (`Retry-After`). Since 1.2.
    pub retry_after: Option<Nanos>,
    /// The server's finish reason (`stop`, `length`, …).
    pub finish_reason: Option<String>,
    /// The server's own token counts.
    pub usage: Option<Usage>,
    /// Timings that the server put in the response.
    pub server: Option<ServerTimings>,
    /// Bytes of the request body.
    pub request_bytes: u64,
    /// Bytes of the response body, after content decoding of the transfer encoding.
    pub response_bytes: u64,
    /// Characters of answer text, all channels.
    pub text_chars: u64,
    /// The first characters of the answer, kept only where asked.
    pub text: Option<String>,
    /// Reads of the socket that carried this response.
    pub reads: u64,
    /// Connection facts.
    pub connection: ConnectionFacts,
}

impl Exchange {
    /// An exchange that ended before anything happened on the wire.
    pub fn nothing(outcome: Outcome) -> Self {
        Self {
            connected: None,
            sent: None,
            headers: None,
            events: EventLog::default(),
            closed: None,
            outcome,
            streamed: true,
            status: None,
            retry_after: None,
            finish_reason: None,
            usage: None,
            server: None,
            request_bytes: 0,
            response_bytes: 0,
            text_chars: 0,
            text: None,
            reads: 0,
            connection: ConnectionFacts::default(),
        }
    }

    /// Whether the server has too much to do (429, 503), or is not there: a slot of a closed loop leaves it alone for a while then.
    pub fn asks_to_wait(&self) -> bool {
        let refused = |failure: FailureKind| failure == FailureKind::Refused;
        matches!(self.status, Some(429 | 503))
            || matches!(&self.outcome, Outcome::Failed { failure, .. } if refused(*failure))
    }
}

/// How a request ended. Exactly one for each planned request, so that the counts add up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Outcome {
    /// A whole answer: finish reason or end marker seen, and the transfer ended properly.
    Completed,
    /// The server or the network failed.
    Failed {
        /// Where in the request's life.
        stage: Stage,
        /// What happened, for grouping.
        failure: FailureKind,
        /// What happened, for people; no secrets, at most a few hundred characters.
        message: String,
    },
    /// The client's own limit was reached.
    TimedOut {
        /// Which limit: the stage that took too long.
        stage: Stage,
    },
    /// The stream ended without a finish reason and without an end marker.
    Truncated {
        /// What was missing.
        message: String,
    },
    /// The client stopped it on purpose.
    Cancelled {
        /// Why: `--cancel-after`, the end of the run.
        reason: String,
    },
    /// It was never sent.
    Unsent {
        /// Why: the in-flight cap, the deadline of the cell, the end of the run.
        reason: String,
    },
}

/// How the reason of an answer that was stopped as asked begins.
const STOPPED: &str = "after ";

impl Outcome {
    /// The reason of a request that was not sent because of the load's `in_flight_cap`.
    pub const CAP_REACHED: &str = "the in-flight cap was reached";

    /// Whether it was not sent for that reason.
    pub fn is_capped(&self) -> bool {
        matches!(self, Self::Unsent { reason } if reason == Self::CAP_REACHED)
    }

    /// The reason of an answer that is stopped after so much of it, as `--cancel-after` asks.
    pub fn stopped_after(what: impl std::fmt::Display) -> String {
        format!("{STOPPED}{what}")
    }

    /// Whether it was stopped as `--cancel-after` asks, and not because its cell or run came to an end.
    pub fn is_stopped(&self) -> bool {
        matches!(self, Self::Cancelled { reason } if reason.starts_with(STOPPED))
    }

    /// Whether the answer is whole.
    pub fn is_completed(&self) -> bool {
        matches!(self, Self::Completed)
    }

    /// One word, as in the JSON.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Failed { .. } => "failed",
            Self::TimedOut { .. } => "timed_out",
            Self::Truncated { .. } => "truncated",
            Self::Cancelled { .. } => "cancelled",
            Self::Unsent { .. } => "unsent",
        }
    }
}

names! {
    /// Where in its life a request was.
    Stage {
        Resolve "resolve" "Looking up the host's name.";
        Connect "connect" "Opening the TCP or Unix connection.";
        Tls "tls" "The TLS handshake.";
        Send "send" "Writing the request.";
        Headers "headers" "Waiting for the response head.";
        FirstToken "first_token" "Waiting for the first content event.";
        Stream "stream" "Between content events.";
        Tail "tail" "After the last content event.";
        Whole "whole" "The request as a whole (a limit on its total time).";
    }
}

names! {
    /// What went wrong, as one of a few kinds that can be counted.
    FailureKind {
        Dns "dns" "The host's name has no address.";
        Refused "refused" "Nobody listens there.";
        Unreachable "unreachable" "The network says there is no way there.";
        Reset "reset" "The peer reset the connection.";
        Closed "closed" "The peer closed before the answer was complete.";
        Tls "tls" "The TLS handshake or a record failed.";
        Status "status" "A status other than 2xx.";
        Http "http" "The bytes are not HTTP, or break its rules.";
        ContentType "content_type" "A 2xx answer with a body of another kind (an HTML page, say).";
        Protocol "protocol" "The stream's events or their JSON break the protocol.";
        ServerError "server_error" "The server reported an error inside a 2xx answer.";
        Empty "empty" "A 2xx answer with nothing in it.";
        TooLarge "too_large" "An event, a head or a body beyond the client's limits.";
        ClientResources "client_resources" "The client's own resources: no file descriptors, no ports, no memory.";
        Other "other" "Anything else.";
    }
}

/// The server's own token counts for one answer.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Usage {
    /// Prompt tokens, chat template included.
    pub prompt_tokens: Option<u64>,
    /// Generated tokens, reasoning included.
    pub completion_tokens: Option<u64>,
    /// Prompt tokens found in the prefix cache.
    pub cached_tokens: Option<u64>,
    /// Generated tokens that were reasoning.
    pub reasoning_tokens: Option<u64>,
}

/// Timings that some servers put into the response (llama.cpp `timings`, TGI headers, Ollama durations).
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct ServerTimings {
    /// Time in the server's queue.
    pub queue: Option<Nanos>,
    /// Time to process the prompt.
    pub prefill: Option<Nanos>,
    /// Time to generate.
    pub decode: Option<Nanos>,
    /// The server's own total.
    pub total: Option<Nanos>,
}

names! {
    /// How the number of output tokens is known.
    #[derive(Default)]
    TokenSource {
        Usage "usage" "The server's `usage`.";
        Stream "stream" "Token counts or token ids in the stream's events.";
        Tokenizer "tokenizer" "The client's tokenizer over the text.";
        #[default] Unknown "unknown" "It is not known.";
    }
}

/// What the connection cost and how it was got.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct ConnectionFacts {
    /// Index of the target URL.
    pub endpoint: u32,
    /// Whether it had carried an earlier request.
    pub reused: bool,
    /// Reused connections found closed before a byte of the answer, and replaced by a new one.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub replaced: u32,
    /// Whether it was opened before the load began, so that opening it is in none of this request's times. Since 2.3.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub beforehand: bool,
    /// Name look-up; absent on a reused connection or an address.
    pub resolve: Option<Nanos>,
    /// TCP (or Unix) connect; absent on a reused connection.
    pub connect: Option<Nanos>,
    /// TLS handshake; absent on a reused or plain connection.
    pub tls: Option<Nanos>,
}

impl ConnectionFacts {
    /// Name look-up, connect and TLS together; absent on a reused connection.
    pub fn set_up(&self) -> Option<Nanos> {
        let steps = [self.resolve, self.connect, self.tls];
        let any = steps.iter().any(Option::is_some);
        any.then(|| steps.into_iter().flatten().sum())
    }
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde's skip_serializing_if hands out references"
)]
fn is_zero(n: &u32) -> bool {
    *n == 0
}

fn yes() -> bool {
    true
}
