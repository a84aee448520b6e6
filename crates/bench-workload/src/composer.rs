//! Makes prompts: what every source of requests shares.

use std::sync::{Arc, OnceLock};

use bench_schema::{Prompt, PromptSize};

use crate::builtin_prompts::WordPool;
use crate::fit::Fitter;
use crate::length::{JointSampler, LengthSampler};
use crate::plan::{PlanSpec, Salt};
use crate::seed::Streams;
use crate::token_counter::count_words;
use crate::{Draw, Seed, TokenCounter, WorkloadError, builtin_prompts};

/// Letters and digits of a salt, without those that are easily taken for others.
const SALT_LETTERS: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";

/// Everything that is needed to make a prompt.
#[derive(Debug)]
pub(crate) struct Composer {
    token_counter: Arc<dyn TokenCounter>,
    pool: OnceLock<Arc<WordPool>>,
    sentences: Vec<&'static str>,
    overhead: u64,
    salted: bool,
    /// Words and salts: differ by cell.
    text: Streams,
    /// Choices that all cells share.
    shape: Streams,
    inputs: Streams,
    outputs: Streams,
    input: Option<LengthSampler>,
    output: Option<LengthSampler>,
    joint: Option<JointSampler>,
}

/// A text and its length.
#[derive(Clone, Debug)]
pub(crate) struct Made {
    pub(crate) text: String,
    pub(crate) size: PromptSize,
}

impl Made {
    pub(crate) fn prompt(&self) -> Prompt {
        Prompt::Text(self.text.as_str().into())
    }
}

impl Composer {
    pub(crate) fn new(
        spec: &PlanSpec,
        token_counter: Arc<dyn TokenCounter>,
    ) -> Result<Self, WorkloadError> {
        let (shape, text) = (spec.shape_key(), spec.text_key());
        // The work that queues in an open loop is left to chance, as that of users is.
        let streams = if spec.load.is_open() {
            Seed::streams
        } else {
            Seed::even_streams
        };
        Ok(Self {
            token_counter,
            pool: OnceLock::new(),
            sentences: builtin_prompts::sentences(),
            overhead: spec.calibration.overhead_tokens,
            salted: spec.salt == Salt::Auto,
            text: spec.seed.streams("text", &text),
            shape: streams(spec.seed, "shape", &shape),
            inputs: streams(spec.seed, "input lengths", &shape),
            outputs: streams(spec.seed, "output lengths", &shape),
            input: spec.input.as_ref().map(LengthSampler::input).transpose()?,
            output: spec
                .output
                .as_ref()
                .map(LengthSampler::output)
                .transpose()?,
            joint: spec.joint_lengths().map(JointSampler::new).transpose()?,
        })
    }

    pub(crate) fn token_counter(&self) -> &dyn TokenCounter {
        self.token_counter.as_ref()
    }

    /// Words to build with; found out on first use, because a large vocabulary takes a moment.
    pub(crate) fn pool(&self) -> Result<&Arc<WordPool>, WorkloadError> {
        if let Some(pool) = self.pool.get() {
            return Ok(pool);
        }
        let pool = self.token_counter.pool()?;
        Ok(self.pool.get_or_init(|| pool))
    }

    /// Choices of this unit that all cells share.
    pub(crate) fn shape(&self, unit: u64) -> Draw {
        self.shape.at(unit)
    }

    pub(crate) fn words(&self, unit: u64) -> Draw {
        self.text.at(unit)
    }

    /// Input and output lengths that were asked for, of this unit; absent where it is left to the dataset.
    pub(crate) fn lengths(&self, unit: u64) -> (Option<u64>, Option<u64>) {
        if let Some(joint) = &self.joint {
            let (input, output) = joint.draw(&mut self.inputs.at(unit), unit);
            return (Some(input), Some(output));
        }
        let input = self.input.as_ref().map(|s| s.draw_at(&self.inputs, unit));
        (
            input,
            self.output.as_ref().map(|s| s.draw_at(&self.outputs, unit)),
        )
    }

    /// Output lengths of the turns of this unit, one after the other.
    pub(crate) fn output_of_turn(&self, outputs: &mut Draw, turn: u64) -> Option<u64> {
        Some(self.output.as_ref()?.draw(outputs, turn))
    }

    /// The stream of this unit's output lengths.
    pub(crate) fn outputs(&self, unit: u64) -> Draw {
        self.outputs.at(unit)
    }

    /// A word that makes a prompt unique, or nothing where salts are off.
    pub(crate) fn salt(&self, draw: &mut Draw) -> Option<String> {
        self.salted.then(|| {
            let letters = (0..10).filter_map(|_| SALT_LETTERS.get(draw.pick(SALT_LETTERS.len())));
            letters.map(|letter| char::from(*letter)).collect()
        })
    }

    /// Length of the text, so that the server counts the asked one with what it adds; at least 1.
    pub(crate) fn own_length(&self, asked: u64) -> u64 {
        asked.saturating_sub(self.overhead).max(1)
    }

    /// The shortest prompt that the server can count: what it adds, and one token.
    pub(crate) fn least(&self) -> u64 {
        self.overhead + 1
    }

    fn fitter(&self) -> Result<Fitter<'_>, WorkloadError> {
        Ok(Fitter {
            token_counter: self.token_counter.as_ref(),
            pool: self.pool()?,
        })
    }

    /// Random words of exactly the asked length.
    pub(crate) fn random(&self, asked: u64, draw: &mut Draw) -> Result<Made, WorkloadError> {
        let length = self.own_length(asked);
        let text = self.fitter()?.random(length, draw)?;
        Ok(self.exact(text, asked, length))
    }

    /// Random words of exactly this length, nothing taken off for what the server adds.
    pub(crate) fn random_own(&self, length: u64, draw: &mut Draw) -> Result<String, WorkloadError> {
        self.fitter()?.random(length, draw)
    }

    /// English prose of exactly the asked length, after this beginning.
    pub(crate) fn prose(
        &self,
        beginning: String,
        asked: u64,
        draw: &mut Draw,
    ) -> Result<Made, WorkloadError> {
        let length = self.own_length(asked);
        let more = |draw: &mut Draw| {
            let at = draw.pick(self.sentences.len());
            self.sentences.get(at).copied().unwrap_or("And so on.")
        };
        let text = self.fitter()?.cut(beginning, length, draw, more)?;
        Ok(self.exact(text, asked, length))
    }

    /// This text and random words after it, of exactly this length together.
    pub(crate) fn continued(
        &self,
        start: &str,
        start_length: u64,
        asked: u64,
        draw: &mut Draw,
    ) -> Result<Made, WorkloadError> {
        let length = self.own_length(asked).max(start_length + 1);
        let fitter = self.fitter()?;
        let mut text = start.to_owned();
        for _ in start_length..length {
            fitter.append(&mut text, draw);
        }
        let text = fitter.settle(text, length, draw)?;
        Ok(self.exact(text, asked, length))
    }

    /// This text as it is, behind a salt where there is one.
    pub(crate) fn as_it_is(&self, text: &str, salt: Option<&str>) -> Result<Made, WorkloadError> {
        let text = match salt {
            Some(salt) => format!("{salt} {text}"),
            None => text.to_owned(),
        };
        let tokens = self.tokens(&text)?;
        let size = PromptSize {
            asked_tokens: None,
            sent_tokens: tokens,
            words: Some(count_words(&text)),
        };
        Ok(Made { text, size })
    }

    /// A text's length in tokens; absent where only words are counted.
    pub(crate) fn tokens(&self, text: &str) -> Result<Option<u64>, WorkloadError> {
        let counter = &self.token_counter;
        let tokens = counter.counts_tokens().then(|| counter.count(text));
        tokens.transpose()
    }

    /// A text's length in what lengths are asked in: tokens where they are counted, else words; at least 1.
    pub(crate) fn units(&self, text: &str) -> Result<u64, WorkloadError> {
        Ok(self.token_counter.count(text)?.max(1))
    }

    fn exact(&self, text: String, asked: u64, length: u64) -> Made {
        let tokens = self.token_counter.counts_tokens();
        let words = if tokens { count_words(&text) } else { length };
        Made {
            text,
            size: PromptSize {
                asked_tokens: Some(asked),
                sent_tokens: tokens.then_some(length),
                words: Some(words),
            },
        }
    }
}
