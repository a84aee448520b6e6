//! `--dry-run`: the plan as text, without a server.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use bench_schema::{Load, Nanos, counted};
use bench_workload::{LengthSummary, PlanSummary, TokenCounter, Words};

use super::Run;
use crate::{Cell, RunError};

/// Requests that are made to describe a plan.
const LOOK_AT: u64 = 2_000;
/// Characters of a prompt that are shown.
const HEAD: usize = 72;

impl Run<'_> {
    /// What would be done: cells, requests, lengths, arrivals, the first prompts.
    pub(super) fn plan_as_text(&self, cells: &[Cell]) -> Result<String, RunError> {
        let target = match &self.settings.server.server {
            Some(command) => format!("the server started by `{command}`"),
            None if self.urls.is_empty() => "the embedded engine".to_owned(),
            None => crate::server::shown(&self.urls).join(", "),
        };
        let mut text = format!(
            "bench-{} would measure {target} ({}) in {}; seed {}, prompts sized by {}\n",
            self.settings.benchmark.as_str(),
            self.settings.target.api,
            counted(cells.len(), "cell"),
            self.settings.seed,
            self.token_counter.name(),
        );
        if let Some((index, count)) = self.settings.client.shard {
            // writing to a String cannot fail
            let _written = writeln!(
                text,
                "this is shard {index}/{count}: requests and times are for all shards together, requests in flight for this shard"
            );
        }
        let server = &self.settings.server;
        if !server.vary.is_empty() {
            let many = counted(server.settings().len(), "setting");
            let rounds = counted(crate::matrix::rounds(self.settings), "round");
            // writing to a String cannot fail
            let _written = writeln!(
                text,
                "{many}, each measured once in {rounds}; the server is restarted for each measurement"
            );
        }
        for cell in cells {
            self.describe(&mut text, cell)?;
        }
        if self.settings.load.find_capacity {
            text.push_str(
                "\nthis is the start of the search; each further stage depends on the previous ones\n",
            );
        }
        text.push_str(&self.what_is_open());
        Ok(text)
    }

    /// What only a server tells can make the run another than the plan.
    fn what_is_open(&self) -> String {
        let mut open = Vec::new();
        if self.token_counter.name() == Words.name() {
            open.push("prompts are sized by its /tokenize if it has one");
        }
        open.push("its context length can change prompts and add cells");
        if self.urls.is_empty() && self.settings.server.server.is_none() {
            return "nothing was sent (--dry-run)\n".to_owned();
        }
        let open = open.join(", and ");
        format!("nothing was sent, and the server was not asked (--dry-run): {open}\n")
    }

    fn describe(&self, text: &mut String, cell: &Cell) -> Result<(), RunError> {
        let plan = self.plan(cell, 0)?;
        let summary = plan.summary(LOOK_AT).map_err(RunError::Workload)?;
        let requests = summary.requests.map_or_else(
            || "requests until the time limit".to_owned(),
            |n| counted(n, "request"),
        );
        let repeats = if cell.repeats > 1 {
            format!(" × {} repeats", cell.repeats)
        } else {
            String::new()
        };
        // writing to a String cannot fail
        let _written = writeln!(
            text,
            "\n{}  {}: {}, {requests}{repeats}, {}",
            cell.id,
            cell.label,
            load(&self.part(&cell.load), cell.rate_unit()),
            cell.dataset
        );
        for line in lines(&summary).chain([time(cell, &summary)]) {
            let _written = writeln!(text, "    {line}");
        }
        Ok(())
    }
}

/// A plan in a few lines: lengths, kinds of requests, arrivals, time, the first prompts.
fn lines(summary: &PlanSummary) -> impl Iterator<Item = String> {
    let length = |name: &str, unit: &str, lengths: &Option<LengthSummary>| {
        lengths.as_ref().map(|l| {
            format!(
                "{name}: mean {:.1} {unit}, p50 {:.0}, p90 {:.0}, p99 {:.0}, {} to {}",
                l.mean, l.p50, l.p90, l.p99, l.min, l.max
            )
        })
    };
    let shares = |name: &str, counts: &BTreeMap<String, u64>| {
        let listed: Vec<_> = counts
            .iter()
            .map(|(label, count)| format!("{label} {count}"))
            .collect();
        (!listed.is_empty()).then(|| format!("{name}: {}", listed.join(", ")))
    };
    let first = format!("the first {}", counted(summary.looked_at, "request"));
    let arrivals = summary.arrivals.as_ref().map(|a| {
        let rate = a
            .mean_rate_per_s
            .map_or_else(String::new, |rate| format!(", {rate:.2} per second"));
        let cov = a
            .gap_cov
            .map_or_else(String::new, |cov| format!(", CoV of the gaps {cov:.2}"));
        let of = if a.of_all {
            String::new()
        } else {
            format!(" (of {first})")
        };
        format!("due{of}: {} to {}{rate}{cov}", a.first, a.last)
    });
    let part = summary.requests != Some(summary.looked_at);
    let facts = [
        arrivals,
        part.then(|| format!("of {first}:")),
        length("requested prompts", "tokens", &summary.asked_input),
        length("actual prompts", "tokens", &summary.sent_input),
        length("prompts", "words", &summary.words),
        length("output limit", "tokens", &summary.output),
        shares("use cases", &summary.use_cases),
        shares("categories", &summary.categories),
        (summary.skipped_lines > 0).then(|| {
            format!(
                "{} of the dataset could not be read and were skipped",
                counted(summary.skipped_lines, "line")
            )
        }),
    ];
    let heads = summary.heads.iter().take(2).map(|head| {
        format!(
            "prompt: {}…",
            head.chars()
                .take(HEAD)
                .collect::<String>()
                .replace('\n', " ")
        )
    });
    let all: Vec<String> = facts.into_iter().flatten().chain(heads).collect();
    all.into_iter()
}

/// How long it takes, as far as the plan knows.
fn time(cell: &Cell, summary: &PlanSummary) -> String {
    let by_plan = summary.arrivals.as_ref().and_then(|due| {
        // beyond what was looked at the mean rate goes on
        let unseen = summary.requests?.saturating_sub(summary.looked_at);
        let rate = due.mean_rate_per_s.filter(|_| !due.of_all);
        let more = rate.map_or(0.0, |rate| unseen as f64 / rate);
        Some(due.last + Nanos::from_secs_f64(more))
    });
    let each = if cell.repeats > 1 { " each" } else { "" };
    match (by_plan, cell.stop.duration) {
        (Some(last), Some(limit)) => {
            format!("time: {}{each}, plus the last responses", last.min(limit))
        }
        (Some(last), None) => format!("time: {last}{each}, plus the last responses"),
        (None, Some(limit)) if summary.requests.is_some() => {
            format!("time: depends on the server, at most {limit}{each}")
        }
        (None, Some(limit)) => format!("time: {limit}{each}, plus the last responses"),
        (None, None) => "time: depends on the server".to_owned(),
    }
}

/// How load is offered, in words.
pub(super) fn load(load: &Load, rate_unit: &str) -> String {
    match load {
        Load::Closed {
            concurrency,
            think_time,
            ramp,
        } => {
            let level = ramp
                .as_ref()
                .map_or_else(|| concurrency.to_string(), ToString::to_string);
            let pause =
                think_time.map_or_else(String::new, |pause| format!(", think time {pause}"));
            format!("closed loop, {level} in flight{pause}")
        }
        Load::Open {
            rate_per_s,
            arrival,
            in_flight_cap,
        } => {
            let pace = match rate_per_s {
                Some(rate) if load.has_one_rate() => format!("{rate} {rate_unit}"),
                _ => arrival.name().to_owned(),
            };
            let cap = in_flight_cap.map(|cap| format!(", at most {cap} in flight"));
            format!("open loop, {pace}{}", cap.unwrap_or_default())
        }
    }
}
