//! Whether streams stand still together or each by itself: what stops all is the server's, and what stops one is that request's.

use bench_schema::Stamp;

use super::fit::median;
use super::spans::{Cover, UnderWay};
use crate::outages::{Standstill, standstills};
use crate::samples::RequestSample;

/// Stops of all streams, and whether those of single streams are their own.
#[derive(Clone, Debug)]
pub(crate) struct Stops {
    /// Stretches in which at least nine of ten streams stood still, and went on together.
    pub(crate) of_all: Vec<Standstill>,
    /// Whether most streams that stand still beside others do so by themselves: then what a stream does that has no company is its own too.
    pub(crate) one_by_one: bool,
    /// The usual time per token.
    pub(crate) usual: f64,
    /// When any stream stood still, and when any was under way.
    by_any: Cover,
    streams: UnderWay,
    streaming: Cover,
}

impl Stops {
    /// Of these requests, with times in ns from `epoch`; at least this part of the streams has to stand still.
    pub(crate) fn of(requests: &[&RequestSample], epoch: Stamp, part: f64) -> Self {
        /// Share of the stalls beside others that are stops of all, from which on that of a stream without company is one.
        const MOST: f64 = 0.5;
        /// Stops of as many streams that chance makes of stalls that are each their own, up to which one is none of them.
        const CHANCE: f64 = 0.1;
        /// All stops of several over what chance makes, below which they are chance.
        const TIMES: f64 = 3.0;
        let mut of_all = standstills(requests.iter().copied(), epoch, part);
        let stalls = Stalls::of(requests, epoch);
        of_all.retain(|stop| stop.streams < 2.0 || stalls.go_on_with(stop));
        let company = || of_all.iter().filter(|stop| stop.streams >= 2.0);
        let shared = Cover::of(company().map(Standstill::span));
        let share = stalls.share_within(&shared);
        let found = company().count() as f64;
        let by_chance = company()
            .map(|stop| stalls.by_chance(stop))
            .fold(0.0, f64::max);
        let one_by_one = share.is_some_and(|share| share < MOST || found < TIMES * by_chance);
        of_all.retain(|stop| !one_by_one || stalls.by_chance(stop) < CHANCE);
        // Short overlaps of stalls that are not one are left out.
        let longest = of_all.iter().map(|s| s.length).fold(0.0, f64::max);
        of_all.retain(|stop| stop.length >= 0.3 * longest);
        Self {
            of_all,
            one_by_one,
            usual: stalls.usual,
            by_any: Cover::of(stalls.all),
            streams: stalls.streams,
            streaming: stalls.streaming,
        }
    }

    /// For how long of a stretch of time any stream stood still.
    pub(super) fn stood(&self, from: f64, to: f64) -> f64 {
        self.by_any.within(from, to)
    }

    /// For how long of a stretch of time there was a stream that could.
    pub(super) fn streamed(&self, from: f64, to: f64) -> f64 {
        self.streaming.within(from, to)
    }

    pub(super) fn streams_at(&self, at: f64) -> usize {
        self.streams.at(at)
    }
}

/// Stalls that have so much of their length in common are one.
const NEARLY: f64 = 0.9;

/// The gaps of single answers that stand out, in order, and the streams that they are of.
struct Stalls {
    all: Vec<(f64, f64)>,
    /// How long they are, in order.
    lengths: Vec<f64>,
    streams: UnderWay,
    streaming: Cover,
    /// How long all streams streamed together.
    streamed: f64,
    usual: f64,
}

impl Stalls {
    fn of(requests: &[&RequestSample], epoch: Stamp) -> Self {
        let ns = |at: Stamp| (at - epoch).as_f64();
        let own = requests.iter().flat_map(|request| &request.stalls);
        let mut all: Vec<(f64, f64)> = own
            .map(|(at, length)| (ns(*at), ns(*at) + length))
            .collect();
        all.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut lengths: Vec<f64> = all.iter().map(|(from, to)| to - from).collect();
        lengths.sort_by(f64::total_cmp);
        let streams = || {
            let with_ttft = requests.iter();
            with_ttft
                .filter_map(|request| Some((ns(request.start) + request.ttft?, ns(request.end))))
        };
        Self {
            lengths,
            streams: UnderWay::of(streams()),
            streaming: Cover::of(streams()),
            streamed: streams().map(|(from, to)| to - from).sum(),
            usual: median(requests.iter().filter_map(|r| r.tpot()).collect()).unwrap_or(0.0),
            all,
        }
    }

    /// Whether most of those that stood still in a stretch stopped and went on with each other: by chance they overlap, and each is longer.
    fn go_on_with(&self, stop: &Standstill) -> bool {
        let middle = stop.from + stop.length / 2.0;
        let longest = self.lengths.last().copied().unwrap_or(0.0);
        let first = self
            .all
            .partition_point(|(from, _)| *from < middle - longest);
        let begun = self.all.partition_point(|(from, _)| *from <= middle);
        let held = self.all.get(first..begun).unwrap_or_default();
        let lengths = held
            .iter()
            .filter(|(_, to)| *to >= middle)
            .map(|(from, to)| to - from);
        let alike = |length: f64| stop.length >= (NEARLY * length).min(length - 3.0 * self.usual);
        median(lengths.collect()).is_some_and(alike)
    }

    /// How many stops as long as this one, of as many streams, chance makes of stalls that have nothing to do with each other.
    fn by_chance(&self, stop: &Standstill) -> f64 {
        let as_long = self
            .lengths
            .partition_point(|length| *length < NEARLY * stop.length);
        let n = (self.lengths.len() - as_long) as f64;
        let meets = n / self.streamed * 2.0 * (1.0 - NEARLY) * stop.length;
        n * meets.min(1.0).powf(stop.streams - 1.0)
    }

    /// Share of the time of those beside which others were under way that lies in some stretches; `None` where none had company.
    fn share_within(&self, stretches: &Cover) -> Option<f64> {
        let beside = |(from, to): &&(f64, f64)| self.streams.at(f64::midpoint(*from, *to)) >= 2;
        let beside = || self.all.iter().filter(beside);
        let all: f64 = beside().map(|(from, to)| to - from).sum();
        let within: f64 = beside()
            .map(|(from, to)| stretches.within(*from, *to))
            .sum();
        (all > 0.0).then(|| within / all)
    }
}
