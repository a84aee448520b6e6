use super::*;

#[test]
fn rules_are_read_and_shown_alike() {
    for text in [
        "p99:ttft=5%",
        "mean:itl=2%",
        "p99.9:e2e=10%",
        "p50:tpot=0.5%",
    ] {
        assert_eq!(text.parse::<Precision>().unwrap().to_string(), text);
    }
    assert_eq!(
        "ttft=3%".parse::<Precision>().unwrap().to_string(),
        "p50:ttft=3%"
    );
}

#[test]
fn a_bad_rule_says_what_is_wrong_with_it() {
    for (text, part) in [
        ("p99:ttft", "no `=`"),
        ("p99:tfft=5%", "unknown metric"),
        ("q9:ttft=5%", "figure"),
        ("p99:ttft=0", "width"),
    ] {
        let message = text.parse::<Precision>().unwrap_err().to_string();
        assert!(
            message.contains(part) && message.contains(text),
            "{message}"
        );
    }
}

#[test]
fn a_rule_is_met_once_the_interval_is_narrow_and_not_before_enough_values() {
    let rule: Precision = "p90:ttft=10%".parse().unwrap();
    let values: Vec<f64> = (0..20_000)
        .map(|i| 100.0 + f64::from(i * 7919 % 1009) / 10.0)
        .collect();
    assert!(!rule.check(&values[..50]).reached);
    assert!(rule.check(&values).reached);
    assert_eq!(
        rule.check(&[]),
        Progress {
            reached: false,
            half_width: None,
            needed: None
        }
    );
}

#[test]
fn looks_get_rarer_as_the_run_grows() {
    let rule: Precision = "p99:ttft=5%".parse().unwrap();
    assert_eq!(
        (
            rule.next_look(0),
            rule.next_look(1_000),
            rule.next_look(100_000)
        ),
        (1_000, 1_251, 125_001)
    );
}

fn exponential_like(n: u32) -> Vec<f64> {
    (0..n)
        .map(|i| -(1.0 - f64::from(i * 7919 % n) / f64::from(n)).ln())
        .collect()
}

#[test]
fn the_tail_of_an_exponential_needs_what_theory_says() {
    // Var(p99) = q(1-q)/(n f²), f = 1 - q = 0.01: relative se = sqrt(.99/.01/n)/4.605. For ± 5 % at 95 %: n = 7175.
    let values = exponential_like(100_000);
    let pilot = Sample::of(&values).unwrap();
    let seen = quantile_in_time(&pilot, &values, 0.99, 0.95);
    let independent = QuantileEstimate {
        effective: 100_000.0,
        ..seen
    };
    let needed = requests_for_quantile(&pilot, &independent, 0.05).unwrap();
    assert!((6_500..9_500).contains(&needed), "{needed}");
}

#[test]
fn twice_the_precision_costs_four_times_the_requests() {
    assert_eq!(requests_for_mean(100, 0.10, 0.05), Some(400));
}

#[test]
fn a_pilot_without_the_tail_cannot_plan_it() {
    let values = exponential_like(50);
    let pilot = Sample::of(&values).unwrap();
    let seen = quantile_in_time(&pilot, &values, 0.99, 0.95);
    assert_eq!(requests_for_quantile(&pilot, &seen, 0.05), None);
}
