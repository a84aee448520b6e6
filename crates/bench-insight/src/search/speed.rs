//! What a search found, of a server whose speed changed meanwhile.

use bench_schema::{CapacityRecord, CellRecord, RunRecord, SearchEnd, TrustReason, TrustVerdict};

use super::stages::load_of;
use super::{CONCURRENCY, SearchAsked};
use crate::diagnosis::{self, SpeedChange};
use crate::samples::CellSamples;
use crate::text;

/// The stages that a search did not leave out, with their requests.
fn stages_of<'a>(
    run: &'a RunRecord,
    found: &CapacityRecord,
    samples: &'a [CellSamples],
) -> Vec<diagnosis::StageSamples<'a>> {
    let stage = |cell: &'a CellRecord| {
        let load = load_of(cell, found.factor == CONCURRENCY)?;
        let own = samples.iter().find(|own| own.cell == cell.id)?;
        (!found.left_out.contains_key(&cell.id)).then_some((load, cell, own))
    };
    run.cells.iter().filter_map(stage).collect()
}

/// What a search found, of a server that kept its speed meanwhile: of one that did not, early stages tell of another server than late ones do.
pub(crate) fn of_one_speed(
    run: &RunRecord,
    found: CapacityRecord,
    samples: &[CellSamples],
) -> CapacityRecord {
    let told = [
        SearchEnd::Precise,
        SearchEnd::Budget,
        SearchEnd::Unsteady,
        SearchEnd::NotMonotone,
    ];
    let stages = stages_of(run, &found, samples);
    let change = told
        .contains(&found.stopped)
        .then(|| diagnosis::change(run, &stages));
    let Some((change, is_alike)) = change.flatten() else {
        return found;
    };
    let how = how_it_changed(change, is_alike, |stage| {
        stages.get(stage).map_or("", |(_, cell, _)| &cell.id)
    });
    let objectives = found.objectives.into_iter();
    let objectives = objectives.map(|own| SearchAsked::of_objective(&own.slo, None));
    CapacityRecord {
        stopped: SearchEnd::Unsteady,
        why: Some(format!(
            "the server's speed changed during the search: {how}; search again when it is stable"
        )),
        value: None,
        low: None,
        high: None,
        binding: None,
        objectives: objectives.collect(),
        ..found
    }
}

/// When a server's speed changed, by how much, and beside how many requests that was seen.
fn how_it_changed<'a>(
    change: SpeedChange,
    is_alike: bool,
    id: impl Fn(usize) -> &'a str,
) -> String {
    let in_others = || "as in the others".to_owned();
    let (when, times, as_long) = match change {
        SpeedChange::From(stage, times) => {
            let when = format!("from stage {} on,", id(stage));
            (when, times, "as before".to_owned())
        }
        SpeedChange::Within(stage, times) => {
            let when = format!("within stage {},", id(stage));
            (when, times, "at its end as at its beginning".to_owned())
        }
        SpeedChange::Between([first, last], times) if first == last => {
            (format!("in stage {},", id(first)), times, in_others())
        }
        SpeedChange::Between([first, last], times) => {
            let when = format!("in stages {} to {},", id(first), id(last));
            (when, times, in_others())
        }
        SpeedChange::Unlike([first, last], times) => {
            let when = format!("in stage {},", id(last));
            (when, times, format!("as in {}", id(first)))
        }
        SpeedChange::Gradual(times) => {
            let when = "it moved from stage to stage, and".to_owned();
            (when, times, "in the last one as in the first".to_owned())
        }
    };
    let load = if is_alike {
        "with as many requests in flight"
    } else if times > 1.0 {
        "although fewer requests were in flight"
    } else {
        "although more requests were in flight"
    };
    let times = text::number(times);
    format!("{when} a token took {times} times as long {as_long}, {load}")
}

/// That the server's speed changed meanwhile, or rose and fell: stages shorter than its period each met a part of it.
pub(crate) fn doubt_its_speed(
    run: &RunRecord,
    found: &CapacityRecord,
    samples: &[CellSamples],
) -> Option<TrustReason> {
    if found.stopped == SearchEnd::Unsteady {
        let why = "the server's speed changed during the search, so its stages do not measure one and the same server";
        return Some(TrustReason::new(
            "not_stationary",
            TrustVerdict::Doubtful,
            why,
        ));
    }
    let stages = stages_of(run, found, samples);
    let (period, [low, high]) = diagnosis::swing(run, &stages)?;
    Some(TrustReason {
        next: Some("find out what slows the server down again and again, and search again; a longer `--budget` averages over more periods".to_owned()),
        ..TrustReason::new(
            "not_stationary",
            TrustVerdict::Doubtful,
            format!(
                "the server's speed changed again and again during the search, about every {}: the time per token was between {} and {} times its median; the capacity is an average over such periods",
                text::time(period),
                text::number(low),
                text::number(high)
            ),
        )
    })
}
