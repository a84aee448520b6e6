//! From a generation to the bytes that ask for it: encoded apart from any connection, so that nothing but a write is left when
//! the request is due.

use std::sync::Arc;

use bench_schema::GenerationRequest;
use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{
    ACCEPT, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue,
    PROXY_AUTHORIZATION, TRANSFER_ENCODING, USER_AGENT,
};
use hyper::{Method, Request, Uri, Version};

use crate::{AnswerLimits, ClientError, ConnectionPolicy, Endpoint, Protocol, Proxy, Target};

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
    max_events: usize,
    awaited: bool,
}

impl RequestEncoder {
    /// An encoder of this target's protocol, model and headers.
    ///
    /// # Errors
    /// [`ClientError::Header`] where HTTP does not allow a header of the target.
    pub fn new(target: &Target) -> Result<Self, ClientError> {
        let mut headers = own_headers(target)?;
        if target.connections == ConnectionPolicy::PerRequest {
            let close = HeaderValue::from_static("close");
            headers.entry(CONNECTION).or_insert(close);
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
            max_events: AnswerLimits::events_for(request.asked_tokens()),
            awaited: true,
        })
    }
}

/// The headers of every request to the target's own servers: the client's, and over them the API's, the key and the user's.
pub(crate) fn own_headers(target: &Target) -> Result<HeaderMap, ClientError> {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(USER_AGENT, HeaderValue::from_static(AGENT));
    let mut put = |name: &str, value: &str, secret: bool| -> Result<(), ClientError> {
        let refused = |problem: String| ClientError::Header {
            name: name.to_owned(),
            problem,
        };
        let parsed =
            HeaderName::from_bytes(name.as_bytes()).map_err(|error| refused(error.to_string()))?;
        let mut text = HeaderValue::from_str(value).map_err(|error| refused(error.to_string()))?;
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
    Ok(headers)
}

impl PreparedRequest {
    /// A plain request outside the measured protocol (probes and scrapes): `GET`, or `POST` where there is a body.
    pub(crate) fn plain(body: Bytes, headers: HeaderMap) -> Self {
        Self {
            body,
            headers,
            streaming: false,
            keep_text: None,
            max_events: AnswerLimits::events_for(None),
            awaited: true,
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

    /// The content events that its answer may have.
    pub(crate) fn max_events(&self) -> usize {
        self.max_events
    }

    /// Nobody waits for its answer to go on, as in an open loop: reads of it may wait for others' ([`ReadBatching`](crate::ReadBatching)).
    #[must_use]
    pub fn unawaited(self) -> Self {
        Self {
            awaited: false,
            ..self
        }
    }

    pub(crate) fn is_awaited(&self) -> bool {
        self.awaited
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
    /// What HTTP/1.1 asks for: the path, or the whole URL where a proxy reads the request itself (a tunnel's does not).
    target: Uri,
    /// What HTTP/2 asks for.
    whole: Uri,
    host: Option<HeaderValue>,
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
            target: match proxy {
                Some(_) => whole.clone(),
                None => path.parse().map_err(|error| unusable(&error))?,
            },
            whole,
            host: HeaderValue::from_str(&endpoint.authority()).ok(),
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
    pub(crate) fn over_http1(self) -> Request<Full<Bytes>> {
        let body = Full::new(self.prepared.body.clone());
        let mut request = self.with_body(body, &self.route.target, Version::HTTP_11);
        if let Some(host) = &self.route.host {
            request.headers_mut().entry(HOST).or_insert(host.clone());
        }
        request
    }

    /// For HTTP/2, with the body that it hands to hyper.
    pub(crate) fn over_http2<B>(self, body: B) -> Request<B> {
        self.with_body(body, &self.route.whole, Version::HTTP_2)
    }

    fn with_body<B>(self, body: B, target: &Uri, version: Version) -> Request<B> {
        let Self { prepared, route } = self;
        let mut request = Request::new(body);
        *request.method_mut() = if prepared.body.is_empty() {
            Method::GET
        } else {
            Method::POST
        };
        *request.uri_mut() = target.clone();
        *request.version_mut() = version;
        *request.headers_mut() = prepared.headers.clone();
        let headers = request.headers_mut();
        // A body has the length that it has.
        headers.remove(CONTENT_LENGTH);
        headers.remove(TRANSFER_ENCODING);
        if let Some(value) = &route.proxy_authorization {
            headers.insert(PROXY_AUTHORIZATION, value.clone());
        }
        request
    }
}

#[cfg(test)]
#[path = "../tests/unit/request.rs"]
mod tests;
