//! Requests from the rows of a file.

use std::fmt;
use std::path::{Path, PathBuf};

use bench_schema::{Message, Nanos, Prompt, PromptSize};

use super::generated::OUTPUT;
use super::{Own, Parts};
use crate::composer::{Composer, Made};
use crate::dataset::FileFormat;
use crate::dataset::read::{self, RowReader};
use crate::item::{messages_of, text_of};
use crate::plan::{OnBadLine, PlanSpec};
use crate::{Draw, WorkloadError};

/// What one row of a file says, whatever the format.
#[derive(Debug)]
pub(crate) struct Row {
    /// When it happened, from the first row of the file.
    pub(crate) at: Option<Nanos>,
    pub(crate) output: Option<u64>,
    pub(crate) use_case: Option<String>,
    pub(crate) body: Body,
}

#[derive(Debug)]
pub(crate) enum Body {
    Prompt(Prompt),
    /// A prompt that is sent as it is, with all that its own request says.
    Request(Prompt, Own),
    /// What the user said, and the answer's text where it is known.
    Turns(Vec<(String, Option<String>)>),
    /// Only lengths; blocks are ids of shared parts of a prompt, of this many tokens each.
    Lengths {
        input: u64,
        blocks: Vec<u64>,
        block_tokens: u64,
    },
}

impl Row {
    /// A row without time, answer length or label.
    pub(crate) fn new(body: Body) -> Self {
        Self {
            at: None,
            output: None,
            use_case: None,
            body,
        }
    }

    /// When it is due in a replay at this speed.
    pub(crate) fn due(&self, speed: f64) -> Option<Nanos> {
        self.at.map(|at| Nanos::from_f64(at.as_f64() / speed))
    }

    /// Whether its prompt is one of token ids.
    fn is_of_ids(&self) -> bool {
        matches!(
            self.body,
            Body::Prompt(Prompt::TokenIds(_)) | Body::Request(Prompt::TokenIds(_), _)
        )
    }

    /// How many requests it makes.
    pub(crate) fn turns(&self) -> u32 {
        match &self.body {
            Body::Turns(turns) => u32::try_from(turns.len()).unwrap_or(u32::MAX),
            _ => 1,
        }
    }
}

/// A file that rows are read from.
#[derive(Debug)]
pub(crate) struct FileSource {
    format: FileFormat,
    path: PathBuf,
    cycle: bool,
}

impl FileSource {
    /// Finds out the format where that is left open, and checks that the file can be read.
    pub(crate) fn new(
        format: FileFormat,
        path: &Path,
        spec: &PlanSpec,
    ) -> Result<Self, WorkloadError> {
        let format = read::detect(format, path)?;
        Ok(Self {
            format,
            path: path.to_owned(),
            // a replay ends with its trace: a second pass would have to make up the times between
            cycle: spec.cycle && spec.replay_speed().is_none(),
        })
    }

    /// One request for each row, except in whole conversations.
    pub(crate) fn turns_of_every_row(&self) -> Option<u32> {
        (self.format != FileFormat::ShareGptTurns).then_some(1)
    }

    pub(crate) fn is_read_once(&self) -> bool {
        !self.cycle
    }

    pub(crate) fn rows(&self, spec: &PlanSpec) -> Result<Rows, WorkloadError> {
        Ok(Rows {
            reader: read::open(self.format, &self.path)?,
            format: self.format,
            path: self.path.clone(),
            cycle: self.cycle,
            chat: spec.chat,
            skip: spec.on_bad_line == OnBadLine::Skip,
            skipped: 0,
            in_this_pass: 0,
        })
    }

    /// The requests of a row.
    pub(crate) fn parts(
        with: &Composer,
        row: &Row,
        unit: u64,
    ) -> Result<Vec<Parts>, WorkloadError> {
        let (input, output) = with.lengths(unit);
        let output = output.or(row.output);
        let mut words = with.words(unit);
        let salt = with.salt(&mut words);
        let mut parts = match &row.body {
            Body::Turns(turns) => return conversation(with, turns, unit),
            Body::Request(prompt, own) => {
                let (prompt, size) = prompted(with, prompt, None, salt, &mut words)?;
                Parts {
                    own: Some(own.clone()),
                    ..Parts::new(prompt, size, output)
                }
            }
            Body::Prompt(prompt) => {
                let (prompt, size) = prompted(with, prompt, input, salt, &mut words)?;
                Parts::new(prompt, size, output.or(Some(OUTPUT)))
            }
            Body::Lengths {
                input: traced,
                blocks,
                block_tokens,
            } => {
                let asked = input.unwrap_or(*traced).max(1);
                let made = shared(with, blocks, *block_tokens, asked, &mut words)?;
                Parts::new(made.prompt(), made.size, output.or(Some(OUTPUT)))
            }
        };
        parts.use_case.clone_from(&row.use_case);
        Ok(vec![parts])
    }
}

/// A prompt of the file: fitted to a length where one is asked, behind a salt where there is one.
fn prompted(
    with: &Composer,
    prompt: &Prompt,
    input: Option<u64>,
    salt: Option<String>,
    words: &mut Draw,
) -> Result<(Prompt, PromptSize), WorkloadError> {
    let salt = salt.unwrap_or_default();
    if let Some(asked) = input {
        let beginning = format!("{salt} {}", text_of(prompt));
        let made = with.prose(beginning.trim_start().to_owned(), asked, words)?;
        return Ok((made.prompt(), made.size));
    }
    let prompt = match prompt {
        Prompt::Text(text) if !salt.is_empty() => Prompt::Text(format!("{salt} {text}").into()),
        Prompt::Messages(messages) if !salt.is_empty() => Prompt::Messages(salted(messages, &salt)),
        other => other.clone(),
    };
    let size = size_of(with, &prompt)?;
    Ok((prompt, size))
}

/// The salt goes to the very start: into the first message, whosever it is.
fn salted(messages: &[Message], salt: &str) -> Vec<Message> {
    let mut messages = messages.to_vec();
    if let Some(first) = messages.first_mut() {
        first.content = format!("{salt} {}", first.content).into();
    }
    messages
}

fn size_of(with: &Composer, prompt: &Prompt) -> Result<PromptSize, WorkloadError> {
    if let Prompt::TokenIds(ids) = prompt {
        return Ok(PromptSize {
            asked_tokens: None,
            sent_tokens: Some(ids.len() as u64),
            words: None,
        });
    }
    let mut size = PromptSize::default();
    for message in messages_of(prompt) {
        let tokens = with.tokens(&message.content)?;
        size.sent_tokens = tokens.map(|tokens| tokens + size.sent_tokens.unwrap_or(0));
        let words = crate::token_counter::count_words(&message.content);
        size.words = Some(words + size.words.unwrap_or(0));
    }
    Ok(size)
}

/// A conversation of the file as turns that wait for each other.
fn conversation(
    with: &Composer,
    turns: &[(String, Option<String>)],
    unit: u64,
) -> Result<Vec<Parts>, WorkloadError> {
    let (_, output) = with.lengths(unit);
    let mut words = with.words(unit);
    let mut salt = with.salt(&mut words);
    let alone = turns.len() == 1;
    let mut parts = Vec::with_capacity(turns.len());
    for (turn, (said, answer)) in (0_u32..).zip(turns) {
        let made = with.as_it_is(said, salt.take().as_deref())?;
        let known = answer.as_deref().map(|text| with.units(text)).transpose()?;
        parts.push(Parts {
            session: (!alone).then_some(unit),
            turn: (!alone).then_some(turn),
            after: (turn > 0).then_some(Nanos::ZERO),
            ..Parts::new(made.prompt(), made.size, output.or(known).or(Some(OUTPUT)))
        });
    }
    Ok(parts)
}

/// A prompt made of blocks, each the same wherever its id turns up, and of words of its own for what is left.
fn shared(
    with: &Composer,
    blocks: &[u64],
    block_tokens: u64,
    asked: u64,
    words: &mut Draw,
) -> Result<Made, WorkloadError> {
    let length = with.own_length(asked);
    let mut text = String::new();
    let mut written = 0;
    for block in blocks {
        if written + block_tokens >= length {
            break; // what does not fill a block is the request's own
        }
        let mut draw = with.words((1 << 63) | *block);
        if !text.is_empty() {
            text.push(' ');
        }
        text.push_str(&with.random_own(block_tokens, &mut draw)?);
        written += block_tokens;
    }
    with.continued(&text, written, asked, words)
}

/// The rows of a file, in order, again and again where the plan cycles.
pub(crate) struct Rows {
    reader: RowReader,
    format: FileFormat,
    path: PathBuf,
    cycle: bool,
    chat: bool,
    skip: bool,
    skipped: u64,
    in_this_pass: u64,
}

impl Rows {
    pub(crate) fn skipped(&self) -> u64 {
        self.skipped
    }

    /// The next row; `None` where the file is read once and has ended.
    pub(crate) fn next_row(&mut self) -> Result<Option<Row>, WorkloadError> {
        loop {
            match (self.reader)() {
                Ok(Some(row)) => {
                    self.in_this_pass += 1;
                    if self.chat && row.is_of_ids() {
                        let (path, number) = (self.path.display(), self.in_this_pass);
                        return Err(WorkloadError::Conflict {
                            what: format!(
                                "request {number} of {path}: token ids cannot be sent to a chat API"
                            ),
                            next: "use a completions API (--api openai-completions), or give the prompt as text",
                        });
                    }
                    return Ok(Some(row));
                }
                Ok(None) if self.in_this_pass == 0 => {
                    return Err(WorkloadError::Empty {
                        path: self.path.clone(),
                        wanted: "request",
                    });
                }
                Ok(None) if !self.cycle => return Ok(None),
                Ok(None) => {
                    self.reader = read::open(self.format, &self.path)?;
                    self.in_this_pass = 0;
                }
                Err(WorkloadError::BadLine { .. }) if self.skip => self.skipped += 1,
                Err(error) => return Err(error),
            }
        }
    }
}

impl fmt::Debug for Rows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rows")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}
