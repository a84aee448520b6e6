//! Conversations whose next turn waits for the answer.

use bench_schema::Nanos;

use super::{Generate, OUTPUT, Parts, not_this, one};
use crate::composer::Composer;
use crate::dataset::DatasetSpec;
use crate::length::{LengthSampler, LengthSpec};
use crate::{Draw, WorkloadError};

/// Conversations.
#[derive(Debug)]
pub(super) struct Conversation {
    turns: LengthSampler,
    every: Option<u32>,
    first: LengthSampler,
    next: LengthSampler,
    think: Nanos,
}

pub(super) fn conversation(spec: &DatasetSpec) -> Result<Conversation, WorkloadError> {
    let DatasetSpec::MultiTurn {
        turns,
        first,
        next,
        think_s,
    } = spec
    else {
        return Err(not_this("multiturn"));
    };
    let every = match turns {
        LengthSpec::Fixed(n) => u32::try_from(*n).ok(),
        _ => None,
    };
    Ok(Conversation {
        turns: LengthSampler::input(turns)?,
        every,
        first: LengthSampler::input(first)?,
        next: LengthSampler::input(next)?,
        think: Nanos::from_secs_f64(*think_s),
    })
}

impl Conversation {
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
