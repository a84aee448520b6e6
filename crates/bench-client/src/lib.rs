//! The wire: hyper over stamped sockets, SSE, protocols; one request in, timed events out.

mod answer;
mod mark;
pub mod protocol;
pub mod sse;

pub use answer::{Answer, AnswerDecoder, AnswerLimits, Progress, StreamEnd};
pub use mark::ReadMark;
pub use protocol::{Protocol, protocol_by_name};
