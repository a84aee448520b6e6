use super::*;

#[test]
fn a_start_fits_under_its_chart_and_a_version_stays() {
    for (at, shown) in [
        ("2026-11-27T04:13:22.125Z", "11-27 04:13:22"),
        ("2026-11-27T04:13:22Z", "11-27 04:13:22"),
        ("v1.2-rc3", "v1.2-rc3"),
        ("main-Tue", "main-Tue"),
        ("", ""),
    ] {
        assert_eq!(short_start(at), shown);
    }
}

#[test]
fn no_change_is_said_only_of_histories_in_which_one_can_be_found() {
    let history = |runs: usize| {
        let seen = Estimate::bounded(1.0, 0.9, 1.1, 0.95);
        let points = (0..runs).map(|i| (format!("v{i}"), seen)).collect();
        Trend::new((String::new(), String::new()), "e2e.p95", points).unwrap()
    };
    let (short, long) = (history(7), history(8));
    let told = |trends: &[&Trend]| {
        let trends: Vec<Trend> = trends.iter().map(|trend| (*trend).clone()).collect();
        unchanged(&trends)
    };
    assert_eq!(told(&[&long, &long]), "No level changed.");
    for none in [told(&[]), told(&[&short])] {
        assert!(none.starts_with("No history has the 8 runs"), "{none}");
    }
    let some = told(&[&short, &long, &short]);
    assert!(
        some.starts_with("No level changed in the 1 of 3 histories"),
        "{some}"
    );
}
