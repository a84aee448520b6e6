//! The text format of metrics pages, well and badly written.

#![allow(
    clippy::allow_attributes,
    clippy::unwrap_used,
    reason = "a test says what is wrong by failing"
)]

use proptest::prelude::*;

use bench_hardware::{MAX_SAMPLES, Page, Sample};

fn one(line: &str) -> Sample {
    let page = Page::parse(line.as_bytes()).unwrap();
    assert_eq!((page.samples.len(), page.malformed), (1, 0), "{page:?}");
    page.samples[0].clone()
}

#[test]
fn names_may_have_colons_and_label_values_may_have_braces_commas_quotes_and_newlines() {
    let sample = one(
        r#"vllm:e2e_request_latency_seconds_bucket{engine="0",le="+Inf",model_name="a}b,c=\"d\"\\e\nf {"} 12"#,
    );
    assert_eq!(sample.name, "vllm:e2e_request_latency_seconds_bucket");
    assert_eq!(sample.label("model_name"), Some("a}b,c=\"d\"\\e\nf {"));
    assert_eq!(sample.label("le"), Some("+Inf"));
    assert!((sample.value - 12.0).abs() < 1e-12);
}

#[test]
fn timestamps_exemplars_spaces_and_trailing_commas_are_no_trouble() {
    for line in [
        "a 2.5",
        "a 2.5 1700000000000",
        "a{} 2.5",
        "  a {} 2.5  ",
        "a { x = \"1\" , } 2.5",
        "a_bucket{le=\"0.1\"} 2.5 # {trace_id=\"abc} 7\"} 0.067 1700000000.123",
        "a 2.5\r",
    ] {
        assert!((one(line).value - 2.5).abs() < 1e-12, "{line}");
    }
}

#[test]
fn infinities_and_not_a_number_are_values() {
    assert!(one("a NaN").value.is_nan());
    assert!(one("a +Inf").value.is_infinite());
    assert!(one("a -Inf").value < 0.0);
    assert!((one("a 1.2e+06").value - 1.2e6).abs() < 1e-6);
}

#[test]
fn quoted_names_are_read() {
    let sample = one(r#"{"my.dotted name",x="1"} 3"#);
    assert_eq!(
        (sample.name.as_str(), sample.label("x")),
        ("my.dotted name", Some("1"))
    );
}

#[test]
fn nothing_after_the_end_mark_is_read() {
    let text = "# HELP a What a is\n# TYPE a counter\na_total 1\n# EOF\nb 2\n";
    let page = Page::parse(text.as_bytes()).unwrap();
    assert_eq!(page.samples.len(), 1);
}

#[test]
fn a_bad_line_costs_that_line_only_and_the_first_one_is_named() {
    let text = b"a 1\nb{x=\"unclosed} 2\nc\nd \xff 3\ne four\nf 5\n9g 1\nh{x=1} 1\ni{x} 1\n";
    let page = Page::parse(text).unwrap();
    let names: Vec<_> = page.samples.iter().map(|s| s.name.as_str()).collect();
    assert_eq!(names, ["a", "f"]);
    assert_eq!(page.malformed, 7);
    assert_eq!(page.first_malformed.unwrap().0, 2);
}

#[test]
fn a_web_page_is_not_a_page_of_metrics_and_an_empty_one_is() {
    let error = Page::parse(b"<!DOCTYPE html>\n<html>\n").unwrap_err();
    assert!(error.to_string().contains("line 1"), "{error}");
    assert!(Page::parse(b"{\"detail\":\"Not Found\"}").is_err());
    assert_eq!(Page::parse(b"").unwrap(), Page::default());
    assert!(
        Page::parse(b"# HELP only comments\n")
            .unwrap()
            .samples
            .is_empty()
    );
}

#[test]
fn a_page_without_end_is_cut_and_a_line_without_end_is_malformed() {
    let many = "a 1\n".repeat(MAX_SAMPLES + 10);
    let page = Page::parse(many.as_bytes()).unwrap();
    assert_eq!((page.samples.len(), page.cut), (MAX_SAMPLES, true));
    let long = format!("a 1\nb{{x=\"{}\"}} 1\n", "y".repeat(64 << 10));
    assert_eq!(Page::parse(long.as_bytes()).unwrap().malformed, 1);
}

fn escaped(value: &str) -> String {
    value
        .replace('\\', r"\\")
        .replace('"', "\\\"")
        .replace('\n', r"\n")
}

proptest! {
    #[test]
    fn what_is_written_is_read_back(
        name in "[a-zA-Z_:][a-zA-Z0-9_:]{0,20}",
        labels in proptest::collection::btree_map("[a-zA-Z_][a-zA-Z0-9_]{0,8}", any::<String>(), 0..5),
        value in any::<f64>(),
        stamp in proptest::option::of(any::<i64>()),
    ) {
        let inside: Vec<String> = labels.iter().map(|(k, v)| format!("{k}=\"{}\"", escaped(v))).collect();
        let mut line = format!("{name}{{{}}} {value}", inside.join(","));
        if let Some(stamp) = stamp {
            line.extend([" ".to_owned(), stamp.to_string()]);
        }
        // A bare CR or another line break of Unicode within a value belongs to the value; only LF ends a line.
        let page = Page::parse(line.as_bytes()).unwrap();
        prop_assert_eq!(page.samples.len(), 1);
        let sample = &page.samples[0];
        prop_assert_eq!(&sample.name, &name);
        prop_assert_eq!(&sample.labels, &labels);
        prop_assert!(sample.value.to_bits() == value.to_bits() || (sample.value.is_nan() && value.is_nan()));
    }

    #[test]
    fn no_bytes_make_it_panic_and_every_line_is_accounted_for(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        if let Ok(page) = Page::parse(&bytes) {
            let lines = bytes.split(|&b| b == b'\n').count() as u64;
            prop_assert!(page.samples.len() as u64 + page.malformed <= lines);
        }
    }

    #[test]
    fn pieces_of_the_format_in_any_order_make_no_panic(
        pieces in proptest::collection::vec(
            prop::sample::select(vec!["a", "{", "}", "\"", "\\", "=", ",", " ", "1", "\n", "#", " TYPE ", "le", "é", "+Inf", "\r"]),
            0..60,
        )
    ) {
        let text = pieces.concat();
        if let Ok(page) = Page::parse(text.as_bytes()) {
            prop_assert!(page.samples.iter().all(|s| !s.name.is_empty()));
        }
    }

    #[test]
    fn a_page_that_ends_anywhere_loses_at_most_its_last_line(cut in 0_usize..400) {
        let text = "# TYPE a histogram\na_bucket{le=\"0.1\",m=\"x}y\"} 1\na_bucket{le=\"+Inf\",m=\"x}y\"} 2\na_sum{m=\"x}y\"} 0.3\nb 7\n".repeat(4);
        let cut = cut.min(text.len());
        let whole = Page::parse(text.as_bytes()).unwrap();
        if let Ok(page) = Page::parse(&text.as_bytes()[..cut]) {
            prop_assert!(page.malformed <= 1);
            let complete = text[..cut].matches('\n').count();
            let before = text.lines().take(complete).filter(|l| !l.starts_with('#')).count();
            prop_assert_eq!(&page.samples[..before], &whole.samples[..before]);
        }
    }
}
