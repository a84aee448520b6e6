//! Taking secrets out of everything that leaves the process: files, stdout, stderr. The only place that writes to the last, beside the displays of progress, whose texts come from here.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::iter::successors;
use std::mem;
use std::ops::Range;
use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use bench_client::protocol::CUT;
use bench_schema::{Outcome, Reading, RequestRecord, RunRecord, ServerRecord};
use serde_json::Value;

use crate::config::{Reset, Settings};

/// Shorter texts are words, which would be found everywhere.
const SHORTEST: usize = 6;
/// So much of the beginning of one is enough wherever it stands.
const LEAST: usize = 12;
/// And so much where the text was cut behind it.
const LEAST_OF_CUT: usize = 4;
/// A longer one is no word, whatever its letters are.
const LONGEST_WORD: usize = 24;
/// How often a text is looked at again as what its escapes stand for: JSON in JSON, or a percent form in HTML, is two.
const LAYERS: usize = 3;
/// What stands in their place.
const HIDDEN: &str = "***";

/// The secrets that a run sends. They are found however a server writes them back ("incorrect API key: sk-…"): plain, as base64, in hexadecimal digits, and with
/// any sign escaped as URLs, JSON and HTML do.
///
/// A value may be a word or a number (`x-mode: requests`) that is part of the format and of what this program itself says: such a one is taken out of what others
/// said, and of nothing else.
#[derive(Clone, Default)]
pub(crate) struct Secrets {
    all: Arc<Forms>,
    no_words: Arc<Forms>,
}

impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} forms of secrets", self.all.0.len())
    }
}

impl Secrets {
    /// Every value that came as a secret: keys, all header values, and of every address and proxy the user, the password and the query's values.
    pub(crate) fn of(settings: &Settings) -> Self {
        let credentials = &settings.credentials;
        let keys = (credentials.api_key.iter())
            .chain(&credentials.prometheus)
            .chain(&credentials.meet);
        let headers = || settings.target.header.iter();
        let mut whole: Vec<String> = keys
            .chain(headers().map(|header| &header.value))
            .map(|secret| secret.expose().to_owned())
            .collect();
        let with_parts = headers().filter(|header| has_parts(&header.name));
        whole.extend(with_parts.flat_map(|header| parts(header.value.expose())));
        let bodies = [&settings.workload.extra_body, &settings.versus.versus_body];
        for (name, value) in bodies.into_iter().flatten().flatten() {
            in_body(name, value, &mut whole);
        }
        let reset = settings.load.reset.as_ref();
        let (page, command) = match reset {
            Some(Reset::Post(page)) => (Some(page), None),
            Some(Reset::Command(line)) => (None, Some(line)),
            None => (None, None),
        };
        for line in settings.server.server.iter().chain(command) {
            in_command(line, &mut whole);
        }
        let (target, machines) = (&settings.target, &settings.machines);
        let pages = machines.server_metrics.iter().chain(&machines.dcgm);
        let addresses = target.url.iter().chain(&settings.versus.versus);
        let addresses = addresses.chain(pages).chain(&machines.prometheus);
        let addresses = addresses.chain(&settings.output.otlp).chain(page);
        let addresses = addresses.map(|address| address.expose().to_owned());
        let proxies = credentials
            .proxies
            .iter()
            .filter(|(name, _)| *name != "no_proxy");
        let proxies = proxies.map(|(_, told)| told.expose().to_owned());
        whole.extend(addresses.chain(proxies).flat_map(|url| in_url(&url)));
        // `Bearer KEY` and `Basic KEY`: the key is a secret without the word too, and so is what the second one stands for
        let bare = |text: &String| Some(text.rsplit_once(' ')?.1.to_owned());
        let bare: Vec<String> = whole.iter().filter_map(bare).collect();
        let basic = |text: &String| String::from_utf8(BASE64_STANDARD.decode(text).ok()?).ok();
        let pairs: Vec<String> = bare.iter().filter_map(basic).collect();
        let passwords = pairs.iter().filter_map(|pair| pair.split_once(':'));
        whole.extend(passwords.map(|(_, password)| password.to_owned()));
        whole.extend(bare.into_iter().chain(pairs));
        whole.retain(|text| text.len() >= SHORTEST);
        let no_words = whole.iter().filter(|text| !is_word(text));
        Self {
            no_words: Arc::new(Forms::of(no_words)),
            all: Arc::new(Forms::of(&whole)),
        }
    }

    /// Takes them out of what somebody else said.
    pub(crate) fn hide(&self, said: &mut String) {
        self.all.hide(said);
    }

    /// A text of our own, in which something of others may stand, without them.
    pub(crate) fn hidden(&self, text: &str) -> String {
        let mut text = text.to_owned();
        self.no_words.hide(&mut text);
        text
    }

    /// The same for every text in a value.
    pub(crate) fn hide_in_json(&self, value: &mut Value) {
        self.no_words.hide_in_json(value);
    }

    /// Something to know, to stderr.
    pub(crate) fn note(&self, line: &str) {
        // in one piece: beside other programs that write to the same place
        let line = self.hidden(line) + "\n";
        let _nobody_reads = io::stderr().lock().write_all(line.as_bytes());
    }

    /// What others said of things that have our names.
    pub(crate) fn hide_in_values(&self, said: &mut BTreeMap<String, String>) {
        for text in said.values_mut() {
            self.hide(text);
        }
    }

    /// What a server says of itself.
    pub(crate) fn hide_in_server(&self, server: &mut ServerRecord) {
        let named = server.model.iter_mut().chain(&mut server.models);
        let texts = named.chain(&mut server.version);
        texts.for_each(|text| self.hide(text));
        self.hide_in_values(&mut server.facts);
    }

    /// The texts of a record that come from the server.
    pub(crate) fn hide_in(&self, record: &mut RequestRecord) {
        if let Outcome::Failed { message, .. } | Outcome::Truncated { message } =
            &mut record.wire.outcome
        {
            self.hide(message);
        }
        if let Some(reason) = &mut record.wire.finish_reason {
            self.hide(reason);
        }
        if let Some(text) = &mut record.wire.text {
            let cut = (text.chars().count() as u64) < record.wire.text_chars;
            text.push_str(if cut { CUT } else { "" });
            self.hide(text);
            text.truncate(text.len() - if cut { CUT.len() } else { 0 });
        }
    }

    /// The texts of a reading that come from a page.
    pub(crate) fn hide_in_reading(&self, reading: &mut Reading) {
        self.no_words.hide(&mut reading.instance);
        self.hide_in_values(&mut reading.unknown);
    }

    /// A whole result without them: every text in it, whoever said it, keys of maps too.
    pub(crate) fn hide_in_run(&self, record: &mut RunRecord) {
        if self.no_words.0.is_empty() {
            return;
        }
        record.rewrite(&mut |part| self.no_words.hide_in_json(part));
    }
}

/// Whether it may stand in a result, or in what this program says, of its own right.
fn is_word(text: &str) -> bool {
    let letters = |b: u8| b.is_ascii_alphabetic() || b"_ ".contains(&b);
    let digits = |b: u8| b.is_ascii_digit() || b == b'.';
    (text.len() < LONGEST_WORD && text.bytes().all(letters)) || text.bytes().all(digits)
}

/// What to look for, all of it at once, in small letters, and how much of its beginning is enough, anywhere and where a text was cut; sorted.
#[derive(Default)]
struct Forms(Vec<(Vec<u8>, usize, usize)>);

impl Forms {
    fn of<'a>(secrets: impl IntoIterator<Item = &'a String>) -> Self {
        let all = secrets.into_iter().flat_map(|text| forms(text));
        let all = all.filter(|form| form.len() >= SHORTEST);
        let mut all: Vec<_> = all
            .map(|form| {
                // many addresses begin alike
                let scheme = form.find("://").map_or(0, |at| at + 3);
                let form = form.to_ascii_lowercase();
                // `Bearer` is no secret
                let named = ["bearer", "basic"]
                    .iter()
                    .any(|name| form.starts_with(name));
                let of_cut = if named { LEAST } else { LEAST_OF_CUT };
                let [least, of_cut] = [LEAST, of_cut].map(|least| form.len().min(least + scheme));
                (form.into_bytes(), least, of_cut)
            })
            .collect();
        all.sort();
        all.dedup();
        Self(all)
    }

    /// Replaces them. Returns whether there were any.
    fn hide(&self, text: &mut String) -> bool {
        let mut found = Vec::new();
        let mut layer = Layer::of(text);
        for _ in 0..=LAYERS {
            found.extend(self.places(&layer));
            match layer.read_on() {
                Some(next) => layer = next,
                None => break,
            }
        }
        found.sort_by_key(|place| place.start);
        // those that overlap are one
        found.dedup_by(|next, place| {
            let overlap = next.start < place.end;
            place.end = place.end.max(if overlap { next.end } else { 0 });
            overlap
        });
        // from the end, so that what comes before stays where it is
        for place in found.iter().rev() {
            let (from, to) = (place.start, text.floor_char_boundary(place.end));
            text.replace_range(text.floor_char_boundary(from)..to, HIDDEN);
        }
        !found.is_empty()
    }

    /// Where they stand, or their beginnings.
    fn places(&self, layer: &Layer<'_>) -> Vec<Range<usize>> {
        let (bytes, mut found, mut at) = (layer.bytes(), Vec::new(), 0);
        while let Some(rest @ [first, ..]) = bytes.get(at..) {
            let same = |(form, least, of_cut): &(Vec<u8>, usize, usize)| {
                let both = form.iter().zip(rest);
                let same = both.take_while(|(a, b)| **a == b.to_ascii_lowercase());
                let same = same.count();
                let is_cut = || {
                    rest.get(same..)
                        .is_some_and(|rest| rest.starts_with(CUT.as_bytes()))
                };
                let enough = same >= *least || (same >= *of_cut && is_cut());
                enough.then_some(same)
            };
            let first = Some(first.to_ascii_lowercase());
            let begin = |form: &(Vec<u8>, usize, usize)| form.0.first().copied();
            let from = self.0.partition_point(|form| begin(form) < first);
            let forms = self.0.iter().skip(from);
            let forms = forms.take_while(|form| begin(form) == first);
            let longest = forms.filter_map(same).max();
            found.extend(longest.map(|length| layer.place(at)..layer.place(at + length)));
            at += longest.unwrap_or(1);
        }
        found
    }

    fn hide_in_json(&self, value: &mut Value) -> bool {
        match value {
            Value::String(text) => self.hide(text),
            Value::Array(items) => {
                let hide = |any, item: &mut Value| self.hide_in_json(item) | any;
                items.iter_mut().fold(false, hide)
            }
            Value::Object(map) => {
                let mut any = false;
                let pairs = mem::take(map).into_iter().map(|(mut key, mut value)| {
                    any |= self.hide(&mut key) | self.hide_in_json(&mut value);
                    (key, value)
                });
                *map = pairs.collect();
                any
            }
            _ => false,
        }
    }
}

/// A text, or what it says where some of its signs are escaped.
enum Layer<'a> {
    Text(&'a [u8]),
    /// Each byte, and where in the text it begins; after the last one, the text's end.
    Read(Vec<u8>, Vec<usize>),
}

impl<'a> Layer<'a> {
    fn of(text: &'a str) -> Self {
        Self::Text(text.as_bytes())
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Self::Text(bytes) => bytes,
            Self::Read(bytes, _) => bytes,
        }
    }

    /// Where in the text the byte of this number begins.
    fn place(&self, at: usize) -> usize {
        match self {
            Self::Text(_) => at,
            Self::Read(_, starts) => starts.get(at).copied().unwrap_or(at),
        }
    }

    /// The same with its escapes read once; nothing where there are none.
    fn read_on(&self) -> Option<Self> {
        let bytes = self.bytes();
        bytes.iter().find(|b| **b < b' ' || b"%\\&".contains(b))?;
        let (mut read, mut starts, mut at) = (Vec::new(), Vec::new(), 0);
        let mut escapes = false;
        while let Some(rest @ [first, ..]) = bytes.get(at..) {
            let escape = escape(rest);
            escapes |= escape.is_some();
            let (length, sign) = escape.unwrap_or((1, Sign::Byte(*first)));
            match sign {
                Sign::Byte(byte) => read.push(byte),
                Sign::Char(c) => read.extend(c.encode_utf8(&mut [0; 4]).bytes()),
                Sign::Nothing => {}
            }
            starts.resize(read.len(), self.place(at));
            at += length;
        }
        starts.push(self.place(at));
        escapes.then_some(Self::Read(read, starts))
    }
}

/// What an escape stands for.
enum Sign {
    Byte(u8),
    Char(char),
    /// The end of a line, or another sign that is none of the text's.
    Nothing,
}

/// The escape that a text begins with and its length: `%41`, `\x41`, `\u0041`, `\/`, `&#65;`, `&#x41;`, `&amp;`.
fn escape(text: &[u8]) -> Option<(usize, Sign)> {
    let number = |from: usize, to: usize, radix| {
        let digits = str::from_utf8(text.get(from..to)?).ok()?;
        u32::from_str_radix(digits, radix).ok()
    };
    let byte = |number: u32| u8::try_from(number).ok().map(Sign::Byte);
    let sign = |number: u32| char::from_u32(number).map(Sign::Char);
    match text {
        [b'%', ..] => Some((3, byte(number(1, 3, 16)?)?)),
        [b'\\', b'x', ..] => Some((4, byte(number(2, 4, 16)?)?)),
        [b'\\', b'u', ..] => Some((6, sign(number(2, 6, 16)?)?)),
        [b'\\', sign @ (b'/' | b'"' | b'\'' | b'\\'), ..] => Some((2, Sign::Byte(*sign))),
        [b'\\', b'n' | b'r' | b't' | b'0', ..] => Some((2, Sign::Nothing)),
        [0..b' ', ..] => Some((1, Sign::Nothing)),
        [b'&', b'#', rest @ ..] => {
            let (from, radix) = match rest {
                [b'x' | b'X', ..] => (3, 16),
                _ => (2, 10),
            };
            let digits = text.iter().skip(from);
            let digits = digits.take_while(|b| char::from(**b).is_digit(radix));
            let to = from + digits.count();
            let closed = usize::from(text.get(to) == Some(&b';'));
            Some((to + closed, sign(number(from, to, radix)?)?))
        }
        [b'&', rest @ ..] => {
            let named = ENTITIES.iter().find(|(name, _)| rest.starts_with(name));
            named.map(|(name, sign)| (1 + name.len(), Sign::Byte(*sign)))
        }
        _ => None,
    }
}

/// The signs that HTML has names for.
const ENTITIES: [(&[u8], u8); 5] = [
    (b"amp;", b'&'),
    (b"lt;", b'<'),
    (b"gt;", b'>'),
    (b"quot;", b'"'),
    (b"apos;", b'\''),
];

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

/// The forms in which a secret may come back, before anything is escaped.
fn forms(secret: &str) -> Vec<String> {
    let bytes = secret.as_bytes();
    let digit = |half: u8| char::from_digit(u32::from(half), 16).unwrap_or_default();
    let digits = bytes.iter().flat_map(|b| [digit(b >> 4), digit(b & 15)]);
    let mut all = vec![
        secret.to_owned(),
        secret.replace(' ', "+"),
        BASE64_STANDARD.encode(secret),
        digits.collect(),
    ];
    // small letters are looked for, which beyond ASCII are others
    if !secret.is_ascii() {
        all.extend([secret.to_lowercase(), secret.to_uppercase()]);
    }
    // Of what is encoded with other text around it, the letters that are its own: where it begins at the first, second or third byte of a group. Another alphabet
    // is for URLs.
    for before in 0..3 {
        let among = [vec![0; before], bytes.to_vec()].concat();
        let (from, to) = ((before * 8).div_ceil(6), among.len() * 8 / 6);
        for encoded in [
            BASE64_STANDARD.encode(&among),
            BASE64_URL_SAFE_NO_PAD.encode(&among),
        ] {
            all.extend(encoded.get(from..to).map(str::to_owned));
            all.push(
                encoded
                    .get(from..)
                    .unwrap_or_default()
                    .trim_end_matches('=')
                    .to_owned(),
            );
        }
    }
    all
}

/// What a text says when its escapes are read.
fn decoded(text: &str) -> String {
    let layer = Layer::of(text).read_on();
    String::from_utf8_lossy(layer.as_ref().map_or(text.as_bytes(), Layer::bytes)).into_owned()
}

/// Whether a header's value is made of parts that are secrets by themselves: cookies, and parameters of an authorization.
fn has_parts(header: &str) -> bool {
    let name = header.to_ascii_lowercase();
    name == "cookie" || name.contains("authorization")
}

/// The values of `session=abc; other=def`.
fn parts(value: &str) -> impl Iterator<Item = String> {
    let parts = value.split([';', ',', ' ']);
    let values = parts.filter_map(|part| Some(part.split_once('=')?.1.trim_matches('"')));
    values.map(str::to_owned)
}

/// What the name of a secret holds, in a body or in a command line.
const SECRET_NAMES: [&str; 10] = [
    "apikey",
    "accesskey",
    "privatekey",
    "subscriptionkey",
    "secret",
    "password",
    "passwd",
    "passphrase",
    "authorization",
    "credential",
];
/// What the whole name of a secret is.
const SECRET_WORDS: [&str; 7] = ["key", "pwd", "pass", "auth", "bearer", "jwt", "sas"];

/// Whether a value of this name is a secret: `api_key`, `--hf-token`, `HF_TOKEN`.
fn is_secret_name(name: &str) -> bool {
    let plain = name.replace(['_', '-', '.'], "").to_ascii_lowercase();
    SECRET_NAMES.iter().any(|part| plain.contains(part))
        || SECRET_WORDS.contains(&plain.as_str())
        || plain.ends_with("token")
}

/// The texts in a body that are secrets by their names, which some gateways take there, or by the name that they stand under.
fn in_body(name: &str, value: &Value, found: &mut Vec<String>) {
    match value {
        // a special token of a vocabulary is none
        Value::String(text) if is_secret_name(name) && !text.starts_with('<') => {
            found.push(text.clone());
        }
        Value::Object(map) => map.iter().for_each(|(key, value)| {
            in_body(if is_secret_name(name) { name } else { key }, value, found);
        }),
        Value::Array(items) => items.iter().for_each(|item| in_body(name, item, found)),
        _ => {}
    }
}

/// The name and the value in `NAME=VALUE` or `NAME: VALUE`.
fn pair(text: &str) -> Option<(&str, &str)> {
    text.split_once(['=', ':'])
}

/// The secrets in a command line: `--api-key KEY`, `--token=KEY`, `HF_TOKEN=KEY`, `-u USER:PASSWORD`, and those in a header, an address, JSON or another command
/// line (`sh -c '…'`) that is one of its words.
fn in_command(line: &str, found: &mut Vec<String>) {
    let words = shlex::split(line).unwrap_or_default();
    let next = words.iter().skip(1).map(Some).chain([None]);
    for (word, next) in words.iter().zip(next) {
        if let Ok(body @ Value::Object(_)) = serde_json::from_str(word) {
            in_body("", &body, found);
            continue;
        }
        // `--env=HF_TOKEN=KEY` is two names and a value
        let pairs = successors(pair(word), |(_, value)| pair(value));
        let mut named = pairs.filter(|(name, _)| is_secret_name(name));
        let next = next.filter(|next| !next.starts_with('-'));
        match (named.next(), word.as_str(), next) {
            (Some((_, value)), ..) => found.push(value.trim().to_owned()),
            (None, "-u" | "--user", Some(user)) => {
                found.extend(pair(user).map(|(_, password)| password.to_owned()));
            }
            (None, flag, Some(value)) if flag.starts_with('-') && is_secret_name(flag) => {
                found.push(value.clone());
            }
            _ => {}
        }
        if word.contains("://") {
            found.extend(in_url(word));
        }
        if words.len() > 1 && word.contains(char::is_whitespace) {
            in_command(word, found);
        }
    }
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
#[path = "../tests/unit/redact.rs"]
mod tests;
