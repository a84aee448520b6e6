//! What is written for lengths and datasets: read back as it is shown, refused with a reason.

use bench_workload::{DatasetSpec, LengthSpec};
use proptest::prelude::*;

fn simple() -> impl Strategy<Value = LengthSpec> {
    prop_oneof![
        (1..100_000_u64).prop_map(LengthSpec::Fixed),
        (1..1000_u64, 0..1000_u64).prop_map(|(low, by)| LengthSpec::Uniform {
            low,
            high: low + by
        }),
        (0.1..1e5, 0.0..1e4).prop_map(|(mean, sd)| LengthSpec::Normal { mean, sd }),
        (-2.0..12.0, 0.0..3.0).prop_map(|(mu, sigma)| LengthSpec::LogNormal { mu, sigma }),
        (0.1..50.0, 0.1..500.0).prop_map(|(shape, scale)| LengthSpec::Gamma { shape, scale }),
        (1..5000_u64, 0.0..3.0).prop_map(|(max, exponent)| LengthSpec::Zipf { max, exponent }),
        proptest::collection::vec(1..9999_u64, 1..5).prop_map(LengthSpec::List),
    ]
}

fn any_spec() -> impl Strategy<Value = LengthSpec> {
    let bounded =
        (simple(), 1..50_u64, 0..500_u64).prop_map(|(spec, low, by)| LengthSpec::Within {
            spec: Box::new(spec),
            low,
            high: low + by,
        });
    let mixed = proptest::collection::vec((0.1..9.0, simple()), 1..4).prop_map(LengthSpec::Mixture);
    prop_oneof![simple(), bounded, mixed]
}

proptest! {
    #[test]
    fn what_is_shown_reads_back_as_the_same_lengths(spec in any_spec()) {
        prop_assert_eq!(spec.to_string().parse::<LengthSpec>().unwrap(), spec);
    }

    #[test]
    fn no_text_makes_the_parser_panic(text in ".{0,40}") {
        drop(text.parse::<LengthSpec>());
    }
}

#[test]
fn a_wrong_length_is_told_what_is_wrong_and_what_is_right() {
    for (text, why) in [
        ("0", "at least 1"),
        ("12x", "not a whole number"),
        ("9..3", "larger than the second"),
        ("normal:5", "takes two numbers"),
        ("normal:-5:1", "above 0"),
        ("cauchy:1:2", "unknown distribution `cauchy`"),
        ("lognormal:550:1", "mean of the logarithm"),
        ("mix:5", "no weight"),
        ("empirical:", "file name is missing"),
    ] {
        let message = text.parse::<LengthSpec>().unwrap_err().to_string();
        assert!(
            message.contains(why) && message.contains("128..512"),
            "{message}"
        );
    }
}

proptest! {
    #[test]
    fn no_text_makes_the_parser_of_datasets_panic(
        name in "(prefix|multiturn|joint|spread|study|random-ids|c4)?",
        rest in "[:0-9a-z.,*+/=\\[\\]-]{0,30}",
    ) {
        if let Ok(spec) = format!("{name}{rest}").parse::<DatasetSpec>() {
            let shown = spec.to_string();
            prop_assert_eq!(shown.parse::<DatasetSpec>().unwrap(), spec);
        }
    }
}

#[test]
fn every_dataset_reads_back_as_itself() {
    for text in [
        "mixed",
        "random",
        "random-ids",
        "random-ids:32000",
        "text",
        "study:medium",
        "spread",
        "spread:tiny,very-long",
        "joint:3*256/128..256+1*normal:1024:100/64",
        "joint:empirical:trace.csv",
        "random:128/64",
        "text:normal:768:50/128..192",
        "prefix:8:512:128",
        "prefix:8:512:normal:80:20[8..200]:zipf=1.1",
        "multiturn:2..5:256:lognormal:4:0.5:think=1.5",
        "sharegpt:data/share.json",
        "sharegpt-turns:a.json",
        "c4:c4-train.00000.json.gz",
        "trace:/data/my trace:2.csv",
        "openai-batch:b.jsonl",
    ] {
        let spec: DatasetSpec = text.parse().unwrap();
        assert_eq!(spec.to_string(), text);
    }
}

#[test]
fn a_wrong_dataset_is_told_what_is_wrong() {
    for (text, why) in [
        ("sharegpt", "file name is missing"),
        ("data/x.jsonl", "format prefix"),
        ("mixd", "unknown dataset `mixd`"),
        ("sonnet", "write text, with --input-tokens"),
        ("generated-shared-prefix", "write prefix:GROUPS:PREFIX:OWN"),
        ("mixed:512", "takes no parameters"),
        ("random:512", "not of the form INPUT/OUTPUT"),
        ("prefix:8:512", "2 of the three values"),
        ("prefix:8:512:1:zipf=x", "zipf=x"),
        ("study:huge", "unknown study `huge`"),
        ("joint:3*5", "not of the form INPUT/OUTPUT"),
        ("spread:huge", "unknown category"),
    ] {
        let message = text.parse::<DatasetSpec>().unwrap_err().to_string();
        assert!(message.contains(why), "{message}");
    }
}
