//! Before the first request: the engine, the server, what sizes prompts, what is sampled.

use std::sync::Arc;

use bench_client::{Clock, Fetcher};
use bench_hardware::{PrometheusQueries, Sampler, SamplerConfig, ServerProcess};
use bench_workload::{HfTokenizer, Sizer, Words};

use super::Run;
use crate::config::Settings;
use crate::program::Program;
use crate::progress::Progress;
use crate::recorder::Recorder;
use crate::server::Server;
use crate::stop::Stop;
use crate::{RunError, wall_clock};

impl<'a> Run<'a> {
    /// Start what has to be started and find out what has to be known. A dry run touches no network.
    pub(super) async fn prepare(
        program: &'a Program,
        settings: &'a Settings,
    ) -> Result<Self, RunError> {
        let output = &settings.output;
        let progress = Progress::new(output.progress && !output.quiet && !output.dry_run);
        let started = wall_clock::now();
        let clock = Clock::start();
        let sizer = sizer(settings)?;
        let mut engine = None;
        let server = if output.dry_run {
            Server::imagined(settings)?
        } else if settings.target.urls.is_empty() {
            progress.note(&format!(
                "no --url: starting the embedded engine ({})",
                settings.engine
            ));
            let running = (program.start_engine)(&settings.engine).map_err(RunError::Engine)?;
            let urls = [running.url.clone()];
            engine = Some(running);
            Server::find(settings, &urls, true, &clock).await?
        } else {
            Server::find(settings, &settings.target.urls, false, &clock).await?
        };
        Ok(Self {
            program,
            settings,
            engine,
            server,
            sizer,
            started,
            clock,
            stop: Stop::new(),
            progress,
        })
    }

    /// Start the sampler, if it is wanted. Its readings go the way of the records.
    pub(super) fn start_sampler(&self, recorder: &Recorder) -> Result<Option<Sampler>, RunError> {
        let machines = &self.settings.machines;
        if !machines.enabled {
            return Ok(None);
        }
        let config = SamplerConfig {
            server: machines
                .server_pid
                .or(self.engine.as_ref().map(|engine| engine.pid))
                .map(ServerProcess::Pid)
                .or_else(|| self.server_port()),
            server_metrics: self.metric_pages(),
            dcgm: machines.dcgm.iter().cloned().collect(),
            prometheus: machines.prometheus.clone().map(|url| PrometheusQueries {
                url,
                queries: machines.prometheus_queries.clone(),
            }),
            nvml_library: machines.nvml.clone(),
            ..SamplerConfig::default()
        };
        let (clock, recorder) = (self.clock.clone(), recorder.clone());
        let fetch = Arc::new(Pages {
            fetcher: Fetcher::new(&self.server.target)
                .map_err(|error| RunError::Client(error.to_string()))?,
        });
        let sampler = Sampler::start(
            &config,
            move || clock.now(),
            fetch,
            move |reading| recorder.reading(reading),
        );
        sampler
            .map(Some)
            .map_err(|error| RunError::Client(error.to_string()))
    }

    /// The server's pages: those that were named, else the usual place of each URL.
    fn metric_pages(&self) -> Vec<String> {
        match self.settings.machines.server_metrics.as_deref() {
            Some("none") => Vec::new(),
            Some(page) => vec![page.to_owned()],
            None => {
                let urls = self.engine.as_ref().map_or_else(
                    || self.settings.target.urls.clone(),
                    |engine| vec![engine.url.clone()],
                );
                urls.iter()
                    .map(|url| {
                        format!(
                            "{}/metrics",
                            url.trim_end_matches('/').trim_end_matches("/v1")
                        )
                    })
                    .collect()
            }
        }
    }

    /// A server on this host is found by the port it listens on.
    fn server_port(&self) -> Option<ServerProcess> {
        let endpoint = self.server.target.endpoints.first()?;
        endpoint.loopback_port().map(ServerProcess::Port)
    }
}

/// What sizes prompts: the tokenizer that was given, else words.
fn sizer(settings: &Settings) -> Result<Arc<dyn Sizer>, RunError> {
    match &settings.workload.tokenizer {
        Some(path) => Ok(Arc::new(
            HfTokenizer::open(path).map_err(RunError::Workload)?,
        )),
        None => Ok(Arc::new(Words)),
    }
}

/// The sampler has no HTTP of its own: the client's brings its pages.
struct Pages {
    fetcher: Fetcher,
}

impl bench_hardware::Fetch for Pages {
    fn get(&self, url: &str, limits: bench_hardware::FetchLimits) -> Result<Vec<u8>, String> {
        self.fetcher.get(url, limits.timeout, limits.max_bytes)
    }
}
