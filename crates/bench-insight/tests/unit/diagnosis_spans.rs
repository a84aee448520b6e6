use super::*;

#[test]
fn what_overlaps_counts_once() {
    let cover = Cover::of([(5.0, 7.0), (0.0, 2.0), (1.0, 3.0), (6.0, 6.5)]);
    let about = |a: f64, b: f64| (a - b).abs() < 1e-12;
    assert!(about(cover.within(-1.0, 10.0), 5.0));
    assert!(about(cover.within(2.5, 6.0), 1.5));
    assert!(about(cover.within(3.5, 4.5), 0.0));
    assert!(about(Cover::default().within(0.0, 1.0), 0.0));
}
