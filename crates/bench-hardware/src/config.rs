//! What to sample, and how often.

use std::path::PathBuf;
use std::time::Duration;

/// What a [`Sampler`](crate::Sampler) reads.
///
/// The defaults read the client's host and process ten times a second and every GPU as often; pages and the server's
/// processes only where they are named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SamplerConfig {
    /// Period of the host, the client and the server's processes. Below 10 ms it is taken as 10 ms.
    pub host_every: Duration,
    /// This host's GPUs.
    pub gpus: Gpus,
    /// Period of NVML.
    pub gpu_every: Duration,
    /// Period of pages and queries.
    pub scrape_every: Duration,
    /// How long one page may take.
    pub scrape_timeout: Duration,
    /// How large one page may be, in bytes.
    pub scrape_max_bytes: usize,
    /// The server's process on this host, with its children.
    pub server: Option<ServerProcess>,
    /// The server's Prometheus pages, one per replica.
    pub server_metrics: Vec<String>,
    /// Pages of DCGM exporters.
    pub dcgm: Vec<String>,
    /// A Prometheus server to ask.
    pub prometheus: Option<PrometheusQueries>,
}

impl Default for SamplerConfig {
    fn default() -> Self {
        Self {
            host_every: Duration::from_millis(100),
            gpus: Gpus::default(),
            gpu_every: Duration::from_millis(100),
            scrape_every: Duration::from_millis(500),
            scrape_timeout: Duration::from_secs(1),
            scrape_max_bytes: 8 << 20,
            server: None,
            server_metrics: Vec::new(),
            dcgm: Vec::new(),
            prometheus: None,
        }
    }
}

/// What is done about the GPUs of this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Gpus {
    /// Look for them through NVML. Where there is no library or no GPU, that is said and nothing else happens.
    Read {
        /// The library, where it is not to be searched for.
        library: Option<PathBuf>,
    },
    /// Leave them alone and say why: the server is on another host, say. Becomes the reason in `unknown`.
    LeftOut(String),
}

impl Default for Gpus {
    fn default() -> Self {
        Self::Read { library: None }
    }
}

impl Gpus {
    /// Through this library.
    pub fn through(library: impl Into<PathBuf>) -> Self {
        Self::Read {
            library: Some(library.into()),
        }
    }
}

/// How to find the server's process tree on this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerProcess {
    /// By process id.
    Pid(u32),
    /// By the TCP port that one of its processes listens on. Looked for again while nobody listens there.
    Port(u16),
}

/// What a Prometheus server is asked for, as instant queries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrometheusQueries {
    /// Its address, without `/api/v1/query`.
    pub url: String,
    /// The GPUs of the DCGM exporters that it scrapes, by label matchers such as `Hostname="gpu-1",gpu=~"0|1"`; empty for all
    /// that it knows. `None` asks for no GPUs.
    pub gpus: Option<String>,
    /// Name that the value gets, and the PromQL that asks for it. A name that ends in `_total` is taken as a counter.
    pub queries: Vec<(String, String)>,
}
