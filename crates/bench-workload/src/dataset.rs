//! Where prompts come from.

pub(crate) mod read;

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::length::MAX_LENGTH;
use crate::source::Body;
use crate::{JointSpec, LengthCategory, LengthSpec, WorkloadError, bounded};

/// Where prompts come from. Read from text with [`str::parse`]; its [`Display`](std::fmt::Display) reads back as the same value.
///
/// `docs/workloads.md` has the grammar and an example of each.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
#[expect(missing_docs, reason = "a variant says what its fields are")]
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
    /// `random:INPUT/OUTPUT` or `text:INPUT/OUTPUT`: words without meaning, or prose, with lengths of its own.
    Sized {
        prose: bool,
        /// One pair.
        lengths: JointSpec,
    },
    /// `study:short` (5 words), `study:medium` (19), `study:long` (106), `study:gpt2`.
    Study(Study),
    /// `spread` or `spread:tiny,long`: total lengths in categories, in turn.
    Spread(Vec<LengthCategory>),
    /// `prefix:GROUPS:PREFIX:OWN` or `prefix:GROUPS:PREFIX:OWN:zipf=S`: groups that share the start of their prompts; the length of that start, and of what follows
    /// it.
    Prefix {
        groups: u64,
        prefix: u64,
        own: LengthSpec,
        /// Popularity of the groups: 0 is even, above it Zipf with this exponent.
        skew: f64,
    },
    /// `multiturn:TURNS:FIRST:NEXT` or `…:think=SECONDS`: conversations whose next turn waits for the answer; their turns, the lengths of the first message and of the
    /// later ones.
    MultiTurn {
        turns: LengthSpec,
        first: LengthSpec,
        next: LengthSpec,
        /// Seconds from an answer to the next turn.
        think_s: f64,
    },
    /// `FORMAT:FILE`; a file whose name ends in `.gz` is unpacked while it is read.
    File { format: FileFormat, path: PathBuf },
}

/// Rows of a file that are read to learn its labels.
const MOST_ROWS: usize = 10_000;
/// Groups of prompts that are named one by one.
const MOST_GROUPS: u64 = 1_000;

impl DatasetSpec {
    /// The labels that its requests can have, as far as that can be known beforehand: `None` where they are too many, or its file is long or cannot be read.
    /// `sized`: whether the lengths of answers are asked for, and not those of the dataset.
    pub fn use_cases(&self, sized: bool) -> Option<BTreeSet<String>> {
        match self {
            // short and long answers are what they are
            Self::Mixed if sized => Some(BTreeSet::new()),
            Self::Mixed => Some(crate::USE_CASES.map(|case| case.name.to_owned()).into()),
            Self::Study(study) => Some([study.name().to_owned()].into()),
            Self::Prefix { groups, .. } => (*groups <= MOST_GROUPS).then(|| {
                (0..*groups)
                    .map(|group| format!("prefix-{group}"))
                    .collect()
            }),
            Self::File { format, path } => labels(*format, path).ok().flatten(),
            Self::Random
            | Self::Joint(_)
            | Self::RandomIds { .. }
            | Self::Text
            | Self::Sized { .. }
            | Self::Spread(_)
            | Self::MultiTurn { .. } => Some(BTreeSet::new()),
        }
    }

    /// Lengths of prompts and answers that it draws together.
    pub(crate) fn joint_lengths(&self) -> Option<&JointSpec> {
        match self {
            Self::Joint(lengths) | Self::Sized { lengths, .. } => Some(lengths),
            _ => None,
        }
    }
}

/// The labels of a file's rows; `None` where it has more than are read.
fn labels(format: FileFormat, path: &Path) -> Result<Option<BTreeSet<String>>, WorkloadError> {
    let mut reader = read::open(format, path)?;
    let mut labels = BTreeSet::new();
    for _ in 0..MOST_ROWS {
        match reader() {
            Ok(Some(row)) => labels.extend(row.use_case),
            Ok(None) => return Ok(Some(labels)),
            // the run says what it makes of it
            Err(WorkloadError::BadLine { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

named! {
    /// A fixed set of prompts.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Study {
        /// Exactly 5 words.
        Short = "short",
        /// Exactly 19 words.
        Medium = "medium",
        /// Exactly 106 words.
        Long = "long",
        /// "Hello, how are you?" and two more, in turn, always as they are.
        Gpt2 = "gpt2",
    }
}

named! {
    /// The format of a dataset's file.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum FileFormat {
        /// `ShareGPT`: an array (or lines) of `{"conversations": [{"from": "human", "value": …}, …]}`; the first exchange of each.
        ShareGpt = "sharegpt",
        /// The same, each conversation with all its turns.
        ShareGptTurns = "sharegpt-turns",
        /// C4: lines of `{"text": …}`; `text` is the prompt.
        C4 = "c4",
        /// `BurstGPT`: CSV `Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type`.
        BurstGpt = "burstgpt",
        /// Azure's LLM inference trace: CSV `TIMESTAMP,ContextTokens,GeneratedTokens`.
        Azure = "azure",
        /// Mooncake: lines of `{"timestamp": ms, "input_length": n, "output_length": n, "hash_ids": […]}`.
        Mooncake = "mooncake",
        /// One of the three traces above, found out from the file's first line.
        Trace = "trace",
        /// Lines of JSON with `prompt`, `text` or `messages`.
        Jsonl = "jsonl",
        /// CSV with a header that has `prompt` or `text`.
        Csv = "csv",
        /// One prompt per line.
        Txt = "txt",
        /// A batch file of the `OpenAI` API: lines of `{"custom_id", "method", "url", "body"}`.
        OpenAiBatch = "openai-batch",
    }
}

// Lengths out of files, for empirical distributions.

/// Which column of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Input,
    Output,
}

/// Whole numbers from 1 to the longest length, separated by blanks, or one side of the pairs of a trace.
pub(crate) fn lengths(path: &Path, side: Side) -> Result<Vec<u64>, WorkloadError> {
    let text = bounded::read_text(path, "reading lengths")?;
    let words = (1..)
        .zip(text.lines())
        .flat_map(|(line, text)| text.split_whitespace().map(move |word| (line, word)));
    let numbers: Result<Vec<(u64, u64)>, _> = words
        .map(|(line, word)| word.parse().map(|n| (line, n)))
        .collect();
    match numbers {
        Ok(numbers) if !numbers.is_empty() => {
            let checked = numbers.into_iter().map(|(line, n)| match n {
                1..=MAX_LENGTH => Ok(n),
                _ => Err(WorkloadError::BadLine {
                    path: path.to_owned(),
                    line,
                    why: format!("{n} is not a valid length; lengths are 1 to {MAX_LENGTH} tokens"),
                }),
            });
            checked.collect()
        }
        _ => {
            let pick = |(input, output)| if side == Side::Input { input } else { output };
            Ok(length_pairs(path)?.into_iter().map(pick).collect())
        }
    }
}

/// Input and output lengths of a trace.
pub(crate) fn length_pairs(path: &Path) -> Result<Vec<(u64, u64)>, WorkloadError> {
    let mut reader = read::open(FileFormat::Trace, path)?;
    let mut pairs = Vec::new();
    while let Some(row) = reader()? {
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

// Datasets from text and back.

const EXPECTED: &str = "mixed, random[:INPUT/OUTPUT], random-ids[:VOCABULARY], text[:INPUT/OUTPUT], joint:WEIGHT*INPUT/OUTPUT+…, study:short|medium|long|gpt2, spread[:CATEGORIES], \
    prefix:GROUPS:PREFIX:OWN[:zipf=S], multiturn:TURNS:FIRST:NEXT[:think=SECONDS], or a file as sharegpt:FILE, \
    sharegpt-turns:FILE, c4:FILE, burstgpt:FILE, azure:FILE, mooncake:FILE, trace:FILE, jsonl:FILE, csv:FILE, txt:FILE, \
    openai-batch:FILE";

impl FromStr for DatasetSpec {
    type Err = WorkloadError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse(text.trim()).map_err(|why| WorkloadError::Spec {
            what: "dataset",
            given: text.to_owned(),
            why,
            expected: EXPECTED,
        })
    }
}

fn parse(text: &str) -> Result<DatasetSpec, String> {
    let (name, rest) = text
        .split_once(':')
        .map_or((text, None), |(n, r)| (n, Some(r)));
    if let Some(format) = FileFormat::named(name) {
        let file = rest.filter(|file| !file.is_empty());
        let path = file
            .ok_or_else(|| format!("the file name is missing; write {name}:FILE"))?
            .into();
        return Ok(DatasetSpec::File { format, path });
    }
    match (name, rest) {
        ("mixed", None) => Ok(DatasetSpec::Mixed),
        ("random", None) => Ok(DatasetSpec::Random),
        ("text", None) => Ok(DatasetSpec::Text),
        ("random-ids", None) => Ok(DatasetSpec::RandomIds { vocabulary: None }),
        ("random-ids", Some(n)) => match n.parse() {
            Ok(n @ 1..) => Ok(DatasetSpec::RandomIds {
                vocabulary: Some(n),
            }),
            _ => Err(format!("`{n}` is not a vocabulary size")),
        },
        ("study", Some(which)) => {
            let study = Study::named(which).map(DatasetSpec::Study);
            study.ok_or_else(|| format!("unknown study `{which}`"))
        }
        ("spread", None) => Ok(DatasetSpec::Spread(LengthCategory::ALL.to_vec())),
        ("spread", Some(names)) => {
            let categories: Result<_, _> = names.split(',').map(str::parse).collect();
            let categories = categories.map_err(|e: WorkloadError| e.to_string())?;
            Ok(DatasetSpec::Spread(categories))
        }
        ("joint", Some(_)) => match text.parse() {
            Ok(joint) => Ok(DatasetSpec::Joint(joint)),
            Err(WorkloadError::Spec { why, .. }) => Err(why),
            Err(other) => Err(other.to_string()),
        },
        ("prefix", Some(rest)) => prefix(rest),
        ("multiturn", Some(rest)) => multiturn(rest),
        ("random" | "text", Some(pair)) => Ok(DatasetSpec::Sized {
            prose: name == "text",
            lengths: JointSpec::pair(pair)?,
        }),
        ("mixed", Some(rest)) => Err(format!(
            "`mixed` takes no parameters, but `:{rest}` follows"
        )),
        _ if name.contains(['/', '.']) => {
            Err("a file needs a format prefix, as in jsonl:FILE".to_owned())
        }
        _ => Err(match elsewhere(name) {
            Some(instead) => format!("`{name}` is another tool's dataset; write {instead}"),
            None => format!("unknown dataset `{name}`"),
        }),
    }
}

/// What is nearest to a dataset of `vllm bench serve` or SGLang's `bench_serving`.
fn elsewhere(name: &str) -> Option<&'static str> {
    Some(match name {
        "sonnet" => "text, with --input-tokens",
        "hf" | "custom" | "openai" => "jsonl:FILE",
        "prefix_repetition" | "generated-shared-prefix" => "prefix:GROUPS:PREFIX:OWN",
        _ => return None,
    })
}

fn prefix(text: &str) -> Result<DatasetSpec, String> {
    let (text, skew) = option(text, "zipf")?;
    let [groups, prefix, own] = three_lengths(text, "prefix:GROUPS:PREFIX:OWN")?;
    let (LengthSpec::Fixed(groups), LengthSpec::Fixed(prefix)) = (groups, prefix) else {
        return Err("groups and prefix must be whole numbers".to_owned());
    };
    if groups > 1 << 20 {
        return Err(format!("{groups} groups are too many; at most {}", 1 << 20));
    }
    Ok(DatasetSpec::Prefix {
        groups,
        prefix,
        own,
        skew,
    })
}

fn multiturn(text: &str) -> Result<DatasetSpec, String> {
    let (text, think_s) = option(text, "think")?;
    let [turns, first, next] = three_lengths(text, "multiturn:TURNS:FIRST:NEXT")?;
    Ok(DatasetSpec::MultiTurn {
        turns,
        first,
        next,
        think_s,
    })
}

/// Cuts `:name=NUMBER` from the end; 0 where it is not there.
fn option<'t>(text: &'t str, name: &str) -> Result<(&'t str, f64), String> {
    let Some((rest, value)) = text.rsplit_once(&format!(":{name}=")) else {
        return Ok((text, 0.0));
    };
    match value.parse::<f64>() {
        Ok(n) if n.is_finite() && n >= 0.0 => Ok((rest, n)),
        _ => Err(format!("`{name}={value}` is not a number of at least 0")),
    }
}

/// Three lengths. A length may hold colons itself (`normal:80:20`), so a colon ends one only where what stands before it reads as a length.
fn three_lengths(text: &str, shape: &str) -> Result<[LengthSpec; 3], String> {
    let mut found = Vec::new();
    let mut part = String::new();
    for piece in text.split(':') {
        if !part.is_empty() {
            part.push(':');
        }
        part.push_str(piece);
        if let Ok(spec) = crate::length::read(&part) {
            found.push(spec);
            part.clear();
        }
    }
    let count = found.len();
    match <[LengthSpec; 3]>::try_from(found) {
        Ok(three) if part.is_empty() => Ok(three),
        _ => Err(format!("it has {count} of the three values of {shape}")),
    }
}

impl fmt::Display for DatasetSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mixed => f.write_str("mixed"),
            Self::Random => f.write_str("random"),
            Self::RandomIds { vocabulary: None } => f.write_str("random-ids"),
            Self::RandomIds {
                vocabulary: Some(n),
            } => write!(f, "random-ids:{n}"),
            Self::Text => f.write_str("text"),
            Self::Sized { prose, lengths } => {
                let pair = lengths.to_string();
                let pair = pair.strip_prefix("joint:1*").unwrap_or(&pair);
                let name = if *prose { "text" } else { "random" };
                write!(f, "{name}:{pair}")
            }
            Self::Joint(joint) => joint.fmt(f),
            Self::Study(study) => write!(f, "study:{}", study.name()),
            Self::Spread(categories) if *categories == LengthCategory::ALL => f.write_str("spread"),
            Self::Spread(categories) => {
                let names: Vec<&str> = categories.iter().map(|c| c.name()).collect();
                write!(f, "spread:{}", names.join(","))
            }
            Self::Prefix {
                groups,
                prefix,
                own,
                skew,
            } => {
                write!(f, "prefix:{groups}:{prefix}:{own}")?;
                shown(f, "zipf", *skew)
            }
            Self::MultiTurn {
                turns,
                first,
                next,
                think_s,
            } => {
                write!(f, "multiturn:{turns}:{first}:{next}")?;
                shown(f, "think", *think_s)
            }
            Self::File { format, path } => write!(f, "{}:{}", format.name(), path.display()),
        }
    }
}

fn shown(f: &mut fmt::Formatter<'_>, name: &str, value: f64) -> fmt::Result {
    if value > 0.0 {
        return write!(f, ":{name}={value}");
    }
    Ok(())
}
