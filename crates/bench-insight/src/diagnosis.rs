//! Why users wait, by elimination: what lengths, arrivals, load, the client, failures and a slow start explain is taken out; what is
//! left is named, with what was ruled out; what follows from a cause is folded under it. `docs/insight.md` has each rule.

mod across;
mod first_token;
mod fit;
mod fold;
mod head_of_line;
mod healthy;
mod held_back;
mod late;
mod load;
mod look;
mod machines;
mod outcomes;
mod over_time;
mod pauses;
mod places;
mod prompts;
mod quiet;
mod rhythm;
mod spans;
mod speed;
mod stages;
mod stops;
mod unexplained;

use bench_schema::{
    Action, Advice, Cause, CellRecord, Evidence, Experiment, Finding, Known, Load, RunRecord, Unit,
};

use crate::advice;
use crate::samples::CellSamples;
use crate::signals::Signal;
use crate::view;
pub(crate) use across::moves_as_much;
pub(crate) use fit::{median, quantile};
use fold::{
    CUT_OFF, LEVELS, OF_OTHERS, PREFILL, SLOWER, STANDSTILL, UNEXPLAINED, WAITING, fold, fold_by,
};
pub(crate) use load::gap;
use look::Look;
pub(crate) use machines::is_local;
pub(crate) use prompts::Prompts;
use quiet::Quiet;
pub(crate) use spans::Cover;
use speed::Change;
pub(crate) use stages::{SpeedChange, StageSamples, change, swing};
pub(crate) use stops::Stops;

/// Share of the users' time, or of the requests, below which a cause costs nobody anything.
const LEAST: f64 = 0.03;
/// Of what a starved server costs, the part from which on a limited client is told beside it.
const AS_MUCH: f64 = 0.8;

/// The causes, the costliest first; that the run is healthy, where nothing was found and single requests were looked at.
pub(crate) fn causes(run: &RunRecord, samples: &[CellSamples]) -> Vec<Finding> {
    let mut all = of_every_repeat(run, samples);
    let moved = speed::of_cells(&all);
    let change = |i: usize| {
        let own = moved.iter().find(|(members, _)| members.contains(&i));
        own.map(|(_, change)| change)
    };
    for (i, look) in all.iter_mut().enumerate() {
        if let Some(change) = change(i) {
            (look.slowed, look.changed) = change.within(look);
        }
    }
    let (looks, _) = all.split_at(run.cells.len());
    // of the cells in which nothing was found
    let mut pooled = Vec::new();
    let mut found: Vec<Finding> = Vec::new();
    for cell in &run.cells {
        let own = of_repeats(of_each_repeat(cell, &all, looks, change));
        if own.iter().all(|f| f.cause() == Some(Cause::PrefixCache)) {
            let look = of_all_repeats(run, cell, samples);
            let untold = look.iter().flat_map(unexplained::all);
            found.extend(untold.filter(|f| f.severity >= least(f)));
            pooled.extend(look);
        }
        found.extend(own);
    }
    across::tell_prefill(looks, &mut found);
    found.extend(load::gpu(&run.cells));
    across::add_to(&mut found, looks);
    found.extend(outcomes::over_cells(looks, &found));
    // Where the server was kept from its CPU, a shared machine kept the client from its too: that is no cause of its own, unless it is as much.
    let starved = found
        .iter()
        .filter(|f| f.cause() == Some(Cause::ServerStarved))
        .map(|f| f.severity)
        .fold(0.0, f64::max);
    found.extend(machines::client_limited(run).filter(|f| f.severity >= AS_MUCH * starved));
    let mut found = fold(merge(of_one_job(found)));
    give_way(&mut found, |slow, by| may_be_of_another_cell(run, slow, by));
    found.retain(|f| f.severity >= least(f));
    found.sort_by(|a, b| {
        b.severity
            .total_cmp(&a.severity)
            .then_with(|| a.code.cmp(&b.code))
    });
    advise(&mut found, run, looks);
    if found.iter().all(|f| f.cause() == Some(Cause::PrefixCache)) {
        found.extend(healthy::told(run, &all, &pooled));
    }
    found
}

/// The cells in whose warm-ups the server stopped, so that those that were measured still waited for it, and for how long it did, in ns.
pub(crate) fn stops_in_warm_ups(run: &RunRecord, samples: &[CellSamples]) -> Vec<(String, f64)> {
    let all = of_every_repeat(run, samples);
    let stop = |look: &Look<'_>| {
        let found = over_time::in_warm_up(look, &all)?;
        Some((
            look.cell.id.clone(),
            found.figure(&Known::StallLength.into())?,
        ))
    };
    all.iter().filter_map(stop).collect()
}

/// Each cell as its repeat with the most requests shows it, in the order of the cells; then their other repeats.
fn of_every_repeat<'a>(run: &'a RunRecord, samples: &'a [CellSamples]) -> Vec<Look<'a>> {
    let of = |cell: &CellRecord| samples.iter().find(|s| s.cell == cell.id);
    let fullest = run.cells.iter().map(|cell| Look::of(run, cell, of(cell)));
    let others = run.cells.iter().filter_map(|cell| Some((cell, of(cell)?)));
    let others = others.flat_map(|(cell, own)| {
        let others = own.repeats().into_iter().skip(1);
        others.map(move |repeat| Look::of_repeat(run, cell, own, Some(repeat)))
    });
    let lowest = quiet::lowest_levels(&run.cells);
    let mut all: Vec<Look<'a>> = fullest.chain(others).collect();
    for look in &mut all {
        look.lowest = lowest.get(look.cell.id.as_str()).copied();
    }
    all
}

/// The repeats of a cell of several as one: what a few requests in each do not tell.
fn of_all_repeats<'a>(
    run: &'a RunRecord,
    cell: &'a CellRecord,
    samples: &'a [CellSamples],
) -> Option<Look<'a>> {
    let own = samples.iter().find(|own| own.cell == cell.id)?;
    (own.repeats().len() > 1).then(|| Look::of_repeat(run, cell, own, None))
}

/// What is found in each repeat of a cell, with its times from the cell's first request.
fn of_each_repeat<'a>(
    cell: &CellRecord,
    all: &[Look<'_>],
    looks: &[Look<'_>],
    change: impl Fn(usize) -> Option<&'a Change>,
) -> Vec<Vec<Finding>> {
    let own = || {
        all.iter()
            .enumerate()
            .filter(|(_, look)| std::ptr::eq(look.cell, cell))
    };
    let began = own().map(|(_, look)| look.epoch).min();
    let found = own().map(|(i, look)| {
        let mut found = of_cell_alone(look, looks, change(i));
        let later = began.map_or(0.0, |began| (look.epoch - began).as_f64());
        // The times of a change are from the first request already.
        let rest = found
            .iter_mut()
            .filter(|f| change(i).is_none() || !is_of(f, LEVELS));
        let evidence = rest.flat_map(|f| &mut f.evidence);
        for at in evidence.filter(|e| e.figure == Known::At.into()) {
            at.value += later;
        }
        found
    });
    found.collect()
}

/// What the repeats of a cell show, as a finding for each cause: that of the repeat in which it costs most, at what it costs over all of them.
fn of_repeats(mut repeats: Vec<Vec<Finding>>) -> Vec<Finding> {
    let n = repeats.len();
    let share = 1.0 / n as f64;
    // A load that is too high is so each time; what makes it so in some of them is told by the rest, or is the server's speed.
    let is_overload = |f: &Finding| f.cause() == Some(Cause::Overload);
    let over = repeats.iter().filter(|own| own.iter().any(is_overload));
    let over = over.count();
    let moved = repeats.iter().flatten().any(|f| is_of(f, LEVELS));
    if n > 1 && (over * 2 <= n || moved && over < n) {
        for own in &mut repeats {
            own.retain(|f| !is_overload(f));
        }
    }
    let each = repeats.into_iter().map(fold);
    if n == 1 {
        return each.flatten().collect();
    }
    let mut each: Vec<Finding> = each.flat_map(merge).collect();
    each.sort_by(|a, b| b.severity.total_cmp(&a.severity));
    let stalls = |f: &Finding| f.figure(&Known::Stalls.into()).unwrap_or(1.0);
    let mut kept: Vec<Finding> = Vec::new();
    for mut finding in each {
        finding.severity *= share;
        let Some(own) = kept.iter_mut().find(|own| own.code == finding.code) else {
            kept.push(finding);
            continue;
        };
        own.severity += finding.severity;
        if own.cause() == Some(Cause::Frozen) {
            let both = stalls(own) + stalls(&finding);
            own.evidence.retain(|e| e.figure != Known::Stalls.into());
            own.evidence
                .push(Evidence::new(Known::Stalls.into(), both, Unit::Count));
        }
        take_over(own, finding.consequences);
    }
    give_way(&mut kept, |_, named| named.cause() != Some(Cause::Failing));
    kept
}

/// What nothing explains in one cell or repeat may be what costs as much in another.
fn give_way(found: &mut Vec<Finding>, explains: impl Fn(&Finding, &Finding) -> bool) {
    let (mut unexplained, named): (Vec<_>, Vec<_>) =
        found.drain(..).partition(|f| is_of(f, UNEXPLAINED));
    unexplained.retain(|f| {
        let explained = |by: &Finding| by.severity >= f.severity && explains(f, by);
        !named.iter().any(explained)
    });
    found.extend(named.into_iter().chain(unexplained));
}

/// Whether slow requests of one cell may be what was found in another: those of the replica that is slow there, beside the long prompts that delay others there, or
/// of the queue there.
fn may_be_of_another_cell(run: &RunRecord, slow: &Finding, by: &Finding) -> bool {
    let unnamed = advice::is_unnamed(slow);
    let late = slow.figure(&Known::LateShare.into()).is_some();
    let explains = match by.cause() {
        Some(Cause::SlowReplica) => unnamed,
        Some(Cause::HeadOfLine) => unnamed || late,
        Some(Cause::Queueing) => unnamed && is_of_queue(run, slow, by),
        _ => false,
    };
    explains && slow.cause() == Some(Cause::SlowRequests)
}

/// Whether requests that wait for their first tokens in a closed loop do so for the places that others queue for in another: by Little's law the part of these
/// slots that does not wait is how many places there are, and that loop has more slots than that.
fn is_of_queue(run: &RunRecord, slow: &Finding, queue: &Finding) -> bool {
    let slots = |f: &Finding| match run.cell(f.cells.first()?)?.load {
        Load::Closed { concurrency, .. } => Some(f64::from(concurrency)),
        Load::Open { .. } => None,
    };
    let waits = slow.figure(&Known::SlowBeforeFirst.into());
    let both = slots(slow).zip(slots(queue));
    waits.is_some_and(|part| part >= unexplained::OF_WAITING)
        && both.is_some_and(|(own, of_queue)| own > of_queue * (1.0 - queue.severity))
}

/// What to do about each, but for what was done or cannot help.
fn advise(found: &mut [Finding], run: &RunRecord, looks: &[Look<'_>]) {
    // Prompts that all begin with a word of their own have no beginning that could be kept.
    let differ = crate::conclude::prompts_differ(run);
    let metrics = |cell: &CellRecord| Signal::Running.of(cell).is_some();
    let metrics_were_read = run.cells.iter().any(metrics);
    let mut tried: Vec<(Action, Vec<String>)> = Vec::new();
    for finding in found {
        finding.advice = advice::of(finding, &run.server);
        // what costs less asks for the opposite in vain
        finding.advice.retain(|advice| {
            let undoes = |(action, cells): &(Action, Vec<String>)| {
                advice::are_opposite(*action, advice.action)
                    && finding.cells.iter().any(|cell| cells.contains(cell))
            };
            !tried.iter().any(undoes)
        });
        let actions = finding.advice.iter().map(|advice| advice.action);
        tried.extend(actions.map(|action| (action, finding.cells.clone())));
        let mut own = looks
            .iter()
            .filter(|look| finding.cells.contains(&look.cell.id));
        // who waits while all that were sent run waits for no place
        let is_free = |look: &Look<'_>| {
            first_token::is_below_its_limit(look) || first_token::nobody_is_held(look)
        };
        let below = finding.cause() == Some(Cause::Queueing) && own.all(is_free);
        if below || load::gpu_is_full(run, finding) {
            let more = |advice: &Advice| advice.action == Action::RunMoreAtOnce;
            finding.advice.retain(|advice| !more(advice));
        }
        if metrics_were_read {
            without_reading_again(finding);
        }
        if differ {
            let of_beginnings = |advice: &Advice| advice.action == Action::CachePrefixes;
            finding.advice.retain(|advice| !of_beginnings(advice));
        }
        if finding.cause() == Some(Cause::DecodeSlowsWithLoad) && load::serves_more(run, finding) {
            finding.advice.clear();
        }
    }
}

/// Leaves out that the server's metrics should be read, where they were.
fn without_reading_again(finding: &mut Finding) {
    let again = |advice: &Advice| advice.action == Action::ReadServerMetrics;
    finding.advice.retain(|advice| !again(advice));
    if finding.refute == Some(Experiment::WithServerMetrics) {
        finding.refute = Some(match finding.cause() {
            Some(Cause::Queueing) => Experiment::HigherLimit,
            Some(Cause::WaitingOrPrefill) => Experiment::OneAtATime,
            _ => Experiment::AgainWithLog,
        });
    }
}

/// Share of the users' time from which on a level that moved makes a cell's rates those of no server.
pub(crate) const MIXED: f64 = 0.05;

/// The causes after which a cell's figures are means over servers of different speed, or over one that queues and one that does not, or one of whose replicas became slower.
pub(crate) fn of_two_levels(found: &[Finding]) -> impl Iterator<Item = &Finding> {
    let has = |f: &Finding, figure: Known| f.figure(&figure.into()).is_some();
    let of_a_part = move |f: &Finding| match f.cause() {
        Some(Cause::Queueing) => has(f, Known::Lasted),
        Some(Cause::SlowReplica) => has(f, Known::At),
        _ => is_of(f, LEVELS),
    };
    let found = found.iter().filter(|f| f.severity > MIXED);
    found.filter(move |f| of_a_part(f))
}

/// Whether a server does not keep up with what it is offered, whatever makes it slow: what stops, goes or moves has its own reasons of trust.
pub(crate) fn is_overload(finding: &Finding) -> bool {
    let slow = [Cause::SlowReplica, Cause::ServerStarved];
    let folded = finding.consequences.contains(&Cause::Overload) && is_of(finding, &slow);
    folded || finding.cause() == Some(Cause::Overload)
}

/// Whether nothing can be held against a cell: its figures are means over servers of different speed, one that stood still or was away among them.
pub(crate) fn is_no_base(found: &[Finding], cell: &str) -> bool {
    let still = [Cause::Frozen, Cause::ServerGone];
    let stood = found.iter();
    let stood = stood.filter(|f| f.severity > MIXED && is_of(f, &still));
    let mut all = of_two_levels(found).chain(stood);
    all.any(|f| f.cells.iter().any(|own| own == cell))
}

/// Whether the level of a cell that a finding is about moved, whatever that costs: then it tells of time what it seems to tell of lengths.
pub(crate) fn of_moving_levels(found: &[Finding], about: &Finding) -> bool {
    let own = about.evidence.iter().filter_map(|e| e.cell.as_ref());
    let own: Vec<&String> = about.cells.iter().chain(own).collect();
    let mut moved = found.iter().filter(|f| is_of(f, LEVELS));
    moved.any(|f| own.is_empty() || f.cells.iter().any(|cell| own.contains(&cell)))
}

/// Whether what is said of a cell's rates is of such a cell.
pub(crate) fn mixes_levels(found: &[Finding], about: &Finding) -> bool {
    of_two_levels(found).any(|f| f.cells.iter().any(|cell| about.cells.contains(cell)))
}

fn of_cell_alone(look: &Look<'_>, all: &[Look<'_>], change: Option<&Change>) -> Vec<Finding> {
    let quiet = Quiet::of(look, all);
    let mut found = outcomes::all(look);
    found.extend(
        [
            load::overload(look),
            held_back::held_back(look),
            first_token::waiting_or_prefill(look, quiet.as_ref()),
            load::decode_slows(look, quiet.as_ref()),
            head_of_line::head_of_line(look, unexplained::COSTS),
            pauses::interrupted(look),
            first_token::prefix_cache(look),
            machines::server_starved(look.run, look.cell),
            machines::slow_replica(look),
            over_time::stop(look, all, change),
            speed::told(look, change),
            load::memory(look.cell),
            load::gpu_throttled(look.cell),
        ]
        .into_iter()
        .flatten(),
    );
    found.retain(|f| f.severity >= least(f));
    found = without_turns(look, change, found);
    found = as_seen(look, change, found);
    if let Some(idle) = unexplained::after_idle(look) {
        found = under_idle(idle, found);
    }
    // Requests that fail make no others slow.
    let only_fails = |f: &Finding| f.cause() == Some(Cause::Failing);
    if found.iter().all(only_fails) {
        found.extend(unexplained::all(look));
    } else if found.iter().all(|f| is_of(f, LEVELS)) {
        // A level that moves does not make answers stand still.
        found.extend(pauses::pauses(look));
    } else if found.iter().all(|f| is_of(f, STANDSTILL)) {
        // Nor does what stops all stop some of them, or for far longer.
        let stood: f64 = found.iter().map(|f| f.severity).sum();
        found.extend(pauses::pauses_beside(look, stood));
    }
    // Slow requests whose connection had been closed say so themselves.
    let told = |f: &Finding| f.figure(&Known::SlowReplaced.into()).is_some();
    if !found.iter().any(told) {
        // What passes before the first token while nobody waits in the server lies in what it does for each.
        let untold = |f: &Finding| f.cause() == Some(Cause::WaitingOrPrefill);
        let untold = found.iter().all(untold) && first_token::nobody_waits(look);
        let pays = outcomes::new_connections(look, found.is_empty() || untold);
        if let Some(mut pays) = pays.filter(|f| f.severity >= least(f)) {
            if untold && pays.figure(&Known::TtftShare.into()).is_some() {
                for other in found.drain(..) {
                    pays.severity = pays.severity.max(other.severity);
                    pays.consequences.extend(other.cause());
                }
            }
            found.push(pays);
        }
    }
    let queues = |f: &&mut Finding| f.cause() == Some(Cause::Queueing);
    for queue in found.iter_mut().filter(queues) {
        queue.evidence.extend(first_token::queued_for(look));
    }
    found
}

/// Leaves out a change that costs less than waiting, and that whole answers tell and not their tokens, in a closed loop or while arrivals come and go: whoever waits
/// now more and now less is answered at one speed.
fn without_turns(look: &Look<'_>, change: Option<&Change>, found: Vec<Finding>) -> Vec<Finding> {
    /// Times what the queue costs, that it makes of whole answers.
    const STARTS: f64 = 1.2;
    let comes_and_goes = !look.is_open() || look.load_moves();
    let waits = |causes: &[Cause]| {
        let own = found.iter().filter(|f| is_of(f, causes));
        own.map(|f| f.severity).fold(0.0, f64::max)
    };
    let (queues, waits) = (waits(&[Cause::Queueing]), waits(WAITING));
    if !comes_and_goes || !speed::is_of_whole(look, change) {
        return found;
    }
    // what nobody knows to be a queue may be another level from one moment on
    let returns = |f: &Finding| {
        f.figure(&Known::At.into()).is_none() || f.figure(&Known::Lasted.into()).is_some()
    };
    let most = |f: &Finding| if returns(f) { waits } else { queues };
    let is_of_it = |f: &Finding| is_of(f, &[Cause::Step, Cause::Drift]) && f.severity <= most(f);
    // Who waits for a place at first waits in a queue that goes away; a server that is slow then is slow in its tokens too.
    let counted = look.places().is_some() || first_token::queue_is_told(look);
    let starts_so = |f: &Finding| {
        counted && f.cause() == Some(Cause::ColdStart) && f.severity <= STARTS * queues
    };
    let is_of_it = |f: &Finding| is_of_it(f) || starts_so(f);
    found.into_iter().filter(|f| !is_of_it(f)).collect()
}

/// Folds what follows from a cause only where its cell shows more than the cause.
fn as_seen(look: &Look<'_>, change: Option<&Change>, mut found: Vec<Finding>) -> Vec<Finding> {
    // A batch that grows makes its tokens slower little by little, and more and more are in flight.
    let at_once =
        |f: &Finding| f.cause() == Some(Cause::Step) && f.figure(&Known::At.into()).is_some();
    let nobody_waits = || !first_token::waits_at_last(look) && load::has_settled(look);
    if load::is_of_time_limit(look) {
        found = fold_by(CUT_OFF, found);
    }
    if change.is_some() && found.iter().any(at_once) && nobody_waits() {
        found = fold_by(SLOWER, found);
    }
    if view::other_clients(look.run, look.cell).is_some() {
        found = fold_by(OF_OTHERS, found);
    }
    found
}

/// What a server that sleeps while nobody asks makes of a cell: first tokens that look like a queue, a stop of all, or held back.
fn under_idle(mut idle: Finding, found: Vec<Finding>) -> Vec<Finding> {
    let mut kept = Vec::new();
    for finding in found {
        let cause = finding.cause().filter(|cause| {
            let looks_so = [WAITING, STANDSTILL, PREFILL, &[Cause::HeldBack]]
                .iter()
                .any(|of| of.contains(cause));
            looks_so && finding.severity <= 2.5 * idle.severity
        });
        match cause {
            Some(cause) => idle.consequences.push(cause),
            None => kept.push(finding),
        }
    }
    kept.push(idle);
    kept
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

/// What stops all every so often in some cells stops them as long in others, where it came too seldom to show its period.
fn of_one_job(mut found: Vec<Finding>) -> Vec<Finding> {
    const ALIKE: f64 = 1.25;
    let length = |f: &Finding| f.figure(&Known::StallLength.into()).filter(|ns| *ns > 0.0);
    let is_periodic = |f: &&Finding| f.cause() == Some(Cause::PeriodicStall);
    let periodic = found.iter().filter(is_periodic);
    let periodic = periodic.max_by(|a, b| a.severity.total_cmp(&b.severity));
    let Some(periodic) = periodic.cloned() else {
        return found;
    };
    for other in found
        .iter_mut()
        .filter(|f| f.cause() == Some(Cause::Frozen))
    {
        let both = length(other).zip(length(&periodic));
        if both.is_some_and(|(a, b)| a.max(b) <= ALIKE * a.min(b)) {
            // The costliest of a cause is the one that is told, and its period is not known here.
            *other = Finding {
                severity: other.severity.min(periodic.severity),
                cells: std::mem::take(&mut other.cells),
                ..periodic.clone()
            };
        }
    }
    found
}

/// Whether its cause is one of these.
fn is_of(finding: &Finding, causes: &[Cause]) -> bool {
    finding.cause().is_some_and(|cause| causes.contains(&cause))
}

/// Tells what follows from another finding of the same cause with it, each once.
fn take_over(own: &mut Finding, more: Vec<Cause>) {
    own.consequences.extend(more);
    own.consequences.sort_unstable();
    own.consequences.dedup();
}

/// One finding for each cause: that of the cell in which it costs most, about all cells in which it was found.
fn merge(mut found: Vec<Finding>) -> Vec<Finding> {
    found.sort_by(|a, b| b.severity.total_cmp(&a.severity));
    let mut kept: Vec<Finding> = Vec::new();
    for finding in found {
        match kept.iter_mut().find(|k| k.code == finding.code) {
            Some(worst) => {
                let is_new = |cell: &String| !worst.cells.contains(cell);
                let new: Vec<String> = finding.cells.into_iter().filter(is_new).collect();
                worst.cells.extend(new);
                take_over(worst, finding.consequences);
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

#[cfg(test)]
#[path = "../tests/unit/diagnosis_repeats.rs"]
mod repeats_tests;
