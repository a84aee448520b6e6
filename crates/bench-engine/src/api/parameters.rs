//! The parameters that requests of every protocol share, and the sequences that come of them.

use rand::SeedableRng as _;
use rand_chacha::ChaCha12Rng;
use rand_distr::{Distribution as _, StandardNormal};
use serde::Deserialize;

use super::{Dialect, Job, Reply};
use crate::engine::{Finish, GenRequest};
use crate::fault::{FaultKind, FaultSet, mix};
use crate::http::Request;
use crate::local::Local;

/// What the OpenAI protocols have in common. Keys that the engine has no use for are ignored, as vLLM does.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Common {
    pub(super) model: Option<String>,
    pub(super) max_tokens: Option<u32>,
    pub(super) max_completion_tokens: Option<u32>,
    pub(super) min_tokens: Option<u32>,
    pub(super) ignore_eos: Option<bool>,
    pub(super) stream: Option<bool>,
    pub(super) stream_options: Option<StreamOptions>,
    pub(super) n: Option<u32>,
    pub(super) temperature: Option<f32>,
    pub(super) seed: Option<i64>,
    pub(super) return_token_ids: Option<bool>,
}

#[derive(Debug, Default, Clone, Copy, Deserialize)]
#[serde(default)]
pub(super) struct StreamOptions {
    pub(super) include_usage: Option<bool>,
    pub(super) continuous_usage_stats: Option<bool>,
}

/// Which usage a stream carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct UsageWish {
    pub(super) at_end: bool,
    pub(super) always: bool,
    pub(super) on_last: bool,
}

impl Common {
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

/// The model that was asked for must be the one there is.
pub(super) fn check_model(local: &Local, model: Option<&str>) -> Result<(), Reply> {
    let served = &local.server.config.model;
    match model {
        Some(asked) if asked != served => {
            let message = format!("The model `{asked}` does not exist. Valid aliases: {served}.");
            Err(Reply::error(404, &message, Some("model")))
        }
        _ => Ok(()),
    }
}

/// Sequences for each prompt, `n` of each.
pub(super) fn sequences(
    local: &Local,
    prompts: &[Vec<u32>],
    common: &Common,
    default_tokens: u32,
    faults: &FaultSet,
) -> Result<Vec<GenRequest>, Reply> {
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

/// What a protocol of its own asks for, in the words that all share.
pub(super) struct Wish {
    pub(super) prompts: Vec<Vec<u32>>,
    pub(super) tokens: Option<u32>,
    pub(super) stream: bool,
    pub(super) temperature: Option<f32>,
    pub(super) ignore_eos: bool,
    pub(super) seed: Option<i64>,
}

impl Wish {
    pub(super) fn new(prompt: Vec<u32>, tokens: Option<u32>, stream: bool) -> Self {
        Self {
            prompts: vec![prompt],
            tokens,
            stream,
            temperature: None,
            ignore_eos: false,
            seed: None,
        }
    }

    /// The job that comes of it, written down by `dialect`.
    pub(super) fn job(
        self,
        local: &Local,
        faults: &FaultSet,
        dialect: Box<dyn Dialect>,
    ) -> Result<Job, Reply> {
        let common = Common {
            max_tokens: self.tokens,
            ignore_eos: Some(self.ignore_eos),
            temperature: self.temperature,
            seed: self.seed,
            ..Common::default()
        };
        let prompt_tokens = self.prompts.iter().map(|ids| ids.len() as u64).sum();
        let default_tokens = local.server.config.default_output_tokens;
        let sequences = sequences(local, &self.prompts, &common, default_tokens, faults)?;
        Ok(Job {
            sequences,
            prompt_tokens,
            stream: self.stream,
            dialect,
        })
    }
}

/// An id for an answer: the prefix and sixteen digits.
pub(super) fn answer_id(local: &Local, prefix: &str) -> String {
    format!(
        "{prefix}{:016x}",
        mix(local.server.next_sequence() ^ mix(local.server.config.seed))
    )
}
