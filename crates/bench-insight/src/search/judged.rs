//! The run of a search: which of its cells are judged, and what is held against it though the search does that on purpose.

use bench_schema::{
    Answer, CapacityRecord, Cause, CellRecord, Code, Finding, RunRecord, SearchEnd, Trust,
    TrustReason,
};

use super::stages::{away, is_plainly_missed, load_of};
use super::{CONCURRENCY, SearchAsked};
use crate::diagnosis;
use crate::samples::{CellSamples, Lost, LostSample};

/// The stage that is nearest to the capacity that a search found, of those that do not lie beyond it; none where none was found.
pub fn nearest_stage(run: &RunRecord) -> Option<&CellRecord> {
    let value = run.analysis.capacity.as_ref()?.value?;
    stage_up_to(run, value)
}

/// The stage of the highest load up to this one, of those that a search did not leave out.
pub(crate) fn stage_up_to(run: &RunRecord, most: f64) -> Option<&CellRecord> {
    let found = run.analysis.capacity.as_ref()?;
    let told = run
        .cells
        .iter()
        .filter(|cell| !found.left_out.contains_key(&cell.id));
    let loads = told.filter_map(|cell| Some((cell, load_of(cell, found.factor == CONCURRENCY)?)));
    let up_to = loads.filter(|(_, load)| *load <= most);
    up_to
        .max_by(|a, b| a.1.total_cmp(&b.1))
        .map(|(cell, _)| cell)
}

/// The cells that are judged, and those of the others that bound the answer from above or in which the server was away. Of a search the first are the stages that its
/// answer rests on, for what is beyond the capacity is overloaded on purpose, and what is left out has no say; where it found none, any cell that is not known to be
/// beyond it, and where nothing was searched, any cell.
pub(crate) fn judged(
    found: Option<&CapacityRecord>,
    cells: Vec<CellRecord>,
) -> (Vec<CellRecord>, Vec<CellRecord>) {
    let Some(found) = found else {
        return (cells, Vec::new());
    };
    let load = |cell: &CellRecord| load_of(cell, found.factor == CONCURRENCY);
    let Some(value) = found.value else {
        let beyond = beyond(found, &cells).unwrap_or(f64::INFINITY);
        let is_less = |cell: &CellRecord| load(cell).is_none_or(|load| load < beyond);
        return cells.into_iter().partition(is_less);
    };
    let has_a_say = |cell: &CellRecord| {
        let measured = cell.counts.planned > 0 && load(cell).is_some();
        measured && (!found.left_out.contains_key(&cell.id) || away(cell).is_some())
    };
    let high = found.high.unwrap_or(value);
    let stages = cells.into_iter().filter(has_a_say);
    stages.partition(|cell| away(cell).is_none() && load(cell).is_some_and(|load| load <= high))
}

/// The lowest load that a search knows to be beyond the capacity, though it ran out of budget before it found that: an objective was plainly missed there, not by
/// failures, and all were met at less.
fn beyond(found: &CapacityRecord, cells: &[CellRecord]) -> Option<f64> {
    let stages = cells.iter().filter_map(|cell| {
        let load = load_of(cell, found.factor == CONCURRENCY)?;
        (!found.left_out.contains_key(&cell.id)).then_some((load, cell))
    });
    let stages: Vec<(f64, &CellRecord)> = stages.collect();
    let is_missed =
        |cell: &CellRecord| is_plainly_missed(cell) && !SearchAsked::is_missed_by_failures(cell);
    let missed = stages.iter().filter(|(_, cell)| is_missed(cell));
    let missed = missed.map(|(load, _)| *load).reduce(f64::min)?;
    let is_met = |cell: &CellRecord| SearchAsked::missed_by(cell, 0.0).is_empty();
    let mut less = stages.iter().filter(|(load, _)| *load < missed);
    (found.stopped == SearchEnd::Budget && less.any(|(_, cell)| is_met(cell))).then_some(missed)
}

/// What says that the server stood still or was away, of stages that only bound the answer: no load makes it do that.
pub(crate) fn stops(
    run: &RunRecord,
    samples: &[CellSamples],
    trust: Trust,
) -> (Vec<TrustReason>, Vec<Finding>) {
    let told = |reason: &TrustReason| run.trust.reasons.iter().any(|r| r.code == reason.code);
    // who waits too long in an overload gives up, and a limit of its rate turns away who is too much
    let of_load = |lost: &LostSample| lost.how == Lost::TimedOut || lost.status == Some(429);
    let is_gone = |own: &&CellSamples| own.outage().is_some() && !own.lost.iter().any(of_load);
    let own = samples.iter().filter(|own| run.cell(&own.cell).is_some());
    let gone: Vec<&String> = own.filter(is_gone).map(|own| &own.cell).collect();
    let mut findings = diagnosis::causes(run, samples);
    findings.retain(|finding| match finding.cause() {
        Some(Cause::Frozen | Cause::PeriodicStall) => true,
        Some(Cause::ServerGone | Cause::Failing) => {
            finding.cells.iter().all(|cell| gone.contains(&cell))
        }
        _ => false,
    });
    let is_of_it = |reason: &TrustReason| match &*reason.code {
        "stalled" => true,
        "failures" | "away" => gone.iter().any(|cell| reason.names(cell)),
        _ => false,
    };
    let reasons = trust.reasons.into_iter();
    let reasons = reasons.filter(|reason| is_of_it(reason) && !told(reason));
    (reasons.collect(), findings)
}

/// Without what a search does on purpose: stages too short for a quantile or for their answers, of which only the share within is used; loads at which queues
/// come and go.
pub(crate) fn without_what_it_does(trust: Trust) -> Trust {
    let on_purpose = [
        "few_samples",
        "not_stationary",
        "rate_undecided",
        "load_not_reached",
    ];
    let reasons = trust.reasons.into_iter();
    Trust::from_reasons(
        reasons
            .filter(|reason| !on_purpose.contains(&reason.code.as_str()))
            .collect(),
    )
}

/// Without causes that a search makes itself: stages follow each other without a pause, so that none but the first begins on a cold server, and near the
/// capacity requests of an open loop wait by chance, whatever their lengths, and more and fewer of them from one moment to the next.
pub(crate) fn without_what_it_makes(run: &RunRecord, findings: &mut Vec<Finding>) {
    let first = run.cells.first().map(|cell| &cell.id);
    let is_open = |id: &String| run.cell(id).is_some_and(|cell| cell.load.is_open());
    let found = run.analysis.capacity.as_ref();
    let changed = found.is_some_and(|found| found.stopped == SearchEnd::Unsteady);
    // what compares stages, or relies on one, takes them for those of one server
    let relies_on_it = |finding: &Finding| {
        let compared = [Cause::DecodeSlowsWithLoad, Cause::Overload, Cause::Queueing];
        let is_compared = finding
            .cause()
            .is_some_and(|cause| compared.contains(&cause));
        is_compared
            || matches!(
                finding.code,
                Code::Answer(Answer::Capacity | Answer::Planning)
            )
    };
    findings.retain(|finding| !changed || !relies_on_it(finding));
    let is_of_open = |finding: &Finding| finding.cells.iter().all(is_open);
    let queues =
        |finding: &Finding| finding.cause() == Some(Cause::Queueing) && is_of_open(finding);
    let queues = findings.iter().any(queues);
    findings.retain(|finding| match finding.cause() {
        // Of a server of which it does not know what it can do nobody knows that either.
        Some(Cause::Healthy) => found.is_some_and(|found| found.value.is_some()),
        Some(Cause::ColdStart) => finding.cells.iter().any(|cell| Some(cell) == first),
        Some(Cause::SlowRequests | Cause::Step | Cause::Drift) => !is_of_open(finding),
        // what waits at one rate of a server that is known to queue at another
        Some(Cause::WaitingOrPrefill) => !(queues && is_of_open(finding)),
        _ => true,
    });
}
