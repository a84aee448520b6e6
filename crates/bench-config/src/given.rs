//! From flags, environment and a file to [`Settings`]: every value by the parser of its field, every problem with its place.
//!
//! Whoever gives a value, it becomes the text that the command line would have: one set of parsers reads all of them.

mod checks;
mod sources;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use bench_schema::{Benchmark, Secret};
use clap::error::ErrorKind;
use clap::{Arg, ArgMatches, Command, FromArgMatches};
use serde_json::Value;

use crate::Settings;
use crate::keys::{self, Shape};
use crate::rank::{self, Rank};
use crate::vary::settings_of;
use sources::{from_environment, from_toml, split};

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A flag of the command line.
    Flag(String),
    /// A variable of the environment.
    Variable(String),
    /// A line of the configuration file.
    Line(PathBuf, usize),
    /// The default.
    Default,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(flag) => write!(f, "--{flag}"),
            Self::Variable(name) => f.write_str(name),
            Self::Line(file, line) => write!(f, "{}:{line}", file.display()),
            Self::Default => f.write_str("default"),
        }
    }
}

/// Something wrong with the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where.
    pub place: Place,
    /// The key; empty where the file as a whole is meant.
    pub key: String,
    /// What is wrong, with the bound and what was given.
    pub message: String,
    /// What to write instead.
    pub help: Option<String>,
}

impl Problem {
    fn new(place: Place, key: &str, message: impl Into<String>, help: Option<&str>) -> Self {
        Self {
            place,
            key: key.to_owned(),
            message: message.into(),
            help: help.map(str::to_owned),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.place)?;
        if !self.key.is_empty() {
            write!(f, ": key `{}`", self.key)?;
        }
        write!(f, ": {}", self.message)?;
        if let Some(help) = &self.help {
            write!(f, "\n  help: {help}")?;
        }
        Ok(())
    }
}

/// One key as given: its texts, and where they stand.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    texts: Vec<String>,
    place: Place,
}

type Entries = BTreeMap<String, Entry>;

/// What may be asked of the surroundings: environment variables and files that hold keys.
pub trait Surroundings {
    /// The environment variable of this name, whether or not it is text.
    fn variable(&self, name: &str) -> Option<OsString>;
    /// The names of all environment variables, to find those that were meant for a key; those that are not text may be left out.
    fn names(&self) -> Vec<String>;
    /// The text of a file.
    ///
    /// # Errors
    /// Why it cannot be read.
    fn read(&self, file: &Path) -> Result<String, String>;
}

/// What the command line said.
#[derive(Debug)]
pub struct Flags {
    config: Option<PathBuf>,
    entries: Entries,
}

impl Flags {
    /// The configuration file: the flag's, else the environment's.
    pub fn config(&self, around: &dyn Surroundings) -> Option<PathBuf> {
        let told = || around.variable(&keys::variable("config"));
        let says = |text: &OsString| text.to_str().is_none_or(|text| !text.trim().is_empty());
        let told = || told().filter(says).map(PathBuf::from);
        self.config.clone().or_else(told)
    }
}

/// Parse the command line of `benchmark`; what its values mean is looked at in [`Given::read`], together with those of the environment and the file.
///
/// # Errors
/// clap's own: usage errors, and the pseudo-errors that print help and version.
pub fn flags(
    benchmark: Benchmark,
    about: &'static str,
    args: impl IntoIterator<Item = OsString>,
) -> Result<Flags, clap::Error> {
    let mut command = keys::command(benchmark, about);
    let keys = keys::typed();
    let taken = |key: &&Arg| keys::takers(key.get_id().as_str()).contains(&benchmark);
    // What is on unless turned off may be asked for all the same, as in `vllm bench serve --ignore-eos`: over a file that turns it off.
    let positive = |arg: &OsString| {
        let name = arg.to_str()?.strip_prefix("--")?;
        let mut taken = keys.get_arguments().filter(taken);
        taken.find(|key| keys::flag(key).strip_prefix("no-") == Some(name))
    };
    let (asked, args): (Vec<OsString>, Vec<OsString>) =
        args.into_iter().partition(|arg| positive(arg).is_some());
    let turned_on = asked.iter().filter_map(positive).map(|key| {
        let place = Place::Flag(key.get_long().unwrap_or_default().to_owned());
        let texts = vec![true.to_string()];
        (key.get_id().to_string(), Entry { texts, place })
    });
    let matches = command
        .clone()
        .try_get_matches_from(args)
        .map_err(|error| keys::explained(error, &mut command))?;
    let given = keys.get_arguments().filter(taken).filter_map(|key| {
        let texts = flagged(key, &matches)?;
        let place = Place::Flag(keys::flag(key));
        Some((key.get_id().to_string(), Entry { texts, place }))
    });
    let mut entries: Entries = turned_on.chain(given).collect();
    // `--request-rate inf --max-concurrency 16`, as other tools have it, is the closed loop that the second says.
    let says = |key: &str, text: &str| entries.get(key).is_some_and(|entry| entry.texts == [text]);
    if says("rate", "inf") && entries.contains_key("concurrency") {
        entries.remove("rate");
    }
    Ok(Flags {
        config: matches.get_one::<PathBuf>("config").cloned(),
        entries,
    })
}

fn flagged(key: &Arg, matches: &ArgMatches) -> Option<Vec<String>> {
    let name = key.get_id().as_str();
    if keys::shape(key) == Shape::Switch {
        let turned_on = !keys::is_on(key);
        return matches.get_flag(name).then(|| vec![turned_on.to_string()]);
    }
    let given = matches.get_many::<String>(name)?;
    Some(match keys::shape(key) {
        Shape::List => given.flat_map(|text| split(text)).collect(),
        _ => given.cloned().collect(),
    })
}

/// What was given, read as far as it can be: what is wrong is collected, and more may be found wrong with it.
#[derive(Debug)]
pub struct Given {
    /// Every value that can be read; the default where one cannot.
    pub settings: Settings,
    entries: Entries,
    problems: Vec<Problem>,
    /// What the environment says of the shard, where it was asked.
    rank: Option<Rank>,
}

impl Given {
    /// Read a configuration: flags over the environment over the file (its name and text) over defaults, values held against each other, keys and scenarios as the
    /// surroundings have them.
    ///
    /// # Errors
    /// Only where not even the defaults can be read, which is a mistake in [`Settings`].
    pub fn read(
        benchmark: Benchmark,
        flags: Flags,
        file: Option<(&Path, &str)>,
        around: &dyn Surroundings,
    ) -> Result<Self, Vec<Problem>> {
        let mut command = keys::typed();
        let (mut entries, mut problems) = match file {
            Some((path, text)) => from_toml(text, path, benchmark, &command),
            None => (Entries::new(), Vec::new()),
        };
        let (told, unreadable) = from_environment(benchmark, &command, around);
        entries.extend(told);
        problems.extend(unreadable);
        entries.extend(flags.entries);
        let rank = shard_by_itself(&mut entries, &mut problems, around);
        let mut given = Self::crossed(benchmark, &mut command, entries, problems)?;
        given.rank = rank;
        given.ask(around);
        Ok(given)
    }

    /// Reads every combination of the factors' values as if it had been given alone. A problem of several combinations is reported once.
    fn crossed(
        benchmark: Benchmark,
        command: &mut Command,
        entries: Entries,
        problems: Vec<Problem>,
    ) -> Result<Self, Vec<Problem>> {
        let mut whole = Self::of(benchmark, command, entries, problems)?;
        if whole.settings.load.factor.is_empty() || !whole.check_factors(command) {
            whole.cross_check();
            return Ok(whole);
        }
        let (factors, place) = (
            whole.settings.load.factor.clone(),
            whole.entries.get("factor").map(|entry| entry.place.clone()),
        );
        let place = place.unwrap_or(Place::Default);
        let mut crossed = Vec::new();
        for values in settings_of(&factors, &[]) {
            let mut entries = whole.entries.clone();
            for (key, value) in &values {
                let texts = vec![value.clone()];
                let place = place.clone();
                entries.insert(key.clone(), Entry { texts, place });
            }
            let mut one = Self::of(benchmark, command, entries, Vec::new())?;
            one.cross_check();
            for problem in one.problems {
                if !whole.problems.contains(&problem) {
                    whole.problems.push(problem);
                }
            }
            crossed.push((values, one.settings));
        }
        whole.settings.load.crossed = crossed;
        Ok(whole)
    }

    /// Parse each text by itself, so that each problem is found, then all that are right together.
    fn of(
        benchmark: Benchmark,
        command: &mut Command,
        entries: Entries,
        mut problems: Vec<Problem>,
    ) -> Result<Self, Vec<Problem>> {
        let name = || OsString::from("keys");
        let mut right = vec![name()];
        for (key, entry) in &entries {
            for text in &entry.texts {
                let arg = OsString::from(format!("--{}={text}", key.replace('_', "-")));
                let read = command.try_get_matches_from_mut([name(), arg.clone()]);
                let meant = command.get_arguments().find(|arg| arg.get_id() == key);
                // to the parser it would be a list of nothing
                let is_list = meant.is_some_and(|key| keys::shape(key) == Shape::List);
                let message = match read {
                    Ok(_) if text.is_empty() && is_list => "is empty".to_owned(),
                    Ok(_) => {
                        right.push(arg);
                        continue;
                    }
                    Err(error) => message(&error, meant, text),
                };
                let help = meant.map(keys::help);
                let place = entry.place.clone();
                problems.push(Problem::new(place, key, message, help.as_deref()));
            }
        }
        let read = command
            .try_get_matches_from_mut(right)
            .and_then(|matches| Settings::from_arg_matches(&matches));
        let mut settings =
            read.map_err(|error| vec![Problem::new(Place::Default, "", error.to_string(), None)])?;
        settings.benchmark = benchmark;
        Ok(Self {
            settings,
            entries,
            problems,
            rank: None,
        })
    }

    /// Whether someone gave this key (a default is not given).
    pub fn has(&self, key: &str) -> bool {
        self.entries.contains_key(key)
    }

    /// Something is wrong with a key, by itself or beside another.
    pub fn complain(&mut self, key: &str, message: impl Into<String>, help: Option<&str>) {
        let place = self.entries.get(key).map(|entry| entry.place.clone());
        let place = place.unwrap_or(Place::Default);
        self.problems.push(Problem::new(place, key, message, help));
    }

    /// The settings, if nothing is wrong.
    ///
    /// # Errors
    /// Everything that is wrong: the file's in its order, then the environment's and the flags'.
    pub fn finish(mut self) -> Result<Settings, Vec<Problem>> {
        if self.problems.is_empty() {
            return Ok(self.settings);
        }
        self.problems.sort_by_key(|problem| match &problem.place {
            Place::Line(_, line) => *line,
            Place::Variable(_) => usize::MAX - 2,
            Place::Flag(_) => usize::MAX - 1,
            Place::Default => usize::MAX,
        });
        Err(self.problems)
    }

    /// Ask the surroundings for keys and scenarios.
    fn ask(&mut self, around: &dyn Surroundings) {
        self.api_key(around);
        if let Some(rank) = self.rank {
            self.settings.client.shard_told = Some(rank.to_string());
            let below = self
                .settings
                .output
                .out
                .as_mut()
                .zip(rank::folder(rank.part()));
            if let Some((out, folder)) = below {
                out.push(folder);
            }
        }
        if self.settings.client.meet.is_some() {
            let token = self.variable("meet", MEET_TOKEN, around);
            if (token.as_ref()).is_some_and(|token| token.trim().len() < SHORTEST_TOKEN) {
                let wrong = format!(
                    "`{MEET_TOKEN}` has fewer than {SHORTEST_TOKEN} characters: it could be guessed"
                );
                let help = "generate one with `openssl rand -hex 16`, and use it for every shard";
                self.complain("meet", wrong, Some(help));
            }
            self.settings.credentials.meet = token.map(|token| Secret::new(token.trim()));
        }
        if let Some(name) = self.settings.machines.prometheus_token_env.clone()
            && let Some(token) = self.variable("prometheus_token_env", &name, around)
        {
            let token = token.trim();
            self.settings.credentials.prometheus =
                Some(Secret::new(if token.starts_with("Basic ") {
                    token.to_owned()
                } else {
                    format!("Bearer {token}")
                }));
        }
        if self.settings.target.proxy {
            let names = ["http_proxy", "https_proxy", "all_proxy", "no_proxy"];
            let proxies = names.into_iter().filter_map(|name| {
                let capitals = name.to_ascii_uppercase();
                let told = |name: &str| told(name, around).ok().flatten();
                let found = told(name).or_else(|| told(&capitals))?;
                Some((name.to_owned(), Secret::new(found)))
            });
            self.settings.credentials.proxies = proxies.collect();
        }
        if let Some(file) = self.settings.objectives.scenarios.clone() {
            match scenarios(&file, around) {
                Ok(set) => self.settings.objectives.scenario_set = set,
                Err(wrong) => self.complain("scenarios", wrong, None),
            }
        }
    }

    fn api_key(&mut self, around: &dyn Surroundings) {
        let target = self.settings.target.clone();
        let key = match (target.api_key_env, target.api_key_file) {
            (Some(name), _) => self.variable("api_key_env", &name, around),
            (None, Some(file)) => {
                let read = around.read(&file).and_then(|text| {
                    let is_empty = text.trim().is_empty();
                    let wrong = || format!("{} is empty; it must hold the key", file.display());
                    if is_empty { Err(wrong()) } else { Ok(text) }
                });
                let shown = file.display().to_string();
                read.map_err(|wrong| {
                    let wrong = if may_be_a_key(&shown) {
                        wrong.replace(&shown, "***")
                    } else {
                        wrong
                    };
                    self.complain("api_key_file", wrong, None);
                })
                .ok()
            }
            (None, None) => None,
        };
        self.settings.credentials.api_key = key.map(|key| Secret::new(key.trim()));
    }

    /// What the environment's variable holds whose name `key` has.
    fn variable(&mut self, key: &str, name: &str, around: &dyn Surroundings) -> Option<String> {
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let shown = if name.chars().all(is_name) && !may_be_a_key(name) {
            name
        } else {
            "***"
        };
        let wrong = match told(name, around) {
            Ok(Some(value)) => return Some(value),
            Ok(None) => format!("the environment has no variable `{shown}`, or it is empty"),
            Err(NotText) => format!("the value of the variable `{shown}` is not UTF-8"),
        };
        self.complain(key, wrong, None);
        None
    }
}

fn scenarios(file: &Path, around: &dyn Surroundings) -> Result<bench_insight::ScenarioSet, String> {
    let (text, name) = (around.read(file)?, file.display());
    let set: bench_insight::ScenarioSet = toml::from_str(&text)
        .map_err(|error| format!("{name} is not a valid scenarios file: {error}"))?;
    set.check().map_err(|error| format!("{name}: {error}"))?;
    Ok(set)
}

impl Settings {
    /// Every key that the benchmark takes and that has a value, typed, secrets redacted: what `run.json` holds as `config`. Times are
    /// texts with a unit.
    pub fn stored(&self) -> Value {
        let mut all = serde_json::to_value(self).unwrap_or_default();
        if let Some(all) = all.as_object_mut() {
            all.retain(|key, value| {
                let empty = value.is_null() || value.as_array().is_some_and(Vec::is_empty);
                !empty && keys::takers(key).contains(&self.benchmark)
            });
        }
        all
    }
}

/// What is wrong with a text, without clap's own way of saying it.
fn message(error: &clap::Error, key: Option<&Arg>, text: &str) -> String {
    if let Some(source) = std::error::Error::source(error) {
        return source.to_string();
    }
    let words = key.map(Arg::get_possible_values).unwrap_or_default();
    let words: Vec<_> = words
        .iter()
        .map(clap::builder::PossibleValue::get_name)
        .collect();
    match (error.kind(), words.as_slice()) {
        (ErrorKind::InvalidValue, [rest @ .., last]) if !rest.is_empty() => {
            format!("must be {} or {last} (got `{text}`)", rest.join(", "))
        }
        _ => format!("has an invalid value (got `{text}`)"),
    }
}

/// The variable with the secret of shards that meet, and its fewest characters.
const MEET_TOKEN: &str = "BENCH_MEET_TOKEN";
const SHORTEST_TOKEN: usize = 16;

/// A variable that is set and is not UTF-8: read as nothing, something else would be measured than was meant.
struct NotText;

/// Whether somebody may have given a key in place of the name of a variable or of a file: a long text of small letters and digits
/// without a folder, or with capitals too where it begins like no path (base64 has `/`).
fn may_be_a_key(name: &str) -> bool {
    let has = |sign: fn(&char) -> bool| name.chars().any(|c| sign(&c));
    let is_path = name.starts_with(['/', '.', '~']) || !has(char::is_ascii_uppercase);
    name.len() >= 16
        && has(char::is_ascii_digit)
        && has(char::is_ascii_lowercase)
        && !(is_path && name.contains('/'))
}

/// A variable of the environment; one that is empty says nothing, as `${X:-}` in a container's file leaves it.
fn told(name: &str, around: &dyn Surroundings) -> Result<Option<String>, NotText> {
    let Some(value) = around.variable(name) else {
        return Ok(None);
    };
    let text = value.into_string().map_err(|_| NotText)?;
    Ok(Some(text).filter(|text| !text.trim().is_empty()))
}

/// `shard = auto` becomes what the environment says; where it does not, that is a problem.
fn shard_by_itself(
    entries: &mut Entries,
    problems: &mut Vec<Problem>,
    around: &dyn Surroundings,
) -> Option<Rank> {
    let entry = entries.get_mut("shard")?;
    if entry.texts != ["auto"] {
        return None;
    }
    // what is not UTF-8 is no number
    let told = |name: &str| told(name, around).unwrap_or_else(|_| Some("\u{fffd}".to_owned()));
    match Rank::find(told) {
        Ok(rank) => {
            entry.texts = vec![rank.text()];
            Some(rank)
        }
        Err((message, help)) => {
            let place = entry.place.clone();
            problems.push(Problem::new(place, "shard", message, Some(help)));
            // read as the whole, so that nothing else is said of it
            entry.texts.clear();
            None
        }
    }
}
