//! Lengths from text and back.

use std::fmt;
use std::str::FromStr;

use super::{LengthSpec, MAX_LENGTH};
use crate::WorkloadError;

const EXPECTED: &str = "256, 128..512, normal:MEAN:SD, lognormal:MU:SIGMA, gamma:SHAPE:SCALE, zipf:MAX:EXPONENT, \
    list:A,B,C, empirical:FILE or mix:WEIGHT*SPEC+WEIGHT*SPEC, each with bounds as SPEC[LOW..HIGH]";

/// Bounds a table of the Zipf distribution to 8 MiB.
pub(super) const ZIPF_MAX: u64 = 1 << 20;

impl FromStr for LengthSpec {
    type Err = WorkloadError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse(text.trim()).map_err(|why| WorkloadError::Spec {
            what: "length",
            given: text.to_owned(),
            why,
            expected: EXPECTED,
        })
    }
}

pub(crate) fn parse(text: &str) -> Result<LengthSpec, String> {
    // A mixture comes first: the bounds at its end belong to its last part.
    if let Some(parts) = text.strip_prefix("mix:") {
        return mixture(parts);
    }
    if let Some((spec, bounds)) = text.strip_suffix(']').and_then(|t| t.rsplit_once('[')) {
        let (low, high) = range(bounds)?;
        return Ok(LengthSpec::Within {
            spec: Box::new(parse(spec)?),
            low,
            high,
        });
    }
    if let Some(file) = text.strip_prefix("empirical:") {
        if file.is_empty() {
            return Err("it names no file".to_owned());
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
        return Err(format!("`{name}` takes two numbers, as {name}:A:B"));
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
                    "mu is the mean of the logarithm, and e^{mu} tokens are too many; for a median of 550 write lognormal:6.31:SIGMA"
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
                return Err(format!("zipf goes up to {ZIPF_MAX}"));
            }
            let exponent = not_negative("exponent", second)?;
            Ok(LengthSpec::Zipf { max, exponent })
        }
        other => Err(format!("there is no distribution `{other}`")),
    }
}

fn mixture(text: &str) -> Result<LengthSpec, String> {
    let part = |part: &str| {
        let (weight, spec) = weighted(part)?;
        Ok((weight, parse(spec)?))
    };
    let parts: Result<Vec<_>, String> = text.split('+').map(part).collect();
    Ok(LengthSpec::Mixture(parts?))
}

/// `WEIGHT*REST`.
pub(super) fn weighted(part: &str) -> Result<(f64, &str), String> {
    let (weight, rest) = part
        .split_once('*')
        .ok_or_else(|| format!("`{part}` has no weight, as in 3*{part}"))?;
    Ok((positive("weight", weight)?, rest.trim()))
}

fn range(text: &str) -> Result<(u64, u64), String> {
    let (low, high) = text
        .split_once("..")
        .ok_or_else(|| format!("`{text}` is no range LOW..HIGH"))?;
    let (low, high) = (whole(low)?, whole(high.trim_start_matches('='))?);
    if low > high {
        return Err(format!("the range {low}..{high} is backwards"));
    }
    Ok((low, high))
}

fn whole(text: &str) -> Result<u64, String> {
    let text = text.trim();
    match text.parse::<u64>() {
        Ok(0) => Err("a length is at least 1".to_owned()),
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
