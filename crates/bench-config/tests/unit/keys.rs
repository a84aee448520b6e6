use std::fmt::Write as _;
use std::path::Path;

use super::*;

#[test]
fn every_command_line_is_without_contradictions() {
    typed().debug_assert();
    for benchmark in [Benchmark::Latency, Benchmark::Throughput, Benchmark::Seqlen] {
        command(benchmark, "").debug_assert();
    }
}

#[test]
fn keys_that_not_all_take_exist() {
    let keys = typed();
    for name in ONLY.iter().flat_map(|(_, keys)| *keys) {
        let found = keys.get_arguments().any(|key| key.get_id() == name);
        assert!(found, "{name}");
    }
}

#[test]
fn names_flags_and_aliases_are_all_different() {
    let mut seen = std::collections::BTreeSet::new();
    for key in typed().get_arguments() {
        assert!(seen.insert(flag(key)), "{} twice", flag(key));
        for alias in key.get_all_aliases().unwrap_or_default() {
            assert!(seen.insert(alias.to_owned()), "{alias} twice");
        }
    }
}

#[test]
fn every_key_says_what_it_is() {
    for key in typed().get_arguments() {
        assert!(!help(key).is_empty(), "{}", key.get_id());
    }
}

#[test]
fn a_misspelt_key_finds_its_neighbour() {
    let known = ["concurrency", "requests"];
    let near = |name| nearest(name, known.into_iter());
    assert_eq!(near("concurency"), Some("concurrency"));
    assert_eq!(near("completely_different_thing"), None);
}

#[test]
fn the_shipped_full_toml_is_the_struct() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/configs/full.toml");
    #[expect(
        clippy::disallowed_methods,
        reason = "a test that can rewrite its golden file"
    )]
    if std::env::var("UPDATE_GOLDEN").is_ok() {
        std::fs::write(&path, full_toml()).unwrap();
    }
    let shipped = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        shipped == full_toml(),
        "examples/configs/full.toml is stale; run this test with UPDATE_GOLDEN=1"
    );
}

/// The text of `examples/configs/full.toml`: every key with its default, commented out, so that the file changes nothing as it stands.
fn full_toml() -> String {
    let mut text = String::from(
        "# All keys of the three benchmarks with their defaults. All lines are commented out: remove the # from the lines that you change.\n\
         # An environment variable (BENCH_THINK_TIME for `think_time`) overrides the file, and a flag (--think-time) overrides both.\n\
         # bench-latency, bench-throughput and bench-seqlen reject each other's keys; a key that not all three accept names its\n\
         # programs. Durations are strings with a unit: \"250ms\", \"30s\".\n",
    );
    let command = typed();
    let heading = |key: &Arg| key.get_help_heading().unwrap_or_default().to_owned();
    let mut headings = Vec::new();
    for key in command.get_arguments() {
        if !headings.contains(&heading(key)) {
            headings.push(heading(key));
        }
    }
    for wanted in headings {
        // writing to a String cannot fail
        let _written = write!(text, "\n# --- {wanted} ---\n");
        for key in command.get_arguments().filter(|key| heading(key) == wanted) {
            document(&mut text, key);
        }
    }
    text
}

fn document(text: &mut String, key: &Arg) {
    let takers = takers(key.get_id().as_str());
    let whose = if takers.len() == 3 {
        String::new()
    } else {
        let names: Vec<_> = takers.iter().copied().map(Benchmark::as_str).collect();
        format!(" ({} only)", names.join(" and "))
    };
    let (help, name) = (help(key), key.get_id());
    // writing to a String cannot fail
    let _written = write!(text, "\n# {help}{whose}\n# {name} = {}\n", example(key));
}

fn example(key: &Arg) -> String {
    let quoted = |value: &str| match value.parse::<f64>() {
        Ok(_) => value.to_owned(),
        Err(_) => format!("\"{value}\""),
    };
    let metavar = metavar(key);
    match (shape(key), default(key)) {
        (Shape::Switch, Some(value)) => value,
        (Shape::List | Shape::Repeat, Some(value)) => {
            let items: Vec<_> = value.split(',').map(quoted).collect();
            format!("[{}]", items.join(", "))
        }
        (Shape::One, Some(value)) => quoted(&value),
        (Shape::List | Shape::Repeat, None) => format!("[]  # {metavar}"),
        (_, None) => format!("\"\"  # not set; {metavar}"),
    }
}
