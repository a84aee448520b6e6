//! Long prompts that delay short requests: their first tokens, or the streams that are under way.

use bench_schema::{Cause, Experiment, Finding, Known};

use super::fit::median;
use super::look::{Look, Seen};
use super::spans::Cover;
use crate::draft::Draft;
use crate::view;

/// A prompt of this multiple of the median is long.
const LONG: f64 = 4.0;
/// Requests that are needed on each side.
const FEWEST: usize = 5;
/// TTFT of short requests beside long prompts over that of others, from which on these delay them.
const SLOWER: f64 = 1.5;
/// Of the time that others wait or stand still, the part in which a long prompt is worked on, from which on it is what they wait for.
const MOSTLY: f64 = 0.5;

/// Where it costs so much.
pub(super) fn head_of_line(look: &Look<'_>, least: f64) -> Option<Finding> {
    /// Of the time, up to which short requests are at times beside no long prompt.
    const OCCUPIED: f64 = 0.8;
    // Behind a queue that grows, and where something holds them back, long prompts wait as all do: their time to the first token is not that of their prefill.
    if view::behind(look.cell).is_some() || crate::server_phases::held_back(look.cell).is_some() {
        return None;
    }
    let beside = Beside::of(look)?;
    let whole = look.whole();
    let occupied = beside.worked_on.within(0.0, whole) / whole;
    let stood = beside.stood(occupied);
    let late = beside.late();
    if (late.is_none() && !stood.is_of_long) || occupied > OCCUPIED {
        return None;
    }
    let waited = late.as_ref().map_or(0.0, |late| late.waited);
    let cost =
        (stood.beside_long + waited) / beside.short.iter().map(|s| s.end - s.sent).sum::<f64>();
    (cost >= least).then_some(())?;
    Draft::in_cell(Cause::HeadOfLine, cost, look.cell)
        .because(Known::LongPrompts, beside.spans.len() as f64)
        .because(Known::BesideLong, late.map(|late| late.ratio))
        .because(Known::StallLength, stood.typical)
        .refuted_by(Experiment::WithoutLongPrompts)
        .done()
}

/// Short requests, and when long prompts were worked on. What a long prompt costs others passes then: who waits on for a place or stands still for something
/// else is only beside it.
struct Beside<'a> {
    look: &'a Look<'a>,
    short: Vec<&'a Seen<'a>>,
    spans: Vec<(f64, f64)>,
    worked_on: Cover,
}

/// Short requests whose first tokens take longer beside long prompts.
struct Delayed {
    /// Of their median TTFT over that of the others.
    ratio: f64,
    /// What they wait for long prompts, all together.
    waited: f64,
}

/// Streams of short requests that stood still.
struct Stood {
    /// For how long beside long prompts.
    beside_long: f64,
    /// Whether that is most of it, and more than by chance.
    is_of_long: bool,
    /// The median of all.
    typical: Option<f64>,
}

impl<'a> Beside<'a> {
    fn of(look: &'a Look<'a>) -> Option<Self> {
        const FEWEST_LONG: usize = 3;
        let lengths = look.seen.iter().filter_map(|s| s.request.input_tokens);
        let typical = median(lengths.map(f64::from).collect())?;
        let is_long = |tokens: f64| tokens >= LONG * typical;
        let prefills = look.prefills().iter();
        let long = prefills.filter(|prefill| is_long(prefill.tokens as f64));
        let spans: Vec<(f64, f64)> = long.map(|prefill| (prefill.from, prefill.to)).collect();
        let is_short = |s: &&Seen<'_>| {
            !s.request
                .input_tokens
                .is_some_and(|n| is_long(f64::from(n)))
        };
        let enough = spans.len() >= FEWEST_LONG && look.whole() > 0.0;
        enough.then(|| Self {
            look,
            short: look.seen.iter().filter(is_short).collect(),
            worked_on: Cover::of(spans.iter().copied()),
            spans,
        })
    }

    fn late(&self) -> Option<Delayed> {
        let stops = &self.look.unprompted().time;
        let first_token = |s: &&Seen<'_>| {
            let (sent, first) = (s.sent, s.first?);
            let took = s.request.ttft? - stops.within(sent, first);
            Some((sent, took, self.worked_on.within(sent, first)))
        };
        let is_beside = |sent: f64| self.spans.iter().any(|span| sent > span.0 && sent < span.1);
        let (beside, alone): (Vec<_>, Vec<_>) = self
            .short
            .iter()
            .filter_map(first_token)
            .partition(|(sent, ..)| is_beside(*sent));
        let times = |of: &[(f64, f64, f64)]| median(of.iter().map(|t| t.1).collect());
        let usual = times(&alone)?;
        let ratio = times(&beside)? / usual;
        let took: f64 = beside.iter().map(|b| b.1).sum();
        let of_long: f64 = beside.iter().map(|b| b.2).sum();
        let enough = beside.len() >= FEWEST && alone.len() >= FEWEST;
        let is_theirs = enough && ratio >= SLOWER && of_long >= MOSTLY * took;
        let waits = beside.iter().map(|b| (b.1 - usual).clamp(0.0, b.2));
        is_theirs.then(|| Delayed {
            ratio,
            waited: waits.sum(),
        })
    }

    /// Where long prompts are worked on for a part of the time.
    fn stood(&self, occupied: f64) -> Stood {
        const MOST: f64 = 0.6;
        const TIMES: f64 = 1.5;
        let unprompted = &self.look.unprompted().time;
        let (mut all, mut beside_long) = (0.0, 0.0);
        let stalls = || self.short.iter().flat_map(|s| &s.request.stalls);
        for (at, length) in stalls() {
            let (from, to) = (self.look.ns(*at), self.look.ns(*at) + length);
            let own = length - unprompted.within(from, to);
            all += own;
            if self.worked_on.within(from, to) >= MOSTLY * length {
                beside_long += own;
            }
        }
        Stood {
            beside_long,
            is_of_long: all > 0.0 && beside_long >= MOST.max(TIMES * occupied) * all,
            typical: median(stalls().map(|s| s.1).collect()),
        }
    }
}
