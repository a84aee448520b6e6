//! What was given, by whom, before anyone asks what it means.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use bench_schema::Benchmark;
use toml::de::{DeTable, DeValue};

use super::keys::{self, Key, Shape};

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A flag of the command line.
    Flag(String),
    /// A line of the configuration file.
    Line(PathBuf, usize),
    /// The default.
    Default,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(flag) => write!(f, "--{flag}"),
            Self::Line(file, line) => write!(f, "{}:{line}", file.display()),
            Self::Default => f.write_str("default"),
        }
    }
}

/// One key as given: its texts, and where they stand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// One text for a single value, several for a list.
    pub texts: Vec<String>,
    /// Where they come from.
    pub place: Place,
}

/// Something wrong with the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where.
    pub place: Place,
    /// The key; empty where the file as a whole is meant.
    pub key: String,
    /// What is wrong, with the bound and what was given.
    pub message: String,
    /// What to write instead.
    pub help: Option<String>,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.place)?;
        if !self.key.is_empty() {
            write!(f, ": key `{}`", self.key)?;
        }
        write!(f, ": {}", self.message)?;
        if let Some(help) = &self.help {
            write!(f, "\n  help: {help}")?;
        }
        Ok(())
    }
}

/// Every key that was given.
pub type Entries = BTreeMap<&'static str, Entry>;

/// Read the keys of a TOML text; `file` only names it in messages.
pub fn from_toml(text: &str, file: &Path, benchmark: Benchmark) -> (Entries, Vec<Problem>) {
    let line_of = |offset: usize| {
        1 + text
            .as_bytes()
            .iter()
            .take(offset)
            .filter(|&&b| b == b'\n')
            .count()
    };
    let at = |offset: usize| Place::Line(file.to_owned(), line_of(offset));
    let table = match DeTable::parse(text) {
        Ok(table) => table,
        Err(error) => {
            let place = at(error.span().map_or(0, |span| span.start));
            let message = format!("not valid TOML: {}", error.message());
            return (
                Entries::new(),
                vec![Problem {
                    place,
                    key: String::new(),
                    message,
                    help: None,
                }],
            );
        }
    };
    let mut entries = Entries::new();
    let mut problems = Vec::new();
    for (name, value) in table.get_ref() {
        let place = at(name.span().start);
        match known(name.get_ref(), benchmark)
            .and_then(|key| Ok((key, texts(key, value.get_ref())?)))
        {
            Ok((key, texts)) => {
                entries.insert(key.name, Entry { texts, place });
            }
            Err((message, help)) => {
                problems.push(Problem {
                    place,
                    key: name.get_ref().to_string(),
                    message,
                    help,
                });
            }
        }
    }
    (entries, problems)
}

type Complaint = (String, Option<String>);

fn known(name: &str, benchmark: Benchmark) -> Result<&'static Key, Complaint> {
    let Some(key) = keys::find(name) else {
        let help = keys::nearest(name).map(|near| format!("did you mean `{near}`?"));
        let all = || "examples/configs/full.toml lists every key".to_owned();
        return Err(("unknown key".to_owned(), help.or_else(|| Some(all()))));
    };
    if !key.benchmarks.contains(&benchmark) {
        let takers: Vec<_> = key
            .benchmarks
            .iter()
            .map(|b| format!("bench-{}", b.name()))
            .collect();
        let message = format!("bench-{} has no such key", benchmark.name());
        return Err((
            message,
            Some(format!(
                "it belongs to {}; take the line out",
                takers.join(" and ")
            )),
        ));
    }
    Ok(key)
}

/// The texts of a TOML value, as the command line would give them.
fn texts(key: &Key, value: &DeValue<'_>) -> Result<Vec<String>, Complaint> {
    let many = matches!(key.shape, Shape::List | Shape::Repeat);
    match value {
        DeValue::Array(items) if many || key.shape == Shape::One => {
            let texts = items
                .iter()
                .map(|item| scalar(item.get_ref()))
                .collect::<Option<Vec<_>>>();
            let texts = texts.ok_or_else(|| ("must be a list of plain values".to_owned(), None))?;
            // a single key that takes a list as text (`output_tokens = [10, 20]`) is joined as on the command line
            Ok(if many { texts } else { vec![texts.join(",")] })
        }
        DeValue::Table(table) if key.shape == Shape::Repeat => {
            let separator = if key.name == "header" { ": " } else { "=" };
            let pairs = table.iter().map(|(k, v)| {
                Some(format!(
                    "{}{separator}{}",
                    k.get_ref(),
                    scalar(v.get_ref())?
                ))
            });
            pairs
                .collect::<Option<_>>()
                .ok_or_else(|| ("must be a table of plain values".to_owned(), None))
        }
        DeValue::Table(table) if key.name == "extra_body" => {
            serde_json::to_string(&json(&DeValue::Table(table.clone())))
                .map(|text| vec![text])
                .map_err(|e| (e.to_string(), None))
        }
        DeValue::Array(_) | DeValue::Table(_) => {
            Err((format!("must be one value ({})", key.metavar), None))
        }
        plain => {
            let text = scalar(plain).ok_or_else(|| ("must be a plain value".to_owned(), None))?;
            if key.shape == Shape::Switch && !matches!(text.as_str(), "true" | "false") {
                return Err((format!("must be true or false (got {text})"), None));
            }
            Ok(if key.shape == Shape::List {
                split(&text)
            } else {
                vec![text]
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

fn json(value: &DeValue<'_>) -> serde_json::Value {
    match value {
        DeValue::Integer(number) => number
            .as_str()
            .replace('_', "")
            .parse::<i64>()
            .map_or(serde_json::Value::Null, Into::into),
        DeValue::Float(number) => number
            .as_str()
            .replace('_', "")
            .parse::<f64>()
            .map_or(serde_json::Value::Null, Into::into),
        DeValue::Boolean(flag) => (*flag).into(),
        DeValue::Array(items) => items.iter().map(|item| json(item.get_ref())).collect(),
        DeValue::Table(table) => table
            .iter()
            .map(|(k, v)| (k.get_ref().to_string(), json(v.get_ref())))
            .collect(),
        other => scalar(other).map_or(serde_json::Value::Null, Into::into),
    }
}

/// A comma-separated text as its parts, blanks trimmed.
pub(super) fn split(text: &str) -> Vec<String> {
    text.split(',')
        .map(str::trim)
        .filter(|part| !part.is_empty())
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (Entries, Vec<Problem>) {
        from_toml(text, Path::new("x.toml"), Benchmark::Throughput)
    }

    #[test]
    fn lists_tables_and_plain_values_read_as_the_command_line_gives_them() {
        let (entries, problems) = read(
            "concurrency = [1, 2]\nslo = \"ttft=1s, itl=5ms\"\nextra_body = { a = 1 }\n[tag]\ngpus = 2\n",
        );
        assert_eq!(problems, []);
        assert_eq!(entries["concurrency"].texts, ["1", "2"]);
        assert_eq!(entries["slo"].texts, ["ttft=1s", "itl=5ms"]);
        assert_eq!(entries["extra_body"].texts, [r#"{"a":1}"#]);
        assert_eq!(entries["tag"].texts, ["gpus=2"]);
        assert_eq!(entries["tag"].place, Place::Line("x.toml".into(), 4));
    }

    #[test]
    fn every_unknown_key_is_named_with_its_line_and_its_neighbour() {
        let (_, problems) = read("seed = 1\nconcurency = 4\n\nprompts = [\"short\"]\n");
        let shown: Vec<_> = problems.iter().map(ToString::to_string).collect();
        assert_eq!(
            shown,
            [
                "x.toml:2: key `concurency`: unknown key\n  help: did you mean `concurrency`?",
                "x.toml:4: key `prompts`: bench-throughput has no such key\n  help: it belongs to bench-latency; take the line out",
            ]
        );
    }

    #[test]
    fn broken_toml_is_one_problem_with_its_line() {
        let (_, problems) = read("seed = 1\nrate = [1,\n");
        assert_eq!(problems.len(), 1);
        assert!(
            problems[0].to_string().starts_with("x.toml:"),
            "{}",
            problems[0]
        );
    }
}
