//! Where prompts come from.

mod parse;
pub(crate) mod read;

use std::path::{Path, PathBuf};

use crate::length::MAX_LENGTH;
use crate::source::Body;
use crate::{JointSpec, LengthCategory, LengthSpec, WorkloadError, bounded};

/// Where prompts come from. Read from text with [`str::parse`]; its [`Display`](std::fmt::Display) reads back as the same value.
///
/// `docs/workloads.md` has the grammar and an example of each.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum DatasetSpec {
    /// `mixed`: the use cases of [`crate::USE_CASES`].
    Mixed,
    /// `random`: words without meaning, of exactly the asked length.
    Random,
    /// `joint:…`: random words, input and output lengths drawn together.
    Joint(JointSpec),
    /// `random-ids` or `random-ids:VOCABULARY`: prompts of random token ids.
    RandomIds {
        /// Ids are below this; absent takes the ordinary ones of the tokenizer.
        vocabulary: Option<u32>,
    },
    /// `text`: English prose of exactly the asked length.
    Text,
    /// `study:short` (5 words), `study:medium` (19), `study:long` (106), `study:gpt2`.
    Study(Study),
    /// `spread` or `spread:tiny,long`: total lengths in categories, in turn.
    Spread(Vec<LengthCategory>),
    /// `prefix:GROUPS:PREFIX:OWN` or `prefix:GROUPS:PREFIX:OWN:zipf=S`: groups that share the start of their prompts.
    Prefix {
        /// How many different prefixes.
        groups: u64,
        /// Length of each prefix.
        prefix: u64,
        /// Length of what follows it.
        own: LengthSpec,
        /// Popularity of the groups: 0 is even, above it Zipf with this exponent.
        skew: f64,
    },
    /// `multiturn:TURNS:FIRST:NEXT` or `…:think=SECONDS`: conversations whose next turn waits for the answer.
    MultiTurn {
        /// Turns of each conversation.
        turns: LengthSpec,
        /// Length of the first user message.
        first: LengthSpec,
        /// Length of the later ones.
        next: LengthSpec,
        /// Seconds from an answer to the next turn.
        think_s: f64,
    },
    /// `FORMAT:FILE`.
    File {
        /// How to read it.
        format: FileFormat,
        /// The file; a name that ends in `.gz` is unpacked while it is read.
        path: PathBuf,
    },
}

/// A fixed set of prompts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Study {
    /// Exactly 5 words.
    Short,
    /// Exactly 19 words.
    Medium,
    /// Exactly 106 words.
    Long,
    /// "Hello, how are you?" and two more, in turn, always as they are.
    Gpt2,
}

impl Study {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Short, Self::Medium, Self::Long, Self::Gpt2];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Short => "short",
            Self::Medium => "medium",
            Self::Long => "long",
            Self::Gpt2 => "gpt2",
        }
    }
}

/// The format of a dataset's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileFormat {
    /// `ShareGPT`: an array (or lines) of `{"conversations": [{"from": "human", "value": …}, …]}`; the first exchange of each.
    ShareGpt,
    /// The same, each conversation with all its turns.
    ShareGptTurns,
    /// C4: lines of `{"text": …}`; `text` is the prompt.
    C4,
    /// `BurstGPT`: CSV `Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type`.
    BurstGpt,
    /// Azure's LLM inference trace: CSV `TIMESTAMP,ContextTokens,GeneratedTokens`.
    Azure,
    /// Mooncake: lines of `{"timestamp": ms, "input_length": n, "output_length": n, "hash_ids": […]}`.
    Mooncake,
    /// One of the three traces above, found out from the file's first line.
    Trace,
    /// Lines of JSON with `prompt`, `text` or `messages`.
    Jsonl,
    /// CSV with a header that has `prompt` or `text`.
    Csv,
    /// One prompt per line.
    Txt,
    /// A batch file of the `OpenAI` API: lines of `{"custom_id", "method", "url", "body"}`.
    OpenAiBatch,
}

impl FileFormat {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::ShareGpt,
        Self::ShareGptTurns,
        Self::C4,
        Self::BurstGpt,
        Self::Azure,
        Self::Mooncake,
        Self::Trace,
        Self::Jsonl,
        Self::Csv,
        Self::Txt,
        Self::OpenAiBatch,
    ];

    /// The word before the colon.
    pub fn name(self) -> &'static str {
        match self {
            Self::ShareGpt => "sharegpt",
            Self::ShareGptTurns => "sharegpt-turns",
            Self::C4 => "c4",
            Self::BurstGpt => "burstgpt",
            Self::Azure => "azure",
            Self::Mooncake => "mooncake",
            Self::Trace => "trace",
            Self::Jsonl => "jsonl",
            Self::Csv => "csv",
            Self::Txt => "txt",
            Self::OpenAiBatch => "openai-batch",
        }
    }
}

// Lengths out of files, for empirical distributions.

/// Which column of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Input,
    Output,
}

/// Whole numbers separated by blanks, or one side of the pairs of a trace.
pub(crate) fn lengths(path: &Path, side: Side) -> Result<Vec<u64>, WorkloadError> {
    let text = bounded::read_text(path, "reading lengths")?;
    let numbers: Result<Vec<u64>, _> = text.split_whitespace().map(str::parse).collect();
    match numbers {
        Ok(numbers) if !numbers.is_empty() => Ok(numbers
            .into_iter()
            .map(|n| n.clamp(1, MAX_LENGTH))
            .collect()),
        _ => {
            let pick =
                |(input, output): (u64, u64)| if side == Side::Input { input } else { output };
            Ok(length_pairs(path)?.into_iter().map(pick).collect())
        }
    }
}

/// Input and output lengths of a trace.
pub(crate) fn length_pairs(path: &Path) -> Result<Vec<(u64, u64)>, WorkloadError> {
    let mut reader = read::open(FileFormat::Trace, path)?;
    let mut pairs = Vec::new();
    while let Some(row) = reader.next_row()? {
        if let (Body::Lengths { input, .. }, Some(output)) = (&row.body, row.output) {
            pairs.push((*input, output));
        }
    }
    if pairs.is_empty() {
        return Err(WorkloadError::Empty {
            path: path.to_owned(),
            wanted: "pair of lengths",
        });
    }
    Ok(pairs)
}
