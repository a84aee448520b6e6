use proptest::prelude::*;

use super::*;

fn reading(source: ReadingSource, at: i64) -> Reading {
    let at = Stamp::EPOCH + Nanos::new(at);
    Reading {
        from: at,
        to: at,
        source,
        instance: String::new(),
        values: BTreeMap::new(),
        unknown: BTreeMap::new(),
    }
}

proptest! {
    #[test]
    fn of_many_readings_every_source_keeps_evenly_spaced_ones_from_its_first(
        most in 4_usize..40,
        sources in prop::collection::vec(any::<bool>(), 1..600),
    ) {
        let mut readings = Thinned::new(most);
        let mut counts = [0_i64; 2];
        for host in sources {
            let source = if host { ReadingSource::Host } else { ReadingSource::Client };
            let count = &mut counts[usize::from(host)];
            readings.push(reading(source, *count).into());
            *count += 1;
        }
        prop_assert!(readings.kept.len() <= most);
        for (source, count) in [(ReadingSource::Client, counts[0]), (ReadingSource::Host, counts[1])] {
            let kept: Vec<i64> = readings
                .kept
                .iter()
                .filter(|reading| reading.source == source)
                .map(|reading| (reading.from - Stamp::EPOCH).get())
                .collect();
            let every = i64::try_from(readings.keep_every).unwrap();
            let expected: Vec<i64> = (0..count).filter(|n| n % every == 0).collect();
            prop_assert_eq!(kept, expected);
        }
    }
}

/// One source whose every third reading has a slow value too, 100 ms apart, around a cell from 5 to 6 s.
#[test]
fn around_a_cell_only_what_its_counters_begin_and_end_with_stays_and_its_summary_with_it() {
    let second = 1_000_000_000;
    let span = (Stamp::new(5 * second), Stamp::new(6 * second));
    let mut readings = Thinned::default();
    for n in 0..100_i64 {
        let mut one = reading(ReadingSource::Host, n * second / 10);
        one.values.insert("cpu_busy_s_total".to_owned(), n as f64);
        if n % 3 == 0 {
            one.values.insert("load_1m".to_owned(), (n % 7) as f64);
        }
        readings.push(one.into());
    }
    let summary = |readings: &Thinned| {
        let windows = [Window {
            from: span.0,
            to: span.1,
        }];
        let all = readings.kept.iter().map(Arc::as_ref);
        readings::summarise(all, &windows, &Work::default())
    };
    let all = summary(&readings);
    readings.retain_around(Some(span));
    // eleven within; before it 4.9 s and, with the slow value, 4.8 s; after it 6.1 s and 6.3 s
    let kept: Vec<i64> = readings
        .kept
        .iter()
        .map(|r| r.to.get() / 100_000_000)
        .collect();
    let expected: Vec<i64> = (48..=61).chain([63]).collect();
    assert_eq!(kept, expected);
    assert_eq!(summary(&readings), all);
    assert_eq!(all.resources.len(), 2);
}

#[test]
fn a_mean_is_of_what_happened_within_the_windows() {
    let request = |end: i64, e2e: i64| RequestSample {
        start: Stamp::new(end - e2e),
        end: Stamp::new(end),
        ..RequestSample::default()
    };
    let samples = CellSamples {
        cell: "c".to_owned(),
        requests: vec![
            request(5, 1),
            request(15, 2),
            request(25, 4),
            request(35, 64),
        ],
        ..CellSamples::default()
    };
    let window = |from, to| Window {
        from: Stamp::new(from),
        to: Stamp::new(to),
    };
    let mean = |windows: &[Window]| {
        mean_within(windows, &samples, |request| {
            Some((request.end, request.e2e()))
        })
    };
    assert_eq!(mean(&[window(10, 20), window(20, 30)]), Some(3.0));
    assert_eq!(mean(&[window(100, 200)]), None);
}
