//! The Prometheus text format, and OpenMetrics as far as it differs.
//!
//! A parser of its own because the crates at hand stumble over what servers really send: colons in names (vLLM, SGLang, llama.cpp),
//! `}` inside a label's value (model paths), exemplars after a value, and a page that ends in the middle.
//! A line that cannot be read costs that line and is counted; only a page without any sample is an error.

use std::collections::BTreeMap;

use crate::HardwareError;

/// One sample of a page.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// Name as written, with `_total`, `_bucket`, `_sum` and `_count`.
    pub name: String,
    /// Labels by name, unescaped.
    pub labels: BTreeMap<String, String>,
    /// The value; may be NaN or infinite.
    pub value: f64,
}

impl Sample {
    /// The value of a label.
    pub fn label(&self, name: &str) -> Option<&str> {
        self.labels.get(name).map(String::as_str)
    }
}

/// A page, read.
///
/// ```
/// let page = bench_hardware::Page::parse(b"vllm:num_requests_running{engine=\"0\"} 3\n")?;
/// assert_eq!(page.samples[0].value, 3.0);
/// # Ok::<(), bench_hardware::HardwareError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Page {
    /// Samples in the order of the page.
    pub samples: Vec<Sample>,
    /// Lines that could not be read.
    pub malformed: u64,
    /// Number (from 1) of the first of them, and what is wrong with it.
    pub first_malformed: Option<(usize, String)>,
    /// Whether the page has more samples than [`MAX_SAMPLES`]; the rest was left unread.
    pub cut: bool,
}

/// Samples that one page may have. vLLM with eight engines has about 3000.
pub const MAX_SAMPLES: usize = 100_000;

/// Longest line that is looked at, in bytes.
const MAX_LINE: usize = 64 << 10;

impl Page {
    /// Read a page.
    ///
    /// Bytes that are not UTF-8 spoil their line only. Nothing after `# EOF` is read. Cost: one pass; about 100 ns per sample.
    ///
    /// # Errors
    /// [`HardwareError::NotMetrics`] where there is no sample at all but something else, such as HTML. An empty page is a page.
    pub fn parse(bytes: &[u8]) -> Result<Self, HardwareError> {
        let mut page = Self::default();
        let mut seen = 0_usize;
        for (index, raw) in bytes.split(|&byte| byte == b'\n').enumerate() {
            if page.samples.len() >= MAX_SAMPLES {
                page.cut = true;
                break;
            }
            let raw = raw.strip_suffix(b"\r").unwrap_or(raw);
            if raw.trim_ascii().is_empty() {
                continue;
            }
            seen += 1;
            if raw.trim_ascii() == b"# EOF" {
                break;
            }
            if let Err(why) = page.take(raw) {
                page.malformed += 1;
                page.first_malformed.get_or_insert((index + 1, why));
            }
        }
        match (&page.first_malformed, page.samples.is_empty() && seen > 0) {
            (Some((number, why)), true) => Err(HardwareError::NotMetrics {
                why: format!("line {number}: {why}"),
            }),
            _ => Ok(page),
        }
    }

    fn take(&mut self, raw: &[u8]) -> Result<(), String> {
        if raw.len() > MAX_LINE {
            return Err(format!("longer than {MAX_LINE} bytes"));
        }
        let text = std::str::from_utf8(raw).map_err(|_| "not UTF-8".to_owned())?;
        let text = text.trim();
        if !text.starts_with('#') {
            self.samples.push(sample(text)?);
        }
        Ok(())
    }
}

// One line of a page.

/// `name{label="value",…} value timestamp # exemplar`, of which the last two may be absent and are not kept.
fn sample(text: &str) -> Result<Sample, String> {
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
        // Go's and OpenMetrics' spellings of infinities and NaN are Rust's too
        value: value
            .parse()
            .map_err(|_| format!("`{}` is not a number", shown(value)))?,
        name,
        labels,
    })
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
