//! The file format of the corpus, as `fixtures/sse/README.md` describes it.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test says what is wrong by failing"
)]

use std::path::Path;
use std::sync::Arc;

use bench_client::Protocol;
use bench_client::protocol::{Template, TemplateConfig, protocol_by_name};
use bench_schema::{Channel, ServerTimings, Usage};
use serde::Deserialize;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Case {
    #[serde(skip)]
    pub(crate) file: String,
    format: u32,
    pub(crate) name: String,
    pub(crate) why: String,
    pub(crate) provenance: String,
    pub(crate) protocol: String,
    template: Option<TemplateConfig>,
    pub(crate) stream: bool,
    reads: Vec<Read>,
    pub(crate) end: End,
    pub(crate) expect: Expect,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Read {
    text: Option<String>,
    base64: Option<String>,
    #[serde(default = "once")]
    times: usize,
}

fn once() -> usize {
    1
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum End {
    Eof,
    Reset,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Expect {
    pub(crate) outcome: ExpectedOutcome,
    pub(crate) events: Vec<ExpectedEvent>,
    pub(crate) usage: Option<Usage>,
    pub(crate) finish_reason: Option<String>,
    pub(crate) server: Option<ServerTimings>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExpectedOutcome {
    pub(crate) kind: String,
    pub(crate) failure: Option<String>,
    pub(crate) stage: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExpectedEvent {
    pub(crate) channel: Channel,
    pub(crate) read: usize,
    pub(crate) text: Option<String>,
    pub(crate) chars: Option<u64>,
    pub(crate) tokens: Option<u32>,
    pub(crate) exact: bool,
}

impl Case {
    /// The bytes of each read.
    pub(crate) fn reads(&self) -> Vec<Vec<u8>> {
        let bytes = |read: &Read| match (&read.text, &read.base64) {
            (Some(text), None) => text.clone().into_bytes(),
            (None, Some(coded)) => base64(coded),
            _ => panic!("{}: a read has either text or base64", self.name),
        };
        let repeated = |read: &Read| vec![bytes(read); read.times];
        self.reads.iter().flat_map(repeated).collect()
    }

    pub(crate) fn protocol(&self) -> Arc<dyn Protocol> {
        match &self.template {
            Some(template) => Arc::new(Template::new(template.clone()).unwrap()),
            None => protocol_by_name(&self.protocol).unwrap(),
        }
    }
}

/// All cases, by name.
pub(crate) fn corpus() -> Vec<Case> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/sse");
    let entries = std::fs::read_dir(&folder).expect("the corpus is in fixtures/sse");
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| {
        path.extension()
            .is_some_and(|extension| extension == "json")
    });
    paths.sort();
    assert!(
        paths.len() > 36,
        "the corpus has only {} cases",
        paths.len()
    );
    paths.iter().map(|path| load(path)).collect()
}

fn load(path: &Path) -> Case {
    let text = std::fs::read_to_string(path).unwrap();
    let mut case: Case =
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    assert_eq!(case.format, 1, "{}", path.display());
    case.file = path.file_name().unwrap().to_string_lossy().into_owned();
    case
}

/// Standard base64 with padding.
fn base64(text: &str) -> Vec<u8> {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut bytes = Vec::new();
    let (mut bits, mut held) = (0_u32, 0_u32);
    for digit in text.bytes().filter(|&digit| digit != b'=') {
        let value = ALPHABET
            .iter()
            .position(|&known| known == digit)
            .expect("base64");
        bits = (bits << 6) | u32::try_from(value).unwrap();
        held += 6;
        if held >= 8 {
            held -= 8;
            bytes.push(u8::try_from((bits >> held) & 0xff).unwrap());
        }
    }
    bytes
}
