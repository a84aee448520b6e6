//! The metrics of inference servers, as their sources define them.
//!
//! vLLM `vllm/v1/metrics/loggers.py`, SGLang `srt/observability/metrics_collector.py`, TGI `router/src/server.rs`,
//! TensorRT-LLM backend `docs` (Triton) and `tensorrt_llm/metrics/collector.py`, llama.cpp `tools/server`. Newer names come first.

use super::{Combine, Rule, Take};

const fn value(metric: &'static str, name: &'static str) -> Rule {
    Rule {
        metric,
        with: None,
        name,
        take: Take::Value(Combine::Sum),
        scale: 1.0,
    }
}

/// A share of something that each engine has for itself, or a gauge that a process which is gone may have left behind.
const fn fullest(metric: &'static str, name: &'static str) -> Rule {
    Rule {
        take: Take::Value(Combine::Max),
        ..value(metric, name)
    }
}

const fn histogram(metric: &'static str, name: &'static str) -> Rule {
    Rule {
        take: Take::Histogram,
        ..value(metric, name)
    }
}

const fn with(rule: Rule, label: &'static str, is: &'static str) -> Rule {
    Rule {
        with: Some((label, is)),
        ..rule
    }
}

/// TensorRT-LLM before its names had a prefix: told from others by what it wrote for want of an engine type.
const fn unprefixed(rule: Rule) -> Rule {
    with(rule, UNPREFIXED.0, UNPREFIXED.1)
}

/// The label of metrics that are [`unprefixed`].
pub(super) const UNPREFIXED: (&str, &str) = ("engine_type", "undefined");

const fn scaled(rule: Rule, scale: f64) -> Rule {
    Rule { scale, ..rule }
}

/// All rules. Prefixes keep the servers apart, so that one list serves every page.
pub(crate) const RULES: &[Rule] = &[
    // vLLM, the simulator of llm-d, and the embedded engine
    value("vllm:num_requests_running", "running"),
    value("vllm:num_requests_waiting", "waiting"),
    value("vllm:num_requests_swapped", "swapped"),
    fullest("vllm:kv_cache_usage_perc", "kv_cache_share"),
    fullest("vllm:gpu_cache_usage_perc", "kv_cache_share"),
    value("vllm:num_preemptions_total", "preemptions_total"),
    value(
        "vllm:prefix_cache_queries_total",
        "prefix_cache_queries_total",
    ),
    value(
        "vllm:gpu_prefix_cache_queries_total",
        "prefix_cache_queries_total",
    ),
    value("vllm:prefix_cache_hits_total", "prefix_cache_hits_total"),
    value(
        "vllm:gpu_prefix_cache_hits_total",
        "prefix_cache_hits_total",
    ),
    value("vllm:prompt_tokens_total", "prompt_tokens_total"),
    value("vllm:generation_tokens_total", "generation_tokens_total"),
    value("vllm:request_success_total", "requests_total"),
    value(
        "vllm:spec_decode_num_draft_tokens_total",
        "draft_tokens_total",
    ),
    value(
        "vllm:spec_decode_num_accepted_tokens_total",
        "accepted_draft_tokens_total",
    ),
    histogram("vllm:time_to_first_token_seconds", "ttft_s"),
    histogram("vllm:inter_token_latency_seconds", "itl_s"),
    // until 0.11 vLLM called the gap between tokens "time per output token"
    histogram("vllm:time_per_output_token_seconds", "itl_s"),
    histogram("vllm:request_time_per_output_token_seconds", "tpot_s"),
    histogram("vllm:e2e_request_latency_seconds", "e2e_s"),
    histogram("vllm:request_queue_time_seconds", "queue_s"),
    histogram("vllm:request_prefill_time_seconds", "prefill_s"),
    histogram("vllm:request_decode_time_seconds", "decode_s"),
    histogram("vllm:request_inference_time_seconds", "inference_s"),
    histogram("vllm:iteration_tokens_total", "iteration_tokens"),
    // SGLang
    // with priorities on, each priority has a sample beside the one of all, whose label is empty
    with(value("sglang:num_running_reqs", "running"), "priority", ""),
    with(value("sglang:num_queue_reqs", "waiting"), "priority", ""),
    fullest("sglang:token_usage", "kv_cache_share"),
    fullest("sglang:cache_hit_rate", "prefix_cache_hit_share"),
    value("sglang:cached_tokens_total", "prefix_cache_hits_total"),
    value("sglang:prompt_tokens_total", "prompt_tokens_total"),
    value("sglang:generation_tokens_total", "generation_tokens_total"),
    value("sglang:num_requests_total", "requests_total"),
    value(
        "sglang:num_aborted_requests_total",
        "aborted_requests_total",
    ),
    value("sglang:num_retracted_requests_total", "preemptions_total"),
    value("sglang:gen_throughput", "generation_tokens_per_s"),
    histogram("sglang:time_to_first_token_seconds", "ttft_s"),
    histogram("sglang:inter_token_latency_seconds", "itl_s"),
    // what older versions called the gap between tokens
    histogram("sglang:time_per_output_token_seconds", "itl_s"),
    histogram("sglang:request_time_per_output_token_seconds", "tpot_s"),
    with(
        histogram("sglang:per_stage_req_latency_seconds", "prefill_s"),
        "stage",
        "prefill_forward",
    ),
    histogram("sglang:e2e_request_latency_seconds", "e2e_s"),
    histogram("sglang:queue_time_seconds", "queue_s"),
    // Text Generation Inference
    value("tgi_batch_current_size", "running"),
    value("tgi_queue_size", "waiting"),
    // those that succeeded, as elsewhere; `tgi_request_count` has the refused ones too
    value("tgi_request_success", "requests_total"),
    value(
        "tgi_request_generated_tokens_sum",
        "generation_tokens_total",
    ),
    value("tgi_request_input_length_sum", "prompt_tokens_total"),
    histogram("tgi_request_duration", "e2e_s"),
    histogram("tgi_request_queue_duration", "queue_s"),
    histogram("tgi_request_inference_duration", "inference_s"),
    // `tgi_request_mean_time_per_token_duration` has the prefill in it: it is nobody else's time per output token
    with(
        histogram("tgi_batch_inference_duration", "prefill_step_s"),
        "method",
        "prefill",
    ),
    with(
        histogram("tgi_batch_inference_duration", "decode_step_s"),
        "method",
        "decode",
    ),
    // Triton with the TensorRT-LLM backend
    with(
        value("nv_trt_llm_request_metrics", "running"),
        "request_type",
        "scheduled",
    ),
    with(
        value("nv_trt_llm_request_metrics", "waiting"),
        "request_type",
        "waiting",
    ),
    with(
        fullest("nv_trt_llm_kv_cache_block_metrics", "kv_cache_share"),
        "kv_cache_block_type",
        "fraction",
    ),
    value("nv_inference_request_success", "requests_total"),
    scaled(
        value("nv_inference_queue_duration_us", "queue_time_s_total"),
        1e-6,
    ),
    scaled(
        value("nv_inference_request_duration_us", "request_time_s_total"),
        1e-6,
    ),
    value("nv_llm_input_token_len_sum", "prompt_tokens_total"),
    value("nv_llm_output_token_len_sum", "generation_tokens_total"),
    scaled(
        histogram("nv_inference_first_response_histogram_ms", "ttft_s"),
        1e-3,
    ),
    // TensorRT-LLM's own server
    fullest("trtllm_num_requests_running", "running"),
    fullest("trtllm_num_requests_waiting", "waiting"),
    fullest("trtllm_kv_cache_utilization", "kv_cache_share"),
    fullest("trtllm_kv_cache_hit_rate", "prefix_cache_hit_share"),
    value(
        "trtllm_prompt_cached_tokens_total",
        "prefix_cache_hits_total",
    ),
    value("trtllm_prompt_tokens_total", "prompt_tokens_total"),
    value("trtllm_generation_tokens_total", "generation_tokens_total"),
    value("trtllm_request_success_total", "requests_total"),
    value(
        "trtllm_spec_decode_num_draft_tokens_total",
        "draft_tokens_total",
    ),
    value(
        "trtllm_spec_decode_num_accepted_tokens_total",
        "accepted_draft_tokens_total",
    ),
    histogram("trtllm_time_to_first_token_seconds", "ttft_s"),
    histogram("trtllm_time_per_output_token_seconds", "tpot_s"),
    histogram("trtllm_e2e_request_latency_seconds", "e2e_s"),
    histogram("trtllm_request_queue_time_seconds", "queue_s"),
    histogram("trtllm_request_prefill_time_seconds", "prefill_s"),
    histogram("trtllm_request_decode_time_seconds", "decode_s"),
    histogram("trtllm_request_inference_time_seconds", "inference_s"),
    // its versions 1.0 and 1.1, whose names had no prefix
    unprefixed(value("request_success_total", "requests_total")),
    unprefixed(histogram("time_to_first_token_seconds", "ttft_s")),
    unprefixed(histogram("time_per_output_token_seconds", "tpot_s")),
    unprefixed(histogram("e2e_request_latency_seconds", "e2e_s")),
    unprefixed(histogram("request_queue_time_seconds", "queue_s")),
    // llama.cpp
    value("llamacpp:requests_processing", "running"),
    value("llamacpp:requests_deferred", "waiting"),
    fullest("llamacpp:kv_cache_usage_ratio", "kv_cache_share"),
    value("llamacpp:prompt_tokens_total", "prompt_tokens_total"),
    value(
        "llamacpp:prompt_tokens_cached_total",
        "prefix_cache_hits_total",
    ),
    value("llamacpp:tokens_predicted_total", "generation_tokens_total"),
    value("llamacpp:prompt_seconds_total", "prefill_time_s_total"),
    value(
        "llamacpp:tokens_predicted_seconds_total",
        "decode_time_s_total",
    ),
    value("llamacpp:n_decode_total", "decode_calls_total"),
    value("llamacpp:n_busy_slots_per_decode", "busy_slots_per_decode"),
    value(
        "llamacpp:spec_decode_num_draft_tokens_total",
        "draft_tokens_total",
    ),
    value(
        "llamacpp:spec_decode_num_accepted_tokens_total",
        "accepted_draft_tokens_total",
    ),
];
