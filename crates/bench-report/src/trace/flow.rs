//! Output and requests under way over time, from the requests themselves.

use super::Row;

/// One part of a stretch of time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Flow {
    /// Its middle, seconds.
    pub(crate) at: f64,
    /// Output tokens per second, an answer's tokens spread evenly between its first and its last.
    pub(crate) tokens_per_s: f64,
    /// Requests that had begun and were not over, mean.
    pub(crate) under_way: f64,
}

/// `from..to` in equal parts.
pub(crate) fn flow<'a>(
    rows: impl Iterator<Item = &'a Row>,
    (from, to): (f64, f64),
    parts: usize,
) -> Vec<Flow> {
    let width = (to - from) / parts.max(1) as f64;
    if width <= 0.0 || !width.is_finite() {
        return Vec::new();
    }
    let mut all: Vec<Flow> = (0..parts)
        .map(|i| Flow {
            at: from + (i as f64 + 0.5) * width,
            ..Flow::default()
        })
        .collect();
    for row in rows {
        spread(
            &mut all,
            (from, width),
            (row.start, row.end),
            |part, share| {
                part.under_way += share * (row.end - row.start) / width;
            },
        );
        if let (Some(first), Some(tokens)) = (row.first, row.tokens) {
            spread(&mut all, (from, width), (first, row.end), |part, share| {
                part.tokens_per_s += share * f64::from(tokens) / width;
            });
        }
    }
    all
}

/// Hand each part that `a..b` touches the share of `a..b` that lies in it; an instant goes to one part whole.
fn spread(
    parts: &mut [Flow],
    (from, width): (f64, f64),
    (a, b): (f64, f64),
    mut give: impl FnMut(&mut Flow, f64),
) {
    let whole = b - a;
    let first = crate::number::index((a - from) / width).min(parts.len().saturating_sub(1));
    for (i, part) in parts.iter_mut().enumerate().skip(first) {
        let low = from + i as f64 * width;
        if whole <= 0.0 {
            give(part, 1.0);
            return;
        }
        if low >= b {
            return;
        }
        let overlap = b.min(low + width) - a.max(low);
        if overlap > 0.0 {
            give(part, overlap / whole);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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
}
