//! The answers: are they all there, and are they of what was asked.

use bench_metrics::values_needed;
use bench_schema::{CellRecord, TrustReason, TrustVerdict};

use super::{crossed, reason};
use crate::facts::{CellFacts, TrustFacts};
use crate::text;

/// Tokens that a chat template adds at most to a prompt that the server counted.
const TEMPLATE_TOKENS: f64 = 40.0;

fn facts_of<'a>(facts: &TrustFacts<'a>, cell: &CellRecord) -> Option<&'a CellFacts> {
    facts.cells.get(&cell.id)
}

pub(super) fn counts(_: &TrustFacts<'_>, cell: &CellRecord) -> Option<TrustReason> {
    let counts = &cell.counts;
    (!counts.add_up()).then(|| {
        let ended = counts.completed
            + counts.failed
            + counts.timed_out
            + counts.truncated
            + counts.cancelled
            + counts.unsent;
        let message = format!(
            "{} requests were planned but {ended} are accounted for; recover the run from its journal, and report this as a defect",
            counts.planned
        );
        crossed(
            "counts",
            TrustVerdict::Untrusted,
            message,
            ended as f64,
            counts.planned as f64,
        )
    })
}

pub(super) fn nothing_measured(_: &TrustFacts<'_>, cell: &CellRecord) -> Option<TrustReason> {
    let counts = &cell.counts;
    (counts.planned > 0 && counts.completed == 0).then(|| {
        let first = counts
            .messages
            .first()
            .map_or_else(String::new, |(message, n)| {
                format!(" ({n}× “{}”)", shorten(message))
            });
        let message = format!(
            "none of {} got an answer{first}; look at the failures first",
            text::count(
                usize::try_from(counts.planned).unwrap_or(usize::MAX),
                "request"
            ),
        );
        reason("nothing_measured", TrustVerdict::Untrusted, message)
    })
}

/// The first 120 characters.
fn shorten(message: &str) -> String {
    if message.chars().count() <= 120 {
        return message.to_owned();
    }
    let head: String = message.chars().take(119).collect();
    format!("{head}…")
}

pub(super) fn short(facts: &TrustFacts<'_>, cell: &CellRecord) -> Option<TrustReason> {
    let seen = facts_of(facts, cell).filter(|f| facts.ignore_eos && f.answers_counted > 0)?;
    let share = seen.answers_short as f64 / seen.answers_counted as f64;
    (share > 0.01).then(|| {
        let message = format!(
            "{} of {} answers are shorter than asked although `ignore_eos` was set ({}, limit 1 %); the server may not know it: \
             check its API, or `min_tokens`",
            seen.answers_short,
            seen.answers_counted,
            text::percent(share),
        );
        crossed("short_answers", TrustVerdict::Doubtful, message, share, 0.01)
    })
}

pub(super) fn prompt_length(facts: &TrustFacts<'_>, cell: &CellRecord) -> Option<TrustReason> {
    let seen = facts_of(facts, cell)?;
    let (asked, known) = (seen.prompt_asked.filter(|a| *a > 0.0)?, seen.prompt_known?);
    let template = if seen.prompt_by_server {
        TEMPLATE_TOKENS
    } else {
        0.0
    };
    let limit = 0.05 + if known > asked { template / asked } else { 0.0 };
    let off = (known - asked).abs() / asked;
    (off > limit).then(|| {
        let who = if seen.prompt_by_server {
            "the server counted"
        } else {
            "were counted"
        };
        let message = format!(
            "prompts are not of the asked length: {} tokens asked, {} {who} ({} off, limit {}); give the model's own `--tokenizer`, and ask for \
             more than its chat template takes",
            text::number(asked),
            text::number(known),
            text::percent(off),
            text::percent(limit),
        );
        crossed("prompt_length", TrustVerdict::Doubtful, message, off, limit)
    })
}

pub(super) fn warm_cache(facts: &TrustFacts<'_>, cell: &CellRecord) -> Option<TrustReason> {
    if facts.shared_prefixes {
        return None;
    }
    let share = facts_of(facts, cell)
        .and_then(|f| f.cached_share)
        .or_else(|| crate::signals::derived(cell, "prefix_cache_hit_rate"))?;
    (share > 0.1).then(|| {
        let message = format!(
            "{} of the prompt tokens came from the server's prefix cache though no prefix was meant to be shared (limit 10 %), so TTFT is too \
             good; salt the prompts, or start the server without a prefix cache ({})",
            text::percent(share),
            crate::tuning::without_prefix_cache(facts.server_kind),
        );
        crossed("warm_cache", TrustVerdict::Doubtful, message, share, 0.1)
    })
}

pub(super) fn few_samples(facts: &TrustFacts<'_>, cell: &CellRecord) -> Option<TrustReason> {
    let (metric, q, n) = facts.asked_quantiles.iter().find_map(|(metric, q)| {
        let distribution = cell.headline(*metric)?;
        let entry = distribution.quantile_entry(*q)?;
        entry.few_samples.then_some((*metric, *q, distribution.n))
    })?;
    let needed = values_needed(q);
    let message = format!(
        "p{} of {} rests on {n} values, {needed} are needed; raise `--requests` or `--duration`, or ask for a lower quantile",
        text::level(q * 100.0),
        metric.title(),
    );
    Some(crossed(
        "few_samples",
        TrustVerdict::Doubtful,
        message,
        n as f64,
        needed as f64,
    ))
}
