use proptest::prelude::*;
use serde_json::{Value, json};
use tokenizers::models::bpe::{BPE, BpeTrainerBuilder};

use super::*;
use crate::builtin_prompts;

/// A BPE model as its file has it, with these members changed.
fn file(changes: &[(&str, Value)], more: &[&str]) -> String {
    let mut tokenizer = tokenizers::Tokenizer::new(BPE::default());
    let trainer = BpeTrainerBuilder::new()
        .show_progress(false)
        .vocab_size(300)
        .build();
    let lines = builtin_prompts::WORDS.lines().map(str::to_owned);
    tokenizer
        .train(&mut TrainerWrapper::from(trainer), lines)
        .unwrap();
    let mut model = serde_json::to_value(tokenizer.get_model()).unwrap();
    let first = model["vocab"].as_object().unwrap().len();
    for (token, id) in more.iter().zip(first..) {
        model["vocab"][token] = id.into();
    }
    for (name, value) in changes {
        model[name] = value.clone();
    }
    // in files the vocabulary comes first
    let rest = model.as_object_mut().unwrap();
    let (vocabulary, merges) = (rest.remove("vocab"), rest.remove("merges"));
    let members = serde_json::to_string(&rest).unwrap();
    format!(
        r#"{},"vocab":{},"merges":{}}}"#,
        members.strip_suffix('}').unwrap(),
        vocabulary.unwrap(),
        merges.unwrap()
    )
}

/// Models with and without what stands for characters that they do not have.
fn files() -> Vec<String> {
    let unknown = ("unk_token", json!("<unk>"));
    let fused = ("fuse_unk", json!(true));
    let bytes = ("byte_fallback", json!(true));
    // of `é` both bytes, of `ß` one
    let some = ["<unk>", "<0xC3>", "<0xA9>"];
    vec![
        file(&[], &[]),
        file(std::slice::from_ref(&unknown), &some),
        file(&[unknown.clone(), fused.clone()], &some),
        file(std::slice::from_ref(&bytes), &some),
        file(&[unknown.clone(), bytes.clone()], &some),
        file(&[unknown, bytes, fused], &some),
        file(&[("ignore_merges", json!(true))], &["zzzz"]),
        file(&[("continuing_subword_prefix", json!(""))], &[]),
        file(&[("merges", json!(["a n", "t h"]))], &["an", "th"]),
    ]
}

#[test]
fn a_piece_has_the_tokens_that_the_library_finds() {
    let read = |file: String| -> (BPE, Bpe) {
        let library = serde_json::from_str(&file).unwrap();
        (library, serde_json::from_str(&file).unwrap())
    };
    let both: Vec<_> = files().into_iter().map(read).collect();
    proptest!(|(piece in "[a-eth é ßz]{0,40}")| {
        for (library, own) in &both {
            prop_assert_eq!(own.tokens(&piece), library.tokenize(&piece).unwrap());
        }
    });
}

#[test]
fn what_counts_otherwise_is_left_to_the_library() {
    for (name, value) in [
        ("dropout", json!(0.1)),
        ("continuing_subword_prefix", json!("##")),
        ("end_of_word_suffix", json!("</w>")),
        ("unk_token", json!("<absent>")),
        ("type", json!("WordPiece")),
        ("merges", json!(["a b c"])),
        ("merges", json!([["a", "absent"]])),
        ("merges", json!([["a", "b", "c"]])),
    ] {
        let file = file(&[(name, value.clone())], &[]);
        assert!(
            serde_json::from_str::<Bpe>(&file).is_err(),
            "{name}: {value}"
        );
    }
    let twice = r#"{"type":"BPE","vocab":{"a":0,"b":1,"ab":1},"merges":["a b"]}"#;
    assert!(serde_json::from_str::<Bpe>(twice).is_err());
}
