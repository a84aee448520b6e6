//! What is not known, and how the rest was measured.

use std::collections::{BTreeMap, BTreeSet};

use bench_schema::{ClockKind, Origin, RunRecord};

use crate::text;

/// What the run, its readings and its windows could not find out, and why; each once.
pub(super) fn unknown(run: &RunRecord, most: usize) -> String {
    let mut lines: BTreeSet<String> = BTreeSet::new();
    let mut add = |what: &str, why: &str| {
        lines.insert(format!(
            "{} ({})",
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
    let more = lines.len().saturating_sub(most);
    let mut told: Vec<String> = lines.into_iter().take(most).collect();
    if more > 0 {
        told.push(format!("{more} more things"));
    }
    if told.is_empty() {
        return String::new();
    }
    format!("\nNot known: {}.\n", told.join("; "))
}

/// How the numbers came about, as far as the record tells: a paragraph.
pub(super) fn how(run: &RunRecord) -> String {
    let mut out = Vec::new();
    out.push(match run.clock.arrival {
        ClockKind::Kernel => "A token's time is its arrival at the kernel (receive timestamps of the socket), not when the program read it.".to_owned(),
        ClockKind::ReadReturn => format!(
            "A token's time is the moment the client's read returned{}.",
            run.clock.fallback_reason.as_deref().map_or_else(String::new, |why| format!("; {}", text::markdown(why)))
        ),
    });
    let open = run.cells.iter().any(|cell| cell.headline == Origin::Due);
    let closed = run.cells.iter().any(|cell| cell.headline == Origin::Sent);
    if open {
        out.push("Open loop: latencies begin when a request was due, so that a slow server cannot hide its queue. Requests/s are completions over the time in which what was due is followed to its end.".to_owned());
    }
    if closed {
        out.push("Closed loop: latencies begin when the last byte of a request was handed to the socket. Requests/s are the mean in flight over the mean E2E (Little's law).".to_owned());
    }
    let steady = run
        .cells
        .iter()
        .filter(|cell| cell.windows.steady.is_some())
        .count();
    out.push(format!(
        "Tokens/s are those that arrived over the length of the window: from the first request due to the last end{}.",
        match steady {
            0 => "",
            n if n == run.cells.len() => ", less what was not steady at its ends",
            _ => ", less what was not steady at its ends in some cells",
        }
    ));
    out.push("Percentiles are exact over all samples, linear between order statistics (type 7). Failed requests are counted, never dropped.".to_owned());
    out.join(" ") + "\n"
}
