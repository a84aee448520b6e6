//! The Prometheus text format, and OpenMetrics as far as it differs.
//!
//! A parser of its own because the crates at hand stumble over what servers really send: colons in names (vLLM, SGLang, llama.cpp),
//! `}` inside a label's value (model paths), exemplars after a value, and a page that ends in the middle.
//! A line that cannot be read costs that line and is counted; only a page without any sample is an error.

mod line;

use std::collections::BTreeMap;

use crate::error::HardwareError;

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

/// What a family of metrics is said to be by its `# TYPE` line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// Only ever grows, but for a restart.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Cumulative buckets, a sum and a count.
    Histogram,
    /// Quantiles that were made in the server, a sum and a count.
    Summary,
    /// Anything else (`untyped`, `unknown`, `info`, `stateset`).
    Other,
}

/// A page, read.
///
/// ```
/// let page = bench_hardware::Page::parse(b"vllm:num_requests_running{engine=\"0\"} 3\n")?;
/// assert_eq!(page.named("vllm:num_requests_running").next().map(|sample| sample.value), Some(3.0));
/// assert_eq!(bench_hardware::server_kind(&page), Some("vllm"));
/// # Ok::<(), bench_hardware::HardwareError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Page {
    /// Samples in the order of the page.
    pub samples: Vec<Sample>,
    /// Kinds by family.
    pub kinds: BTreeMap<String, Kind>,
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
        if let Some(comment) = text.strip_prefix('#') {
            if let Some((family, kind)) = line::type_of(comment) {
                self.kinds.insert(family.to_owned(), kind);
            }
            return Ok(());
        }
        self.samples.push(line::sample(text)?);
        Ok(())
    }

    /// Samples of one name.
    pub fn named<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Sample> {
        self.samples
            .iter()
            .filter(move |sample| sample.name == name)
    }
}

#[cfg(test)]
mod tests;
