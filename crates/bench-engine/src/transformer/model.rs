//! The model: any mixture of sequences and positions in one call.

use rayon::prelude::{IndexedParallelIterator as _, ParallelIterator as _, ParallelSliceMut as _};

use super::matrix::{Linear, Matrix, Norm, add, gelu, rope, swiglu};
use super::tile::{Rows, products, weighted};
use crate::config::{Family, Shape};

/// Weights of a decoder-only transformer.
#[derive(Debug)]
pub(crate) struct Model {
    pub(super) shape: Shape,
    pub(super) embeddings: Matrix,
    /// Learned positions (GPT-2).
    pub(super) positions: Option<Matrix>,
    pub(super) layers: Vec<Layer>,
    pub(super) norm: Norm,
    /// Absent where the embeddings are used again.
    pub(super) head: Option<Matrix>,
}

#[derive(Debug)]
pub(super) struct Layer {
    pub(super) attention_norm: Norm,
    /// Queries, keys and values, one after the other.
    pub(super) qkv: Linear,
    pub(super) output: Linear,
    pub(super) feed_norm: Norm,
    /// Up (GPT-2), or gate and up one after the other (Llama).
    pub(super) up: Linear,
    pub(super) down: Linear,
}

/// A stretch of one sequence: its cache holds everything before, and afterwards these tokens too.
#[derive(Debug)]
pub(crate) struct Stretch<'a> {
    pub(crate) cache: &'a mut Cache,
    pub(crate) tokens: &'a [u32],
    /// Position of the first of them.
    pub(crate) from: usize,
    /// Whether the logits after the last one are wanted.
    pub(crate) wanted: bool,
}

impl Model {
    pub(crate) fn shape(&self) -> &Shape {
        &self.shape
    }

    pub(crate) fn cache(&self) -> Cache {
        Cache::new(&self.shape)
    }

    /// How many numbers the matrices hold.
    #[cfg(test)]
    pub(crate) fn parameters(&self) -> usize {
        let matrix = |m: &Matrix, width: usize| m.rows() * width;
        let (w, f) = (self.shape.width, self.shape.feed_forward);
        let layer = |l: &Layer| {
            [(&l.qkv, w), (&l.output, w), (&l.up, w), (&l.down, f)]
                .iter()
                .map(|(m, n)| matrix(&m.matrix, *n))
                .sum::<usize>()
        };
        matrix(&self.embeddings, w)
            + self.positions.as_ref().map_or(0, |p| matrix(p, w))
            + self.head.as_ref().map_or(0, |h| matrix(h, w))
            + self.layers.iter().map(layer).sum::<usize>()
    }

    /// Computes all stretches together; gives the logits of those that want them, in order, `vocabulary` each.
    pub(crate) fn step(&self, stretches: &mut [Stretch<'_>]) -> Vec<f32> {
        let width = self.shape.width;
        let mut x = self.embed(stretches);
        for (at, layer) in self.layers.iter().enumerate() {
            let mixed = self.attention(layer, at, &layer.attention_norm.apply(&x), stretches);
            add(&mut x, &layer.output.apply(&mixed));
            let mut inner = layer.up.apply(&layer.feed_norm.apply(&x));
            match self.shape.family {
                Family::Gpt2 => gelu(&mut inner),
                Family::Llama => inner = swiglu(&inner, self.shape.feed_forward),
            }
            add(&mut x, &layer.down.apply(&inner));
        }
        let mut last = Vec::new();
        let mut end = 0;
        for stretch in stretches.iter() {
            end += stretch.tokens.len();
            if stretch.wanted && end > 0 {
                last.extend_from_slice(&x[(end - 1) * width..end * width]);
            }
        }
        self.head
            .as_ref()
            .unwrap_or(&self.embeddings)
            .apply(&self.norm.apply(&last))
    }

    fn embed(&self, stretches: &[Stretch<'_>]) -> Vec<f32> {
        let width = self.shape.width;
        let total = stretches
            .iter()
            .map(|stretch| stretch.tokens.len())
            .sum::<usize>();
        let mut x = vec![0.0; total * width];
        let mut place = vec![0.0; width];
        let all = stretches.iter().flat_map(|s| {
            s.tokens
                .iter()
                .enumerate()
                .map(|(at, token)| (s.from + at, *token))
        });
        for (out, (position, token)) in x.chunks_exact_mut(width).zip(all) {
            // Ids come from the tokenizer or were checked at the door; positions are within the model's limit.
            self.embeddings
                .row((token as usize).min(self.embeddings.rows() - 1), out);
            if let Some(positions) = &self.positions {
                positions.row(position.min(positions.rows() - 1), &mut place);
                add(out, &place);
            }
        }
        x
    }

    fn attention(
        &self,
        layer: &Layer,
        at: usize,
        x: &[f32],
        stretches: &mut [Stretch<'_>],
    ) -> Vec<f32> {
        let heads = self.heads();
        let (width, kv) = (heads.queries * heads.size, heads.kv * heads.size);
        let mut qkv = layer.qkv.apply(x);
        let mut rows = qkv.chunks_exact_mut(width + 2 * kv);
        for stretch in stretches.iter_mut() {
            let cache = &mut stretch.cache.layers[at];
            for (offset, row) in rows.by_ref().take(stretch.tokens.len()).enumerate() {
                if self.shape.family == Family::Llama {
                    rope(
                        &mut row[..width + kv],
                        heads.size,
                        stretch.from + offset,
                        self.shape.rope_theta,
                    );
                }
                let (keys, values) = row[width..].split_at(kv);
                let each = keys
                    .chunks_exact(heads.size)
                    .zip(values.chunks_exact(heads.size));
                for (head, (key, value)) in cache.iter_mut().zip(each) {
                    head.keys.extend_from_slice(key);
                    head.values.extend_from_slice(value);
                }
            }
        }
        let mut rows = qkv.chunks_exact(width + 2 * kv);
        let mut queries = Vec::with_capacity(x.len() / width);
        for stretch in stretches.iter() {
            let seen = &stretch.cache.layers[at];
            for (offset, row) in rows.by_ref().take(stretch.tokens.len()).enumerate() {
                queries.push(Query {
                    values: &row[..width],
                    seen,
                    length: stretch.from + offset + 1,
                });
            }
        }
        attend(&queries, heads)
    }

    fn heads(&self) -> Heads {
        let (queries, kv) = (self.shape.heads, self.shape.kv_heads);
        Heads {
            queries,
            kv,
            size: self.shape.width / queries,
        }
    }
}

// Keys and values of a sequence, and attention over them.

/// Keys and values of one sequence, layer by layer.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cache {
    pub(crate) layers: Vec<Vec<HeadCache>>,
}

/// Keys and values of one head, each grown by a row for each token, so that attention reads them as they lie.
#[derive(Debug, Clone, Default)]
pub(crate) struct HeadCache {
    pub(crate) keys: Vec<f32>,
    pub(crate) values: Vec<f32>,
}

impl Cache {
    pub(crate) fn new(shape: &Shape) -> Self {
        Self {
            layers: vec![vec![HeadCache::default(); shape.kv_heads]; shape.layers],
        }
    }
}

/// How heads are laid out.
#[derive(Debug, Clone, Copy)]
struct Heads {
    pub(crate) queries: usize,
    pub(crate) kv: usize,
    pub(crate) size: usize,
}

/// A query: its values, and what it may look at.
#[derive(Debug, Clone, Copy)]
struct Query<'a> {
    pub(crate) values: &'a [f32],
    pub(crate) seen: &'a [HeadCache],
    /// Positions it may look at.
    pub(crate) length: usize,
}

/// Attention of each query, one after the other.
fn attend(queries: &[Query<'_>], heads: Heads) -> Vec<f32> {
    let width = heads.queries * heads.size;
    let mut out = vec![0.0; queries.len() * width];
    let share = heads.queries / heads.kv;
    out.par_chunks_mut(heads.size)
        .enumerate()
        .with_min_len(2)
        .for_each(|(at, out)| {
            let (query, head) = (&queries[at / heads.queries], at % heads.queries);
            let mine = &query.values[head * heads.size..][..heads.size];
            one(mine, &query.seen[head / share], query.length, out);
        });
    out
}

/// One head of one query, over the first `length` positions.
fn one(mine: &[f32], seen: &HeadCache, length: usize, out: &mut [f32]) {
    let size = mine.len();
    let scale = (size as f32).sqrt().recip();
    let mut scores = vec![0.0; length];
    products(
        Rows::F32(&seen.keys[..length * size]),
        mine,
        size,
        &mut scores,
    );
    for score in &mut scores {
        *score *= scale;
    }
    softmax(&mut scores);
    weighted(&seen.values, &scores, out);
}

/// Turns scores into shares.
fn softmax(scores: &mut [f32]) {
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
