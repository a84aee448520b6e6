//! From flags and a file to settings, and what is said of those that are wrong.

#![expect(clippy::unwrap_used, reason = "a test says what is wrong by failing")]

use std::ffi::OsString;
use std::path::Path;

use bench_config::{Flags, Given, Settings, Surroundings, command, flags};
use bench_schema::{Benchmark, Nanos};
use bench_workload::Study;
use clap::error::ErrorKind;
use clap::{Arg, ArgAction};

struct Desk;

impl Surroundings for Desk {
    fn variable(&self, name: &str) -> Option<OsString> {
        match name {
            "KEY" => Some("sk-secret".into()),
            "TOKEN" => Some("Basic cHJvbTpwYXNz".into()),
            "http_proxy" => Some("http://me:hunter2@proxy:3128".into()),
            _ => None,
        }
    }

    fn names(&self) -> Vec<String> {
        Vec::new()
    }

    fn read(&self, file: &Path) -> Result<String, String> {
        match file.to_str() {
            Some("empty") => Ok(" \n".to_owned()),
            Some("scenarios") => {
                Ok("[[scenario]]\nname = \"chat\"\nslos = [\"ttft=1s\"]\n".to_owned())
            }
            _ => Err(format!("cannot read {}", file.display())),
        }
    }
}

fn flagged(args: &[&str]) -> Flags {
    let args = std::iter::once("bench-throughput").chain(args.iter().copied());
    flags(Benchmark::Throughput, "", args.map(OsString::from)).unwrap()
}

fn configured(text: &str, args: &[&str]) -> Result<Settings, Vec<String>> {
    let file = Some((Path::new("x.toml"), text));
    Given::read(Benchmark::Throughput, flagged(args), file, &Desk)
        .and_then(Given::finish)
        .map_err(|problems| problems.iter().map(ToString::to_string).collect())
}

fn refused(text: &str) -> String {
    configured(text, &[]).unwrap_err().join("\n")
}

#[test]
fn defaults_alone_are_valid() {
    let args = ["bench-latency"].map(OsString::from);
    let flags = flags(Benchmark::Latency, "", args).unwrap();
    let given = Given::read(Benchmark::Latency, flags, None, &Desk).unwrap();
    let settings = given.finish().unwrap();
    assert_eq!(
        settings.workload.prompts,
        [Study::Short, Study::Medium, Study::Long]
    );
    assert_eq!(settings.limits.timeout, Nanos::from_secs(120));
    assert!(settings.target.stream && !settings.target.insecure);
}

#[test]
fn a_sweep_of_another_tool_is_understood_as_it_is() {
    let args = "--backend vllm --base-url http://h --model m --dataset-name random --random-input-len 256 --random-output-len 128 \
                --num-prompts 200 --max-concurrency 16 --request-rate inf --ignore-eos --goodput ttft:200 tpot:50 --seed 42";
    let args: Vec<&str> = args.split_whitespace().collect();
    let settings = configured("", &args).unwrap();
    assert!(settings.load.rate.is_empty());
    assert_eq!(settings.load.concurrency.len(), 1);
    assert_eq!(settings.objectives.slo.len(), 2);
    assert_eq!(settings.target.api, "openai-completions");
    let unknown = configured("", &["--goodput", "itl:20"]).unwrap_err();
    assert!(unknown.concat().contains("none of ttft:MS"), "{unknown:?}");
    let alone = configured("", &["--request-rate", "inf"]).unwrap_err();
    assert!(alone.concat().contains("closed loop"), "{alone:?}");
}

/// `docs/coming-from.md`: what stands there on the left is taken or explained, what stands on the right exists.
#[test]
fn the_page_for_those_who_come_from_other_tools_is_true() {
    let page = include_str!("../../../docs/coming-from.md");
    let flags_of = |cell: &str| -> Vec<String> {
        let words = cell.split(|c: char| !(c.is_ascii_lowercase() || c == '-'));
        let flags = words.filter(|word| word.starts_with("--") && word.len() > 2);
        flags.map(str::to_owned).collect()
    };
    let wrong = |flag: &str| {
        let args = ["bench-throughput", flag].map(OsString::from);
        flags(Benchmark::Throughput, "", args).err()
    };
    let taken = |flag: &str| wrong(flag).is_none_or(|it| it.kind() != ErrorKind::UnknownArgument);
    let mut tool = "";
    let mut rows = 0;
    for line in page.lines() {
        tool = line.strip_prefix("## ").unwrap_or(tool);
        let mut cells = line.trim_matches('|').split(" | ");
        let (Some(there), Some(here), true) = (cells.next(), cells.next(), line.starts_with("| `"))
        else {
            continue;
        };
        rows += 1;
        for flag in flags_of(here)
            .iter()
            .filter(|_| !here.contains("bench-report"))
        {
            assert!(taken(flag), "{tool}: {flag} is no flag of ours");
        }
        let theirs = tool.starts_with("vLLM") || tool.starts_with("SGLang");
        for flag in flags_of(there).iter().filter(|_| theirs) {
            let explained = wrong(flag).is_some_and(|it| it.to_string().contains("coming-from"));
            let as_it_is = here.contains("as it is");
            assert_eq!(taken(flag), as_it_is, "{tool}: {flag}");
            assert_eq!(explained, !as_it_is, "{tool}: {flag} is not explained");
        }
    }
    assert!(rows > 50, "{rows}");
}

#[test]
fn all_problems_come_at_once_with_file_line_key_bound_and_help() {
    let wrong = "rate = [0]\nwarmup = \"soon\"\nconcurrency = 0\nspeed = 1\nconnections = \"none\"\nquick = 3\n";
    insta::assert_snapshot!(
        configured(wrong, &["--repeat", "0"])
            .unwrap_err()
            .join("\n")
    );
}

#[test]
fn every_unknown_key_is_named_with_its_line_and_its_neighbour() {
    assert_eq!(
        refused("seed = 1\nconcurency = 4\n\nprompts = [\"short\"]\n"),
        "x.toml:2: key `concurency`: unknown key\n  help: did you mean `concurrency`?\n\
         x.toml:4: key `prompts`: bench-throughput does not have this key\n  help: it is a key of bench-latency; remove the line",
    );
}

#[test]
fn broken_toml_is_one_problem_with_its_line() {
    let said = refused("seed = 1\nrate = [1,\n");
    assert!(
        said.starts_with("x.toml:") && !said.contains('\n'),
        "{said}"
    );
}

#[test]
fn lists_tables_and_plain_values_read_as_the_command_line_gives_them() {
    let file = "concurrency = [1, 2]\nslo = \"ttft=1s, itl=5ms\"\nextra_body = { a = 1 }\n[tag]\ngpus = 2\n[header]\nx-key = \"v\"\n";
    let settings = configured(file, &[]).unwrap();
    let levels: Vec<_> = settings.load.concurrency.iter().map(|c| c.most).collect();
    assert_eq!(levels, [1, 2]);
    assert_eq!(settings.objectives.slo.len(), 2);
    assert_eq!(settings.workload.extra_body.unwrap()["a"], 1);
    assert_eq!(settings.output.tag, [("gpus".to_owned(), "2".to_owned())]);
    assert_eq!(settings.target.header[0].value.expose(), "v");
}

#[test]
fn flags_win_over_the_file_as_a_whole() {
    let settings = configured("concurrency = [1, 2]\nseed = 4\n", &["--concurrency", "8"]).unwrap();
    assert_eq!(settings.load.concurrency.len(), 1);
    assert_eq!(settings.seed, 4);
}

#[test]
fn what_is_on_by_default_can_be_asked_for_and_turned_off() {
    let on = |file: &str, args: &[&str]| configured(file, args).unwrap().workload.ignore_eos;
    assert!(on("", &[]) && on("ignore_eos = false", &["--ignore-eos"]));
    assert!(!on("", &["--no-ignore-eos"]) && !on("", &["--ignore-eos", "--no-ignore-eos"]));
    let unknown = ["b", "--such-flag"].map(OsString::from);
    assert!(flags(Benchmark::Throughput, "", unknown).is_err());
    let settings = configured("", &["--no-progress", "--quick"]).unwrap();
    assert!(settings.quick && !settings.output.progress);
}

#[test]
fn the_words_of_vllm_bench_serve_are_understood() {
    let args = "--base-url http://x --request-rate 1,2 --num-prompts 9 --goodput ttft=1s";
    let settings = configured("", &args.split(' ').collect::<Vec<_>>()).unwrap();
    assert_eq!(settings.target.urls(), ["http://x"]);
    assert_eq!(settings.load.rate, [1.0, 2.0]);
    assert_eq!(settings.load.requests, Some(9));
    assert_eq!(settings.objectives.slo.len(), 1);
}

#[test]
fn what_vllm_bench_serve_writes_differently_works_or_says_what_to_write() {
    let args =
        "--backend vllm --goodput ttft:200,e2el:1500 --num-warmups 3 --result-dir r --metadata a=b";
    let settings = configured("", &args.split(' ').collect::<Vec<_>>()).unwrap();
    assert_eq!(settings.target.api, "openai-completions");
    let objectives: Vec<_> = settings
        .objectives
        .slo
        .iter()
        .map(|slo| slo.limit)
        .collect();
    assert_eq!(objectives, [200e6, 1500e6]);
    for (args, said) in [
        (["--save-result", "--quick"], "bench-report export"),
        (
            ["--endpoint", "/v1/completions"],
            "--api openai-completions",
        ),
        (["--percentile-metrics", "ttft"], "leave it out"),
        (["--dataset-path", "f.json"], "--dataset sharegpt:FILE"),
    ] {
        let args = std::iter::once("b").chain(args).map(OsString::from);
        let error = flags(Benchmark::Throughput, "", args).unwrap_err();
        assert!(
            error.use_stderr() && error.to_string().contains(said),
            "{error}"
        );
    }
    let refused = |args: &[&str]| configured("", args).unwrap_err().join("\n");
    assert!(refused(&["--request-rate", "inf"]).contains("set `concurrency`"));
    assert!(refused(&["--ready-check-timeout-sec", "600"]).contains("write `600s`"));
}

#[test]
fn tags_are_not_split_at_commas_and_numbers_may_be_negative() {
    let args = ["--tag", "a=1,2", "--tag", "b=3", "--top-k", "-1"];
    let settings = configured("", &args).unwrap();
    assert_eq!(settings.output.tag.len(), 2);
    assert_eq!(settings.workload.top_k, Some(-1));
}

#[test]
fn a_flag_without_its_value_does_not_take_the_next_flag_for_it() {
    for flag in ["tokenizer", "model", "dataset", "out", "duration"] {
        let args = ["bench-throughput", &format!("--{flag}"), "--seed", "7"].map(OsString::from);
        let error = flags(Benchmark::Throughput, "", args)
            .unwrap_err()
            .to_string();
        assert!(error.contains(&format!("--{flag}")), "{error}");
        assert!(error.contains("value is required"), "{error}");
    }
    let settings = configured("", &["--model=-x", "--seed", "7"]).unwrap();
    assert_eq!(settings.target.model.as_deref(), Some("-x"));
}

#[test]
fn a_list_with_nothing_in_it_is_refused_and_not_passed_over() {
    for name in ["rate", "concurrency", "slo", "target", "url"] {
        let flag = format!("--{name}");
        for empty in ["", " ", ","] {
            let said = configured("", &[&flag, empty]).unwrap_err().join("\n");
            assert!(said.contains(&flag), "{flag} `{empty}`: {said}");
            let said = refused(&format!("{name} = \"{empty}\"\n"));
            assert!(said.contains(name), "{name} `{empty}`: {said}");
        }
    }
    assert!(configured("rate = []\n", &[]).is_ok());
}

#[test]
fn a_rate_and_a_precision_go_together() {
    let settings = configured("rate = 5\nprecision = \"p99:ttft=5%\"\n", &[]).unwrap();
    assert_eq!(settings.stop_rule(Some(10)).precision, ["p99:ttft=5%"]);
}

#[test]
fn keys_that_contradict_each_other_are_named() {
    for (file, said) in [
        ("rate = 1\nconcurrency = 1\n", "not both"),
        ("arrival = \"constant\"\n", "needs an open loop"),
        (
            "arrival = \"users:1:1s\"\nconcurrency = 1\n",
            "no concurrency",
        ),
        ("rate = 1\nthink_time = \"1s\"\n", "closed loop"),
        ("prometheus_gpus = \"a\"\n", "needs a Prometheus server"),
        (
            "prometheus_query = [\"a=b\"]\n",
            "needs a Prometheus server",
        ),
        ("client_key = \"k\"\n", "needs its key"),
        ("cancel_after = 0\n", "more than 0"),
        ("cancel_after = \"0s\"\n", "more than 0"),
        ("input_tokens = [1, 2]\n", "one length or a distribution"),
    ] {
        let problems = refused(file);
        assert!(problems.contains(said), "{file}: {problems}");
    }
}

#[test]
fn a_key_file_without_a_key_is_refused() {
    let said = refused("api_key_file = \"empty\"\n");
    assert!(said.contains("empty is empty"), "{said}");
    let both = refused("api_key_file = \"empty\"\napi_key_env = \"KEY\"\n");
    assert!(both.contains("not from both"), "{both}");
    let none = refused("api_key_env = \"NO_SUCH\"\n");
    assert!(none.contains("has no variable `NO_SUCH`"), "{none}");
}

#[test]
fn a_key_in_place_of_its_files_or_its_variables_name_is_not_shown() {
    for key in ["api_key_file", "api_key_env"] {
        for given in ["hf_aBcDeFgH0123456789", "Zq7/abc+0123456789/9xK"] {
            let said = refused(&format!("{key} = \"{given}\"\n"));
            assert!(
                said.contains("***") && !said.contains("0123456789"),
                "{said}"
            );
        }
    }
    for path in ["/etc/Keys/prod-0123456789", "keys/prod-0123456789"] {
        let said = refused(&format!("api_key_file = \"{path}\"\n"));
        assert!(said.contains(path), "{said}");
    }
}

#[test]
fn a_prometheus_token_is_a_bearers_unless_it_says_basic() {
    let told = |name: &str| {
        let file = format!("prometheus = \"http://p\"\nprometheus_token_env = \"{name}\"\n");
        configured(&file, &[])
            .unwrap()
            .credentials
            .prometheus
            .unwrap()
    };
    assert_eq!(told("KEY").expose(), "Bearer sk-secret");
    assert_eq!(told("TOKEN").expose(), "Basic cHJvbTpwYXNz");
}

#[test]
fn no_secret_reaches_the_stored_configuration() {
    let file = "prometheus = \"http://u:pp-1234@p/?token=qq-1234\"\nprometheus_token_env = \"TOKEN\"\nproxy = true\napi_key_env = \"KEY\"\nurl = \"http://me:hunter3@h:1\"\n[header]\nAuthorization = \"Bearer sk-x\"\n";
    let settings = configured(file, &[]).unwrap();
    let stored = settings.stored().to_string() + &format!("{settings:?}");
    let secrets = "sk-secret sk-x hunter2 hunter3 cHJvbTpwYXNz pp-1234 qq-1234";
    for secret in secrets.split(' ') {
        assert!(!stored.contains(secret), "{stored}");
    }
}

#[test]
fn a_stored_configuration_has_typed_values() {
    let file = "concurrency = [1, \"ramp:1:4\"]\nwarmup = \"5s\"\nslo = \"p99:ttft=200ms@chat\"\nscenarios = \"scenarios\"\n\
        extra_body = { a = { b = 1 } }\ninput_tokens = 8\noutput_tokens = \"normal:5:1\"\nduration = \"1.5s\"\nprice_per_hour = 2.5\n\
        precision = \"p99:ttft=5%\"\ndataset = \"random\"\nshard = \"0/4\"\nper_shard = true\ntag = { gpus = 2 }\n";
    let settings = configured(file, &[]).unwrap();
    insta::assert_json_snapshot!(settings.stored());
}

#[test]
fn a_server_that_is_to_be_started_says_where_it_listens_and_is_the_only_one() {
    let started = configured("server = \"serve --json '{}' --port {port}\"\n", &[]).unwrap();
    assert!(!started.small() && !started.is_embedded());
    assert!(
        refused("server = \"serve\"\n").contains("does not contain {port}, and there is no `url`")
    );
    assert!(refused("server = \"serve '\"\n").contains("quote"));
    assert!(
        refused("server_start_timeout = \"4s\"\n").contains("only for a server that is started")
    );
    let both =
        refused("server = \"s {port}\"\nurl = \"http://h:1\"\nengine = \"7b\"\nshard = \"0/2\"\n");
    for wrong in ["`url` cannot be set", "`engine`", "each shard"] {
        assert!(both.contains(wrong), "{both}");
    }
}

#[test]
fn a_servers_settings_have_a_place_in_its_command_and_it_has_no_others() {
    let of = |server: &str, more: &str| {
        configured(&format!("server = \"{server} {{port}}\"\n{more}"), &[])
    };
    let refused = |server: &str, more: &str| of(server, more).unwrap_err().join("\n");
    let table = of("s {n} {g}", "[vary]\nn = [8, 16]\ng = [\"0\", \"0,1\"]\n").unwrap();
    assert_eq!(table.server.settings().len(), 4);
    let flags = [
        "--vary",
        "n=8,16",
        "--vary",
        "g=[\"0\",\"0,1\"]",
        "--server",
        "s {n} {g} {port}",
    ];
    let flagged = configured("", &flags).unwrap().server.settings();
    assert_eq!(
        flagged.iter().collect::<std::collections::BTreeSet<_>>(),
        table.server.settings().iter().collect()
    );
    assert!(refused("s {n}", "").contains("`{n}` has no values"));
    for wrong in ["vary = \"n=1,1\"", "vary = [\"n=1\", \"n\"]"] {
        let more = format!("{wrong}\nrounds = 2\nin_order = true\nonly = \"n=1:n=1\"\n");
        let said = of("s {n} {port}", &more).unwrap_err();
        assert_eq!(said.len(), 1, "{said:?}");
    }
    assert!(refused("s", "vary = \"n=1,2\"\n").contains("the command has no `{n}`"));
    let twice = refused("s {n}", "vary = [\"n=1\", \"n=2\"]\n");
    assert!(
        twice.contains("varied twice") && twice.contains("n=VALUE,VALUE"),
        "{twice}"
    );
    let port = refused("s {port}", "vary = \"port=1,2\"\n");
    assert!(
        port.contains("cannot be varied") && port.contains("another name"),
        "{port}"
    );
    let quote = "[vary]\nn = [\"'\"]\n";
    assert!(refused("s {n}", quote).contains("not closed"));
    let only = "vary = \"n=1,2\"\nonly = \"n=3:n=1\"\n";
    assert!(refused("s {n}", only).contains("no setting has one of these"));
    let none = "vary = \"n=1\"\nonly = \"n=1:m=2\"\n";
    assert!(refused("s {n}", none).contains("no setting is left"));
    assert!(refused("s", "rounds = 2\n").contains("needs several settings"));
    assert!(refused("s {n}", "vary = \"n=1\"\ntarget = \"failed==0\"\n").contains("single run"));
    let many: Vec<String> = (0..200).map(|n| n.to_string()).collect();
    let many = format!("vary = [\"a={0}\", \"b={0}\", \"c={0}\"]\n", many.join(","));
    assert!(refused("s {a} {b} {c}", &many).contains("more than 10000"));
}

#[test]
fn a_baseline_is_one_of_the_settings() {
    let of = |baseline: &str| {
        let vary = "server = \"s {n} {tp} {port}\"\nvary = [\"n=8,16\", \"tp=1,2\"]\n";
        configured(
            &format!("{vary}only = \"tp=2:n=16\"\nbaseline = {baseline}"),
            &[],
        )
    };
    assert_eq!(of("[\"n=8\", \"tp=1\"]").unwrap().server.baseline.len(), 2);
    for wrong in ["\"n=8\"", "\"n=8,tp=2\"", "\"n=9,tp=1\""] {
        let told = of(wrong).unwrap_err().join("\n");
        assert!(told.contains("is not one of the settings"), "{told}");
    }
}

#[test]
fn factors_cross_the_keys_that_cells_can_differ_in() {
    let flags = [
        "--factor",
        "input_tokens=128,1024",
        "--factor",
        "concurrency=1,8,64",
    ];
    let table = "[factor]\ninput_tokens = [128, 1024]\nconcurrency = [1, 8, 64]\n";
    for (text, args) in [("", &flags[..]), (table, &[])] {
        let settings = configured(text, args).unwrap();
        let mut asked: Vec<String> = (settings.load.crossed.iter())
            .map(|(_, own)| {
                let stored = own.stored();
                assert_eq!(own.load.concurrency.len(), 1);
                format!("{} {}", stored["input_tokens"], stored["concurrency"][0])
            })
            .collect();
        asked.sort_unstable();
        assert_eq!(
            asked,
            ["1024 1", "1024 64", "1024 8", "128 1", "128 64", "128 8"]
        );
    }
    // a factor may be what another key needs
    let rates = ["--factor", "rate=1,2", "--arrival", "constant"];
    assert_eq!(configured("", &rates).unwrap().load.crossed.len(), 2);

    let refused = |args: &[&str]| configured("", args).unwrap_err().join("\n");
    let of = |factor: &str| refused(&["--factor", factor]);
    assert!(of("temperature=0,1").contains("applies to the whole run"));
    assert!(of("inputtokens=1,2").contains("did you mean `input_tokens`?"));
    assert!(of("grid=true").contains("bench-throughput does not have this key"));
    assert!(of("concurrency=0,1").contains("concurrency"));
    assert!(of("concurrency=ramp:x,2").contains("--factor"));
    let again = refused(&["--factor", "rate=1", "--factor", "rate=2"]);
    assert!(again.contains("given twice"), "{again}");
    let both = refused(&["--factor", "rate=1", "--rate", "2"]);
    assert!(both.contains("is also a factor"), "{both}");
    let two = refused(&["--factor", "rate=1,2", "--factor", "concurrency=1,2"]);
    assert_eq!(two.matches("not both").count(), 1, "{two}");
    let search = refused(&["--factor", "rate=1,2", "--find-capacity", "--slo", "e2e=1s"]);
    assert!(search.contains("chooses its own cells"), "{search}");
    assert!(refused(&["--in-order"]).contains("needs `factor` or `vary`"));
    let numbers: Vec<String> = (1..=40).map(|n| n.to_string()).collect();
    let numbers = numbers.join(",");
    let many = refused(&[
        "--factor",
        &format!("concurrency={numbers}"),
        "--factor",
        &format!("input_tokens={numbers}"),
    ]);
    assert!(many.contains("1600 combinations"), "{many}");
}

/// An environment of its own, and what is on the desk.
struct Environment(Vec<(String, String)>);

impl Environment {
    fn of(variables: &[(&str, &str)]) -> Self {
        let owned = |&(name, text): &(&str, &str)| (name.to_owned(), text.to_owned());
        Self(variables.iter().map(owned).collect())
    }
}

impl Surroundings for Environment {
    fn variable(&self, name: &str) -> Option<OsString> {
        let mut variables = self.0.iter();
        let here = variables.find(|(known, _)| known == name);
        here.map(|(_, text)| text.into())
            .or_else(|| Desk.variable(name))
    }

    fn names(&self) -> Vec<String> {
        self.0.iter().map(|(name, _)| name.clone()).collect()
    }

    fn read(&self, file: &Path) -> Result<String, String> {
        Desk.read(file)
    }
}

/// A value of this flag that is not its default.
fn sample(flag: &Arg) -> &'static str {
    let value = flag.get_value_names().and_then(<[_]>::first);
    match (flag.get_id().as_str(), value.map_or("", |name| name)) {
        ("api", _) => "openai-completions",
        ("prompts", _) => "long",
        ("categories", _) => "tiny,long",
        ("connections", _) => "per-request",
        ("arrival", _) => "constant",
        ("output", _) => "json",
        ("bad_lines", _) => "skip",
        ("salt", _) => "never",
        ("precision", _) => "p99:ttft=5%",
        ("attain", _) => "0.99",
        ("slo", _) => "ttft=1s,p99:itl=5ms",
        ("target", _) => "failed==0",
        ("scenarios", _) => "scenarios",
        ("dataset", _) => "random",
        (_, "URL") => "http://h:1",
        (_, "NAME") => "KEY",
        (_, "FILE" | "PATH" | "DIR" | "PROFILE|FILE" | "MATCHERS") => "a-name",
        (_, "K: V") => "x-key: v",
        (_, "K=V" | "NAME=QUERY") => "a=b,c",
        (_, "COMMAND") => "serve --port {port}",
        (_, "NAME=VALUES") => "a=1,2",
        (_, "NAME=VALUE") => "a=1",
        (_, "KEY=VALUES") => "repeat=1,2",
        (_, "NAME=VALUE:NAME=VALUES") => "a=1:b=2,3",
        (_, "TIME") => "7s",
        (_, "WHEN") => "false",
        (_, "X") => "0.5",
        (_, "JSON") => "{\"a\":1}",
        (_, "I/N|auto") => "1/4",
        (_, "ADDRESS:PORT") => "127.0.0.1:9464",
        (_, "HOST:PORT") => "node-1:7077",
        (_, "RFC3339") => "2031-01-01T00:00:00Z",
        _ => "7",
    }
}

/// The names are a contract: who renames a key breaks somebody's container.
#[test]
fn each_flag_of_each_benchmark_can_be_given_by_its_variable() {
    let mut variables = std::collections::BTreeSet::new();
    for benchmark in [Benchmark::Latency, Benchmark::Throughput, Benchmark::Seqlen] {
        let read = |args: &[String], around: &Environment| {
            let args = std::iter::once("b").chain(args.iter().map(String::as_str));
            let flags = flags(benchmark, "", args.map(OsString::from)).unwrap();
            let config = flags.config(around);
            let given = Given::read(benchmark, flags, None, around).unwrap();
            (config, given.settings.stored())
        };
        let unset = read(&[], &Environment::of(&[]));
        for key in command(benchmark, "").get_arguments() {
            let (long, value) = (key.get_long().unwrap(), sample(key));
            let (flag, value) = match key.get_action() {
                ArgAction::SetTrue => {
                    let on = (!long.starts_with("no-")).to_string();
                    (format!("--{long}"), on)
                }
                _ => (format!("--{long}={value}"), value.to_owned()),
            };
            let name = format!("BENCH_{}", key.get_id().as_str().to_uppercase());
            let told = read(&[], &Environment::of(&[(&name, &value)]));
            assert_ne!(told, unset, "{name}={value} changes nothing");
            assert_eq!(told, read(&[flag], &Environment::of(&[])), "{name}");
            variables.insert(format!("{name} --{long}"));
        }
    }
    let variables: Vec<_> = variables.into_iter().collect();
    insta::assert_snapshot!(variables.join("\n"));
}

fn surrounded(variables: &[(&str, &str)], file: &str, args: &[&str]) -> Result<Settings, String> {
    let file = Some((Path::new("x.toml"), file));
    let around = Environment::of(variables);
    Given::read(Benchmark::Throughput, flagged(args), file, &around)
        .and_then(Given::finish)
        .map_err(|problems| {
            let said: Vec<_> = problems.iter().map(ToString::to_string).collect();
            said.join("\n")
        })
}

/// What `--shard auto` comes to with these variables: the shard, what says so, and where it writes.
fn placed(variables: &[(&str, &str)], args: &[&str]) -> Result<(u32, u32, String, String), String> {
    let args = [&["--shard", "auto", "--out", "all"], args].concat();
    let settings = surrounded(variables, "", &args)?;
    let (index, count) = settings.client.shard.unwrap();
    let told = settings.client.shard_told.unwrap();
    let out = settings.output.out.unwrap().display().to_string();
    Ok((index, count, told, out))
}

#[test]
fn a_shard_is_what_its_launcher_says() {
    for (index, count) in [
        ("JOB_COMPLETION_INDEX", "BENCH_SHARDS"),
        ("SLURM_PROCID", "SLURM_NTASKS"),
        ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
        ("PMI_RANK", "PMI_SIZE"),
    ] {
        let told = format!("{index} is 2 and {count} is 8");
        let found = placed(&[(index, "2"), (count, "8")], &[]);
        let expected = (2, 8, told, "all/shard-2-of-8".to_owned());
        assert_eq!(found, Ok(expected));
        for (variables, said) in [
            (
                &[(index, "2")][..],
                format!("{index} is set but {count} is not"),
            ),
            (
                &[(count, "8")],
                format!("{count} is set but {index} is not"),
            ),
            (
                &[(index, "2"), (count, "")],
                format!("{index} is set but {count} is not"),
            ),
            (&[(index, "two"), (count, "8")], format!("{index} is `two`")),
            (&[(index, "2"), (count, "-8")], format!("{count} is `-8`")),
            (
                &[(index, "8"), (count, "8")],
                format!("{index} is 8 and {count} is 8"),
            ),
            (
                &[(index, "0"), (count, "0")],
                format!("{index} is 0 and {count} is 0"),
            ),
        ] {
            let refused = placed(variables, &[]).unwrap_err();
            assert!(refused.contains(&said), "{refused}");
            assert_eq!(refused.matches("help:").count(), 1, "{refused}");
        }
    }
    // one process alone has the folder to itself
    let alone = placed(&[("SLURM_PROCID", "0"), ("SLURM_NTASKS", "1")], &[]).unwrap();
    assert_eq!((alone.0, alone.1, alone.3.as_str()), (0, 1, "all"));
    let nobody = placed(&[], &["--per-shard"]).unwrap_err();
    assert!(
        nobody.contains("SLURM_PROCID") && nobody.contains("JOB_COMPLETION_INDEX"),
        "{nobody}"
    );
    assert_eq!(nobody.matches("help:").count(), 1, "{nobody}");
    // as it is written, it needs no environment, and writes where it is told
    let args = ["--shard", "1/4", "--out", "all"];
    let settings = surrounded(&[("SLURM_PROCID", "x")], "", &args).unwrap();
    assert_eq!(settings.client.shard, Some((1, 4)));
    assert_eq!(settings.output.out.as_deref(), Some(Path::new("all")));
}

#[test]
fn shards_meet_with_a_token_that_cannot_be_guessed() {
    let met = |token: &str, args: &[&str]| {
        let args = [&["--meet", "node-1:7077"], args].concat();
        surrounded(&[("BENCH_MEET_TOKEN", token)], "", &args)
    };
    let secret = "0123456789abcdef";
    let settings = met(secret, &["--shard", "1/4"]).unwrap();
    assert_eq!(settings.client.meet.as_deref(), Some("node-1:7077"));
    let token = settings.credentials.meet.as_ref().unwrap();
    assert_eq!(token.expose(), secret);
    assert!(!settings.stored().to_string().contains(secret));
    for (token, args, wrong) in [
        (
            "",
            &["--shard", "1/4"][..],
            "no variable `BENCH_MEET_TOKEN`",
        ),
        ("0123456789abcde", &["--shard", "1/4"], "could be guessed"),
        (secret, &[], "is only for shards"),
    ] {
        let refused = met(token, args).unwrap_err();
        assert!(
            refused.contains(wrong) && !refused.contains("0123456789abcde"),
            "{refused}"
        );
    }
}

/// `mpirun` in a job of Slurm has both; one that the job's shell left behind says nothing.
#[test]
fn launchers_that_disagree_are_refused_by_name() {
    let of_mpi = [("OMPI_COMM_WORLD_RANK", "1"), ("OMPI_COMM_WORLD_SIZE", "4")];
    let both = |index, count| {
        let slurm = [("SLURM_PROCID", index), ("SLURM_NTASKS", count)];
        placed(&[&slurm[..], &of_mpi].concat(), &[])
    };
    for (index, count) in [("0", "4"), ("1", "8")] {
        let refused = both(index, count).unwrap_err();
        assert!(
            refused.contains("SLURM_PROCID") && refused.contains("OMPI_COMM_WORLD_RANK"),
            "{refused}"
        );
    }
    assert!(both("1", "4").is_ok());
    let half = [&[("SLURM_NTASKS", "9")][..], &of_mpi].concat();
    assert_eq!(placed(&half, &[]).map(|it| (it.0, it.1)), Ok((1, 4)));
}

/// Read as nothing, another server or load would be measured than was meant.
#[cfg(unix)]
#[test]
fn a_variable_that_is_no_text_is_refused_by_name() {
    use std::os::unix::ffi::OsStringExt as _;

    struct NoText;
    impl Surroundings for NoText {
        fn variable(&self, name: &str) -> Option<OsString> {
            let broken = ["BENCH_URL", "TOKEN", "LS_COLORS"].contains(&name);
            broken.then(|| OsString::from_vec(vec![b'h', 0xff]))
        }

        fn names(&self) -> Vec<String> {
            Vec::new()
        }

        fn read(&self, file: &Path) -> Result<String, String> {
            Desk.read(file)
        }
    }

    let flags = flagged(&["--api-key-env", "TOKEN"]);
    let given = Given::read(Benchmark::Throughput, flags, None, &NoText);
    let problems = given.and_then(Given::finish).unwrap_err();
    let said: Vec<_> = problems.iter().map(ToString::to_string).collect();
    let names = |name: &str| {
        let of_name = |line: &&String| line.contains(name) && line.contains("not UTF-8");
        said.iter().filter(of_name).count()
    };
    assert_eq!([names("BENCH_URL"), names("TOKEN")], [1, 1], "{said:?}");
    assert_eq!(said.len(), 2, "{said:?}");
}

/// As that of any other flag.
#[test]
fn a_blank_variable_names_no_configuration() {
    let of = |told: &str| flagged(&[]).config(&Environment::of(&[("BENCH_CONFIG", told)]));
    assert_eq!((of(" "), of("")), (None, None));
    assert_eq!(of("a.toml").as_deref(), Some(Path::new("a.toml")));
}

/// A container whose variable has a slip would measure something else, and nobody would see it.
#[test]
fn a_variable_that_is_nearly_a_key_s_is_refused_and_others_are_not() {
    let said = |name: &str| surrounded(&[(name, "7")], "", &[]).map(|_| ());
    for (name, meant) in [
        ("BENCH_CONCURENCY", "did you mean `BENCH_CONCURRENCY`?"),
        ("BENCH_OUTPUT_TOKEN", "did you mean `BENCH_OUTPUT_TOKENS`?"),
        ("BENCH_NO_STREAM", "write `BENCH_STREAM=false`"),
    ] {
        let refused = said(name).unwrap_err();
        assert!(
            refused.contains(name) && refused.contains(meant),
            "{refused}"
        );
    }
    for other in [
        "BENCH_NAME",
        "BENCH_DATE",
        "BENCH_SHARDS",
        "BENCH_MEET_TOKEN",
        "BENCH_CONFIG",
        "BENCH_RUNNER_HOME",
    ] {
        assert_eq!(said(other), Ok(()), "{other}");
    }
}

#[test]
fn flags_win_over_the_environment_and_that_over_the_file() {
    let all = [("BENCH_SEED", "2"), ("BENCH_TAG", "a=1,2\nb=3\n")];
    let settings = surrounded(&all, "seed = 1\nrepeat = 4\n", &[]).unwrap();
    assert_eq!((settings.seed, settings.load.repeat), (2, Some(4)));
    let pair = |k: &str, v: &str| (k.to_owned(), v.to_owned());
    assert_eq!(settings.output.tag, [pair("a", "1,2"), pair("b", "3")]);
    let settings = surrounded(&all, "seed = 1\n", &["--seed", "3"]).unwrap();
    assert_eq!(settings.seed, 3);
    let settings = surrounded(&[("BENCH_SEED", " ")], "seed = 1\n", &[]).unwrap();
    assert_eq!(settings.seed, 1);
}

#[test]
fn a_wrong_value_names_its_variable_and_unknown_ones_are_left_alone() {
    let said = surrounded(&[("BENCH_RATE", "0"), ("BENCH_STREAM", "no")], "", &[]).unwrap_err();
    assert!(said.contains("BENCH_RATE: key `rate`: must be"), "{said}");
    assert!(
        said.contains("BENCH_STREAM: key `stream`: must be true or false (got `no`)"),
        "{said}"
    );
    let others = [("BENCH_NO_SUCH_KEY", "1"), ("BENCH_PROMPTS", "nonsense")];
    surrounded(&others, "", &[]).unwrap();
    let said = surrounded(&[("BENCH_HEADER", "sk-1234")], "", &[]).unwrap_err();
    assert!(
        said.starts_with("BENCH_HEADER") && !said.contains("sk-1234"),
        "{said}"
    );
}

#[test]
fn a_search_has_a_budget_for_its_first_requests() {
    let of = |budget: &str| {
        let flags = ["--find-capacity", "--slo", "e2e=1s", "--budget", budget];
        configured("", &flags)
    };
    assert!(of("10").is_ok());
    assert!(of("1s").is_ok());
    for little in ["0", "3", "9", "0s"] {
        let said = of(little).unwrap_err().join("\n");
        assert!(said.contains("begins with 7 requests"), "{little}: {said}");
    }
}

#[test]
fn an_objective_or_width_that_cannot_be_read_is_one_problem_of_a_search() {
    let of = |flags: &[&str]| configured("", &[&["--find-capacity"], flags].concat()).unwrap_err();
    for slo in ["p95:tfft=100ms", "ttft=0ms", "p95:ttft=100", "p100:ttft=1s"] {
        let said = of(&["--slo", slo]);
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(!said[0].contains("at least one objective"), "{said:?}");
    }
    assert!(of(&[])[0].contains("at least one objective"));
    let said = of(&["--slo", "e2e=1s", "--precision", "0"]);
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].contains("a width, such as 5%"), "{said:?}");
}
