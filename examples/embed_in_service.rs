//! A small HTTP service that measures itself with `bench-metrics` and serves its own percentiles.
//!
//! ```text
//! cargo run -p examples --example embed_in_service                # serves until Ctrl-C; the address is printed
//! cargo run -p examples --example embed_in_service -- --selftest  # asks itself 200 times, prints the percentiles, stops
//! ```
//!
//! The use of `bench-metrics` is the ten lines marked with `metrics:`. It brings no runtime, no thread and no global.
#![expect(
    clippy::print_stdout,
    reason = "a program that shows something to its reader"
)]

use std::convert::Infallible;
use std::error::Error;
use std::sync::Arc;
use std::time::Instant;

use bench_metrics::Recorder;
use bench_schema::{Distribution, Interval, Unit};
use http_body_util::{BodyExt, Empty, Full};
use hyper::body::{Bytes, Incoming};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

type Failure = Box<dyn Error + Send + Sync>;

/// Requests of the self-test; a fixed number, so that it ends.
const SELFTEST_REQUESTS: usize = 200;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let recorder = Arc::new(Recorder::default()); // metrics: one per thing that is measured
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    println!(
        "http://{address}/work does something, http://{address}/latency tells how long it takes"
    );
    if !std::env::args().any(|arg| arg == "--selftest") {
        return serve(listener, recorder).await;
    }
    tokio::select! {
        stopped = serve(listener, Arc::clone(&recorder)) => stopped,
        asked = ask_itself(address) => {
            print!("{}", asked?);
            let seen = recorder.snapshot().len();
            if seen == SELFTEST_REQUESTS as u64 { Ok(()) } else { Err(format!("{seen} requests were recorded").into()) }
        }
    }
}

/// Answers until the listener fails. Connections live in the set, so none outlives the service.
async fn serve(listener: TcpListener, recorder: Arc<Recorder>) -> Result<(), Failure> {
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await?;
        let recorder = Arc::clone(&recorder);
        connections.spawn(async move {
            let service = hyper::service::service_fn(|request| answer(request, &recorder));
            // A connection that breaks is the peer's business.
            hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .await
                .ok();
        });
        while connections.try_join_next().is_some() {}
    }
}

async fn answer(
    request: Request<Incoming>,
    recorder: &Recorder,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let mut response = Response::default();
    match request.uri().path() {
        "/work" => {
            let started = now();
            *response.body_mut() = Full::from(work().await);
            recorder.record(started.elapsed_since_then()); // metrics: lock-free, a few nanoseconds
        }
        "/latency" => {
            let summary = recorder.snapshot().summary(Unit::Ns); // metrics: the same shape as of exact samples
            *response.body_mut() =
                Full::from(summary.map_or("nothing yet\n".to_owned(), |s| table(&s)));
        }
        _ => *response.status_mut() = StatusCode::NOT_FOUND,
    }
    Ok(response)
}

/// What the service is for: here, a sum that takes a while, given up to others now and then.
async fn work() -> String {
    let mut sum = 0_u64;
    for i in 0..20_000_u64 {
        sum = sum.wrapping_mul(31).wrapping_add(i);
        if i % 5_000 == 0 {
            tokio::task::yield_now().await;
        }
    }
    format!("{sum}\n")
}

/// metrics: every percentile comes with its interval, and says when too few requests stand behind it.
fn table(summary: &Distribution) -> String {
    let ms = |ns: f64| format!("{:.3} ms", ns / 1e6);
    let head = format!(
        "requests {}, mean {}, max {}\n",
        summary.n,
        ms(summary.mean),
        ms(summary.max)
    );
    let lines = summary.quantiles.iter().map(|quantile| {
        let range = |i: Interval| format!("{} to {}", ms(i.low), ms(i.high));
        let interval = quantile.interval.map_or("no interval".to_owned(), range);
        let mark = if quantile.few_samples {
            " (too few requests)"
        } else {
            ""
        };
        format!(
            "p{:<5} {} [{interval}]{mark}\n",
            100.0 * quantile.q,
            ms(quantile.value)
        )
    });
    head + &lines.collect::<String>()
}

/// A bounded number of requests over one loopback connection, then the percentiles.
async fn ask_itself(address: std::net::SocketAddr) -> Result<String, Failure> {
    let stream = TcpStream::connect(address).await?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let mut tasks = JoinSet::new();
    tasks.spawn(connection);
    let mut get = async |path: &str| -> Result<Bytes, Failure> {
        let request = Request::get(path)
            .header("host", address.to_string())
            .body(Empty::<Bytes>::new())?;
        let response = sender.send_request(request).await?;
        Ok(response.into_body().collect().await?.to_bytes())
    };
    for _ in 0..SELFTEST_REQUESTS {
        get("/work").await?;
    }
    Ok(String::from_utf8(get("/latency").await?.to_vec())?)
}

/// A moment, of which only the time since matters.
struct Moment(Instant);

#[expect(
    clippy::disallowed_methods,
    reason = "a service measures its own latencies; the benchmark's clock is not linked"
)]
fn now() -> Moment {
    Moment(Instant::now())
}

impl Moment {
    #[expect(clippy::disallowed_methods, reason = "as above")]
    fn elapsed_since_then(&self) -> std::time::Duration {
        self.0.elapsed()
    }
}
