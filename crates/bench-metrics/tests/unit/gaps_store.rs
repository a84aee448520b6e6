use proptest::prelude::*;

use super::*;

proptest! {
    #[test]
    fn whatever_gaps_are_they_are_kept_as_they_are(
        answers in prop::collection::vec(prop::collection::vec(gap(), 0..20), 1..5),
    ) {
        let mut exact = ExactGaps::default();
        let ranges: Vec<GapRange> = answers.iter().map(|gaps| GapRange {
            start: exact.push(gaps.iter().copied()),
            len: u32::try_from(gaps.len()).unwrap(),
        }).collect();
        for (gaps, range) in answers.iter().zip(ranges) {
            let again: Vec<Gap> = exact.of(range).collect();
            prop_assert_eq!(&again, gaps);
        }
        let all = answers.concat();
        prop_assert_eq!(exact.any_bounded, all.iter().any(Gap::is_bounded));
    }
}

fn gap() -> impl Strategy<Value = Gap> {
    let ns = || {
        let length = prop_oneof![
            8 => 0_i64..1 << 33,
            2 => Just(0),
            1 => any::<i64>(),
            1 => Just(1 << (u64::BITS - FLAG_BITS)),
        ];
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

#[test]
fn a_gap_of_ten_milliseconds_takes_five_bytes_or_less() {
    let mut exact = ExactGaps::default();
    let gap = Gap {
        length: Nanos::from_millis(10),
        longer: Nanos::ZERO,
        shorter: Nanos::ZERO,
        tokens: Some(1),
    };
    exact.push(std::iter::repeat_n(gap, 100));
    assert!(exact.ints.bytes() <= 500, "{}", exact.ints.bytes());
}
