//! Pages in the Prometheus text format: a server's, a DCGM exporter's.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bench_schema::{Nanos, ReadingSource, Stamp, is_counter};

use crate::exposition::Page;
use crate::names::{Facts, Part, Rule, canonical, dcgm_by_gpu, server_rules};
use crate::reading::{Draft, Round};
use crate::sampler::Source;

/// Fetches one page again and again.
pub(crate) struct ScrapeSource {
    /// Whose page it is: a server's, or a DCGM exporter's.
    source: ReadingSource,
    url: String,
    instance: String,
    fetch: Arc<dyn Fetch>,
    limits: FetchLimits,
    failures: u64,
    scrapes: u64,
    before: Option<Before>,
    facts: Facts,
    rules: Vec<Rule>,
}

/// The pages that could be read so far: when the first and the last were read, and which counters they had.
struct Before {
    first: (Stamp, Stamp),
    last: (Stamp, Stamp),
    counters: BTreeSet<(String, String)>,
}

impl ScrapeSource {
    pub(crate) fn new(
        source: ReadingSource,
        url: &str,
        fetch: Arc<dyn Fetch>,
        limits: FetchLimits,
    ) -> Self {
        Self {
            source,
            url: url.to_owned(),
            instance: without_credentials(url),
            fetch,
            limits,
            failures: 0,
            scrapes: 0,
            before: None,
            facts: Facts::default(),
            rules: server_rules(),
        }
    }

    /// The page, or why there is none.
    fn page(&self) -> Result<(Page, usize), String> {
        let body = self.fetch.get(&self.url, self.limits)?;
        let page = Page::parse(&body).map_err(|error| error.to_string())?;
        Ok((page, body.len()))
    }

    /// The parts of the page that are kept: of the whole server, or of each GPU.
    fn parts(&self, page: &Page) -> BTreeMap<String, Part> {
        if self.source == ReadingSource::Dcgm {
            let gpus = dcgm_by_gpu(&page.samples).into_iter();
            let named = gpus.map(|(gpu, part)| (format!("{} {gpu}", self.instance), part));
            return named.collect();
        }
        let part = Part {
            values: canonical(page, &self.rules),
            ..Part::default()
        };
        [(self.instance.clone(), part)].into()
    }
}

impl Source for ScrapeSource {
    fn source(&self) -> ReadingSource {
        self.source
    }

    fn cpu_elsewhere(&self) -> Nanos {
        self.fetch.take_cpu()
    }

    fn facts(&self) -> BTreeMap<String, String> {
        self.facts.known()
    }

    fn read(&mut self, round: &mut Round<'_>) {
        let from = (round.now)();
        let fetched = self.page();
        let to = (round.now)();
        self.scrapes += 1;
        self.failures += u64::from(fetched.is_err());
        let (source, window) = (self.source, (from, Some(to)));
        let mut parts = BTreeMap::new();
        if let Ok((page, _)) = &fetched {
            self.facts.learn(&page.samples);
            parts = self.parts(page);
        }
        round.hand_on(source, &self.instance, window, |about| {
            match &fetched {
                Ok((page, bytes)) => {
                    about.set("page_bytes", *bytes as f64);
                    about.set("page_samples", page.samples.len() as f64);
                    describe_faults(page, about);
                    if parts.values().all(|part| part.values.is_empty()) {
                        about.unknown("page", "none of its metrics is known to this program");
                    }
                }
                Err(why) => about.unknown("page", why.clone()),
            }
            about.set("scrape_s", (to - from).as_secs_f64());
            about.set("scrapes_total", self.scrapes as f64);
            about.set("scrape_failures_total", self.failures as f64);
        });
        if fetched.is_ok() && source == ReadingSource::ServerMetrics {
            self.first_events(&parts, (from, to), round);
        }
        for (instance, part) in &parts {
            round.hand_on(source, instance, window, |draft| draft.take(part));
        }
    }
}

impl ScrapeSource {
    /// Some servers show a counter from its first event on (SGLang's retractions): one that no page had until now stood at 0 until
    /// the last of them. That is stored before the page that has it, or its first events would be lost.
    ///
    /// Not so where no page had any counter, which is what one looks like while its server starts; nor for exporters, whose counters are
    /// the card's and as old as it.
    fn first_events(
        &mut self,
        parts: &BTreeMap<String, Part>,
        read: (Stamp, Stamp),
        round: &mut Round<'_>,
    ) {
        let mut counters = BTreeSet::new();
        for (instance, part) in parts {
            let shown = part.values.keys().filter(|name| is_counter(name));
            counters.extend(shown.map(|name| (instance.clone(), name.clone())));
        }
        let source = self.source;
        let Some(before) = self.before.as_mut().filter(|b| !b.counters.is_empty()) else {
            self.before = Some(Before {
                first: read,
                last: read,
                counters,
            });
            return;
        };
        let mut new: BTreeMap<&String, Vec<&String>> = BTreeMap::new();
        for (instance, name) in counters.difference(&before.counters) {
            new.entry(instance).or_default().push(name);
        }
        for (instance, names) in new {
            for (from, to) in [before.first, before.last] {
                round.hand_on(source, instance, (from, Some(to)), |draft| {
                    for name in &names {
                        draft.set(name, 0.0);
                    }
                });
            }
        }
        before.counters.append(&mut counters);
        before.last = read;
    }
}

fn describe_faults(page: &Page, draft: &mut Draft<'_>) {
    if let Some((line, why)) = &page.first_malformed {
        draft.set("page_malformed_lines", page.malformed as f64);
        draft.unknown("page_malformed_lines", format!("line {line}: {why}"));
    }
    if page.cut {
        draft.unknown("page_rest", "the page has more samples than the limit");
    }
}

/// The address without the user and password that it may hold: it goes into results.
pub(crate) fn without_credentials(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        return url.to_owned();
    };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let host = authority.rsplit_once('@').map_or(authority, |(_, h)| h);
    // A query may hold a token as well.
    let path = path.split(['?', '#']).next().unwrap_or_default();
    format!("{scheme}://{host}{path}")
}

// How pages are brought: the caller has an HTTP client, this crate has none.

/// Brings a page. Called on the sampler's threads, one call at a time per page, and may block.
pub trait Fetch: Send + Sync {
    /// The body of a successful (2xx) answer to `GET url`.
    ///
    /// # Errors
    /// What went wrong, in words that do not change from one failure to the next of the same kind, so that they are said once:
    /// no answer within `limits.timeout`, a status other than 2xx, a body of more than `limits.max_bytes`.
    fn get(&self, url: &str, limits: FetchLimits) -> Result<Vec<u8>, String>;

    /// CPU time that other threads than the callers' have spent on pages since this was last asked.
    fn take_cpu(&self) -> Nanos {
        Nanos::ZERO
    }
}

/// Bounds of one fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FetchLimits {
    /// From the first byte sent to the last received, connecting included.
    pub timeout: Duration,
    /// Largest body, in bytes.
    pub max_bytes: usize,
}

/// Fetches nothing: for runs that name no page.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoFetch;

impl Fetch for NoFetch {
    fn get(&self, _url: &str, _limits: FetchLimits) -> Result<Vec<u8>, String> {
        Err("this run has no HTTP client".to_owned())
    }
}

#[cfg(test)]
#[path = "../tests/unit/scrape.rs"]
mod tests;
