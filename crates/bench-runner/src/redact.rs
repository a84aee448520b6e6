//! Taking secrets out of texts that will be stored or shown.

use bench_schema::{Outcome, Reading, RequestRecord};

use crate::config::Settings;

/// Shorter texts are words, which would be found everywhere.
const SHORTEST: usize = 6;

/// The keys that a run sends. Servers like to say them back ("incorrect API key: sk-…"), and what they say is kept and shown.
#[derive(Clone, Default)]
pub(crate) struct Secrets(Vec<String>);

impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} secrets", self.0.len())
    }
}

impl Secrets {
    /// The key, and the values of headers whose names say that they hold one, with and without `Bearer` before them.
    pub(crate) fn of(settings: &Settings) -> Self {
        let credentials = &settings.credentials;
        let key = credentials
            .api_key
            .iter()
            .map(|key| key.expose().to_owned());
        let headers = &settings.target.header;
        let headers = headers
            .iter()
            .filter(|header| holds_a_key(&header.name))
            .map(|header| header.value.expose().to_owned());
        let urls = settings.target.urls();
        let proxy = urls
            .iter()
            .filter_map(|url| crate::config::proxy_to(settings, url).ok()?)
            .filter_map(|proxy| Some(proxy.authorization()?.expose().to_owned()));
        let prometheus = credentials.prometheus.iter();
        let prometheus = prometheus.map(|told| told.expose().to_owned());
        let whole: Vec<String> = key.chain(headers).chain(proxy).chain(prometheus).collect();
        let bare = whole
            .iter()
            .filter_map(|text| text.rsplit_once(' '))
            .map(|(_, bare)| bare.to_owned());
        let mut all: Vec<String> = whole
            .iter()
            .cloned()
            .chain(bare)
            .filter(|text| text.len() >= SHORTEST)
            .collect();
        // the longest first, or the rest of it would stay
        all.sort_by_key(|text| std::cmp::Reverse(text.len()));
        Self(all)
    }

    /// `text` without them.
    pub(crate) fn hide(&self, text: &mut String) {
        for secret in &self.0 {
            if text.contains(secret.as_str()) {
                *text = text.replace(secret.as_str(), "***");
            }
        }
    }

    /// The texts of a record that come from the server.
    pub(crate) fn hide_in(&self, record: &mut RequestRecord) {
        if self.0.is_empty() {
            return;
        }
        if let Outcome::Failed { message, .. } | Outcome::Truncated { message } =
            &mut record.wire.outcome
        {
            self.hide(message);
        }
        let told = [&mut record.wire.text, &mut record.wire.finish_reason];
        told.into_iter().flatten().for_each(|text| self.hide(text));
    }

    /// The texts of a reading that come from a page.
    pub(crate) fn hide_in_reading(&self, reading: &mut Reading) {
        for why in reading.unknown.values_mut() {
            self.hide(why);
        }
    }
}

fn holds_a_key(header: &str) -> bool {
    let header = header.to_ascii_lowercase();
    ["auth", "key", "token", "secret", "cookie", "password"]
        .iter()
        .any(|word| header.contains(word))
}

#[cfg(test)]
mod tests {
    use bench_schema::Benchmark;

    use super::*;

    #[test]
    fn keys_are_taken_out_of_what_a_server_says_back() {
        let settings = crate::config::for_tests(
            Benchmark::Throughput,
            &[
                "--header",
                "Authorization: Bearer sk-abcdef-long",
                "--header",
                "X-Api-Key: sk-abcdef",
                "--header",
                "x-fault: status-500",
            ],
        );
        let secrets = Secrets::of(&settings);
        let mut said = "status-500: sk-abcdef-long is no key, nor is sk-abcdef".to_owned();
        secrets.hide(&mut said);
        assert_eq!(said, "status-500: *** is no key, nor is ***");
        assert_eq!(format!("{secrets:?}"), "3 secrets");
        let settings = format!("{settings:?}");
        assert!(!settings.contains("sk-abcdef"), "{settings}");
    }
}
