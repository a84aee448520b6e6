//! Windows of each repeat, and what fell into them.

mod closed_loop;

use std::collections::BTreeMap;

use bench_schema::{
    Interval, Load, Metric, Nanos, Rates, Stamp, Stationarity, Window, WindowRates,
};

use crate::blocks::{BlockMean, Part};
use crate::estimate::LEVEL;
use crate::in_flight::InFlight;
use crate::latency::Instants;
use crate::num::{float, mean, sum};
use crate::sample::Sample;
use crate::steady::{Flight, find_steady};
use crate::summary::interval_of;
use crate::tables::t_critical;
use crate::timeline::{TimeCounts, Timeline};

use super::conversations::{Conversation, Conversations};
use super::open_loop::{By, Told};
use super::row::Row;
use super::{CellContext, open_loop};
use closed_loop::{closed_loop, pausing};

/// One repeat on the time axis.
#[derive(Clone, Debug)]
pub(super) struct Repeat<'a> {
    pub(super) index: u32,
    pub(super) whole: Window,
    pub(super) steady: Option<Window>,
    stationarity: Stationarity,
    pub(super) in_flight: InFlight,
    pub(super) rows: &'a [Row],
    /// The warm-up's answers that ended in its time: when they were sent, and when they ended.
    pub(super) carried: Vec<(Stamp, Stamp)>,
    /// How long its plan lasts, in seconds, where that is known.
    pub(super) planned: Option<f64>,
    /// When a closed loop sends nothing more, where that is a moment of the plan.
    until: Option<Stamp>,
    /// Its conversations, where it has such.
    pub(super) conversations: Vec<Conversation>,
}

/// A warm-up request that was under way, or may have been, when measuring began.
#[derive(Clone, Copy, Debug)]
pub(super) struct Carried {
    pub(super) repeat: u32,
    pub(super) sent: Stamp,
    /// When the client was done with it.
    pub(super) ended: Stamp,
    /// The last token of a whole answer.
    pub(super) answered: Option<Stamp>,
}

/// A window of one repeat.
#[derive(Clone, Copy)]
struct Span<'a> {
    repeat: &'a Repeat<'a>,
    window: Window,
    /// The part of it that events are counted in: whole bins of the timeline for a steady part.
    counted: Window,
    steady: bool,
}

impl<'a> Span<'a> {
    /// All of a repeat.
    fn of(repeat: &'a Repeat<'a>) -> Self {
        Self {
            repeat,
            window: repeat.whole,
            counted: repeat.whole,
            steady: false,
        }
    }

    /// The requests that started in it.
    fn rows(&self) -> impl Iterator<Item = &'a Row> {
        let rows = self.repeat.rows.iter();
        rows.filter(|row| !self.steady || self.window.contains(row.started()))
    }
}

/// The repeats of rows sorted by repeat and start.
pub(super) fn repeats<'a>(
    rows: &'a [Row],
    (warm, conversations, begun_per_s): (&[Carried], &Conversations, Option<f64>),
    context: &CellContext,
    timeline: &Timeline,
) -> Vec<Repeat<'a>> {
    let runs = rows.chunk_by(|a, b| a.repeat() == b.repeat());
    runs.filter_map(|run| {
        let flights = run.iter().map(flight);
        let from = run.iter().map(|r| r.instants().due).min()?;
        let to = run.iter().map(Row::left).max().filter(|to| *to > from)?;
        let index = run.first()?.repeat();
        let conversations = conversations.of(index);
        let carried = || warm.iter().filter(|w| w.repeat == index && w.ended > from);
        let measured = flights.clone().map(|f| (f.sent, f.ended));
        let in_flight = InFlight::of(measured.chain(carried().map(|w| (w.sent, w.ended))));
        // The load of an open loop ends with the last conversation that begins, not with its turns.
        let last = conversations.last().filter(|_| context.load.is_open());
        let offered =
            |flight: &Flight| last.is_none_or(|last| flight.sent <= last.taken.unwrap_or(last.due));
        let found = find_steady(
            flights.filter(offered),
            &in_flight,
            &pausing(&context.load, &conversations),
        );
        Some(Repeat {
            index,
            whole: Window { from, to },
            steady: found.window.filter(|w| timeline.snap(*w).is_some()),
            stationarity: found.stationarity,
            in_flight,
            rows: run,
            carried: carried()
                .filter_map(|w| Some((w.sent, w.answered.filter(|at| *at > from)?)))
                .collect(),
            until: context.stop.duration.map(|duration| from + duration),
            planned: open_loop::planned_seconds(
                context,
                begun_per_s.map(|rate| (rate, conversations.len())),
                run.len(),
            ),
            conversations,
        })
    })
    .collect()
}

fn flight(row: &Row) -> Flight {
    let instants = row.instants();
    let latency = instants.value(Metric::Ttft).filter(|_| instants.completed);
    let sent = row.started();
    Flight {
        sent,
        // one that never reached the server is none of its load
        ended: instants.sent.and(instants.ended()).unwrap_or(sent),
        latency,
        tokens: instants.tokens,
        cancelled: !row.counts(),
        lost: row.lost,
    }
}

/// The steady window of each repeat; none unless every repeat has one, so that all tables have one population.
pub(super) fn steady_windows(repeats: &[Repeat<'_>]) -> BTreeMap<u32, Window> {
    let all: Option<BTreeMap<u32, Window>> =
        repeats.iter().map(|r| Some((r.index, r.steady?))).collect();
    all.unwrap_or_default()
}

/// Rates over whole and steady windows, repeats together.
pub(super) fn window_rates(
    repeats: &[Repeat<'_>],
    steady: &BTreeMap<u32, Window>,
    load: &Load,
    timeline: &Timeline,
) -> WindowRates {
    let whole: Vec<Span<'_>> = repeats.iter().map(Span::of).collect();
    let steady: Vec<Span<'_>> = repeats
        .iter()
        .filter_map(|repeat| {
            let window = *steady.get(&repeat.index)?;
            let snapped = timeline.snap(window)?;
            // nothing comes after the last end
            let to = snapped.to.min(repeat.whole.to.max(window.to));
            Some(Span {
                repeat,
                window,
                counted: Window { to, ..snapped },
                steady: true,
            })
        })
        .collect();
    WindowRates {
        whole: rates(&whole, load, timeline),
        steady: rates(&steady, load, timeline),
        stationarity: stationarity(repeats),
    }
}

/// The stationarity of all repeats: that of the first one that is worst.
fn stationarity(repeats: &[Repeat<'_>]) -> Option<Stationarity> {
    let badness = |s: &Stationarity| match s.stationary {
        Some(false) => 2,
        None => 1,
        Some(true) => 0,
    };
    // The first of the worst: max_by_key alone would give the last.
    let worst = repeats
        .iter()
        .rev()
        .max_by_key(|r| badness(&r.stationarity))?;
    let mut worst_of_all = worst.stationarity.clone();
    if repeats.len() > 1 {
        let found = repeats.iter().filter(|r| r.steady.is_some()).count();
        worst_of_all.reason = format!(
            "{} (repeat {}; {found} of {} repeats have a steady part)",
            worst_of_all.reason,
            worst.index,
            repeats.len()
        );
    }
    Some(worst_of_all)
}

fn rates(spans: &[Span<'_>], load: &Load, timeline: &Timeline) -> Option<Rates> {
    let seconds: f64 = spans.iter().map(|s| s.window.length().as_secs_f64()).sum();
    if seconds <= 0.0 || spans.iter().any(|s| s.counted.length() <= Nanos::ZERO) {
        return None;
    }
    let mean_in_flight = mean_in_flight(spans, seconds);
    let (offered, reached, served) =
        open_loop::rates(spans.iter().map(|span| span.repeat), load, timeline);
    let steady = spans.iter().all(|s| s.steady);
    let counted = counted_out(spans, seconds, timeline);
    let by = served.and_then(|served| served.by);
    let of_tokens = spans_of_tokens(spans, by == Some(By::Ends), timeline);
    let undecided = served.is_some_and(|served| matches!(served.rate, Told::Undecided(_)));
    let cold = served.is_none_or(|served| !matches!(served.rate, Told::Counted));
    let served = served.map(|served| told(served.rate, spans, (seconds, counted), timeline));
    let closed =
        (!load.is_open()).then(|| closed_loop(spans, load, mean_in_flight, &counted, timeline));
    let (known, in_cycles) = closed.unwrap_or((served.flatten(), false));
    let requests = spans.iter().flat_map(Span::rows).count();
    let completed = spans.iter().flat_map(Span::rows);
    let completed = completed.filter(|r| r.completed()).count();
    let even = reached.map(|reached| reached * float(completed) / float(requests));
    let has_rate = served.is_none_or(|rate| rate.is_some());
    let rate = has_rate.then(|| at_most(even, known.unwrap_or(counted)));
    let requests_per_s = rate.map(|rate| rate.0);
    // Where requests are followed to their ends their tokens are of the time that they stand for, as their rate is.
    let same = |(even, rate): (f64, f64)| (rate / even - 1.0).abs() < 1e-9;
    let followed = in_cycles
        || by == Some(By::Tokens)
        || load.is_open() && even.zip(requests_per_s).is_some_and(same)
        || !cold && begin_fewer(spans, (requests_per_s, seconds), timeline);
    let all_at = requests_per_s.filter(|_| followed);
    let (total, counted_seconds) = tokens_came((spans, &of_tokens), all_at, timeline);
    let per_event = total.tokens_per_event().filter(|_| has_rate);
    let tokens_of =
        |c: &TimeCounts| c.tokens + c.uncounted_events as f64 * per_event.unwrap_or(0.0);
    let output = per_event.map(|_| tokens_of(&total) / counted_seconds);
    let seen = |value| {
        let by_time = || around(value, &of_tokens, timeline, &tokens_of);
        let steady = steady && !load.is_open();
        let by_streams = steady.then(|| of_streams(value, spans, mean_in_flight));
        wider_where_drained(by_streams.flatten(), by_time)
    };
    let open = Open::of(load.is_open() && followed, undecided);
    Some(Rates {
        window: spans.first()?.window,
        seconds,
        requests: Some(requests as u64),
        requests_per_s,
        requests_per_s_interval: rate.and_then(|rate| rate.1),
        offered_requests_per_s: offered,
        served_requests_per_s: served.flatten().filter(|_| !undecided).map(|rate| rate.0),
        output_tokens_per_s: output,
        output_tokens_per_s_interval: output.and_then(|value| open.of_tokens(value, rate?, seen)),
        total_tokens_per_s: output.map(|rate| rate + total.input_tokens as f64 / counted_seconds),
        chunks_per_s: total.events as f64 / counted_seconds,
        mean_in_flight: (requests_per_s.filter(|_| in_cycles && steady))
            .map_or(mean_in_flight, |rate| by_law(rate, spans)),
        peak_in_flight: peak(spans),
    })
}

/// What is left open of the requests of an open loop is left open of their tokens.
enum Open {
    Both,
    /// It may have been as much as was offered.
    Above,
    Neither,
}

impl Open {
    fn of(followed: bool, undecided: bool) -> Self {
        match (followed, undecided) {
            (true, _) => Self::Both,
            (_, true) => Self::Above,
            _ => Self::Neither,
        }
    }

    fn of_tokens(
        &self,
        value: f64,
        (rate, interval): open_loop::Rate,
        seen: impl FnOnce(f64) -> Option<Interval>,
    ) -> Option<Interval> {
        let end = |of: f64| value * of / rate;
        match self {
            Self::Both => interval.and_then(|i| interval_of(end(i.low), end(i.high), LEVEL)),
            Self::Above => {
                let (seen, most) = (seen(value)?, end(interval?.high));
                interval_of(seen.low, seen.high.max(most), LEVEL)
            }
            Self::Neither => seen(value),
        }
    }
}

/// The rate at which an open loop is served. The first of a few waves that end while load is offered tell none: those until the last end do.
fn told(
    rate: Told,
    spans: &[Span<'_>],
    (seconds, counted): (f64, open_loop::Rate),
    timeline: &Timeline,
) -> Option<open_loop::Rate> {
    match rate {
        Told::Rate(rate) | Told::Undecided(rate) if rate.1.is_some() => Some(rate),
        Told::Rate(_) | Told::Undecided(_) | Told::Counted => {
            Some(either_way(spans, seconds, counted, timeline))
        }
        Told::Nothing => None,
    }
}

/// What all requests of the repeats got, and the time that they stand for at this rate; without one, what came within those spans in which tokens are
/// counted, and their length in seconds.
fn tokens_came(
    (spans, of_tokens): (&[Span<'_>], &[Span<'_>]),
    all_at: Option<f64>,
    timeline: &Timeline,
) -> (TimeCounts, f64) {
    let Some(requests_per_s) = all_at else {
        return counted_in(of_tokens, timeline);
    };
    let whole: Vec<Span<'_>> = spans.iter().map(|span| Span::of(span.repeat)).collect();
    let completed = whole.iter().flat_map(Span::rows).filter(|r| r.completed());
    let seconds = float(completed.count()) / requests_per_s;
    let total = total_of(&whole, |window| timeline.measured(window));
    (total, seconds)
}

/// The time in which tokens are counted: where a queue grows, that of the answers which its rate counts.
fn spans_of_tokens<'a>(
    spans: &[Span<'a>],
    while_offered: bool,
    timeline: &Timeline,
) -> Vec<Span<'a>> {
    if !while_offered {
        return spans.to_vec();
    }
    let counted = |span: &Span<'a>| {
        let counted = timeline.snap(open_loop::counted_time(span.repeat)?)?;
        Some(Span { counted, ..*span })
    };
    spans.iter().filter_map(counted).collect()
}

/// What came within the spans, and their length in seconds.
fn counted_in(spans: &[Span<'_>], timeline: &Timeline) -> (TimeCounts, f64) {
    let seconds = spans.iter().map(|s| s.counted.length().as_secs_f64());
    let total = total_of(spans, |window| timeline.total(window));
    (total, seconds.sum())
}

/// Requests in flight over the spans, each weighted by its length.
fn mean_in_flight(spans: &[Span<'_>], seconds: f64) -> f64 {
    let area = |s: &Span<'_>| {
        s.repeat.in_flight.mean(s.window).unwrap_or(0.0) * s.window.length().as_secs_f64()
    };
    spans.iter().map(area).sum::<f64>() / seconds
}

/// The number in flight beside a rate: the window of conversations that think cuts their waves.
fn by_law(rate: f64, spans: &[Span<'_>]) -> f64 {
    let rows = || spans.iter().flat_map(Span::rows);
    rate * sum(rows().filter_map(stay)) / float(rows().filter(|row| row.completed()).count())
}

/// Seconds from its sending to its end.
fn stay(row: &Row) -> Option<f64> {
    let instants = row.instants();
    Some((instants.ended()? - instants.sent?).as_secs_f64())
}

/// No more is served than was offered and answered: few requests, or many at once, end in less time than they stand for.
fn at_most(even: Option<f64>, (rate, interval): open_loop::Rate) -> open_loop::Rate {
    let Some(even) = even.filter(|even| rate > *even) else {
        return (rate, interval);
    };
    let within = |i: Interval| interval_of(i.low.min(even), even, i.confidence);
    (even, interval.and_then(within))
}

fn peak(spans: &[Span<'_>]) -> u64 {
    let peaks = spans
        .iter()
        .map(|s| s.repeat.in_flight.peak_within(s.window));
    peaks.max().unwrap_or(0)
}

/// What fell into all of the windows.
fn total_of(spans: &[Span<'_>], of: impl Fn(Window) -> TimeCounts) -> TimeCounts {
    let mut total = TimeCounts::default();
    for span in spans {
        total.add(&of(span.counted));
    }
    total
}

/// What completed over the time. The answers carried over from the warm-up that ended then are part of what was served, as their tokens are, each for
/// the part of its time that lies in the window.
fn counted_out(spans: &[Span<'_>], seconds: f64, timeline: &Timeline) -> open_loop::Rate {
    let own = spans.iter().flat_map(Span::rows).filter(|r| r.completed());
    let carried = spans.iter().flat_map(|s| {
        let ended = s.repeat.carried.iter();
        let ended = ended.filter(|(_, end)| s.window.contains(*end));
        ended.map(|(sent, end)| {
            let within = (*end - s.window.from.max(*sent)).as_f64();
            within / (*end - *sent).as_f64().max(1.0)
        })
    });
    let rate = (float(own.count()) + carried.sum::<f64>()) / seconds;
    (rate, around(rate, spans, timeline, &|c| c.completed as f64))
}

/// Answers that begin per second until all have begun, by their prompts. What a server does for prompts that take all its time is done then, and
/// the tokens that come later are those of prompts that came earlier.
fn begun_per_s(spans: &[Span<'_>], timeline: &Timeline) -> Option<f64> {
    let (mut begun, mut seconds) = (0.0, 0.0);
    for span in spans {
        let firsts = span
            .repeat
            .rows
            .iter()
            .filter_map(|row| row.instants().first);
        let until = Window {
            from: span.repeat.whole.from,
            to: firsts.max()?,
        };
        begun += timeline.total(until).input_tokens as f64;
        seconds += until.length().as_secs_f64();
    }
    let own = spans.iter().flat_map(Span::rows).filter(|r| r.completed());
    let prompts = own.map(|row| row.instants().input_tokens.map(|tokens| tokens as f64));
    let each = mean(&prompts.collect::<Option<Vec<f64>>>()?)?;
    let rate = begun / each / seconds;
    (rate.is_finite() && rate > 0.0).then_some(rate)
}

/// Whether more tokens came than the answers that begin at this rate have: those of answers that had begun before are among them.
fn begin_fewer(
    spans: &[Span<'_>],
    (rate, seconds): (Option<f64>, f64),
    timeline: &Timeline,
) -> bool {
    let own = spans.iter().flat_map(Span::rows).filter(|r| r.completed());
    let asked = rate
        .zip(open_loop::tokens_each(own))
        .map(|(rate, each)| rate * each);
    let came = total_of(spans, |window| timeline.total(window)).tokens / seconds;
    let carried = spans.iter().any(|span| !span.repeat.carried.is_empty());
    carried && asked.is_some_and(|asked| asked < 0.999 * came)
}

/// What was counted, where the answers carried over from the warm-up are some of it: as many answers as the tokens that came make, where those are
/// known, and no more than begin, with an interval from none of the carried ones to all of each, for nobody knows how much of the server's work for them came before.
fn either_way(
    spans: &[Span<'_>],
    seconds: f64,
    counted: open_loop::Rate,
    timeline: &Timeline,
) -> open_loop::Rate {
    let carried = spans.iter().flat_map(|s| &s.repeat.carried).count();
    if carried == 0 {
        return counted;
    }
    let own = || spans.iter().flat_map(Span::rows).filter(|r| r.completed());
    let (rate, interval) = counted;
    let (n, all) = (own().count(), own().count() + carried);
    let each = open_loop::tokens_each(own()).filter(|each| *each > 0.0);
    let came = total_of(spans, |window| timeline.total(window)).tokens;
    let rate = each.map_or(rate, |each| came / each / seconds);
    let rate = begun_per_s(spans, timeline).map_or(rate, |begun| rate.min(begun));
    let (least, most) = (float(n) / seconds, float(all) / seconds);
    let (low, high) = interval.map_or((least, most), |i| (i.low.min(least), i.high.max(most)));
    let interval = interval_of(low.min(rate), high.max(rate), LEVEL);
    (rate, interval.filter(|_| low > 0.0))
}

/// An interval around an exact rate, as wide as the bins of time make it.
fn around(
    value: f64,
    spans: &[Span<'_>],
    timeline: &Timeline,
    count: &dyn Fn(&TimeCounts) -> f64,
) -> Option<Interval> {
    let parts: Vec<Part> = spans
        .iter()
        .flat_map(|s| timeline.parts(s.counted, count))
        .collect();
    let error = BlockMean::of_parts(parts.iter())?;
    interval_of_rate(&BlockMean { value, ..error })
}

/// That of streams; where many answers end after the window ([`of_streams`]), whatever is in it or in that of time.
fn wider_where_drained(
    by_streams: Option<(Interval, bool)>,
    by_time: impl Fn() -> Option<Interval>,
) -> Option<Interval> {
    let Some((streams, true)) = by_streams else {
        return by_streams.map_or_else(by_time, |(interval, _)| Some(interval));
    };
    let time = by_time()?;
    interval_of(
        streams.low.min(time.low),
        streams.high.max(time.high),
        LEVEL,
    )
}

/// The interval of a steady closed loop's tokens/s, and whether many answers end after the window: the mean in flight times what a stream gives in a second
/// of its stay, whose error is that of requests. What arrives in a stretch of time depends on the few requests that are under way in it, so that
/// stretches are no independent values. It reaches to `value`, what did arrive over the length of the window. Answers that end after it may have had more of the
/// server: where they are many the interval is as wide, but around `value`. `None` where the tokens of a request are not known.
fn of_streams(value: f64, spans: &[Span<'_>], in_flight: f64) -> Option<(Interval, bool)> {
    let rows = || spans.iter().flat_map(Span::rows).map(Row::instants);
    // by more than what tells two ends of one wave apart
    let outlasts = |row: &Instants, to: Stamp| {
        let stay = row.sent.zip(row.ended()).map(|(sent, ended)| ended - sent);
        let beyond = row.ended().map(|ended| (ended - to).as_f64());
        beyond
            .zip(stay)
            .is_some_and(|(beyond, stay)| beyond > 0.05 * stay.as_f64())
    };
    let later = spans.iter().flat_map(|span| {
        let rows = span.rows().map(Row::instants);
        rows.filter(|row| outlasts(row, span.window.to))
    });
    let drained = float(later.count()) > DRAIN * float(rows().count());
    let sent = rows().filter_map(|row| Some((row.sent?, row)));
    let parts = sent.map(|(sent, row)| {
        let num = row.tokens.or((row.events == 0).then_some(0))? as f64;
        let den = (row.ended()? - sent).as_secs_f64();
        Some(Part { num, den })
    });
    let parts: Vec<Part> = parts.collect::<Option<_>>()?;
    let (stream, (low, high)) = per_stream(&parts)?;
    let rate = if drained { value } else { in_flight * stream };
    let interval = interval_of((rate * low).min(value), (rate * high).max(value), LEVEL)?;
    Some((interval, drained))
}

/// What requests give for each second of their stay (Σ num / Σ den), and the factors between which it lies: its logarithm's error, within the least and the
/// most that one of them gave, so that it never reaches 0. `None` where the error is as large as itself.
fn per_stream(parts: &[Part]) -> Option<(f64, (f64, f64))> {
    let seen = BlockMean::of_parts(parts.iter()).filter(|seen| seen.value > 0.0)?;
    let half = t_critical(LEVEL, seen.df) * seen.std_err / seen.value;
    let each = || parts.iter().map(|part| part.num / part.den / seen.value);
    let least = each().fold(f64::INFINITY, f64::min);
    let most = each().fold(0.0, f64::max);
    (half < 1.0).then(|| (seen.value, ((-half).exp().max(least), half.exp().min(most))))
}

/// The interval of a rate; `None` where it reaches down to nothing, since then the data does not tell the rate.
pub(super) fn interval_of_rate(rate: &BlockMean) -> Option<Interval> {
    let (low, high) = rate.interval(LEVEL).bounds()?;
    interval_of(low, high, LEVEL).filter(|_| low > 0.0)
}

/// The share of answers that end after the steady part from which on they are not alike.
const DRAIN: f64 = 0.25;

/// The time that the whole answers stand for at the headline's rate: what goodput is over, so that it is the rate beside it where every
/// request meets every objective. The whole windows where nothing was answered.
pub(super) fn seconds_of(repeats: &[Repeat<'_>], windows: &WindowRates) -> f64 {
    let headline = windows.steady.as_ref().or(windows.whole.as_ref());
    let rate = headline
        .and_then(|rates| rates.requests_per_s)
        .unwrap_or(0.0);
    let rows = repeats.iter().flat_map(|repeat| repeat.rows);
    let completed = rows.filter(|row| row.completed()).count();
    if rate > 0.0 && completed > 0 {
        return float(completed) / rate;
    }
    repeats.iter().map(|r| r.whole.length().as_secs_f64()).sum()
}

/// KS distance between planned gaps (due) and real ones (sent), of requests that were sent.
pub(super) fn gaps_ks(rows: &[Row]) -> Option<f64> {
    let (mut planned, mut real) = (Vec::new(), Vec::new());
    for run in rows.chunk_by(|a, b| a.repeat() == b.repeat()) {
        let mut due: Vec<_> = run
            .iter()
            .filter(|r| r.instants().sent.is_some())
            .map(|r| r.instants().due)
            .collect();
        let mut sent: Vec<_> = run.iter().filter_map(|r| r.instants().sent).collect();
        due.sort_unstable();
        sent.sort_unstable();
        planned.extend(due.windows(2).map(|w| (w[1] - w[0]).as_f64()));
        real.extend(sent.windows(2).map(|w| (w[1] - w[0]).as_f64()));
    }
    Some(ks_two_samples(&Sample::of(&planned)?, &Sample::of(&real)?))
}

/// The largest distance between two empirical distribution functions.
fn ks_two_samples(a: &Sample, b: &Sample) -> f64 {
    let points = a.sorted().iter().chain(b.sorted());
    points
        .map(|x| (a.share_at_most(*x) - b.share_at_most(*x)).abs())
        .fold(0.0, f64::max)
}
