use super::*;
use proptest::prelude::*;

#[test]
fn words_and_single_marks_are_one_token_each() {
    let vocabulary = Vocabulary::new(8192);
    assert_eq!(vocabulary.encode("Tell me, please: why?\n\n").len(), 7);
    assert!(vocabulary.encode("  \t\n").is_empty());
}

#[test]
fn every_id_has_a_word_of_its_own_that_comes_back_as_the_id() {
    let vocabulary = Vocabulary::new(9000);
    for id in 0..9000 {
        assert_eq!(vocabulary.encode(vocabulary.piece(id)), [id]);
    }
}

proptest! {
    #[test]
    fn what_was_decoded_is_encoded_to_the_same_ids(ids in proptest::collection::vec(0u32..4096, 0..50)) {
        let vocabulary = Vocabulary::new(4096);
        prop_assert_eq!(vocabulary.encode(&vocabulary.decode(&ids)), ids);
    }

    #[test]
    fn any_text_gives_ids_inside_the_vocabulary(text in ".*") {
        let vocabulary = Vocabulary::new(100);
        prop_assert!(vocabulary.encode(&text).iter().all(|id| *id < 100));
    }
}
