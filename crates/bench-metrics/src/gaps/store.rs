//! All gaps of a cell: exact up to a stated number, then histograms over blocks of requests.

use bench_schema::{Distribution, RequestRecord, Stamp, Unit, Window};

use crate::blocks::{BlockMean, Part};
use crate::estimate::LEVEL;
use crate::histogram::{Histogram, Layout};
use crate::quantile::shares;
use crate::summary::{QUANTILES, interval, interval_of, quantile_entry};

use super::{Gap, gaps};

/// Gaps kept exactly; beyond it (8192 requests of 512 tokens) histograms take over. About 50 MB.
pub(crate) const EXACT: usize = 4 << 20;
/// Precision of the histograms that follow: relative error at most 2⁻¹⁰ (0.1 %).
const BITS: u32 = 9;
/// Between this many blocks and twice as many.
const BLOCKS: usize = 128;
/// Tokens of an event where they are unknown.
const UNKNOWN: u32 = u32::MAX;

/// Where a request's gaps lie in the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct GapRange {
    start: u32,
    len: u32,
}

/// Gaps kept one by one.
#[derive(Clone, Debug, Default)]
pub(crate) struct ExactGaps {
    lengths: Vec<i64>,
    tokens: Vec<u32>,
    /// `(length at the other end − length, bounded)`; empty while every stamp was exact.
    other: Vec<(i64, bool)>,
}

/// A run of requests, in the order they ended.
#[derive(Clone, Debug)]
struct Block {
    requests: usize,
    /// Sum of the requests' start times, for their mean.
    starts: i128,
    icl: Histogram,
    /// Absent as long as it equals `icl`.
    itl: Option<Histogram>,
}

/// The gaps of a cell.
#[derive(Clone, Debug)]
pub(crate) enum GapStore {
    /// Every gap.
    Exact(ExactGaps),
    /// Histograms by blocks.
    Coarse(CoarseGaps),
}

impl Default for GapStore {
    fn default() -> Self {
        Self::Exact(ExactGaps::default())
    }
}

impl GapStore {
    /// Adds the gaps of a request. In the coarse store, `None`.
    pub(crate) fn push(&mut self, record: &RequestRecord, started: Stamp) -> Option<GapRange> {
        match self {
            Self::Exact(exact) => Some(exact.push(record)),
            Self::Coarse(coarse) => {
                coarse.push(started, gaps(record));
                None
            }
        }
    }

    /// Whether the exact store is full.
    pub(crate) fn is_full(&self, limit: usize) -> bool {
        matches!(self, Self::Exact(exact) if exact.lengths.len() > limit)
    }

    /// Turns the exact store into a coarse one; `requests` are their ranges and starts, in the order they ended.
    pub(crate) fn coarsen(&mut self, requests: &[(GapRange, Stamp)]) {
        if let Self::Exact(exact) = self {
            let mut coarse = CoarseGaps::new(requests.len().div_ceil(BLOCKS).max(1));
            for (range, started) in requests {
                coarse.push(*started, exact.of(*range));
            }
            *self = Self::Coarse(coarse);
        }
    }
}

impl ExactGaps {
    fn push(&mut self, record: &RequestRecord) -> GapRange {
        let start = self.lengths.len();
        for gap in gaps(record) {
            if gap.bounded && self.other.is_empty() {
                self.other = vec![(0, false); self.lengths.len()];
            }
            self.lengths.push(gap.length.get());
            self.tokens.push(gap.tokens.unwrap_or(UNKNOWN));
            if gap.bounded || !self.other.is_empty() {
                self.other.push((gap.other_end.get(), gap.bounded));
            }
        }
        let narrow = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        GapRange {
            start: narrow(start),
            len: narrow(self.lengths.len() - start),
        }
    }

    /// The gaps of one request.
    fn of(&self, range: GapRange) -> impl Iterator<Item = Gap> + '_ {
        let start = range.start as usize;
        (start..start + range.len as usize).map(|i| {
            let (shift, bounded) = self.other.get(i).copied().unwrap_or((0, false));
            Gap {
                length: bench_schema::Nanos::new(self.lengths[i]),
                other_end: bench_schema::Nanos::new(shift),
                bounded,
                tokens: Some(self.tokens[i]).filter(|k| *k != UNKNOWN),
            }
        })
    }

    /// Whether any stamp was not exact.
    pub(crate) fn any_bounded(&self) -> bool {
        !self.other.is_empty()
    }

    /// Inter-chunk latencies of one request, at the latest or the earliest end of bounded stamps; and how many are bounded.
    pub(crate) fn icl(&self, range: GapRange, earliest: bool) -> (Vec<f64>, u64) {
        let mut bounded = 0;
        let values = self.of(range).map(|gap| {
            bounded += u64::from(gap.bounded);
            let length = gap.length.as_f64();
            if earliest {
                (length + gap.other_end.as_f64()).max(0.0)
            } else {
                length
            }
        });
        (values.collect(), bounded)
    }

    /// Inter-token latencies of one request, likewise; empty where tokens are unknown.
    pub(crate) fn itl(&self, range: GapRange, earliest: bool) -> (Vec<f64>, u64) {
        let (mut out, mut bounded, mut carried) = (Vec::new(), 0, 0.0);
        for gap in self.of(range) {
            let shift = if earliest {
                gap.other_end.as_f64()
            } else {
                0.0
            };
            let length = carried + (gap.length.as_f64() + shift).max(0.0);
            match gap.tokens {
                None => return (Vec::new(), 0),
                Some(0) => carried = length,
                Some(k) => {
                    carried = 0.0;
                    bounded += u64::from(gap.bounded) * u64::from(k);
                    out.extend((0..k).map(|_| length / f64::from(k)));
                }
            }
        }
        (out, bounded)
    }
}

/// Histograms of gaps by blocks of requests.
#[derive(Clone, Debug)]
pub(crate) struct CoarseGaps {
    blocks: Vec<Block>,
    per_block: usize,
    /// Whether every request told its tokens; else there is no ITL of the cell.
    has_tokens: bool,
}

impl CoarseGaps {
    fn new(per_block: usize) -> Self {
        Self {
            blocks: Vec::new(),
            per_block,
            has_tokens: true,
        }
    }

    fn push(&mut self, started: Stamp, gaps: impl Iterator<Item = Gap>) {
        if self
            .blocks
            .last()
            .is_none_or(|b| b.requests >= self.per_block)
        {
            if self.blocks.len() >= 2 * BLOCKS {
                self.pair_up();
            }
            self.blocks.push(Block {
                requests: 0,
                starts: 0,
                icl: empty(),
                itl: None,
            });
        }
        let Some(block) = self.blocks.last_mut() else {
            return;
        };
        block.requests += 1;
        block.starts += i128::from(started.get());
        let mut carried = 0;
        for gap in gaps {
            let length = u64::try_from(gap.length.get()).unwrap_or(0);
            if gap.tokens != Some(1) || carried > 0 {
                block.itl.get_or_insert_with(|| block.icl.clone());
            }
            block.icl.record(length);
            self.has_tokens &= gap.tokens.is_some();
            let Some(itl) = &mut block.itl else { continue };
            match gap.tokens {
                None => {}
                Some(0) => carried += length,
                Some(k) => {
                    itl.record_many((carried + length) / u64::from(k), u64::from(k));
                    carried = 0;
                }
            }
        }
    }

    /// Joins neighbouring blocks.
    fn pair_up(&mut self) {
        let mut joined: Vec<Block> = Vec::with_capacity(BLOCKS);
        for block in self.blocks.drain(..) {
            match joined.last_mut() {
                Some(last) if last.requests < 2 * self.per_block => last.join(&block),
                _ => joined.push(block),
            }
        }
        self.blocks = joined;
        self.per_block *= 2;
    }

    /// The distribution over the blocks whose requests, on average, started within the window.
    pub(crate) fn distribution(
        &self,
        window: Option<Window>,
        per_token: bool,
    ) -> Option<Distribution> {
        if per_token && !self.has_tokens {
            return None;
        }
        let mut chosen: Vec<&Block> = self
            .blocks
            .iter()
            .filter(|b| window.is_none_or(|w| w.contains(b.mean_start())))
            .collect();
        chosen.sort_by_key(|b| b.mean_start());
        let parts: Vec<&Histogram> = chosen
            .iter()
            .map(|b| if per_token { b.per_token() } else { &b.icl })
            .collect();
        summarise_blocks(&parts)
    }
}

impl Block {
    fn per_token(&self) -> &Histogram {
        self.itl.as_ref().unwrap_or(&self.icl)
    }

    fn mean_start(&self) -> Stamp {
        let requests = i128::try_from(self.requests.max(1)).unwrap_or(1);
        Stamp::new(i64::try_from(self.starts / requests).unwrap_or(i64::MAX))
    }

    fn join(&mut self, other: &Self) {
        if self.itl.is_some() || other.itl.is_some() {
            let mut itl = self.per_token().clone();
            absorb(&mut itl, other.per_token());
            self.itl = Some(itl);
        }
        absorb(&mut self.icl, &other.icl);
        self.requests += other.requests;
        self.starts += other.starts;
    }
}

fn empty() -> Histogram {
    Histogram::new(Layout::with_bits(BITS))
}

fn absorb(into: &mut Histogram, from: &Histogram) {
    // Every block has the same layout, so this cannot fail.
    debug_assert_eq!(into.layout(), from.layout());
    into.merge(from).unwrap_or_default();
}

/// A distribution from histograms of consecutive blocks, with intervals from their differences.
fn summarise_blocks(blocks: &[&Histogram]) -> Option<Distribution> {
    let mut total = empty();
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
    let mean = BlockMean::of_parts(&parts(&|b| b.mean().unwrap_or(0.0) * b.len() as f64));
    whole.mean_interval = mean.and_then(|m| interval(&m.interval(LEVEL)));
    whole.effective_n = mean
        .zip(whole.sd)
        .filter(|(m, _)| m.std_err > 0.0)
        .map(|(m, sd)| (sd / m.std_err).powi(2).clamp(1.0, n));
    whole.quantiles = QUANTILES
        .iter()
        .filter_map(|&q| {
            let value = total.quantile(q)?;
            let below = BlockMean::of_parts(&parts(&|b| b.count_at_most(value) as f64));
            let bounds = shares(n, q, below, LEVEL)
                .filter(|(low, high, _)| low * n >= 1.0 && high * n < n - 1.0)
                .and_then(|(low, high, _)| {
                    interval_of(
                        total.quantile(low)?.min(value),
                        total.quantile(high)?.max(value),
                        LEVEL,
                    )
                });
            Some(quantile_entry(q, value, bounds, total.len()))
        })
        .collect();
    Some(whole)
}
