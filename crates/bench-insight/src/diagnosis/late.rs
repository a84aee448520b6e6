//! First tokens that take far longer than those of as long prompts.

use std::collections::BTreeMap;

use bench_schema::{Cause, Experiment, Finding, Known};

use super::fit::{median, squares, two_levels};
use super::look::Look;
use super::unexplained::{ALIKE, COSTS, FEWEST, OF_A_KIND, are_two_kinds};
use crate::draft::Draft;

/// Over the quick quarter's of as long prompts, a first token that is late.
const LATE: f64 = 3.0;

/// First tokens that take far longer than the quick quarter's of as long prompts.
pub(super) struct Late {
    /// Of the requests.
    pub(super) share: f64,
    pub(super) ratio: f64,
    /// Of the users' time, what is beyond the quick quarter's.
    pub(super) cost: f64,
    /// Whether they are those of one stretch of time.
    are_a_level: bool,
    /// Whether next to none is between them and the others, by how many times or by how much longer they take.
    pub(super) are_a_kind: bool,
    /// Whether they wait for nobody: next to all that they take longer is of those that come after a first token of a request that was sent later to the
    /// same endpoint. None of a queue that is served in turn does, and none of an endpoint that stands still.
    are_overtaken: bool,
}

/// A first token: when it was asked for and came, how long it took but for what it met of a stop, and how long the quick quarter's of as long prompts take.
struct First {
    endpoint: u32,
    sent: f64,
    came: f64,
    took: f64,
    quick: f64,
}

impl First {
    fn is_late(&self) -> bool {
        self.took > LATE * self.quick
    }
}

fn firsts(look: &Look<'_>) -> Vec<First> {
    let stops = &look.unprompted().time;
    let with_ttft = look.seen.iter().filter(|s| s.first.is_some());
    let firsts = with_ttft.zip(look.prefills()).filter_map(|(s, prefill)| {
        Some(First {
            endpoint: s.request.endpoint,
            sent: s.sent,
            came: s.first?,
            took: s.request.ttft? - stops.within(s.sent, s.first?),
            quick: prefill.quick,
        })
    });
    let mut firsts: Vec<First> = firsts.collect();
    firsts.sort_by(|a, b| a.sent.total_cmp(&b.sent));
    firsts
}

/// Those of a part of the requests: few are chance, and most are no kind of their own.
pub(super) fn late(look: &Look<'_>) -> Option<Late> {
    late_of(look, FEWEST, OF_A_KIND)
}

/// The same of so few that nobody knows what they are.
pub(super) fn of_few(look: &Look<'_>) -> Option<Late> {
    late_of(look, 10, 2)
}

fn late_of(look: &Look<'_>, fewest: usize, of_a_kind: usize) -> Option<Late> {
    const PART: std::ops::RangeInclusive<f64> = 0.03..=0.6;
    /// Of the variance of being late or not, what one change leaves of it.
    const LEFT: f64 = 0.3;
    let all = firsts(look);
    let late = all.iter().filter(|f| f.is_late()).map(|f| f.took / f.quick);
    let late: Vec<f64> = late.collect();
    let beyond = all.iter().map(|f| (f.took - ALIKE * f.quick).max(0.0));
    let kinds = all.iter().map(|f| f64::from(u8::from(f.is_late())));
    let kinds: Vec<f64> = kinds.collect();
    let two = two_levels(&kinds, 1);
    let found = Late {
        share: late.len() as f64 / all.len().max(1) as f64,
        cost: beyond.sum::<f64>() / look.taken(),
        ratio: median(late)?,
        are_a_level: two.is_some_and(|two| two.left <= LEFT * squares(kinds.iter().copied())),
        are_a_kind: are_of_two_kinds(&all, of_a_kind),
        are_overtaken: are_overtaken(&all),
    };
    (look.seen.len() >= fewest && PART.contains(&found.share)).then_some(found)
}

/// Late first tokens that cost something. Arrivals by chance wait for each other, but for no longer than those that come after them.
pub(super) fn late_and_costly(look: &Look<'_>) -> Option<Late> {
    let least = |late: &Late| if late.are_a_kind { super::LEAST } else { COSTS };
    let late = late(look).filter(|late| late.cost >= least(late))?;
    (!look.is_open() || late.are_overtaken).then_some(late)
}

/// Those that are a kind of their own, with next to none between them and the others, and that wait for nobody: many times as long as others, or for about as
/// much longer.
pub(super) fn late_kind(look: &Look<'_>) -> Option<Finding> {
    let late = late_and_costly(look)?;
    let is_told = late.are_a_kind && !late.are_a_level;
    is_told.then(|| late.finding(look))?
}

fn are_of_two_kinds(firsts: &[First], fewest: usize) -> bool {
    let usual = median(firsts.iter().map(|f| f.quick).collect()).unwrap_or(0.0);
    let apart = |longer: fn(&First, f64) -> f64| {
        are_two_kinds(firsts.iter().map(|f| longer(f, usual)).collect(), fewest)
    };
    apart(|f, _| f.took / f.quick) || apart(|f, usual| f.took - f.quick + usual)
}

fn are_overtaken(firsts: &[First]) -> bool {
    let mut soonest: BTreeMap<u32, f64> = BTreeMap::new();
    let (mut late, mut overtaken) = (0.0, 0.0);
    for first in firsts.iter().rev() {
        let soonest = soonest.entry(first.endpoint).or_insert(f64::INFINITY);
        if first.is_late() {
            let longer = first.took - first.quick;
            late += longer;
            overtaken += if *soonest < first.came { longer } else { 0.0 };
        }
        *soonest = soonest.min(first.came);
    }
    overtaken >= 0.9 * late
}

impl Late {
    /// Whether they are a kind of their own, or those of one stretch of time.
    pub(super) fn are_apart(&self) -> bool {
        self.are_a_level || self.are_a_kind
    }

    pub(super) fn finding(&self, look: &Look<'_>) -> Option<Finding> {
        Draft::in_cell(Cause::SlowRequests, self.cost, look.cell)
            .because(Known::LateShare, self.share)
            .because(Known::SlowRatio, self.ratio)
            .because(Known::SlowBeforeFirst, 1.0)
            .refuted_by(Experiment::WithServerMetrics)
            .done()
    }
}
