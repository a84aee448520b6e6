//! A statement about the measured system as data: what was found, on which numbers, what was ruled out, what to try. The words are
//! made in the reports.

use serde::{Deserialize, Serialize};

use crate::{Cause, Unit};

/// Something that the numbers say. A cause is a hypothesis, and is worded as one.
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
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refute: Option<Experiment>,
    /// The sentence of a file written before 1.3, or of a statement whose words depend on more than its numbers.
    #[serde(default, alias = "claim", skip_serializing_if = "Option::is_none")]
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

macro_rules! names {
    ($(#[$top:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident $key:literal;)* }) => {
        $(#[$top])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
        pub enum $name {
            $($(#[$doc])* #[serde(rename = $key)] $variant,)*
        }

        impl $name {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// Its stable name, as in the JSON.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $key),* }
            }
        }
    };
}

names! {
    /// Answers to what was asked: objectives, scenarios, capacity.
    Answer {
        /// An objective fails.
        SloMissed "slo_missed";
        /// Objectives hold.
        SloMet "slo_met";
        /// The data cannot decide an objective.
        SloUndecided "slo_undecided";
        /// Up to which load all objectives hold.
        SloCapacity "slo_capacity";
        /// A scenario can be served.
        ScenarioMet "scenario_met";
        /// A scenario cannot be served.
        ScenarioMissed "scenario_missed";
        /// The data cannot decide a scenario.
        ScenarioUndecided "scenario_undecided";
        /// What the best cell comes to.
        Capacity "capacity";
        /// A figure of a plan: users, replicas, cost, energy.
        Planning "planning";
    }
}

names! {
    /// What was measured and is no fault.
    Fact {
        /// E2E over output length.
        OutputLength "output_length";
        /// E2E and prefill over prompt length.
        PromptLength "prompt_length";
        /// Throughput over load or devices.
        Scaling "scaling";
        /// TTFT and ITL over load.
        LoadEffects "load_effects";
        /// Shares of E2E.
        PhaseSplit "phase_split";
        /// Use of the GPU and its memory.
        GpuUse "gpu_use";
        /// Use of the CPUs.
        CpuUse "cpu_use";
        /// The level of a sweep at which the GPU is well used.
        OperatingPoint "operating_point";
        /// Workloads or models beside each other.
        WorkloadsDiffer "workloads_differ";
        /// P95 over P50.
        Tail "tail";
        /// How far equal requests differ.
        Consistency "consistency";
        /// Every request got a whole answer.
        AllAnswered "all_answered";
        /// A chunk is not a token.
        TokensPerChunk "tokens_per_chunk";
        /// Client and server tell different times.
        ServerDisagrees "server_disagrees";
        /// Repeats of one cell differ.
        RepeatsDiffer "repeats_differ";
    }
}

/// One number behind a finding.
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
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cell: Option<String>,
    /// What it is of, where there are several: an endpoint, a level, a percentile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
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
        /// Requests per second that the schedule offered.
        OfferedRate "offered_rate";
        /// Requests per second that were answered while it offered.
        ServedRate "served_rate";
        /// Growth of the requests in flight while load was offered.
        InFlightGrowth "in_flight_growth";
        /// The same over its error.
        InFlightGrowthOverError "in_flight_growth_over_error";
        /// Share of E2E.
        QueueShare "queue_share";
        /// Share of E2E.
        PrefillShare "prefill_share";
        /// Share of E2E.
        DecodeShare "decode_share";
        /// Share of E2E until the first token.
        TtftShare "ttft_share";
        /// Mean time in the queue.
        QueueTime "queue_time";
        /// Median time in the queue.
        QueueTimeP50 "queue_time_p50";
        /// Median time from the queue to the end.
        GenerationTimeP50 "generation_time_p50";
        /// Mean of requests waiting in the server.
        Waiting "waiting";
        /// Mean of requests running in the server.
        Running "running";
        /// Requests in flight, mean.
        InFlight "in_flight";
        /// TTFT of this cell.
        Ttft "ttft";
        /// TTFT without load, of as long prompts.
        QuietTtft "quiet_ttft";
        /// TTFT for each prompt token.
        TtftPerToken "ttft_per_token";
        /// Share of TTFT that the prompt's length explains.
        TtftByLength "ttft_by_length";
        /// Mean prompt tokens.
        PromptTokens "prompt_tokens";
        /// Time per token now.
        Tpot "tpot";
        /// Time per token at the lowest load.
        QuietTpot "quiet_tpot";
        /// Median gap between tokens.
        Itl "itl";
        /// Ratio of two times.
        SlowDown "slow_down";
        /// TTFT of short requests beside a long prompt, over that of the others.
        BesideLong "beside_long";
        /// Long prompts that were seen.
        LongPrompts "long_prompts";
        /// Seconds that the server's threads waited for a CPU, each second.
        ServerRunQueue "server_run_queue";
        /// Share of time that a quota held the server back.
        ServerThrottled "server_throttled";
        /// Share of CPU time that the hypervisor took.
        HostSteal "host_steal";
        /// Share of time that tasks waited for a CPU.
        CpuPressure "cpu_pressure";
        /// Use of the host's CPUs.
        HostCpu "host_cpu";
        /// Peak use of the host's CPUs.
        HostCpuPeak "host_cpu_peak";
        /// Cores that the server used.
        ServerCores "server_cores";
        /// Cores that the client used.
        ClientCores "client_cores";
        /// The busiest worker's use of its core.
        ClientCpu "client_cpu";
        /// Time that the client's workers waited for a core.
        ClientRunQueue "client_run_queue";
        /// Lateness p99.
        ClientLateness "client_lateness";
        /// What the client could not offer.
        ClientOffered "client_offered";
        /// Whatever else limits the client.
        ClientOther "client_other";
        /// Times of one endpoint over the others'.
        ReplicaRatio "replica_ratio";
        /// Share of the requests that it served.
        ReplicaShare "replica_share";
        /// Share of the requests that are slow for their lengths.
        SlowShare "slow_share";
        /// Their time over that of the quick quarter.
        SlowRatio "slow_ratio";
        /// Share of what they take longer that lies before the first token.
        SlowBeforeFirst "slow_before_first";
        /// Share of the users' time in gaps of four times the usual and more.
        PauseShare "pause_share";
        /// Share of those gaps in which somebody else's prompt was processed.
        PausePrompts "pause_prompts";
        /// Stalls of all streams.
        Stalls "stalls";
        /// Time between two of them.
        StallPeriod "stall_period";
        /// Length of one.
        StallLength "stall_length";
        /// When it happened, after the cell's first request.
        At "at";
        /// How long it lasted.
        Lasted "lasted";
        /// How often the level changed.
        Changes "changes";
        /// Level before.
        LevelBefore "level_before";
        /// Level after.
        LevelAfter "level_after";
        /// Requests that are part of it.
        Requests "requests";
        /// Requests that failed so.
        Failed "failed";
        /// Their share of the planned.
        FailedShare "failed_share";
        /// HTTP status.
        Status "status";
        /// Peak use of the KV cache.
        KvCachePeak "kv_cache_peak";
        /// Preempted requests.
        Preemptions "preemptions";
        /// Share of prompt tokens found in the prefix cache.
        CachedShare "cached_share";
        /// TTFT of requests whose beginning was known.
        CachedTtft "cached_ttft";
        /// Mean use of the GPU.
        GpuUse "gpu_use";
        /// Peak use of the GPU.
        GpuUsePeak "gpu_use_peak";
        /// Peak use of the GPU's memory.
        GpuMemoryPeak "gpu_memory_peak";
        /// Share of time that a GPU was held back.
        GpuHeldBack "gpu_held_back";
        /// Load added by the last step.
        LoadAdded "load_added";
        /// Throughput gained by the last step.
        ThroughputGained "throughput_gained";
        /// A level of the load factor.
        Level "level";
        /// The highest level that was measured.
        HighestLevel "highest_level";
        /// Level beyond which throughput stopped rising.
        LimitLevel "limit_level";
        /// The lowest level at which an objective is missed.
        MissedLevel "missed_level";
        /// The lowest level at which nobody can tell whether all objectives hold.
        UndecidedLevel "undecided_level";
        /// Throughput, tokens or requests per second.
        Throughput "throughput";
        /// Throughput over the baseline's.
        ScalingFactor "scaling_factor";
        /// Scaling factor over added load or devices.
        Efficiency "efficiency";
        /// Growth of E2E over the baseline.
        LatencyPenalty "latency_penalty";
        /// Requests per second.
        RequestRate "request_rate";
        /// Mean E2E.
        E2eMean "e2e_mean";
        /// Median E2E.
        E2eP50 "e2e_p50";
        /// P95 of E2E.
        E2eP95 "e2e_p95";
        /// P95 over P50 of E2E.
        TailRatio "tail_ratio";
        /// Coefficient of variation.
        Cov "cov";
        /// CoV of output lengths.
        LengthCov "length_cov";
        /// E2E for each output token.
        TimePerOutputToken "time_per_output_token";
        /// Fewest tokens that were measured.
        FewestTokens "fewest_tokens";
        /// Most tokens that were measured.
        MostTokens "most_tokens";
        /// Share of variance that a line explains.
        RSquared "r_squared";
        /// Log–log slope.
        LogSlope "log_slope";
        /// Longest answer whose fitted E2E is within the limit.
        LongestWithin "longest_within";
        /// A limit.
        Limit "limit";
        /// What was measured against a limit.
        Measured "measured";
        /// Lower end of an interval.
        Low "low";
        /// Upper end of an interval.
        High "high";
        /// How many times as many requests would decide.
        TimesAsMany "times_as_many";
        /// Share of the requests that met an objective.
        Attainment "attainment";
        /// E2E less TTFT and the tokens' gaps, over E2E.
        IdentityResidual "identity_residual";
        /// How often an answer was whole.
        Completed "completed";
        /// Requests a day.
        RequestsPerDay "requests_per_day";
        /// Tokens per content event.
        TokensPerChunk "tokens_per_chunk";
        /// TTFT by the server's own count.
        ServerTtft "server_ttft";
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
        /// Let more requests run at once.
        RunMoreAtOnce "run_more_at_once";
        /// Let fewer requests run at once.
        RunFewerAtOnce "run_fewer_at_once";
        /// Offer less, or add replicas.
        LowerLoadOrAddReplicas "lower_load_or_add_replicas";
        /// Process long prompts in pieces.
        ChunkPrefill "chunk_prefill";
        /// Make a step's pieces smaller.
        SmallerPrefillSteps "smaller_prefill_steps";
        /// Give prompts more room in a step.
        LargerPrefillSteps "larger_prefill_steps";
        /// Keep known beginnings.
        CachePrefixes "cache_prefixes";
        /// Give the cache more memory.
        MoreCacheMemory "more_cache_memory";
        /// Store the cache in a smaller format.
        SmallerCacheFormat "smaller_cache_format";
        /// Limit the length of a sequence.
        ShorterContext "shorter_context";
        /// Spread the model over more devices.
        MoreDevicesPerModel "more_devices_per_model";
        /// Give the server cores.
        GiveServerCores "give_server_cores";
        /// Lift the quota.
        LiftQuota "lift_quota";
        /// Stop what else runs there.
        QuietHost "quiet_host";
        /// Give the client cores or a machine of its own.
        GiveClientCores "give_client_cores";
        /// Look at that endpoint.
        LookAtReplica "look_at_replica";
        /// Look for what the slow requests have in common.
        CompareSlowRequests "compare_slow_requests";
        /// Look for a job of that period.
        LookForPeriodicJob "look_for_periodic_job";
        /// Look into the server's log at that time.
        LookAtServerLog "look_at_server_log";
        /// Warm the server up before measuring.
        WarmUp "warm_up";
        /// Measure for longer.
        MeasureLonger "measure_longer";
        /// Stay below the limit, or have it raised.
        StayBelowLimit "stay_below_limit";
        /// Read the server's metrics.
        ReadServerMetrics "read_server_metrics";
        /// Measure the same prompts alone.
        MeasureAlone "measure_alone";
        /// Offer more.
        OfferMore "offer_more";
        /// Add GPUs.
        AddGpus "add_gpus";
        /// Cool the GPU, or raise its power limit.
        CoolGpu "cool_gpu";
        /// Serve long prompts elsewhere.
        SeparateLongPrompts "separate_long_prompts";
        /// Look at what stands between the server and the client.
        LookInBetween "look_in_between";
    }
}

names! {
    /// A measurement that would refute a finding.
    Experiment {
        /// The same for longer at a lower rate.
        LowerRate "lower_rate";
        /// The server's waiting and running counts with a higher limit.
        HigherLimit "higher_limit";
        /// The same prompts one at a time.
        OneAtATime "one_at_a_time";
        /// The same from beside the server, without what is in between.
        BesideTheServer "beside_the_server";
        /// The same with the server's metrics.
        WithServerMetrics "with_server_metrics";
        /// The same without the long prompts.
        WithoutLongPrompts "without_long_prompts";
        /// A lower concurrency.
        LowerConcurrency "lower_concurrency";
        /// The same with cores of its own for the server.
        ServerOnOwnCores "server_on_own_cores";
        /// The same from two clients.
        TwoClients "two_clients";
        /// That endpoint alone.
        ReplicaAlone "replica_alone";
        /// The same for longer.
        Longer "longer";
        /// The same with a longer warm-up.
        LongerWarmUp "longer_warm_up";
        /// The same below the limit.
        BelowTheLimit "below_the_limit";
        /// The same again, with the server's log.
        AgainWithLog "again_with_log";
        /// Half the concurrency: pressure goes away.
        HalfConcurrency "half_concurrency";
        /// The same with a cold cache.
        ColdCache "cold_cache";
        /// Twice the load.
        TwiceTheLoad "twice_the_load";
        /// A fixed clock.
        FixedClock "fixed_clock";
        /// More levels.
        MoreLevels "more_levels";
        /// The objective with more requests.
        MoreRequests "more_requests";
    }
}
