//! JSON as servers write it: borrowed where possible, and lenient about what does not matter for timing.
//!
//! A key of another type than expected is taken as absent, never as a reason to lose the event that carries it.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use bench_schema::Channel;
use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess,
    Visitor,
};
use serde_json::value::RawValue;

use crate::protocol::{DecodeError, Delta};

/// Parses a document.
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

    /// Present, and empty.
    pub(crate) fn is_empty_string(&self) -> bool {
        self.get() == Some("")
    }

    /// Content on this channel, where there is any.
    pub(crate) fn emit(&self, channel: Channel, out: &mut Delta) {
        out.text(channel, self.get().unwrap_or_default());
    }
}

/// A whole, non-negative number, also where a server writes `4.0`; anything else is absent.
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

/// Any JSON value, as far as a scalar or a list's length is wanted of it.
enum Any<'a> {
    Text(Cow<'a, str>),
    Number(f64),
    List(usize),
    Nothing,
}

struct AnyVisitor;

impl<'de> Visitor<'de> for AnyVisitor {
    type Value = Any<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Any<'de>, E> {
        Ok(Any::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Any<'de>, E> {
        Ok(Any::Text(Cow::Owned(text.to_owned())))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Any<'de>, E> {
        Ok(Any::Number(number as f64))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Any<'de>, E> {
        Ok(Any::Number(number as f64))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Any<'de>, E> {
        Ok(Any::Number(number))
    }

    fn visit_bool<E>(self, _: bool) -> Result<Any<'de>, E> {
        Ok(Any::Nothing)
    }

    fn visit_unit<E>(self) -> Result<Any<'de>, E> {
        Ok(Any::Nothing)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Any<'de>, A::Error> {
        let mut length = 0;
        while seq.next_element::<IgnoredAny>()?.is_some() {
            length += 1;
        }
        Ok(Any::List(length))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Any<'de>, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Any::Nothing)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let any = deserializer.deserialize_any(AnyVisitor)?;
        Ok(Self(match any {
            Any::Text(text) => Some(text),
            _ => None,
        }))
    }
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let any = deserializer.deserialize_any(AnyVisitor)?;
        Ok(Self(match any {
            Any::Number(number) => Some(number),
            _ => None,
        }))
    }
}

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = Number::deserialize(deserializer)?.0;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "in the range where f64 holds whole numbers exactly"
        )]
        let whole = number
            .filter(|n| (0.0..9e15).contains(n) && n.fract() < f64::EPSILON)
            .map(|n| n.round() as u64);
        Ok(Self(whole))
    }
}

impl<'de> Deserialize<'de> for Length {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let any = deserializer.deserialize_any(AnyVisitor)?;
        Ok(Self(match any {
            Any::List(length) => Some(length),
            _ => None,
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

struct TextOrListVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for TextOrListVisitor<T> {
    type Value = TextOrList<'de, T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text or a list")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(TextOrList {
            text: Text(Some(Cow::Borrowed(text))),
            list: Vec::new(),
        })
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(TextOrList {
            text: Text(Some(Cow::Owned(text.to_owned()))),
            list: Vec::new(),
        })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = seq.next_element()? {
            list.push(item);
        }
        Ok(TextOrList {
            text: Text::default(),
            list,
        })
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        AnyVisitor.visit_map(map).map(|_| TextOrList::default())
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
        Ok(TextOrList::default())
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
        Ok(TextOrList::default())
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
        Ok(TextOrList::default())
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
        Ok(TextOrList::default())
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(TextOrList::default())
    }
}

impl<'de: 'a, 'a, T: Deserialize<'de>> Deserialize<'de> for TextOrList<'a, T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextOrListVisitor(PhantomData))
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for List<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self(TextOrList::deserialize(deserializer)?.list))
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
    Some(message.chars().take(CHARS).collect())
}

/// The most telling text of an error member.
fn error_message(value: &serde_json::Value) -> Option<String> {
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

// JSON pointers (RFC 6901), followed through a document without building it.

/// A path such as `/choices/0/delta/content`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pointer(Vec<String>);

impl Pointer {
    /// `None` if `text` is no pointer. The empty one is the whole document.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        if text.is_empty() {
            return Some(Self(Vec::new()));
        }
        let steps = text.strip_prefix('/')?.split('/');
        let unescape = |step: &str| step.replace("~1", "/").replace("~0", "~");
        Some(Self(steps.map(unescape).collect()))
    }

    /// What the path leads to in `json`; `None` where it leads nowhere.
    pub(crate) fn find<'a>(
        &self,
        json: &'a [u8],
    ) -> Result<Option<&'a RawValue>, serde_json::Error> {
        let mut reader = serde_json::Deserializer::from_slice(json);
        let found = Walk(&self.0).deserialize(&mut reader)?;
        reader.end()?;
        Ok(found)
    }
}

/// One step at a time.
struct Walk<'p>(&'p [String]);

impl<'de> DeserializeSeed<'de> for Walk<'_> {
    type Value = Option<&'de RawValue>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        if self.0.is_empty() {
            return <&RawValue as Deserialize>::deserialize(deserializer).map(Some);
        }
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Walk<'_> {
    type Value = Option<&'de RawValue>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let (step, rest) = self
            .0
            .split_first()
            .ok_or_else(|| A::Error::custom("no step"))?;
        let mut found = None;
        while let Some(key) = map.next_key::<Text<'_>>()? {
            if key.get() == Some(step) {
                found = map.next_value_seed(Walk(rest))?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(found)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let (step, rest) = self
            .0
            .split_first()
            .ok_or_else(|| A::Error::custom("no step"))?;
        let index: Option<usize> = step.parse().ok();
        let mut found = None;
        let mut at = 0;
        loop {
            if Some(at) == index {
                match seq.next_element_seed(Walk(rest))? {
                    Some(value) => found = value,
                    None => return Ok(found),
                }
            } else if seq.next_element::<IgnoredAny>()?.is_none() {
                return Ok(found);
            }
            at += 1;
        }
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
        Ok(None)
    }
    fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
        Ok(None)
    }
    fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
        Ok(None)
    }
    fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
        Ok(None)
    }
    fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> {
        Ok(None)
    }
    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Default, serde::Deserialize)]
    #[serde(default)]
    struct All<'a> {
        #[serde(borrow)]
        text: Text<'a>,
        count: Count,
        number: Number,
        length: Length,
        list: List<Count>,
        error: ErrorField,
    }

    #[test]
    fn a_plain_string_is_borrowed_and_an_escaped_one_is_not_lost() {
        let plain: All<'_> = parse(br#"{"text":"abc"}"#).unwrap();
        assert!(matches!(plain.text, Text(Some(Cow::Borrowed("abc")))));
        let escaped: All<'_> = parse(br#"{"text":"a\nb"}"#).unwrap();
        assert_eq!(escaped.text.get(), Some("a\nb"));
    }

    #[test]
    fn a_value_of_another_type_is_absent_and_costs_nothing_else() {
        for odd in [
            "null",
            "true",
            "-7",
            "1.5",
            "\"x\"",
            "[1,[2]]",
            "{\"a\":{\"b\":1}}",
        ] {
            let json = format!(
                r#"{{"count":{odd},"length":{odd},"list":{odd},"number":{odd},"text":{odd},"error":null}}"#
            );
            if odd == "[1,[2]]" {
                assert!(parse::<All<'_>>(json.as_bytes()).unwrap().length.0 == Some(2));
                continue;
            }
            let all: All<'_> = parse(json.as_bytes()).unwrap();
            assert_eq!(all.text.get().is_some(), odd == "\"x\"", "{odd}");
            assert_eq!(all.number.0.is_some(), matches!(odd, "-7" | "1.5"), "{odd}");
            assert_eq!(all.count.0, None, "{odd}");
            assert_eq!((all.length.0, all.list.0.len()), (None, 0), "{odd}");
            assert_eq!(all.error, ErrorField(None), "{odd}");
        }
    }

    #[test]
    fn counts_may_be_written_as_floats_but_not_below_zero() {
        for (json, count) in [
            ("4", Some(4)),
            ("4.0", Some(4)),
            ("-1", None),
            ("1e300", None),
        ] {
            let json = format!(r#"{{"count":{json}}}"#);
            assert_eq!(parse::<All<'_>>(json.as_bytes()).unwrap().count.0, count);
        }
    }

    #[test]
    fn an_error_is_told_by_its_message_whatever_its_form() {
        for (json, message) in [
            (r#""no""#, Some("no")),
            (r#"{"message":"no","code":1}"#, Some("no")),
            (r#"{"code":1}"#, Some(r#"{"code":1}"#)),
            ("500", Some("500")),
            ("true", Some("true")),
            ("null", None),
            ("false", None),
            (r#""""#, None),
        ] {
            let json = format!(r#"{{"error":{json}}}"#);
            assert_eq!(
                parse::<All<'_>>(json.as_bytes())
                    .unwrap()
                    .error
                    .0
                    .as_deref(),
                message
            );
        }
    }

    fn found(pointer: &str, json: &str) -> Option<String> {
        let pointer = Pointer::parse(pointer).unwrap();
        pointer
            .find(json.as_bytes())
            .unwrap()
            .map(|raw| raw.get().to_owned())
    }

    #[test]
    fn a_pointer_leads_where_rfc_6901_says() {
        let json =
            r#"{"foo":["bar","baz"],"":0,"a/b":1,"m~n":8,"é\"x":9,"n":{"0":[{"k":[1,{}]}]}}"#;
        for (pointer, value) in [
            ("/foo", r#"["bar","baz"]"#),
            ("/foo/0", r#""bar""#),
            ("/", "0"),
            ("/a~1b", "1"),
            ("/m~0n", "8"),
            ("/é\"x", "9"),
            ("/n/0/0/k/1", "{}"),
            ("", json),
        ] {
            assert_eq!(found(pointer, json).as_deref(), Some(value), "{pointer}");
        }
        for nowhere in [
            "/no",
            "/foo/2",
            "/foo/bar",
            "/foo/0/x",
            "/n/0/0/k/1/x",
            "/foo/-",
        ] {
            assert_eq!(found(nowhere, json), None, "{nowhere}");
        }
    }

    #[test]
    fn what_is_no_pointer_or_no_json_is_refused() {
        assert_eq!(Pointer::parse("foo/0"), None);
        let pointer = Pointer::parse("/a").unwrap();
        for json in ["", "{", r#"{"a":1"#, r#"{"a":1} x"#, r#"{"a":}"#] {
            assert!(pointer.find(json.as_bytes()).is_err(), "{json}");
        }
    }
}
