//! Datasets from text and back.

use std::fmt;
use std::str::FromStr;

use super::{DatasetSpec, FileFormat, Study};
use crate::{LengthCategory, LengthSpec, WorkloadError};

const EXPECTED: &str = "mixed, random, random-ids[:VOCABULARY], text, joint:WEIGHT*INPUT/OUTPUT+…, study:short|medium|long|gpt2, spread[:CATEGORIES], \
    prefix:GROUPS:PREFIX:OWN[:zipf=S], multiturn:TURNS:FIRST:NEXT[:think=SECONDS], or a file as sharegpt:FILE, \
    sharegpt-turns:FILE, c4:FILE, burstgpt:FILE, azure:FILE, mooncake:FILE, trace:FILE, jsonl:FILE, csv:FILE, txt:FILE, \
    openai-batch:FILE";

impl FromStr for DatasetSpec {
    type Err = WorkloadError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse(text.trim()).map_err(|why| WorkloadError::Spec {
            what: "dataset",
            given: text.to_owned(),
            why,
            expected: EXPECTED,
        })
    }
}

fn parse(text: &str) -> Result<DatasetSpec, String> {
    let (name, rest) = text
        .split_once(':')
        .map_or((text, None), |(n, r)| (n, Some(r)));
    if let Some(format) = FileFormat::ALL.into_iter().find(|f| f.name() == name) {
        let file = rest.filter(|file| !file.is_empty());
        let path = file
            .ok_or_else(|| format!("it names no file, as in {name}:FILE"))?
            .into();
        return Ok(DatasetSpec::File { format, path });
    }
    match (name, rest) {
        ("mixed", None) => Ok(DatasetSpec::Mixed),
        ("random", None) => Ok(DatasetSpec::Random),
        ("text", None) => Ok(DatasetSpec::Text),
        ("random-ids", None) => Ok(DatasetSpec::RandomIds { vocabulary: None }),
        ("random-ids", Some(n)) => match n.parse() {
            Ok(n @ 1..) => Ok(DatasetSpec::RandomIds {
                vocabulary: Some(n),
            }),
            _ => Err(format!("`{n}` is no size of a vocabulary")),
        },
        ("study", Some(which)) => {
            let study = Study::ALL.into_iter().find(|s| s.name() == which);
            let study = study.ok_or_else(|| format!("there is no study `{which}`"))?;
            Ok(DatasetSpec::Study(study))
        }
        ("spread", None) => Ok(DatasetSpec::Spread(LengthCategory::ALL.to_vec())),
        ("spread", Some(names)) => {
            let categories: Result<_, _> = names.split(',').map(str::parse).collect();
            let categories = categories.map_err(|e: WorkloadError| e.to_string())?;
            Ok(DatasetSpec::Spread(categories))
        }
        ("joint", Some(_)) => match text.parse() {
            Ok(joint) => Ok(DatasetSpec::Joint(joint)),
            Err(WorkloadError::Spec { why, .. }) => Err(why),
            Err(other) => Err(other.to_string()),
        },
        ("prefix", Some(rest)) => prefix(rest),
        ("multiturn", Some(rest)) => multiturn(rest),
        ("mixed" | "random" | "text", Some(rest)) => Err(format!(
            "`{name}` takes nothing after it, but `:{rest}` follows"
        )),
        _ if name.contains(['/', '.']) => {
            Err("a file needs its format before it, as in jsonl:FILE".to_owned())
        }
        _ => Err(format!("there is no dataset `{name}`")),
    }
}

fn prefix(text: &str) -> Result<DatasetSpec, String> {
    let (text, skew) = option(text, "zipf")?;
    let [groups, prefix, own] = lengths(text, "prefix:GROUPS:PREFIX:OWN")?;
    let (LengthSpec::Fixed(groups), LengthSpec::Fixed(prefix)) = (groups, prefix) else {
        return Err("groups and prefix are whole numbers".to_owned());
    };
    if groups > 1 << 20 {
        return Err(format!("{groups} groups are too many; at most {}", 1 << 20));
    }
    Ok(DatasetSpec::Prefix {
        groups,
        prefix,
        own,
        skew,
    })
}

fn multiturn(text: &str) -> Result<DatasetSpec, String> {
    let (text, think_s) = option(text, "think")?;
    let [turns, first, next] = lengths(text, "multiturn:TURNS:FIRST:NEXT")?;
    Ok(DatasetSpec::MultiTurn {
        turns,
        first,
        next,
        think_s,
    })
}

/// Cuts `:name=NUMBER` from the end; 0 where it is not there.
fn option<'t>(text: &'t str, name: &str) -> Result<(&'t str, f64), String> {
    let Some((rest, value)) = text.rsplit_once(&format!(":{name}=")) else {
        return Ok((text, 0.0));
    };
    match value.parse::<f64>() {
        Ok(n) if n.is_finite() && n >= 0.0 => Ok((rest, n)),
        _ => Err(format!("`{name}={value}` is not a number from 0 up")),
    }
}

/// Three lengths. A length may hold colons itself (`normal:80:20`), so a colon ends one only where what stands before it reads as a length.
fn lengths(text: &str, shape: &str) -> Result<[LengthSpec; 3], String> {
    let mut found = Vec::new();
    let mut part = String::new();
    for piece in text.split(':') {
        if !part.is_empty() {
            part.push(':');
        }
        part.push_str(piece);
        let whole = crate::length::read(&part);
        if let Ok(spec) = whole {
            found.push(spec);
            part.clear();
        }
    }
    let count = found.len();
    match <[LengthSpec; 3]>::try_from(found) {
        Ok(three) if part.is_empty() => Ok(three),
        _ => Err(format!("it has {count} of the three lengths in {shape}")),
    }
}

impl fmt::Display for DatasetSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mixed => f.write_str("mixed"),
            Self::Random => f.write_str("random"),
            Self::RandomIds { vocabulary: None } => f.write_str("random-ids"),
            Self::RandomIds {
                vocabulary: Some(n),
            } => write!(f, "random-ids:{n}"),
            Self::Text => f.write_str("text"),
            Self::Joint(joint) => joint.fmt(f),
            Self::Study(study) => write!(f, "study:{}", study.name()),
            Self::Spread(categories) if *categories == LengthCategory::ALL => f.write_str("spread"),
            Self::Spread(categories) => {
                let names: Vec<&str> = categories.iter().map(|c| c.name()).collect();
                write!(f, "spread:{}", names.join(","))
            }
            Self::Prefix {
                groups,
                prefix,
                own,
                skew,
            } => {
                write!(f, "prefix:{groups}:{prefix}:{own}")?;
                shown(f, "zipf", *skew)
            }
            Self::MultiTurn {
                turns,
                first,
                next,
                think_s,
            } => {
                write!(f, "multiturn:{turns}:{first}:{next}")?;
                shown(f, "think", *think_s)
            }
            Self::File { format, path } => write!(f, "{}:{}", format.name(), path.display()),
        }
    }
}

fn shown(f: &mut fmt::Formatter<'_>, name: &str, value: f64) -> fmt::Result {
    if value > 0.0 {
        return write!(f, ":{name}={value}");
    }
    Ok(())
}
