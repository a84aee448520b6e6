//! What an open loop offers, and what is served of it. An open loop has no steady part: every request counts.

use bench_schema::{ArrivalKind, Interval, Load, Metric, Nanos, Stamp, Window};

use crate::blocks::{BlockMean, Part};
use crate::estimate::LEVEL;
use crate::fit::linear_fit;
use crate::in_flight::InFlight;
use crate::num::{float, mean};
use crate::summary::interval_of;
use crate::timeline::{TimeCounts, Timeline};

use super::CellContext;
use super::rates::{Repeat, interval_of_rate};
use super::row::Row;

/// How long the plan of `n` requests of a repeat lasts, in seconds: a Poisson or gamma process at a steady rate has rate × duration starts, or
/// its last is due at their number over its rate; starts are requests, or conversations with their own rate and number. The time before the first of
/// them belongs to it. `None` for a plan that was cut short, and for every other process: those begin with their first request.
pub(super) fn planned_seconds(
    context: &CellContext,
    conversations: Option<(f64, usize)>,
    n: usize,
) -> Option<f64> {
    let Load::Open {
        rate_per_s,
        arrival: ArrivalKind::Poisson | ArrivalKind::Gamma { .. },
        ..
    } = context.load
    else {
        return None;
    };
    let (rate, starts) = conversations.or_else(|| Some((rate_per_s?, n)))?;
    let stop = &context.stop;
    let is = |number: f64, of: usize| (number - float(of)).abs() < 0.5;
    let seconds = stop.duration.map(Nanos::as_secs_f64);
    let by_time = seconds.filter(|seconds| is((rate * seconds).round(), starts));
    let by_number = stop.requests.filter(|all| is(*all as f64, n));
    let by_number = by_number.map(|_| float(starts) / rate);
    let ends = by_time.into_iter().chain(by_number);
    ends.min_by(f64::total_cmp)
}

pub(super) type Rate = (f64, Option<Interval>);

/// What was served of an open loop.
#[derive(Clone, Copy, Debug)]
pub(super) struct Served {
    pub(super) rate: Told,
    /// Of a queue that grew, or may have grown.
    pub(super) by: Option<By>,
}

/// What was counted of a queue that grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    /// The answers that ended while load was offered, from the first one's end on.
    Ends,
    /// The tokens that came meanwhile, as many answers as they make.
    Tokens,
}

/// The rate at which an open loop is served.
#[derive(Clone, Copy, Debug)]
pub(super) enum Told {
    Rate(Rate),
    /// The data do not tell whether a queue grows: what was served while load was offered, and up to all that was offered and answered.
    Undecided(Rate),
    /// Of a queue that grows, of which no more than a first wave ended while load was offered: what was counted until the last end.
    Counted,
    /// Answers take longer than load was offered.
    Nothing,
}

/// What the plan of an open loop offered, how much of it per second the client sent, and what of that was served; nothing of a closed one.
pub(super) fn rates<'a>(
    repeats: impl Iterator<Item = &'a Repeat<'a>> + Clone,
    load: &Load,
    timeline: &Timeline,
) -> (Option<f64>, Option<f64>, Option<Served>) {
    let offered = offered(repeats.clone(), load).filter(|_| load.is_open());
    let reached = offered.map(|offered| offered * pace(repeats.clone()));
    let served = reached.and_then(|reached| served(repeats, reached, load, timeline));
    (offered, reached, served)
}

/// The rate at which requests were taken up over the rate at which those were due: 1, unless the client fell behind its plan.
fn pace<'a>(repeats: impl Iterator<Item = &'a Repeat<'a>> + Clone) -> f64 {
    const NOTICED: f64 = 0.99;
    let due = per_second(repeats.clone(), |start| start.taken.map(|_| start.due));
    let pace = sent(repeats).zip(due).map(|(sent, due)| sent / due);
    pace.filter(|pace| *pace < NOTICED).unwrap_or(1.0)
}

/// Requests due per second of their plan; where its length is not known, from the first due to the last, those due together at the last left out,
/// since the time that they stand for is not in it. Of requests that are all due at once, the rate that was asked for.
fn offered<'a>(repeats: impl Iterator<Item = &'a Repeat<'a>>, load: &Load) -> Option<f64> {
    let asked = || match load {
        Load::Open { rate_per_s, .. } if load.has_one_rate() => *rate_per_s,
        _ => None,
    };
    per_second(repeats, |start| Some(start.due)).or_else(asked)
}

/// The same of the instants at which a worker took them up: what a connection that takes no more of them holds back was offered all the same.
pub(super) fn sent<'a>(repeats: impl Iterator<Item = &'a Repeat<'a>>) -> Option<f64> {
    per_second(repeats, |start| start.taken)
}

/// What a schedule starts: a request, or a conversation with its first one.
pub(super) struct Start {
    pub(super) due: Stamp,
    taken: Option<Stamp>,
}

/// What the schedule of a repeat started: its conversations where it has such, else its requests.
pub(super) fn starts<'a>(repeat: &'a Repeat<'a>) -> impl Iterator<Item = Start> + Clone {
    let conversations = repeat.conversations.iter();
    let requests = repeat.rows.iter();
    let requests = requests.filter(|_| repeat.conversations.is_empty());
    let of_conversations = conversations.map(|one| Start {
        due: one.due,
        taken: one.taken,
    });
    let of_requests = requests.map(|row| {
        let instants = row.instants();
        Start {
            due: instants.due,
            taken: instants.dispatched.or(instants.sent),
        }
    });
    of_conversations.chain(of_requests)
}

fn per_second<'a>(
    repeats: impl Iterator<Item = &'a Repeat<'a>>,
    at: impl Fn(&Start) -> Option<Stamp>,
) -> Option<f64> {
    let (mut events, mut seconds) = (0.0, 0.0);
    for repeat in repeats {
        let starts = starts(repeat);
        let each = float(repeat.rows.len()) / float(starts.clone().count());
        let stamped = || {
            let starts = starts.clone();
            starts.filter_map(|start| Some((at(&start)?, start.due)))
        };
        let first_due = stamped().map(|(_, due)| due).min();
        let last_due = stamped().map(|(_, due)| due).max();
        let (Some(first_due), Some(last_due)) = (first_due, last_due) else {
            continue;
        };
        let first = stamped().map(|(at, _)| at).min().unwrap_or(first_due);
        let last = stamped().map(|(at, _)| at).max().unwrap_or(last_due);
        let due_within = (last_due - first_due).as_secs_f64();
        if let Some(planned) = repeat.planned.filter(|planned| *planned >= due_within) {
            events += each * float(stamped().count());
            seconds += planned + (last - last_due).as_secs_f64();
        } else {
            events += each * float(stamped().filter(|(_, due)| *due < last_due).count());
            seconds += (last - first).as_secs_f64();
        }
    }
    (seconds > 0.0 && events > 0.0).then(|| events / seconds)
}

/// Whether what the schedule started lasts longer on average than it started something: never was as much asked for as the plan would have of a longer run.
/// What a client was late by is none of the server's time.
fn outlasts_its_load(repeat: &Repeat<'_>) -> bool {
    let taken = || starts(repeat).map(|start| start.taken.unwrap_or(start.due));
    let (Some(first), Some(last)) = (taken().min(), taken().max()) else {
        return false;
    };
    let offered = repeat.planned.unwrap_or((last - first).as_secs_f64());
    let since = |at: Stamp| (at - first).as_secs_f64();
    let over: f64 = ends(repeat).map(since).sum();
    let begun: f64 = taken().map(since).sum();
    offered > 0.0 && over - begun > offered * float(taken().count())
}

/// Requests served per second, with its interval. Where no queue grows, what was sent of the offered ones times the share that completed, known to one request,
/// and down to what the server gave at its best of what it was asked for, and to what is left of it where first tokens come later and later. Where one grows, or may grow, what it gave.
fn served<'a>(
    repeats: impl Iterator<Item = &'a Repeat<'a>> + Clone,
    offered: f64,
    load: &Load,
    timeline: &Timeline,
) -> Option<Served> {
    let rows = || repeats.clone().flat_map(|repeat| repeat.rows);
    let (n, completed) = (rows().count(), rows().filter(|row| row.completed()).count());
    if completed == 0 {
        return None;
    }
    let asked = Asked::of(rows(), offered, timeline);
    let queues = repeats.clone().map(|repeat| queue(repeat, load, &asked));
    let queue = queues.max().unwrap_or(Queue::None);
    let given = || {
        let by_tokens = asked.given(repeats.clone(), load, n - completed);
        let by_tokens = by_tokens.map(|rate| (By::Tokens, rate));
        by_tokens.or_else(|| Some((By::Ends, ended_while_offered(repeats.clone())?)))
    };
    let all = offered * float(completed) / float(n);
    let told = |rate, by| Some(Served { rate, by });
    if queue == Queue::Grows {
        return match given() {
            Some((by, (rate, interval))) => told(Told::Rate((rate, Some(interval))), Some(by)),
            None => told(Told::Counted, None),
        };
    }
    if repeats.clone().any(outlasts_its_load) {
        return told(Told::Nothing, None);
    }
    if queue == Queue::MayGrow {
        let Some((by, (rate, interval))) = given() else {
            return told(Told::Counted, None);
        };
        if rate < ABLE * all {
            let interval = interval_of(interval.low, all, LEVEL);
            return told(Told::Undecided((rate, interval)), Some(by));
        }
    }
    // Under a rate that moves every quarter asks for something else.
    let offered = repeats
        .clone()
        .filter(|_| load.has_one_rate())
        .filter_map(offered_window);
    let best = offered.map(|offered| asked.best(offered));
    let most = repeats.clone().filter_map(at_its_most);
    let longer = repeats.map(|repeat| waits_longer(repeat.rows).max(0.0));
    let best = best.chain(most.map(|most| most / all));
    let best = best.chain(longer.map(|longer| 1.0 / (1.0 + longer)));
    let best = best.fold(1.0, f64::min);
    let low = all * (1.0 - 1.0 / float(n)) * best;
    told(Told::Rate((all, interval_of(low, all, LEVEL))), None)
}

/// The answers that ended while load was offered. `None` less than a stay after the first end: they are still those of the first wave then, and tell how
/// it came.
fn ended_while_offered<'a>(
    repeats: impl Iterator<Item = &'a Repeat<'a>> + Clone,
) -> Option<(f64, Interval)> {
    let stays = repeats.clone().flat_map(|repeat| repeat.rows);
    let stays = stays.filter(|row| row.completed());
    let stays = stays.map(|row| (row.left() - row.instants().due).as_secs_f64());
    let shortest = stays.fold(f64::INFINITY, f64::min);
    let parts = between_ends(repeats);
    let seen: f64 = parts.iter().map(|part| part.den).sum();
    let ended = BlockMean::of_parts(parts.iter()).filter(|_| seen >= shortest)?;
    Some((ended.value, interval_of_rate(&ended)?))
}

/// The ends of a repeat's answers from the first due on, in order, those carried over from the warm-up among them, for they are the server's work
/// too; and the last due, until when they are counted.
fn counted_ends(repeat: &Repeat<'_>) -> Option<(Vec<Stamp>, Stamp)> {
    let Window { from, to } = offered_window(repeat)?;
    let own = repeat.rows.iter().filter(|row| row.completed());
    let carried = repeat.carried.iter().map(|(_, end)| *end);
    let all = own.map(Row::left).chain(carried);
    let mut ends: Vec<Stamp> = all.filter(|end| (from..=to).contains(end)).collect();
    ends.sort_unstable();
    Some((ends, to))
}

/// The time in which the answers of a queue that grows are counted: from the first one's end, because until then the server fills. `None` where
/// there is none.
pub(super) fn counted_time(repeat: &Repeat<'_>) -> Option<Window> {
    let (ends, to) = counted_ends(repeat)?;
    let from = *ends.first()?;
    (from < to).then_some(Window { from, to })
}

/// That time, from each answer's end to the next.
fn between_ends<'a>(repeats: impl Iterator<Item = &'a Repeat<'a>>) -> Vec<Part> {
    let mut parts = Vec::new();
    for (ends, to) in repeats.filter_map(counted_ends) {
        let between = ends.windows(2).map(|pair| (1.0, pair[1] - pair[0]));
        let last = ends.last().map(|last| (0.0, to - *last));
        parts.extend(between.chain(last).map(|(num, time)| Part {
            num,
            den: time.as_secs_f64(),
        }));
    }
    parts
}

/// Stretches of the time in which load was offered.
const STRETCHES: usize = 16;
/// A growth of the requests in flight counts from these many standard errors on.
const ERRORS: f64 = 3.0;
/// Share of the offered requests that must have been left over.
const LEFT_OVER: f64 = 0.04;
/// Requests below which a queue that grows cannot be told from chance.
const FEWEST_OF_A_QUEUE: usize = 40;
/// Times of the last quarter over those of the first, at the same lengths, of a server that falls behind.
const LONGER: f64 = 1.3;
/// Served in the second half over what was asked for, below which a busy server falls short.
const SHORT: f64 = 0.93;
/// The same, from which on it is able to serve the rate.
const ABLE: f64 = 0.97;
/// How much of a growth in flight shows at least in what a server gives that fills, and in that of one that is not full for sure; and in flight at the end over
/// before, where less may be chance.
const RESPONDS: f64 = 0.25;
const FLAT: f64 = 0.1;
const MORE: f64 = 1.2;
/// Given when no more is asked for over given while it was, from which on a server was kept from it by other work, as prompts are.
const KEPT: f64 = 1.1;

/// Mean tokens of these answers, where all of them are known.
pub(super) fn tokens_each<'a>(rows: impl Iterator<Item = &'a Row>) -> Option<f64> {
    let tokens = rows.map(|row| row.instants().tokens.map(|tokens| tokens as f64));
    mean(&tokens.collect::<Option<Vec<f64>>>()?)
}

/// What the plan asks of the server in a second, without what that refuses: tokens, or answers where nobody tells tokens.
struct Asked<'a> {
    timeline: &'a Timeline,
    of: fn(&TimeCounts) -> f64,
    /// Tokens of the answers, where all of them are known.
    lengths: Vec<f64>,
    per_s: f64,
    requests_per_s: f64,
}

impl<'a> Asked<'a> {
    fn of(
        rows: impl Iterator<Item = &'a Row> + Clone,
        offered: f64,
        timeline: &'a Timeline,
    ) -> Self {
        let requests_per_s = offered * (1.0 - refused(rows.clone()));
        let whole = rows.filter(|row| row.completed());
        let tokens = whole.map(|row| row.instants().tokens.map(|tokens| tokens as f64));
        let lengths = tokens.collect::<Option<Vec<f64>>>().unwrap_or_default();
        let each = mean(&lengths);
        let of: fn(&TimeCounts) -> f64 = match each {
            Some(_) => |counts| counts.tokens,
            None => |counts| counts.completed as f64,
        };
        Self {
            timeline,
            of,
            per_s: requests_per_s * each.unwrap_or(1.0),
            lengths,
            requests_per_s,
        }
    }

    /// What came in a window over what was asked for.
    fn share(&self, window: Window) -> f64 {
        let came = (self.of)(&self.timeline.total(window));
        came / (self.per_s * window.length().as_secs_f64())
    }

    /// The share of the quarter in which the server gave most.
    fn best(&self, offered: Window) -> f64 {
        let shares = quarters(offered).map(|quarter| self.share(quarter));
        shares.into_iter().fold(0.0, f64::max)
    }

    /// When answers began, and as which share of those asked for they did in a window, where clearly more tokens came in it than those have, and than were asked for: prompts had kept the server from them.
    fn held_back(&self, rows: &[Row], window: Window) -> Option<(Vec<Stamp>, f64)> {
        let firsts: Vec<Stamp> = rows.iter().filter_map(|row| row.instants().first).collect();
        let begun = firsts.iter().filter(|first| window.contains(**first));
        let asked = self.requests_per_s * window.length().as_secs_f64();
        let share = float(begun.count()) / asked;
        (!firsts.is_empty() && self.share(window) > KEPT * share.max(1.0))
            .then_some((firsts, share))
    }

    /// As many answers as the tokens make that came in the second half of the time in which load was offered (under a rate that moves, in all of it), with its
    /// interval. `None` where some were lost, where nobody tells tokens, or where more come once no more is asked for, or than are of answers that began meanwhile: they
    /// were not what the server could do least of.
    fn given<'r>(
        &self,
        repeats: impl Iterator<Item = &'r Repeat<'r>> + Clone,
        load: &Load,
        lost: usize,
    ) -> Option<(f64, Interval)> {
        let from = if load.has_one_rate() { 0.5 } else { 0.0 };
        let mut parts = Vec::new();
        for repeat in repeats.filter(|_| lost == 0 && !self.lengths.is_empty()) {
            let offered = offered_window(repeat)?;
            let late = part(offered, 0.5, 1.0);
            // Prompts that wait may take a while yet.
            let after = (4..64).map(|i| part(offered, 0.25 * float(i), 0.25 * float(i + 1)));
            let mut after = after.take_while(|quarter| quarter.from < repeat.whole.to);
            let most = KEPT * self.share(late);
            let held_back = load.has_one_rate() && self.held_back(repeat.rows, late).is_some();
            if held_back || after.any(|quarter| self.share(quarter) > most) {
                return None;
            }
            parts.extend(self.timeline.parts(part(offered, from, 1.0), self.of));
        }
        let each = self.per_s / self.requests_per_s;
        let rate = BlockMean::of_parts(parts.iter())?;
        let seen = interval_of_rate(&rate)?;
        // Which answers' tokens came is chance too: an error of their lengths that has nothing to do with the other.
        let lengths = BlockMean::of_values(&self.lengths)?.interval(LEVEL);
        let lengths = lengths.high.map_or(0.0, |high| high / each - 1.0);
        let off = |end: f64| (end / rate.value - 1.0).hypot(lengths);
        let value = rate.value / each;
        let low = (value * (1.0 - off(seen.low))).max(0.0);
        let interval = interval_of(low, value * (1.0 + off(seen.high)), LEVEL)?;
        Some((value, interval))
    }
}

/// The share of requests that are lost sooner than nearly all first tokens come, as where a server takes no more of them: those stand in no queue.
fn refused<'a>(rows: impl Iterator<Item = &'a Row> + Clone) -> f64 {
    let stay = |row: &Row| (row.left() - row.instants().due).as_f64();
    let whole = rows.clone().filter(|row| row.completed());
    let firsts = whole.map(|row| row.instants().value(Metric::TtftDue).unwrap_or(stay(row)));
    let firsts = crate::Sample::of(&firsts.collect::<Vec<f64>>());
    let soon = firsts.map_or(0.0, |firsts| firsts.quantile(0.05));
    let refused = rows.clone().filter(|row| row.lost && stay(row) < soon);
    float(refused.count()) / float(rows.count().max(1))
}

/// Whether a queue grows for as long as load is offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Queue {
    None,
    /// Somebody waits longer and longer, and less is served than asked for, but what piles up is no more than random arrivals may leave.
    MayGrow,
    Grows,
}

/// From the first that the schedule starts to the last.
pub(super) fn offered_window(repeat: &Repeat<'_>) -> Option<Window> {
    let due = || starts(repeat).map(|start| start.due);
    let (from, to) = (due().min()?, due().max()?);
    (from < to).then_some(Window { from, to })
}

/// Whether a queue grows in a repeat. Of few requests none is sure.
fn queue(repeat: &Repeat<'_>, load: &Load, asked: &Asked<'_>) -> Queue {
    let Some(offered) = offered_window(repeat) else {
        return Queue::None;
    };
    let mut started: Vec<Stamp> = starts(repeat).map(|start| start.due).collect();
    started.sort_unstable();
    let late = part(offered, 0.5, 1.0);
    let held_back = asked.held_back(repeat.rows, late);
    let held_back = held_back.filter(|_| load.has_one_rate() && repeat.conversations.is_empty());
    let is_held_back = held_back.is_some();
    let (mut ended, served) =
        held_back.unwrap_or_else(|| (ends(repeat).collect(), asked.share(late)));
    ended.sort_unstable();
    let level = |stretch: usize| {
        let at = part(offered, 0.0, float(stretch) / float(STRETCHES)).to;
        let count = |times: &[Stamp]| float(times.partition_point(|time| *time <= at));
        count(&started) - count(&ended)
    };
    let levels: Vec<f64> = (1..=STRETCHES).map(level).collect();
    let waits = waits_longer(repeat.rows) > LEFT_OVER;
    let sure = |grows: bool| {
        if grows && repeat.rows.len() >= FEWEST_OF_A_QUEUE {
            Queue::Grows
        } else {
            Queue::MayGrow
        }
    };
    let rise = rise(&levels, float(started.len()));
    let full = |most| is_full(repeat, (offered, load), asked, most);
    if !load.has_one_rate() {
        // Where the rate itself moves, the number in flight is no straight line.
        let queues = waits || full(RESPONDS) && rise.is_some();
        return if queues {
            sure(rise.is_some())
        } else {
            Queue::None
        };
    }
    // Long answers fill a server for as long as they take, without making anybody wait and without being slower for it.
    let slower = grows_slower(repeat.rows);
    let late = &levels[STRETCHES / 2..];
    let busy = || is_busy(repeat, served * asked.requests_per_s, late);
    if (full(FLAT) || slower && served < SHORT) && busy() {
        return sure(true);
    }
    // The luck of a random schedule makes requests pile up too, but a server that is able to serve the rate then serves more than it.
    let queues = waits || slower || served < SHORT && full(RESPONDS);
    if served >= ABLE || !queues {
        return Queue::None;
    }
    if rise.is_some_and(|(growth, error)| growth >= ERRORS * error) {
        return sure(true);
    }
    if is_held_back && rise.is_some() || asked.best(offered) < 1.0 {
        Queue::MayGrow
    } else {
        Queue::None
    }
}

/// By how much what the schedule started, requests or conversations, piled up, and the error of that: where it is more than a few and still there at the
/// end of the load, since what a burst leaves goes away again. The first stretch fills an empty server, whatever the load.
fn rise(levels: &[f64], started: f64) -> Option<(f64, f64)> {
    let [first, .., to] = *levels else {
        return None;
    };
    let (growth, n) = (to - first, float(STRETCHES - 1));
    let most = levels.iter().copied().fold(0.0, f64::max);
    let counts = LEFT_OVER * started * n / float(STRETCHES);
    if growth < counts || to < 0.7 * most || to <= levels[STRETCHES * 2 / 3] {
        return None;
    }
    let changes = levels.windows(2).map(|pair| pair[1] - pair[0]);
    let squares: f64 = changes.map(|change| (change - growth / n).powi(2)).sum();
    Some((growth, (squares / (n - 1.0) * n).sqrt()))
}

/// Whether the server gives no more, and less than is asked for, with more in flight: from the first quarter of the time in which load is offered to the last, or
/// from the second, where more are in flight. One that long answers fill gives the more the more there are; as a share of that growth, what it gives grows by less
/// than `most`.
fn is_full(
    repeat: &Repeat<'_>,
    (offered, load): (Window, &Load),
    asked: &Asked<'_>,
    most: f64,
) -> bool {
    let quarters = quarters(offered);
    let given = quarters.map(|quarter| asked.share(quarter));
    let in_flight = quarters.map(|quarter| repeat.in_flight.mean(quarter).unwrap_or(0.0));
    let [before, .., late] = in_flight;
    let due = |quarter: &Window| {
        let due = starts(repeat).filter(|start| quarter.contains(start.due));
        4.0 * float(due.count()) / float(starts(repeat).count())
    };
    // Where the rate moves, every quarter asks for something else.
    let (first, ask) = if load.has_one_rate() {
        (0, [1.0; 4])
    } else {
        (3, quarters.each_ref().map(due))
    };
    let is_short = |from: usize| (from.max(first)..4).all(|i| given[i] < ABLE * ask[i]);
    let responds =
        |from: usize| (given[3] / given[from]).ln() >= most * (late / in_flight[from]).ln();
    let fell_short = first == 0 && is_short(0) && late > before && !responds(0);
    fell_short || is_short(1) && late >= MORE * in_flight[1] && !responds(1)
}

/// The quarters of a window.
fn quarters(window: Window) -> [Window; 4] {
    [0.0, 0.25, 0.5, 0.75].map(|from| part(window, from, from + 0.25))
}

/// The part of a window between two shares of its length.
fn part(window: Window, from: f64, to: f64) -> Window {
    let at = |share: f64| window.from + Nanos::from_f64(window.length().as_f64() * share);
    Window {
        from: at(from),
        to: at(to),
    }
}

/// Whether the number in flight was never fewer than half of the usual; or than Little's law needs for what was served by a server that keeps nobody
/// waiting, since a queue that grows all the time begins small.
fn is_busy(repeat: &Repeat<'_>, served: f64, levels: &[f64]) -> bool {
    let least = levels.iter().copied().fold(f64::INFINITY, f64::min);
    let usual = mean(levels).map(|mean| 0.5 * mean);
    let answered = || repeat.rows.iter().filter(|row| row.completed());
    let alone =
        unhindered(repeat.rows).and_then(|time| mean(&answered().map(time).collect::<Vec<f64>>()));
    let needed = alone.map(|time| served * time / 1e9);
    let enough = usual
        .into_iter()
        .chain(needed)
        .fold(f64::INFINITY, f64::min);
    least >= enough.max(2.0)
}

/// When each that the schedule started was over.
fn ends(repeat: &Repeat<'_>) -> impl Iterator<Item = Stamp> {
    let conversations = repeat.conversations.iter().map(|one| one.left);
    let rows = repeat.rows.iter();
    let rows = rows.filter(|_| repeat.conversations.is_empty());
    conversations.chain(rows.map(Row::left))
}

fn quantile_of(rows: &[Row], metric: Metric, q: f64) -> Option<f64> {
    let values: Vec<f64> = rows
        .iter()
        .filter_map(|row| row.instants().value(metric))
        .collect();
    crate::Sample::of(&values).map(|sample| sample.quantile(q))
}

/// What a request takes if its first token comes as soon as that of the quickest twentieth and the others at the median gap, in nanoseconds.
fn unhindered(rows: &[Row]) -> Option<impl Fn(&Row) -> f64> {
    let first = quantile_of(rows, Metric::Ttft, 0.05)?;
    let gap = quantile_of(rows, Metric::Tpot, 0.5).unwrap_or(0.0);
    Some(move |row: &Row| by_length(row, first, gap))
}

/// What an answer of so many tokens takes with this first token and this gap.
fn by_length(row: &Row, first: f64, gap: f64) -> f64 {
    let tokens = row.instants().tokens.unwrap_or(0).saturating_sub(1);
    first + tokens as f64 * gap
}

/// By how much later first tokens come at least, in seconds a second: a queue counts by the share of the time that it takes.
fn waits_longer(rows: &[Row]) -> f64 {
    let wait = |row: &Row| {
        let instants = row.instants();
        Some((
            instants.due.as_secs_f64(),
            instants.value(Metric::TtftDue)? / 1e9,
        ))
    };
    let waits: Vec<(f64, f64)> = rows.iter().filter_map(wait).collect();
    let low = linear_fit(&waits, LEVEL).and_then(|fit| fit.slope.low);
    low.unwrap_or(0.0)
}

fn grows_slower(rows: &[Row]) -> bool {
    let gap = quantile_of(rows, Metric::Tpot, 0.5).unwrap_or(0.0);
    let first =
        quantile_of(rows, Metric::Ttft, 0.5).or_else(|| quantile_of(rows, Metric::E2e, 0.5));
    let Some(first) = first else {
        return false;
    };
    let slow = |rows: &[Row]| {
        let answered = rows.iter().filter(|row| row.completed());
        let times = answered.filter_map(|row| {
            Some(row.instants().value(Metric::E2eDue)? / by_length(row, first, gap))
        });
        crate::Sample::of(&times.collect::<Vec<_>>()).map(|times| times.median())
    };
    let quarter = rows.len() / 4;
    let (early, late) = (&rows[..quarter], &rows[rows.len() - quarter..]);
    let ends = slow(early).zip(slow(late));
    ends.is_some_and(|(early, late)| late >= LONGER * early)
}

/// The answers a second of a server that always had as many under way as this one at its most, each for as long as it takes when nothing holds it up: of a full
/// one what it can do, and of one that is not full no less than it gave.
fn at_its_most(repeat: &Repeat<'_>) -> Option<f64> {
    /// Of that time, so that an answer which the next one followed does not overlap it by what its gaps vary.
    const SURE: f64 = 0.98;
    let time = unhindered(repeat.rows)?;
    let whole = repeat.rows.iter().filter(|row| row.completed());
    let spans = whole.map(|row| {
        let left = row.left();
        let own = Nanos::from_f64(SURE * time(row));
        ((left - own).max(row.instants().due), left)
    });
    let spans: Vec<(Stamp, Stamp)> = spans.collect();
    let each: Vec<f64> = spans
        .iter()
        .map(|(from, to)| (*to - *from).as_secs_f64())
        .collect();
    let each = mean(&each).filter(|each| *each > 0.0)?;
    Some(SURE * InFlight::of(spans).peak() as f64 / each)
}
