use bench_schema::{Reading, Stamp};

use super::*;

#[test]
fn counters_are_rates_in_their_own_unit_and_gauges_are_levels() {
    let mut history = History::default();
    for i in 0..=20_i64 {
        let at = Stamp::new(i * 500_000_000);
        let values = [
            ("energy_j_total", 1000.0 + 150.0 * i as f64),
            ("utilisation_share", if i % 2 == 0 { 0.5 } else { 1.0 }),
            ("ttft_s.le.0.1", 1.0),
        ];
        history.push(&Reading {
            from: at,
            to: at,
            source: ReadingSource::Gpu,
            instance: "0".to_owned(),
            values: values.map(|(n, v)| (n.to_owned(), v)).into(),
            unknown: [].into(),
        });
    }
    let window = Window {
        from: Stamp::new(1_250_000_000),
        to: Stamp::new(6_250_000_000),
    };
    let resources = history.resources(&[window]);
    assert_eq!(resources.len(), 2, "a bucket is not a resource");
    let energy = &resources[0];
    // 150 J every half second: 300 W, 1500 J in 5 s
    assert_eq!((energy.unit, energy.n), (Unit::Watts, 10));
    assert!((energy.mean - 300.0).abs() < 1e-9 && (energy.increase.unwrap() - 1500.0).abs() < 1e-9);
    let use_ = &resources[1];
    assert_eq!((use_.unit, use_.increase), (Unit::Ratio, None));
    assert!((use_.mean - 0.75).abs() < 1e-9 && (use_.peak - 1.0).abs() < 1e-9);
}

#[test]
fn names_say_their_units() {
    for (name, unit) in [
        ("cpu_busy_s_total", Unit::Count),
        ("pressure_cpu_some_s_total", Unit::Ratio),
        ("net_rx_bytes_total", Unit::BytesPerS),
        ("generation_tokens_total", Unit::TokensPerS),
        ("requests_total", Unit::RequestsPerS),
        ("scrape_s", Unit::Ns),
        ("pcie_tx_bytes_per_s", Unit::BytesPerS),
        ("generation_tokens_per_s", Unit::TokensPerS),
        ("throttle_power_cap", Unit::Ratio),
        ("running", Unit::Count),
    ] {
        assert_eq!(unit_of(name).0, unit, "{name}");
    }
}
