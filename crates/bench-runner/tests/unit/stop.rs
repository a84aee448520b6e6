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
