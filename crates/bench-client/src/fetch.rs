//! Plain requests beside the measured ones: probes, metric pages, tokenising.
//!
//! One thread fetches for everybody who holds a clone of a [`Fetcher`], and keeps its connections: a server sees one of them, however many
//! pages are asked for one after the other and by whom.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, mpsc as blocking};
use std::thread::JoinHandle;
use std::time::Duration;

use bench_schema::{FailureKind, Nanos, Secret, Stage};
use bytes::Bytes;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use rustix::time::{ClockId, clock_gettime};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinSet, LocalSet};

use crate::client::REPLACEMENTS;
use crate::clock::KernelStamps;
use crate::connect::Connector;
use crate::fault::Fault;
use crate::pool::{Checkout, Pool};
use crate::protocol::page_error;
use crate::request::{HttpRequest, PreparedRequest, Route, own_headers};
use crate::socket::ReadLog;
use crate::timer::Deadline;
use crate::transfer::{LocalTasks, Step, Transfer};
use crate::{ClientError, Clock, Endpoint, Target};

/// Fetches that may wait for the thread. Whoever fetches waits for the page, so that there are as many as there are callers.
const WAITING: usize = 256;

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

/// Gets pages of the target's servers and of others, with limits on time and size. `Send` and `Sync`; clones share the thread and its
/// connections, which end with the last of them.
#[derive(Clone)]
pub struct Fetcher {
    target: Arc<Target>,
    own_headers: HeaderMap,
    /// What another server than the target's wants to be told.
    authorization: Option<(Endpoint, HeaderValue)>,
    thread: Arc<FetchThread>,
}

/// What a fetch may cost.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FetchLimits {
    pub(crate) time: Duration,
    pub(crate) bytes: usize,
}

/// A page that is to be fetched, and who wants it.
struct Job {
    endpoint: Endpoint,
    path: String,
    prepared: PreparedRequest,
    limits: FetchLimits,
    reply: Box<dyn FnOnce(Result<Fetched, ClientError>) + Send>,
}

struct FetchThread {
    /// Taken when it is to end.
    jobs: Option<mpsc::Sender<Job>>,
    thread: Option<JoinHandle<()>>,
    /// CPU time that it has spent, and how much of it has been told.
    cpu: Arc<AtomicI64>,
    told: AtomicI64,
}

impl Drop for FetchThread {
    fn drop(&mut self) {
        drop(self.jobs.take());
        if let Some(thread) = self.thread.take() {
            // what it panicked with was an answer that did not come
            let _joined = thread.join();
        }
    }
}

impl Fetcher {
    /// A fetcher with the target's certificates. Its headers and API key go to the target's own hosts only.
    ///
    /// # Errors
    /// [`ClientError`] where a certificate file of the target cannot be used, or no thread can be started.
    pub fn new(target: &Target) -> Result<Self, ClientError> {
        let clock = Clock::start();
        // To fail now rather than at the first page.
        Connector::new(target, Rc::new(KernelStamps::new(clock.clone())))?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(ClientError::FetchThread)?;
        let (jobs, inbox) = mpsc::channel(WAITING);
        let cpu = Arc::new(AtomicI64::new(0));
        let (own_target, own_cpu) = (target.clone(), Arc::clone(&cpu));
        let serve = move || {
            let servers = Servers {
                target: own_target,
                clock,
                known: RefCell::default(),
                cpu: own_cpu,
            };
            LocalSet::new().block_on(&runtime, servers.serve(inbox));
        };
        let thread = std::thread::Builder::new()
            .name("fetcher".to_owned())
            .spawn(serve)
            .map_err(ClientError::FetchThread)?;
        Ok(Self {
            own_headers: own_headers(target)?,
            target: Arc::new(target.clone()),
            authorization: None,
            thread: Arc::new(FetchThread {
                jobs: Some(jobs),
                thread: Some(thread),
                cpu,
                told: AtomicI64::new(0),
            }),
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

    /// Get `url`; 2xx only, at most `most_bytes`. Blocks the calling thread.
    ///
    /// # Errors
    /// A sentence: no connection, another status, too slow, too large.
    pub fn get(&self, url: &str, timeout: Duration, most_bytes: usize) -> Result<Vec<u8>, String> {
        self.page(url, Bytes::new(), (timeout, most_bytes))
    }

    /// Post an empty JSON object to `url`; otherwise as [`Fetcher::get`].
    ///
    /// # Errors
    /// As of [`Fetcher::get`].
    pub fn post(&self, url: &str, timeout: Duration, most_bytes: usize) -> Result<Vec<u8>, String> {
        self.page(url, Bytes::from_static(b"{}"), (timeout, most_bytes))
    }

    fn page(
        &self,
        url: &str,
        body: Bytes,
        (time, bytes): (Duration, usize),
    ) -> Result<Vec<u8>, String> {
        let limits = FetchLimits { time, bytes };
        // The path belongs to the page, not to a base URL.
        let fetched = Endpoint::parse_page(url)
            .and_then(|(endpoint, path)| self.fetch_blocking(&endpoint, &path, body, limits))
            .map_err(|error| error.to_string())?;
        body_of(url, fetched)
    }

    /// Post `body`, which is JSON, to `url` without blocking; 2xx only, an answer of at most `most_bytes`.
    ///
    /// # Errors
    /// As of [`Fetcher::get`].
    pub async fn push(
        &self,
        url: &str,
        body: Vec<u8>,
        (time, bytes): (Duration, usize),
    ) -> Result<Vec<u8>, String> {
        let limits = FetchLimits { time, bytes };
        let (endpoint, path) = Endpoint::parse_page(url).map_err(|error| error.to_string())?;
        let fetched = self.fetch(&endpoint, &path, body.into(), limits).await;
        body_of(url, fetched.map_err(|error| error.to_string())?)
    }

    /// CPU time that the fetcher's thread has spent since this was last asked, by whoever holds a clone.
    pub fn take_cpu(&self) -> Nanos {
        let spent = self.thread.cpu.load(Ordering::Relaxed);
        Nanos::new(spent - self.thread.told.swap(spent, Ordering::Relaxed)).or_zero()
    }

    /// `GET`, or `POST` of JSON where there is a body.
    pub(crate) async fn fetch(
        &self,
        endpoint: &Endpoint,
        path: &str,
        body: Bytes,
        limits: FetchLimits,
    ) -> Result<Fetched, ClientError> {
        let (reply, answer) = oneshot::channel();
        // a caller that has gone away needs no page
        let reply = Box::new(|fetched| {
            reply.send(fetched).ok();
        });
        self.order(endpoint, path, body, limits, reply)?;
        answer.await.unwrap_or_else(|_| Err(thread_gone(endpoint)))
    }

    /// The same, from a thread that may block.
    pub(crate) fn fetch_blocking(
        &self,
        endpoint: &Endpoint,
        path: &str,
        body: Bytes,
        limits: FetchLimits,
    ) -> Result<Fetched, ClientError> {
        let (reply, answer) = blocking::sync_channel(1);
        let reply = Box::new(move |fetched| {
            reply.send(fetched).ok();
        });
        self.order(endpoint, path, body, limits, reply)?;
        answer.recv().unwrap_or_else(|_| Err(thread_gone(endpoint)))
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "a page's address, limits and reader"
    )]
    fn order(
        &self,
        endpoint: &Endpoint,
        path: &str,
        body: Bytes,
        limits: FetchLimits,
        reply: Box<dyn FnOnce(Result<Fetched, ClientError>) + Send>,
    ) -> Result<(), ClientError> {
        let job = Job {
            endpoint: endpoint.clone(),
            path: path.to_owned(),
            prepared: PreparedRequest::plain(body, self.headers_for(endpoint)),
            limits,
            reply,
        };
        let sent = (self.thread.jobs.as_ref()).map(|jobs| jobs.try_send(job).is_ok());
        match sent {
            Some(true) => Ok(()),
            _ => Err(thread_gone(endpoint)),
        }
    }

    pub(crate) fn target(&self) -> &Target {
        &self.target
    }

    /// Secrets are for the measured hosts, not for whoever has a metrics page.
    fn headers_for(&self, endpoint: &Endpoint) -> HeaderMap {
        let mut own = self.target.endpoints.iter();
        let mut headers = if own.any(|own| own.same_server(endpoint)) {
            self.own_headers.clone()
        } else {
            let told = self.authorization.iter();
            let told = told.filter(|(server, _)| server.same_server(endpoint));
            told.map(|(_, value)| (AUTHORIZATION, value.clone()))
                .collect()
        };
        let any = HeaderValue::from_static("*/*");
        headers.entry(ACCEPT).or_insert(any);
        let json = HeaderValue::from_static("application/json");
        headers.entry(CONTENT_TYPE).or_insert(json);
        headers
    }
}

/// The body of an answer that was 2xx.
fn body_of(url: &str, fetched: Fetched) -> Result<Vec<u8>, String> {
    if (200..300).contains(&fetched.status) {
        return Ok(fetched.body);
    }
    // Without its query, which may hold a token.
    let page = url.split('?').next().unwrap_or_default();
    let said = page_error(&fetched.body).map(|said| format!(": {said}"));
    let said = said.unwrap_or_default();
    Err(format!("{page}: HTTP {}{said}", fetched.status))
}

fn thread_gone(endpoint: &Endpoint) -> ClientError {
    ClientError::Fetch {
        url: endpoint.to_string(),
        message: "the thread that fetches pages has ended, or is overloaded".to_owned(),
    }
}

impl fmt::Debug for Fetcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fetcher")
            .field("target", &self.target)
            .field("authorization", &self.authorization)
            .finish_non_exhaustive()
    }
}

/// What the thread has: the servers that were asked for pages, each with its connections.
struct Servers {
    target: Target,
    clock: Clock,
    known: RefCell<Vec<Rc<Server>>>,
    cpu: Arc<AtomicI64>,
}

struct Server {
    connector: Connector,
    pool: Pool,
}

impl Servers {
    /// Fetch until nobody can ask any more; what is under way then is dropped.
    async fn serve(self, mut inbox: mpsc::Receiver<Job>) {
        let servers = Rc::new(self);
        let mut under_way = JoinSet::new();
        while let Some(job) = inbox.recv().await {
            while under_way.try_join_next().is_some() {}
            let servers = Rc::clone(&servers);
            under_way.spawn_local(async move {
                let fetched = servers.fetch(&job).await;
                let spent = clock_gettime(ClockId::ThreadCPUTime);
                let spent = Nanos::from_secs(spent.tv_sec) + Nanos::new(spent.tv_nsec);
                servers.cpu.store(spent.get(), Ordering::Relaxed);
                (job.reply)(fetched);
            });
        }
    }

    async fn fetch(&self, job: &Job) -> Result<Fetched, ClientError> {
        let server = self.server(&job.endpoint)?;
        let route = Route::new(&job.endpoint, &job.path, self.target.proxy.as_ref())?;
        let request = HttpRequest {
            prepared: &job.prepared,
            route: &route,
        };
        let stage = Cell::new(Stage::Connect);
        let due = self.clock.now() + Nanos::from_duration(job.limits.time);
        let mut deadline = Deadline::new(self.clock.clone(), due, Rc::default());
        let page = server.page(request, &stage, job.limits.bytes);
        let url = || job.endpoint.to_string();
        match deadline.within(page).await {
            Some(Ok(fetched)) => Ok(fetched),
            Some(Err(fault)) => Err(ClientError::Fetch {
                url: url(),
                message: fault.message,
            }),
            None => Err(ClientError::NoAnswer {
                url: url(),
                waited: job.limits.time,
                stage: stage.get(),
            }),
        }
    }

    fn server(&self, endpoint: &Endpoint) -> Result<Rc<Server>, ClientError> {
        let mut known = self.known.borrow_mut();
        let of = |server: &&Rc<Server>| server.pool.endpoint().same_server(endpoint);
        if let Some(server) = known.iter().find(of) {
            return Ok(Rc::clone(server));
        }
        let target = Target {
            endpoints: vec![endpoint.clone()],
            ..self.target.clone()
        };
        let stamps = Rc::new(KernelStamps::new(self.clock.clone()));
        let server = Rc::new(Server {
            connector: Connector::new(&target, stamps)?,
            pool: Pool::new(endpoint.clone(), &target, LocalTasks::default()),
        });
        known.push(Rc::clone(&server));
        Ok(server)
    }
}

impl Server {
    /// A page over a connection that is there, else over a new one. One that the server had closed meanwhile is replaced.
    async fn page(
        &self,
        request: HttpRequest<'_>,
        stage: &Cell<Stage>,
        most_bytes: usize,
    ) -> Result<Fetched, Fault> {
        let (mut replaced, mut gone) = (0, None);
        loop {
            let checkout = self.pool.checkout(&self.connector, gone.as_ref(), stage);
            let Checkout {
                connection, facts, ..
            } = checkout.await?;
            stage.set(Stage::Headers);
            let log = Rc::clone(connection.log());
            let begin = log.begin(log.now());
            let mut transfer = connection.start(request);
            let peer = &request.route.peer;
            let fault = match whole_page(&mut transfer, &log, (peer, most_bytes)).await {
                Ok(fetched) => {
                    if let Some(connection) = transfer.into_reusable() {
                        self.pool.give_back(connection);
                    }
                    return Ok(fetched);
                }
                Err(fault) => fault,
            };
            let unasked = facts.reused && transfer.was_closed_before(begin, log.now(), false).await;
            if !unasked || replaced == REPLACEMENTS {
                return Err(fault);
            }
            replaced += 1;
            gone = Some(log);
        }
    }
}

async fn whole_page(
    transfer: &mut Transfer,
    log: &ReadLog,
    (peer, most_bytes): (&str, usize),
) -> Result<Fetched, Fault> {
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
            Step::Data(_) => {
                let bytes = transfer.data();
                if fetched.body.len() + bytes.len() > most_bytes {
                    let message = format!("the page is larger than {most_bytes} bytes");
                    return Err(Fault::new(Stage::Tail, FailureKind::TooLarge, message));
                }
                fetched.body.extend_from_slice(bytes);
            }
            Step::End(_) => return Ok(fetched),
            Step::Broken(broken) => {
                return Err(Fault::broken(Stage::Headers, broken, log, peer));
            }
        }
    }
}
