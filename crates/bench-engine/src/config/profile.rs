//! The named configurations.

use super::{
    EngineConfig, EngineKind, Fixed, KeepAlive, Limits, Shape, Simulation, Transformer, Weights,
};

/// Name and one line about each profile.
pub const PROFILES: &[(&str, &str)] = &[
    (
        "fixed",
        "simulated, TTFT 50 ms, 10 ms between tokens, lognormal jitter 0.1, no queue",
    ),
    (
        "instant",
        "simulated, every token due at once: as fast as the socket takes them",
    ),
    (
        "7b",
        "simulated scheduler shaped like a 7B model on one GPU: about 10 ms a token, 8 sequences at a time",
    ),
    (
        "7b-large-batch",
        "the same with 64 sequences and chunked prefill of 2048 tokens",
    ),
    (
        "small-cache",
        "simulated scheduler whose KV cache is too small: preemptions",
    ),
    (
        "llama-server",
        "simulated, 4 sequences, and closes the connection after every streamed answer",
    ),
    (
        "tiny",
        "transformer, 14 million parameters, 8-bit weights, random: the default for a first run",
    ),
    ("tiny-f32", "the same with 32-bit weights"),
    (
        "gpt2-124m",
        "transformer with the shape of GPT-2 small, 32-bit weights, random unless a folder is given",
    ),
];

pub(super) fn named(name: &str) -> Option<EngineConfig> {
    let engine = engine(name)?;
    let (model, max_model_len) = match (&engine, name) {
        (EngineKind::Transformer(t), "gpt2-124m") => ("gpt2-124m", t.shape.positions),
        (EngineKind::Transformer(t), _) => ("tiny", t.shape.positions),
        _ => ("simulated", 32_768),
    };
    let close_after_stream = name == "llama-server";
    Some(EngineConfig {
        model: model.to_owned(),
        max_model_len: u32::try_from(max_model_len).unwrap_or(u32::MAX),
        keep_alive: KeepAlive {
            close_after_stream,
            ..KeepAlive::default()
        },
        engine,
        ..EngineConfig::default()
    })
}

fn engine(name: &str) -> Option<EngineKind> {
    let scheduler = |limits| {
        EngineKind::Scheduler(Simulation {
            scheduler: limits,
            ..Simulation::default()
        })
    };
    let limits = Limits::default;
    let transformer = |shape, weights| {
        EngineKind::Transformer(Transformer {
            shape,
            weights,
            ..Transformer::default()
        })
    };
    Some(match name {
        "fixed" => EngineKind::Fixed(Fixed::default()),
        "instant" => EngineKind::Fixed(Fixed {
            ttft_ms: 0.0,
            itl_ms: 0.0,
            jitter: 0.0,
            ..Fixed::default()
        }),
        "llama-server" => EngineKind::Fixed(Fixed {
            max_num_seqs: Some(4),
            ..Fixed::default()
        }),
        "7b" => scheduler(Limits {
            max_num_seqs: 8,
            ..limits()
        }),
        "7b-large-batch" => scheduler(Limits {
            max_num_seqs: 64,
            num_blocks: 16_384,
            ..limits()
        }),
        "small-cache" => scheduler(Limits {
            num_blocks: 96,
            ..limits()
        }),
        "tiny" => transformer(Shape::tiny(), Weights::Int8),
        "tiny-f32" => transformer(Shape::tiny(), Weights::F32),
        "gpt2-124m" => transformer(Shape::gpt2_small(), Weights::F32),
        _ => return None,
    })
}
