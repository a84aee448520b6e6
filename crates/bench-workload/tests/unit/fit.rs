use super::*;
use crate::{CountWith, Seed, Words};
use proptest::prelude::*;

fn draw() -> Draw {
    Draw::new(Seed::new(9).stream("fit", ""))
}

proptest! {
    #[test]
    fn random_words_have_exactly_the_asked_length(length in 1_u64..700) {
        let pool = WordPool::built_in();
        let fitter = Fitter { token_counter: &Words, pool: &pool };
        let text = fitter.random(length, &mut draw()).unwrap();
        prop_assert_eq!(text.split_whitespace().count() as u64, length);
    }

    /// One token for every four letters begun, as a tokenizer might: most words are more than one.
    #[test]
    fn a_text_can_be_cut_to_a_length_of_tokens(length in 1_u64..400) {
        let tokens = |text: &str| Ok(text.split_whitespace().map(|w| (w.len() as u64).div_ceil(4)).sum());
        let token_counter = CountWith::new("quarters", tokens);
        let pool = WordPool::built_in();
        let fitter = Fitter { token_counter: &token_counter, pool: &pool };
        let text = fitter.cut("A beginning.".to_owned(), length, &mut draw(), |_| "some more sentences come here").unwrap();
        prop_assert_eq!(token_counter.count(&text).unwrap(), length);
    }
}

#[test]
fn a_text_without_blanks_is_cut_between_characters() {
    let letters = |text: &str| Ok(text.chars().filter(|c| !c.is_whitespace()).count() as u64);
    let token_counter = CountWith::new("letters", letters);
    let pool = WordPool::built_in();
    let fitter = Fitter {
        token_counter: &token_counter,
        pool: &pool,
    };
    let story = "\u{8a9e}\u{308b}".repeat(300);
    let text = fitter
        .cut(story.clone(), 77, &mut draw(), |_| "more")
        .unwrap();
    assert!(story.starts_with(&text));
    assert_eq!(token_counter.count(&text).unwrap(), 77);
}

#[test]
fn a_length_that_cannot_be_made_is_an_error_with_the_nearest_one() {
    let pairs = |text: &str| Ok(2 * text.split_whitespace().count() as u64);
    let token_counter = CountWith::new("pairs", pairs);
    let pool = WordPool::built_in();
    let fitter = Fitter {
        token_counter: &token_counter,
        pool: &pool,
    };
    let error = fitter.random(7, &mut draw()).unwrap_err();
    assert!(matches!(
        error,
        WorkloadError::Inexact {
            asked: 7,
            nearest: 6 | 8,
            ..
        }
    ));
}
