//! Requests that are made up from their number.

mod conversation;
mod ids;
mod prefix;

use super::{Generate, Parts};
use crate::WorkloadError;
use crate::bank::{self, USE_CASES};
use crate::composer::{Composer, Made};
use crate::dataset::{DatasetSpec, Study};
use crate::length::{choose, running};
use crate::plan::PlanSpec;
use crate::spread::LengthCategory;

/// Lengths where neither the user nor the dataset has one: those of the field's best-known load test.
pub(super) const INPUT: u64 = 550;
pub(super) const OUTPUT: u64 = 128;

/// The generator of a dataset.
pub(super) fn of(spec: &PlanSpec, with: &Composer) -> Result<Box<dyn Generate>, WorkloadError> {
    let generator: Box<dyn Generate> = match &spec.dataset {
        DatasetSpec::Random | DatasetSpec::Joint(_) => Box::new(Random),
        DatasetSpec::RandomIds { vocabulary } => Box::new(ids::ids(*vocabulary, with)?),
        DatasetSpec::Text => Box::new(Prose),
        DatasetSpec::Study(study) => Box::new(FixedPrompts {
            prompts: bank::study(study.name()),
            study: *study,
        }),
        DatasetSpec::Spread(categories) => Box::new(Spread {
            categories: categories.clone(),
        }),
        DatasetSpec::Prefix { .. } => Box::new(prefix::prefix(&spec.dataset)?),
        DatasetSpec::MultiTurn { .. } => Box::new(conversation::conversation(&spec.dataset)?),
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

fn not_this(what: &str) -> WorkloadError {
    WorkloadError::Conflict {
        what: format!("this dataset is no `{what}`"),
        next: "report this as a bug",
    }
}
