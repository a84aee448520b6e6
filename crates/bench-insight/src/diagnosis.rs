//! Why users wait, by elimination: what lengths, arrivals, load, the client, failures and a slow start explain is taken out; what is
//! left is named, with what was ruled out; what follows from a cause is folded under it. `docs/insight.md` has each rule.

mod first_token;
mod levels;
mod load;
mod look;
mod machines;
mod outcomes;
mod over_time;
mod quiet;
mod unexplained;

use bench_schema::{Cause, CellRecord, Experiment, Finding, Known, RunRecord, Unit};

use crate::advice;
use crate::draft::{Draft, of_cell};
use crate::samples::CellSamples;
use crate::view;
pub(crate) use load::gap;
use look::Look;
pub(crate) use machines::is_local;
use quiet::Quiet;

/// Share of the users' time, or of the requests, below which a cause costs nobody anything.
const LEAST: f64 = 0.03;
/// Completed requests below which a run is not called healthy.
const FEWEST: usize = 10;

/// The causes, the costliest first; that the run is healthy, where nothing was found and single requests were looked at.
pub(crate) fn causes(run: &RunRecord, samples: &[CellSamples]) -> Vec<Finding> {
    let looks: Vec<Look<'_>> = run
        .cells
        .iter()
        .map(|cell| Look::of(run, cell, samples.iter().find(|s| s.cell == cell.id)))
        .collect();
    let mut found: Vec<Finding> = looks
        .iter()
        .flat_map(|look| fold(of_cell_alone(look, &looks)))
        .collect();
    found.extend(load::gpu(&run.cells));
    // Where the server was kept from its CPU, a shared machine kept the client from its too: that is no cause of its own.
    if !found
        .iter()
        .any(|f| f.cause() == Some(Cause::ServerStarved))
    {
        found.extend(machines::client_limited(run));
    }
    let mut found = fold(merge(found));
    found.retain(|f| f.severity >= least(f));
    found.sort_by(|a, b| {
        b.severity
            .total_cmp(&a.severity)
            .then_with(|| a.code.cmp(&b.code))
    });
    let kind = run.server.kind.as_deref();
    for finding in &mut found {
        finding.advice = advice::of(finding, kind);
    }
    let calm = !found.iter().any(|f| f.cause() != Some(Cause::PrefixCache));
    if calm && looks.iter().map(|look| look.seen.len()).sum::<usize>() >= FEWEST {
        found.extend(healthy(run));
    }
    found
}

/// Share of the users' time from which on a level that moved makes a cell's rates those of no server.
pub(crate) const MIXED: f64 = 0.05;

/// The causes after which a cell's figures are means over servers of different speed.
pub(crate) fn of_two_levels(found: &[Finding]) -> impl Iterator<Item = &Finding> {
    let moved = |f: &&Finding| {
        let level = [Cause::ColdStart, Cause::Step, Cause::Drift];
        f.severity > MIXED && f.cause().is_some_and(|cause| level.contains(&cause))
    };
    found.iter().filter(moved)
}

/// Whether what is said of a cell's rates is of such a cell.
pub(crate) fn mixes_levels(found: &[Finding], about: &Finding) -> bool {
    of_two_levels(found).any(|f| f.cells.iter().any(|cell| about.cells.contains(cell)))
}

fn of_cell_alone(look: &Look<'_>, all: &[Look<'_>]) -> Vec<Finding> {
    let quiet = Quiet::of(look, all);
    let mut found = outcomes::all(look);
    found.extend(
        [
            load::overload(look),
            first_token::waiting_or_prefill(look, quiet.as_ref()),
            load::decode_slows(look, quiet.as_ref()),
            first_token::head_of_line(look),
            first_token::prefix_cache(look),
            machines::server_starved(look.run, look.cell),
            machines::slow_replica(look),
            over_time::stalls(look).or_else(|| over_time::silence(look)),
            over_time::levels_change(look),
            load::memory(look.cell),
            load::gpu_throttled(look.cell),
        ]
        .into_iter()
        .flatten(),
    );
    found.retain(|f| f.severity >= least(f));
    if found.is_empty() {
        found.extend(unexplained::all(look));
    }
    found
}

/// From which cost on a cause is told: what happens once costs less the longer the run is, and happened all the same.
fn least(finding: &Finding) -> f64 {
    match finding.cause() {
        Some(
            Cause::RateLimited
            | Cause::Failing
            | Cause::ServerGone
            | Cause::Frozen
            | Cause::PeriodicStall
            | Cause::ColdStart,
        ) => 0.01,
        _ => LEAST,
    }
}

/// What streams that stand still explain, once or again and again.
const OF_STANDSTILL: &[Cause] = &[
    Cause::Step,
    Cause::Drift,
    Cause::ColdStart,
    Cause::Queueing,
    Cause::WaitingOrPrefill,
    Cause::Prefill,
    Cause::HeadOfLine,
    Cause::Overload,
    Cause::DecodeSlowsWithLoad,
];

/// What each cause explains, where both are found.
const FOLLOWS: &[(Cause, &[Cause])] = &[
    (
        Cause::ServerGone,
        &[
            Cause::Failing,
            Cause::Frozen,
            Cause::PeriodicStall,
            Cause::Step,
            Cause::Drift,
            Cause::ColdStart,
            Cause::Overload,
            Cause::Queueing,
            Cause::WaitingOrPrefill,
        ],
    ),
    (
        Cause::ServerStarved,
        &[
            Cause::ClientLimited,
            Cause::Overload,
            Cause::Queueing,
            Cause::WaitingOrPrefill,
            Cause::Prefill,
            Cause::DecodeSlowsWithLoad,
            Cause::HeadOfLine,
            Cause::Frozen,
            Cause::PeriodicStall,
            Cause::ColdStart,
            Cause::Drift,
            Cause::Step,
            Cause::SlowRequests,
            Cause::DecodeInterrupted,
            Cause::Pauses,
        ],
    ),
    (Cause::PeriodicStall, OF_STANDSTILL),
    (Cause::Frozen, OF_STANDSTILL),
    (
        Cause::HeadOfLine,
        &[
            Cause::Queueing,
            Cause::Step,
            Cause::Drift,
            Cause::ColdStart,
            Cause::Prefill,
            Cause::WaitingOrPrefill,
            Cause::DecodeSlowsWithLoad,
            Cause::Frozen,
            Cause::PeriodicStall,
        ],
    ),
    (
        Cause::MemoryPressure,
        &[
            Cause::Queueing,
            Cause::WaitingOrPrefill,
            Cause::DecodeSlowsWithLoad,
            Cause::Step,
            Cause::Drift,
        ],
    ),
    (
        Cause::SlowReplica,
        &[
            Cause::Queueing,
            Cause::WaitingOrPrefill,
            Cause::DecodeSlowsWithLoad,
            Cause::Step,
            Cause::Drift,
            Cause::Overload,
        ],
    ),
    (
        Cause::Overload,
        &[
            Cause::Queueing,
            Cause::WaitingOrPrefill,
            Cause::Prefill,
            Cause::DecodeSlowsWithLoad,
            Cause::Drift,
            Cause::Step,
            Cause::ColdStart,
        ],
    ),
    (Cause::RateLimited, &[Cause::Failing, Cause::ServerGone]),
    (
        Cause::ClientLimited,
        &[
            Cause::Queueing,
            Cause::WaitingOrPrefill,
            Cause::DecodeSlowsWithLoad,
            Cause::Frozen,
            Cause::PeriodicStall,
            Cause::Drift,
            Cause::Step,
            Cause::ColdStart,
            Cause::SlowRequests,
            Cause::DecodeInterrupted,
            Cause::Pauses,
        ],
    ),
    (Cause::Drift, &[Cause::Overload]),
    (Cause::Step, &[Cause::Overload]),
    (
        Cause::ColdStart,
        &[
            Cause::Drift,
            Cause::Step,
            Cause::Queueing,
            Cause::WaitingOrPrefill,
            Cause::Prefill,
            Cause::DecodeSlowsWithLoad,
        ],
    ),
    (
        Cause::Queueing,
        &[Cause::Prefill, Cause::WaitingOrPrefill, Cause::GpuLow],
    ),
];

fn follows(cause: Cause) -> &'static [Cause] {
    let own = FOLLOWS.iter().find(|(known, _)| *known == cause);
    own.map_or(&[], |(_, explained)| explained)
}

/// Cost of what a cause explains, over its own, where that is bounded: users wait for what a server did in the time that it lost, and
/// what costs them much more has another reason too.
const MOST_EXPLAINED: &[(Cause, f64)] = &[
    (Cause::ColdStart, 1.2),
    (Cause::PeriodicStall, 4.0),
    (Cause::Frozen, 4.0),
];

/// Folds under each cause what follows from it in the same cells. Of two that follow from each other, the first in the order of
/// this list is the cause: what stops or starves a server, then what a level that moves makes of its load.
fn fold(mut found: Vec<Finding>) -> Vec<Finding> {
    const ORDER: &[Cause] = &[
        Cause::ServerGone,
        Cause::RateLimited,
        Cause::ServerStarved,
        Cause::SlowReplica,
        Cause::HeadOfLine,
        Cause::PeriodicStall,
        Cause::Frozen,
        Cause::MemoryPressure,
        Cause::ClientLimited,
        Cause::Overload,
        Cause::ColdStart,
        Cause::Drift,
        Cause::Step,
        Cause::Queueing,
    ];
    for cause in ORDER {
        let Some(at) = found.iter().position(|f| f.cause() == Some(*cause)) else {
            continue;
        };
        let mut root = found.remove(at);
        found.retain(|f| {
            let within = root.cells.is_empty() || f.cells.iter().all(|c| root.cells.contains(c));
            let most = MOST_EXPLAINED.iter().find(|(bounded, _)| bounded == cause);
            let beyond = most.is_some_and(|(_, most)| f.severity > most * root.severity);
            let Some(other) = f
                .cause()
                .filter(|other| within && !beyond && follows(*cause).contains(other))
            else {
                return true;
            };
            if !root.consequences.contains(&other) {
                root.consequences.push(other);
            }
            // Its users pay for what follows too.
            root.severity = root.severity.max(f.severity);
            false
        });
        found.push(root);
    }
    found
}

/// One finding for each cause: that of the cell in which it costs most, about all cells in which it was found.
fn merge(mut found: Vec<Finding>) -> Vec<Finding> {
    found.sort_by(|a, b| b.severity.total_cmp(&a.severity));
    let mut kept: Vec<Finding> = Vec::new();
    for finding in found {
        match kept.iter_mut().find(|k| k.code == finding.code) {
            Some(worst) => {
                worst.cells.extend(finding.cells);
                worst.consequences.extend(finding.consequences);
                worst.consequences.sort_unstable();
                worst.consequences.dedup();
            }
            None => kept.push(finding),
        }
    }
    for finding in &mut kept {
        let worst = finding.cells.first().cloned();
        for evidence in &mut finding.evidence {
            if evidence.cell.is_none() {
                evidence.cell.clone_from(&worst);
            }
        }
    }
    kept
}

/// Nothing costs users time; and where the limit lies, if a sweep shows it.
fn healthy(run: &RunRecord) -> Option<Finding> {
    let draft = Draft::new(Cause::Healthy, 0.0).refuted_by(Experiment::TwiceTheLoad);
    let found = view::load_series(&run.cells)
        .and_then(|(factor, series)| Some((factor, series.into_iter().max_by_key(Vec::len)?)));
    let Some((factor, members)) = found else {
        let completed: u64 = run.cells.iter().map(|cell| cell.counts.completed).sum();
        return draft
            .because(Known::Completed, completed as f64, Unit::Count)
            .done();
    };
    let rate = |cell: &CellRecord| view::tokens_per_s(cell).or(view::requests_per_s(cell));
    // The first step that brought nearly nothing: the limit lies at its lower end.
    let limit = members.windows(2).find_map(|pair| {
        let (before, after) = (pair.first()?, pair.last()?);
        let gain = rate(after.1)? / rate(before.1)? - 1.0;
        let added = after.0 / before.0 - 1.0;
        (gain < 0.25 * added).then_some(*before)
    });
    let (figure, (level, cell)) = match limit {
        Some(at) => (Known::LimitLevel, at),
        None => (Known::HighestLevel, *members.last()?),
    };
    let mut evidence = of_cell(figure, level, Unit::Count, &cell.id);
    evidence.of = Some(factor.to_owned());
    let (throughput, unit) = match view::tokens_per_s(cell) {
        Some(tokens) => (Some(tokens), Unit::TokensPerS),
        None => (view::requests_per_s(cell), Unit::RequestsPerS),
    };
    draft
        .push(evidence)
        .because_some(Known::Throughput, throughput, unit)
        .done()
}
