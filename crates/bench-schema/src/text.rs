//! Text of strangers (model names, labels, messages of servers) where it leaves the programs.

use std::borrow::Cow;

/// Whether a character moves a cursor, hides text or changes its direction: control characters (so also ANSI escapes), bidirectional controls, zero-width
/// characters, line separators and tag characters.
pub fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{061c}' | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}' | '\u{00ad}' | '\u{180e}')
}

/// A JSON document that can be printed on a terminal: the same values, with hidden characters escaped. Those below U+0020 are escaped in every
/// JSON text, and stand unescaped only between values.
pub fn printable_json(json: String) -> String {
    let to_escape = |c: char| c > ' ' && is_hidden(c);
    if !json.contains(to_escape) {
        return json;
    }
    let mut out = String::with_capacity(json.len() + 64);
    for c in json.chars() {
        if to_escape(c) {
            let mut units = [0; 2];
            let units = c.encode_utf16(&mut units).iter();
            out.extend(units.map(|unit| format!("\\u{unit:04x}")));
        } else {
            out.push(c);
        }
    }
    out
}

/// A field of a table for spreadsheets: text that one would take for a formula gets an apostrophe. East Asian ones take full-width signs for
/// one, too.
pub fn no_formula(text: &str) -> Cow<'_, str> {
    let begins = ['=', '+', '-', '@', '＝', '＋', '－', '＠', '\t', '\r', '\n'];
    if text.starts_with(begins) {
        format!("'{text}").into()
    } else {
        text.into()
    }
}
