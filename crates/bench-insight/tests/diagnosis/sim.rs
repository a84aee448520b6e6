//! A server that is simulated step by step, with known faults: what the diagnosis should name is known because it was put in.

use std::collections::VecDeque;

use bench_insight::{CellSamples, analyse_run};
use bench_metrics::{CellContext, summarise_cell};
use bench_schema::{
    ArrivalKind, CellRecord, Channel, ConnectionFacts, Event, EventLog, Exchange, Factor,
    FailureKind, HardwareSummary, Load, Nanos, Outcome, Phase, Quantity, RequestRecord, RunRecord,
    Stage, Stamp, TokenSource, Unit, Usage,
};

/// Milliseconds.
pub(crate) type Ms = f64;

/// What is put in.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fault of its own")]
pub(crate) struct Server {
    /// Requests that run at once.
    pub(crate) slots: usize,
    /// From … on it has so many more.
    pub(crate) joins: Option<(Ms, usize)>,
    /// From … on it takes up requests as if it had so many fewer.
    pub(crate) leaves: Option<(Ms, usize)>,
    /// Requests are taken up at multiples of this only.
    pub(crate) admits: Option<Ms>,
    /// A step of decoding, and what each running request adds to it.
    pub(crate) step: Ms,
    pub(crate) step_each: Ms,
    /// Prefill of a prompt, fixed and for each token.
    pub(crate) prefill: Ms,
    pub(crate) prefill_token: Ms,
    /// Whether a prompt's prefill holds everybody up.
    pub(crate) blocking: bool,
    /// Prompt tokens that a step takes up beside the tokens of all, and what each thousand before them adds to the time of one, as a part of it.
    pub(crate) chunks: Option<(u64, f64)>,
    /// Whether another machine processes prompts and sends the first token, after which a request waits for its place.
    pub(crate) apart: bool,
    /// Whether prompts are processed one after the other, though the server counts all of them as running.
    pub(crate) serial: bool,
    /// Whether answers are not streamed.
    pub(crate) at_once: bool,
    /// Nothing moves from … for ….
    pub(crate) freezes: Vec<(Ms, Ms)>,
    /// Whether only the second of two endpoints stands still then.
    pub(crate) freezes_second: bool,
    /// Factor on every time, by time.
    pub(crate) pace: fn(Ms) -> f64,
    /// Factor on the times of the second of two endpoints.
    pub(crate) second: Option<f64>,
    /// From when on.
    pub(crate) second_from: Ms,
    /// Whether both are behind one address.
    pub(crate) one_address: bool,
    /// Requests a second beyond which 429 is answered.
    pub(crate) limit: Option<f64>,
    /// Nobody listens from … to ….
    pub(crate) away: Option<(Ms, Ms)>,
    /// So many at once, waiting and running, beyond which 503 is answered.
    pub(crate) full: Option<usize>,
    /// Every so many requests fail with 500.
    pub(crate) fails: Option<usize>,
    /// Whether a request's beginning is known, by its number.
    pub(crate) cache: Option<fn(usize) -> bool>,
    /// Tokens of each answer that are told as reasoning and not sent.
    pub(crate) hides: u64,
    /// Whether answers are held back until they are whole.
    pub(crate) buffers: bool,
    /// Tokens are passed on at multiples of this only.
    pub(crate) flushes: Option<Ms>,
    /// Every so many requests are thrown out for a while in the middle of their answers.
    pub(crate) evicts: Option<usize>,
    /// For how long.
    pub(crate) evicted_for: Ms,
    /// After this time the client gives a request up.
    pub(crate) patience: Option<Ms>,
}

impl Default for Server {
    fn default() -> Self {
        Self {
            slots: 64,
            joins: None,
            leaves: None,
            admits: None,
            step: 10.0,
            step_each: 0.0,
            prefill: 20.0,
            prefill_token: 0.05,
            blocking: false,
            chunks: None,
            apart: false,
            serial: false,
            at_once: false,
            freezes: Vec::new(),
            freezes_second: false,
            pace: |_| 1.0,
            second: None,
            second_from: 0.0,
            one_address: false,
            limit: None,
            away: None,
            full: None,
            fails: None,
            cache: None,
            hides: 0,
            buffers: false,
            flushes: None,
            evicts: None,
            evicted_for: 300.0,
            patience: None,
        }
    }
}

/// How requests come.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Asks {
    /// So many at once.
    Closed(usize),
    /// So many a second, by chance.
    Poisson(f64),
    /// So many a second, evenly.
    Even(f64),
    /// Groups of so many, so many requests a second.
    Bursts(usize, f64),
}

/// Prompt and answer tokens of a request by its number and a draw.
pub(crate) type Lengths = fn(usize, &mut Draw) -> (u64, u64);

/// One cell.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    pub(crate) asks: Asks,
    pub(crate) lengths: Lengths,
    pub(crate) seconds: f64,
    /// Of which so many at first are a warm-up.
    pub(crate) warmup: f64,
    pub(crate) server: Server,
}

/// Numbers that look random and are the same every time.
pub(crate) struct Draw(u64);

impl Draw {
    pub(crate) fn new(seed: u64) -> Self {
        let mut draw = Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        (0..20).for_each(|_| {
            draw.uniform();
        });
        draw
    }

    pub(crate) fn uniform(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a small positive number"
    )]
    pub(crate) fn whole(&mut self, low: f64, high: f64) -> u64 {
        self.between(low, high) as u64
    }

    pub(crate) fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.uniform()
    }
}

struct Request {
    due: Ms,
    input: u64,
    output: u64,
    endpoint: usize,
    cached: bool,
    events: Vec<Ms>,
    ready: Ms,
    /// Tokens of the prompt that are still to be processed in steps.
    left: u64,
    started: bool,
    evicted: bool,
}

/// What came out of one cell.
struct Ran {
    records: Vec<RequestRecord>,
    waiting: f64,
    running: f64,
}

#[expect(clippy::too_many_lines, reason = "one step of a server after another")]
fn run_cell(cell: &Cell, seed: u64) -> Ran {
    let mut draw = Draw::new(seed);
    let end = cell.seconds * 1e3;
    let mut arrivals: VecDeque<Ms> = arrivals(cell, &mut draw, end).into();
    let replicas = if cell.server.second.is_some() { 2 } else { 1 };
    let mut queues: Vec<VecDeque<Request>> = (0..replicas).map(|_| VecDeque::new()).collect();
    let mut running: Vec<Vec<Request>> = (0..replicas).map(|_| Vec::new()).collect();
    let mut clocks = vec![0.0_f64; replicas];
    let mut prefilled = vec![0.0_f64; replicas];
    let mut admitted = vec![-1.0_f64; replicas];
    let mut ran = Ran {
        records: Vec::new(),
        waiting: 0.0,
        running: 0.0,
    };
    let (mut number, mut bucket, mut bucket_at) = (0, 5.0, 0.0);
    let closed = matches!(cell.asks, Asks::Closed(_));
    let mut busy = 0.0;
    loop {
        // The replica that is furthest behind moves next.
        let replica = usize::from(clocks[0] > clocks[replicas - 1]);
        let mut now = clocks[replica];
        let freezes: &[(Ms, Ms)] = if replica == 0 && cell.server.freezes_second {
            &[]
        } else {
            &cell.server.freezes
        };
        for (from, length) in freezes {
            if now >= *from && now < from + length {
                now = from + length;
            }
        }
        while arrivals.front().is_some_and(|due| *due <= now) {
            let due = arrivals.pop_front().unwrap();
            let (input, output) = (cell.lengths)(number, &mut draw);
            let request = Request {
                due,
                input,
                output,
                endpoint: number % replicas,
                cached: cell.server.cache.is_some_and(|known| known(number)),
                events: Vec::new(),
                ready: 0.0,
                left: 0,
                started: false,
                evicted: cell.server.evicts.is_some_and(|every| number % every == 0),
            };
            number += 1;
            bucket = f64::min(
                5.0,
                bucket + (due - bucket_at) / 1e3 * cell.server.limit.unwrap_or(0.0),
            );
            bucket_at = due;
            let refusal = if cell
                .server
                .away
                .is_some_and(|(from, to)| due >= from && due < to)
            {
                Some((Stage::Connect, FailureKind::Refused, None))
            } else if cell.server.limit.is_some() && bucket < 1.0 {
                Some((Stage::Headers, FailureKind::Status, Some(429)))
            } else if cell.server.full.is_some_and(|most| {
                queues[request.endpoint].len() + running[request.endpoint].len() >= most
            }) {
                Some((Stage::Headers, FailureKind::Status, Some(503)))
            } else if cell.server.fails.is_some_and(|every| number % every == 0) {
                Some((Stage::Headers, FailureKind::Status, Some(500)))
            } else {
                None
            };
            if let Some((stage, kind, status)) = refusal {
                ran.records
                    .push(lost(number, &request, stage, kind, status));
                if closed && due + 100.0 < end {
                    insert(&mut arrivals, due + 100.0);
                }
            } else {
                bucket -= 1.0;
                let mut request = request;
                if cell.server.apart {
                    request.ready =
                        due + cell.server.prefill + cell.server.prefill_token * input as f64;
                    request.started = true;
                    request.events.push(request.ready);
                }
                queues[request.endpoint].push_back(request);
            }
        }
        if let Some(patience) = cell.server.patience {
            let stays = |r: &Request| now - r.due <= patience;
            let waiting = std::mem::take(&mut queues[replica]).into_iter();
            let (kept, left): (Vec<_>, Vec<_>) = waiting.partition(stays);
            queues[replica] = kept.into();
            let run = std::mem::take(&mut running[replica]).into_iter();
            let (kept, cut): (Vec<_>, Vec<_>) = run.partition(stays);
            running[replica] = kept;
            for request in left.into_iter().chain(cut) {
                let at = request.due + patience;
                if closed && at < end {
                    insert(&mut arrivals, at);
                }
                ran.records.push(given_up_at(number, &request, at));
            }
        }
        let idle = queues.iter().all(VecDeque::is_empty) && running.iter().all(Vec::is_empty);
        if idle && arrivals.is_empty() {
            break;
        }
        let factor = (cell.server.pace)(now)
            * if replica == 1 && now >= cell.server.second_from {
                cell.server.second.unwrap_or(1.0)
            } else {
                1.0
            };
        let mut step = 0.0;
        let moved =
            |at: Option<(Ms, usize)>| at.filter(|(from, _)| now >= *from).map_or(0, |(_, n)| n);
        let slots = cell.server.slots + moved(cell.server.joins) - moved(cell.server.leaves);
        let window = cell
            .server
            .admits
            .map_or(now, |every| (now / every).floor());
        let is_open = cell.server.admits.is_none() || window > admitted[replica];
        admitted[replica] = window;
        while is_open && running[replica].len() < slots && !queues[replica].is_empty() {
            let mut request = queues[replica].pop_front().unwrap();
            let tokens = if request.cached {
                request.input / 10
            } else {
                request.input
            };
            let prefill =
                (cell.server.prefill + cell.server.prefill_token * tokens as f64) * factor;
            if cell.server.apart {
                request.ready = request.ready.max(now);
            } else if cell.server.chunks.is_some() {
                request.left = tokens;
                request.ready = f64::INFINITY;
            } else if cell.server.blocking {
                step += prefill;
                request.ready = now;
            } else if cell.server.serial {
                request.ready = now.max(prefilled[replica]) + prefill;
                prefilled[replica] = request.ready;
            } else {
                request.ready = now + prefill;
            }
            running[replica].push(request);
        }
        if let Some((chunk, grows)) = cell.server.chunks {
            let mut room = chunk;
            for request in running[replica].iter_mut().filter(|r| r.left > 0) {
                let part = request.left.min(room);
                let before = (request.input - request.left) as f64 / 1e3;
                step += cell.server.prefill_token * part as f64 * (1.0 + grows * before) * factor;
                room -= part;
                request.left -= part;
                if request.left == 0 {
                    request.ready = now;
                }
            }
        }
        let active = running[replica].iter().filter(|r| r.ready <= now).count();
        step += if active == 0 && step <= 0.0 {
            1.0
        } else {
            (cell.server.step + cell.server.step_each * active as f64)
                * factor
                * draw.between(0.97, 1.03)
        };
        let mut then = now + step;
        for (from, length) in freezes {
            if now < *from && then > *from {
                then += length;
            }
        }
        if now < end {
            ran.waiting += queues[replica].len() as f64 * (then - now);
            ran.running += running[replica].len() as f64 * (then - now);
            busy = f64::max(busy, then);
        }
        let mut kept = Vec::new();
        for mut request in running[replica].drain(..) {
            if request.ready <= now {
                let at = if request.started || cell.server.blocking || cell.server.chunks.is_some()
                {
                    then
                } else {
                    then.max(request.ready)
                };
                request.started = true;
                request.events.push(at);
                if request.evicted && request.events.len() == 20 {
                    request.ready = at + cell.server.evicted_for;
                }
            }
            let gone = cell
                .server
                .away
                .is_some_and(|(from, to)| then >= from && then < to);
            if gone || request.events.len() as u64 == request.output {
                let done = request.events.last().copied().unwrap_or(then);
                if closed && done < end {
                    insert(&mut arrivals, done);
                }
                number += usize::from(gone);
                ran.records.push(if gone {
                    lost(
                        number,
                        &request,
                        Stage::Stream,
                        FailureKind::Reset,
                        Some(200),
                    )
                } else {
                    completed(ran.records.len(), &request)
                });
            } else {
                kept.push(request);
            }
        }
        running[replica] = kept;
        clocks[replica] = then;
    }
    ran.waiting /= busy;
    ran.running /= busy;
    ran.records.sort_by_key(|record| record.due);
    for (id, record) in ran.records.iter_mut().enumerate() {
        record.id = id as u64;
        if cell.server.one_address {
            record.wire.connection = ConnectionFacts::default();
        }
    }
    ran
}

fn insert(arrivals: &mut VecDeque<Ms>, at: Ms) {
    let place = arrivals.partition_point(|due| *due <= at);
    arrivals.insert(place, at);
}

fn arrivals(cell: &Cell, draw: &mut Draw, end: Ms) -> Vec<Ms> {
    let mut due = Vec::new();
    let mut at = 0.0;
    match cell.asks {
        Asks::Closed(n) => due = (0..n).map(|i| i as f64 * 0.01).collect(),
        Asks::Poisson(rate) => {
            while at < end {
                due.push(at);
                at -= draw.uniform().max(1e-12).ln() / rate * 1e3;
            }
        }
        Asks::Even(rate) => {
            while at < end {
                due.push(at);
                at += 1e3 / rate;
            }
        }
        Asks::Bursts(size, rate) => {
            while at < end {
                due.extend((0..size).map(|_| at));
                at += size as f64 * 1e3 / rate;
            }
        }
    }
    due
}

pub(crate) fn stamp(ms: Ms) -> Stamp {
    Stamp::EPOCH + Nanos::from_secs_f64(1.0 + ms / 1e3)
}

fn blank(id: usize, request: &Request, outcome: Outcome) -> RequestRecord {
    let mut wire = Exchange::nothing(outcome);
    wire.connection = ConnectionFacts {
        endpoint: u32::try_from(request.endpoint).unwrap(),
        ..ConnectionFacts::default()
    };
    RequestRecord {
        due: stamp(request.due),
        dispatched: Some(stamp(request.due)),
        asked_output_tokens: Some(request.output),
        token_source: TokenSource::Usage,
        ..RequestRecord::bare(id as u64, "c", wire)
    }
}

fn completed(id: usize, request: &Request) -> RequestRecord {
    let mut record = blank(id, request, Outcome::Completed);
    record.output_tokens = Some(request.output);
    let wire = &mut record.wire;
    wire.sent = Some(stamp(request.due));
    wire.status = Some(200);
    let log = events_at(request.events.iter().map(|at| stamp(*at)));
    wire.closed = log.last();
    wire.events = log;
    wire.usage = Some(Usage {
        prompt_tokens: Some(request.input),
        completion_tokens: Some(request.output),
        cached_tokens: Some(if request.cached {
            request.input * 9 / 10
        } else {
            0
        }),
        reasoning_tokens: None,
    });
    record
}

fn given_up_at(id: usize, request: &Request, end: Ms) -> RequestRecord {
    let stage = if request.events.is_empty() {
        Stage::FirstToken
    } else {
        Stage::Stream
    };
    let mut record = blank(id, request, Outcome::TimedOut { stage });
    record.wire.sent = Some(stamp(request.due));
    record.wire.status = Some(200);
    record.wire.closed = Some(stamp(end));
    record
}

fn lost(
    id: usize,
    request: &Request,
    stage: Stage,
    failure: FailureKind,
    status: Option<u16>,
) -> RequestRecord {
    let outcome = Outcome::Failed {
        stage,
        failure,
        message: String::new(),
    };
    let mut record = blank(id, request, outcome);
    if stage != Stage::Connect {
        record.wire.sent = Some(stamp(request.due));
    }
    record.wire.status = status;
    record.wire.closed = Some(stamp(request.due + 1.0));
    record
}

/// A run of these cells, and its single requests.
pub(crate) fn run(cells: &[Cell], metrics: bool, seed: u64) -> (RunRecord, Vec<CellSamples>) {
    scaled_run(cells, metrics, seed, 1)
}

/// The same with every time multiplied.
pub(crate) fn scaled_run(
    cells: &[Cell],
    metrics: bool,
    seed: u64,
    scale: i64,
) -> (RunRecord, Vec<CellSamples>) {
    let mut run = template();
    let mut samples = Vec::new();
    for (i, cell) in cells.iter().enumerate() {
        let mut ran = run_cell(cell, seed + i as u64);
        let id = name(cell.asks, cells.len(), i);
        for record in &mut ran.records {
            record.cell.clone_from(&id);
            if record.due < stamp(1e3 * cell.warmup) {
                record.phase = Phase::Warmup;
            }
            stretch(record, scale);
            if cell.server.hides > 0 {
                hide(record, cell.server.hides);
            }
            if let Some(every) = cell.server.flushes {
                let kept =
                    |at: Stamp| stamp(((at - stamp(0.0)).as_millis_f64() / every).ceil() * every);
                record.wire.events = events_at(record.wire.events.stamps().map(kept));
                record.wire.closed = record.wire.events.last().or(record.wire.closed);
            }
            if cell.server.at_once || cell.server.buffers {
                come_whole(record, cell.server.buffers);
            }
        }
        let mut made = cell_record(cell, &id, &ran.records, scale);
        if metrics {
            made.hardware = Some(hardware(&ran));
        }
        samples.push(CellSamples::of(&id, &ran.records));
        run.cells.push(made);
    }
    run.analysis = analyse_run(&run, &samples);
    (run, samples)
}

/// A log of events at these instants, each read as it came.
pub(crate) fn events_at(stamps: impl Iterator<Item = Stamp>) -> EventLog {
    let mut log = EventLog::default();
    for at in stamps {
        log.push(Event {
            at,
            lag: Some(Nanos::ZERO),
            bound: Nanos::ZERO,
            tokens: None,
            channel: Channel::Answer,
        });
    }
    log
}

/// The first events are not sent.
fn hide(record: &mut RequestRecord, tokens: u64) {
    let wire = &mut record.wire;
    let kept = wire.events.stamps().skip(usize::try_from(tokens).unwrap());
    wire.events = events_at(kept);
    if let Some(usage) = &mut wire.usage {
        usage.reasoning_tokens = Some(tokens);
    }
}

/// All events with the last: as one, or as they were.
fn come_whole(record: &mut RequestRecord, streamed: bool) {
    let wire = &mut record.wire;
    wire.streamed = streamed;
    let n = if streamed { wire.events.len() } else { 1 };
    wire.events = events_at(wire.events.last().into_iter().cycle().take(n));
}

fn stretch(record: &mut RequestRecord, scale: i64) {
    if scale == 1 {
        return;
    }
    let times = |at: Stamp| Stamp::new(at.get() * scale);
    let wire = &mut record.wire;
    let may_be = [&mut record.dispatched, &mut wire.sent, &mut wire.closed];
    for at in may_be.into_iter().flatten().chain([&mut record.due]) {
        *at = times(*at);
    }
    wire.events = events_at(wire.events.stamps().map(times));
}

fn name(asks: Asks, cells: usize, index: usize) -> String {
    match asks {
        Asks::Closed(n) => format!("c{n}"),
        Asks::Poisson(rate) | Asks::Even(rate) | Asks::Bursts(_, rate) if cells > 1 => {
            format!("r{rate}-{index}")
        }
        _ => "open".to_owned(),
    }
}

fn cell_record(cell: &Cell, id: &str, records: &[RequestRecord], scale: i64) -> CellRecord {
    let scaled = scale as f64;
    let (load, factor, level) = match cell.asks {
        Asks::Closed(n) => (
            Load::closed(u32::try_from(n).unwrap()),
            "concurrency",
            n as f64,
        ),
        Asks::Poisson(rate) => (open(rate / scaled, ArrivalKind::Poisson), "rate", rate),
        Asks::Even(rate) => (open(rate / scaled, ArrivalKind::Constant), "rate", rate),
        Asks::Bursts(size, rate) => {
            let size = u32::try_from(size).unwrap();
            (
                open(rate / scaled, ArrivalKind::Burst { size }),
                "rate",
                rate,
            )
        }
    };
    let mut made = bare(id, records.len());
    made.factors = [(factor.to_owned(), Factor::Number(level))].into();
    made.load = load;
    if made.load.is_open() {
        made.headline = bench_schema::Origin::Due;
        made.plan.requested_rate_per_s = Some(level / scaled);
        made.plan.offered_rate_per_s = Some(level / scaled);
    }
    let context = CellContext::new(made.load.clone());
    summarise_cell(records, context).fill(&mut made);
    made
}

/// A cell of one request at a time that holds nothing yet.
pub(crate) fn bare(id: &str, requests: usize) -> CellRecord {
    let text = format!(
        r#"{{"id": "{id}", "label": "{id}", "factors": {{}}, "load": {{"kind": "closed", "concurrency": 1}}, "stop": {{}}, "repeats": 1,
        "plan": {{"hash": "", "requests": {requests}, "dataset": "sim", "sized_by": "words"}}, "headline": "sent",
        "counts": {{"planned": 0, "completed": 0, "failed": 0, "timed_out": 0, "truncated": 0, "cancelled": 0, "unsent": 0, "warmup": 0}},
        "windows": {{}}, "metrics": {{}}, "analysis": {{}}, "client": {{"workers": 1}}}}"#
    );
    serde_json::from_str(&text).unwrap()
}

fn open(rate_per_s: f64, arrival: ArrivalKind) -> Load {
    Load::Open {
        rate_per_s: Some(rate_per_s),
        arrival,
        in_flight_cap: None,
    }
}

fn hardware(ran: &Ran) -> HardwareSummary {
    let quantity = |value| Quantity {
        value,
        unit: Unit::Count,
        interval: None,
    };
    HardwareSummary {
        derived: [
            ("waiting_mean", ran.waiting),
            ("waiting_peak", ran.waiting),
            ("running_mean", ran.running),
            ("running_peak", ran.running),
        ]
        .into_iter()
        .map(|(name, value)| (name.to_owned(), quantity(value)))
        .collect(),
        ..HardwareSummary::default()
    }
}

pub(crate) fn template() -> RunRecord {
    serde_json::from_str(
        r#"{"schema": {"name": "llm-bench-run", "major": 1, "minor": 2}, "experiment": "throughput", "title": "sim",
        "trust": {"verdict": "trusted", "reasons": []}, "tool": {"name": "t", "version": "0"}, "started_at": "", "duration": 0,
        "complete": true, "seed": 0, "config": null, "clock": {"arrival": "kernel"}, "host": {},
        "server": {"urls": ["http://a", "http://b"], "embedded": false, "api": "openai-chat", "kind": "vllm"}, "cells": [], "findings": []}"#,
    )
    .unwrap()
}
