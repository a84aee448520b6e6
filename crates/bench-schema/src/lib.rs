//! The nouns of a benchmark run, and the one versioned format they are stored in.
//!
//! Everything else in the workspace speaks in these types: the client fills an [`Exchange`], the runner makes a
//! [`RequestRecord`] of it, `bench-metrics` turns records into a [`CellRecord`], `bench-insight` adds [`Finding`]s, and a
//! [`RunRecord`] holds it all. Only serde, thiserror and signal-hook live below this crate.
//!
//! Three rules hold everywhere: time is integer nanoseconds on the run's monotonic clock ([`Stamp`], [`Nanos`]); what is not
//! known is absent (`Option`, an empty list), never 0, −1 or NaN; a name has the meaning that `docs/metrics.md` gives it.

/// Enums of names: each a word in the JSON and a sentence of documentation, once.
macro_rules! names {
    ($(#[$top:meta])* $name:ident { $($(#[$own:meta])* $variant:ident $key:literal $doc:literal;)* }) => {
        $(#[$top])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        #[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
        pub enum $name {
            $(#[doc = $doc] $(#[$own])* #[serde(rename = $key)] $variant,)*
        }

        impl $name {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// Its stable name, as in the JSON.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $key),* }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

mod cell;
mod entries;
mod event_log;
mod exchange;
mod files;
mod finding;
mod generation;
mod hardware;
mod load;
mod metric;
mod record;
mod run;
mod slo;
mod stored;
mod text;
mod trust;
mod units;

pub use cell::{
    CellAnalysis, CellRecord, ClientRecord, CountOf, Counts, GroupRecord, LagRecord, PhaseShares,
    PlanRecord, PrecisionOutcome, Rates, StampRecord, Stationarity, Window, WindowRates, rate_unit,
};
pub use entries::{BadLine, Entries, Entry, Problem, Seen};
pub use event_log::{Channel, Event, EventLog};
pub use exchange::{
    ConnectionFacts, Exchange, FailureKind, Outcome, ServerTimings, Stage, TokenSource, Usage,
};
pub use files::{
    BEGIN_FILE, CELLS_FILE, CellProgress, InUse, JOURNAL_FILE, JournalFile, JournalPart, Line,
    Lines, MOST_RUN_BYTES, NewFile, PartMeter, UnreadablePart, hold_folder, open_file, read_file,
    read_within, replace_file, sync_folder,
};
pub use files::{outlive_file_limits, print_result};
pub use finding::{
    Action, Advice, Answer, Cause, Code, Evidence, Experiment, Fact, Figure, Finding, Known,
    RuledOut,
};
pub use generation::{GenerationRequest, Message, Prompt, PromptSize, Role, Sampling, Secret};
pub use hardware::{
    HardwareSummary, Quantity, Reading, ReadingSource, ResourceSummary, SeriesKey,
    histogram_bucket, is_counter,
};
pub use load::{ArrivalKind, ConcurrencyRamp, Factor, Load, PlanHash, StopRule};
pub use metric::{Direction, Distribution, FailureView, Interval, Metric, Origin, Quantile, Unit};
pub use record::{Phase, RequestRecord};
pub use run::{
    Analysis, Benchmark, CapacityRecord, ClockExchange, ClockKind, ClockRecord, FitRecord,
    HostRecord, KEYS_OF_EACH_SHARD, ObjectiveCapacity, RunRecord, SCHEMA_MAJOR, SCHEMA_MINOR,
    SCHEMA_NAME, ScalingRow, Schema, SchemaError, SearchEnd, ServerRecord, ToolRecord,
    check_digest, with_digest,
};
pub use slo::{Goodput, Share, Slo, SloOutcome, SloVerdict, TargetOutcome};
#[cfg(feature = "json-schema")]
pub use stored::json_schemas;
pub use stored::{as_stored, to_json};
pub use text::{is_hidden, no_formula, printable_json};
pub use trust::{Trust, TrustReason, TrustVerdict};
pub use units::{Nanos, Stamp, counted, index, whole};
