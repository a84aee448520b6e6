//! What to try for a symptom: server parameters by name. Hypotheses, each to be tried alone and measured again.

/// What the numbers look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Symptom {
    /// Requests wait in the server.
    Queueing,
    /// Prompt processing takes much of the time.
    Prefill,
    /// Token generation takes nearly all of it.
    Decode,
    /// The GPU idles.
    IdleGpu,
    /// The GPU is full.
    FullGpu,
    /// KV cache or GPU memory is full.
    Memory,
    /// The same request takes very different times.
    Variance,
    /// Long requests slow short ones down.
    HeadOfLine,
    /// Fast only now and then.
    Degraded,
    /// Devices are added and do not pay.
    Communication,
    /// The CPU that serves is full.
    FullCpu,
}

/// A vLLM parameter, and what the same thing is called elsewhere: (vLLM, SGLang, llama.cpp, TGI); empty where it has none.
const NAMES: &[(&str, &str, &str, &str)] = &[
    (
        "max_num_seqs",
        "--max-running-requests",
        "--parallel",
        "--max-concurrent-requests",
    ),
    (
        "max_num_batched_tokens",
        "--chunked-prefill-size",
        "--batch-size",
        "--max-batch-prefill-tokens",
    ),
    (
        "enable_chunked_prefill",
        "--chunked-prefill-size",
        "--ubatch-size",
        "",
    ),
    (
        "enable_prefix_caching",
        "--disable-radix-cache (off)",
        "--cache-reuse",
        "--prefix-caching",
    ),
    (
        "max_model_len",
        "--context-length",
        "--ctx-size",
        "--max-total-tokens",
    ),
    (
        "gpu_memory_utilization",
        "--mem-fraction-static",
        "",
        "--cuda-memory-fraction",
    ),
    (
        "tensor_parallel_size",
        "--tp-size",
        "--tensor-split",
        "--num-shard",
    ),
    ("pipeline_parallel_size", "--pp-size", "", ""),
    (
        "kv_cache_dtype",
        "--kv-cache-dtype",
        "--cache-type-k",
        "--kv-cache-dtype",
    ),
    (
        "quantization",
        "--quantization",
        "a smaller GGUF type",
        "--quantize",
    ),
];

/// What to try for `symptom` on a server of `kind`, the most promising first.
pub(crate) fn actions(symptom: Symptom, kind: Option<&str>) -> Vec<String> {
    ADVICE
        .iter()
        .filter(|(known, _)| *known == symptom)
        .flat_map(|(_, advice)| *advice)
        .map(|(parameter, what)| match name(parameter, kind) {
            Some(name) => format!("{name}: {what}"),
            None => (*what).to_owned(),
        })
        .collect()
}

/// The parameter in the server's own words; `None` for advice without one.
fn name(parameter: &str, kind: Option<&str>) -> Option<String> {
    if parameter.is_empty() {
        return None;
    }
    let kind = kind.unwrap_or_default().to_ascii_lowercase();
    let row = NAMES.iter().find(|(vllm, ..)| *vllm == parameter);
    let own = row.and_then(|(_, sglang, llama, tgi)| match kind.as_str() {
        k if k.contains("sglang") => Some(*sglang),
        k if k.contains("llama") => Some(*llama),
        k if k.contains("tgi") || k.contains("text-generation") => Some(*tgi),
        _ => None,
    });
    Some(match own {
        Some("") | None => parameter.to_owned(),
        Some(own) => format!("{own} (vLLM's {parameter})"),
    })
}

/// How each kind of server is told to keep no prefix cache; a part of its name, and the switch.
const NO_PREFIX_CACHE: &[(&str, &str)] = &[
    ("sglang", "`--disable-radix-cache`"),
    (
        "llama",
        "`--extra-body '{\"cache_prompt\": false}'`, or its own `--no-cache-prompt`",
    ),
    ("tgi", "`PREFIX_CACHING=0` in its environment"),
    ("text-generation", "`PREFIX_CACHING=0` in its environment"),
    (
        "tensorrt",
        "`enable_block_reuse: false` in its `kv_cache_config`",
    ),
    (
        "trtllm",
        "`enable_block_reuse: false` in its `kv_cache_config`",
    ),
    ("vllm", "`--no-enable-prefix-caching`"),
];

/// The switch that turns a server's prefix cache off, in its own words; vLLM's where the kind is not known.
pub(crate) fn without_prefix_cache(kind: Option<&str>) -> String {
    let kind = kind.unwrap_or_default().to_ascii_lowercase();
    let known = NO_PREFIX_CACHE.iter().find(|(part, _)| kind.contains(part));
    match known {
        Some((_, switch)) => (*switch).to_owned(),
        None => "vLLM: `--no-enable-prefix-caching`".to_owned(),
    }
}

/// Parameter (empty: none) and what to do with it.
type Advice = &'static [(&'static str, &'static str)];

/// What to try, the most promising first.
const ADVICE: &[(Symptom, Advice)] = &[
    (
        Symptom::Queueing,
        &[
            (
                "max_num_seqs",
                "raise it so that more requests run at once, while GPU memory lasts; lower it only if p95 of TPOT suffers",
            ),
            (
                "gpu_memory_utilization",
                "raise it to make room for more sequences",
            ),
            (
                "max_num_batched_tokens",
                "raise it so that waiting prompts are taken up sooner",
            ),
            (
                "",
                "lower the load per replica or add replicas, if the GPU is busy already",
            ),
        ],
    ),
    (
        Symptom::Prefill,
        &[
            ("enable_chunked_prefill", "turn it on for long prompts"),
            (
                "enable_prefix_caching",
                "turn it on if prompts share beginnings",
            ),
            (
                "max_num_batched_tokens",
                "raise it for faster prompts, at some cost in ITL",
            ),
        ],
    ),
    (
        Symptom::Decode,
        &[
            (
                "quantization",
                "try AWQ, GPTQ or FP8 weights: decoding reads every weight for each token",
            ),
            ("", "try speculative decoding"),
            ("kv_cache_dtype", "try FP8, so that each step reads less"),
            (
                "tensor_parallel_size",
                "raise it to divide the weights that a step reads",
            ),
        ],
    ),
    (
        Symptom::IdleGpu,
        &[
            (
                "",
                "offer more load: raise concurrency or rate until GPU use is 80–90 %",
            ),
            (
                "max_num_seqs",
                "raise it if requests wait while the GPU idles",
            ),
            ("max_num_batched_tokens", "raise it gradually"),
        ],
    ),
    (
        Symptom::FullGpu,
        &[
            (
                "",
                "add GPUs or replicas on GPUs of their own; more replicas on the same GPU cannot help",
            ),
            ("quantization", "try a cheaper number format"),
            (
                "max_num_seqs",
                "lower it if tail latency matters more than throughput",
            ),
        ],
    ),
    (
        Symptom::Memory,
        &[
            (
                "kv_cache_dtype",
                "try FP8: the cache holds twice the tokens",
            ),
            ("max_model_len", "lower it to what requests need"),
            (
                "gpu_memory_utilization",
                "raise it if the card has memory left, lower it if it runs out",
            ),
            ("max_num_seqs", "lower it until preemptions stop"),
            (
                "tensor_parallel_size",
                "raise it to spread weights and cache",
            ),
        ],
    ),
    (
        Symptom::Variance,
        &[
            (
                "max_num_batched_tokens",
                "lower it: large prefill steps delay everyone's next token",
            ),
            ("enable_chunked_prefill", "turn it on"),
            ("max_num_seqs", "lower it if latency varies with the batch"),
            (
                "max_model_len",
                "limit it if a few very long requests are the reason",
            ),
        ],
    ),
    (
        Symptom::HeadOfLine,
        &[
            (
                "enable_chunked_prefill",
                "turn it on, so that a long prompt shares steps with running answers",
            ),
            (
                "max_num_batched_tokens",
                "lower it: smaller chunks block for a shorter time",
            ),
            ("", "serve long prompts from replicas of their own"),
        ],
    ),
    (
        Symptom::Degraded,
        &[
            (
                "quantization",
                "check that the intended kernels are used; try AWQ or GPTQ",
            ),
            (
                "tensor_parallel_size",
                "check it, and pipeline_parallel_size: is the model spread as intended?",
            ),
            (
                "max_num_batched_tokens",
                "raise it if good batches are rare",
            ),
            (
                "gpu_memory_utilization",
                "raise it, or change kv_cache_dtype, if the cache is what constrains",
            ),
        ],
    ),
    (
        Symptom::Communication,
        &[
            (
                "tensor_parallel_size",
                "lower it and run more replicas instead, if the model fits",
            ),
            ("pipeline_parallel_size", "try it across slow links"),
            (
                "",
                "check the interconnect (NVLink or PCIe) and its traffic",
            ),
        ],
    ),
    (
        Symptom::FullCpu,
        &[
            (
                "",
                "give the server more cores, or run several instances on cores of their own",
            ),
            ("quantization", "try a cheaper number format"),
            ("", "serve from a GPU for concurrency beyond this"),
        ],
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_told_its_own_switch_for_the_prefix_cache() {
        let switch = |kind| without_prefix_cache(Some(kind));
        assert!(switch("llama.cpp").contains("cache_prompt"));
        assert!(!switch("llama.cpp").contains("vLLM"));
        assert_eq!(switch("SGLang"), "`--disable-radix-cache`");
        assert_eq!(switch("vllm"), "`--no-enable-prefix-caching`");
        assert!(without_prefix_cache(None).starts_with("vLLM: "));
    }

    #[test]
    fn a_server_is_told_its_own_parameter_names() {
        let first = |kind| actions(Symptom::Queueing, kind).swap_remove(0);
        assert!(first(None).starts_with("max_num_seqs: raise"));
        assert!(first(Some("llama.cpp")).starts_with("--parallel (vLLM's max_num_seqs): raise"));
        assert!(first(Some("sglang")).starts_with("--max-running-requests"));
    }
}
