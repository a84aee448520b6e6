//! Every key there is: one table that makes the flags, reads the file, and documents both.

use bench_schema::Benchmark;

/// One configuration key: `name` in the file, `--name` (with dashes) on the command line.
#[derive(Debug)]
pub struct Key {
    /// Name in the TOML file.
    pub name: &'static str,
    /// What kind of value it takes.
    pub shape: Shape,
    /// What the value looks like, in `--help`.
    pub metavar: &'static str,
    /// Value when it is not given; `None` where absence means something of its own, told in `help`.
    pub default: Option<&'static str>,
    /// Other spellings of the flag: the words of `vllm bench serve`, where it has one.
    pub aliases: &'static [&'static str],
    /// Benchmarks that take it.
    pub benchmarks: &'static [Benchmark],
    /// Heading in `--help` and in `examples/configs/full.toml`.
    pub group: &'static str,
    /// One line for people.
    pub help: &'static str,
}

/// How a key is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// `true` or `false`; on the command line `--name` or `--no-name`.
    Switch,
    /// One value.
    One,
    /// Several values: an array in the file, commas on the command line.
    List,
    /// Several values that may contain commas: an array (or a table of `key = value`) in the file, the flag repeated on the
    /// command line.
    Repeat,
}

impl Key {
    /// The long flag, without its dashes.
    pub fn flag(&self) -> String {
        let dashed = self.name.replace('_', "-");
        if self.shape == Shape::Switch && self.default == Some("true") {
            format!("no-{dashed}")
        } else {
            dashed
        }
    }
}

const ALL: &[Benchmark] = &[Benchmark::Latency, Benchmark::Throughput, Benchmark::Seqlen];
const LATENCY: &[Benchmark] = &[Benchmark::Latency];
const THROUGHPUT: &[Benchmark] = &[Benchmark::Throughput];
const SEQLEN: &[Benchmark] = &[Benchmark::Seqlen];
const LOADED: &[Benchmark] = &[Benchmark::Throughput, Benchmark::Seqlen];

macro_rules! keys {
    ($($group:literal { $($name:literal $shape:ident $metavar:literal $default:expr, $aliases:expr, $for:ident, $help:literal;)* })*) => {
        /// The table of keys, in the order of the documentation.
        pub const KEYS: &[Key] = &[$($(Key {
            name: $name, shape: Shape::$shape, metavar: $metavar, default: $default, aliases: $aliases,
            benchmarks: $for, group: $group, help: $help,
        }),*),*];
    };
}

keys! {
    "Target" {
        "url" List "URL" None, &["base-url"], ALL, "server to measure, e.g. http://127.0.0.1:8000 or unix:///run/server.sock; several share the load in turn; without it the embedded engine is started on a free loopback port";
        "api" One "NAME" Some("openai-chat"), &["endpoint-type", "backend"], ALL, "protocol: openai-chat, openai-completions, and the others of docs/protocols.md; template:FILE for anything else";
        "model" One "NAME" None, &[], ALL, "model to ask for; default: the first that the server lists";
        "stream" Switch "" Some("true"), &[], ALL, "ask for streamed answers; without streaming only E2E is known";
        "continuous_usage" Switch "" Some("false"), &[], ALL, "ask for token counts in every event, where the server can";
        "header" Repeat "K: V" None, &[], ALL, "header to send with each request; its value is never stored";
        "api_key_env" One "NAME" None, &[], ALL, "environment variable that holds the API key; sent as a bearer token, never stored";
        "api_key_file" One "FILE" None, &[], ALL, "file that holds the API key";
        "ca" One "FILE" None, &[], ALL, "PEM file of certificates to trust instead of the system's";
        "client_cert" One "FILE" None, &[], ALL, "PEM file of the client certificate";
        "client_key" One "FILE" None, &[], ALL, "PEM file of its key";
        "insecure" Switch "" Some("false"), &[], ALL, "do not verify the server's certificate; the result says so";
        "http2" Switch "" Some("false"), &[], ALL, "speak HTTP/2";
        "connections" One "KIND" Some("reuse"), &[], ALL, "reuse | per-request | prewarm";
        "proxy" Switch "" Some("false"), &[], ALL, "go through the proxy that the environment names (http_proxy, https_proxy, all_proxy, no_proxy); user and password in its URL are sent to it and never stored";
        "wait" One "TIME" Some("0s"), &["ready-check-timeout-sec"], ALL, "wait this long for the server to be ready";
    }
    "Embedded engine" {
        "engine" One "PROFILE|FILE" Some("tiny"), &[], ALL, "what to start when there is no url: tiny (a real small transformer on the CPU), gpt2-124m, fixed, 7b, … or a TOML file; see docs/engine.md";
    }
    "Workload" {
        "dataset" One "SPEC" None, &["dataset-name"], LOADED, "default: mixed for bench-throughput, a spread over the categories for bench-seqlen; mixed | random | text | sharegpt:FILE | c4:FILE | jsonl:FILE | trace:FILE | prefix:… | …; see docs/workloads.md";
        "prompts" List "NAME" Some("short,medium,long"), &[], LATENCY, "named prompts of the latency grid: short (5 words), medium (19 words), long (106 words)";
        "prompt_tokens" List "N" None, &[], LATENCY, "prompt lengths of the latency grid, in tokens, instead of named prompts";
        "input_tokens" One "N|DIST" None, &["random-input-len", "input-len"], LOADED, "prompt length: 256, 128..512, normal:550:150, lognormal:5.0:1.0, …; for bench-seqlen --grid a list";
        "output_tokens" One "N|DIST|LIST" None, &["random-output-len", "output-len"], ALL, "output length, as input_tokens; for bench-latency and bench-seqlen --grid a list";
        "categories" List "NAME" Some("tiny,short,medium,long,very-long"), &[], SEQLEN, "categories of prompt plus answer: tiny (below 50 tokens), short (50 to 149), medium (150 to 299), long (300 to 499), very-long (500 and more)";
        "grid" Switch "" Some("false"), &[], SEQLEN, "measure a grid of input_tokens × output_tokens, one at a time, instead of a realistic spread";
        "tokenizer" One "PATH" None, &[], ALL, "tokenizer.json or its folder; without it prompts are sized by the server's /tokenize where it has one, else by words, and the result says which";
        "bad_lines" One "stop|skip" Some("stop"), &[], LOADED, "what to do at a line of a dataset that cannot be read";
        "salt" One "auto|never" Some("auto"), &[], ALL, "begin each prompt with a random word, so that the server's prefix cache cannot help by accident; `never` sends them as they stand in the dataset";
        "cycle" Switch "" Some("true"), &[], LOADED, "read a dataset's file again from its start when it ends before the cell does; without it the cell ends there";
        "ignore_eos" Switch "" Some("true"), &[], ALL, "ask the server to go on past end tokens, so that output lengths are as asked";
        "min_tokens" One "N" None, &[], ALL, "fewest output tokens, where the server takes it";
        "temperature" One "X" None, &[], ALL, "sampling temperature; default: the server's";
        "top_p" One "X" None, &[], ALL, "nucleus sampling; default: the server's";
        "top_k" One "N" None, &[], ALL, "top-k sampling; default: the server's";
        "extra_body" One "JSON" None, &[], ALL, "object merged into each request body, over everything else";
        "keep_text" Switch "" Some("false"), &[], ALL, "keep the first 2,000 characters of each answer in requests.jsonl";
        "seed" One "N" Some("0"), &[], ALL, "seed of every draw: prompts, lengths, arrivals, bootstrap";
    }
    "Load" {
        "concurrency" List "N|RAMP" None, &["max-concurrency"], LOADED, "closed loop: requests in flight, one cell each; ramp:FROM:TO or steps:A:B:… for a number that moves over the cell; default 1,2,4,8 for bench-throughput, 1 for bench-seqlen";
        "rate" List "PER_S" None, &["request-rate"], THROUGHPUT, "open loop: requests per second, one cell each";
        "arrival" One "KIND" Some("poisson"), &[], THROUGHPUT, "poisson | constant | gamma:COV | burst:SIZE | ramp:FROM:TO | steps:A:B:… | series:FILE | trace[:SPEED] | users:N:EVERY";
        "think_time" One "TIME" None, &[], LOADED, "closed loop: pause between an answer and the slot's next request";
        "in_flight_cap" One "N" None, &[], THROUGHPUT, "open loop: most requests in flight; beyond it they are recorded as unsent";
        "requests" One "N" None, &["num-prompts"], LOADED, "measured requests per cell; default 32 × concurrency and at least 100, fewer with --quick and on the embedded engine";
        "duration" One "TIME" None, &[], LOADED, "measured time per cell; with requests, the first reached ends it";
        "precision" List "SPEC" None, &[], LOADED, "end a cell when a quantile is known this well: p99:ttft=5%";
        "warmup" One "N|TIME" None, &["num-warmups"], ALL, "requests, or time, of the same load before each measurement, which follows without a pause; default: one for each slot and at least 2, in an open loop 2s";
        "warmup_drain" Switch "" Some("false"), &[], ALL, "let the warm-up end before the measurement begins, and warm an open loop by one request after the other";
        "ramp_up" One "TIME" None, &[], LOADED, "closed loop: spread the first requests of the slots over this time";
        "repeat" One "N" None, &["num-runs"], ALL, "repeats: of each request of the latency grid (default 15), of each cell elsewhere (default 1)";
        "cooldown" One "TIME" Some("0s"), &[], ALL, "pause between cells";
        "cancel_after" One "N|TIME" None, &[], ALL, "stop each answer after so many content events (`20`; one token each on most servers, docs/protocols.md), or so much time (`2s`)";
    }
    "Limits" {
        "timeout" One "TIME" Some("120s"), &[], ALL, "limit on a whole request";
        "connect_timeout" One "TIME" Some("10s"), &[], ALL, "limit on opening a connection";
        "first_token_timeout" One "TIME" None, &[], ALL, "limit on the first content event; default: that of the whole request";
        "token_timeout" One "TIME" None, &[], ALL, "limit between content events; default: that of the whole request";
        "deadline" One "TIME" None, &[], ALL, "end the whole run after this long, keeping what it has";
        "keep_going" Switch "" Some("false"), &[], ALL, "go on although the server refuses a first request, or a cell's first requests or half of all fail";
        "grace" One "TIME" Some("10s"), &[], ALL, "how long requests in flight may finish after an interruption";
    }
    "Client" {
        "workers" One "N" None, &[], ALL, "worker threads; default: one for each two CPUs, at most 8";
        "late_read" Switch "" Some("true"), &[], ALL, "with kernel stamps: read a little late and several streams at once, which saves CPU and costs no accuracy (docs/method.md)";
        "shard" One "I/N" None, &[], LOADED, "take part I (from 0) of N of the plan";
        "start_at" One "RFC3339" None, &[], ALL, "wait for this instant before the first cell, so that shards start together";
    }
    "Objectives" {
        "slo" List "LIST" None, &["goodput"], ALL, "objectives: ttft=200ms,itl=50ms,p99:e2e=2s,e2e=1.5s@short-qa; the quantile is p95 unless named";
        "scenarios" One "FILE" None, &[], ALL, "file of named sets of objectives";
        "target" List "LIST" None, &[], ALL, "gates: output_tokens_per_s>=20,failed==0; exit code 4 when one is missed";
        "price_per_hour" One "MONEY" None, &[], ALL, "what the server costs per hour, for the cost per million tokens";
    }
    "Machines" {
        "server_metrics" Repeat "URL" None, &[], ALL, "Prometheus text of the server, one page per replica; default: URL/metrics if it answers; `none` to leave it alone";
        "dcgm" Repeat "URL" None, &[], ALL, "page of the DCGM exporter on the server's host, one per host";
        "prometheus" One "URL" None, &[], ALL, "Prometheus server to ask: for the GPUs of the DCGM exporters that it scrapes, or for `prometheus_query`";
        "prometheus_token_env" One "NAME" None, &[], ALL, "environment variable with the bearer token for that server; one that begins with `Basic ` is sent as it is";
        "prometheus_gpus" One "MATCHERS" None, &[], ALL, "label matchers of the GPUs to ask it for: Hostname=\"gpu-1\",gpu=~\"0|1\"; default, without queries: all it knows";
        "prometheus_query" Repeat "NAME=QUERY" None, &[], ALL, "query for that Prometheus server; a NAME of docs/hardware.md (kv_cache_share, power_w, …) is used like one";
        "server_pid" One "PID" None, &[], ALL, "process of the server on this host; default: the one that listens on the url's port";
        "hardware" Switch "" Some("true"), &[], ALL, "sample this host, its GPUs and the server";
        "nvml" One "FILE" None, &[], ALL, "NVML library to load instead of the system's";
    }
    "Output" {
        "out" One "DIR" None, &["result-dir"], ALL, "run directory; default results/<UTC time>-<benchmark>";
        "tag" Repeat "K=V" None, &["metadata"], ALL, "metadata kept with the result: gpus=2, commit=…";
        "output" One "KIND" Some("table"), &[], ALL, "what stdout gets: table | json | markdown";
        "html" Switch "" Some("true"), &[], ALL, "write report.html";
        "progress" Switch "" Some("true"), &[], ALL, "show progress on stderr, where that is a terminal";
        "quiet" Switch "" Some("false"), &[], ALL, "one line of result, no progress";
        "quick" Switch "" Some("false"), &[], ALL, "a small version of the same design, for a first look";
        "dry_run" Switch "" Some("false"), &[], ALL, "print the plan and stop";
    }
}

/// The key of this name.
pub(super) fn find(name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.name == name)
}

/// The known name that is closest to a misspelt one, if any is close.
pub(super) fn nearest(name: &str) -> Option<&'static str> {
    let wanted = name.replace('-', "_");
    let scored = KEYS
        .iter()
        .map(|key| (edit_distance(&wanted, key.name), key.name));
    scored
        .min()
        .filter(|&(distance, _)| distance <= 2 + wanted.len() / 6)
        .map(|(_, name)| name)
}

/// Levenshtein distance in characters.
fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        for (cell, &cb) in row.iter_mut().skip(1).zip(&b) {
            let substituted = diagonal + usize::from(ca != cb);
            diagonal = *cell;
            left = substituted.min(left + 1).min(*cell + 1);
            *cell = left;
        }
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_flags_and_aliases_are_all_different() {
        let mut seen = std::collections::BTreeSet::new();
        for key in KEYS {
            assert!(seen.insert(key.flag()), "{} twice", key.flag());
            for alias in key.aliases {
                assert!(seen.insert((*alias).to_owned()), "{alias} twice");
            }
        }
    }

    #[test]
    fn a_misspelt_key_finds_its_neighbour() {
        assert_eq!(nearest("concurency"), Some("concurrency"));
        assert_eq!(nearest("request-rate"), None.or(nearest("request_rate")));
        assert_eq!(nearest("completely_different_thing"), None);
    }

    #[test]
    fn the_distance_is_levenshteins() {
        assert_eq!(edit_distance("kitten", "sitting"), 3);
        assert_eq!(edit_distance("", "abc"), 3);
        assert_eq!(edit_distance("same", "same"), 0);
    }
}
