//! Whether a run in which nothing was found is healthy; and if it is not called so, why.

use bench_schema::{
    Answer, Cause, CellRecord, Experiment, Finding, Known, Load, Metric, RunRecord, TrustVerdict,
    Unit,
};

use super::look::Look;
use super::{LEAST, across, first_token, load, unexplained};
use crate::draft::{self, Draft};
use crate::view;

/// Completed requests below which a run is not called healthy.
const FEWEST: usize = 10;

/// That nothing costs users time, or why nobody can say so. The looks are of each repeat, the first of each cell in front, and of several as one.
pub(super) fn told(run: &RunRecord, each: &[Look<'_>], pooled: &[Look<'_>]) -> Option<Finding> {
    let completed: u64 = run.cells.iter().map(|cell| cell.counts.completed).sum();
    (completed > 0).then_some(())?;
    let why_not = why_not(run, each, pooled, completed);
    // A search goes beyond the limit on purpose, and has its own answer.
    let is_search = run.analysis.capacity.is_some();
    match why_not {
        Some(why) => why.done().filter(|_| !is_search),
        None => healthy(run),
    }
}

fn why_not(
    run: &RunRecord,
    each: &[Look<'_>],
    pooled: &[Look<'_>],
    completed: u64,
) -> Option<Draft> {
    let why = || Draft::new(Answer::NotHealthy, 0.0);
    let seen = each.iter().map(|look| look.seen.len()).sum::<usize>();
    if seen < FEWEST {
        let all = seen as u64 >= completed;
        let figure = if all {
            Known::Completed
        } else {
            Known::Requests
        };
        return Some(why().because(figure, seen as f64));
    }
    if is_doubted(run) {
        return Some(why());
    }
    let of_cells = each.get(..run.cells.len()).unwrap_or(each);
    let mut looks = each.iter().chain(pooled);
    looks
        .find_map(|look| of_requests(look, of_cells))
        .or_else(|| across::left(of_cells))
        .or_else(|| run.cells.iter().find_map(of_cell))
}

/// Whether trust names what no healthy run has, though nothing here says why; or the numbers may be wrong by so much that nobody knows; or a part of the
/// run is missing, which may be what is not healthy.
fn is_doubted(run: &RunRecord) -> bool {
    const NOT_HEALTHY: [&str; 11] = [
        "failures",
        "away",
        "backed_off",
        "cancelled_unanswered",
        "connection_full",
        "empty_answers",
        "load_not_reached",
        "rate_undecided",
        "short_answers",
        "stalled",
        "not_stationary",
    ];
    let mut reasons = run.trust.reasons.iter();
    !run.complete
        || run.trust.verdict == TrustVerdict::Untrusted
        || reasons.any(|reason| NOT_HEALTHY.contains(&reason.code.as_str()))
}

/// What single requests lose without a reason, or what may be anything.
fn of_requests(look: &Look<'_>, of_cells: &[Look<'_>]) -> Option<Draft> {
    let draft = Draft::in_cell(Answer::NotHealthy, 0.0, look.cell);
    if let Some(lost) = unexplained::left(look) {
        return Some(
            lost.into_iter()
                .fold(draft, |draft, (figure, value)| draft.because(figure, value)),
        );
    }
    if let Some(share) = first_token::is_long(look).filter(|_| !across::is_prefill(look, of_cells))
    {
        return Some(draft.because(Known::TtftShare, share));
    }
    first_token::is_untold(look).then(|| draft.because(Known::InFlight, load::in_flight(look)))
}

/// Connections that the server drops under a request, which cost its user the time until it is asked again; and tokens that come several at a time, which
/// waited for each other somewhere.
fn of_cell(cell: &CellRecord) -> Option<Draft> {
    let draft = || Draft::in_cell(Answer::NotHealthy, 0.0, cell);
    let dropped = cell.counts.replaced_connections as f64 / cell.counts.completed as f64;
    if dropped > LEAST {
        return Some(draft().because(Known::ReplacedShare, dropped));
    }
    if let Some((usual, long)) = gaps_that_stay_long(cell) {
        let told = draft().because(Known::Itl, usual);
        return Some(told.because(Known::SlowDown, long / usual));
    }
    let gaps = cell
        .headline(Metric::Icl)
        .filter(|_| view::in_bundles(cell))?;
    let usual = gaps.quantile(0.5);
    Some(
        draft()
            .because(Known::Itl, usual)
            .because(Known::MeanGap, gaps.mean),
    )
}

/// The median gap between tokens and the ninth decile, where long ones follow each other for far longer than under one load: speed that comes and goes within
/// answers, of which the time of each tells little.
fn gaps_that_stay_long(cell: &CellRecord) -> Option<(f64, f64)> {
    const LONG: f64 = 1.35;
    /// Gaps that tell as much as one that is drawn by itself.
    const TOGETHER: f64 = 100.0;
    let has_one_load = matches!(cell.load, Load::Closed { ramp: None, .. });
    let gaps = cell.headline(Metric::Itl).filter(|_| has_one_load)?;
    let (usual, long) = (gaps.quantile(0.5)?, gaps.quantile(0.9)?);
    let together = gaps.n as f64 / gaps.effective_n?;
    (usual > 0.0 && long >= LONG * usual && together >= TOGETHER).then_some((usual, long))
}

/// Nothing costs users time; and where the limit lies, if a sweep shows it.
fn healthy(run: &RunRecord) -> Option<Finding> {
    let draft = Draft::new(Cause::Healthy, 0.0).refuted_by(Experiment::TwiceTheLoad);
    // of several series with as many levels, the one that ends with the highest throughput
    let end = |series: &[(f64, &CellRecord)]| {
        let end = series.last().and_then(|(_, cell)| view::throughput(cell));
        end.unwrap_or(0.0)
    };
    // A search goes beyond the limit on purpose, in stages too short to tell it, and has its own answer.
    let is_sweep = run.analysis.capacity.is_none();
    let found = view::load_series(&run.cells)
        .filter(|_| is_sweep)
        .and_then(|(factor, series)| {
            let longest = series.into_iter().max_by(|a, b| {
                let levels = a.len().cmp(&b.len());
                levels.then_with(|| end(a).total_cmp(&end(b)))
            });
            Some((factor, longest?))
        });
    let Some((factor, members)) = found else {
        let completed: u64 = run.cells.iter().map(|cell| cell.counts.completed).sum();
        return draft.because(Known::Completed, completed as f64).done();
    };
    // Nobody serves more than the users' share of it: one of the levels is of another speed.
    let (level, first) = members.first()?;
    let served = view::throughput(first)?;
    let is_beyond = |(more, cell): &(f64, &CellRecord)| {
        let share = served * more / level * crate::analysis::BEYOND;
        !cell.load.is_open() && view::throughput(cell).is_some_and(|now| now > share)
    };
    if let Some((level, cell)) = members.iter().find(|member| is_beyond(member)) {
        let mut at = draft::of_cell(Known::Level, *level, &cell.id);
        at.of = Some(factor.to_owned());
        let gained = view::throughput(cell)? / served;
        return Draft::in_cell(Answer::NotHealthy, 0.0, cell)
            .push(at)
            .because(Known::ScalingFactor, gained)
            .done();
    }
    // The first step that brought nearly nothing: the limit lies at its lower end.
    let limit = members.windows(2).find_map(|pair| {
        let (before, after) = (pair.first()?, pair.last()?);
        let gain = view::throughput(after.1)? / view::throughput(before.1)? - 1.0;
        let added = after.0 / before.0 - 1.0;
        (gain < 0.25 * added).then_some(*before)
    });
    let (figure, (level, cell)) = match limit {
        Some(at) => (Known::LimitLevel, at),
        None => (Known::HighestLevel, *members.last()?),
    };
    let mut evidence = draft::of_cell(figure, level, &cell.id);
    evidence.of = Some(factor.to_owned());
    let (throughput, unit) = match view::tokens_per_s(cell) {
        Some(tokens) => (Some(tokens), Unit::TokensPerS),
        None => (view::requests_per_s(cell), Unit::RequestsPerS),
    };
    draft
        .push(evidence)
        .in_unit(Known::Throughput, throughput, unit)
        .done()
}
