//! `serve`: the pages of `site` over HTTP, made when they are asked for. Nothing is read but the runs of the list.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, SystemTime};

use bench_report::site::list;
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HOST, HeaderValue, X_CONTENT_TYPE_OPTIONS};
use hyper::http::uri::Authority;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::{AbortHandle, JoinSet, LocalSet};

use crate::Done;
use crate::arguments::Serve;
use crate::compare;
use crate::error::CommandError;
use crate::run_folder::{Reads, RunFolder};
use crate::site::{Entry, page, shelf, trend_page};

/// Connections at once. One more ends the oldest that has not asked yet, so that those who ask little by little hold nobody up.
const CONNECTIONS: usize = 256;
/// Pages under way at once; others wait.
const PAGES: usize = 16;
/// How long a connection may take, and how long it may ask nothing: browsers open some that they may need later.
const PATIENCE: Duration = Duration::from_mins(1);
const SILENCE: Duration = Duration::from_secs(2);

/// What a path asks for.
#[derive(Debug, PartialEq, Eq)]
enum Asked<'a> {
    List,
    Trends,
    Report(&'a Path),
    Comparison(&'a Path, &'a Path),
}

/// What a path means: names are looked up among those of the runs, so no path leads to anything else.
fn asked<'a>(path: &str, runs: &'a BTreeMap<String, PathBuf>) -> Option<Asked<'a>> {
    let run = |key: &str| runs.get(key).map(PathBuf::as_path);
    let Some(path) = path.strip_suffix(".html") else {
        return (path == "/").then_some(Asked::List);
    };
    if path == "/index" {
        Some(Asked::List)
    } else if path == "/trend" {
        Some(Asked::Trends)
    } else if let Some(key) = path.strip_prefix("/runs/") {
        run(key).map(Asked::Report)
    } else {
        let (base, new) = path.strip_prefix("/compare/")?.split_once('/')?;
        Some(Asked::Comparison(run(base)?, run(new)?))
    }
}

struct Shop {
    folder: PathBuf,
    /// Whether only this machine can ask.
    loopback: bool,
    /// What was read of whole runs, with the time of their `run.json` then.
    known: RefCell<BTreeMap<PathBuf, (SystemTime, Entry)>>,
    pages: Semaphore,
}

impl Shop {
    fn answer(&self, request: &Request<Incoming>) -> Response<String> {
        let (status, body) = if request.method() != Method::GET {
            (
                StatusCode::METHOD_NOT_ALLOWED,
                "only GET is supported\n".to_owned(),
            )
        } else if self.loopback && !names_loopback(request) {
            // a page from elsewhere whose name leads here
            let why = "use 127.0.0.1 or localhost\n".to_owned();
            (StatusCode::FORBIDDEN, why)
        } else {
            match self.page(request.uri().path()) {
                Ok(Some(page)) => (StatusCode::OK, page),
                Ok(None) => (StatusCode::NOT_FOUND, "page not found\n".to_owned()),
                Err(why) => {
                    let why = format!("{}\n", bench_report::harmless(&why.to_string()));
                    (StatusCode::INTERNAL_SERVER_ERROR, why)
                }
            }
        };
        let kind = match status {
            StatusCode::OK => "text/html; charset=utf-8",
            _ => "text/plain; charset=utf-8",
        };
        let mut answer = Response::new(body);
        *answer.status_mut() = status;
        let headers = answer.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        let nosniff = HeaderValue::from_static("nosniff");
        headers.insert(X_CONTENT_TYPE_OPTIONS, nosniff);
        answer
    }

    fn page(&self, path: &str) -> Result<Option<String>, CommandError> {
        let runs = shelf(&self.folder)?;
        Ok(match asked(path, &runs) {
            None => None,
            Some(page @ (Asked::List | Asked::Trends)) => {
                let all = runs.iter().map(|(key, path)| self.entry(key, path));
                let (folder, all) = (self.folder.display().to_string(), all.collect::<Vec<_>>());
                Some(match page {
                    Asked::Trends => trend_page(&folder, &all)?,
                    _ => list(
                        &folder,
                        all.into_iter().map(|one| one.listed).collect(),
                        true,
                    ),
                })
            }
            Some(Asked::Report(run)) => Some(page(&RunFolder::open(run, Reads::default())?)?),
            Some(Asked::Comparison(base, new)) => Some(compare::page(base, new)?),
        })
    }

    fn entry(&self, key: &str, path: &Path) -> Entry {
        let changed = path.join("run.json").metadata();
        let changed = changed.and_then(|file| file.modified()).ok();
        let mut known = self.known.borrow_mut();
        match (known.get(path), changed) {
            (Some((then, entry)), Some(now)) if *then == now => entry.clone(),
            _ => {
                let (entry, _) = Entry::of(&self.folder, key, path);
                if let Some(now) = changed.filter(|_| entry.listed.is_whole()) {
                    known.insert(path.to_owned(), (now, entry.clone()));
                }
                entry
            }
        }
    }
}

fn names_loopback(request: &Request<Incoming>) -> bool {
    let host = request.headers().get(HOST).and_then(|h| h.to_str().ok());
    let host = host.and_then(|host| host.parse::<Authority>().ok());
    host.is_some_and(|host| {
        let name = host.host().trim_matches(['[', ']']);
        let address = name.parse::<std::net::IpAddr>();
        name == "localhost" || address.is_ok_and(|address| address.is_loopback())
    })
}

/// Serves until the process is ended.
pub(crate) fn run(arguments: &Serve) -> Result<Done, CommandError> {
    shelf(&arguments.folder)?;
    let address = arguments.listen;
    let refused = |error: std::io::Error| {
        CommandError::Usage(format!(
            "cannot listen on {address}: {error}; --listen 127.0.0.1:0 chooses a free port"
        ))
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(refused)?;
    LocalSet::new().block_on(&runtime, async {
        let listener = TcpListener::bind(address).await.map_err(refused)?;
        let own = listener.local_addr().map_err(refused)?;
        let url = format!("http://{own}/\n");
        bench_schema::print_result(&url).map_err(CommandError::write(Path::new("stdout")))?;
        serve(listener, own, &arguments.folder, SILENCE).await
    })
}

async fn serve(
    listener: TcpListener,
    own: SocketAddr,
    folder: &Path,
    silence: Duration,
) -> Result<Done, CommandError> {
    let shop = Rc::new(Shop {
        folder: folder.to_owned(),
        loopback: own.ip().is_loopback(),
        known: RefCell::default(),
        pages: Semaphore::new(PAGES),
    });
    let mut connections = JoinSet::new();
    // in the order of arrival, with whether it has asked
    let mut silent = VecDeque::<(Rc<Cell<bool>>, AbortHandle)>::new();
    loop {
        silent.retain(|(asked, task)| !asked.get() && !task.is_finished());
        let full = connections.len() >= CONNECTIONS;
        let accepted = tokio::select! {
            accepted = listener.accept(), if !full || !silent.is_empty() => accepted,
            Some(_) = connections.join_next() => continue,
        };
        let Ok((stream, _)) = accepted else {
            // most likely too many open files
            tokio::time::sleep(Duration::from_secs(1)).await;
            continue;
        };
        if full && let Some((_, oldest)) = silent.pop_front() {
            oldest.abort();
        }
        let asked = Rc::new(Cell::new(false));
        let task = converse(stream, Rc::clone(&shop), Rc::clone(&asked), silence);
        silent.push_back((asked, connections.spawn_local(task)));
    }
}

/// One connection: a request and its answer.
async fn converse(stream: TcpStream, shop: Rc<Shop>, asked: Rc<Cell<bool>>, silence: Duration) {
    // until the answer has gone out
    let place = RefCell::new(None);
    let answer = service_fn(|request| {
        asked.set(true);
        let (shop, place) = (&shop, &place);
        async move {
            *place.borrow_mut() = shop.pages.acquire().await.ok();
            Ok::<_, Infallible>(shop.answer(&request))
        }
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .keep_alive(false)
        .timer(TokioTimer::new())
        .header_read_timeout(silence)
        .serve_connection(TokioIo::new(stream), answer);
    // one that hangs or breaks off is its sender's affair
    tokio::time::timeout(PATIENCE, connection).await.ok();
}

#[cfg(test)]
#[path = "../tests/unit/serve.rs"]
mod tests;
