//! One cell as the detectors look at it: its requests on one axis of time, with what lengths explain taken out.

use std::cell::OnceCell;
use std::collections::BTreeMap;

use bench_schema::{ArrivalKind, CellRecord, Load, RunRecord, Stamp};

use super::over_time::Unprompted;
use super::places::Places;
use super::rhythm::Rhythm;
use super::speed::{self, Change};
use super::stops::Stops;
use super::{first_token, over_time};
use crate::outages::{Standstill, endpoints};
use crate::samples::{CellSamples, LostSample, RequestSample, STANDS_OUT, Silence};

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

/// Prompts, and their tokens.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Together {
    pub(super) prompts: f64,
    pub(super) tokens: f64,
}

/// The time in which a prompt was worked on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Prefill {
    /// Without those that the server knew, where it tells.
    pub(super) tokens: u64,
    /// All prompts whose first tokens came after it was sent, up to the moment of its own.
    pub(super) meanwhile: Together,
    /// TTFT of the quick quarter of as long prompts.
    pub(super) quick: f64,
    pub(super) sent: f64,
    pub(super) from: f64,
    pub(super) to: f64,
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

/// When prompts were worked on, or waited to be.
#[derive(Clone, Debug)]
pub(crate) struct Prompts {
    pub(crate) in_progress: Cover,
    firsts: Vec<Firsts>,
    /// The lengths of all stops, and of those that began while nobody waited for a first token, in order.
    stops: Vec<f64>,
    without: Vec<f64>,
}

/// First tokens that came at one moment.
#[derive(Clone, Debug)]
struct Firsts {
    at: f64,
    /// When each was sent, and the tokens of its prompt.
    prompts: Vec<(f64, f64)>,
    /// Prompt tokens behind them.
    tokens: f64,
    /// When the first of them was sent.
    sent: f64,
}

impl Firsts {
    /// Tokens of the prompts that had been sent by then.
    fn tokens_by(&self, at: f64) -> f64 {
        let sent = self.prompts.iter().filter(|prompt| prompt.0 <= at);
        sent.map(|prompt| prompt.1).sum()
    }
}

impl Prompts {
    /// Of these requests, in ns from `epoch`, whose streams stop so.
    pub(crate) fn of_requests<'a, I: Iterator<Item = &'a RequestSample>>(
        requests: impl Fn() -> I,
        epoch: Stamp,
        stops: &Stops,
    ) -> Self {
        Self::of(&prefills(requests, epoch), stops)
    }

    fn of(prefills: &[Prefill], stops: &Stops) -> Self {
        let mut each: Vec<&Prefill> = prefills.iter().collect();
        each.sort_by(|a, b| a.to.total_cmp(&b.to));
        let at_once = each.chunk_by(|a, b| b.to - a.to <= 0.5 * stops.usual);
        let step = |of: &[&Prefill]| {
            Some(Firsts {
                at: of.last()?.to,
                prompts: of.iter().map(|p| (p.sent, p.tokens as f64)).collect(),
                tokens: of.iter().map(|p| p.tokens as f64).sum(),
                sent: of.iter().map(|p| p.sent).fold(f64::INFINITY, f64::min),
            })
        };
        let waits = Cover::of(prefills.iter().map(|p| (p.sent, p.to)));
        let alone = |stop: &&Standstill| waits.within(stop.from, begun(stop)) <= 0.0;
        let lengths = |stops: &mut dyn Iterator<Item = &Standstill>| {
            let mut lengths: Vec<f64> = stops.map(|stop| stop.length).collect();
            lengths.sort_by(f64::total_cmp);
            lengths
        };
        let of_all = || stops.of_all.iter().filter(|stop| stop.streams >= 2.0);
        Self {
            in_progress: Cover::of(prefills.iter().map(|p| (p.from, p.to))),
            firsts: at_once.filter_map(step).collect(),
            without: lengths(&mut of_all().filter(alone)),
            stops: lengths(&mut of_all()),
        }
    }

    /// Whether streams stop for as long while nobody's prompt is there too, again and again: what does that is no prompt, and is none beside one either.
    fn come_without(&self, length: f64) -> bool {
        const FEWEST: usize = 3;
        const PART: f64 = 0.2;
        let alike = |of: &[f64]| {
            let until = |most: f64| of.partition_point(|own| *own <= most);
            until(1.25 * length) - until(0.8 * length)
        };
        let without = alike(&self.without);
        without >= FEWEST && without as f64 >= PART * alike(&self.stops) as f64
    }

    /// Whether they are what streams waited for in one of their stops: they were in progress, streams hardly moved until the next first token, and as long prompts
    /// make streams stand still at other times too. Of a prompt that is processed in parts what is left is short: streams stood still since it was sent, and
    /// moved for less than the stop. Behind a queue some are always in progress, and any stop may end with a first token.
    pub(crate) fn explain(&self, stop: &Standstill, stops: &Stops) -> bool {
        /// Share of a stop in which prompts were in progress, from which on they are what it waited for.
        const OF_PROMPTS: f64 = 0.7;
        /// Of the time up to the first token, and of a stop's own length, the part for which streams stand still.
        const STOOD: f64 = 0.5;
        const REST: f64 = 0.75;
        let (from, to) = (stop.from, stop.from + stop.length);
        // A server may make the first token of a prompt and then all others' next.
        let next = self
            .firsts
            .partition_point(|first| first.at < to - 1.5 * stops.usual);
        let Some(firsts) = self.firsts.get(next) else {
            return false;
        };
        // What is sent while streams stand still is none of what they wait for, however many come to wait for them.
        let (first, sent, tokens) = (firsts.at, firsts.sent, firsts.tokens_by(begun(stop)));
        // Where nobody streams nobody stands still or moves, whatever is worked on meanwhile.
        let in_parts = stops.stood(sent, first) >= STOOD * stops.streamed(sent, first);
        let rest = if in_parts {
            REST * stop.length
        } else {
            0.5 * stops.usual
        };
        let moved = stops.streamed(to, first) - stops.stood(to, first);
        moved <= (STOOD * (first - to)).max(rest)
            && self.in_progress.within(from, to) >= OF_PROMPTS * stop.length
            && tokens > 0.0
            && !self.come_without(stop.length)
            && self.make_streams_stand(tokens, first - from, STOOD * stop.length, stops)
    }

    /// Whether streams stand still for so long within some time before first tokens of as many prompt tokens.
    fn make_streams_stand(&self, tokens: f64, within: f64, length: f64, stops: &Stops) -> bool {
        /// Prompts whose beginnings are known are sooner over, and not all servers tell.
        const SHARE: f64 = 0.3;
        /// So many are looked at.
        const MOST: usize = 100;
        // what is shorter is not kept of an answer
        if length < STANDS_OUT * stops.usual {
            return true;
        }
        let alike = |step: &&Firsts| {
            step.tokens >= 0.75 * tokens && stops.streams_at(step.at - 0.5 * within) > 0
        };
        let spread = self.firsts.iter().step_by(self.firsts.len() / MOST + 1);
        let (mut n, mut stood) = (0.0, 0.0);
        for Firsts { at, .. } in spread.filter(alike) {
            let before = stops.stood(at - within, at + 1.5 * stops.usual);
            n += 1.0;
            stood += if before >= length { 1.0 } else { 0.0 };
        }
        stood >= SHARE * n
    }
}

/// Until when a prompt may be sent that a stop's step takes up: a stop is four steps at least.
fn begun(stop: &Standstill) -> f64 {
    stop.from + 0.125 * stop.length
}

/// First tokens of prompts of about one length.
struct Quick {
    n: usize,
    /// TTFT of the quick quarter.
    ttft: f64,
    tokens: f64,
}

impl Quick {
    /// Requests of a length below which all may have been late.
    const FEW: usize = 8;

    fn of(kind: &[(f64, f64)]) -> Option<Self> {
        Some(Self {
            n: kind.len(),
            ttft: quantile(kind.iter().map(|p| p.1).collect(), 0.25)?,
            tokens: median(kind.iter().map(|p| p.0).collect())?,
        })
    }

    /// For a prompt of this length: of a few of them no longer than longer ones take, or than as many tokens of shorter ones.
    fn beside<'a>(&self, tokens: f64, all: impl Iterator<Item = &'a Self>) -> f64 {
        let many = all.filter(|of| self.n < Self::FEW && of.n >= Self::FEW);
        let by = many.map(|of| of.ttft * (tokens / of.tokens.max(1.0)).max(1.0));
        by.fold(self.ttft, f64::min)
    }
}

fn prefills<'a, I: Iterator<Item = &'a RequestSample>>(
    requests: impl Fn() -> I,
    epoch: Stamp,
) -> Vec<Prefill> {
    // Prompts of about one length, within a factor of √2: octaves of the square.
    let about = |tokens: u64| tokens.saturating_mul(tokens).max(1).ilog2();
    // What the server knew of a prompt is not worked on.
    let new = |r: &RequestSample| {
        let input = u64::from(r.input_tokens.unwrap_or(0));
        input.saturating_sub(r.cached_tokens.unwrap_or(0).into())
    };
    let told = || {
        requests().filter_map(|r| {
            let (sent, ttft) = ((r.start - epoch).as_f64(), r.ttft?);
            Some((new(r), sent, sent + ttft, ttft))
        })
    };
    let mut kinds: BTreeMap<u32, Vec<(f64, f64)>> = BTreeMap::new();
    for (tokens, _, _, ttft) in told() {
        let kind = kinds.entry(about(tokens)).or_default();
        kind.push((tokens as f64, ttft));
    }
    let quick: BTreeMap<u32, Quick> = kinds
        .into_iter()
        .filter_map(|(length, of)| Some((length, Quick::of(&of)?)))
        .collect();
    let quick = |tokens: u64, ttft: f64| {
        let own = quick.get(&about(tokens));
        own.map_or(ttft, |own| own.beside(tokens as f64, quick.values()))
    };
    let each = Line::of(
        &told()
            .map(|(n, .., ttft)| (n as f64, ttft))
            .collect::<Vec<_>>(),
    )
    .slope;
    let mut alone: Vec<(Prefill, f64)> = told()
        .map(|(tokens, sent, first, ttft)| {
            let quick = quick(tokens, ttft);
            let prefill = Prefill {
                tokens,
                meanwhile: Together::default(),
                quick,
                sent,
                from: sent,
                to: first,
            };
            (prefill, quick)
        })
        .collect();
    in_steps(&mut alone, each);
    let hidden = requests().filter(|r| r.ttft.is_some());
    let of_each = alone
        .into_iter()
        .zip(hidden.map(RequestSample::hidden_time));
    let without = of_each.map(|((prefill, takes), hidden)| {
        let to = prefill.to - hidden;
        Prefill {
            from: prefill.from.max(to - 1.2 * (takes - hidden).max(0.0)),
            to,
            ..prefill
        }
    });
    without.collect()
}

/// Counts what was processed before each first token, and adds what the others of its step cost; each with the time that it takes alone.
fn in_steps(prompts: &mut [(Prefill, f64)], each: f64) {
    let mut by_end: Vec<&mut (Prefill, f64)> = prompts.iter_mut().collect();
    by_end.sort_by(|a, b| a.0.to.total_cmp(&b.0.to));
    // Within a tenth of what the quicker one takes it is one moment.
    let at_once = |a: &Prefill, b: &Prefill| b.to - a.to <= 0.1 * a.quick.min(b.quick);
    // Prompts of one length tell what a token costs where more or fewer of them share a step.
    let each = if each > 0.0 {
        each
    } else {
        // The largest step may be all that came during a stop of the server.
        let steps = || by_end.chunk_by(|a, b| at_once(&a.0, &b.0));
        let largest = steps().map(<[_]>::len).enumerate().max_by_key(|(_, n)| *n);
        let rest = steps()
            .enumerate()
            .filter(|(i, _)| largest.is_none_or(|(largest, _)| largest != *i));
        let points = rest.flat_map(|(_, step)| {
            let tokens: f64 = step.iter().map(|(prefill, _)| prefill.tokens as f64).sum();
            step.iter()
                .map(move |(prefill, _)| (tokens, prefill.to - prefill.sent))
        });
        Line::of(&points.collect::<Vec<_>>()).slope
    };
    // When first tokens came, with all prompts and tokens until then.
    let mut until: Vec<(f64, Together)> = Vec::new();
    let mut all = Together::default();
    for step in by_end.chunk_by_mut(|a, b| at_once(&a.0, &b.0)) {
        let tokens: f64 = step.iter().map(|(prefill, _)| prefill.tokens as f64).sum();
        let one_by_one: f64 = step.iter().map(|(prefill, _)| prefill.quick).sum();
        let to = step.last().map_or(0.0, |(prefill, _)| prefill.to);
        all.prompts += step.len() as f64;
        all.tokens += tokens;
        for (prefill, takes) in step {
            let ended = until.partition_point(|(to, _)| *to <= prefill.sent);
            let before = ended.checked_sub(1).and_then(|last| until.get(last));
            let before = before.map_or(Together::default(), |(_, before)| *before);
            prefill.meanwhile = Together {
                prompts: all.prompts - before.prompts,
                tokens: all.tokens - before.tokens,
            };
            // Together they take no longer than one after the other: when a server goes on after a stop, all first tokens come at once.
            let others = each * (tokens - prefill.tokens as f64);
            *takes += others.min(one_by_one - prefill.quick);
        }
        until.push((to, all));
    }
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

/// A line that a few strange points do not move: the median of slopes between points far apart in the list (Theil–Sen, thinned).
#[derive(Clone, Copy, Debug)]
pub(super) struct Line {
    pub(super) intercept: f64,
    pub(super) slope: f64,
}

impl Line {
    pub(super) fn of(points: &[(f64, f64)]) -> Self {
        let n = points.len();
        let mut slopes = Vec::new();
        for offset in [n / 2, n / 3, n / 5, 1] {
            for (a, b) in points.iter().zip(points.iter().skip(offset.max(1))) {
                if (b.0 - a.0).abs() > 0.0 {
                    slopes.push((b.1 - a.1) / (b.0 - a.0));
                }
            }
        }
        let slope = median(slopes).filter(|s| *s > 0.0).unwrap_or(0.0);
        let rest = points.iter().map(|p| p.1 - slope * p.0).collect();
        Self {
            intercept: median(rest).unwrap_or(0.0),
            slope,
        }
    }

    pub(super) fn at(self, x: f64) -> f64 {
        self.intercept + self.slope * x
    }
}

/// Squares of values around their mean, in all.
pub(super) fn squares(values: impl Iterator<Item = f64> + Clone) -> f64 {
    let level = mean(values.clone()).unwrap_or(0.0);
    values.map(|value| (value - level).powi(2)).sum()
}

pub(super) fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (n, sum) = values.fold((0_u64, 0.0), |(n, sum), value| (n + 1, sum + value));
    (n > 0).then(|| sum / n as f64)
}

pub(crate) fn median(values: Vec<f64>) -> Option<f64> {
    quantile(values, 0.5)
}

/// An order statistic near a quantile.
pub(crate) fn quantile(mut values: Vec<f64>, q: f64) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let last = values.len().checked_sub(1)?;
    let wanted = q * last as f64;
    let index = (0..=last).find(|i| *i as f64 + 0.5 > wanted)?;
    values.get(index).copied()
}

/// How many of some spans hold an instant.
#[derive(Clone, Debug)]
pub(super) struct UnderWay {
    begins: Vec<f64>,
    ends: Vec<f64>,
    /// Of those before each.
    sums: [Vec<f64>; 2],
}

impl UnderWay {
    pub(super) fn of(spans: impl Iterator<Item = (f64, f64)>) -> Self {
        let (mut begins, mut ends): (Vec<f64>, Vec<f64>) = spans.unzip();
        begins.sort_by(f64::total_cmp);
        ends.sort_by(f64::total_cmp);
        let sums = [&begins, &ends].map(|times| {
            let mut sum = 0.0;
            let until = times.iter().map(|time| {
                sum += time;
                sum
            });
            std::iter::once(0.0).chain(until).collect()
        });
        Self { begins, ends, sums }
    }

    pub(super) fn at(&self, at: f64) -> usize {
        let before = |times: &[f64]| times.partition_point(|time| *time <= at);
        before(&self.begins).saturating_sub(before(&self.ends))
    }

    /// How many on average over a stretch.
    pub(super) fn mean(&self, from: f64, to: f64) -> f64 {
        let since = |times: &[f64], sums: &[f64], at: f64| {
            let n = times.partition_point(|time| *time <= at);
            n as f64 * at - sums[n]
        };
        let [begun, ended] = &self.sums;
        let until = |at: f64| since(&self.begins, begun, at) - since(&self.ends, ended, at);
        (until(to) - until(from)) / (to - from)
    }

    /// How many on average over eight instants of a stretch that one of them holds.
    pub(super) fn during(&self, from: f64, to: f64) -> f64 {
        const INSTANTS: u32 = 8;
        let at = |i: u32| from + (to - from) * (f64::from(i) + 0.5) / f64::from(INSTANTS);
        let sum: usize = (0..INSTANTS).map(|i| self.at(at(i)).max(1)).sum();
        sum as f64 / f64::from(INSTANTS)
    }
}

/// The union of spans of time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cover {
    /// Apart from each other and in order: from, to, and the length of all before.
    pieces: Vec<(f64, f64, f64)>,
}

impl Cover {
    pub(super) fn of(spans: impl IntoIterator<Item = (f64, f64)>) -> Self {
        let mut sorted: Vec<(f64, f64)> = spans.into_iter().collect();
        sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut pieces: Vec<(f64, f64, f64)> = Vec::new();
        for (from, to) in sorted {
            match pieces.last_mut() {
                Some(last) if from <= last.1 => last.1 = last.1.max(to),
                last => {
                    let before = last.map_or(0.0, |l| l.2 + l.1 - l.0);
                    pieces.push((from, to.max(from), before));
                }
            }
        }
        Self { pieces }
    }

    /// Its length up to an instant.
    fn until(&self, at: f64) -> f64 {
        let begun = self.pieces.partition_point(|piece| piece.0 <= at);
        let last = begun.checked_sub(1).and_then(|i| self.pieces.get(i));
        last.map_or(0.0, |(from, to, before)| before + at.min(*to) - from)
    }

    /// Its length within a stretch of time.
    pub(crate) fn within(&self, from: f64, to: f64) -> f64 {
        (self.until(to) - self.until(from)).max(0.0)
    }
}

#[cfg(test)]
#[path = "../../tests/unit/diagnosis_look.rs"]
mod tests;
