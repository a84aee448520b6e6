//! Text to ids and back: the vocabulary without a file, or a real `tokenizer.json`.

use std::path::Path;
use std::sync::Arc;

use tokenizers::Tokenizer;

use crate::error::EngineError;
use crate::vocabulary::Vocabulary;

/// How this server cuts text.
#[derive(Debug, Clone)]
pub(crate) enum Text {
    Words(Arc<Vocabulary>),
    Real(Arc<Tokenizer>),
}

/// Tokens that a chat message costs beside its text: role and separators.
const PER_MESSAGE: u32 = 4;
/// Tokens that open the answer.
const GENERATION_PROMPT: u32 = 3;

impl Text {
    pub(crate) fn words(size: u32) -> Self {
        Self::Words(Arc::new(Vocabulary::new(size)))
    }

    pub(crate) fn load(path: &Path) -> Result<Self, EngineError> {
        let tokenizer = Tokenizer::from_file(path).map_err(|error| EngineError::Format {
            path: path.to_owned(),
            reason: error.to_string(),
        })?;
        Ok(Self::Real(Arc::new(tokenizer)))
    }

    pub(crate) fn encode(&self, text: &str) -> Vec<u32> {
        match self {
            Self::Words(words) => words.encode(text),
            // A text that a tokenizer refuses has no tokens; none of the byte-level ones refuses any.
            Self::Real(real) => real
                .encode(text, false)
                .map(|e| e.get_ids().to_vec())
                .unwrap_or_default(),
        }
    }

    pub(crate) fn decode(&self, ids: &[u32]) -> String {
        match self {
            Self::Words(words) => words.decode(ids),
            Self::Real(real) => real.decode(ids, true).unwrap_or_default(),
        }
    }

    pub(crate) fn size(&self) -> u32 {
        match self {
            Self::Words(words) => words.size(),
            Self::Real(real) => u32::try_from(real.get_vocab_size(true)).unwrap_or(u32::MAX),
        }
    }

    /// The prompt of a conversation. The engine has no chat template: each message costs four ids beside its text, the
    /// opening of the answer three, chosen by role so that equal prefixes of conversations are equal prefixes of ids.
    pub(crate) fn encode_chat<'a>(
        &self,
        messages: impl Iterator<Item = (&'a str, &'a str)>,
    ) -> Vec<u32> {
        let size = self.size().max(1);
        let mark = |role: &str, at: u32| (role.bytes().map(u32::from).sum::<u32>() + at) % size;
        let mut ids = Vec::new();
        for (role, content) in messages {
            ids.extend((0..PER_MESSAGE).map(|at| mark(role, at)));
            ids.extend(self.encode(content));
        }
        ids.extend((0..GENERATION_PROMPT).map(|at| mark("assistant", at + PER_MESSAGE)));
        ids
    }

    pub(crate) fn decoder(&self) -> Decoder {
        Decoder {
            text: self.clone(),
            ids: Vec::new(),
            from: 0,
            given: 0,
        }
    }
}

/// Text of a growing sequence: gives each character once it is whole.
pub(crate) struct Decoder {
    text: Text,
    ids: Vec<u32>,
    /// Where the window begins that is decoded again, so that long answers do not cost their square.
    from: usize,
    /// Bytes of the window's text that were given.
    given: usize,
}

impl Decoder {
    /// Appends the new text of some more ids; nothing while a character is not complete.
    pub(crate) fn push(&mut self, ids: &[u32], out: &mut String) {
        let Text::Real(_) = &self.text else {
            if let Text::Words(words) = &self.text {
                for id in ids {
                    out.push_str(words.piece(*id));
                }
            }
            return;
        };
        self.ids.extend_from_slice(ids);
        let whole = self.text.decode(&self.ids[self.from..]);
        if whole.ends_with('\u{fffd}')
            || !whole.is_char_boundary(self.given)
            || whole.len() < self.given
        {
            return;
        }
        out.push_str(&whole[self.given..]);
        self.given = whole.len();
        if self.ids.len() - self.from > 16 {
            // Keep some context: a leading space may belong to the token before.
            self.from = self.ids.len() - 4;
            self.given = self.text.decode(&self.ids[self.from..]).len();
        }
    }
}
