//! The tables of a run. Each is built from the record alone, and is absent where the record has nothing for it.

mod details;
mod outcomes;
mod results;
mod search;

pub(crate) use details::{
    QUANTILES, client, distributions, first_phase, hardware, phases, scale_of, significant,
};
pub use outcomes::measured_words;
pub(crate) use outcomes::{
    causes, costliest, counts, failure_counts, failures, largest_phase, limit_words,
    objective_words, objectives, quantile_words, summary_line, targets, verdict_counts,
};
pub(crate) use results::{
    grid, groups, groups_in_order, level_before, peak, scaling, scaling_of, scaling_row,
    shown_factors, sweep,
};
pub use search::capacity_words;
pub(crate) use search::{slo_words, stages, unit as capacity_unit};

use details::{derived, fits};
use results::{group_labels, origins};

use std::collections::BTreeSet;

use bench_schema::{
    Benchmark, CellRecord, ClockKind, Load, Metric, Origin, RunRecord, StopRule, counted,
};
use serde_json::Value;

use crate::table::{Cell, Column, Mark, Sheet, Table};
use crate::{number, text};

/// The tables that answer the benchmark's own question, the most telling first.
pub(crate) fn results(run: &RunRecord) -> Vec<Table> {
    let by_cell = match run.experiment {
        _ if run.analysis.capacity.is_some() => search::table(run),
        Benchmark::Throughput => sweep(run),
        Benchmark::Latency | Benchmark::Seqlen => grid(run),
    };
    let labels = group_labels(run);
    let mut tables: Vec<Table> = labels.iter().filter_map(|by| groups(run, by)).collect();
    // What a spread of lengths is measured for are its categories.
    let place = if run.experiment == Benchmark::Seqlen {
        tables.len()
    } else {
        0
    };
    tables.splice(place..place, by_cell);
    tables.extend(origins(run));
    tables.extend(scaling(run).filter(|_| run.analysis.capacity.is_none()));
    tables
}

/// Everything behind the results: all distributions, phases, fits, machines, the client itself.
pub(crate) fn details(run: &RunRecord) -> Vec<Table> {
    let latencies = [
        Metric::Ttft,
        Metric::TtftDue,
        Metric::Ttfa,
        Metric::Itl,
        Metric::Icl,
        Metric::Tpot,
        Metric::E2e,
        Metric::E2eDue,
        Metric::Queue,
        Metric::Tail,
    ];
    let lengths = [
        Metric::InputTokens,
        Metric::OutputTokens,
        Metric::TokensPerChunk,
    ];
    let all = [
        level_before(run).filter(|_| run.analysis.capacity.is_none()),
        causes(run),
        phases(run),
        distributions(run, &latencies, "All latencies"),
        distributions(run, &lengths, "Prompt and output lengths"),
        distributions(run, &[Metric::TokensPerSUser], "Output speed per request"),
        fits(run),
        derived(run),
        hardware(run),
        client(run),
    ];
    all.into_iter().flatten().collect()
}

/// The sign for a cell that a trust reason names.
pub(crate) fn trust_mark(run: &RunRecord, cell: &CellRecord) -> Option<Mark> {
    let about = run
        .trust
        .reasons
        .iter()
        .filter(|reason| reason.names(&cell.id));
    Mark::of(about.map(|reason| reason.verdict).max()?)
}

/// A table with a row for each cell, which its label begins, marked by its trust.
fn of_cells(run: &RunRecord) -> Sheet<'_, &CellRecord> {
    Sheet::new().column(Column::text("cell"), |cell: &&CellRecord| named(run, cell))
}

/// A cell's label with the sign of its trust.
fn named(run: &RunRecord, cell: &CellRecord) -> Cell {
    Cell::text(label(cell)).marked(trust_mark(run, cell))
}

/// The metric for gaps between tokens that this run has: ITL, else ICL, else TPOT.
pub(crate) fn gap_metric(run: &RunRecord) -> Metric {
    let has = |metric: &Metric| {
        run.cells
            .iter()
            .any(|cell| cell.metrics.contains_key(metric))
    };
    [Metric::Itl, Metric::Icl, Metric::Tpot]
        .into_iter()
        .find(has)
        .unwrap_or(Metric::Itl)
}

/// Where the headline latencies of the run begin, as words; says so where cells differ.
pub(crate) fn origin_words(run: &RunRecord) -> &'static str {
    let due = run
        .cells
        .iter()
        .filter(|cell| cell.headline == Origin::Due)
        .count();
    match due {
        0 => "from send time",
        n if n == run.cells.len() => "from due time",
        _ => "from due time (open loop) or send time (closed loop)",
    }
}

/// What every row of a table of results is taken over: where its latencies begin, and which of a cell's requests it is of.
pub(crate) fn population_words(run: &RunRecord) -> String {
    let steady = run
        .cells
        .iter()
        .filter(|cell| cell.windows.steady.is_some());
    let of = match steady.count() {
        0 => "all requests",
        n if n == run.cells.len() => "steady-state window",
        _ => "steady-state window where a cell has one, else all requests",
    };
    format!("latency {}, {of}", origin_words(run))
}

/// The level of the load: concurrency, or requests (conversations) per second; no number where the pace is a file's.
pub(crate) fn load_level(load: &Load) -> Option<f64> {
    match load {
        Load::Closed { concurrency, .. } => Some(f64::from(*concurrency)),
        Load::Open { rate_per_s, .. } => *rate_per_s,
    }
}

/// What the rates of a run's open loops count.
pub(crate) fn rate_unit(run: &RunRecord) -> &'static str {
    let mut units = run
        .cells
        .iter()
        .map(|cell| bench_schema::rate_unit(&cell.plan.dataset));
    let first = units.next().unwrap_or("req/s");
    if units.all(|unit| unit == first) {
        first
    } else {
        "per s"
    }
}

/// The report that has everything, and how to get it where the run was asked for none.
pub(crate) fn page(run: &RunRecord) -> &'static str {
    let html = run.config.get("html");
    if html.is_some_and(|html| *html == false || *html == "false") {
        "report.html (`bench-report render` writes it)"
    } else {
        "report.html"
    }
}

/// `1 row more in report.md`.
pub(crate) fn rows_more(left_out: usize, place: &str) -> String {
    format!("{} more in {place}", counted(left_out, "row"))
}

/// `1 row between these is in report.md`: of a table that keeps its first and its last row.
pub(crate) fn rows_between(left_out: usize, place: &str) -> String {
    let is = if left_out == 1 { "is" } else { "are" };
    format!("{} between these {is} in {place}", counted(left_out, "row"))
}

/// A cell's label, made plain.
pub(crate) fn label(cell: &CellRecord) -> String {
    text::shortened(&cell.label, 60)
}

/// Facts of the run as pairs, only those that are known.
pub(crate) fn context(run: &RunRecord) -> Table {
    let mut table = Table::of_words("Run context", &["what", "value"]);
    let mut add = |what: &str, value: Option<String>| {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            table.push_words([text::shortened(what, 60), text::plain(&value)]);
        }
    };
    server(run, &mut add);
    asked(run, &mut add);
    host(run, &mut add);
    let tags = run.tags.iter().map(|(key, value)| format!("{key}={value}"));
    add("tags", Some(tags.collect::<Vec<_>>().join(", ")));
    let took = number::duration(run.duration.as_f64());
    add("started", Some(format!("{}, took {took}", run.started_at)));
    add(
        "measured with",
        Some(format!(
            "{} {}, arrival times from {}",
            run.tool.name,
            run.tool.version,
            clock(run)
        )),
    );
    table
}

fn server(run: &RunRecord, add: &mut impl FnMut(&str, Option<String>)) {
    let server = &run.server;
    add("model", server.model.clone());
    let mut engine: Vec<String> = Vec::new();
    engine.extend(server.kind.clone());
    engine.extend(
        server
            .version
            .as_ref()
            .map(|version| format!("version {version}")),
    );
    if server.embedded {
        engine
            .push("embedded, started by this run: not representative of a real server".to_owned());
    }
    add("server", Some(engine.join(", ")));
    let told = server.facts.iter();
    let told: Vec<String> = told.map(|(name, fact)| format!("{name} {fact}")).collect();
    add("server settings", Some(told.join(", ")));
    let mut target = server.urls.clone();
    target.push(server.api.clone());
    target.extend(server.proxy.iter().map(|proxy| format!("proxy {proxy}")));
    if server.tls_unverified {
        target.push("certificates not verified (--insecure)".to_owned());
    }
    add("target", Some(target.join(", ")));
}

fn asked(run: &RunRecord, add: &mut impl FnMut(&str, Option<String>)) {
    let stops: BTreeSet<String> = run
        .cells
        .iter()
        .map(|cell| stop_words(&cell.stop))
        .filter(|stop| !stop.is_empty())
        .collect();
    let mut load = load_words(run);
    if !stops.is_empty() && stops.len() <= 3 {
        let stops = stops.into_iter().collect::<Vec<_>>().join("; ");
        load.push_str(&format!("; each cell ends after {stops}"));
    }
    let repeats = run.cells.iter().map(|cell| cell.repeats).max();
    if let Some(repeats) = repeats.filter(|&n| n > 1) {
        load.push_str(&format!(", {repeats} repeats"));
    }
    add("load", Some(load));
    add("requests", Some(request_shape(run)));
}

/// `random, 256 tokens in (sized by words), 128 out; ignore-eos, salted prompts, temperature 0; seed 42`.
fn request_shape(run: &RunRecord) -> String {
    let distinct = |pick: fn(&CellRecord) -> &str| {
        let all: BTreeSet<&str> = run
            .cells
            .iter()
            .map(pick)
            .filter(|s| !s.is_empty())
            .collect();
        all.into_iter().collect::<Vec<_>>().join(", ")
    };
    // Schema 1 stored texts, schema 2 typed values.
    let asked = |key: &str| match run.config.get(key) {
        Some(Value::String(text)) if !text.is_empty() => Some(text.clone()),
        Some(value @ (Value::Number(_) | Value::Bool(_))) => Some(value.to_string()),
        Some(Value::Array(items)) if !items.is_empty() => {
            let items = items.iter().map(|item| item.to_string().replace('"', ""));
            Some(items.collect::<Vec<_>>().join(", "))
        }
        _ => None,
    };
    let mut parts = vec![distinct(|cell| &cell.plan.dataset)];
    let sized_by = distinct(|cell| &cell.plan.sized_by);
    parts.extend(asked("input_tokens").map(|n| format!("{n} tokens in")));
    if !sized_by.is_empty() {
        parts.push(format!("sized by {sized_by}"));
    }
    parts.extend(asked("output_tokens").map(|n| format!("{n} tokens out")));
    if asked("ignore_eos").as_deref() == Some("true") {
        parts.push("ignore-eos".to_owned());
    }
    parts.extend(asked("salt").map(|salt| salt_words(&salt, parts.first()).to_owned()));
    let samplings = ["temperature", "top_p", "top_k", "min_tokens"];
    parts.extend(
        samplings
            .iter()
            .filter_map(|key| Some(format!("{key} {}", asked(key)?))),
    );
    parts.push(format!("seed {}", run.seed));
    parts.retain(|part| !part.is_empty());
    parts.join(", ")
}

/// What makes prompts unlike each other.
fn salt_words(salt: &str, dataset: Option<&String>) -> &'static str {
    match (salt, dataset.map_or("", String::as_str)) {
        ("never", _) => "unsalted prompts",
        ("auto", "study:gpt2") => "",
        ("auto", study) if study.starts_with("study:") => {
            "first word of each prompt replaced by a random one"
        }
        ("auto", _) => "salted prompts",
        _ => "",
    }
}

/// `closed loop at concurrency 1, 2, 4`.
fn load_words(run: &RunRecord) -> String {
    let mut closed: Vec<String> = Vec::new();
    let mut open: Vec<String> = Vec::new();
    for cell in &run.cells {
        match &cell.load {
            Load::Closed {
                concurrency, ramp, ..
            } => {
                let level = ramp
                    .as_ref()
                    .map_or_else(|| concurrency.to_string(), ToString::to_string);
                if !closed.contains(&level) {
                    closed.push(level);
                }
            }
            Load::Open {
                rate_per_s,
                arrival,
                ..
            } => {
                let pace = match rate_per_s {
                    Some(rate) => format!("{rate} requests/s"),
                    None => format!("the rate of its {}", arrival.name()),
                };
                if !open.contains(&pace) {
                    open.push(pace);
                }
            }
        }
    }
    let mut parts = Vec::new();
    if !closed.is_empty() {
        parts.push(format!("closed loop at concurrency {}", closed.join(", ")));
    }
    if !open.is_empty() {
        let each = open.join(", ").replace(" requests/s,", ",");
        parts.push(format!("open loop at {each}"));
    }
    parts.join("; ")
}

fn stop_words(stop: &StopRule) -> String {
    let mut parts = Vec::new();
    parts.extend(stop.requests.map(|n| counted(n, "request")));
    parts.extend(stop.duration.map(|d| number::duration(d.as_f64())));
    parts.extend(stop.precision.iter().cloned());
    parts.join(" or ")
}

fn host(run: &RunRecord, add: &mut impl FnMut(&str, Option<String>)) {
    let host = &run.host;
    let memory = host.memory_bytes.map(|b| b as f64 / 1024.0_f64.powi(3));
    let client = [
        host.name.clone(),
        host.cpu_model.clone(),
        host.cpus.map(|n| match host.facts.get("cpu.logical") {
            Some(all) if *all != n.to_string() => format!("{n} of {all} logical CPUs usable"),
            _ => format!("{n} logical CPUs"),
        }),
        memory.map(|gib| format!("{} GiB", number::short(gib))),
        host.os.clone(),
        host.kernel
            .as_ref()
            .map(|kernel| format!("kernel {kernel}")),
    ];
    let client: Vec<String> = client.into_iter().flatten().collect();
    add("client", Some(client.join(", ")));
    let (mut own, mut gpus, mut git) = (Vec::new(), Vec::new(), Vec::new());
    for (name, value) in &host.facts {
        let (words, value) = fact_words(name, value);
        let said = format!("{words} {value}");
        match name.split(['.', '_']).next() {
            Some("gpu" | "driver" | "cuda" | "nvml") => gpus.push(said),
            Some("git") => git.push(value),
            _ => own.push(said),
        }
    }
    add("GPUs", Some(gpus.join(", ")));
    add("git", Some(git.join(" ")));
    add("client settings", Some(own.join(", ")));
}

/// A fact of the host as people say it; unknown names stay as they are, without their dots.
fn fact_words(name: &str, value: &str) -> (String, String) {
    let as_is = |words: &str| (words.to_owned(), value.to_owned());
    match name {
        "sampler_cpu_share" => {
            let share = value.parse::<f64>().ok().map(number::percent);
            let value = share.map_or_else(|| value.to_owned(), |p| format!("{p} % of one CPU"));
            ("sampling overhead".to_owned(), value)
        }
        "cpu.smt" => {
            let value = match value {
                "0" => "off",
                "1" => "on",
                other => other,
            };
            ("SMT".to_owned(), value.to_owned())
        }
        "cpu.architecture" => as_is("architecture"),
        "cpu.cores" => as_is("cores"),
        "cpu.logical" => as_is("logical CPUs"),
        "cpu.governor" => as_is("governor"),
        "clock.source" => as_is("clock"),
        "container" => as_is("container"),
        "git.commit" => as_is("commit"),
        "git.branch" => as_is("branch"),
        other => (other.replace(['_', '.'], " "), value.to_owned()),
    }
}

fn clock(run: &RunRecord) -> String {
    match run.clock.arrival {
        ClockKind::Kernel => "the kernel's receive timestamps".to_owned(),
        ClockKind::ReadReturn => {
            let why = run
                .clock
                .fallback_reason
                .as_deref()
                .map_or_else(String::new, |why| format!(" ({why})"));
            format!("the return of the client's read{why}")
        }
    }
}
