//! Input and output lengths that belong together.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use super::{LengthSpec, parse};
use crate::WorkloadError;

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
