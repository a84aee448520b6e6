//! What to try for a cause: an action, and the recognised server's own parameter for it.

use bench_schema::{Action, Advice, Cause, Evidence, Finding, Known};

/// Servers by parts of their names, in the order of the columns of [`NAMES`].
const SERVERS: [&[&str]; 6] = [
    &["vllm"],
    &["sglang"],
    &["llama"],
    &["tgi", "text-generation"],
    &["tensorrt", "trtllm"],
    &["bench-engine"],
];

/// How each server names what an action changes; nothing where it has nothing of the kind.
type Row = (&'static [Action], [Option<&'static str>; SERVERS.len()]);

const NAMES: [Row; 7] = [
    (
        &[Action::RunMoreAtOnce, Action::RunFewerAtOnce],
        [
            Some("--max-num-seqs"),
            Some("--max-running-requests"),
            Some("--parallel"),
            Some("--max-batch-size"),
            Some("max_batch_size"),
            Some("max_num_seqs"),
        ],
    ),
    (
        &[Action::ChunkPrefill],
        [
            Some("--enable-chunked-prefill"),
            Some("--chunked-prefill-size"),
            Some("--ubatch-size"),
            None,
            Some("enable_chunked_prefill"),
            Some("enable_chunked_prefill"),
        ],
    ),
    (
        &[Action::SmallerPrefillSteps, Action::LargerPrefillSteps],
        [
            Some("--max-num-batched-tokens"),
            Some("--chunked-prefill-size"),
            Some("--batch-size"),
            Some("--max-batch-prefill-tokens"),
            Some("max_num_tokens"),
            Some("max_num_batched_tokens"),
        ],
    ),
    (
        &[Action::CachePrefixes],
        [
            Some("--enable-prefix-caching"),
            Some("--disable-radix-cache (leave it out)"),
            Some("--cache-reuse"),
            Some("PREFIX_CACHING=1"),
            Some("enable_block_reuse"),
            Some("enable_prefix_caching"),
        ],
    ),
    (
        &[Action::MoreCacheMemory],
        [
            Some("--gpu-memory-utilization"),
            Some("--mem-fraction-static"),
            Some("--ctx-size"),
            Some("--cuda-memory-fraction"),
            Some("free_gpu_memory_fraction"),
            Some("num_blocks"),
        ],
    ),
    (
        &[Action::SmallerCacheFormat],
        [
            Some("--kv-cache-dtype"),
            Some("--kv-cache-dtype"),
            Some("--cache-type-k"),
            Some("--kv-cache-dtype"),
            Some("kv_cache_config.dtype"),
            None,
        ],
    ),
    (
        &[Action::ShorterContext],
        [
            Some("--max-model-len"),
            Some("--context-length"),
            Some("--ctx-size"),
            Some("--max-total-tokens"),
            Some("max_seq_len"),
            None,
        ],
    ),
];

/// The server's own name for what an action changes.
fn parameter(action: Action, kind: Option<&str>) -> Option<String> {
    let (_, names) = NAMES.iter().find(|(of, _)| of.contains(&action))?;
    let kind = kind?.to_ascii_lowercase();
    let server = SERVERS
        .iter()
        .position(|parts| parts.iter().any(|part| kind.contains(part)))?;
    names.get(server).copied().flatten().map(str::to_owned)
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
        Cause::WaitingOrPrefill if alone(finding) => {
            vec![Action::ReadServerMetrics, Action::LookInBetween]
        }
        Cause::WaitingOrPrefill => vec![Action::ReadServerMetrics, Action::MeasureAlone],
        Cause::HeldBack => vec![Action::LookInBetween],
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
        Cause::Step if has(Known::StallPeriod) => {
            vec![Action::LookForPeriodicJob, Action::ReadServerMetrics]
        }
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
        Cause::SlowRequests if is_unnamed(finding) => vec![Action::CompareSlowRequests],
        Cause::SlowRequests => vec![Action::LookAtServerLog],
        Cause::DecodeInterrupted => vec![Action::ChunkPrefill, Action::SmallerPrefillSteps],
        // What is thrown out of the cache and taken up again stands still by itself: the server's metrics tell.
        Cause::Pauses if has(Known::StallLength) => {
            vec![Action::ReadServerMetrics, Action::LookAtServerLog]
        }
        Cause::Pauses => vec![Action::LookForPeriodicJob, Action::LookAtServerLog],
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

/// Whether slow requests have nothing in common that was told.
fn is_unnamed(finding: &Finding) -> bool {
    let told = [Known::SlowReplaced, Known::SlowFromTokens, Known::LateShare].map(Known::into);
    let named = |e: &Evidence| {
        told.contains(&e.figure) || e.of.is_some() && e.figure == Known::SlowShare.into()
    };
    !finding.evidence.iter().any(named)
}

/// Whether requests were sent one at a time.
fn alone(finding: &Finding) -> bool {
    finding
        .figure(&Known::InFlight.into())
        .is_some_and(|n| n <= 1.0)
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
        assert_eq!(first(Some("bench-engine")).as_deref(), Some("max_num_seqs"));
    }

    #[test]
    fn no_cause_no_advice() {
        assert!(of(&Finding::new(Cause::Healthy, 0.0), Some("vllm")).is_empty());
    }
}
