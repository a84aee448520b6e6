//! The wire: HTTP/1.1 written here, so that every byte and its time are known and every fault can be played; HTTP/2 by hyper.
//!
//! hyper's own server frames correctly, and therefore cannot frame wrongly on purpose.

pub(crate) mod conn;
pub(crate) mod events;
pub(crate) mod h2;
pub(crate) mod peer;
pub(crate) mod request;

pub(crate) use conn::Conn;
pub(crate) use events::Events;
pub(crate) use peer::{Gone, Peer, Written};
pub(crate) use request::Request;
