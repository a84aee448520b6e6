//! Where the parts of requests come from: made up, or read from a file.

mod generated;
mod rows;

pub(crate) use rows::{Body, Row, Rows};

use std::fmt;

use bench_schema::{Nanos, Prompt, PromptSize, Sampling};

use crate::WorkloadError;
use crate::composer::Composer;
use crate::dataset::DatasetSpec;
use crate::plan::PlanSpec;

/// One request before it is finished with what all requests share.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) prompt: Prompt,
    pub(crate) size: PromptSize,
    pub(crate) output: Option<u64>,
    pub(crate) use_case: Option<String>,
    pub(crate) category: Option<String>,
    pub(crate) session: Option<u64>,
    pub(crate) turn: Option<u32>,
    /// Time after the answer of the one before, for later turns.
    pub(crate) after: Option<Nanos>,
    pub(crate) own: Option<Own>,
}

/// What a dataset says about a request beside its prompt.
#[derive(Clone, Debug, Default)]
pub(crate) struct Own {
    pub(crate) sampling: Option<Sampling>,
    pub(crate) extra_body: Option<serde_json::Map<String, serde_json::Value>>,
}

impl Parts {
    pub(crate) fn new(prompt: Prompt, size: PromptSize, output: Option<u64>) -> Self {
        Self {
            prompt,
            size,
            output,
            use_case: None,
            category: None,
            session: None,
            turn: None,
            after: None,
            own: None,
        }
    }
}

/// Makes the one request of a unit from its number alone.
pub(crate) type Single = Box<dyn Fn(&Composer, u64) -> Result<Parts, WorkloadError> + Send + Sync>;

/// Where requests come from: a unit is a request, or all requests of a conversation.
pub(crate) enum Source {
    Single(Single),
    Conversations(Box<generated::Conversation>),
    File(rows::FileSource),
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Source").finish_non_exhaustive()
    }
}

pub(crate) fn open(spec: &PlanSpec, with: &Composer) -> Result<Source, WorkloadError> {
    if let DatasetSpec::File { format, path } = &spec.dataset {
        return rows::FileSource::new(*format, path, spec).map(Source::File);
    }
    generated::of(spec, with)
}

impl Source {
    /// The requests of a unit: made up, or of this row of the file.
    pub(crate) fn parts(
        &self,
        with: &Composer,
        row: Option<&Row>,
        unit: u64,
    ) -> Result<Vec<Parts>, WorkloadError> {
        match (self, row) {
            (Self::Single(request), _) => Ok(vec![request(with, unit)?]),
            (Self::Conversations(source), _) => source.unit(with, unit),
            (Self::File(_), Some(row)) => rows::FileSource::parts(with, row, unit),
            (Self::File(_), None) => Ok(Vec::new()),
        }
    }

    pub(crate) fn turns(&self, with: &Composer, unit: u64) -> u32 {
        match self {
            Self::Conversations(source) => source.turns(with, unit),
            Self::Single(_) | Self::File(_) => 1,
        }
    }

    pub(crate) fn turns_of_every_unit(&self) -> Option<u32> {
        match self {
            Self::Single(_) => Some(1),
            Self::Conversations(source) => source.every,
            Self::File(source) => source.turns_of_every_row(),
        }
    }

    /// The rows of a file, from its start; none where requests are made up.
    pub(crate) fn rows(&self, spec: &PlanSpec) -> Result<Option<Rows>, WorkloadError> {
        match self {
            Self::Single(_) | Self::Conversations(_) => Ok(None),
            Self::File(source) => source.rows(spec).map(Some),
        }
    }

    /// Whether it ends although nothing else ends the plan: a file that is read once.
    pub(crate) fn ends_by_itself(&self) -> bool {
        matches!(self, Self::File(source) if source.is_read_once())
    }
}
