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

#[test]
fn two_slow_requests_in_a_row_are_strays_and_three_are_not() {
    let slow = |which: &[usize]| {
        let mut own = [1.0; 12];
        for i in which {
            own[*i] = 2.4;
        }
        let strays = without_strays(&mut own);
        (
            strays > 0.0,
            own.iter().filter(|value| **value > 1.0).count(),
        )
    };
    assert_eq!(slow(&[]), (false, 0));
    for two in [&[0, 1], &[5, 6], &[10, 11], &[3, 9]] {
        assert_eq!(slow(two), (true, 0), "{two:?}");
    }
    assert_eq!(slow(&[5, 6, 7]), (false, 3));
}
