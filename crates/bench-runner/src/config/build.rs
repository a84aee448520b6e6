//! From keys to [`Settings`]: every value parsed, every contradiction named.

use std::path::PathBuf;

use bench_insight::ScenarioSet;
use bench_schema::{ArrivalKind, Benchmark, Sampling, Secret};
use bench_workload::{DatasetSpec, LengthCategory, LengthSpec, Study};
use serde_json::{Map, Value};

use super::entries::{Problem, split};
use super::keys::KEYS;
use super::parse;
use super::reader::Reader;
use super::settings::{
    Amount, ClientSettings, Connections, LimitSettings, LoadSettings, MachineSettings,
    ObjectiveSettings, OutputSettings, Settings, Stdout, TargetSettings, WorkloadSettings,
};

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
    let limits = limits(r);
    let parts = (
        target(r, around),
        workload(r, benchmark),
        load(r),
        client(r),
        objectives(r, around),
        machines(r),
        output(r),
    );
    let engine = r.text("engine");
    let quick = r.switch("quick");
    let seed = r
        .one("seed", |text| parse::whole(text, 0, u64::MAX))
        .unwrap_or(0);
    cross_check(r, benchmark, parts.1.as_ref(), parts.2.as_ref());
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

fn path(text: &str) -> Result<PathBuf, String> {
    if text.is_empty() {
        Err("must name a file".to_owned())
    } else {
        Ok(PathBuf::from(text))
    }
}

fn target(r: &mut Reader, around: &dyn Surroundings) -> Option<TargetSettings> {
    let api_key = api_key(r, around);
    let headers = r.list("header", |text| {
        bench_client::Target::parse_header(text).map_err(|error| error.to_string())
    });
    let connections = r.one("connections", |text| match text {
        "reuse" => Ok(Connections::Reuse),
        "per-request" => Ok(Connections::PerRequest),
        "prewarm" => Ok(Connections::Prewarm),
        other => Err(format!(
            "must be reuse, per-request or prewarm (got `{other}`)"
        )),
    });
    Some(TargetSettings {
        urls: r.list("url", |text| {
            bench_client::Endpoint::parse(text)
                .map(|_| text.trim_end_matches('/').to_owned())
                .map_err(|error| error.to_string())
        }),
        api: r.one("api", |text| {
            bench_client::protocol_by_name(text)
                .map(|_| text.to_owned())
                .map_err(|error| error.to_string())
        })?,
        model: r.text("model"),
        stream: r.switch("stream"),
        continuous_usage: r.switch("continuous_usage"),
        headers,
        api_key,
        ca: r.one("ca", path),
        client_cert: r.one("client_cert", path),
        client_key: r.one("client_key", path),
        insecure: r.switch("insecure"),
        http2: r.switch("http2"),
        connections: connections?,
        proxy: r.switch("proxy"),
        wait: r.one("wait", parse::duration)?,
    })
}

fn api_key(r: &mut Reader, around: &dyn Surroundings) -> Option<Secret> {
    if r.given("api_key_env") && r.given("api_key_file") {
        r.complain(
            "api_key_file",
            "the key comes from a variable or from a file, not from both",
            Some("take one of the two out".into()),
        );
    }
    let from_variable = r.one("api_key_env", |name| {
        around
            .variable(name)
            .filter(|value| !value.is_empty())
            .ok_or_else(|| format!("the environment has no variable `{name}`, or it is empty"))
    });
    let from_file = r.one("api_key_file", |file| {
        around.read(std::path::Path::new(file))
    });
    from_variable
        .or(from_file)
        .map(|key| Secret::new(key.trim()))
}

fn workload(r: &mut Reader, benchmark: Benchmark) -> Option<WorkloadSettings> {
    let grid = r.switch("grid");
    let output_is_grid = benchmark == Benchmark::Latency || grid;
    let length = |text: &str| {
        text.parse::<LengthSpec>()
            .map_err(|error| error.to_string())
    };
    let tokens = |text: &str| {
        split(text)
            .iter()
            .map(|part| parse::whole(part, 1, 10_000_000))
            .collect::<Result<Vec<u32>, _>>()
    };
    Some(WorkloadSettings {
        dataset: r.one("dataset", |text| {
            text.parse::<DatasetSpec>()
                .map_err(|error| error.to_string())
        }),
        prompts: r.list("prompts", study),
        prompt_tokens: r.list("prompt_tokens", |text| parse::whole(text, 1, 10_000_000)),
        input: if grid {
            None
        } else {
            r.one("input_tokens", length)
        },
        output: if output_is_grid {
            None
        } else {
            r.one("output_tokens", length)
        },
        input_grid: if grid {
            r.one("input_tokens", tokens).unwrap_or_default()
        } else {
            Vec::new()
        },
        output_grid: if output_is_grid {
            r.one("output_tokens", tokens).unwrap_or_default()
        } else {
            Vec::new()
        },
        categories: r.list("categories", |text| {
            text.parse::<LengthCategory>()
                .map_err(|error| error.to_string())
        }),
        grid,
        tokenizer: r.one("tokenizer", path),
        skip_bad_lines: r.one("bad_lines", one_of(&["stop", "skip"]))? == "skip",
        ignore_eos: r.switch("ignore_eos"),
        min_tokens: r.one("min_tokens", |text| parse::whole(text, 0, 10_000_000)),
        sampling: Sampling {
            temperature: r.one("temperature", |text| parse::number(text, 0.0, 100.0)),
            top_p: r.one("top_p", |text| parse::number(text, 0.0, 1.0)),
            top_k: r.one("top_k", |text| parse::whole(text, -1, 1_000_000)),
            ..Sampling::default()
        },
        extra_body: r.one("extra_body", |text| {
            serde_json::from_str::<Map<String, Value>>(text)
                .map_err(|error| format!("must be a JSON object: {error}"))
        }),
        keep_text: r.switch("keep_text"),
    })
}

fn study(text: &str) -> Result<Study, String> {
    let known = [Study::Short, Study::Medium, Study::Long];
    known
        .into_iter()
        .find(|study| study.name() == text)
        .ok_or_else(|| format!("must be short, medium or long (got `{text}`)"))
}

fn load(r: &mut Reader) -> Option<LoadSettings> {
    Some(LoadSettings {
        concurrency: r.list("concurrency", |text| parse::whole(text, 1, 1_000_000)),
        rate: r.list("rate", parse::rate),
        arrival: r.one("arrival", arrival)?,
        think_time: r.one("think_time", parse::duration),
        in_flight_cap: r.one("in_flight_cap", |text| parse::whole(text, 1, 10_000_000)),
        requests: r.one("requests", |text| parse::whole(text, 1, 1_000_000_000)),
        duration: r.one("duration", parse::positive_duration),
        precision: r.list("precision", |text| {
            text.parse::<bench_metrics::Precision>()
                .map(|_| text.to_owned())
                .map_err(|error| error.to_string())
        }),
        warmup: r.one("warmup", amount)?,
        repeat: r.one("repeat", |text| parse::whole(text, 1, 1_000_000)),
        cooldown: r.one("cooldown", parse::duration)?,
        cancel_after: r.one("cancel_after", amount),
    })
}

fn amount(text: &str) -> Result<Amount, String> {
    match text.trim().parse::<u64>() {
        Ok(count) => Ok(Amount::Count(count)),
        Err(_) => parse::duration(text)
            .map(Amount::Time)
            .map_err(|_| format!("must be a number or a duration such as 5s (got `{text}`)")),
    }
}

/// `poisson`, `constant`, `gamma:COV`, … as in `docs/workloads.md`.
fn arrival(text: &str) -> Result<ArrivalKind, String> {
    let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
    let parts: Vec<&str> = rest.split(':').filter(|part| !part.is_empty()).collect();
    let known = "poisson, constant, gamma:COV, burst:SIZE, ramp:FROM:TO, steps:A:B:…, series:FILE, trace, trace:SPEED or users:N:EVERY";
    match (kind, parts.as_slice()) {
        ("poisson", []) => Ok(ArrivalKind::Poisson),
        ("constant", []) => Ok(ArrivalKind::Constant),
        ("gamma", [cov]) => Ok(ArrivalKind::Gamma {
            cov: parse::number(cov, 0.01, 100.0)?,
        }),
        ("burst", [size]) => Ok(ArrivalKind::Burst {
            size: parse::whole(size, 1, 1_000_000)?,
        }),
        ("ramp", [from, to]) => Ok(ArrivalKind::Ramp {
            from_per_s: parse::rate(from)?,
            to_per_s: parse::rate(to)?,
        }),
        ("steps", [_, ..]) => Ok(ArrivalKind::Steps {
            rates_per_s: parts
                .iter()
                .map(|part| parse::rate(part))
                .collect::<Result<_, _>>()?,
        }),
        ("series", [_, ..]) => Ok(ArrivalKind::Series {
            file: rest.to_owned(),
        }),
        ("trace", []) => Ok(ArrivalKind::Trace { speed: 1.0 }),
        ("trace", [speed]) => Ok(ArrivalKind::Trace {
            speed: parse::number(speed, 1e-3, 1e6)?,
        }),
        ("users", [users, every]) => Ok(ArrivalKind::Users {
            users: parse::whole(users, 1, 1_000_000)?,
            every: parse::positive_duration(every)?,
        }),
        _ => Err(format!("must be {known} (got `{text}`)")),
    }
}

fn limits(r: &mut Reader) -> Option<LimitSettings> {
    let whole = r.one("timeout", parse::positive_duration)?;
    Some(LimitSettings {
        whole,
        connect: r.one("connect_timeout", parse::positive_duration)?,
        first_token: r
            .one("first_token_timeout", parse::positive_duration)
            .unwrap_or(whole),
        between_tokens: r
            .one("token_timeout", parse::positive_duration)
            .unwrap_or(whole),
        deadline: r.one("deadline", parse::positive_duration),
        grace: r.one("grace", parse::duration)?,
    })
}

fn client(r: &mut Reader) -> ClientSettings {
    let shard = |text: &str| -> Result<(u32, u32), String> {
        let (index, count) = parse::pair(text, '/')
            .map_err(|_| format!("must be written I/N, such as 0/4 (got `{text}`)"))?;
        let count = parse::whole(&count, 1, 100_000)?;
        Ok((parse::whole(&index, 0, count - 1)?, count))
    };
    ClientSettings {
        workers: r.one("workers", |text| parse::whole(text, 1, 1024)),
        late_read: r.switch("late_read"),
        shard: r.one("shard", shard).unwrap_or((0, 1)),
        start_at: r.one("start_at", |text| {
            crate::wall_clock::parse_rfc3339(text).map(|_| text.to_owned())
        }),
    }
}

fn objectives(r: &mut Reader, around: &dyn Surroundings) -> ObjectiveSettings {
    ObjectiveSettings {
        slos: r.list("slo", bench_insight::parse_slo),
        scenarios: r
            .one("scenarios", |file| scenarios(file, around))
            .unwrap_or_default(),
        targets: r.list("target", |text| {
            bench_insight::Target::parse(text)
                .map(|_| text.to_owned())
                .map_err(|error| error.to_string())
        }),
        price_per_hour: r.one("price_per_hour", |text| parse::number(text, 0.0, 1e9)),
    }
}

fn scenarios(file: &str, around: &dyn Surroundings) -> Result<ScenarioSet, String> {
    let text = around.read(std::path::Path::new(file))?;
    let set: ScenarioSet = toml::from_str(&text)
        .map_err(|error| format!("{file} is not a file of scenarios: {error}"))?;
    set.check().map_err(|error| format!("{file}: {error}"))?;
    Ok(set)
}

fn machines(r: &mut Reader) -> MachineSettings {
    MachineSettings {
        server_metrics: r.text("server_metrics"),
        dcgm: r.text("dcgm"),
        prometheus: r.text("prometheus"),
        prometheus_queries: r.list("prometheus_query", |text| parse::pair(text, '=')),
        server_pid: r.one("server_pid", |text| parse::whole(text, 1, u32::MAX)),
        enabled: r.switch("hardware"),
        nvml: r.one("nvml", path),
    }
}

fn output(r: &mut Reader) -> Option<OutputSettings> {
    let stdout = r.one("output", |text| match text {
        "table" => Ok(Stdout::Table),
        "json" => Ok(Stdout::Json),
        "markdown" => Ok(Stdout::Markdown),
        other => Err(format!("must be table, json or markdown (got `{other}`)")),
    });
    Some(OutputSettings {
        out: r.one("out", path),
        tags: r.list("tag", |text| parse::pair(text, '=')),
        stdout: stdout?,
        html: r.switch("html"),
        progress: r.switch("progress"),
        quiet: r.switch("quiet"),
        dry_run: r.switch("dry_run"),
    })
}

/// Contradictions between keys that are each fine alone.
fn cross_check(
    r: &mut Reader,
    benchmark: Benchmark,
    workload: Option<&WorkloadSettings>,
    load: Option<&LoadSettings>,
) {
    if r.given("rate") && r.given("concurrency") {
        let help = "for an open loop with a cap in flight write `in_flight_cap`".to_owned();
        r.complain(
            "concurrency",
            "a cell is a closed loop (concurrency) or an open one (rate), not both",
            Some(help),
        );
    }
    for name in ["arrival", "in_flight_cap"] {
        if r.given(name)
            && !r.given("rate")
            && !load
                .as_ref()
                .is_some_and(|load| carries_its_rate(&load.arrival))
        {
            r.complain(
                name,
                "needs an open loop",
                Some("add `rate`, requests per second".to_owned()),
            );
        }
    }
    if r.given("think_time") && r.given("rate") {
        r.complain(
            "think_time",
            "belongs to a closed loop; an open one does not wait for answers",
            None,
        );
    }
    if r.given("client_cert") != r.given("client_key") {
        r.complain(
            "client_cert",
            "a client certificate and its key go together",
            Some("give client_cert and client_key".to_owned()),
        );
    }
    let grid_only = workload.is_some_and(|workload| workload.grid);
    if benchmark == Benchmark::Seqlen && grid_only && r.given("categories") {
        r.complain(
            "categories",
            "a grid has no categories",
            Some("take `grid` or `categories` out".to_owned()),
        );
    }
}

/// Arrival kinds that say themselves how fast.
pub(crate) fn carries_its_rate(arrival: &ArrivalKind) -> bool {
    matches!(
        arrival,
        ArrivalKind::Ramp { .. }
            | ArrivalKind::Steps { .. }
            | ArrivalKind::Series { .. }
            | ArrivalKind::Trace { .. }
            | ArrivalKind::Users { .. }
    )
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

    use super::*;
    use crate::config::{Entries, from_toml};

    struct Nothing;
    impl Surroundings for Nothing {
        fn variable(&self, name: &str) -> Option<String> {
            (name == "KEY").then(|| "sk-secret".to_owned())
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
    fn no_secret_reaches_the_stored_configuration() {
        let settings = built("api_key_env = \"KEY\"\nurl = \"http://h:1\"\n[header]\nAuthorization = \"Bearer sk-x\"\n").unwrap();
        let stored = settings.effective.to_string() + &format!("{settings:?}");
        for secret in ["sk-secret", "sk-x"] {
            assert!(!stored.contains(secret), "{stored}");
        }
    }
}
