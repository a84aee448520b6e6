//! Texts of an exact length.

use crate::builtin_prompts::WordPool;
use crate::{Draw, Measured, TokenCounter, WorkloadError};

/// Repairs of a text before giving up. Pools of single-token words need none or one; the rest is for words of unknown length.
const REPAIRS: u32 = 64;

/// Makes texts of exact lengths, by adding and cutting whole words and counting again.
pub(crate) struct Fitter<'a> {
    pub(crate) token_counter: &'a dyn TokenCounter,
    pub(crate) pool: &'a WordPool,
}

impl Fitter<'_> {
    /// Random words of exactly this length.
    pub(crate) fn random(&self, length: u64, draw: &mut Draw) -> Result<String, WorkloadError> {
        // The guess is right for words and for single-token pools, whatever the language of the tokenizer.
        let mut text =
            String::with_capacity(usize::try_from(length).unwrap_or(0).saturating_mul(7));
        self.pool.write(length, draw, &mut text);
        if !self.token_counter.counts_tokens() {
            return Ok(text); // so many words were written; counting them again costs more than writing them
        }
        self.settle(text, length, draw)
    }

    /// This text, lengthened or shortened at its end by words of the pool until it has exactly this length.
    pub(crate) fn settle(
        &self,
        mut text: String,
        length: u64,
        draw: &mut Draw,
    ) -> Result<String, WorkloadError> {
        let mut nearest = None::<u64>;
        for _ in 0..REPAIRS {
            let count = self.token_counter.count(&text)?;
            if count == length {
                return Ok(text);
            }
            if nearest.is_none_or(|best| count.abs_diff(length) < best.abs_diff(length)) {
                nearest = Some(count);
            }
            if count < length {
                // From words of unknown length only half of what is missing at once, so as not to run past it.
                for _ in 0..(length - count).div_ceil(2) {
                    self.append(&mut text, draw);
                }
            } else {
                for _ in 0..(count - length).div_ceil(2) {
                    drop_word(&mut text);
                }
                if text.is_empty() {
                    text.push_str(self.pool.head(draw));
                }
            }
        }
        Err(WorkloadError::Inexact {
            asked: length,
            nearest: nearest.unwrap_or(0),
            token_counter: self.token_counter.name().to_owned(),
        })
    }

    /// One more word.
    pub(crate) fn append(&self, text: &mut String, draw: &mut Draw) {
        if text.is_empty() {
            text.push_str(self.pool.head(draw));
        } else {
            text.push_str(self.pool.next(draw));
        }
    }

    /// The start of `text` that has exactly this length; `more` is asked for more text while there is too little.
    pub(crate) fn cut(
        &self,
        mut text: String,
        length: u64,
        draw: &mut Draw,
        more: impl Fn(&mut Draw) -> &'static str,
    ) -> Result<String, WorkloadError> {
        // No word is less than one token, so more words than tokens are never needed.
        shorten(&mut text, length);
        let guess = length as f64 * self.token_counter.words_per_unit();
        let mut words = crate::token_counter::count_words(&text);
        let mut grow_to = guess * 1.15 + 8.0;
        let mut measured = Measured {
            tokens: 0,
            end: None,
            is_exact: false,
        };
        while measured.tokens < length {
            while (words as f64) < grow_to {
                let sentence = more(draw);
                if !text.is_empty() {
                    text.push(' ');
                }
                text.push_str(sentence);
                words += crate::token_counter::count_words(sentence);
            }
            measured = self.token_counter.measure(&text, length)?;
            grow_to *= 1.25;
        }
        let text = match measured.end {
            Some(end) if measured.is_exact => {
                text.truncate(end);
                return Ok(text);
            }
            Some(end) => words_before(text, end),
            None => self.longest_start(text, length, measured.tokens)?,
        };
        self.settle(text, length, draw)
    }

    /// The most whole words from the start that do not exceed the length, by interpolation between two bounds.
    fn longest_start(
        &self,
        mut text: String,
        length: u64,
        whole: u64,
    ) -> Result<String, WorkloadError> {
        let ends = word_ends(&text);
        let (mut low, mut low_count) = (0, 0);
        let (mut high, mut high_count) = (ends.len(), whole);
        let start = |at: usize| {
            at.checked_sub(1)
                .and_then(|i| ends.get(i))
                .copied()
                .unwrap_or(0)
        };
        let mut halve = false;
        while high_count > length && high - low > 1 {
            let span = (high - low) as u64;
            let step = if halve {
                span / 2
            } else {
                (length - low_count) * span / (high_count - low_count).max(1)
            };
            let step = usize::try_from(step).unwrap_or(1).clamp(1, high - low - 1);
            let middle = low + step;
            let count = self
                .token_counter
                .count(text.get(..start(middle)).unwrap_or(""))?;
            if count > length {
                (high, high_count) = (middle, count);
            } else {
                (low, low_count) = (middle, count);
            }
            if low_count == length {
                break;
            }
            halve = !halve && high - low > 4;
        }
        let keep = if high_count <= length { high } else { low };
        text.truncate(start(keep));
        Ok(text)
    }
}

/// Longer words than this may be cut inside: they are texts of scripts that have no blanks, or no words at all.
pub(crate) const LONG_WORD: usize = 32;

/// Byte offsets at which a text may be cut: where words end, and inside of long ones between any two characters.
fn word_ends(text: &str) -> Vec<usize> {
    let base = text.as_ptr() as usize;
    let mut ends = Vec::new();
    for word in text.split_whitespace() {
        let start = word.as_ptr() as usize - base;
        if word.len() > LONG_WORD {
            ends.extend(word.char_indices().skip(1).map(|(at, _)| start + at));
        }
        ends.push(start + word.len());
    }
    ends
}

/// The whole words that end at or before this byte.
fn words_before(mut text: String, end: usize) -> String {
    let ends = word_ends(&text).into_iter();
    let whole = ends.take_while(|word| *word <= end).last();
    text.truncate(whole.unwrap_or(0));
    text
}

/// Keeps so many words.
fn shorten(text: &mut String, words: u64) {
    let base = text.as_ptr() as usize;
    let beyond = usize::try_from(words)
        .ok()
        .and_then(|n| text.split_whitespace().nth(n));
    if let Some(word) = beyond {
        let end = word.as_ptr() as usize - base;
        text.truncate(end);
    }
}

fn drop_word(text: &mut String) {
    let kept = text.trim_end();
    let blank = kept.char_indices().rev().find(|(_, c)| c.is_whitespace());
    let start = blank.map_or(0, |(at, c)| at + c.len_utf8());
    let end = match kept.char_indices().next_back() {
        Some((last, _)) if kept.len() - start > LONG_WORD => last,
        _ => kept
            .get(..start)
            .map_or(0, |before| before.trim_end().len()),
    };
    text.truncate(end);
}

#[cfg(test)]
#[path = "../tests/unit/fit.rs"]
mod tests;
