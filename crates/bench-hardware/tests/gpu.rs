//! NVML played by a library that the test builds: recorded values, wave forms, failures. No GPU is needed.
#![cfg(target_os = "linux")]
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "only tests use the functions here, and they should fail where these fail"
)]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use bench_hardware::{Gpus, NoFetch, SamplerConfig, Surroundings, host_record};
use bench_metrics::readings::{History, Work};
use bench_schema::{Reading, ReadingSource, Window};
use tempfile::TempDir;

use crate::common::{sample, without_gpus};

/// The stub, playing `recording`. Kept as long as the directory is.
struct Stub {
    _directory: TempDir,
    file: PathBuf,
}

/// # Panics
/// Where there is no C compiler: then this cannot be tested, and a test that passes without testing would be a lie.
fn build(recording: &str, flags: &[&str]) -> Stub {
    let directory = tempfile::tempdir().unwrap();
    let library = directory.path().join("libnvidia-ml.so.1");
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/nvml");
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-w", "-o"])
        .arg(&library)
        .arg(format!(
            "-DRECORDING=\"{}\"",
            here.join(recording).display()
        ))
        .args(flags)
        .arg(here.join("stub.c"))
        .output()
        .expect("no C compiler `cc`: install one to test NVML without a GPU");
    let said = String::from_utf8_lossy(&built.stderr);
    assert!(built.status.success(), "the stub does not compile: {said}");
    Stub {
        _directory: directory,
        file: library,
    }
}

/// Readings of the GPUs until there are `ticks` of the first.
fn gpu_readings(library: &Path, ticks: usize) -> Vec<Reading> {
    let config = SamplerConfig {
        gpu_every: Duration::from_millis(20),
        gpus: Gpus::through(library),
        ..SamplerConfig::default()
    };
    let enough = |readings: &[Reading]| {
        let gpus = readings.iter().filter(|r| r.source == ReadingSource::Gpu);
        gpus.filter(|r| r.instance == "0").count() >= ticks
    };
    let (readings, report) = sample(&config, Arc::new(NoFetch), enough);
    assert!(report.unknown.is_empty(), "{:?}", report.unknown);
    readings
        .into_iter()
        .filter(|r| r.source == ReadingSource::Gpu)
        .collect()
}

fn of<'a>(readings: &'a [Reading], instance: &str) -> Vec<&'a Reading> {
    readings.iter().filter(|r| r.instance == instance).collect()
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * b.abs().max(1.0)
}

#[test]
fn a_gpu_is_read_in_this_projects_units() {
    let stub = build("two_gpus.txt", &[]);
    let readings = gpu_readings(&stub.file, 4);
    let first = of(&readings, "0");
    for (name, value) in [
        ("utilisation_share", 0.0),
        ("memory_utilisation_share", 0.4),
        ("memory_used_bytes", 140e9),
        ("memory_total_bytes", 151_397_597_184.0),
        ("power_w", 70.0),
        ("power_limit_w", 700.0),
        ("energy_j_total", 1000.0),
        ("temperature_celsius", 61.0),
        ("sm_clock_hz", 1.98e9),
        ("memory_clock_hz", 3.201e9),
        ("throttle_power_cap", 0.0),
        ("pcie_tx_bytes_total", 5000.0),
        ("nvlink_active_links", 3.0),
        ("nvlink_tx_bytes_total", 11_100.0 * 1024.0),
        ("processes", 1.0),
        ("process.4242.memory_bytes", 1e6),
        ("process.4242.sm_share", 0.87),
    ] {
        let read = first[0].values.get(name);
        assert!(
            read.is_some_and(|&read| close(read, value)),
            "{name}: {read:?} is not {value}"
        );
    }
    let shares: Vec<f64> = first
        .iter()
        .take(4)
        .map(|r| r.values["utilisation_share"])
        .collect();
    assert_eq!(shares, [0.0, 0.5, 1.0, 1.0]);
    assert!(close(first[1].values["throttle_power_cap"], 1.0));
    assert!(close(first[1].values["energy_j_total"], 1070.0));
}

#[test]
fn every_nvlink_counts_and_one_that_does_not_answer_leaves_no_half_sum() {
    let stub = build("two_gpus.txt", &[]);
    let readings = gpu_readings(&stub.file, 2);
    let first = of(&readings, "0")[0];
    assert!(!first.values.contains_key("nvlink_rx_bytes_total"));
    let why = &first.unknown["nvlink_rx_bytes_total"];
    assert!(
        why.starts_with("link 1: ") && why.contains("fell off the bus"),
        "{why}"
    );
    // where there are no counters in KiB, those in bytes
    let stub = build("links.txt", &[]);
    let readings = gpu_readings(&stub.file, 2);
    let first = of(&readings, "0")[0];
    assert!(
        close(first.values["nvlink_tx_bytes_total"], 75_000.0),
        "{first:?}"
    );
    assert!(close(first.values["nvlink_rx_bytes_total"], 33.0));
}

#[test]
fn gpus_that_are_left_out_are_unknown_with_the_reason_once() {
    let config = SamplerConfig {
        scrape_every: Duration::from_millis(20),
        ..without_gpus()
    };
    let said = |readings: &[Reading]| {
        let of_host = readings.iter().filter(|r| r.source == ReadingSource::Host);
        of_host.count() > 3 && readings.iter().any(|r| r.source == ReadingSource::Gpu)
    };
    let (readings, _) = sample(&config, Arc::new(NoFetch), said);
    let gpus: Vec<_> = readings
        .iter()
        .filter(|r| r.source == ReadingSource::Gpu)
        .collect();
    assert_eq!(gpus.len(), 1, "{gpus:?}");
    assert!(gpus[0].values.is_empty());
    assert_eq!(gpus[0].unknown["gpu"], "not asked for");
}

#[test]
fn a_gpu_that_is_lost_is_said_to_be_lost_once_and_the_other_goes_on() {
    let stub = build("two_gpus.txt", &[]);
    let readings = gpu_readings(&stub.file, 6);
    let second = of(&readings, "1");
    assert!(
        close(second[0].values["utilisation_share"], 0.0),
        "zero is a value"
    );
    let said: Vec<&String> = second
        .iter()
        .filter_map(|r| r.unknown.get("utilisation_share"))
        .collect();
    assert_eq!(
        said,
        ["NVML: device fell off the bus or has otherwise become inacessible"]
    );
    let after = second
        .iter()
        .skip(1)
        .any(|r| r.values.contains_key("utilisation_share"));
    assert!(!after, "what is lost is not zero");
    assert!(of(&readings, "0").len() >= 6);
}

#[test]
fn a_card_that_lacks_a_counter_names_it_and_gives_the_rest() {
    let stub = build("two_gpus.txt", &["-DWITHOUT_ENERGY"]);
    let readings = gpu_readings(&stub.file, 3);
    let first = of(&readings, "0");
    assert!(first[0].unknown["energy_j_total"].contains("does not have this function"));
    assert!(!first[0].values.contains_key("energy_j_total"));
    assert!(close(first[1].values["power_w"], 700.0));
    assert!(
        !first[1].unknown.contains_key("energy_j_total"),
        "said twice"
    );
}

#[test]
fn the_instances_of_a_divided_card_are_read_by_themselves() {
    let stub = build("divided.txt", &[]);
    let readings = gpu_readings(&stub.file, 2);
    assert!(close(
        of(&readings, "0/mig0")[0].values["memory_used_bytes"],
        7000.0
    ));
    assert!(close(
        of(&readings, "0/mig1")[0].values["memory_used_bytes"],
        3000.0
    ));
    let card = of(&readings, "0")[0];
    assert!(card.unknown["utilisation_share"].contains("not available"));
    assert!(close(card.values["power_w"], 90.0));
}

#[test]
fn without_a_library_or_a_driver_there_is_one_reading_that_says_so() {
    let broken = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(broken.path(), "not a library").unwrap();
    let no_driver = build("no such recording", &[]);
    for (library, word) in [
        (
            Path::new("/nonexistent/libnvidia-ml.so.1"),
            "no NVML library",
        ),
        (broken.path(), "no NVML library"),
        (&no_driver.file, "driver is not loaded"),
    ] {
        let config = SamplerConfig {
            gpu_every: Duration::from_millis(20),
            gpus: Gpus::through(library),
            ..SamplerConfig::default()
        };
        let said = |readings: &[Reading]| readings.iter().any(|r| r.source == ReadingSource::Gpu);
        let (readings, _) = sample(&config, Arc::new(NoFetch), said);
        let gpus: Vec<_> = readings
            .iter()
            .filter(|r| r.source == ReadingSource::Gpu)
            .collect();
        assert_eq!(gpus.len(), 1);
        assert!(
            gpus[0].values.is_empty() && gpus[0].unknown["gpu"].contains(word),
            "{gpus:?}"
        );
    }
}

#[test]
fn the_hosts_record_names_its_gpus_and_what_they_do_not_tell() {
    let stub = build("two_gpus.txt", &[]);
    let host = host_record(&Surroundings {
        gpus: Gpus::through(&stub.file),
        ..Surroundings::default()
    });
    for (name, fact) in [
        ("gpu.driver", "580.82.07"),
        ("gpu.cuda", "13.0"),
        ("gpu.count", "2"),
        ("gpu.0.model", "NVIDIA-H200"),
        ("gpu.0.compute_capability", "9.0"),
        ("gpu.0.memory_bytes", "151397597184"),
        ("gpu.0.power_limit_w", "700"),
    ] {
        assert_eq!(
            host.facts.get(name).map(String::as_str),
            Some(fact),
            "{name}"
        );
    }
    assert!(host.unknown["gpu.1.uuid"].contains("not available"));
}

#[test]
fn energy_over_a_window_is_what_the_counter_gained() {
    let stub = build("two_gpus.txt", &[]);
    let readings = gpu_readings(&stub.file, 8);
    let mut history = History::default();
    for reading in &readings {
        history.push(reading);
    }
    let first = of(&readings, "0");
    let (start, end) = (first[1], first[6]);
    let middle = |r: &Reading| r.from + bench_schema::Nanos::new((r.to - r.from).get() / 2);
    let window = [Window {
        from: middle(start),
        to: middle(end),
    }];
    let work = Work {
        output_tokens: Some(100.0),
        ..Work::default()
    };
    let summary = history.summarise(&window, &work);
    // the wave rises by 70 J a reading, and there are five between
    assert!(
        close(summary.derived["energy_j"].value, 350.0),
        "{:?}",
        summary.derived
    );
    assert!(close(
        summary.derived["energy_per_output_token_j"].value,
        3.5
    ));
    assert!(close(summary.derived["gpu_utilisation_peak"].value, 1.0));
}
