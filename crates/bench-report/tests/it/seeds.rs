//! Everything that `docs/seeds.md` names exists: charts, tables, configurations, recipes, findings, commands.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use bench_report::RunFiles;
use bench_schema::{Answer, Cause, Fact, Load};

use crate::support::runs;
use crate::{compare, html};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// `figure:throughput` in backticks is a kind and a name.
fn named(text: &str) -> Vec<(&str, &str)> {
    let kinds = [
        "figure", "table", "column", "config", "example", "recipe", "finding", "command",
    ];
    let quoted = text.split('`').skip(1).step_by(2);
    let pairs = quoted.filter_map(|code| code.split_once(':'));
    pairs
        .filter(|(kind, name)| kinds.contains(kind) && *name != name.to_uppercase())
        .collect()
}

/// What stands between two marks, each time.
fn between<'a>(page: &'a str, from: &str, to: &str) -> Vec<&'a str> {
    let parts = page.split(from).skip(1);
    parts.filter_map(|part| part.split(to).next()).collect()
}

#[test]
fn everything_that_the_page_on_the_studies_names_exists() {
    let text = std::fs::read_to_string(root().join("docs/seeds.md")).unwrap();
    let recipes = std::fs::read_to_string(root().join("justfile")).unwrap();
    let commands = std::fs::read_to_string(root().join("bins/bench-report/src/lib.rs")).unwrap();
    let mut pages = html::pages();
    pages.extend(compare::pages());
    let mut unlike = runs::sweep();
    for cell in &mut unlike.cells {
        cell.load = Load::closed(8);
    }
    let page = bench_report::html::render(&unlike, &RunFiles::default()).unwrap();
    pages.push(("unlike cells", page));
    let mut figures: BTreeSet<&str> = BTreeSet::from(["dashboard"]);
    let mut tables: BTreeSet<&str> = BTreeSet::new();
    let mut columns: BTreeSet<&str> = BTreeSet::new();
    for (_, page) in &pages {
        for figure in between(page, "<figure", ">") {
            figures.extend(between(figure, "id=\"", "\""));
        }
        tables.extend(between(page, "<caption>", "</caption>"));
        let headings = between(page, "<th scope=\"col\"", "</th>").into_iter();
        columns
            .extend(headings.filter_map(|heading| heading.split(['>', '<']).nth(1).map(str::trim)));
    }
    let findings: BTreeSet<&str> = Cause::ALL
        .iter()
        .map(|code| code.as_str())
        .chain(Fact::ALL.iter().map(|code| code.as_str()))
        .chain(Answer::ALL.iter().map(|code| code.as_str()))
        .collect();
    let exists = |(kind, name): &(&str, &str)| match *kind {
        "figure" => figures.contains(name),
        // the page names a table by the beginning of its title
        "table" => tables.iter().any(|title| title.starts_with(name)),
        "column" => columns.contains(name),
        "config" => root().join("examples/configs").join(name).is_file(),
        "example" => root().join("examples").join(name).is_file(),
        "recipe" => recipes
            .lines()
            .any(|line| line.split([' ', ':']).next() == Some(name)),
        "finding" => findings.contains(name),
        _ => {
            let mut letters = name.chars();
            let first = letters.next().unwrap().to_uppercase().to_string();
            commands.contains(&format!("Command::{first}{}(", letters.as_str()))
        }
    };
    let all = named(&text);
    assert!(all.len() > 100, "only {} names were read", all.len());
    let missing: Vec<_> = all.iter().filter(|name| !exists(name)).collect();
    assert!(
        missing.is_empty(),
        "not there: {missing:?}; there are {figures:?} and {tables:?}"
    );
}
