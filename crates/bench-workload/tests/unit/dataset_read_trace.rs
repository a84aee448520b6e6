use super::*;

#[test]
fn dates_are_the_seconds_that_date_prints() {
    // `date -u -d '2025-03-01 09:30:15' +%s` and so on
    for (text, ns) in [
        ("2025-03-01 09:30:15.1234567", 1_740_821_415_123_456_700),
        ("2024-02-29T00:00:00Z", 1_709_164_800_000_000_000),
        (
            "2024-05-10 00:00:00.009930+02:00",
            1_715_292_000_009_930_000,
        ),
        ("1970-01-01 00:00:00", 0),
        ("12.5", 12_500_000_000),
    ] {
        assert_eq!(time_of(text), Some(Nanos::new(ns)), "{text}");
    }
    for text in ["", "yesterday", "2025-13-01 00:00:00", "2025-03-01", "nan"] {
        assert_eq!(time_of(text), None, "{text}");
    }
}
