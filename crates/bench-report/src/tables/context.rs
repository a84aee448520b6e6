//! What was measured, where, and with what.

use std::collections::BTreeSet;

use bench_schema::{ClockKind, Load, RunRecord, StopRule};

use crate::table::{Cell, Column, Table};
use crate::{number, text};

/// Facts of the run as pairs, only those that are known.
pub(crate) fn context(run: &RunRecord) -> Table {
    let mut table = Table::new(
        "Run context",
        vec![Column::text("what"), Column::text("value")],
    );
    let mut add = |what: &str, value: Option<String>| {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            table.push(vec![
                Cell::text(text::shortened(what, 60)),
                Cell::text(text::plain(&value)),
            ]);
        }
    };
    server(run, &mut add);
    load(run, &mut add);
    host(run, &mut add);
    for (key, value) in &run.tags {
        add(&format!("tag {key}"), Some(value.clone()));
    }
    add("started", Some(run.started_at.clone()));
    add("took", Some(number::duration(run.duration.as_f64())));
    add("seed", Some(run.seed.to_string()));
    add("arrival stamps", Some(clock(run)));
    add(
        "tool",
        Some(format!("{} {}", run.tool.name, run.tool.version)),
    );
    table
}

fn server(run: &RunRecord, add: &mut impl FnMut(&str, Option<String>)) {
    let server = &run.server;
    add("model", server.model.clone());
    let engine = match (&server.kind, &server.version) {
        (Some(kind), Some(version)) => Some(format!("{kind} {version}")),
        (Some(kind), None) => Some(kind.clone()),
        (None, Some(version)) => Some(format!("version {version}")),
        (None, None) => None,
    };
    add("server", engine);
    let told = server.facts.iter();
    let told: Vec<String> = told.map(|(name, fact)| format!("{name} {fact}")).collect();
    add("it tells of itself", Some(told.join(", ")));
    add("target", Some(server.urls.join(", ")));
    if server.embedded {
        add(
            "engine",
            Some(
                "the embedded one, started by this run: its numbers are not those of a real server"
                    .to_owned(),
            ),
        );
    }
    add("protocol", Some(server.api.clone()));
    if server.tls_unverified {
        add("certificates", Some("not verified (--insecure)".to_owned()));
    }
    add("proxy", server.proxy.clone());
}

fn load(run: &RunRecord, add: &mut impl FnMut(&str, Option<String>)) {
    add("load", Some(load_words(run)));
    let distinct = |pick: fn(&bench_schema::CellRecord) -> &str| {
        let all: BTreeSet<&str> = run
            .cells
            .iter()
            .map(pick)
            .filter(|s| !s.is_empty())
            .collect();
        all.into_iter().collect::<Vec<_>>().join(", ")
    };
    add("requests from", Some(distinct(|cell| &cell.plan.dataset)));
    add(
        "prompts sized by",
        Some(distinct(|cell| &cell.plan.sized_by)),
    );
    let stops: BTreeSet<String> = run
        .cells
        .iter()
        .map(|cell| stop_words(&cell.stop))
        .collect();
    if stops.len() <= 3 {
        add(
            "each cell ends after",
            Some(stops.into_iter().collect::<Vec<_>>().join("; ")),
        );
    }
    let repeats: BTreeSet<u32> = run
        .cells
        .iter()
        .map(|cell| cell.repeats)
        .filter(|&n| n > 1)
        .collect();
    add("repeats of a cell", repeats.last().map(ToString::to_string));
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
            Load::Open { rate_per_s, .. } if !open.contains(&rate_per_s.to_string()) => {
                open.push(rate_per_s.to_string());
            }
            Load::Open { .. } => {}
        }
    }
    let mut parts = Vec::new();
    if !closed.is_empty() {
        parts.push(format!("closed loop at concurrency {}", closed.join(", ")));
    }
    if !open.is_empty() {
        parts.push(format!("open loop at {} requests/s", open.join(", ")));
    }
    parts.join("; ")
}

fn stop_words(stop: &StopRule) -> String {
    let mut parts = Vec::new();
    parts.extend(stop.requests.map(|n| format!("{n} requests")));
    parts.extend(stop.duration.map(|d| number::duration(d.as_f64())));
    parts.extend(stop.precision.iter().cloned());
    parts.join(" or ")
}

fn host(run: &RunRecord, add: &mut impl FnMut(&str, Option<String>)) {
    let host = &run.host;
    let cpus = match (&host.cpu_model, host.cpus) {
        (Some(model), Some(n)) => Some(format!("{model}, {n} logical CPUs")),
        (Some(model), None) => Some(model.clone()),
        (None, Some(n)) => Some(format!("{n} logical CPUs")),
        (None, None) => None,
    };
    add("client host", host.name.clone());
    add("client CPU", cpus);
    add(
        "client memory",
        host.memory_bytes
            .map(|b| format!("{} GiB", number::short(b as f64 / 1024.0_f64.powi(3)))),
    );
    let system = [host.os.clone(), host.kernel.clone()]
        .into_iter()
        .flatten()
        .collect::<Vec<_>>()
        .join(", kernel ");
    add("client system", Some(system));
    for (name, value) in &host.facts {
        let (name, value) = fact_words(name, value);
        add(&name, Some(value));
    }
}

/// A fact of the host as people say it; unknown names stay as they are, without their dots.
fn fact_words(name: &str, value: &str) -> (String, String) {
    let as_is = |words: &str| (words.to_owned(), value.to_owned());
    match name {
        "sampler_cpu_share" => {
            let share = value.parse::<f64>().ok().map(number::percent);
            let value = share.map_or_else(|| value.to_owned(), |p| format!("{p} % of one CPU"));
            ("cost of sampling".to_owned(), value)
        }
        "cpu.smt" => {
            let value = match value {
                "0" => "off",
                "1" => "on",
                other => other,
            };
            ("client SMT".to_owned(), value.to_owned())
        }
        "cpu.architecture" => as_is("client architecture"),
        "cpu.cores" => as_is("client CPU cores"),
        "cpu.logical" => as_is("client logical CPUs"),
        "cpu.governor" => as_is("client CPU governor"),
        "clock.source" => as_is("client clock source"),
        "container" => as_is("client container"),
        "git.commit" => as_is("git commit"),
        "git.branch" => as_is("git branch"),
        other => (other.replace(['_', '.'], " "), value.to_owned()),
    }
}

fn clock(run: &RunRecord) -> String {
    match run.clock.arrival {
        ClockKind::Kernel => "the kernel's receive time".to_owned(),
        ClockKind::ReadReturn => {
            let why = run
                .clock
                .fallback_reason
                .as_deref()
                .map_or_else(String::new, |why| format!(" ({why})"));
            format!("the moment the read returned{why}")
        }
    }
}
