use proptest::prelude::*;

use super::*;

fn stamps() -> impl Strategy<Value = Option<Stamp>> {
    let near = 0_i64..20_000_000_000;
    let far = prop_oneof![
        Just(i64::MAX / 4),
        Just(i64::MIN / 4),
        Just(1 << 40),
        Just(u32::MAX.into())
    ];
    let ns = prop_oneof![8 => near, 1 => far];
    prop::option::of(ns.prop_map(Stamp::new))
}

fn lengths() -> impl Strategy<Value = Nanos> {
    prop_oneof![Just(0), 0_i64..5_000_000_000].prop_map(Nanos::new)
}

fn tokens() -> impl Strategy<Value = Option<u64>> {
    prop::option::of(prop_oneof![
        0_u64..5000,
        Just(u64::from(u32::MAX)),
        Just(u64::MAX)
    ])
}

prop_compose! {
    pub(crate) fn instants()(
        due in stamps(),
        at in prop::array::uniform7(stamps()),
        bounds in prop::array::uniform3(lengths()),
        (events, completed) in (tokens(), any::<bool>()),
        counts in prop::array::uniform2(tokens()),
        hidden_tokens in prop_oneof![Just(0), any::<u64>()],
        spans in prop::array::uniform2(prop::option::of(lengths())),
    ) -> Instants {
        Instants {
            due: due.unwrap_or_default(),
            dispatched: at[0],
            sent: at[1],
            first: at[2],
            second: at[3],
            first_answer: at[4],
            last: at[5],
            closed: at[6],
            first_bound: bounds[0],
            second_bound: bounds[1],
            last_bound: bounds[2],
            events: events.unwrap_or(0),
            tokens: counts[0],
            hidden_tokens,
            input_tokens: counts[1],
            queue: spans[0],
            connect: spans[1],
            completed,
        }
    }
}

proptest! {
    #[test]
    fn whatever_the_instants_are_a_row_has_them_again(instants in instants()) {
        let row = Row::new(instants, Traits::default());
        prop_assert_eq!(row.started(), started(&instants));
        prop_assert_eq!(row.instants(), instants);
    }
}
