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

#[test]
fn what_lies_outside_a_stretch_of_time_counts_in_none_of_its_parts() {
    let rows = [
        row(0.0, 1.0, 1.0, 1),
        row(0.0, 2.0, 6.0, 8),
        row(9.0, 9.0, 9.0, 1),
    ];
    let parts = flow(rows.iter(), (4.0, 8.0), 4);
    let tokens: Vec<f64> = parts.iter().map(|p| p.tokens_per_s).collect();
    assert_eq!(tokens, [2.0, 2.0, 0.0, 0.0]);
}

/// Two requests under way from 2 s to 6 s, with one of the warm-up until 3 s; then the last one alone.
#[test]
fn the_drain_of_a_cell_is_no_part_of_its_time_and_its_warm_up_shares_it() {
    let mut trace = Trace {
        rows: vec![
            row(2.0, 2.0, 6.0, 40),
            row(3.0, 3.0, 6.0, 30),
            row(6.0, 6.0, 16.0, 100),
        ],
        warmup: vec![row(0.0, 0.0, 3.0, 30)],
        spans: vec![Some((2.0, 6.0))],
        ..Trace::default()
    };
    let speeds =
        |trace: &Trace| -> Vec<f64> { trace.flow(0, 4).iter().map(|p| p.tokens_per_s).collect() };
    assert_eq!(speeds(&trace), [20.0; 4]);
    let ends = |trace: &Trace| trace.binned(0, 4).iter().map(Vec::len).sum::<usize>();
    assert_eq!(ends(&trace), 2);
    // where nothing is known of the load, it is whole as long as requests are sent
    trace.spans = vec![None];
    assert_eq!(speeds(&trace), [20.0; 4]);
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
