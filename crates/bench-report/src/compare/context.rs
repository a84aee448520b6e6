//! In what the runs differ besides their numbers: what else could be the cause.

use std::collections::BTreeMap;

use bench_schema::RunRecord;
use serde_json::Value;

use super::points::Study;
use crate::table::{Cell, Column, Table};
use crate::text::shortened;

/// Settings that every run has its own of, and that change nothing: where it was written, and tags, which have rows of their own.
const OWN: [&str; 2] = ["out", "tag"];
/// Rows shown.
const ROWS: usize = 60;

/// The facts in which the first runs of the points differ, one column for each point.
pub(super) fn differences(study: &Study<'_>) -> Option<Table> {
    let facts: Vec<BTreeMap<String, String>> = study
        .points
        .iter()
        .filter_map(|point| point.runs.first())
        .map(|run| facts(run))
        .collect();
    let mut names: Vec<&String> = facts.iter().flat_map(BTreeMap::keys).collect();
    names.sort();
    names.dedup();
    let mut columns = vec![Column::text("what")];
    columns.extend(
        study
            .points
            .iter()
            .map(|point| Column::text(shortened(&point.name, 40))),
    );
    let mut table = Table::new("In what the runs differ", columns);
    for name in names {
        let values: Vec<Option<&String>> = facts.iter().map(|facts| facts.get(name)).collect();
        let first = values.first().copied().flatten();
        if values.iter().any(|value| *value != first) && table.rows.len() < ROWS {
            let mut row = vec![Cell::text(shortened(name, 60))];
            row.extend(
                values.iter().map(|value| {
                    value.map_or_else(Cell::default, |v| Cell::text(shortened(v, 80)))
                }),
            );
            table.push(row);
        }
    }
    table.not_empty()
}

fn facts(run: &RunRecord) -> BTreeMap<String, String> {
    let mut facts = BTreeMap::new();
    let mut add = |name: &str, value: Option<String>| {
        facts.extend(value.map(|value| (name.to_owned(), value)));
    };
    add("model", run.server.model.clone());
    add("server", run.server.kind.clone());
    add("server version", run.server.version.clone());
    for (name, fact) in &run.server.facts {
        add(&format!("server {name}"), Some(fact.clone()));
    }
    add("tool version", Some(run.tool.version.clone()));
    add("client host", run.host.name.clone());
    add("client CPU", run.host.cpu_model.clone());
    add("benchmark", Some(run.experiment.name().to_owned()));
    add("seed", Some(run.seed.to_string()));
    for (key, value) in &run.tags {
        add(&format!("tag {key}"), Some(value.clone()));
    }
    let own = |key: &str| key == "sampler_cpu_share";
    for (key, value) in run.host.facts.iter().filter(|(key, _)| !own(key)) {
        add(&key.replace('_', " "), Some(value.clone()));
    }
    flatten("config", &run.config, &mut facts);
    facts
}

fn flatten(name: &str, value: &Value, facts: &mut BTreeMap<String, String>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map.iter().filter(|(key, _)| !OWN.contains(&key.as_str())) {
                flatten(&format!("{name}.{key}"), value, facts);
            }
        }
        Value::Null => {}
        Value::String(text) => {
            facts.insert(name.to_owned(), text.clone());
        }
        other => {
            facts.insert(name.to_owned(), other.to_string());
        }
    }
}
