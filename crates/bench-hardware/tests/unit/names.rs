//! Pages of servers and exporters under this project's names.

use super::*;

fn page(text: &str) -> Page {
    Page::parse(text.as_bytes()).unwrap()
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * b.abs().max(1.0)
}

#[test]
fn every_line_of_the_table_is_a_rule_a_fact_or_a_comment() {
    let lines = TABLE.lines();
    let meant = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    let is_fact = |line: &&str| line.starts_with("labels ") || line.starts_with("value ");
    let (facts, rules): (Vec<_>, Vec<_>) = meant.partition(is_fact);
    assert_eq!((server_rules().len(), facts.len()), (rules.len(), 10));
}

#[test]
fn engines_are_summed_and_shares_are_those_of_the_fullest() {
    let values = canonical(
        &page(
            "vllm:num_requests_running{engine=\"0\"} 3\nvllm:num_requests_running{engine=\"1\"} 4\n\
             vllm:kv_cache_usage_perc{engine=\"0\"} 0.2\nvllm:kv_cache_usage_perc{engine=\"1\"} 0.9\n",
        ),
        &server_rules(),
    );
    assert!(close(values["running"], 7.0) && close(values["kv_cache_share"], 0.9));
}

#[test]
fn a_metric_under_its_old_and_its_new_name_counts_once() {
    let values = canonical(
        &page(
            "vllm:gpu_prefix_cache_hits_total 5\nvllm:prefix_cache_hits_total 5\nvllm:gpu_cache_usage_perc 0.5\n",
        ),
        &server_rules(),
    );
    assert!(close(values["prefix_cache_hits_total"], 5.0) && close(values["kv_cache_share"], 0.5));
}

#[test]
fn ranks_that_share_a_request_do_not_multiply_it() {
    let values = canonical(
        &page(
            "sglang:num_running_reqs{tp_rank=\"0\"} 6\nsglang:num_running_reqs{tp_rank=\"1\"} 6\n",
        ),
        &server_rules(),
    );
    assert!(close(values["running"], 6.0));
}

#[test]
fn histograms_are_kept_with_their_buckets_in_seconds() {
    let values = canonical(
        &page(
            "nv_inference_first_response_histogram_ms_bucket{le=\"100\"} 3\n\
             nv_inference_first_response_histogram_ms_bucket{le=\"+Inf\"} 4\n\
             nv_inference_first_response_histogram_ms_sum 500\nnv_inference_first_response_histogram_ms_count 4\n",
        ),
        &server_rules(),
    );
    assert!(close(values["ttft_s.sum"], 0.5) && close(values["ttft_s.count"], 4.0));
    assert!(close(values["ttft_s.le.0.1"], 3.0) && close(values["ttft_s.le.inf"], 4.0));
    assert_eq!(
        bench_schema::histogram_bucket("ttft_s.le.inf"),
        Some(("ttft_s", f64::INFINITY))
    );
    assert!(values.keys().all(|name| bench_schema::is_counter(name)));
}

#[test]
fn a_value_that_is_no_number_is_absent() {
    let values = canonical(&page("vllm:kv_cache_usage_perc NaN\n"), &server_rules());
    assert!(values.is_empty());
}

#[test]
fn dcgm_blanks_are_not_numbers_and_a_divided_cards_energy_counts_once() {
    let gpus = dcgm_by_gpu(&page(
        "DCGM_FI_DEV_GPU_UTIL{gpu=\"0\"} 97\nDCGM_FI_DEV_MEMORY_TEMP{gpu=\"0\"} 9223372036854775794\n\
         DCGM_FI_DEV_FB_USED{gpu=\"1\",GPU_I_ID=\"3\"} 1024\nDCGM_FI_DEV_FB_USED{gpu=\"1\",GPU_I_ID=\"5\"} 2048\n\
         DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{gpu=\"1\",GPU_I_ID=\"3\"} 2147483640\n\
         DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{gpu=\"1\",GPU_I_ID=\"5\"} 2147483640\n",
    )
    .samples);
    let first = &gpus["0"];
    assert!(close(first.values["utilisation_share"], 0.97));
    assert!(
        first.blank.contains("memory_temperature_celsius")
            && !first.values.contains_key("memory_temperature_celsius")
    );
    assert!(close(gpus["1"].values["energy_j_total"], 2_147_483.640));
    assert!(close(
        gpus["1/mig5"].values["memory_used_bytes"],
        2048.0 * 1_048_576.0
    ));
}

#[test]
fn gpus_of_several_hosts_are_kept_apart() {
    let gpus = dcgm_by_gpu(
        &page(
            "DCGM_FI_DEV_GPU_UTIL{gpu=\"0\",Hostname=\"a\"} 10\nDCGM_FI_DEV_GPU_UTIL{gpu=\"0\",Hostname=\"b\"} 20\n\
             DCGM_FI_DEV_GPU_UTIL{gpu=\"1\",instance=\"c:9400\"} 30\n",
        )
        .samples,
    );
    let names: Vec<&String> = gpus.keys().collect();
    assert_eq!(names, ["a:0", "b:0", "c:9400:1"]);
}

#[test]
fn the_query_for_gpus_names_every_field_and_takes_matchers_with_or_without_braces() {
    let all = dcgm_query("");
    assert!(all.starts_with("{__name__=~\"DCGM_FI_DEV_GPU_UTIL|") && all.ends_with("\"}"));
    for matchers in ["Hostname=\"a\"", " {Hostname=\"a\"} "] {
        assert!(dcgm_query(matchers).ends_with("\",Hostname=\"a\"}"));
    }
}

#[test]
fn reasons_for_a_lower_clock_are_taken_apart_as_nvmls_are() {
    let gpus = dcgm_by_gpu(
        &page(
            "DCGM_FI_DEV_CLOCKS_EVENT_REASONS{gpu=\"0\"} 68\nDCGM_FI_DEV_CLOCK_THROTTLE_REASONS{gpu=\"1\"} 9223372036854775792\n\
             DCGM_FI_PROF_NVLINK_TX_BYTES{gpu=\"0\",nvlink=\"3\"} 5\n",
        )
        .samples,
    );
    let held = |name: &str| gpus["0"].values[name] > 0.0;
    assert!(held("throttle_power_cap") && held("throttle_thermal_hardware"));
    assert!(!held("throttle_power_brake") && !held("throttle_hardware"));
    assert!(!gpus["0"].values.contains_key("nvlink_tx_bytes_per_s"));
    assert!(gpus["1"].values.is_empty(), "a blank is no reason");
}

fn of(page: &str) -> BTreeMap<String, String> {
    facts(&Page::parse(page.as_bytes()).unwrap().samples)
}

#[test]
fn a_server_tells_how_it_was_started_in_its_own_words() {
    let vllm = of(
        "vllm:cache_config_info{block_size=\"16\",cache_dtype=\"auto\",engine=\"0\",gpu_memory_utilization=\"0.9\",\
                   num_gpu_blocks=\"None\"} 1\nvllm:cache_config_info{block_size=\"32\",engine=\"1\"} 1\n",
    );
    let expected = [
        ("block_size", "16"),
        ("cache_dtype", "auto"),
        ("gpu_memory_utilization", "0.9"),
    ];
    let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(vllm, expected.into());
    let sglang = of("sglang:max_total_num_tokens{tp_rank=\"0\"} 2048.0\nsglang:page_size NaN\n");
    assert_eq!(sglang["max_total_num_tokens"], "2048");
    assert!(!sglang.contains_key("page_size"));
}

#[test]
fn an_exporter_tells_which_gpus_there_are_once_each() {
    let facts = of(
        "DCGM_FI_DEV_GPU_UTIL{gpu=\"0\",modelName=\"NVIDIA L4\",Hostname=\"a\",DCGM_FI_DRIVER_VERSION=\"550.1\"} 1\n\
         DCGM_FI_DEV_POWER_USAGE{gpu=\"0\",modelName=\"NVIDIA L4\",Hostname=\"a\",DCGM_FI_DRIVER_VERSION=\"550.1\"} 1\n\
         DCGM_FI_DEV_GPU_UTIL{gpu=\"0\",modelName=\"NVIDIA L4\",Hostname=\"b\",DCGM_FI_DRIVER_VERSION=\"550.1\"} 1\n\
         DCGM_FI_DEV_GPU_UTIL{gpu=\"1\",modelName=\"NVIDIA A30\",Hostname=\"b\"} 1\n",
    );
    assert_eq!(facts["gpus"], "1 × NVIDIA A30, 2 × NVIDIA L4");
    assert_eq!(facts["gpu_driver"], "550.1");
}

#[test]
fn values_that_nothing_can_have_are_absent() {
    let text = "vllm:kv_cache_usage_perc 1e308\nvllm:num_requests_waiting -5\nvllm:num_requests_running 3\n";
    let values = canonical(&page(text), &server_rules());
    let names: Vec<&str> = values.keys().map(String::as_str).collect();
    assert_eq!(names, ["running"]);
    let full = canonical(&page("vllm:kv_cache_usage_perc 1\n"), &server_rules());
    assert!(close(full["kv_cache_share"], 1.0));
}
