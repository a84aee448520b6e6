//! Prompts of one's own: JSON lines, CSV, plain lines; conversations in `ShareGPT`'s format; batch files of the `OpenAI` API. C4 is JSON
//! lines with `text`.

use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use bench_schema::{Message, Prompt, Role, Sampling};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{Lines, RowReader, Table, of_table, of_values};
use crate::source::{Body, Own, Row};
use crate::{WorkloadError, bounded};

/// One prompt per line.
pub(super) fn plain(path: &Path) -> Result<RowReader, WorkloadError> {
    let mut lines = Lines::open(path)?;
    Ok(Box::new(move || {
        let line = lines.next_line()?;
        Ok(line.map(|line| Row::new(Body::Prompt(Prompt::Text(line.into())))))
    }))
}

/// A JSON object per line, or an array of them.
pub(super) fn jsonl(path: &Path) -> Result<RowReader, WorkloadError> {
    of_values(path, |lines, mut line: Line| {
        let prompt = prompt_of(lines, &mut line)?;
        Ok(Some(Row {
            output: line.output_tokens,
            use_case: line.use_case.or(line.label).or(line.category),
            ..Row::new(Body::Prompt(prompt))
        }))
    })
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
    use_case: Option<String>,
    label: Option<String>,
    category: Option<String>,
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

fn prompt_of(lines: &Lines, line: &mut Line) -> Result<Prompt, WorkloadError> {
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
            let messages = messages.into_iter().map(message).collect();
            Ok(Prompt::Messages(messages))
        }
        (None, None, Some(named)) => beside(lines, &named),
        _ => Err(lines.bad("it needs one of `prompt`, `text`, `messages`, `prompt_file`")),
    }
}

/// The text of a file that the dataset names. Only files in its own folder or below are read.
fn beside(lines: &Lines, named: &str) -> Result<Prompt, WorkloadError> {
    let folder = lines.path().parent().unwrap_or(Path::new("."));
    match inside(folder, named) {
        Ok(Some(file)) => {
            let text = bounded::read_text(&file, "reading a prompt")?;
            Ok(Prompt::Text(text.into()))
        }
        Ok(None) => match lines.bad("") {
            WorkloadError::BadLine { path, line, .. } => Err(WorkloadError::Outside {
                path,
                line,
                named: named.to_owned(),
            }),
            other => Err(other),
        },
        Err(why) => Err(lines.bad(format!("`prompt_file` {named}: {why}"))),
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

/// What the group of a request may be called; the first that is there counts.
const USE_CASE: [&str; 3] = ["use_case", "label", "category"];

/// A CSV file with a header.
pub(super) fn csv(path: &Path) -> Result<RowReader, WorkloadError> {
    let table = Table::open(path)?;
    let prompt = table.wanted(&["prompt", "text"], "")?;
    let output = table.column(&["output_tokens", "max_tokens", "output_len", "output_length"])?;
    let mut use_case = None;
    for name in USE_CASE {
        use_case = use_case.or(table.column(&[name])?);
    }
    Ok(of_table(table, move |table| {
        let text = table.raw(prompt);
        if text.trim().is_empty() {
            return Err(table.bad("its prompt is empty".to_owned()));
        }
        let given = output.map(|at| table.field(at));
        let output = match given.filter(|text| !text.is_empty()) {
            Some(text) => match text.parse::<u64>() {
                Ok(n) => Some(n),
                Err(_) => {
                    return Err(table.bad(format!("`{text}` is not a number of output tokens")));
                }
            },
            None => None,
        };
        let label = use_case.map(|at| table.raw(at));
        Ok(Row {
            output,
            use_case: label.filter(|label| !label.is_empty()).map(str::to_owned),
            ..Row::new(Body::Prompt(Prompt::Text(text.into())))
        })
    }))
}

// Conversations in `ShareGPT`'s format.

/// Conversations as turns of a user and the answers to them, so many turns of each at most. Those in which the user says nothing are passed
/// over: the collected files have many, and they are no mistake.
pub(super) fn share_gpt(path: &Path, most: usize) -> Result<RowReader, WorkloadError> {
    of_values(path, move |_, conversation: Conversation| {
        let mut turns = turns(conversation.conversations);
        turns.truncate(most);
        Ok((!turns.is_empty()).then(|| Row::new(Body::Turns(turns))))
    })
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

// Batch files of the `OpenAI` API.

#[derive(Deserialize)]
struct BatchLine {
    url: String,
    body: Map<String, Value>,
}

/// Keys that the run decides on, not the file.
const OURS: [&str; 3] = ["model", "stream", "stream_options"];

/// Requests as bodies of the API. What this project has no noun for goes along in the body as it is.
pub(super) fn batch(path: &Path) -> Result<RowReader, WorkloadError> {
    of_values(path, |lines, BatchLine { url, mut body }| {
        if !url.trim_end_matches('/').ends_with("completions") {
            return Err(lines.bad(format!(
                "`{url}` is not supported; only chat/completions and completions are"
            )));
        }
        for key in OURS {
            body.remove(key);
        }
        let limits = ["max_completion_tokens", "max_tokens"].map(|key| body.remove(key));
        let limit = limits.into_iter().flatten().find(|limit| !limit.is_null());
        let number = |limit: &Value| {
            let wrong = || lines.bad(format!("`{limit}` is not a number of output tokens"));
            limit.as_u64().ok_or_else(wrong)
        };
        let output = limit.as_ref().map(number).transpose()?;
        let prompt = prompt(&mut body).map_err(|why| lines.bad(why))?;
        let sampling = sampling(&mut body);
        let own = Own {
            sampling: Some(sampling),
            extra_body: (!body.is_empty()).then_some(body),
        };
        Ok(Some(Row {
            output,
            ..Row::new(Body::Request(prompt, own))
        }))
    })
}

/// Takes the prompt out of the body. Messages that are more than plain text stay in it and win over the prompt.
fn prompt(body: &mut Map<String, Value>) -> Result<Prompt, String> {
    if let Some(messages) = body.remove("messages") {
        let Value::Array(items) = &messages else {
            return Err("`messages` is not a list".to_owned());
        };
        let plain: Option<Vec<Message>> = items.iter().map(message).collect();
        if let Some(plain) = plain.filter(|plain| !plain.is_empty()) {
            return Ok(Prompt::Messages(plain));
        }
        let texts: Vec<Message> = items.iter().map(text_only).collect();
        if texts.is_empty() {
            return Err("`messages` is empty".to_owned());
        }
        body.insert("messages".to_owned(), messages);
        return Ok(Prompt::Messages(texts));
    }
    match body.remove("prompt") {
        Some(Value::String(text)) => Ok(Prompt::Text(text.into())),
        Some(Value::Array(ids)) => {
            let id = |id: &Value| id.as_u64().and_then(|id| u32::try_from(id).ok());
            let ids: Option<Vec<u32>> = ids.iter().map(id).collect();
            ids.map(Prompt::TokenIds)
                .ok_or_else(|| "only one prompt per request is supported".to_owned())
        }
        _ => Err("the body has neither `messages` nor `prompt`".to_owned()),
    }
}

/// A message of a role and a text, and nothing else.
fn message(value: &Value) -> Option<Message> {
    let map = value.as_object().filter(|map| map.len() == 2)?;
    let role = role(map.get("role")?.as_str()?)?;
    let content = map.get("content")?.as_str()?.into();
    Some(Message { role, content })
}

fn role(name: &str) -> Option<Role> {
    let roles = [Role::System, Role::User, Role::Assistant];
    roles.into_iter().find(|role| role.as_str() == name)
}

/// What can be read of a message, for its length.
fn text_only(value: &Value) -> Message {
    let name = value.get("role").and_then(Value::as_str).unwrap_or("user");
    let content = match value.get("content") {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) => {
            let texts = parts.iter().filter_map(|part| part.get("text")?.as_str());
            texts.collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    };
    Message {
        role: role(name).unwrap_or(Role::User),
        content: content.into(),
    }
}

/// Takes the sampling parameters that have names here out of the body.
fn sampling(body: &mut Map<String, Value>) -> Sampling {
    let stop = match body.remove("stop") {
        Some(Value::String(text)) => vec![text],
        Some(Value::Array(texts)) => texts
            .iter()
            .filter_map(|t| t.as_str().map(str::to_owned))
            .collect(),
        _ => Vec::new(),
    };
    let mut number = |key: &str| body.remove(key).and_then(|value| value.as_f64());
    let mut sampling = Sampling {
        temperature: number("temperature"),
        top_p: number("top_p"),
        min_p: number("min_p"),
        frequency_penalty: number("frequency_penalty"),
        presence_penalty: number("presence_penalty"),
        repetition_penalty: number("repetition_penalty"),
        stop,
        ..Sampling::default()
    };
    sampling.top_k = body.remove("top_k").and_then(|value| value.as_i64());
    sampling.seed = body.remove("seed").and_then(|value| value.as_i64());
    sampling
}
