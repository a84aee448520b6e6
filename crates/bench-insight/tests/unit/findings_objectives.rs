use super::*;

fn outcome(attainment: f64, low: f64, high: f64, vacuous: u64) -> SloOutcome {
    use bench_schema::{Interval, Metric};
    SloOutcome {
        slo: Slo {
            metric: Metric::E2e,
            q: 0.95,
            limit: 1.5e9,
            use_case: None,
        },
        measured: None,
        interval: None,
        verdict: SloVerdict::CannotTell,
        within: None,
        attainment,
        attainment_interval: Interval {
            low,
            high,
            confidence: 0.95,
        },
        vacuous,
    }
}

#[test]
fn an_open_objective_says_how_many_requests_would_decide_it() {
    let open = |attainment, low, high| times_to_decide(&outcome(attainment, low, high, 0));
    // 20 of 20 within: 73 that are all within show 95 %, which is 3.65 times as many.
    let told = open(1.0, 0.838_9, 1.0);
    assert_eq!(told, Some(3.7));
    assert_eq!(open(0.95, 0.9, 0.98), None, "nothing decides a tie");
}

#[test]
fn no_number_of_requests_without_the_value_decides_an_objective() {
    let none = outcome(1.0, 0.838_9, 1.0, 20);
    assert_eq!(times_to_decide(&none), None);
    // all were stopped before they had it
    assert_eq!(times_to_decide(&outcome(0.0, 0.0, 0.025, 0)), None);
    let found = undecided(&[&("c1", &none)]).unwrap();
    let told = |known: Known| found.figure(&known.into());
    assert_eq!(told(Known::Vacuous), Some(20.0));
    assert_eq!(
        (told(Known::Attainment), told(Known::Measured)),
        (None, None)
    );
}
