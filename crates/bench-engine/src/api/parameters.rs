//! The parameters that requests of every protocol share, and the sequences that come of them.

use rand::SeedableRng as _;
use rand_chacha::ChaCha12Rng;
use rand_distr::{Distribution as _, StandardNormal};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{Dialect, Job, Reply};
use crate::engine::{Finish, GenRequest};
use crate::fault::{FaultKind, FaultSet, mix};
use crate::http::Request;
use crate::server::Local;
use crate::text::Text;

/// What a request asks for, in the words of the OpenAI protocols. Keys that the engine has no use for are ignored, as vLLM does.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Common {
    pub(super) model: Option<String>,
    max_tokens: Option<u32>,
    max_completion_tokens: Option<u32>,
    min_tokens: Option<u32>,
    ignore_eos: Option<bool>,
    pub(super) stream: Option<bool>,
    stream_options: Option<StreamOptions>,
    n: Option<u32>,
    temperature: Option<f32>,
    seed: Option<i64>,
    pub(super) return_token_ids: Option<bool>,
    /// Tokens where none are asked for, other than the server's own number.
    #[serde(skip)]
    pub(super) default_tokens: Option<u32>,
}

#[derive(Debug, Default, Clone, Copy, Deserialize)]
struct StreamOptions {
    include_usage: Option<bool>,
    continuous_usage_stats: Option<bool>,
}

/// Which usage a stream carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct UsageWish {
    pub(super) at_end: bool,
    pub(super) always: bool,
    pub(super) on_last: bool,
}

impl Common {
    /// One token of an answer in one piece.
    pub(super) fn one_token() -> Self {
        Self {
            max_tokens: Some(1),
            ignore_eos: Some(true),
            ..Self::default()
        }
    }

    pub(super) fn usage_wish(&self, faults: &FaultSet) -> UsageWish {
        let options = self.stream_options.unwrap_or_default();
        let none = faults.has(FaultKind::NoUsage);
        let asked = options.include_usage.unwrap_or(false) && !none;
        let always = options.continuous_usage_stats.unwrap_or(false)
            || faults.has(FaultKind::ContinuousUsage);
        let on_last = faults.has(FaultKind::UsageOnLast) && !none;
        UsageWish {
            at_end: asked && !on_last,
            always: always && !none,
            on_last,
        }
    }
}

/// Reads a JSON body, or says where it is wrong.
pub(super) fn body<'a, T: Deserialize<'a>>(request: &'a Request) -> Result<T, Reply> {
    serde_json::from_slice(&request.body)
        .map_err(|error| Reply::error(400, &format!("the body: {error}"), None))
}

/// A request for tokens, and who is asked.
#[derive(Clone, Copy)]
pub(super) struct ApiCall<'a> {
    pub(super) local: &'a Local,
    pub(super) request: &'a Request,
    pub(super) faults: &'a FaultSet,
}

impl<'a> ApiCall<'a> {
    pub(super) fn text(self) -> &'a Text {
        &self.local.server.text
    }

    /// The name of the model there is.
    pub(super) fn model(self) -> &'a str {
        &self.local.server.config.model
    }

    /// The model that was asked for must be the one there is.
    pub(super) fn check_model(self, model: Option<&str>) -> Result<(), Reply> {
        let served = self.model();
        match model {
            Some(asked) if asked != served => {
                let message =
                    format!("The model `{asked}` does not exist. Valid aliases: {served}.");
                Err(Reply::error(404, &message, Some("model")))
            }
            _ => Ok(()),
        }
    }

    /// A body whose model is the one there is, to be read by JSON pointers.
    pub(super) fn body(self) -> Result<Body, Reply> {
        let body = Body(body(self.request)?);
        self.check_model(body.get::<String>("/model")?.as_deref())?;
        Ok(body)
    }

    /// The job of these prompts, written down by the dialect that is made with sixteen digits to call the answer by.
    pub(super) fn job<D: Dialect + 'static>(
        self,
        prompts: &[Vec<u32>],
        common: &Common,
        dialect: impl FnOnce(String) -> D,
    ) -> Result<Job, Reply> {
        let sequences = self.sequences(prompts, common)?;
        let seed = sequences.first().map_or(0, |sequence| mix(sequence.seed));
        Ok(Job {
            sequences,
            prompt_tokens: prompts.iter().map(|ids| ids.len() as u64).sum(),
            stream: common.stream.unwrap_or(false),
            dialect: Box::new(dialect(format!("{seed:016x}"))),
        })
    }

    /// Sequences for each prompt, `n` of each.
    fn sequences(self, prompts: &[Vec<u32>], common: &Common) -> Result<Vec<GenRequest>, Reply> {
        let Self { local, faults, .. } = self;
        let copies = common.n.unwrap_or(1);
        if copies == 0 || copies as usize * prompts.len() > 1024 {
            return Err(Reply::error(
                400,
                "n must be between 1 and 1024, over all prompts",
                Some("n"),
            ));
        }
        let asked = common.max_completion_tokens.or(common.max_tokens);
        if asked == Some(0) {
            return Err(Reply::error(
                400,
                "max_tokens must be at least 1, got 0.",
                Some("max_tokens"),
            ));
        }
        let default_tokens = common
            .default_tokens
            .unwrap_or(local.server.config.default_output_tokens);
        let mut made = Vec::with_capacity(prompts.len() * copies as usize);
        for prompt in prompts {
            let room = room_for(local, prompt.len(), asked)?;
            for copy in 0..copies {
                let number = local.server.next_sequence();
                let seed = common
                    .seed
                    .map_or(local.server.config.seed ^ mix(number), |s| {
                        mix(s.cast_unsigned() + u64::from(copy))
                    });
                let mut sequence = GenRequest {
                    prompt: prompt.clone(),
                    limit: asked.unwrap_or(default_tokens.min(room)),
                    at_limit: Finish::Length,
                    min_tokens: common.min_tokens.unwrap_or(0),
                    ignore_eos: common.ignore_eos.unwrap_or(false),
                    temperature: common.temperature.unwrap_or(1.0),
                    seed,
                    tokens_per_chunk: faults
                        .get(FaultKind::TokensPerChunk)
                        .and_then(|n| u32::try_from(n).ok()),
                };
                end_by_itself(local, &mut sequence);
                if faults.has(FaultKind::Endless) {
                    sequence.limit = u32::MAX;
                }
                made.push(sequence);
            }
        }
        Ok(made)
    }
}

fn room_for(local: &Local, prompt: usize, asked: Option<u32>) -> Result<u32, Reply> {
    let longest = local.server.config.max_model_len;
    if prompt == 0 {
        return Err(Reply::error(
            400,
            "The prompt is empty: at least one token is needed.",
            Some("prompt"),
        ));
    }
    let prompt = u32::try_from(prompt).unwrap_or(u32::MAX);
    let room = longest.saturating_sub(prompt);
    if room == 0 {
        let message = format!(
            "This model's maximum context length is {longest} tokens. However, your request has {prompt} input tokens. \
             Please reduce the length of the input messages."
        );
        return Err(Reply::error(400, &message, Some("input_tokens")));
    }
    match asked {
        Some(asked) if asked > room => {
            let message = format!(
                "max_tokens={asked} cannot be greater than max_model_len={longest} less the {prompt} tokens of the prompt. \
                 Please request fewer output tokens. (parameter=max_tokens, value={asked})"
            );
            Err(Reply::error(400, &message, Some("max_tokens")))
        }
        _ => Ok(room),
    }
}

/// Draws the length of an answer that may end before its limit.
fn end_by_itself(local: &Local, sequence: &mut GenRequest) {
    let Some(end) = &local.server.config.end_of_text else {
        return;
    };
    if sequence.ignore_eos && !end.always {
        return;
    }
    let mut rng = ChaCha12Rng::seed_from_u64(mix(sequence.seed));
    let z: f64 = StandardNormal.sample(&mut rng);
    let drawn = (end.median_tokens * (end.spread * z).exp())
        .round()
        .clamp(1.0, f64::from(u32::MAX));
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "clamped to the range above"
    )]
    let natural = (drawn as u32).max(sequence.min_tokens);
    if natural < sequence.limit {
        sequence.limit = natural;
        sequence.at_limit = Finish::Stop;
    }
}

/// The body of a protocol of its own: what it says stands at JSON pointers.
pub(super) struct Body(Value);

impl Body {
    /// What stands there; `None` where nothing does, or null.
    pub(super) fn get<T: DeserializeOwned>(&self, pointer: &str) -> Result<Option<T>, Reply> {
        let found = self.0.pointer(pointer).filter(|value| !value.is_null());
        found
            .map(T::deserialize)
            .transpose()
            .map_err(|error| Reply::error(400, &format!("the body, at `{pointer}`: {error}"), None))
    }

    /// What must stand there.
    pub(super) fn need<T: DeserializeOwned>(&self, pointer: &str) -> Result<T, Reply> {
        self.get(pointer)?
            .ok_or_else(|| Reply::error(400, &format!("the body: nothing at `{pointer}`"), None))
    }

    pub(super) fn has(&self, pointer: &str) -> bool {
        self.0.pointer(pointer).is_some()
    }

    /// The parameters in the object `within` (empty for the body itself), where the limit is called `tokens`. Numbers below zero
    /// stand for none, as llama.cpp and Ollama have it.
    pub(super) fn parameters(&self, within: &str, tokens: &str) -> Result<Common, Reply> {
        let at = |name: &str| format!("{within}/{name}");
        let limit: Option<i64> = self.get(&at(tokens))?;
        let seed: Option<i64> = self.get(&at("seed"))?;
        Ok(Common {
            max_tokens: limit.and_then(|n| u32::try_from(n).ok()),
            ignore_eos: self.get(&at("ignore_eos"))?,
            stream: self.get("/stream")?,
            temperature: self.get(&at("temperature"))?,
            seed: seed.filter(|seed| *seed >= 0),
            ..Common::default()
        })
    }
}
