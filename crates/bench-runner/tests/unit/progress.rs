use super::*;

#[test]
fn the_line_shows_only_what_has_happened_since_the_phase_began() {
    let mut counted = Counted {
        ended: 5,
        ..Counted::default()
    };
    let before = Counted {
        ended: 4,
        ttft_n: 4,
        ttft_us: 4_000_000,
        ..Counted::default()
    };
    let line = |counted: Counted| counted.since(before).line(2, 2.0);
    assert_eq!(line(counted), "2 in flight · 0.5 req/s · 0 chunks/s");
    counted.ttft_us = before.ttft_us + 5_000;
    counted.ttft_n = before.ttft_n + 1;
    counted.without_answer = 1;
    assert!(line(counted).ends_with("· TTFT 5 ms · 1 without response"));
}
