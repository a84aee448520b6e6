use proptest::prelude::*;

use super::*;

proptest! {
    #[test]
    fn numbers_come_out_as_they_went_in_from_any_position(
        numbers in prop::collection::vec(prop_oneof![any::<i64>(), -200_i64..200], 0..6_000),
        from in any::<prop::sample::Index>(),
    ) {
        let mut packed = PackedInts::default();
        let mut places = Vec::new();
        for n in &numbers {
            places.push(packed.bytes());
            packed.push_signed(*n);
        }
        let from = if numbers.is_empty() { 0 } else { from.index(numbers.len()) };
        let mut reader = packed.read_from(places.get(from).copied().unwrap_or(0));
        let again: Vec<i64> = std::iter::from_fn(|| reader.signed()).collect();
        prop_assert_eq!(&again, &numbers[from..]);
        let mut reader = packed.into_reader();
        let again: Vec<i64> = std::iter::from_fn(|| reader.signed()).collect();
        prop_assert_eq!(again, numbers);
    }

    #[test]
    fn unsigned_numbers_too(numbers in prop::collection::vec(any::<u64>(), 0..50)) {
        let mut packed = PackedInts::default();
        for n in &numbers {
            packed.push(*n);
        }
        let mut reader = packed.into_reader();
        let again: Vec<u64> = std::iter::from_fn(|| reader.unsigned()).collect();
        prop_assert_eq!(again, numbers);
    }
}

#[test]
fn a_small_number_takes_one_byte() {
    let mut packed = PackedInts::default();
    packed.push(127);
    packed.push_signed(-64);
    packed.push_signed(63);
    assert_eq!(packed.bytes(), 3);
}
