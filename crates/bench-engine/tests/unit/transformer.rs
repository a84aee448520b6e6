use super::model::{Model, Stretch};
use super::random_model;
use crate::config::{EngineConfig, EngineKind, Family, Shape, Weights};

fn small(family: Family) -> Shape {
    Shape {
        family,
        vocabulary: 97,
        width: 48,
        layers: 3,
        heads: 6,
        kv_heads: if family == Family::Llama { 2 } else { 6 },
        feed_forward: 80,
        positions: 64,
        rope_theta: 10_000.0,
        norm_eps: 1e-5,
    }
}

/// The logits after a whole prompt, computed in one stretch.
fn alone(model: &Model, tokens: &[u32]) -> Vec<f32> {
    let mut cache = model.cache();
    model.step(&mut [Stretch {
        cache: &mut cache,
        tokens,
        from: 0,
        wanted: true,
    }])
}

#[test]
fn a_batch_of_different_lengths_gives_bit_for_bit_what_each_sequence_alone_gives() {
    for family in [Family::Gpt2, Family::Llama] {
        for weights in [Weights::F32, Weights::Int8] {
            let model = random_model(&small(family), weights, 5);
            let prompts: Vec<Vec<u32>> = (1..8u32)
                .map(|n| (0..n * 3).map(|t| (t * 31 + n) % 97).collect())
                .collect();
            let mut caches: Vec<_> = prompts.iter().map(|_| model.cache()).collect();
            let mut stretches: Vec<_> = prompts
                .iter()
                .zip(&mut caches)
                .map(|(tokens, cache)| Stretch {
                    cache,
                    tokens,
                    from: 0,
                    wanted: true,
                })
                .collect();
            let together = model.step(&mut stretches);
            for (prompt, logits) in prompts.iter().zip(together.chunks_exact(97)) {
                assert_eq!(alone(&model, prompt), logits, "{family:?} {weights:?}");
            }
        }
    }
}

#[test]
fn a_prompt_in_chunks_beside_other_sequences_gives_what_it_gives_whole() {
    for family in [Family::Gpt2, Family::Llama] {
        let model = random_model(&small(family), Weights::F32, 6);
        let prompt: Vec<u32> = (0..20).map(|t| t * 17 % 97).collect();
        let other: Vec<u32> = (0..4).collect();
        let whole = alone(&model, &prompt);
        let (mut cache, mut beside) = (model.cache(), model.cache());
        let mut last = Vec::new();
        for (from, to) in [(0, 7), (7, 8), (8, 19), (19, 20)] {
            let mine = Stretch {
                cache: &mut cache,
                tokens: &prompt[from..to],
                from,
                wanted: to == 20,
            };
            let theirs = Stretch {
                cache: &mut beside,
                tokens: &other[..1],
                from: 0,
                wanted: false,
            };
            last = model.step(&mut [theirs, mine]);
            beside = model.cache();
        }
        assert_eq!(last, whole, "{family:?}");
    }
}

#[test]
fn bytes_are_close_to_floats() {
    for family in [Family::Gpt2, Family::Llama] {
        let (floats, bytes) = (
            random_model(&small(family), Weights::F32, 7),
            random_model(&small(family), Weights::Int8, 7),
        );
        let prompt: Vec<u32> = (0..12).collect();
        let (a, b) = (alone(&floats, &prompt), alone(&bytes, &prompt));
        let norm = |v: &[f32]| v.iter().map(|x| x * x).sum::<f32>().sqrt();
        let difference: Vec<f32> = a.iter().zip(&b).map(|(a, b)| a - b).collect();
        assert!(
            norm(&difference) < 0.03 * norm(&a),
            "{family:?}: {} of {}",
            norm(&difference),
            norm(&a)
        );
        assert!(norm(&difference) > 0.0);
    }
}

#[test]
fn the_profiles_have_the_sizes_their_names_say() {
    let tiny = random_model(&Shape::tiny(), Weights::Int8, 1);
    assert!(
        (13_500_000..14_500_000).contains(&tiny.parameters()),
        "{}",
        tiny.parameters()
    );
    let config = EngineConfig::profile("gpt2-124m").unwrap();
    let EngineKind::Transformer(gpt2) = config.engine else {
        unreachable!("a transformer")
    };
    let shape = Shape {
        layers: 1,
        ..gpt2.shape
    };
    let one = random_model(&shape, Weights::Int8, 1).parameters();
    let layer = 12 * 768 * 768;
    assert!(
        (123_000_000..125_000_000).contains(&(one + 11 * layer)),
        "{}",
        one + 11 * layer
    );
}

/// What another implementation computed; `tests/fixtures/ORIGIN.md` says which.
#[derive(serde::Deserialize)]
struct Expected {
    tokens: Vec<u32>,
    logits_after_each_token: Vec<Vec<f32>>,
}

fn reference(kind: &str) -> (std::path::PathBuf, Expected) {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures")
        .join(kind);
    let expected = std::fs::read(folder.join("expected.json")).unwrap();
    (folder, serde_json::from_slice(&expected).unwrap())
}

fn furthest(a: &[f32], b: &[f32]) -> f32 {
    a.iter()
        .zip(b)
        .map(|(a, b)| (a - b).abs())
        .fold(0.0, f32::max)
}

#[test]
fn logits_after_each_token_are_those_of_another_implementation() {
    for kind in ["gpt2", "llama"] {
        let (folder, expected) = reference(kind);
        let (model, _) = super::files::load(&folder, Weights::F32).unwrap();
        let mut cache = model.cache();
        let spread = expected.logits_after_each_token[0]
            .iter()
            .fold(0.0f32, |m, x| m.max(x.abs()));
        for (at, (token, theirs)) in expected
            .tokens
            .iter()
            .zip(&expected.logits_after_each_token)
            .enumerate()
        {
            let stretch = Stretch {
                cache: &mut cache,
                tokens: &[*token],
                from: at,
                wanted: true,
            };
            let ours = model.step(&mut [stretch]);
            assert_eq!(ours.len(), theirs.len());
            assert!(
                furthest(&ours, theirs) < 2e-5 * spread.max(1.0),
                "{kind} {at}: {}",
                furthest(&ours, theirs)
            );
        }
        let whole = alone(&model, &expected.tokens);
        assert!(
            furthest(&whole, expected.logits_after_each_token.last().unwrap())
                < 2e-5 * spread.max(1.0)
        );
    }
}

#[test]
fn a_model_folder_that_cannot_be_used_is_refused_with_the_file_and_the_reason() {
    let (folder, _) = reference("gpt2");
    let copy = tempfile::tempdir().unwrap();
    let refused = |says: &str| {
        let error = super::files::load(copy.path(), Weights::F32)
            .unwrap_err()
            .to_string();
        assert!(error.contains(says), "{error}");
    };
    refused("config.json");
    let config = std::fs::read_to_string(folder.join("config.json")).unwrap();
    std::fs::write(
        copy.path().join("config.json"),
        config.replace("gpt2", "mamba"),
    )
    .unwrap();
    refused("mamba");
    std::fs::write(
        copy.path().join("config.json"),
        config.replace("\"n_embd\": 32", "\"n_embd\": 64"),
    )
    .unwrap();
    refused("no *.safetensors");
    std::fs::copy(
        folder.join("model.safetensors"),
        copy.path().join("model.safetensors"),
    )
    .unwrap();
    refused("wte.weight has the shape [97, 32]");
    std::fs::write(
        copy.path().join("config.json"),
        config.replace("\"n_layer\": 2", "\"n_layer\": 3"),
    )
    .unwrap();
    refused("h.2.ln_1.weight is missing");
    std::fs::write(copy.path().join("model.safetensors"), b"rubbish").unwrap();
    refused("model.safetensors");
}
