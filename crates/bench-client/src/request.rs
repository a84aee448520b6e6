//! From a generation to the bytes that ask for it: encoded apart from any connection, so that nothing but a write is left when
//! the request is due.

use std::convert::Infallible;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use bench_schema::{GenerationRequest, Stamp};
use bytes::{Buf, Bytes};
use hyper::body::{Body, Frame, SizeHint};
use hyper::header::{
    ACCEPT, CONNECTION, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue,
    PROXY_AUTHORIZATION, USER_AGENT,
};
use hyper::{Method, Request, Uri, Version};

use crate::socket::ReadLog;
use crate::transfer::{Connection, Transfer};
use crate::{ClientError, ConnectionPolicy, Endpoint, Protocol, Proxy, Target};

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const AGENT: &str = concat!("llm-bench/", env!("CARGO_PKG_VERSION"));

/// Encodes generations as a target wants them. Any thread may do it, ahead of time: it opens no connection and reads no clock.
#[derive(Clone, Debug)]
pub struct RequestEncoder {
    protocol: Arc<dyn Protocol>,
    model: String,
    /// Everything that does not change from one request to the next.
    headers: HeaderMap,
    keep_text: Option<usize>,
}

/// A request that is ready to be written: its body is encoded, its headers are parsed. The client that sends it picks the endpoint
/// and the connection ([`Client::send_prepared`](crate::Client::send_prepared)).
#[derive(Clone, Debug)]
pub struct PreparedRequest {
    body: Bytes,
    headers: HeaderMap,
    streaming: bool,
    keep_text: Option<usize>,
}

impl RequestEncoder {
    /// An encoder of this target's protocol, model and headers.
    ///
    /// # Errors
    /// [`ClientError::Header`] where HTTP does not allow a header of the target.
    pub fn new(target: &Target) -> Result<Self, ClientError> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(USER_AGENT, HeaderValue::from_static(AGENT));
        if target.connections == ConnectionPolicy::PerRequest {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        let mut put = |name: &str, value: &str, secret: bool| -> Result<(), ClientError> {
            let refused = |problem: String| ClientError::Header {
                name: name.to_owned(),
                problem,
            };
            let parsed = HeaderName::from_bytes(name.as_bytes())
                .map_err(|error| refused(error.to_string()))?;
            let mut text =
                HeaderValue::from_str(value).map_err(|error| refused(error.to_string()))?;
            text.set_sensitive(secret);
            headers.insert(parsed, text);
            Ok(())
        };
        for (name, value) in target.protocol.extra_headers() {
            put(name, value, false)?;
        }
        if let Some(key) = &target.api_key {
            let (name, value) = target.protocol.auth_header(key.expose());
            put(name, &value, true)?;
        }
        for (name, value) in &target.headers {
            put(name.as_str(), value.expose(), true)?;
        }
        Ok(Self {
            protocol: Arc::clone(&target.protocol),
            model: target.model.clone(),
            headers,
            keep_text: target.keep_text,
        })
    }

    /// Encode a generation. `request_id` goes out as `x-request-id`.
    ///
    /// # Errors
    /// [`ClientError::Header`] where HTTP does not allow the id in a header.
    pub fn prepare(
        &self,
        request: &GenerationRequest,
        request_id: &str,
    ) -> Result<PreparedRequest, ClientError> {
        let streaming = request.stream && self.protocol.streams();
        let mut headers = self.headers.clone();
        headers.entry(ACCEPT).or_insert(HeaderValue::from_static(
            self.protocol.framing(streaming).accept(),
        ));
        let id = HeaderValue::from_str(request_id).map_err(|error| ClientError::Header {
            name: REQUEST_ID.to_string(),
            problem: format!("{error} ({request_id:?})"),
        })?;
        headers.entry(REQUEST_ID).or_insert(id);
        Ok(PreparedRequest {
            body: Bytes::from(self.protocol.body(request, &self.model)),
            headers,
            streaming,
            keep_text: self.keep_text,
        })
    }
}

impl PreparedRequest {
    /// A plain request outside the measured protocol (probes and scrapes): `GET`, or `POST` where there is a body.
    pub(crate) fn plain(body: Bytes, headers: HeaderMap) -> Self {
        Self {
            body,
            headers,
            streaming: false,
            keep_text: None,
        }
    }

    /// Keep so many characters of this answer, instead of what the target says; `None` keeps none.
    #[must_use]
    pub fn keeping_text(self, keep_text: Option<usize>) -> Self {
        Self { keep_text, ..self }
    }

    /// Characters of the answer to keep in its record.
    pub fn kept_text(&self) -> Option<usize> {
        self.keep_text
    }

    /// What it is called: its `x-request-id`.
    pub fn request_id(&self) -> Option<&str> {
        self.headers.get(REQUEST_ID)?.to_str().ok()
    }

    /// The request's body.
    pub fn body(&self) -> &Bytes {
        &self.body
    }

    /// Whether the answer is asked for as a stream.
    pub fn is_streaming(&self) -> bool {
        self.streaming
    }
}

/// Where a request goes: one server, one path, and how a proxy between is told.
#[derive(Debug)]
pub(crate) struct Route {
    /// The path alone, which HTTP/1.1 wants.
    path: Uri,
    /// The whole URL, which HTTP/2 and proxies want.
    whole: Uri,
    host: Option<HeaderValue>,
    /// A proxy reads the request itself (a tunnel's does not), and may want to be told who asks.
    through_proxy: bool,
    proxy_authorization: Option<HeaderValue>,
    /// The server's name for messages.
    pub(crate) peer: String,
}

impl Route {
    pub(crate) fn new(
        endpoint: &Endpoint,
        path: &str,
        proxy: Option<&Proxy>,
    ) -> Result<Self, ClientError> {
        let unusable = |error: &dyn std::fmt::Display| ClientError::Url {
            url: format!("{endpoint} with the path {path}"),
            problem: error.to_string(),
        };
        let scheme = if endpoint.is_secure() {
            "https"
        } else {
            "http"
        };
        let whole = Uri::builder()
            .scheme(scheme)
            .authority(endpoint.authority())
            .path_and_query(path)
            .build()
            .map_err(|error| unusable(&error))?;
        // Through a tunnel this would tell the server who asks the proxy.
        let proxy = proxy.filter(|_| Proxy::reads_requests_to(endpoint));
        let mut authorization = proxy
            .and_then(Proxy::authorization)
            .and_then(|text| HeaderValue::from_str(text.expose()).ok());
        if let Some(value) = &mut authorization {
            value.set_sensitive(true);
        }
        Ok(Self {
            path: path.parse().map_err(|error| unusable(&error))?,
            whole,
            host: HeaderValue::from_str(&endpoint.authority()).ok(),
            through_proxy: proxy.is_some(),
            proxy_authorization: authorization,
            peer: endpoint.to_string(),
        })
    }
}

/// A prepared request on its way to a server: can be written on any connection and as often as need be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HttpRequest<'a> {
    pub(crate) prepared: &'a PreparedRequest,
    pub(crate) route: &'a Route,
}

impl HttpRequest<'_> {
    /// Begin its exchange on a connection.
    pub(crate) fn start_on(self, connection: Connection) -> Transfer {
        let sent = Sent::new(self.prepared.body.len());
        let request = self.on(connection.is_http2(), connection.log(), &sent);
        connection.start(request, sent)
    }

    fn on(self, http2: bool, log: &Rc<ReadLog>, sent: &Arc<Sent>) -> Request<Outgoing> {
        let Self { prepared, route } = self;
        let body = prepared.body.clone();
        let outgoing = Outgoing::new(body, Rc::clone(log), Arc::clone(sent));
        let mut request = Request::new(outgoing);
        *request.method_mut() = if prepared.body.is_empty() {
            Method::GET
        } else {
            Method::POST
        };
        *request.headers_mut() = prepared.headers.clone();
        let whole = http2 || route.through_proxy;
        *request.uri_mut() = if whole { &route.whole } else { &route.path }.clone();
        let headers = request.headers_mut();
        if let Some(value) = &route.proxy_authorization {
            headers.insert(PROXY_AUTHORIZATION, value.clone());
        }
        if !http2 && let Some(host) = &route.host {
            headers.entry(HOST).or_insert(host.clone());
        }
        if http2 {
            *request.version_mut() = Version::HTTP_2;
        }
        request
    }
}

// A request's body that tells when it has left.

/// When the last byte of a request was handed to the socket. hyper takes a body long before that: over HTTP/2 before the head is written.
#[derive(Debug)]
pub(crate) struct Sent {
    /// Bytes of the body that are still in buffers above the connection's.
    left: AtomicUsize,
    at: OnceLock<Stamp>,
}

impl Sent {
    /// Of a request with a body of so many bytes.
    pub(crate) fn new(len: usize) -> Arc<Self> {
        Arc::new(Self {
            left: AtomicUsize::new(len),
            at: OnceLock::new(),
        })
    }

    pub(crate) fn at(&self) -> Option<Stamp> {
        self.at.get().copied()
    }

    /// Nothing is left in the connection's buffers, and the last write was at `last_write`: whether that took the last of this request.
    pub(crate) fn flushed(&self, last_write: Stamp) -> bool {
        let out = self.left.load(Ordering::Relaxed) == 0;
        if out {
            self.at.get_or_init(|| last_write);
        }
        out
    }
}

/// A whole request body, handed to hyper.
#[derive(Debug)]
pub(crate) struct Outgoing {
    rest: Bytes,
    log: Rc<ReadLog>,
    sent: Arc<Sent>,
}

/// Bytes on their way through the connection's buffers.
#[derive(Debug)]
pub(crate) struct Counted {
    bytes: Bytes,
    sent: Arc<Sent>,
}

impl Outgoing {
    /// `sent` will hold when the last byte was handed to the socket.
    pub(crate) fn new(body: Bytes, log: Rc<ReadLog>, sent: Arc<Sent>) -> Self {
        Self {
            rest: body,
            log,
            sent,
        }
    }
}

impl Body for Outgoing {
    type Data = Counted;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Counted>, Infallible>>> {
        if self.rest.is_empty() {
            return Poll::Ready(None);
        }
        self.log.note_body_taken(&self.sent);
        let counted = Counted {
            bytes: std::mem::take(&mut self.rest),
            sent: Arc::clone(&self.sent),
        };
        Poll::Ready(Some(Ok(Frame::data(counted))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(u64::try_from(self.rest.len()).unwrap_or(u64::MAX))
    }
}

impl Buf for Counted {
    fn remaining(&self) -> usize {
        self.bytes.remaining()
    }

    fn chunk(&self) -> &[u8] {
        self.bytes.chunk()
    }

    fn advance(&mut self, count: usize) {
        self.bytes.advance(count);
        self.sent.left.store(self.bytes.len(), Ordering::Relaxed);
    }
}

#[cfg(test)]
#[path = "../tests/unit/request.rs"]
mod tests;
