use super::*;
use bench_schema::Unit;

fn distribution(values: &[f64]) -> Distribution {
    crate::summarise(values, Unit::Ns).unwrap()
}

#[test]
fn all_within_or_none_decides_where_the_quantile_has_no_bound() {
    // 1547 is 0.387 of 4001: neighbours are unlike each other.
    let values: Vec<f64> = (0..80)
        .map(|i| 100.0 + f64::from(i * 1547 % 4001) / 40.0)
        .collect();
    let d = distribution(&values);
    let of = |q, limit| {
        let slo = Slo {
            metric: bench_schema::Metric::Ttft,
            q,
            limit,
            use_case: None,
        };
        outcome_of_distribution(&d, &slo).unwrap().verdict
    };
    let (p99, p95) = (|limit| of(0.99, limit), |limit| of(0.95, limit));
    // 80 of 80 show a share of 95.4 % at least: a p95, no p99.
    assert_eq!(
        (p95(250.0), p99(250.0)),
        (SloVerdict::Pass, SloVerdict::CannotTell)
    );
    // None is within, or at most half are.
    assert_eq!(
        (p99(90.0), p95(149.0)),
        (SloVerdict::Fail, SloVerdict::Fail)
    );
    // Between two neighbours of the quantile nobody can tell.
    assert_eq!(p95(d.quantile(0.95).unwrap()), SloVerdict::CannotTell);
}

#[test]
fn a_share_at_the_limit_of_its_interval_passes_and_below_it_does_not() {
    let within = |low, high| Interval {
        low,
        high,
        confidence: 0.95,
    };
    assert_eq!(verdict(&within(0.95, 1.0), 0.95), SloVerdict::Pass);
    assert_eq!(verdict(&within(0.9, 0.95), 0.95), SloVerdict::CannotTell);
    assert_eq!(verdict(&within(0.9, 0.949), 0.95), SloVerdict::Fail);
}

#[test]
fn as_many_values_as_are_said_to_decide_do_and_one_less_does_not() {
    for (share, q, pass) in [
        (1.0, 0.95, 73.0),
        (1.0, 0.99, 381.0),
        (1.0, 0.5, 4.0),
        (0.98, 0.95, 203.0),
        (0.9, 0.95, 73.0),
    ] {
        let needed = values_to_decide(share, q).unwrap().ceil();
        assert_eq!(needed.to_bits(), f64::to_bits(pass), "{needed} of {share}");
        let told = |n: f64| {
            let effective = n;
            verdict(
                &share_interval(&Share {
                    value: share,
                    effective,
                }),
                q,
            )
        };
        assert_ne!(told(needed), SloVerdict::CannotTell);
        assert_eq!(told(needed - 1.0), SloVerdict::CannotTell);
    }
    assert_eq!(values_to_decide(0.95, 0.95), None);
}
