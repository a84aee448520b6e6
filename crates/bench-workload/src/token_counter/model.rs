//! The models of tokenizers. Nearly all are BPE, and these are kept here in little room: the library's own takes several times as long to
//! be read from its file, which was most of what a short run cost, and copies each token that it finds.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::fmt;
use std::hash::{BuildHasherDefault, Hasher};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use tokenizers::models::TrainerWrapper;
use tokenizers::models::bpe::BpeTrainer;
use tokenizers::{
    AddedToken, DecoderWrapper, Model as _, ModelWrapper, NormalizerWrapper, PostProcessorWrapper,
    PreTokenizerWrapper, Token, TokenizerBuilder, TokenizerImpl,
};

/// A tokenizer whose model is one of these; all else is the library's.
pub(super) type Tokenizer = TokenizerImpl<
    Model,
    NormalizerWrapper,
    PreTokenizerWrapper,
    PostProcessorWrapper,
    DecoderWrapper,
>;

/// A model.
pub(super) enum Model {
    Bpe(Bpe),
    /// Of another kind, or a BPE that draws lots or marks the parts of a word.
    Other(Box<ModelWrapper>),
}

impl Model {
    /// How many tokens it makes of a piece.
    pub(super) fn count(&self, piece: &str) -> tokenizers::Result<usize> {
        match self {
            Self::Bpe(bpe) => Ok(bpe.symbols(piece).len()),
            Self::Other(model) => Ok(model.tokenize(piece)?.len()),
        }
    }

    /// Whether it makes one token of a piece: where no token has its text the merges need not be asked.
    pub(super) fn is_one(&self, piece: &str) -> tokenizers::Result<bool> {
        match self {
            Self::Bpe(bpe) if !bpe.by_text.contains_key(piece) => Ok(false),
            _ => Ok(self.count(piece)? == 1),
        }
    }

    /// Its own tokens by their ids, in order.
    pub(super) fn vocabulary(&self) -> Box<dyn Iterator<Item = (u32, Cow<'_, str>)> + '_> {
        match self {
            Self::Bpe(bpe) => {
                let known = (0..).zip(&bpe.by_id);
                Box::new(known.filter_map(|(id, token)| Some((id, Cow::from(&**token.as_ref()?)))))
            }
            Self::Other(model) => {
                let tokens = model.get_vocab().into_iter();
                let mut tokens: Vec<_> = tokens.map(|(token, id)| (id, Cow::from(token))).collect();
                tokens.sort_unstable();
                Box::new(tokens.into_iter())
            }
        }
    }

    /// Whether it may encode the same text differently each time.
    pub(super) fn is_random(&self) -> bool {
        matches!(self, Self::Other(model) if matches!(&**model, ModelWrapper::BPE(bpe) if bpe.dropout.is_some()))
    }
}

impl From<Bpe> for Model {
    fn from(bpe: Bpe) -> Self {
        Self::Bpe(bpe)
    }
}

impl From<ModelWrapper> for Model {
    fn from(model: ModelWrapper) -> Self {
        Self::Other(Box::new(model))
    }
}

impl tokenizers::Model for Model {
    type Trainer = TrainerWrapper;

    fn tokenize(&self, piece: &str) -> tokenizers::Result<Vec<Token>> {
        match self {
            Self::Bpe(bpe) => Ok(bpe.tokens(piece)),
            Self::Other(model) => model.tokenize(piece),
        }
    }

    fn token_to_id(&self, token: &str) -> Option<u32> {
        match self {
            Self::Bpe(bpe) => bpe.by_text.get(token).copied(),
            Self::Other(model) => model.token_to_id(token),
        }
    }

    fn id_to_token(&self, id: u32) -> Option<String> {
        match self {
            Self::Bpe(bpe) => bpe.token(id).map(str::to_owned),
            Self::Other(model) => model.id_to_token(id),
        }
    }

    fn get_vocab(&self) -> HashMap<String, u32> {
        let tokens = self.vocabulary();
        tokens.map(|(id, token)| (token.into_owned(), id)).collect()
    }

    fn get_vocab_size(&self) -> usize {
        match self {
            Self::Bpe(bpe) => bpe.by_text.len(),
            Self::Other(model) => model.get_vocab_size(),
        }
    }

    fn save(&self, folder: &Path, prefix: Option<&str>) -> tokenizers::Result<Vec<PathBuf>> {
        match self {
            Self::Bpe(_) => Err("it is only counted with".into()),
            Self::Other(model) => model.save(folder, prefix),
        }
    }

    fn get_trainer(&self) -> TrainerWrapper {
        match self {
            Self::Bpe(_) => BpeTrainer::default().into(),
            Self::Other(model) => model.get_trainer(),
        }
    }
}

// From a file.

/// A `tokenizer.json`, without its truncation and padding, which would lie about lengths.
pub(super) fn parse(bytes: &[u8]) -> tokenizers::Result<Tokenizer> {
    let bpe: Result<File<Bpe>, _> = serde_json::from_slice(bytes);
    match bpe {
        Ok(file) => file.into_tokenizer(),
        Err(_) => serde_json::from_slice::<File<ModelWrapper>>(bytes)?.into_tokenizer(),
    }
}

#[derive(Deserialize)]
struct File<M> {
    version: Option<String>,
    #[serde(default)]
    added_tokens: Vec<AddedToken>,
    normalizer: Option<NormalizerWrapper>,
    pre_tokenizer: Option<PreTokenizerWrapper>,
    post_processor: Option<PostProcessorWrapper>,
    decoder: Option<DecoderWrapper>,
    model: M,
}

impl<M: Into<Model>> File<M> {
    fn into_tokenizer(self) -> tokenizers::Result<Tokenizer> {
        if let Some(version) = self.version.filter(|version| version != "1.0") {
            return Err(format!("unknown version of tokenizers `{version}`").into());
        }
        let mut tokenizer = TokenizerBuilder::new()
            .with_model(self.model.into())
            .with_normalizer(self.normalizer)
            .with_pre_tokenizer(self.pre_tokenizer)
            .with_post_processor(self.post_processor)
            .with_decoder(self.decoder)
            .build()?;
        tokenizer.add_tokens(self.added_tokens)?;
        Ok(tokenizer)
    }
}

// BPE.

/// The highest id that a token may have here: they are kept in a list.
const MOST_IDS: u32 = 1 << 24;

/// Byte pair encoding, as the library does it: of all neighbours that may be merged, those whose merge has the lowest rank are, the
/// first of them where there are several; and so on.
#[derive(Default)]
pub(super) struct Bpe {
    by_id: Vec<Option<Arc<str>>>,
    by_text: HashMap<Arc<str>, u32, Mixing>,
    /// The tokens of single ASCII characters.
    ascii: Vec<Option<u32>>,
    /// The rank of a pair's merge, and what comes of it.
    merges: HashMap<(u32, u32), (u32, u32), Mixing>,
    /// What stands for a character that is no token.
    unknown: Option<u32>,
    /// Whether one of these stands for several in a row.
    fuses_unknown: bool,
    /// Whether the bytes of a character that is no token stand for it, where all of them are tokens.
    by_bytes: bool,
    /// Whether a piece that is a token is that one, whatever the merges say.
    whole_first: bool,
}

/// Symbols of a piece among which the next merge is looked for one by one.
const FEW: usize = 24;

/// A token at its place in a piece. One that was merged into the one before it has no length.
#[derive(Clone, Copy)]
struct Symbol {
    id: u32,
    len: usize,
    before: usize,
    after: usize,
}

impl Bpe {
    fn token(&self, id: u32) -> Option<&str> {
        self.by_id.get(id as usize)?.as_deref()
    }

    fn tokens(&self, piece: &str) -> Vec<Token> {
        let mut at = 0;
        let token = |symbol: &Symbol| {
            let begin = at;
            at += symbol.len;
            let text = self.token(symbol.id).unwrap_or_default();
            Token::new(symbol.id, text.to_owned(), (begin, at))
        };
        self.symbols(piece).iter().map(token).collect()
    }

    fn symbols(&self, piece: &str) -> Vec<Symbol> {
        let whole = self.by_text.get(piece).filter(|_| self.whole_first);
        if let Some(&id) = whole.filter(|_| !piece.is_empty()) {
            let mut symbols = Vec::new();
            push(&mut symbols, id, piece.len());
            return symbols;
        }
        let mut symbols = self.characters(piece);
        if symbols.len() <= FEW {
            self.merge_few(&mut symbols);
            return symbols;
        }
        let mut waiting: BinaryHeap<_> = (0..symbols.len())
            .filter_map(|at| Some(Reverse((self.merge_at(&symbols, at)?.rank, at))))
            .collect();
        while let Some(Reverse((rank, at))) = waiting.pop() {
            // what was merged meanwhile is another pair, or none
            let merge = self.merge_at(&symbols, at).filter(|now| now.rank == rank);
            let Some(merge) = merge else { continue };
            let Merge {
                id, left, right, ..
            } = merge;
            if let Some(gone) = symbols.get_mut(left.after) {
                gone.len = 0;
            }
            if let Some(next) = symbols.get_mut(right.after) {
                next.before = at;
            }
            if let Some(symbol) = symbols.get_mut(at) {
                symbol.id = id;
                symbol.len += right.len;
                symbol.after = right.after;
            }
            for at in [left.before, at] {
                if let Some(merge) = self.merge_at(&symbols, at) {
                    waiting.push(Reverse((merge.rank, at)));
                }
            }
        }
        symbols.retain(|symbol| symbol.len > 0);
        symbols
    }

    /// As for many, but looking at all of them each time, which is quicker.
    fn merge_few(&self, symbols: &mut Vec<Symbol>) {
        /// Behind any rank.
        const NONE: (u32, u32) = (u32::MAX, 0);
        let merge = |symbols: &[Symbol], at: usize| {
            let pair = symbols.get(at).zip(symbols.get(at + 1));
            let merge = pair.and_then(|(left, right)| self.merges.get(&(left.id, right.id)));
            merge.copied().unwrap_or(NONE)
        };
        let mut merges: Vec<_> = (0..symbols.len()).map(|at| merge(symbols, at)).collect();
        loop {
            let least = merges.iter().copied().enumerate();
            let least = least.min_by_key(|(_, merge)| *merge);
            let Some((at, (_, id))) = least.filter(|(_, merge)| *merge != NONE) else {
                return;
            };
            let gone = symbols.remove(at + 1);
            merges.remove(at + 1);
            if let Some(symbol) = symbols.get_mut(at) {
                symbol.id = id;
                symbol.len += gone.len;
            }
            for at in [at.wrapping_sub(1), at] {
                if let Some(slot) = merges.get_mut(at) {
                    *slot = merge(symbols, at);
                }
            }
        }
    }

    /// The characters of a piece as tokens. One that is none, and that nothing stands for, is left out.
    fn characters(&self, piece: &str) -> Vec<Symbol> {
        let mut symbols = Vec::with_capacity(piece.len());
        let mut unknown = None;
        for character in piece.chars() {
            let mut buffer = [0; 4];
            let text: &str = character.encode_utf8(&mut buffer);
            let len = text.len();
            let known = match self.ascii.get(character as usize) {
                Some(known) => *known,
                None => self.by_text.get(text).copied(),
            };
            if let Some(id) = known {
                self.push_unknown(&mut symbols, unknown.take());
                push(&mut symbols, id, len);
            } else if let Some(ids) = self.of_bytes(text) {
                for id in ids {
                    push(&mut symbols, id, 1);
                }
            } else if let (Some(before), true) = (unknown, self.fuses_unknown) {
                unknown = Some(before + len);
            } else {
                self.push_unknown(&mut symbols, unknown.replace(len));
            }
        }
        self.push_unknown(&mut symbols, unknown);
        symbols
    }

    fn push_unknown(&self, symbols: &mut Vec<Symbol>, len: Option<usize>) {
        if let (Some(id), Some(len)) = (self.unknown, len) {
            push(symbols, id, len);
        }
    }

    fn of_bytes(&self, character: &str) -> Option<Vec<u32>> {
        let of_byte = |byte| self.by_text.get(format!("<{byte:#04X}>").as_str()).copied();
        self.by_bytes
            .then(|| character.bytes().map(of_byte).collect())?
    }

    /// The merge of the token at a place with the one after it.
    fn merge_at(&self, symbols: &[Symbol], at: usize) -> Option<Merge> {
        let left = *symbols.get(at).filter(|symbol| symbol.len > 0)?;
        let right = *symbols.get(left.after)?;
        let &(rank, id) = self.merges.get(&(left.id, right.id))?;
        Some(Merge {
            rank,
            id,
            left,
            right,
        })
    }
}

/// A merge that is possible.
struct Merge {
    rank: u32,
    id: u32,
    left: Symbol,
    right: Symbol,
}

fn push(symbols: &mut Vec<Symbol>, id: u32, len: usize) {
    let at = symbols.len();
    symbols.push(Symbol {
        id,
        len,
        // of the first and the last there is nothing at these places
        before: at.wrapping_sub(1),
        after: at + 1,
    });
}

impl<'de> Deserialize<'de> for Bpe {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(BpeVisitor)
    }
}

struct BpeVisitor;

impl<'de> Visitor<'de> for BpeVisitor {
    type Value = Bpe;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a BPE model")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Bpe, A::Error> {
        let mut bpe = Bpe::default();
        let (mut unknown, mut is_bpe) = (None, false);
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "type" => is_bpe = map.next_value::<String>()? == "BPE",
                "vocab" => map.next_value_seed(Vocabulary(&mut bpe))?,
                "merges" => map.next_value_seed(Merges(&mut bpe))?,
                "unk_token" => unknown = map.next_value::<Option<String>>()?,
                "fuse_unk" => bpe.fuses_unknown = is_true(&mut map)?,
                "byte_fallback" => bpe.by_bytes = is_true(&mut map)?,
                "ignore_merges" => bpe.whole_first = is_true(&mut map)?,
                "dropout" => refuse(map.next_value::<Option<f32>>()?.is_some())?,
                "continuing_subword_prefix" | "end_of_word_suffix" => {
                    let mark = map.next_value::<Option<String>>()?;
                    refuse(mark.is_some_and(|mark| !mark.is_empty()))?;
                }
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        refuse(!is_bpe || bpe.merges.is_empty())?;
        let of_ascii = |byte: u8| {
            bpe.by_text
                .get(char::from(byte).encode_utf8(&mut [0; 4]) as &str)
        };
        bpe.ascii = (0..128).map(|byte| of_ascii(byte).copied()).collect();
        if let Some(token) = unknown {
            let id = bpe.by_text.get(token.as_str());
            refuse(id.is_none())?;
            bpe.unknown = id.copied();
        }
        Ok(bpe)
    }
}

fn is_true<'de, A: MapAccess<'de>>(map: &mut A) -> Result<bool, A::Error> {
    Ok(map.next_value::<Option<bool>>()?.unwrap_or(false))
}

/// Where it is so, the library has to read the model.
fn refuse<E: Error>(it_is_so: bool) -> Result<(), E> {
    if it_is_so {
        return Err(E::custom("not a plain BPE model"));
    }
    Ok(())
}

/// `{"token": id, …}`, which nothing was read before.
struct Vocabulary<'a>(&'a mut Bpe);

impl<'de> DeserializeSeed<'de> for Vocabulary<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Vocabulary<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("tokens with their ids")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Bpe { by_id, by_text, .. } = self.0;
        while let Some(Text(token)) = map.next_key()? {
            let token: Arc<str> = token.into();
            let id = map.next_value::<u32>()?;
            refuse(id > MOST_IDS)?;
            let at = id as usize;
            if by_id.len() <= at {
                by_id.resize(at + 1, None);
            }
            let before = by_id
                .get_mut(at)
                .and_then(|slot| slot.replace(Arc::clone(&token)));
            let known = by_text.insert(token, id);
            // two tokens of one id, or two ids of one token
            refuse(before.is_some() || known.is_some())?;
        }
        Ok(())
    }
}

/// A text, copied out of the file only where it has escapes.
#[derive(Default, Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

/// `["a b", …]`, in newer files `[["a", "b"], …]`, by their ranks; the vocabulary comes before them.
struct Merges<'a>(&'a mut Bpe);

impl<'de> DeserializeSeed<'de> for Merges<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Merges<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("merges")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        let Bpe {
            by_text, merges, ..
        } = self.0;
        merges.reserve(by_text.len());
        let (mut text, mut rank) = (String::new(), 0);
        while let Some(split) = seq.next_element_seed(Pair(&mut text))? {
            let (left, right) = text.split_at_checked(split).unwrap_or_default();
            let both = (
                by_text.get(left),
                by_text.get(right),
                by_text.get(text.as_str()),
            );
            let (Some(&left), Some(&right), Some(&id)) = both else {
                return Err(Error::custom("a merge of what is no token"));
            };
            merges.insert((left, right), (rank, id));
            rank += 1;
        }
        Ok(())
    }
}

/// Writes both halves of a merge here, and tells where the first one ends.
struct Pair<'a>(&'a mut String);

impl<'de> DeserializeSeed<'de> for Pair<'_> {
    type Value = usize;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<usize, D::Error> {
        self.0.clear();
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Pair<'_> {
    type Value = usize;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("two tokens")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<usize, E> {
        match text.split_once(' ') {
            Some((left, right)) if !right.contains(' ') && !text.starts_with("#version") => {
                self.0.push_str(left);
                self.0.push_str(right);
                Ok(left.len())
            }
            _ => Err(E::custom("not two tokens")),
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<usize, A::Error> {
        let Text(left) = seq.next_element()?.unwrap_or_default();
        let Text(right) = seq.next_element()?.unwrap_or_default();
        refuse(seq.next_element::<IgnoredAny>()?.is_some())?;
        self.0.push_str(&left);
        self.0.push_str(&right);
        Ok(left.len())
    }
}

/// Hashes short texts and pairs of ids in a few instructions. (Who writes a file to make them collide makes his own run slow.)
#[derive(Clone, Copy, Default)]
struct Mixer(u64);

type Mixing = BuildHasherDefault<Mixer>;

impl Hasher for Mixer {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word.iter_mut()
                .zip(chunk)
                .for_each(|(to, from)| *to = *from);
            self.write_u64(u64::from_le_bytes(word));
        }
        self.write_u64(bytes.len() as u64);
    }

    fn write_u8(&mut self, _end_of_a_text: u8) {}

    fn write_u32(&mut self, number: u32) {
        self.write_u64(number.into());
    }

    fn write_u64(&mut self, number: u64) {
        /// An odd number of which nothing is known but that its bits look random.
        const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
        let mixed = (self.0 ^ number).wrapping_mul(FACTOR);
        self.0 = mixed ^ (mixed >> 32);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
#[path = "../../tests/unit/model.rs"]
mod tests;
