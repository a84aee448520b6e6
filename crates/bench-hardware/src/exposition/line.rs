//! One line of a page.

use std::collections::BTreeMap;

use super::{Kind, Sample};

/// Family and kind of a `# TYPE family kind` line, given without its `#`.
pub(super) fn type_of(comment: &str) -> Option<(&str, Kind)> {
    let mut words = comment.split_whitespace();
    if words.next() != Some("TYPE") {
        return None;
    }
    let family = words.next()?.trim_matches('"');
    let kind = match words.next()? {
        "counter" => Kind::Counter,
        "gauge" => Kind::Gauge,
        "histogram" => Kind::Histogram,
        "summary" => Kind::Summary,
        _ => Kind::Other,
    };
    Some((family, kind))
}

/// `name{label="value",…} value timestamp # exemplar`, of which the last two may be absent and are not kept.
pub(super) fn sample(text: &str) -> Result<Sample, String> {
    let mut rest = Rest(text);
    let mut name = rest.name();
    let mut labels = BTreeMap::new();
    rest.space();
    if rest.eat('{') {
        // Prometheus 3 writes names that need quotes as the first thing inside the braces.
        match (name.is_empty(), rest.labels(&mut labels)?) {
            (true, Some(quoted)) => name = quoted,
            (false, None) => {}
            _ => return Err("not exactly one name before or within the braces".to_owned()),
        }
    }
    if name.is_empty() {
        return Err("does not begin with a metric's name".to_owned());
    }
    let value = rest
        .0
        .split_whitespace()
        .next()
        .ok_or("no value after the name")?;
    Ok(Sample {
        value: number(value).ok_or_else(|| format!("`{}` is not a number", shown(value)))?,
        name,
        labels,
    })
}

/// A value: Go's and OpenMetrics' spellings of infinities and NaN included. Rust's own `infinity` and `+nan` are the same numbers.
pub(super) fn number(text: &str) -> Option<f64> {
    text.parse().ok()
}

/// Enough of a bad word to find it, and not a megabyte.
fn shown(word: &str) -> String {
    word.chars().take(40).collect()
}

/// What is left of a line.
struct Rest<'a>(&'a str);

impl Rest<'_> {
    fn space(&mut self) {
        self.0 = self.0.trim_start();
    }

    fn eat(&mut self, wanted: char) -> bool {
        let rest = self.0.strip_prefix(wanted);
        self.0 = rest.unwrap_or(self.0);
        rest.is_some()
    }

    /// A bare name; empty where there is none. Dots are no part of the format, but are met in the wild.
    fn name(&mut self) -> String {
        let end = self
            .0
            .find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | ':' | '.')))
            .unwrap_or(self.0.len());
        let (name, rest) = self.0.split_at(end);
        if name.starts_with(|c: char| c.is_ascii_digit()) {
            return String::new();
        }
        self.0 = rest;
        name.to_owned()
    }

    /// Everything up to the closing brace; the quoted name, if there is one.
    fn labels(&mut self, into: &mut BTreeMap<String, String>) -> Result<Option<String>, String> {
        let mut quoted_name = None;
        loop {
            self.space();
            if self.eat('}') {
                return Ok(quoted_name);
            }
            let is_quoted = self.0.starts_with('"');
            let key = if is_quoted {
                self.quoted()?
            } else {
                self.name()
            };
            self.space();
            if self.eat('=') {
                self.space();
                let value = self.quoted()?;
                into.insert(key, value);
            } else if is_quoted && quoted_name.is_none() && into.is_empty() {
                quoted_name = Some(key);
            } else {
                return Err("a label without a value".to_owned());
            }
            self.space();
            if !self.eat(',') && !self.0.starts_with('}') {
                return Err("labels that are not separated by commas".to_owned());
            }
        }
    }

    /// A value in quotes, with `\\`, `\"` and `\n` undone; another escape is kept as it stands.
    fn quoted(&mut self) -> Result<String, String> {
        if !self.eat('"') {
            return Err("a label's value without quotes".to_owned());
        }
        let mut value = String::new();
        let mut chars = self.0.char_indices();
        while let Some((at, c)) = chars.next() {
            match c {
                '"' => {
                    self.0 = self.0.get(at + 1..).unwrap_or_default();
                    return Ok(value);
                }
                '\\' => match chars.next() {
                    Some((_, 'n')) => value.push('\n'),
                    Some((_, escaped @ ('\\' | '"'))) => value.push(escaped),
                    Some((_, other)) => value.extend(['\\', other]),
                    None => break,
                },
                other => value.push(other),
            }
        }
        Err("a label's value that does not end".to_owned())
    }
}
