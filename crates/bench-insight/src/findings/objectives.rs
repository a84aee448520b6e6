//! Objectives: which are missed, by whom, and what is served within them.

use bench_schema::{
    Answer, CellRecord, Evidence, Experiment, Finding, Interval, Known, RunRecord, Slo, SloOutcome,
    SloVerdict,
};

use crate::draft::{Draft, of_cell};
use crate::text;
use crate::view;

pub(super) fn all(run: &RunRecord) -> Vec<Finding> {
    // The stages of a search miss on purpose; what they come to together is its answer.
    if run.analysis.capacity.is_some() {
        return Vec::new();
    }
    let judged = outcomes(run);
    let of = |verdict: SloVerdict| judged.iter().filter(move |(_, o)| o.verdict == verdict);
    let mut found: Vec<Finding> = along_the_load(run).into_iter().collect();
    let mut misses: Vec<Finding> = of(SloVerdict::Fail)
        .filter_map(|(cell, outcome)| missed(cell, outcome))
        .collect();
    misses.sort_by(|a, b| b.severity.total_cmp(&a.severity));
    found.extend(misses);
    let open: Vec<_> = of(SloVerdict::CannotTell).collect();
    if !open.is_empty() {
        found.extend(undecided(&open));
    }
    let passed: Vec<_> = of(SloVerdict::Pass).collect();
    if !passed.is_empty() {
        found.extend(met(run, &passed));
    }
    found
}

/// Every outcome with its cell, those of groups included.
fn outcomes(run: &RunRecord) -> Vec<(&str, &SloOutcome)> {
    let cells = run.cells.iter();
    cells
        .flat_map(|cell| {
            let own = objectives_of(cell).into_iter();
            own.map(|(_, outcome)| (cell.id.as_str(), outcome))
        })
        .collect()
}

/// The objectives of a cell, each once, with whom it is for: `all requests`, or a use case or category.
///
/// A scenario's objective for a use case is judged for the cell and again for its group: it is one objective.
pub fn objectives_of(cell: &CellRecord) -> Vec<(&str, &SloOutcome)> {
    let own = cell.slos.iter();
    let own = own.map(|o| (o.slo.use_case.as_deref().unwrap_or("all requests"), o));
    let of_groups = cell
        .groups
        .iter()
        .flat_map(|group| group.slos.iter().map(|o| (group.name.as_str(), o)));
    let mut all: Vec<(&str, &SloOutcome)> = Vec::new();
    for (whom, outcome) in own.chain(of_groups) {
        let mut known = all.iter();
        if !known.any(|(who, o)| *who == whom && same_objective(&o.slo, &outcome.slo)) {
            all.push((whom, outcome));
        }
    }
    all
}

/// Whether two objectives promise the same, to whomever.
pub(crate) fn same_objective(a: &Slo, b: &Slo) -> bool {
    a.metric == b.metric
        && (a.q - b.q).abs() < 1e-9
        && (a.limit - b.limit).abs() <= 1e-9 * a.limit.abs()
}

/// `P95 E2E`, with the use case where it is for one.
pub(crate) fn name(outcome: &SloOutcome) -> String {
    let slo = &outcome.slo;
    let whom = slo
        .use_case
        .as_ref()
        .map_or_else(String::new, |case| format!(" of {case}"));
    format!(
        "P{} {}{whom}",
        text::level(slo.q * 100.0),
        slo.metric.title()
    )
}

/// Up to which level of the load all objectives hold, and how the next level comes out. Nothing where there are no levels to compare, or where a
/// higher one holds than one that misses them.
fn along_the_load(run: &RunRecord) -> Option<Finding> {
    let (factor, series) =
        view::load_series(&run.cells).filter(|(f, _)| !view::DEVICE_FACTORS.contains(f))?;
    // Of several series each has its own limit.
    let [members] = series.as_slice() else {
        return None;
    };
    let judged: Vec<(f64, &CellRecord, SloVerdict)> = members
        .iter()
        .filter_map(|(level, cell)| Some((*level, *cell, of_all(cell)?)))
        .collect();
    let is = |verdict| move |of: &(f64, &CellRecord, SloVerdict)| of.2 == verdict;
    let (below, beyond) = judged.split_at(
        judged
            .iter()
            .position(is(SloVerdict::Fail))
            .unwrap_or(judged.len()),
    );
    if judged.len() < 2 || beyond.iter().any(is(SloVerdict::Pass)) {
        return None;
    }
    // A level below it that nobody can tell had too few requests.
    let n = below
        .iter()
        .rposition(is(SloVerdict::Pass))
        .map_or(0, |i| i + 1);
    let level = |figure: Known, (level, cell, _): &(f64, &CellRecord, SloVerdict)| Evidence {
        of: Some(factor.to_owned()),
        ..of_cell(figure, *level, &cell.id)
    };
    let draft = Draft::new(Answer::SloCapacity, 0.0);
    let open = below
        .iter()
        .take(n)
        .find(|of| is(SloVerdict::CannotTell)(of));
    let mut draft = match open {
        Some(open) => draft.push(level(Known::UndecidedBelow, open)),
        None => draft,
    };
    if let Some(highest) = n.checked_sub(1).and_then(|i| judged.get(i)) {
        draft = draft
            .push(level(Known::Level, highest))
            .because(Known::RequestRate, view::requests_per_s(highest.1));
    }
    if let Some(next) = judged.get(n) {
        let figure = match next.2 {
            SloVerdict::Fail => Known::MissedLevel,
            _ => Known::UndecidedLevel,
        };
        draft = draft.push(level(figure, next));
    }
    // of the lowest level that is open
    let first = judged.iter().find(|of| is(SloVerdict::CannotTell)(of));
    if let Some((_, cell, _)) = first {
        let judged = objectives_of(cell).into_iter();
        let times = judged.filter_map(|(_, outcome)| times_to_decide(outcome));
        draft = draft.because(Known::TimesAsMany, times.reduce(f64::max));
    }
    draft.refuted_by(Experiment::MoreRequests).done()
}

/// Whether all objectives of a cell hold: its worst verdict, and never that they do where its queue grows, since they will not for long.
fn of_all(cell: &CellRecord) -> Option<SloVerdict> {
    let verdicts: Vec<SloVerdict> = objectives_of(cell).iter().map(|(_, o)| o.verdict).collect();
    let is = |verdict| verdicts.contains(&verdict);
    let unsure = is(SloVerdict::CannotTell) || view::behind(cell).is_some();
    (!verdicts.is_empty()).then_some(match (is(SloVerdict::Fail), unsure) {
        (true, _) => SloVerdict::Fail,
        (_, true) => SloVerdict::CannotTell,
        _ => SloVerdict::Pass,
    })
}

/// What was measured and its limit, named after the objective.
fn numbers(cell: &str, outcome: &SloOutcome) -> Vec<Evidence> {
    let unit = outcome.slo.metric.unit();
    let made = |figure: Known, value: f64, unit| Evidence {
        cell: Some(cell.to_owned()),
        of: Some(name(outcome)),
        ..Evidence::new(figure.into(), value, unit)
    };
    let measured = outcome.measured.and_then(view::positive);
    let mut all: Vec<Evidence> = measured
        .map(|value| made(Known::Measured, value, unit))
        .into_iter()
        .collect();
    all.push(made(Known::Limit, outcome.slo.limit, unit));
    // of none the share says nothing
    if !is_unmeasured(outcome) {
        let share = bench_schema::Unit::Ratio;
        all.push(made(Known::Attainment, outcome.attainment, share));
    }
    let vacuous = view::positive(outcome.vacuous as f64);
    all.extend(vacuous.map(|n| made(Known::Vacuous, n, bench_schema::Unit::Count)));
    all
}

/// Whether no request was held against it, or no answer has what it limits: then nobody can tell, although each request meets it for want of the value.
pub fn is_unmeasured(outcome: &SloOutcome) -> bool {
    let interval = outcome.attainment_interval;
    let is_open = outcome.verdict == SloVerdict::CannotTell;
    // all were stopped before they had one
    let nobody = interval.high - interval.low >= 1.0 || (is_open && outcome.attainment <= 0.0);
    outcome.measured.is_none() && outcome.within.is_none() && (nobody || outcome.vacuous > 0)
}

/// One objective that is missed: it costs the requests that do not meet it.
fn missed(cell: &str, outcome: &SloOutcome) -> Option<Finding> {
    view::positive(outcome.slo.limit)?;
    let mut draft = Draft::new(Answer::SloMissed, 1.0 - outcome.attainment);
    for evidence in numbers(cell, outcome) {
        draft = draft.push(evidence);
    }
    let mut found = draft.refuted_by(Experiment::MoreRequests).done()?;
    found.cells = vec![cell.to_owned()];
    Some(found)
}

fn told(answer: Answer, outcomes: &[&(&str, &SloOutcome)]) -> Option<Finding> {
    let mut draft = Draft::new(answer, 0.0);
    for (cell, outcome) in outcomes {
        for evidence in numbers(cell, outcome) {
            draft = draft.push(evidence);
        }
    }
    let mut found = draft.refuted_by(Experiment::MoreRequests).done()?;
    found.cells = outcomes
        .iter()
        .map(|(cell, _)| (*cell).to_owned())
        .collect();
    found.cells.dedup();
    Some(found)
}

/// How many times the requests would decide an objective that nobody can tell, if the share that is within stays what it is, a tenth rounded up;
/// `None` where no number would, or nothing was measured.
pub fn times_to_decide(outcome: &SloOutcome) -> Option<f64> {
    if is_unmeasured(outcome) {
        return None;
    }
    let asked = outcome.slo.q;
    // of single gaps, where the objective is about those
    let (share, worth) = match &outcome.within {
        Some(within) => (within.value, within.effective),
        None => (outcome.attainment, worth(outcome)?),
    };
    let times = bench_metrics::values_to_decide(share, asked)? / worth;
    let is_open = outcome.verdict == SloVerdict::CannotTell && times.is_finite();
    is_open.then(|| ((times * 10.0).ceil() / 10.0).max(1.1))
}

/// How many independent values an attainment is worth, by its interval: that tells the share that so many refute.
fn worth(outcome: &SloOutcome) -> Option<f64> {
    worth_of(
        outcome.attainment,
        &outcome.attainment_interval,
        outcome.slo.q,
    )
}

fn worth_of(share: f64, interval: &Interval, asked: f64) -> Option<f64> {
    let bound = if share > asked {
        interval.low
    } else {
        interval.high
    };
    bench_metrics::values_to_decide(share, bound)
}

/// How many times as many values decide whether a share is at least what is asked: the less, the nearer it is to one of its ends.
pub(crate) fn times_of_a_share(share: f64, interval: &Interval, asked: f64) -> Option<f64> {
    let times = bench_metrics::values_to_decide(share, asked)? / worth_of(share, interval, asked)?;
    times.is_finite().then_some(times.max(1.0))
}

/// What the data cannot decide, between which ends it lies, and how many times as many requests would decide.
fn undecided(open: &[&(&str, &SloOutcome)]) -> Option<Finding> {
    let mut found = told(Answer::SloUndecided, open)?;
    for (cell, outcome) in open {
        let unit = outcome.slo.metric.unit();
        let ends = outcome.interval.map(|i| (i.low, i.high)).unzip();
        let count = bench_schema::Unit::Count;
        for (figure, value, unit) in [
            (Known::Low, ends.0, unit),
            (Known::High, ends.1, unit),
            (Known::TimesAsMany, times_to_decide(outcome), count),
        ] {
            found
                .evidence
                .extend(value.filter(|x| x.is_finite()).map(|value| Evidence {
                    of: Some(name(outcome)),
                    unit,
                    ..of_cell(figure, value, cell)
                }));
        }
    }
    Some(found)
}

/// What holds, and the highest rate of the cells in which everything holds.
fn met(run: &RunRecord, passed: &[&(&str, &SloOutcome)]) -> Option<Finding> {
    let mut found = told(Answer::SloMet, passed)?;
    let holds = |slos: &[SloOutcome]| slos.iter().all(|o| o.verdict == SloVerdict::Pass);
    let best = run
        .cells
        .iter()
        .filter(|cell| !cell.slos.is_empty() && holds(&cell.slos))
        .filter_map(|cell| Some((cell, view::requests_per_s(cell)?)))
        .max_by(|a, b| a.1.total_cmp(&b.1));
    if let Some((cell, rate)) = best {
        let rate = of_cell(Known::RequestRate, rate, &cell.id);
        found.evidence.insert(0, rate);
    }
    Some(found)
}

#[cfg(test)]
#[path = "../../tests/unit/findings_objectives.rs"]
mod tests;
