use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;

/// A standard normal number (Box and Muller).
fn normal(rng: &mut ChaCha8Rng) -> f64 {
    let (u, v): (f64, f64) = (rng.random(), rng.random());
    (-2.0 * (1.0 - u).ln()).sqrt() * (std::f64::consts::TAU * v).cos()
}

/// Random walks instead of the recursion: five of a hundred cross a boundary somewhere.
#[test]
fn all_looks_together_raise_as_many_false_alarms_as_was_asked() {
    const WALKS: u32 = 40_000;
    for most in [5, 12, 60] {
        let looks = Looks::new(most).unwrap();
        let bounds: Vec<(usize, f64)> = looks
            .at()
            .map(|blocks| (blocks, -normal_quantile(looks.level(0.05, blocks) / 2.0)))
            .collect();
        assert_eq!(bounds.last().unwrap().0, most);
        let mut rng = ChaCha8Rng::seed_from_u64(22);
        let crossed = (0..WALKS).filter(|_| {
            let (mut sum, mut blocks) = (0.0, 0);
            bounds.iter().any(|(at, bound)| {
                for _ in blocks..*at {
                    sum += normal(&mut rng);
                }
                blocks = *at;
                sum.abs() / float(*at).sqrt() > *bound
            })
        });
        let share = float(crossed.count()) / f64::from(WALKS);
        // four standard errors of 40,000 walks
        assert!((share - 0.05).abs() < 0.0044, "{most}: {share}");
    }
}

#[test]
fn a_difference_on_the_boundary_has_the_error_that_was_asked() {
    let looks = Looks::new(12).unwrap();
    for blocks in looks.at() {
        let p = looks.p(looks.level(0.05, blocks), blocks);
        assert!((p - 0.05).abs() < 1e-4, "{blocks}: {p}");
    }
    // early looks are stricter, and none is as lenient as a single one would be
    let levels: Vec<f64> = looks.at().map(|blocks| looks.level(0.05, blocks)).collect();
    assert!(levels.is_sorted(), "{levels:?}");
    assert!(
        levels.iter().all(|level| (0.003..0.045).contains(level)),
        "{levels:?}"
    );
}

#[test]
fn an_experiment_of_the_fewest_blocks_is_looked_at_once() {
    assert!(Looks::new(FEWEST_BLOCKS).is_none());
    let at: Vec<usize> = Looks::new(6).unwrap().at().collect();
    assert_eq!(at, [4, 5, 6]);
    assert!(Looks::new(1_000).unwrap().at().count() <= 26);
}
