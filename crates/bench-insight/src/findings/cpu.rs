//! The CPUs of the server's host: the limit, not the limit, or busy with something else.

use bench_schema::{CellRecord, Finding, FindingKind};

use super::Scene;
use crate::draft::Draft;
use crate::signals::{Signal, derived};
use crate::text;
use crate::tuning::{Symptom, actions};

/// Mean use from which CPUs are full.
const FULL: f64 = 0.9;
/// Share of time that a group's CPU quota held it back, from which it counts.
const HELD_BACK: f64 = 0.01;
/// What speaks against "the CPU is not the limit" although its mean use is low: the figure, the share of time from which it does, and
/// what it is.
const SIGNS: [(&str, f64, &str); 2] = [
    ("host_cpu_pressure_share", 0.2, "tasks waited for a CPU"),
    ("host_steal_share", 0.05, "CPU time taken by the hypervisor"),
];

/// CPU of one cell.
struct Use<'a> {
    cell: &'a CellRecord,
    mean: f64,
    peak: f64,
    /// Cores that server and client themselves used; absent where the server's process was not read.
    own_cores: Option<(f64, f64)>,
}

/// The one statement about CPUs that the run carries.
pub(super) fn found(scene: &Scene<'_>) -> Option<Finding> {
    let uses: Vec<Use<'_>> = scene
        .run
        .cells
        .iter()
        .filter_map(|cell| {
            let level = Signal::Cpu.of(cell)?;
            // Of a server elsewhere, the client's host tells nothing.
            (Signal::Cpu.is_of_server(cell) || is_local(scene)).then(|| Use {
                cell,
                mean: level.mean,
                peak: level.peak,
                own_cores: own_cores(cell),
            })
        })
        .collect();
    let busiest = uses.iter().max_by(|a, b| a.mean.total_cmp(&b.mean))?;
    if busiest.mean <= FULL {
        return held_back(scene, &uses)
            .or_else(|| one_core(scene, &uses))
            .or_else(|| not_the_limit(&uses, busiest.mean));
    }
    let cpus = scene.run.host.cpus.map(f64::from).filter(|n| *n > 0.0);
    match busiest.own_cores.zip(cpus) {
        Some(((server, client), cpus)) if server + client < 0.5 * busiest.mean * cpus => {
            busy_host(busiest, server + client, cpus)
        }
        _ => limit(scene, busiest),
    }
}

/// Whether the server shares the host whose CPUs were read.
fn is_local(scene: &Scene<'_>) -> bool {
    let here = ["127.0.0.1", "localhost", "[::1]", "unix:"];
    let server = &scene.run.server;
    server.embedded
        || server
            .urls
            .iter()
            .any(|url| here.iter().any(|name| url.contains(name)))
}

fn own_cores(cell: &CellRecord) -> Option<(f64, f64)> {
    let server = derived(cell, "server_cpu_cores")?;
    Some((server, derived(cell, "client_cpu_cores").unwrap_or(0.0)))
}

fn not_the_limit(uses: &[Use<'_>], high: f64) -> Option<Finding> {
    let low = uses.iter().map(|u| u.mean).min_by(f64::total_cmp)?;
    let peak = uses.iter().map(|u| u.peak).max_by(f64::total_cmp)?;
    let claim = format!(
        "the CPU is not the limit: {} on average, {} at most",
        text::span(low, high, text::percent),
        text::percent(peak)
    );
    let mut draft = Draft::new("cpu_not_limit", FindingKind::Bottleneck, 0.05, claim);
    for u in uses {
        draft = draft.because_share(&u.cell.id, "mean CPU use", u.mean);
        for (name, bound, what) in SIGNS {
            let Some(share) = derived(u.cell, name) else {
                continue;
            };
            if share >= bound {
                return None;
            }
            draft = draft.because_share(&u.cell.id, what, share);
        }
    }
    draft
        .because("peak CPU use", peak * 100.0, "%")
        .decided_by("the busiest single core: one thread can be full while the average is low")
        .done()
}

fn limit(scene: &Scene<'_>, busiest: &Use<'_>) -> Option<Finding> {
    let cell = busiest.cell;
    let claim = format!(
        "the server's CPUs are full: {} on average in {}",
        text::percent(busiest.mean),
        cell.label
    );
    let mut draft = Draft::new("cpu_limit", FindingKind::Bottleneck, 0.7, claim).because_share(
        &cell.id,
        "mean CPU use",
        busiest.mean,
    );
    if let Some((server, client)) = busiest.own_cores {
        draft = draft
            .because_in(&cell.id, "cores used by the server", server, "cores")
            .because_in(&cell.id, "cores used by the client", client, "cores");
    }
    draft
        .perhaps(
            "the model itself runs on the CPU, or tokenising, scheduling and HTTP take all of it",
        )
        .decided_by(
            "throughput with twice the cores, and where the time goes in a profile of the server",
        )
        .attempt(actions(Symptom::FullCpu, scene.server()))
        .about([cell.id.clone()])
        .done()
}

/// The CPUs are full, and neither server nor client uses most of them.
fn busy_host(busiest: &Use<'_>, own: f64, cpus: f64) -> Option<Finding> {
    let claim = format!(
        "something else keeps the host busy: its CPUs are {} used in {}, of {} cores server and client together used {}",
        text::percent(busiest.mean),
        busiest.cell.label,
        text::level(cpus),
        text::number(own),
    );
    Draft::new("busy_host", FindingKind::Measurement, 0.55, claim)
        .because_share(&busiest.cell.id, "mean CPU use of the host", busiest.mean)
        .because_in(&busiest.cell.id, "cores used by server and client", own, "cores")
        .perhaps("other programs compete with the server for its cores, so its latencies are partly theirs")
        .decided_by("the same on a quiet host")
        .attempt(["stop what else runs there, or pin server and client to cores of their own"])
        .about([busiest.cell.id.clone()])
        .done()
}

/// A quota of its control group stops the server although the host has CPUs to spare: a container's limit.
fn held_back(scene: &Scene<'_>, uses: &[Use<'_>]) -> Option<Finding> {
    let (u, share) = uses
        .iter()
        .filter_map(|u| Some((u, derived(u.cell, "server_throttled_share")?)))
        .max_by(|a, b| a.1.total_cmp(&b.1))
        .filter(|(_, share)| *share >= HELD_BACK)?;
    let claim = format!(
        "a CPU quota held the server back {} of the time in {}, while the host's CPUs were {} used",
        text::percent(share),
        u.cell.label,
        text::percent(u.mean),
    );
    let mut draft = Draft::new("cpu_quota", FindingKind::Bottleneck, 0.6, claim)
        .because_share(&u.cell.id, "time held back by the quota", share)
        .because_share(&u.cell.id, "mean CPU use of the host", u.mean);
    if let Some((server, _)) = u.own_cores {
        draft = draft.because_in(&u.cell.id, "cores used by the server", server, "cores");
    }
    draft
        .perhaps("the server's container has a CPU limit below what its threads want at times")
        .decided_by("latencies and throttled time with a higher limit, or without one")
        .attempt(actions(Symptom::FullCpu, scene.server()))
        .about([u.cell.id.clone()])
        .done()
}

/// One core full while the others are not, and a process that uses as much: a single thread may be the limit.
fn one_core(scene: &Scene<'_>, uses: &[Use<'_>]) -> Option<Finding> {
    let (u, core) = uses
        .iter()
        .filter(|u| u.mean < 0.7)
        .filter(|u| {
            u.own_cores
                .is_some_and(|(server, client)| server.max(client) >= 0.9)
        })
        .filter_map(|u| Some((u, derived(u.cell, "busiest_core_share")?)))
        .max_by(|a, b| a.1.total_cmp(&b.1))
        .filter(|(_, core)| *core >= 0.95)?;
    let claim = format!(
        "one core is full ({}) while the host is at {} in {}",
        text::percent(core.min(1.0)),
        text::percent(u.mean),
        u.cell.label
    );
    let (server, client) = u.own_cores?;
    Draft::new("single_core_full", FindingKind::Bottleneck, 0.4, claim)
        .because_share(&u.cell.id, "busiest core", core)
        .because_share(&u.cell.id, "mean CPU use", u.mean)
        .because_in(&u.cell.id, "cores used by the server", server, "cores")
        .because_in(&u.cell.id, "cores used by the client", client, "cores")
        .perhaps(
            "a single thread is the limit: a Python front end, a scheduler loop, or the client",
        )
        .decided_by("CPU time by thread of the server and of the client")
        .attempt(actions(Symptom::FullCpu, scene.server()))
        .about([u.cell.id.clone()])
        .done()
}
