//! Lengths drawn.

use super::{JointSpec, LengthSpec, MAX_LENGTH};
use crate::dataset::{self, Side};
use crate::seed::Streams;
use crate::{Draw, WorkloadError};

/// A [`LengthSpec`] made ready to draw from: tables are built and files are read.
#[derive(Clone, Debug)]
pub struct LengthSampler {
    kind: Kind,
}

/// A [`JointSpec`] made ready to draw from.
#[derive(Clone, Debug)]
pub struct JointSampler {
    kind: Joint,
}

#[derive(Clone, Debug)]
enum Kind {
    Fixed(u64),
    Uniform(u64, u64),
    Normal(f64, f64),
    LogNormal(f64, f64),
    Gamma(f64, f64),
    /// Running sums of unnormalised probabilities; entry k is for the length k + 1.
    Zipf(Vec<f64>),
    List(Vec<u64>),
    Values(Vec<u64>),
    Mixture(Vec<f64>, Vec<LengthSampler>),
    Within(Box<LengthSampler>, u64, u64),
}

#[derive(Clone, Debug)]
enum Joint {
    Mixture(Vec<f64>, Vec<(LengthSampler, LengthSampler)>),
    Pairs(Vec<(u64, u64)>),
}

impl LengthSampler {
    /// Ready to draw input lengths (`empirical` takes the input column of a trace).
    ///
    /// # Errors
    ///
    /// Where a file of an empirical distribution cannot be read or holds no lengths.
    pub fn input(spec: &LengthSpec) -> Result<Self, WorkloadError> {
        Self::new(spec, Side::Input)
    }

    /// Ready to draw output lengths (`empirical` takes the output column of a trace).
    ///
    /// # Errors
    ///
    /// Where a file of an empirical distribution cannot be read or holds no lengths.
    pub fn output(spec: &LengthSpec) -> Result<Self, WorkloadError> {
        Self::new(spec, Side::Output)
    }

    fn new(spec: &LengthSpec, side: Side) -> Result<Self, WorkloadError> {
        let kind = match spec {
            LengthSpec::Fixed(n) => Kind::Fixed(*n),
            LengthSpec::Uniform { low, high } => Kind::Uniform(*low, *high),
            LengthSpec::Normal { mean, sd } => Kind::Normal(*mean, *sd),
            LengthSpec::LogNormal { mu, sigma } => Kind::LogNormal(*mu, *sigma),
            LengthSpec::Gamma { shape, scale } => Kind::Gamma(*shape, *scale),
            LengthSpec::Zipf { max, exponent } => {
                let term = |k: u64| libm::pow(k as f64, -exponent);
                Kind::Zipf(running((1..=*max).map(term)))
            }
            LengthSpec::List(items) => Kind::List(items.clone()),
            LengthSpec::Empirical(file) => Kind::Values(dataset::lengths(file, side)?),
            LengthSpec::Mixture(parts) => {
                let samplers: Result<_, _> =
                    parts.iter().map(|(_, s)| Self::new(s, side)).collect();
                Kind::Mixture(running(parts.iter().map(|(w, _)| *w)), samplers?)
            }
            LengthSpec::Within { spec, low, high } => {
                Kind::Within(Box::new(Self::new(spec, side)?), *low, *high)
            }
        };
        Ok(Self { kind })
    }

    /// The length of the unit with this index, from its own stream.
    pub(crate) fn draw_at(&self, streams: &Streams, index: u64) -> u64 {
        match &self.kind {
            Kind::Fixed(n) => *n, // nothing is random: the stream need not be set up
            _ => self.draw(&mut streams.at(index), index),
        }
    }

    /// The length of the request with this index; at least 1. Only lists depend on the index.
    pub fn draw(&self, draw: &mut Draw, index: u64) -> u64 {
        match &self.kind {
            Kind::Fixed(n) => *n,
            Kind::Uniform(low, high) => draw.between(*low, *high),
            Kind::Normal(mean, sd) => whole(mean + sd * draw.normal()),
            Kind::LogNormal(mu, sigma) => whole(libm::exp(mu + sigma * draw.normal())),
            Kind::Gamma(shape, scale) => whole(scale * draw.gamma(*shape)),
            Kind::Zipf(sums) => choose(sums, draw) as u64 + 1,
            Kind::List(items) => in_turn(items, index),
            Kind::Values(values) => in_turn(values, draw.below(values.len() as u64)),
            Kind::Mixture(sums, parts) => {
                let part = choose(sums, draw);
                parts.get(part).map_or(1, |part| part.draw(draw, index))
            }
            Kind::Within(inner, low, high) => {
                let mut n = inner.draw(draw, index);
                for _ in 0..64 {
                    if (*low..=*high).contains(&n) {
                        break;
                    }
                    n = inner.draw(draw, index);
                }
                n.clamp(*low, *high)
            }
        }
    }
}

impl JointSampler {
    /// Ready to draw pairs.
    ///
    /// # Errors
    ///
    /// Where a file of an empirical distribution cannot be read or holds no lengths.
    pub fn new(spec: &JointSpec) -> Result<Self, WorkloadError> {
        let kind = match spec {
            JointSpec::Empirical(file) => Joint::Pairs(dataset::length_pairs(file)?),
            JointSpec::Mixture(parts) => {
                let mut samplers = Vec::with_capacity(parts.len());
                for part in parts {
                    let input = LengthSampler::input(&part.input)?;
                    samplers.push((input, LengthSampler::output(&part.output)?));
                }
                Joint::Mixture(running(parts.iter().map(|p| p.weight)), samplers)
            }
        };
        Ok(Self { kind })
    }

    /// Input and output length of the request with this index.
    pub fn draw(&self, draw: &mut Draw, index: u64) -> (u64, u64) {
        match &self.kind {
            Joint::Pairs(pairs) => {
                let at = usize::try_from(draw.below(pairs.len() as u64)).unwrap_or(0);
                pairs.get(at).copied().unwrap_or((1, 1))
            }
            Joint::Mixture(sums, parts) => {
                let part = choose(sums, draw);
                parts.get(part).map_or((1, 1), |(input, output)| {
                    let input = input.draw(draw, index);
                    (input, output.draw(draw, index))
                })
            }
        }
    }
}

/// Rounded to the nearest whole number within what a length may be.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "clamped to whole numbers that both types hold"
)]
fn whole(x: f64) -> u64 {
    libm::round(x).clamp(1.0, MAX_LENGTH as f64) as u64
}

fn in_turn(items: &[u64], index: u64) -> u64 {
    let at = index.checked_rem(items.len() as u64).unwrap_or(0);
    let at = usize::try_from(at).unwrap_or(0);
    items.get(at).copied().unwrap_or(1)
}

/// Running sums of weights.
pub(crate) fn running(weights: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut sum = 0.0;
    let add = |weight: f64| {
        sum += weight;
        sum
    };
    weights.map(add).collect()
}

/// Which of the weights behind these running sums is drawn; takes one draw.
pub(crate) fn choose(sums: &[f64], draw: &mut Draw) -> usize {
    let at = draw.uniform() * sums.last().copied().unwrap_or(0.0);
    sums.partition_point(|sum| *sum <= at)
        .min(sums.len().saturating_sub(1))
}
