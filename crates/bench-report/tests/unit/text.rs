//! Tests of `src/text.rs`.

use super::*;

#[test]
fn a_heading_begins_large_but_names_keep_their_spelling() {
    assert_eq!(heading("decode takes 96 %"), "Decode takes 96 %");
    assert_eq!(heading("max_num_seqs is low"), "max_num_seqs is low");
    assert_eq!(heading(""), "");
}

#[test]
fn a_name_of_ten_kilobytes_is_cut_and_says_so() {
    let cut = plain(&"x".repeat(10_000));
    assert_eq!((cut.chars().count(), cut.ends_with('…')), (400, true));
    assert_eq!(shortened("abcdef", 3), "ab…");
    assert_eq!(shortened("abc", 3), "abc");
    assert_eq!(shortened("a long-word", 8), "a long-…");
    let cut = shortened("more requests (`--requests`, `--duration`)", 35);
    assert_eq!(cut, "more requests (`--requests`,…");
    assert_eq!(markdown(&cut), cut);
}

#[test]
fn flags_in_backticks_are_code_and_nothing_else_is() {
    let said = "raise `--requests` (or `--duration`), see `a<b`";
    assert_eq!(
        with_code("raise `--requests`, or <b>").0,
        "raise <code>--requests</code>, or &lt;b&gt;"
    );
    assert_eq!(with_code("one ` alone").0, "one ` alone");
    assert_eq!(with_code(said).0, html(said));
    assert_eq!(
        markdown(said),
        "raise `--requests` (or `--duration`), see \\`a&lt;b\\`"
    );
}

#[test]
fn mail_addresses_mentions_and_issues_are_code_whatever_stands_around_them() {
    for (text, is) in [
        ("me@evil.example", "`me@evil.example`"),
        ("ask @name, or #17.", "ask `@name`, or `#17.`"),
        ("(me@evil.example)", "(`me@evil.example`)"),
        ("`me@evil.example`", "\\``me@evil.example`\\`"),
        ("*a@b|<#1>", "\\*`a@b`\\|&lt;`#1`&gt;"),
        ("http://me@evil|", "http:`//me@evil`\\|"),
        ("3 @ 4", "3 \\@ 4"),
    ] {
        assert_eq!(markdown_cell(text), is, "{text}");
    }
}

#[test]
fn a_script_end_tag_cannot_leave_the_json_block() {
    assert_eq!(
        json_in_script(r#"{"a":"</script>"}"#),
        r#"{"a":"\u003c/script>"}"#
    );
}

#[test]
fn long_words_are_broken_and_short_ones_kept_whole() {
    assert_eq!(wrapped("aa bb cccccc", 5), ["aa bb", "ccccc", "c"]);
    assert_eq!(wrapped("", 5), [""]);
}
