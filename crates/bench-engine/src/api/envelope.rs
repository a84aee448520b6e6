//! What stands around the choices in OpenAI's chat and completions APIs.

use std::io::Write as _;

use serde_json::{Value, json};

use super::dialect::{Usage, Whole};
use super::parameters::{Common, UsageWish};
use crate::clock::unix_seconds;
use crate::engine::GenRequest;
use crate::fault::{FaultKind, FaultSet};
use crate::http::Events;
use crate::local::Local;

/// Writes events whose choices the dialect writes, and whole answers.
pub(super) struct Envelope {
    id: String,
    created: i64,
    /// As JSON, quotes included.
    model: String,
    /// What an event calls itself.
    object: &'static str,
    usage: UsageWish,
    /// Whether ids were asked for.
    pub(super) token_ids: bool,
    pub(super) faults: FaultSet,
    /// The event that is being written.
    pub(super) payload: Vec<u8>,
}

impl Envelope {
    /// For the answer to one request; its id begins with `prefix`.
    pub(super) fn new(
        local: &Local,
        common: &Common,
        sequences: &[GenRequest],
        faults: &FaultSet,
        (prefix, object): (&str, &'static str),
    ) -> Self {
        let seed = sequences.first().map_or(0, |s| crate::fault::mix(s.seed));
        Self {
            id: format!("{prefix}-{seed:016x}"),
            created: unix_seconds(),
            model: serde_json::to_string(&local.server.config.model).unwrap_or_default(),
            object,
            usage: common.usage_wish(faults),
            token_ids: common.return_token_ids.unwrap_or(false),
            faults: faults.clone(),
            payload: Vec::with_capacity(512),
        }
    }

    /// The beginning of every event, up to the choices.
    pub(super) fn begin(&mut self) {
        self.payload.clear();
        // Writing to memory cannot fail.
        write!(
            self.payload,
            "{{\"id\":\"{}\",\"object\":\"{}\",\"created\":{},\"model\":{},\"choices\":[",
            self.id, self.object, self.created, self.model
        )
        .ok();
    }

    /// The end of an event with this usage, and the event.
    fn end(&mut self, events: &mut Events, usage: Option<Usage>) {
        self.payload.push(b']');
        if let Some(usage) = usage {
            write_usage(&mut self.payload, usage);
        }
        self.payload.push(b'}');
        events.data(&self.payload);
    }

    /// The end of an event that tells usage only where every event does.
    pub(super) fn end_plain(&mut self, events: &mut Events, usage: Usage) {
        let told = self.usage.always.then_some(usage);
        self.end(events, told);
    }

    /// The end of an event with a token.
    pub(super) fn end_piece(&mut self, events: &mut Events, usage: Usage, is_last: bool) {
        let told = self.usage.always || (self.usage.on_last && is_last);
        self.end(events, told.then_some(usage));
    }

    /// The end of an event that never tells usage.
    pub(super) fn end_silent(&mut self, events: &mut Events) {
        self.end(events, None);
    }

    /// The end of the stream.
    pub(super) fn close(&mut self, events: &mut Events, whole: &Whole) {
        if self.usage.at_end {
            self.begin();
            self.end(events, Some(whole.usage));
        }
        if !self.faults.has(FaultKind::NoDone) {
            events.data(b"[DONE]");
        }
    }

    /// Whether finish reasons are left out, together with the text, or apart.
    pub(super) fn finish_style(&self) -> (bool, bool) {
        (
            self.faults.has(FaultKind::NoFinish),
            self.faults.has(FaultKind::FinishApart),
        )
    }

    /// An answer in one piece.
    pub(super) fn whole(&self, object: &str, choices: &[Value], usage: Usage) -> Value {
        let mut answer = json!({
            "id": self.id, "object": object, "created": self.created,
            "model": serde_json::from_str::<Value>(&self.model).unwrap_or_default(), "choices": choices,
        });
        if !self.faults.has(FaultKind::NoUsage) {
            answer["usage"] = json!({
                "prompt_tokens": usage.prompt,
                "total_tokens": usage.prompt + usage.completion,
                "completion_tokens": usage.completion,
                "prompt_tokens_details": {"cached_tokens": usage.cached},
            });
        }
        answer
    }
}

/// `,"usage":{…}` as vLLM writes it.
fn write_usage(out: &mut Vec<u8>, usage: Usage) {
    write!(
        out,
        ",\"usage\":{{\"prompt_tokens\":{},\"total_tokens\":{},\"completion_tokens\":{}",
        usage.prompt,
        usage.prompt + usage.completion,
        usage.completion
    )
    .ok();
    if usage.cached > 0 {
        write!(
            out,
            ",\"prompt_tokens_details\":{{\"cached_tokens\":{}}}",
            usage.cached
        )
        .ok();
    }
    out.push(b'}');
}
