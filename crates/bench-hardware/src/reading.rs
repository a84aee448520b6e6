//! Making one [`Reading`]: a window that is stamped last, values that are finite, reasons that are given once.

use std::collections::{BTreeMap, BTreeSet};

use bench_schema::{Reading, ReadingSource, Stamp};

use crate::names::Part;

/// One round of a source: how much is due, and where its readings go.
pub(crate) struct Round<'a> {
    pub(crate) now: &'a dyn Fn() -> Stamp,
    /// Whether what changes slowly, or costs more, is due too.
    pub(crate) whole: bool,
    pub(crate) named: &'a mut Named,
    pub(crate) emit: &'a mut dyn FnMut(Reading),
}

impl Round<'_> {
    /// Hands on a reading of a window, which is over when `fill` is where no end is given.
    pub(crate) fn hand_on(
        &mut self,
        source: ReadingSource,
        instance: &str,
        (from, to): (Stamp, Option<Stamp>),
        fill: impl FnOnce(&mut Draft<'_>),
    ) {
        let mut draft = Draft::new(source, instance, from, self.named);
        fill(&mut draft);
        let reading = draft.finish(to.unwrap_or_else(self.now));
        reading.into_iter().for_each(&mut *self.emit);
    }
}

/// A reading that is being made. The window is closed when everything has been read, so that it can lag but never lead.
pub(crate) struct Draft<'a> {
    reading: Reading,
    named: &'a mut Named,
}

impl<'a> Draft<'a> {
    pub(crate) fn new(
        source: ReadingSource,
        instance: &str,
        from: Stamp,
        named: &'a mut Named,
    ) -> Self {
        Self {
            reading: Reading {
                from,
                to: from,
                source,
                instance: instance.to_owned(),
                values: BTreeMap::new(),
                unknown: BTreeMap::new(),
            },
            named,
        }
    }

    /// Store a value; one that is not finite is named as unknown instead, because JSON has no word for it.
    pub(crate) fn set(&mut self, name: &str, value: f64) {
        if value.is_finite() {
            self.reading.values.insert(name.to_owned(), value);
        } else {
            self.unknown(name, format!("the source reported {value}"));
        }
    }

    /// Store what was read, or say why it was not.
    pub(crate) fn set_or_say(&mut self, name: &str, read: Result<f64, String>) {
        match read {
            Ok(value) => self.set(name, value),
            Err(why) => self.unknown(name, why),
        }
    }

    /// Store what was read together, or say of the first why it was not.
    pub(crate) fn set_all<const N: usize>(
        &mut self,
        names: [&str; N],
        read: Result<[Option<f64>; N], String>,
    ) {
        match read {
            Ok(values) => {
                let known = names.iter().zip(values);
                known.for_each(|(name, value)| value.into_iter().for_each(|v| self.set(name, v)));
            }
            Err(why) => names
                .iter()
                .take(1)
                .for_each(|name| self.unknown(name, why.as_str())),
        }
    }

    /// Store what samples say.
    pub(crate) fn take(&mut self, part: &Part) {
        for (name, value) in &part.values {
            self.set(name, *value);
        }
        for name in &part.blank {
            self.unknown(name, "the exporter has no value for it");
        }
    }

    /// Say why a value is missing, if this has not been said of this instance before.
    pub(crate) fn unknown(&mut self, name: &str, why: impl Into<String>) {
        let why = why.into();
        let Reading {
            source, instance, ..
        } = &self.reading;
        if self.named.is_news(*source, instance, name, &why) {
            self.reading.unknown.insert(name.to_owned(), why);
        }
    }

    /// The reading, or nothing where it would say nothing.
    pub(crate) fn finish(mut self, to: Stamp) -> Option<Reading> {
        self.reading.to = to;
        let says_something = !(self.reading.values.is_empty() && self.reading.unknown.is_empty());
        says_something.then_some(self.reading)
    }
}

/// What has been said to be unknown, so that it is said once and not ten times a second.
#[derive(Default)]
pub(crate) struct Named {
    said: BTreeMap<(ReadingSource, String, String), BTreeSet<String>>,
}

/// Reasons kept for one name. A server that fails in ever new words must not fill the disk.
const REASONS_PER_NAME: usize = 4;

impl Named {
    fn is_news(&mut self, of: ReadingSource, instance: &str, name: &str, why: &str) -> bool {
        let key = (of, instance.to_owned(), name.to_owned());
        let said = self.said.entry(key).or_default();
        said.len() < REASONS_PER_NAME && said.insert(why.to_owned())
    }
}

#[cfg(test)]
#[path = "../tests/unit/reading.rs"]
mod tests;
