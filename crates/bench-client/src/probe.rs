//! What a server says about itself, before it is measured.

use std::collections::BTreeMap;
use std::time::Duration;

use bench_schema::{Nanos, Stamp};
use bytes::Bytes;
use futures_util::future::join_all;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::fetch::{FetchLimits, Fetched, Fetcher};
use crate::{ClientError, Clock, Endpoint};

/// Between two looks at a server that is not ready.
const PATIENCE: Duration = Duration::from_millis(250);
/// A page that tells what a server is comes at once or does not exist; some servers hang on paths that they do not know.
const FACT_LIMITS: FetchLimits = FetchLimits {
    time: Duration::from_secs(1),
    bytes: 1 << 20,
};
const LIMITS: FetchLimits = FetchLimits {
    time: Duration::from_secs(10),
    bytes: 32 << 20,
};

/// Asks the first endpoint of a target what it is. Nothing here is measured.
#[derive(Clone, Debug)]
pub struct Probe {
    fetcher: Fetcher,
    clock: Clock,
    endpoint: Endpoint,
}

/// What a server tells; everything that it does not is absent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerFacts {
    /// Models of `GET /v1/models`, in its order.
    pub models: Vec<String>,
    /// `vllm`, `llama.cpp`, `sglang`, `tgi`, `ollama`, `triton`, or whatever it calls itself.
    pub kind: Option<String>,
    /// Its version.
    pub version: Option<String>,
    /// What it tells of the first model, in its own words: `max_model_len`.
    pub facts: BTreeMap<String, String>,
    /// Pages that were asked for and not answered within a second.
    pub silent: Vec<String>,
}

/// What `POST /tokenize` said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tokenized {
    /// Number of tokens.
    pub count: u64,
    /// The ids, where the server gives them.
    pub ids: Option<Vec<u32>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ModelList {
    data: Vec<ModelEntry>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ModelEntry {
    id: String,
    owned_by: Option<String>,
    /// vLLM's and SGLang's; of whatever type elsewhere.
    max_model_len: Value,
}

/// What came of a page that may tell a version.
enum VersionPage {
    Tells(String),
    Nothing,
    /// No answer in time.
    Hangs,
}

enum Readiness {
    Ready(Option<Fetched>),
    NotYet(String),
}

impl Probe {
    /// A probe of the first endpoint of the fetcher's target.
    ///
    /// # Errors
    /// [`ClientError::NoEndpoint`].
    pub fn new(fetcher: Fetcher, clock: Clock) -> Result<Self, ClientError> {
        let endpoint = fetcher.target().endpoints.first();
        Ok(Self {
            endpoint: endpoint.ok_or(ClientError::NoEndpoint)?.clone(),
            fetcher,
            clock,
        })
    }

    /// Wait until the server is ready, but no longer than `wait` (zero: one look), and find out what it is.
    ///
    /// Ready means that `/v1/models` answers with something below 500, or, where there is no such page, that `/health` does.
    ///
    /// # Errors
    /// [`ClientError::NotReady`] with what the last look saw.
    pub async fn look(&self, wait: Nanos) -> Result<ServerFacts, ClientError> {
        let began = self.clock.now();
        loop {
            match self.look_once().await {
                Readiness::Ready(models) => return Ok(self.facts(models).await),
                Readiness::NotYet(last) => self.pause(began, wait, last).await?,
            }
        }
    }

    async fn pause(&self, began: Stamp, wait: Nanos, last: String) -> Result<(), ClientError> {
        let waited = self.clock.now() - began;
        if waited + Nanos::from_duration(PATIENCE) > wait {
            return Err(ClientError::NotReady {
                url: self.endpoint.to_string(),
                waited_s: waited.as_secs_f64(),
                last,
            });
        }
        tokio::time::sleep(PATIENCE).await;
        Ok(())
    }

    async fn look_once(&self) -> Readiness {
        let models = match self.get(&self.endpoint.path("/v1/models")).await {
            Ok(models) => models,
            Err(error) => return Readiness::NotYet(error.to_string()),
        };
        match models.status {
            200..300 => Readiness::Ready(Some(models)),
            404 | 405 | 501 => match self.get(&self.endpoint.root_path("/health")).await {
                Ok(health) if health.status < 500 => Readiness::Ready(None),
                Ok(health) => Readiness::NotYet(format!("HTTP {} from /health", health.status)),
                Err(error) => Readiness::NotYet(error.to_string()),
            },
            status @ 500.. => Readiness::NotYet(format!("HTTP {status} from /v1/models")),
            // It wants a key or another method: it is there, and the first request will say what is missing.
            _ => Readiness::Ready(None),
        }
    }

    async fn facts(&self, models: Option<Fetched>) -> ServerFacts {
        let header = models.as_ref().and_then(|page| page.server.clone());
        let list: ModelList = models
            .and_then(|page| serde_json::from_slice(&page.body).ok())
            .unwrap_or_default();
        let first = list.data.first();
        let owner = first.and_then(|model| model.owned_by.clone());
        let longest = first.and_then(|model| model.max_model_len.as_u64());
        let facts = longest.map(|tokens| ("max_model_len".to_owned(), tokens.to_string()));
        let mut facts = ServerFacts {
            models: list.data.into_iter().map(|model| model.id).collect(),
            kind: kind_of(owner.as_deref(), header.as_deref()),
            version: None,
            facts: facts.into_iter().collect(),
            silent: Vec::new(),
        };
        // Each of these pages belongs to one kind of server; the known kind's is asked alone.
        let known = facts.kind.as_deref();
        let mut pages: Vec<_> = VERSIONS
            .iter()
            .filter(|(kind, _, _)| known.is_none_or(|known| known == *kind))
            .collect();
        if known.is_some() && pages.iter().all(|(_, page, _)| *page != "/version") {
            pages.push(&("", "/version", &["version"]));
        }
        // One after the other over one connection, until one is waited for in vain: the rest then at once, or the waits would add up.
        let mut answers = Vec::new();
        while let Some((_, page, keys)) = pages.get(answers.len())
            && !matches!(answers.last(), Some(VersionPage::Hangs))
        {
            answers.push(self.version(page, keys).await);
        }
        let left = pages.iter().skip(answers.len());
        answers.extend(join_all(left.map(|(_, page, keys)| self.version(page, keys))).await);
        for ((kind, page, _), answer) in pages.into_iter().zip(answers) {
            match answer {
                VersionPage::Tells(version) if facts.version.is_none() => {
                    facts.kind.get_or_insert_with(|| (*kind).to_owned());
                    facts.version = Some(version);
                }
                VersionPage::Hangs => facts.silent.push((*page).to_owned()),
                VersionPage::Tells(_) | VersionPage::Nothing => {}
            }
        }
        facts
    }

    async fn version(&self, page: &str, keys: &[&str]) -> VersionPage {
        let path = self.endpoint.root_path(page);
        let fetched = self
            .fetcher
            .fetch(&self.endpoint, &path, Bytes::new(), FACT_LIMITS);
        let fetched = match fetched.await {
            Ok(fetched) if (200..300).contains(&fetched.status) => fetched,
            Err(ClientError::NoAnswer { .. }) => return VersionPage::Hangs,
            _ => return VersionPage::Nothing,
        };
        let body: Option<Value> = serde_json::from_slice(&fetched.body).ok();
        let text = |key: &&str| body.as_ref()?.get(*key)?.as_str().map(str::to_owned);
        keys.iter()
            .find_map(text)
            .map_or(VersionPage::Nothing, VersionPage::Tells)
    }

    /// How many tokens the server makes of `text` for `model`, special tokens left out; `None` where it has no `/tokenize`. Blocks.
    ///
    /// vLLM wants the text as `prompt`, llama.cpp as `content`, TGI as `inputs`; each ignores the others' keys.
    ///
    /// # Errors
    /// [`ClientError::Fetch`] where there was no answer at all.
    pub fn tokenize(&self, model: &str, text: &str) -> Result<Option<Tokenized>, ClientError> {
        let body = json!({
            "model": model,
            "prompt": text,
            "content": text,
            "inputs": text,
            "add_special_tokens": false,
        });
        let path = self.endpoint.root_path("/tokenize");
        let bytes = Bytes::from(body.to_string());
        let fetched = (self.fetcher).fetch_blocking(&self.endpoint, &path, bytes, LIMITS)?;
        if !(200..300).contains(&fetched.status) {
            return Ok(None);
        }
        Ok(serde_json::from_slice(&fetched.body)
            .ok()
            .and_then(|body| tokens_in(&body)))
    }

    async fn get(&self, path: &str) -> Result<Fetched, ClientError> {
        self.fetcher
            .fetch(&self.endpoint, path, Bytes::new(), LIMITS)
            .await
    }
}

/// Kind of server, the page that tells its version, and the keys to look under.
const VERSIONS: &[(&str, &str, &[&str])] = &[
    ("vllm", "/version", &["version"]),
    ("sglang", "/get_server_info", &["version"]),
    ("sglang", "/server_info", &["version"]),
    ("llama.cpp", "/props", &["build_info"]),
    ("ollama", "/api/version", &["version"]),
    ("tgi", "/info", &["version"]),
    ("triton", "/v2", &["version"]),
];

fn kind_of(owner: Option<&str>, header: Option<&str>) -> Option<String> {
    if let Some(header) = header
        && header.to_ascii_lowercase().starts_with("llama.cpp")
    {
        return Some("llama.cpp".to_owned());
    }
    match owner? {
        "llamacpp" => Some("llama.cpp".to_owned()),
        // Ollama's `library`, and owners of models rather than makers of servers.
        "library" | "" | "me" | "user" | "organization-owner" | "openai" | "system" => None,
        owner => Some(owner.to_ascii_lowercase()),
    }
}

/// vLLM: `count` and `tokens` (ids); llama.cpp: `tokens`; TGI: a list of objects with `id`.
fn tokens_in(body: &Value) -> Option<Tokenized> {
    let list = body.as_array().or_else(|| body.get("tokens")?.as_array());
    let id = |token: &Value| {
        let number = token.get("id").unwrap_or(token).as_u64()?;
        u32::try_from(number).ok()
    };
    let ids: Option<Vec<u32>> = list.and_then(|list| list.iter().map(id).collect());
    let length = list.and_then(|list| u64::try_from(list.len()).ok());
    let count = body.get("count").and_then(Value::as_u64).or(length)?;
    Some(Tokenized { count, ids })
}

#[cfg(test)]
#[path = "../tests/unit/probe.rs"]
mod tests;
