//! What the environment and the file say, as the texts that a command line would have.

use std::path::Path;

use bench_schema::Benchmark;
use clap::{Arg, Command};
use serde_json::Value;
use toml::de::{DeTable, DeValue};

use super::{Entries, Entry, MEET_TOKEN, NotText, Place, Problem, Surroundings, told};
use crate::keys::{self, Shape};

/// What the environment says of the keys that this benchmark takes. Those of the others are no mistake here: one environment may serve all three.
pub(super) fn from_environment(
    benchmark: Benchmark,
    command: &Command,
    around: &dyn Surroundings,
) -> (Entries, Vec<Problem>) {
    let mut entries = Entries::new();
    let mut problems = Vec::new();
    let keys = command
        .get_arguments()
        .filter(|key| keys::takers(key.get_id().as_str()).contains(&benchmark));
    for key in keys {
        let id = key.get_id().as_str();
        let name = keys::variable(id);
        let text = told(&name, around);
        let place = Place::Variable(name);
        let text = match text {
            Ok(Some(text)) => text,
            Ok(None) => continue,
            Err(NotText) => {
                let help = Some("write it in UTF-8, or unset it");
                problems.push(Problem::new(place, "", "its value is not UTF-8", help));
                continue;
            }
        };
        let texts = match keys::shape(key) {
            Shape::List => split(&text),
            // their values may hold commas
            Shape::Repeat => parts(&text, '\n'),
            Shape::One | Shape::Switch => vec![text.trim().to_owned()],
        };
        entries.insert(id.to_owned(), Entry { texts, place });
    }
    let mistaken = around.names().into_iter();
    problems.extend(mistaken.filter_map(|name| mistaken_for_a_key(name, command)));
    (entries, problems)
}

/// Variables of this project that are no key's.
const OTHER_VARIABLES: &[&str] = &["BENCH_CONFIG", "BENCH_SHARDS", MEET_TOKEN];

/// A variable whose name is nearly that of a key: nobody would see that it says nothing. Others may be anybody's.
fn mistaken_for_a_key(name: String, command: &Command) -> Option<Problem> {
    let key = name.strip_prefix("BENCH_")?.to_ascii_lowercase();
    let keys = || command.get_arguments().map(|key| key.get_id().as_str());
    if OTHER_VARIABLES.contains(&name.as_str()) || keys().any(|known| known == key) {
        return None;
    }
    let turned_off = key.strip_prefix("no_");
    let turned_off = turned_off.filter(|rest| keys().any(|known| known == *rest));
    let help = match turned_off {
        Some(switch) => format!("write `{}=false`", keys::variable(switch)),
        None => format!("did you mean `{}`?", keys::variable(slip_of(&key, keys())?)),
    };
    let place = Place::Variable(name);
    Some(Problem::new(
        place,
        "",
        "no key has this variable",
        Some(&help),
    ))
}

/// The key that this is but for a letter or two; a short name may be anything.
fn slip_of<'a>(name: &str, keys: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let slips = match name.len() {
        ..6 => 0,
        6..8 => 1,
        8.. => 2,
    };
    keys::nearest(name, keys).filter(|key| strsim::levenshtein(name, key) <= slips)
}

/// Read the keys of a TOML text; `file` only names it in messages.
pub(super) fn from_toml(
    text: &str,
    file: &Path,
    benchmark: Benchmark,
    command: &Command,
) -> (Entries, Vec<Problem>) {
    let line_of = |offset: usize| {
        let before = text.as_bytes().iter().take(offset);
        1 + before.filter(|&&b| b == b'\n').count()
    };
    let at = |offset: usize| Place::Line(file.to_owned(), line_of(offset));
    let table = match DeTable::parse(text) {
        Ok(table) => table,
        Err(error) => {
            let place = at(error.span().map_or(0, |span| span.start));
            let wrong = format!("not valid TOML: {}", error.message());
            let problem = Problem::new(place, "", wrong, None);
            return (Entries::new(), vec![problem]);
        }
    };
    let mut entries = Entries::new();
    let mut problems = Vec::new();
    for (name, value) in table.get_ref() {
        let place = at(name.span().start);
        let key = known(name.get_ref(), benchmark, command);
        match key.and_then(|key| Ok((key, texts(key, value.get_ref())?))) {
            Ok((key, texts)) => {
                entries.insert(key.get_id().to_string(), Entry { texts, place });
            }
            Err((message, help)) => {
                let key = name.get_ref();
                problems.push(Problem::new(place, key, message, help.as_deref()));
            }
        }
    }
    (entries, problems)
}

type Complaint = (String, Option<String>);

pub(super) fn known<'a>(
    name: &str,
    benchmark: Benchmark,
    command: &'a Command,
) -> Result<&'a Arg, Complaint> {
    let Some(key) = command.get_arguments().find(|key| key.get_id() == name) else {
        let names = command.get_arguments().map(|key| key.get_id().as_str());
        let help = keys::nearest(name, names).map(|near| format!("did you mean `{near}`?"));
        let all = || "examples/configs/full.toml lists every key".to_owned();
        return Err(("unknown key".to_owned(), help.or_else(|| Some(all()))));
    };
    let takers = keys::takers(name);
    if !takers.contains(&benchmark) {
        let takers: Vec<_> = takers
            .iter()
            .map(|b| format!("bench-{}", b.as_str()))
            .collect();
        let message = format!("bench-{} does not have this key", benchmark.as_str());
        let help = format!("it is a key of {}; remove the line", takers.join(" and "));
        return Err((message, Some(help)));
    }
    Ok(key)
}

/// The texts of a TOML value, as the command line would give them.
fn texts(key: &Arg, value: &DeValue<'_>) -> Result<Vec<String>, Complaint> {
    let shape = keys::shape(key);
    let many = matches!(shape, Shape::List | Shape::Repeat);
    let name = key.get_id().as_str();
    match value {
        DeValue::Array(items) if many || shape == Shape::One => {
            let texts = items.iter().map(|item| scalar(item.get_ref()));
            let texts: Option<Vec<_>> = texts.collect();
            let texts = texts.ok_or_else(|| ("must be a list of plain values".to_owned(), None))?;
            // a single key that takes a list as text (`output_tokens = [10, 20]`) is joined as on the command line
            Ok(if many { texts } else { vec![texts.join(",")] })
        }
        DeValue::Table(table) if shape == Shape::Repeat => {
            let separator = if name == "header" { ": " } else { "=" };
            let pairs = table.iter().map(|(k, v)| {
                let value = match v.get_ref() {
                    list @ DeValue::Array(_) if matches!(name, "vary" | "factor") => {
                        json(list).to_string()
                    }
                    other => scalar(other)?,
                };
                Some(format!("{}{separator}{value}", k.get_ref()))
            });
            let pairs: Option<_> = pairs.collect();
            pairs.ok_or_else(|| ("must be a table of plain values".to_owned(), None))
        }
        DeValue::Table(table) if name == "extra_body" => {
            Ok(vec![json(&DeValue::Table(table.clone())).to_string()])
        }
        DeValue::Array(_) | DeValue::Table(_) => {
            Err((format!("must be one value ({})", keys::metavar(key)), None))
        }
        plain => {
            let text = scalar(plain).ok_or_else(|| ("must be a plain value".to_owned(), None))?;
            if shape == Shape::Switch && !matches!(text.as_str(), "true" | "false") {
                return Err((format!("must be true or false (got {text})"), None));
            }
            Ok(match shape {
                Shape::List => split(&text),
                _ => vec![text],
            })
        }
    }
}

fn scalar(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(number) => Some(number.as_str().replace('_', "")),
        DeValue::Float(number) => Some(number.as_str().replace('_', "")),
        DeValue::Boolean(flag) => Some(flag.to_string()),
        DeValue::Datetime(instant) => Some(instant.to_string()),
        DeValue::Array(_) | DeValue::Table(_) => None,
    }
}

fn json(value: &DeValue<'_>) -> Value {
    let number = |text: &str| serde_json::from_str(&text.replace('_', "")).unwrap_or_default();
    match value {
        DeValue::Integer(text) => number(text.as_str()),
        DeValue::Float(text) => number(text.as_str()),
        DeValue::Boolean(flag) => (*flag).into(),
        DeValue::Array(items) => items.iter().map(|item| json(item.get_ref())).collect(),
        DeValue::Table(table) => table
            .iter()
            .map(|(k, v)| (k.get_ref().to_string(), json(v.get_ref())))
            .collect(),
        other => scalar(other).map_or(Value::Null, Into::into),
    }
}

/// A comma-separated text as its parts; one that has none is itself one, so that `--rate "$RATE"` without such a variable is refused and not passed over.
pub(super) fn split(text: &str) -> Vec<String> {
    let parts = parts(text, ',');
    if parts.is_empty() {
        vec![String::new()]
    } else {
        parts
    }
}

/// The parts of a text, blanks trimmed.
pub(super) fn parts(text: &str, separator: char) -> Vec<String> {
    let parts = text.split(separator).map(str::trim);
    let parts = parts.filter(|part| !part.is_empty());
    parts.map(str::to_owned).collect()
}
