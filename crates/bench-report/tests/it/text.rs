//! Text of strangers, made harmless.

use bench_report::{markdown_text as markdown, plain_text as plain};

#[test]
fn escapes_that_steer_a_terminal_or_turn_text_around_are_shown_as_replacement_characters() {
    assert_eq!(plain("a\u{1b}[31mred\u{7}"), "a\u{fffd}[31mred\u{fffd}");
    assert_eq!(plain("evil\u{202e}gpj.exe\n"), "evil\u{fffd}gpj.exe");
    assert_eq!(plain("שלום"), "שלום");
}

#[test]
fn markdown_cannot_make_links_code_cells_or_html_of_a_name() {
    assert_eq!(
        markdown("[a](b) `c` | <img>"),
        "\\[a\\](b) \\`c\\` \\| &lt;img&gt;"
    );
    assert_eq!(markdown("max_num_seqs _x_"), "max_num_seqs \\_x\\_");
    assert_eq!(
        markdown("https://x:1/a?b=c_d, www.y.z @me (http://x) a(http://x)"),
        "`https://x:1/a?b=c_d`, www&#46;y.z `@me` (`http://x`) a(http&#58;//x)"
    );
    assert_eq!(
        markdown("server_metrics/http://x:1/metrics"),
        "`server_metrics/http://x:1/metrics`"
    );
    assert_eq!(markdown("# 1"), "\\# 1");
    assert_eq!(markdown("1. x"), "1\\. x");
    assert_eq!(markdown("14.0"), "14.0");
}
