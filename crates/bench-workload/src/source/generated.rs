//! Requests that are made up from their number.

use std::sync::{Arc, OnceLock};

use bench_schema::{Nanos, Prompt, PromptSize};

use super::{Parts, Single, Source};
use crate::builtin_prompts::{self, USE_CASES};
use crate::composer::{Composer, Made};
use crate::dataset::{DatasetSpec, Study};
use crate::length::LengthCategory;
use crate::length::{LengthSampler, choose, running};
use crate::plan::PlanSpec;
use crate::{Draw, LengthSpec, WorkloadError};

/// Lengths where neither the user nor the dataset has one: those of the field's best-known load test.
const INPUT: u64 = 550;
pub(super) const OUTPUT: u64 = 128;

/// The source of a dataset that is no file.
pub(super) fn of(spec: &PlanSpec, with: &Composer) -> Result<Source, WorkloadError> {
    Ok(Source::Single(match &spec.dataset {
        DatasetSpec::Random | DatasetSpec::Joint(_) | DatasetSpec::Sized { prose: false, .. } => {
            random()
        }
        DatasetSpec::RandomIds { vocabulary } => ids(*vocabulary, with)?,
        DatasetSpec::Text | DatasetSpec::Sized { prose: true, .. } => prose(),
        DatasetSpec::Study(study) => fixed_prompts(*study),
        DatasetSpec::Spread(categories) => spread(categories.clone()),
        DatasetSpec::Prefix {
            groups,
            prefix,
            own,
            skew,
        } => SharedPrefix::new(*groups, *prefix, own, *skew)?.requests(),
        DatasetSpec::MultiTurn {
            turns,
            first,
            next,
            think_s,
        } => {
            let conversation = Conversation::new(turns, first, next, *think_s)?;
            return Ok(Source::Conversations(Box::new(conversation)));
        }
        // files are opened before this is asked
        DatasetSpec::Mixed | DatasetSpec::File { .. } => mixed(),
    }))
}

fn one(made: &Made, output: Option<u64>) -> Parts {
    Parts::new(made.prompt(), made.size.clone(), output)
}

/// The one whose turn it is.
fn in_turn<T: Copy>(all: &[T], unit: u64) -> Option<T> {
    let turn = unit.checked_rem(all.len() as u64)?;
    all.get(usize::try_from(turn).ok()?).copied()
}

/// The mixed use cases.
fn mixed() -> Single {
    let weights = running(USE_CASES.iter().map(|case| case.weight));
    let prompts: Vec<Vec<&str>> = USE_CASES
        .iter()
        .map(|case| case.prompts().collect())
        .collect();
    Box::new(move |with, unit| {
        let (input, output) = with.lengths(unit);
        let mut shape = with.shape(unit);
        // the last of the running weights is the sum of all, so that there is always one
        let at = choose(&weights, &mut shape).min(USE_CASES.len() - 1);
        let (case, prompts) = (&USE_CASES[at], &prompts[at]);
        let prompt = prompts.get(shape.pick(prompts.len())).copied();
        let prompt = prompt.unwrap_or_default();
        let answer = shape.between(*case.answer.start(), *case.answer.end());
        let mut words = with.words(unit);
        let salt = with.salt(&mut words);
        let made = match (input, salt) {
            (None, salt) => with.as_it_is(prompt, salt.as_deref())?,
            (Some(asked), Some(salt)) => {
                with.prose(format!("{salt} {prompt}"), asked, &mut words)?
            }
            (Some(asked), None) => with.prose(prompt.to_owned(), asked, &mut words)?,
        };
        let mut parts = one(&made, output.or(Some(answer)));
        // of other lengths their names are not true
        parts.use_case = output.is_none().then(|| case.name.to_owned());
        Ok(parts)
    })
}

fn random() -> Single {
    Box::new(|with, unit| {
        let (input, output) = with.lengths(unit);
        let made = with.random(input.unwrap_or(INPUT), &mut with.words(unit))?;
        Ok(one(&made, output.or(Some(OUTPUT))))
    })
}

fn prose() -> Single {
    Box::new(|with, unit| {
        let (input, output) = with.lengths(unit);
        let mut words = with.words(unit);
        let salt = with.salt(&mut words).unwrap_or_default();
        let made = with.prose(salt, input.unwrap_or(INPUT), &mut words)?;
        Ok(one(&made, output.or(Some(OUTPUT))))
    })
}

/// A few prompts in turn.
fn fixed_prompts(study: Study) -> Single {
    let prompts = builtin_prompts::study(study.name());
    Box::new(move |with, unit| {
        let (input, output) = with.lengths(unit);
        let prompt = in_turn(&prompts, unit).unwrap_or_default();
        let mut words = with.words(unit);
        let salt = with.salt(&mut words).filter(|_| study != Study::Gpt2);
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
        parts.use_case = Some(study.name().to_owned());
        Ok(parts)
    })
}

/// Lengths in categories, the categories in turn, so that each has as many.
fn spread(categories: Vec<LengthCategory>) -> Single {
    Box::new(move |with, unit| {
        let category = in_turn(&categories, unit).unwrap_or(LengthCategory::Tiny);
        let target = category.target(&mut with.shape(unit));
        let target = target.with_prompt_of_at_least(with.least());
        let mut words = with.words(unit);
        let salt = with.salt(&mut words).unwrap_or_default();
        let made = with.prose(salt, target.input, &mut words)?;
        let mut parts = one(&made, Some(target.output));
        parts.category = Some(category.name().to_owned());
        Ok(parts)
    })
}

/// Random token ids.
fn ids(vocabulary: Option<u32>, with: &Composer) -> Result<Single, WorkloadError> {
    let known = if vocabulary.is_none() {
        with.token_counter().ids()
    } else {
        None
    };
    let ids = known.unwrap_or_else(|| Arc::new([]));
    if vocabulary.is_none() && ids.is_empty() {
        return Err(WorkloadError::Conflict {
            what: "random token ids need a vocabulary".to_owned(),
            next: "set a tokenizer, or the vocabulary size as random-ids:VOCABULARY",
        });
    }
    let below = u64::from(vocabulary.unwrap_or(0));
    Ok(Box::new(move |with, unit| {
        let (input, output) = with.lengths(unit);
        let asked = input.unwrap_or(INPUT);
        let length = with.own_length(asked);
        let mut words = with.words(unit);
        let id = |_| match ids.get(words.pick(ids.len())) {
            Some(id) => *id,
            None => u32::try_from(words.below(below)).unwrap_or(0),
        };
        let prompt = Prompt::TokenIds((0..length).map(id).collect());
        let size = PromptSize {
            asked_tokens: Some(asked),
            sent_tokens: Some(length),
            words: None,
        };
        Ok(Parts::new(prompt, size, output.or(Some(OUTPUT))))
    }))
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

    fn requests(self) -> Single {
        Box::new(move |with, unit| {
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
            Ok(parts)
        })
    }
}

#[derive(Debug)]
pub(crate) struct Conversation {
    turns: LengthSampler,
    /// Turns of each, where all have as many.
    pub(super) every: Option<u32>,
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

    pub(super) fn unit(&self, with: &Composer, unit: u64) -> Result<Vec<Parts>, WorkloadError> {
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

    /// How many requests the unit has, without making them.
    pub(super) fn turns(&self, with: &Composer, unit: u64) -> u32 {
        self.every
            .unwrap_or_else(|| self.turns_from(&mut with.shape(unit), unit))
    }
}
