//! Prompts that share their start.

use std::sync::{Arc, OnceLock};

use super::{Generate, OUTPUT, Parts, not_this, one};
use crate::WorkloadError;
use crate::composer::Composer;
use crate::dataset::DatasetSpec;
use crate::length::{LengthSampler, choose, running};

/// Most tokens of prefixes that are kept, over all groups: about 200 MB of text.
const KEPT: u64 = 1 << 25;

/// Groups that share the start of their prompts.
#[derive(Debug)]
pub(super) struct SharedPrefix {
    popularity: Vec<f64>,
    length: u64,
    own: LengthSampler,
    /// Made on first use and kept: they are long and asked for again and again. Empty where they are too many to keep.
    prefixes: Vec<OnceLock<Arc<str>>>,
}

pub(super) fn prefix(spec: &DatasetSpec) -> Result<SharedPrefix, WorkloadError> {
    let DatasetSpec::Prefix {
        groups,
        prefix,
        own,
        skew,
    } = spec
    else {
        return Err(not_this("prefix"));
    };
    let kept = if groups.saturating_mul(*prefix) <= KEPT {
        *groups
    } else {
        0
    };
    Ok(SharedPrefix {
        popularity: running((1..=*groups).map(|k| libm::pow(k as f64, -skew))),
        length: *prefix,
        own: LengthSampler::input(own)?,
        prefixes: (0..kept).map(|_| OnceLock::new()).collect(),
    })
}

impl SharedPrefix {
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
