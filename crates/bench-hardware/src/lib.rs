//! Readings with windows: what the machine and the server did while they worked.
//!
//! A [`Sampler`] reads on threads of its own: the client's host and process, the server's processes, GPUs through NVML, and
//! pages of metrics of the server, of a DCGM exporter, of a Prometheus server. Each [`Reading`](bench_schema::Reading) says when
//! it was taken (from, to); counters are stored as they stand. What cannot be read is named with its reason, once, and is
//! never 0 and never an error. Afterwards `bench_metrics::readings` turns them into what happened within a window, and [`host_record`] says
//! what machine this is. `docs/hardware.md` lists every source, every name and what it costs.

mod config;
mod exposition;
mod gpu;
mod host;
mod kernel;
mod names;
mod process;
mod query;
mod reading;
mod record;
mod sampler;
mod scrape;

pub use config::{Gpus, PrometheusQueries, SamplerConfig, ServerProcess};
pub use exposition::{MAX_SAMPLES, Page, Sample};
pub use record::{Surroundings, host_record};
pub use sampler::{Sampler, SamplerReport, SourceCost, give_way};
pub use scrape::{Fetch, FetchLimits, NoFetch};

/// Why a sampler could not be started, or a page not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the message says what each field is")]
pub enum HardwareError {
    /// The operating system refused a thread.
    #[error(
        "cannot start the sampler thread `{worker}`; raise the limit on threads (ulimit -u) or on memory (ulimit -v)"
    )]
    Thread {
        worker: String,
        source: std::io::Error,
    },
    /// A page holds no metric at all.
    #[error("not a metrics page in the Prometheus text format: {why}; check the address")]
    NotMetrics { why: String },
    /// The answer of a Prometheus server's query API is not what it should be.
    #[error("not a response of the Prometheus query API: {why}; check the address and the query")]
    NotAQueryAnswer { why: String },
}
