//! Does a 95 % interval cover the truth 95 % of the time, with values that know their neighbours?

use bench_metrics::{
    BlockMean, Bootstrap, Part, Sample, Timeline, quantile_in_time, quantile_of_clusters,
};

use bench_schema::{Nanos, Stamp, Window};

use crate::noise::Noise;

/// z of the quantiles in use.
fn normal_quantile(q: f64) -> f64 {
    match q {
        q if (q - 0.5).abs() < 1e-9 => 0.0,
        q if (q - 0.9).abs() < 1e-9 => 1.281_551_565_5,
        q if (q - 0.95).abs() < 1e-9 => 1.644_853_627,
        _ => 2.326_347_874,
    }
}

/// The share of intervals that cover, of those with both ends and of all (an open end covers).
fn covered(trials: u64, trial: impl Fn(&mut Noise) -> bool) -> f64 {
    (0..trials)
        .filter(|seed| trial(&mut Noise::seeded(*seed)))
        .count() as f64
        / trials as f64
}

/// The mean of exp(0.5·z) × 100.
const LOGNORMAL_MEAN: f64 = 113.314_845_306_682_63;

fn mean_coverage(n: usize, memory: f64, trials: u64) -> f64 {
    covered(trials, |noise| {
        BlockMean::of_values(&noise.latencies(n, memory))
            .is_some_and(|m| m.interval(0.95).covers(LOGNORMAL_MEAN))
    })
}

fn quantile_coverage(n: usize, memory: f64, q: f64, trials: u64) -> f64 {
    let truth = 100.0 * (0.5 * normal_quantile(q)).exp();
    covered(trials, |noise| {
        let values = noise.latencies(n, memory);
        Sample::of(&values).is_some_and(|s| {
            quantile_in_time(&s, &values, q, 0.95)
                .estimate
                .covers(truth)
        })
    })
}

/// Gaps of requests with levels: the mean is 10, and the median too.
fn cluster_coverage(requests: usize, gaps: usize, trials: u64) -> (f64, f64) {
    let mean = covered(trials, |noise| {
        let parts: Vec<Part> = noise
            .clusters(requests, gaps)
            .iter()
            .map(|c| Part {
                num: c.iter().sum(),
                den: c.len() as f64,
            })
            .collect();
        BlockMean::of_parts(&parts).is_some_and(|m| m.interval(0.95).covers(10.0))
    });
    let median = covered(trials, |noise| {
        let clusters = noise.clusters(requests, gaps);
        let Some(sample) = Sample::of(&clusters.concat()) else {
            return false;
        };
        quantile_of_clusters(&sample, &clusters, 0.5, 0.95)
            .estimate
            .covers(10.0)
    });
    (mean, median)
}

/// Within 93 … 97 %, give or take the error of `trials`; quantiles of few values are conservative by construction.
fn assert_honest(name: &str, coverage: f64, trials: u64, high: f64) {
    let slack = 2.5 * (0.95 * 0.05 / trials as f64).sqrt();
    assert!(
        (0.93 - slack..=high + slack).contains(&coverage),
        "{name}: {coverage}"
    );
}

#[test]
fn means_are_covered_though_neighbours_are_alike() {
    for (n, memory) in [(300, 0.0), (600, 0.5), (2_000, 0.8)] {
        assert_honest(
            &format!("mean, n {n}, memory {memory}"),
            mean_coverage(n, memory, 400),
            400,
            0.97,
        );
    }
}

#[test]
fn quantiles_are_covered_though_neighbours_are_alike() {
    for (n, memory, q) in [(600, 0.0, 0.5), (600, 0.5, 0.9), (2_000, 0.8, 0.95)] {
        let coverage = quantile_coverage(n, memory, q, 300);
        assert_honest(
            &format!("p{q}, n {n}, memory {memory}"),
            coverage,
            300,
            0.985,
        );
    }
}

#[test]
fn gaps_are_covered_because_the_request_is_the_unit() {
    let (mean, median) = cluster_coverage(60, 40, 300);
    assert_honest("mean of gaps", mean, 300, 0.97);
    assert_honest("median of gaps", median, 300, 0.985);
}

#[test]
fn rates_are_covered() {
    // Ten tokens a second in Poisson arrivals over five minutes, cut into bins as a cell's timeline is.
    let coverage = covered(300, |noise| {
        let mut line = Timeline::default();
        let mut at = 0.0;
        while at < 300.0 {
            line.at(Stamp::EPOCH + Nanos::from_secs_f64(at)).tokens += 1.0;
            at += noise.exponential(0.1);
        }
        let whole = Window {
            from: Stamp::EPOCH,
            to: Stamp::EPOCH + Nanos::from_secs(300),
        };
        let parts = line
            .snap(whole)
            .map(|window| line.parts(window, |bin| bin.tokens))
            .unwrap_or_default();
        BlockMean::of_parts(&parts).is_some_and(|rate| rate.interval(0.95).covers(10.0))
    });
    assert_honest("rate", coverage, 300, 0.97);
}

#[test]
fn intervals_that_ignore_the_memory_do_not_cover() {
    // The same figures as independent values: what the block intervals are for.
    let naive = covered(300, |noise| {
        let sample = Sample::of(&noise.latencies(600, 0.8)).unwrap();
        let half = 1.96 * sample.sd().unwrap() / (600.0_f64).sqrt();
        (sample.mean() - LOGNORMAL_MEAN).abs() <= half
    });
    assert!(naive < 0.75, "{naive}");
}

#[test]
#[ignore = "the long version, whose figures stand in docs/metrics.md: run with --release, takes a minute"]
fn long_coverage_tables() {
    for (n, memory) in [
        (100, 0.0),
        (400, 0.0),
        (400, 0.5),
        (500, 0.8),
        (1_000, 0.9),
        (2_000, 0.9),
        (10_000, 0.9),
    ] {
        let quantiles: Vec<String> = [0.5, 0.9, 0.95, 0.99]
            .iter()
            .map(|q| format!("p{q} {:.3}", quantile_coverage(n, memory, *q, 2_000)))
            .collect();
        println!(
            "n {n} memory {memory}: mean {:.3} {}",
            mean_coverage(n, memory, 4_000),
            quantiles.join(" ")
        );
    }
    for (requests, gaps) in [(20, 100), (60, 40), (500, 100)] {
        println!(
            "{requests} requests of {gaps} gaps: {:?}",
            cluster_coverage(requests, gaps, 1_000)
        );
    }
    let boot = Bootstrap {
        resamples: 400,
        ..Bootstrap::default()
    };
    for (n, memory) in [(300, 0.0), (600, 0.5), (1_000, 0.8)] {
        let mean = |v: &[f64]| Some(v.iter().sum::<f64>() / v.len() as f64);
        let rate = covered(600, |noise| {
            boot.by_time(&noise.latencies(n, memory), mean)
                .unwrap()
                .covers(LOGNORMAL_MEAN)
        });
        println!("block bootstrap of the mean, n {n} memory {memory}: {rate:.3}");
    }
}
