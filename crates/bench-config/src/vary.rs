//! Settings of a server that is started for a measurement: its command's placeholders, the values that they take, and every combination of them.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde_json::Value;

use crate::values::tag;

/// The placeholder that a free port is put in for.
pub(crate) const PORT: &str = "port";
/// More settings than anybody measures.
pub(crate) const MOST_SETTINGS: usize = 10_000;

/// A parameter of the server with the values that it takes: `max_num_seqs=64,128`, or `gpus=["0","0,1"]` where values hold commas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vary {
    /// The placeholder.
    pub name: String,
    /// One at least, each once.
    pub values: Vec<String>,
}

impl FromStr for Vary {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, list) = tag(text)?;
        if !is_name(&name) {
            return Err(format!(
                "must be a name of letters, digits and _ (got `{name}`)"
            ));
        }
        let values = match serde_json::from_str::<Vec<Value>>(&list) {
            Ok(values) => values.iter().map(plain).collect::<Result<_, _>>()?,
            Err(_) => list
                .split(',')
                .map(|value| value.trim().to_owned())
                .collect(),
        };
        let values: Vec<String> = values;
        let again = values.iter().enumerate();
        let mut again = again.filter(|(i, value)| values.iter().take(*i).any(|one| one == *value));
        match again.next() {
            _ if values.is_empty() || list.is_empty() => {
                Err(format!("has no value (got `{text}`)"))
            }
            Some((_, value)) => Err(format!("has the value `{value}` twice")),
            None => Ok(Self { name, values }),
        }
    }
}

impl fmt::Display for Vary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.values.iter().any(|value| value.contains(',')) {
            return write!(f, "{}={}", self.name, Value::from(self.values.clone()));
        }
        write!(f, "{}={}", self.name, self.values.join(","))
    }
}

fn plain(value: &Value) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Number(_) | Value::Bool(_) => Ok(value.to_string()),
        _ => Err("must be a list of plain values".to_owned()),
    }
}

/// A constraint: `tp=2:max_num_seqs=64,128` keeps settings with `tp` of 2 only where `max_num_seqs` is one of those.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Only {
    /// The parameter and the value that it is about.
    pub of: (String, String),
    /// What goes with it.
    pub with: Vary,
}

impl FromStr for Only {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (of, with) = text.split_once(':').ok_or_else(|| {
            format!("must be written NAME=VALUE:NAME=VALUES, such as tp=2:max_num_seqs=64,128 (got `{text}`)")
        })?;
        let (of, with) = (tag(of)?, with.parse()?);
        Ok(Self { of, with })
    }
}

impl fmt::Display for Only {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}:{}", self.of.0, self.of.1, self.with)
    }
}

/// The values of one setting, by their names.
pub type Values = BTreeMap<String, String>;

/// Every combination of the values that no constraint excludes; the first parameter changes slowest. One without values where nothing is varied.
pub(crate) fn settings_of(varied: &[Vary], only: &[Only]) -> Vec<Values> {
    let mut all = vec![Values::new()];
    for vary in varied {
        let with = |values: &Values| {
            let values = values.clone();
            vary.values.iter().map(move |value| {
                let mut one = values.clone();
                one.insert(vary.name.clone(), value.clone());
                one
            })
        };
        all = all.iter().flat_map(with).take(MOST_SETTINGS + 1).collect();
    }
    let fits = |values: &Values, rule: &Only| {
        values.get(&rule.of.0) != Some(&rule.of.1)
            || (values.get(&rule.with.name)).is_some_and(|value| rule.with.values.contains(value))
    };
    all.retain(|values| only.iter().all(|rule| fits(values, rule)));
    all
}

/// The command with these values in place of their names.
pub(crate) fn filled(command: &str, values: &Values) -> String {
    let mut text = command.to_owned();
    for (name, value) in values {
        text = text.replace(&format!("{{{name}}}"), value);
    }
    text
}

/// A command line that a shell would take for one.
pub(crate) fn command(text: &str) -> Result<String, String> {
    match shlex::split(text).as_deref() {
        None => Err("has a quote that is not closed".to_owned()),
        Some([]) => Err("is empty".to_owned()),
        Some(_) => Ok(text.to_owned()),
    }
}

fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// The names in braces of a command: `port` of `--port {port}`. Other braces, such as those of JSON, are text.
pub(crate) fn placeholders(command: &str) -> Vec<&str> {
    let opened = command.split('{').skip(1);
    let named = opened.filter_map(|rest| Some(rest.split_once('}')?.0));
    named.filter(|name| is_name(name)).collect()
}

#[cfg(test)]
#[path = "../tests/unit/vary.rs"]
mod tests;
