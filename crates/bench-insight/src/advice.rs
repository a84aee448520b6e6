//! What to try for a cause: an action, and the recognised server's own parameter for it.

use bench_schema::{Action, Advice, Cause, Finding, Known};

/// How a server names what an action changes; empty where it has nothing of the kind.
struct Names {
    action: Action,
    vllm: &'static str,
    sglang: &'static str,
    llama: &'static str,
    tgi: &'static str,
    trtllm: &'static str,
    engine: &'static str,
}

const NAMES: &[Names] = &[
    Names {
        action: Action::RunMoreAtOnce,
        vllm: "--max-num-seqs",
        sglang: "--max-running-requests",
        llama: "--parallel",
        tgi: "--max-batch-size",
        trtllm: "max_batch_size",
        engine: "max_running",
    },
    Names {
        action: Action::RunFewerAtOnce,
        vllm: "--max-num-seqs",
        sglang: "--max-running-requests",
        llama: "--parallel",
        tgi: "--max-batch-size",
        trtllm: "max_batch_size",
        engine: "max_running",
    },
    Names {
        action: Action::ChunkPrefill,
        vllm: "--enable-chunked-prefill",
        sglang: "--chunked-prefill-size",
        llama: "--ubatch-size",
        tgi: "",
        trtllm: "enable_chunked_prefill",
        engine: "",
    },
    Names {
        action: Action::SmallerPrefillSteps,
        vllm: "--max-num-batched-tokens",
        sglang: "--chunked-prefill-size",
        llama: "--batch-size",
        tgi: "--max-batch-prefill-tokens",
        trtllm: "max_num_tokens",
        engine: "",
    },
    Names {
        action: Action::LargerPrefillSteps,
        vllm: "--max-num-batched-tokens",
        sglang: "--chunked-prefill-size",
        llama: "--batch-size",
        tgi: "--max-batch-prefill-tokens",
        trtllm: "max_num_tokens",
        engine: "",
    },
    Names {
        action: Action::CachePrefixes,
        vllm: "--enable-prefix-caching",
        sglang: "--disable-radix-cache (leave it out)",
        llama: "--cache-reuse",
        tgi: "PREFIX_CACHING=1",
        trtllm: "enable_block_reuse",
        engine: "",
    },
    Names {
        action: Action::MoreCacheMemory,
        vllm: "--gpu-memory-utilization",
        sglang: "--mem-fraction-static",
        llama: "--ctx-size",
        tgi: "--cuda-memory-fraction",
        trtllm: "free_gpu_memory_fraction",
        engine: "",
    },
    Names {
        action: Action::SmallerCacheFormat,
        vllm: "--kv-cache-dtype",
        sglang: "--kv-cache-dtype",
        llama: "--cache-type-k",
        tgi: "--kv-cache-dtype",
        trtllm: "kv_cache_config.dtype",
        engine: "",
    },
    Names {
        action: Action::ShorterContext,
        vllm: "--max-model-len",
        sglang: "--context-length",
        llama: "--ctx-size",
        tgi: "--max-total-tokens",
        trtllm: "max_seq_len",
        engine: "",
    },
];

/// The server's own name for what an action changes.
fn parameter(action: Action, kind: Option<&str>) -> Option<String> {
    let names = NAMES.iter().find(|names| names.action == action)?;
    let kind = kind?.to_ascii_lowercase();
    let is = |part: &str| kind.contains(part);
    let own = if is("vllm") {
        names.vllm
    } else if is("sglang") {
        names.sglang
    } else if is("llama") {
        names.llama
    } else if is("tgi") || is("text-generation") {
        names.tgi
    } else if is("tensorrt") || is("trtllm") {
        names.trtllm
    } else if is("bench-engine") {
        names.engine
    } else {
        ""
    };
    (!own.is_empty()).then(|| own.to_owned())
}

/// What a cause asks to try, the most promising first.
fn actions(finding: &Finding) -> Vec<Action> {
    let has = |figure: Known| finding.figure(&figure.into()).is_some();
    let Some(cause) = finding.cause() else {
        return Vec::new();
    };
    match cause {
        Cause::Overload => vec![Action::LowerLoadOrAddReplicas],
        Cause::Queueing => vec![Action::RunMoreAtOnce, Action::LowerLoadOrAddReplicas],
        Cause::Prefill => vec![Action::CachePrefixes, Action::LargerPrefillSteps],
        Cause::WaitingOrPrefill => vec![Action::ReadServerMetrics, Action::MeasureAlone],
        Cause::DecodeSlowsWithLoad => {
            vec![Action::RunFewerAtOnce, Action::LowerLoadOrAddReplicas]
        }
        Cause::HeadOfLine => vec![
            Action::ChunkPrefill,
            Action::SmallerPrefillSteps,
            Action::SeparateLongPrompts,
        ],
        Cause::ServerStarved if has(Known::ServerThrottled) => vec![Action::LiftQuota],
        Cause::ServerStarved => vec![Action::GiveServerCores, Action::QuietHost],
        Cause::ClientLimited => vec![Action::GiveClientCores],
        Cause::SlowReplica => vec![Action::LookAtReplica],
        Cause::PeriodicStall => vec![Action::LookForPeriodicJob],
        Cause::Frozen | Cause::Failing | Cause::ServerGone | Cause::Step => {
            vec![Action::LookAtServerLog]
        }
        Cause::ColdStart => vec![Action::WarmUp],
        Cause::Drift => vec![Action::MeasureLonger, Action::LookAtServerLog],
        Cause::RateLimited => vec![Action::StayBelowLimit],
        Cause::MemoryPressure => vec![
            Action::MoreCacheMemory,
            Action::SmallerCacheFormat,
            Action::ShorterContext,
            Action::RunFewerAtOnce,
        ],
        Cause::GpuLow => vec![Action::RunMoreAtOnce],
        Cause::GpuSaturated => vec![Action::AddGpus],
        Cause::GpuThrottled => vec![Action::CoolGpu],
        Cause::PrefixCache | Cause::Healthy => Vec::new(),
    }
}

/// What to try for a finding on a server of `kind`.
pub(crate) fn of(finding: &Finding, kind: Option<&str>) -> Vec<Advice> {
    actions(finding)
        .into_iter()
        .map(|action| Advice {
            action,
            parameter: parameter(action, kind),
        })
        .collect()
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
    fn a_server_is_told_its_own_parameter_and_an_unknown_one_none() {
        let first = |kind| {
            of(&Finding::new(Cause::Queueing, 0.5), kind)
                .swap_remove(0)
                .parameter
        };
        assert_eq!(first(None), None);
        assert_eq!(first(Some("vLLM")).as_deref(), Some("--max-num-seqs"));
        assert_eq!(first(Some("llama.cpp")).as_deref(), Some("--parallel"));
    }

    #[test]
    fn no_cause_no_advice() {
        assert!(of(&Finding::new(Cause::Healthy, 0.0), Some("vllm")).is_empty());
    }
}
