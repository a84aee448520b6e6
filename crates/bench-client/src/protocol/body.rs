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

    /// A member that is only said when it is true.
    pub(crate) fn set_true(&mut self, key: &'static str, value: bool) {
        if value {
            self.set(key, &true);
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
        self.key(key);
        self.out.extend_from_slice(&bytes);
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
        let before = self.out.len();
        self.key(key);
        if serde_json::to_writer(&mut self.out, value).is_err() {
            // Only a map with keys that are no strings could fail, and none is passed here.
            self.out.truncate(before);
        }
    }

    fn key(&mut self, key: &str) {
        if self.out.len() > 1 {
            self.out.push(b',');
        }
        self.out
            .extend_from_slice(Value::from(key).to_string().as_bytes());
        self.out.push(b':');
    }
}
