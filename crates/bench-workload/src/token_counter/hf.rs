//! A tokenizer from a `tokenizer.json`.

use std::collections::HashSet;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use tokenizers::Tokenizer;

use super::pieces::Pieces;
use super::{Measured, TokenCounter};
use crate::builtin_prompts::WordPool;
use crate::{WorkloadError, bounded};

/// Enough for prompts that do not repeat; looking for more only delays the start with large vocabularies.
const POOL_WORDS: usize = 8192;

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
    ///
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
        let tokenizer = Tokenizer::from_bytes(bytes).map_err(|cause| wrong(cause.to_string()))?;
        Ok(Self::new(tokenizer, file.display().to_string()))
    }

    /// Around a tokenizer that is already there. Its own truncation and padding are switched off: they would lie about lengths.
    pub fn new(mut tokenizer: Tokenizer, name: impl Into<String>) -> Self {
        drop(tokenizer.with_truncation(None));
        tokenizer.with_padding(None);
        Self {
            name: name.into(),
            tokenizer,
            pieces: Pieces::default(),
            pool: OnceLock::new(),
            ids: OnceLock::new(),
        }
    }

    /// Where it was read from.
    pub fn source(&self) -> &str {
        &self.name
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

    /// Ids that are neither special nor added, in order.
    fn plain_ids(&self) -> Vec<u32> {
        let added: HashSet<u32> = self
            .tokenizer
            .get_added_tokens_decoder()
            .into_keys()
            .collect();
        let vocabulary = self.tokenizer.get_vocab(false);
        let mut ids: Vec<u32> = vocabulary
            .into_values()
            .filter(|id| !added.contains(id))
            .collect();
        ids.sort_unstable();
        ids
    }

    /// Words of letters that are one token where they follow a blank; first those that are one token at the start, too.
    fn single_words(&self) -> Result<WordPool, WorkloadError> {
        let mut seen = HashSet::new();
        let (mut heads, mut others) = (Vec::new(), Vec::new());
        for id in self.plain_ids() {
            if heads.len() + others.len() >= POOL_WORDS {
                break;
            }
            let Ok(text) = self.tokenizer.decode(&[id], true) else {
                continue;
            };
            let word = text.trim();
            let plain = word.len() >= 2 && word.bytes().all(|b| b.is_ascii_lowercase());
            if !plain || !seen.insert(word.to_owned()) {
                continue;
            }
            let alone = self.count(word)?;
            if self.count(&format!("{word} {word}"))? == alone + 1 {
                let list = if alone == 1 { &mut heads } else { &mut others };
                list.push(word.to_owned());
            }
        }
        Ok(WordPool::new(&heads, &others))
    }
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
                why: "it has no word of letters that is one token".to_owned(),
            });
        }
        Ok(Arc::clone(self.pool.get_or_init(|| pool)))
    }

    fn ids(&self) -> Option<Arc<[u32]>> {
        Some(Arc::clone(self.ids.get_or_init(|| self.plain_ids().into())))
    }
}
