//! Tests of `src/merge/journals.rs`.

use super::*;

#[test]
fn shards_that_ran_one_after_the_other_share_no_time() {
    let at = |from, to| (Stamp::new(from), Stamp::new(to));
    assert!(overlap(&[at(0, 100), at(100, 200)], 2) <= 0.0);
    assert!((overlap(&[at(0, 100), at(10, 100)], 2) - 0.9).abs() < 1e-12);
    assert!(
        overlap(&[at(0, 100)], 2) <= 0.0,
        "one shard did not measure at all"
    );
}
