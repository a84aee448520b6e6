//! JSON as servers write it: borrowed where possible, and lenient about what does not matter for timing.
//!
//! A key of another type than expected is taken as absent, never as a reason to lose the event that carries it.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use bench_schema::Channel;
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

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
    Some(message.chars().take(CHARS).collect())
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
}
