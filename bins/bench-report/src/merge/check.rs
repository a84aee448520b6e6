//! Whether runs are shards of one plan.

use std::collections::BTreeSet;

use bench_schema::{CellRecord, RunRecord};
use serde_json::Value;

use crate::error::CommandError;
use crate::run_folder::RunFolder;

/// Keys that are each shard's own business.
pub(super) const OWN: &[&str] = &[
    "shard",
    "start_at",
    "out",
    "output",
    "progress",
    "quiet",
    "verbose",
    "html",
    "workers",
    "server_pid",
    "nvml",
    "hardware",
    "dcgm",
    "prometheus",
    "tag",
];

/// Its place among the shards; runs without one come last, in the order given.
pub(super) fn index(run: &RunRecord) -> u64 {
    let name = name(run);
    let index = name
        .split('/')
        .next()
        .and_then(|text| text.trim().parse().ok());
    index.unwrap_or(u64::MAX)
}

/// The name of what is no shard.
const UNKNOWN: &str = "?";

/// Shards that are named; of more only the number is told.
const MOST_NAMED: usize = 8;

/// Which shards of the plan were not given, where the runs tell.
pub(super) fn missing(shards: &[RunFolder]) -> Option<String> {
    let all = name(&shards.first()?.record);
    let count: u64 = all.split_once('/')?.1.trim().parse().ok()?;
    let given: BTreeSet<u64> = shards.iter().map(|shard| index(&shard.record)).collect();
    let missing = usize::try_from(count).ok()?.checked_sub(given.len())?;
    let lacking = (0..count).filter(|index| !given.contains(index));
    let named: Vec<String> = lacking
        .take(MOST_NAMED)
        .map(|index| format!("{index}/{count}"))
        .collect();
    let more = missing.saturating_sub(named.len());
    let named = named.join(", ");
    match (missing, more) {
        (0, _) => None,
        (1, _) => Some(format!("shard {named} was not given")),
        (_, 0) => Some(format!("shards {named} were not given")),
        _ => Some(format!("shards {named} and {more} more were not given")),
    }
}

/// `0/4`, or `?`.
pub(super) fn name(run: &RunRecord) -> String {
    let shard = run.config.get("shard").and_then(Value::as_str);
    shard.unwrap_or(UNKNOWN).to_owned()
}

/// Nothing where all belong together; else the first key in which they differ.
pub(super) fn one_run(shards: &[RunFolder]) -> Result<(), CommandError> {
    let Some((first, others)) = shards.split_first() else {
        return Ok(());
    };
    if let Some(alone) = shards.iter().find(|shard| name(&shard.record) == UNKNOWN) {
        return Err(CommandError::NoShard(alone.path.clone()));
    }
    for (place, other) in others.iter().enumerate() {
        if let Some((key, ours, theirs)) = difference(&first.record, &other.record) {
            return Err(CommandError::NotOneRun {
                first: first.path.clone(),
                other: other.path.clone(),
                key,
                ours,
                theirs,
            });
        }
        let before = shards.iter().take(place + 1);
        let mut twins = before.filter(|shard| name(&shard.record) == name(&other.record));
        if let Some(twin) = twins.next() {
            return Err(CommandError::SameShard {
                first: twin.path.clone(),
                other: other.path.clone(),
                shard: name(&other.record),
            });
        }
    }
    Ok(())
}

type Difference = (String, String, String);

fn difference(a: &RunRecord, b: &RunRecord) -> Option<Difference> {
    let unequal =
        |key: &str, a: Value, b: Value| (a != b).then(|| (key.to_owned(), shown(&a), shown(&b)));
    unequal("schema.major", a.schema.major.into(), b.schema.major.into())
        .or_else(|| {
            unequal(
                "experiment",
                a.experiment.name().into(),
                b.experiment.name().into(),
            )
        })
        .or_else(|| unequal("seed", a.seed.into(), b.seed.into()))
        .or_else(|| in_config(a, b))
        .or_else(|| unequal("number of shards", of(a), of(b)))
        .or_else(|| {
            unequal(
                "server.model",
                value(&a.server.model),
                value(&b.server.model),
            )
        })
        .or_else(|| {
            unequal(
                "clock.arrival",
                value(&a.clock.arrival),
                value(&b.clock.arrival),
            )
        })
        .or_else(|| in_cells(a, b))
}

/// The N of `I/N`.
fn of(run: &RunRecord) -> Value {
    let name = name(run);
    name.split_once('/')
        .map_or(Value::Null, |(_, count)| count.into())
}

fn in_config(a: &RunRecord, b: &RunRecord) -> Option<Difference> {
    let empty = serde_json::Map::new();
    let (a, b) = (
        a.config.as_object().unwrap_or(&empty),
        b.config.as_object().unwrap_or(&empty),
    );
    let keys = a
        .keys()
        .chain(b.keys())
        .filter(|key| !OWN.contains(&key.as_str()));
    for key in keys {
        let (ours, theirs) = (a.get(key), b.get(key));
        if ours != theirs {
            let text = |value: Option<&Value>| value.map_or_else(|| "not set".to_owned(), shown);
            return Some((format!("config.{key}"), text(ours), text(theirs)));
        }
    }
    None
}

/// A shard that was cut short has fewer cells; those that both have must be the same design.
fn in_cells(a: &RunRecord, b: &RunRecord) -> Option<Difference> {
    let design = |cell: &CellRecord| {
        let plan = &cell.plan;
        [
            ("load", value(&cell.load)),
            ("factors", value(&cell.factors)),
            ("stop", value(&cell.stop)),
            ("repeats", cell.repeats.into()),
            ("plan.dataset", plan.dataset.clone().into()),
            ("plan.sized_by", plan.sized_by.clone().into()),
        ]
    };
    a.cells.iter().find_map(|cell| {
        let other = b.cell(&cell.id)?;
        let both = design(cell).into_iter().zip(design(other));
        both.into_iter().find_map(|((key, ours), (_, theirs))| {
            (ours != theirs).then(|| {
                (
                    format!("cells.{}.{key}", cell.id),
                    shown(&ours),
                    shown(&theirs),
                )
            })
        })
    })
}

fn value(of: &impl serde::Serialize) -> Value {
    serde_json::to_value(of).unwrap_or(Value::Null)
}

/// Short enough for a message.
fn shown(value: &Value) -> String {
    let text = match value {
        Value::String(text) => format!("`{text}`"),
        Value::Null => "not set".to_owned(),
        other => other.to_string(),
    };
    text.chars().take(120).collect()
}
