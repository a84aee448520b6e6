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
mod tests {
    use super::*;

    fn page(at: i64, values: &[(&str, f64)], unknown: &[(&str, &str)]) -> Reading {
        Reading {
            from: Stamp::new(at),
            to: Stamp::new(at),
            source: ReadingSource::ServerMetrics,
            instance: "http://h".to_owned(),
            values: values.iter().map(|&(n, v)| (n.to_owned(), v)).collect(),
            unknown: unknown
                .iter()
                .map(|&(n, w)| (n.to_owned(), w.to_owned()))
                .collect(),
        }
    }

    fn window(from: i64, to: i64) -> [Window; 1] {
        [Window {
            from: Stamp::new(from),
            to: Stamp::new(to),
        }]
    }

    #[test]
    fn a_page_is_unknown_in_the_windows_in_which_it_failed_and_not_in_those_after() {
        let mut history = History::default();
        let failed = ("scrape_failures_total", 1.0);
        history.push(&page(
            0,
            &[("scrape_failures_total", 0.0), ("page_bytes", 9.0)],
            &[],
        ));
        history.push(&page(10, &[failed], &[("page", "no answer")]));
        for at in [20, 30, 40] {
            history.push(&page(at, &[failed, ("page_bytes", 9.0)], &[]));
        }
        let said = |from, to| history.unknown_in(&window(from, to));
        assert_eq!(said(0, 15)["server_metrics/http://h/page"], "no answer");
        assert!(said(0, 5).is_empty(), "not known yet");
        assert!(said(20, 40).is_empty(), "all is well again");
    }

    #[test]
    fn the_reason_is_the_one_that_held_then() {
        let mut history = History::default();
        history.push(&page(10, &[], &[("page", "no answer")]));
        history.push(&page(30, &[], &[("page", "refused")]));
        let said = |to| history.unknown_in(&window(0, to)).into_values().next();
        assert_eq!(said(20).as_deref(), Some("no answer"));
        assert_eq!(said(40).as_deref(), Some("refused"));
        assert_eq!(history.unknown_in(&[]), BTreeMap::new());
    }
}
