//! From keys to [`Settings`]: every value parsed, every contradiction named.

mod check;
mod load;
mod objectives;
mod running;
mod target;
mod workload;

use std::path::PathBuf;

use bench_schema::Benchmark;
use serde_json::Value;

use super::entries::Problem;
use super::keys::KEYS;
use super::parse;
use super::reader::Reader;
use super::settings::Settings;

/// What may be asked of the surroundings: environment variables and files that hold keys.
pub trait Surroundings {
    /// The environment variable of this name.
    fn variable(&self, name: &str) -> Option<String>;
    /// The text of a file.
    ///
    /// # Errors
    /// Why it cannot be read.
    fn read(&self, file: &std::path::Path) -> Result<String, String>;
}

/// Build the settings.
///
/// # Errors
/// Every problem there is, at once.
pub fn build(
    benchmark: Benchmark,
    mut reader: Reader,
    around: &dyn Surroundings,
) -> Result<Settings, Vec<Problem>> {
    let r = &mut reader;
    let limits = running::limits(r);
    let parts = (
        target::target(r, around),
        workload::workload(r, benchmark),
        load::load(r),
        running::client(r),
        objectives::objectives(r, around),
        running::machines(r, around),
        running::output(r),
    );
    let engine = r.text("engine");
    let quick = r.switch("quick");
    let seed = r
        .one("seed", |text| parse::whole(text, 0, u64::MAX))
        .unwrap_or(0);
    check::cross_check(r, benchmark, parts.1.as_ref(), parts.2.as_ref());
    let effective = effective(r, benchmark);
    match (parts, limits, engine) {
        (
            (Some(target), Some(workload), Some(load), client, objectives, machines, Some(output)),
            Some(limits),
            Some(engine),
        ) if reader.is_clean() => Ok(Settings {
            benchmark,
            quick,
            seed,
            target,
            engine,
            workload,
            load,
            limits,
            client,
            objectives,
            machines,
            output,
            effective,
        }),
        _ => Err(reader.into_problems()),
    }
}

fn one_of(known: &'static [&'static str]) -> impl Fn(&str) -> Result<String, String> {
    move |text| {
        if known.contains(&text) {
            Ok(text.to_owned())
        } else {
            Err(format!(
                "must be one of {} (got `{text}`)",
                known.join(", ")
            ))
        }
    }
}

/// What the environment's variable holds whose name `key` has.
fn variable(r: &mut Reader, key: &'static str, around: &dyn Surroundings) -> Option<String> {
    r.one(key, |name| {
        let value = around.variable(name).filter(|value| !value.is_empty());
        value.ok_or_else(|| format!("the environment has no variable `{name}`, or it is empty"))
    })
}

fn path(text: &str) -> Result<PathBuf, String> {
    if text.is_empty() {
        Err("must name a file".to_owned())
    } else {
        Ok(PathBuf::from(text))
    }
}

/// Every key that this benchmark takes with the text it has, given or by default; header values are left out.
fn effective(r: &mut Reader, benchmark: Benchmark) -> Value {
    let keys = KEYS
        .iter()
        .filter(|key| key.benchmarks.contains(&benchmark));
    let shown = keys.filter_map(|key| {
        let texts = r.list(key.name, |text| Ok(redacted(key.name, text)));
        let value = match texts.as_slice() {
            [] => return None,
            [text] => Value::from(text.as_str()),
            several => Value::from(several.to_vec()),
        };
        Some((key.name.to_owned(), value))
    });
    Value::Object(shown.collect())
}

fn redacted(key: &str, text: &str) -> String {
    match key {
        "header" => text.split_once(':').map_or_else(
            || "***".to_owned(),
            |(name, _)| format!("{}: ***", name.trim()),
        ),
        "url" | "server_metrics" | "dcgm" | "prometheus" => crate::redact::url(text),
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use bench_schema::Nanos;
    use bench_workload::Study;

    use super::*;
    use crate::config::{Entries, from_toml};

    struct Nothing;
    impl Surroundings for Nothing {
        fn variable(&self, name: &str) -> Option<String> {
            match name {
                "KEY" => Some("sk-secret".to_owned()),
                "TOKEN" => Some("Basic cHJvbTpwYXNz".to_owned()),
                "http_proxy" => Some("http://me:hunter2@proxy:3128".to_owned()),
                "no_proxy" => Some("near".to_owned()),
                _ => None,
            }
        }
        fn read(&self, file: &std::path::Path) -> Result<String, String> {
            Err(format!("cannot read {}", file.display()))
        }
    }

    fn built(text: &str) -> Result<Settings, Vec<String>> {
        let (entries, problems) =
            from_toml(text, std::path::Path::new("x.toml"), Benchmark::Throughput);
        build(
            Benchmark::Throughput,
            Reader::new(entries, problems),
            &Nothing,
        )
        .map_err(|problems| problems.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn defaults_alone_are_valid() {
        let settings = build(
            Benchmark::Latency,
            Reader::new(Entries::new(), Vec::new()),
            &Nothing,
        )
        .unwrap();
        assert_eq!(
            settings.workload.prompts,
            [Study::Short, Study::Medium, Study::Long]
        );
        assert_eq!(settings.limits.whole, Nanos::from_secs(120));
    }

    #[test]
    fn all_problems_come_at_once_with_file_line_key_bound_and_help() {
        let problems =
            built("rate = [0]\nwarmup = \"soon\"\nconcurrency = 0\nspeed = 1\n").unwrap_err();
        insta::assert_snapshot!(problems.join("\n"));
    }

    #[test]
    fn a_proxy_that_is_asked_for_has_to_be_there() {
        let none = built("proxy = true\nurl = \"http://near:1\"\n").unwrap_err();
        assert!(
            none.join("\n").contains("names no proxy for the server"),
            "{none:?}"
        );
        let two = built("proxy = true\nurl = [\"http://near:1\", \"http://far\"]\n").unwrap_err();
        assert!(two.join("\n").contains("different proxies"), "{two:?}");
        assert!(
            built("url = \"http://far\"\n")
                .unwrap()
                .target
                .proxy
                .is_none()
        );
    }

    #[test]
    fn a_prometheus_server_is_asked_for_gpus_unless_it_is_asked_for_something_else() {
        let asked = |more: &str| {
            let text = format!("prometheus = \"http://prom:9090\"\n{more}");
            built(&text).unwrap().machines.prometheus.unwrap()
        };
        assert_eq!(asked("").gpus.as_deref(), Some(""));
        let query = "prometheus_query = [\"kv_cache_share=max(a)\"]\n";
        assert_eq!(asked(query).gpus, None);
        let chosen = asked(&format!("{query}prometheus_gpus = 'Hostname=\"a\"'\n"));
        assert_eq!(chosen.gpus.as_deref(), Some("Hostname=\"a\""));
        let kv_cache = ("kv_cache_share".to_owned(), "max(a)".to_owned());
        assert_eq!(chosen.queries, [kv_cache]);
        let told = asked("prometheus_token_env = \"KEY\"\n");
        assert_eq!(told.gpus.as_deref(), Some(""));
        for lonely in ["prometheus_gpus = \"a\"\n", query] {
            let problems = built(lonely).unwrap_err().join("\n");
            assert!(problems.contains("no Prometheus server"), "{problems}");
        }
    }

    #[test]
    fn pages_have_to_be_addresses_and_none_is_a_word_for_no_page() {
        let pages = |text: &str| built(text).map(|settings| settings.machines.server_metrics);
        assert_eq!(pages("").unwrap(), None);
        let none = pages("server_metrics = \"none\"\n");
        assert_eq!(none.unwrap(), Some(Vec::new()));
        let two = pages("server_metrics = [\"http://a/metrics?x=1\", \"http://b/metrics\"]\n");
        assert_eq!(two.unwrap().unwrap().len(), 2);
        for key in ["server_metrics", "dcgm", "prometheus"] {
            let problems = built(&format!("{key} = \"node-7:9400\"\n")).unwrap_err();
            let said = problems.join("\n");
            assert!(said.contains(key) && said.contains("no scheme"), "{said}");
        }
    }

    #[test]
    fn no_secret_reaches_the_stored_configuration() {
        let settings = built("prometheus = \"http://p\"\nprometheus_token_env = \"TOKEN\"\nproxy = true\napi_key_env = \"KEY\"\nurl = \"http://h:1\"\n[header]\nAuthorization = \"Bearer sk-x\"\n").unwrap();
        let stored = settings.effective.to_string() + &format!("{settings:?}");
        for secret in [
            "sk-secret",
            "sk-x",
            "hunter2",
            "bWU6aHVudGVyMg",
            "cHJvbTpwYXNz",
        ] {
            assert!(!stored.contains(secret), "{stored}");
        }
    }
}
