use super::*;

fn limiter(ramp: &ConcurrencyRamp, requests: u64) -> ConcurrencyLimiter {
    ConcurrencyLimiter::new(ramp, Stamp::EPOCH, None, requests)
}

fn levels(ramp: &ConcurrencyRamp, requests: u64) -> Vec<u32> {
    let limiter = limiter(ramp, requests);
    let mut seen = Vec::new();
    for _ in 0..requests {
        seen.push(*limiter.level.borrow());
        limiter.taken(1);
    }
    seen
}

#[test]
fn every_level_lasts_for_an_equal_share_of_the_requests() {
    let line = ConcurrencyRamp::Line { from: 1, to: 4 };
    assert_eq!(levels(&line, 8), [1, 1, 2, 2, 3, 3, 4, 4]);
    let down = ConcurrencyRamp::Line { from: 3, to: 1 };
    assert_eq!(levels(&down, 3), [3, 2, 1]);
    let steps = ConcurrencyRamp::Steps {
        levels: vec![8, 1, 8],
    };
    assert_eq!(levels(&steps, 6), [8, 8, 1, 1, 8, 8]);
}

#[tokio::test]
async fn a_slot_waits_for_its_level_and_all_are_let_go_at_the_end() {
    let limiter = limiter(&ConcurrencyRamp::Line { from: 1, to: 2 }, 2);
    assert!(!limiter.open_for(0).await);
    let (waited, ()) = tokio::join!(limiter.open_for(1), async { limiter.taken(1) });
    assert!(waited);
    limiter.open_for_all();
    limiter.taken(1);
    assert!(!limiter.open_for(1_000_000).await);
}

#[test]
fn stretches_of_time_are_equal() {
    assert_eq!(begin_of(1, Nanos::from_secs(8), 4), Nanos::from_secs(2));
    assert_eq!(begin_of(3, Nanos::from_secs(8), 4), Nanos::from_secs(6));
    assert_eq!(stretch_at(99, 10, 4), 3);
}
