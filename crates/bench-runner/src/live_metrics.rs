//! What a run counts while it goes: as OpenMetrics for whoever scrapes it (`--metrics-listen`), and for the live screen (`--live`).
//!
//! It is for watching. The result is made of the records, and nothing of it comes from here.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bench_metrics::{latency, token_gaps};
use bench_schema::{Metric, Nanos, Outcome, Reading, RequestRecord, RunRecord};
use hyper::body::Incoming;
use hyper::header::CONTENT_TYPE;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use parking_lot::{Mutex, MutexGuard};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::RunError;
use crate::progress::ProgressCounters;
use crate::recent::{Recent, Stage};

const PATH: &str = "/metrics";
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// Scrapes at a time; others wait.
const SCRAPES: usize = 8;
/// Time that a scrape may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Latencies of whole answers that have a histogram: what it is called and what it is.
const LATENCIES: [(Metric, &str, &str); 4] = [
    (
        Metric::Ttft,
        "time_to_first_token",
        "Time from sending a request to its first content event",
    ),
    (
        Metric::Itl,
        "inter_token_latency",
        "Gaps between the tokens of a response",
    ),
    (
        Metric::E2e,
        "request_latency",
        "Time from sending a request to the end of its response",
    ),
    (
        Metric::Lateness,
        "dispatch_lateness",
        "Delay between the due time of a request and its dispatch by this client",
    ),
];

/// Counters, and latencies as histograms, of the run so far.
pub(crate) struct LiveMetrics {
    registry: Registry,
    /// Those of the progress line, which the workers move.
    counters: Arc<ProgressCounters>,
    in_flight: Gauge,
    requests: Family<EndedLabels, Counter>,
    failures: Family<Failure, Counter>,
    output_tokens: Family<During, Counter>,
    latencies: [Histograms; LATENCIES.len()],
    cells_ended: Gauge,
    planned: Family<Current, Gauge>,
    /// What was counted last. Held while a request is counted and while a page is made, so that all figures of a page are of the same requests.
    whole: Mutex<Recent>,
}

type Histograms = Family<During, Histogram, fn() -> Histogram>;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct During {
    phase: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct EndedLabels {
    phase: &'static str,
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Failure {
    stage: &'static str,
    kind: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Current {
    cell: String,
}

impl LiveMetrics {
    /// Metrics of the run that `record` begins; nothing is counted yet. Secrets have been taken out of it.
    pub(crate) fn new(record: &RunRecord, counters: &Arc<ProgressCounters>) -> Self {
        let mut live = Self {
            registry: Registry::with_prefix("bench"),
            counters: Arc::clone(counters),
            in_flight: Gauge::default(),
            requests: Family::default(),
            failures: Family::default(),
            output_tokens: Family::default(),
            latencies: LATENCIES.map(|_| Histograms::new_with_constructor(histogram)),
            cells_ended: Gauge::default(),
            planned: Family::default(),
            whole: Mutex::default(),
        };
        let cells = Gauge::<i64>::default();
        cells.set(i64::try_from(record.cells.len()).unwrap_or(i64::MAX));
        let all = &mut live.registry;
        all.register("run", "Identity of the run", Info::new(named(record)));
        all.register("cells", "Cells of the run", cells);
        all.register("cells_ended", "Completed cells", live.cells_ended.clone());
        all.register(
            "phase_requests_planned",
            "Planned requests of the current repeat, including warm-up, if the plan has a fixed number",
            live.planned.clone(),
        );
        all.register(
            "requests_in_flight",
            "Requests in flight",
            live.in_flight.clone(),
        );
        all.register(
            "requests",
            "Ended requests by outcome",
            live.requests.clone(),
        );
        all.register(
            "request_failures",
            "Failed requests by stage and kind",
            live.failures.clone(),
        );
        all.register(
            "output_tokens",
            "Output tokens of ended requests, if known",
            live.output_tokens.clone(),
        );
        for ((_, name, help), histograms) in LATENCIES.iter().zip(&live.latencies) {
            all.register_with_unit(*name, *help, Unit::Seconds, histograms.clone());
        }
        live
    }

    /// A phase of `cell` begins.
    pub(crate) fn begin(&self, cell: &str, stage: Stage) {
        self.planned.clear();
        if let Some(requests) = stage
            .requests
            .and_then(|requests| i64::try_from(requests).ok())
        {
            let current = Current {
                cell: cell.to_owned(),
            };
            self.planned.get_or_create(&current).set(requests);
        }
        self.recent().begin(stage);
    }

    /// A cell is over.
    pub(crate) fn cell_ended(&self) {
        self.cells_ended.inc();
        self.recent().cells_ended += 1;
    }

    /// What was counted last, to look at; nothing is counted meanwhile.
    pub(crate) fn recent(&self) -> MutexGuard<'_, Recent> {
        self.whole.lock()
    }

    /// A machine or a server told how it is.
    pub(crate) fn reading(&self, reading: &Reading) {
        self.recent().reading(reading);
    }

    /// A request is over.
    pub(crate) fn ended(&self, record: &RequestRecord) {
        let mut recent = self.recent();
        recent.ended(record);
        let phase = record.phase.as_str();
        let outcome = record.wire.outcome.name();
        self.requests
            .get_or_create(&EndedLabels { phase, outcome })
            .inc();
        if let Outcome::Failed { stage, failure, .. } = &record.wire.outcome {
            let (stage, kind) = (stage.as_str(), failure.as_str());
            self.failures.get_or_create(&Failure { stage, kind }).inc();
        }
        let during = During { phase };
        let tokens = self.output_tokens.get_or_create(&during);
        tokens.inc_by(record.output_tokens.unwrap_or(0));
        if !record.wire.outcome.is_completed() {
            return;
        }
        for ((metric, ..), histograms) in LATENCIES.iter().zip(&self.latencies) {
            let histogram = histograms.get_or_create(&during);
            let values = match metric {
                Metric::Itl => token_gaps(record),
                one => latency(record, *one).into_iter().collect(),
            };
            recent.latencies(*metric, &values);
            for value in values {
                histogram.observe(value / Nanos::from_secs(1).as_f64());
            }
        }
    }

    /// All of it as OpenMetrics.
    pub(crate) fn page(&self) -> String {
        let _whole = self.recent();
        let in_flight = i64::try_from(self.counters.in_flight()).unwrap_or(i64::MAX);
        self.in_flight.set(in_flight);
        let mut page = String::new();
        // a string takes all that is written
        encode(&mut page, &self.registry).ok();
        page
    }

    /// Answer who scrapes, until this is dropped.
    pub(crate) async fn serve(self: Arc<Self>, listener: TcpListener) {
        let mut scrapes = JoinSet::new();
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept(), if scrapes.len() < SCRAPES => accepted,
                Some(_) = scrapes.join_next() => continue,
            };
            let Ok((stream, _)) = accepted else {
                // most likely too many open files: those of the load go first
                tokio::time::sleep(PATIENCE).await;
                continue;
            };
            let live = Arc::clone(&self);
            scrapes.spawn_local(async move {
                let answer = service_fn(|request| {
                    let answer = live.answer(&request);
                    async { Ok::<_, Infallible>(answer) }
                });
                let scrape = hyper::server::conn::http1::Builder::new()
                    .keep_alive(false)
                    .serve_connection(TokioIo::new(stream), answer);
                // one that hangs or breaks off is its sender's affair
                tokio::time::timeout(PATIENCE, scrape).await.ok();
            });
        }
    }

    fn answer(&self, request: &Request<Incoming>) -> Response<String> {
        let is_page = request.method() == Method::GET && request.uri().path() == PATH;
        let mut answer = Response::new(String::new());
        if is_page {
            *answer.body_mut() = self.page();
            let kind = hyper::header::HeaderValue::from_static(OPEN_METRICS);
            answer.headers_mut().insert(CONTENT_TYPE, kind);
        } else {
            *answer.body_mut() = format!("metrics are served at {PATH}\n");
            *answer.status_mut() = StatusCode::NOT_FOUND;
        }
        answer
    }
}

/// Take the address, before any load.
///
/// # Errors
/// [`RunError::Client`] where it cannot be had.
pub(crate) async fn listen(address: SocketAddr) -> Result<TcpListener, RunError> {
    TcpListener::bind(address).await.map_err(|error| {
        RunError::Client(format!(
            "cannot listen on {address} for --metrics-listen: {error}; port 0 chooses a free port"
        ))
    })
}

/// Where it is to be found.
pub(crate) fn url(listener: &TcpListener) -> Option<String> {
    Some(format!("http://{}{PATH}", listener.local_addr().ok()?))
}

/// What a label's value is written as: the encoder takes it as it is.
fn label(text: &str) -> String {
    let mut escaped = String::new();
    for c in text.chars() {
        match c {
            '\\' => escaped += "\\\\",
            '"' => escaped += "\\\"",
            '\n' => escaped += "\\n",
            c if bench_schema::is_hidden(c) => escaped.push(char::REPLACEMENT_CHARACTER),
            c => escaped.push(c),
        }
    }
    escaped
}

fn named(record: &RunRecord) -> Vec<(&'static str, String)> {
    let server = &record.server;
    let labels = [
        ("benchmark", record.tool.name.clone()),
        ("version", record.tool.version.clone()),
        ("model", server.model.clone().unwrap_or_default()),
        ("server", server.urls.join(" ")),
        ("started_at", record.started_at.clone()),
    ];
    labels.map(|(name, value)| (name, label(&value))).into()
}

/// Buckets from 0.1 ms to 178 s, four for each factor of ten.
fn histogram() -> Histogram {
    Histogram::new(exponential_buckets(1e-4, 10_f64.powf(0.25), 26))
}

#[cfg(test)]
#[path = "../tests/unit/live_metrics.rs"]
mod tests;
