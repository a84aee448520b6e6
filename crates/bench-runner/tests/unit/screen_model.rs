use super::*;
use crate::recent::Stage;

#[test]
fn only_lateness_that_the_verdict_asks_about_is_a_problem() {
    let told = |open: bool, late_ns: f64| {
        let mut recent = Recent::default();
        recent.begin(Stage {
            open,
            ..Stage::default()
        });
        recent.roll(Stamp::EPOCH, 0);
        recent.latencies(Metric::Lateness, &[late_ns]);
        recent.roll(Stamp::EPOCH + Nanos::from_secs(2), 1);
        against(&recent, 0).len()
    };
    assert_eq!(told(true, 5e6), 1);
    assert_eq!(told(true, 1e5), 0, "no server can tell");
    assert_eq!(told(false, 5e6), 0, "a closed loop has no times to keep to");
}
