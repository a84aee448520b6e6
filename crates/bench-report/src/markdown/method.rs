//! What is not known, and how the rest was measured.

use std::collections::{BTreeMap, BTreeSet};

use bench_schema::{ClockKind, Origin, RunRecord};

use crate::text;

/// What the run, its readings and its windows could not find out, and why; each once.
pub(super) fn unknown(run: &RunRecord) -> String {
    let mut lines: BTreeSet<String> = BTreeSet::new();
    let mut add = |what: &str, why: &str| {
        lines.insert(format!(
            "- {}: {}\n",
            text::markdown(what),
            text::markdown(why)
        ));
    };
    for (what, why) in &run.host.unknown {
        add(&what.replace('_', " "), why);
    }
    for cell in &run.cells {
        for (what, why) in cell.hardware.iter().flat_map(|hardware| &hardware.unknown) {
            add(what, why);
        }
    }
    let mut by_reason: BTreeMap<(&str, &str), Vec<String>> = BTreeMap::new();
    for cell in &run.cells {
        if cell.windows.steady.is_none() {
            let why = cell
                .windows
                .stationarity
                .as_ref()
                .map_or("it was not looked for", |s| s.reason.as_str());
            by_reason
                .entry(("a steady window", why))
                .or_default()
                .push(crate::tables::label(cell));
        }
        if cell
            .headline_rates()
            .is_some_and(|rates| rates.output_tokens_per_s.is_none())
        {
            let why = "neither usage nor a tokenizer told them";
            by_reason
                .entry(("output tokens", why))
                .or_default()
                .push(crate::tables::label(cell));
        }
    }
    for ((what, why), cells) in by_reason {
        let of = if cells.len() == run.cells.len() {
            "every cell".to_owned()
        } else {
            cells.join("; ")
        };
        add(&format!("{what} of {of}"), why);
    }
    lines.into_iter().collect()
}

/// How the numbers came about, as far as the record tells.
pub(super) fn how(run: &RunRecord) -> String {
    let mut out = Vec::new();
    out.push(match run.clock.arrival {
        ClockKind::Kernel => "A token's time is its arrival at the kernel (receive timestamps of the socket), not when the program read it.".to_owned(),
        ClockKind::ReadReturn => format!(
            "A token's time is the moment the client's read returned{}.",
            run.clock.fallback_reason.as_deref().map_or_else(String::new, |why| format!("; {}", text::markdown(why)))
        ),
    });
    if run.cells.iter().any(|cell| cell.headline == Origin::Due) {
        out.push("Latencies of the open loop begin when the schedule wanted the request to start (due), so that a slow server cannot hide its own queue; those from sent stand beside them.".to_owned());
    }
    if run.cells.iter().any(|cell| cell.headline == Origin::Sent) {
        out.push("Latencies of the closed loop begin when the last byte of the request was handed to the socket (sent).".to_owned());
    }
    out.push("Percentiles are exact over all samples, with linear interpolation between order statistics (type 7). Failed requests are counted, never dropped.".to_owned());
    let windows: BTreeSet<&str> = run
        .cells
        .iter()
        .filter(|cell| cell.windows.steady.is_some())
        .map(|_| "steady")
        .collect();
    if windows.is_empty() {
        out.push("Rates are over the whole window, first sent to last end.".to_owned());
    } else {
        out.push(
            "Rates are over the steady window where one was found, else over the whole.".to_owned(),
        );
    }
    out.push(format!("Every draw comes from seed {}.", run.seed));
    out.iter().map(|line| format!("- {line}\n")).collect()
}
