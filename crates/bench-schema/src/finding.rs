//! A statement about the measured system as data: what was found, on which numbers, what was ruled out, what to try. The words are
//! made in the reports.

use serde::{Deserialize, Serialize};

use crate::Unit;

/// Something that the numbers say. A cause is a hypothesis, and is worded as one.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Finding {
    /// What was found.
    pub code: Code,
    /// Share of the users' time, or of the requests, that it costs: 0 to 1. 0 for a fact.
    pub severity: f64,
    /// Cells it is about; empty means the run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cells: Vec<String>,
    /// The numbers it rests on.
    pub evidence: Vec<Evidence>,
    /// What else could have looked like it and did not hold, each with the number that says so.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ruled_out: Vec<RuledOut>,
    /// What follows from it and is no cause of its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub consequences: Vec<Cause>,
    /// What to try, the most promising first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub advice: Vec<Advice>,
    /// The measurement that would refute it.
    pub refute: Option<Experiment>,
    /// The sentence of a file written before 1.3, or of a statement whose words depend on more than its numbers.
    #[serde(alias = "claim")]
    pub message: Option<String>,
}

impl Finding {
    /// A finding without evidence yet.
    pub fn new(code: impl Into<Code>, severity: f64) -> Self {
        Self {
            code: code.into(),
            severity: severity.clamp(0.0, 1.0),
            cells: Vec::new(),
            evidence: Vec::new(),
            ruled_out: Vec::new(),
            consequences: Vec::new(),
            advice: Vec::new(),
            refute: None,
            message: None,
        }
    }

    /// The cause that it names; absent for a fact or an answer.
    pub fn cause(&self) -> Option<Cause> {
        match self.code {
            Code::Cause(cause) => Some(cause),
            _ => None,
        }
    }

    /// The first number of that name, of any cell.
    pub fn figure(&self, figure: &Figure) -> Option<f64> {
        self.evidence
            .iter()
            .find(|e| e.figure == *figure)
            .map(|e| e.value)
    }
}

/// The stable name of a finding.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum Code {
    /// A cause, or that there is none.
    Cause(Cause),
    /// The answer to what the flags asked.
    Answer(Answer),
    /// Something that was measured and is no fault.
    Fact(Fact),
    /// A name of another version.
    Other(String),
}

impl Code {
    /// The name, as in the JSON.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Cause(cause) => cause.as_str(),
            Self::Answer(answer) => answer.as_str(),
            Self::Fact(fact) => fact.as_str(),
            Self::Other(name) => name,
        }
    }
}

impl From<Cause> for Code {
    fn from(cause: Cause) -> Self {
        Self::Cause(cause)
    }
}

impl From<Answer> for Code {
    fn from(answer: Answer) -> Self {
        Self::Answer(answer)
    }
}

impl From<Fact> for Code {
    fn from(fact: Fact) -> Self {
        Self::Fact(fact)
    }
}

names! {
    /// Why users wait, or why there is nothing to report. `docs/insight.md` says how each is decided and what rules it out.
    Cause {
        Overload "overload" "An open loop offers more than is served: requests in flight grow over the window.";
        Queueing "queueing" "Requests wait in the server before they are taken up.";
        Prefill "prefill" "Prompts take long to process, waiting excluded.";
        WaitingOrPrefill "waiting_or_prefill" "The time to the first token is long, and nothing tells waiting from prefill.";
        HeldBack "held_back" "First tokens reach the client much later than the server made them or its scheduler accounts for, by its own count or because whole answers come at one moment: something in between or before it holds them.";
        DecodeSlowsWithLoad "decode_slows_with_load" "Time between tokens grows with the requests in flight.";
        HeadOfLine "head_of_line" "Short requests are slower while a long prompt is processed.";
        ServerStarved "server_starved" "The server is kept from its CPU: by a quota, by other programs, by the hypervisor.";
        ClientLimited "client_limited" "The client limits what is measured.";
        SlowReplica "slow_replica" "One endpoint is slower than the others for the same work.";
        PeriodicStall "periodic_stall" "All streams stop together, again and again.";
        Frozen "frozen" "All streams stop together, once or twice.";
        ColdStart "cold_start" "Slower at first, then steady.";
        Drift "drift" "The level moves in one direction over the window.";
        Step "step" "The level changes at one moment and stays.";
        RateLimited "rate_limited" "The server refuses work by its own limit (429).";
        Failing "failing" "Requests fail while the server is there.";
        ServerGone "server_gone" "The server could not be reached for a while, or any more.";
        NewConnections "new_connections" "Requests pay for a connection of their own, because the server closes those before.";
        MemoryPressure "memory_pressure" "KV cache or memory is full, and requests wait or are preempted because of it.";
        PrefixCache "prefix_cache" "Prompts whose beginnings the server knew already were quicker.";
        GpuLow "gpu_low" "The GPU has capacity left while throughput no longer rises.";
        GpuSaturated "gpu_saturated" "The GPU has none left, and throughput no longer rises.";
        GpuThrottled "gpu_throttled" "The GPU is held back by heat or power.";
        SlowRequests "slow_requests" "Some requests take much longer than others of their lengths, and nothing that was measured tells why.";
        DecodeInterrupted "decode_interrupted" "Prompts of others interrupt the answers that are under way.";
        Pauses "pauses" "Answers pause, and nothing that was measured tells why.";
        Healthy "healthy" "Nothing was found that costs users time.";
    }
}

names! {
    /// Answers to what was asked: objectives, scenarios, capacity.
    Answer {
        SloMissed "slo_missed" "An objective fails.";
        SloMet "slo_met" "Objectives hold.";
        SloUndecided "slo_undecided" "The data cannot decide an objective.";
        SloCapacity "slo_capacity" "Up to which load all objectives hold.";
        ScenarioMet "scenario_met" "A scenario can be served.";
        ScenarioMissed "scenario_missed" "A scenario cannot be served.";
        ScenarioUndecided "scenario_undecided" "The data cannot decide a scenario.";
        Capacity "capacity" "What the best cell comes to.";
        Planning "planning" "A figure of a plan: users, replicas, cost, energy.";
        NotHealthy "not_healthy" "Nothing was found that costs users time; and why the run is not called healthy all the same.";
    }
}

names! {
    /// What was measured and is no fault.
    Fact {
        OutputLength "output_length" "E2E over output length.";
        PromptLength "prompt_length" "E2E and prefill over prompt length.";
        Scaling "scaling" "Throughput over load or devices.";
        LoadEffects "load_effects" "TTFT and ITL over load.";
        PhaseSplit "phase_split" "Shares of E2E.";
        GpuUse "gpu_use" "Use of the GPU and its memory.";
        CpuUse "cpu_use" "Use of the CPUs.";
        OperatingPoint "operating_point" "The level of a sweep at which the GPU is well used.";
        WorkloadsDiffer "workloads_differ" "Workloads or models beside each other.";
        Tail "tail" "P95 over P50.";
        Consistency "consistency" "How far equal requests differ.";
        AllAnswered "all_answered" "Every request got a whole answer.";
        TokensPerChunk "tokens_per_chunk" "A chunk is not a token.";
        Bundles "bundles" "Tokens come several at a time.";
        OtherClients "other_clients" "Another client uses the server meanwhile.";
        ServerDisagrees "server_disagrees" "Client and server tell different times.";
        RepeatsDiffer "repeats_differ" "Repeats of one cell differ.";
    }
}

/// One number behind a finding.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(from = "StoredEvidence")]
pub struct Evidence {
    /// What it is.
    pub figure: Figure,
    /// The number, in its unit.
    pub value: f64,
    /// Its unit.
    pub unit: Unit,
    /// The cell it comes from.
    pub cell: Option<String>,
    /// What it is of, where there are several: an endpoint, a level, a percentile.
    pub of: Option<String>,
}

impl Evidence {
    /// A number of the run.
    pub fn new(figure: Figure, value: f64, unit: Unit) -> Self {
        Self {
            figure,
            value,
            unit,
            cell: None,
            of: None,
        }
    }
}

/// As it may lie in a file: before 1.3 a number had a name in words and a unit as shown.
#[derive(Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
struct StoredEvidence {
    #[serde(alias = "name")]
    figure: Figure,
    value: f64,
    #[serde(default)]
    unit: String,
    #[serde(default)]
    cell: Option<String>,
    #[serde(default)]
    of: Option<String>,
}

impl From<StoredEvidence> for Evidence {
    fn from(stored: StoredEvidence) -> Self {
        let (unit, scale) = match stored.unit.as_str() {
            "ms" => (Unit::Ns, 1e6),
            "%" => (Unit::Ratio, 0.01),
            "tokens/s" => (Unit::TokensPerS, 1.0),
            "requests/s" => (Unit::RequestsPerS, 1.0),
            known => {
                let named = serde_json::from_value(serde_json::Value::from(known));
                (named.unwrap_or(Unit::Count), 1.0)
            }
        };
        Self {
            figure: stored.figure,
            value: stored.value * scale,
            unit,
            cell: stored.cell,
            of: stored.of,
        }
    }
}

/// What a number is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum Figure {
    /// One that the reports have words for.
    Known(Known),
    /// In words.
    Other(String),
}

impl From<Known> for Figure {
    fn from(known: Known) -> Self {
        Self::Known(known)
    }
}

impl From<&str> for Figure {
    fn from(words: &str) -> Self {
        Self::Other(words.to_owned())
    }
}

names! {
    /// Numbers that findings rest on. The reports have the words for each.
    Known {
        OfferedRate "offered_rate" "Requests per second that the schedule offered.";
        ServedRate "served_rate" "Requests per second that were answered while it offered.";
        InFlightGrowth "in_flight_growth" "Growth of the requests in flight while load was offered.";
        InFlightGrowthOverError "in_flight_growth_over_error" "The same over its error.";
        QueueShare "queue_share" "Share of E2E.";
        PrefillShare "prefill_share" "Share of E2E.";
        DecodeShare "decode_share" "Share of E2E.";
        TtftShare "ttft_share" "Share of E2E until the first token.";
        QueueTime "queue_time" "Mean time in the queue.";
        QueueTimeP50 "queue_time_p50" "Median time in the queue.";
        GenerationTimeP50 "generation_time_p50" "Median time from the queue to the end.";
        Waiting "waiting" "Mean of requests waiting in the server.";
        Running "running" "Mean of requests running in the server.";
        InFlight "in_flight" "Requests in flight, mean.";
        Ttft "ttft" "TTFT of this cell.";
        QuietTtft "quiet_ttft" "TTFT without load, of as long prompts.";
        TtftPerToken "ttft_per_token" "TTFT for each prompt token.";
        TtftByLength "ttft_by_length" "Share of TTFT that the prompt's length explains.";
        PromptTokens "prompt_tokens" "Mean prompt tokens.";
        Tpot "tpot" "Time per token now.";
        QuietTpot "quiet_tpot" "Time per token at the lowest load.";
        Itl "itl" "Median gap between tokens.";
        MeanGap "mean_gap" "Mean gap between content events.";
        SlowDown "slow_down" "Ratio of two times.";
        BesideLong "beside_long" "TTFT of short requests beside a long prompt, over that of the others.";
        LongPrompts "long_prompts" "Long prompts that were seen.";
        ServerRunQueue "server_run_queue" "Seconds that the server's threads waited for a CPU, each second.";
        ServerThrottled "server_throttled" "Share of time that a quota held the server back.";
        HostSteal "host_steal" "Share of CPU time that the hypervisor took.";
        CpuPressure "cpu_pressure" "Share of time that tasks waited for a CPU.";
        HostCpu "host_cpu" "Use of the host's CPUs.";
        HostCpuPeak "host_cpu_peak" "Peak use of the host's CPUs.";
        ServerCores "server_cores" "Cores that the server used.";
        ClientCores "client_cores" "Cores that the client used.";
        ClientCpu "client_cpu" "The busiest worker's use of its core.";
        ClientRunQueue "client_run_queue" "Time that the client's workers waited for a core.";
        ClientLateness "client_lateness" "Lateness p99.";
        ClientOffered "client_offered" "What the client could not offer.";
        ClientOther "client_other" "Whatever else limits the client.";
        ReplicaRatio "replica_ratio" "Times of one endpoint over the others'.";
        ReplicaShare "replica_share" "Share of the requests that it served.";
        EventsAtOnce "events_at_once" "Content events that come at one moment.";
        SlowShare "slow_share" "Share of the requests that are slow for their lengths.";
        TokensOverClient "tokens_over_client" "Output tokens that the server counts, over those that the client received.";
        SlowRatio "slow_ratio" "Their time over that of the quick quarter.";
        SlowFromTokens "slow_from_tokens" "Prompt tokens from which on nearly all requests are slow.";
        SlowReplaced "slow_replaced" "Share of the slow requests whose connection the server had closed.";
        SlowAfterIdle "slow_after_idle" "How long nothing was in progress, from which on the next request is slow.";
        LateShare "late_share" "Share of the requests whose first token is late.";
        SlowBeforeFirst "slow_before_first" "Share of what they take longer that lies before the first token.";
        PauseShare "pause_share" "Share of the users' time in gaps of four times the usual and more.";
        PausePrompts "pause_prompts" "Share of those gaps in which somebody else's prompt was processed.";
        Stalls "stalls" "Stalls of all streams.";
        StallPeriod "stall_period" "Time between two of them.";
        StallLength "stall_length" "Length of one.";
        At "at" "When it happened, after the cell's first request.";
        Lasted "lasted" "How long it lasted.";
        Changes "changes" "How often the level rose or fell.";
        LevelBefore "level_before" "Level before.";
        LevelAfter "level_after" "Level after.";
        Requests "requests" "Requests that are part of it.";
        Failed "failed" "Requests that failed so.";
        FailedShare "failed_share" "Their share of the planned.";
        Status "status" "HTTP status.";
        NewShare "new_share" "Share of the requests that opened a connection.";
        ConnectTime "connect_time" "Mean time to open one.";
        ReplacedShare "replaced_share" "Kept connections that were found closed by the server, over the number of requests.";
        KvCachePeak "kv_cache_peak" "Peak use of the KV cache.";
        Preemptions "preemptions" "Preempted requests.";
        CachedShare "cached_share" "Share of prompt tokens found in the prefix cache.";
        CachedTtft "cached_ttft" "TTFT of requests whose beginning was known.";
        GpuUse "gpu_use" "Mean use of the GPU.";
        GpuUsePeak "gpu_use_peak" "Peak use of the GPU.";
        GpuMemoryPeak "gpu_memory_peak" "Peak use of the GPU's memory.";
        GpuHeldBack "gpu_held_back" "Share of time that a GPU was held back.";
        LoadAdded "load_added" "Load added by the last step.";
        ThroughputGained "throughput_gained" "Throughput gained by the last step.";
        Level "level" "A level of the load factor.";
        HighestLevel "highest_level" "The highest level that was measured.";
        LimitLevel "limit_level" "Level beyond which throughput stopped rising.";
        MissedLevel "missed_level" "The lowest level at which an objective is missed.";
        UndecidedLevel "undecided_level" "The lowest level at which nobody can tell whether all objectives hold.";
        UndecidedBelow "undecided_below" "A lower level than one that holds, at which nobody can tell.";
        Throughput "throughput" "Throughput, tokens or requests per second.";
        ScalingFactor "scaling_factor" "Throughput over the baseline's.";
        Efficiency "efficiency" "Scaling factor over added load or devices.";
        LatencyPenalty "latency_penalty" "Growth of E2E over the baseline.";
        RequestRate "request_rate" "Requests per second.";
        E2eMean "e2e_mean" "Mean E2E.";
        E2eP50 "e2e_p50" "Median E2E.";
        E2eP95 "e2e_p95" "P95 of E2E.";
        TailRatio "tail_ratio" "P95 over P50 of E2E.";
        Cov "cov" "Coefficient of variation.";
        LengthCov "length_cov" "CoV of output lengths.";
        TimePerOutputToken "time_per_output_token" "E2E for each output token.";
        FewestTokens "fewest_tokens" "Fewest tokens that were measured.";
        MostTokens "most_tokens" "Most tokens that were measured.";
        RSquared "r_squared" "Share of variance that a line explains.";
        LogSlope "log_slope" "Log–log slope.";
        LongestWithin "longest_within" "Longest answer whose fitted E2E is within the limit.";
        Limit "limit" "A limit.";
        Measured "measured" "What was measured against a limit.";
        Low "low" "Lower end of an interval.";
        High "high" "Upper end of an interval.";
        TimesAsMany "times_as_many" "How many times as many requests would decide.";
        Attainment "attainment" "Share of the requests that met an objective.";
        Vacuous "vacuous" "Requests that met an objective only because they have no such value.";
        IdentityResidual "identity_residual" "E2E less TTFT and the tokens' gaps, over E2E.";
        Completed "completed" "How often an answer was whole.";
        RequestsPerDay "requests_per_day" "Requests a day.";
        TokensPerChunk "tokens_per_chunk" "Tokens per content event.";
        ServerTtft "server_ttft" "TTFT by the server's own count.";
        ScheduledTtft "scheduled_ttft" "Queue time and prefill by the server's own count.";
    }
}

/// Another cause that could have looked like this one, and the number that speaks against it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct RuledOut {
    /// The cause that it is not.
    pub cause: Cause,
    /// Why.
    pub by: Evidence,
}

/// Something to try.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Advice {
    /// What to do.
    pub action: Action,
    /// The parameter of the server that was recognised, as its flag or key is written; absent where it has none or is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameter: Option<String>,
}

names! {
    /// What a person can do.
    Action {
        RunMoreAtOnce "run_more_at_once" "Let more requests run at once.";
        RunFewerAtOnce "run_fewer_at_once" "Let fewer requests run at once.";
        LowerLoadOrAddReplicas "lower_load_or_add_replicas" "Offer less, or add replicas.";
        ChunkPrefill "chunk_prefill" "Process long prompts in pieces.";
        SmallerPrefillSteps "smaller_prefill_steps" "Make a step's pieces smaller.";
        LargerPrefillSteps "larger_prefill_steps" "Give prompts more room in a step.";
        CachePrefixes "cache_prefixes" "Keep known beginnings.";
        MoreCacheMemory "more_cache_memory" "Give the cache more memory.";
        SmallerCacheFormat "smaller_cache_format" "Store the cache in a smaller format.";
        ShorterContext "shorter_context" "Limit the length of a sequence.";
        MoreDevicesPerModel "more_devices_per_model" "Spread the model over more devices.";
        GiveServerCores "give_server_cores" "Give the server cores.";
        LiftQuota "lift_quota" "Lift the quota.";
        QuietHost "quiet_host" "Stop what else runs there.";
        GiveClientCores "give_client_cores" "Give the client cores or a machine of its own.";
        LookAtReplica "look_at_replica" "Look at that endpoint.";
        CompareSlowRequests "compare_slow_requests" "Look for what the slow requests have in common.";
        LookForPeriodicJob "look_for_periodic_job" "Look for a job of that period.";
        LookAtServerLog "look_at_server_log" "Look into the server's log at that time.";
        WarmUp "warm_up" "Warm the server up before measuring.";
        MeasureLonger "measure_longer" "Measure for longer.";
        KeepConnections "keep_connections" "Let connections stay open between requests.";
        StayBelowLimit "stay_below_limit" "Stay below the limit, or have it raised.";
        ReadServerMetrics "read_server_metrics" "Read the server's metrics.";
        MeasureAlone "measure_alone" "Measure the same prompts alone.";
        OfferMore "offer_more" "Offer more.";
        AddGpus "add_gpus" "Add GPUs.";
        CoolGpu "cool_gpu" "Cool the GPU, or raise its power limit.";
        SeparateLongPrompts "separate_long_prompts" "Serve long prompts elsewhere.";
        LookInBetween "look_in_between" "Look at what stands between the server and the client.";
    }
}

names! {
    /// A measurement that would refute a finding.
    Experiment {
        LowerRate "lower_rate" "The same for longer at a lower rate.";
        HigherLimit "higher_limit" "The server's waiting and running counts with a higher limit.";
        OneAtATime "one_at_a_time" "The same prompts one at a time.";
        BesideTheServer "beside_the_server" "The same from beside the server, without what is in between.";
        WithServerMetrics "with_server_metrics" "The same with the server's metrics.";
        WithoutLongPrompts "without_long_prompts" "The same without the long prompts.";
        LowerConcurrency "lower_concurrency" "A lower concurrency.";
        ServerOnOwnCores "server_on_own_cores" "The same with cores of its own for the server.";
        TwoClients "two_clients" "The same from two clients.";
        ReplicaAlone "replica_alone" "That endpoint alone.";
        Longer "longer" "The same for longer.";
        LongerWarmUp "longer_warm_up" "The same with a longer warm-up.";
        KeptConnections "kept_connections" "The same over connections that stay open.";
        BelowTheLimit "below_the_limit" "The same below the limit.";
        AgainWithLog "again_with_log" "The same again, with the server's log.";
        HalfConcurrency "half_concurrency" "Half the concurrency: pressure goes away.";
        ColdCache "cold_cache" "The same with a cold cache.";
        TwiceTheLoad "twice_the_load" "Twice the load.";
        FixedClock "fixed_clock" "A fixed clock.";
        MoreLevels "more_levels" "More levels.";
        MoreRequests "more_requests" "The objective with more requests.";
    }
}
