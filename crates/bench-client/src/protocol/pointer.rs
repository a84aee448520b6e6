//! JSON pointers (RFC 6901), followed through a document without building it.

use std::fmt;

use serde::de::{
    DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor,
};
use serde_json::value::RawValue;

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
            return <&RawValue as serde::Deserialize>::deserialize(deserializer).map(Some);
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
        while let Some(key) = map.next_key::<super::json::Text<'_>>()? {
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
