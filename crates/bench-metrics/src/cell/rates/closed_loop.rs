//! The rate of a closed loop: by what was counted, by Little's law, or by its conversations.

use bench_schema::{Load, Metric};

use super::{DRAIN, Repeat, Span, around, counted_in, per_stream, stay};
use crate::blocks::Part;
use crate::cell::conversations::Conversation;
use crate::cell::open_loop;
use crate::estimate::LEVEL;
use crate::num::{float, sum};
use crate::summary::interval_of;
use crate::timeline::Timeline;

/// The rate of a closed loop, where anything tells it but the ends, and whether it is one of whole cycles.
pub(super) fn closed_loop(
    spans: &[Span<'_>],
    load: &Load,
    mean_in_flight: f64,
    counted: &open_loop::Rate,
    timeline: &Timeline,
) -> (Option<open_loop::Rate>, bool) {
    let steady = spans.iter().all(|s| s.steady);
    let cycle = by_conversations(spans, load)
        .or_else(|| by_cycle(spans, load, counted).filter(|_| !steady));
    let rate = cycle.or_else(|| {
        if steady {
            let law = || by_littles_law(spans, mean_in_flight, 0.0, counted);
            of_few_waves(spans, timeline)
                .or_else(|| law().filter(|law| fits_the_ends(*law, spans, mean_in_flight, counted)))
        } else {
            as_counted(spans, mean_in_flight, counted)
        }
    });
    (rate, cycle.is_some())
}

/// Whether as many requests ended as the law says, but for one of each slot: where a window cuts a wave. Slots that wait all the time for a request of the warm-up (of
/// a server that takes the newest first) are in flight and in no stay.
fn fits_the_ends(
    law: open_loop::Rate,
    spans: &[Span<'_>],
    in_flight: f64,
    counted: &open_loop::Rate,
) -> bool {
    let seconds: f64 = spans.iter().map(|s| s.window.length().as_secs_f64()).sum();
    (law.0 - counted.0).abs() * seconds <= in_flight * float(spans.len())
}

/// Waves of a closed loop with think time below which the number of ends in a window says where it was cut.
const WAVES: f64 = 10.0;

/// Waves from which on the number of ends in a window says more of the server than of where it was cut.
const MANY_WAVES: f64 = 20.0;

/// The rate of so many slots that each wait for an answer and then think: Little's law with the time of the whole cycle. Only of few waves; a
/// window of many holds its cycles whole.
fn by_cycle(spans: &[Span<'_>], load: &Load, counted: &open_loop::Rate) -> Option<open_loop::Rate> {
    let Load::Closed {
        concurrency,
        think_time: Some(think),
        ..
    } = load
    else {
        return None;
    };
    let n = spans.iter().flat_map(Span::rows).count();
    let slots = f64::from(*concurrency).min(float(n) / float(spans.len()));
    let few = float(n) < WAVES * slots * float(spans.len());
    // Slots that left a failing server alone neither asked nor thought.
    let whole = !spans.iter().flat_map(Span::rows).any(|row| row.lost);
    (few && whole).then(|| by_littles_law(spans, slots, think.as_secs_f64(), counted))?
}

/// The rate of a closed loop of conversations that think between their turns: so many at a time, each giving its answers over its time.
fn by_conversations(spans: &[Span<'_>], load: &Load) -> Option<open_loop::Rate> {
    let Load::Closed {
        concurrency,
        think_time: None,
        ramp: None,
    } = load
    else {
        return None;
    };
    let all = || spans.iter().flat_map(|span| &span.repeat.conversations);
    if !thinks(all()) {
        return None;
    }
    let parts: Vec<Part> = all().map(Conversation::part).collect();
    let (answers, seconds) = parts.iter().fold((0.0, 0.0), |(num, den), part| {
        (num + part.num, den + part.den)
    });
    let slots = f64::from(*concurrency).min(float(parts.len()) / float(spans.len()));
    let pausing: f64 = spans.iter().map(|span| between(span, slots)).sum();
    let of = |seconds: f64| slots * answers / seconds;
    let rate = Some(of(seconds + pausing)).filter(|rate| *rate > 0.0)?;
    // A conversation that was cut off has as many pauses as answers, or one fewer.
    let most = if spans.iter().any(|span| lost(span.repeat)) {
        rate
    } else {
        of(seconds)
    };
    // Of equal conversations that the end cuts all alike nothing differs but whether the last of each slot counts.
    let last = spans.iter().flat_map(|span| {
        let conversations = &span.repeat.conversations;
        let slots = usize::try_from(*concurrency).unwrap_or(usize::MAX);
        &conversations[conversations.len().saturating_sub(slots)..]
    });
    let cut: Vec<Part> = last.map(Conversation::part).collect();
    let of_cut = |pick: fn(&Part) -> f64| sum(cut.iter().map(pick));
    let before = (
        answers - of_cut(|part| part.num),
        seconds - of_cut(|part| part.den),
    );
    let timed = spans.iter().any(|span| span.repeat.until.is_some());
    let without = (timed && before.0 > 0.0 && before.1 > 0.0).then(|| slots * before.0 / before.1);
    let (low, high) = per_stream(&parts).map(|(_, ends)| ends).unzip();
    let ends = [low.map(|low| rate * low), high.map(|high| most * high)];
    let ends = ends.into_iter().flatten().chain(without);
    let (low, high) = ends.fold((rate, rate), |(low, high), end| {
        (low.min(end), high.max(end))
    });
    Some((rate, interval_of(low, high, LEVEL).filter(|_| low < high)))
}

/// Whether anything failed of it: then slots leave the server alone for a while.
fn lost(repeat: &Repeat<'_>) -> bool {
    repeat.rows.iter().any(|row| row.lost)
}

/// Seconds in which slots had no conversation though the loop went on: they thought between their last answer and the moment at which it ended, or
/// left a failing server alone.
fn between(span: &Span<'_>, slots: f64) -> f64 {
    let Repeat {
        conversations,
        whole,
        until,
        ..
    } = span.repeat;
    let pauses: f64 = conversations.iter().map(Conversation::pauses).sum();
    let thought: f64 = conversations.iter().map(Conversation::thought).sum();
    let pause = thought / pauses.max(1.0);
    let (until, most) = match until {
        _ if lost(span.repeat) => {
            let until = until.unwrap_or(whole.to).min(whole.to);
            (until, f64::INFINITY)
        }
        // One that ended before its time thought no more.
        Some(until) if (*until - whole.to).as_secs_f64() <= pause => (*until, slots * pause),
        _ => return 0.0,
    };
    let lasted = |one: &Conversation| one.part().den;
    let beyond = |one: &Conversation| (one.left - until).or_zero().as_secs_f64();
    let all: f64 = conversations.iter().map(lasted).sum();
    let after: f64 = conversations.iter().map(beyond).sum();
    let given = slots * (until - whole.from).as_secs_f64() + after;
    (given - all).clamp(0.0, most)
}

/// Whether a part of the time of conversations that matters is thought.
fn thinks<'a>(conversations: impl Iterator<Item = &'a Conversation> + Clone) -> bool {
    const MATTERS: f64 = 0.02;
    let thought: f64 = conversations.clone().map(Conversation::thought).sum();
    let lasted: f64 = conversations.map(|one| one.part().den).sum();
    thought > MATTERS * lasted
}

/// The load as its number in flight shows it: conversations that think fill no slot with requests.
pub(super) fn pausing(load: &Load, conversations: &[Conversation]) -> Load {
    let mut load = load.clone();
    if let Load::Closed { think_time, .. } = &mut load
        && thinks(conversations.iter())
    {
        think_time.get_or_insert_default();
    }
    load
}

/// A closed loop's rate by Little's law, `X = L / W` times the share that completed: L the mean in flight while the load was whole (with think time
/// the slots), W the mean time in the system of the requests that started then, and of thinking. Exact for loads that finish in waves, where the
/// number of ends in a window says more of where it was cut than of the server. `None` where nothing completed.
///
/// The interval is that of log W, within the shortest and the longest stay seen: so no end of it lies at or below 0. From twenty waves on, where
/// the ends in the window are more than where it was cut, it is that of the ends, `counted`, if they tell the rate more closely. Where the error
/// of W is as large as W, and the ends tell nothing either, there is none.
fn by_littles_law(
    spans: &[Span<'_>],
    in_flight: f64,
    think: f64,
    counted: &open_loop::Rate,
) -> Option<open_loop::Rate> {
    let mut cycles = Vec::new();
    let (mut ended, mut completed) = (0_usize, 0_usize);
    for row in spans.iter().flat_map(Span::rows) {
        ended += 1;
        completed += usize::from(row.completed());
        cycles.extend(stay(row).map(|stay| Part {
            num: 1.0,
            den: stay + think,
        }));
    }
    let all: f64 = cycles.iter().map(|cycle| cycle.den).sum();
    if all <= 0.0 || completed == 0 {
        return None;
    }
    let rate = in_flight * float(completed) / float(ended) * float(cycles.len()) / all;
    let of_cycles = per_stream(&cycles).map(|(_, factors)| factors);
    let waves = float(cycles.len()) / (in_flight * float(spans.len()));
    let of_ends = (counted.1)
        .filter(|_| waves >= MANY_WAVES)
        .map(|i| (i.low / counted.0, i.high / counted.0));
    let width = |(low, high): &(f64, f64)| high - low;
    let closest = [of_cycles, of_ends].into_iter().flatten();
    let interval = closest
        .min_by(|a, b| width(a).total_cmp(&width(b)))
        .and_then(|(low, high)| interval_of(rate * low, rate * high, LEVEL));
    Some((rate, interval))
}

/// The rate of the steady part of a closed loop of fewer than twenty waves in which the law would tell something else: requests that spend most of their time
/// before their first token wait for the work of those before them, the warm-up's among them, and not for their own; and of those that end when no more are
/// sent each may have more of the server. What the server gives, in tokens per second, over the tokens of an answer: those are drawn anew for each. `None`
/// where answers do not differ, or their tokens are not known.
fn of_few_waves(spans: &[Span<'_>], timeline: &Timeline) -> Option<open_loop::Rate> {
    let (mut before, mut stayed, mut answers) = (0.0, 0.0, Vec::new());
    let (mut slots, mut later) = (0.0, 0_usize);
    for span in spans {
        slots += span.repeat.in_flight.mean(span.window)?;
        for row in span.rows() {
            let instants = row.instants();
            let tokens = instants.tokens.filter(|_| row.completed())? as f64;
            answers.push(Part {
                num: 1.0,
                den: tokens,
            });
            before += instants.value(Metric::Ttft)?;
            stayed += instants.value(Metric::E2e)?;
            later += usize::from(instants.ended()? > span.window.to);
        }
    }
    let first = answers.first()?.den;
    let alike = answers
        .iter()
        .all(|answer| (answer.den - first).abs() < 0.5);
    let n = float(answers.len());
    let is_unlike = before >= 0.5 * stayed || float(later) > DRAIN * n;
    if alike || !is_unlike || n >= MANY_WAVES * slots {
        return None;
    }
    let (total, seconds) = counted_in(spans, timeline);
    let per_s = total.tokens / seconds;
    let error = around(per_s, spans, timeline, &|counts| counts.tokens)?;
    let (each, (low, high)) = per_stream(&answers)?;
    let rate = per_s * each;
    // Two errors that have nothing to do with each other.
    let least = (low.ln().powi(2) + (error.low / per_s).ln().powi(2)).sqrt();
    let most = (high.ln().powi(2) + (error.high / per_s).ln().powi(2)).sqrt();
    let interval = interval_of(rate * (-least).exp(), rate * most.exp(), LEVEL);
    Some((rate, interval))
}

/// What was counted over the whole window of a closed loop: the law gives the same there, and tells how well it is known.
fn as_counted(
    spans: &[Span<'_>],
    in_flight: f64,
    counted: &open_loop::Rate,
) -> Option<open_loop::Rate> {
    let (rate, interval) = by_littles_law(spans, in_flight, 0.0, counted)?;
    let of = |end: f64| counted.0 * end / rate;
    let interval = interval.and_then(|i| interval_of(of(i.low), of(i.high), LEVEL));
    Some((counted.0, interval))
}
