//! What a plan is made from.

use std::sync::Arc;

use bench_schema::{ArrivalKind, Load, Nanos, Phase, Sampling};

use crate::dataset::{DatasetSpec, FileFormat};
use crate::{JointSpec, LengthSpec, Seed, WorkloadError};

/// Everything that decides what is asked and when.
///
/// Plain data; start from [`PlanSpec::default`], a closed loop of one over the mixed workload.
#[derive(Clone, Debug, PartialEq)]
pub struct PlanSpec {
    /// Where prompts come from.
    pub dataset: DatasetSpec,
    /// Prompt lengths; absent leaves them to the dataset (550 where it has none).
    pub input: Option<LengthSpec>,
    /// Answer lengths; absent leaves them to the dataset (128 where it has none).
    pub output: Option<LengthSpec>,
    /// Both together, instead of `input` and `output`.
    pub joint: Option<JointSpec>,
    /// How load is offered. Only an open loop has due times.
    pub load: Load,
    /// Most requests, over all shards.
    pub requests: Option<u64>,
    /// Conversations that are part of the plan whole, however few requests are asked for: one for each slot that is to be warmed up. A
    /// request without turns is one.
    pub fewest_units: u64,
    /// In an open loop, requests due at or after this are not part of the plan. A closed loop is ended by whoever runs it.
    pub duration: Option<Nanos>,
    /// The run's seed.
    pub seed: Seed,
    /// The cell's id. Prompts differ between cells; lengths, use cases and the randomness of arrivals do not, so that the
    /// cells of a sweep differ in nothing but what is swept.
    pub cell: String,
    /// Warm-up and measurement share nothing.
    pub phase: Phase,
    /// Repeats of a cell share nothing.
    pub repeat: u32,
    /// Which part of the plan is iterated.
    pub shard: Shard,
    /// What goes into every request.
    pub options: RequestOptions,
    /// Whether the requests are chats.
    pub chat: bool,
    /// Whether prompts are made unique.
    pub salt: Salt,
    /// Plans that differ in nothing else have the same lengths, use cases and due times, and other words and salts: for two sides
    /// that may be one server, whose prefix cache must not know the one's prompts from the other's.
    pub wording: u32,
    /// Whether lengths, use cases and arrivals are drawn for this cell alone. Cells that are compared share theirs; stages whose errors are pooled must not.
    pub own_draws: bool,
    /// What to do at a bad line of a file.
    pub on_bad_line: OnBadLine,
    /// Whether a file is read again from its start when it ends; without it the plan ends there.
    pub cycle: bool,
    /// What the server adds to a prompt.
    pub calibration: Calibration,
}

/// One of a number of parts of a plan, of a closed loop by its slots: with fewer of those than parts, some have nothing. Conversations stay whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// Which, from 0.
    pub index: u64,
    /// Of how many.
    pub count: u64,
}

/// What goes into every request, beside its prompt.
#[derive(Clone, Debug, PartialEq)]
pub struct RequestOptions {
    /// Sampling parameters; a dataset's own win.
    pub sampling: Sampling,
    /// Go on past end tokens, so that answers have the asked length.
    pub ignore_eos: bool,
    /// Fewest output tokens.
    pub min_tokens: Option<u32>,
    /// Stream the answer.
    pub stream: bool,
    /// Keys merged into the body last.
    pub extra_body: Option<Arc<serde_json::Map<String, serde_json::Value>>>,
}

/// Whether prompts are made unique, so that a server's prefix cache cannot help by accident.
///
/// A salt is one random word at the very start of a prompt; it differs by seed, cell, phase, repeat and request. Random
/// words and ids need none: they are different anyway.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Salt {
    /// Every prompt, but those of `study:gpt2`, which are meant to be the same, token ids that a file gives, and messages of a
    /// batch file that are more than text.
    #[default]
    Auto,
    /// None: prompts are as they stand in the dataset, and repeat when it does.
    Never,
}

/// What to do at a line that is not what the format says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnBadLine {
    /// Stop with an error that names the line.
    #[default]
    Stop,
    /// Go on with the next line; [`crate::PlanIter::skipped_lines`] counts them.
    Skip,
}

/// Tokens that the server adds to every prompt: chat template, system text, begin-of-sequence.
///
/// Asked lengths are those that the server should count: the text is made this much shorter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Calibration {
    /// How many.
    pub overhead_tokens: u64,
}

impl Calibration {
    /// From one request: the text had `sent_tokens`, and the server counted `served_tokens`.
    ///
    /// `None` where the server counted fewer than were sent: its tokenizer is not the one that sized the text.
    pub fn learn(sent_tokens: u64, served_tokens: u64) -> Option<Self> {
        let overhead_tokens = served_tokens.checked_sub(sent_tokens)?;
        Some(Self { overhead_tokens })
    }
}

impl Shard {
    /// The whole plan.
    pub const WHOLE: Self = Self { index: 0, count: 1 };

    /// Whether it is this one's turn.
    pub(crate) fn has(self, turn: u64) -> bool {
        turn.checked_rem(self.count) == Some(self.index)
    }

    pub(crate) fn check(self) -> Result<(), WorkloadError> {
        if self.index < self.count {
            return Ok(());
        }
        Err(WorkloadError::Conflict {
            what: format!("shard {} of {} does not exist", self.index, self.count),
            next: "shard numbers start at 0 and must be below the number of shards",
        })
    }
}

impl Default for Shard {
    fn default() -> Self {
        Self::WHOLE
    }
}

impl Default for RequestOptions {
    fn default() -> Self {
        Self {
            sampling: Sampling::default(),
            ignore_eos: false,
            min_tokens: None,
            stream: true,
            extra_body: None,
        }
    }
}

impl Default for PlanSpec {
    fn default() -> Self {
        Self {
            dataset: DatasetSpec::Mixed,
            input: None,
            output: None,
            joint: None,
            load: Load::closed(1),
            requests: None,
            fewest_units: 0,
            duration: None,
            seed: Seed::default(),
            cell: String::new(),
            phase: Phase::Measure,
            repeat: 0,
            shard: Shard::WHOLE,
            options: RequestOptions::default(),
            chat: true,
            salt: Salt::Auto,
            wording: 0,
            own_draws: false,
            on_bad_line: OnBadLine::Stop,
            cycle: true,
            calibration: Calibration::default(),
        }
    }
}

impl PlanSpec {
    /// The number by which shards take turns at a unit: in a closed loop that of the slot which would have it if all were as quick, so that shards whose parts of the
    /// slots are not equal are done at the same time.
    pub(crate) fn dealt(&self, unit: u64) -> u64 {
        match self.load {
            Load::Closed { concurrency, .. } => unit % u64::from(concurrency.max(1)),
            Load::Open { .. } => unit,
        }
    }

    /// What the streams of lengths, use cases and arrivals are keyed by: not the cell, unless it has draws of its own.
    pub(crate) fn shape_key(&self) -> String {
        let own = if self.own_draws { &self.cell } else { "" };
        format!("{own}{}/{}", self.phase, self.repeat)
    }

    /// What the streams of prompts are keyed by.
    pub(crate) fn text_key(&self) -> String {
        let wording = match self.wording {
            0 => String::new(),
            other => format!("/wording {other}"),
        };
        format!("{}/{}{wording}", self.cell, self.shape_key())
    }

    /// Speed of a replay, where due times come from the dataset.
    pub(crate) fn replay_speed(&self) -> Option<f64> {
        match &self.load {
            Load::Open {
                arrival: ArrivalKind::Trace { speed },
                ..
            } => Some(*speed),
            _ => None,
        }
    }

    /// Joint lengths, of the plan or of its dataset.
    pub(crate) fn joint_lengths(&self) -> Option<&JointSpec> {
        self.dataset.joint_lengths().or(self.joint.as_ref())
    }

    /// Lengths that would be passed over in silence are refused.
    fn check_lengths(&self) -> Result<(), WorkloadError> {
        let joint = self.joint_lengths().is_some();
        let input = self.input.is_some() || joint;
        let sized = self.dataset.joint_lengths().is_some();
        let both = sized && self.joint.is_some();
        if both || joint && (self.input.is_some() || self.output.is_some()) {
            return Err(WorkloadError::Conflict {
                what: "joint lengths cannot be combined with other lengths".to_owned(),
                next: "use one or the other",
            });
        }
        let whole_chats = matches!(
            self.dataset,
            DatasetSpec::File {
                format: FileFormat::ShareGptTurns | FileFormat::OpenAiBatch,
                ..
            }
        );
        let own = match &self.dataset {
            DatasetSpec::Spread(_) => input || self.output.is_some(),
            DatasetSpec::MultiTurn { .. } => input,
            _ => whole_chats && input,
        };
        if own {
            return Err(WorkloadError::Conflict {
                what: format!("`{}` sets these lengths itself", self.dataset),
                next: "remove them, or use another dataset (random, text)",
            });
        }
        Ok(())
    }

    /// Whether what it asks for goes together, as far as it tells without its files.
    ///
    /// # Errors
    /// [`WorkloadError::Conflict`] with the first thing that does not.
    pub fn check(&self) -> Result<(), WorkloadError> {
        let conflict = |what: &str, next| WorkloadError::Conflict {
            what: what.to_owned(),
            next,
        };
        self.shard.check()?;
        self.check_lengths()?;
        if self.requests == Some(0) {
            return Err(conflict("0 requests", "use at least 1, or a duration"));
        }
        if matches!(self.dataset, DatasetSpec::RandomIds { .. }) && self.chat {
            return Err(conflict(
                "token ids cannot be sent to a chat API",
                "use a completions API (--api openai-completions) or --dataset random",
            ));
        }
        if let Some(speed) = self.replay_speed() {
            if speed.is_nan() || speed <= 0.0 {
                return Err(conflict(
                    "the trace speed is not valid",
                    "use a speed above 0",
                ));
            }
            if !self.dataset.has_times() {
                return Err(conflict(
                    "trace arrivals need a dataset with timestamps",
                    "use --dataset trace:FILE, or another arrival process",
                ));
            }
        }
        Ok(())
    }
}

impl DatasetSpec {
    /// Whether its requests carry times, which [`ArrivalKind::Trace`] needs.
    pub fn has_times(&self) -> bool {
        let Self::File { format, .. } = self else {
            return false;
        };
        matches!(
            format,
            FileFormat::BurstGpt | FileFormat::Azure | FileFormat::Mooncake | FileFormat::Trace
        )
    }
}
