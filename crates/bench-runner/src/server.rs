//! The measured server: found, asked what it is and how long prompts are, and made into a target.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use bench_client::protocol::{ProtocolOptions, UsageRequest, protocol_with_options};
use bench_client::{
    CancelAfter, Client, Clock, ConnectionPolicy, Endpoint, Fetcher, HttpVersion, Limits, Probe,
    Protocol, Target, Timeouts, TlsOptions,
};
use bench_schema::{
    ClockKind, GenerationRequest, Message, Prompt, Role, Sampling, Secret, ServerRecord,
};
use bench_workload::{Calibration, CountWith, TokenCounter};
use hyper::header::HeaderName;
use parking_lot::Mutex;

use crate::config::{self, Address, Amount, Connections, Settings};
use crate::progress::Progress;
use crate::{RunError, redact};

/// Characters of an answer that are kept where that is asked for.
pub(crate) const KEPT_TEXT: usize = 2_000;
/// Characters of an answer that are in memory where it is counted or gone on from: a quarter of a million tokens. A longer one is neither.
pub(crate) const LONGEST_ANSWER: usize = 1 << 20;

/// A server that is ready to be measured.
pub(crate) struct Server {
    /// For the result.
    pub(crate) record: ServerRecord,
    /// For the workers.
    pub(crate) target: Arc<Target>,
    pub(crate) chat: bool,
    /// What it adds to a prompt.
    pub(crate) calibration: Option<Calibration>,
    /// What arrival stamps are.
    pub(crate) arrival: (ClockKind, Option<String>),
    /// Its pages, all over one connection; absent where nobody asks it.
    pub(crate) fetcher: Option<Fetcher>,
}

/// The target as the settings describe it; `urls` are the settings' own or the embedded engine's.
pub(crate) fn target(
    settings: &Settings,
    urls: &[String],
    model: &str,
) -> Result<Target, RunError> {
    let wanted = &settings.target;
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
    let first = urls.first().map_or("http://127.0.0.1", String::as_str);
    let mut base = Target::new(first, protocol, model)?;
    for other in urls.iter().skip(1) {
        base.endpoints.push(Endpoint::parse(other)?);
    }
    Ok(Target {
        headers: headers(settings)?,
        api_key: settings.credentials.api_key.clone(),
        tls: tls(settings),
        http: if wanted.http2 {
            HttpVersion::Http2
        } else {
            HttpVersion::Http1
        },
        connections: connections(settings),
        proxy: config::proxy_to(settings, first)?,
        timeouts: timeouts(settings),
        cancel_after: settings.load.cancel_after.map(|after| match after {
            Amount::Count(events) => CancelAfter::Events(events),
            Amount::Time(time) => CancelAfter::Time(time),
        }),
        limits: Limits::default(),
        keep_text: match &settings.workload.tokenizer {
            Some(_) => Some(LONGEST_ANSWER),
            None => settings.workload.keep_text.then_some(KEPT_TEXT),
        },
        ..base
    })
}

/// The headers to send, by HTTP's names for them.
fn headers(settings: &Settings) -> Result<Vec<(HeaderName, Secret)>, RunError> {
    let named = settings.target.header.iter().map(|header| {
        let name = HeaderName::from_bytes(header.name.as_bytes());
        let name = name.map_err(|error| RunError::Client(error.to_string()))?;
        Ok((name, header.value.clone()))
    });
    named.collect()
}

/// Addresses for people.
pub(crate) fn shown(urls: &[String]) -> Vec<String> {
    let urls = urls.iter().map(|url| Address::from(url.as_str()));
    urls.map(|url| url.to_string()).collect()
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
        connect: settings.limits.connect_timeout,
        first_token: Some(settings.limits.first_token()),
        between_tokens: Some(settings.limits.between_tokens()),
        whole: settings.limits.timeout,
    }
}

fn connections(settings: &Settings) -> ConnectionPolicy {
    match settings.target.connections {
        Connections::Reuse => ConnectionPolicy::Reuse,
        Connections::PerRequest => ConnectionPolicy::PerRequest,
    }
}

impl Server {
    /// Ask the server what it is. It must answer: a benchmark of nothing is an error, not a result.
    pub(crate) async fn find(
        settings: &Settings,
        urls: &[String],
        clock: &Clock,
        progress: &Progress,
    ) -> Result<Self, RunError> {
        let fetcher = Fetcher::new(&target(settings, urls, "")?)?;
        let probe = Probe::new(fetcher.clone(), clock.clone())?;
        let told = probe
            .look(settings.target.wait)
            .await
            .map_err(|error| cannot_measure(&error, settings, urls))?;
        if !told.silent.is_empty() {
            progress.note(&format!(
                "the server did not respond to {} within a second; information about it may be incomplete",
                told.silent.join(", ")
            ));
        }
        let model = settings
            .target
            .model
            .clone()
            .or_else(|| told.models.first().cloned())
            .unwrap_or_default();
        let target = Arc::new(target(settings, urls, &model)?);
        let arrival = Client::new(Arc::clone(&target), clock.clone())?.clock_kind();
        let record = ServerRecord {
            urls: shown(urls),
            embedded: false,
            api: settings.target.api.clone(),
            model: Some(model).filter(|model| !model.is_empty()),
            models: told.models,
            kind: told.kind,
            version: told.version,
            facts: told.facts,
            tls_unverified: settings.target.insecure,
            proxy: (target.proxy.as_ref()).map(|proxy| proxy.endpoint().to_string()),
        };
        Ok(Self {
            arrival,
            fetcher: Some(fetcher),
            ..Self::of(record, target)
        })
    }

    /// The longest prompt with its answer, in tokens, where it tells that; 0 tells nothing.
    pub(crate) fn context(&self) -> Option<u64> {
        let tokens = self.record.facts.get("max_model_len")?.parse().ok()?;
        Some(tokens).filter(|tokens| *tokens > 0)
    }

    /// A server that nobody asked: for plans without one.
    pub(crate) fn imagined(settings: &Settings) -> Result<Self, RunError> {
        let target = target(settings, &settings.target.urls(), "")?;
        let record = ServerRecord {
            api: settings.target.api.clone(),
            ..ServerRecord::default()
        };
        Ok(Self::of(record, Arc::new(target)))
    }

    fn of(record: ServerRecord, target: Arc<Target>) -> Self {
        Self {
            record,
            chat: takes_conversations(&*target.protocol),
            target,
            calibration: None,
            arrival: (ClockKind::ReadReturn, None),
            fetcher: None,
        }
    }
}

/// Whether a protocol has words for a conversation. One that has none gets it as one text.
fn takes_conversations(protocol: &dyn Protocol) -> bool {
    let said = |content: &str| Message {
        role: Role::User,
        content: content.into(),
    };
    let conversation = GenerationRequest {
        prompt: Prompt::Messages(vec![said("one"), said("two")]),
        max_tokens: None,
        min_tokens: None,
        ignore_eos: false,
        sampling: Sampling::default(),
        stream: false,
        extra_body: None,
    };
    protocol.unsupported(&conversation).is_empty()
}

fn cannot_measure(
    error: &bench_client::ClientError,
    settings: &Settings,
    urls: &[String],
) -> RunError {
    let urls = shown(urls);
    let help = if settings.target.wait.get() == 0 {
        "check the URL and that the server is running; --wait 60s waits for a server that is still starting"
    } else {
        "check the URL and the server's log"
    };
    let mut what = match error {
        bench_client::ClientError::NotReady {
            url,
            waited_s,
            last,
        } => {
            let why = last.strip_prefix(&format!("{url}: ")).unwrap_or(last);
            let waited = match settings.target.wait.get() {
                0 => String::new(),
                _ => format!(" after {waited_s:.0} s"),
            };
            format!("{url} cannot be measured{waited}: {why}")
        }
        other => format!("{} cannot be measured: {other}", urls.join(", ")),
    };
    redact::Secrets::of(settings).hide(&mut what);
    RunError::Server {
        what,
        help: help.to_owned(),
    }
}

/// Results and documentation call it this.
pub(crate) const TOKENIZE: &str = "server /tokenize";

/// A token counter that asks `/tokenize`, or `None` where the server has none.
///
/// Every answer is remembered: a plan that was walked once before the measurement asks nothing during it.
pub(crate) fn token_counter(
    fetcher: &Fetcher,
    model: &str,
    clock: &Clock,
) -> Result<Option<Arc<dyn TokenCounter>>, RunError> {
    let probe = Probe::new(fetcher.clone(), clock.clone())?;
    let model = model.to_owned();
    if !matches!(probe.tokenize(&model, "one two three"), Ok(Some(_))) {
        return Ok(None);
    }
    let known: Mutex<HashMap<u64, u64>> = Mutex::default();
    let count = move |text: &str| {
        let mut hasher = DefaultHasher::new();
        text.hash(&mut hasher);
        let key = hasher.finish();
        if let Some(count) = known.lock().get(&key) {
            return Ok(*count);
        }
        let count = match probe.tokenize(&model, text) {
            Ok(Some(tokenized)) => tokenized.count,
            Ok(None) => return Err("the server no longer has /tokenize".to_owned()),
            Err(error) => return Err(error.to_string()),
        };
        known.lock().insert(key, count);
        Ok(count)
    };
    Ok(Some(Arc::new(CountWith::new(TOKENIZE, count))))
}

#[cfg(test)]
#[path = "../tests/unit/server.rs"]
mod tests;
