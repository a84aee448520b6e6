//! Typed reads of the given keys, which collect every problem instead of stopping at the first.

use super::entries::{Entries, Entry, Place, Problem, split};
use super::keys::{self, Shape};

/// Reads keys, flags before file before default.
#[derive(Debug)]
pub struct Reader {
    entries: Entries,
    problems: Vec<Problem>,
}

impl Reader {
    /// A reader over entries whose own problems are already known.
    pub fn new(entries: Entries, problems: Vec<Problem>) -> Self {
        Self { entries, problems }
    }

    /// Whether someone gave this key (a default is not given).
    pub fn given(&self, name: &str) -> bool {
        self.entries.contains_key(name)
    }

    /// The entry as given or by default.
    fn entry(&self, name: &str) -> Option<Entry> {
        if let Some(entry) = self.entries.get(name) {
            return Some(entry.clone());
        }
        let key = keys::find(name)?;
        let text = key.default?;
        let texts = if key.shape == Shape::List {
            split(text)
        } else {
            vec![text.to_owned()]
        };
        Some(Entry {
            texts,
            place: Place::Default,
        })
    }

    /// A single value.
    pub fn one<T>(
        &mut self,
        name: &'static str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Option<T> {
        let entry = self.entry(name)?;
        let text = match entry.texts.as_slice() {
            [text] => text.clone(),
            several => several.join(","),
        };
        match parse(&text) {
            Ok(value) => Some(value),
            Err(message) => {
                self.complain_at(entry.place, name, message);
                None
            }
        }
    }

    /// A list; empty where it was not given.
    pub fn list<T>(
        &mut self,
        name: &'static str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Vec<T> {
        let Some(entry) = self.entry(name) else {
            return Vec::new();
        };
        let mut values = Vec::with_capacity(entry.texts.len());
        for text in &entry.texts {
            match parse(text) {
                Ok(value) => values.push(value),
                Err(message) => self.complain_at(entry.place.clone(), name, message),
            }
        }
        values
    }

    /// A text.
    pub fn text(&mut self, name: &'static str) -> Option<String> {
        self.one(name, |text| Ok(text.to_owned()))
    }

    /// A switch; false where it has no default and was not given.
    pub fn switch(&mut self, name: &'static str) -> bool {
        self.one(name, |text| Ok(text == "true")).unwrap_or(false)
    }

    /// Something is wrong with a key, by itself or beside another.
    pub fn complain(&mut self, name: &str, message: impl Into<String>, help: Option<String>) {
        let place = self
            .entries
            .get(name)
            .map_or(Place::Default, |entry| entry.place.clone());
        self.problems.push(Problem {
            place,
            key: name.to_owned(),
            message: message.into(),
            help,
        });
    }

    fn complain_at(&mut self, place: Place, name: &str, message: String) {
        let help = keys::find(name).map(|key| key.help.to_owned());
        self.problems.push(Problem {
            place,
            key: name.to_owned(),
            message,
            help,
        });
    }

    /// Whether nothing is wrong so far.
    pub fn is_clean(&self) -> bool {
        self.problems.is_empty()
    }

    /// Everything that was wrong, in the order of the file.
    pub fn into_problems(mut self) -> Vec<Problem> {
        self.problems.sort_by_key(|problem| match &problem.place {
            Place::Line(_, line) => *line,
            Place::Flag(_) => usize::MAX - 1,
            Place::Default => usize::MAX,
        });
        self.problems
    }
}
