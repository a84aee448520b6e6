//! Does a 95 % interval cover the truth 95 % of the time, with values that know their neighbours?

use bench_metrics::{
    BlockMean, Part, Sample, Timeline, quantile_in_time, summarise_cell, summarise_clusters,
};

use bench_schema::{
    Interval, Metric, Nanos, Phase, RequestRecord, Slo, SloVerdict, Stamp, Unit, Window,
};

use crate::aggregate::{closed, open};
use crate::noise::Noise;
use crate::records::answer;

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
        BlockMean::of_parts(parts.iter()).is_some_and(|m| m.interval(0.95).covers(10.0))
    });
    let median = covered(trials, |noise| {
        let clusters = noise.clusters(requests, gaps);
        let whole = summarise_clusters(&clusters, Unit::Ns);
        let median = whole.as_ref().and_then(|all| all.quantile_entry(0.5));
        let interval = median.and_then(|entry| entry.interval);
        interval.is_none_or(|i| i.low <= 10.0 && 10.0 <= i.high)
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
        BlockMean::of_parts(parts.iter()).is_some_and(|rate| rate.interval(0.95).covers(10.0))
    });
    assert_honest("rate", coverage, 300, 0.97);
}

/// How requests' times are spread.
#[derive(Clone, Copy)]
enum Shape {
    /// exp(0.5 z) × 100 ms.
    Lognormal,
    /// 8 in 100 take five times as long, by turns that last.
    TwoModes,
}

impl Shape {
    fn of(self, z: f64) -> f64 {
        match self {
            Self::Lognormal => 100.0 * (0.5 * z).exp(),
            // z beyond 1.405 is 8 %.
            Self::TwoModes if z > 1.405_071_560_3 => 500.0 + 20.0 * z,
            Self::TwoModes => 100.0 + 5.0 * z,
        }
    }

    /// Monotonic in z, so that its quantiles are those of z.
    fn quantile(self, q: f64) -> f64 {
        self.of(normal_quantile(q))
    }

    /// By sums over a fine grid of shares.
    fn mean(self) -> f64 {
        match self {
            Self::Lognormal => LOGNORMAL_MEAN,
            // 0.92·100 + 0.08·500, and E[z; z ≤ c] = −φ(c), E[z; z > c] = φ(c) with φ(1.40507) = 0.148 666 5.
            Self::TwoModes => 132.0 + (20.0 - 5.0) * 0.148_666_5,
        }
    }
}

/// Of a cell of `n` requests as it is shown: for the mean, p50, p95 and p99 of E2E and for the attainment of an objective that 90 in 100
/// meet, how many intervals have both ends, and which share of those has the truth in it.
fn shown(n: usize, memory: f64, shape: Shape, trials: u64) -> [(f64, f64); 5] {
    let limit = shape.quantile(0.9);
    let slo = Slo {
        metric: Metric::E2e,
        q: 0.9,
        limit: limit * 1e6,
        use_case: None,
    };
    let truths = [
        shape.mean(),
        shape.quantile(0.5),
        shape.quantile(0.95),
        shape.quantile(0.99),
    ];
    let mut counts = [(0.0, 0.0); 5];
    for seed in 0..trials {
        let values = Noise::seeded(seed).series(n, memory);
        let records = values.iter().enumerate().map(|(i, z)| {
            let sent = 20.0 * i as f64;
            let e2e = shape.of(*z);
            answer(i as u64, sent, &[sent + 0.1 * e2e, sent + e2e])
        });
        let records: Vec<RequestRecord> = records.collect();
        let mut context = open(50.0);
        context.slos = vec![slo.clone()];
        let cell = summarise_cell(&records, context);
        let e2e = &cell.metrics[&Metric::E2e];
        let quantile = |q| e2e.quantile_entry(q).and_then(|entry| entry.interval);
        let intervals = [
            e2e.mean_interval,
            quantile(0.5),
            quantile(0.95),
            quantile(0.99),
        ];
        let attained = cell
            .goodput
            .as_ref()
            .map(|goodput| (0.9, goodput.attainment_interval));
        let shown = intervals
            .iter()
            .zip(truths)
            .map(|(interval, truth)| interval.map(|i| (truth * 1e6, i)));
        for (count, seen) in counts.iter_mut().zip(shown.chain([attained])) {
            if let Some((truth, interval)) = seen {
                count.0 += 1.0;
                count.1 += f64::from(u8::from(interval.low <= truth && truth <= interval.high));
            }
        }
    }
    counts.map(|(bounded, covering)| (bounded / trials as f64, covering / f64::max(bounded, 1.0)))
}

/// Cells of which the intervals as shown are held against the truth: requests, memory, shape.
const CELLS: [(usize, f64, Shape); 10] = [
    (30, 0.0, Shape::Lognormal),
    (30, 0.5, Shape::Lognormal),
    (100, 0.0, Shape::Lognormal),
    (100, 0.7, Shape::Lognormal),
    (400, 0.0, Shape::Lognormal),
    (400, 0.7, Shape::TwoModes),
    (400, 0.9, Shape::Lognormal),
    (1_500, 0.0, Shape::TwoModes),
    (1_500, 0.7, Shape::TwoModes),
    (1_500, 0.9, Shape::Lognormal),
];

const SHOWN: [&str; 5] = ["mean", "p50", "p95", "p99", "attainment"];

#[test]
fn intervals_cover_as_they_are_shown() {
    const TRIALS: u64 = 120;
    let slack = 3.0 * (0.95 * 0.05 / TRIALS as f64).sqrt();
    for (n, memory, shape) in CELLS.into_iter().filter(|cell| cell.0 < 500) {
        for (name, (bounded, covering)) in SHOWN.iter().zip(shown(n, memory, shape, TRIALS)) {
            // A quantile of few values has an upper end by luck only.
            if bounded > 0.9 {
                assert!(
                    covering >= 0.92 - slack,
                    "{name}, n {n}, memory {memory}: {covering}"
                );
            }
        }
    }
}

/// Of objectives that `share` of all requests meet in the long run, asked of just as many: in how many cells the attainment's interval holds
/// that share, and in how many the verdict is wrong by passing or failing.
fn attained(n: usize, memory: f64, share: f64, trials: u64) -> (f64, f64) {
    let slo = Slo {
        metric: Metric::E2e,
        q: share,
        limit: Shape::Lognormal.quantile(share) * 1e6,
        use_case: None,
    };
    let (mut held, mut decided) = (0.0, 0.0);
    for seed in 0..trials {
        let values = Noise::seeded(seed).series(n, memory);
        let records = values.iter().enumerate().map(|(i, z)| {
            let sent = 20.0 * i as f64;
            answer(i as u64, sent, &[sent + Shape::Lognormal.of(*z)])
        });
        let records: Vec<RequestRecord> = records.collect();
        let mut context = open(50.0);
        context.slos = vec![slo.clone()];
        let cell = summarise_cell(&records, context);
        let outcome = &cell.slos[0];
        let interval = outcome.attainment_interval;
        held += f64::from(u8::from(interval.low <= share && share <= interval.high));
        decided += f64::from(u8::from(outcome.verdict != SloVerdict::CannotTell));
    }
    (held / trials as f64, decided / trials as f64)
}

#[test]
fn the_share_that_meets_an_objective_is_covered() {
    const TRIALS: u64 = 150;
    let slack = 3.0 * (0.95 * 0.05 / TRIALS as f64).sqrt();
    for (n, memory, share) in [
        (30, 0.0, 0.9),
        (100, 0.5, 0.95),
        (400, 0.7, 0.95),
        (400, 0.9, 0.9),
    ] {
        let (held, decided) = attained(n, memory, share, TRIALS);
        assert!(
            held >= 0.92 - slack,
            "n {n}, memory {memory}, {share}: {held}"
        );
        assert!(
            decided <= 0.08 + slack,
            "n {n}, memory {memory}, {share}: {decided}"
        );
    }
}

#[test]
#[ignore = "the long version, whose figures are in docs/verification.md: takes minutes"]
fn long_coverage_of_attainment() {
    for n in [1_500, 400, 100, 30] {
        let trials = (60_000 / n as u64).clamp(40, 1_000);
        for memory in [0.0, 0.5, 0.7, 0.9] {
            let told = [0.9, 0.95, 0.99].map(|share| {
                let (held, decided) = attained(n, memory, share, trials);
                format!("{share}: {:.1} ({:.1})", 100.0 * held, 100.0 * decided)
            });
            println!(
                "n {n} memory {memory}, {trials} trials: {}",
                told.join(", ")
            );
        }
    }
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
#[ignore = "the long version, whose figures are in docs/verification.md: run with --release, takes a minute"]
fn long_coverage_tables() {
    for (n, memory, shape) in CELLS {
        let seen = shown(n, memory, shape, 1_000);
        let seen = SHOWN.iter().zip(seen).map(|(name, (bounded, covering))| {
            format!("{name} {:.1} ({:.0})", 100.0 * covering, 100.0 * bounded)
        });
        let seen: Vec<String> = seen.collect();
        println!("as shown, n {n} memory {memory}: {}", seen.join(", "));
    }
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
}

/// How often something was told, how many of those hold the truth, and the widest interval over its rate.
#[derive(Default)]
struct Held {
    trials: f64,
    told: f64,
    true_ones: f64,
    widest: f64,
}

impl Held {
    fn count(&mut self, rate: f64, interval: Option<Interval>, truth: f64) {
        self.trials += 1.0;
        if let Some(interval) = interval {
            self.told += 1.0;
            self.true_ones += f64::from(u8::from(interval.low <= truth && truth <= interval.high));
            self.widest = self.widest.max((interval.high - interval.low) / rate);
        }
    }

    fn shown(&self) -> String {
        let (held, told) = (100.0 * self.share(), 100.0 * self.told / self.trials);
        format!("{held:.1} ({told:.0}), widest {:.2}", self.widest)
    }

    fn share(&self) -> f64 {
        self.true_ones / self.told.max(1.0)
    }
}

/// Of a closed loop of `slots` slots over which `n` requests go, exp(spread · z) × 100 ms each, a fifth of it before the first token: how its requests/s
/// and its tokens/s are covered. `long` answers take longer because they have more tokens, 5 ms apart; others have twenty.
fn rate_coverage(
    (slots, n): (u32, usize),
    (spread, memory): (f64, f64),
    long: bool,
    trials: u64,
) -> [Held; 2] {
    // 1 ms passes from the last token to the end
    let stay = 100.0 * (spread * spread / 2.0).exp() + 1.0;
    let truth = f64::from(slots) * 1e3 / stay;
    let mut seen = [Held::default(), Held::default()];
    for seed in 0..trials {
        let stays = Noise::seeded(seed).series(n, memory);
        let mut free: Vec<f64> = (0..slots).map(|slot| 0.01 * f64::from(slot)).collect();
        let mut records: Vec<RequestRecord> = Vec::new();
        for (id, z) in (0..).zip(stays) {
            let first = (0..free.len()).min_by(|a, b| free[*a].total_cmp(&free[*b]));
            let (slot, e2e) = (first.unwrap_or_default(), 100.0 * (spread * z).exp());
            let sent = free[slot];
            let tokens = if long { (e2e / 5.0).ceil() } else { 20.0 };
            let gap = 0.8 * e2e / (tokens - 1.0).max(1.0);
            let mut instants = vec![sent + 0.2 * e2e];
            while (instants.len() as f64) < tokens {
                instants.push(sent + 0.2 * e2e + gap * instants.len() as f64);
            }
            records.push(answer(id, sent, &instants));
            free[slot] = sent + e2e + 1.0;
        }
        // rounding up adds half a token
        let tokens = if long { (stay - 1.0) / 5.0 + 0.5 } else { 20.0 };
        records.sort_by_key(RequestRecord::last_instant);
        let cell = summarise_cell(&records, closed(slots));
        let rates = cell.windows.steady.or(cell.windows.whole);
        let Some(rates) = rates else { continue };
        seen[0].count(
            rates.requests_per_s.unwrap_or(f64::NAN),
            rates.requests_per_s_interval,
            truth,
        );
        let output = rates.output_tokens_per_s.unwrap_or_default();
        seen[1].count(output, rates.output_tokens_per_s_interval, truth * tokens);
    }
    seen
}

#[test]
fn the_rate_of_a_closed_loop_is_covered_and_never_by_an_interval_that_tells_nothing() {
    const TRIALS: u64 = 100;
    let slack = 3.0 * (0.95 * 0.05 / TRIALS as f64).sqrt();
    for (slots, n, spread, memory) in [(1, 40, 1.0, 0.0), (8, 24, 0.5, 0.0), (8, 100, 1.0, 0.0)] {
        for long in [false, true] {
            for (rate, seen) in ["requests/s", "tokens/s"].iter().zip(rate_coverage(
                (slots, n),
                (spread, memory),
                long,
                TRIALS,
            )) {
                let case = format!(
                    "{rate}, {slots} slots, {n} requests, spread {spread}, memory {memory}, long {long}"
                );
                assert!(seen.share() >= 0.92 - slack, "{case}: {}", seen.shown());
                assert!(seen.widest < 3.0, "{case}: {}", seen.shown());
            }
        }
    }
}

/// A hosted API: answers of 10 to 60 tokens, each with a speed of its own, in three repeats of three waves after a warm-up, of which the last answers end after the steady part.
#[test]
fn tokens_per_second_of_few_waves_are_covered_where_each_answer_has_its_own_speed() {
    const TRIALS: u64 = 200;
    let (slots, first, gap, spread) = (8_u32, 60.0, 8.0, 0.35_f64);
    let stay = first + 34.0 * gap * (spread * spread / 2.0).exp() + 1.0;
    let truth = f64::from(slots) * 35.0 * 1e3 / stay;
    let mut seen = Held::default();
    for seed in 0..TRIALS {
        let mut noise = Noise::seeded(seed);
        let mut records: Vec<RequestRecord> = Vec::new();
        for repeat in 0..3_u32 {
            let began = 60_000.0 * f64::from(repeat);
            let mut free = vec![began; slots as usize];
            for id in 0..32 {
                let next = (0..free.len()).min_by(|a, b| free[*a].total_cmp(&free[*b]));
                let slot = next.unwrap_or_default();
                let (tokens, own) = (noise.one_of(10..=60), gap * (spread * noise.normal()).exp());
                let at = |token| free[slot] + first + own * f64::from(token);
                let instants: Vec<f64> = (0..tokens).map(at).collect();
                let mut record = answer(u64::from(32 * repeat) + id, free[slot], &instants);
                record.repeat = repeat;
                if id < u64::from(slots) {
                    record.phase = Phase::Warmup;
                }
                free[slot] = at(tokens - 1) + 1.0;
                records.push(record);
            }
        }
        records.sort_by_key(RequestRecord::last_instant);
        let rates = summarise_cell(&records, closed(slots)).windows.steady;
        let Some(rates) = rates else { continue };
        let output = rates.output_tokens_per_s.unwrap_or_default();
        seen.count(output, rates.output_tokens_per_s_interval, truth);
    }
    assert!(seen.share() >= 0.94, "{}", seen.shown());
    assert!(seen.widest < 0.5, "{}", seen.shown());
}

#[test]
#[ignore = "the long version, whose figures are in docs/verification.md: takes a minute"]
fn long_coverage_of_closed_rates() {
    for (slots, n) in [
        (1, 12),
        (1, 40),
        (4, 12),
        (8, 24),
        (8, 100),
        (32, 100),
        (32, 400),
    ] {
        for (spread, memory) in [(0.002, 0.0), (0.5, 0.0), (0.5, 0.5), (1.0, 0.0), (1.0, 0.5)] {
            for long in [false, true] {
                let [requests, tokens] = rate_coverage((slots, n), (spread, memory), long, 400);
                let case = format!(
                    "{slots} slots, {n} requests, spread {spread}, memory {memory}, long {long}"
                );
                println!(
                    "{case}: requests/s {}; tokens/s {}",
                    requests.shown(),
                    tokens.shown()
                );
            }
        }
    }
}
