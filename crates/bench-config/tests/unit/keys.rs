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
