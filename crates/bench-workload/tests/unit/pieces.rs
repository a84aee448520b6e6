use tokenizers::AddedToken;
use tokenizers::models::TrainerWrapper;
use tokenizers::models::bpe::{BPE, BpeTrainerBuilder};
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::digits::Digits;
use tokenizers::pre_tokenizers::metaspace::{Metaspace, PrependScheme};
use tokenizers::pre_tokenizers::sequence::Sequence;

use super::*;
use crate::token_counter::model;

#[test]
fn a_text_is_cut_before_single_blanks_between_visible_letters_only() {
    let cut = |text: &'static str| parts(text).collect::<Vec<_>>();
    assert_eq!(cut("a bc  d e"), ["a", " bc  d", " e"]);
    assert_eq!(cut("x\ny é z "), ["x\ny é z "]);
    assert_eq!(cut(" lead a"), [" lead", " a"]);
    assert!(cut("").is_empty());
}

fn bpe(dropout: Option<f32>) -> Tokenizer {
    stored(&trained(dropout))
}

fn stored(tokenizer: &tokenizers::Tokenizer) -> Tokenizer {
    model::parse(tokenizer.to_string(false).unwrap().as_bytes()).unwrap()
}

fn trained(dropout: Option<f32>) -> tokenizers::Tokenizer {
    let mut model = BPE::default();
    model.dropout = dropout;
    let mut tokenizer = tokenizers::Tokenizer::new(model);
    tokenizer.with_pre_tokenizer(Some(ByteLevel::new(false, true, true)));
    let trainer = BpeTrainerBuilder::new()
        .show_progress(false)
        .vocab_size(400)
        .initial_alphabet(ByteLevel::alphabet().into_iter().collect())
        .build();
    let code = "if\n    x\n\t    y\n        z\n ".repeat(8);
    let years = (1960..2060).map(|year| year.to_string().repeat(2));
    let words = builtin_prompts::WORDS
        .lines()
        .map(str::to_owned)
        .chain(years)
        .chain([code]);
    tokenizer
        .train(&mut TrainerWrapper::from(trainer), words)
        .unwrap();
    tokenizer
}

#[test]
fn salts_are_counted_by_the_model_alone_where_that_is_the_same() {
    let whole = bpe(None);
    let anchor = Anchor::of(&whole).unwrap();
    assert_eq!(anchor.cut, Some(Cut::Runs(usize::MAX)));
    for word in ["a", "7", "ab12cd345e", "0000000000", "zqxjkvbpyg", "the1"] {
        let tokens = ids(&whole, word).unwrap().len();
        assert_eq!(
            anchor.count(&whole, word).unwrap(),
            u32::try_from(tokens).ok()
        );
    }
    let mut single = bpe(None);
    single.with_pre_tokenizer(Some(Sequence::new(vec![
        Digits::new(true).into(),
        ByteLevel::new(false, true, true).into(),
    ])));
    assert_eq!(Cut::of(&single), Some(Cut::Runs(1)));
    let mut named = bpe(None);
    named.add_tokens([AddedToken::from("abc", false)]).unwrap();
    let named = Anchor::of(&named).unwrap();
    assert_eq!(
        (named.cut, named.blank),
        (None, None),
        "it may stand within a word"
    );
}

#[test]
fn words_are_trusted_where_they_add_up_and_nowhere_else() {
    let usual = bpe(None);
    let vocabulary = usual.get_vocab(false);
    let indent = |token: &String| token.starts_with(['Ċ', 'ĉ']) && token.ends_with('Ġ');
    assert!(
        vocabulary.keys().any(indent),
        "as in every vocabulary that has seen code: {vocabulary:?}"
    );
    assert!(Anchor::of(&usual).is_some());
    assert!(
        Anchor::of(&bpe(Some(0.5))).is_none(),
        "each time another count"
    );
    let mut greedy = bpe(None);
    let marker = AddedToken::from("<end>", false).rstrip(true);
    greedy.add_tokens([marker]).unwrap();
    assert!(Anchor::of(&greedy).is_none(), "takes the next word's blank");
}

#[test]
fn words_after_a_blank_are_counted_by_the_model_alone_where_that_is_the_same() {
    let bytes = bpe(None);
    let anchor = Anchor::of(&bytes).unwrap();
    assert_eq!(anchor.blank, Some("\u{120}"));
    let mut marked = trained(None);
    marked.with_pre_tokenizer(Some(Metaspace::new('\u{2581}', PrependScheme::Never, true)));
    assert_eq!(blank(&stored(&marked)), Some("\u{2581}"));
    // the whole text is one piece
    marked.with_pre_tokenizer(None::<Metaspace>);
    assert_eq!(blank(&stored(&marked)), None);
    for word in ["a", "the", "benchmark", "zqxjkvbpyg"] {
        let both = ids(&bytes, &format!("{ANCHOR} {word}")).unwrap().len();
        let follows = u32::try_from(both - anchor.ids.len()).ok();
        assert_eq!(anchor.count(&bytes, &format!(" {word}")).unwrap(), follows);
    }
}

#[test]
fn a_word_is_one_token_where_its_count_is_one() {
    let tokenizer = bpe(None);
    let anchor = Anchor::of(&tokenizer).unwrap();
    let words = || builtin_prompts::WORDS.split_whitespace();
    let mut of_one = 0;
    for part in words().flat_map(|word| [word.to_owned(), format!(" {word}")]) {
        let count = anchor.count(&tokenizer, &part).unwrap().unwrap();
        let is_one = anchor.is_one(&tokenizer, &part).unwrap();
        assert_eq!(is_one, Some(count == 1), "`{part}`");
        of_one += usize::from(count == 1);
    }
    assert!(
        (1..2 * words().count()).contains(&of_one),
        "both kinds, {of_one}"
    );
}
