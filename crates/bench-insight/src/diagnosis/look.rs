//! One cell as the detectors look at it: its requests on one axis of time, with what lengths explain taken out.

use std::cell::OnceCell;

use bench_schema::{ArrivalKind, CellRecord, Load, RunRecord, Stamp};

use super::fit::{Line, mean, median};
use super::over_time::Unprompted;
use super::places::Places;
use super::prompts::{Prefill, Prompts, prefills};
use super::rhythm::Rhythm;
use super::spans::UnderWay;
use super::speed::{self, Change};
use super::stops::Stops;
use super::{first_token, over_time};
use crate::outages::endpoints;
use crate::samples::{CellSamples, LostSample, RequestSample, Silence};

/// A cell with its single requests, where those are known.
pub(super) struct Look<'a> {
    pub(super) run: &'a RunRecord,
    pub(super) cell: &'a CellRecord,
    /// Of one repeat, in the order in which they were to start.
    pub(super) seen: Vec<Seen<'a>>,
    /// Of the same repeat.
    pub(super) lost: Vec<&'a LostSample>,
    /// Of the same repeat.
    pub(super) stopped: Vec<&'a RequestSample>,
    /// The requests of the other endpoints, where it is a look at one.
    pub(super) others: Vec<&'a RequestSample>,
    /// Answers of the warm-up that stream beside them at first.
    pub(super) warm_up: Vec<&'a RequestSample>,
    /// When no token came in its warm-up.
    pub(super) silence: Option<&'a Silence>,
    /// When the first request was to start; all times are from it, in ns.
    pub(super) epoch: Stamp,
    /// Whether no request of its cell had been answered by then.
    pub(super) begins: bool,
    /// The lowest level of its series, where that is at most half of its own.
    pub(super) lowest: Option<&'a CellRecord>,
    /// How slow the server was meanwhile, of its usual over all cells; and whether that changed while this one was measured.
    pub(super) slowed: f64,
    pub(super) changed: bool,
    cache: Cache,
}

/// What several rules ask for, and is made when the first of them does.
#[derive(Default)]
struct Cache {
    prefills: OnceCell<Vec<Prefill>>,
    prompts: OnceCell<Prompts>,
    stops: OnceCell<Stops>,
    places: OnceCell<Option<Places>>,
    rhythm: OnceCell<Option<Rhythm>>,
    change: OnceCell<Option<Change>>,
    unprompted: OnceCell<Unprompted>,
}

/// One completed request. Times are in ns from the cell's first request.
#[derive(Clone)]
pub(super) struct Seen<'a> {
    pub(super) request: &'a RequestSample,
    /// When it was to start (open loop) or was sent.
    pub(super) from: f64,
    pub(super) sent: f64,
    /// First content event.
    pub(super) first: Option<f64>,
    pub(super) end: f64,
    /// Requests that had started and not ended when it started, itself included.
    pub(super) in_flight: f64,
    /// Its time over what requests of its lengths take in this cell.
    pub(super) slow: f64,
    /// The same with its content events in place of the tokens that the server told.
    pub(super) slow_by_events: f64,
}

impl<'a> Look<'a> {
    /// Of the repeat with the most requests.
    pub(super) fn of(
        run: &'a RunRecord,
        cell: &'a CellRecord,
        samples: Option<&'a CellSamples>,
    ) -> Self {
        let fullest = samples.and_then(|own| Some((own, *own.repeats().first()?)));
        match fullest {
            Some((own, repeat)) => Self::of_repeat(run, cell, own, Some(repeat)),
            None => Self::empty(run, cell),
        }
    }

    fn empty(run: &'a RunRecord, cell: &'a CellRecord) -> Self {
        Self {
            run,
            cell,
            seen: Vec::new(),
            lost: Vec::new(),
            stopped: Vec::new(),
            others: Vec::new(),
            warm_up: Vec::new(),
            silence: None,
            epoch: Stamp::EPOCH,
            begins: true,
            lowest: None,
            cache: Cache::default(),
            slowed: 1.0,
            changed: false,
        }
    }

    /// Of one repeat, or of all, one after the other.
    pub(super) fn of_repeat(
        run: &'a RunRecord,
        cell: &'a CellRecord,
        samples: &'a CellSamples,
        repeat: Option<u32>,
    ) -> Self {
        let empty = Self::empty(run, cell);
        let is_own = move |of: u32| repeat.is_none_or(|own| of == own);
        let of_repeat =
            |all: &'a [RequestSample]| all.iter().filter(move |request| is_own(request.repeat));
        let requests: Vec<&RequestSample> = of_repeat(&samples.requests).collect();
        let lost = samples.lost.iter();
        let lost: Vec<&LostSample> = lost.filter(|lost| is_own(lost.repeat)).collect();
        let stopped = of_repeat(&samples.stopped);
        let open = cell.load.is_open();
        let starts = |request: &RequestSample| {
            if open { request.due } else { request.start }
        };
        let all = requests.iter().map(|request| starts(request));
        let all = all.chain(stopped.clone().map(|stopped| stopped.start));
        let Some(epoch) = all.chain(lost.iter().map(|lost| lost.due)).min() else {
            return empty;
        };
        let ns = |at: Stamp| (at - epoch).as_f64();
        let [told, came] = Expected::both(&requests);
        let mut seen: Vec<Seen<'a>> = requests
            .iter()
            .map(|request| Seen {
                request,
                from: ns(starts(request)),
                sent: ns(request.start),
                first: request.ttft.map(|ttft| ns(request.start) + ttft),
                end: ns(request.end),
                in_flight: 0.0,
                slow: request.e2e() / told.e2e(request),
                slow_by_events: request.e2e() / came.e2e(request),
            })
            .filter(|seen| seen.slow.is_finite() && seen.end >= seen.from)
            .collect();
        seen.sort_by(|a, b| a.from.total_cmp(&b.from));
        let mut look = Self {
            seen,
            lost,
            stopped: stopped.collect(),
            warm_up: of_repeat(&samples.warm_up).collect(),
            silence: samples
                .silences
                .iter()
                .find(|own| Some(own.repeat) == repeat),
            epoch,
            begins: samples.requests.iter().all(|r| r.end > epoch),
            ..empty
        };
        look.count_in_flight(samples.keep_every.max(1));
        look
    }

    /// The endpoints of its requests, where there are several.
    pub(super) fn endpoints(&self) -> Vec<u32> {
        endpoints(self.seen.iter().map(|seen| seen.request))
    }

    /// How an endpoint is called.
    pub(super) fn url(&self, endpoint: u32) -> String {
        let index = usize::try_from(endpoint).ok();
        let url = index.and_then(|index| self.run.server.urls.get(index));
        url.cloned().unwrap_or_else(|| endpoint.to_string())
    }

    /// The same cell as one of its endpoints served it.
    pub(super) fn at_endpoint(&self, endpoint: u32) -> Self {
        let is_own = |request: &RequestSample| request.endpoint == endpoint;
        let own = self.seen.iter().filter(|seen| is_own(seen.request));
        let others = self.seen.iter().map(|seen| seen.request);
        let warm_up = self.warm_up.iter().copied();
        let mut look = Self {
            seen: own.cloned().collect(),
            others: others.filter(|request| !is_own(request)).collect(),
            warm_up: warm_up.filter(|request| is_own(request)).collect(),
            epoch: self.epoch,
            begins: self.begins,
            lowest: self.lowest,
            ..Self::empty(self.run, self.cell)
        };
        look.count_in_flight(1);
        look
    }

    fn spans(&self) -> impl Iterator<Item = (f64, f64)> {
        let seen = self.seen.iter().map(|seen| (seen.from, seen.end));
        seen.chain(self.held())
    }

    /// Requests under way, counting those that were lost.
    pub(super) fn under_way(&self) -> UnderWay {
        UnderWay::of(self.spans())
    }

    /// Answers that stream, those of the warm-up and those that were stopped among them.
    pub(super) fn streams(&self) -> UnderWay {
        let others = self.warm_up.iter().chain(&self.stopped);
        let others = others.filter_map(|r| Some((self.ns(r.start) + r.ttft?, self.ns(r.end))));
        let own = self.seen.iter().filter_map(|s| Some((s.first?, s.end)));
        UnderWay::of(own.chain(others))
    }

    /// Requests under way at evenly spaced instants from the first start to the last.
    pub(super) fn in_flight_over_time(&self, instants: u32) -> Vec<f64> {
        let last = self.spans().map(|(from, _)| from).fold(0.0, f64::max);
        let under_way = self.under_way();
        let at = |i: u32| last * f64::from(i) / f64::from(instants);
        (1..instants).map(|i| under_way.at(at(i)) as f64).collect()
    }

    fn count_in_flight(&mut self, keep_every: u64) {
        let under_way = self.under_way();
        for seen in &mut self.seen {
            seen.in_flight = under_way.at(seen.from).max(1) as f64 * keep_every as f64;
        }
    }

    /// From when to when each lost request was under way.
    fn held(&self) -> impl Iterator<Item = (f64, f64)> {
        let lost = self.lost.iter().filter(|lost| lost.sent);
        lost.map(|lost| (self.ns(lost.due), self.ns(lost.end)))
    }

    /// A stamp on the axis of this look.
    pub(super) fn ns(&self, at: Stamp) -> f64 {
        (at - self.epoch).as_f64()
    }

    pub(super) fn is_open(&self) -> bool {
        self.cell.load.is_open()
    }

    /// Whether arrivals themselves come and go, so that a level that moves says nothing of the server.
    pub(super) fn load_moves(&self) -> bool {
        match &self.cell.load {
            Load::Closed { ramp, .. } => ramp.is_some(),
            Load::Open { arrival, .. } => !matches!(
                arrival,
                ArrivalKind::Poisson | ArrivalKind::Constant | ArrivalKind::Users { .. }
            ),
        }
    }

    /// The concurrency of a closed loop.
    pub(super) fn concurrency(&self) -> Option<u32> {
        match self.cell.load {
            Load::Closed { concurrency, .. } => Some(concurrency),
            Load::Open { .. } => None,
        }
    }

    /// Mean of a figure over the requests that have it.
    pub(super) fn mean(&self, value: impl Fn(&RequestSample) -> Option<f64>) -> Option<f64> {
        mean(self.seen.iter().filter_map(|seen| value(seen.request)))
    }

    /// When each prompt was worked on, up to its first token: for as long as the quick quarter of prompts of about its length takes, and as the tokens
    /// of others cost whose first tokens came at the same moment, since one step worked on all of them; for what is beyond that it waited.
    pub(super) fn prefills(&self) -> &[Prefill] {
        let requests = || self.seen.iter().map(|seen| seen.request);
        self.cache
            .prefills
            .get_or_init(|| prefills(requests, self.epoch))
    }

    /// Mean TTFT if every prompt were among the quick quarter of its length.
    pub(super) fn quick_ttft(&self) -> Option<f64> {
        mean(self.prefills().iter().map(|prefill| prefill.quick))
    }

    /// When prompts were worked on.
    pub(super) fn prompts(&self) -> &Prompts {
        self.cache
            .prompts
            .get_or_init(|| Prompts::of(self.prefills(), self.stops()))
    }

    /// The places that its requests wait for.
    pub(super) fn places(&self) -> Option<&Places> {
        self.cache.places.get_or_init(|| Places::of(self)).as_ref()
    }

    /// The speed that rises and falls again and again.
    pub(super) fn rhythm(&self) -> Option<&Rhythm> {
        let own = || Rhythm::of(self, &over_time::per_token(self));
        self.cache.rhythm.get_or_init(own).as_ref()
    }

    /// The change in the speed of whole requests.
    pub(super) fn of_requests(&self) -> Option<&Change> {
        self.cache
            .change
            .get_or_init(|| speed::of_requests(&[self]))
            .as_ref()
    }

    /// Stretches in which at least nine of ten streams stood still.
    pub(super) fn stops(&self) -> &Stops {
        let measured = self.seen.iter().map(|seen| seen.request);
        let all = || {
            let all: Vec<_> = measured.chain(self.warm_up.iter().copied()).collect();
            Stops::of(&all, self.epoch, 0.9)
        };
        self.cache.stops.get_or_init(all)
    }

    /// Those of them that nobody's prompt explains.
    pub(super) fn unprompted(&self) -> &Unprompted {
        let own = || Unprompted::of(self);
        self.cache.unprompted.get_or_init(own)
    }

    /// When the last request ended.
    pub(super) fn whole(&self) -> f64 {
        self.seen.iter().map(|s| s.end).fold(0.0, f64::max)
    }

    /// The users' time: from sending to the last event, of all requests together.
    pub(super) fn taken(&self) -> f64 {
        self.seen.iter().map(|s| s.end - s.sent).sum()
    }

    /// Whether lost requests held a quarter of a closed loop's slots at a moment, so that few shared the server.
    pub(super) fn relieved(&self) -> impl Fn(f64) -> bool {
        let held = UnderWay::of(self.held());
        let slots = self.concurrency().map_or(f64::INFINITY, f64::from);
        move |at| held.at(at) as f64 >= 0.25 * slots
    }

    /// How slow each request is for its lengths; where arrivals move, what follows the number in flight is
    /// taken out too, and where lost requests held a quarter of a closed loop's slots, what was quick since so few shared the server. Where the server knew the beginnings of half of the prompts and is quicker for them, of those alone: that the first prompts of
    /// a kind are slow is the cache's doing.
    pub(super) fn slowness(&self) -> Vec<Slowness> {
        let by_load = ByLoad::of(&self.seen);
        let moved = self.load_moves();
        let known_only = first_token::is_cached(self);
        let relieved = self.relieved();
        let is_relieved = |s: &Seen<'_>| s.slow < 1.0 && relieved(s.sent);
        let seen = self.seen.iter();
        seen.filter(|s| !known_only || first_token::is_known(s.request))
            .filter(|s| !is_relieved(s))
            .map(|s| {
                let by_load = if moved { by_load.at(s.in_flight) } else { 1.0 };
                Slowness {
                    sent: s.sent,
                    slow: s.slow / by_load,
                    took: s.request.e2e(),
                }
            })
            .collect()
    }

    /// Median of the time per token.
    pub(super) fn tpot(&self) -> Option<f64> {
        median(self.seen.iter().filter_map(|s| s.request.tpot()).collect())
    }
}

/// A request beside the usual ones of its lengths.
pub(super) struct Slowness {
    pub(super) sent: f64,
    /// Its time over theirs.
    pub(super) slow: f64,
    pub(super) took: f64,
}

/// What requests take, over the usual, by how many are in flight when they start: the medians of requests with about as many.
struct ByLoad(Vec<(f64, f64)>);

impl ByLoad {
    /// Requests whose median is one.
    const FEWEST: usize = 8;
    const PARTS: usize = 12;

    fn of(seen: &[Seen<'_>]) -> Self {
        let mut sorted: Vec<(f64, f64)> = seen.iter().map(|s| (s.in_flight, s.slow)).collect();
        sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
        let enough = Self::FEWEST.max(sorted.len() / Self::PARTS);
        let mut parts: Vec<(f64, Vec<f64>)> = Vec::new();
        for same in sorted.chunk_by(|a, b| a.0.total_cmp(&b.0).is_eq()) {
            let slow = same.iter().map(|(_, slow)| *slow);
            match parts.last_mut().filter(|(_, part)| part.len() < enough) {
                Some((most, part)) => {
                    *most = same.last().map_or(*most, |(n, _)| *n);
                    part.extend(slow);
                }
                None => parts.extend(same.last().map(|(n, _)| (*n, slow.collect()))),
            }
        }
        let medians = parts.into_iter();
        Self(
            medians
                .filter_map(|(most, part)| Some((most, median(part)?)))
                .collect(),
        )
    }

    fn at(&self, in_flight: f64) -> f64 {
        let part = self.0.partition_point(|(most, _)| *most < in_flight);
        let found = self.0.get(part).or(self.0.last());
        found.map_or(1.0, |(_, slow)| slow.max(0.1))
    }
}

/// How long an answer is.
type Length = fn(&RequestSample) -> Option<u32>;

/// What requests of given lengths take in a cell: TTFT along a line over prompt tokens, then the median time for each part of the answer.
pub(super) struct Expected {
    length: Length,
    ttft: Line,
    each: f64,
    /// Of answers whose tokens came at once: along a line over their number.
    e2e: Line,
}

impl Expected {
    /// By the tokens that the server told, and by the content events that came.
    pub(super) fn both(requests: &[&RequestSample]) -> [Self; 2] {
        let lengths: [Length; 2] = [RequestSample::streamed_tokens, |r| Some(r.events)];
        lengths.map(|length| Self::of(requests, length))
    }

    fn of(requests: &[&RequestSample], length: Length) -> Self {
        let points: Vec<(f64, f64)> = requests
            .iter()
            .filter_map(|r| Some((f64::from(r.input_tokens.unwrap_or(0)), r.ttft?)))
            .collect();
        let each = requests.iter().filter_map(|r| {
            let parts = length(r)?.checked_sub(1).filter(|parts| *parts > 0)?;
            let streamed = Some(r.e2e() - r.ttft?).filter(|streamed| *streamed > 0.0)?;
            Some(streamed / f64::from(parts))
        });
        let at_once: Vec<(f64, f64)> = requests
            .iter()
            .filter(|r| r.ttft.is_none() || length(r).is_none())
            .map(|r| (f64::from(length(r).unwrap_or(0)), r.e2e()))
            .collect();
        Self {
            length,
            ttft: Line::of(&points),
            each: median(each.collect()).unwrap_or(0.0),
            e2e: Line::of(&at_once),
        }
    }

    pub(super) fn e2e(&self, request: &RequestSample) -> f64 {
        let length = (self.length)(request);
        let (Some(_), Some(parts)) = (request.ttft, length) else {
            return self.e2e.at(f64::from(length.unwrap_or(0)));
        };
        let input = f64::from(request.input_tokens.unwrap_or(0));
        self.ttft.at(input).max(0.0) + f64::from(parts.saturating_sub(1)) * self.each
    }
}
