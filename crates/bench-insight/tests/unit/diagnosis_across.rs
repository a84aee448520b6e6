use super::*;

/// Every two cuts are held against each other over all requests: a grid of a thousand cells would take minutes.
#[test]
fn of_many_cuts_some_are_held_against_each_other_and_of_few_all() {
    let all = |n: usize| thinned((0..n).collect());
    assert_eq!(all(0), Vec::<usize>::new());
    assert_eq!(all(128), (0..128).collect::<Vec<_>>());
    let some = all(2_000);
    assert!(some.len() <= 129, "{}", some.len());
    assert_eq!((some.first(), some.last()), (Some(&0), Some(&1_999)));
}
