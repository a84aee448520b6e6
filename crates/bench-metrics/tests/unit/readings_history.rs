use super::*;

fn reading(at: i64, instance: &str, value: f64) -> Reading {
    Reading {
        from: Stamp::new(at),
        to: Stamp::new(at + 10),
        source: ReadingSource::Gpu,
        instance: instance.to_owned(),
        values: [("power_w".to_owned(), value)].into(),
        unknown: [("energy_j_total".to_owned(), "no".to_owned())].into(),
    }
}

#[test]
fn readings_become_series_dated_to_their_middle_and_sorted() {
    let mut history = History::default();
    for (at, instance) in [(0, "0"), (100, "0"), (50, "0"), (0, "1")] {
        history.push(&reading(at, instance, at as f64));
    }
    let stamps: Vec<i64> = history
        .points(ReadingSource::Gpu, "0", "power_w")
        .iter()
        .map(|p| p.at.get())
        .collect();
    assert_eq!(stamps, [5, 55, 105]);
    assert_eq!(history.keys().count(), 2);
    assert_eq!(history.instances(ReadingSource::Gpu, "power_w").count(), 2);
}

#[test]
fn the_word_for_a_source_is_the_one_in_the_files() {
    for source in [
        ReadingSource::Gpu,
        ReadingSource::Host,
        ReadingSource::Client,
        ReadingSource::ServerProcess,
        ReadingSource::ServerMetrics,
        ReadingSource::Dcgm,
        ReadingSource::Prometheus,
    ] {
        assert_eq!(serde_json::to_value(source).unwrap(), source.as_str());
    }
}
