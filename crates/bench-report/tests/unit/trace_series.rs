//! Tests of `src/trace/series.rs`.

use super::*;

fn key(source: ReadingSource, instance: &str, name: &str) -> SeriesKey {
    SeriesKey {
        source,
        instance: instance.to_owned(),
        name: name.to_owned(),
    }
}

#[test]
fn what_says_nothing_of_the_server_gets_no_chart() {
    for name in ["load_1m", "core.0.cpu_busy_s_total", "memory_total_bytes"] {
        assert!(place(&key(ReadingSource::Host, "", name), Unit::Count).is_none());
    }
    let sampler = key(ReadingSource::Client, "sampler.host", "cpu_s_total");
    assert!(place(&sampler, Unit::Count).is_none());
}

#[test]
fn cards_are_told_apart() {
    let placed = place(
        &key(ReadingSource::Gpu, "1", "utilisation_share"),
        Unit::Ratio,
    );
    assert_eq!(placed, Some((Topic::Gpu, "GPU 1".to_owned(), 0)));
}

#[test]
fn a_prometheus_servers_gpus_are_among_the_gpus_and_its_queries_for_themselves() {
    let prometheus = |instance, name| {
        let key = key(ReadingSource::Prometheus, instance, name);
        place(&key, Unit::Ratio).unwrap()
    };
    let card = prometheus("http://prom:9090 gpu-1:0", "utilisation_share");
    assert_eq!((card.0, card.1.as_str()), (Topic::Gpu, "GPU gpu-1:0"));
    assert_eq!(prometheus("http://prom:9090", "my_figure").0, Topic::Asked);
}
