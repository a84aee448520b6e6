//! The documentation of every key, made from the struct.

use std::fmt::Write;

use bench_schema::Benchmark;
use clap::Arg;

use crate::keys::{self, Shape};

/// The text of `examples/configs/full.toml`: every key with its default, commented out, so that the file changes nothing as it stands.
pub fn full_toml() -> String {
    let mut text = String::from(
        "# Every key of the three benchmarks with its default. All lines are commented out: take the # off the ones you change.\n\
         # A flag of the same name (with dashes) wins over the file. bench-latency, bench-throughput and bench-seqlen refuse the\n\
         # keys of the others; a key that is not for all three says whose it is. Durations are texts with a unit: \"250ms\", \"30s\".\n",
    );
    let command = keys::typed();
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
    let takers = keys::takers(key.get_id().as_str());
    let whose = if takers.len() == 3 {
        String::new()
    } else {
        let names: Vec<_> = takers.iter().copied().map(Benchmark::name).collect();
        format!(" ({} only)", names.join(" and "))
    };
    let (help, name) = (keys::help(key), key.get_id());
    // writing to a String cannot fail
    let _written = write!(text, "\n# {help}{whose}\n# {name} = {}\n", example(key));
}

fn example(key: &Arg) -> String {
    let quoted = |value: &str| match value.parse::<f64>() {
        Ok(_) => value.to_owned(),
        Err(_) => format!("\"{value}\""),
    };
    let metavar = keys::metavar(key);
    match (keys::shape(key), keys::default(key)) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shipped_full_toml_is_the_struct() {
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
