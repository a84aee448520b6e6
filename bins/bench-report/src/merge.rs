//! `merge`: the shards of one run become one result.

mod check;
mod journals;

use std::path::{Path, PathBuf};

use bench_insight::conclude_run;
use bench_schema::{
    CellRecord, ClientRecord, Factor, JournalFile, KEYS_OF_EACH_SHARD, Load, Nanos, PlanHash,
    RunRecord, Seen, TrustReason, TrustVerdict,
};

use serde_json::Value;

use crate::Done;
use crate::arguments::Merge;
use crate::error::CommandError;
use crate::journal;
use crate::run_folder::RunFolder;
use crate::{files, render};

use journals::Clocks;

pub(crate) fn run(arguments: &Merge) -> Result<Done, CommandError> {
    let mut shards: Vec<RunFolder> = arguments
        .runs
        .iter()
        .map(|path| RunFolder::open(path, arguments.reads))
        .collect::<Result<_, _>>()?;
    shards.sort_by_key(|shard| check::index(&shard.record));
    check::one_run(&shards)?;
    shards.iter().try_for_each(RunFolder::needs_requests)?;
    let clocks = Clocks::of(&shards)?;
    files::new_folder(&arguments.out)?;
    let merged = join(&shards, &clocks, &arguments.out).inspect_err(|_| {
        // half a merge helps nobody
        let journals = [JournalFile::Requests, JournalFile::Readings];
        for part in journals
            .iter()
            .flat_map(|file| file.parts_in(&arguments.out))
        {
            std::fs::remove_file(part).ok();
        }
    })?;
    files::write_json(&arguments.out.join("run.json"), &merged.record)?;
    render::reports(&merged, None)?;
    let output = bench_report::terminal::render(&merged.record, Some(&arguments.out));
    Ok(Done::well(output, merged.notes))
}

fn join(shards: &[RunFolder], clocks: &Clocks, out: &Path) -> Result<RunFolder, CommandError> {
    let mut notes: Vec<String> = shards
        .iter()
        .flat_map(|shard| shard.notes.clone())
        .collect();
    notes.extend(clocks.notes());
    let Some(first) = shards.first() else {
        return Err(CommandError::Usage(
            "merge needs the run directories of two shards or more".to_owned(),
        ));
    };
    let record = blank(&first.record, shards, clocks);
    let mut spans = journals::Spans::default();
    let mut seen = Seen::default();
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
        Ok(())
    })?;
    let readings = journals::readings(shards, clocks, out)?;
    notes.push(format!("{} shards joined", shards.len()));
    notes.extend(requests.notes);
    notes.extend(readings.notes);
    let mut merged = RunFolder::of(out, record, notes);
    let done = merged.cells_again()?;
    conclude_run(&mut merged.record, done.evidence)?;
    merged.record.journal = vec![requests.part, readings.part];
    distrust(&mut merged.record, &spans, shards.len());
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
    run.title = format!("{} in {} shards", first.title, shards.len());
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
            Some(format!("shard {}: {why}", check::name(&shard.record)))
        })
        .collect();
    reasons.extend(check::missing(shards));
    run.complete = reasons.is_empty() && shards.iter().all(|shard| shard.record.complete);
    run.incomplete_reason = (!run.complete).then(|| reasons.join("; "));
    clocks.write(&mut run);
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
        cell.client = clients(&same.iter().map(|cell| &cell.client).collect::<Vec<_>>());
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

/// Costs add up; of shares the worst counts.
fn clients(all: &[&ClientRecord]) -> ClientRecord {
    let worst = |field: fn(&ClientRecord) -> Option<f64>| {
        all.iter()
            .filter_map(|client| field(client))
            .reduce(f64::max)
    };
    ClientRecord {
        cpu_seconds: all.iter().map(|client| client.cpu_seconds).sum(),
        busiest_worker: worst(|client| client.busiest_worker),
        run_queue_wait: worst(|client| client.run_queue_wait),
        workers: all.iter().map(|client| client.workers).sum(),
        cap_hits: all.iter().map(|client| client.cap_hits).sum(),
        clock_step: all
            .iter()
            .filter_map(|client| client.clock_step)
            .max_by_key(|step| step.get().abs()),
        ..ClientRecord::default()
    }
}

/// What the shards say against themselves that their records do not tell, each thing once, by the first that says it.
fn told(shards: &[RunFolder]) -> Vec<TrustReason> {
    let mut told: Vec<TrustReason> = Vec::new();
    let mut named = Vec::new();
    for run in shards.iter().map(|shard| &shard.record) {
        for reason in journal::told(run, journal::TOLD) {
            if told.contains(&reason) {
                continue;
            }
            let message = format!("shard {}: {}", check::name(run), reason.message);
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
fn distrust(run: &mut RunRecord, spans: &journals::Spans, shards: usize) {
    let apart = spans.overlaps(shards).into_iter();
    let apart = apart.filter(|(_, overlap)| *overlap < journals::FULL);
    run.trust.add(apart.map(|(cell, overlap)| {
        let verdict = if overlap < journals::HALF {
            TrustVerdict::Untrusted
        } else {
            TrustVerdict::Doubtful
        };
        let share = overlap * 100.0;
        let message = format!("the shards measured together for {share:.0} % of the time only");
        let next = "let them --meet, or start them together with --start-at and check the clocks of their hosts";
        TrustReason {
            next: Some(next.to_owned()),
            cell: Some(cell),
            measured: Some(overlap),
            threshold: Some(journals::FULL),
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
                "the shards' clocks are known to {bound} only, {:.1} % of the time that was measured",
                share * 100.0
            );
            doubt("clock_bound", what, "measure longer, or nearer to shard 0", (share, journals::BOUND))
        });
        let step = (moved > Nanos::ZERO).then(|| {
            let what = format!("a shard's clock moved by {moved} more than clocks drift");
            doubt("clocks_moved", what, "look for a host that was suspended or moved", (moved.as_secs_f64(), 0.0))
        });
        let of_cell = move |reason| TrustReason {
            cell: Some(cell.to_owned()),
            ..reason
        };
        wide.into_iter().chain(step).map(of_cell)
    });
    run.trust.add(reasons);
}
