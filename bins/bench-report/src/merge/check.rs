//! Whether runs are shards of one plan.

use std::collections::BTreeSet;

use bench_schema::{KEYS_OF_EACH_SHARD, Load, RunRecord};
use serde_json::Value;

use crate::error::CommandError;
use crate::run_folder::RunFolder;

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

/// The key in which they differ, and what each has there.
type Difference = (String, String, String);

fn difference(a: &RunRecord, b: &RunRecord) -> Option<Difference> {
    let (ours, theirs) = (design(a), design(b));
    let of = |all: &[(String, Value)], key: &str| {
        let own = all.iter().find(|(known, _)| known == key);
        own.map_or(Value::Null, |(_, value)| value.clone())
    };
    // A shard that was cut short has fewer cells; those that both have must be the same design.
    let lacks = |run: &RunRecord, key: &str| {
        let id = key
            .strip_prefix("cells.")
            .and_then(|rest| rest.rsplit_once('/'));
        id.is_some_and(|(id, _)| run.cell(id).is_none())
    };
    let keys = ours.iter().chain(&theirs).map(|(key, _)| key);
    let mut both = keys.filter(|key| !lacks(a, key) && !lacks(b, key));
    let key = both.find(|key| of(&ours, key) != of(&theirs, key))?;
    let (ours, theirs) = (shown(&of(&ours, key)), shown(&of(&theirs, key)));
    Some((key.replace('/', "."), ours, theirs))
}

/// What shards of one plan have in common, in the order in which it is told.
fn design(run: &RunRecord) -> Vec<(String, Value)> {
    let name = name(run);
    let shards = name.split_once('/').map(|(_, count)| count);
    let mut all = vec![
        ("schema.major".to_owned(), run.schema.major.into()),
        ("experiment".to_owned(), run.experiment.as_str().into()),
        ("seed".to_owned(), run.seed.into()),
    ];
    let config = run.config.as_object().into_iter().flatten();
    let config = config.filter(|(key, _)| !KEYS_OF_EACH_SHARD.contains(&key.as_str()));
    all.extend(config.map(|(key, value)| (format!("config.{key}"), value.clone())));
    all.push(("number of shards".to_owned(), shards.into()));
    all.push(("server.model".to_owned(), value(&run.server.model)));
    all.push(("clock.arrival".to_owned(), value(&run.clock.arrival)));
    for cell in &run.cells {
        let of = |key: &str, value| (format!("cells.{}/{key}", cell.id), value);
        all.extend([
            of("load", value(&at_no_level(&cell.load))),
            of("factors", value(&cell.factors)),
            of("stop", value(&cell.stop)),
            of("repeats", cell.repeats.into()),
            of("plan.dataset", cell.plan.dataset.clone().into()),
            of("plan.sized_by", cell.plan.sized_by.clone().into()),
        ]);
    }
    all
}

/// A load without what is in flight: shards of a number that cannot be divided evenly differ in it by one.
fn at_no_level(load: &Load) -> Load {
    let mut load = load.clone();
    match &mut load {
        Load::Closed {
            concurrency, ramp, ..
        } => (*concurrency, *ramp) = (0, None),
        Load::Open { in_flight_cap, .. } => *in_flight_cap = None,
    }
    load
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
