//! Machines: a server that is kept from its CPU, a client that is in the way, an endpoint that is slower than the others.

use bench_schema::{
    Cause, CellRecord, ClockKind, Distribution, Evidence, Experiment, Finding, Known, Metric,
    RunRecord, TrustReason, TrustVerdict, Unit,
};

use super::fit::{mean, median};
use super::look::Look;
use super::speed;
use crate::draft::{Draft, of_cell};
use crate::signals::{Signal, derived};
use crate::view;

/// What tells that a server is kept from its CPU: the figure, its name, from which value it counts.
const KEPT: [(&str, Known, f64); 3] = [
    ("server_run_queue_wait", Known::ServerRunQueue, 0.2),
    ("server_throttled_share", Known::ServerThrottled, 0.05),
    ("host_steal_share", Known::HostSteal, 0.1),
];

/// Share of the time in which somebody waits for a CPU, from which on others have it.
const CONTENDED: f64 = 0.5;

/// Cores below which a server hardly computes.
const COMPUTES: f64 = 0.5;

/// The mean and the 99th percentile of gaps over their median, up to which they are even.
const EVEN_MEAN: f64 = 1.05;
const EVEN_P99: f64 = 1.25;

/// A server whose threads wait for a CPU, are held back by a quota, or whose cores the hypervisor takes.
pub(super) fn server_starved(run: &RunRecord, cell: &CellRecord) -> Option<Finding> {
    let local = is_local(run);
    let told = |name: &str| derived(cell, name).filter(|_| local || name.starts_with("server_"));
    let cores = derived(cell, "server_cpu_cores");
    let pressure = told("host_cpu_pressure_share");
    let cpus = run.host.cpus.map(f64::from);
    // Threads that wait little beside what they run lose little by it, and no more than the time in which they wait; a server that
    // hardly computes loses nothing to a thief.
    let share_of = |figure: Known, value: f64| match (figure, cores) {
        (Known::ServerRunQueue, Some(cores)) => {
            (value / (value + cores).max(f64::MIN_POSITIVE)).min(value)
        }
        (Known::HostSteal, Some(cores)) if cores < COMPUTES => 0.0,
        _ => value.min(1.0),
    };
    let usage = Signal::Cpu
        .of(cell)
        .filter(|_| local || Signal::Cpu.is_of_server(cell));
    // All cores full, and by the server.
    let full = usage
        .zip(cores.zip(cpus))
        .is_some_and(|(used, (cores, cpus))| used.mean >= 0.95 && cores >= 0.8 * cpus);
    let lost = |share: f64| beyond_the_usual(cell, share, cores).unwrap_or(1.0);
    let mut draft: Option<(f64, Draft)> = None;
    for (name, figure, least) in KEPT {
        let Some(value) = told(name).filter(|value| *value >= least) else {
            continue;
        };
        // Threads of a server that has all cores to itself wait for each other.
        if full && figure == Known::ServerRunQueue {
            continue;
        }
        // The wait is that of all threads together; what requests lose by it their own gaps say.
        let share = share_of(figure, value);
        let cost = share.min(lost(share));
        // Where threads wait for most of the time that they want to run, since others have the CPU, gaps may be even all the same: what that costs is not known, and
        // not nothing. Many threads that are woken at once wait for each other, and nobody else.
        let mostly = figure == Known::ServerRunQueue
            && cores.is_some_and(|runs| value >= runs)
            && pressure.is_some_and(|pressure| pressure >= CONTENDED);
        if cost < 0.05 && !mostly {
            continue;
        }
        let cost = cost.max(super::LEAST);
        let (most, so_far) =
            draft.unwrap_or((0.0, Draft::in_cell(Cause::ServerStarved, cost, cell)));
        draft = Some((most.max(cost), so_far.because(figure, value)));
    }
    if draft.is_none() && full {
        let cost = lost(1.0).min(0.3);
        draft = Some((cost, Draft::in_cell(Cause::ServerStarved, cost, cell)));
    }
    let (_, draft) = draft?;
    draft
        .because(Known::CpuPressure, pressure)
        .because(Known::HostCpu, usage.map(|used| used.mean))
        .because(Known::ServerCores, cores)
        .rules_out(
            Cause::ClientLimited,
            Known::ClientCpu,
            cell.client.busiest_worker.filter(|share| {
                *share < 0.9 && cell.client.run_queue_wait.is_some_and(|w| w < 0.05)
            }),
        )
        .refuted_by(Experiment::ServerOnOwnCores)
        .done()
}

/// What all gaps between tokens take beyond those that did not wait, as a share: a server that waits for its CPU loses no more. Where its threads
/// wait for less than half of the time that they want to run, the median gap did not wait; else the quickest alone. Where the quickest is an accident of
/// reading (a token that came late and the next one early), the median still did not wait, unless most tokens came so; or whole answers tell of a server
/// that hardly computes, for it catches up; of others it is unknown.
fn beyond_the_usual(cell: &CellRecord, waiting: f64, cores: Option<f64>) -> Option<f64> {
    let gaps = cell.headline(Metric::Icl)?;
    let median = gaps.quantile(0.5)?;
    let beyond = |usual: f64, mean: f64| (mean > 0.0).then(|| (1.0 - usual / mean).max(0.0));
    let few_wait = waiting < 0.5;
    if gaps.min >= median / 3.0 {
        let usual = if few_wait { Some(median) } else { even(gaps) };
        return beyond(usual.unwrap_or(gaps.min), gaps.mean);
    }
    if few_wait && median <= EVEN_MEAN * gaps.mean {
        return beyond(median, gaps.mean);
    }
    let answers = cell.headline(Metric::Tpot)?;
    cores.filter(|cores| *cores < COMPUTES)?;
    beyond(even(answers).unwrap_or(answers.min), answers.mean)
}

/// The median of times that hardly differ. Waits for a CPU come in turns of the scheduler, so that times differ; where they do not, the quickest is one
/// whose token before came late.
fn even(times: &Distribution) -> Option<f64> {
    let (median, late) = (times.quantile(0.5)?, times.quantile(0.99)?);
    (late <= EVEN_P99 * median && times.mean <= EVEN_MEAN * median).then_some(median)
}

/// Whether the server shares the host whose CPUs were read.
pub(crate) fn is_local(run: &RunRecord) -> bool {
    let here = ["127.0.0.1", "localhost", "[::1]", "unix:"];
    let is_here = |url: &String| here.iter().any(|name| url.contains(name));
    run.server.embedded || run.server.urls.iter().any(is_here)
}

/// Reasons of trust that mean the client, and what their number is. A cap that the user set is no limit of the client, and stamps that
/// are bounded keep no user waiting.
const OF_CLIENT: &[(&str, Known, Unit)] = &[
    ("client_cpu", Known::ClientCpu, Unit::Ratio),
    ("run_queue", Known::ClientRunQueue, Unit::Ratio),
    ("client_throttled", Known::ClientOther, Unit::Ratio),
    ("lateness", Known::ClientLateness, Unit::Ns),
    ("offered_rate", Known::ClientOffered, Unit::Ratio),
    ("starved", Known::ClientOther, Unit::Count),
    ("slots_idle", Known::ClientOther, Unit::Ratio),
];

/// What a reason costs: mean lateness as a share of E2E, also where the client waited for a core now and then under stamps of the kernel, which does not;
/// else a share as it stands.
fn cost_of(run: &RunRecord, reason: &TrustReason) -> f64 {
    /// Of the time that it was ready to run, what a client waits from which on it hardly runs.
    const STARVED: f64 = 0.5;
    let measured = reason.measured.unwrap_or(0.0);
    let cell = reason.cell.as_deref().and_then(|id| run.cell(id));
    let mean = |metric| cell.and_then(|cell| view::mean(cell, metric));
    let late = || Some(mean(Metric::Lateness)? / mean(Metric::E2e)?);
    let share = match reason.code.as_str() {
        "lateness" => {
            let e2e = || mean(Metric::E2e).map_or(0.0, |e2e| measured / e2e);
            late().unwrap_or_else(e2e)
        }
        "run_queue" if measured < STARVED && run.clock.arrival == ClockKind::Kernel => {
            late().unwrap_or(measured)
        }
        // How full it is, or a count: what it costs is not known.
        "client_cpu" | "starved" => 0.2,
        _ => measured,
    };
    share.clamp(0.0, 1.0)
}

/// What trust says of the client.
pub(super) fn client_limited(run: &RunRecord) -> Option<Finding> {
    let reasons: Vec<_> = run
        .trust
        .reasons
        .iter()
        .filter(|reason| reason.verdict > TrustVerdict::Trusted)
        .filter_map(|reason| {
            let known = OF_CLIENT.iter().find(|(code, ..)| *code == reason.code)?;
            Some((reason, known))
        })
        .collect();
    let reasons: Vec<_> = reasons
        .into_iter()
        .filter(|(reason, _)| cost_of(run, reason) >= super::LEAST)
        .collect();
    let costs = reasons.iter().map(|(reason, _)| cost_of(run, reason));
    let cost = costs.max_by(f64::total_cmp)?;
    let mut draft = Draft::new(Cause::ClientLimited, cost);
    for (reason, (_, figure, unit)) in &reasons {
        if let Some(measured) = reason.measured {
            draft = draft.push(Evidence {
                cell: reason.cell.clone(),
                of: (*figure == Known::ClientOther).then(|| reason.code.clone()),
                ..Evidence::new((*figure).into(), measured, *unit)
            });
        }
    }
    let mut found = draft.refuted_by(Experiment::TwoClients).done()?;
    found.cells = reasons.iter().filter_map(|(r, _)| r.cell.clone()).collect();
    found.cells.sort();
    found.cells.dedup();
    Some(found)
}

/// Requests of an endpoint below which it is not judged.
const FEWEST: usize = 10;
/// Standard errors beyond half of an endpoint's requests.
const CHANCE: f64 = 4.0;
/// An endpoint is slow from this multiple of the others' times on.
const SLOWER: f64 = 1.2;

/// One endpoint whose requests take longer than the others' requests of the same lengths.
pub(super) fn slow_replica(look: &Look<'_>) -> Option<Finding> {
    let of = |own: bool, endpoint: u32| -> Vec<f64> {
        let kept = look
            .seen
            .iter()
            .filter(|s| (s.request.endpoint == endpoint) == own);
        kept.map(|s| s.slow).collect()
    };
    let (endpoint, ratio, n) = look
        .endpoints()
        .into_iter()
        .filter_map(|endpoint| {
            let (own, others) = (of(true, endpoint), of(false, endpoint));
            if own.len() < FEWEST || others.len() < FEWEST {
                return None;
            }
            let (usual, n) = (median(others.clone())?, own.len());
            // More of its requests than chance makes slower than the others' median.
            let slower = own.iter().filter(|slow| **slow > usual).count() as f64;
            let beyond = slower - n as f64 / 2.0;
            let by_median = median(own.clone())? / usual;
            // One that makes some of them wait shows in the mean.
            let by_mean = mean(own.into_iter())? / mean(others.into_iter())?;
            (beyond >= CHANCE * (n as f64 / 4.0).sqrt()).then_some((
                endpoint,
                by_median.max(by_mean),
                n,
            ))
        })
        .max_by(|a, b| a.1.total_cmp(&b.1))
        .filter(|(_, ratio, _)| *ratio >= SLOWER)?;
    let share = n as f64 / look.seen.len() as f64;
    let mut ratio_of = of_cell(Known::ReplicaRatio, ratio, &look.cell.id);
    ratio_of.of = Some(look.url(endpoint));
    // Its share of the users' time, beyond what the others' speed would make of it.
    let cost = share * (ratio - 1.0) / (share * ratio + 1.0 - share);
    Draft::in_cell(Cause::SlowReplica, cost, look.cell)
        .push(ratio_of)
        .because(Known::ReplicaShare, share)
        .because(Known::At, speed::slower_from(&look.at_endpoint(endpoint)))
        .because(Known::Requests, n as f64)
        .refuted_by(Experiment::ReplicaAlone)
        .done()
}
