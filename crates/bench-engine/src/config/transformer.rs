//! The transformer's part of the configuration.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::Limits;

/// The transformer: its shape, its weights, its scheduler.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Transformer {
    /// Shape of the model; ignored where `model_dir` says it.
    pub shape: Shape,
    /// How weights are kept.
    pub weights: Weights,
    /// Folder with `config.json`, `*.safetensors` and `tokenizer.json`; absent: random weights, and the text is noise.
    pub model_dir: Option<PathBuf>,
    /// Threads that compute; 0: one for each processor.
    pub threads: usize,
    /// The scheduler's limits. Prefix caching is not available here.
    pub scheduler: Limits,
}

impl Default for Transformer {
    fn default() -> Self {
        Self {
            shape: Shape::tiny(),
            weights: Weights::Int8,
            model_dir: None,
            threads: 0,
            scheduler: Limits {
                max_num_seqs: 16,
                max_num_batched_tokens: 256,
                enable_prefix_caching: false,
                ..Limits::default()
            },
        }
    }
}

/// How weights are kept in memory. Activations are always 32-bit floats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Weights {
    /// 32-bit floats.
    F32,
    /// 8-bit integers with one scale for each output.
    Int8,
}

/// The shape of a decoder-only transformer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shape {
    /// Which family of layers.
    pub family: Family,
    /// Ids of the vocabulary.
    pub vocabulary: usize,
    /// Width.
    pub width: usize,
    /// Layers.
    pub layers: usize,
    /// Attention heads.
    pub heads: usize,
    /// Heads of keys and values; equal to `heads` unless queries share them.
    pub kv_heads: usize,
    /// Width inside the feed-forward part.
    pub feed_forward: usize,
    /// Most positions.
    pub positions: usize,
    /// Base of the rotary angles (Llama).
    pub rope_theta: f32,
    /// Added under the root of the norms.
    pub norm_eps: f32,
}

/// Which family of layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Family {
    /// Layer norm, learned positions, GELU, biases.
    Gpt2,
    /// Root-mean-square norm, rotary positions, `SwiGLU`, shared key and value heads.
    Llama,
}

impl Shape {
    /// 14 million parameters, Llama's layers: steps of a few milliseconds on two cores.
    pub fn tiny() -> Self {
        Self {
            family: Family::Llama,
            vocabulary: 8192,
            width: 384,
            layers: 6,
            heads: 6,
            kv_heads: 6,
            feed_forward: 1024,
            positions: 4096,
            rope_theta: 10_000.0,
            norm_eps: 1e-5,
        }
    }

    /// GPT-2 small: 124 million parameters.
    pub fn gpt2_small() -> Self {
        Self {
            family: Family::Gpt2,
            vocabulary: 50_257,
            width: 768,
            layers: 12,
            heads: 12,
            kv_heads: 12,
            feed_forward: 3072,
            positions: 1024,
            rope_theta: 10_000.0,
            norm_eps: 1e-5,
        }
    }
}
