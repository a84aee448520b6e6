//! Counting the tokens of a text from its words, each of which is encoded once.
//!
//! Nearly every tokenizer cuts a text before a blank and never makes a token across it: then the counts of the parts add up to that
//! of the whole. Whether a tokenizer is one of these is found out before its words are trusted; texts of others are encoded whole.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{OnceLock, PoisonError, RwLock};

use tokenizers::{
    NormalizedString, Normalizer as _, OffsetReferential, OffsetType, PreTokenizedString,
    PreTokenizer as _,
};

use super::Measured;
use super::model::Tokenizer;
use crate::{Draw, Seed, builtin_prompts};

/// What stands before a word while it is encoded, so that it follows a blank.
const ANCHOR: &str = "the";
/// Words of one generation of the cache; two are kept.
const GENERATION: usize = 1 << 15;
/// Longer parts of a text are no words: they are encoded each time.
const LONGEST_KEPT: usize = 64;
/// Texts that are counted both ways before words are trusted, and the parts of each.
const TRIALS: u64 = 24;
const TRIAL_PARTS: u64 = 40;
/// Words whose pieces are looked at before the model is asked directly.
const CUT_TRIALS: usize = 128;

/// The counts of words by one tokenizer.
#[derive(Debug, Default)]
pub(super) struct Pieces {
    anchor: OnceLock<Option<Anchor>>,
    known: RwLock<WordCounts>,
}

/// What is known of a tokenizer whose words add up.
#[derive(Debug)]
struct Anchor {
    /// The ids of [`ANCHOR`] alone.
    ids: Vec<u32>,
    /// How small letters and digits are cut before the model sees them, where the model can then be asked directly: a salt, which no
    /// other text has, costs a tenth of what its encoding with all its offsets costs.
    cut: Option<Cut>,
    /// What the model sees in the place of the blank before a word of small letters, where it can then be asked directly.
    blank: Option<&'static str>,
}

/// How a word of small letters and digits is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cut {
    Nowhere,
    /// Between letters and digits, and digits into so many at most.
    Runs(usize),
}

/// Counts of the latest words, and of those before them. A word that is asked for again is kept; those that never are (salts) drop
/// out with their generation.
#[derive(Debug, Default)]
struct WordCounts {
    young: HashMap<Box<str>, Count>,
    old: HashMap<Box<str>, Count>,
}

/// Tokens of a part; absent where it does not stand for itself, so that its text has to be encoded whole.
type Count = Option<u32>;

impl Pieces {
    /// The tokens of a text and where so many of them end; `None` where the text has to be encoded whole.
    pub(super) fn measure(
        &self,
        tokenizer: &Tokenizer,
        text: &str,
        length: u64,
    ) -> tokenizers::Result<Option<Measured>> {
        let anchor = self.anchor.get_or_init(|| Anchor::of(tokenizer));
        match anchor {
            Some(anchor) if text.starts_with(|c: char| c.is_ascii_graphic()) => {
                self.sum(tokenizer, anchor, text, length)
            }
            _ => Ok(None),
        }
    }

    /// Whether a word is one token where it follows another, and alone; `None` where that is not the same in every text.
    pub(super) fn is_one(
        &self,
        tokenizer: &Tokenizer,
        word: &str,
    ) -> tokenizers::Result<Option<(bool, bool)>> {
        let anchor = self.anchor.get_or_init(|| Anchor::of(tokenizer));
        let Some(anchor) = anchor else {
            return Ok(None);
        };
        let follows = anchor.is_one(tokenizer, &[" ", word].concat())?;
        let alone = anchor.is_one(tokenizer, word)?;
        Ok(follows.zip(alone))
    }

    fn sum(
        &self,
        tokenizer: &Tokenizer,
        anchor: &Anchor,
        text: &str,
        length: u64,
    ) -> tokenizers::Result<Option<Measured>> {
        let mut sum = Sum::of(length);
        let mut new = Vec::new();
        {
            let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
            for part in parts(text) {
                let count = if let Some(count) = known.young.get(part) {
                    *count
                } else {
                    let before = known.old.get(part).copied();
                    let count = before.map_or_else(|| anchor.count(tokenizer, part), Ok)?;
                    new.push((part, count));
                    count
                };
                let Some(count) = count else {
                    return Ok(None);
                };
                sum.add(part, count);
            }
        }
        if !new.is_empty() {
            let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
            known.extend(new);
        }
        Ok(Some(sum.measured))
    }
}

/// A text's parts, added up.
struct Sum {
    length: u64,
    at: usize,
    measured: Measured,
    full: bool,
}

impl Sum {
    fn of(length: u64) -> Self {
        let measured = Measured {
            tokens: 0,
            end: Some(0),
            is_exact: length == 0,
        };
        Self {
            length,
            at: 0,
            measured,
            full: false,
        }
    }

    fn add(&mut self, part: &str, count: u32) {
        self.at += part.len();
        self.measured.tokens += u64::from(count);
        if self.measured.tokens <= self.length {
            self.measured.end = Some(self.at);
            self.measured.is_exact = self.measured.tokens == self.length;
        } else if !self.full {
            self.full = true;
            if !is_word(part) {
                self.measured.end = None;
            }
        }
    }
}

impl WordCounts {
    fn extend(&mut self, new: Vec<(&str, Count)>) {
        for (part, count) in new {
            if part.len() > LONGEST_KEPT {
                continue;
            }
            if self.young.len() >= GENERATION {
                self.old = std::mem::take(&mut self.young);
            }
            self.young.insert(part.into(), count);
        }
    }
}

impl Anchor {
    /// The anchor of a tokenizer whose words add up.
    fn of(tokenizer: &Tokenizer) -> Option<Self> {
        if has_tokens_across_blanks(tokenizer) || tokenizer.get_model().is_random() {
            return None;
        }
        let added = tokenizer.get_added_tokens_decoder();
        let is_named = added.values().any(|token| is_plain(&token.content));
        let anchor = Self {
            ids: ids(tokenizer, ANCHOR).ok()?,
            cut: Cut::of(tokenizer).filter(|_| !is_named),
            blank: blank(tokenizer).filter(|_| !is_named),
        };
        anchor.adds_up(tokenizer).then_some(anchor)
    }

    /// Tokens of a part where it follows another, or of a text's first part, which has no blank before it.
    fn count(&self, tokenizer: &Tokenizer, part: &str) -> tokenizers::Result<Count> {
        if !part.starts_with(' ') {
            if let Some(cut) = self.cut.filter(|_| is_plain(part)) {
                return cut.count(tokenizer, part).map(Some);
            }
            return Ok(u32::try_from(ids(tokenizer, part)?.len()).ok());
        }
        if let Some(piece) = self.piece(part) {
            return Ok(u32::try_from(tokenizer.get_model().count(&piece)?).ok());
        }
        let both = ids(tokenizer, &format!("{ANCHOR}{part}"))?;
        let own = both.strip_prefix(self.ids.as_slice());
        Ok(own.and_then(|own| u32::try_from(own.len()).ok()))
    }

    /// Whether a part is one token.
    fn is_one(&self, tokenizer: &Tokenizer, part: &str) -> tokenizers::Result<Option<bool>> {
        match self.piece(part) {
            Some(piece) => tokenizer.get_model().is_one(&piece).map(Some),
            None => Ok(self.count(tokenizer, part)?.map(|count| count == 1)),
        }
    }

    /// What the model sees of a part that is a word of small letters, with the blank before it or alone, where it can be asked directly.
    fn piece<'p>(&self, part: &'p str) -> Option<Cow<'p, str>> {
        match part.strip_prefix(' ') {
            Some(word) if is_of_letters(word) => Some(Cow::from([self.blank?, word].concat())),
            None if is_of_letters(part) => self.cut.map(|_| Cow::from(part)),
            _ => None,
        }
    }

    /// Whether texts of words, numbers and signs in any order have as many tokens as their parts together.
    fn adds_up(&self, tokenizer: &Tokenizer) -> bool {
        let words: Vec<&str> = builtin_prompts::WORDS.split_whitespace().collect();
        let mut draw = Draw::new(Seed::new(0).stream("pieces of a text", ""));
        (0..TRIALS).all(|_| {
            let text = trial(&words, &mut draw);
            let mut sum = 0;
            for part in parts(&text) {
                match self.count(tokenizer, part) {
                    Ok(Some(count)) => sum += count as usize,
                    _ => return false,
                }
            }
            ids(tokenizer, &text).is_ok_and(|ids| ids.len() == sum)
        })
    }
}

impl Cut {
    /// The one by which the tokenizer cuts every word that is tried, where it changes nothing else about them.
    fn of(tokenizer: &Tokenizer) -> Option<Self> {
        let mut draw = Draw::new(Seed::new(0).stream("cuts of a word", ""));
        let words: Vec<String> = (0..CUT_TRIALS as u64)
            .map(|at| plain_word(at, &mut draw))
            .collect();
        let is_cut_so = |cut: &Self| {
            let mut words = words.iter();
            words.all(|word| is_cut(tokenizer, word, *cut).unwrap_or(false))
        };
        let cuts = [
            Self::Nowhere,
            Self::Runs(usize::MAX),
            Self::Runs(1),
            Self::Runs(3),
        ];
        cuts.into_iter().find(is_cut_so)
    }

    /// The first piece of a word, and the rest.
    fn split(self, word: &str) -> (&str, &str) {
        let is_digit = |byte: &u8| byte.is_ascii_digit();
        let digits = word.as_bytes().first().is_some_and(is_digit);
        let run = word.bytes().take_while(|byte| is_digit(byte) == digits);
        word.split_at(match self {
            Self::Nowhere => word.len(),
            Self::Runs(most) if digits => run.take(most).count(),
            Self::Runs(_) => run.count(),
        })
    }

    /// The tokens that the model makes of the pieces.
    fn count(self, tokenizer: &Tokenizer, mut word: &str) -> tokenizers::Result<u32> {
        let mut count = 0;
        while !word.is_empty() {
            let (piece, rest) = self.split(word);
            let tokens = tokenizer.get_model().count(piece)?;
            count += u32::try_from(tokens).unwrap_or(u32::MAX);
            word = rest;
        }
        Ok(count)
    }
}

/// Whether a tokenizer hands its model these pieces of a word, as they are.
fn is_cut(tokenizer: &Tokenizer, word: &str, cut: Cut) -> tokenizers::Result<bool> {
    let mut rest = word;
    let mut same = true;
    for piece in pieces(tokenizer, word)? {
        let (first, left) = cut.split(rest);
        same &= piece == first;
        rest = left;
    }
    Ok(same && rest.is_empty())
}

/// What a tokenizer hands its model in the place of the blank before a word of small letters, where it is the same for every word that is
/// tried, and the word is handed on with it and as it is.
fn blank(tokenizer: &Tokenizer) -> Option<&'static str> {
    let before = pieces(tokenizer, ANCHOR).ok()?;
    let words: Vec<&str> = builtin_prompts::WORDS.split_whitespace().collect();
    let is = |blank: &&str| {
        let mut words = words
            .iter()
            .take(CUT_TRIALS)
            .filter(|word| is_of_letters(word));
        words.all(|word| {
            let mut expected = before.clone();
            expected.push(format!("{blank}{word}"));
            pieces(tokenizer, &format!("{ANCHOR} {word}")).is_ok_and(|pieces| pieces == expected)
        })
    };
    // as byte-level and SentencePiece vocabularies write it
    ["\u{120}", "\u{2581}", " "].into_iter().find(is)
}

/// What a tokenizer hands its model of a text.
fn pieces(tokenizer: &Tokenizer, text: &str) -> tokenizers::Result<Vec<String>> {
    let mut normalized = NormalizedString::from(text);
    if let Some(normalizer) = tokenizer.get_normalizer() {
        normalizer.normalize(&mut normalized)?;
    }
    let mut pieces = PreTokenizedString::from(normalized);
    if let Some(pre_tokenizer) = tokenizer.get_pre_tokenizer() {
        pre_tokenizer.pre_tokenize(&mut pieces)?;
    }
    let pieces = pieces.get_splits(OffsetReferential::Original, OffsetType::None);
    Ok(pieces
        .into_iter()
        .map(|(piece, _, _)| piece.to_owned())
        .collect())
}

/// Whether a part is nothing but small letters and digits.
fn is_plain(part: &str) -> bool {
    let mut bytes = part.bytes();
    bytes.all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
}

fn is_of_letters(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase())
}

/// A word of small letters and digits, every other one with many digits after each other.
fn plain_word(number: u64, draw: &mut Draw) -> String {
    let among: &[u8] = if number.is_multiple_of(2) {
        b"abcdefghijklmnopqrstuvwxyz0123456789"
    } else {
        b"012345678901234567890123456789etaoin"
    };
    let letters = (0..10).filter_map(|_| among.get(draw.pick(among.len())));
    letters.map(|letter| char::from(*letter)).collect()
}

/// Words, some with a capital letter or a sign after them, numbers, and runs of signs.
fn trial(words: &[&str], draw: &mut Draw) -> String {
    let sign = |draw: &mut Draw| char::from(b"!\"#$%&'()*+,-./:;<=>?@[]^_`{|}~"[draw.pick(31)]);
    let mut text = String::new();
    for _ in 0..TRIAL_PARTS {
        let word = words.get(draw.pick(words.len())).copied().unwrap_or("word");
        match draw.pick(8) {
            0 => text.push_str(&draw.pick(10_000).to_string()),
            1 => text.extend([sign(draw), sign(draw)]),
            2 => {
                text.push(sign(draw));
                text.push_str(word);
            }
            3 => {
                text.push_str(word);
                text.push(sign(draw));
            }
            4 => text.push_str(&word.to_ascii_uppercase()),
            _ => text.push_str(word),
        }
        text.push(' ');
    }
    text.truncate(text.len() - 1);
    text
}

fn ids(tokenizer: &Tokenizer, text: &str) -> tokenizers::Result<Vec<u32>> {
    Ok(tokenizer.encode_fast(text, false)?.get_ids().to_vec())
}

/// Whether a token could reach across the place where [`parts`] cuts: it holds a blank right after a visible ASCII character (as every
/// byte-level vocabulary has tokens of line ends and blanks, which lie within a part), or an added one takes the blanks around it.
fn has_tokens_across_blanks(tokenizer: &Tokenizer) -> bool {
    let added = tokenizer.get_added_tokens_decoder();
    // added tokens stand for their own characters, in which U+2581 is no blank
    let is_added = |token: &str| added.values().any(|added| added.content == token);
    let mut vocabulary = tokenizer.get_model().vocabulary();
    vocabulary.any(|(_, token)| has_blank_after_a_sign(&token) && !is_added(&token))
        || added
            .values()
            .any(|token| token.lstrip || token.rstrip || token.content.contains(' '))
}

/// Whether a blank, as it is written in byte-level and in `SentencePiece` vocabularies, stands right after a visible ASCII character.
fn has_blank_after_a_sign(token: &str) -> bool {
    let is_blank = |rest: &[u8]| {
        [" ", "\u{120}", "\u{2581}"]
            .iter()
            .any(|blank| rest.starts_with(blank.as_bytes()))
    };
    let bytes = token.as_bytes();
    let mut signs = (1..bytes.len()).zip(bytes);
    signs.any(|(next, byte)| byte.is_ascii_graphic() && bytes.get(next..).is_some_and(is_blank))
}

/// The parts of a text: each but the first begins with the one blank between two visible ASCII characters.
fn parts(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let cut = rest.as_bytes().windows(3).position(|three| {
            matches!(three, [before, b' ', after] if before.is_ascii_graphic() && after.is_ascii_graphic())
        });
        // The position is that of the character before the blank.
        let (part, after) = rest.split_at(cut.map_or(rest.len(), |before| before + 1));
        rest = after;
        Some(part)
    })
}

/// Whether a part is one word that is not cut inside.
fn is_word(part: &str) -> bool {
    let word = part.strip_prefix(' ').unwrap_or(part);
    word.len() <= crate::fit::LONG_WORD && !word.contains(char::is_whitespace)
}

#[cfg(test)]
#[path = "../../tests/unit/pieces.rs"]
mod tests;
