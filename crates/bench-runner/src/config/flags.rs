//! The command line, made from the table of keys.

use std::ffi::OsString;
use std::path::PathBuf;

use bench_schema::Benchmark;
use clap::{Arg, ArgAction, ArgMatches, Command};

use super::entries::{Entries, Entry, Place, split};
use super::keys::{KEYS, Key, Shape};

/// What the command line said.
#[derive(Debug)]
pub struct Flags {
    /// The configuration file.
    pub config: Option<PathBuf>,
    /// Every key that was given as a flag.
    pub entries: Entries,
}

/// Parse the command line of `benchmark`.
///
/// # Errors
/// clap's own: usage errors, and the pseudo-errors that print help and version.
pub fn parse(
    benchmark: Benchmark,
    about: &'static str,
    args: impl IntoIterator<Item = OsString>,
) -> Result<Flags, clap::Error> {
    // What is on unless turned off may be asked for all the same, as in `vllm bench serve --ignore-eos`: over a file that turns it off.
    let positive = |arg: &OsString| {
        let name = arg.to_str()?.strip_prefix("--")?;
        taken_by(benchmark).find(|key| key.flag().strip_prefix("no-") == Some(name))
    };
    let (asked, args): (Vec<OsString>, Vec<OsString>) =
        args.into_iter().partition(|arg| positive(arg).is_some());
    let turned_on = asked.iter().filter_map(positive).map(|key| {
        let texts = vec![true.to_string()];
        let place = Place::Flag(key.name.replace('_', "-"));
        (key.name, Entry { texts, place })
    });
    let matches = command(benchmark, about).try_get_matches_from(args)?;
    let given = taken_by(benchmark).filter_map(|key| Some((key.name, entry(key, &matches)?)));
    let entries = turned_on.chain(given).collect();
    Ok(Flags {
        config: matches.get_one::<PathBuf>("config").cloned(),
        entries,
    })
}

fn taken_by(benchmark: Benchmark) -> impl Iterator<Item = &'static Key> {
    KEYS.iter()
        .filter(move |key| key.benchmarks.contains(&benchmark))
}

fn command(benchmark: Benchmark, about: &'static str) -> Command {
    let name = match benchmark {
        Benchmark::Latency => "bench-latency",
        Benchmark::Throughput => "bench-throughput",
        Benchmark::Seqlen => "bench-seqlen",
    };
    let config = Arg::new("config")
        .long("config")
        .value_name("FILE")
        .value_parser(clap::value_parser!(PathBuf))
        .help("TOML file with any of the keys below; flags win over it");
    let base = Command::new(name)
        .version(env!("CARGO_PKG_VERSION"))
        .about(about)
        .arg(config)
        .after_help(AFTER_HELP);
    taken_by(benchmark).fold(base, |command, key| command.arg(argument(key)))
}

const AFTER_HELP: &str = "Exit codes: 0 done; 1 the run failed; 2 wrong usage or configuration; 3 done, but the numbers should \
not be trusted; 4 done, and a target or objective was missed. Ctrl-C ends a run early and keeps what it has.";

fn argument(key: &'static Key) -> Arg {
    let default = key.default.filter(|_| key.shape != Shape::Switch);
    let help = default.map_or_else(
        || key.help.to_owned(),
        |value| format!("{} [default: {value}]", key.help),
    );
    let help = if key.flag().starts_with("no-") {
        format!("do not: {help}")
    } else {
        help
    };
    let arg = Arg::new(key.name)
        .long(key.flag())
        .help(help)
        .help_heading(key.group)
        .aliases(key.aliases.iter().copied());
    match key.shape {
        Shape::Switch => arg.action(ArgAction::SetTrue),
        Shape::One => arg
            .value_name(key.metavar)
            .action(ArgAction::Set)
            .allow_hyphen_values(true),
        Shape::List | Shape::Repeat => arg.value_name(key.metavar).action(ArgAction::Append),
    }
}

fn entry(key: &Key, matches: &ArgMatches) -> Option<Entry> {
    let place = Place::Flag(key.flag());
    if key.shape == Shape::Switch {
        let turned_on = key.default != Some("true");
        return matches.get_flag(key.name).then(|| Entry {
            texts: vec![turned_on.to_string()],
            place,
        });
    }
    let given: Vec<String> = matches.get_many::<String>(key.name)?.cloned().collect();
    let texts = if key.shape == Shape::List {
        given.iter().flat_map(|text| split(text)).collect()
    } else {
        given
    };
    Some(Entry { texts, place })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(args: &[&str]) -> Flags {
        let args = std::iter::once("bench-throughput")
            .chain(args.iter().copied())
            .map(OsString::from);
        parse(Benchmark::Throughput, "", args).unwrap()
    }

    #[test]
    fn every_benchmark_has_a_command_line_without_contradictions() {
        for benchmark in [Benchmark::Latency, Benchmark::Throughput, Benchmark::Seqlen] {
            command(benchmark, "").debug_assert();
        }
    }

    #[test]
    fn what_is_on_by_default_can_be_asked_for_and_turned_off() {
        let texts = |args: &[&str]| parsed(args).entries["ignore_eos"].texts.clone();
        assert_eq!(texts(&["--ignore-eos"]), ["true"]);
        assert_eq!(texts(&["--no-ignore-eos"]), ["false"]);
        assert_eq!(texts(&["--ignore-eos", "--no-ignore-eos"]), ["false"]);
        let unknown = ["b", "--such-flag"].map(OsString::from);
        assert!(parse(Benchmark::Throughput, "", unknown).is_err());
    }

    #[test]
    fn the_words_of_vllm_bench_serve_are_understood() {
        let flags = parsed(&[
            "--base-url",
            "http://x",
            "--request-rate",
            "1,2",
            "--num-prompts",
            "9",
            "--goodput",
            "ttft=1s",
        ]);
        assert_eq!(flags.entries["url"].texts, ["http://x"]);
        assert_eq!(flags.entries["rate"].texts, ["1", "2"]);
        assert_eq!(flags.entries["requests"].texts, ["9"]);
        assert_eq!(flags.entries["slo"].texts, ["ttft=1s"]);
    }

    #[test]
    fn a_switch_that_is_on_by_default_is_turned_off_by_its_negation() {
        let flags = parsed(&["--no-progress", "--quick"]);
        assert_eq!(flags.entries["progress"].texts, ["false"]);
        assert_eq!(flags.entries["quick"].texts, ["true"]);
    }

    #[test]
    fn tags_are_not_split_at_commas() {
        assert_eq!(
            parsed(&["--tag", "a=1,2", "--tag", "b=3"]).entries["tag"].texts,
            ["a=1,2", "b=3"]
        );
    }
}
