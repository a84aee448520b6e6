//! Writes a request's JSON straight into its buffer, with the user's extra keys merged over it.

use serde::Serialize;
use serde_json::{Map, Value};

/// A JSON object under construction. A key that the extra object has is written by the extra object, unless both are objects:
/// those are merged.
pub(crate) struct Object<'a> {
    out: Vec<u8>,
    extra: Option<&'a Map<String, Value>>,
    /// Extra keys that were merged into a nested object, and are done.
    merged: Vec<&'static str>,
}

impl<'a> Object<'a> {
    /// An object with `extra` over it, and room for `bytes`.
    pub(crate) fn new(extra: Option<&'a Map<String, Value>>, bytes: usize) -> Self {
        let mut out = Vec::with_capacity(bytes);
        out.push(b'{');
        Self {
            out,
            extra,
            merged: Vec::new(),
        }
    }

    /// A member.
    pub(crate) fn set<T: Serialize + ?Sized>(&mut self, key: &'static str, value: &T) {
        if self.extra.is_some_and(|extra| extra.contains_key(key)) {
            return;
        }
        self.write(key, value);
    }

    /// A member, where there is a value.
    pub(crate) fn set_some<T: Serialize>(&mut self, key: &'static str, value: Option<T>) {
        if let Some(value) = value {
            self.set(key, &value);
        }
    }

    /// A member, where it has a name and a value.
    pub(crate) fn set_named<T: Serialize>(&mut self, key: Option<&'static str>, value: Option<T>) {
        if let Some(key) = key {
            self.set_some(key, value);
        }
    }

    /// A nested object.
    pub(crate) fn nest(&mut self, key: &'static str, fill: impl FnOnce(&mut Object<'_>)) {
        let inner = match self.extra.and_then(|extra| extra.get(key)) {
            Some(Value::Object(inner)) => Some(inner),
            Some(_) => return,
            None => None,
        };
        let mut nested = Object::new(inner, 256);
        fill(&mut nested);
        let bytes = nested.finish();
        self.member(key, |out| {
            out.extend_from_slice(&bytes);
            Ok(())
        });
        self.merged.push(key);
    }

    /// The object's bytes.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        for (key, value) in self.extra.into_iter().flatten() {
            if !self.merged.contains(&key.as_str()) {
                self.write(key, value);
            }
        }
        self.out.push(b'}');
        self.out
    }

    fn write<T: Serialize + ?Sized>(&mut self, key: &str, value: &T) {
        self.member(key, |out| serde_json::to_writer(out, value));
    }

    /// A key and what `write` puts behind it. Writing into memory fails only for a map whose keys are no strings, and none is
    /// passed here; the member would then be left out.
    fn member(&mut self, key: &str, write: impl FnOnce(&mut Vec<u8>) -> serde_json::Result<()>) {
        let before = self.out.len();
        if before > 1 {
            self.out.push(b',');
        }
        let written = serde_json::to_writer(&mut self.out, key).and_then(|()| {
            self.out.push(b':');
            write(&mut self.out)
        });
        if written.is_err() {
            self.out.truncate(before);
        }
    }
}
