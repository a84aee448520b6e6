//! Length distributions against independent values.

use bench_workload::{Draw, JointSampler, JointSpec, LengthSampler, LengthSpec, Seed};
use statrs::distribution::{ContinuousCDF, Gamma, LogNormal, Normal};

const COUNT: u64 = 40_000;

#[expect(clippy::unwrap_used, reason = "only tests call it")]
fn draws(spec: &str) -> Vec<f64> {
    let spec: LengthSpec = spec.parse().unwrap();
    let sampler = LengthSampler::input(&spec).unwrap();
    let streams = Seed::new(11).streams("lengths", "test");
    (0..COUNT)
        .map(|index| sampler.draw(&mut streams.at(index), index) as f64)
        .collect()
}

fn mean_and_sd(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let variance = values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0);
    (mean, variance.sqrt())
}

/// Kolmogorov's distance between whole numbers and a continuous distribution that was rounded to the nearest: the
/// distribution function of the rounded value at k is that of the continuous one at k + 0.5.
fn ks_rounded(values: &[f64], cdf: impl Fn(f64) -> f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len() as f64;
    let mut distance = 0.0_f64;
    for (i, x) in sorted.iter().enumerate() {
        if sorted.get(i + 1).is_none_or(|next| next > x) {
            distance = distance.max((cdf(x + 0.5) - (i + 1) as f64 / n).abs());
        }
    }
    distance
}

/// Exceeded once in a thousand samples: 1.95 / √40 000.
const KS_LIMIT: f64 = 0.009_75;

#[test]
fn normal_lengths_are_normal() {
    let values = draws("normal:550:150");
    let normal = Normal::new(550.0, 150.0).unwrap();
    assert!(ks_rounded(&values, |x| normal.cdf(x)) < KS_LIMIT);
    let (mean, sd) = mean_and_sd(&values);
    assert!(
        (mean - 550.0).abs() < 3.0 && (sd - 150.0).abs() < 2.5,
        "{mean} {sd}"
    );
}

#[test]
fn lognormal_lengths_are_lognormal() {
    let values = draws("lognormal:5.0:1.0");
    let lognormal = LogNormal::new(5.0, 1.0).unwrap();
    assert!(ks_rounded(&values, |x| lognormal.cdf(x)) < KS_LIMIT);
    let (mean, _) = mean_and_sd(&values);
    // e^(5 + 1/2) = 244.69
    assert!((mean / 244.69 - 1.0).abs() < 0.03, "{mean}");
}

#[test]
fn gamma_lengths_are_gamma() {
    for (spec, shape, scale) in [("gamma:2:100", 2.0, 100.0), ("gamma:0.7:400", 0.7, 400.0)] {
        let values = draws(spec);
        let gamma = Gamma::new(shape, 1.0 / scale).unwrap();
        // lengths below 0.5 become 1: the distance is taken from there on
        assert!(ks_rounded(&values, |x| gamma.cdf(x)) < KS_LIMIT, "{spec}");
        let (mean, sd) = mean_and_sd(&values);
        assert!(
            (mean / (shape * scale) - 1.0).abs() < 0.03,
            "{spec}: {mean}"
        );
        assert!(
            (sd / (shape.sqrt() * scale) - 1.0).abs() < 0.04,
            "{spec}: {sd}"
        );
    }
}

#[test]
fn uniform_lengths_reach_both_ends_evenly() {
    let values = draws("128..512");
    assert!(values.iter().all(|n| (128.0..=512.0).contains(n)));
    // the rounded continuous uniform on [127.5, 512.5]
    assert!(ks_rounded(&values, |x| ((x - 127.5) / 385.0).clamp(0.0, 1.0)) < KS_LIMIT);
    for end in [128.0_f64, 512.0] {
        let count = values.iter().filter(|n| (**n - end).abs() < 0.5).count();
        assert!(
            (60..=150).contains(&count),
            "{end}: {count} of 104 expected"
        );
    }
}

#[test]
fn zipf_lengths_follow_the_power_law() {
    let values = draws("zipf:50:1.2");
    let weights: Vec<f64> = (1..=50).map(|k| f64::from(k).powf(-1.2)).collect();
    let total: f64 = weights.iter().sum();
    let mut chi_squared = 0.0;
    for (k, weight) in (1..).zip(&weights) {
        let expected = weight / total * COUNT as f64;
        let seen = values
            .iter()
            .filter(|n| (**n - f64::from(k)).abs() < 0.5)
            .count() as f64;
        chi_squared += (seen - expected).powi(2) / expected;
    }
    // chi² with 49 degrees of freedom exceeds 85.35 once in a thousand
    assert!(chi_squared < 85.35, "{chi_squared}");
}

#[test]
fn lists_go_round_and_fixed_lengths_stay() {
    assert_eq!(draws("list:32,64,128")[..4], [32.0, 64.0, 128.0, 32.0]);
    assert!(draws("77").iter().all(|n| (*n - 77.0).abs() < 0.5));
}

#[test]
fn a_mixture_draws_its_parts_by_weight() {
    let values = draws("mix:3*10+1*1000..2000");
    let small = values.iter().filter(|n| **n < 11.0).count() as f64 / COUNT as f64;
    // sd of the share is √(0.75·0.25/40 000) = 0.0022
    assert!((small - 0.75).abs() < 0.009, "{small}");
}

#[test]
fn bounds_cut_the_tails_and_keep_the_shape_between() {
    let values = draws("normal:100:50[60..140]");
    assert!(values.iter().all(|n| (60.0..=140.0).contains(n)));
    let normal = Normal::new(100.0, 50.0).unwrap();
    let (low, high) = (normal.cdf(59.5), normal.cdf(140.5));
    let truncated = |x: f64| ((normal.cdf(x) - low) / (high - low)).clamp(0.0, 1.0);
    assert!(ks_rounded(&values, truncated) < KS_LIMIT);
    // bounds that the distribution hardly reaches end at the nearer one instead of looping for ever
    assert!(
        draws("normal:100:1[500..600]")
            .iter()
            .all(|n| (*n - 500.0).abs() < 0.5)
    );
}

#[test]
fn empirical_lengths_come_from_the_file() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/datasets");
    let listed = [12.0, 15.0, 18.0, 22.0, 30.0, 41.0, 55.0, 80.0, 200.0, 640.0];
    let values = draws(&format!("empirical:{folder}/lengths.txt"));
    for expected in listed {
        let share = values
            .iter()
            .filter(|n| (**n - expected).abs() < 0.5)
            .count() as f64
            / COUNT as f64;
        assert!((share - 0.1).abs() < 0.007, "{expected}: {share}");
    }
    let from_trace = draws(&format!("empirical:{folder}/azure.csv"));
    let inputs = [420.0, 333.0, 1024.0, 64.0, 512.0, 1800.0];
    assert!(
        from_trace
            .iter()
            .all(|n| inputs.iter().any(|i| (n - i).abs() < 0.5))
    );
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("lengths.txt");
    for wrong in ["0", "99999999999"] {
        std::fs::write(&file, format!("5 7\n9 {wrong}\n")).unwrap();
        let spec = LengthSpec::Empirical(file.clone());
        let message = LengthSampler::input(&spec).unwrap_err().to_string();
        assert!(
            message.contains(&format!("lengths.txt:2: {wrong} is not a valid length")),
            "{message}"
        );
    }
    let missing: LengthSpec = "empirical:no-such-file".parse().unwrap();
    assert!(
        LengthSampler::input(&missing)
            .unwrap_err()
            .to_string()
            .contains("no-such-file")
    );
}

#[test]
fn joint_lengths_stay_together() {
    let streams = Seed::new(12).streams("joint", "");
    let mixture: JointSpec = "joint:1*10/1000+3*2000/20".parse().unwrap();
    let sampler = JointSampler::new(&mixture).unwrap();
    let pairs: Vec<(u64, u64)> = (0..4_000)
        .map(|i| sampler.draw(&mut streams.at(i), i))
        .collect();
    let first = pairs.iter().filter(|pair| **pair == (10, 1000)).count();
    assert!(
        pairs
            .iter()
            .all(|pair| [(10, 1000), (2000, 20)].contains(pair))
    );
    assert!((890..=1_110).contains(&first), "{first} of 1000 expected");
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/datasets");
    let trace: JointSpec = format!("joint:empirical:{folder}/burstgpt.csv")
        .parse()
        .unwrap();
    let sampler = JointSampler::new(&trace).unwrap();
    let known = [
        (310, 24),
        (905, 188),
        (256, 301),
        (1440, 512),
        (40, 1),
        (77, 365),
    ];
    assert!(
        (0..200)
            .all(|i| known.contains(&sampler.draw(&mut Draw::new(Seed::new(i).stream("", "")), i)))
    );
}
