//! The causes that a finding can name.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! causes {
    ($($(#[$doc:meta])* $variant:ident $name:literal;)*) => {
        /// Why users wait, or why there is nothing to report. `docs/insight.md` says how each is decided and what rules it out.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
        pub enum Cause {
            $($(#[$doc])* #[serde(rename = $name)] $variant,)*
        }

        impl Cause {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// Its stable name, as in the JSON.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $name),* }
            }
        }
    };
}

causes! {
    /// An open loop offers more than is served: requests in flight grow over the window.
    Overload "overload";
    /// Requests wait in the server before they are taken up.
    Queueing "queueing";
    /// Prompts take long to process, waiting excluded.
    Prefill "prefill";
    /// The time to the first token is long, and nothing tells waiting from prefill.
    WaitingOrPrefill "waiting_or_prefill";
    /// First tokens reach the client much later than the server says it made them: something in between holds them.
    HeldBack "held_back";
    /// Time between tokens grows with the requests in flight.
    DecodeSlowsWithLoad "decode_slows_with_load";
    /// Short requests are slower while a long prompt is processed.
    HeadOfLine "head_of_line";
    /// The server is kept from its CPU: by a quota, by other programs, by the hypervisor.
    ServerStarved "server_starved";
    /// The client limits what is measured.
    ClientLimited "client_limited";
    /// One endpoint is slower than the others for the same work.
    SlowReplica "slow_replica";
    /// All streams stop together, again and again.
    PeriodicStall "periodic_stall";
    /// All streams stop together, once or twice.
    Frozen "frozen";
    /// Slower at first, then steady.
    ColdStart "cold_start";
    /// The level moves in one direction over the window.
    Drift "drift";
    /// The level changes at one moment and stays.
    Step "step";
    /// The server refuses work by its own limit (429).
    RateLimited "rate_limited";
    /// Requests fail while the server is there.
    Failing "failing";
    /// The server could not be reached for a while, or any more.
    ServerGone "server_gone";
    /// KV cache or memory is full, and requests wait or are preempted because of it.
    MemoryPressure "memory_pressure";
    /// Prompts whose beginnings the server knew already were quicker.
    PrefixCache "prefix_cache";
    /// The GPU has capacity left while throughput no longer rises.
    GpuLow "gpu_low";
    /// The GPU has none left, and throughput no longer rises.
    GpuSaturated "gpu_saturated";
    /// The GPU is held back by heat or power.
    GpuThrottled "gpu_throttled";
    /// Some requests take much longer than others of their lengths, and nothing that was measured tells why.
    SlowRequests "slow_requests";
    /// Prompts of others interrupt the answers that are under way.
    DecodeInterrupted "decode_interrupted";
    /// Answers pause, and nothing that was measured tells why.
    Pauses "pauses";
    /// Nothing was found that costs users time.
    Healthy "healthy";
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
