//! An API as a table: its path, how its prompts and parameters are called, and the function that reads its documents. The rest is
//! said here, once.

use std::borrow::Cow;

use bench_schema::{GenerationRequest, Message, Prompt, Role};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::protocol::{DecodeError, Delta, Document, Framing, Protocol, ProtocolOptions};

/// What is particular about an API that asks with one JSON object and answers with JSON documents.
#[derive(Debug)]
pub(crate) struct Api {
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

/// What an API calls the parameters of a request: as the command line does where nothing else is said. Those that it has no name for
/// are left out, and reported.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parameters {
    /// The object that they stand in, where it is not the body itself.
    pub(crate) within: Option<&'static str>,
    /// Whether tokens are generated at all, so that sampling has a meaning.
    pub(crate) samples: bool,
    /// Whether a temperature of 0 is refused: greedy is what the server does when it is not told to sample.
    pub(crate) greedy_is_unsaid: bool,
    /// Those that it has no name for, with blanks between.
    pub(crate) without: &'static str,
    /// Those that it has another name for: `theirs=its`, with blanks between.
    pub(crate) renamed: &'static str,
    /// Members beside them that no other API has.
    pub(crate) more: fn(&mut Object<'_>, &GenerationRequest),
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

/// What a request may say of its answer, by the names of the command line; the limit first.
pub(crate) const ASKED: &str = "max_tokens min_tokens ignore_eos temperature top_p top_k min_p \
    frequency_penalty presence_penalty repetition_penalty seed stop";

/// What this one says. `None` is left to the server.
pub(crate) fn asked(request: &GenerationRequest) -> [(&'static str, Option<Value>); 12] {
    let sampling = &request.sampling;
    let stop = Some(&sampling.stop).filter(|stop| !stop.is_empty());
    let number = |number: Option<f64>| number.map(Value::from);
    [
        ("max_tokens", request.max_tokens.map(Value::from)),
        ("min_tokens", request.min_tokens.map(Value::from)),
        ("ignore_eos", request.ignore_eos.then_some(true.into())),
        ("temperature", number(sampling.temperature)),
        ("top_p", number(sampling.top_p)),
        ("top_k", sampling.top_k.map(Value::from)),
        ("min_p", number(sampling.min_p)),
        ("frequency_penalty", number(sampling.frequency_penalty)),
        ("presence_penalty", number(sampling.presence_penalty)),
        ("repetition_penalty", number(sampling.repetition_penalty)),
        ("seed", sampling.seed.map(Value::from)),
        ("stop", stop.map(|stop| stop.as_slice().into())),
    ]
}

impl Parameters {
    /// As vLLM, SGLang, llama-server and OpenAI itself (the standard ones) call them, which is as the command line does.
    pub(crate) const OPENAI: Self = Self {
        within: None,
        samples: true,
        greedy_is_unsaid: false,
        without: "",
        renamed: "",
        more: |_, _| {},
    };

    fn name_of(&self, parameter: &'static str) -> Option<&'static str> {
        let mut without = self.without.split(' ');
        let mut renamed = self
            .renamed
            .split(' ')
            .filter_map(|pair| pair.split_once('='));
        let renamed = renamed.find(|(from, _)| *from == parameter);
        let known = without.all(|name| name != parameter);
        known.then(|| renamed.map_or(parameter, |(_, to)| to))
    }

    /// Those that the request has. Sampling has none of a name where nothing is sampled.
    fn wanted(
        &self,
        request: &GenerationRequest,
    ) -> impl Iterator<Item = (&'static str, Value)> + use<> {
        /// Those that are about how many tokens are generated, and not about which.
        const LENGTHS: [&str; 3] = ["max_tokens", "min_tokens", "ignore_eos"];
        let samples = self.samples;
        asked(request).into_iter().filter_map(move |(name, value)| {
            let meant = samples || LENGTHS.contains(&name);
            Some((name, value.filter(|_| meant)?))
        })
    }

    fn write(&self, body: &mut Object<'_>, request: &GenerationRequest) {
        (self.more)(body, request);
        for (parameter, value) in self.wanted(request) {
            let unsaid =
                parameter == "temperature" && self.greedy_is_unsaid && value.as_f64() <= Some(0.0);
            if let Some(name) = self.name_of(parameter).filter(|_| !unsaid) {
                body.set(name, &value);
            }
        }
    }

    /// What the request asks for and the API has no name for. A limit is not among it: every request has one.
    fn missing(&self, request: &GenerationRequest) -> impl Iterator<Item = &'static str> {
        self.wanted(request)
            .map(|(parameter, _)| parameter)
            .filter(|&parameter| parameter != "max_tokens" && self.name_of(parameter).is_none())
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

    fn decode(&self, document: Document<'_>, out: &mut Delta) -> Result<(), DecodeError> {
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
