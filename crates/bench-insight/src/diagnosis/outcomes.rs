//! Requests that got no whole answer: refused by a limit, failed, or sent to a server that was not there.

use std::collections::BTreeMap;

use bench_schema::{
    Cause, CellRecord, Evidence, Experiment, FailureKind, Finding, Known, Stage, Unit,
};

use super::look::Look;
use crate::draft::Draft;
use crate::samples::{Lost, LostSample};

/// Share of the planned requests that must be lost.
const LEAST: f64 = 0.01;
/// Lost requests below which it may be chance.
const FEWEST: u64 = 2;

/// Everything that the outcomes of a cell name.
pub(super) fn all(look: &Look<'_>) -> Vec<Finding> {
    if look.lost.is_empty() {
        return of_counts(look.cell).into_iter().collect();
    }
    let sent: Vec<&LostSample> = look
        .lost
        .iter()
        .copied()
        .filter(|lost| lost.how != Lost::Unsent)
        .collect();
    let limited = |lost: &LostSample| lost.status == Some(429);
    let refused = sent.iter().filter(|lost| limited(lost)).count();
    let gone = Spell::longest(look);
    let failed = sent.iter().filter(|lost| {
        !limited(lost) && !gone.as_ref().is_some_and(|spell| spell.holds(look, lost))
    });
    let failed: Vec<&LostSample> = failed.copied().collect();
    [
        gone.as_ref().and_then(|spell| spell.finding(look)),
        rate_limited(look.cell, refused as u64),
        failing(look, &failed),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn share(cell: &CellRecord, lost: u64) -> Option<f64> {
    let planned = cell.counts.planned.max(lost).max(1);
    let share = lost as f64 / planned as f64;
    (share >= LEAST && lost >= FEWEST).then_some(share)
}

fn rate_limited(cell: &CellRecord, refused: u64) -> Option<Finding> {
    let share = share(cell, refused)?;
    Draft::in_cell(Cause::RateLimited, share, cell)
        .because(Known::Failed, refused as f64, Unit::Count)
        .because(Known::FailedShare, share, Unit::Ratio)
        .because(Known::Status, 429.0, Unit::Count)
        .refuted_by(Experiment::BelowTheLimit)
        .done()
}

/// `status at headers`, with the HTTP status where there was one.
fn words(lost: &LostSample) -> String {
    let what = match lost.how {
        Lost::Failed(stage, kind) => format!("{kind} at {stage}"),
        Lost::TimedOut => "timed out".to_owned(),
        Lost::Truncated => "truncated".to_owned(),
        Lost::Unsent => "unsent".to_owned(),
    };
    match lost.status.filter(|status| *status >= 400) {
        Some(status) => format!("{what}, HTTP {status}"),
        None => what,
    }
}

fn failing(look: &Look<'_>, lost: &[&LostSample]) -> Option<Finding> {
    let share = share(look.cell, lost.len() as u64)?;
    // Of several endpoints the one that lost them all.
    let urls = &look.run.server.urls;
    let first = lost.first()?.endpoint;
    let one = urls.len() > 1 && lost.iter().all(|lost| lost.endpoint == first);
    let at = usize::try_from(first).ok().and_then(|at| urls.get(at));
    let at = at
        .filter(|_| one)
        .map_or_else(String::new, |url| format!(", all at {url}"));
    let mut kinds: BTreeMap<String, u64> = BTreeMap::new();
    for lost in lost {
        *kinds.entry(words(lost) + &at).or_default() += 1;
    }
    failing_of(look.cell, share, lost.len() as u64, kinds)
}

fn failing_of(
    cell: &CellRecord,
    share: f64,
    lost: u64,
    kinds: BTreeMap<String, u64>,
) -> Option<Finding> {
    let mut kinds: Vec<(String, u64)> = kinds.into_iter().collect();
    kinds.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    let mut draft = Draft::in_cell(Cause::Failing, share, cell)
        .because(Known::FailedShare, share, Unit::Ratio)
        .because(Known::Failed, lost as f64, Unit::Count);
    for (kind, n) in kinds.into_iter().take(3) {
        draft = draft.push(Evidence {
            of: Some(kind),
            ..Evidence::new(Known::Failed.into(), n as f64, Unit::Count)
        });
    }
    draft.refuted_by(Experiment::AgainWithLog).done()
}

/// The same from counts alone.
fn of_counts(cell: &CellRecord) -> Option<Finding> {
    let counts = &cell.counts;
    let lost = counts.failed + counts.timed_out + counts.truncated;
    let share = share(cell, lost)?;
    let mut kinds: BTreeMap<String, u64> = BTreeMap::new();
    for (stage, kind, n) in &counts.failures {
        *kinds.entry(format!("{kind} at {stage}")).or_default() += n;
    }
    for (stage, n) in &counts.timeouts {
        *kinds.entry(format!("timed out at {stage}")).or_default() += n;
    }
    if counts.truncated > 0 {
        kinds.insert("truncated".to_owned(), counts.truncated);
    }
    failing_of(cell, share, lost, kinds)
}

/// A stretch in which nothing was answered and connections were refused.
struct Spell {
    from: f64,
    to: f64,
    lost: u64,
    /// Whether anything was answered after it.
    came_back: bool,
}

impl Spell {
    fn longest(look: &Look<'_>) -> Option<Self> {
        let mut order: Vec<(f64, Option<&LostSample>)> = look
            .seen
            .iter()
            .map(|seen| (seen.from, None))
            .chain(
                look.lost
                    .iter()
                    .map(|lost| (look.ns(lost.due), Some(*lost))),
            )
            .collect();
        order.sort_by(|a, b| a.0.total_cmp(&b.0));
        let runs = order.split(|(_, lost)| lost.is_none_or(|lost| lost.how == Lost::Unsent));
        let best = runs
            .filter_map(|run| Self::of_run(look, run))
            .max_by(|a, b| (a.to - a.from).total_cmp(&(b.to - b.from)))?;
        let came_back = look.seen.iter().any(|seen| seen.sent >= best.to);
        Some(Self { came_back, ..best })
    }

    fn of_run(look: &Look<'_>, run: &[(f64, Option<&LostSample>)]) -> Option<Self> {
        let refusals = run
            .iter()
            .filter(|(_, lost)| lost.is_some_and(is_refusal))
            .count();
        if refusals < 3 {
            return None;
        }
        // It went when the first of them broke off, and was back when one was sent that it answered.
        let ends = || {
            run.iter()
                .filter_map(|(_, lost)| lost.map(|l| look.ns(l.end)))
        };
        let from = ends().fold(f64::INFINITY, f64::min);
        let last = ends().fold(from, f64::max);
        let answered = look.seen.iter().map(|seen| seen.sent);
        let to = answered
            .filter(|sent| *sent > last)
            .fold(f64::INFINITY, f64::min);
        let to = if to.is_finite() { to } else { last };
        Some(Self {
            from,
            to,
            lost: run.len() as u64,
            came_back: true,
        })
    }

    /// Whether a lost request belongs to it: it was under way when the server went, or was sent while it was away.
    fn holds(&self, look: &Look<'_>, lost: &LostSample) -> bool {
        let (due, end) = (look.ns(lost.due), look.ns(lost.end));
        due <= self.to && end >= self.from
    }

    fn finding(&self, look: &Look<'_>) -> Option<Finding> {
        let held = look
            .lost
            .iter()
            .filter(|lost| self.holds(look, lost))
            .count();
        let lost = self.lost.max(held as u64);
        let share = lost as f64 / look.cell.counts.planned.max(lost).max(1) as f64;
        Draft::in_cell(Cause::ServerGone, share, look.cell)
            .because(Known::At, self.from, Unit::Ns)
            .because_some(
                Known::Lasted,
                self.came_back.then_some(self.to - self.from),
                Unit::Ns,
            )
            .because(Known::Failed, lost as f64, Unit::Count)
            .because(Known::FailedShare, share, Unit::Ratio)
            .refuted_by(Experiment::AgainWithLog)
            .done()
    }
}

/// Whether nobody was there to answer.
fn is_refusal(lost: &LostSample) -> bool {
    matches!(
        lost.how,
        Lost::Failed(Stage::Connect, _)
            | Lost::Failed(_, FailureKind::Refused | FailureKind::Unreachable)
    )
}
