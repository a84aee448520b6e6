//! The answers with the longest gap between two tokens.

use bench_schema::{Nanos, RequestRecord};

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
