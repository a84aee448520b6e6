//! A model folder as Hugging Face lays it out: `config.json`, `*.safetensors`, `tokenizer.json`.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use rayon::prelude::{IntoParallelIterator as _, ParallelIterator as _};
use safetensors::{Dtype, SafeTensors};
use serde::Deserialize;

use super::matrix::{Linear, Matrix, Norm};
use super::model::{Layer, Model};
use crate::EngineError;
use crate::config::{Family, Shape, Weights};

/// The keys of `config.json` that matter here, in both families' spellings.
#[derive(Debug, Deserialize)]
struct Config {
    model_type: String,
    vocab_size: usize,
    #[serde(alias = "n_embd")]
    hidden_size: usize,
    #[serde(alias = "n_layer")]
    num_hidden_layers: usize,
    #[serde(alias = "n_head")]
    num_attention_heads: usize,
    num_key_value_heads: Option<usize>,
    #[serde(alias = "n_inner")]
    intermediate_size: Option<usize>,
    #[serde(alias = "n_positions")]
    max_position_embeddings: Option<usize>,
    rope_theta: Option<f32>,
    rope_scaling: Option<serde_json::Value>,
    #[serde(alias = "layer_norm_epsilon")]
    rms_norm_eps: Option<f32>,
    eos_token_id: Option<Ids>,
    head_dim: Option<usize>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Ids {
    One(u32),
    Several(Vec<u32>),
}

/// Reads the model and the ids that end an answer.
pub(crate) fn load(folder: &Path, weights: Weights) -> Result<(Model, Vec<u32>), EngineError> {
    let path = folder.join("config.json");
    let bytes = read(&path)?;
    let config: Config =
        serde_json::from_slice(&bytes).map_err(|error| format(&path, &error.to_string()))?;
    let shape = shape_of(&config).map_err(|reason| format(&path, &reason))?;
    super::check(&shape)?;
    let files = tensor_files(folder)?;
    let contents: Vec<(PathBuf, Vec<u8>)> = files
        .into_iter()
        .map(|path| read(&path).map(|bytes| (path, bytes)))
        .collect::<Result<_, _>>()?;
    let mut store = Store {
        tensors: HashMap::new(),
        weights,
        folder: folder.to_owned(),
    };
    for (path, bytes) in &contents {
        let tensors =
            SafeTensors::deserialize(bytes).map_err(|error| format(path, &error.to_string()))?;
        for (name, view) in tensors.tensors() {
            let name = name
                .strip_prefix("transformer.")
                .unwrap_or(&name)
                .to_owned();
            store.tensors.insert(
                name,
                (view.dtype(), view.shape().to_vec(), view.data().to_vec()),
            );
        }
    }
    let ends = match config.eos_token_id {
        None => Vec::new(),
        Some(Ids::One(id)) => vec![id],
        Some(Ids::Several(ids)) => ids,
    };
    let model = match shape.family {
        Family::Gpt2 => store.gpt2(shape)?,
        Family::Llama => store.llama(shape)?,
    };
    Ok((model, ends))
}

fn shape_of(config: &Config) -> Result<Shape, String> {
    let family = match config.model_type.as_str() {
        "gpt2" => Family::Gpt2,
        "llama" => Family::Llama,
        other => {
            return Err(format!(
                "model_type {other:?} is not known; there are gpt2 and llama"
            ));
        }
    };
    if config
        .rope_scaling
        .as_ref()
        .is_some_and(|scaling| !scaling.is_null())
    {
        return Err("rope_scaling is not supported; remove it only if prompts stay short".into());
    }
    let (width, heads) = (config.hidden_size, config.num_attention_heads);
    if config.head_dim.is_some_and(|size| size * heads != width) {
        return Err("head_dim times heads must be the width".into());
    }
    Ok(Shape {
        family,
        vocabulary: config.vocab_size,
        width,
        layers: config.num_hidden_layers,
        heads,
        kv_heads: config.num_key_value_heads.unwrap_or(heads),
        feed_forward: config.intermediate_size.unwrap_or(4 * width),
        positions: config.max_position_embeddings.unwrap_or(1024),
        rope_theta: config.rope_theta.unwrap_or(10_000.0),
        norm_eps: config.rms_norm_eps.unwrap_or(1e-5),
    })
}

fn tensor_files(folder: &Path) -> Result<Vec<PathBuf>, EngineError> {
    let listing = std::fs::read_dir(folder).map_err(|source| EngineError::Read {
        path: folder.to_owned(),
        source,
    })?;
    let mut files: Vec<PathBuf> = listing
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| path.extension().is_some_and(|e| e == "safetensors"))
        .collect();
    files.sort();
    if files.is_empty() {
        return Err(format(folder, "holds no *.safetensors file"));
    }
    Ok(files)
}

fn read(path: &Path) -> Result<Vec<u8>, EngineError> {
    std::fs::read(path).map_err(|source| EngineError::Read {
        path: path.to_owned(),
        source,
    })
}

fn format(path: &Path, reason: &str) -> EngineError {
    EngineError::Format {
        path: path.to_owned(),
        reason: reason.to_owned(),
    }
}

struct Store {
    tensors: HashMap<String, (Dtype, Vec<usize>, Vec<u8>)>,
    weights: Weights,
    folder: PathBuf,
}

impl Store {
    /// A tensor's values as floats; each is used once, or twice where the head shares the embeddings.
    fn values(&self, name: &str, expected: &[usize]) -> Result<Vec<f32>, EngineError> {
        let refuse = |reason: String| EngineError::Format {
            path: self.folder.clone(),
            reason,
        };
        let (dtype, shape, data) = self
            .tensors
            .get(name)
            .ok_or_else(|| refuse(format!("the tensor {name} is missing")))?;
        if shape != expected {
            return Err(refuse(format!(
                "{name} has the shape {shape:?}; the configuration makes it {expected:?}"
            )));
        }
        match dtype {
            Dtype::F32 => Ok(data
                .chunks_exact(4)
                .map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]))
                .collect()),
            Dtype::BF16 => Ok(data
                .chunks_exact(2)
                .map(|b| f32::from_le_bytes([0, 0, b[0], b[1]]))
                .collect()),
            Dtype::F16 => Ok(data
                .chunks_exact(2)
                .map(|b| half(u16::from_le_bytes([b[0], b[1]])))
                .collect()),
            other => Err(refuse(format!(
                "{name} is {other:?}; F32, F16 and BF16 are known"
            ))),
        }
    }

    fn matrix(&self, name: &str, rows: usize, width: usize) -> Result<Matrix, EngineError> {
        Ok(Matrix::new(
            self.values(name, &[rows, width])?,
            width,
            self.weights,
        ))
    }

    /// GPT-2 keeps its maps the other way round: inputs by outputs.
    fn turned(&self, name: &str, rows: usize, width: usize) -> Result<Linear, EngineError> {
        let values = self.values(&format!("{name}.weight"), &[width, rows])?;
        let turned = (0..rows * width)
            .into_par_iter()
            .map(|at| values[at % width * rows + at / width])
            .collect();
        let bias = Some(self.values(&format!("{name}.bias"), &[rows])?);
        Ok(Linear {
            matrix: Matrix::new(turned, width, self.weights),
            bias,
        })
    }

    /// Several maps of the same inputs as one.
    fn joined(&self, names: &[(String, usize)], width: usize) -> Result<Linear, EngineError> {
        let mut all = Vec::new();
        for (name, rows) in names {
            all.extend(self.values(&format!("{name}.weight"), &[*rows, width])?);
        }
        Ok(Linear {
            matrix: Matrix::new(all, width, self.weights),
            bias: None,
        })
    }

    fn norm(&self, name: &str, shape: &Shape) -> Result<Norm, EngineError> {
        let weight = self.values(&format!("{name}.weight"), &[shape.width])?;
        let bias = match shape.family {
            Family::Gpt2 => Some(self.values(&format!("{name}.bias"), &[shape.width])?),
            Family::Llama => None,
        };
        Ok(Norm {
            weight,
            bias,
            eps: shape.norm_eps,
        })
    }

    fn gpt2(&self, shape: Shape) -> Result<Model, EngineError> {
        let (width, inner) = (shape.width, shape.feed_forward);
        let layer = |at: usize| {
            let name = |part: &str| format!("h.{at}.{part}");
            Ok(Layer {
                attention_norm: self.norm(&name("ln_1"), &shape)?,
                qkv: self.turned(&name("attn.c_attn"), 3 * width, width)?,
                output: self.turned(&name("attn.c_proj"), width, width)?,
                feed_norm: self.norm(&name("ln_2"), &shape)?,
                up: self.turned(&name("mlp.c_fc"), inner, width)?,
                down: self.turned(&name("mlp.c_proj"), width, inner)?,
            })
        };
        Ok(Model {
            embeddings: self.matrix("wte.weight", shape.vocabulary, width)?,
            positions: Some(self.matrix("wpe.weight", shape.positions, width)?),
            layers: (0..shape.layers)
                .map(layer)
                .collect::<Result<_, EngineError>>()?,
            norm: self.norm("ln_f", &shape)?,
            head: None,
            shape,
        })
    }

    fn llama(&self, shape: Shape) -> Result<Model, EngineError> {
        let (width, inner) = (shape.width, shape.feed_forward);
        let kv = shape.kv_heads * (width / shape.heads);
        let layer = |at: usize| {
            let name = |part: &str| format!("model.layers.{at}.{part}");
            let attention = [
                ("self_attn.q_proj", width),
                ("self_attn.k_proj", kv),
                ("self_attn.v_proj", kv),
            ];
            let feed = [("mlp.gate_proj", inner), ("mlp.up_proj", inner)];
            let named = |parts: &[(&str, usize)]| {
                parts
                    .iter()
                    .map(|(n, rows)| (name(n), *rows))
                    .collect::<Vec<_>>()
            };
            Ok(Layer {
                attention_norm: self.norm(&name("input_layernorm"), &shape)?,
                qkv: self.joined(&named(&attention), width)?,
                output: self.joined(&[(name("self_attn.o_proj"), width)], width)?,
                feed_norm: self.norm(&name("post_attention_layernorm"), &shape)?,
                up: self.joined(&named(&feed), width)?,
                down: self.joined(&[(name("mlp.down_proj"), width)], inner)?,
            })
        };
        let tied = !self.tensors.contains_key("lm_head.weight");
        let head = (!tied)
            .then(|| self.matrix("lm_head.weight", shape.vocabulary, width))
            .transpose()?;
        Ok(Model {
            embeddings: self.matrix("model.embed_tokens.weight", shape.vocabulary, width)?,
            positions: None,
            layers: (0..shape.layers)
                .map(layer)
                .collect::<Result<_, EngineError>>()?,
            norm: self.norm("model.norm", &shape)?,
            head,
            shape,
        })
    }
}

/// A half-precision float.
fn half(bits: u16) -> f32 {
    let sign = if bits & 0x8000 != 0 { -1.0 } else { 1.0 };
    let (exponent, fraction) = (i32::from((bits >> 10) & 31), f32::from(bits & 1023));
    match exponent {
        0 => sign * fraction * 2.0f32.powi(-24),
        31 if fraction.abs() < 1.0 => sign * f32::INFINITY,
        31 => f32::NAN,
        _ => sign * (1.0 + fraction / 1024.0) * 2.0f32.powi(exponent - 15),
    }
}
