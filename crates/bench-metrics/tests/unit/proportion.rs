use super::*;

// scipy 1.17.1: stats.binomtest(k, n).proportion_ci(method="wilson")
#[test]
fn wilson_agrees_with_scipy() {
    for (k, n, low, high) in [
        (0, 10, 0.0, 0.277_532_799_862_889),
        (10, 10, 0.722_467_200_137_111, 1.0),
        (95, 100, 0.888_249_530_768_1, 0.978_456_320_845_6),
    ] {
        let (l, h) = wilson(k, n, 0.95).unwrap().bounds().unwrap();
        assert!(
            (l - low).abs() < 1e-9 && (h - high).abs() < 1e-9,
            "{k}/{n}: {l} {h}"
        );
    }
}

#[test]
fn nothing_observed_gives_no_share() {
    assert_eq!(wilson(0, 0, 0.95), None);
}
