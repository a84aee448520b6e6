use super::*;

#[test]
fn what_was_stolen_is_a_share_of_all_time_that_passed() {
    let before = ticks("cpu  100 0 100 700 0 0 0 100 0 0\ncpu0 1 2");
    let after = ticks("cpu  110 0 110 770 0 0 0 110 50 0\n");
    assert_eq!(stolen_share(before, after), Some(0.1));
    assert!(disturbs(stolen_share(before, after)) && !disturbs(Some(0.01)) && !disturbs(None));
    assert_eq!(ticks("intr 1 2 3"), None);
    assert_eq!(stolen_share(after, after), None);
}
