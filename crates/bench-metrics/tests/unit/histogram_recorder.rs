use super::*;

#[test]
fn values_from_many_threads_are_all_counted() {
    let recorder = Recorder::default();
    std::thread::scope(|scope| {
        for t in 0..4_u64 {
            let recorder = &recorder;
            scope.spawn(move || (0..10_000).for_each(|i| recorder.record_value(1_000 * t + i)));
        }
    });
    let snapshot = recorder.snapshot();
    assert_eq!(
        (snapshot.len(), snapshot.min(), snapshot.max()),
        (40_000, Some(0), Some(12_999))
    );
    assert!((snapshot.mean().unwrap() - 6_499.5).abs() < 1e-9);
}

#[test]
fn the_difference_of_two_snapshots_is_what_came_between() {
    let recorder = Recorder::default();
    recorder.record(Duration::from_millis(5));
    let before = recorder.snapshot();
    recorder.record(Duration::from_millis(50));
    recorder.record(Duration::from_millis(70));
    let between = recorder.snapshot().since(&before).unwrap();
    assert_eq!(between.len(), 2);
    assert!((between.mean().unwrap() - 60e6).abs() < 1.0);
    assert!(between.min().unwrap() > 49_000_000);
}

#[test]
fn an_untouched_recorder_has_nothing_to_say() {
    let snapshot = Recorder::default().snapshot();
    assert_eq!(
        (snapshot.quantile(0.5), snapshot.mean(), snapshot.min()),
        (None, None, None)
    );
}
