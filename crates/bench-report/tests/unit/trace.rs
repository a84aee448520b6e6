//! Tests of `src/trace.rs`.

use proptest::prelude::*;

use super::*;

fn row(start: f64, first: f64, end: f64, tokens: u32) -> Row {
    Row {
        cell: 0,
        start,
        first: Some(first),
        end,
        input: None,
        tokens: Some(tokens),
        completed: true,
    }
}

#[test]
fn an_answer_counts_where_it_was_generated_not_where_it_ended() {
    let parts = flow([row(0.0, 2.0, 4.0, 20)].iter(), (0.0, 4.0), 4);
    let tokens: Vec<f64> = parts.iter().map(|p| p.tokens_per_s).collect();
    let under_way: Vec<f64> = parts.iter().map(|p| p.under_way).collect();
    assert_eq!(tokens, [0.0, 0.0, 10.0, 10.0]);
    assert_eq!(under_way, [1.0; 4]);
}

proptest! {
    #[test]
    fn no_token_is_lost_or_counted_twice(rows in proptest::collection::vec((0.0..9.0_f64, 0.0..1.0_f64, 0.0..1.0_f64, 1_u32..500), 1..20), parts in 1_usize..40) {
        let rows: Vec<Row> = rows.iter().map(|&(start, wait, decode, n)| {
            let first = (start + wait).min(10.0);
            row(start, first, (first + decode).min(10.0), n)
        }).collect();
        let seen = flow(rows.iter(), (0.0, 10.0), parts);
        let width = 10.0 / parts as f64;
        let counted: f64 = seen.iter().map(|p| p.tokens_per_s * width).sum();
        let sent: f64 = rows.iter().filter_map(|r| r.tokens).map(f64::from).sum();
        prop_assert!((counted - sent).abs() < 1e-6 * sent);
    }
}
