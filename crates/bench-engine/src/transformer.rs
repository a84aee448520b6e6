//! A decoder-only transformer on the CPU: the real engine behind a newcomer's first command.
//!
//! [`model`] computes any mixture of sequences and positions in one call; [`drive`] feeds it what the scheduler decides.
//! With random weights, the default, the computing is that of the real model and the text is noise.

mod attention;
pub(crate) mod drive;
mod files;
mod layers;
mod matrix;
pub(crate) mod model;
mod random;
mod sample;
mod tile;

#[cfg(test)]
mod tests;

use crate::config::Transformer;
use crate::error::EngineError;
use crate::text::Text;
use model::Model;

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
    let model = random::model(&config.shape, config.weights, seed);
    let words = u32::try_from(config.shape.vocabulary).unwrap_or(u32::MAX);
    Ok(Loaded {
        model,
        text: Text::words(words),
        ends: Vec::new(),
        threads,
    })
}

/// Refuses shapes that cannot be computed.
fn check(shape: &crate::config::Shape) -> Result<(), EngineError> {
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
