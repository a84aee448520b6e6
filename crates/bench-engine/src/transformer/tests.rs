use super::model::{Model, Stretch};
use super::random;
use crate::config::{Family, Shape, Weights};

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
            let model = random::model(&small(family), weights, 5);
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
        let model = random::model(&small(family), Weights::F32, 6);
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
            random::model(&small(family), Weights::F32, 7),
            random::model(&small(family), Weights::Int8, 7),
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
    let tiny = random::model(&Shape::tiny(), Weights::Int8, 1);
    assert!(
        (13_500_000..14_500_000).contains(&tiny.parameters()),
        "{}",
        tiny.parameters()
    );
    let shape = Shape {
        layers: 1,
        ..Shape::gpt2_small()
    };
    let one = random::model(&shape, Weights::Int8, 1).parameters();
    let layer = 12 * 768 * 768;
    assert!(
        (123_000_000..125_000_000).contains(&(one + 11 * layer)),
        "{}",
        one + 11 * layer
    );
}
