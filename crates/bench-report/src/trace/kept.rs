//! What is kept of the requests: output and requests under way over time, the lag of the client, the answers with the longest gaps.

use bench_schema::{EventLog, Nanos, RequestRecord};

use super::{Row, bin};
use crate::number::index;

/// One part of a stretch of time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Flow {
    /// Its middle, seconds.
    pub(crate) at: f64,
    /// Output tokens per second, an answer's tokens spread evenly between its first and its last.
    pub(crate) tokens_per_s: f64,
    /// Requests that had begun and were not over, mean.
    pub(crate) under_way: f64,
}

/// `from..to` in equal parts.
pub(crate) fn flow<'a>(
    rows: impl Iterator<Item = &'a Row>,
    (from, to): (f64, f64),
    parts: usize,
) -> Vec<Flow> {
    let width = (to - from) / parts.max(1) as f64;
    if width <= 0.0 || !width.is_finite() {
        return Vec::new();
    }
    let mut all: Vec<Flow> = (0..parts)
        .map(|i| Flow {
            at: from + (i as f64 + 0.5) * width,
            ..Flow::default()
        })
        .collect();
    for row in rows {
        spread(
            &mut all,
            (from, width),
            (row.start, row.end),
            |part, share| {
                part.under_way += share * (row.end - row.start) / width;
            },
        );
        if let (Some(first), Some(tokens)) = (row.first, row.tokens) {
            spread(&mut all, (from, width), (first, row.end), |part, share| {
                part.tokens_per_s += share * f64::from(tokens) / width;
            });
        }
    }
    all
}

/// Hand each part that `a..b` touches the share of `a..b` that lies in it; an instant goes to one part whole.
fn spread(
    parts: &mut [Flow],
    (from, width): (f64, f64),
    (a, b): (f64, f64),
    mut give: impl FnMut(&mut Flow, f64),
) {
    let whole = b - a;
    let first = index((a - from) / width).min(parts.len().saturating_sub(1));
    for (i, part) in parts.iter_mut().enumerate().skip(first) {
        let low = from + i as f64 * width;
        if whole <= 0.0 {
            give(part, 1.0);
            return;
        }
        if low >= b {
            return;
        }
        let overlap = b.min(low + width) - a.max(low);
        if overlap > 0.0 {
            give(part, overlap / whole);
        }
    }
}

const LAG_BINS: usize = 120;
/// Buckets of a logarithmic histogram: 8 for each doubling from 1 µs, so within 9 %.
const BUCKETS: usize = 8 * 24;

/// Lag of the content events that arrived in one part of the run.
#[derive(Clone, Debug)]
pub(crate) struct LagBin {
    /// Middle of the part, seconds.
    pub(crate) at: f64,
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    pub(crate) max_us: f64,
}

/// Histograms over time.
pub(crate) struct LagBins {
    seconds: f64,
    counts: Vec<[u32; BUCKETS]>,
    max_ns: Vec<i64>,
}

impl LagBins {
    pub(crate) fn new(seconds: f64) -> Self {
        Self {
            seconds,
            counts: vec![[0; BUCKETS]; LAG_BINS],
            max_ns: vec![0; LAG_BINS],
        }
    }

    pub(crate) fn add(&mut self, events: &EventLog) {
        for (at, lag) in events.stamps().zip(events.lags()) {
            let i = bin(at.as_secs_f64(), 0.0, self.seconds, LAG_BINS);
            let micros = lag.as_f64() / 1e3;
            let bucket = index((micros.max(1.0).log2() * 8.0).round()).min(BUCKETS - 1);
            if let Some(count) = self.counts.get_mut(i).and_then(|row| row.get_mut(bucket)) {
                *count = count.saturating_add(1);
            }
            if let Some(max) = self.max_ns.get_mut(i) {
                *max = (*max).max(lag.get());
            }
        }
    }

    /// p99 over everything that was added.
    pub(crate) fn p99_us(&self) -> Option<f64> {
        let mut all = [0_u32; BUCKETS];
        for row in &self.counts {
            for (sum, n) in all.iter_mut().zip(row) {
                *sum = sum.saturating_add(*n);
            }
        }
        bucket_quantile(&all, 0.99)
    }

    pub(crate) fn finish(self) -> Vec<LagBin> {
        let width = self.seconds / LAG_BINS as f64;
        let bins = self.counts.iter().zip(&self.max_ns).enumerate();
        bins.filter_map(|(i, (counts, &max))| {
            Some(LagBin {
                at: (i as f64 + 0.5) * width,
                p50_us: bucket_quantile(counts, 0.5)?,
                p99_us: bucket_quantile(counts, 0.99)?,
                max_us: max as f64 / 1e3,
            })
        })
        .collect()
    }
}

fn bucket_quantile(counts: &[u32; BUCKETS], q: f64) -> Option<f64> {
    let total: u64 = counts.iter().map(|&n| u64::from(n)).sum();
    let rank = (q * total as f64).ceil().max(1.0);
    let mut seen = 0.0;
    for (bucket, &n) in counts.iter().enumerate() {
        seen += f64::from(n);
        if n > 0 && seen >= rank {
            return Some((bucket as f64 / 8.0).exp2());
        }
    }
    None
}

/// Answers kept of each cell.
const KEPT: usize = 1;
/// Cells of which answers are kept: the ones with the longest gaps.
const SHOWN: usize = 4;
/// Points kept of an answer; longer ones keep the longest gap of each stretch.
const POINTS: usize = 400;

/// The gaps of one answer.
#[derive(Clone, Debug)]
pub(crate) struct Stall {
    pub(crate) cell: u32,
    pub(crate) id: u64,
    /// Longest gap, milliseconds.
    pub(crate) worst_ms: f64,
    /// Median gap, milliseconds.
    pub(crate) median_ms: f64,
    /// Event number and gap before it in milliseconds.
    pub(crate) gaps: Vec<(u32, f64)>,
}

/// The worst answers seen so far.
pub(crate) struct Stalls {
    by_cell: Vec<Vec<Stall>>,
}

impl Stalls {
    pub(crate) fn new(cells: usize) -> Self {
        Self {
            by_cell: vec![Vec::new(); cells],
        }
    }

    pub(crate) fn offer(&mut self, cell: u32, record: &RequestRecord) {
        let Some(kept) = self.by_cell.get_mut(cell as usize) else {
            return;
        };
        let worst_ms = record
            .wire
            .events
            .gaps()
            .map(Nanos::as_millis_f64)
            .fold(0.0, f64::max);
        let full = kept.len() >= KEPT;
        if worst_ms <= 0.0 || (full && kept.last().is_some_and(|least| least.worst_ms >= worst_ms))
        {
            return;
        }
        kept.push(stall(cell, worst_ms, record));
        kept.sort_by(|a, b| b.worst_ms.total_cmp(&a.worst_ms).then(a.id.cmp(&b.id)));
        kept.truncate(KEPT);
    }

    /// The worst of each cell, in the order of cells, of at most four cells.
    pub(crate) fn worst(self) -> Vec<Stall> {
        let mut all: Vec<Stall> = self.by_cell.into_iter().flatten().collect();
        all.sort_by(|a, b| b.worst_ms.total_cmp(&a.worst_ms));
        all.truncate(SHOWN);
        all.sort_by_key(|stall| stall.cell);
        all
    }
}

fn stall(cell: u32, worst_ms: f64, record: &RequestRecord) -> Stall {
    let all: Vec<(u32, f64)> = (1..)
        .zip(record.wire.events.gaps().map(Nanos::as_millis_f64))
        .collect();
    let mut sorted: Vec<f64> = all.iter().map(|&(_, gap)| gap).collect();
    sorted.sort_by(f64::total_cmp);
    let stretch = all.len().div_ceil(POINTS).max(1);
    let longest = |part: &[(u32, f64)]| part.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1));
    Stall {
        cell,
        id: record.id,
        worst_ms,
        median_ms: sorted.get(sorted.len() / 2).copied().unwrap_or(0.0),
        gaps: all.chunks(stretch).filter_map(longest).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn row(start: f64, first: f64, end: f64, tokens: u32) -> Row {
        Row {
            cell: 0,
            start,
            first: Some(first),
            end,
            input: None,
            tokens: Some(tokens),
            completed: true,
        }
    }

    #[test]
    fn an_answer_counts_where_it_was_generated_not_where_it_ended() {
        let parts = flow([row(0.0, 2.0, 4.0, 20)].iter(), (0.0, 4.0), 4);
        let tokens: Vec<f64> = parts.iter().map(|p| p.tokens_per_s).collect();
        let under_way: Vec<f64> = parts.iter().map(|p| p.under_way).collect();
        assert_eq!(tokens, [0.0, 0.0, 10.0, 10.0]);
        assert_eq!(under_way, [1.0; 4]);
    }

    proptest! {
        #[test]
        fn no_token_is_lost_or_counted_twice(rows in proptest::collection::vec((0.0..9.0_f64, 0.0..1.0_f64, 0.0..1.0_f64, 1_u32..500), 1..20), parts in 1_usize..40) {
            let rows: Vec<Row> = rows.iter().map(|&(start, wait, decode, n)| {
                let first = (start + wait).min(10.0);
                row(start, first, (first + decode).min(10.0), n)
            }).collect();
            let seen = flow(rows.iter(), (0.0, 10.0), parts);
            let width = 10.0 / parts as f64;
            let counted: f64 = seen.iter().map(|p| p.tokens_per_s * width).sum();
            let sent: f64 = rows.iter().filter_map(|r| r.tokens).map(f64::from).sum();
            prop_assert!((counted - sent).abs() < 1e-6 * sent);
        }
    }
}
