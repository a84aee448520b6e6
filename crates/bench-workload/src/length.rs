//! How long prompts and answers are.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use crate::dataset::{self, Side};
use crate::seed::Streams;
use crate::{Draw, WorkloadError};

/// The longest prompt or answer, in tokens: well above every context window, well below what fills a memory.
pub(crate) const MAX_LENGTH: u64 = 1 << 24;

/// A distribution of lengths, in tokens (in words where nothing counts tokens).
///
/// Draws of continuous distributions are rounded to the nearest whole number and lie between 1 and 2^24. Read from text with
/// [`str::parse`]; its [`Display`](std::fmt::Display) reads back as the same value.
///
/// | text | lengths |
/// |---|---|
/// | `256` | always 256 |
/// | `128..512` | uniform, both ends included |
/// | `normal:550:150` | normal with mean 550 and standard deviation 150 |
/// | `lognormal:5.0:1.0` | e to the power of a normal with mean 5.0 and standard deviation 1.0 |
/// | `gamma:2:100` | gamma with shape 2 and scale 100 (mean 200) |
/// | `zipf:1024:1.1` | 1 to 1024, k in proportion to k^−1.1 |
/// | `list:32,64,128` | these in turn, by the request's index |
/// | `empirical:FILE` | drawn from the numbers in a file, or from the lengths in a trace |
/// | `mix:3*16..64+1*normal:2000:300` | one of these, in proportion to the weights |
/// | any of them `[16..4096]` | the same, drawn again while outside these bounds |
///
/// ```
/// use bench_workload::LengthSpec;
/// let spec: LengthSpec = "normal:550:150[16..4096]".parse()?;
/// assert_eq!(spec.to_string(), "normal:550:150[16..4096]");
/// # Ok::<(), bench_workload::WorkloadError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
#[expect(missing_docs, reason = "a variant says what its fields are")]
pub enum LengthSpec {
    /// Always this.
    Fixed(u64),
    /// Uniform, both ends included.
    Uniform { low: u64, high: u64 },
    /// Normal, by its mean and standard deviation.
    Normal { mean: f64, sd: f64 },
    /// The exponential of a normal, by that one's mean and standard deviation.
    LogNormal { mu: f64, sigma: f64 },
    /// Gamma; its mean is `shape · scale`, its sd / mean is `1 / √shape`.
    Gamma { shape: f64, scale: f64 },
    /// 1 to `max`, `k` with a probability in proportion to `k^−exponent`.
    Zipf { max: u64, exponent: f64 },
    /// These in turn, by the index of the request.
    List(Vec<u64>),
    /// Drawn from the values in a file: whole numbers separated by blanks, or a trace, whose input or output lengths are taken.
    Empirical(PathBuf),
    /// One of these, in proportion to the weights.
    Mixture(Vec<(f64, LengthSpec)>),
    /// Drawn again while outside these bounds; after 64 draws the nearest bound.
    Within {
        spec: Box<LengthSpec>,
        low: u64,
        high: u64,
    },
}

// Input and output lengths that belong together.

/// A joint distribution of input and output lengths: `joint:3*256/256+1*1024..4096/normal:128:20`, or
/// `joint:empirical:FILE` for the pairs of a trace.
#[derive(Clone, Debug, PartialEq)]
pub enum JointSpec {
    /// One of these pairs of distributions, in proportion to the weights.
    Mixture(Vec<JointPart>),
    /// Pairs drawn from a trace.
    Empirical(PathBuf),
}

/// One part of a joint mixture.
#[derive(Clone, Debug, PartialEq)]
pub struct JointPart {
    /// How often, relative to the other parts.
    pub weight: f64,
    /// Input lengths.
    pub input: LengthSpec,
    /// Output lengths.
    pub output: LengthSpec,
}

impl FromStr for JointSpec {
    type Err = WorkloadError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let body = text.trim().strip_prefix("joint:").unwrap_or(text.trim());
        let parsed = match body.strip_prefix("empirical:") {
            Some("") => Err("the file name is missing".to_owned()),
            Some(file) => Ok(Self::Empirical(file.into())),
            None => body
                .split('+')
                .map(part)
                .collect::<Result<_, _>>()
                .map(Self::Mixture),
        };
        parsed.map_err(|why| WorkloadError::Spec {
            what: "joint length",
            given: text.to_owned(),
            why,
            expected: "joint:WEIGHT*INPUT/OUTPUT+WEIGHT*INPUT/OUTPUT, as joint:3*256/128+1*1024..4096/64, or joint:empirical:FILE",
        })
    }
}

fn part(text: &str) -> Result<JointPart, String> {
    let (weight, pair) = weighted(text)?;
    weighing(weight, pair)
}

fn weighing(weight: f64, pair: &str) -> Result<JointPart, String> {
    let (input, output) = pair
        .split_once('/')
        .ok_or_else(|| format!("`{pair}` is not of the form INPUT/OUTPUT"))?;
    Ok(JointPart {
        weight,
        input: read(input.trim())?,
        output: read(output.trim())?,
    })
}

impl JointSpec {
    /// `INPUT/OUTPUT`: one pair of distributions.
    pub(crate) fn pair(text: &str) -> Result<Self, String> {
        Ok(Self::Mixture(vec![weighing(1.0, text)?]))
    }
}

impl fmt::Display for JointPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.input, self.output)
    }
}

impl fmt::Display for JointSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empirical(file) => write!(f, "joint:empirical:{}", file.display()),
            Self::Mixture(parts) => {
                let show = |part: &JointPart| format!("{}*{part}", part.weight);
                let parts: Vec<String> = parts.iter().map(show).collect();
                write!(f, "joint:{}", parts.join("+"))
            }
        }
    }
}

// Lengths from text and back.

const EXPECTED: &str = "256, 128..512, normal:MEAN:SD, lognormal:MU:SIGMA, gamma:SHAPE:SCALE, zipf:MAX:EXPONENT, \
    list:A,B,C, empirical:FILE or mix:WEIGHT*SPEC+WEIGHT*SPEC, each with bounds as SPEC[LOW..HIGH]";

/// Bounds a table of the Zipf distribution to 8 MiB.
const ZIPF_MAX: u64 = 1 << 20;

impl FromStr for LengthSpec {
    type Err = WorkloadError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        read(text.trim()).map_err(|why| WorkloadError::Spec {
            what: "length",
            given: text.to_owned(),
            why,
            expected: EXPECTED,
        })
    }
}

pub(crate) fn read(text: &str) -> Result<LengthSpec, String> {
    // A mixture comes first: the bounds at its end belong to its last part.
    if let Some(parts) = text.strip_prefix("mix:") {
        let part = |part| {
            let (weight, spec) = weighted(part)?;
            Ok((weight, read(spec)?))
        };
        let parts: Result<_, String> = parts.split('+').map(part).collect();
        return parts.map(LengthSpec::Mixture);
    }
    if let Some((spec, bounds)) = text.strip_suffix(']').and_then(|t| t.rsplit_once('[')) {
        let (low, high) = range(bounds)?;
        return Ok(LengthSpec::Within {
            spec: Box::new(read(spec)?),
            low,
            high,
        });
    }
    if let Some(file) = text.strip_prefix("empirical:") {
        if file.is_empty() {
            return Err("the file name is missing".to_owned());
        }
        return Ok(LengthSpec::Empirical(file.into()));
    }
    match text.split_once(':') {
        Some(("list", items)) => {
            let items: Result<Vec<u64>, String> = items.split(',').map(whole).collect();
            Ok(LengthSpec::List(items?))
        }
        Some((name, parameters)) => named(name, parameters),
        None if text.contains("..") => {
            let (low, high) = range(text)?;
            Ok(LengthSpec::Uniform { low, high })
        }
        None => Ok(LengthSpec::Fixed(whole(text)?)),
    }
}

fn named(name: &str, parameters: &str) -> Result<LengthSpec, String> {
    let Some((first, second)) = parameters.split_once(':') else {
        return Err(format!("`{name}` takes two numbers: {name}:A:B"));
    };
    match name {
        "normal" => Ok(LengthSpec::Normal {
            mean: positive("mean", first)?,
            sd: not_negative("standard deviation", second)?,
        }),
        "lognormal" => {
            let mu = number("mu", first)?;
            if mu > 20.0 {
                return Err(format!(
                    "mu is the mean of the logarithm, and e^{mu} tokens are too many; for a median of 550 tokens write lognormal:6.31:SIGMA"
                ));
            }
            let sigma = not_negative("sigma", second)?;
            Ok(LengthSpec::LogNormal { mu, sigma })
        }
        "gamma" => Ok(LengthSpec::Gamma {
            shape: positive("shape", first)?,
            scale: positive("scale", second)?,
        }),
        "zipf" => {
            let max = whole(first)?;
            if max > ZIPF_MAX {
                return Err(format!("zipf allows at most {ZIPF_MAX}"));
            }
            let exponent = not_negative("exponent", second)?;
            Ok(LengthSpec::Zipf { max, exponent })
        }
        other => Err(format!("unknown distribution `{other}`")),
    }
}

/// `WEIGHT*REST`.
fn weighted(part: &str) -> Result<(f64, &str), String> {
    let (weight, rest) = part
        .split_once('*')
        .ok_or_else(|| format!("`{part}` has no weight; write for example 3*{part}"))?;
    Ok((positive("weight", weight)?, rest.trim()))
}

fn range(text: &str) -> Result<(u64, u64), String> {
    let (low, high) = text
        .split_once("..")
        .ok_or_else(|| format!("`{text}` is not a range LOW..HIGH"))?;
    let (low, high) = (whole(low)?, whole(high.trim_start_matches('='))?);
    if low > high {
        return Err(format!(
            "in the range {low}..{high}, the first number is larger than the second"
        ));
    }
    Ok((low, high))
}

fn whole(text: &str) -> Result<u64, String> {
    let text = text.trim();
    match text.parse::<u64>() {
        Ok(0) => Err("a length must be at least 1".to_owned()),
        Ok(n) if n > MAX_LENGTH => Err(format!("{n} tokens are too many; at most {MAX_LENGTH}")),
        Ok(n) => Ok(n),
        Err(_) => Err(format!("`{text}` is not a whole number")),
    }
}

fn number(what: &str, text: &str) -> Result<f64, String> {
    match text.trim().parse::<f64>() {
        Ok(n) if n.is_finite() => Ok(n),
        _ => Err(format!("the {what} `{text}` is not a number")),
    }
}

fn not_negative(what: &str, text: &str) -> Result<f64, String> {
    match number(what, text)? {
        n if n >= 0.0 => Ok(n),
        n => Err(format!("the {what} {n} is negative")),
    }
}

fn positive(what: &str, text: &str) -> Result<f64, String> {
    match number(what, text)? {
        n if n > 0.0 => Ok(n),
        n => Err(format!("the {what} must be above 0, not {n}")),
    }
}

impl fmt::Display for LengthSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(n) => write!(f, "{n}"),
            Self::Uniform { low, high } => write!(f, "{low}..{high}"),
            Self::Normal { mean, sd } => write!(f, "normal:{mean}:{sd}"),
            Self::LogNormal { mu, sigma } => write!(f, "lognormal:{mu}:{sigma}"),
            Self::Gamma { shape, scale } => write!(f, "gamma:{shape}:{scale}"),
            Self::Zipf { max, exponent } => write!(f, "zipf:{max}:{exponent}"),
            Self::List(items) => {
                let items: Vec<String> = items.iter().map(u64::to_string).collect();
                write!(f, "list:{}", items.join(","))
            }
            Self::Empirical(file) => write!(f, "empirical:{}", file.display()),
            Self::Mixture(parts) => {
                let parts: Vec<String> = parts.iter().map(|(w, s)| format!("{w}*{s}")).collect();
                write!(f, "mix:{}", parts.join("+"))
            }
            Self::Within { spec, low, high } => write!(f, "{spec}[{low}..{high}]"),
        }
    }
}

// Lengths drawn.

/// A [`LengthSpec`] made ready to draw from: tables are built and files are read.
#[derive(Clone, Debug)]
pub struct LengthSampler {
    spec: LengthSpec,
    /// Of a Zipf distribution and of mixtures the running sums of the probabilities.
    sums: Vec<f64>,
    /// What there is to choose from, of lists and files.
    values: Vec<u64>,
    /// Of mixtures, and of what is drawn within bounds.
    parts: Vec<LengthSampler>,
}

/// A [`JointSpec`] made ready to draw from: pairs, or parts with the running sums of their weights.
#[derive(Clone, Debug)]
pub struct JointSampler {
    pairs: Vec<(u64, u64)>,
    sums: Vec<f64>,
    parts: Vec<(LengthSampler, LengthSampler)>,
}

impl LengthSampler {
    /// Ready to draw input lengths (`empirical` takes the input column of a trace).
    ///
    /// # Errors
    /// Where a file of an empirical distribution cannot be read or holds no lengths.
    pub fn input(spec: &LengthSpec) -> Result<Self, WorkloadError> {
        Self::new(spec, Side::Input)
    }

    /// Ready to draw output lengths (`empirical` takes the output column of a trace).
    ///
    /// # Errors
    /// Where a file of an empirical distribution cannot be read or holds no lengths.
    pub fn output(spec: &LengthSpec) -> Result<Self, WorkloadError> {
        Self::new(spec, Side::Output)
    }

    fn new(spec: &LengthSpec, side: Side) -> Result<Self, WorkloadError> {
        let mut made = Self {
            spec: spec.clone(),
            sums: Vec::new(),
            values: Vec::new(),
            parts: Vec::new(),
        };
        match spec {
            LengthSpec::Zipf { max, exponent } => {
                let term = |k: u64| libm::pow(k as f64, -exponent);
                made.sums = running((1..=*max).map(term));
            }
            LengthSpec::List(items) => made.values.clone_from(items),
            LengthSpec::Empirical(file) => made.values = dataset::lengths(file, side)?,
            LengthSpec::Mixture(parts) => {
                made.sums = running(parts.iter().map(|(weight, _)| *weight));
                let parts = parts.iter().map(|(_, spec)| Self::new(spec, side));
                made.parts = parts.collect::<Result<_, _>>()?;
            }
            LengthSpec::Within { spec, .. } => made.parts.push(Self::new(spec, side)?),
            _ => {}
        }
        Ok(made)
    }

    /// The length of the unit with this index, from its own stream.
    pub(crate) fn draw_at(&self, streams: &Streams, index: u64) -> u64 {
        match self.spec {
            LengthSpec::Fixed(n) => n, // nothing is random: the stream need not be set up
            _ => self.draw(&mut streams.at(index), index),
        }
    }

    /// The length of the request with this index; at least 1. Only lists depend on the index.
    pub fn draw(&self, draw: &mut Draw, index: u64) -> u64 {
        let of_part = |at: usize, draw: &mut Draw| {
            let part = self.parts.get(at);
            part.map_or(1, |part| part.draw(draw, index))
        };
        match &self.spec {
            LengthSpec::Fixed(n) => *n,
            LengthSpec::Uniform { low, high } => draw.between(*low, *high),
            LengthSpec::Normal { mean, sd } => rounded(mean + sd * draw.normal()),
            LengthSpec::LogNormal { mu, sigma } => rounded(libm::exp(mu + sigma * draw.normal())),
            LengthSpec::Gamma { shape, scale } => rounded(scale * draw.gamma(*shape)),
            LengthSpec::Zipf { .. } => choose(&self.sums, draw) as u64 + 1,
            LengthSpec::List(_) => in_turn(&self.values, index),
            LengthSpec::Empirical(_) => in_turn(&self.values, draw.below(self.values.len() as u64)),
            LengthSpec::Mixture(_) => of_part(choose(&self.sums, draw), draw),
            LengthSpec::Within { low, high, .. } => {
                let mut n = of_part(0, draw);
                for _ in 0..64 {
                    if (*low..=*high).contains(&n) {
                        break;
                    }
                    n = of_part(0, draw);
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
    /// Where a file of an empirical distribution cannot be read or holds no lengths.
    pub fn new(spec: &JointSpec) -> Result<Self, WorkloadError> {
        let (mut pairs, mut sums, mut samplers) = (Vec::new(), Vec::new(), Vec::new());
        match spec {
            JointSpec::Empirical(file) => pairs = dataset::length_pairs(file)?,
            JointSpec::Mixture(parts) => {
                sums = running(parts.iter().map(|part| part.weight));
                for part in parts {
                    let input = LengthSampler::input(&part.input)?;
                    samplers.push((input, LengthSampler::output(&part.output)?));
                }
            }
        }
        Ok(Self {
            pairs,
            sums,
            parts: samplers,
        })
    }

    /// Input and output length of the request with this index.
    pub fn draw(&self, draw: &mut Draw, index: u64) -> (u64, u64) {
        if !self.pairs.is_empty() {
            let at = usize::try_from(draw.below(self.pairs.len() as u64)).unwrap_or(0);
            return self.pairs.get(at).copied().unwrap_or((1, 1));
        }
        let part = choose(&self.sums, draw);
        self.parts.get(part).map_or((1, 1), |(input, output)| {
            let input = input.draw(draw, index);
            (input, output.draw(draw, index))
        })
    }
}

/// Rounded to the nearest whole number within what a length may be.
fn rounded(x: f64) -> u64 {
    bench_schema::whole(libm::round(x).clamp(1.0, MAX_LENGTH as f64))
}

fn in_turn(items: &[u64], index: u64) -> u64 {
    let at = index.checked_rem(items.len() as u64).unwrap_or(0);
    let at = usize::try_from(at).unwrap_or(0);
    items.get(at).copied().unwrap_or(1)
}

pub(crate) fn running(weights: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut sum = 0.0;
    let add = |weight: f64| {
        sum += weight;
        sum
    };
    weights.map(add).collect()
}

/// Which of the weights behind these running sums is drawn; takes one draw. How far an even number lies within what it chose is the next draw, so that what
/// follows is spread evenly as well.
pub(crate) fn choose(sums: &[f64], draw: &mut Draw) -> usize {
    let even = draw.is_even();
    let at = draw.uniform() * sums.last().copied().unwrap_or(0.0);
    let choice = sums.partition_point(|sum| *sum <= at);
    let choice = choice.min(sums.len().saturating_sub(1));
    let bound = |at: Option<usize>| at.and_then(|at| sums.get(at)).copied().unwrap_or(0.0);
    let (low, high) = (bound(choice.checked_sub(1)), bound(Some(choice)));
    if even && high > low {
        draw.put_back((at - low) / (high - low));
    }
    choice
}

// The categories of total sequence length, and targets inside them.

named! {
    /// A category of total length (prompt plus answer, in tokens).
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum LengthCategory {
        /// Below 50.
        Tiny = "tiny",
        /// 50 to 149.
        Short = "short",
        /// 150 to 299.
        Medium = "medium",
        /// 300 to 499.
        Long = "long",
        /// 500 or more.
        VeryLong = "very-long",
    }
}

/// Lengths to ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LengthTarget {
    /// The category that their sum falls in.
    pub category: LengthCategory,
    /// Prompt length.
    pub input: u64,
    /// Answer length.
    pub output: u64,
}

impl LengthTarget {
    /// The same total with this much prompt, where there is less; the answer keeps one token.
    #[must_use]
    pub fn with_prompt_of_at_least(self, least: u64) -> Self {
        let total = self.input + self.output;
        let input = self.input.max(least.min(total.saturating_sub(1)));
        Self {
            input,
            output: total - input,
            ..self
        }
    }
}

impl LengthCategory {
    /// The category of this total.
    pub fn of(total_tokens: u64) -> Self {
        match total_tokens {
            0..50 => Self::Tiny,
            50..150 => Self::Short,
            150..300 => Self::Medium,
            300..500 => Self::Long,
            _ => Self::VeryLong,
        }
    }

    /// Totals that are drawn for it; those of `very-long` end at 1000, so that its mean is finite and known.
    pub fn totals(self) -> std::ops::RangeInclusive<u64> {
        match self {
            Self::Tiny => 16..=49,
            Self::Short => 50..=149,
            Self::Medium => 150..=299,
            Self::Long => 300..=499,
            Self::VeryLong => 500..=1000,
        }
    }

    /// A total drawn uniformly from the category, of which a share between 0.3 and 0.7, drawn too, is prompt.
    pub fn target(self, draw: &mut Draw) -> LengthTarget {
        let totals = self.totals();
        let total = draw.between(*totals.start(), *totals.end());
        let low = (total * 3 / 10).max(1);
        let high = (total * 7 / 10).max(low);
        let input = draw.between(low, high);
        LengthTarget {
            category: self,
            input,
            output: total - input,
        }
    }
}

impl fmt::Display for LengthCategory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for LengthCategory {
    type Err = WorkloadError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::named(text.trim()).ok_or_else(|| WorkloadError::Spec {
            what: "length category",
            given: text.to_owned(),
            why: "unknown category".to_owned(),
            expected: "tiny, short, medium, long or very-long",
        })
    }
}
