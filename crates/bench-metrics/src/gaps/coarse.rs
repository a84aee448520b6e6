//! Gaps as histograms: of a request, of a group, of a block of requests.

use std::collections::BTreeMap;

use bench_schema::{Distribution, RequestRecord, Stamp, Unit, Window};

use crate::blocks::{BlockMean, Part};
use crate::estimate::LEVEL;
use crate::histogram::{Batch, Histogram, Layout};
use crate::quantile::{Dependence, Ranks};
use crate::summary::{QUANTILES, interval, interval_of, quantile_entry};

use super::{Gap, gaps, is_one_token_each};

/// Precision of the histograms: relative error at most 2⁻¹⁰ (0.1 %).
const BITS: u32 = 9;
/// Between this many blocks and twice as many.
pub(super) const BLOCKS: usize = 128;

fn layout() -> Layout {
    Layout::with_bits(BITS)
}

/// The gaps of one request, sorted into buckets once, to be added to several histograms.
#[derive(Clone, Debug)]
pub(crate) struct GapBatch {
    icl: Batch,
    /// Absent where every event is one token: the same as `icl`.
    itl: Option<Batch>,
    /// Whether the tokens of every event are known.
    has_tokens: bool,
}

impl GapBatch {
    /// Of a record. Cost: O(events).
    pub(crate) fn of_record(record: &RequestRecord) -> Self {
        if is_one_token_each(record) {
            // The usual case, and the one that decides how fast half a billion gaps are counted.
            let gaps = record.wire.events.gaps();
            let whole = gaps.map(|gap| u64::try_from(gap.get()).unwrap_or(0));
            return Self {
                icl: Batch::of(layout(), whole),
                itl: None,
                has_tokens: true,
            };
        }
        Self::of(gaps(record))
    }

    /// Of single gaps.
    pub(crate) fn of(gaps: impl Iterator<Item = Gap>) -> Self {
        let all: Vec<Gap> = gaps.collect();
        let whole = |gap: &Gap| u64::try_from(gap.length.get()).unwrap_or(0);
        let icl = Batch::of(layout(), all.iter().map(whole));
        let has_tokens = all.iter().all(|gap| gap.tokens.is_some());
        let one_each = all.iter().all(|gap| gap.tokens == Some(1));
        let mut carried = 0;
        let per_token = all.iter().filter(|_| has_tokens).flat_map(|gap| {
            let length = carried + whole(gap);
            let k = gap.tokens.unwrap_or(0);
            carried = if k == 0 { length } else { 0 };
            let each = length / u64::from(k.max(1));
            (0..k).map(move |_| each)
        });
        let itl = (!one_each).then(|| Batch::of(layout(), per_token));
        Self {
            icl,
            itl,
            has_tokens,
        }
    }
}

/// Histograms of the gaps of many requests.
#[derive(Clone, Debug)]
pub(crate) struct GapHistograms {
    icl: Histogram,
    /// Absent as long as it equals `icl`.
    itl: Option<Histogram>,
    /// Whether every request told its tokens; else there is no ITL.
    has_tokens: bool,
}

impl Default for GapHistograms {
    fn default() -> Self {
        Self {
            icl: Histogram::new(layout()),
            itl: None,
            has_tokens: true,
        }
    }
}

impl GapHistograms {
    pub(crate) fn add(&mut self, request: &GapBatch) {
        if let Some(per_token) = &request.itl {
            self.itl
                .get_or_insert_with(|| self.icl.clone())
                .add(per_token);
        } else if let Some(itl) = &mut self.itl {
            itl.add(&request.icl);
        }
        self.icl.add(&request.icl);
        self.has_tokens &= request.has_tokens;
    }

    fn join(&mut self, other: &Self) {
        if self.itl.is_some() || other.itl.is_some() {
            let mut itl = self.per_token().clone();
            absorb(&mut itl, other.per_token());
            self.itl = Some(itl);
        }
        absorb(&mut self.icl, &other.icl);
        self.has_tokens &= other.has_tokens;
    }

    fn per_token(&self) -> &Histogram {
        self.itl.as_ref().unwrap_or(&self.icl)
    }

    /// Gaps between tokens, or between events; without intervals, because the order is gone.
    pub(crate) fn distribution(&self, per_token: bool) -> Option<Distribution> {
        if per_token && !self.has_tokens {
            return None;
        }
        let mut found = if per_token {
            self.per_token()
        } else {
            &self.icl
        }
        .summary(Unit::Ns)?;
        found.mean_interval = None;
        for quantile in &mut found.quantiles {
            quantile.interval = None;
        }
        Some(found)
    }
}

/// A run of requests of one repeat, in the order they ended.
#[derive(Clone, Debug, Default)]
struct Block {
    repeat: u32,
    requests: usize,
    /// Sum of the requests' start times, for their mean.
    starts: i128,
    gaps: GapHistograms,
}

impl Block {
    fn mean_start(&self) -> Stamp {
        let requests = i128::try_from(self.requests.max(1)).unwrap_or(1);
        Stamp::new(i64::try_from(self.starts / requests).unwrap_or(i64::MAX))
    }
}

/// Histograms of gaps by blocks of requests: their differences give the intervals.
#[derive(Clone, Debug)]
pub(crate) struct CoarseGaps {
    blocks: Vec<Block>,
    per_block: usize,
}

impl CoarseGaps {
    pub(super) fn new(per_block: usize) -> Self {
        Self {
            blocks: Vec::new(),
            per_block,
        }
    }

    pub(crate) fn push(&mut self, repeat: u32, started: Stamp, request: &GapBatch) {
        let goes_on = |b: &Block| b.repeat == repeat && b.requests < self.per_block;
        if !self.blocks.last().is_some_and(goes_on) {
            if self.blocks.len() >= 2 * BLOCKS {
                self.pair_up();
            }
            self.blocks.push(Block {
                repeat,
                ..Block::default()
            });
        }
        if let Some(block) = self.blocks.last_mut() {
            block.requests += 1;
            block.starts += i128::from(started.get());
            block.gaps.add(request);
        }
    }

    /// Joins neighbouring blocks.
    fn pair_up(&mut self) {
        let mut joined: Vec<Block> = Vec::with_capacity(BLOCKS);
        for block in self.blocks.drain(..) {
            match joined.last_mut() {
                Some(last) if last.requests < 2 * self.per_block && last.repeat == block.repeat => {
                    last.gaps.join(&block.gaps);
                    last.requests += block.requests;
                    last.starts += block.starts;
                }
                _ => joined.push(block),
            }
        }
        self.blocks = joined;
        self.per_block *= 2;
    }

    /// The distribution over the blocks whose requests, on average, started within their repeat's window; over all of them where there are
    /// no windows.
    pub(crate) fn distribution(
        &self,
        windows: &BTreeMap<u32, Window>,
        per_token: bool,
    ) -> Option<Distribution> {
        let within = |b: &Block| {
            let window = windows.get(&b.repeat);
            window.is_some_and(|w| w.contains(b.mean_start()))
        };
        let inside = |b: &&Block| windows.is_empty() || within(b);
        let mut chosen: Vec<&Block> = self.blocks.iter().filter(inside).collect();
        chosen.sort_by_key(|b| b.mean_start());
        if per_token && chosen.iter().any(|b| !b.gaps.has_tokens) {
            return None;
        }
        let of = |b: &&'_ Block| {
            if per_token {
                b.gaps.per_token().clone()
            } else {
                b.gaps.icl.clone()
            }
        };
        summarise_blocks(&chosen.iter().map(of).collect::<Vec<_>>())
    }
}

fn absorb(into: &mut Histogram, from: &Histogram) {
    // Every histogram here has the same layout, so this cannot fail.
    debug_assert_eq!(into.layout(), from.layout());
    into.merge(from).unwrap_or_default();
}

/// A distribution from histograms of consecutive blocks, with intervals from their differences.
fn summarise_blocks(blocks: &[Histogram]) -> Option<Distribution> {
    let mut total = Histogram::new(layout());
    for block in blocks {
        absorb(&mut total, block);
    }
    let n = total.len() as f64;
    let parts = |num: &dyn Fn(&Histogram) -> f64| -> Vec<Part> {
        blocks
            .iter()
            .filter(|b| !b.is_empty())
            .map(|b| Part {
                num: num(b),
                den: b.len() as f64,
            })
            .collect()
    };
    let mut whole = total.summary(Unit::Ns)?;
    let mean = BlockMean::of_parts(parts(&|b| b.mean().unwrap_or(0.0) * b.len() as f64).iter());
    whole.mean_interval = mean.and_then(|m| interval(&m.interval(LEVEL)));
    let known = mean.zip(whole.sd).filter(|(m, _)| m.std_err > 0.0);
    whole.effective_n = known.map(|(m, sd)| (sd / m.std_err).powi(2).clamp(1.0, n));
    let below = |x: f64| BlockMean::of_parts(parts(&|b| b.count_at_most(x) as f64).iter());
    let dependence = Dependence::at_median(n, below(total.quantile(0.5)?), LEVEL);
    let quantile = |&q: &f64| {
        let value = total.quantile(q)?;
        let bounds = Ranks::of(n, q, below(value), dependence, LEVEL).and_then(|ranks| {
            let (low, high) = (total.quantile(ranks.low?)?, total.quantile(ranks.high?)?);
            interval_of(low.min(value), high.max(value), LEVEL)
        });
        Some(quantile_entry(q, value, bounds, total.len()))
    };
    whole.quantiles = QUANTILES.iter().filter_map(quantile).collect();
    Some(whole)
}
