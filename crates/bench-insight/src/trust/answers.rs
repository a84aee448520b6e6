//! The answers: are they all there, are they of what was asked, and did the server keep its level while they came.

use bench_metrics::values_needed;
use bench_schema::{CellRecord, Counts, Load, Metric, Nanos, SloVerdict};

use super::{Limits, Scene, Seen};
use crate::facts::Outage;
use crate::text;

/// Tokens that a chat template adds at most to a prompt that the server counted.
const TEMPLATE_TOKENS: f64 = 40.0;

#[expect(
    clippy::unnecessary_wraps,
    reason = "every rule of the table has this shape"
)]
pub(super) fn counts(scene: &Scene<'_>) -> Option<Seen> {
    let counts = &scene.cell.counts;
    let ended: u64 = Counts::ENDS.iter().map(|(_, of)| of(counts)).sum();
    let what = format!(
        "{} requests were planned, but {} are accounted for",
        text::grouped(counts.planned as f64),
        text::grouped(ended as f64)
    );
    Some(Seen::new(counts.planned.abs_diff(ended) as f64, what))
}

/// A run that was cut short says so itself; its later cells planned nothing.
pub(super) fn nothing_planned(scene: &Scene<'_>) -> Option<Seen> {
    let nothing = scene.cell.counts.planned == 0 && scene.facts.complete;
    nothing.then(|| {
        Seen::new(
            1.0,
            "no request was sent, so nothing was measured".to_owned(),
        )
    })
}

pub(super) fn nothing_measured(scene: &Scene<'_>) -> Option<Seen> {
    let counts = &scene.cell.counts;
    if let (0, Some(why)) = (counts.planned, &scene.cell.ended_early) {
        let what = "the cell was ended during warm-up, so nothing was measured".to_owned();
        // what is the whole run's reason stands there
        let told = scene.facts.incomplete_reason;
        let told = told.is_some_and(|told| told.contains(why.as_str()));
        return Some(Seen {
            detail: if told {
                String::new()
            } else {
                format!(": {why}")
            },
            ..Seen::new(1.0, what)
        });
    }
    (counts.planned > 0 && answered(scene) == 0).then(|| {
        let what = format!("none of {} got a response", requests(counts.planned));
        Seen {
            detail: first_message(scene),
            ..Seen::new(counts.planned as f64, what)
        }
    })
}

/// Whole answers, and those that were stopped on purpose after something had come.
fn answered(scene: &Scene<'_>) -> u64 {
    let counts = &scene.cell.counts;
    let unanswered = scene
        .requests()
        .map_or(counts.cancelled, |seen| seen.cancelled_unanswered);
    counts.completed + counts.cancelled.saturating_sub(unanswered)
}

pub(super) fn requests(n: u64) -> String {
    bench_schema::counted(text::grouped(n as f64), "request")
}

/// The most frequent failure in the server's or the system's words.
fn first_message(scene: &Scene<'_>) -> String {
    let first = scene.cell.counts.messages.first();
    first.map_or_else(String::new, |(message, n)| {
        format!(": {}× “{}”", text::grouped(*n as f64), shorten(message))
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

/// Whatever was planned and got no whole answer, but for what was stopped on purpose.
pub(super) fn failures(scene: &Scene<'_>) -> Option<Seen> {
    let counts = &scene.cell.counts;
    let lost = counts.lost();
    if answered(scene) == 0 || lost == 0 {
        return None;
    }
    let share = lost as f64 / counts.planned as f64;
    let away = outage(scene).map_or_else(String::new, |outage| {
        let from = text::time(outage.from.as_f64());
        let none = if outage.of_one_endpoint {
            "none sent to one of the endpoints"
        } else {
            "none"
        };
        match outage.until {
            Some(until) => format!(
                "; {none} succeeded from {from} to {} after the start of the cell",
                text::time(until.as_f64())
            ),
            None => {
                format!("; {none} succeeded from {from} after the start of the cell until it ended")
            }
        }
    });
    let capped = scene.cell.client.cap_hits.min(counts.unsent);
    let not_sent = match capped {
        0 => String::new(),
        _ => format!(
            "; {} of them were not sent because the in-flight cap was reached",
            text::grouped(capped as f64)
        ),
    };
    let next = (2 * capped > lost).then(|| {
        "raise the in-flight cap, or treat the cell as an overload: rates and latencies cover only the requests that completed".to_owned()
    });
    let what = format!(
        "{} of {} got no complete response ({})",
        text::grouped(lost as f64),
        requests(counts.planned),
        text::percent(share),
    );
    Some(Seen {
        detail: first_message(scene) + &not_sent + &away,
        next,
        ..Seen::new(share, what)
    })
}

/// A time in which so many failed, and none succeeded, that it is no accident. A closed loop of few slots loses no more than one of each to a server that falls silent.
fn outage<'a>(scene: &Scene<'a>) -> Option<&'a Outage> {
    const IN_A_ROW: u64 = 5;
    let outage = scene.requests()?.outage.as_ref()?;
    let enough = match scene.cell.load {
        Load::Closed { concurrency, .. } => u64::from(concurrency).clamp(1, IN_A_ROW),
        Load::Open { .. } => IN_A_ROW,
    };
    (outage.failed >= enough).then_some(outage)
}

/// A time in which all failed that is a larger part of a closed loop than what was lost in it is of the requests: its slots wait meanwhile. An open
/// loop sends all the same, and what it loses says all.
pub(super) fn away(scene: &Scene<'_>) -> Option<Seen> {
    if scene.cell.load.is_open() {
        return None;
    }
    let outage = outage(scene).filter(|outage| !outage.of_one_endpoint)?;
    let seconds = scene.cell.windows.whole.as_ref()?.seconds;
    let until = outage.until.map_or(seconds, Nanos::as_secs_f64);
    let share = (until.min(seconds) - outage.from.as_secs_f64()) / seconds;
    let lost = failures(scene).map_or(0.0, |seen| seen.value);
    let what = format!(
        "no request succeeded for {} of the cell",
        text::percent(share)
    );
    (answered(scene) > 0 && seconds > 0.0 && share > lost).then(|| Seen {
        detail: format!(
            ", starting {} after its start: rates and failure counts look too good, because few requests were sent in that time",
            text::time(outage.from.as_f64())
        ),
        ..Seen::new(share, what)
    })
}

/// Answers that end in order and hold nothing: they count as completed, and no figure shows that nobody was served.
pub(super) fn empty_answers(scene: &Scene<'_>) -> Option<Seen> {
    let (empty, all) = (scene.requests()?.answers_empty, scene.cell.counts.completed);
    Some(Seen::share(empty, all, |n, of, share| {
        format!("{n} of {of} responses have no content ({share})")
    }))
}

/// Requests that were stopped on purpose before anything came: whether the server would have answered is not known.
pub(super) fn cancelled_unanswered(scene: &Scene<'_>) -> Option<Seen> {
    let planned = scene.cell.counts.planned.max(1);
    let stopped = scene.requests()?.cancelled_unanswered;
    Some(Seen::share(stopped, planned, |n, _, share| {
        let all = requests(planned);
        format!(
            "{n} of {all} were cancelled by the client before the first token ({share}): it is unknown whether the server would have responded"
        )
    }))
}

/// Answers without a count among answers that have one: nobody knows whether they are whole.
pub(super) fn tokens_untold(scene: &Scene<'_>) -> Option<Seen> {
    let seen = scene.requests().filter(|seen| seen.answers_counted > 0)?;
    let all = scene.cell.counts.completed;
    Some(Seen::share(seen.answers_untold, all, |n, of, share| {
        format!(
            "the server reported token counts for most responses, but not for {n} of {of} ({share}): these may be incomplete"
        )
    }))
}

/// Answers whose tokens are the client's count of their text: as good as its tokenizer is the server's, and without tokens that have no text.
pub(super) fn tokens_by_text(scene: &Scene<'_>) -> Option<Seen> {
    let (counted, all) = (
        scene.requests()?.answers_by_text,
        scene.cell.counts.completed,
    );
    Some(Seen::share(counted, all, |n, of, share| {
        format!(
            "the server reported no token count for {n} of {of} responses ({share}): their tokens are counted from the text with the run's tokenizer"
        )
    }))
}

/// What a closed loop's slots waited out after refusals, at least: the load was lower than its concurrency says. The drain at the end, and a thought
/// that the end cut off, are allowed for. Where failures or an outage say as much, they are told instead.
pub(super) fn backed_off(scene: &Scene<'_>) -> Option<Seen> {
    let Load::Closed {
        concurrency,
        think_time,
        ..
    } = scene.cell.load
    else {
        return None;
    };
    let lost = failures(scene)?.value;
    let told = lost.max(away(scene).map_or(0.0, |seen| seen.value));
    let whole = scene.cell.windows.whole.as_ref()?;
    let seen = scene.requests()?;
    let think = think_time.map_or(0.0, Nanos::as_secs_f64);
    let answers = scene.cell.counts.completed as f64;
    let thought = match think_time {
        Some(_) if !seen.later_turns => think * answers,
        // Every user thinks after a conversation, too; how many there were is not known, but no more than answers.
        Some(_) => think * answers + seen.thought.as_secs_f64(),
        None => seen.thought.as_secs_f64(),
    };
    let share = asleep(scene.cell, think, thought)?;
    let what = format!(
        "concurrency slots backed off after rejected requests for {} of the time: {} of {concurrency} requests were in flight on average",
        text::percent(share),
        text::number(whole.mean_in_flight),
    );
    (share > told).then(|| Seen::new(share, what))
}

/// Share of their time that slots of a closed loop waited after refusals, of users who think for so long after an answer, and thought for so long in all, in seconds.
pub(crate) fn asleep(cell: &CellRecord, think: f64, thought: f64) -> Option<f64> {
    let Load::Closed {
        concurrency,
        ramp: None,
        ..
    } = cell.load
    else {
        return None;
    };
    let counts = &cell.counts;
    (counts.backed_off > 0).then_some(())?;
    let whole = cell.windows.whole.as_ref()?;
    let longest = cell.metrics.get(&Metric::E2e)?.max * 1e-9;
    let (slots, answers) = (f64::from(concurrency), counts.completed as f64);
    let repeats = f64::from(cell.repeats.max(1));
    let cut = longest + think.max(2.0 * thought / answers.max(1.0));
    let drain = (slots - 1.0) * cut * repeats / (slots * whole.seconds);
    Some(1.0 - (whole.mean_in_flight + thought / whole.seconds) / slots - drain)
}

/// All streams stood still together while answers were under way.
pub(super) fn stalled(scene: &Scene<'_>) -> Option<Seen> {
    let stall = scene.requests()?.stall.as_ref()?;
    let seconds = scene.cell.windows.whole.as_ref()?.seconds;
    let usual = crate::view::quantile(scene.cell, Metric::Icl, 0.5).unwrap_or(0.0);
    // A server whose tokens are seconds apart does nothing unusual.
    if seconds <= 0.0 || stall.length.as_f64() < 10.0 * usual {
        return None;
    }
    // The next token would have come a gap later all the same.
    let length = stall.length.as_f64() - usual;
    let stood = length / 1e9;
    let of_one = if stall.of_one_endpoint {
        " at one of the endpoints"
    } else {
        ""
    };
    let what = format!(
        "no part of any response in progress{of_one} arrived for {} ({} of the cell)",
        text::time(length),
        text::percent(stood / seconds),
    );
    Some(Seen {
        detail: format!(
            ", starting {} after its start",
            text::time(stall.from.as_f64())
        ),
        ..Seen::new(stood / seconds, what)
    })
}

pub(super) fn not_stationary(scene: &Scene<'_>) -> Option<Seen> {
    let found = scene.cell.windows.stationarity.as_ref()?;
    if found.stationary != Some(false) {
        return None;
    }
    let why = found.reason.trim_end_matches('.');
    let next = scene.cell.load.is_open().then(|| {
        "measure longer, or use a longer warm-up; if the number in flight keeps rising, the server does not keep up with the rate".to_owned()
    });
    Some(Seen {
        next,
        ..Seen::new(
            1.0,
            format!("the measured window is not in steady state: {why}"),
        )
    })
}

/// Share of answers longer than asked from which on that is told.
pub(super) const LONG: f64 = 0.01;

pub(super) fn tokens_told(scene: &Scene<'_>) -> Option<Seen> {
    let seen = scene.requests()?;
    if per_event(seen).is_some_and(|ratio| (ratio - 1.0).abs() <= LONG) {
        let how = "longer than the requested `max_tokens`, and their content events confirm it";
        return share_of_answers(seen, seen.answers_long, how).map(|seen| Seen {
            limits: Some(Limits::Share(LONG, super::NEVER)),
            next: Some("the server does not respect `max_tokens`: rates and latencies are those of longer responses than requested".to_owned()),
            ..seen
        });
    }
    let how = "longer than the requested `max_tokens`, by the server's own count";
    share_of_answers(seen, seen.answers_long, how)
}

/// Completed answers that are too long have a rule of their own.
pub(super) fn runaway_answers(scene: &Scene<'_>) -> Option<Seen> {
    let seen = scene.requests().filter(|seen| seen.answers_runaway > 0)?;
    let share = seen.events_runaway as f64 / seen.all_events as f64;
    let what = format!(
        "{} did not end and went on for {} content events beyond the requested `max_tokens` ({} of all): tokens/s includes them",
        bench_schema::counted(text::grouped(seen.answers_runaway as f64), "response"),
        text::grouped(seen.events_runaway as f64),
        text::percent(share),
    );
    Some(Seen::new(share, what))
}

pub(super) fn short_answers(scene: &Scene<'_>) -> Option<Seen> {
    let seen = scene.requests().filter(|_| scene.facts.ignore_eos)?;
    let how = "shorter than requested although `ignore_eos` was set";
    share_of_answers(seen, seen.answers_short, how)
}

fn share_of_answers(seen: &crate::CellFacts, n: u64, how: &str) -> Option<Seen> {
    if seen.answers_counted == 0 {
        return None;
    }
    Some(Seen::share(n, seen.answers_counted, |n, of, share| {
        format!("{n} of {of} responses are {how} ({share})")
    }))
}

/// Tokens that the server told for each content event that came, where it told them for the answer as a whole, and did not leave most of them out.
fn per_event(seen: &crate::CellFacts) -> Option<f64> {
    let told = seen.tokens_told.saturating_add(seen.tokens_missed);
    (seen.events > 0).then(|| told as f64 / seen.events as f64)
}

/// The server's own counter of output tokens is read beside the window, and counts what is cut off at its ends.
const CONFIRMED: f64 = 0.05;

/// Whether more is told than was asked for, which has a rule of its own.
fn tells_too_many(scene: &Scene<'_>) -> bool {
    tokens_told(scene).is_some_and(|long| long.value > LONG)
}

/// Shares of all content events that the server's count may leave out.
const MISSED: (f64, f64) = (0.05, 0.10);

/// Content events of answers whose count they contradict: then the count is what is wrong.
fn tokens_missed(seen: &crate::CellFacts) -> Option<Seen> {
    let share = seen.tokens_missed as f64 / seen.events as f64;
    let what = format!(
        "the server reported {} tokens fewer than the content events of {} ({} of all content events)",
        text::grouped(seen.tokens_missed as f64),
        bench_schema::counted(text::grouped(seen.answers_missed as f64), "response"),
        text::percent(share),
    );
    (share > MISSED.0).then(|| count_too_low(share, what))
}

fn count_too_low(share: f64, what: String) -> Seen {
    Seen {
        limits: Some(Limits::Share(MISSED.0, MISSED.1)),
        next: Some("if each chunk is a token, tokens/s and time per token are wrong by this; check with the model's own `--tokenizer`".to_owned()),
        ..Seen::new(share, what)
    }
}

/// The server's count against the events.
pub(super) fn tokens_per_event(scene: &Scene<'_>) -> Option<Seen> {
    let seen = scene.requests()?;
    if let Some(missed) = tokens_missed(seen) {
        return Some(missed);
    }
    let ratio = per_event(seen).filter(|_| !tells_too_many(scene))?;
    let counted = crate::signals::derived(scene.cell, "server_output_tokens_over_client");
    let says = |tokens: f64| counted.is_some_and(|over| (over / tokens - 1.0).abs() <= CONFIRMED);
    // More tokens than chunks, and the server's own counter tells as many: then they come several at a time.
    if ratio > 1.0 && says(1.0) {
        return None;
    }
    let what = format!(
        "the server reported {} tokens for {} content events",
        text::grouped(seen.tokens_told as f64),
        text::grouped(seen.events as f64),
    );
    let fewer = 1.0 - ratio;
    if fewer > MISSED.0 && says(1.0 / ratio) {
        let share = text::percent(fewer);
        let what = format!("{what}, and its own metrics agree with the events ({share} fewer)");
        return Some(count_too_low(fewer, what));
    }
    let what = format!("{what}, {} times as many", text::number(ratio));
    Some(Seen::new(ratio - 1.0, what))
}

pub(super) fn prompt_length(scene: &Scene<'_>) -> Option<Seen> {
    let seen = scene.requests()?;
    let (asked, known) = (seen.prompt_asked.filter(|a| *a > 0.0)?, seen.prompt_known?);
    let template = if seen.prompt_by_server {
        TEMPLATE_TOKENS
    } else {
        0.0
    };
    let limit = 0.05 + if known > asked { template / asked } else { 0.0 };
    let off = (known - asked).abs() / asked;
    let who = if seen.prompt_told {
        "counted by the server"
    } else {
        "counted by the client"
    };
    let what = format!(
        "prompts do not have the requested length: {} tokens requested, {} {who}, {} off",
        text::number(asked),
        text::number(known),
        text::percent(off),
    );
    Some(Seen {
        limits: Some(Limits::Share(limit, super::NEVER)),
        ..Seen::new(off, what)
    })
}

pub(super) fn warm_cache(scene: &Scene<'_>) -> Option<Seen> {
    if scene.facts.shared_prefixes {
        return None;
    }
    let share = scene
        .requests()
        .and_then(|f| f.cached_share)
        .or_else(|| crate::signals::derived(scene.cell, "prefix_cache_hit_rate"))?;
    let what = format!(
        "{} of the prompt tokens came from the server's prefix cache although prompts should share no prefix, so TTFT is too low",
        text::percent(share),
    );
    let next = format!(
        "salt the prompts, or start the server without a prefix cache ({})",
        crate::advice::without_prefix_cache(scene.facts.server_kind),
    );
    Some(Seen {
        next: Some(next),
        ..Seen::new(share, what)
    })
}

/// A quantile that was asked for by name needs the values it rests on, unless what was asked of it is decided; where none was, the median does.
/// Requests one at a time do not depend on each other, and half as many will do.
pub(super) fn few_samples(scene: &Scene<'_>) -> Option<Seen> {
    let objectives = scene.cell.slos.iter();
    let open = objectives.filter(|outcome| outcome.verdict == SloVerdict::CannotTell);
    let open = open.map(|outcome| (outcome.slo.metric, outcome.slo.q));
    let mut named = scene.facts.asked_quantiles.iter().copied().chain(open);
    let named = named.find_map(|(metric, q)| {
        let distribution = scene.cell.headline(metric)?;
        let entry = distribution.quantile_entry(q)?;
        entry
            .few_samples
            .then(|| (metric.title(), q, distribution.n, values_needed(q)))
    });
    let alone = matches!(scene.cell.load, Load::Closed { concurrency: 1, .. });
    let needed = values_needed(0.5) / if alone { 2 } else { 1 };
    let completed = scene.cell.counts.completed;
    let few = completed > 0 && usize::try_from(completed).is_ok_and(|n| n < needed);
    if let Some((what, q, n, needed)) = named {
        let message = format!(
            "p{} of {what} rests on {}; {needed} are needed for ten to lie beyond it",
            text::level(q * 100.0),
            bench_schema::counted(n, "value"),
        );
        return Some(Seen {
            next: Some("measure more requests ({more}), or choose a lower percentile".to_owned()),
            ..Seen::new(needed as f64 / n.max(1) as f64, message)
        });
    }
    let one_by_one = if alone { " one at a time" } else { "" };
    let message = format!(
        "only {} completed{one_by_one}; a cell needs at least {needed}",
        requests(completed),
    );
    few.then(|| Seen::new(needed as f64 / completed as f64, message))
}
