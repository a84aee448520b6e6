use bench_schema::{Outcome, Usage};

use super::*;

#[test]
fn a_server_is_not_believed_beyond_what_was_asked_for_and_what_it_sent() {
    let told = |tokens, asked| {
        let mut wire = Exchange::nothing(Outcome::Completed);
        wire.usage = Some(Usage {
            completion_tokens: Some(tokens),
            ..Usage::default()
        });
        output_tokens(&wire, asked).0
    };
    assert_eq!(told(1_000_000_000_000_000, Some(8)), Some(8));
    assert_eq!(told(7, Some(8)), Some(7));
    assert_eq!(told(16, None), Some(16));
}
