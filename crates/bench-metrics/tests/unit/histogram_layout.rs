use super::*;

#[test]
fn buckets_follow_each_other_without_gap_or_overlap() {
    let layout = Layout::with_bits(4);
    for b in 1..layout.buckets() {
        assert_eq!(layout.lower(b), layout.upper(b - 1) + 1, "bucket {b}");
        assert_eq!(
            (
                layout.bucket(layout.lower(b)),
                layout.bucket(layout.upper(b))
            ),
            (b, b)
        );
    }
    assert_eq!(layout.upper(layout.buckets() - 1), u64::MAX);
}

#[test]
fn the_middle_of_a_bucket_is_within_the_stated_error() {
    for bits in [2, 5, 8, 11] {
        let layout = Layout::with_bits(bits);
        for value in [1, 3, 255, 256, 1_000, 123_456_789, u64::MAX / 3, u64::MAX] {
            let off = (layout.middle(layout.bucket(value)) - value as f64).abs() / value as f64;
            assert!(
                off <= layout.relative_error() * (1.0 + 1e-12),
                "{bits} bits, {value}: {off}"
            );
        }
    }
}
