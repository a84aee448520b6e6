//! A page of each exporter that tells of GPUs, through the whole sampler, under this project's names.

use bench_schema::ReadingSource;

use crate::fixtures::scraped;

#[test]
fn a_dcgm_exporter_speaks_of_each_gpu_in_nvmls_names() {
    let readings = scraped("dcgm.txt", ReadingSource::Dcgm);
    let of = |instance: &str| readings.iter().find(|r| r.instance == instance).unwrap();
    let first = of("dcgm.txt 0");
    for (name, value) in [
        ("utilisation_share", 0.97),
        ("memory_used_bytes", 71_000.0 * 1_048_576.0),
        ("power_w", 598.643),
        ("energy_j_total", 5_551_899.58),
        ("sm_clock_hz", 1.98e9),
        ("temperature_celsius", 61.0),
        ("tensor_active_share", 0.412),
    ] {
        assert!((first.values[name] - value).abs() <= 1e-9 * value, "{name}");
    }
    assert!(first.unknown.contains_key("memory_temperature_celsius"));
    assert!(of("dcgm.txt 1").values["utilisation_share"] <= 0.0);
}

#[test]
fn a_divided_card_in_a_dcgm_exporter_has_one_energy_and_two_memories() {
    let readings = scraped("dcgm-mig.txt", ReadingSource::Dcgm);
    let with = |name: &str| {
        let mut all: Vec<_> = readings
            .iter()
            .filter(|r| r.values.contains_key(name))
            .map(|r| r.instance.as_str())
            .collect();
        all.sort_unstable();
        all.dedup();
        all
    };
    assert_eq!(with("energy_j_total"), ["dcgm-mig.txt 0"]);
    assert_eq!(
        with("memory_used_bytes"),
        ["dcgm-mig.txt 0/mig3", "dcgm-mig.txt 0/mig5"]
    );
}

#[test]
fn a_captured_page_of_a_dcgm_exporter() {
    let readings = scraped("dcgm-real.txt", ReadingSource::Dcgm);
    let card = readings.iter().find(|r| r.values.contains_key("power_w"));
    let card = &card.unwrap().values;
    for (name, value) in [
        ("utilisation_share", 0.0),
        ("power_w", 8.969),
        ("energy_j_total", 128_996.013),
        ("temperature_celsius", 25.0),
        ("sm_clock_hz", 300e6),
        ("memory_free_bytes", 15_109.0 * 1_048_576.0),
    ] {
        assert!((card[name] - value).abs() <= 1e-9 * value, "{name}");
    }
}

#[test]
fn captured_pages_of_divided_cards() {
    let of = |file: &str, instance: &str| {
        let readings = scraped(file, ReadingSource::Dcgm);
        let instance = format!("{file} {instance}");
        let found = readings.into_iter().find(|r| r.instance == instance);
        found.unwrap().values
    };
    let card = of("dcgm-mig-real.txt", "0");
    assert!(
        (card["power_w"] - 409.692).abs() < 1e-9
            && (card["engine_active_share"] - 0.99563).abs() < 1e-9
    );
    let instance = of("dcgm-mig-real.txt", "0/mig13");
    assert!((instance["engine_active_share"] - 0.995_687).abs() < 1e-9);
    assert!(!instance.contains_key("power_w"));
    // a newer exporter, which spells its host in lower case, with a whole card beside a divided one
    let whole = of("dcgm-mixed-real.txt", "1");
    let part = of("dcgm-mixed-real.txt", "2/mig3");
    let mib = |values: &std::collections::BTreeMap<String, f64>| {
        values["memory_free_bytes"] / 1_048_576.0
    };
    assert!((mib(&whole) - 11_275.0).abs() < 1e-6 && (mib(&part) - 2207.0).abs() < 1e-6);
}

#[test]
fn triton_tells_its_gpus_as_an_exporter_does() {
    let readings = scraped("triton-gpu-real.txt", ReadingSource::Dcgm);
    let gpu = readings.iter().find(|r| r.values.contains_key("power_w"));
    let gpu = gpu.unwrap();
    assert!(
        gpu.instance
            .ends_with(" GPU-951eeeeb-d284-d263-688e-d98a5306389b")
    );
    for (name, value) in [
        ("power_w", 32.09),
        ("power_limit_w", 70.0),
        ("energy_j_total", 4_879_631.328_000_044),
        ("memory_total_bytes", 16_106_127_360.0),
        ("utilisation_share", 0.0),
    ] {
        assert!((gpu.values[name] - value).abs() <= 1e-9 * value, "{name}");
    }
}
