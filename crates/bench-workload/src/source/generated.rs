//! Requests that are made up from their number.

use std::sync::{Arc, OnceLock};

use bench_schema::{Nanos, Prompt, PromptSize};

use super::{Generate, Parts};
use crate::builtin_prompts::{self, USE_CASES};
use crate::composer::{Composer, Made};
use crate::dataset::{DatasetSpec, Study};
use crate::length::{LengthSampler, choose, running};
use crate::plan::PlanSpec;
use crate::spread::LengthCategory;
use crate::{Draw, LengthSpec, WorkloadError};

/// Lengths where neither the user nor the dataset has one: those of the field's best-known load test.
const INPUT: u64 = 550;
pub(super) const OUTPUT: u64 = 128;

/// The generator of a dataset.
pub(super) fn of(spec: &PlanSpec, with: &Composer) -> Result<Box<dyn Generate>, WorkloadError> {
    let generator: Box<dyn Generate> = match &spec.dataset {
        DatasetSpec::Random | DatasetSpec::Joint(_) => Box::new(Random),
        DatasetSpec::RandomIds { vocabulary } => Box::new(ids(*vocabulary, with)?),
        DatasetSpec::Text => Box::new(Prose),
        DatasetSpec::Study(study) => Box::new(FixedPrompts {
            prompts: builtin_prompts::study(study.name()),
            study: *study,
        }),
        DatasetSpec::Spread(categories) => Box::new(Spread {
            categories: categories.clone(),
        }),
        DatasetSpec::Prefix {
            groups,
            prefix,
            own,
            skew,
        } => Box::new(SharedPrefix::new(*groups, *prefix, own, *skew)?),
        DatasetSpec::MultiTurn {
            turns,
            first,
            next,
            think_s,
        } => Box::new(Conversation::new(turns, first, next, *think_s)?),
        // files are opened before this is asked
        DatasetSpec::Mixed | DatasetSpec::File { .. } => Box::new(Mixed::new()),
    };
    Ok(generator)
}

fn one(made: &Made, output: Option<u64>) -> Parts {
    Parts::new(made.prompt(), made.size.clone(), output)
}

/// The mixed use cases.
#[derive(Debug)]
struct Mixed {
    weights: Vec<f64>,
    prompts: Vec<Vec<&'static str>>,
}

impl Mixed {
    fn new() -> Self {
        Self {
            weights: running(USE_CASES.iter().map(|case| case.weight)),
            prompts: USE_CASES
                .iter()
                .map(|case| case.prompts().collect())
                .collect(),
        }
    }
}

impl Generate for Mixed {
    fn unit(&self, with: &Composer, unit: u64) -> Result<Vec<Parts>, WorkloadError> {
        let (input, output) = with.lengths(unit);
        let mut shape = with.shape(unit);
        let at = choose(&self.weights, &mut shape);
        let (Some(case), Some(prompts)) = (USE_CASES.get(at), self.prompts.get(at)) else {
            return Ok(Vec::new());
        };
        let prompt = prompts
            .get(shape.pick(prompts.len()))
            .copied()
            .unwrap_or_default();
        let answer = shape.between(*case.answer.start(), *case.answer.end());
        let mut words = with.words(unit);
        let salt = with.salt(&mut words);
        let made = match input {
            None => with.as_it_is(prompt, salt.as_deref())?,
            Some(asked) => with.prose(behind(salt.as_deref(), prompt), asked, &mut words)?,
        };
        let mut parts = one(&made, output.or(Some(answer)));
        parts.use_case = Some(case.name.to_owned());
        Ok(vec![parts])
    }
}

fn behind(salt: Option<&str>, text: &str) -> String {
    match salt {
        Some(salt) => format!("{salt} {text}"),
        None => text.to_owned(),
    }
}

/// Random words.
#[derive(Debug)]
struct Random;

impl Generate for Random {
    fn unit(&self, with: &Composer, unit: u64) -> Result<Vec<Parts>, WorkloadError> {
        let (input, output) = with.lengths(unit);
        let made = with.random(input.unwrap_or(INPUT), &mut with.words(unit))?;
        Ok(vec![one(&made, output.or(Some(OUTPUT)))])
    }
}

/// Prose.
#[derive(Debug)]
struct Prose;

impl Generate for Prose {
    fn unit(&self, with: &Composer, unit: u64) -> Result<Vec<Parts>, WorkloadError> {
        let (input, output) = with.lengths(unit);
        let mut words = with.words(unit);
        let salt = with.salt(&mut words).unwrap_or_default();
        let made = with.prose(salt, input.unwrap_or(INPUT), &mut words)?;
        Ok(vec![one(&made, output.or(Some(OUTPUT)))])
    }
}

/// A few prompts in turn.
#[derive(Debug)]
struct FixedPrompts {
    prompts: Vec<&'static str>,
    study: Study,
}

impl Generate for FixedPrompts {
    fn unit(&self, with: &Composer, unit: u64) -> Result<Vec<Parts>, WorkloadError> {
        let (input, output) = with.lengths(unit);
        let turn = unit.checked_rem(self.prompts.len() as u64).unwrap_or(0);
        let turn = usize::try_from(turn).unwrap_or(0);
        let prompt = self.prompts.get(turn).copied().unwrap_or_default();
        let mut words = with.words(unit);
        let salt = with.salt(&mut words).filter(|_| self.study != Study::Gpt2);
        // The salt stands in place of the first word, so that the number of words stays that of the study.
        let text = match (&salt, prompt.split_once(' ')) {
            (Some(salt), Some((_, rest))) => format!("{salt} {rest}"),
            _ => prompt.to_owned(),
        };
        let made = match input {
            None => with.as_it_is(&text, None)?,
            Some(asked) => with.prose(text, asked, &mut words)?,
        };
        let mut parts = one(&made, output.or(Some(OUTPUT)));
        parts.use_case = Some(self.study.name().to_owned());
        Ok(vec![parts])
    }
}

/// Lengths in categories, the categories in turn, so that each has as many.
#[derive(Debug)]
struct Spread {
    categories: Vec<LengthCategory>,
}

impl Generate for Spread {
    fn unit(&self, with: &Composer, unit: u64) -> Result<Vec<Parts>, WorkloadError> {
        let turn = unit.checked_rem(self.categories.len() as u64).unwrap_or(0);
        let turn = usize::try_from(turn).unwrap_or(0);
        let category = self
            .categories
            .get(turn)
            .copied()
            .unwrap_or(LengthCategory::Tiny);
        let target = category
            .target(&mut with.shape(unit))
            .with_prompt_of_at_least(with.least());
        let mut words = with.words(unit);
        let salt = with.salt(&mut words).unwrap_or_default();
        let made = with.prose(salt, target.input, &mut words)?;
        let mut parts = one(&made, Some(target.output));
        parts.category = Some(category.name().to_owned());
        Ok(vec![parts])
    }
}

/// Random token ids.
#[derive(Debug)]
struct Ids {
    ids: Arc<[u32]>,
    vocabulary: u32,
}

fn ids(vocabulary: Option<u32>, with: &Composer) -> Result<Ids, WorkloadError> {
    let ids = match vocabulary {
        Some(_) => None,
        None => with.token_counter().ids(),
    };
    match (vocabulary, ids) {
        (Some(vocabulary), _) => Ok(Ids {
            ids: Arc::new([]),
            vocabulary,
        }),
        (None, Some(ids)) if !ids.is_empty() => Ok(Ids { ids, vocabulary: 0 }),
        _ => Err(WorkloadError::Conflict {
            what: "random token ids need a vocabulary".to_owned(),
            next: "give a tokenizer, or its size as random-ids:VOCABULARY",
        }),
    }
}

impl Generate for Ids {
    fn unit(&self, with: &Composer, unit: u64) -> Result<Vec<Parts>, WorkloadError> {
        let (input, output) = with.lengths(unit);
        let asked = input.unwrap_or(INPUT);
        let length = with.own_length(asked);
        let mut words = with.words(unit);
        let id = |_| match self.ids.get(words.pick(self.ids.len())) {
            Some(id) => *id,
            None => u32::try_from(words.below(u64::from(self.vocabulary))).unwrap_or(0),
        };
        let prompt = Prompt::TokenIds((0..length).map(id).collect());
        let size = PromptSize {
            asked_tokens: Some(asked),
            sent_tokens: Some(length),
            words: None,
        };
        Ok(vec![Parts::new(prompt, size, output.or(Some(OUTPUT)))])
    }
}

/// Most tokens of prefixes that are kept, over all groups: about 200 MB of text.
const KEPT: u64 = 1 << 25;

/// Groups that share the start of their prompts.
#[derive(Debug)]
struct SharedPrefix {
    popularity: Vec<f64>,
    length: u64,
    own: LengthSampler,
    /// Made on first use and kept: they are long and asked for again and again. Empty where they are too many to keep.
    prefixes: Vec<OnceLock<Arc<str>>>,
}

impl SharedPrefix {
    fn new(groups: u64, prefix: u64, own: &LengthSpec, skew: f64) -> Result<Self, WorkloadError> {
        let kept = if groups.saturating_mul(prefix) <= KEPT {
            groups
        } else {
            0
        };
        Ok(Self {
            popularity: running((1..=groups).map(|k| libm::pow(k as f64, -skew))),
            length: prefix,
            own: LengthSampler::input(own)?,
            prefixes: (0..kept).map(|_| OnceLock::new()).collect(),
        })
    }

    /// The text that group `at` shares. Its words come from a stream far beyond those of requests.
    fn of_group(&self, with: &Composer, at: usize) -> Result<Arc<str>, WorkloadError> {
        let kept = self.prefixes.get(at);
        if let Some(text) = kept.and_then(OnceLock::get) {
            return Ok(Arc::clone(text));
        }
        let mut draw = with.words((1 << 63) | at as u64);
        let text: Arc<str> = with.random_own(self.length, &mut draw)?.into();
        Ok(kept.map_or(Arc::clone(&text), |kept| {
            Arc::clone(kept.get_or_init(|| text))
        }))
    }
}

impl Generate for SharedPrefix {
    fn unit(&self, with: &Composer, unit: u64) -> Result<Vec<Parts>, WorkloadError> {
        let (own, output) = with.lengths(unit);
        let mut shape = with.shape(unit);
        let group = choose(&self.popularity, &mut shape);
        let own = own.unwrap_or_else(|| self.own.draw(&mut shape, unit));
        let shared = self.of_group(with, group)?;
        let asked = self.length + own;
        let made = with.continued(&shared, self.length, asked, &mut with.words(unit))?;
        let mut parts = one(&made, output.or(Some(OUTPUT)));
        parts.session = Some(group as u64);
        parts.use_case = Some(format!("prefix-{group}"));
        Ok(vec![parts])
    }
}

/// Conversations.
#[derive(Debug)]
struct Conversation {
    turns: LengthSampler,
    every: Option<u32>,
    first: LengthSampler,
    next: LengthSampler,
    think: Nanos,
}

impl Conversation {
    fn new(
        turns: &LengthSpec,
        first: &LengthSpec,
        next: &LengthSpec,
        think_s: f64,
    ) -> Result<Self, WorkloadError> {
        let every = match turns {
            LengthSpec::Fixed(n) => u32::try_from(*n).ok(),
            _ => None,
        };
        Ok(Self {
            turns: LengthSampler::input(turns)?,
            every,
            first: LengthSampler::input(first)?,
            next: LengthSampler::input(next)?,
            think: Nanos::from_secs_f64(think_s),
        })
    }

    fn turns_from(&self, shape: &mut Draw, unit: u64) -> u32 {
        u32::try_from(self.turns.draw(shape, unit)).unwrap_or(u32::MAX)
    }
}

impl Generate for Conversation {
    fn unit(&self, with: &Composer, unit: u64) -> Result<Vec<Parts>, WorkloadError> {
        let mut shape = with.shape(unit);
        let turns = self.turns_from(&mut shape, unit);
        let mut words = with.words(unit);
        let mut outputs = with.outputs(unit);
        let mut parts = Vec::new();
        for turn in 0..turns {
            let lengths = if turn == 0 { &self.first } else { &self.next };
            let asked = lengths.draw(&mut shape, u64::from(turn));
            let salt = with
                .salt(&mut words)
                .filter(|_| turn == 0)
                .unwrap_or_default();
            let made = with.prose(salt, asked, &mut words)?;
            let output = with.output_of_turn(&mut outputs, u64::from(turn));
            parts.push(Parts {
                session: Some(unit),
                turn: Some(turn),
                after: (turn > 0).then_some(self.think),
                ..one(&made, output.or(Some(OUTPUT)))
            });
        }
        Ok(parts)
    }

    fn turns(&self, with: &Composer, unit: u64) -> u32 {
        self.every
            .unwrap_or_else(|| self.turns_from(&mut with.shape(unit), unit))
    }

    fn turns_of_every_unit(&self) -> Option<u32> {
        self.every
    }
}
