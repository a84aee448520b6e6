//! The metrics of NVIDIA's DCGM exporter and of Triton, per GPU, under the same names as NVML's.

use std::collections::{BTreeMap, BTreeSet};

use nvml_wrapper::bitmasks::device::ThrottleReasons;

use super::Part;
use crate::exposition::Sample;
use crate::gpu::throttles;

/// Field, name, factor.
fn fields() -> impl Iterator<Item = (&'static str, &'static str, f64)> {
    let lines = include_str!("dcgm.txt").lines();
    lines
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            Some((words.next()?, words.next()?, words.next()?.parse().ok()?))
        })
}

/// The reasons for a lower clock, older and newer name: a mask whose bits are NVML's.
const REASONS: [&str; 2] = [
    "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS",
    "DCGM_FI_DEV_CLOCKS_EVENT_REASONS",
];

/// From here on a number is DCGM's way to say "blank", "not found", "not supported" or "no permission".
/// (64-bit integers; floating point begins at 2^47, which no real reading reaches but energy, and that only after centuries.)
const BLANK: f64 = 140_737_488_355_328.0;

/// Blank 32-bit integers: sixteen values up to 2^31 − 1.
const BLANK_32: std::ops::RangeInclusive<f64> = 2_147_483_632.0..=2_147_483_647.0;

/// What a sample tells.
#[derive(Clone, Copy)]
enum Field {
    /// A figure under this name, times a factor.
    Figure(&'static str, f64),
    /// The mask of reasons for a lower clock.
    Reasons,
}

impl Field {
    fn of(sample: &Sample, figures: &BTreeMap<&str, (&'static str, f64)>) -> Option<Self> {
        if sample.label("nvlink").is_some() {
            return None; // a row of one link is not the card's
        }
        if REASONS.contains(&sample.name.as_str()) {
            return Some(Self::Reasons);
        }
        let &(name, factor) = figures.get(sample.name.as_str())?;
        Some(Self::Figure(name, factor))
    }

    /// A card's power is repeated for each of its MIG instances: it is the card's, once.
    fn is_of_whole_card(self) -> bool {
        let names = ["energy_j_total", "power_w", "power_limit_w"];
        matches!(self, Self::Figure(name, _) if names.contains(&name))
    }

    /// Store `value`, or that it is none.
    fn put(self, value: f64, part: &mut Part) {
        let is_energy = matches!(self, Self::Figure("energy_j_total", _));
        let is_blank = value >= BLANK || (!is_energy && BLANK_32.contains(&value));
        match self {
            Self::Figure(name, _) if is_blank || !value.is_finite() => {
                part.blank.insert(name.to_owned());
            }
            Self::Figure(name, factor) => {
                part.values.insert(name.to_owned(), value * factor);
            }
            Self::Reasons => {
                let mask = Some(value).filter(|_| !is_blank).and_then(whole);
                let reasons = mask.map(ThrottleReasons::from_bits_truncate);
                let held = reasons.into_iter().flat_map(throttles);
                part.values
                    .extend(held.map(|(name, holds)| (name.to_owned(), holds)));
            }
        }
    }
}

/// A mask that is printed as a number.
fn whole(value: f64) -> Option<u64> {
    let bits = 0.0..f64::from(u32::MAX);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a whole number within the range that was looked at"
    )]
    (bits.contains(&value) && value.fract() == 0.0).then_some(value as u64)
}

/// The samples of each GPU: by its number in the exporter, `host:number` where the samples are of several hosts, and
/// `number/migN` for an instance within it.
pub(crate) fn by_gpu(samples: &[Sample]) -> BTreeMap<String, Part> {
    let figures = fields().map(|(field, name, factor)| (field, (name, factor)));
    let figures = figures.collect();
    let known = samples.iter();
    let known = known.filter_map(|s| Some((Field::of(s, &figures)?, number(s)?, s)));
    let known: Vec<(Field, &str, &Sample)> = known.collect();
    let hosts: BTreeSet<&str> = known.iter().filter_map(|(_, _, s)| host(s)).collect();
    let mut gpus: BTreeMap<String, Part> = BTreeMap::new();
    for (field, number, sample) in known {
        let card = match host(sample) {
            Some(host) if hosts.len() > 1 => format!("{host}:{number}"),
            _ => number.to_owned(),
        };
        let instance = match sample.label("GPU_I_ID").filter(|id| !id.is_empty()) {
            Some(id) if !field.is_of_whole_card() => format!("{card}/mig{id}"),
            _ => card,
        };
        field.put(sample.value, gpus.entry(instance).or_default());
    }
    gpus
}

/// Which GPU of its host a sample is of: its number, or for Triton its identifier.
pub(super) fn number(sample: &Sample) -> Option<&str> {
    sample.label("gpu").or_else(|| sample.label("gpu_uuid"))
}

/// Which host a sample is of, by the exporter's own label (older and newer spelling), else by the one that a Prometheus server adds.
pub(super) fn host(sample: &Sample) -> Option<&str> {
    let labels = ["Hostname", "hostname", "instance"];
    let mut hosts = labels.iter().filter_map(|label| sample.label(label));
    hosts.find(|host| !host.is_empty())
}

/// A query for every series that [`by_gpu`] knows, of the GPUs that `matchers` choose; all, where these are empty.
pub(crate) fn query(matchers: &str) -> String {
    let figures = fields().map(|(field, _, _)| field);
    let fields: Vec<&str> = figures.chain(REASONS).collect();
    let fields = fields.join("|");
    let matchers = matchers
        .trim()
        .trim_start_matches('{')
        .trim_end_matches('}');
    let comma = if matchers.is_empty() { "" } else { "," };
    format!("{{__name__=~\"{fields}\"{comma}{matchers}}}")
}
