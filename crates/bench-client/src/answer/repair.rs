//! What servers put into JSON although it may not be there.

use std::borrow::Cow;

/// A document in which what no JSON reader takes is replaced by U+FFFD: bytes that are not UTF-8, and halves of surrogate pairs
/// (`\ud83d` alone, from a server that cuts an emoji between two tokens). `None` where there is nothing to replace.
pub(super) fn repaired(data: &[u8]) -> Option<Vec<u8>> {
    let mut text = match String::from_utf8_lossy(data) {
        Cow::Borrowed(_) => None,
        Cow::Owned(text) => Some(text.into_bytes()),
    };
    let halves = lone_surrogates(text.as_deref().unwrap_or(data));
    if !halves.is_empty() {
        let bytes = text.get_or_insert_with(|| data.to_vec());
        for at in halves {
            if let Some(escape) = bytes.get_mut(at..at + 6) {
                escape.copy_from_slice(b"\\ufffd");
            }
        }
    }
    text
}

/// Where the escapes of surrogates without their other half begin.
fn lone_surrogates(json: &[u8]) -> Vec<usize> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(next) = json.get(at..).and_then(|rest| memchr::memchr(b'\\', rest)) {
        at += next;
        at += match surrogate(json, at) {
            Some(true) if surrogate(json, at + 6) == Some(false) => 12,
            Some(_) => {
                found.push(at);
                6
            }
            None => 2,
        };
    }
    found
}

/// Whether a surrogate is escaped at this place, and whether it is the first half of a pair.
fn surrogate(json: &[u8], at: usize) -> Option<bool> {
    let digits = json.get(at..at + 6)?.strip_prefix(b"\\u")?;
    let digits = std::str::from_utf8(digits).ok()?;
    match u16::from_str_radix(digits, 16).ok()? {
        0xd800..=0xdbff => Some(true),
        0xdc00..=0xdfff => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
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
}
