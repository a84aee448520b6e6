use super::*;

/// Figures near `level`, each with an interval of 4 % to either side.
fn runs(levels: impl IntoIterator<Item = f64>) -> Vec<(String, Estimate)> {
    let wobble = |i: usize| (f64::from(u32::try_from(i * 7919 % 100).unwrap()) - 50.0) / 2500.0;
    let run = |(i, level): (usize, f64)| {
        let value = level * (1.0 + wobble(i));
        let seen = Estimate::bounded(value, value / 1.04, value * 1.04, 0.95);
        (format!("commit {i}"), seen)
    };
    levels.into_iter().enumerate().map(run).collect()
}

#[test]
fn a_step_is_a_change_at_its_first_run_and_worse_where_less_is_better() {
    let points = runs((0..24).map(|i| if i < 15 { 100.0 } else { 112.0 }));
    let found = changes(&points, Direction::Lower);
    let [change] = found.as_slice() else {
        panic!("{found:?}")
    };
    assert_eq!((change.from, change.to), (15, 24));
    assert!(
        (change.after / change.before - 1.12).abs() < 0.02,
        "{change:?}"
    );
    assert!(change.is_worse && !changes(&points, Direction::Higher)[0].is_worse);
}

#[test]
fn level_histories_single_outliers_and_short_histories_have_no_change() {
    let level = runs((0..40).map(|_| 100.0));
    let outlier = runs((0..40).map(|i| if i == 20 { 130.0 } else { 100.0 }));
    let short = runs((0..7).map(|i| if i < 4 { 100.0 } else { 200.0 }));
    for points in [level, outlier, short] {
        assert_eq!(changes(&points, Direction::Lower), []);
    }
}

#[test]
fn a_run_that_knows_little_hardly_counts() {
    let mut points = runs((0..24).map(|_| 100.0));
    for (_, seen) in &mut points[20..] {
        *seen = Estimate::bounded(140.0, 70.0, 280.0, 0.95);
    }
    assert_eq!(changes(&points, Direction::Lower), []);
}

#[test]
fn two_runs_and_unknown_figures_are_no_trend() {
    let of = |figure: &str, n: usize| {
        let points = runs((0..n).map(|_| 100.0));
        Trend::new(("runs".to_owned(), "cell".to_owned()), figure, points)
    };
    assert!(of("e2e.p95", 2).is_none());
    assert!(of("nothing.p95", 3).is_none());
    let trend = of("ttft.p50", 3).unwrap();
    assert_eq!((trend.title.as_str(), trend.unit), ("TTFT p50", Unit::Ns));
    assert_eq!(of("requests_per_s", 3).unwrap().title, "requests/s");
}
