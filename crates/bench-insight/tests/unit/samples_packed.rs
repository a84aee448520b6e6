use proptest::prelude::*;

use super::*;

prop_compose! {
    fn sample()(
        (id, repeat, endpoint) in (any::<u64>(), 0_u32..3, 0_u32..3),
        at in prop::array::uniform3(any::<i64>()),
        ttft in prop::option::of(0_i64..1 << 52),
        counts in prop::array::uniform4(prop::option::of(any::<u32>())),
        (events, moments, at_first) in any::<(u32, u32, u32)>(),
        stalls in prop::collection::vec((any::<i64>(), 0_i64..1 << 52), 0..3),
        parts in prop::collection::vec(any::<i64>(), 0..8),
        use_case in prop::option::of("[a-c]"),
        (replaced, read_late) in any::<(bool, bool)>(),
    ) -> RequestSample {
        let [input_tokens, output_tokens, hidden_tokens, cached_tokens] = counts;
        let ns = |ns: i64| Nanos::new(ns).as_f64();
        RequestSample {
            id,
            repeat,
            due: Stamp::new(at[0]),
            start: Stamp::new(at[1]),
            end: Stamp::new(at[2]),
            ttft: ttft.map(ns),
            input_tokens,
            output_tokens,
            events,
            moments,
            at_first,
            hidden_tokens,
            cached_tokens,
            endpoint,
            stalls: stalls.into_iter().map(|(at, gap)| (Stamp::new(at), ns(gap))).collect(),
            parts: parts.into_iter().map(Stamp::new).collect(),
            use_case: use_case.map(Box::from),
            replaced,
            read_late,
        }
    }
}

proptest! {
    #[test]
    fn requests_come_out_as_they_went_in(requests in prop::collection::vec(sample(), 0..20)) {
        let mut packed = PackedSamples::default();
        for request in &requests {
            packed.push(request);
        }
        prop_assert_eq!(packed.len(), requests.len());
        let again: Vec<RequestSample> = packed.into_requests().collect();
        prop_assert_eq!(again, requests);
    }
}
