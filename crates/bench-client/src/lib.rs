//! The wire: HTTP over stamped sockets, SSE, protocols; one request in, timed events out.

mod answer;
mod client;
mod clock;
mod connect;
mod endpoint;
mod error;
mod execution;
mod fault;
mod fetch;
mod held;
mod pool;
mod probe;
pub mod protocol;
mod read_batching;
mod request;
#[cfg(test)]
#[path = "../tests/unit/scripted.rs"]
mod scripted;
mod socket;
pub mod sse;
mod sys;
mod target;
mod timer;
mod transfer;
mod wakes;

pub use answer::{Answer, AnswerDecoder, AnswerLimits, Progress, StreamEnd};
pub use client::Client;
pub use clock::{Clock, SchedStat, thread_schedstat};
pub use endpoint::{Endpoint, Proxy};
pub use error::ClientError;
pub use fetch::{Fetched, Fetcher};
pub use held::HeldBytes;
pub use probe::{Probe, ServerFacts, Tokenized};
pub use protocol::{Protocol, protocol_by_name};
pub use read_batching::ReadBatching;
pub use request::{PreparedRequest, RequestEncoder};
pub use socket::ReadMark;
pub use sys::take_short_turns;
pub use target::{
    CancelAfter, ConnectionPolicy, HttpVersion, Limits, Target, Timeouts, TlsOptions,
};
pub use timer::Timer;
