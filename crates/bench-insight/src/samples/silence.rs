//! When no token came in a warm-up: who is measured next may wait for that.

use bench_schema::Stamp;

use super::RequestSample;
use crate::outages::{SHORTEST, all_wait};

/// The longest time in which requests were under way and none of them got a token, where it began in a warm-up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Silence {
    /// Which repeat of the cell.
    pub repeat: u32,
    /// ns.
    pub length: f64,
    /// The most requests that were under way in it.
    pub under_way: f64,
    /// First tokens that ended it.
    pub firsts: f64,
    /// The longest of their prompts, where lengths are known.
    pub prompt: Option<u32>,
    /// TTFT of the quickest request that was sent from then on in the warm-up, ns.
    pub quickest: f64,
    /// The next longest such time, ns.
    pub next: f64,
}

impl Silence {
    /// Of requests of a warm-up and those that were measured right behind it, from `began` on. Answers that come whole do not tell.
    pub(super) fn of(repeat: u32, own: &[&RequestSample], began: Stamp) -> Option<Self> {
        /// Of its length, in which those come that end it.
        const AT_ONCE: f64 = 0.02;
        let epoch = own.iter().map(|request| request.start).min()?;
        let ns = |at: Stamp| (at - epoch).as_f64();
        let mut all = all_wait(own.iter().copied(), epoch, false);
        all.sort_by(|a, b| b.length.total_cmp(&a.length));
        let longest = all
            .first()
            .filter(|silence| silence.length >= SHORTEST.as_f64() && silence.from < ns(began))?;
        let end = longest.from + longest.length;
        let at_once = end..=end + AT_ONCE * longest.length;
        let ended = |request: &&&RequestSample| {
            let first = request.ttft.map(|ttft| ns(request.start) + ttft);
            first.is_some_and(|first| at_once.contains(&first))
        };
        let ended: Vec<_> = own.iter().filter(ended).collect();
        let since = own
            .iter()
            .filter(|r| ns(r.start) >= longest.from && r.start < began);
        let streamed = own.iter().all(|request| request.ttft.is_some());
        streamed.then(|| Self {
            repeat,
            length: longest.length,
            under_way: longest.streams,
            firsts: ended.len() as f64,
            prompt: ended
                .iter()
                .filter_map(|request| request.input_tokens)
                .max(),
            quickest: since.filter_map(|r| r.ttft).fold(f64::INFINITY, f64::min),
            next: all.get(1).map_or(0.0, |next| next.length),
        })
    }
}
