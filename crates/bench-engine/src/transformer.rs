//! A decoder-only transformer on the CPU: the real engine behind a newcomer's first command.
//!
//! [`model`] computes any mixture of sequences and positions in one call; [`drive`] feeds it what the scheduler decides.
//! With random weights, the default, the computing is that of the real model and the text is noise.

pub(crate) mod drive;
mod files;
mod matrix;
pub(crate) mod model;
mod tile;

use rayon::prelude::{IntoParallelIterator as _, ParallelIterator as _};

use crate::EngineError;
use crate::config::{Family, Shape, Transformer, Weights};
use crate::fault::mix;
use crate::text::Text;

use matrix::{Linear, Matrix, Norm};
use model::{Layer, Model};

/// A model with everything that serving it needs.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) model: Model,
    pub(crate) text: Text,
    /// Ids that end an answer.
    pub(crate) ends: Vec<u32>,
    /// Threads that compute; 0: one for each processor.
    pub(crate) threads: usize,
}

/// Reads a model folder, or makes random weights.
pub(crate) fn load(config: &Transformer, seed: u64) -> Result<Loaded, EngineError> {
    let threads = config.threads;
    if let Some(folder) = &config.model_dir {
        let (model, ends) = files::load(folder, config.weights)?;
        let text = Text::load(&folder.join("tokenizer.json"))?;
        return Ok(Loaded {
            model,
            text,
            ends,
            threads,
        });
    }
    check(&config.shape)?;
    let model = random_model(&config.shape, config.weights, seed);
    let words = u32::try_from(config.shape.vocabulary).unwrap_or(u32::MAX);
    Ok(Loaded {
        model,
        text: Text::words(words),
        ends: Vec::new(),
        threads,
    })
}

/// Refuses shapes that cannot be computed.
fn check(shape: &Shape) -> Result<(), EngineError> {
    let refuse = |key: &str, reason: &str| {
        Err(EngineError::Config {
            key: format!("engine.shape.{key}"),
            reason: reason.to_owned(),
        })
    };
    let all = [
        shape.vocabulary,
        shape.width,
        shape.layers,
        shape.heads,
        shape.kv_heads,
        shape.feed_forward,
    ];
    if all.contains(&0) || shape.positions < 2 {
        return refuse("*", "every size must be at least 1, positions at least 2");
    }
    if !shape.width.is_multiple_of(shape.heads) || !(shape.width / shape.heads).is_multiple_of(2) {
        return refuse("heads", "must divide width into heads of an even size");
    }
    if !shape.heads.is_multiple_of(shape.kv_heads) {
        return refuse("kv_heads", "must divide heads");
    }
    Ok(())
}

/// A model of that shape with weights from a seed: the computing of a real model, and text that is noise.
fn random_model(shape: &Shape, weights: Weights, seed: u64) -> Model {
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

#[cfg(test)]
#[path = "../tests/unit/transformer.rs"]
mod tests;
