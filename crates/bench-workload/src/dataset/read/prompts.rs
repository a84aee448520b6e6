//! Prompts of one's own: JSON lines, CSV, plain lines. C4 is JSON lines with `text`.

use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use bench_schema::{Message, Prompt, Role};
use serde::Deserialize;

use crate::dataset::read::RowReader;
use crate::dataset::read::json::Values;
use crate::dataset::read::{Lines, Table};
use crate::source::{Body, Row};
use crate::{WorkloadError, bounded};

/// One prompt per line.
pub(super) struct Plain {
    lines: Lines,
}

impl Plain {
    pub(super) fn open(path: &Path) -> Result<Self, WorkloadError> {
        let lines = Lines::open(path)?;
        Ok(Self { lines })
    }
}

impl RowReader for Plain {
    fn next_row(&mut self) -> Result<Option<Row>, WorkloadError> {
        let line = self.lines.next_line()?;
        Ok(line.map(|line| Row::new(Body::Prompt(Prompt::Text(line.into())))))
    }
}

/// A JSON object per line, or an array of them.
pub(super) struct Jsonl {
    values: Values,
}

#[derive(Deserialize)]
struct Line {
    #[serde(alias = "text")]
    prompt: Option<Said>,
    messages: Option<Vec<Spoken>>,
    /// A file beside the dataset that holds the prompt.
    prompt_file: Option<String>,
    #[serde(alias = "max_tokens", alias = "output_len", alias = "output_length")]
    output_tokens: Option<u64>,
    #[serde(alias = "label", alias = "category")]
    use_case: Option<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Said {
    Text(Arc<str>),
    Ids(Vec<u32>),
}

#[derive(Deserialize)]
struct Spoken {
    role: Role,
    content: Arc<str>,
}

impl Jsonl {
    pub(super) fn open(path: &Path) -> Result<Self, WorkloadError> {
        let values = Values::open(path)?;
        Ok(Self { values })
    }

    fn prompt(&self, line: &mut Line) -> Result<Prompt, WorkloadError> {
        let given = (
            line.prompt.take(),
            line.messages.take(),
            line.prompt_file.take(),
        );
        match given {
            (Some(Said::Text(text)), None, None) => Ok(Prompt::Text(text)),
            (Some(Said::Ids(ids)), None, None) => Ok(Prompt::TokenIds(ids)),
            (None, Some(messages), None) if !messages.is_empty() => {
                let message = |Spoken { role, content }| Message { role, content };
                Ok(Prompt::Messages(
                    messages.into_iter().map(message).collect(),
                ))
            }
            (None, None, Some(named)) => self.beside(&named),
            _ => Err(self
                .values
                .bad("it needs one of `prompt`, `text`, `messages`, `prompt_file`")),
        }
    }

    /// The text of a file that the dataset names. Only files in its own folder or below are read.
    fn beside(&self, named: &str) -> Result<Prompt, WorkloadError> {
        let folder = self.values.path().parent().unwrap_or(Path::new("."));
        match inside(folder, named) {
            Ok(Some(file)) => {
                let text = bounded::read_text(&file, "reading a prompt")?;
                Ok(Prompt::Text(text.into()))
            }
            Ok(None) => match self.values.bad("") {
                WorkloadError::BadLine { path, line, .. } => Err(WorkloadError::Outside {
                    path,
                    line,
                    named: named.to_owned(),
                }),
                other => Err(other),
            },
            Err(why) => Err(self.values.bad(format!("`prompt_file` {named}: {why}"))),
        }
    }
}

/// The file inside the folder; `None` where it lies outside, by its name or by a link.
fn inside(folder: &Path, named: &str) -> io::Result<Option<PathBuf>> {
    let plain = |part: Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
    if !Path::new(named).components().all(plain) {
        return Ok(None);
    }
    let folder = if folder.as_os_str().is_empty() {
        Path::new(".")
    } else {
        folder
    };
    let file = folder.join(named).canonicalize()?;
    Ok(file.starts_with(folder.canonicalize()?).then_some(file))
}

impl RowReader for Jsonl {
    fn next_row(&mut self) -> Result<Option<Row>, WorkloadError> {
        let Some(mut line) = self.values.next_value::<Line>()? else {
            return Ok(None);
        };
        let prompt = self.prompt(&mut line)?;
        Ok(Some(Row {
            output: line.output_tokens.map(|n| n.max(1)),
            use_case: line.use_case,
            ..Row::new(Body::Prompt(prompt))
        }))
    }
}

/// A CSV file with a header.
pub(super) struct Csv {
    table: Table,
    prompt: usize,
    output: Option<usize>,
    use_case: Option<usize>,
}

impl Csv {
    pub(super) fn open(path: &Path) -> Result<Self, WorkloadError> {
        let table = Table::open(path)?;
        Ok(Self {
            prompt: table.wanted(&["prompt", "text"], "")?,
            output: table.column(&["output_tokens", "max_tokens", "output_len", "output_length"]),
            use_case: table.column(&["use_case", "label", "category"]),
            table,
        })
    }
}

impl RowReader for Csv {
    fn next_row(&mut self) -> Result<Option<Row>, WorkloadError> {
        let table = &mut self.table;
        if !table.next()? {
            return Ok(None);
        }
        let text = table.raw(self.prompt);
        if text.trim().is_empty() {
            return Err(table.bad("its prompt is empty".to_owned()));
        }
        let given = self.output.map(|at| table.field(at));
        let output = match given.filter(|text| !text.is_empty()) {
            Some(text) => match text.parse::<u64>() {
                Ok(n) => Some(n.max(1)),
                Err(_) => return Err(table.bad(format!("`{text}` is no number of output tokens"))),
            },
            None => None,
        };
        let label = self.use_case.map(|at| table.raw(at));
        Ok(Some(Row {
            output,
            use_case: label.filter(|label| !label.is_empty()).map(str::to_owned),
            ..Row::new(Body::Prompt(Prompt::Text(text.into())))
        }))
    }
}

// Conversations in `ShareGPT`'s format.

/// Conversations as turns of a user and the answers to them.
pub(super) struct ShareGpt {
    values: Values,
    most: usize,
}

#[derive(Deserialize)]
struct Conversation {
    #[serde(alias = "conversation", alias = "items")]
    conversations: Vec<Turn>,
}

#[derive(Deserialize)]
struct Turn {
    from: String,
    value: String,
}

impl ShareGpt {
    /// Takes so many turns of each conversation at most.
    pub(super) fn open(path: &Path, most: usize) -> Result<Self, WorkloadError> {
        Ok(Self {
            values: Values::open(path)?,
            most,
        })
    }
}

impl RowReader for ShareGpt {
    /// Conversations in which the user says nothing are passed over: the collected files have many, and they are no mistake.
    fn next_row(&mut self) -> Result<Option<Row>, WorkloadError> {
        while let Some(conversation) = self.values.next_value::<Conversation>()? {
            let mut turns = turns(conversation.conversations);
            turns.truncate(self.most);
            if !turns.is_empty() {
                return Ok(Some(Row::new(Body::Turns(turns))));
            }
        }
        Ok(None)
    }
}

/// What a user said, with the answer that follows; a second message without an answer between them joins the first.
fn turns(said: Vec<Turn>) -> Vec<(String, Option<String>)> {
    let mut turns: Vec<(String, Option<String>)> = Vec::new();
    for Turn { from, value } in said {
        let user = matches!(from.as_str(), "human" | "user");
        let answer = matches!(
            from.as_str(),
            "gpt" | "assistant" | "chatgpt" | "model" | "bing" | "bard"
        );
        match turns.last_mut() {
            Some((text, None)) if user => {
                text.push_str("\n\n");
                text.push_str(&value);
            }
            Some((_, nothing @ None)) if answer => *nothing = Some(value),
            _ if user && !value.trim().is_empty() => turns.push((value, None)),
            _ => {}
        }
    }
    turns
}
