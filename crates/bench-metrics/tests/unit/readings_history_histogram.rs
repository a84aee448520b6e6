use proptest::prelude::*;

use super::*;

#[test]
fn quantiles_lie_evenly_within_their_bucket() {
    let delta = HistogramDelta {
        count: 10.0,
        sum: 4.0,
        buckets: vec![(0.1, 2.0), (0.5, 6.0), (1.0, 10.0), (f64::INFINITY, 10.0)],
    };
    assert!((delta.mean().unwrap() - 0.4).abs() < 1e-12);
    // rank 5 of 10 lies at 3/4 of the bucket from 0.1 to 0.5
    assert!((delta.quantile(0.5).unwrap() - 0.4).abs() < 1e-12);
    assert!((delta.quantile(0.1).unwrap() - 0.05).abs() < 1e-12);
    assert!((delta.quantile(1.0).unwrap() - 1.0).abs() < 1e-12);
}

#[test]
fn what_lies_beyond_the_last_bound_is_not_known() {
    let delta = HistogramDelta {
        count: 4.0,
        sum: 400.0,
        buckets: vec![(1.0, 1.0), (f64::INFINITY, 4.0)],
    };
    assert_eq!(delta.quantile(0.9), None);
    assert!(delta.quantile(0.2).is_some());
}

#[test]
fn of_nothing_there_is_no_mean_and_no_quantile() {
    let nothing = HistogramDelta {
        count: 0.0,
        sum: 0.0,
        buckets: vec![(1.0, 0.0), (f64::INFINITY, 0.0)],
    };
    assert_eq!((nothing.mean(), nothing.quantile(0.5)), (None, None));
}

proptest! {
    #[test]
    fn a_quantile_is_off_by_at_most_the_width_of_its_bucket(
        mut values in proptest::collection::vec(0.0_f64..10.0, 1..200),
        q in 0.0_f64..1.0,
    ) {
        let bounds = [0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, f64::INFINITY];
        let count = values.len() as f64;
        let buckets = bounds.map(|b| (b, values.iter().filter(|&&v| v <= b).count() as f64)).to_vec();
        let delta = HistogramDelta { count, sum: values.iter().sum(), buckets };
        values.sort_by(f64::total_cmp);
        // the smallest value that at least q·n values do not exceed
        let rank = (q * count).ceil().max(1.0);
        let exact = values.iter().zip(1_u32..).find(|&(_, i)| f64::from(i) >= rank).unwrap().0;
        let got = delta.quantile(q).unwrap();
        let upper = bounds.into_iter().find(|b| b >= exact).unwrap();
        let lower = bounds.into_iter().rev().find(|b| b < exact).unwrap_or(0.0);
        prop_assert!(got >= lower - 1e-9 && got <= upper + 1e-9, "{got} for {exact}");
        let bracket = delta.bracketed(q).unwrap();
        prop_assert!(bracket.low <= *exact && *exact <= bracket.high, "{bracket:?} for {exact}");
    }

    #[test]
    fn quantiles_do_not_fall_as_q_rises(counts in proptest::collection::vec(0_u32..20, 1..12), a in 0.0_f64..1.0, b in 0.0_f64..1.0) {
        let mut cumulative = 0.0;
        let buckets: Vec<(f64, f64)> = counts.iter().zip(1_u32..).map(|(&c, bound)| { cumulative += f64::from(c); (f64::from(bound), cumulative) }).collect();
        let delta = HistogramDelta { count: cumulative, sum: 0.0, buckets };
        let (low, high) = (a.min(b), a.max(b));
        if let (Some(low), Some(high)) = (delta.quantile(low), delta.quantile(high)) {
            prop_assert!(low <= high + 1e-9);
        }
    }
}
