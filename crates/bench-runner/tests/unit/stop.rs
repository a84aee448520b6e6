use super::*;

#[tokio::test]
async fn an_ending_only_goes_forward_and_is_seen_by_late_comers() {
    let stop = Stop::new();
    assert!(!stop.is_draining());
    stop.advance(Ending::Cutting);
    stop.advance(Ending::Draining);
    assert!(stop.is_draining());
    stop.reached(Ending::Cutting).await;
}

#[tokio::test]
async fn a_key_of_the_screen_is_heard_as_a_signal_is() {
    let (press, keys) = mpsc::channel(1);
    let mut signals = Signals::listen().or_keys(keys);
    press.send(Q).await.unwrap();
    assert_eq!(signals.next().await, "q");
    assert!(NAMES.contains(&Q));
}
