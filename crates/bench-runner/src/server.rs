//! The measured server: found, asked what it is, and made into a target.

use std::sync::Arc;

use bench_client::protocol::{ProtocolOptions, UsageRequest, protocol_with_options};
use bench_client::{
    CancelAfter, Client, Clock, ConnectionPolicy, Endpoint, HttpVersion, Limits, Probe, Target,
    Timeouts, TlsOptions,
};
use bench_schema::{ClockKind, ServerRecord};
use bench_workload::{Calibration, DatasetSpec};

use crate::config::{Amount, Connections, Settings};
use crate::{RunError, redact};

/// Characters of an answer that are kept where that is asked for.
const KEPT_TEXT: usize = 2_000;

/// A server that is ready to be measured.
pub(crate) struct Server {
    /// For the result.
    pub(crate) record: ServerRecord,
    /// For the workers.
    pub(crate) target: Arc<Target>,
    /// Whether requests are chats.
    pub(crate) chat: bool,
    /// What it adds to a prompt.
    pub(crate) calibration: Option<Calibration>,
    /// What arrival stamps are.
    pub(crate) arrival: (ClockKind, Option<String>),
}

/// The target as the settings describe it; `urls` are the settings' own or the embedded engine's.
pub(crate) fn target(
    settings: &Settings,
    urls: &[String],
    model: &str,
) -> Result<Target, RunError> {
    let wanted = &settings.target;
    let unusable = |error: bench_client::ClientError| RunError::Client(error.to_string());
    let usage = if wanted.continuous_usage {
        UsageRequest::Continuous
    } else {
        UsageRequest::Final
    };
    let protocol = protocol_with_options(
        &wanted.api,
        &ProtocolOptions {
            usage,
            ..ProtocolOptions::default()
        },
    )
    .map_err(|error| RunError::Client(error.to_string()))?;
    let endpoints = urls
        .iter()
        .map(|url| Endpoint::parse(url))
        .collect::<Result<Vec<_>, _>>()
        .map_err(unusable)?;
    let first = urls.first().map_or("http://127.0.0.1", String::as_str);
    let base = Target::new(first, protocol, model).map_err(unusable)?;
    let conversations = matches!(
        settings.workload.dataset,
        Some(DatasetSpec::MultiTurn { .. } | DatasetSpec::File { .. })
    );
    Ok(Target {
        endpoints: if endpoints.is_empty() {
            base.endpoints.clone()
        } else {
            endpoints
        },
        headers: wanted.headers.clone(),
        api_key: wanted.api_key.clone(),
        tls: tls(settings),
        http: if wanted.http2 {
            HttpVersion::Http2
        } else {
            HttpVersion::Http1
        },
        connections: connections(settings),
        proxy: wanted.proxy.clone(),
        timeouts: timeouts(settings),
        cancel_after: settings.load.cancel_after.map(|after| match after {
            Amount::Count(events) => CancelAfter::Events(events),
            Amount::Time(time) => CancelAfter::Time(time),
        }),
        limits: Limits::default(),
        keep_text: if conversations {
            Some(usize::MAX)
        } else {
            settings.workload.keep_text.then_some(KEPT_TEXT)
        },
        ..base
    })
}

fn tls(settings: &Settings) -> TlsOptions {
    let wanted = &settings.target;
    TlsOptions {
        ca: wanted.ca.clone(),
        client: wanted.client_cert.clone().zip(wanted.client_key.clone()),
        insecure: wanted.insecure,
    }
}

fn timeouts(settings: &Settings) -> Timeouts {
    Timeouts {
        connect: settings.limits.connect,
        first_token: Some(settings.limits.first_token),
        between_tokens: Some(settings.limits.between_tokens),
        whole: settings.limits.whole,
    }
}

fn connections(settings: &Settings) -> ConnectionPolicy {
    let levels = &settings.load.concurrency;
    let most = levels.iter().map(|level| level.most).max().unwrap_or(1);
    match settings.target.connections {
        Connections::Reuse => ConnectionPolicy::Reuse,
        Connections::PerRequest => ConnectionPolicy::PerRequest,
        Connections::Prewarm => ConnectionPolicy::Prewarm(usize::try_from(most).unwrap_or(1)),
    }
}

impl Server {
    /// Ask the server what it is. It must answer: a benchmark of nothing is an error, not a result.
    pub(crate) async fn find(
        settings: &Settings,
        urls: &[String],
        embedded: bool,
        clock: &Clock,
    ) -> Result<Self, RunError> {
        let unnamed = target(settings, urls, "")?;
        let probe = Probe::new(Arc::new(unnamed), clock.clone())
            .map_err(|error| RunError::Client(error.to_string()))?;
        let told = probe
            .look(settings.target.wait)
            .await
            .map_err(|error| cannot_measure(&error, settings, urls))?;
        let model = settings
            .target
            .model
            .clone()
            .or_else(|| told.models.first().cloned())
            .unwrap_or_default();
        let target = Arc::new(target(settings, urls, &model)?);
        let arrival = Client::new(Arc::clone(&target), clock.clone())
            .map(|client| client.clock_kind())
            .map_err(|error| RunError::Client(error.to_string()))?;
        let record = ServerRecord {
            urls: urls.iter().map(|url| redact::url(url)).collect(),
            embedded,
            api: settings.target.api.clone(),
            model: Some(model).filter(|model| !model.is_empty()),
            models: told.models,
            kind: told.kind,
            version: told.version,
            facts: told.facts,
            tls_unverified: settings.target.insecure,
            proxy: (settings.target.proxy.as_ref()).map(|proxy| proxy.endpoint().to_string()),
        };
        Ok(Self {
            record,
            target,
            chat: is_chat(&settings.target.api),
            calibration: None,
            arrival,
        })
    }

    /// A server that nobody asked: for plans without one.
    pub(crate) fn imagined(settings: &Settings) -> Result<Self, RunError> {
        let target = Arc::new(target(settings, &settings.target.urls, "")?);
        Ok(Self {
            record: ServerRecord {
                api: settings.target.api.clone(),
                ..ServerRecord::default()
            },
            target,
            chat: is_chat(&settings.target.api),
            calibration: None,
            arrival: (ClockKind::ReadReturn, None),
        })
    }
}

/// Whether a protocol takes messages, by its name.
fn is_chat(api: &str) -> bool {
    ["chat", "messages", "responses"]
        .iter()
        .any(|word| api.contains(word))
}

fn cannot_measure(
    error: &bench_client::ClientError,
    settings: &Settings,
    urls: &[String],
) -> RunError {
    let urls: Vec<_> = urls.iter().map(|url| redact::url(url)).collect();
    let help = if settings.target.wait.get() == 0 {
        "check the URL and that the server is up; --wait 60s waits for one that is still starting"
    } else {
        "check the URL, and the server's own log"
    };
    let mut what = format!("{} cannot be measured: {error}", urls.join(", "));
    redact::Secrets::of(settings).hide(&mut what);
    RunError::Server {
        what,
        help: help.to_owned(),
    }
}
