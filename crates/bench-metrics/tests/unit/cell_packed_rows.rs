use proptest::prelude::*;

use crate::cell::row::tests::instants;

use super::*;

prop_compose! {
    fn traits()(
        kept in prop::option::of(any::<u32>()),
        (groups, repeat) in (any::<u16>(), any::<u16>()),
        (stopped, lost) in (any::<bool>(), any::<bool>()),
    ) -> Traits {
        Traits { kept, groups: GroupSet(groups), repeat, stopped, lost }
    }
}

proptest! {
    #[test]
    fn requests_come_out_as_they_went_in(
        requests in prop::collection::vec((instants(), traits()), 0..20),
    ) {
        let mut packed = PackedRows::default();
        for (instants, traits) in &requests {
            packed.push(instants, traits);
        }
        prop_assert_eq!(packed.len, requests.len());
        prop_assert_eq!(&packed.iter().collect::<Vec<_>>(), &requests);
        let again: Vec<_> = packed.into_requests().collect();
        prop_assert_eq!(again, requests);
    }
}

/// A closed loop of eight, answers of four tokens: what `docs/reliability.md` says of memory.
#[test]
fn a_request_takes_less_than_forty_bytes() {
    let ms = |n: i64| Stamp::new(n * 1_000_003);
    let mut packed = PackedRows::default();
    for n in 0..1_000 {
        let due = n * 50 / 8;
        let instants = Instants {
            due: ms(due),
            dispatched: Some(ms(due) + Nanos::new(2_345)),
            sent: Some(ms(due) + Nanos::new(23_456)),
            first: Some(ms(due + 20)),
            second: Some(ms(due + 30)),
            first_answer: None,
            last: Some(ms(due + 50)),
            closed: Some(ms(due + 50) + Nanos::new(34_567)),
            first_bound: Nanos::ZERO,
            second_bound: Nanos::ZERO,
            last_bound: Nanos::new(45_678),
            events: 4,
            tokens: Some(4),
            hidden_tokens: 0,
            input_tokens: Some(512),
            queue: None,
            connect: None,
            completed: true,
        };
        let traits = Traits {
            kept: u32::try_from(n * 15).ok(),
            ..Traits::default()
        };
        packed.push(&instants, &traits);
    }
    assert!(packed.ints.bytes() < 40_000, "{}", packed.ints.bytes());
}
