//! The documentation of every key, made from the table.

use std::fmt::Write;

use bench_schema::Benchmark;

use super::keys::{KEYS, Key, Shape};

/// The text of `examples/configs/full.toml`: every key with its default, commented out, so that the file changes nothing as it stands.
pub fn full_toml() -> String {
    let mut text = String::from(
        "# Every key of the three benchmarks with its default. All lines are commented out: take the # off the ones you change.\n\
         # A flag of the same name (with dashes) wins over the file. bench-latency, bench-throughput and bench-seqlen refuse the\n\
         # keys of the others; a key that is not for all three says whose it is. Durations are texts with a unit: \"250ms\", \"30s\".\n",
    );
    let mut group = "";
    for key in KEYS {
        if key.group != group {
            group = key.group;
            text.push_str("\n# --- ");
            text.push_str(group);
            text.push_str(" ---\n");
        }
        document(&mut text, key);
    }
    text
}

fn document(text: &mut String, key: &Key) {
    let whose = if key.benchmarks.len() == 3 {
        String::new()
    } else {
        let names: Vec<_> = key
            .benchmarks
            .iter()
            .copied()
            .map(Benchmark::name)
            .collect();
        format!(" ({} only)", names.join(" and "))
    };
    // writing to a String cannot fail
    let _written = write!(
        text,
        "\n# {}{whose}\n# {} = {}\n",
        key.help,
        key.name,
        example(key)
    );
}

fn example(key: &Key) -> String {
    let quoted = |value: &str| match value.parse::<f64>() {
        Ok(_) => value.to_owned(),
        Err(_) => format!("\"{value}\""),
    };
    match (key.shape, key.default) {
        (Shape::Switch, Some(value)) => value.to_owned(),
        (Shape::List | Shape::Repeat, Some(value)) => {
            let items: Vec<_> = value.split(',').map(quoted).collect();
            format!("[{}]", items.join(", "))
        }
        (Shape::One, Some(value)) => quoted(value),
        (Shape::List | Shape::Repeat, None) => format!("[]  # {}", key.metavar),
        (_, None) => format!("\"\"  # not set; {}", key.metavar),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shipped_full_toml_is_the_table_of_keys() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../examples/configs/full.toml");
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
}
