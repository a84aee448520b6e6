use super::*;
use proptest::prelude::*;

#[test]
fn a_prefix_seen_before_is_taken_but_never_the_whole_prompt() {
    let mut pool = Pool::new(8, 4, true);
    let tokens: Vec<u32> = (0..8).collect();
    let mut held = pool.take_known(&tokens);
    assert!(held.is_empty());
    assert!(pool.grow(&mut held, 8));
    pool.remember(&held, &tokens, 0, 8);
    pool.release(&mut held);
    assert_eq!(
        pool.take_known(&tokens).len(),
        1,
        "the last token must be computed"
    );
    let longer: Vec<u32> = (0..9).collect();
    assert_eq!(pool.take_known(&longer).len(), 2);
    assert_eq!(pool.take_known(&[9, 9, 9, 9, 9]).len(), 0);
}

proptest! {
    #[test]
    fn blocks_are_neither_lost_nor_given_twice(sizes in proptest::collection::vec(1usize..40, 1..30)) {
        let mut pool = Pool::new(20, 4, true);
        let mut all: Vec<Vec<usize>> = Vec::new();
        for (at, size) in sizes.iter().enumerate() {
            let tokens: Vec<u32> = (0u32..).take(*size).map(|t| t / 8 + u32::from(at % 3 == 1)).collect();
            let mut held = pool.take_known(&tokens);
            if pool.grow(&mut held, *size) {
                pool.remember(&held, &tokens, 0, *size);
                all.push(held);
            } else {
                pool.release(&mut held);
                if let Some(mut first) = (!all.is_empty()).then(|| all.remove(0)) {
                    pool.release(&mut first);
                }
            }
            let distinct: std::collections::HashSet<usize> = all.iter().flatten().copied().collect();
            prop_assert_eq!(pool.used(), distinct.len());
        }
        for held in &mut all {
            pool.release(held);
        }
        prop_assert_eq!(pool.used(), 0);
    }
}
