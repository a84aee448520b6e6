//! Who says how long a text is.

mod model;
mod pieces;

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use tokenizers::DecoderWrapper;

use crate::builtin_prompts::WordPool;
use crate::{WorkloadError, bounded, builtin_prompts};
use model::Tokenizer;
use pieces::Pieces;

/// A text's length, and where a text of so many tokens would end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measured {
    /// Tokens of the whole text.
    pub tokens: u64,
    /// The byte at which the asked number of tokens ends, or the last whole word before it; absent where that is not known.
    pub end: Option<usize>,
    /// The text up to there was counted, and has exactly as many; what is cut there without that has to be counted again.
    pub is_exact: bool,
}

/// Counts the tokens of a text, special tokens and chat template excluded.
pub trait TokenCounter: Send + Sync + fmt::Debug {
    /// What results call it: `words`, `tokenizer`, `server /tokenize`.
    fn name(&self) -> &str;

    /// The length of a text.
    ///
    /// # Errors
    /// Where a tokenizer or a server fails.
    fn count(&self, text: &str) -> Result<u64, WorkloadError>;

    /// The length of a text, and where its first `length` tokens end.
    ///
    /// # Errors
    /// Where a tokenizer or a server fails.
    fn measure(&self, text: &str, _length: u64) -> Result<Measured, WorkloadError> {
        Ok(Measured {
            tokens: self.count(text)?,
            end: None,
            is_exact: false,
        })
    }

    /// Whether it counts tokens; words are only a stand-in for them.
    fn counts_tokens(&self) -> bool {
        true
    }

    /// Words that add exactly one to the length where they follow a blank, to build prompts from.
    ///
    /// # Errors
    /// Where a tokenizer fails.
    fn pool(&self) -> Result<Arc<WordPool>, WorkloadError> {
        Ok(Arc::new(WordPool::built_in()))
    }

    /// Ids that a prompt of token ids may hold (no special ones); absent where no vocabulary is known.
    fn ids(&self) -> Option<Arc<[u32]>> {
        None
    }

    /// How many words make one unit of length, about; the first guess when a text is cut to a length.
    fn words_per_unit(&self) -> f64 {
        0.75
    }
}

/// Counts words separated by whitespace.
#[derive(Clone, Copy, Debug, Default)]
pub struct Words;

impl TokenCounter for Words {
    fn name(&self) -> &'static str {
        "words"
    }

    fn count(&self, text: &str) -> Result<u64, WorkloadError> {
        Ok(count_words(text))
    }

    fn counts_tokens(&self) -> bool {
        false
    }

    fn words_per_unit(&self) -> f64 {
        1.0
    }
}

/// Words separated by whitespace.
pub(crate) fn count_words(text: &str) -> u64 {
    text.split_whitespace().count() as u64
}

// A counter that someone else brings.

/// Enough for prompts that do not repeat; each takes about one count to find.
const POOL_WORDS: usize = 512;

/// Below this many the words that are known to be single tokens would repeat too much.
const FEWEST: usize = 16;

/// Words that are asked about together at first.
const GROUP: usize = 8;

/// What stands before the words that are asked about, so that they follow a blank.
const ANCHOR: &str = "the";

/// A counter that someone else brings, such as a call of the server's `/tokenize`.
///
/// On first use a few hundred counts find words that are one token each; a random prompt then takes one to three, prose
/// about six. Keep one of these for a whole run.
pub struct CountWith<F> {
    name: String,
    count: F,
    pool: OnceLock<Arc<WordPool>>,
}

impl<F> CountWith<F>
where
    F: Fn(&str) -> Result<u64, String> + Send + Sync,
{
    /// With the name that results call it by; the function says why where it cannot count.
    pub fn new(name: impl Into<String>, count: F) -> Self {
        Self {
            name: name.into(),
            count,
            pool: OnceLock::new(),
        }
    }

    /// Those of the words that are one token each where they follow a blank. Words that add up to as many tokens as words
    /// are all single, so groups are asked about first and only mixed ones are halved.
    fn single_words<'w>(
        &self,
        before: u64,
        words: &[&'w str],
        found: &mut Vec<&'w str>,
    ) -> Result<(), WorkloadError> {
        if words.is_empty() || found.len() >= POOL_WORDS {
            return Ok(());
        }
        let tokens = self.count(&format!("{ANCHOR} {}", words.join(" ")))?;
        if tokens == before + words.len() as u64 {
            found.extend(words);
        } else if words.len() > 1 {
            let (one, other) = words.split_at(words.len() / 2);
            self.single_words(before, one, found)?;
            self.single_words(before, other, found)?;
        }
        Ok(())
    }
}

impl<F> fmt::Debug for CountWith<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CountWith")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl<F> TokenCounter for CountWith<F>
where
    F: Fn(&str) -> Result<u64, String> + Send + Sync,
{
    fn name(&self) -> &str {
        &self.name
    }

    fn count(&self, text: &str) -> Result<u64, WorkloadError> {
        (self.count)(text).map_err(|why| WorkloadError::Tokenizer {
            name: self.name.clone(),
            why,
        })
    }

    fn pool(&self) -> Result<Arc<WordPool>, WorkloadError> {
        if let Some(pool) = self.pool.get() {
            return Ok(Arc::clone(pool));
        }
        let before = self.count(ANCHOR)?;
        let words: Vec<&str> = builtin_prompts::WORDS.split_whitespace().collect();
        let mut found = Vec::new();
        for group in words.chunks(GROUP) {
            self.single_words(before, group, &mut found)?;
        }
        let pool = if found.len() < FEWEST {
            WordPool::built_in()
        } else {
            let found: Vec<String> = found.into_iter().map(str::to_owned).collect();
            WordPool::new(&[], &found)
        };
        Ok(Arc::clone(self.pool.get_or_init(|| Arc::new(pool))))
    }
}

// A tokenizer from a `tokenizer.json`.

/// Enough for prompts that do not repeat; looking for more only delays the start with large vocabularies.
const VOCABULARY_WORDS: usize = 8192;

/// A tokenizer of the Hugging Face format: exact lengths, where it is the one that the server uses.
pub struct HfTokenizer {
    name: String,
    tokenizer: Tokenizer,
    pieces: Pieces,
    pool: OnceLock<Arc<WordPool>>,
    ids: OnceLock<Arc<[u32]>>,
}

impl HfTokenizer {
    /// From a `tokenizer.json` or the folder that holds one. Nothing is downloaded.
    ///
    /// # Errors
    /// Where there is no such file, or it is no tokenizer.
    pub fn open(path: &Path) -> Result<Self, WorkloadError> {
        let file = if path.is_dir() {
            path.join("tokenizer.json")
        } else {
            path.to_owned()
        };
        let wrong = |why: String| WorkloadError::Tokenizer {
            name: file.display().to_string(),
            why,
        };
        let bytes = bounded::read(&file, "reading a tokenizer", bounded::TOKENIZER_BYTES).map_err(
            |error| match error {
                WorkloadError::File { cause, .. } => wrong(cause.to_string()),
                other => other,
            },
        )?;
        let tokenizer = model::parse(&bytes).map_err(|cause| wrong(cause.to_string()))?;
        Ok(Self {
            name: file.display().to_string(),
            tokenizer,
            pieces: Pieces::default(),
            pool: OnceLock::new(),
            ids: OnceLock::new(),
        })
    }

    #[expect(clippy::needless_pass_by_value, reason = "it is what map_err gives")]
    fn failed(&self, cause: tokenizers::Error) -> WorkloadError {
        WorkloadError::Tokenizer {
            name: self.name.clone(),
            why: cause.to_string(),
        }
    }

    fn by_pieces(&self, text: &str, length: u64) -> Result<Option<Measured>, WorkloadError> {
        let measured = self.pieces.measure(&self.tokenizer, text, length);
        measured.map_err(|cause| self.failed(cause))
    }

    /// Tokens that are neither special nor added, by their ids, in order.
    fn plain(&self) -> impl Iterator<Item = (u32, Cow<'_, str>)> {
        let added = self.tokenizer.get_added_tokens_decoder();
        let tokens = self.tokenizer.get_model().vocabulary();
        tokens.filter(move |(id, _)| !added.contains_key(id))
    }

    /// Words of letters that are one token where they follow a blank; first those that are one token at the start, too.
    fn single_words(&self) -> Result<WordPool, WorkloadError> {
        let by_bytes = matches!(
            self.tokenizer.get_decoder(),
            Some(DecoderWrapper::ByteLevel(_))
        );
        let mut seen = HashSet::new();
        let (mut heads, mut others) = (Vec::new(), Vec::new());
        for (id, token) in self.plain() {
            if heads.len() + others.len() >= VOCABULARY_WORDS {
                break;
            }
            let text = match by_bytes {
                true if has_other_letters(&token) => continue,
                true if token.is_ascii() => token.into_owned(),
                // which is a blank
                true if token.strip_prefix('\u{120}').is_some_and(str::is_ascii) => {
                    token.chars().skip(1).collect()
                }
                _ => match self.tokenizer.decode(&[id], true) {
                    Ok(text) => text,
                    Err(_) => continue,
                },
            };
            let word = text.trim();
            let plain = word.len() >= 2 && word.bytes().all(|b| b.is_ascii_lowercase());
            if !plain || !seen.insert(word.to_owned()) {
                continue;
            }
            match self.is_one(word)? {
                (true, true) => heads.push(word.to_owned()),
                (true, false) => others.push(word.to_owned()),
                (false, _) => {}
            }
        }
        Ok(WordPool::new(&heads, &others))
    }

    /// Whether a word is one token where it follows itself, and alone.
    fn is_one(&self, word: &str) -> Result<(bool, bool), WorkloadError> {
        let known = self.pieces.is_one(&self.tokenizer, word);
        if let Some(known) = known.map_err(|cause| self.failed(cause))? {
            return Ok(known);
        }
        let alone = self.count(word)?;
        let both = self.count(&format!("{word} {word}"))?;
        Ok((both == alone + 1, alone == 1))
    }
}

/// Whether a token of a byte-level vocabulary, in which blanks and what has no picture are letters beyond Latin-1, has any that is neither one
/// of these nor a small one of English.
fn has_other_letters(token: &str) -> bool {
    !token
        .chars()
        .all(|letter| letter.is_ascii_lowercase() || letter > '\u{ff}')
}

impl fmt::Debug for HfTokenizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HfTokenizer")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl TokenCounter for HfTokenizer {
    fn name(&self) -> &'static str {
        "tokenizer"
    }

    fn count(&self, text: &str) -> Result<u64, WorkloadError> {
        if let Some(measured) = self.by_pieces(text, 0)? {
            return Ok(measured.tokens);
        }
        let encoding = self.tokenizer.encode_fast(text, false);
        let encoding = encoding.map_err(|cause| self.failed(cause))?;
        Ok(encoding.len() as u64)
    }

    fn measure(&self, text: &str, length: u64) -> Result<Measured, WorkloadError> {
        if let Some(measured) = self.by_pieces(text, length)?
            && measured.end.is_some()
        {
            return Ok(measured);
        }
        let encoding = self.tokenizer.encode(text, false);
        let encoding = encoding.map_err(|cause| self.failed(cause))?;
        let last = usize::try_from(length).ok().and_then(|n| n.checked_sub(1));
        let end = last
            .and_then(|last| encoding.get_offsets().get(last))
            .map(|(_, end)| *end);
        Ok(Measured {
            tokens: encoding.len() as u64,
            end,
            // a token's last byte may lie within a word, and what is cut may be other tokens
            is_exact: false,
        })
    }

    fn pool(&self) -> Result<Arc<WordPool>, WorkloadError> {
        if let Some(pool) = self.pool.get() {
            return Ok(Arc::clone(pool));
        }
        let pool = Arc::new(self.single_words()?);
        if pool.is_empty() {
            return Err(WorkloadError::Tokenizer {
                name: self.name.clone(),
                why: "it has no one-token word of letters".to_owned(),
            });
        }
        Ok(Arc::clone(self.pool.get_or_init(|| pool)))
    }

    fn ids(&self) -> Option<Arc<[u32]>> {
        let ids = || self.plain().map(|(id, _)| id).collect();
        Some(Arc::clone(self.ids.get_or_init(ids)))
    }
}
