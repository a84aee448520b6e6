//! Lenient members, and the short way through the commonest chunk.

use proptest::prelude::{ProptestConfig, prop, prop_assert_eq, proptest};

use super::*;

#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
struct All<'a> {
    #[serde(borrow)]
    text: Text<'a>,
    count: Count,
    number: Number,
    length: Length,
    list: List<Count>,
    error: ErrorField,
}

#[test]
fn a_plain_string_is_borrowed_and_an_escaped_one_is_not_lost() {
    let plain: All<'_> = parse(br#"{"text":"abc"}"#).unwrap();
    assert!(matches!(plain.text, Text(Some(Cow::Borrowed("abc")))));
    let escaped: All<'_> = parse(br#"{"text":"a\nb"}"#).unwrap();
    assert_eq!(escaped.text.get(), Some("a\nb"));
}

#[test]
fn a_value_of_another_type_is_absent_and_costs_nothing_else() {
    for odd in [
        "null",
        "true",
        "-7",
        "1.5",
        "\"x\"",
        "[1,[2]]",
        "{\"a\":{\"b\":1}}",
    ] {
        let json = format!(
            r#"{{"count":{odd},"length":{odd},"list":{odd},"number":{odd},"text":{odd},"error":null}}"#
        );
        if odd == "[1,[2]]" {
            assert!(parse::<All<'_>>(json.as_bytes()).unwrap().length.0 == Some(2));
            continue;
        }
        let all: All<'_> = parse(json.as_bytes()).unwrap();
        assert_eq!(all.text.get().is_some(), odd == "\"x\"", "{odd}");
        assert_eq!(all.number.0.is_some(), matches!(odd, "-7" | "1.5"), "{odd}");
        assert_eq!(all.count.0, None, "{odd}");
        assert_eq!((all.length.0, all.list.0.len()), (None, 0), "{odd}");
        assert_eq!(all.error, ErrorField(None), "{odd}");
    }
}

#[test]
fn counts_may_be_written_as_floats_or_texts_but_not_below_zero() {
    for (json, count) in [
        ("4", Some(4)),
        ("4.0", Some(4)),
        (r#""4""#, Some(4)),
        ("-1", None),
        ("16.5", None),
        ("1e300", None),
        ("1000000000000000000", None),
        (r#""-4""#, None),
        (r#""inf""#, None),
        (r#""4 tokens""#, None),
    ] {
        let json = format!(r#"{{"count":{json}}}"#);
        assert_eq!(parse::<All<'_>>(json.as_bytes()).unwrap().count.0, count);
    }
}

#[test]
fn an_error_is_told_by_its_message_whatever_its_form() {
    for (json, message) in [
        (r#""no""#, Some("no")),
        (r#"{"message":"no","code":1}"#, Some("no")),
        (r#"{"code":1}"#, Some(r#"{"code":1}"#)),
        ("500", Some("500")),
        ("true", Some("true")),
        ("null", None),
        ("false", None),
        (r#""""#, None),
    ] {
        let json = format!(r#"{{"error":{json}}}"#);
        assert_eq!(
            parse::<All<'_>>(json.as_bytes())
                .unwrap()
                .error
                .0
                .as_deref(),
            message
        );
    }
}

fn text(json: &str, shape: Shape) -> Option<&str> {
    skim(json.as_bytes(), shape).map(|skimmed| skimmed.text)
}

#[test]
fn the_chunks_of_real_servers_are_skimmed() {
    let vllm = r#"{"id":"c","object":"chat.completion.chunk","created":1795171180,"model":"m","choices":[{"index":0,"delta":{"content":"é x"},"logprobs":null,"finish_reason":null,"token_ids":null}]}"#;
    let llama = r#"{"choices":[{"finish_reason":null,"index":0,"delta":{"content":"é x"}}],"created":1,"id":"c","model":"m","system_fingerprint":"b1","object":"chat.completion.chunk"}"#;
    let python = r#"{"id": "c", "model": "m", "created": 1, "object": "c", "choices": [{"index": 0, "delta": {"content": "é x"}, "logprobs": null, "finish_reason": null}]}"#;
    for chunk in [vllm, llama, python] {
        assert_eq!(text(chunk, Shape::Chat), Some("é x"));
    }
    let completions = r#"{"id":"c","object":"text_completion","created":1,"model":"m","choices":[{"index":0,"text":" a","logprobs":null,"finish_reason":null,"stop_reason":null,"prompt_token_ids":null,"token_ids":null}]}"#;
    assert_eq!(text(completions, Shape::Completions), Some(" a"));
}

#[test]
fn what_opens_an_answer_and_what_ends_it_are_skimmed() {
    let choice = |choice: &str| format!(r#"{{"choices":[{{"index":0,{choice}}}],"usage":null}}"#);
    let ends = |json: &str, shape| {
        let skimmed = skim(json.as_bytes(), shape)?;
        assert_eq!(skimmed.text, "", "{json}");
        Some((skimmed.finish_reason.to_owned(), skimmed.usage))
    };
    let role = choice(r#""delta":{"role":"assistant","content":""},"finish_reason":null"#);
    assert_eq!(ends(&role, Shape::Chat), Some((String::new(), [None; 2])));
    let stop = Some(("stop".to_owned(), [None; 2]));
    let end = choice(r#""delta":{},"finish_reason":"stop","stop_reason":2"#);
    assert_eq!(ends(&end, Shape::Chat), stop);
    let end = choice(r#""text":"","finish_reason":"stop""#);
    assert_eq!(ends(&end, Shape::Completions), stop);
    let usage = r#"{"choices":[],"usage":{"prompt_tokens":7,"total_tokens":12,"completion_tokens":5,"prompt_tokens_details":null}}"#;
    let counts = Some((String::new(), [Some(7), Some(5)]));
    assert_eq!(ends(usage, Shape::Chat), counts);
    let last = choice(r#""delta":{"content":"a"},"finish_reason":"length""#);
    let last = skim(last.as_bytes(), Shape::Chat).unwrap();
    assert_eq!((last.text, last.finish_reason), ("a", "length"));
}

#[test]
fn whatever_could_matter_is_left_to_the_full_parse() {
    let choice = |choice: &str| format!(r#"{{"choices":[{{{choice}}}]}}"#);
    let left = [
        choice(r#""delta":{"content":""}"#),
        choice(r#""delta":{"content":"a\n"}"#),
        choice(r#""delta":{"content":null}"#),
        choice(r#""delta":{"content":"a","role":null}"#),
        choice(r#""delta":{"content":""},"finish_reason":"stop""#),
        choice(r#""delta":{"content":"a"},"usage":{}"#),
        choice(""),
        choice(r#""delta":{"reasoning":"a"}"#),
        choice(r#""delta":{"content":"a"},"finish_reason":1"#),
        choice(r#""delta":{"content":"a"},"token_ids":[1]"#),
        choice(r#""delta":{"content":"a"}},{"delta":{"content":"b"}"#),
        choice(r#""delta":{"content":"a"},"delta":{"content":"b"}"#),
        r#"{"choices":[],"usage":{"completion_tokens":-1}}"#.to_owned(),
        r#"{"choices":[],"usage":{"completion_tokens":1.5}}"#.to_owned(),
        r#"{"choices":[],"usage":{"completion_tokens":1,"cached_tokens":1}}"#.to_owned(),
        r#"{"choices":[],"usage":{"completion_tokens":1234567890123456}}"#.to_owned(),
        r#"{"choices":[],"x_groq":{}}"#.to_owned(),
        r#"{"usage":{"completion_tokens":1}}"#.to_owned(),
        r#"{"choices":[{"delta":{"content":"a"}}],"error":{"message":"no"}}"#.to_owned(),
        r#"{"created":01,"choices":[{"delta":{"content":"a"}}]}"#.to_owned(),
        r#"{"created":1.5,"choices":[{"delta":{"content":"a"}}]}"#.to_owned(),
        r#"{"choices":[{"delta":{"content":"a"}}]} x"#.to_owned(),
        r#"{"choices":[{"delta":{"content":"a"}}]"#.to_owned(),
    ];
    for json in &left {
        assert_eq!(skim(json.as_bytes(), Shape::Chat), None, "{json}");
    }
    assert_eq!(
        skim(
            b"{\"choices\":[{\"delta\":{\"content\":\"\xff\"}}]}",
            Shape::Chat
        ),
        None
    );
}

proptest! {
    #![proptest_config(ProptestConfig {
        rng_seed: proptest::test_runner::RngSeed::Fixed(23),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// Whatever came before: a chunk that is held against another has the text that looking through it gives.
    #[test]
    fn a_mould_changes_nothing(
        chunks in prop::collection::vec((
            prop::sample::select(vec!["a", "", "é", "\"", "\\n", "\n", "}]}", "a\"}}],\"usage\":{}", "content"]),
            prop::sample::select(vec!["1", "2", "null", "\"x\""]),
            prop::option::of((proptest::prelude::any::<prop::sample::Index>(), prop::sample::select(b"\"\\{}, x\xff".to_vec()))),
        ), 1..12),
    ) {
        let mut mould = Mould::default();
        for (text, created, spoilt) in chunks {
            let json = format!(r#"{{"created":{created},"choices":[{{"index":0,"delta":{{"content":"{text}"}},"logprobs":null}}]}}"#);
            let mut json = json.into_bytes();
            if let Some((at, byte)) = spoilt {
                let at = at.index(json.len());
                json[at] = byte;
            }
            prop_assert_eq!(mould.skim(&json, Shape::Chat), skim(&json, Shape::Chat));
        }
    }
}
