//! A page of each kind of server, through the whole sampler, under this project's names. `fixtures/ORIGIN.md` says what the pages are.

#![expect(
    clippy::unwrap_used,
    reason = "only tests use the functions here, and they should fail where these fail"
)]

use std::sync::Arc;
use std::time::Duration;

use bench_hardware::{Fetch, FetchLimits, NoFetch, Page, SamplerConfig};
use bench_metrics::readings::{History, Work};
use bench_schema::{Reading, ReadingSource, Stamp, Window};

use crate::common::{sample, without_gpus};
use crate::fixtures::{Fixtures, fixture, scraped};

fn check(file: &str, expected: &[(&str, f64)]) {
    let page = Page::parse(&std::fs::read(fixture(file)).unwrap()).unwrap();
    assert_eq!(page.malformed, 0, "{file}: {:?}", page.first_malformed);
    let readings = scraped(file, ReadingSource::ServerMetrics);
    // one is of the scrape, the other of the server
    let of_server = |r: &&Reading| !r.values.contains_key("page_bytes");
    let reading = readings.iter().find(of_server).unwrap();
    for (name, value) in expected {
        let read = reading.values.get(*name);
        assert!(
            read.is_some_and(|read| (read - value).abs() <= 1e-9 * value.abs().max(1.0)),
            "{file}: {name} is {read:?}, not {value}; there are {:?}",
            reading.values.keys()
        );
    }
    assert!(
        readings.iter().all(|r| r.unknown.is_empty()),
        "{file}: {readings:?}"
    );
}

#[test]
fn vllm_with_two_engines() {
    check(
        "vllm.txt",
        &[
            ("running", 13.0),
            ("waiting", 2.0),
            ("kv_cache_share", 0.83),
            ("preemptions_total", 3.0),
            ("prefix_cache_queries_total", 6000.0),
            ("prefix_cache_hits_total", 1500.0),
            ("prompt_tokens_total", 6000.0),
            ("generation_tokens_total", 1200.0),
            ("requests_total", 6.0),
            ("ttft_s.count", 6.0),
            ("ttft_s.sum", 0.8),
            ("ttft_s.le.0.04", 2.0),
            ("ttft_s.le.inf", 6.0),
            ("itl_s.count", 20.0),
            ("tpot_s.count", 6.0),
            ("e2e_s.sum", 12.2),
            ("queue_s.sum", 0.7006),
            ("prefill_s.sum", 0.6),
            ("decode_s.sum", 10.8),
            ("inference_s.sum", 11.4),
        ],
    );
}

#[test]
fn the_embedded_engine_as_it_was_captured_after_three_requests_of_forty_tokens() {
    check(
        "bench-engine.txt",
        &[
            ("running", 0.0),
            ("waiting", 0.0),
            ("kv_cache_share", 0.0),
            ("generation_tokens_total", 120.0),
            ("requests_total", 3.0),
            ("ttft_s.count", 3.0),
            ("itl_s.count", 117.0),
            ("decode_s.sum", 1.189_022_952),
            ("queue_s.le.inf", 3.0),
        ],
    );
}

#[test]
fn vllm_before_0_11_with_old_and_new_names_side_by_side() {
    check(
        "vllm-before-0.11.txt",
        &[
            ("kv_cache_share", 0.125),
            ("prefix_cache_queries_total", 100.0),
            ("prefix_cache_hits_total", 40.0),
            ("itl_s.count", 63.0),
            ("ttft_s.sum", 0.05),
        ],
    );
}

/// Its own words of these requests: 24 streamed ones of 5852 prompt and 5026 answered tokens, its warm-up (13 and 8), one that was
/// hung up on (6 and 63), eight of 431 and 5600 of which one was retracted.
#[test]
fn a_page_captured_from_sglang_after_34_requests() {
    check(
        "sglang-real.txt",
        &[
            ("running", 0.0),
            ("waiting", 0.0),
            ("kv_cache_share", 0.0),
            ("requests_total", 34.0),
            ("prompt_tokens_total", 6302.0),
            ("generation_tokens_total", 10_697.0),
            ("prefix_cache_hits_total", 1418.0),
            ("preemptions_total", 1.0),
            ("aborted_requests_total", 1.0),
            ("generation_tokens_per_s", 0.0),
            ("ttft_s.count", 34.0),
            ("e2e_s.count", 34.0),
            ("prefill_s.count", 34.0),
        ],
    );
}

#[test]
fn a_page_captured_from_sglang_with_priorities_counts_each_request_once() {
    check(
        "sglang-priority-real.txt",
        &[("running", 3.0), ("waiting", 11.0)],
    );
}

#[test]
fn text_generation_inference_by_its_own_recorder() {
    check(
        "tgi.txt",
        &[
            ("running", 4.0),
            ("waiting", 1.0),
            ("requests_total", 19.0),
            ("generation_tokens_total", 1333.0),
            ("prompt_tokens_total", 21_193.0),
            ("e2e_s.sum", 19.226_241_940_933_66),
            ("e2e_s.le.0.00015", 0.0),
            ("queue_s.count", 19.0),
            ("inference_s.sum", 18.037_920_222_754_032),
            ("prefill_step_s.sum", 1.059_79),
            ("decode_step_s.count", 1400.0),
        ],
    );
}

#[test]
fn triton_with_tensorrt_llm() {
    check(
        "triton-tensorrt-llm.txt",
        &[
            ("running", 5.0),
            ("waiting", 2.0),
            ("kv_cache_share", 0.5),
            ("requests_total", 8.0),
            ("queue_time_s_total", 0.4),
            ("request_time_s_total", 16.0),
            ("prompt_tokens_total", 256.0),
            ("generation_tokens_total", 130.0),
            ("ttft_s.sum", 0.77),
            ("ttft_s.le.0.1", 2.0),
        ],
    );
}

#[test]
fn pages_of_triton_count_a_request_where_it_entered_and_not_again_for_each_member() {
    check("triton-ensemble-49-real.txt", &[("requests_total", 59.0)]);
    check(
        "triton-ensemble-667-real.txt",
        &[
            ("request_time_s_total", 369.358_274),
            ("queue_time_s_total", 0.001_293),
        ],
    );
    let idle = [("running", 1.0), ("requests_total", 0.0)];
    check("triton-idle-real.txt", &idle);
}

#[test]
fn tensorrt_llms_own_server_by_its_own_collector() {
    check(
        "trtllm-serve.txt",
        &[
            ("running", 2.0),
            ("waiting", 1.0),
            ("kv_cache_share", 0.020_736_223_045_088_216),
            ("prefix_cache_hit_share", 0.348_242_811_501_597_47),
            ("prefix_cache_hits_total", 6976.0),
            ("prompt_tokens_total", 19_774.0),
            ("generation_tokens_total", 1991.0),
            ("requests_total", 20.0),
            ("ttft_s.sum", 2.427_883_566_441_487),
            ("tpot_s.count", 20.0),
            ("e2e_s.sum", 22.525_395_517_503_537),
            ("queue_s.sum", 1.471_182_056_433_551_8),
            ("prefill_s.sum", 0.956_701_510_007_935_2),
            ("decode_s.count", 20.0),
            ("inference_s.count", 20.0),
        ],
    );
}

#[test]
fn tensorrt_llm_before_its_names_had_a_prefix() {
    check(
        "trtllm-serve-1.0.txt",
        &[
            ("requests_total", 20.0),
            ("ttft_s.count", 20.0),
            ("tpot_s.count", 20.0),
            ("e2e_s.count", 20.0),
            ("queue_s.count", 20.0),
        ],
    );
}

#[test]
fn llama_server_whose_rate_of_nothing_is_not_a_number() {
    check(
        "llama-server.txt",
        &[
            ("running", 4.0),
            ("waiting", 2.0),
            ("prompt_tokens_total", 6886.0),
            ("generation_tokens_total", 3469.0),
            ("prefill_time_s_total", 29.03),
            ("decode_time_s_total", 354.4),
            ("busy_slots_per_decode", 1.5),
        ],
    );
}

#[test]
fn a_page_captured_from_llama_server_in_the_middle_of_a_run() {
    check(
        "llama-server-real.txt",
        &[
            ("running", 1.0),
            ("waiting", 0.0),
            ("prompt_tokens_total", 4723.0),
            ("prefix_cache_hits_total", 0.0),
            ("generation_tokens_total", 10641.0),
            ("prefill_time_s_total", 0.655_149),
            ("decode_time_s_total", 5.15687),
            ("decode_calls_total", 10641.0),
            ("busy_slots_per_decode", 1.0),
        ],
    );
}

#[test]
fn a_page_captured_from_vllm_after_runs_of_634_answers() {
    check(
        "vllm-real.txt",
        &[
            ("running", 0.0),
            ("waiting", 0.0),
            ("kv_cache_share", 0.0),
            ("prefix_cache_queries_total", 66763.0),
            ("prefix_cache_hits_total", 11392.0),
            ("prompt_tokens_total", 66763.0),
            ("generation_tokens_total", 74889.0),
            ("requests_total", 634.0),
            ("ttft_s.count", 634.0),
            ("ttft_s.sum", 6.973_049_640_655_518),
            ("itl_s.count", 74255.0),
            ("itl_s.sum", 146.733_918_570_986_13),
            ("e2e_s.sum", 153.500_244_140_625),
            ("queue_s.count", 634.0),
        ],
    );
}

#[test]
fn openmetrics_with_exemplars_timestamps_and_an_end_mark() {
    check(
        "openmetrics.txt",
        &[
            ("running", 1.0),
            ("generation_tokens_total", 17.0),
            ("ttft_s.le.0.1", 3.0),
            ("ttft_s.count", 4.0),
        ],
    );
}

/// A page that is empty while its server, or its exporter, starts: what then appears is old.
#[test]
fn counters_that_appear_all_at_once_are_not_taken_to_have_been_nothing() {
    let late = |number: usize| {
        let energy = "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{gpu=\"0\"} 5000000\n";
        let tokens = "vllm:generation_tokens_total 74889\n";
        let running = "vllm:num_requests_running 1\nDCGM_FI_DEV_GPU_UTIL{gpu=\"0\"} 1\n";
        if number < 6 {
            running.to_owned()
        } else {
            format!("{running}{tokens}{energy}")
        }
    };
    let config = SamplerConfig {
        scrape_every: Duration::from_millis(10),
        server_metrics: vec!["server".to_owned()],
        dcgm: vec!["exporter".to_owned()],
        ..without_gpus()
    };
    let shown = |r: &&Reading| {
        r.values.contains_key("generation_tokens_total") || r.values.contains_key("energy_j_total")
    };
    let (readings, _) = sample(&config, Arc::new(Growing(0.into(), late)), |all| {
        all.iter().filter(shown).count() >= 6
    });
    let nothing = |r: &Reading| {
        ["generation_tokens_total", "energy_j_total"]
            .iter()
            .any(|name| r.values.get(*name) == Some(&0.0))
    };
    assert!(!readings.iter().any(nothing), "{readings:?}");
}

/// A counter that appears on the fourth page, as SGLang's retractions do at the first of them.
#[test]
fn the_first_event_of_a_counter_that_was_not_shown_before_counts() {
    let page = |number: usize| {
        let first = "sglang:num_running_reqs 1\nsglang:num_requests_total 9\n".to_owned();
        let late = |events: usize| format!("{first}sglang:num_retracted_requests_total {events}\n");
        if number < 3 { first } else { late(2) }
    };
    let config = SamplerConfig {
        scrape_every: Duration::from_millis(10),
        server_metrics: vec!["sglang".to_owned()],
        ..without_gpus()
    };
    let shown = |r: &&Reading| r.values.get("preemptions_total").is_some_and(|v| *v > 0.0);
    let (readings, _) = sample(&config, Arc::new(Growing(0.into(), page)), |all| {
        all.iter().filter(shown).count() >= 2
    });
    let mut history = History::default();
    for reading in &readings {
        history.push(reading);
    }
    let pages = readings.iter().filter(|r| r.values.contains_key("running"));
    let stamps: Vec<Stamp> = pages.map(|r| r.from).collect();
    let window = Window {
        from: stamps[0],
        to: *stamps.last().unwrap(),
    };
    let summary = history.summarise(&[window], &Work::default());
    let preemptions = summary.derived["preemptions"].value;
    assert!((preemptions - 2.0).abs() < 0.5, "{preemptions}");
}

/// Another page at each fetch.
struct Growing<F>(std::sync::atomic::AtomicUsize, F);
impl<F: Fn(usize) -> String + Send + Sync> Fetch for Growing<F> {
    fn get(&self, _: &str, _: FetchLimits) -> Result<Vec<u8>, String> {
        let number = self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        Ok((self.1)(number).into())
    }
}

#[test]
fn two_pages_of_vllm_make_the_phases_of_what_happened_between_them() {
    let text = std::fs::read_to_string(fixture("vllm.txt")).unwrap();
    let page = |number: usize| {
        // The same page with every count and sum of a histogram multiplied: as if the same requests had come again.
        let lines = text.lines().map(|line| match line.rsplit_once(' ') {
            Some((series, value)) if !line.starts_with('#') && (series.contains("_seconds_")) => {
                let value: f64 = value.parse().unwrap();
                format!("{series} {}", value * (number + 1) as f64)
            }
            _ => line.to_owned(),
        });
        lines.collect::<Vec<_>>().join("\n")
    };
    let pages: [String; 64] = std::array::from_fn(page);
    let fetch = Growing(0.into(), move |number: usize| pages[number.min(63)].clone());
    let config = SamplerConfig {
        scrape_every: Duration::from_millis(10),
        server_metrics: vec!["vllm".to_owned()],
        ..without_gpus()
    };
    let of = |r: &&Reading| r.source == ReadingSource::ServerMetrics;
    let (readings, _) = sample(&config, Arc::new(fetch), |all| {
        all.iter().filter(of).count() >= 10
    });
    let mut history = History::default();
    for reading in &readings {
        history.push(reading);
    }
    let page: Vec<&Reading> = readings
        .iter()
        .filter(of)
        .filter(|r| r.values.contains_key("running"))
        .collect();
    let middle = |r: &Reading| Stamp::new(i64::midpoint(r.from.get(), r.to.get()));
    let window = Window {
        from: middle(page[1]),
        to: middle(page[4]),
    };
    let work = Work {
        ttft_mean: Some(0.4e9 / 3.0),
        ..Work::default()
    };
    let summary = history.summarise(&[window], &work);
    // each page brings both engines' requests once more: TTFT 0.03, 0.07 and 0.3 s
    let value = |name: &str| summary.derived[name].value;
    assert!((value("server_ttft_mean") - 0.4e9 / 3.0).abs() < 1.0);
    assert!((value("server_ttft_count") - 18.0).abs() < 1e-6);
    assert!((value("server_ttft_over_client") - 1.0).abs() < 1e-6);
    assert!((value("server_decode_mean") - 1.8e9).abs() < 1.0);
    // the bucket that holds the largest TTFT reaches from 0.25 to 0.5 s
    assert!((0.25e9..=0.5e9).contains(&value("server_ttft_p99")));
}

#[test]
fn pages_tell_of_the_server_itself_whatever_kind_it_is() {
    let enough = |readings: &[Reading]| {
        let of = |source| readings.iter().any(|r| r.source == source);
        of(ReadingSource::ServerMetrics) && of(ReadingSource::Dcgm)
    };
    let told = |page: &str, dcgm: &str| {
        let config = SamplerConfig {
            server_metrics: vec![page.to_owned()],
            dcgm: vec![dcgm.to_owned()],
            ..without_gpus()
        };
        let (_, report) = sample(&config, Arc::new(Fixtures), enough);
        report.server_facts()
    };
    let vllm = told("vllm-real.txt", "dcgm-real.txt");
    assert_eq!(vllm["gpu_memory_utilization"], "0.92");
    assert_eq!(
        (vllm["gpus"].as_str(), vllm["block_size"].as_str()),
        ("2 × Tesla T4", "128")
    );
    let sglang = told("sglang-real.txt", "dcgm.txt");
    assert_eq!(sglang["max_total_num_tokens"], "2048");
    assert_eq!(sglang["gpus"], "2 × NVIDIA H100 80GB HBM3");
    assert_eq!(sglang["gpu_driver"], "550.54.15");
    let trtllm = told("trtllm-serve.txt", "dcgm-mig-real.txt");
    assert_eq!(trtllm["tensor_parallel_size"], "1");
    assert!(!trtllm.contains_key("gpus"), "that exporter names no model");
}

#[test]
fn without_an_http_client_a_page_is_unknown_and_says_why() {
    let config = SamplerConfig {
        server_metrics: vec!["http://127.0.0.1:9/metrics".to_owned()],
        ..without_gpus()
    };
    let page = |readings: &[Reading]| readings.iter().any(|r| r.unknown.contains_key("page"));
    let (readings, _) = sample(&config, Arc::new(NoFetch), page);
    let said = readings.iter().find_map(|r| r.unknown.get("page")).unwrap();
    assert!(said.contains("no HTTP client"));
}
