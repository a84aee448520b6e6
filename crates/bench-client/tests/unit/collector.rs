//! What no JSON may hold.

use super::*;

fn repair(text: &str) -> Option<String> {
    repaired(text.as_bytes()).map(|bytes| String::from_utf8(bytes).unwrap())
}

#[test]
fn halves_of_pairs_are_replaced_and_pairs_are_not() {
    for (before, after) in [
        (r#""\ud83d""#, Some(r#""\ufffd""#)),
        (
            r#""\uDE00 \ud83d\ud83d\ude00""#,
            Some(r#""\ufffd \ufffd\ud83d\ude00""#),
        ),
        (r#""\ud83d\ude00 \n\u00e9""#, None),
        (r#""\\ud83d""#, None),
        (r#""\ud8"#, None),
    ] {
        assert_eq!(repair(before).as_deref(), after, "{before}");
    }
    let both = repaired(b"\xff\\ud83d").unwrap();
    assert_eq!(String::from_utf8_lossy(&both), "\u{fffd}\\ufffd");
}
