//! Values that are each fine alone and not together, and what to write instead.

use bench_schema::{Benchmark, Nanos};
use clap::Command;

use super::Given;
use super::sources::known;
use crate::settings::ServerSettings;
use crate::vary::{MOST_SETTINGS, PORT, command, placeholders};
use crate::{Amount, Only, Values, Vary, Wanted, carries_its_rate};

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

impl Given {
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

    /// Whether the factors are keys that cells can differ in, each given once.
    pub(super) fn check_factors(&mut self, command: &Command) -> bool {
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
        // what cannot be read has been told
        let is_told = |key| self.problems.iter().any(|problem| problem.key == key);
        let is_read = !["slo", "scenarios"].into_iter().any(is_told);
        if objectives.slo.is_empty() && objectives.scenarios.is_none() && is_read {
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
    pub(super) fn cross_check(&mut self) {
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
            let (wrong, help) = match name.as_str() {
                PORT => (
                    "{port} is replaced by a free port and cannot be varied".to_owned(),
                    "use another name, in `server` too".to_owned(),
                ),
                name if asked.vary.iter().take(i).any(|other| other.name == name) => (
                    format!("`{name}` is varied twice"),
                    format!("give all its values at once: {name}=VALUE,VALUE"),
                ),
                name if !names.contains(&name) => (
                    format!("the command has no `{{{name}}}`"),
                    format!("write {{{name}}} in `server` in place of the value"),
                ),
                _ => continue,
            };
            self.complain("vary", wrong, Some(&help));
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
}
