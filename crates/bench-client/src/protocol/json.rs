//! JSON as servers write it: borrowed where possible, and lenient about what does not matter for timing.
//!
//! A key of another type than expected is taken as absent, never as a reason to lose the event that carries it.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use bench_schema::{Channel, whole};
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::protocol::{DecodeError, Delta};

pub(crate) fn parse<'a, T: Deserialize<'a>>(data: &'a [u8]) -> Result<T, DecodeError> {
    Ok(serde_json::from_slice(data)?)
}

/// A string, borrowed unless it has escapes; anything else is absent.
///
/// `Option<Cow<str>>` would do, but serde never borrows inside an `Option`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Text<'a>(Option<Cow<'a, str>>);

impl Text<'_> {
    pub(crate) fn get(&self) -> Option<&str> {
        self.0.as_deref()
    }

    /// The text, where there is one that is not empty.
    pub(crate) fn filled(&self) -> Option<&str> {
        self.get().filter(|text| !text.is_empty())
    }

    pub(crate) fn is_empty_string(&self) -> bool {
        self.get() == Some("")
    }

    /// Content on this channel, where there is any.
    pub(crate) fn emit(&self, channel: Channel, out: &mut Delta) {
        out.text(channel, self.get().unwrap_or_default());
    }
}

/// A whole, non-negative number, also where a server writes `4.0` or `"4"`; anything else is absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Count(pub(crate) Option<u64>);

/// A number; anything else is absent.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Number(pub(crate) Option<f64>);

/// The length of a list, without its contents; anything else is absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Length(pub(crate) Option<usize>);

/// A list; `null` and anything else is empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct List<T>(pub(crate) Vec<T>);

impl<T> Default for List<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

/// An `error` member: a message, an object with one, or whatever else is neither null nor false.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ErrorField(pub(crate) Option<String>);

impl ErrorField {
    /// The server says that it failed, where it does.
    pub(crate) fn emit(&self, out: &mut Delta) {
        if let Some(message) = &self.0 {
            out.error(message);
        }
    }
}

/// Any JSON value, as far as a scalar or a list is wanted of it.
enum Any<'a, T> {
    Text(Cow<'a, str>),
    Number(f64),
    List(Vec<T>),
    Nothing,
}

struct AnyVisitor<T>(PhantomData<T>);

fn any<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Any<'de, T>, D::Error> {
    deserializer.deserialize_any(AnyVisitor(PhantomData))
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for AnyVisitor<T> {
    type Value = Any<'de, T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Any::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Any::Text(Cow::Owned(text.to_owned())))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Self::Value, E> {
        Ok(Any::Number(number as f64))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Self::Value, E> {
        Ok(Any::Number(number as f64))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Self::Value, E> {
        Ok(Any::Number(number))
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
        Ok(Any::Nothing)
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Any::Nothing)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = seq.next_element()? {
            list.push(item);
        }
        Ok(Any::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Any::Nothing)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self(match any::<IgnoredAny, _>(deserializer)? {
            Any::Text(text) => Some(text),
            _ => None,
        }))
    }
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self(match any::<IgnoredAny, _>(deserializer)? {
            Any::Number(number) => Some(number),
            _ => None,
        }))
    }
}

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = match any::<IgnoredAny, _>(deserializer)? {
            Any::Number(number) => Some(number),
            Any::Text(text) => text.parse().ok(),
            Any::List(_) | Any::Nothing => None,
        };
        // where f64 holds whole numbers exactly
        let exact = number.filter(|n| (0.0..9e15).contains(n) && n.fract() < f64::EPSILON);
        Ok(Self(exact.map(whole)))
    }
}

impl<'de> Deserialize<'de> for Length {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Ignored elements take no room: only their number is kept.
        Ok(Self(match any::<IgnoredAny, _>(deserializer)? {
            Any::List(list) => Some(list.len()),
            _ => None,
        }))
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for List<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self(match any(deserializer)? {
            Any::List(list) => list,
            _ => Vec::new(),
        }))
    }
}

/// A string, or a list of items; anything else is neither.
#[derive(Debug)]
pub(crate) struct TextOrList<'a, T> {
    pub(crate) text: Text<'a>,
    pub(crate) list: Vec<T>,
}

impl<T> Default for TextOrList<'_, T> {
    fn default() -> Self {
        Self {
            text: Text::default(),
            list: Vec::new(),
        }
    }
}

impl<'de: 'a, 'a, T: Deserialize<'de>> Deserialize<'de> for TextOrList<'a, T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut both = Self::default();
        match any(deserializer)? {
            Any::Text(text) => both.text = Text(Some(text)),
            Any::List(list) => both.list = list,
            Any::Number(_) | Any::Nothing => {}
        }
        Ok(both)
    }
}

impl<'de> Deserialize<'de> for ErrorField {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = serde_json::Value::deserialize(deserializer)?;
        Ok(Self(error_message(&value)))
    }
}

/// What a page of JSON says went wrong, shortened; `None` of any other page.
pub(crate) fn page_error(body: &[u8]) -> Option<String> {
    /// A sentence, not a page.
    const CHARS: usize = 200;
    let page: serde_json::Value = serde_json::from_slice(body).ok()?;
    let message = error_message(page.get("error")?)?;
    Some(shortened(&message, CHARS))
}

/// What stands where a text was cut: whoever takes secrets out of it knows by this that one may have been cut, too.
pub const CUT: &str = "…";

/// The beginning of a text, and that there was more.
pub(crate) fn shortened(text: &str, chars: usize) -> String {
    match text.char_indices().nth(chars) {
        Some((end, _)) => text.get(..end).unwrap_or_default().to_owned() + CUT,
        None => text.to_owned(),
    }
}

/// The most telling text of an error member.
pub(crate) fn error_message(value: &serde_json::Value) -> Option<String> {
    use serde_json::Value;
    match value {
        Value::Null | Value::Bool(false) => None,
        Value::String(text) if text.is_empty() => None,
        Value::String(text) => Some(text.clone()),
        Value::Object(members) => {
            let message = members.get("message").and_then(Value::as_str);
            Some(message.map_or_else(|| value.to_string(), str::to_owned))
        }
        other => Some(other.to_string()),
    }
}

// The short way through the commonest chunks: one choice with a piece of plain text, that which opens an answer, that which ends it, and its
// usage, with nothing else that matters.
//
// Nearly every event of a stream has such a shape, and a full parse of it costs more than all else that is done to an event.
// Anything unusual (an escape, a second choice, any key that could matter) gives `None`, and serde reads the document.
// So this never decides anything that serde would decide otherwise (keys that come twice aside, which serde refuses): a property
// test holds the two together.

/// Where the text is: `{"choices":[{"delta":{"content":…}}]}` or `{"choices":[{"text":…}]}`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    Chat,
    Completions,
}

/// What one of the commonest chunks says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Skimmed<'a> {
    /// Empty where there is none.
    pub(crate) text: &'a str,
    /// Likewise.
    pub(crate) finish_reason: &'a str,
    /// The tokens of the prompt and of the answer, where they are told.
    pub(crate) usage: [Option<u64>; 2],
}

/// What `json` says, if it is one of the commonest chunks.
pub(crate) fn skim(json: &[u8], shape: Shape) -> Option<Skimmed<'_>> {
    let mut cursor = Cursor { json, at: 0 };
    let mut choice = None;
    let mut usage = None;
    cursor.object(|cursor, key| match key {
        b"choices" if choice.is_none() => {
            choice = Some(cursor.only_choice(shape)?);
            Some(())
        }
        b"usage" if usage.is_none() => {
            usage = Some(cursor.usage()?);
            Some(())
        }
        b"id" | b"created" | b"model" | b"system_fingerprint" => cursor.scalar(),
        b"object" => (cursor.string()? != b"error").then_some(()),
        b"prompt_token_ids" | b"service_tier" => cursor.null(),
        _ => None,
    })?;
    cursor.end()?;
    let Choice {
        text,
        finish_reason,
    } = choice?;
    // one that is not UTF-8 is for the full parse to refuse
    Some(Skimmed {
        text: std::str::from_utf8(text).ok()?,
        finish_reason: std::str::from_utf8(finish_reason).ok()?,
        usage: usage.unwrap_or_default(),
    })
}

/// The only choice of a chunk.
#[derive(Default)]
struct Choice<'a> {
    text: &'a [u8],
    finish_reason: &'a [u8],
}

/// What stands before and after the text of an answer's chunks: mostly the same in all of them, so that a chunk is looked through once
/// and the next ones are held against it.
#[derive(Debug, Default)]
pub(crate) struct Mould {
    before: Vec<u8>,
    after: Vec<u8>,
}

impl Mould {
    /// What [`skim`] says of a chunk.
    pub(crate) fn skim<'a>(&mut self, json: &'a [u8], shape: Shape) -> Option<Skimmed<'a>> {
        if let Some(text) = self.text_within(json) {
            return Some(Skimmed {
                text,
                ..Skimmed::default()
            });
        }
        let skimmed = skim(json, shape)?;
        let Skimmed {
            text,
            finish_reason,
            usage,
        } = skimmed;
        if !text.is_empty() && finish_reason.is_empty() && usage == [None; 2] {
            let at = text.as_ptr().addr() - json.as_ptr().addr();
            let (before, rest) = json.split_at_checked(at)?;
            self.before.clear();
            self.before.extend_from_slice(before);
            self.after.clear();
            self.after.extend(rest.get(text.len()..)?);
        }
        Some(skimmed)
    }

    /// The text of a chunk that is the one looked through but for its text, which is plain.
    fn text_within<'a>(&self, json: &'a [u8]) -> Option<&'a str> {
        let text = json.strip_prefix(self.before.as_slice())?;
        let text = text.strip_suffix(self.after.as_slice())?;
        let looked_through = !self.before.is_empty();
        (looked_through && !text.is_empty() && is_plain(text)).then_some(())?;
        std::str::from_utf8(text).ok()
    }
}

/// Whether bytes stand in a JSON string as they are.
fn is_plain(text: &[u8]) -> bool {
    text.iter()
        .all(|byte| !matches!(byte, b'"' | b'\\' | 0..b' '))
}

/// A position in a document.
struct Cursor<'a> {
    json: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    /// `[{…}]` with exactly one choice, or `[]`.
    fn only_choice(&mut self, shape: Shape) -> Option<Choice<'a>> {
        self.token(b'[')?;
        if self.take(b']') {
            return Some(Choice::default());
        }
        let (mut text, mut finish_reason) = (None, None);
        self.object(|cursor, key| match (key, shape) {
            (b"delta", Shape::Chat) if text.is_none() => {
                text = Some(cursor.only_content()?);
                Some(())
            }
            (b"text", Shape::Completions) if text.is_none() => {
                text = Some(cursor.string()?);
                Some(())
            }
            (b"finish_reason", _) if finish_reason.is_none() => {
                finish_reason = Some(cursor.string_or_null()?);
                Some(())
            }
            (b"index" | b"stop_reason" | b"matched_stop", _) => cursor.scalar(),
            (b"logprobs" | b"token_ids" | b"prompt_token_ids" | b"prompt_logprobs", _) => {
                cursor.null()
            }
            _ => None,
        })?;
        self.token(b']')?;
        let (text, finish_reason) = (text?, finish_reason.unwrap_or_default());
        // an empty text is a token, unless it ends the answer
        let is_token = text.is_empty() && shape == Shape::Completions && finish_reason.is_empty();
        (!is_token).then_some(Choice {
            text,
            finish_reason,
        })
    }

    /// `{"content":"…"}` and nothing beside it but a role; empty where there is no content.
    fn only_content(&mut self) -> Option<&'a [u8]> {
        let (mut text, mut role) = (None, None);
        self.object(|cursor, key| {
            let member = match key {
                b"content" => &mut text,
                b"role" => &mut role,
                _ => return None,
            };
            let value = Some(cursor.string()?);
            member.replace(value?).is_none().then_some(())
        })?;
        // without a role an empty content is a token
        let is_token = text.is_some_and(<[u8]>::is_empty) && role.is_none();
        (!is_token).then_some(text.unwrap_or_default())
    }

    /// `null`, or counts and nothing else: those of the prompt's and the answer's tokens.
    fn usage(&mut self) -> Option<[Option<u64>; 2]> {
        self.space();
        if self.json.get(self.at) == Some(&b'n') {
            return self.null().map(|()| [None; 2]);
        }
        let (mut prompt, mut completion) = (None, None);
        self.object(|cursor, key| {
            let count = match key {
                b"prompt_tokens" => &mut prompt,
                b"completion_tokens" => &mut completion,
                b"total_tokens" => return cursor.scalar(),
                b"prompt_tokens_details" | b"completion_tokens_details" => return cursor.null(),
                _ => return None,
            };
            cursor.space();
            let from = cursor.at;
            cursor.whole_number()?;
            let digits = std::str::from_utf8(cursor.json.get(from..cursor.at)?).ok()?;
            count.replace(digits.parse().ok()?).is_none().then_some(())
        })?;
        Some([prompt, completion])
    }

    /// An object, each of whose values `member` consumes. Every key that is taken twice must be refused there or not matter.
    fn object(&mut self, mut member: impl FnMut(&mut Self, &'a [u8]) -> Option<()>) -> Option<()> {
        self.token(b'{')?;
        if self.take(b'}') {
            return Some(());
        }
        loop {
            let key = self.string()?;
            self.token(b':')?;
            member(self, key)?;
            match self.next()? {
                b',' => {}
                b'}' => return Some(()),
                _ => return None,
            }
        }
    }

    /// A string without escapes and control characters.
    fn string(&mut self) -> Option<&'a [u8]> {
        self.token(b'"')?;
        let rest = self.json.get(self.at..)?;
        let length = memchr::memchr2(b'"', b'\\', rest)?;
        let text = rest.get(..length)?;
        let plain = rest.get(length) == Some(&b'"') && text.iter().all(|&byte| byte >= b' ');
        self.at += length + 1;
        plain.then_some(text)
    }

    /// A plain string; empty for `null`.
    fn string_or_null(&mut self) -> Option<&'a [u8]> {
        self.space();
        match *self.json.get(self.at)? {
            b'"' => self.string(),
            _ => self.null().map(|()| b"".as_slice()),
        }
    }

    /// `null`, a plain string, or a whole number.
    fn scalar(&mut self) -> Option<()> {
        self.space();
        match *self.json.get(self.at)? {
            b'"' => self.string().map(|_| ()),
            b'0'..=b'9' => self.whole_number(),
            _ => self.null(),
        }
    }

    fn whole_number(&mut self) -> Option<()> {
        let rest = self.json.get(self.at..)?;
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let leading_zero = digits > 1 && rest.first() == Some(&b'0');
        self.at += digits;
        (!leading_zero && (1..16).contains(&digits)).then_some(())
    }

    fn null(&mut self) -> Option<()> {
        self.space();
        let rest = self.json.get(self.at..)?;
        self.at += 4;
        rest.starts_with(b"null").then_some(())
    }

    fn token(&mut self, expected: u8) -> Option<()> {
        (self.next()? == expected).then_some(())
    }

    /// Whether it is next, and then it is taken.
    fn take(&mut self, byte: u8) -> bool {
        self.space();
        let is_next = self.json.get(self.at) == Some(&byte);
        self.at += usize::from(is_next);
        is_next
    }

    /// The next byte that is no white space.
    fn next(&mut self) -> Option<u8> {
        self.space();
        let byte = *self.json.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    fn space(&mut self) {
        while matches!(self.json.get(self.at), Some(b' ' | b'\n' | b'\r' | b'\t')) {
            self.at += 1;
        }
    }

    /// Nothing but white space is left.
    fn end(&mut self) -> Option<()> {
        self.space();
        (self.at == self.json.len()).then_some(())
    }
}

#[cfg(test)]
#[path = "../../tests/unit/json.rs"]
mod tests;
