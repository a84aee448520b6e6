//! Weights from a seed: the computing of a real model, and text that is noise.

use rayon::prelude::{IntoParallelIterator as _, ParallelIterator as _};

use super::layers::{Linear, Norm};
use super::matrix::Matrix;
use super::model::{Layer, Model};
use crate::config::{Family, Shape, Weights};
use crate::fault::mix;

/// A model of that shape.
pub(crate) fn model(shape: &Shape, weights: Weights, seed: u64) -> Model {
    let mut source = Source {
        seed: mix(seed),
        drawn: 0,
        weights,
    };
    let (width, inner) = (shape.width, shape.feed_forward);
    let kv = shape.kv_heads * (width / shape.heads);
    let gpt2 = shape.family == Family::Gpt2;
    let norm = || Norm {
        weight: vec![1.0; width],
        bias: gpt2.then(|| vec![0.0; width]),
        eps: shape.norm_eps,
    };
    let mut linear = |rows: usize, width: usize| Linear {
        matrix: source.matrix(rows, width),
        bias: gpt2.then(|| vec![0.0; rows]),
    };
    let layers = (0..shape.layers)
        .map(|_| Layer {
            attention_norm: norm(),
            qkv: linear(width + 2 * kv, width),
            output: linear(width, width),
            feed_norm: norm(),
            up: linear(if gpt2 { inner } else { 2 * inner }, width),
            down: linear(width, inner),
        })
        .collect();
    Model {
        embeddings: source.matrix(shape.vocabulary, width),
        positions: gpt2.then(|| source.matrix(shape.positions, width)),
        layers,
        norm: norm(),
        head: None,
        shape: shape.clone(),
    }
}

struct Source {
    seed: u64,
    drawn: u64,
    weights: Weights,
}

impl Source {
    /// Uniform values with the deviation 1/√width, so that activations neither vanish nor explode.
    fn matrix(&mut self, rows: usize, width: usize) -> Matrix {
        let bound = (3.0 / width as f32).sqrt();
        let first = self.drawn;
        self.drawn += (rows * width) as u64;
        let seed = self.seed;
        let values = (0..rows * width)
            .into_par_iter()
            .map(|at| {
                let bits = (mix(seed ^ (first + at as u64)) >> 40) as f32;
                (bits / (1u32 << 23) as f32 - 1.0) * bound
            })
            .collect();
        Matrix::new(values, width, self.weights)
    }
}
