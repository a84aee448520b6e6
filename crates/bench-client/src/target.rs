//! What is measured, and how to talk to it.

use std::path::PathBuf;
use std::sync::Arc;

use bench_schema::{Nanos, Secret};
use hyper::header::HeaderName;

use crate::{ClientError, Endpoint, HeldBytes, Protocol, Proxy};

/// A server (or several behind different URLs), a protocol, and the client's rules. Shared by all workers of a run.
#[derive(Clone, Debug)]
pub struct Target {
    /// Where it listens; used in turn, one request each.
    pub endpoints: Vec<Endpoint>,
    /// How to ask.
    pub protocol: Arc<dyn Protocol>,
    /// The model's name in requests.
    pub model: String,
    /// Headers of every request, over the client's own. Values may be secrets and are treated so.
    pub headers: Vec<(HeaderName, Secret)>,
    /// The API key; the protocol knows which header carries it.
    pub api_key: Option<Secret>,
    /// Certificates and their checking.
    pub tls: TlsOptions,
    /// Which HTTP.
    pub http: HttpVersion,
    /// What happens to connections between requests.
    pub connections: ConnectionPolicy,
    /// A proxy to go through; the client itself never looks at the environment.
    pub proxy: Option<Proxy>,
    /// Limits on time.
    pub timeouts: Timeouts,
    /// Stop each request on purpose.
    pub cancel_after: Option<CancelAfter>,
    /// Limits on size.
    pub limits: Limits,
    /// What unfinished events and bodies of all requests may take together.
    pub held: HeldBytes,
    /// Characters of each answer to keep in its record; absent keeps none.
    pub keep_text: Option<usize>,
}

impl Target {
    /// A target with one URL and the default rules: HTTP/1.1, connections reused, 10 s to connect, 120 s for the whole request.
    ///
    /// # Errors
    /// [`ClientError::Url`] where the URL cannot be used.
    pub fn new(
        url: &str,
        protocol: Arc<dyn Protocol>,
        model: impl Into<String>,
    ) -> Result<Self, ClientError> {
        Ok(Self {
            endpoints: vec![Endpoint::parse(url)?],
            protocol,
            model: model.into(),
            headers: Vec::new(),
            api_key: None,
            tls: TlsOptions::default(),
            http: HttpVersion::default(),
            connections: ConnectionPolicy::default(),
            proxy: None,
            timeouts: Timeouts::default(),
            cancel_after: None,
            limits: Limits::default(),
            held: HeldBytes::default(),
            keep_text: None,
        })
    }
}

/// How servers' certificates are checked, and which one the client shows.
#[derive(Clone, Debug, Default)]
pub struct TlsOptions {
    /// PEM file of certificate authorities that are trusted beside the system's.
    pub ca: Option<PathBuf>,
    /// PEM files of the client's certificate chain and its private key.
    pub client: Option<(PathBuf, PathBuf)>,
    /// Accept any certificate. The result must say so.
    pub insecure: bool,
}

/// Which HTTP to speak.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HttpVersion {
    /// HTTP/1.1: one request at a time on a connection.
    #[default]
    Http1,
    /// HTTP/2: with prior knowledge over plain TCP, by ALPN over TLS. Requests share one connection per worker and endpoint.
    Http2,
}

/// What happens to a connection after its request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ConnectionPolicy {
    /// Kept and reused; [`crate::Client::open`] opens them before requests need them.
    #[default]
    Reuse,
    /// Closed: each request opens its own.
    PerRequest,
}

/// Limits on time; each one that is reached ends the request as timed out, with the stage it was in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// Name look-up, TCP and TLS together.
    pub connect: Nanos,
    /// From taking the connection to the first content event.
    pub first_token: Option<Nanos>,
    /// From one content event to the next, and from the last one to the end.
    pub between_tokens: Option<Nanos>,
    /// The whole request, connection included. Not optional: a run always ends.
    pub whole: Nanos,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Nanos::from_secs(10),
            first_token: None,
            between_tokens: None,
            whole: Nanos::from_secs(120),
        }
    }
}

/// When to stop a request on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CancelAfter {
    /// After this many content events. An event is one token on most servers, but not on all.
    Events(u64),
    /// This long after the request went out.
    Time(Nanos),
}

/// Limits on the size of what a server sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of one event.
    pub event_bytes: usize,
    /// Bytes of the response's head.
    pub head_bytes: usize,
    /// Bytes of a body that is not a stream.
    pub body_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            event_bytes: 16 << 20,
            head_bytes: 64 << 10,
            body_bytes: 64 << 20,
        }
    }
}
