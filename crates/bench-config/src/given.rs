//! From flags, environment and a file to [`Settings`]: every value by the parser of its field, every problem with its place.
//!
//! Whoever gives a value, it becomes the text that the command line would have: one set of parsers reads all of them.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use bench_schema::{Benchmark, Nanos, Secret};
use clap::error::ErrorKind;
use clap::{Arg, ArgMatches, Command, FromArgMatches};
use serde_json::Value;
use toml::de::{DeTable, DeValue};

use crate::keys::{self, Shape};
use crate::rank::{self, Rank};
use crate::settings::ServerSettings;
use crate::vary::{MOST_SETTINGS, PORT, command, placeholders, settings_of};
use crate::{Amount, Only, Settings, Values, Vary, Wanted, carries_its_rate};

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

    /// Whether the factors are keys that cells can differ in, each given once.
    fn check_factors(&mut self, command: &Command) -> bool {
        let before = self.problems.len();
        let factors = self.settings.load.factor.clone();
        for (i, Vary { name, .. }) in factors.iter().enumerate() {
            if let Err((wrong, help)) = known(name, self.settings.benchmark, command) {
                self.complain("factor", format!("`{name}`: {wrong}"), help.as_deref());
            } else if !CROSSED.contains(&name.as_str()) {
                let wrong = format!("`{name}` applies to the whole run");
                let help = format!(
                    "keys that can differ between cells: {}; for another key, make one run for each value and mark it with --tag",
                    CROSSED.join(", ")
                );
                self.complain("factor", wrong, Some(&help));
            } else if factors.iter().take(i).any(|other| other.name == *name) {
                self.complain("factor", format!("`{name}` is given twice"), None);
            } else if self.has(name) {
                let wrong = "is set, but is also a factor";
                let help = format!("remove `{name}` or the factor");
                self.complain(name, wrong, Some(&help));
            }
        }
        if self.settings.load.find_capacity {
            let help = "make one run for each combination and mark it with --tag";
            let wrong = "cannot be combined with a search, which chooses its own cells";
            self.complain("factor", wrong, Some(help));
        }
        let combinations: usize = factors.iter().map(|factor| factor.values.len()).product();
        if combinations > MOST_CELLS {
            let wrong =
                format!("{combinations} combinations are more than the limit of {MOST_CELLS}");
            self.complain("factor", wrong, Some("use fewer values"));
        }
        self.problems.len() == before
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

    /// Each of these keys that is given has something wrong with it; `{key}` in the help is its name.
    fn refuse(&mut self, keys: &[&str], wrong: &str, help: Option<&str>) {
        for key in keys {
            if self.has(key) {
                let help = help.map(|help| help.replace("{key}", key));
                self.complain(key, wrong, help.as_deref());
            }
        }
    }

    /// Keys that are not given together with another.
    fn exclude(&mut self, other: &str, keys: &[&str], wrong: &str) {
        let help = format!("remove `{{key}}` or `{other}`");
        self.refuse(keys, wrong, Some(&help));
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

    /// A search chooses the loads and how much is measured of each; without one, its keys mean nothing.
    fn check_search(&mut self) {
        let wanted = self.settings.load.precision.clone();
        if !self.settings.load.find_capacity {
            let help = Some("add `find_capacity`, or remove it");
            let wrong = "is only for a capacity search";
            self.refuse(&["closed", "attain", "budget"], wrong, help);
            if wanted.iter().any(|w| matches!(w, Wanted::Capacity(_))) {
                let help = "name the metric, such as p99:ttft=5%, or add `find_capacity`";
                self.complain("precision", "does not name a metric", Some(help));
            }
            return;
        }
        let objectives = &self.settings.objectives;
        if objectives.slo.is_empty() && objectives.scenarios.is_none() {
            let help = "add `slo`, such as p99:ttft=500ms";
            let wrong = "a capacity search needs at least one objective";
            self.complain("find_capacity", wrong, Some(help));
        }
        for (keys, wrong) in NOT_SEARCHED {
            self.exclude("find_capacity", keys, wrong);
        }
        if self.settings.client.part().1 > 1 && !self.has("meet") {
            let help = "add `meet`, so that shard 0 chooses the loads for all of them";
            let wrong = "shards that do not meet would search for different loads";
            self.complain("find_capacity", wrong, Some(help));
        }
        let wrong = "a search chooses the load of all shards together";
        self.refuse(&["per_shard"], wrong, Some("remove it"));
        if carries_its_rate(&self.settings.load.arrival) {
            let help = Some("write poisson, constant or gamma:COV");
            let wrong = "this arrival process sets its own rate, but a search chooses the rate";
            self.complain("arrival", wrong, help);
        }
        // A search is of rates, or of concurrencies.
        if self.settings.load.closed {
            self.exclude("closed", &["arrival"], "needs an open loop");
        } else {
            self.refuse(&["think_time"], OF_CLOSED_LOOPS, Some("add `closed`"));
        }
        if !matches!(wanted.as_slice(), [] | [Wanted::Capacity(_)]) {
            let wrong = "must be a single width, that of the capacity";
            self.complain("precision", wrong, Some("write one width, such as 5%"));
        }
        let budget = self.settings.load.budget;
        if matches!(
            budget,
            Some(Amount::Count(..10) | Amount::Time(Nanos::ZERO))
        ) {
            let wrong = "is too little: a search begins with 7 requests, sent one at a time";
            let help = "write a time, such as 10m, or some hundred requests";
            self.complain("budget", wrong, Some(help));
        }
    }

    /// Contradictions between keys that are each fine alone.
    fn cross_check(&mut self) {
        self.check_search();
        let searched = self.settings.load.find_capacity;
        let own_rate = carries_its_rate(&self.settings.load.arrival);
        if self.has("rate") {
            let help = Some("to cap the requests in flight of an open loop, use `in_flight_cap`");
            let wrong = "use either a closed loop (concurrency) or an open loop (rate), not both";
            self.refuse(&["concurrency"], wrong, help);
        } else if !own_rate && !searched {
            let help = Some("add `rate`, requests per second");
            self.refuse(&["arrival", "in_flight_cap"], "needs an open loop", help);
        }
        if own_rate {
            let wrong = "this arrival process is an open loop, which has no concurrency";
            self.exclude("arrival", &["concurrency"], wrong);
            let wrong = "this arrival process sets its own rate";
            self.exclude("arrival", &["rate"], wrong);
        }
        if own_rate || self.has("rate") {
            self.refuse(&["think_time", "ramp_up"], OF_CLOSED_LOOPS, None);
        }
        self.check_companions();
        if self.has("client_cert") != self.has("client_key") {
            let wrong = "a client certificate needs its key, and the key its certificate";
            let help = Some("set both client_cert and client_key");
            self.complain("client_cert", wrong, help);
        }
        if self.has("api_key_env") {
            let wrong = "the key can come from a variable or from a file, not from both";
            self.refuse(&["api_key_file"], wrong, Some("remove one of the two"));
        }
        let stops = self.settings.load.cancel_after;
        if matches!(stops, Some(Amount::Count(0) | Amount::Time(Nanos::ZERO))) {
            let wrong = "must be more than 0, otherwise nothing is received";
            self.complain("cancel_after", wrong, Some("remove it"));
        }
        self.check_lengths();
    }

    /// Keys that say nothing without another.
    fn check_companions(&mut self) {
        if !self.has("prometheus") {
            let help = Some("add `prometheus`, the address of the Prometheus server");
            let wrong = "it needs a Prometheus server";
            let keys = [
                "prometheus_gpus",
                "prometheus_query",
                "prometheus_token_env",
            ];
            self.refuse(&keys, wrong, help);
        }
        if !self.has("shard") {
            let help = Some("add `shard`, the part that this client runs");
            self.refuse(&["per_shard", "meet"], "is only for shards", help);
        }
        let client = &self.settings.client;
        if client.part().1 > 1 && !client.per_shard && !self.has("meet") {
            let wrong = "each shard would end its part of a cell by its own requests alone";
            let help = "add `meet`, so that those of all shards decide, or end cells by `requests` or `duration`";
            self.refuse(&["precision"], wrong, Some(help));
        }
        if !self.settings.versus.is_asked() {
            let help = Some("add `versus`, the second server");
            self.refuse(
                &["blocks", "margin"],
                "is only for a comparison of two servers",
                help,
            );
        }
        if !self.has("vary") && !self.has("factor") {
            let help = Some("add `factor` or `vary`, or remove it");
            self.refuse(&["in_order"], "needs `factor` or `vary`", help);
        }
        self.check_sides();
        self.check_server();
    }

    /// What a server that is to be started needs, and what it cannot have.
    fn check_server(&mut self) {
        // nothing is known of what could not be read
        let unread = ["server", "vary", "only", "baseline"];
        if (self.problems.iter()).any(|problem| unread.contains(&problem.key.as_str())) {
            return;
        }
        let Some(command) = self.settings.server.server.clone() else {
            let help = Some("add `server`, the command that starts it");
            let keys = ["server_start_timeout", "vary", "only", "rounds", "baseline"];
            self.refuse(&keys, "is only for a server that is started", help);
            return;
        };
        self.check_vary(&command);
        let takes_port = placeholders(&command).contains(&PORT);
        match (takes_port, self.settings.target.url.as_slice()) {
            (false, []) => {
                let help = "write {port} in the command in place of the port, or add `url`";
                self.complain(
                    "server",
                    "does not contain {port}, and there is no `url`",
                    Some(help),
                );
            }
            (true, [_, ..]) => {
                let wrong = "the command uses a free port ({port}), so `url` cannot be set";
                self.complain("url", wrong, Some("remove {port} or `url`"));
            }
            _ => {}
        }
        for (keys, wrong) in NOT_STARTED {
            self.exclude("server", keys, wrong);
        }
    }

    /// That each placeholder has values, and each value a place.
    fn check_vary(&mut self, command: &str) {
        let names = placeholders(command);
        let asked = self.settings.server.clone();
        let unknown =
            |name: &&&str| **name != PORT && !asked.vary.iter().any(|vary| vary.name == **name);
        if let Some(name) = names.iter().find(unknown) {
            let wrong = format!("`{{{name}}}` has no values");
            let help = format!("add --vary {name}=VALUE,VALUE, or write the value in the command");
            self.complain("server", wrong, Some(&help));
        }
        for (i, Vary { name, .. }) in asked.vary.iter().enumerate() {
            let wrong = match name.as_str() {
                PORT => "{port} is replaced by a free port and cannot be varied".to_owned(),
                name if asked.vary.iter().take(i).any(|other| other.name == name) => {
                    format!("`{name}` is varied twice")
                }
                name if !names.contains(&name) => format!("the command has no `{{{name}}}`"),
                _ => continue,
            };
            let help = Some("write {NAME} in `server` in place of the value");
            self.complain("vary", wrong, help);
        }
        let known = |name: &str, value: &String| {
            let mut varied = asked.vary.iter();
            varied.any(|vary| vary.name == name && vary.values.contains(value))
        };
        for Only { of, with } in &asked.only {
            let mut others = with.values.iter();
            if !known(&of.0, &of.1) || !others.all(|value| known(&with.name, value)) {
                let help = "use names and values of `vary`";
                self.complain("only", "no setting has one of these values", Some(help));
            }
        }
        let baseline: Values = asked.baseline.iter().cloned().collect();
        let is_setting = asked.settings().contains(&baseline);
        if !asked.baseline.is_empty() && !asked.vary.is_empty() && !is_setting {
            let help = "write one value of each parameter of `vary`, such as max_num_seqs=64,tp=1";
            self.complain("baseline", "is not one of the settings", Some(help));
        }
        self.check_settings(&asked);
    }

    /// What several settings of a server cannot have.
    fn check_settings(&mut self, asked: &ServerSettings) {
        if asked.vary.is_empty() {
            let help = Some("add `vary`, or remove it");
            let keys = ["only", "rounds", "baseline"];
            self.refuse(&keys, "needs several settings", help);
            return;
        }
        let settings = asked.settings();
        if settings.is_empty() {
            self.complain("only", "no setting is left", Some("remove a constraint"));
        }
        if settings.len() > MOST_SETTINGS {
            let wrong = format!("more than {MOST_SETTINGS} settings");
            let help = Some("use fewer values, or add constraints with `only`");
            self.complain("vary", wrong, help);
            return;
        }
        let broken = settings.iter().filter_map(|one| asked.command_of(one));
        let mut broken = broken.filter(|filled| command(filled).is_err());
        if let Some(filled) = broken.next() {
            let wrong = format!("`{filled}` has a quote that is not closed");
            self.complain("vary", wrong, None);
        }
        let of_one = ["target", "start_at", "metrics_listen", "otlp"];
        self.exclude("vary", &of_one, "is only for a single run");
    }

    /// What two sides in turns cannot do.
    fn check_sides(&mut self) {
        let versus = &self.settings.versus;
        if !versus.is_asked() {
            return;
        }
        let key = SIDES.iter().find(|key| self.has(key));
        let key = *key.unwrap_or(&"versus");
        let one_server = versus
            .versus
            .iter()
            .all(|other| self.settings.target.url.contains(other));
        if self.settings.target.url.is_empty() {
            let help = "add `url`; `bench-engine serve` starts the embedded engine";
            self.complain(key, "needs a first server that is running", Some(help));
        }
        if one_server && self.settings.workload.salt == bench_workload::Salt::Never {
            let wrong = "both sides are the same server, whose prefix cache would hold each prompt after its first turn";
            self.complain("salt", wrong, Some("remove `salt = \"never\"`"));
        }
        let of_one = ["shard", "meet", "start_at", "metrics_listen", "otlp"];
        self.exclude(key, &of_one, "cannot be used when two servers are compared");
    }

    /// Grids take lists, everything else distributions.
    fn check_lengths(&mut self) {
        let workload = &self.settings.workload;
        let grid = workload.grid;
        if grid {
            self.exclude("grid", &["categories"], "a grid has no categories");
            let of_load = ["concurrency", "think_time", "ramp_up"];
            self.exclude("grid", &of_load, "a grid is measured one request at a time");
        }
        let workload = self.settings.workload.clone();
        let of_grid = grid || self.settings.benchmark == Benchmark::Latency;
        let lengths = [
            ("input_tokens", workload.input_tokens, grid),
            ("output_tokens", workload.output_tokens, of_grid),
        ];
        for (key, lengths, of_grid) in lengths {
            match lengths {
                Some(lengths) if of_grid && lengths.grid().is_none() => {
                    let wrong = "must be whole numbers from 1 to 10000000 here";
                    self.complain(key, wrong, Some("write a list such as 16,64,256"));
                }
                Some(lengths) if !of_grid && lengths.spec().is_none() => {
                    let help = "write list:16,64,256 for lengths in turn, or 16..256 for a range";
                    let wrong = "must be one length or a distribution here";
                    self.complain(key, wrong, Some(help));
                }
                _ => {}
            }
        }
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

/// Keys that cells of a run can differ in.
const CROSSED: [&str; 15] = [
    "concurrency",
    "rate",
    "input_tokens",
    "output_tokens",
    "dataset",
    "arrival",
    "think_time",
    "in_flight_cap",
    "requests",
    "duration",
    "warmup",
    "repeat",
    "prompts",
    "prompt_tokens",
    "categories",
];
/// Cells of a run at most: more than anybody measures.
const MOST_CELLS: usize = 1_000;

/// Keys that a search chooses itself, or that its stages cannot have.
const NOT_SEARCHED: [(&[&str], &str); 4] = [
    (
        &[
            "rate",
            "concurrency",
            "requests",
            "duration",
            "repeat",
            "ramp_up",
        ],
        "a search chooses this value",
    ),
    (
        &["in_flight_cap"],
        "a cap would change the load that is searched",
    ),
    (
        &["warmup_drain"],
        "the stages of a search follow their warm-up without a pause",
    ),
    (
        SIDES,
        "the two servers would get different loads; search each in its own run",
    ),
];

/// Keys that a server cannot have that is started for the measurement.
const NOT_STARTED: [(&[&str], &str); 3] = [
    (
        &["engine"],
        "the embedded engine is used only without another server",
    ),
    (SIDES, "a comparison needs two running servers"),
    (&["shard", "meet"], "each shard would start its own server"),
];

/// The keys of a second side.
const SIDES: &[&str] = &["versus", "versus_model", "versus_body"];

const OF_CLOSED_LOOPS: &str = "is only for a closed loop; an open loop does not wait for responses";

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

/// What the environment says of the keys that this benchmark takes. Those of the others are no mistake here: one environment may serve all three.
fn from_environment(
    benchmark: Benchmark,
    command: &Command,
    around: &dyn Surroundings,
) -> (Entries, Vec<Problem>) {
    let mut entries = Entries::new();
    let mut problems = Vec::new();
    let keys = command
        .get_arguments()
        .filter(|key| keys::takers(key.get_id().as_str()).contains(&benchmark));
    for key in keys {
        let id = key.get_id().as_str();
        let name = keys::variable(id);
        let text = told(&name, around);
        let place = Place::Variable(name);
        let text = match text {
            Ok(Some(text)) => text,
            Ok(None) => continue,
            Err(NotText) => {
                let help = Some("write it in UTF-8, or unset it");
                problems.push(Problem::new(place, "", "its value is not UTF-8", help));
                continue;
            }
        };
        let texts = match keys::shape(key) {
            Shape::List => split(&text),
            // their values may hold commas
            Shape::Repeat => parts(&text, '\n'),
            Shape::One | Shape::Switch => vec![text.trim().to_owned()],
        };
        entries.insert(id.to_owned(), Entry { texts, place });
    }
    let mistaken = around.names().into_iter();
    problems.extend(mistaken.filter_map(|name| mistaken_for_a_key(name, command)));
    (entries, problems)
}

/// Variables of this project that are no key's.
const OTHER_VARIABLES: &[&str] = &["BENCH_CONFIG", "BENCH_SHARDS", MEET_TOKEN];

/// A variable whose name is nearly that of a key: nobody would see that it says nothing. Others may be anybody's.
fn mistaken_for_a_key(name: String, command: &Command) -> Option<Problem> {
    let key = name.strip_prefix("BENCH_")?.to_ascii_lowercase();
    let keys = || command.get_arguments().map(|key| key.get_id().as_str());
    if OTHER_VARIABLES.contains(&name.as_str()) || keys().any(|known| known == key) {
        return None;
    }
    let turned_off = key.strip_prefix("no_");
    let turned_off = turned_off.filter(|rest| keys().any(|known| known == *rest));
    let help = match turned_off {
        Some(switch) => format!("write `{}=false`", keys::variable(switch)),
        None => format!("did you mean `{}`?", keys::variable(slip_of(&key, keys())?)),
    };
    let place = Place::Variable(name);
    Some(Problem::new(
        place,
        "",
        "no key has this variable",
        Some(&help),
    ))
}

/// The key that this is but for a letter or two; a short name may be anything.
fn slip_of<'a>(name: &str, keys: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let slips = match name.len() {
        ..6 => 0,
        6..8 => 1,
        8.. => 2,
    };
    keys::nearest(name, keys).filter(|key| strsim::levenshtein(name, key) <= slips)
}

/// Read the keys of a TOML text; `file` only names it in messages.
fn from_toml(
    text: &str,
    file: &Path,
    benchmark: Benchmark,
    command: &Command,
) -> (Entries, Vec<Problem>) {
    let line_of = |offset: usize| {
        let before = text.as_bytes().iter().take(offset);
        1 + before.filter(|&&b| b == b'\n').count()
    };
    let at = |offset: usize| Place::Line(file.to_owned(), line_of(offset));
    let table = match DeTable::parse(text) {
        Ok(table) => table,
        Err(error) => {
            let place = at(error.span().map_or(0, |span| span.start));
            let wrong = format!("not valid TOML: {}", error.message());
            let problem = Problem::new(place, "", wrong, None);
            return (Entries::new(), vec![problem]);
        }
    };
    let mut entries = Entries::new();
    let mut problems = Vec::new();
    for (name, value) in table.get_ref() {
        let place = at(name.span().start);
        let key = known(name.get_ref(), benchmark, command);
        match key.and_then(|key| Ok((key, texts(key, value.get_ref())?))) {
            Ok((key, texts)) => {
                entries.insert(key.get_id().to_string(), Entry { texts, place });
            }
            Err((message, help)) => {
                let key = name.get_ref();
                problems.push(Problem::new(place, key, message, help.as_deref()));
            }
        }
    }
    (entries, problems)
}

type Complaint = (String, Option<String>);

fn known<'a>(name: &str, benchmark: Benchmark, command: &'a Command) -> Result<&'a Arg, Complaint> {
    let Some(key) = command.get_arguments().find(|key| key.get_id() == name) else {
        let names = command.get_arguments().map(|key| key.get_id().as_str());
        let help = keys::nearest(name, names).map(|near| format!("did you mean `{near}`?"));
        let all = || "examples/configs/full.toml lists every key".to_owned();
        return Err(("unknown key".to_owned(), help.or_else(|| Some(all()))));
    };
    let takers = keys::takers(name);
    if !takers.contains(&benchmark) {
        let takers: Vec<_> = takers
            .iter()
            .map(|b| format!("bench-{}", b.as_str()))
            .collect();
        let message = format!("bench-{} does not have this key", benchmark.as_str());
        let help = format!("it is a key of {}; remove the line", takers.join(" and "));
        return Err((message, Some(help)));
    }
    Ok(key)
}

/// The texts of a TOML value, as the command line would give them.
fn texts(key: &Arg, value: &DeValue<'_>) -> Result<Vec<String>, Complaint> {
    let shape = keys::shape(key);
    let many = matches!(shape, Shape::List | Shape::Repeat);
    let name = key.get_id().as_str();
    match value {
        DeValue::Array(items) if many || shape == Shape::One => {
            let texts = items.iter().map(|item| scalar(item.get_ref()));
            let texts: Option<Vec<_>> = texts.collect();
            let texts = texts.ok_or_else(|| ("must be a list of plain values".to_owned(), None))?;
            // a single key that takes a list as text (`output_tokens = [10, 20]`) is joined as on the command line
            Ok(if many { texts } else { vec![texts.join(",")] })
        }
        DeValue::Table(table) if shape == Shape::Repeat => {
            let separator = if name == "header" { ": " } else { "=" };
            let pairs = table.iter().map(|(k, v)| {
                let value = match v.get_ref() {
                    list @ DeValue::Array(_) if matches!(name, "vary" | "factor") => {
                        json(list).to_string()
                    }
                    other => scalar(other)?,
                };
                Some(format!("{}{separator}{value}", k.get_ref()))
            });
            let pairs: Option<_> = pairs.collect();
            pairs.ok_or_else(|| ("must be a table of plain values".to_owned(), None))
        }
        DeValue::Table(table) if name == "extra_body" => {
            Ok(vec![json(&DeValue::Table(table.clone())).to_string()])
        }
        DeValue::Array(_) | DeValue::Table(_) => {
            Err((format!("must be one value ({})", keys::metavar(key)), None))
        }
        plain => {
            let text = scalar(plain).ok_or_else(|| ("must be a plain value".to_owned(), None))?;
            if shape == Shape::Switch && !matches!(text.as_str(), "true" | "false") {
                return Err((format!("must be true or false (got {text})"), None));
            }
            Ok(match shape {
                Shape::List => split(&text),
                _ => vec![text],
            })
        }
    }
}

fn scalar(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(number) => Some(number.as_str().replace('_', "")),
        DeValue::Float(number) => Some(number.as_str().replace('_', "")),
        DeValue::Boolean(flag) => Some(flag.to_string()),
        DeValue::Datetime(instant) => Some(instant.to_string()),
        DeValue::Array(_) | DeValue::Table(_) => None,
    }
}

fn json(value: &DeValue<'_>) -> Value {
    let number = |text: &str| serde_json::from_str(&text.replace('_', "")).unwrap_or_default();
    match value {
        DeValue::Integer(text) => number(text.as_str()),
        DeValue::Float(text) => number(text.as_str()),
        DeValue::Boolean(flag) => (*flag).into(),
        DeValue::Array(items) => items.iter().map(|item| json(item.get_ref())).collect(),
        DeValue::Table(table) => table
            .iter()
            .map(|(k, v)| (k.get_ref().to_string(), json(v.get_ref())))
            .collect(),
        other => scalar(other).map_or(Value::Null, Into::into),
    }
}

/// A comma-separated text as its parts; one that has none is itself one, so that `--rate "$RATE"` without such a variable is refused and not passed over.
fn split(text: &str) -> Vec<String> {
    let parts = parts(text, ',');
    if parts.is_empty() {
        vec![String::new()]
    } else {
        parts
    }
}

/// The parts of a text, blanks trimmed.
fn parts(text: &str, separator: char) -> Vec<String> {
    let parts = text.split(separator).map(str::trim);
    let parts = parts.filter(|part| !part.is_empty());
    parts.map(str::to_owned).collect()
}
