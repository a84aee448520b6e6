//! Prompts of one's own: JSON lines, CSV, plain lines. C4 is JSON lines with `text`.

use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use bench_schema::{Message, Prompt, Role};
use serde::Deserialize;

use super::RowReader;
use super::json::Values;
use super::lines::{self, Lines};
use crate::WorkloadError;
use crate::bounded::{self, Rows};
use crate::source::{Body, Row};

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
    path: PathBuf,
    reader: csv::Reader<Rows>,
    record: csv::StringRecord,
    prompt: usize,
    output: Option<usize>,
    use_case: Option<usize>,
}

impl Csv {
    pub(super) fn open(path: &Path) -> Result<Self, WorkloadError> {
        let mut reader = csv::Reader::from_reader(lines::bytes(path)?);
        let header = reader
            .headers()
            .map_err(|cause| csv_error(path, &cause))?
            .clone();
        let column = |names: &[&str]| column(&header, names);
        let prompt = column(&["prompt", "text"]).ok_or_else(|| WorkloadError::BadLine {
            path: path.to_owned(),
            line: 1,
            why: "the header has no column `prompt` or `text`".to_owned(),
        })?;
        Ok(Self {
            path: path.to_owned(),
            record: csv::StringRecord::new(),
            prompt,
            output: column(&["output_tokens", "max_tokens", "output_len", "output_length"]),
            use_case: column(&["use_case", "label", "category"]),
            reader,
        })
    }
}

/// The column with one of these names, whatever their case.
pub(super) fn column(header: &csv::StringRecord, names: &[&str]) -> Option<usize> {
    let is_named = |field: &str| names.iter().any(|n| field.trim().eq_ignore_ascii_case(n));
    header
        .iter()
        .position(|field| is_named(field.trim_start_matches('\u{feff}')))
}

pub(super) fn csv_error(path: &Path, cause: &csv::Error) -> WorkloadError {
    if let csv::ErrorKind::Io(cause) = cause.kind() {
        return bounded::row_error(path, io::Error::new(cause.kind(), cause.to_string()));
    }
    WorkloadError::BadLine {
        path: path.to_owned(),
        line: cause.position().map_or(1, csv::Position::line),
        why: cause.to_string(),
    }
}

impl RowReader for Csv {
    fn next_row(&mut self) -> Result<Option<Row>, WorkloadError> {
        self.reader.get_mut().begin_row();
        let read = self.reader.read_record(&mut self.record);
        if !read.map_err(|cause| csv_error(&self.path, &cause))? {
            return Ok(None);
        }
        let bad = |why: String| WorkloadError::BadLine {
            path: self.path.clone(),
            line: self.record.position().map_or(0, csv::Position::line),
            why,
        };
        let text = self.record.get(self.prompt).unwrap_or("");
        if text.trim().is_empty() {
            return Err(bad("its prompt is empty".to_owned()));
        }
        let given = self
            .output
            .and_then(|at| self.record.get(at))
            .map(str::trim);
        let output = match given.filter(|text| !text.is_empty()) {
            Some(text) => match text.parse::<u64>() {
                Ok(n) => Some(n.max(1)),
                Err(_) => return Err(bad(format!("`{text}` is no number of output tokens"))),
            },
            None => None,
        };
        let label = self.use_case.and_then(|at| self.record.get(at));
        Ok(Some(Row {
            output,
            use_case: label.filter(|label| !label.is_empty()).map(str::to_owned),
            ..Row::new(Body::Prompt(Prompt::Text(text.into())))
        }))
    }
}
