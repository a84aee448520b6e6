//! Text to ids and back: the vocabulary without a file, or a real `tokenizer.json`.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use tokenizers::Tokenizer;

use crate::EngineError;

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

// A tokenizer that needs no file, so that prompts and answers of the simulated engine count the same everywhere.
//
// A token is a run of letters and digits together with the white space before it, or any other single character. Each
// id has a word of its own, made of two-letter syllables, so text that the engine wrote is cut into the same ids again.

const CONSONANTS: &[u8; 16] = b"bdfghjklmnprstvz";
const VOWELS: &[u8; 4] = b"aeio";

/// The words of ids `0..size`.
#[derive(Debug)]
pub struct Vocabulary {
    words: Vec<String>,
}

impl Vocabulary {
    /// `size` words; at least one.
    pub fn new(size: u32) -> Self {
        Self {
            words: (0..size.max(1)).map(word).collect(),
        }
    }

    /// How many ids there are.
    pub fn size(&self) -> u32 {
        u32::try_from(self.words.len()).unwrap_or(u32::MAX)
    }

    /// The text of an id, with its leading space; empty for an id that does not exist.
    pub fn piece(&self, id: u32) -> &str {
        self.words.get(id as usize).map_or("", String::as_str)
    }

    /// Cuts text into ids: words of the vocabulary to their own id, everything else to one by its hash.
    pub fn encode(&self, text: &str) -> Vec<u32> {
        let mut ids = Vec::with_capacity(text.len() / 5 + 1);
        let mut word_start = None;
        for (at, c) in text.char_indices() {
            if c.is_alphanumeric() {
                word_start.get_or_insert(at);
                continue;
            }
            if let Some(start) = word_start.take() {
                ids.push(self.id_of(&text[start..at]));
            }
            if !c.is_whitespace() {
                ids.push(self.id_of(&text[at..at + c.len_utf8()]));
            }
        }
        if let Some(start) = word_start {
            ids.push(self.id_of(&text[start..]));
        }
        ids
    }

    /// The text of ids, one after the other.
    pub fn decode(&self, ids: &[u32]) -> String {
        ids.iter().map(|id| self.piece(*id)).collect()
    }

    fn id_of(&self, piece: &str) -> u32 {
        match number_of(piece) {
            Some(id) if self.piece(id).trim_start() == piece => id,
            _ => fnv(piece.as_bytes()) % self.size(),
        }
    }
}

/// The word of an id: its base-64 digits, lowest first, as syllables, always at least two.
fn word(id: u32) -> String {
    let mut out = String::from(" ");
    let mut rest = id;
    for at in 0.. {
        let digit = (rest % 64) as usize;
        // Both halves of a digit are inside their tables.
        write!(
            out,
            "{}{}",
            char::from(CONSONANTS[digit / 4]),
            char::from(VOWELS[digit % 4])
        )
        .ok();
        rest /= 64;
        if rest == 0 && at >= 1 {
            break;
        }
    }
    out
}

fn number_of(piece: &str) -> Option<u32> {
    let bytes = piece.as_bytes();
    if bytes.len() < 4 || bytes.len() > 12 || !bytes.len().is_multiple_of(2) {
        return None;
    }
    let mut id: u64 = 0;
    for pair in bytes.chunks_exact(2).rev() {
        let consonant = CONSONANTS.iter().position(|c| *c == pair[0])?;
        let vowel = VOWELS.iter().position(|v| *v == pair[1])?;
        id = id * 64 + (consonant * 4 + vowel) as u64;
    }
    u32::try_from(id).ok()
}

/// FNV-1a, 32 bits: stable across versions, unlike the standard hasher.
fn fnv(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| {
        (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
    })
}

#[cfg(test)]
#[path = "../tests/unit/text.rs"]
mod tests;
