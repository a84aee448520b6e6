//! The wire: hyper over stamped sockets, SSE, protocols; one request in, timed events out.

mod mark;

pub use mark::ReadMark;
