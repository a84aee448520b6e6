//! Readings with windows: what the machine and the server did while they worked.
//!
//! A [`Sampler`] reads on threads of its own: the client's host and process, the server's processes, GPUs through NVML, and
//! pages of metrics of the server, of a DCGM exporter, of a Prometheus server. Each [`Reading`](bench_schema::Reading) says when
//! it was taken (from, to); counters are stored as they stand. What cannot be read is named with its reason, once, and is
//! never 0 and never an error. Afterwards `bench_metrics::readings` turns them into what happened within a window, and [`host_record`] says
//! what machine this is. `docs/hardware.md` lists every source, every name and what it costs.

mod config;
mod error;
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
pub use error::HardwareError;
pub use exposition::{MAX_SAMPLES, Page, Sample};
pub use record::{Surroundings, host_record};
pub use sampler::{Sampler, SamplerReport, SourceCost, give_way};
pub use scrape::{Fetch, FetchLimits, NoFetch};
