//! What [`Settings`] says of its keys, for those who look a key up by its name.

use bench_schema::Benchmark;
use clap::builder::{Resettable, ValueParser};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgAction, Args, Command};

use crate::Settings;

/// The keys that not all benchmarks take.
const ONLY: &[(&[Benchmark], &[&str])] = &[
    (&[Benchmark::Latency], &["prompts", "prompt_tokens"]),
    (
        &[Benchmark::Throughput],
        &[
            "rate",
            "arrival",
            "in_flight_cap",
            "find_capacity",
            "closed",
            "attain",
            "budget",
        ],
    ),
    (&[Benchmark::Seqlen], &["categories", "grid"]),
    (
        &[Benchmark::Throughput, Benchmark::Seqlen],
        &[
            "dataset",
            "input_tokens",
            "bad_lines",
            "cycle",
            "concurrency",
            "think_time",
            "ramp_up",
            "requests",
            "duration",
            "precision",
        ],
    ),
];

pub(crate) fn takers(key: &str) -> &'static [Benchmark] {
    let named = ONLY.iter().find(|(_, keys)| keys.contains(&key));
    named.map_or(
        &[Benchmark::Latency, Benchmark::Throughput, Benchmark::Seqlen],
        |(benchmarks, _)| benchmarks,
    )
}

/// How a key is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// `true` or `false`; on the command line `--name` or `--no-name`.
    Switch,
    One,
    /// Several values: an array in the file, commas on the command line.
    List,
    /// Several values that may contain commas: an array (or a table of `key = value`) in the file, the flag repeated on the
    /// command line.
    Repeat,
}

/// How this key is written.
pub(crate) fn shape(key: &Arg) -> Shape {
    match key.get_action() {
        ArgAction::Append if key.get_value_delimiter().is_some() => Shape::List,
        ArgAction::Append => Shape::Repeat,
        _ if key.get_value_parser().type_id() == std::any::TypeId::of::<bool>() => Shape::Switch,
        _ => Shape::One,
    }
}

/// Whether a switch is on unless it is turned off.
pub(crate) fn is_on(key: &Arg) -> bool {
    key.get_default_values().iter().any(|text| text == "true")
}

/// The flag of a key, without its dashes: a switch that is on has the one that turns it off.
pub(crate) fn flag(key: &Arg) -> String {
    let name = key.get_id().as_str().replace('_', "-");
    if shape(key) == Shape::Switch && is_on(key) {
        format!("no-{name}")
    } else {
        name
    }
}

/// The variable of the environment that gives a key.
pub(crate) fn variable(key: &str) -> String {
    format!("BENCH_{}", key.to_ascii_uppercase())
}

/// What the doc comment of a key says.
pub(crate) fn help(key: &Arg) -> String {
    key.get_help().map(ToString::to_string).unwrap_or_default()
}

/// The default, as it would be written in a file's text.
pub(crate) fn default(key: &Arg) -> Option<String> {
    let texts = key.get_default_values().iter();
    let texts: Vec<_> = texts.map(|text| text.to_string_lossy()).collect();
    (!texts.is_empty()).then(|| texts.join(","))
}

/// What the value of a key looks like.
pub(crate) fn metavar(key: &Arg) -> String {
    let names = key.get_value_names().unwrap_or_default();
    names.first().map(ToString::to_string).unwrap_or_default()
}

/// Every key with its parser: `--key=TEXT` for all of them, switches too.
pub(crate) fn typed() -> Command {
    let keys = Settings::augment_args(Command::new("keys").disable_help_flag(true));
    keys.mut_args(|key| {
        // flags are named as their keys, with dashes
        let name = key.get_id().as_str().replace('_', "-");
        let key = key.long(name);
        if shape(&key) != Shape::Switch {
            return key;
        }
        let on = is_on(&key);
        key.action(ArgAction::Set)
            .num_args(1)
            .default_value(if on { "true" } else { "false" })
    })
}

/// The command line for people. It only tells flags apart: what their texts mean is for `typed`, which reads those of the file too.
pub fn command(benchmark: Benchmark, about: &'static str) -> Command {
    let config = Arg::new("config")
        .long("config")
        .value_name("FILE")
        .value_parser(clap::value_parser!(std::path::PathBuf))
        .help("TOML file with any of the keys below; flags and environment variables override it");
    let keys = typed();
    let taken = keys.get_arguments();
    let taken = taken.filter(|key| takers(key.get_id().as_str()).contains(&benchmark));
    Command::new(format!("bench-{benchmark}"))
        .version(env!("CARGO_PKG_VERSION"))
        .about(about)
        .arg(config)
        .args(taken.map(for_people))
        .after_help(AFTER_HELP)
}

const AFTER_HELP: &str = "\
Environment: each flag also has a variable: BENCH_URL for --url, BENCH_THINK_TIME for --think-time. Flags override the environment, and the \
environment overrides the file. Lists are split at commas; repeatable flags (--header, --tag, …) at line ends. A switch is true or false, under the name \
without no-: BENCH_STREAM=false for --no-stream. An empty variable is ignored.

Exit codes: 0 done; 1 the run failed; 2 invalid usage or configuration; 3 done, but the numbers should \
not be trusted; 4 done, and a target or objective was missed; 5 ended early by Ctrl-C, SIGTERM, SIGHUP or q on the live screen; what was measured is kept.";

fn for_people(key: &Arg) -> Arg {
    let said = help(key);
    let shown = match (shape(key), default(key)) {
        (Shape::Switch, _) if is_on(key) => format!("Do not {}", lower(&said)),
        (Shape::Switch, _) | (_, None) => said,
        (_, Some(value)) => format!("{said} [default: {value}]"),
    };
    let bare = key
        .clone()
        .long(flag(key))
        .help(shown)
        .value_parser(ValueParser::string())
        .default_value(Resettable::Reset)
        .value_delimiter(Resettable::Reset);
    match shape(key) {
        Shape::Switch => bare
            .value_parser(ValueParser::bool())
            .num_args(0)
            .action(ArgAction::SetTrue),
        // a negative number is a value; any other word with a dash is the next flag: `--tokenizer --out DIR` lacks a value
        Shape::One => bare.allow_negative_numbers(true),
        // also several words behind one flag: `--goodput ttft:200 tpot:50`
        Shape::List | Shape::Repeat => bare.num_args(1..),
    }
}

/// Flags of `vllm bench serve` and SGLang's `bench_serving` that have no counterpart of one word, and what to write; more in
/// `docs/coming-from.md`.
const ELSEWHERE: &str = include_str!("keys/elsewhere.txt");

/// A usage error; where a flag of another tool is meant, what to write instead.
pub(crate) fn explained(error: clap::Error, command: &mut Command) -> clap::Error {
    let named = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(flag)) => flag.split('=').next().unwrap_or_default(),
        _ => return error,
    };
    let mut known = ELSEWHERE.lines().filter_map(|line| line.split_once(": "));
    match known.find(|(flag, _)| *flag == named) {
        Some((flag, instead)) if error.kind() == ErrorKind::UnknownArgument => command.error(
            ErrorKind::UnknownArgument,
            format!("{flag} is another tool's flag; {instead} (docs/coming-from.md)"),
        ),
        _ => error,
    }
}

/// A sentence that goes on from another.
pub(crate) fn lower(sentence: &str) -> String {
    let mut letters = sentence.chars();
    let acronym = letters.clone().nth(1).is_some_and(char::is_uppercase);
    match letters.next() {
        Some(first) if !acronym => first.to_lowercase().chain(letters).collect(),
        _ => sentence.to_owned(),
    }
}

/// The known name that is closest to a misspelt one, if any is close.
pub(crate) fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let wanted = name.replace('-', "_");
    let scored = known.map(|key| (strsim::levenshtein(&wanted, key), key));
    scored
        .min()
        .filter(|&(distance, _)| distance <= 2 + wanted.len() / 6)
        .map(|(_, name)| name)
}

#[cfg(test)]
#[path = "../tests/unit/keys.rs"]
mod tests;
