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

fn observed(run: usize, tags: &[(&str, &str)], verdict: TrustVerdict) -> Option<Observation> {
    let stored = include_str!("../../../../fixtures/results/v1.2/run.json");
    let mut record = RunRecord::from_json(stored).unwrap();
    record.started_at = format!("2026-01-{:02}T00:00:00Z", run + 1);
    record.trust.verdict = verdict;
    record.tags = (tags.iter())
        .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
        .collect();
    Observation::of(&record)
}

#[test]
fn runs_of_other_things_are_other_trends_and_doubtful_ones_are_in_none() {
    assert!(observed(0, &[], TrustVerdict::Doubtful).is_none());
    let all: Vec<Observation> = (0..8)
        .rev()
        .filter_map(|i| {
            let gpus = if i % 2 == 0 { "1" } else { "2" };
            let commit = format!("c{i}");
            observed(
                i,
                &[("gpus", gpus), ("commit", &commit)],
                TrustVerdict::Trusted,
            )
        })
        .collect();
    let found = trends(&all.iter().collect::<Vec<_>>());
    assert!(!found.is_empty());
    for trend in &found {
        let of_one = trend.runs.ends_with("gpus=1");
        let at: Vec<&str> = trend.points.iter().map(|(at, _)| at.as_str()).collect();
        let expected = if of_one {
            ["c0", "c2", "c4", "c6"]
        } else {
            ["c1", "c3", "c5", "c7"]
        };
        assert_eq!(at, expected, "{}", trend.runs);
    }
    let two = trends(&all.iter().take(2).collect::<Vec<_>>());
    assert!(two.is_empty(), "two runs are no trend");
}
