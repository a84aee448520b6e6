//! What was measured and is no fault: stated without an alarm and without advice.

use bench_schema::{
    Analysis, Answer, Cause, CellRecord, Evidence, Fact, Factor, Finding, Known, Metric,
    PhaseShares, RunRecord, ScalingRow,
};

use super::lengths;
use crate::diagnosis::{gap, is_local, of_two_levels};
use crate::draft::{Draft, of_cell};
use crate::samples::CellSamples;
use crate::signals::{Signal, derived};
use crate::text;
use crate::view;

/// Facts, where answers and causes have been `found`.
pub(super) fn all(
    run: &RunRecord,
    samples: &[CellSamples],
    analysis: &Analysis,
    found: &[Finding],
) -> Vec<Finding> {
    let cells = &run.cells;
    [
        // a stage of a search is too short to tell what is served of a load
        scaling(&analysis.scaling).filter(|_| run.analysis.capacity.is_none()),
        load_effects(cells, found),
        operating_point(cells, found),
        lengths::output(cells, samples, analysis),
        lengths::prompt(cells),
        phase_split(cells),
        gpu_use(cells),
        cpu_use(run),
        workloads(cells),
        tail(cells),
        consistency(cells),
        all_answered(cells),
        tokens_per_chunk(cells),
        bundles(cells),
        other_clients(run),
        server_disagrees(cells),
        repeats_differ(cells),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn of_level(figure: Known, value: f64, cell: &str, level: String) -> Evidence {
    Evidence {
        of: Some(level),
        ..of_cell(figure, value, cell)
    }
}

/// `concurrency 8`, `1 gpu`, `2 gpus`.
fn level_name(factor: &str, level: f64) -> String {
    let shown = text::level(level);
    match factor.strip_suffix('s').unwrap_or(factor) {
        one if view::DEVICE_FACTORS.contains(&factor) && shown == "1" => format!("1 {one}"),
        _ if view::DEVICE_FACTORS.contains(&factor) => format!("{shown} {factor}"),
        _ => format!("{factor} {shown}"),
    }
}

/// Throughput along load or devices, each level beside the first.
pub(super) fn scaling(rows: &[ScalingRow]) -> Option<Finding> {
    let rows: Vec<&ScalingRow> = rows
        .iter()
        .filter(|r| r.throughput_gain.is_some())
        .collect();
    if rows.len() < 2 {
        return None;
    }
    let mut draft = Draft::new(Fact::Scaling, 0.0);
    for row in rows {
        let name = || level_name(&row.factor, row.level);
        draft = draft.push(of_level(
            Known::ScalingFactor,
            row.scaling_factor,
            &row.cell,
            name(),
        ));
        let shares = [
            (Known::Efficiency, row.efficiency),
            (Known::LatencyPenalty, row.latency_penalty),
        ];
        for (figure, value) in shares {
            if let Some(value) = value.filter(|_| row.throughput_gain != Some(0.0)) {
                draft = draft.push(of_level(figure, value, &row.cell, name()));
            }
        }
    }
    draft.done()
}

/// TTFT and token gaps along load, where no level is a mean over servers of different speed.
fn load_effects(cells: &[CellRecord], found: &[Finding]) -> Option<Finding> {
    let (factor, series) =
        view::load_series(cells).filter(|(f, _)| !view::DEVICE_FACTORS.contains(f))?;
    let members = series.into_iter().max_by_key(Vec::len)?;
    let mut moved = of_two_levels(found).flat_map(|f| &f.cells);
    if moved.any(|moved| members.iter().any(|(_, cell)| cell.id == *moved)) {
        return None;
    }
    let mut draft = Draft::new(Fact::LoadEffects, 0.0);
    let mut told = 0;
    for (level, cell) in members {
        let figures = [
            (Known::Ttft, view::quantile(cell, Metric::Ttft, 0.5)),
            (Known::Itl, gap(cell)),
        ];
        for (figure, value) in figures {
            if let Some(value) = value {
                told += 1;
                let name = level_name(factor, level);
                draft = draft.push(of_level(figure, value, &cell.id, name));
            }
        }
    }
    (told > 2).then_some(draft)?.done()
}

/// GPU use that leaves neither idle time nor a queue.
const GOOD_USE: std::ops::RangeInclusive<f64> = 0.80..=0.90;

/// The level of a sweep whose GPU use is 80–90 %; of several, the highest. None at which requests queue, or an objective is missed.
fn operating_point(cells: &[CellRecord], found: &[Finding]) -> Option<Finding> {
    let is_too_much = |f: &&Finding| {
        let queues = [Cause::Overload, Cause::Queueing, Cause::MemoryPressure];
        f.cause().is_some_and(|cause| queues.contains(&cause)) || f.code == Answer::SloMissed.into()
    };
    let is_sound = |cell: &CellRecord| {
        let mut against = found.iter().filter(is_too_much);
        !against.any(|f| f.cells.contains(&cell.id))
    };
    let (factor, series) =
        view::load_series(cells).filter(|(f, _)| !view::DEVICE_FACTORS.contains(f))?;
    let members = series.iter().find(|members| members.len() > 1)?;
    let (level, cell, usage) = members
        .iter()
        .filter_map(|(level, cell)| Some((*level, *cell, Signal::GpuUse.of(cell)?.mean)))
        .filter(|(_, cell, usage)| GOOD_USE.contains(usage) && is_sound(cell))
        .max_by(|a, b| a.0.total_cmp(&b.0))?;
    Draft::in_cell(Fact::OperatingPoint, 0.0, cell)
        .push(of_level(
            Known::GpuUse,
            usage,
            &cell.id,
            level_name(factor, level),
        ))
        .because(Known::E2eMean, view::mean(cell, Metric::E2e))
        .done()
}

/// A fact with the same figures of each cell that has them; none where no cell has.
fn by_cell<const N: usize>(
    fact: Fact,
    cells: &[CellRecord],
    figures: impl Fn(&CellRecord) -> [(Known, Option<f64>); N],
) -> Option<Finding> {
    let told = cells.iter().flat_map(|cell| {
        let known = figures(cell).into_iter();
        known.filter_map(|(figure, value)| Some(of_cell(figure, value?, &cell.id)))
    });
    let mut told = told.peekable();
    told.peek()?;
    told.fold(Draft::new(fact, 0.0), Draft::push).done()
}

fn phase_split(cells: &[CellRecord]) -> Option<Finding> {
    by_cell(Fact::PhaseSplit, cells, |cell| {
        let shares = cell.phases.as_ref();
        let first = match shares.map(PhaseShares::first_phase) {
            Some("prefill") => Known::PrefillShare,
            _ => Known::TtftShare,
        };
        // What holds first tokens back is neither, and told as a cause.
        let held = crate::server_phases::held_back(cell).is_some();
        let told = |p: &&PhaseShares| p.queue_source != "none" || p.queue > 0.01;
        let residual = cell.analysis.decode_identity_residual;
        [
            (Known::QueueShare, shares.filter(told).map(|p| p.queue)),
            (first, shares.filter(|_| !held).map(|p| p.prefill)),
            (Known::DecodeShare, shares.map(|p| p.decode)),
            (
                Known::IdentityResidual,
                residual.filter(|_| shares.is_some()),
            ),
        ]
    })
}

fn gpu_use(cells: &[CellRecord]) -> Option<Finding> {
    by_cell(Fact::GpuUse, cells, |cell| {
        let peak = |signal: Signal| signal.of(cell).map(|level| level.peak);
        [
            (
                Known::GpuUse,
                Signal::GpuUse.of(cell).map(|level| level.mean),
            ),
            (Known::GpuUsePeak, peak(Signal::GpuUse)),
            (Known::GpuMemoryPeak, peak(Signal::GpuMemory)),
            (Known::KvCachePeak, peak(Signal::KvCache)),
        ]
    })
}

/// CPUs of the server's host, where they are known to be its.
fn cpu_use(run: &RunRecord) -> Option<Finding> {
    by_cell(Fact::CpuUse, &run.cells, |cell| {
        let own = is_local(run) || Signal::Cpu.is_of_server(cell);
        let usage = Signal::Cpu.of(cell).filter(|_| own);
        let cores = |name| usage.and_then(|_| derived(cell, name));
        [
            (Known::HostCpu, usage.map(|level| level.mean)),
            (Known::HostCpuPeak, usage.map(|level| level.peak)),
            (Known::ServerCores, cores("server_cpu_cores")),
            (Known::ClientCores, cores("client_cpu_cores")),
        ]
    })
}

/// Factors whose levels are names, of workloads or of what serves them.
const NAMED: &[&str] = &["dataset", "workload", "use_case", "model"];

fn workloads(cells: &[CellRecord]) -> Option<Finding> {
    NAMED.iter().find_map(|factor| beside(factor, cells))
}

/// Cells that differ in one named factor only: workloads or models beside each other.
pub(super) fn beside(factor: &str, cells: &[CellRecord]) -> Option<Finding> {
    let named = |cell: &&CellRecord| matches!(cell.factors.get(factor), Some(Factor::Name(_)));
    if cells.iter().filter(named).count() < 2 {
        return None;
    }
    let first = cells
        .iter()
        .find(|cell| cell.factors.contains_key(factor))?;
    let same_load = view::key_without(first, factor);
    let mut draft = Draft::new(Fact::WorkloadsDiffer, 0.0);
    let mut told = 0;
    let alike = |c: &&CellRecord| view::key_without(c, factor) == same_load;
    let alike: Vec<&CellRecord> = cells.iter().filter(alike).collect();
    let apart = rates_are_apart(&alike);
    for cell in alike {
        let Some(name) = cell.factors.get(factor) else {
            continue;
        };
        let figures = [
            (
                Known::RequestRate,
                view::requests_per_s(cell).filter(|_| apart),
            ),
            (Known::PromptTokens, view::input_tokens(cell)),
            (Known::E2eMean, view::mean(cell, Metric::E2e)),
            (Known::GpuUse, Signal::GpuUse.of(cell).map(|l| l.mean)),
        ];
        for (figure, value) in figures {
            if let Some(value) = value {
                told += 1;
                draft = draft.push(of_level(figure, value, &cell.id, name.to_string()));
            }
        }
    }
    (told > 1).then_some(draft)?.done()
}

/// From this ratio on rates are told to differ.
pub const RATES_DIFFER: f64 = 1.05;

/// Whether the least and the highest rate are as good as equal, or apart by their intervals, where they have any.
fn rates_are_apart(cells: &[&CellRecord]) -> bool {
    let rate = |cell: &&CellRecord| {
        let rates = cell.headline_rates()?;
        Some((rates.requests_per_s?, rates.requests_per_s_interval))
    };
    let mut rates: Vec<_> = cells.iter().filter_map(rate).collect();
    rates.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (Some((least, low)), Some((most, high))) = (rates.first(), rates.last()) else {
        return true;
    };
    let overlap = low
        .zip(*high)
        .is_some_and(|(low, high)| low.high >= high.low);
    *most < RATES_DIFFER * least || !overlap
}

/// Values below which a P95 is a maximum.
const TAIL_VALUES: u64 = 20;

fn tail(cells: &[CellRecord]) -> Option<Finding> {
    let (cell, p50, p95) = cells
        .iter()
        .filter_map(|cell| {
            let e2e = cell.headline(Metric::E2e).filter(|d| d.n >= TAIL_VALUES)?;
            let p50 = view::positive(e2e.p50()?)?;
            Some((cell, p50, view::positive(e2e.quantile(0.95)?)?))
        })
        .max_by(|a, b| (a.2 / a.1).total_cmp(&(b.2 / b.1)))?;
    let lengths = cell.metrics.get(&Metric::OutputTokens).and_then(|d| d.cov);
    Draft::in_cell(Fact::Tail, 0.0, cell)
        .push(of_cell(Known::TailRatio, p95 / p50, &cell.id))
        .because(Known::E2eP50, p50)
        .because(Known::E2eP95, p95)
        .because(Known::LengthCov, lengths.filter(|c| c.is_finite()))
        .done()
}

/// The spread of cells that repeat one shape: it is the system's, not the workload's.
fn consistency(cells: &[CellRecord]) -> Option<Finding> {
    by_cell(Fact::Consistency, cells, |cell| {
        let lengths = cell.metrics.get(&Metric::OutputTokens).and_then(|d| d.cov);
        let kinds =
            |group: &&bench_schema::GroupRecord| group.by == "use_case" || group.by == "category";
        let mixed =
            lengths.is_some_and(|cov| cov > 0.01) || cell.groups.iter().filter(kinds).count() > 1;
        let e2e = cell.headline(Metric::E2e).filter(|d| d.n >= 5 && !mixed);
        let cov = e2e.and_then(|d| d.cov);
        [(Known::Cov, cov.filter(|cov| cov.is_finite() && *cov >= 0.0))]
    })
}

fn all_answered(cells: &[CellRecord]) -> Option<Finding> {
    let completed: u64 = cells.iter().map(|cell| cell.counts.completed).sum();
    let lost: u64 = cells
        .iter()
        .map(|c| c.counts.failed + c.counts.timed_out + c.counts.truncated + c.counts.unsent)
        .sum();
    (completed > 0 && lost == 0)
        .then(|| Draft::new(Fact::AllAnswered, 0.0))?
        .because(Known::Completed, completed as f64)
        .done()
}

fn tokens_per_chunk(cells: &[CellRecord]) -> Option<Finding> {
    let mean = |cell: &CellRecord| view::mean_tokens(&cell.metrics, Metric::TokensPerChunk);
    let (cell, mean) = cells
        .iter()
        .filter_map(|cell| Some((cell, mean(cell)?)))
        .max_by(|a, b| (a.1 - 1.0).abs().total_cmp(&(b.1 - 1.0).abs()))
        .filter(|(_, mean)| (mean - 1.0).abs() > 0.05)?;
    Draft::in_cell(Fact::TokensPerChunk, 0.0, cell)
        .push(of_cell(Known::TokensPerChunk, mean, &cell.id))
        .done()
}

/// The first cell whose tokens come several at a time.
fn bundles(cells: &[CellRecord]) -> Option<Finding> {
    // of answers that come whole there is no time per token either
    let several =
        |cell: &&CellRecord| view::in_bundles(cell) && view::mean(cell, Metric::Icl).is_some();
    let cell = cells.iter().find(several)?;
    let gaps = cell.headline(Metric::Icl)?;
    let mut found = Draft::in_cell(Fact::Bundles, 0.0, cell)
        .push(of_cell(Known::Itl, gaps.quantile(0.5)?, &cell.id))
        .push(of_cell(Known::MeanGap, gaps.mean, &cell.id))
        .done()?;
    let all = cells.iter().filter(several);
    found.cells = all.map(|cell| cell.id.clone()).collect();
    Some(found)
}

/// The cells in which the server works for clients other than this one, with the numbers of the one in which it does most.
fn other_clients(run: &RunRecord) -> Option<Finding> {
    let told = run
        .cells
        .iter()
        .filter_map(|cell| Some((cell, view::other_clients(run, cell)?)));
    let told: Vec<_> = told.collect();
    let most = told.iter();
    let (cell, others) = most.max_by(|a, b| a.1.tokens.total_cmp(&b.1.tokens))?;
    let mut found = Draft::in_cell(Fact::OtherClients, 0.0, cell)
        .push(of_cell(Known::TokensOverClient, others.tokens, &cell.id))
        .push(of_cell(Known::Running, others.running, &cell.id))
        .push(of_cell(Known::Waiting, others.waiting, &cell.id))
        .push(of_cell(Known::InFlight, others.in_flight, &cell.id))
        .done()?;
    found.cells = told.iter().map(|(cell, _)| cell.id.clone()).collect();
    Some(found)
}

/// The server's own mean TTFT against the client's, where the server tells.
fn server_disagrees(cells: &[CellRecord]) -> Option<Finding> {
    let (cell, own, seen) = cells
        .iter()
        .filter_map(|cell| {
            let own = derived(cell, "server_ttft_mean").and_then(view::positive)?;
            // of the same requests, where the record has it: the server's histogram knows only those of the windows
            let over = derived(cell, "server_ttft_over_client").and_then(view::positive);
            let seen = over.map(|over| own / over);
            let seen = seen.or_else(|| view::mean(cell, Metric::Ttft))?;
            Some((cell, own, seen))
        })
        .max_by(|a, b| (a.2 - a.1).abs().total_cmp(&(b.2 - b.1).abs()))
        // A network takes its time; what it cannot take is a fifth and 20 ms.
        .filter(|(_, own, seen)| (seen - own).abs() > 0.2 * own && (seen - own).abs() > 2e7)?;
    Draft::in_cell(Fact::ServerDisagrees, 0.0, cell)
        .push(of_cell(Known::Ttft, seen, &cell.id))
        .push(of_cell(Known::ServerTtft, own, &cell.id))
        .done()
}

fn repeats_differ(cells: &[CellRecord]) -> Option<Finding> {
    let (cell, between) = cells
        .iter()
        .filter_map(|cell| Some((cell, view::positive(cell.analysis.between_repeats_cov?)?)))
        .max_by(|a, b| a.1.total_cmp(&b.1))
        .filter(|(_, between)| *between > 0.05)?;
    Draft::in_cell(Fact::RepeatsDiffer, 0.0, cell)
        .push(of_cell(Known::Cov, between, &cell.id))
        .done()
}
