//! Keys and values of a sequence, and attention over them.

use rayon::prelude::{IndexedParallelIterator as _, ParallelIterator as _, ParallelSliceMut as _};

use super::tile::{Rows, dot, products};

/// Keys and values of one sequence, layer by layer; each grows by one row for each token.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cache {
    pub(crate) layers: Vec<(Vec<f32>, Vec<f32>)>,
}

impl Cache {
    pub(crate) fn new(layers: usize) -> Self {
        Self {
            layers: vec![(Vec::new(), Vec::new()); layers],
        }
    }
}

/// How heads are laid out.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Heads {
    pub(crate) queries: usize,
    pub(crate) kv: usize,
    pub(crate) size: usize,
}

/// A query: its values, and the keys and values it may look at.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Query<'a> {
    pub(crate) values: &'a [f32],
    pub(crate) keys: &'a [f32],
    pub(crate) seen: &'a [f32],
    /// Positions it may look at.
    pub(crate) length: usize,
}

/// Attention of each query, one after the other.
pub(crate) fn attend(queries: &[Query<'_>], heads: Heads) -> Vec<f32> {
    let width = heads.queries * heads.size;
    let mut out = vec![0.0; queries.len() * width];
    let (share, row) = (heads.queries / heads.kv, heads.kv * heads.size);
    out.par_chunks_mut(heads.size)
        .enumerate()
        .with_min_len(2)
        .for_each(|(at, out)| {
            let (query, head) = (&queries[at / heads.queries], at % heads.queries);
            let from = head / share * heads.size;
            let mine = &query.values[head * heads.size..][..heads.size];
            one(mine, query, (row, from), out);
        });
    out
}

/// One head of one query.
fn one(mine: &[f32], query: &Query<'_>, (row, from): (usize, usize), out: &mut [f32]) {
    let size = mine.len();
    let scale = (size as f32).sqrt().recip();
    let mut scores = vec![0.0; query.length];
    if row == size {
        // One head of keys: they lie one after the other.
        products(
            Rows::F32(&query.keys[..query.length * size]),
            mine,
            size,
            &mut scores,
        );
        for score in &mut scores {
            *score *= scale;
        }
    } else {
        for (score, key) in scores.iter_mut().zip(query.keys.chunks_exact(row)) {
            *score = dot(&key[from..from + size], mine) * scale;
        }
    }
    softmax(&mut scores);
    for (score, value) in scores.iter().zip(query.seen.chunks_exact(row)) {
        for (out, value) in out.iter_mut().zip(&value[from..from + size]) {
            *out += score * value;
        }
    }
}

/// Turns scores into shares.
pub(crate) fn softmax(scores: &mut [f32]) {
    let most = scores
        .iter()
        .fold(f32::NEG_INFINITY, |most, score| most.max(*score));
    let mut sum = 0.0;
    for score in scores.iter_mut() {
        *score = (*score - most).exp();
        sum += *score;
    }
    for score in scores {
        *score /= sum;
    }
}
