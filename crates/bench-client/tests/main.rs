//! The client against servers, corpora and itself: one program, so that it is linked once.

mod answer;
#[path = "corpus/case.rs"]
mod case;
mod common;
mod connections;
mod corpus;
mod engine_faults;
mod http1;
mod parts;
mod protocol_end_to_end;
mod protocol_requests;
mod sse_differential;
mod transports;
