use super::*;

fn title(rates: &[(f64, Option<(f64, f64)>)]) -> String {
    let at: Vec<f64> = (0..rates.len()).map(|i| 2_f64.powf(i as f64)).collect();
    let seen: Vec<Option<Bounded>> = rates.iter().copied().map(Some).collect();
    along("Output", "tokens/s", "concurrency", &at, &seen).unwrap_or_default()
}

#[test]
fn a_title_tells_no_more_than_the_intervals_do() {
    let known = |value: f64| (value, Some((0.95 * value, 1.05 * value)));
    assert_eq!(
        title(&[known(284.0), known(369.0), known(246.0)]),
        "Output is highest at concurrency 2: 284 → 369 → 246 tokens/s from concurrency 1 to 4"
    );
    assert_eq!(
        title(&[known(100.0), known(200.0)]),
        "Output rises 2× from concurrency 1 to 2: 100 → 200 tokens/s"
    );
    assert_eq!(
        title(&[known(200.0), known(100.0)]),
        "Output falls from 200 to 100 tokens/s from concurrency 1 to 2"
    );
    assert_eq!(
        title(&[known(200.0), known(198.0)]),
        "Output does not differ measurably from concurrency 1 to 2: 200 and 198 tokens/s"
    );
    let exact = |value: f64| (value, Some((value - 0.01, value + 0.01)));
    assert_eq!(
        title(&[exact(20.0), exact(20.1)]),
        "Output stays about the same from concurrency 1 to 2: 20 and 20.1 tokens/s"
    );
    assert_eq!(change(exact(20.0), exact(20.1)), "stays about the same");
    // The last cell was cut short: one answer has no rate to compare with.
    assert_eq!(
        title(&[known(96.0), known(150.0), (16.7, None)]),
        "Output rises 1.56× from concurrency 1 to 2: 96 → 150 tokens/s"
    );
    assert_eq!(
        title(&[known(96.0), (16.7, None)]),
        "Output at concurrency 1: 96 tokens/s"
    );
    // Older results have no intervals.
    assert_eq!(
        title(&[(10.0, None), (20.0, None)]),
        "Output rises 2× from concurrency 1 to 2: 10 → 20 tokens/s"
    );
}

#[test]
fn a_trade_off_is_told_as_far_as_the_intervals_tell_it() {
    let known = |value: f64| (value, Some((0.95 * value, 1.05 * value)));
    let told = |rates: [f64; 2], p95: [f64; 2]| {
        let pair = |[a, b]: [f64; 2]| (known(a), known(b));
        traded("output", pair(rates), pair(p95))
    };
    assert_eq!(
        told([100.0, 300.0], [500.0, 800.0]),
        "3× the output costs 1.60× the p95 latency"
    );
    assert_eq!(
        told([100.0, 300.0], [500.0, 510.0]),
        "3× the output at a p95 latency of 500 and 510 ms, whose intervals overlap"
    );
    assert_eq!(
        told([100.0, 104.0], [500.0, 800.0]),
        "More load changes the output by no more than its intervals, at 1.60× the p95 latency"
    );
    assert_eq!(
        told([100.0, 50.0], [500.0, 800.0]),
        "0.50× the output at 1.60× the p95 latency"
    );
}
