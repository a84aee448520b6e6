//! Addresses without their secrets.

use super::*;

#[test]
fn addresses_in_results_hold_no_secrets() {
    for (url, shown) in [
        ("http://u:p@h:1/metrics?token=x", "http://h:1/metrics"),
        ("http://h:1", "http://h:1"),
        ("http://h?x=a@b", "http://h"),
        ("/just/a/path", "/just/a/path"),
    ] {
        assert_eq!(without_credentials(url), shown);
    }
}
