//! What a run says beside what the ledger says, each with its limit.

use std::collections::BTreeMap;

use bench_schema::{CellRecord, Metric, Phase};
use serde_json::Value;

use crate::programs::{Known, Ran};
use crate::truth::{Check, Matched, Pair, Sample};

/// The kernel stamps by the real-time clock; turning that into the monotonic one is right to some microseconds.
const CLOCKS_NS: f64 = 100_000.0;

impl Check {
    fn exact(name: &'static str, said: usize, so: usize) -> Self {
        Self {
            name,
            said: said as f64,
            so: so as f64,
            limit: 0.0,
            timing: false,
        }
    }

    /// Something that must not be more than it should.
    fn at_most(name: &'static str, said: f64, most: f64) -> Self {
        Self {
            name,
            said,
            so: most,
            limit: if said <= most { f64::INFINITY } else { 0.0 },
            timing: false,
        }
    }

    /// What a busy machine may break.
    fn timed(name: &'static str, said: Option<f64>, so: Option<f64>, limit: f64) -> Self {
        Self {
            name,
            said: said.unwrap_or(f64::NAN),
            so: so.unwrap_or(f64::NAN),
            limit,
            timing: true,
        }
    }
}

/// What the limits depend on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Expected {
    /// Requests that each cell plans, all repeats together.
    pub(super) planned: usize,
    /// Cells, where each level is one.
    pub(super) cells: Option<usize>,
    /// Slots of a closed loop.
    pub(super) slots: Option<usize>,
    /// Rate of an open loop, 1/s.
    pub(super) rate: Option<f64>,
    /// Most connections: one for each stream where not told.
    pub(super) connections: Option<usize>,
    /// Whether arrivals carry the kernel's stamps.
    pub(super) kernel_stamps: bool,
    /// Workers, and servers that they take in turns.
    pub(super) turns: (usize, usize),
    /// Requests that the servers close the connection on.
    pub(super) dropped: Dropped,
}

/// What servers do to requests that they have read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dropped {
    /// They answer.
    None,
    /// They close at once: the connection may have been closed before, so the request is asked again.
    AtOnce,
    /// They hold the request first: it was taken, and has failed.
    Held,
}

/// All checks of a run; `vllm` is each cell in that tool's words.
pub(super) fn of_run(
    ran: &Ran,
    (matched, known): (&Matched<'_>, &Known),
    vllm: &[(String, Value)],
    expected: Expected,
) -> Vec<Check> {
    let mut checks = counts(ran, matched, known, expected);
    checks.extend(causality(matched));
    checks.extend(turns(matched, expected.turns));
    for cell in &ran.run.cells {
        let pairs: Vec<&Pair<'_>> = matched.of_cell(&cell.id).collect();
        if expected.dropped == Dropped::None {
            checks.extend(times(cell, &pairs, matched, expected));
        }
        let theirs = vllm.iter().find(|(name, _)| *name == cell.id);
        if let Some((_, theirs)) = theirs {
            checks.extend(vllm_export(ran, cell, &pairs, theirs));
        }
    }
    checks.extend(lateness(ran, expected));
    checks
}

/// Counts, which no load can break.
fn counts(ran: &Ran, matched: &Matched<'_>, known: &Known, expected: Expected) -> Vec<Check> {
    let differs = |pair: &&Pair<'_>| {
        let completed = pair.record.wire.outcome.is_completed();
        completed && pair.record.output_tokens != Some(pair.entry.completion_tokens)
    };
    let differing = matched.pairs.iter().filter(differs).count();
    let mut checks = vec![
        Check::exact("records no server knows", matched.unknown, 0),
        Check::exact("answers no record has", matched.unrecorded, 0),
        Check::exact("answers whose tokens differ", differing, 0),
    ];
    let cells = expected.cells;
    checks.extend(cells.map(|cells| Check::exact("cells", ran.run.cells.len(), cells)));
    let number = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
    let mut failed = 0;
    for cell in &ran.run.cells {
        let measured = |record: &&bench_schema::RequestRecord| {
            record.cell == cell.id && record.phase == Phase::Measure
        };
        let measured = ran.records.iter().filter(measured).count();
        let counts = &cell.counts;
        let lost = match expected.dropped {
            Dropped::None => 0,
            Dropped::AtOnce | Dropped::Held => number(counts.failed),
        };
        failed += lost;
        checks.extend([
            Check::exact("records", measured, expected.planned),
            Check::exact("planned", number(counts.planned), expected.planned),
            Check::exact(
                "completed",
                number(counts.completed),
                expected.planned - lost,
            ),
            Check::exact(
                "counts that do not add up",
                usize::from(!counts.add_up()),
                0,
            ),
        ]);
    }
    if expected.dropped != Dropped::None {
        checks.extend(dropped(ran, matched, known, (failed, expected.dropped)));
    }
    let streams = expected.connections.unwrap_or_else(|| matched.streams());
    // A connection that the server closed is made good by another.
    let most = streams
        + known
            .entries
            .iter()
            .filter(|(_, entry)| entry.fault.is_some())
            .count();
    checks.push(Check::at_most(
        "connections",
        matched.connections() as f64,
        most as f64,
    ));
    checks.push(Check::exact("connections nobody used", known.unused, 0));
    checks
}

/// Requests that the server read and closed upon: each has failed or was asked again, and that is timed from the first time it was sent.
fn dropped(
    ran: &Ran,
    matched: &Matched<'_>,
    known: &Known,
    (failed, how): (usize, Dropped),
) -> Vec<Check> {
    let entries = || known.entries.iter().map(|(_, entry)| entry);
    let struck = entries().filter(|entry| entry.fault.is_some()).count();
    let again: u32 = ran
        .records
        .iter()
        .map(|record| record.wire.connection.replaced)
        .sum();
    let again = usize::try_from(again).unwrap_or(usize::MAX);
    let late = |pair: &&Pair<'_>| {
        let first = entries().filter(|entry| entry.id == pair.entry.id);
        let first = first.map(|entry| entry.head_ns).min().unwrap_or(u64::MAX);
        let sent = pair.record.wire.sent.map(|sent| matched.monotonic(sent));
        sent.is_some_and(|sent| sent > first as f64 + CLOCKS_NS)
    };
    let late = matched.pairs.iter().filter(late).count();
    let failures = if how == Dropped::Held {
        struck
    } else {
        struck - again.min(struck)
    };
    vec![
        Check::at_most("fewest requests that servers drop", 1.0, struck as f64),
        Check::exact("dropped requests that failed", failed, failures),
        Check::exact("requests timed from a later sending", late, 0),
    ]
}

/// No event may be seen before it was written, whatever the machine does meanwhile.
fn causality(matched: &Matched<'_>) -> Vec<Check> {
    let (mut early, mut missing) = (0, 0);
    for pair in &matched.pairs {
        let events = &pair.record.wire.events;
        missing += usize::from(events.len() != pair.entry.before_ns.len());
        let before = events
            .stamps()
            .zip(&pair.entry.before_ns)
            .filter(|(seen, written)| matched.monotonic(*seen) + CLOCKS_NS < **written as f64);
        early += before.count();
    }
    vec![
        Check::exact("events seen before they were written", early, 0),
        Check::exact("answers whose events differ in number", missing, 0),
    ]
}

/// Every worker asks the servers in turns, each worker beginning with another one: else all would be at one server at a time.
fn turns(matched: &Matched<'_>, (workers, servers): (usize, usize)) -> Vec<Check> {
    let mut first = BTreeMap::<u32, (i64, usize)>::new();
    let mut all = vec![0_usize; servers];
    for pair in &matched.pairs {
        let at = pair.record.dispatched.unwrap_or(pair.record.due).get();
        let worker = pair.record.worker.unwrap_or_default();
        let earliest = first.entry(worker).or_insert((at, pair.server));
        *earliest = (*earliest).min((at, pair.server));
        all[pair.server] += 1;
    }
    let mut begun = vec![0_usize; servers];
    for (_, server) in first.values() {
        begun[*server] += 1;
    }
    let most = |counts: &[usize]| counts.iter().max().copied().unwrap_or(0);
    let even = matched.pairs.len() as f64 / servers as f64;
    vec![
        Check::exact(
            "workers that begin with one URL",
            most(&begun),
            first.len().div_ceil(servers),
        ),
        Check::at_most(
            "requests at one URL",
            most(&all) as f64,
            even + workers as f64,
        ),
    ]
}

/// Latencies and rates against the ledger's.
fn times(
    cell: &CellRecord,
    pairs: &[&Pair<'_>],
    matched: &Matched<'_>,
    expected: Expected,
) -> Vec<Check> {
    let so = matched.figures(cell);
    // By the read's return a late wake-up is part of what is seen.
    let (gap_50, gap_99) = if expected.kernel_stamps {
        (0.02, 0.1)
    } else {
        (0.3, 3.0)
    };
    let rows = [
        ("TTFT p50", Metric::Ttft, &so.ttft, 0.5, 0.5),
        ("TTFT p99", Metric::Ttft, &so.ttft, 0.99, 1.0),
        ("ITL p50", Metric::Itl, &so.itl, 0.5, gap_50),
        ("ITL p99", Metric::Itl, &so.itl, 0.99, gap_99),
        ("E2E p50", Metric::E2e, &so.e2e, 0.5, 1.0),
        ("E2E p99", Metric::E2e, &so.e2e, 0.99, 2.0),
    ];
    let row = |(name, metric, sample, q, limit): (_, _, &Sample, _, _)| {
        let said = cell.headline(metric).and_then(|found| found.quantile(q));
        Check::timed(name, said.map(ms), sample.quantile(q).map(ms), limit)
    };
    let mut checks: Vec<Check> = rows.into_iter().map(row).collect();
    if let Some(slots) = expected.slots {
        let said = cell.headline_rates().and_then(|rates| rates.requests_per_s);
        let so = so.rate_of(slots as f64);
        checks.push(Check::timed(
            "requests/s",
            said,
            so,
            so.unwrap_or(0.0) * 0.03,
        ));
    }
    if let Some(rate) = expected.rate {
        let (said, so) = (cell.plan.offered_rate_per_s, arrivals_per_s(pairs));
        checks.push(Check::timed("offered/s", said, Some(so), so * 0.01));
        let asked = Check::timed(
            "offered/s as asked",
            cell.plan.requested_rate_per_s,
            Some(rate),
            0.0,
        );
        checks.push(Check {
            timing: false,
            ..asked
        });
    }
    checks
}

/// Requests a second that reached the servers: gaps between arrivals, repeat by repeat.
fn arrivals_per_s(pairs: &[&Pair<'_>]) -> f64 {
    let mut repeats: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
    for pair in pairs {
        let heads = repeats.entry(pair.record.repeat).or_default();
        heads.push(pair.entry.head_ns);
    }
    let (mut gaps, mut seconds) = (0, 0.0);
    for heads in repeats.values() {
        let span = heads.iter().max().zip(heads.iter().min());
        seconds += span.map_or(0.0, |(last, first)| (last - first) as f64 / 1e9);
        gaps += heads.len() - 1;
    }
    gaps as f64 / seconds
}

/// A cell in vLLM's words: its counts, its time without what lies between repeats, its TTFT.
fn vllm_export(ran: &Ran, cell: &CellRecord, pairs: &[&Pair<'_>], theirs: &Value) -> Vec<Check> {
    let said = |key: &str| theirs.get(key).and_then(Value::as_f64);
    // That tool counts from before it asks for a connection: a new one, handshake included, is part of its TTFT.
    let begun = |pair: &Pair<'_>| {
        let is_new = pair.entry.reused == 0 && !pair.record.wire.connection.beforehand;
        let new = pair.entry.accepted_ns.filter(|_| is_new);
        new.unwrap_or(pair.entry.head_ns)
    };
    let first = |pair: &&Pair<'_>| Some((pair.entry.after_ns.first()? - begun(pair)) as f64);
    let ttft: Sample = pairs.iter().filter_map(first).collect();
    let tokens: u64 = pairs.iter().map(|pair| pair.entry.completion_tokens).sum();
    let mut spans = BTreeMap::<u32, (i64, i64)>::new();
    for record in &ran.records {
        if record.cell == cell.id && record.phase == Phase::Measure {
            let from = record.dispatched.unwrap_or(record.due).get();
            let (first, last) = spans.entry(record.repeat).or_insert((from, from));
            (*first, *last) = ((*first).min(from), (*last).max(record.last_instant().get()));
        }
    }
    let seconds: i64 = spans.values().map(|(first, last)| last - first).sum();
    let (seconds, tokens) = (seconds as f64 / 1e9, tokens as f64);
    let exact = |name, key, so| Check {
        timing: false,
        ..Check::timed(name, said(key), Some(so), 0.0)
    };
    vec![
        exact("vLLM completed", "completed", pairs.len() as f64),
        exact("vLLM output tokens", "total_output_tokens", tokens),
        Check::at_most(
            "vLLM duration",
            said("duration").unwrap_or(f64::NAN),
            seconds + 1e-6,
        ),
        Check::timed(
            "vLLM TTFT p99",
            said("p99_ttft_ms"),
            ttft.quantile(0.99).map(ms),
            1.0,
        ),
    ]
}

/// Lateness of the last cell against that of the first, ms, where load is open.
fn lateness(ran: &Ran, expected: Expected) -> Vec<Check> {
    /// What is allowed at 200 requests/s, ms.
    const ALLOWED: [(&str, f64, f64); 2] =
        [("lateness p50", 0.5, 0.040), ("lateness p99", 0.99, 0.250)];
    if expected.rate.is_none() {
        return Vec::new();
    }
    let mut repeats: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for record in &ran.records {
        if let (Phase::Measure, Some(late)) = (record.phase, record.lateness()) {
            let late = ms(late.get() as f64);
            repeats.entry(record.repeat).or_default().push(late);
        }
    }
    let samples: Vec<Sample> = repeats
        .into_values()
        .map(|late| late.into_iter().collect())
        .collect();
    let Some((first, last)) = samples.first().zip(samples.last()) else {
        return Vec::new();
    };
    let check = |(name, q, allowed): (_, f64, f64)| {
        let (said, so) = (last.quantile(q)?, first.quantile(q)?);
        let most = if samples.len() > 1 {
            (so * 1.2).max(allowed)
        } else {
            allowed
        };
        let limit = if said <= most { (said - so).abs() } else { 0.0 };
        Some(Check::timed(name, Some(said), Some(so), limit))
    };
    ALLOWED.into_iter().filter_map(check).collect()
}

fn ms(ns: f64) -> f64 {
    ns / 1e6
}
