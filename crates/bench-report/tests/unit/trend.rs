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
