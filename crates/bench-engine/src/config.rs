//! What an engine is told: where to listen, what to be, which faults to play. TOML or JSON, every key with a default.

use std::fs::File;
use std::io;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::EngineError;
use crate::fault::PlannedFault;

/// Everything about one server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EngineConfig {
    /// The model's name, the only one that is served.
    pub model: String,
    /// Address to bind; loopback unless something else is asked for.
    pub host: String,
    /// Port to bind; 0 takes a free one.
    pub port: u16,
    /// Connections that wait to be accepted at most, over TCP; while the queue is full the kernel drops further ones, whose
    /// clients try again after a second.
    pub backlog: u16,
    /// A Unix socket to listen on instead of TCP.
    pub unix: Option<PathBuf>,
    /// Certificate and key: then TLS, with HTTP/2 where the client asks for it.
    pub tls: Option<TlsFiles>,
    /// If set, requests need `authorization: Bearer KEY` (or `x-api-key: KEY`).
    pub api_key: Option<String>,
    /// Most tokens of prompt and answer together.
    pub max_model_len: u32,
    /// Tokens of an answer when the request names no limit (completions: 16, as the OpenAI API has it).
    pub default_output_tokens: u32,
    /// Threads that serve connections.
    pub io_threads: usize,
    /// Finished requests that the ledger keeps; 0 turns it off.
    pub ledger_capacity: usize,
    /// When connections are closed.
    pub keep_alive: KeepAlive,
    /// Seed of everything that is drawn.
    pub seed: u64,
    /// Where tokens come from.
    pub engine: EngineKind,
    /// When an answer ends by itself; absent: never before its limit.
    pub end_of_text: Option<EndOfText>,
    /// The port is found and nothing listens on it: every connection is refused.
    pub refuse: bool,
    /// Whether `GET /metrics` answers.
    pub metrics_page: bool,
    /// What a simulated engine does more slowly the first time.
    pub cold: Cold,
    /// Requests beyond it are answered 429.
    pub rate_limit: Option<RateLimit>,
    /// Faults played without being asked for.
    pub faults: Vec<PlannedFault>,
    /// Times at which the server stands still.
    pub pauses: Vec<Pause>,
    /// Changes of a simulated engine's speed; those that hold at one time multiply.
    pub slowdowns: Vec<Slowdown>,
    /// Times at which the server is gone.
    pub outages: Vec<Outage>,
}

impl Default for EngineConfig {
    fn default() -> Self {
        Self {
            model: "simulated".into(),
            host: "127.0.0.1".into(),
            port: 0,
            backlog: u16::MAX,
            unix: None,
            tls: None,
            api_key: None,
            max_model_len: 32_768,
            default_output_tokens: 128,
            io_threads: 1,
            ledger_capacity: 100_000,
            keep_alive: KeepAlive::default(),
            seed: 1,
            engine: EngineKind::Fixed(Fixed::default()),
            end_of_text: None,
            refuse: false,
            metrics_page: true,
            cold: Cold::default(),
            rate_limit: None,
            faults: Vec::new(),
            pauses: Vec::new(),
            slowdowns: Vec::new(),
            outages: Vec::new(),
        }
    }
}

/// PEM files of a TLS server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsFiles {
    /// Certificate chain.
    pub cert: PathBuf,
    /// Private key.
    pub key: PathBuf,
    /// Authority that clients' certificates must come from; absent: none is asked for.
    pub client_ca: Option<PathBuf>,
}

/// When a connection is closed by the server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct KeepAlive {
    /// After so long without a request, ms; absent: never. vLLM: 5000.
    pub idle_ms: Option<u64>,
    /// After every streamed answer, without saying so, as llama-server does.
    pub close_after_stream: bool,
    /// After so many requests, with `connection: close` on the last.
    pub max_requests: Option<u64>,
}

/// Where tokens come from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum EngineKind {
    /// Simulated: every request gets the same speed.
    Fixed(Fixed),
    /// Simulated: a continuous-batching scheduler in real time.
    Scheduler(Simulation),
    /// A real transformer on this machine's processors.
    Transformer(Transformer),
}

/// The fixed model: time to first token and between tokens, with jitter, and a cap on concurrent sequences.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Fixed {
    /// Median time from being taken up to the first token, ms.
    pub ttft_ms: f64,
    /// Median time between tokens, ms. 0: all tokens are due at once.
    pub itl_ms: f64,
    /// Added to the time to first token for each token of the prompt, µs.
    pub prefill_us_per_token: f64,
    /// Standard deviation of the logarithm of each time (lognormal jitter); 0 is none.
    pub jitter: f64,
    /// Sequences at a time; more wait, first come first served. Absent: no limit.
    pub max_num_seqs: Option<usize>,
    /// Tokens that come together in one event.
    pub tokens_per_chunk: u32,
}

impl Default for Fixed {
    fn default() -> Self {
        Self {
            ttft_ms: 50.0,
            itl_ms: 10.0,
            prefill_us_per_token: 0.0,
            jitter: 0.1,
            max_num_seqs: None,
            tokens_per_chunk: 1,
        }
    }
}

/// The simulated scheduler: how many, and how long a step takes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Simulation {
    /// The scheduler's limits.
    pub scheduler: Limits,
    /// Time of a step that does nothing, ms.
    pub step_ms: f64,
    /// Added for each sequence that decodes, ms.
    pub step_ms_per_sequence: f64,
    /// Added for each token of context that decoding sequences attend to, µs.
    pub step_us_per_context_token: f64,
    /// Prompt tokens computed in a second, beside the rest of the step.
    pub prefill_tokens_per_s: f64,
    /// Standard deviation of the logarithm of each step's time; 0 is none.
    pub jitter: f64,
}

impl Default for Simulation {
    fn default() -> Self {
        Self {
            scheduler: Limits::default(),
            step_ms: 9.0,
            step_ms_per_sequence: 0.05,
            step_us_per_context_token: 0.02,
            prefill_tokens_per_s: 8_000.0,
            jitter: 0.03,
        }
    }
}

/// A scheduler's limits, by the names that vLLM uses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Sequences in a batch.
    pub max_num_seqs: usize,
    /// Tokens in a step, prompt and decode together.
    pub max_num_batched_tokens: usize,
    /// Prompts may be cut and computed beside decodes; otherwise a step is either whole prompts or decodes.
    pub enable_chunked_prefill: bool,
    /// Blocks of prompts seen before are not computed again.
    pub enable_prefix_caching: bool,
    /// Tokens in a KV block.
    pub block_size: usize,
    /// KV blocks in all. When none is free, the youngest sequence is preempted and computed again later.
    pub num_blocks: usize,
    /// Requests that may wait; more are answered 503.
    pub max_waiting: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_num_seqs: 16,
            max_num_batched_tokens: 2048,
            enable_chunked_prefill: true,
            enable_prefix_caching: true,
            block_size: 16,
            num_blocks: 4096,
            max_waiting: 100_000,
        }
    }
}

/// When an answer ends by itself, unless the request says `ignore_eos`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EndOfText {
    /// Median length of an answer, tokens.
    pub median_tokens: f64,
    /// Standard deviation of the logarithm of its length.
    pub spread: f64,
    /// Also where the request says `ignore_eos`, as servers do that do not know it.
    #[serde(default)]
    pub always: bool,
}

impl EngineConfig {
    /// A named profile: see [`PROFILES`].
    ///
    /// # Errors
    /// [`EngineError::Profile`] lists the names there are.
    pub fn profile(name: &str) -> Result<Self, EngineError> {
        match PROFILES.iter().find(|(known, ..)| *known == name) {
            Some((_, _, toml)) => Self::from_toml(toml),
            None => Err(EngineError::Profile {
                name: name.to_owned(),
                known: PROFILES
                    .iter()
                    .map(|(name, ..)| *name)
                    .collect::<Vec<_>>()
                    .join(", "),
            }),
        }
    }

    /// A profile by name, or a TOML file if the text ends in `.toml` or holds a path separator.
    ///
    /// # Errors
    /// [`EngineError::Profile`], [`EngineError::Read`], [`EngineError::Format`].
    pub fn profile_or_file(text: &str) -> Result<Self, EngineError> {
        if Path::new(text)
            .extension()
            .is_some_and(|e| e.eq_ignore_ascii_case("toml"))
            || text.contains('/')
        {
            Self::from_file(Path::new(text))
        } else {
            Self::profile(text)
        }
    }

    /// Reads a TOML file.
    ///
    /// # Errors
    /// [`EngineError::Read`], or [`EngineError::Format`] with line, caret and expected keys.
    pub fn from_file(path: &Path) -> Result<Self, EngineError> {
        let text = bounded(path).map_err(|source| EngineError::Read {
            path: path.to_owned(),
            source,
        })?;
        Self::from_toml(&text).map_err(|error| match error {
            EngineError::Format { reason, .. } => EngineError::Format {
                path: path.to_owned(),
                reason,
            },
            other => other,
        })
    }

    /// Reads TOML.
    ///
    /// # Errors
    /// [`EngineError::Format`] with line, caret and expected keys.
    pub fn from_toml(text: &str) -> Result<Self, EngineError> {
        toml::from_str(text).map_err(|error| EngineError::Format {
            path: PathBuf::from("the profile"),
            reason: error.to_string(),
        })
    }

    /// Checks the values that would make an engine stand still or panic.
    ///
    /// # Errors
    /// [`EngineError::Config`] with the first key that cannot work.
    pub fn check(&self) -> Result<(), EngineError> {
        let refuse = |key: &str, reason: &str| {
            Err(EngineError::Config {
                key: key.to_owned(),
                reason: reason.to_owned(),
            })
        };
        if self.max_model_len == 0 {
            return refuse("max_model_len", "must be at least 1 token");
        }
        if self.io_threads == 0 || self.io_threads > 1024 {
            return refuse("io_threads", "must be between 1 and 1024");
        }
        if let Some(key) = self.bad_time() {
            return refuse(key, "must be a finite number, 0 or more");
        }
        if let Some((key, reason)) = self.bad_condition() {
            return refuse(key, reason);
        }
        let limits = match &self.engine {
            EngineKind::Fixed(fixed)
                if fixed.tokens_per_chunk == 0 || fixed.max_num_seqs == Some(0) =>
            {
                return refuse(
                    "engine",
                    "tokens_per_chunk and max_num_seqs must be at least 1",
                );
            }
            EngineKind::Fixed(_) => return Ok(()),
            EngineKind::Scheduler(s) => &s.scheduler,
            EngineKind::Transformer(t) if t.scheduler.enable_prefix_caching => {
                return refuse(
                    "engine.scheduler.enable_prefix_caching",
                    "the transformer has none; write false",
                );
            }
            EngineKind::Transformer(t) => &t.scheduler,
        };
        let all = [
            limits.max_num_seqs,
            limits.max_num_batched_tokens,
            limits.block_size,
            limits.num_blocks,
        ];
        if all.contains(&0) {
            return refuse("engine.scheduler", "every limit must be at least 1");
        }
        Ok(())
    }

    fn bad_condition(&self) -> Option<(&'static str, &'static str)> {
        let endless = |pause: &Pause| pause.every_ms.is_some_and(|every| every <= pause.for_ms);
        let slow = |slow: &Slowdown| slow.factor.is_finite() && slow.factor > 0.0;
        let tokens = |pause: &Pause| pause.what == PauseOf::Tokens;
        let simulated = !matches!(self.engine, EngineKind::Transformer(_));
        let needs_simulated = !self.slowdowns.is_empty()
            || self.cold != Cold::default()
            || self.pauses.iter().any(tokens);
        if self.pauses.iter().any(endless) {
            Some(("pauses.every_ms", "must be longer than for_ms"))
        } else if !self.slowdowns.iter().all(slow) {
            Some(("slowdowns.factor", "must be a finite number above 0"))
        } else if self
            .rate_limit
            .as_ref()
            .is_some_and(|l| !l.per_s.is_finite() || l.per_s <= 0.0)
        {
            Some(("rate_limit.per_s", "must be a finite number above 0"))
        } else if self.unix.is_some() && !self.outages.is_empty() {
            Some(("outages", "need TCP; leave `unix` out"))
        } else if needs_simulated && !simulated {
            Some((
                "cold, slowdowns, pauses of tokens",
                "need a simulated engine",
            ))
        } else {
            None
        }
    }

    fn bad_time(&self) -> Option<&'static str> {
        let mut times = match &self.engine {
            EngineKind::Fixed(f) => vec![
                ("engine.ttft_ms", f.ttft_ms),
                ("engine.itl_ms", f.itl_ms),
                ("engine.prefill_us_per_token", f.prefill_us_per_token),
                ("engine.jitter", f.jitter),
            ],
            EngineKind::Scheduler(s) => vec![
                ("engine.step_ms", s.step_ms),
                ("engine.step_ms_per_sequence", s.step_ms_per_sequence),
                (
                    "engine.step_us_per_context_token",
                    s.step_us_per_context_token,
                ),
                ("engine.prefill_tokens_per_s", s.prefill_tokens_per_s),
                ("engine.jitter", s.jitter),
            ],
            EngineKind::Transformer(_) => Vec::new(),
        };
        times.push(("cold.first_token_ms", self.cold.first_token_ms));
        times.push(("cold.shape_ms", self.cold.shape_ms));
        times
            .into_iter()
            .find(|(_, value)| !value.is_finite() || *value < 0.0)
            .map(|(key, _)| key)
    }
}

/// Name, one line about it, and what it says beside the defaults, for each profile.
pub const PROFILES: &[(&str, &str, &str)] = &[
    (
        "fixed",
        "simulated, TTFT 50 ms, 10 ms between tokens, lognormal jitter 0.1, no queue",
        "engine = { kind = 'fixed' }",
    ),
    (
        "instant",
        "simulated, every token due at once: as fast as the socket takes them",
        "engine = { kind = 'fixed', ttft_ms = 0.0, itl_ms = 0.0, jitter = 0.0 }",
    ),
    (
        "7b",
        "simulated scheduler shaped like a 7B model on one GPU: about 10 ms a token, 8 sequences at a time",
        "engine = { kind = 'scheduler', scheduler = { max_num_seqs = 8 } }",
    ),
    (
        "7b-large-batch",
        "the same with 64 sequences and chunked prefill of 2048 tokens",
        "engine = { kind = 'scheduler', scheduler = { max_num_seqs = 64, num_blocks = 16384 } }",
    ),
    (
        "small-cache",
        "simulated scheduler whose KV cache is too small: preemptions",
        "engine = { kind = 'scheduler', scheduler = { num_blocks = 96 } }",
    ),
    (
        "llama-server",
        "simulated, 4 sequences, and closes the connection after every streamed answer",
        "engine = { kind = 'fixed', max_num_seqs = 4 }\nkeep_alive = { close_after_stream = true }",
    ),
    (
        "tiny",
        "transformer, 14 million parameters, 8-bit weights, random: the default for a first run",
        "model = 'tiny'\nmax_model_len = 4096\nengine = { kind = 'transformer' }",
    ),
    (
        "tiny-f32",
        "the same with 32-bit weights",
        "model = 'tiny'\nmax_model_len = 4096\nengine = { kind = 'transformer', weights = 'f32' }",
    ),
    (
        "gpt2-124m",
        "transformer with the shape of GPT-2 small, 32-bit weights, random unless a folder is given",
        "model = 'gpt2-124m'
max_model_len = 1024
[engine]
kind = 'transformer'
weights = 'f32'
shape = { family = 'gpt2', vocabulary = 50257, width = 768, layers = 12, heads = 12, kv_heads = 12, feed_forward = 3072, positions = 1024, rope_theta = 10000.0, norm_eps = 1e-5 }",
    ),
];

/// Most bytes of a configuration: the path may be a device that never ends.
const LONGEST: u64 = 1 << 20;

fn bounded(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    let read = File::open(path)?
        .take(LONGEST + 1)
        .read_to_string(&mut text)?;
    if read as u64 > LONGEST {
        return Err(io::Error::other("it has more than 1024 KiB"));
    }
    Ok(text)
}

// What a server suffers over time. Instants count from the first connection that was accepted.

/// A time at which the server stands still, once or again and again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pause {
    /// What stands still.
    pub what: PauseOf,
    /// When it begins, ms.
    pub after_ms: u64,
    /// How long it lasts, ms.
    pub for_ms: u64,
    /// Time from the beginning of one to that of the next, ms; absent: it happens once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every_ms: Option<u64>,
}

/// What a pause holds up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PauseOf {
    /// New connections wait in the kernel's backlog.
    Accept,
    /// Requests are read, and taken up when the pause is over.
    Requests,
    /// No sequence advances: prefill and decode of all of them stand still.
    Tokens,
}

/// A change of the simulated engine's speed: a step, or a drift that takes its time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Slowdown {
    /// What every time is multiplied by in the end.
    pub factor: f64,
    /// When it begins, ms.
    #[serde(default)]
    pub after_ms: u64,
    /// How long the factor takes to grow from 1 to its value, linearly, ms; 0: at once.
    #[serde(default)]
    pub over_ms: u64,
    /// When the speed is back, at once, ms; absent: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until_ms: Option<u64>,
}

/// What a simulated engine does more slowly because it does it for the first time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Cold {
    /// Sequences from the start that are slow.
    pub requests: u64,
    /// Added to each of their times to first token, ms.
    pub first_token_ms: f64,
    /// Added when a batch of a new size (rounded up to a power of two) is run, ms; the whole batch waits for it in the
    /// scheduler, the sequence that made the batch grow in the fixed model.
    pub shape_ms: f64,
}

/// A token bucket: what comes when it is empty is answered 429.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RateLimit {
    /// Requests that it lets through in a second.
    pub per_s: f64,
    /// Requests that it lets through at once after a rest.
    pub burst: u32,
    /// `Retry-After`, s; absent: the time until the next request is let through, rounded up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_s: Option<u64>,
}

/// A time at which the server is gone: connections are cut, new ones refused. TCP only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Outage {
    /// When it begins, ms.
    pub after_ms: u64,
    /// How long it lasts, ms; absent: for ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub for_ms: Option<u64>,
}

// The transformer's part of the configuration.

/// The transformer: its shape, its weights, its scheduler.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Transformer {
    /// Shape of the model; ignored where `model_dir` says it.
    pub shape: Shape,
    /// How weights are kept.
    pub weights: Weights,
    /// Folder with `config.json`, `*.safetensors` and `tokenizer.json`; absent: random weights, and the text is noise.
    pub model_dir: Option<PathBuf>,
    /// Threads that compute; 0: one for each processor.
    pub threads: usize,
    /// The scheduler's limits. Prefix caching is not available here.
    pub scheduler: Limits,
}

impl Default for Transformer {
    fn default() -> Self {
        Self {
            shape: Shape::tiny(),
            weights: Weights::Int8,
            model_dir: None,
            threads: 0,
            scheduler: Limits {
                max_num_seqs: 16,
                max_num_batched_tokens: 256,
                enable_prefix_caching: false,
                ..Limits::default()
            },
        }
    }
}

/// How weights are kept in memory. Activations are always 32-bit floats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Weights {
    /// 32-bit floats.
    F32,
    /// 8-bit integers with one scale for each output.
    Int8,
}

/// The shape of a decoder-only transformer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shape {
    /// Which family of layers.
    pub family: Family,
    /// Ids of the vocabulary.
    pub vocabulary: usize,
    /// Width.
    pub width: usize,
    /// Layers.
    pub layers: usize,
    /// Attention heads.
    pub heads: usize,
    /// Heads of keys and values; equal to `heads` unless queries share them.
    pub kv_heads: usize,
    /// Width inside the feed-forward part.
    pub feed_forward: usize,
    /// Most positions.
    pub positions: usize,
    /// Base of the rotary angles (Llama).
    pub rope_theta: f32,
    /// Added under the root of the norms.
    pub norm_eps: f32,
}

/// Which family of layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Family {
    /// Layer norm, learned positions, GELU, biases.
    Gpt2,
    /// Root-mean-square norm, rotary positions, `SwiGLU`, shared key and value heads.
    Llama,
}

impl Shape {
    /// 14 million parameters, Llama's layers: steps of a few milliseconds on two cores.
    pub fn tiny() -> Self {
        Self {
            family: Family::Llama,
            vocabulary: 8192,
            width: 384,
            layers: 6,
            heads: 6,
            kv_heads: 6,
            feed_forward: 1024,
            positions: 4096,
            rope_theta: 10_000.0,
            norm_eps: 1e-5,
        }
    }
}
