//! An API as a table: its path, how its prompts and parameters are called, and the function that reads its documents. The rest is said here, once.

use std::borrow::Cow;

use bench_schema::{GenerationRequest, Message, Prompt, Role};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::protocol::{DecodeError, Delta, Frame, Framing, Protocol, ProtocolOptions};

/// What is particular about an API that asks with one JSON object and answers with JSON documents.
#[derive(Debug)]
pub(crate) struct Api {
    /// The name in `--api`.
    pub(crate) name: &'static str,
    /// Of an answer in one piece, and of a stream; `{model}` is the model's name.
    pub(crate) paths: [&'static str; 2],
    /// How a stream is cut; one document where nothing is streamed.
    pub(crate) framing: Framing,
    /// Whether a proper end of the transfer is the end marker.
    pub(crate) ends_with_transfer: bool,
    pub(crate) headers: &'static [(&'static str, &'static str)],
    /// The header of the API key, where it is not a bearer token.
    pub(crate) key_header: Option<&'static str>,
    /// Whether the body names the model.
    pub(crate) model: bool,
    /// Whether the body says that a stream is wanted.
    pub(crate) stream: bool,
    pub(crate) prompt: PromptForm,
    pub(crate) parameters: Parameters,
    /// Members that no other API has.
    pub(crate) more: fn(&mut Object<'_>, &GenerationRequest, &ProtocolOptions),
    pub(crate) read: fn(Document<'_>, &mut Delta) -> Result<(), DecodeError>,
    pub(crate) read_header: fn(&str, &str, &mut Delta),
}

/// Where a prompt is put. Token ids and conversations take the form of text where they have none of their own, and are reported.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PromptForm {
    /// `messages`.
    Messages,
    /// `messages`, and the system's turns under `system`.
    MessagesAndSystem,
    /// Messages, or one text, under this name.
    MessagesOrText(&'static str),
    /// One text under this name.
    Text(&'static str),
    /// One text under the first name, or token ids under the second.
    TextOrIds(&'static str, &'static str),
}

/// What an API calls the parameters of a request; those that it has no name for are left out, and reported.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parameters {
    /// The object that they stand in, where it is not the body itself.
    pub(crate) within: Option<&'static str>,
    /// Whether tokens are generated at all, so that sampling has a meaning. `temperature` and `top_p` are then called so everywhere.
    pub(crate) samples: bool,
    /// Whether a temperature of 0 is refused: greedy is what the server does when it is not told to sample.
    pub(crate) greedy_is_unsaid: bool,
    pub(crate) max_tokens: Option<&'static str>,
    pub(crate) min_tokens: Option<&'static str>,
    pub(crate) ignore_eos: Option<&'static str>,
    pub(crate) top_k: Option<&'static str>,
    pub(crate) min_p: Option<&'static str>,
    pub(crate) frequency_penalty: Option<&'static str>,
    pub(crate) presence_penalty: Option<&'static str>,
    pub(crate) repetition_penalty: Option<&'static str>,
    pub(crate) seed: Option<&'static str>,
    pub(crate) stop: Option<&'static str>,
    /// Members beside them that no other API has.
    pub(crate) more: fn(&mut Object<'_>, &GenerationRequest),
}

/// One document of an answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Document<'a> {
    pub(crate) data: &'a [u8],
    /// The event's type, where the stream gave one.
    pub(crate) event: &'a str,
    /// Whether it is the whole answer, rather than a piece of a stream.
    pub(crate) whole: bool,
}

/// An API, and what was chosen about it.
#[derive(Clone, Debug)]
pub(crate) struct ApiProtocol {
    pub(crate) api: &'static Api,
    pub(crate) options: ProtocolOptions,
}

impl Api {
    /// The commonest of everything.
    pub(crate) const COMMON: Self = Self {
        name: "",
        paths: ["", ""],
        framing: Framing::Sse,
        ends_with_transfer: false,
        headers: &[],
        key_header: None,
        model: true,
        stream: true,
        prompt: PromptForm::Messages,
        parameters: Parameters::OPENAI,
        more: |_, _, _| {},
        read: |_, _| Ok(()),
        read_header: |_, _, _| {},
    };
}

impl<'a> Document<'a> {
    pub(crate) fn parse<T: Deserialize<'a>>(self) -> Result<T, DecodeError> {
        super::json::parse(self.data)
    }
}

impl PromptForm {
    fn write(self, body: &mut Object<'_>, prompt: &Prompt) {
        match (self, prompt) {
            (Self::Messages, _) => body.set("messages", &messages(prompt)),
            (Self::MessagesAndSystem, _) => {
                let all = messages(prompt).into_owned().into_iter();
                let (system, turns): (Vec<_>, Vec<_>) =
                    all.partition(|message| message.role == Role::System);
                if !system.is_empty() {
                    body.set("system", &*plain_text(&Prompt::Messages(system)));
                }
                body.set("messages", &turns);
            }
            (Self::MessagesOrText(key), Prompt::Messages(messages)) => body.set(key, messages),
            (Self::TextOrIds(_, key), Prompt::TokenIds(ids)) => body.set(key, ids),
            (Self::MessagesOrText(key) | Self::Text(key) | Self::TextOrIds(key, _), _) => {
                body.set(key, &*plain_text(prompt));
            }
        }
    }

    fn takes_ids(self) -> bool {
        matches!(self, Self::TextOrIds(..))
    }

    fn takes_conversations(self) -> bool {
        !matches!(self, Self::Text(_) | Self::TextOrIds(..))
    }
}

impl Parameters {
    /// As vLLM, SGLang, llama-server and OpenAI itself (the standard ones) call them.
    pub(crate) const OPENAI: Self = Self {
        samples: true,
        max_tokens: Some("max_tokens"),
        min_tokens: Some("min_tokens"),
        ignore_eos: Some("ignore_eos"),
        top_k: Some("top_k"),
        min_p: Some("min_p"),
        frequency_penalty: Some("frequency_penalty"),
        presence_penalty: Some("presence_penalty"),
        repetition_penalty: Some("repetition_penalty"),
        seed: Some("seed"),
        stop: Some("stop"),
        ..Self::NONE
    };

    /// None of them.
    pub(crate) const NONE: Self = Self {
        within: None,
        samples: false,
        greedy_is_unsaid: false,
        max_tokens: None,
        min_tokens: None,
        ignore_eos: None,
        top_k: None,
        min_p: None,
        frequency_penalty: None,
        presence_penalty: None,
        repetition_penalty: None,
        seed: None,
        stop: None,
        more: |_, _| {},
    };

    fn write(&self, body: &mut Object<'_>, request: &GenerationRequest) {
        let sampling = &request.sampling;
        (self.more)(body, request);
        body.set_named(self.max_tokens, request.max_tokens);
        body.set_named(self.min_tokens, request.min_tokens);
        body.set_named(self.ignore_eos, request.ignore_eos.then_some(true));
        if self.samples {
            let said = |&temperature: &f64| temperature > 0.0 || !self.greedy_is_unsaid;
            body.set_some("temperature", sampling.temperature.filter(said));
            body.set_some("top_p", sampling.top_p);
        }
        body.set_named(self.top_k, sampling.top_k);
        body.set_named(self.min_p, sampling.min_p);
        body.set_named(self.frequency_penalty, sampling.frequency_penalty);
        body.set_named(self.presence_penalty, sampling.presence_penalty);
        body.set_named(self.repetition_penalty, sampling.repetition_penalty);
        body.set_named(self.seed, sampling.seed);
        let stop = Some(&sampling.stop).filter(|stop| !stop.is_empty());
        body.set_named(self.stop, stop);
    }

    /// What the request asks for and the API has no name for. A limit is not among it: every request has one.
    fn missing(&self, request: &GenerationRequest) -> Vec<&'static str> {
        let sampling = &request.sampling;
        let limits = [
            (self.min_tokens, request.min_tokens.is_some(), "min_tokens"),
            (self.ignore_eos, request.ignore_eos, "ignore_eos"),
        ];
        let samplers = [
            (self.top_k, sampling.top_k.is_some(), "top_k"),
            (self.min_p, sampling.min_p.is_some(), "min_p"),
            (
                self.frequency_penalty,
                sampling.frequency_penalty.is_some(),
                "frequency_penalty",
            ),
            (
                self.presence_penalty,
                sampling.presence_penalty.is_some(),
                "presence_penalty",
            ),
            (
                self.repetition_penalty,
                sampling.repetition_penalty.is_some(),
                "repetition_penalty",
            ),
            (self.seed, sampling.seed.is_some(), "seed"),
            (self.stop, !sampling.stop.is_empty(), "stop"),
        ];
        let samplers = samplers.into_iter().filter(|_| self.samples);
        limits
            .into_iter()
            .chain(samplers)
            .filter(|(key, wanted, _)| *wanted && key.is_none())
            .map(|(_, _, name)| name)
            .collect()
    }
}

impl Protocol for ApiProtocol {
    fn name(&self) -> &'static str {
        self.api.name
    }

    fn path(&self, model: &str, streaming: bool) -> Cow<'_, str> {
        let [whole, streamed] = self.api.paths;
        let path = if streaming { streamed } else { whole };
        path.replace("{model}", model).into()
    }

    fn streams(&self) -> bool {
        self.api.framing != Framing::Json
    }

    fn framing(&self, streaming: bool) -> Framing {
        if streaming {
            self.api.framing
        } else {
            Framing::Json
        }
    }

    fn body(&self, request: &GenerationRequest, model: &str) -> Vec<u8> {
        let Api { parameters, .. } = self.api;
        let mut body = Object::new(request.extra_body.as_deref(), room(&request.prompt));
        if self.api.model {
            body.set("model", model);
        }
        self.api.prompt.write(&mut body, &request.prompt);
        if self.api.stream {
            body.set("stream", &request.stream);
        }
        (self.api.more)(&mut body, request, &self.options);
        match parameters.within {
            None => parameters.write(&mut body, request),
            Some(key) => body.nest(key, |inner| parameters.write(inner, request)),
        }
        body.finish()
    }

    fn unsupported(&self, request: &GenerationRequest) -> Vec<&'static str> {
        let Api {
            prompt, parameters, ..
        } = self.api;
        let mut found = Vec::new();
        if request.stream && !self.streams() {
            found.push("stream");
        }
        if matches!(request.prompt, Prompt::TokenIds(_)) && !prompt.takes_ids() {
            found.push("token-id prompts");
        }
        found.extend(parameters.missing(request));
        if is_conversation(&request.prompt) && !prompt.takes_conversations() {
            found.push("conversations");
        }
        found
    }

    fn extra_headers(&self) -> &'static [(&'static str, &'static str)] {
        self.api.headers
    }

    fn auth_header(&self, key: &str) -> (&'static str, String) {
        match self.api.key_header {
            Some(name) => (name, key.to_owned()),
            None => super::bearer(key),
        }
    }

    fn ends_with_transfer(&self) -> bool {
        self.api.ends_with_transfer
    }

    fn decode(&self, frame: Frame<'_>, out: &mut Delta) -> Result<(), DecodeError> {
        let document = Document {
            data: frame.data,
            event: frame.event,
            whole: false,
        };
        (self.api.read)(document, out)
    }

    fn decode_whole(&self, body: &[u8], out: &mut Delta) -> Result<(), DecodeError> {
        let document = Document {
            data: body,
            event: "",
            whole: true,
        };
        (self.api.read)(document, out)
    }

    fn header(&self, name: &str, value: &str, out: &mut Delta) {
        (self.api.read_header)(name, value, out);
    }
}

/// Whether there are several turns.
pub(crate) fn is_conversation(prompt: &Prompt) -> bool {
    matches!(prompt, Prompt::Messages(messages) if messages.len() > 1)
}

/// The prompt as a conversation.
pub(crate) fn messages(prompt: &Prompt) -> Cow<'_, [Message]> {
    let content = match prompt {
        Prompt::Messages(messages) => return Cow::Borrowed(messages),
        Prompt::Text(text) => text.clone(),
        Prompt::TokenIds(_) => plain_text(prompt).into(),
    };
    Cow::Owned(vec![Message {
        role: Role::User,
        content,
    }])
}

/// The prompt as one text: a conversation's turns on lines of their own, token ids as decimal numbers (which no one wants).
pub(crate) fn plain_text(prompt: &Prompt) -> Cow<'_, str> {
    match prompt {
        Prompt::Text(text) => Cow::Borrowed(text),
        Prompt::Messages(messages) => {
            let turns: Vec<&str> = messages.iter().map(|message| &*message.content).collect();
            turns.join("\n").into()
        }
        Prompt::TokenIds(ids) => {
            let ids: Vec<String> = ids.iter().map(u32::to_string).collect();
            ids.join(" ").into()
        }
    }
}

/// Room for a body with this prompt, so that it is written without growing.
fn room(prompt: &Prompt) -> usize {
    let prompt = match prompt {
        Prompt::Text(text) => text.len(),
        Prompt::Messages(messages) => messages.iter().map(|m| m.content.len() + 40).sum(),
        Prompt::TokenIds(ids) => ids.len() * 7,
    };
    prompt + prompt / 8 + 512
}

// Writes a request's JSON straight into its buffer, with the user's extra keys merged over it.

/// A JSON object under construction. A key that the extra object has is written by the extra object, unless both are objects:
/// those are merged.
pub(crate) struct Object<'a> {
    out: Vec<u8>,
    extra: Option<&'a Map<String, Value>>,
    /// Extra keys that were merged into a nested object, and are done.
    merged: Vec<&'static str>,
}

impl<'a> Object<'a> {
    /// An object with `extra` over it, and room for `bytes`.
    pub(crate) fn new(extra: Option<&'a Map<String, Value>>, bytes: usize) -> Self {
        let mut out = Vec::with_capacity(bytes);
        out.push(b'{');
        Self {
            out,
            extra,
            merged: Vec::new(),
        }
    }

    /// A member.
    pub(crate) fn set<T: Serialize + ?Sized>(&mut self, key: &'static str, value: &T) {
        if self.extra.is_some_and(|extra| extra.contains_key(key)) {
            return;
        }
        self.write(key, value);
    }

    /// A member, where there is a value.
    pub(crate) fn set_some<T: Serialize>(&mut self, key: &'static str, value: Option<T>) {
        if let Some(value) = value {
            self.set(key, &value);
        }
    }

    /// A member, where it has a name and a value.
    pub(crate) fn set_named<T: Serialize>(&mut self, key: Option<&'static str>, value: Option<T>) {
        if let Some(key) = key {
            self.set_some(key, value);
        }
    }

    /// A nested object.
    pub(crate) fn nest(&mut self, key: &'static str, fill: impl FnOnce(&mut Object<'_>)) {
        let inner = match self.extra.and_then(|extra| extra.get(key)) {
            Some(Value::Object(inner)) => Some(inner),
            Some(_) => return,
            None => None,
        };
        let mut nested = Object::new(inner, 256);
        fill(&mut nested);
        let bytes = nested.finish();
        self.member(key, |out| {
            out.extend_from_slice(&bytes);
            Ok(())
        });
        self.merged.push(key);
    }

    /// The object's bytes.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        for (key, value) in self.extra.into_iter().flatten() {
            if !self.merged.contains(&key.as_str()) {
                self.write(key, value);
            }
        }
        self.out.push(b'}');
        self.out
    }

    fn write<T: Serialize + ?Sized>(&mut self, key: &str, value: &T) {
        self.member(key, |out| serde_json::to_writer(out, value));
    }

    /// A key and what `write` puts behind it. Writing into memory fails only for a map whose keys are no strings, and none is
    /// passed here; the member would then be left out.
    fn member(&mut self, key: &str, write: impl FnOnce(&mut Vec<u8>) -> serde_json::Result<()>) {
        let before = self.out.len();
        if before > 1 {
            self.out.push(b',');
        }
        let written = serde_json::to_writer(&mut self.out, key).and_then(|()| {
            self.out.push(b':');
            write(&mut self.out)
        });
        if written.is_err() {
            self.out.truncate(before);
        }
    }
}
