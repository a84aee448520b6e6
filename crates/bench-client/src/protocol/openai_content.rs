//! A chat's `content`: a string, or a list of parts (Mistral, and servers that think in parts).

use std::borrow::Cow;
use std::fmt;

use bench_schema::Channel;
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::Delta;
use super::json::{List, Text};

/// Absent, `null` and anything else that is neither a string nor a list are empty.
#[derive(Debug, Default)]
pub(crate) struct Content<'a> {
    pub(crate) text: Text<'a>,
    pub(crate) parts: Vec<Part<'a>>,
}

/// `{"type": "text", "text": …}` or `{"type": "thinking", "thinking": [parts]}`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Part<'a> {
    #[serde(borrow)]
    text: Text<'a>,
    #[serde(borrow)]
    thinking: List<Part<'a>>,
}

impl Part<'_> {
    pub(crate) fn tell(&self, channel: Channel, out: &mut Delta) {
        out.text(channel, self.text.get().unwrap_or_default());
        for thought in &self.thinking.0 {
            thought.tell(Channel::Reasoning, out);
        }
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Content<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ContentVisitor)
    }
}

struct ContentVisitor;

impl<'de> Visitor<'de> for ContentVisitor {
    type Value = Content<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text or a list of parts")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Content {
            text: Text::from(Cow::Borrowed(text)),
            parts: Vec::new(),
        })
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Content {
            text: Text::from(Cow::Owned(text.to_owned())),
            parts: Vec::new(),
        })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut parts = Vec::new();
        while let Some(part) = seq.next_element()? {
            parts.push(part);
        }
        Ok(Content {
            text: Text::default(),
            parts,
        })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Content::default())
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Content::default())
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
        Ok(Content::default())
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
        Ok(Content::default())
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
        Ok(Content::default())
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
        Ok(Content::default())
    }
}
