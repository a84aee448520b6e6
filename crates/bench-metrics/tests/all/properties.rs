//! What must hold for any data.

use bench_metrics::{
    BlockMean, CellContext, Histogram, InFlight, Layout, Recorder, Sample, quantile_in_time,
    summarise, summarise_cell, token_gaps, weighted_change_points, wilson,
};
use bench_schema::{
    ArrivalKind, Event, Load, Metric, Nanos, Outcome, RequestRecord, Slo, Stamp, Unit, Window,
};
use proptest::prelude::{
    Just, Strategy, any, prop, prop_assert, prop_assert_eq, prop_oneof, proptest,
};

use crate::records::{answer, event};

fn values() -> impl Strategy<Value = Vec<f64>> {
    prop::collection::vec(0.001..1e10_f64, 1..300)
}

/// A record whose stamps may run backwards, lie far apart or be missing.
fn odd_record() -> impl Strategy<Value = RequestRecord> {
    let far = prop_oneof![
        Just(0_i64),
        -5_000_000..5_000_000_000_i64,
        Just(i64::MAX / 2),
        Just(i64::MIN / 2)
    ];
    let near = 0_i64..3_000_000_000;
    (
        far,
        near,
        prop::collection::vec(-2_000_000..80_000_000_i64, 0..12),
        0_u64..20,
        0_u8..7,
    )
        .prop_map(|(due, late, gaps, tokens, end)| {
            let mut record = answer(0, 0.0, &[]);
            let mut at = Stamp::new(due) + Nanos::new(late);
            record.due = Stamp::new(due);
            record.wire.sent = (end != 6).then_some(at);
            for gap in gaps {
                at = at + Nanos::new(gap);
                let bound = Nanos::new(gap.rem_euclid(3) * 1_000);
                let tokens = (tokens % 3 == 0).then_some(2);
                record.wire.events.push(Event {
                    at,
                    bound,
                    tokens,
                    ..event(0.0)
                });
            }
            record.wire.closed = (end != 5).then_some(at);
            record.output_tokens = (tokens != 7).then_some(tokens);
            record.wire.outcome = match end {
                0..=3 => Outcome::Completed,
                4 => Outcome::Truncated {
                    message: String::new(),
                },
                5 => Outcome::Cancelled {
                    reason: String::new(),
                },
                _ => Outcome::Unsent {
                    reason: String::new(),
                },
            };
            record
        })
}

proptest! {
    #[test]
    fn quantiles_rise_and_stay_within_the_data(values in values(), mut qs in prop::collection::vec(0.0..=1.0_f64, 2..20)) {
        let sample = Sample::of(&values).unwrap();
        qs.sort_by(f64::total_cmp);
        let got: Vec<f64> = qs.iter().map(|q| sample.quantile(*q)).collect();
        prop_assert!(got.windows(2).all(|w| w[0] <= w[1]));
        prop_assert!(got.iter().all(|x| (sample.min()..=sample.max()).contains(x)));
        prop_assert!((sample.min()..=sample.max()).contains(&sample.mean()));
    }

    #[test]
    fn the_order_of_values_does_not_matter_to_a_sample(values in values()) {
        let mut reversed = values.clone();
        reversed.reverse();
        prop_assert_eq!(Sample::of(&values), Sample::of(&reversed));
    }

    #[test]
    fn failures_only_push_quantiles_up(values in values(), failed in 0_usize..50, q in 0.0..=1.0_f64) {
        let sample = Sample::of(&values).unwrap();
        let with = sample.quantile_with_failures(q, failed).unwrap_or(f64::INFINITY);
        prop_assert!(with >= sample.quantile(q) * (1.0 - 1e-12));
    }

    #[test]
    fn intervals_hold_their_value(values in values(), q in 0.01..0.999_f64) {
        let sample = Sample::of(&values).unwrap();
        let got = quantile_in_time(&sample, &values, q, 0.95);
        prop_assert!(got.estimate.covers(got.estimate.value));
        prop_assert!(got.effective >= 1.0 && got.effective <= values.len() as f64);
        if let Some(mean) = BlockMean::of_values(&values) {
            prop_assert!(mean.interval(0.95).covers(mean.value) && mean.std_err.is_finite());
        }
    }

    #[test]
    fn a_summary_is_finite_and_absent_rather_than_nan(values in values()) {
        let d = summarise(&values, Unit::Ns).unwrap();
        let all = [d.mean, d.min, d.max, d.sd.unwrap_or(0.0), d.cov.unwrap_or(0.0), d.effective_n.unwrap_or(1.0)];
        prop_assert!(all.iter().all(|x| x.is_finite()));
        prop_assert!(d.quantiles.iter().all(|q| q.value.is_finite()));
        prop_assert!(d.effective_n.is_none_or(|n| n >= 1.0));
    }

    #[test]
    fn a_histogram_stays_within_its_error(values in prop::collection::vec(1_u64..u64::MAX / 4, 1..300), q in 0.0..=1.0_f64) {
        let mut histogram = Histogram::new(Layout::default());
        for v in &values { histogram.record(*v); }
        let exact = Sample::new(values.iter().map(|v| *v as f64).collect()).unwrap().quantile(q);
        let got = histogram.quantile(q).unwrap();
        prop_assert!((got - exact).abs() <= exact * Layout::default().relative_error() * (1.0 + 1e-9), "{got} {exact}");
    }

    #[test]
    fn merged_histograms_equal_the_whole_in_any_order(a in prop::collection::vec(any::<u64>(), 0..100), b in prop::collection::vec(any::<u64>(), 0..100)) {
        let of = |values: &[u64]| {
            let mut h = Histogram::new(Layout::with_bits(5));
            for v in values { h.record(*v); }
            h
        };
        let (mut left, mut right) = (of(&a), of(&b));
        left.merge(&of(&b)).unwrap();
        right.merge(&of(&a)).unwrap();
        prop_assert_eq!(&left, &of(&[a, b].concat()));
        prop_assert_eq!(left, right);
    }

    #[test]
    fn a_recorder_s_snapshot_is_the_histogram_of_what_it_saw(values in prop::collection::vec(0_u64..1 << 50, 1..200)) {
        let recorder = Recorder::default();
        let mut histogram = Histogram::new(Layout::default());
        for v in values {
            recorder.record_value(v);
            histogram.record(v);
        }
        prop_assert_eq!(recorder.snapshot(), histogram);
    }

    #[test]
    fn in_flight_is_time_in_the_system_over_time(spans in prop::collection::vec((0_i64..1_000, 1_i64..500), 1..60)) {
        let flights = InFlight::of(spans.iter().map(|(from, stay)| (Stamp::new(*from), Stamp::new(from + stay))));
        let window = Window { from: Stamp::new(-10), to: Stamp::new(2_000) };
        let area: i64 = spans.iter().map(|s| s.1).sum();
        prop_assert!((flights.mean(window).unwrap() - area as f64 / 2_010.0).abs() < 1e-9);
        prop_assert!(flights.peak() <= spans.len() as u64);
        prop_assert_eq!(flights.steps().last().map(|s| s.1), Some(0));
    }

    #[test]
    fn token_gaps_add_up_to_the_decode_phase(steps in prop::collection::vec(0.0..50.0_f64, 1..100)) {
        let mut at = 100.0;
        let stamps: Vec<f64> = steps.iter().map(|s| { at += s; at }).collect();
        let record = answer(0, 0.0, &stamps);
        let decode = record.wire.events.last().unwrap() - record.wire.events.first().unwrap();
        let sum: f64 = token_gaps(&record).iter().sum();
        prop_assert!((sum - decode.as_f64()).abs() < 1.0);
    }

    #[test]
    fn records_however_odd_are_summarised_without_loss_or_nan(odd in prop::collection::vec(odd_record(), 0..60), open in any::<bool>()) {
        let load = if open {
            Load::Open { rate_per_s: Some(5.0), arrival: ArrivalKind::Poisson, in_flight_cap: None }
        } else {
            Load::closed(2)
        };
        let mut context = CellContext::new(load);
        context.exact_gaps = 40;
        context.slos = vec![Slo { metric: Metric::Ttft, q: 0.95, limit: 1e6, use_case: None }, Slo { metric: Metric::Itl, q: 0.5, limit: 1e6, use_case: None }];
        let cell = summarise_cell(&odd, context);
        prop_assert!(cell.counts.add_up());
        prop_assert_eq!(cell.counts.planned, odd.len() as u64);
        // serde_json writes NaN and infinity as null: a number that is one would not survive.
        let told = cell.metrics.values().flat_map(|d| [d.mean, d.min, d.max].into_iter().chain(d.quantiles.iter().map(|q| q.value)));
        prop_assert!(told.into_iter().all(f64::is_finite));
        for rates in [&cell.windows.whole, &cell.windows.steady].into_iter().flatten() {
            prop_assert!([rates.seconds, rates.requests_per_s.unwrap(), rates.chunks_per_s, rates.mean_in_flight].iter().all(|x| x.is_finite()));
            prop_assert!(rates.output_tokens_per_s.is_none_or(f64::is_finite));
        }
        prop_assert!(cell.goodput.is_none_or(|g| (0.0..=1.0).contains(&g.attainment)));
        prop_assert!(cell.phases.is_none_or(|p| p.queue.is_finite() && p.decode.is_finite()));
    }

    #[test]
    fn segments_cover_a_series_without_gap(series in prop::collection::vec(-1e6..1e6_f64, 1..120), shortest in 1_usize..10) {
        let segments = weighted_change_points(&series, &vec![0.0; series.len()], shortest, 4.0);
        prop_assert_eq!(segments.first().map(|s| s.start), Some(0));
        prop_assert_eq!(segments.last().map(|s| s.end), Some(series.len()));
        prop_assert!(segments.windows(2).all(|w| w[0].end == w[1].start && w[0].start < w[0].end));
    }

    #[test]
    fn a_wilson_interval_lies_within_0_and_1_and_holds_the_share(n in 1_usize..10_000, part in 0.0..=1.0_f64) {
        let hits = ((n as f64) * part).floor().to_string().parse::<usize>().unwrap().min(n);
        let got = wilson(hits, n, 0.95).unwrap();
        let (low, high) = got.bounds().unwrap();
        prop_assert!(0.0 <= low && low <= got.value && got.value <= high && high <= 1.0);
    }
}
