use super::*;

#[test]
fn durations_take_units_and_explain_their_absence() {
    assert_eq!(time("250ms"), Ok(Nanos::from_millis(250)));
    assert_eq!(time("1.5s"), Ok(Nanos::from_millis(1500)));
    assert_eq!(time("2m"), Ok(Nanos::from_secs(120)));
    assert_eq!(
        time("30").unwrap_err(),
        "needs a unit (got `30`): write `30s` for seconds or `30ms` for milliseconds"
    );
    assert!(time("fast").unwrap_err().contains("250ms"));
    assert!(positive_time("0s").unwrap_err().contains("longer than 0"));
}

#[test]
fn bounds_are_named_with_what_was_given() {
    assert_eq!(
        whole(1, 10_u32)("0").unwrap_err(),
        "must be a whole number from 1 to 10 (got `0`)"
    );
    assert!(rate("0").unwrap_err().contains("greater than 0"));
    assert!(rate("inf").unwrap_err().contains("closed loop"));
}

#[test]
fn a_level_and_both_kinds_of_ramps_are_understood() {
    let parsed = ["8", "ramp:1:32", "ramp:16:2", "steps:1:8:4"].map(|text| {
        let it: Concurrency = text.parse().unwrap();
        (it.most, it.id(), it.label())
    });
    let expected = [
        (8, "c8", "concurrency 8"),
        (32, "c1-to-32", "concurrency 1 to 32"),
        (16, "c16-to-2", "concurrency 16 to 2"),
        (8, "c1-8-4", "concurrency 1 → 8 → 4"),
    ];
    assert_eq!(
        parsed,
        expected.map(|(most, id, label)| (most, id.to_owned(), label.to_owned()))
    );
    let refused = |text: &str| text.parse::<Concurrency>().unwrap_err();
    assert_eq!(
        refused("many"),
        "must be a whole number from 1 to 1000000 (got `many`), or ramp:FROM:TO, or steps:A:B:…"
    );
    assert!(refused("ramp:1").contains("ramp:FROM:TO"));
    assert!(refused("ramp:0:4").contains("(got `0`)"));
    assert!(refused("steps:").contains("whole number"));
}

#[test]
fn a_wrong_header_is_told_without_its_value() {
    let refused = |text: &str| text.parse::<Header>().unwrap_err();
    for text in [
        "Authorization=Bearer sk-123456",
        "Authorization Bearer: sk-123456",
        "x-key: sk-123456\n",
    ] {
        let inner = refused(&format!("{text}\u{1}: x"));
        assert!(!inner.contains("123456"), "{inner}");
    }
    assert!(refused("Authorization Bearer sk-123456").contains("`Name: value`"));
    for same in ["x-key: a=b:c", "x-key=a=b:c"] {
        let header = same.parse::<Header>().unwrap();
        assert_eq!((&*header.name, header.value.expose()), ("x-key", "a=b:c"));
    }
}

#[test]
fn addresses_are_shown_without_what_is_secret_in_them() {
    let shown = |text: &str| format!("{0} {0:?}", Address::from(text));
    assert_eq!(
        shown("https://me:pw@host:8/v1?key=abc"),
        "https://***@host:8/v1?*** https://***@host:8/v1?***"
    );
    for raw in ["http://me:p/w@host:8", "http://me:p?w@host", "me:p#w@host"] {
        let shown = shown(raw);
        assert!(shown.contains("***") && !shown.contains('w'), "{shown}");
    }
    for plain in ["http://h:8/v1/@cf", "http://[::1]:8/@cf", "h/@cf"] {
        assert!(shown(plain).starts_with(plain));
    }
    assert!(shown("http://127.0.0.1:8000").starts_with("http://127.0.0.1:8000 "));
    assert!(shown("unix:///run/server.sock").starts_with("unix:///run/server.sock "));
}

/// What is stored of a value reads back as the value.
fn reads_back<T: Shown + PartialEq + fmt::Debug>(
    read: impl Fn(&str) -> Result<T, String>,
    texts: &[&str],
) {
    for text in texts {
        let value = read(text).unwrap();
        let stored = match value.shown() {
            Value::String(text) => text,
            other => other.to_string(),
        };
        assert_eq!(read(&stored), Ok(value), "{text} stored as {stored}");
    }
}

#[test]
fn every_stored_text_reads_back() {
    reads_back(time, &["0", "1.5s", "250ms", "7us", "3ns", "2h"]);
    reads_back(
        slo,
        &["ttft=200ms", "p99.9:e2e=1.2345s@short-qa", "itl=7us"],
    );
    reads_back(str::parse::<Amount>, &["5", "5s"]);
    reads_back(str::parse::<Concurrency>, &["8", "ramp:1:4", "steps:1:2:9"]);
    reads_back(shard, &["3/4"]);
    for right in ["node-1:7077", "[::1]:7077", "10.0.0.1:65535"] {
        assert_eq!(meeting(right).as_deref(), Ok(right));
    }
    for wrong in [
        "node-1",
        "node-1:",
        ":7077",
        "node-1:0",
        "node-1:70777",
        "http://node-1:7077",
        "::1:7077",
        "me@node:1",
    ] {
        assert!(meeting(wrong).is_err(), "{wrong}");
    }
    let arrivals = "poisson constant gamma:0.5 burst:4 ramp:1:2.5 steps:1:2 series:/a:b.csv trace:2 users:3:1500ms";
    reads_back(arrival, &arrivals.split(' ').collect::<Vec<_>>());
    reads_back(str::parse::<Lengths>, &["256", "normal:5:1", "1..4"]);
}

#[test]
fn lengths_are_a_distribution_or_the_values_of_a_grid() {
    let read = |text: &str| text.parse::<Lengths>().unwrap();
    assert_eq!(read("256").spec(), Some(LengthSpec::Fixed(256)));
    assert_eq!(read("256").grid(), Some([256].as_slice()));
    assert_eq!(read("16, 32").grid(), Some([16, 32].as_slice()));
    assert_eq!(read("16,32").spec(), None);
    assert_eq!(read("16..32").grid(), None);
    assert!("0".parse::<Lengths>().unwrap_err().contains("from 1"));
}
