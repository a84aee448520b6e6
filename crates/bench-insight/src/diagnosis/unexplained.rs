//! What users pay where no cause was found: requests that take longer than others like them, and answers that pause. Nobody is told
//! that a run is healthy before these were looked at.

use bench_schema::{Cause, Evidence, Experiment, Finding, Known};

use super::fit::{median, quantile, squares, two_levels};
use super::look::{Look, Seen};
use super::spans::Cover;
use super::{first_token, head_of_line, late, load, over_time, pauses};
use crate::advice;
use crate::draft::{Draft, of_cell};

/// Share of the users' time from which on it is told. Machines' own hiccups stay below.
pub(super) const COSTS: f64 = 0.08;
/// Requests below which a quick quarter is chance.
pub(super) const FEWEST: usize = 20;
/// Of those, the fewest that are a kind.
pub(super) const OF_A_KIND: usize = 5;
/// Within this multiple of the quick quarter's time requests are alike.
pub(super) const ALIKE: f64 = 1.25;
/// Share of their extra time before the first token from which on an open loop's slow requests are those that came at a bad moment.
pub(super) const OF_WAITING: f64 = 0.8;

/// All that is left in a cell in which nothing else was found.
pub(super) fn all(look: &Look<'_>) -> Vec<Finding> {
    /// What requests lose beyond the quick quarter, over what pauses take of them, up to which these are why.
    const BY_PAUSES: f64 = 2.0;
    let (slow, paused) = (slow_requests(look), pauses::pauses(look));
    match (slow, paused) {
        (None, None) => first_token::of_short_prompts(look).into_iter().collect(),
        (Some(slow), Some(mut paused))
            if slow.cause() == Some(Cause::SlowRequests)
                && advice::is_unnamed(&slow)
                && slow.severity <= BY_PAUSES * paused.severity =>
        {
            paused.severity = paused.severity.max(slow.severity);
            paused.consequences.push(Cause::SlowRequests);
            vec![paused]
        }
        (slow, paused) => slow.into_iter().chain(paused).collect(),
    }
}

/// What slow requests are, what pauses take of the users' time, or which first tokens are late, where any of these costs as much as a cause that is told: nobody is healthy who pays for what was
/// not explained.
pub(super) fn left(look: &Look<'_>) -> Option<Vec<(Known, f64)>> {
    // Arrivals by chance wait for each other on any server.
    let by_chance = before_first(look).filter(|_| look.is_open()).unwrap_or(0.0);
    if let Some(slow) = slow(look).filter(|slow| slow.cost * (1.0 - by_chance) >= super::LEAST) {
        let ratio = median(slow.times)? / slow.quick;
        return Some(vec![
            (Known::SlowShare, slow.share),
            (Known::SlowRatio, ratio),
        ]);
    }
    if let Some(stood) = pauses::pauses_of(look).filter(|stood| stood.cost >= super::LEAST) {
        return Some(vec![(Known::PauseShare, stood.cost)]);
    }
    // Whoever waits so much longer than all others, waits for something, by chance or not, and too few to be told are no sign of health.
    let late = late::of_few(look).filter(|late| late.are_a_kind && late.cost >= super::LEAST)?;
    Some(vec![
        (Known::LateShare, late.share),
        (Known::SlowRatio, late.ratio),
    ])
}

/// What slow requests come to.
struct Slow {
    /// Of the quick quarter.
    quick: f64,
    /// The times of those beyond it.
    times: Vec<f64>,
    share: f64,
    cost: f64,
    /// Whether they are a kind of their own, with next to none between them and the others.
    apart: bool,
}

/// Requests that are slow for their lengths. They cost no more than their content events bear out: where the server tells lengths that are not
/// those of its answers, these are slow by its word only.
fn slow(look: &Look<'_>) -> Option<Slow> {
    if is_of_answer_length(look) {
        return None;
    }
    let slowness = look.slowness();
    let apart = are_two_kinds(slowness.iter().map(|s| s.slow).collect(), OF_A_KIND);
    if !apart && is_of_guesses(look) {
        return None;
    }
    if is_one_bell(slowness.iter().map(|s| (s.sent, s.slow)).collect()) {
        return None;
    }
    let of = |times: Vec<(f64, f64)>| {
        let all: Vec<f64> = times.iter().map(|(slow, _)| *slow).collect();
        let quick = quantile(all, 0.25).filter(|quick| *quick > 0.0)?;
        let (n, taken) = (times.len(), times.iter().map(|(_, took)| took).sum::<f64>());
        let slow = times.into_iter().filter(|(slow, _)| *slow > ALIKE * quick);
        let slow: Vec<(f64, f64)> = slow.collect();
        let lost = slow
            .iter()
            .map(|(slow, took)| took * (1.0 - ALIKE * quick / slow));
        (n >= FEWEST).then_some(Slow {
            quick,
            share: slow.len() as f64 / n as f64,
            cost: lost.sum::<f64>() / taken,
            times: slow.into_iter().map(|(slow, _)| slow).collect(),
            apart: false,
        })
    };
    let told = of(slowness.iter().map(|s| (s.slow, s.took)).collect())?;
    let seen = look
        .seen
        .iter()
        .map(|s| (s.slow_by_events, s.request.e2e()));
    let seen = of(seen.filter(|(slow, _)| slow.is_finite()).collect());
    let cost = seen.map_or(told.cost, |seen| seen.cost.min(told.cost));
    Some(Slow {
        cost,
        apart,
        ..told
    })
}

/// Whether tokens come several at a time, and all requests wait as long from one time to the next: then it is how many come at once that differs, as where a server
/// guesses tokens ahead, and no request is served more slowly than another.
fn is_of_guesses(look: &Look<'_>) -> bool {
    const SEVERAL: f64 = 1.2;
    let each = look.seen.iter().filter_map(|s| {
        let stalls = &s.request.stalls;
        let stood: f64 = stalls.iter().map(|(_, length)| length).sum();
        let moving = f64::from(s.request.moments) - 1.0 - stalls.len() as f64;
        let at_once = f64::from(s.request.events) / f64::from(s.request.moments);
        (moving >= 1.0).then_some(((s.end - s.first? - stood) / moving, at_once))
    });
    let (steps, at_once): (Vec<f64>, Vec<f64>) = each.unzip();
    let most = steps.len() * 10 >= look.seen.len() * 9;
    let ends = quantile(steps.clone(), 0.1).zip(quantile(steps, 0.9));
    let alike = ends.is_some_and(|(low, high)| high <= ALIKE * low);
    most && alike && median(at_once).is_some_and(|n| n >= SEVERAL)
}

/// Whether the length of an answer tells how slow its request is: later tokens take longer then, as when a cache grows, and no request is slow for its length.
fn is_of_answer_length(look: &Look<'_>) -> bool {
    const LEFT: f64 = 0.2;
    const PARTS: usize = 12;
    const FEWEST_OF_A_PART: usize = 5;
    let point = |s: &Seen<'_>| Some((f64::from(s.request.streamed_tokens()?), s.slow));
    let mut points: Vec<(f64, f64)> = look.seen.iter().filter_map(point).collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    let squares = |of: &[(f64, f64)]| squares(of.iter().map(|p| p.1));
    let part = FEWEST_OF_A_PART.max(points.len() / PARTS);
    // Answers as long as each other are in one part: their order is that of time.
    let mut parts: Vec<Vec<(f64, f64)>> = vec![Vec::new()];
    for alike in points.chunk_by(|a, b| a.0.total_cmp(&b.0).is_eq()) {
        match parts.last_mut().filter(|last| last.len() < part) {
            Some(last) => last.extend(alike),
            None => parts.push(alike.to_vec()),
        }
    }
    let several = parts.len() >= 4;
    let named = look.seen.iter().any(|s| s.request.use_case.is_some());
    let left: f64 = parts.iter().map(|part| squares(part)).sum();
    several && !named && left <= LEFT * squares(&points)
}

/// Whether values are of two kinds, each near its own mean, the higher one beyond what is alike: one of a single kind leaves a third of its variance
/// or more around two means.
pub(super) fn are_two_kinds(mut values: Vec<f64>, fewest_of_a_kind: usize) -> bool {
    const LEFT: f64 = 0.1;
    values.sort_by(f64::total_cmp);
    let all = squares(values.iter().copied());
    two_levels(&values, 1).is_some_and(|two| {
        let fewest = two.n.min(values.len() - two.n);
        let enough = fewest >= fewest_of_a_kind && fewest * 20 >= values.len();
        enough && two.after >= ALIKE * two.before && two.left <= LEFT * all
    })
}

/// Whether times, each with when it was sent, differ in both directions alike around one level that stays, as those of a server that takes now more and now
/// less: half are slower than the others then, and have nothing in common.
fn is_one_bell(mut times: Vec<(f64, f64)>) -> bool {
    /// Of the variance around one level, the least that two levels leave of a bell; of a bell 0.36.
    const LEFT: f64 = 0.3;
    /// Correlation of neighbours from which on they are no chance.
    const ALIKE: f64 = 0.3;
    times.sort_by(|a, b| a.0.total_cmp(&b.0));
    let logs = times.iter().map(|(_, time)| time.ln());
    let mut logs: Vec<f64> = logs.filter(|log| log.is_finite()).collect();
    let n = logs.len() as f64;
    let level = logs.iter().sum::<f64>() / n;
    let moment =
        |logs: &[f64], power| logs.iter().map(|x| (x - level).powi(power)).sum::<f64>() / n;
    let (_, likeness) = bench_metrics::lag_one(logs.iter().map(|log| log - level));
    let stays = likeness.unwrap_or(0.0) <= ALIKE.max(2.5 / n.sqrt());
    logs.sort_by(f64::total_cmp);
    let variance = moment(&logs, 2);
    let skewness = moment(&logs, 3) / variance.powf(1.5);
    let two = two_levels(&logs, 1);
    // two standard errors of a bell's
    let even = skewness <= 2.0 * (6.0 / n).sqrt();
    stays && even && two.is_some_and(|two| two.left >= LEFT * n * variance)
}

impl Slow {
    fn holds(&self, seen: &Seen<'_>) -> bool {
        seen.slow > ALIKE * self.quick
    }
}

/// Of the slow requests the share that has something in common, where that is nearly all of them and nearly all that have it are slow.
fn are_those(look: &Look<'_>, slow: &Slow, has: impl Fn(&Seen<'_>) -> bool) -> Option<f64> {
    let count = |is: &dyn Fn(&Seen<'_>) -> bool| look.seen.iter().filter(|s| is(s)).count();
    let own = count(&has);
    let both = count(&|s| slow.holds(s) && has(s));
    let all_slow = count(&|s| slow.holds(s));
    let nearly = |part: usize, whole: usize| part * 10 >= whole * 9;
    let are = own < look.seen.len() && own > 0 && nearly(both, own) && nearly(both, all_slow);
    are.then(|| both as f64 / all_slow as f64)
}

/// The use case whose requests the slow ones are.
fn of_one_kind<'a>(look: &'a Look<'_>, slow: &Slow) -> Option<&'a str> {
    let first = look.seen.iter().find(|s| slow.holds(s))?;
    let kind = first.request.use_case.as_deref()?;
    are_those(look, slow, |s| s.request.use_case.as_deref() == Some(kind)).map(|_| kind)
}

/// The prompt length from which on requests are slow, where it parts them.
fn from_length(look: &Look<'_>, slow: &Slow) -> Option<f64> {
    let slow_ones = look.seen.iter().filter(|s| slow.holds(s));
    let lengths = slow_ones.map(|s| Some(f64::from(s.request.input_tokens?)));
    let least = quantile(lengths.collect::<Option<_>>()?, 0.05)?;
    let is_long = |s: &Seen<'_>| {
        s.request
            .input_tokens
            .is_some_and(|n| f64::from(n) >= least)
    };
    are_those(look, slow, is_long).map(|_| least)
}

/// Stretches of time in which nearly all requests are slow, where slow ones come together: `(from, to)` of each.
fn together(look: &Look<'_>, slow: &Slow) -> Option<Vec<(f64, f64)>> {
    /// Requests in a row that are no accident, and the part of all slow ones that has to lie in such rows.
    const IN_A_ROW: usize = 4;
    const NEARLY_ALL: f64 = 0.8;
    /// Of what is in flight, the part that a row has to hold.
    const MOST: f64 = 0.75;
    let mut order: Vec<&Seen<'_>> = look.seen.iter().collect();
    order.sort_by(|a, b| a.sent.total_cmp(&b.sent));
    let all_slow = order.iter().filter(|s| slow.holds(s)).count();
    // All that are in flight are slow then; a few of them that are sent at one moment each time are of another kind.
    let most = |row: &[&Seen<'_>]| {
        let at_once = row.iter().map(|s| s.in_flight).fold(0.0, f64::max);
        row.len() >= IN_A_ROW && row.len() as f64 >= MOST * at_once
    };
    let rows: Vec<&[&Seen<'_>]> = order
        .chunk_by(|a, b| slow.holds(a) == slow.holds(b))
        .filter(|row| row.iter().all(|s| slow.holds(s)) && most(row))
        .collect();
    let within: usize = rows.iter().map(|row| row.len()).sum();
    // By chance, so many rows of as many slow ones among all would be far fewer.
    let chance = slow.share.powi(4) * order.len() as f64;
    let enough = within as f64 >= NEARLY_ALL * all_slow as f64 && within as f64 >= 2.0 * chance;
    let span = |row: &&[&Seen<'_>]| Some((row.first()?.sent, row.last()?.sent));
    (enough && !rows.is_empty()).then(|| rows.iter().filter_map(span).collect())
}

/// Requests that take much longer than the quick quarter of those of their lengths, and what they have in common.
fn slow_requests(look: &Look<'_>) -> Option<Finding> {
    let tells = |slow: &Slow| slow.cost >= if slow.apart { super::LEAST } else { COSTS };
    let Some(mut slow) = slow(look).filter(tells) else {
        // Whole answers may differ too little to tell. Of late first tokens what long prompts cost short ones is no longer little.
        let late = late::late_and_costly(look)?;
        return head_of_line::head_of_line(look, super::LEAST).or_else(|| late.finding(look));
    };
    if let Some(found) = first_token::of_places(look) {
        return Some(found);
    }
    let cost = slow.cost;
    let before_first = before_first(look);
    // Arrivals by chance wait for each other: nobody's request is slow by itself.
    if let Some(part) = before_first.filter(|_| look.is_open()) {
        let rest = Slow {
            cost: cost * (1.0 - part),
            ..slow
        };
        if part >= OF_WAITING || !tells(&rest) {
            return first_token::by_chance(look, cost * part);
        }
        slow = rest;
    }
    if look.is_open() && load::follows_load(look) {
        return None;
    }
    let ratio = median(slow.times.clone())? / slow.quick;
    let kind = of_one_kind(look, &slow);
    let replaced = are_those(look, &slow, |s| s.request.replaced).filter(|_| kind.is_none());
    let named = kind.is_some() || replaced.is_some();
    let from_length = from_length(look, &slow).filter(|_| !named);
    if let (false, None, Some(rows)) = (named, from_length, together(look, &slow)) {
        // Those that came together wait for each other, and are none of the server's making.
        return if over_time::are_of_load(look, &rows) || over_time::are_bursts(look, &rows) {
            None
        } else {
            comes_and_goes(look, &slow, &rows)
        };
    }
    let share = Evidence {
        of: kind.map(str::to_owned),
        ..of_cell(Known::SlowShare, slow.share, &look.cell.id)
    };
    Draft::in_cell(Cause::SlowRequests, cost, look.cell)
        .push(share)
        .because(Known::SlowRatio, ratio)
        .because(Known::SlowReplaced, replaced)
        .because(Known::SlowFromTokens, from_length)
        .because(Known::SlowBeforeFirst, before_first)
        .refuted_by(Experiment::AgainWithLog)
        .done()
}

/// A request, with how long nothing had been under way when it came; negative where something was, and without end for the first.
struct Arrival<'a> {
    seen: &'a Seen<'a>,
    idle: f64,
    /// Whether its first token takes twice as long as the quickest tenth's of as long prompts, and what is beyond that: most may be late.
    late: bool,
    beyond: f64,
}

fn arrivals<'a>(look: &'a Look<'a>) -> Vec<Arrival<'a>> {
    const LATE: f64 = 2.0;
    let lost = look.lost.iter().map(|l| (look.ns(l.due), look.ns(l.end)));
    let spans = look.seen.iter().map(|s| (s.sent, s.end));
    let mut spans: Vec<(f64, f64)> = spans.chain(lost).collect();
    spans.sort_by(|a, b| a.0.total_cmp(&b.0));
    // Of few prompts all may be late that are as long: by others they take no longer than these, or than as many tokens of theirs.
    let mut kinds: Vec<(f64, f64)> = look
        .prefills()
        .iter()
        .map(|p| (p.quick, p.tokens as f64))
        .collect();
    kinds.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    kinds.dedup_by(|a, b| a.0.total_cmp(&b.0).is_eq());
    let quick = |p: &super::prompts::Prefill| {
        let by = kinds
            .iter()
            .map(|(quick, n)| quick * (p.tokens as f64 / n.max(1.0)).max(1.0));
        by.fold(p.quick, f64::min)
    };
    let with_ttft = look.seen.iter().filter(|s| s.first.is_some());
    let mut order: Vec<_> = with_ttft.zip(look.prefills().iter().map(quick)).collect();
    order.sort_by(|a, b| a.0.sent.total_cmp(&b.0.sent));
    let over = order
        .iter()
        .filter_map(|(seen, quick)| Some(seen.request.ttft? / quick));
    let quickest = quantile(over.collect(), 0.1).unwrap_or(1.0);
    let (mut before, mut busy_until) = (0, f64::NEG_INFINITY);
    let arrival = |(seen, quick): (&'a Seen<'a>, f64)| {
        while let Some((_, end)) = spans.get(before).filter(|span| span.0 < seen.sent) {
            busy_until = busy_until.max(*end);
            before += 1;
        }
        let (ttft, quick) = (seen.request.ttft?, quickest * quick);
        Some(Arrival {
            seen,
            idle: seen.sent - busy_until,
            late: ttft > LATE * quick,
            beyond: ttft - quick,
        })
    };
    order.into_iter().filter_map(arrival).collect()
}

/// The idle time from which on first tokens are late, where it parts them best.
fn parting(all: &[Arrival<'_>]) -> Option<f64> {
    let mut alone: Vec<_> = all.iter().filter(|a| a.idle > 0.0).collect();
    alone.sort_by(|a, b| b.idle.total_cmp(&a.idle));
    let mut more = 0_i64;
    let so_far = alone.iter().map(|a| {
        more += if a.late { 1 } else { -1 };
        (more, a.idle)
    });
    let best = so_far.max_by_key(|(more, _)| *more)?;
    (best.0 > 0).then_some(best.1)
}

/// Requests that come after nothing was under way for a while, where these wait for their first token and those that come sooner do not: the server
/// sleeps meanwhile. Those that come while it wakes up wait as well.
pub(super) fn after_idle(look: &Look<'_>) -> Option<Finding> {
    const WAKES: usize = 4;
    const OTHERS: usize = 5;
    let mut all = arrivals(look);
    // nobody knows what was before the first
    all.retain(|a| a.late || a.idle.is_finite());
    let least = parting(&all)?;
    let wakes = || all.iter().filter(|a| a.idle >= least);
    let waking = Cover::of(wakes().filter_map(|a| Some((a.seen.sent, a.seen.first?))));
    let meets_it =
        |a: &&Arrival<'_>| a.idle >= least || waking.within(a.seen.sent, a.seen.sent + 1.0) > 0.0;
    let others = || all.iter().filter(|a| !meets_it(a));
    // who waits a little beside others does not wait for that
    let wakes_in = median(wakes().filter(|a| a.late).map(|a| a.beyond).collect())?;
    let late_wakes = wakes().filter(|a| a.late).count();
    let late_others = others()
        .filter(|a| a.late && a.beyond >= wakes_in / 2.0)
        .count();
    let parted = late_wakes >= WAKES
        && others().count() >= OTHERS
        && late_wakes * 10 >= wakes().count() * 9
        && late_others * 10 <= others().count();
    let slow: Vec<_> = all.iter().filter(meets_it).filter(|a| a.late).collect();
    let cost = slow.iter().map(|a| a.beyond).sum::<f64>() / look.taken();
    let ratio = |a: &&Arrival<'_>| a.seen.request.ttft.map(|ttft| ttft / (ttft - a.beyond));
    (parted && cost >= super::LEAST).then_some(())?;
    Draft::in_cell(Cause::SlowRequests, cost, look.cell)
        .because(Known::SlowAfterIdle, least)
        .because(Known::LateShare, slow.len() as f64 / all.len() as f64)
        .because(
            Known::SlowRatio,
            median(slow.iter().filter_map(ratio).collect()),
        )
        .refuted_by(Experiment::TwiceTheLoad)
        .done()
}

/// A level that comes and goes: slow requests that were sent together.
fn comes_and_goes(look: &Look<'_>, slow: &Slow, rows: &[(f64, f64)]) -> Option<Finding> {
    let usual = median(look.slowness().iter().map(|s| s.slow).collect())?;
    let high = median(slow.times.clone())?;
    let mut draft = Draft::in_cell(Cause::Step, slow.cost, look.cell);
    let sent = || look.seen.iter().map(|s| s.sent);
    let first = sent().fold(f64::INFINITY, f64::min);
    let last = sent().fold(0.0, f64::max);
    let mut levels = (slow.quick, high);
    draft = match rows {
        // There is nothing before the first request.
        [(from, to)] if *from <= first => {
            levels = (high, slow.quick);
            draft.because(Known::At, *to)
        }
        [(from, to)] if *to >= last => draft.because(Known::At, *from),
        [(from, to)] => draft
            .because(Known::At, *from)
            .because(Known::Lasted, to - from),
        _ => draft.because(Known::Changes, 2.0 * rows.len() as f64),
    };
    draft
        .because(Known::LevelBefore, levels.0 / usual)
        .because(Known::LevelAfter, levels.1 / usual)
        .because(Known::Requests, slow.times.len() as f64)
        .refuted_by(Experiment::Longer)
        .done()
}

/// Of what slow requests take longer than the quick quarter, the part before their first token.
fn before_first(look: &Look<'_>) -> Option<f64> {
    let beyond = |part: &dyn Fn(&Seen<'_>) -> Option<(f64, f64)>| {
        let parts: Vec<(f64, f64)> = look.seen.iter().filter_map(part).collect();
        let quick = quantile(parts.iter().map(|(each, _)| *each).collect(), 0.25)?;
        let over = parts
            .iter()
            .map(|(each, n)| (each - ALIKE * quick).max(0.0) * n);
        Some(over.sum::<f64>())
    };
    let first = beyond(&|s| Some((s.request.ttft?, 1.0)))?;
    let rest = beyond(&|s| {
        let tokens = s.request.streamed_tokens()?.checked_sub(1)?;
        Some((s.request.tpot()?, f64::from(tokens)))
    })?;
    (first + rest > 0.0).then(|| first / (first + rest))
}
