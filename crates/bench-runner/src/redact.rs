//! Taking secrets out of everything that leaves the process: files, stdout, stderr. The only place that writes to the last two.

use std::io::{self, ErrorKind, Write};
use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use bench_schema::{Outcome, Reading, RequestRecord, RunRecord};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
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
            while let Some(found) = find(secret, text) {
                text.replace_range(found, HIDDEN);
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
        if !self.0.iter().any(|secret| find(secret, &text).is_some()) {
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

/// Stdout and stderr of a process that knows these secrets.
#[derive(Clone, Debug, Default)]
pub(crate) struct Console {
    secrets: Secrets,
}

impl Console {
    /// One that says none of `secrets`.
    pub(crate) fn without(secrets: Secrets) -> Self {
        Self { secrets }
    }

    /// A result, to stdout; of a record its secrets have been taken out before. A closed pipe (`| head`) is the reader's choice.
    ///
    /// # Errors
    /// Everything else for which it could not be written, such as a full disk.
    pub(crate) fn result(text: &str) -> io::Result<()> {
        let mut out = io::stdout().lock();
        match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
            Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error),
            _ => Ok(()),
        }
    }

    /// Something to know, to stderr.
    pub(crate) fn note(&self, line: &str) {
        let _nobody_reads = writeln!(io::stderr().lock(), "{}", self.secrets.hidden(line));
    }

    /// What the terminal may show of a text.
    pub(crate) fn shown(&self, text: &str) -> String {
        self.secrets.hidden(text)
    }
}

/// An error and its causes, as they are told: `error: …`, then `because: …` for each source.
pub(crate) fn told(error: &dyn std::error::Error) -> String {
    let mut text = format!("error: {error}");
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str("\n  because: ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

/// Where a secret stands in a text, or its beginning: messages are cut, and a secret with them. Half of it at least, and twelve bytes.
fn find(secret: &str, text: &str) -> Option<std::ops::Range<usize>> {
    let least = (secret.len() / 2).max(12).min(secret.len());
    let least = (least..=secret.len()).find(|at| secret.is_char_boundary(*at))?;
    let start = secret.get(..least)?;
    let from = text.find(start)?;
    let more = text.get(from..)?.bytes().zip(secret.bytes());
    let mut to = from + more.take_while(|(a, b)| a == b).count();
    while !text.is_char_boundary(to) {
        to -= 1;
    }
    Some(from..to)
}

/// The forms in which a secret may come back.
fn forms(secret: &str) -> Vec<String> {
    let json = Value::from(secret).to_string();
    let json = json.trim_matches('"').to_owned();
    let padded = BASE64_STANDARD.encode(secret);
    let bare = padded.trim_end_matches('=').to_owned();
    // the last letter of an unpadded form depends on what follows, and another alphabet is for URLs
    let url_safe = BASE64_URL_SAFE_NO_PAD.encode(secret);
    let percent = utf8_percent_encode(secret, ENCODED).to_string();
    vec![
        secret.to_owned(),
        // as PHP writes JSON
        json.replace('/', "\\/"),
        json,
        in_small_digits(&percent),
        percent,
        padded,
        bare,
        url_safe,
    ]
}

/// Everything but letters, digits and `-._~` as `%XX`.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// `%2f` for `%2F`.
fn in_small_digits(percent: &str) -> String {
    let mut parts = percent.split('%');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (digits, rest) = part.split_at_checked(2).unwrap_or((part, ""));
        text.push('%');
        text.push_str(&digits.to_ascii_lowercase());
        text.push_str(rest);
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
    let decoded = found
        .iter()
        .map(|text| percent_decode_str(text).decode_utf8_lossy().into_owned());
    written.chain(decoded).collect()
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
    fn a_secret_that_a_message_cut_in_two_is_hidden_and_a_few_letters_of_it_are_not() {
        let secrets = secrets(&[
            "--header",
            "x-key: sk-plainsecretkey-01234567",
            "--header",
            "x-word: geheimschlüssel-für-alle-fälle",
        ]);
        let hidden = |text: &str| secrets.hidden(text);
        assert_eq!(hidden("bad key sk-plainsecretkey-0…"), "bad key ***…");
        assert_eq!(hidden("a key begins with sk-"), "a key begins with sk-");
        assert_eq!(hidden("<geheimschlüssel-für-alle-fälle>"), "<***>");
        assert_eq!(hidden("<geheimschlüssel-für-al…"), "<***…");
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
}
