use proptest::prelude::*;

use super::*;

proptest! {
    #[test]
    fn whatever_a_gap_is_it_is_kept_as_it_is(kept in prop::collection::vec(gap(), 1..50)) {
        let mut exact = ExactGaps::default();
        for gap in &kept {
            exact.keep(*gap);
        }
        let len = u32::try_from(kept.len()).unwrap();
        let again: Vec<Gap> = exact.of(GapRange { start: 0, len }).collect();
        prop_assert_eq!(again, kept);
    }
}

fn gap() -> impl Strategy<Value = Gap> {
    let ns = || {
        let length = prop_oneof![8 => 0_i64..1 << 33, 2 => Just(0), 1 => Just(i64::from(WIDE)), 1 => Just(-1)];
        length.prop_map(Nanos::new)
    };
    let tokens = prop::option::of(prop_oneof![0_u32..300, Just(u32::MAX)]);
    (ns(), ns(), ns(), tokens).prop_map(|(length, longer, shorter, tokens)| Gap {
        length,
        longer,
        shorter,
        tokens,
    })
}
