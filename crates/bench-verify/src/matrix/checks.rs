//! What a run says beside what the ledger says, each with its limit.

use std::collections::BTreeMap;

use bench_schema::{CellRecord, Metric, Origin, Phase};

use crate::engines::Known;
use crate::programs::Ran;
use crate::quantiles::Sample;
use crate::truth::{Matched, Pair};

/// One figure of a run and of the ledger.
#[derive(Debug, Clone)]
pub struct Check {
    /// What is compared.
    pub name: &'static str,
    /// What the run says.
    pub said: f64,
    /// What is so.
    pub so: f64,
    /// Most that the first may differ from the second.
    pub limit: f64,
    /// Whether a busy machine may break it; such checks do not decide in CI.
    pub timing: bool,
}

impl Check {
    /// Whether the run may say so. What is no number never holds.
    pub fn holds(&self) -> bool {
        (self.said - self.so).abs() <= self.limit
    }

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
    fn at_most(name: &'static str, said: f64, most: f64, timing: bool) -> Self {
        Self {
            name,
            said,
            so: most,
            limit: if said <= most { f64::INFINITY } else { 0.0 },
            timing,
        }
    }
}

/// What the limits depend on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Expected {
    /// Requests that each cell plans, all repeats together.
    pub(super) planned: usize,
    /// Slots of a closed loop.
    pub(super) slots: Option<usize>,
    /// Rate of an open loop, 1/s.
    pub(super) rate: Option<f64>,
    /// Most connections: one for each stream where not told.
    pub(super) connections: Option<usize>,
    /// Whether arrivals carry the kernel's stamps.
    pub(super) kernel_stamps: bool,
}

/// All checks of a run; `vllm` is TTFT p99 of each cell in that tool's words, ms.
pub(super) fn of_run(
    ran: &Ran,
    (matched, known): (&Matched<'_>, &Known),
    vllm: &[(String, f64)],
    expected: Expected,
) -> Vec<Check> {
    let mut checks = counts(ran, matched, known, expected);
    checks.extend(causality(matched));
    for cell in &ran.run.cells {
        let pairs: Vec<&Pair<'_>> = matched.of_cell(&cell.id).collect();
        checks.extend(latencies(cell, &pairs, matched, expected));
        checks.extend(rates(cell, &pairs, expected));
        checks.extend(vllm_export(cell, &pairs, vllm));
    }
    checks.extend(lateness(ran, expected));
    checks
}

/// Counts, which no load can break.
fn counts(ran: &Ran, matched: &Matched<'_>, known: &Known, expected: Expected) -> Vec<Check> {
    let mut checks = vec![
        Check::exact("records no server knows", matched.unknown, 0),
        Check::exact("answers no record has", matched.unrecorded, 0),
    ];
    let asked: usize = matched
        .pairs
        .iter()
        .filter(|pair| pair.record.output_tokens != Some(pair.entry.completion_tokens))
        .count();
    checks.push(Check::exact("answers whose tokens differ", asked, 0));
    for cell in &ran.run.cells {
        let measured = ran
            .records
            .iter()
            .filter(|record| record.cell == cell.id && record.phase == Phase::Measure)
            .count();
        let planned = usize::try_from(cell.counts.planned).unwrap_or(usize::MAX);
        checks.push(Check::exact("records", measured, expected.planned));
        checks.push(Check::exact("planned", planned, expected.planned));
        let done = usize::try_from(cell.counts.completed).unwrap_or(usize::MAX);
        checks.push(Check::exact("completed", done, expected.planned));
        checks.push(Check::exact(
            "counts that do not add up",
            usize::from(!cell.counts.add_up()),
            0,
        ));
    }
    let streams = expected.connections.unwrap_or_else(|| matched.streams());
    let used = matched.connections();
    checks.push(Check::at_most(
        "connections",
        used as f64,
        streams as f64,
        false,
    ));
    checks.push(Check::exact("connections nobody used", known.unused, 0));
    checks
}

/// No event may be seen before it was written, whatever the machine does meanwhile.
fn causality(matched: &Matched<'_>) -> Vec<Check> {
    // The kernel stamps by the real-time clock; turning that into the monotonic one is right to some microseconds.
    const CLOCKS_NS: f64 = 100_000.0;
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

fn latencies(
    cell: &CellRecord,
    pairs: &[&Pair<'_>],
    matched: &Matched<'_>,
    expected: Expected,
) -> Vec<Check> {
    let origin = |pair: &Pair<'_>| match cell.headline {
        Origin::Due => matched.monotonic(pair.record.due),
        Origin::Sent => pair.entry.body_ns as f64,
    };
    let first = |pair: &&Pair<'_>| Some(*pair.entry.after_ns.first()? as f64 - origin(pair));
    let last = |pair: &&Pair<'_>| Some(*pair.entry.after_ns.last()? as f64 - origin(pair));
    let ttft: Sample = pairs.iter().filter_map(first).collect();
    let e2e: Sample = pairs.iter().filter_map(last).collect();
    let gaps = pairs.iter().flat_map(|pair| pair.entry.after_ns.windows(2));
    let itl: Sample = gaps
        .filter_map(|two| Some((two.last()? - two.first()?) as f64))
        .collect();
    // By the read's return a late wake-up is part of what is seen.
    let (gap_50, gap_99) = if expected.kernel_stamps {
        (20e3, 100e3)
    } else {
        (300e3, 3e6)
    };
    let rows = [
        ("TTFT p50", Metric::Ttft, &ttft, 0.5, 0.5e6),
        ("TTFT p99", Metric::Ttft, &ttft, 0.99, 1e6),
        ("ITL p50", Metric::Itl, &itl, 0.5, gap_50),
        ("ITL p99", Metric::Itl, &itl, 0.99, gap_99),
        ("E2E p50", Metric::E2e, &e2e, 0.5, 1e6),
        ("E2E p99", Metric::E2e, &e2e, 0.99, 2e6),
    ];
    rows.into_iter()
        .map(|(name, metric, sample, q, limit)| Check {
            name,
            said: ms(cell.headline(metric).and_then(|found| found.quantile(q))),
            so: ms(sample.quantile(q)),
            limit: limit / 1e6,
            timing: true,
        })
        .collect()
}

fn rates(cell: &CellRecord, pairs: &[&Pair<'_>], expected: Expected) -> Vec<Check> {
    let mut checks = Vec::new();
    let said = cell
        .headline_rates()
        .map_or(f64::NAN, |rates| rates.requests_per_s);
    if let Some(slots) = expected.slots {
        // Each slot is busy all the time, so by Little's law it gives one answer in the time of one.
        let busy: Sample = pairs
            .iter()
            .filter_map(|pair| Some((pair.entry.end_ns? - pair.entry.head_ns) as f64))
            .collect();
        let so = busy
            .mean()
            .map_or(f64::NAN, |mean| slots as f64 / mean * 1e9);
        checks.push(Check {
            name: "requests/s",
            said,
            so,
            limit: so * 0.03,
            timing: true,
        });
    }
    if let Some(rate) = expected.rate {
        let offered = cell.plan.offered_rate_per_s.unwrap_or(f64::NAN);
        let so = arrivals_per_s(pairs);
        checks.push(Check {
            name: "offered/s",
            said: offered,
            so,
            limit: so * 0.01,
            timing: true,
        });
        checks.push(Check {
            name: "offered/s as asked",
            said: cell.plan.requested_rate_per_s.unwrap_or(f64::NAN),
            so: rate,
            limit: 0.0,
            timing: false,
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

fn vllm_export(cell: &CellRecord, pairs: &[&Pair<'_>], vllm: &[(String, f64)]) -> Vec<Check> {
    let Some((_, said)) = vllm.iter().find(|(name, _)| *name == cell.id) else {
        return Vec::new();
    };
    // That tool counts from before it asks for a connection: a new one, handshake included, is part of its TTFT.
    let first = |pair: &&Pair<'_>| {
        let new = pair.entry.accepted_ns.filter(|_| pair.entry.reused == 0);
        let first = *pair.entry.after_ns.first()?;
        Some((first - new.unwrap_or(pair.entry.head_ns)) as f64)
    };
    let ttft: Sample = pairs.iter().filter_map(first).collect();
    vec![Check {
        name: "vLLM TTFT p99",
        said: *said,
        so: ms(ttft.quantile(0.99)),
        limit: 1.0,
        timing: true,
    }]
}

/// Lateness of the last cell against that of the first, ms, where load is open.
fn lateness(ran: &Ran, expected: Expected) -> Vec<Check> {
    /// What the issue allows at 200 requests/s, ms.
    const ALLOWED: [(f64, f64); 2] = [(0.5, 0.040), (0.99, 0.250)];
    if expected.rate.is_none() {
        return Vec::new();
    }
    let mut repeats: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for record in &ran.records {
        if let (Phase::Measure, Some(late)) = (record.phase, record.lateness()) {
            let late = late.get() as f64 / 1e6;
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
    let names = ["lateness p50", "lateness p99"];
    names
        .into_iter()
        .zip(ALLOWED)
        .map(|(name, (q, allowed))| {
            let said = last.quantile(q).unwrap_or(f64::NAN);
            let so = first.quantile(q).unwrap_or(f64::NAN);
            let most = if samples.len() > 1 {
                (so * 1.2).max(allowed)
            } else {
                allowed
            };
            let limit = if said <= most { (said - so).abs() } else { 0.0 };
            Check {
                name,
                said,
                so,
                limit,
                timing: true,
            }
        })
        .collect()
}

fn ms(ns: Option<f64>) -> f64 {
    ns.map_or(f64::NAN, |ns| ns / 1e6)
}
