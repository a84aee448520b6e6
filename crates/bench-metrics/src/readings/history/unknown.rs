//! What could not be read, and whether it still could not be in a given window.

use std::collections::BTreeMap;

use bench_schema::{Reading, ReadingSource, Stamp, Window};

use super::{History, Point};

/// Reasons by source, instance and name, each with the moments at which they were given.
#[derive(Clone, Debug, Default)]
pub(super) struct Reasons(BTreeMap<(ReadingSource, String, String), Vec<(Stamp, String)>>);

impl Reasons {
    pub(super) fn note(&mut self, reading: &Reading, at: Stamp) {
        for (name, why) in &reading.unknown {
            let key = (reading.source, reading.instance.clone(), name.clone());
            self.0.entry(key).or_default().push((at, why.clone()));
        }
    }
}

impl History {
    /// What was not known within `windows`, with the last reason given until their end, by `source/instance/name`.
    ///
    /// A reason is given once, so that one from before the windows still holds, unless the value has been read within them.
    pub(crate) fn unknown_in(&self, windows: &[Window]) -> BTreeMap<String, String> {
        let Some(end) = windows.iter().map(|window| window.to).max() else {
            return BTreeMap::new();
        };
        self.unknown
            .0
            .iter()
            .filter(|((source, instance, name), _)| {
                !self.recovered(*source, instance, name, windows)
            })
            .filter_map(|((source, instance, name), reasons)| {
                let (_, why) = reasons.iter().rfind(|(at, _)| *at <= end)?;
                let parts = [source.as_str(), instance, name];
                let shown: Vec<&str> = parts.into_iter().filter(|p| !p.is_empty()).collect();
                Some((shown.join("/"), why.clone()))
            })
            .collect()
    }

    fn recovered(
        &self,
        source: ReadingSource,
        instance: &str,
        name: &str,
        windows: &[Window],
    ) -> bool {
        let read =
            |instance: &str, name: &str| any_within(self.points(source, instance, name), windows);
        match name {
            // A page that came is no longer missing, if every one came.
            "page" => {
                let failures = self.increase(source, instance, "scrape_failures_total", windows);
                read(instance, "page_bytes") && failures.is_none_or(|f| f.amount <= 0.0)
            }
            // A process that was found is another instance of its source.
            "process" => self
                .instances(source, "memory_resident_bytes")
                .any(|found| read(found, "memory_resident_bytes")),
            _ => read(instance, name),
        }
    }
}

fn any_within(points: &[Point], windows: &[Window]) -> bool {
    windows.iter().any(|window| {
        let first = super::first_from(points, window.from);
        points.get(first).is_some_and(|point| point.at <= window.to)
    })
}

#[cfg(test)]
#[path = "../../../tests/unit/readings_history_unknown.rs"]
mod tests;
