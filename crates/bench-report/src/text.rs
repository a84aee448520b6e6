//! Text of strangers: model names, labels, messages of servers. Made harmless once, here, for each place it is shown in.

use bench_schema::is_hidden;
use maud::{Markup, Render};

/// Longest text of a stranger that is shown, in characters; the rest is replaced by an ellipsis.
pub(crate) const LONGEST: usize = 400;

/// The same of a sentence of ours that holds some, a reason with what to do.
pub(crate) const SENTENCE: usize = 800;

/// Without anything that moves a cursor, hides text or changes its direction; one line; at most 400 characters.
///
/// Hidden characters ([`is_hidden`]) become U+FFFD, so that what was there is seen to have been there.
pub fn plain(text: &str) -> String {
    shortened(text, LONGEST)
}

/// The same of any length, for messages that hold such texts.
pub fn harmless(text: &str) -> String {
    shortened(text, usize::MAX)
}

/// The same with another limit, for names in narrow places; of a sentence whole words stay, so that no flag is cut in two.
pub(crate) fn shortened(text: &str, longest: usize) -> String {
    let mut shown = String::with_capacity(text.len().min(longest.saturating_mul(4)));
    for (i, c) in text.trim().chars().enumerate() {
        if i + 1 > longest {
            shown.pop();
            let words = shown.rfind(' ').filter(|end| 2 * end > shown.len());
            shown.truncate(words.unwrap_or(shown.len()));
            shown.push('…');
            break;
        }
        shown.push(match c {
            '\n' | '\r' | '\t' => ' ',
            c if is_hidden(c) => char::REPLACEMENT_CHARACTER,
            c => c,
        });
    }
    shown
}

/// ` and 3 more`, behind `named` of so many; nothing where all are named.
pub(crate) fn and_more(all: usize, named: usize) -> String {
    match all.saturating_sub(named) {
        0 => String::new(),
        more => format!(" and {more} more"),
    }
}

/// In one line of at most `width` columns.
pub(crate) fn fitted(text: &str, width: usize) -> String {
    let lines = wrapped(&plain(text), width.saturating_sub(1));
    match lines.as_slice() {
        [line] => line.clone(),
        [line, ..] => format!("{line}…"),
        [] => String::new(),
    }
}

/// A claim as a heading: its first letter large, unless it begins with a name that is spelled small (`p95`, `max_num_seqs`).
pub(crate) fn heading(claim: &str) -> String {
    let first = claim.split(' ').next().unwrap_or_default();
    let first = first.trim_end_matches(':');
    let is_name =
        first.contains(['_', '=', '.', ':', '/']) || first.chars().any(|c| c.is_ascii_digit());
    let mut chars = claim.chars();
    match chars.next() {
        Some(c) if !is_name => c.to_uppercase().chain(chars).collect(),
        _ => claim.to_owned(),
    }
}

/// Text of a stranger that escapes itself, for the inside of an HTML element or a quoted attribute.
pub(crate) struct Plain<'a>(pub(crate) &'a str);

impl Render for Plain<'_> {
    fn render_to(&self, buffer: &mut String) {
        plain(self.0).render_to(buffer);
    }
}

/// The same where other text than HTML has HTML in it.
pub(crate) fn html(text: &str) -> String {
    Plain(text).render().into_string()
}

/// The same for running text: flags and keys in backticks become code. Nothing but their own letters can stand in them.
pub(crate) fn with_code(text: &str) -> Markup {
    let text = shortened(text, SENTENCE);
    let parts: Vec<&str> = text.split('`').collect();
    let is_code = |part: &&str| {
        let safe = |c: char| c.is_ascii_alphanumeric() || "-_=. ".contains(c);
        !part.is_empty() && part.len() <= 60 && part.chars().all(safe)
    };
    if parts.len().is_multiple_of(2) || !parts.iter().skip(1).step_by(2).all(is_code) {
        return text.render();
    }
    maud::html! {
        @for (i, part) in parts.iter().enumerate() {
            @if i % 2 == 0 { (part) } @else { code { (part) } }
        }
    }
}

/// A block of lines, such as a configuration; lines stay lines, 200 000 characters at most.
pub(crate) fn block(text: &str) -> String {
    let shown = |c: char| match c {
        '\n' => c,
        c if is_hidden(c) => char::REPLACEMENT_CHARACTER,
        c => c,
    };
    text.chars().take(200_000).map(shown).collect()
}

/// For running text and table cells of Markdown (`CommonMark` and GitHub's tables): every character that could begin markup
/// is escaped, `<` and `&` as entities, so that neither a link, an image, a table cell nor HTML can come of it. Addresses, and what GitHub
/// would take for a mail address, a mention or an issue, are code: an escape does not stop it from finding them.
pub fn markdown(text: &str) -> String {
    escape_markdown(&plain(text), true)
}

/// The same of a sentence of ours that holds some.
pub(crate) fn markdown_sentence(text: &str) -> String {
    escape_markdown(&shortened(text, SENTENCE), true)
}

/// The same where no block can begin: in a cell of a table.
pub(crate) fn markdown_cell(text: &str) -> String {
    escape_markdown(&plain(text), false)
}

fn escape_markdown(plain: &str, begins_line: bool) -> String {
    let words = plain.split(' ').enumerate();
    let escaped = words.map(|(i, word)| {
        let inner = word.trim_start_matches('(');
        let end = inner.trim_end_matches([')', ',', '.', ';', ':', '…']);
        let own = end.strip_prefix('`').and_then(|end| end.strip_suffix('`'));
        let safe = |c: char| c.is_ascii_alphanumeric() || "-_=.".contains(c);
        if own.is_some_and(|own| own.starts_with("--") && own.chars().all(safe)) {
            // A flag: code already.
            return word.to_owned();
        }
        let address = inner.trim_end_matches([')', ',', '.', ';', ':']);
        if is_plain_address(address) {
            // As code it is read as it was written, and is no link.
            let before = "(".repeat(word.len() - inner.len());
            let behind = inner.get(address.len()..).unwrap_or_default();
            format!("{before}`{address}`{behind}")
        } else {
            escape_references(word, i == 0 && begins_line)
        }
    });
    escaped.collect::<Vec<_>>().join(" ")
}

/// An address without a character that Markdown could take for anything.
fn is_plain_address(word: &str) -> bool {
    let safe = |c: char| c.is_ascii_alphanumeric() || ":/.-_%?=&+#~,".contains(c);
    word.find("://").is_some_and(|at| at > 0) && word.chars().all(safe)
}

/// Mail addresses, `@name` and `#17` become code, where they are read as they were written; the rest is escaped.
fn escape_references(word: &str, begins_line: bool) -> String {
    let of_one = |c: &char| c.is_ascii_alphanumeric() || "@#.-_+/".contains(*c);
    let is_reference = |run: &[char]| {
        run.windows(2).any(|pair| match pair {
            ['@', next] => next.is_ascii_alphanumeric(),
            ['#', next] => next.is_ascii_digit(),
            _ => false,
        })
    };
    let chars: Vec<char> = word.chars().collect();
    let runs: Vec<&[char]> = chars.chunk_by(|a, b| of_one(a) == of_one(b)).collect();
    if !runs.iter().any(|run| is_reference(run)) {
        return escape_word(word, begins_line);
    }
    let escaped = runs.iter().enumerate().map(|(i, run)| {
        let text: String = run.iter().collect();
        if is_reference(run) {
            format!("`{text}`")
        } else {
            escape_word(&text, begins_line && i == 0)
        }
    });
    escaped.collect()
}

fn escape_word(word: &str, begins_line: bool) -> String {
    let chars: Vec<char> = word.chars().collect();
    let is_letter = |c: Option<&char>| c.is_some_and(|c| c.is_alphanumeric());
    let mut out = String::with_capacity(word.len() + 8);
    for (i, c) in chars.iter().enumerate() {
        let (before, after) = (
            chars.get(..i).unwrap_or_default(),
            chars.get(i + 1..).unwrap_or_default(),
        );
        // `www.` and `scheme:` would be made links by themselves.
        let www = i >= 3
            && before
                .iter()
                .rev()
                .take(3)
                .all(|c| c.eq_ignore_ascii_case(&'w'));
        let listed = i > 0
            && before.iter().all(char::is_ascii_digit)
            && after.first().is_none_or(|c| c.is_whitespace());
        let escaped = match c {
            '&' => Some("&amp;"),
            '<' => Some("&lt;"),
            '>' => Some("&gt;"),
            ':' if after.starts_with(&['/', '/']) => Some("&#58;"),
            '.' if www => Some("&#46;"),
            '\\' | '`' | '*' | '[' | ']' | '|' | '~' | '$' | '@' => Some("\\"),
            // `snake_case` stays readable: an underscore inside a word opens no emphasis.
            '_' if !(is_letter(before.last()) && is_letter(after.first())) => Some("\\"),
            '#' | '+' | '-' | '=' if i == 0 && begins_line => Some("\\"),
            '.' | ')' if listed && begins_line => Some("\\"),
            _ => None,
        };
        out.push_str(escaped.unwrap_or_default());
        if escaped.is_none_or(|escaped| escaped == "\\") {
            out.push(*c);
        }
    }
    out
}

/// JSON that may stand inside a `<script>` element: no `<`, and none of the two line separators that JavaScript minds.
pub(crate) fn json_in_script(json: &str) -> String {
    json.replace('<', "\\u003c")
        .replace('\u{2028}', "\\u2028")
        .replace('\u{2029}', "\\u2029")
}

/// `text` broken into lines of at most `width` columns, at spaces where there are some.
pub(crate) fn wrapped(text: &str, width: usize) -> Vec<String> {
    use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};
    let mut lines = vec![String::new()];
    let mut used = 0;
    for word in text.split(' ') {
        let gap = usize::from(used > 0);
        if used > 0 && used + gap + word.width() > width {
            lines.push(String::new());
            used = 0;
        } else if gap == 1 {
            lines.last_mut().into_iter().for_each(|line| line.push(' '));
            used += 1;
        }
        for c in word.chars() {
            let w = c.width().unwrap_or(0);
            if used + w > width {
                lines.push(String::new());
                used = 0;
            }
            lines.last_mut().into_iter().for_each(|line| line.push(c));
            used += w;
        }
    }
    lines
}

#[cfg(test)]
#[path = "../tests/unit/text.rs"]
mod tests;
