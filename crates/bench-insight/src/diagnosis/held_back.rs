//! First tokens that come long after the server made them.

use bench_schema::{Cause, Experiment, Finding, Known};

use super::first_token::{FEWEST, Start, WAITING};
use super::fit::median;
use super::late;
use super::look::Look;
use crate::RequestSample;
use crate::draft::Draft;
use crate::view;

/// Content events at one moment; fewer may share a step of the server's.
const SEVERAL: u32 = 8;

/// First tokens that the server made long before they arrived: by its own count, or because no model makes a whole answer at one moment.
pub(super) fn held_back(look: &Look<'_>) -> Option<Finding> {
    let start = Start::of(look)?;
    let told = crate::server_phases::held_back(look.cell);
    // What its scheduler does not count may be its own as well: of some requests, or for a time, it is told as that.
    let of_server = told.is_some_and(|(figure, _)| figure == Known::ScheduledTtft);
    if of_server && late::late(look).is_some_and(|late| late.are_apart()) {
        return None;
    }
    let bundles = Bundles::of(look).filter(|_| told.is_none());
    let kept = match (told, &bundles) {
        (Some((_, own)), _) => start.ttft - own,
        // half of the time to the next bundle, at the mean
        (
            None,
            Some(Bundles {
                every: Some(every), ..
            }),
        ) => every / 2.0,
        (
            None,
            Some(Bundles {
                held: Some(held), ..
            }),
        ) => *held,
        // Of tokens that take about the same time each.
        (None, Some(bundles)) => start.ttft * (1.0 - 1.0 / bundles.events),
        (None, None) => return None,
    };
    let cost = kept / start.e2e;
    (cost >= WAITING).then_some(())?;
    let part = late::late(look).filter(|_| told.is_some());
    Draft::in_cell(Cause::HeldBack, cost, look.cell)
        .because(Known::LateShare, part.map(|late| late.share))
        .because(Known::Ttft, start.ttft)
        .because(
            told.map_or(Known::ServerTtft, |told| told.0),
            told.map(|told| told.1),
        )
        .because(Known::EventsAtOnce, bundles.as_ref().map(|of| of.events))
        .because(Known::StallPeriod, bundles.as_ref().and_then(|of| of.every))
        .because(Known::Lasted, bundles.and_then(|of| of.held))
        .because(Known::TtftShare, start.ttft / start.e2e)
        .refuted_by(Experiment::BesideTheServer)
        .done()
}

/// Content events that come at one moment: more than a step of the server's makes.
#[derive(Default)]
struct Bundles {
    events: f64,
    /// From one moment to the next, where most tokens come so.
    every: Option<f64>,
    /// Where only the first do, how long these take one by one.
    held: Option<f64>,
}

impl Bundles {
    fn of(look: &Look<'_>) -> Option<Self> {
        Self::whole(look).or_else(|| {
            if view::in_bundles(look.cell) {
                Self::again_and_again(look)
            } else {
                Self::at_first(look)
            }
        })
    }

    /// Nine of ten answers of several events.
    fn whole(look: &Look<'_>) -> Option<Self> {
        /// Share of E2E after the first event up to which there is nothing but the first.
        const NOTHING: f64 = 0.01;
        let requests = || look.seen.iter().map(|s| s.request);
        let is_whole = |r: &&RequestSample| {
            let after = r.ttft.map(|ttft| r.e2e() - ttft);
            r.events >= SEVERAL && after.is_some_and(|after| after <= NOTHING * r.e2e())
        };
        let whole = requests().filter(is_whole).count();
        (whole >= FEWEST && whole * 10 >= look.seen.len() * 9).then_some(())?;
        let events = median(requests().map(|r| f64::from(r.events)).collect())?;
        Some(Self {
            events,
            ..Self::default()
        })
    }

    fn again_and_again(look: &Look<'_>) -> Option<Self> {
        let each = look.seen.iter().filter_map(|s| {
            let r = s.request;
            let gaps = f64::from(r.moments.checked_sub(1).filter(|n| *n > 0)?);
            let gap = (r.e2e() - r.ttft?) / gaps;
            Some((f64::from(r.events) / f64::from(r.moments), gap))
        });
        let (events, every) = medians(each)?;
        Some(Self {
            events,
            every: Some(every),
            held: None,
        })
    }

    fn at_first(look: &Look<'_>) -> Option<Self> {
        let each = look.seen.iter().filter_map(|s| {
            let r = s.request;
            let behind = f64::from(r.events.checked_sub(r.at_first).filter(|n| *n > 0)?);
            let gap = (r.e2e() - r.ttft?) / behind;
            Some((
                f64::from(r.at_first),
                gap * f64::from(r.at_first.saturating_sub(1)),
            ))
        });
        let (events, held) = medians(each)?;
        Some(Self {
            events,
            every: None,
            held: Some(held),
        })
    }
}

/// Of enough answers, most of which have several events at one moment.
fn medians(each: impl Iterator<Item = (f64, f64)>) -> Option<(f64, f64)> {
    let (events, times): (Vec<f64>, Vec<f64>) = each.unzip();
    let enough = events.len() >= FEWEST;
    let (events, time) = median(events).zip(median(times))?;
    (enough && events >= f64::from(SEVERAL)).then_some((events, time))
}
