//! `merge`: the shards of one run become one result.

mod journals;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use bench_insight::conclude_run;
use bench_schema::{
    CellRecord, ClientRecord, Factor, JournalFile, KEYS_OF_EACH_SHARD, Load, Nanos, PlanHash,
    RunRecord, Seen, TrustReason, TrustVerdict,
};
use journals::Clocks;
use serde_json::Value;

use crate::arguments::Merge;
use crate::error::CommandError;
use crate::run_folder::{Extents, RunFolder};
use crate::{Done, files, journal, render, run_folder};

pub(crate) fn run(arguments: &Merge) -> Result<Done, CommandError> {
    let mut shards: Vec<RunFolder> = arguments
        .runs
        .iter()
        .map(|path| RunFolder::open(path, arguments.reads))
        .collect::<Result<_, _>>()?;
    shards.sort_by_key(|shard| index(&shard.record));
    one_run(&shards)?;
    shards.iter().try_for_each(RunFolder::needs_requests)?;
    let clocks = Clocks::of(&shards)?;
    files::new_folder(&arguments.out)?;
    let made = join(&shards, &clocks, &arguments.out).and_then(|merged| {
        files::write_json(&arguments.out.join("run.json"), &merged.record)?;
        Ok(merged)
    });
    let merged = made.inspect_err(|_| {
        // half a merge helps nobody
        let journals = [JournalFile::Requests, JournalFile::Readings];
        for part in journals
            .iter()
            .flat_map(|file| file.parts_in(&arguments.out))
        {
            std::fs::remove_file(part).ok();
        }
        std::fs::remove_dir(&arguments.out).ok();
    })?;
    render::reports(&merged, None)?;
    let output = bench_report::terminal::render(&merged.record, Some(&arguments.out));
    Ok(Done::well(output, merged.notes))
}

fn join(shards: &[RunFolder], clocks: &Clocks, out: &Path) -> Result<RunFolder, CommandError> {
    let mut notes = run_folder::notes(shards);
    notes.extend(clocks.notes());
    let Some(first) = shards.first() else {
        return Err(CommandError::Usage(
            "merge needs the run directories of at least two shards".to_owned(),
        ));
    };
    let record = blank(&first.record, shards, clocks);
    let mut spans = journals::Spans::default();
    let mut seen = Seen::default();
    let mut extents = Extents::default();
    let requests = journals::requests(shards, clocks, out, |shard, request| {
        if !seen.insert(request) {
            return Err(CommandError::Twice {
                path: shards
                    .get(shard)
                    .map_or_else(PathBuf::new, |run| run.path.clone()),
                cell: request.cell.clone(),
                id: request.id,
            });
        }
        spans.add(shard, request);
        extents.add(request);
        Ok(())
    })?;
    let readings = journals::readings(shards, clocks, out)?;
    notes.push(format!("{} shards merged", shards.len()));
    notes.extend(requests.notes);
    notes.extend(readings.notes);
    let mut merged = RunFolder::of(out, record, notes);
    let done = merged.cells_again(Some(extents))?;
    conclude_run(&mut merged.record, done.evidence)?;
    merged.record.journal = vec![requests.part, readings.part];
    distrust(&mut merged.record, &spans, shards, clocks);
    distrust_clocks(&mut merged.record, &spans, clocks);
    merged.record.trust.add(told(shards));
    let unread: Vec<String> = requests.unread.into_iter().chain(readings.unread).collect();
    journal::distrust(&mut merged.record, &unread);
    Ok(merged)
}

/// The first shard's record with what all of them say together, the aggregates still to come.
fn blank(first: &RunRecord, shards: &[RunFolder], clocks: &Clocks) -> RunRecord {
    let mut run = first.clone();
    run.journal = Vec::new();
    let part = RunRecord::title_of_part(&shard_name(first));
    let title = first.title.replacen(&part, "", 1);
    run.title = format!("{title} in {} shards", shards.len());
    if let Some(config) = run.config.as_object_mut() {
        for key in KEYS_OF_EACH_SHARD {
            config.remove(*key);
        }
    }
    // A shard that was cut short lacks cells that others have.
    for cell in shards.iter().flat_map(|shard| &shard.record.cells) {
        if run.cell(&cell.id).is_none() {
            run.cells.push(cell.clone());
        }
    }
    let mut reasons: Vec<String> = shards
        .iter()
        .filter_map(|shard| {
            let why = shard.record.incomplete_reason.as_deref()?;
            Some(format!("shard {}: {why}", shard_name(&shard.record)))
        })
        .collect();
    reasons.extend(missing(shards));
    run.complete = reasons.is_empty() && shards.iter().all(|shard| shard.record.complete);
    run.incomplete_reason = (!run.complete).then(|| reasons.join("; "));
    clocks.write(&names(shards), &mut run);
    run.host.name = together(shards.iter().map(|shard| shard.record.host.name.clone()));
    run.host
        .facts
        .insert("shards".to_owned(), shards.len().to_string());
    // older results do not say: what they were asked for was in flight in each of them
    let each_whole = first.config.get("per_shard") != Some(&Value::Bool(false));
    for cell in &mut run.cells {
        let same: Vec<_> = shards
            .iter()
            .filter_map(|shard| shard.record.cell(&cell.id))
            .collect();
        // each says what it kept in flight itself, whether that was its part or the whole number
        let loads = same.iter().map(|cell| cell.load.clone());
        if let Some(together) = loads.reduce(|all, more| all.beside(&more)) {
            cell.load = together;
        }
        if let Load::Closed { concurrency, .. } = cell.load {
            if let Some(factor) = cell.factors.get_mut("concurrency") {
                *factor = Factor::from(concurrency);
            }
            if each_whole {
                cell.label = format!("{} × {} shards", cell.label, shards.len());
            }
        }
        cell.plan.hash = plan_hash(&same);
        cell.plan.requests = same.iter().map(|cell| cell.plan.requests).sum();
        cell.client =
            ClientRecord::of_all(&same.iter().map(|cell| &cell.client).collect::<Vec<_>>());
        cell.hardware = None;
    }
    run
}

/// The hash of the whole plan: shards add up. Nothing where one of them has none, or one of an older kind.
fn plan_hash(shards: &[&CellRecord]) -> Option<String> {
    let mut whole = PlanHash::default();
    for cell in shards {
        whole += cell.plan.hash.as_ref()?.parse().ok()?;
    }
    Some(whole.to_string())
}

/// One text where all agree, else all of them.
fn together(texts: impl Iterator<Item = Option<String>>) -> Option<String> {
    let mut all: Vec<String> = Vec::new();
    for text in texts.flatten().filter(|text| !text.is_empty()) {
        if !all.contains(&text) {
            all.push(text);
        }
    }
    (!all.is_empty()).then(|| all.join("+"))
}

/// What the shards say against themselves that their records do not tell, each thing once, by the first that says it.
fn told(shards: &[RunFolder]) -> Vec<TrustReason> {
    let mut told: Vec<TrustReason> = Vec::new();
    let mut named = Vec::new();
    for run in shards.iter().map(|shard| &shard.record) {
        for reason in journal::told(run, &[journal::FARED, journal::FOUND].concat()) {
            if told.contains(&reason) {
                continue;
            }
            let message = format!("shard {}: {}", shard_name(run), reason.message);
            named.push(TrustReason {
                message,
                ..reason.clone()
            });
            told.push(reason);
        }
    }
    named
}

/// Cells that the shards did not measure at the same time are not one load.
fn distrust(run: &mut RunRecord, spans: &journals::Spans, shards: &[RunFolder], clocks: &Clocks) {
    // from the cell on in which a shard was lost its part is missing, which is a reason of its own
    let ends = shards.iter().enumerate().map(|(place, shard)| {
        let is_cut = !shard.record.complete;
        is_cut.then(|| spans.last_cell(place, &run.cells).unwrap_or(0))
    });
    let ends: Vec<Option<usize>> = ends.collect();
    let is_part = |cell: &str, shard: usize| {
        let own = shards.get(shard).and_then(|shard| shard.record.cell(cell));
        // a search begins with fewer requests in flight than there are shards: some had none to send
        let is_idle =
            own.is_some_and(|own| matches!(own.load, Load::Closed { concurrency: 0, .. }));
        let place = run.cells.iter().position(|of| of.id == cell);
        let end = ends.get(shard).copied().flatten();
        !is_idle && end.is_none_or(|end| place < Some(end))
    };
    // then its figures are only of the time in which all that was asked for was in flight, which takes all shards
    let is_full = |cell: &str| {
        let cell = run.cell(cell);
        cell.is_some_and(|cell| {
            let is_closed = matches!(
                cell.load,
                Load::Closed {
                    think_time: None,
                    ..
                }
            );
            is_closed && cell.windows.steady.is_some()
        })
    };
    let apart = spans.overlaps(shards.len(), is_part, is_full).into_iter();
    // Stages of a search are short on purpose: that their last requests end apart is no wonder. Shards that met were let go at one instant: what is
    // apart then are their first and last arrivals, by chance.
    let is_search = run.analysis.capacity.is_some();
    let least = if is_search || clocks.met() {
        journals::HALF
    } else {
        journals::FULL
    };
    let apart = apart.filter(|(_, overlap)| *overlap < least);
    run.trust.add(apart.map(|(cell, overlap)| {
        let verdict = if overlap < journals::HALF {
            TrustVerdict::Untrusted
        } else {
            TrustVerdict::Doubtful
        };
        let share = overlap * 100.0;
        let message = format!("the shards measured at the same time for only {share:.0} % of the time");
        let next = if clocks.met() {
            "see each shard's own result for what held it up"
        } else {
            "use --meet, or start the shards together with --start-at and check the clocks of their hosts"
        };
        TrustReason {
            next: Some(next.to_owned()),
            cell: Some(cell),
            measured: Some(overlap),
            threshold: Some(least),
            ..TrustReason::new("shards_apart", verdict, message)
        }
    }));
}

/// Rates and requests in flight of a cell are right to what its shards' clocks are.
fn distrust_clocks(run: &mut RunRecord, spans: &journals::Spans, clocks: &Clocks) {
    let doubt = |code, what: String, next: &str, (measured, threshold): (f64, f64)| TrustReason {
        next: Some(next.to_owned()),
        measured: Some(measured),
        threshold: Some(threshold),
        ..TrustReason::new(code, TrustVerdict::Doubtful, what)
    };
    let reasons = spans.times().flat_map(|(cell, from, to, shortest)| {
        let (bound, moved) = clocks.worst(from, to);
        let share = bound.as_secs_f64() / shortest.as_secs_f64();
        let wide = (share > journals::BOUND).then(|| {
            let what = format!(
                "the clock offset between shards is known only to {bound}, {:.1} % of the measured time",
                share * 100.0
            );
            doubt("clock_bound", what, "measure longer, or closer to shard 0", (share, journals::BOUND))
        });
        let step = (moved > Nanos::ZERO).then(|| {
            let what = format!("a shard's clock moved by {moved} more than normal clock drift");
            doubt("clocks_moved", what, "check whether a host was suspended or migrated", (moved.as_secs_f64(), 0.0))
        });
        let of_cell = move |reason| TrustReason {
            cell: Some(cell.to_owned()),
            ..reason
        };
        wide.into_iter().chain(step).map(of_cell)
    });
    run.trust.add(reasons);
}

// Whether runs are shards of one plan.

/// Its place among the shards; runs without one come last, in the order given.
fn index(run: &RunRecord) -> u64 {
    let name = shard_name(run);
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
fn missing(shards: &[RunFolder]) -> Option<String> {
    let all = shard_name(&shards.first()?.record);
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
        (1, _) => Some(format!("shard {named} is missing")),
        (_, 0) => Some(format!("shards {named} are missing")),
        _ => Some(format!("shards {named} and {more} more are missing")),
    }
}

/// The names of all of them.
fn names(shards: &[RunFolder]) -> Vec<String> {
    let runs = shards.iter().map(|shard| &shard.record);
    runs.map(shard_name).collect()
}

/// `0/4`, or `?`.
fn shard_name(run: &RunRecord) -> String {
    let shard = run.config.get("shard").and_then(Value::as_str);
    shard.unwrap_or(UNKNOWN).to_owned()
}

/// Nothing where all belong together; else the first key in which they differ.
fn one_run(shards: &[RunFolder]) -> Result<(), CommandError> {
    let Some((first, others)) = shards.split_first() else {
        return Ok(());
    };
    if let Some(alone) = shards
        .iter()
        .find(|shard| shard_name(&shard.record) == UNKNOWN)
    {
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
        let mut twins =
            before.filter(|shard| shard_name(&shard.record) == shard_name(&other.record));
        if let Some(twin) = twins.next() {
            return Err(CommandError::SameShard {
                first: twin.path.clone(),
                other: other.path.clone(),
                shard: shard_name(&other.record),
            });
        }
    }
    Ok(())
}

/// The key in which they differ, and what each has there.
type Difference = (String, String, String);

fn difference(a: &RunRecord, b: &RunRecord) -> Option<Difference> {
    // offsets of one meeting say nothing of the clocks of another
    if let (Some(ours), Some(theirs)) = (&a.clock.meeting, &b.clock.meeting)
        && ours != theirs
    {
        return Some(("clock.meeting".to_owned(), ours.clone(), theirs.clone()));
    }
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
    let name = shard_name(run);
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
