//! From a generation to the HTTP request that asks for it.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use bench_schema::{FailureKind, GenerationRequest, Stage, Stamp};
use bytes::Bytes;
use hyper::header::{
    ACCEPT, CONNECTION, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue,
    PROXY_AUTHORIZATION, USER_AGENT,
};
use hyper::{Method, Request, Uri, Version};

use crate::fault::Fault;
use crate::outgoing::Outgoing;
use crate::socket::ReadLog;
use crate::{ClientError, ConnectionPolicy, Endpoint, Proxy, Target};

const AGENT: &str = concat!("llm-bench/", env!("CARGO_PKG_VERSION"));

/// Makes requests of a target; everything that does not change from one to the next is made once.
#[derive(Debug)]
pub(crate) struct Questions {
    target: Arc<Target>,
    headers: HeaderMap,
}

/// One request, ready to be sent on any connection and as often as need be.
#[derive(Debug)]
pub(crate) struct Question {
    body: Bytes,
    path: String,
    authority: String,
    secure: bool,
    /// A proxy reads the request itself (a tunnel's does not) and wants the whole URL.
    absolute: bool,
    headers: HeaderMap,
    /// Whether the answer is asked for as a stream.
    pub(crate) streaming: bool,
    /// The server's name for messages.
    pub(crate) peer: String,
}

impl Questions {
    pub(crate) fn new(target: &Arc<Target>) -> Result<Self, ClientError> {
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
            target: Arc::clone(target),
            headers,
        })
    }

    pub(crate) fn ask(
        &self,
        request: &GenerationRequest,
        request_id: &str,
        endpoint: &Endpoint,
    ) -> Result<Question, Fault> {
        let protocol = &self.target.protocol;
        let model = &self.target.model;
        let streaming = request.stream && protocol.streams();
        let mut headers = self.headers.clone();
        headers.entry(ACCEPT).or_insert(HeaderValue::from_static(
            protocol.framing(streaming).accept(),
        ));
        let id = HeaderValue::from_str(request_id).map_err(|_| {
            Fault::new(
                Stage::Send,
                FailureKind::Other,
                format!("the request id {request_id:?} is not allowed in a header"),
            )
        })?;
        headers
            .entry(HeaderName::from_static("x-request-id"))
            .or_insert(id);
        Ok(Question {
            body: Bytes::from(protocol.body(request, model)),
            path: endpoint.path(&protocol.path(model, streaming)),
            authority: endpoint.authority(),
            secure: endpoint.is_secure(),
            absolute: introduce(self.target.proxy.as_ref(), endpoint, &mut headers),
            headers,
            streaming,
            peer: endpoint.to_string(),
        })
    }
}

impl Question {
    /// A plain request outside the measured protocol (probes and scrapes): `GET`, or `POST` where there is a body.
    pub(crate) fn plain(
        endpoint: &Endpoint,
        path: String,
        body: Bytes,
        mut headers: HeaderMap,
        proxy: Option<&Proxy>,
    ) -> Self {
        Self {
            body,
            path,
            authority: endpoint.authority(),
            secure: endpoint.is_secure(),
            absolute: introduce(proxy, endpoint, &mut headers),
            headers,
            streaming: false,
            peer: endpoint.to_string(),
        }
    }

    pub(crate) fn bytes(&self) -> u64 {
        u64::try_from(self.body.len()).unwrap_or(u64::MAX)
    }

    /// The request for a connection of that kind; `sent` will hold when it was out.
    pub(crate) fn request(
        &self,
        http2: bool,
        log: &Rc<ReadLog>,
        sent: &Rc<Cell<Option<Stamp>>>,
    ) -> Result<Request<Outgoing>, Fault> {
        let body = Outgoing::new(self.body.clone(), http2, Rc::clone(log), Rc::clone(sent));
        let mut request = Request::new(body);
        *request.method_mut() = if self.body.is_empty() {
            Method::GET
        } else {
            Method::POST
        };
        *request.headers_mut() = self.headers.clone();
        *request.uri_mut() = self.uri(http2).map_err(|error| {
            Fault::new(
                Stage::Send,
                FailureKind::Other,
                format!("the path `{}` is not allowed in HTTP: {error}", self.path),
            )
        })?;
        if http2 {
            *request.version_mut() = Version::HTTP_2;
        } else if let Ok(host) = HeaderValue::from_str(&self.authority) {
            request.headers_mut().entry(HOST).or_insert(host);
        }
        Ok(request)
    }

    /// HTTP/2 and proxies want the scheme and the authority in the request, HTTP/1.1 the path alone.
    fn uri(&self, http2: bool) -> Result<Uri, hyper::http::Error> {
        if !http2 && !self.absolute {
            return Ok(self.path.parse()?);
        }
        Uri::builder()
            .scheme(if self.secure { "https" } else { "http" })
            .authority(self.authority.as_str())
            .path_and_query(self.path.as_str())
            .build()
    }
}

/// Whether a proxy reads the request; where it does, it is told who asks. Through a tunnel that would tell the server.
fn introduce(proxy: Option<&Proxy>, endpoint: &Endpoint, headers: &mut HeaderMap) -> bool {
    let Some(proxy) = proxy.filter(|_| Proxy::reads_requests_to(endpoint)) else {
        return false;
    };
    let value = proxy.authorization();
    if let Some(Ok(mut value)) = value.map(|text| HeaderValue::from_str(text.expose())) {
        value.set_sensitive(true);
        headers.insert(PROXY_AUTHORIZATION, value);
    }
    true
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    #[test]
    fn a_panic_that_shows_what_is_asked_of_whom_shows_no_key() {
        let protocol = crate::protocol_by_name("openai-chat").unwrap();
        let mut target = Target::new("http://127.0.0.1:1", protocol, "m").unwrap();
        target.api_key = Some(bench_schema::Secret::new("sk-a-key"));
        target.headers = vec![Target::parse_header("x-token: another-key").unwrap()];
        target.proxy = Some(Proxy::parse("http://user:pass-key@127.0.0.1:2").unwrap());
        let target = Arc::new(target);
        let questions = Questions::new(&target).unwrap();
        let request = GenerationRequest {
            prompt: bench_schema::Prompt::Text("what is asked".into()),
            max_tokens: Some(1),
            min_tokens: None,
            ignore_eos: false,
            sampling: bench_schema::Sampling::default(),
            stream: true,
            extra_body: None,
        };
        let endpoint = target.endpoints.first().unwrap();
        let question = questions.ask(&request, "id", endpoint).unwrap();
        let sent = format!("{:?}", question.headers.get(PROXY_AUTHORIZATION));
        assert!(sent.contains("Sensitive"), "it is there: {sent}");
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            panic!("{target:?} {questions:?} {question:?}")
        }));
        let message = panicked.unwrap_err().downcast::<String>().unwrap();
        assert!(message.contains("127.0.0.1"), "{message}");
        for secret in ["-key", "dXNlcjpwYXNzLWtleQ"] {
            assert!(!message.contains(secret), "{message}");
        }
    }
}
