use proptest::prelude::*;

use super::*;

proptest! {
    /// However the way there and the way back differ, and whatever the clocks say.
    #[test]
    fn the_true_offset_is_within_the_bound(
        ahead in -1_000_000_000_000_i64..1_000_000_000_000,
        ways in proptest::collection::vec((0_i64..50_000_000, 0_i64..5_000_000, 0_i64..50_000_000), 1..9),
    ) {
        let mut now = 1_000_i64;
        let stamps: Vec<_> = ways.iter().map(|(there, stay, back)| {
            let sent = now;
            let (came, left) = (sent + there, sent + there + stay);
            now = left + back;
            FourStamps {
                sent: Stamp::new(sent),
                came: Stamp::new(came + ahead),
                left: Stamp::new(left + ahead),
                back: Stamp::new(now),
            }
        }).collect();
        let found = best(stamps.into_iter()).unwrap();
        prop_assert!((found.offset.get() - ahead).abs() <= found.bound.get(), "{found:?} of {ahead}");
        let tightest = ways.iter().map(|(there, _, back)| there + back).min().unwrap();
        prop_assert!(found.bound.get() <= tightest / 2 + 1);
    }
}

#[test]
fn stamps_that_cannot_be_say_nothing() {
    let at = |sent, came, left, back| FourStamps {
        sent: Stamp::new(sent),
        came: Stamp::new(came),
        left: Stamp::new(left),
        back: Stamp::new(back),
    };
    assert_eq!(best([at(0, 10, 30, 15)].into_iter()), None);
    let found = best([at(0, 10, 30, 15), at(20, 131, 131, 40)].into_iter()).unwrap();
    assert_eq!(
        (found.offset, found.bound),
        (Nanos::new(101), Nanos::new(10))
    );
}
