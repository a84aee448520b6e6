//! How long prompts and answers are.

mod parse;
mod sampler;

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use crate::WorkloadError;

pub(crate) use parse::parse as read;
pub use sampler::{JointSampler, LengthSampler};
pub(crate) use sampler::{choose, running};

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
pub enum LengthSpec {
    /// Always this.
    Fixed(u64),
    /// Uniform, both ends included.
    Uniform {
        /// Least.
        low: u64,
        /// Most.
        high: u64,
    },
    /// Normal.
    Normal {
        /// Mean.
        mean: f64,
        /// Standard deviation.
        sd: f64,
    },
    /// The exponential of a normal.
    LogNormal {
        /// Mean of the logarithm.
        mu: f64,
        /// Standard deviation of the logarithm.
        sigma: f64,
    },
    /// Gamma; its mean is `shape · scale`, its sd / mean is `1 / √shape`.
    Gamma {
        /// Shape.
        shape: f64,
        /// Scale.
        scale: f64,
    },
    /// 1 to `max`, `k` with a probability in proportion to `k^−exponent`.
    Zipf {
        /// Most.
        max: u64,
        /// Exponent.
        exponent: f64,
    },
    /// These in turn, by the index of the request.
    List(Vec<u64>),
    /// Drawn from the values in a file: whole numbers separated by blanks, or a trace, whose input or output lengths are taken.
    Empirical(PathBuf),
    /// One of these, in proportion to the weights.
    Mixture(Vec<(f64, LengthSpec)>),
    /// Drawn again while outside these bounds; after 64 draws the nearest bound.
    Within {
        /// What is drawn.
        spec: Box<LengthSpec>,
        /// Least.
        low: u64,
        /// Most.
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
            Some("") => Err("it names no file".to_owned()),
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
    let (weight, pair) = parse::weighted(text)?;
    let (input, output) = pair
        .split_once('/')
        .ok_or_else(|| format!("`{pair}` is no pair INPUT/OUTPUT"))?;
    Ok(JointPart {
        weight,
        input: parse::parse(input.trim())?,
        output: parse::parse(output.trim())?,
    })
}

impl fmt::Display for JointSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empirical(file) => write!(f, "joint:empirical:{}", file.display()),
            Self::Mixture(parts) => {
                let show = |p: &JointPart| format!("{}*{}/{}", p.weight, p.input, p.output);
                let parts: Vec<String> = parts.iter().map(show).collect();
                write!(f, "joint:{}", parts.join("+"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_joint_mixture_reads_back_as_itself() {
        let text = "joint:3*256/128..256+1*normal:1024:100/64";
        let spec: JointSpec = text.parse().unwrap();
        assert_eq!(spec.to_string(), text);
        assert!(matches!(&spec, JointSpec::Mixture(parts) if parts.len() == 2));
        let message = "joint:3*256".parse::<JointSpec>().unwrap_err().to_string();
        assert!(message.contains("no pair INPUT/OUTPUT"), "{message}");
    }
}
