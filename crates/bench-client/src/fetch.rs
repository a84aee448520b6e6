//! Plain requests beside the measured ones: probes, metric pages, tokenising.

use std::cell::Cell;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bench_schema::{Nanos, Secret, Stage};
use bytes::Bytes;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};

use crate::clock::KernelStamps;
use crate::connect::Connector;
use crate::deadline::Deadline;
use crate::fault::Fault;
use crate::protocol::page_error;
use crate::request::{HttpRequest, PreparedRequest, Route};
use crate::transfer::{Connection, Http1, Http2, LocalTasks, Step};
use crate::{ClientError, Clock, Endpoint, Target};

/// A whole response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetched {
    /// HTTP status.
    pub status: u16,
    /// The `server` header.
    pub server: Option<String>,
    /// The body.
    pub body: Vec<u8>,
}

/// Gets pages of the target's servers and of others, one connection each, with limits on time and size. `Send` and `Sync`: for a
/// sampler's own thread.
#[derive(Clone, Debug)]
pub struct Fetcher {
    target: Arc<Target>,
    clock: Clock,
    /// What another server than the target's wants to be told.
    authorization: Option<(Endpoint, HeaderValue)>,
}

/// What a fetch may cost.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FetchLimits {
    pub(crate) time: Duration,
    pub(crate) bytes: usize,
}

impl Fetcher {
    /// A fetcher with the target's certificates. Its headers and API key go to the target's own hosts only.
    ///
    /// # Errors
    /// [`ClientError`] where a certificate file of the target cannot be used.
    pub fn new(target: &Target) -> Result<Self, ClientError> {
        let clock = Clock::start();
        // To fail now rather than at the first page.
        Connector::new(target, Rc::new(KernelStamps::new(clock.clone())))?;
        Ok(Self {
            target: Arc::new(target.clone()),
            clock,
            authorization: None,
        })
    }

    /// Tell the server of `url`, and no other, this `Authorization`.
    ///
    /// # Errors
    /// [`ClientError::Url`] of an address that is none, [`ClientError::Header`] of a value that no header can have.
    pub fn authorized(self, url: &str, value: &Secret) -> Result<Self, ClientError> {
        let (endpoint, _) = Endpoint::parse_page(url)?;
        let mut header =
            HeaderValue::from_str(value.expose()).map_err(|error| ClientError::Header {
                name: AUTHORIZATION.to_string(),
                problem: error.to_string(),
            })?;
        header.set_sensitive(true);
        Ok(Self {
            authorization: Some((endpoint, header)),
            ..self
        })
    }

    /// Get `url` from a thread without a runtime; 2xx only, at most `most_bytes`.
    ///
    /// # Errors
    /// A sentence: no connection, another status, too slow, too large.
    pub fn get(&self, url: &str, timeout: Duration, most_bytes: usize) -> Result<Vec<u8>, String> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| format!("no runtime for a page: {error}"))?;
        let limits = FetchLimits {
            time: timeout,
            bytes: most_bytes,
        };
        let fetched = runtime
            .block_on(self.fetch_url(url, limits))
            .map_err(|error| error.to_string())?;
        if (200..300).contains(&fetched.status) {
            return Ok(fetched.body);
        }
        // Without its query, which may hold a token.
        let page = url.split('?').next().unwrap_or_default();
        let said = page_error(&fetched.body).map(|said| format!(": {said}"));
        let said = said.unwrap_or_default();
        Err(format!("{page}: HTTP {}{said}", fetched.status))
    }

    pub(crate) async fn fetch_url(
        &self,
        url: &str,
        limits: FetchLimits,
    ) -> Result<Fetched, ClientError> {
        // The path belongs to the page, not to a base URL.
        let (endpoint, path) = Endpoint::parse_page(url)?;
        self.fetch(&endpoint, &path, Bytes::new(), limits).await
    }

    /// `GET`, or `POST` of JSON where there is a body.
    pub(crate) async fn fetch(
        &self,
        endpoint: &Endpoint,
        path: &str,
        body: Bytes,
        limits: FetchLimits,
    ) -> Result<Fetched, ClientError> {
        let headers = self.headers_for(endpoint);
        let proxy = self.target.proxy.as_ref();
        let prepared = PreparedRequest::plain(body, headers);
        let route = Route::new(endpoint, path, proxy)?;
        let request = HttpRequest {
            prepared: &prepared,
            route: &route,
        };
        let url = format!("{endpoint}");
        let stamps = Rc::new(KernelStamps::new(self.clock.clone()));
        let mut target = Target::clone(&self.target);
        target.endpoints = vec![endpoint.clone()];
        let connector = Connector::new(&target, stamps)?;
        let stage = Cell::new(Stage::Connect);
        let due = self.clock.now() + Nanos::from_duration(limits.time);
        let mut deadline = Deadline::new(self.clock.clone(), due, Rc::default());
        let exchange = exchange(&connector, endpoint, request, &stage, limits.bytes);
        let local = tokio::task::LocalSet::new();
        match deadline.within(local.run_until(exchange)).await {
            Some(Ok(fetched)) => Ok(fetched),
            Some(Err(fault)) => Err(ClientError::Fetch {
                url,
                message: fault.message,
            }),
            None => Err(ClientError::NoAnswer {
                url,
                waited: limits.time,
                stage: stage.get(),
            }),
        }
    }

    pub(crate) fn target(&self) -> &Target {
        &self.target
    }

    /// Secrets are for the measured hosts, not for whoever has a metrics page.
    fn headers_for(&self, endpoint: &Endpoint) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static("*/*"));
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let mut own = self.target.endpoints.iter();
        if !own.any(|own| own.same_server(endpoint)) {
            let told = self.authorization.iter();
            let told = told.filter(|(server, _)| server.same_server(endpoint));
            headers.extend(told.map(|(_, value)| (AUTHORIZATION, value.clone())));
            return headers;
        }
        let key = self.target.api_key.as_ref().map(|key| {
            let (name, value) = self.target.protocol.auth_header(key.expose());
            (HeaderName::from_bytes(name.as_bytes()).ok(), value)
        });
        if let Some((Some(name), value)) = key
            && let Ok(value) = HeaderValue::from_str(&value)
        {
            headers.insert(name, value);
        }
        for (name, value) in &self.target.headers {
            if let Ok(value) = HeaderValue::from_str(value.expose()) {
                headers.insert(name.clone(), value);
            }
        }
        headers
    }
}

async fn exchange(
    connector: &Connector,
    endpoint: &Endpoint,
    request: HttpRequest<'_>,
    stage: &Cell<Stage>,
    most_bytes: usize,
) -> Result<Fetched, Fault> {
    let peer = endpoint.to_string();
    let raw = connector.connect(endpoint, stage).await?;
    let log = Rc::clone(&raw.log);
    let tasks = LocalTasks::default();
    let connection = if raw.http2 {
        Http2::open(raw, &tasks).await.map(Connection::Http2)
    } else {
        let opened = Http1::open(raw, 64 << 10).await;
        opened.map(|connection| Connection::Http1(Box::new(connection)))
    };
    stage.set(Stage::Headers);
    let broken = |error: &hyper::Error| Fault::hyper(Stage::Headers, error, &log, &peer);
    let connection = connection.map_err(|error| broken(&error))?;
    let sent = Rc::default();
    let request = request.on(connection.is_http2(), &log, &sent);
    let mut transfer = connection.start(request, sent);
    let mut fetched = Fetched {
        status: 0,
        server: None,
        body: Vec::new(),
    };
    loop {
        match poll_fn(|cx| transfer.poll_step(cx)).await {
            Step::Head(head, _) => {
                fetched.status = head.status.as_u16();
                let server = head.headers.get(hyper::header::SERVER);
                fetched.server = server
                    .and_then(|value| value.to_str().ok())
                    .map(str::to_owned);
            }
            Step::Data(bytes, _) => {
                if fetched.body.len() + bytes.len() > most_bytes {
                    let message = format!("the page is larger than {most_bytes} bytes");
                    let kind = bench_schema::FailureKind::TooLarge;
                    return Err(Fault::new(Stage::Tail, kind, message));
                }
                fetched.body.extend_from_slice(&bytes);
            }
            Step::End(_) => return Ok(fetched),
            Step::Broken(error) => return Err(broken(&error)),
            Step::Lost => {
                let kind = bench_schema::FailureKind::Closed;
                return Err(Fault::new(
                    Stage::Headers,
                    kind,
                    "the connection was closed",
                ));
            }
        }
    }
}
