//! The short way through a chunk against the full parse.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::protocol::delta::Taken;
use crate::protocol::json::parse;

/// What a document told, as far as anyone can see.
type Told = (Taken, u64, Option<String>, Option<String>, Option<Usage>);

fn told(read: impl FnOnce(&mut Delta) -> Result<(), DecodeError>) -> Option<Told> {
    let mut out = Delta::new(Some(usize::MAX));
    read(&mut out).ok()?;
    let taken = out.take();
    let whole = out.into_whole();
    Some((
        taken,
        whole.chars,
        whole.text,
        whole.finish_reason,
        whole.usage,
    ))
}

fn quick(json: &str) -> Option<Told> {
    let document = Document {
        data: json.as_bytes(),
        event: "",
        whole: false,
    };
    told(|out| read(document, Shape::Chat, out))
}

fn full(json: &str) -> Option<Told> {
    told(|out| {
        parse::<Chunk<'_>>(json.as_bytes())?.emit(Shape::Chat, false, out);
        Ok(())
    })
}

/// Some of the members, each mostly as servers write it.
fn object(members: Vec<(&'static str, BoxedStrategy<Value>)>) -> BoxedStrategy<Value> {
    let members: Vec<_> = members
        .into_iter()
        .map(|(key, value)| (Just(key), prop::option::weighted(0.7, value)))
        .collect();
    let object = members.prop_map(|members| {
        let present = members
            .into_iter()
            .filter_map(|(key, value)| Some((key, value?)));
        Value::Object(
            present
                .map(|(key, value)| (key.to_owned(), value))
                .collect(),
        )
    });
    object.boxed()
}

fn mostly(value: Value, odd: &[Value]) -> BoxedStrategy<Value> {
    prop_oneof![9 => Just(value), 1 => prop::sample::select(odd.to_vec())].boxed()
}

fn chunk() -> impl Strategy<Value = Value> {
    let null = |odd: &[Value]| mostly(Value::Null, odd);
    let content = "[ -~é世\n\"\\\\]{0,5}".prop_map(Value::from).boxed();
    let delta = prop_oneof![
        4 => content.clone().prop_map(|content| json!({"content": content})),
        1 => Just(json!({"content": "", "role": "assistant"})),
        1 => object(vec![
            ("content", content.clone()),
            ("role", mostly(json!("assistant"), &[Value::Null])),
            ("reasoning", content.clone()),
        ]),
    ];
    let choice = object(vec![
        ("index", mostly(json!(0), &[json!(1.5), json!("a")])),
        ("delta", delta.boxed()),
        (
            "finish_reason",
            null(&[json!("stop"), json!(""), json!("abort"), json!(1)]),
        ),
        ("stop_reason", null(&[json!(2), json!("x"), json!({})])),
        ("logprobs", null(&[json!({"content": [1, 2]})])),
        ("token_ids", null(&[json!([1, 2]), json!([])])),
    ]);
    let counts = json!({"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10});
    let odd = json!({"prompt_tokens": 7.0, "completion_tokens": "3", "prompt_tokens_details": {"cached_tokens": 1}});
    let choices = prop_oneof![
        1 => Just(Vec::new()),
        9 => prop::collection::vec(choice.clone(), 1),
        1 => prop::collection::vec(choice, 0..3),
    ];
    object(vec![
        ("id", mostly(json!("c"), &[json!("a\"b"), Value::Null])),
        (
            "object",
            mostly(json!("chunk"), &[json!("error"), json!(1)]),
        ),
        ("created", mostly(json!(1), &[json!(-1), json!(1e300)])),
        ("choices", choices.prop_map(Value::from).boxed()),
        ("usage", null(&[json!(1), json!({}), counts.clone(), odd])),
        ("error", null(&[json!("no")])),
    ])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn the_short_way_says_what_the_full_parse_says(chunk in chunk(), spaced in any::<bool>()) {
        let json = chunk.to_string();
        let json = if spaced { json.replace("\":", "\": ").replace(",\"", ", \"") } else { json };
        prop_assert_eq!(quick(&json), full(&json), "{}", json);
    }

    #[test]
    fn also_where_a_byte_is_wrong(chunk in chunk(), at in any::<prop::sample::Index>(), byte in b' '..b'~') {
        let mut json = chunk.to_string().into_bytes();
        let at = at.index(json.len());
        json[at] = byte;
        if let Ok(json) = String::from_utf8(json) {
            prop_assert_eq!(quick(&json), full(&json), "{}", json);
        }
    }
}
