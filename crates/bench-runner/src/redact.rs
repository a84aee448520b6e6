//! Taking secrets out of everything that leaves the process: files, stdout, stderr.

use std::sync::Arc;

use bench_schema::{Outcome, Reading, RequestRecord, RunRecord};
use serde_json::Value;

use crate::config::Settings;

/// Shorter texts are words, which would be found everywhere.
const SHORTEST: usize = 6;
/// What stands in their place.
const HIDDEN: &str = "***";

/// The secrets that a run sends, in every form in which a server may say them back ("incorrect API key: sk-…"): plain, as base64, percent-encoded, and as JSON
/// writes them.
#[derive(Clone, Default)]
pub(crate) struct Secrets(Arc<[String]>);

impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} secrets", self.0.len())
    }
}

impl Secrets {
    /// Every value that came as a secret: keys, all header values, and of every address and proxy the user, the password and the query's values.
    pub(crate) fn of(settings: &Settings) -> Self {
        let credentials = &settings.credentials;
        let keys = credentials.api_key.iter().chain(&credentials.prometheus);
        let headers = settings.target.header.iter().map(|header| &header.value);
        let mut whole: Vec<String> = keys
            .chain(headers)
            .map(|secret| secret.expose().to_owned())
            .collect();
        let (target, machines) = (&settings.target, &settings.machines);
        let pages = machines.server_metrics.iter().chain(&machines.dcgm);
        let addresses = target.url.iter().chain(pages).chain(&machines.prometheus);
        let addresses = addresses.map(|address| address.expose().to_owned());
        let proxies = credentials
            .proxies
            .iter()
            .filter(|(name, _)| *name != "no_proxy");
        let proxies = proxies.map(|(_, told)| told.expose().to_owned());
        whole.extend(addresses.chain(proxies).flat_map(|url| in_url(&url)));
        // `Bearer KEY` and `Basic KEY`: the key is a secret without the word too
        let bare = |text: &String| Some(text.rsplit_once(' ')?.1.to_owned());
        let bare: Vec<String> = whole.iter().filter_map(bare).collect();
        whole.extend(bare);
        whole.retain(|text| text.len() >= SHORTEST);
        let mut all: Vec<String> = whole.iter().flat_map(|text| forms(text)).collect();
        // the longest first, or the rest of it would stay
        all.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        all.dedup();
        Self(all.into())
    }

    /// `text` without them.
    pub(crate) fn hide(&self, text: &mut String) {
        for secret in self.0.iter() {
            if text.contains(secret.as_str()) {
                *text = text.replace(secret.as_str(), HIDDEN);
            }
        }
    }

    /// A copy of `text` without them.
    pub(crate) fn hidden(&self, text: &str) -> String {
        let mut text = text.to_owned();
        self.hide(&mut text);
        text
    }

    /// The texts of a record that come from the server.
    pub(crate) fn hide_in(&self, record: &mut RequestRecord) {
        if self.0.is_empty() {
            return;
        }
        if let Outcome::Failed { message, .. } | Outcome::Truncated { message } =
            &mut record.wire.outcome
        {
            self.hide(message);
        }
        let told = [&mut record.wire.text, &mut record.wire.finish_reason];
        told.into_iter().flatten().for_each(|text| self.hide(text));
    }

    /// The texts of a reading that come from a page.
    pub(crate) fn hide_in_reading(&self, reading: &mut Reading) {
        for why in reading.unknown.values_mut() {
            self.hide(why);
        }
    }

    /// A whole result without them: every text in it, whoever said it, keys of maps too.
    pub(crate) fn hide_in_run(&self, record: &mut RunRecord) {
        let Ok(text) = serde_json::to_string(record) else {
            return;
        };
        if !self.0.iter().any(|secret| text.contains(secret.as_str())) {
            return;
        }
        // A secret may be a word that the format needs (`x-mode: trusted`). Such words stay where the result could not be read back without them.
        for words in [false, true] {
            let hidden = serde_json::from_str(&text).map(|value| self.without(value, words));
            if let Ok(clean) = hidden.and_then(serde_json::from_value) {
                *record = clean;
                return;
            }
        }
    }

    fn without(&self, value: Value, keep_words: bool) -> Value {
        let is_word = |text: &str| text.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
        let clean = |mut text: String| {
            if !(keep_words && is_word(&text)) {
                self.hide(&mut text);
            }
            text
        };
        match value {
            Value::String(text) => clean(text).into(),
            Value::Array(items) => {
                let items = items.into_iter().map(|item| self.without(item, keep_words));
                items.collect()
            }
            Value::Object(map) => {
                let pairs = map.into_iter();
                let pairs = pairs.map(|(key, it)| (clean(key), self.without(it, keep_words)));
                Value::Object(pairs.collect())
            }
            other => other,
        }
    }
}

/// The forms in which a secret may come back.
fn forms(secret: &str) -> Vec<String> {
    let json = Value::from(secret).to_string();
    let json = json.trim_matches('"').to_owned();
    let padded = base64(secret.as_bytes());
    let bare = padded.trim_end_matches('=');
    // the last letter of an unpadded form depends on what follows, and another alphabet is for URLs
    let url_safe = bare.replace('+', "-").replace('/', "_");
    vec![
        secret.to_owned(),
        json,
        percent(secret, |byte| format!("%{byte:02X}")),
        percent(secret, |byte| format!("%{byte:02x}")),
        padded.clone(),
        bare.to_owned(),
        url_safe,
    ]
}

/// Everything but letters, digits and `-._~` as `%XX`.
fn percent(text: &str, escape: fn(u8) -> String) -> String {
    let one = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
            char::from(byte).to_string()
        }
        other => escape(other),
    };
    text.bytes().map(one).collect()
}

/// What `%XX` stands for; the text itself where it is no text in that form.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let hex = tail.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        let byte = hex.and_then(|hex| u8::from_str_radix(hex, 16).ok());
        if let (b'%', Some(byte)) = (first, byte) {
            bytes.push(byte);
            rest = tail.get(2..).unwrap_or_default();
        } else {
            bytes.push(first);
            rest = tail;
        }
    }
    String::from_utf8(bytes).unwrap_or_else(|_| text.to_owned())
}

/// Base64 with padding, as basic authentication has it.
fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let letter = |bits: u32| {
        let index = usize::try_from(bits & 63).unwrap_or(0);
        LETTERS.get(index).copied().map_or('=', char::from)
    };
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let byte = |at: usize| u32::from(chunk.get(at).copied().unwrap_or(0));
        let bits = (byte(0) << 16) | (byte(1) << 8) | byte(2);
        let letters = [bits >> 18, bits >> 12, bits >> 6, bits].map(letter);
        text.extend(letters.iter().take(chunk.len() + 1));
        text.extend(std::iter::repeat_n('=', 3 - chunk.len()));
    }
    text
}

/// What is secret in an address: `user:password` and the password alone, and the query's values, as they are written and decoded; and what basic authentication
/// makes of the first.
fn in_url(url: &str) -> Vec<String> {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let (authority, tail) = match rest.find(['/', '?', '#']) {
        Some(end) => rest.split_at(end),
        None => (rest, ""),
    };
    let mut found = Vec::new();
    if let Some((user, _)) = authority.rsplit_once('@') {
        found.push(user);
        found.extend(user.split_once(':').map(|(_, password)| password));
    }
    if let Some((_, query)) = tail.split_once('?') {
        let query = query.split('#').next().unwrap_or_default();
        let value = |pair: &str| pair.find('=').map(|at| at + 1);
        found.extend(
            query
                .split('&')
                .filter_map(|pair| pair.get(value(pair).unwrap_or(0)..)),
        );
    }
    let written = found.iter().map(|&text| text.to_owned());
    written
        .chain(found.iter().map(|text| decoded(text)))
        .collect()
}

#[cfg(test)]
mod tests {
    use bench_schema::Benchmark;

    use super::*;

    fn secrets(args: &[&str]) -> Secrets {
        Secrets::of(&crate::config::for_tests(Benchmark::Throughput, args))
    }

    #[test]
    fn keys_and_all_header_values_are_taken_out_of_what_a_server_says_back() {
        let secrets = secrets(&[
            "--header",
            "Authorization: Bearer sk-abcdef-long",
            "--header",
            "X-Api-Key: sk-abcdef",
            "--header",
            "x-tenant: tenant-4711",
        ]);
        let said = "tenant-4711: sk-abcdef-long is no key, nor is sk-abcdef";
        assert_eq!(secrets.hidden(said), "***: *** is no key, nor is ***");
    }

    #[test]
    fn the_forms_of_a_secret_are_hidden_too() {
        let secrets = secrets(&["--header", "x-key: p\"ss/w rd+1"]);
        // from Python: base64.b64encode(b'p"ss/w rd+1'), urllib.parse.quote(…, safe='')
        for form in [
            "p\"ss/w rd+1",
            "p\\\"ss/w rd+1",
            "cCJzcy93IHJkKzE=",
            "cCJzcy93IHJkKzE",
            "p%22ss%2Fw%20rd%2B1",
            "p%22ss%2fw%20rd%2b1",
        ] {
            assert_eq!(secrets.hidden(&format!("<{form}>")), "<***>", "{form}");
        }
    }

    #[test]
    fn what_is_secret_in_addresses_is_hidden_written_and_decoded() {
        let page = "http://h:1/m?key=abc%21def&x=1";
        let secrets = secrets(&["--server-metrics", page]);
        let said = "abc%21def abc!def x=1";
        assert_eq!(secrets.hidden(said), "*** *** x=1");
        // credentials stand in a proxy's address only
        let of_proxy = in_url("http://me:pass%40word@proxy:3128");
        let expected = ["me:pass%40word", "pass%40word", "me:pass@word", "pass@word"];
        assert_eq!(of_proxy, expected);
    }

    #[test]
    fn a_whole_result_is_without_them_and_can_be_read() {
        let text = include_str!("../../../fixtures/results/v1.2/run.json");
        let mut run = RunRecord::from_json(text).unwrap();
        run.server.models = vec!["sk-abcdef".to_owned()];
        run.server
            .facts
            .insert("sk-abcdef".to_owned(), "a sk-abcdef b".to_owned());
        secrets(&[
            "--header",
            "a: sk-abcdef",
            "--header",
            "b: latency",
            "--header",
            "c: untrusted",
        ])
        .hide_in_run(&mut run);
        let stored = serde_json::to_string(&run).unwrap();
        assert!(!stored.contains("sk-abcdef") && RunRecord::from_json(&stored).is_ok());
        assert_eq!(run.server.models, ["***"]);
    }

    #[test]
    fn base64_is_that_of_the_rfc() {
        // RFC 4648, section 10
        let encoded = ["", "f", "fo", "foo", "foobar"].map(|text| base64(text.as_bytes()));
        assert_eq!(encoded, ["", "Zg==", "Zm8=", "Zm9v", "Zm9vYmFy"]);
    }
}
