use super::*;

fn at_ms(ms: i64) -> Stamp {
    Stamp::new(ms * 1_000_000)
}

#[test]
fn nothing_is_lost_as_bins_grow() {
    let mut line = Timeline::default();
    for i in 0..50_000_i64 {
        // Out of order, over 100 s, some before the first.
        line.at(at_ms((i * 7_919) % 100_000 - 500)).events += 1;
    }
    let whole = Window {
        from: at_ms(-1_000),
        to: at_ms(101_000),
    };
    assert_eq!(line.total(whole).events, 50_000);
    assert!(line.bins.len() <= MOST_BINS && line.bins.len() > MOST_BINS / 4);
}

#[test]
fn a_snapped_window_counts_exactly_what_lies_within_it() {
    let mut line = Timeline::default();
    let stamps: Vec<Stamp> = (0..20_000).map(at_ms).collect();
    for &s in &stamps {
        line.at(s).completed += 1;
    }
    let window = line
        .snap(Window {
            from: at_ms(1_234),
            to: at_ms(15_678),
        })
        .unwrap();
    let inside = stamps.iter().filter(|s| window.contains(**s)).count() as u64;
    assert_eq!(line.total(window).completed, inside);
    assert!((window.length().as_secs_f64() - 14.444).abs() < 0.02);
}
