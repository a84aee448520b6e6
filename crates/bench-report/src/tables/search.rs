//! The search for a capacity: what it found in a sentence, its stages, and how far each objective would go.

use bench_schema::{
    CapacityRecord, CellRecord, ObjectiveCapacity, RunRecord, SearchEnd, Slo, counted,
};

use super::outcomes::amount;
use super::{load_level, objective_words, rate_unit};
use crate::number::{percent, short};
use crate::table::{Cell, Column, Sheet, Table, Tone};
use crate::text::{SENTENCE, shortened};

/// `p95 TTFT ≤ 200 ms for chat`.
pub(crate) fn slo_words(slo: &Slo) -> String {
    let whose = slo
        .use_case
        .as_deref()
        .map_or_else(String::new, |case| format!(" for {}", shortened(case, 30)));
    objective_words(slo) + &whose
}

/// `requests/s`, `conversations/s` or `in flight`.
pub(crate) fn unit(run: &RunRecord, found: &CapacityRecord) -> &'static str {
    match (found.factor.as_str(), rate_unit(run)) {
        ("rate", "req/s") => "requests/s",
        ("rate", unit) => unit,
        _ => "in flight",
    }
}

/// The stages of a search: its cells, but the one that only told where to begin.
pub(crate) fn stages<'a>(
    run: &'a RunRecord,
    found: &'a CapacityRecord,
) -> impl Iterator<Item = &'a CellRecord> {
    let cells = run.cells.iter();
    cells.filter(|cell| cell.factors.contains_key(&found.factor))
}

/// What a search found, in sentences: the capacity with its interval, what binds, why it ended, and what it cost; absent where none was asked for.
pub fn capacity_words(run: &RunRecord) -> Option<String> {
    let found = run.analysis.capacity.as_ref()?;
    let unit = unit(run, found);
    let mut said = match (found.value, found.low, found.high) {
        (Some(value), Some(low), Some(high)) => format!(
            "{} {unit} (95 % CI {} to {})",
            short(value),
            short(low),
            short(high)
        ),
        _ if found.stopped == SearchEnd::MissedAlone => "none".to_owned(),
        (_, Some(low), Some(high)) => {
            format!(
                "not found; it is between {} and {} {unit}",
                short(low),
                short(high)
            )
        }
        (_, Some(low), None) => format!("cannot tell: at least {} {unit}", short(low)),
        (_, None, Some(high)) => format!("cannot tell: at most {} {unit}", short(high)),
        _ => "cannot tell".to_owned(),
    };
    let binding = found
        .binding
        .and_then(|i| found.objectives.get(usize::try_from(i).ok()?));
    if let Some(binding) = binding.filter(|_| found.value.is_some()) {
        said += &match found.objectives.len() {
            1 => format!(" for {}", slo_words(&binding.slo)),
            _ => format!("; the limiting objective is {}", slo_words(&binding.slo)),
        };
    }
    said += &match found.stopped {
        SearchEnd::Precise => {
            let also = found
                .why
                .as_deref()
                .map(|why| format!("; {}", shortened(why, SENTENCE)));
            let precise = format!("; within the requested ± {} %", percent(found.precision));
            precise + &also.unwrap_or_default()
        }
        SearchEnd::Ended if found.why.is_none() => {
            "; the run ended before the search was complete: run it again".to_owned()
        }
        _ => (found.why.as_deref())
            .map_or_else(String::new, |why| format!("; {}", shortened(why, SENTENCE))),
    };
    let stages = stages(run, found).count();
    said += &format!(
        ". The search took {} in {} and {} s",
        counted(found.requests, "request"),
        counted(stages, "stage"),
        short(found.seconds)
    );
    if let Some(why) = found.left_out.values().next() {
        said += &format!(
            "; {} excluded: {}",
            counted(found.left_out.len(), "stage"),
            shortened(why, SENTENCE)
        );
    }
    Some(said)
}

/// A share within an objective in percent, with its interval.
fn share_words(cell: &CellRecord, objective: usize) -> Option<String> {
    let share = cell.slos.get(objective)?.within?;
    let interval = bench_metrics::share_interval(&share);
    Some(format!(
        "{} ({} to {})",
        percent(share.value),
        percent(interval.low),
        percent(interval.high)
    ))
}

/// One row for each stage, in the order in which they were measured.
pub(crate) fn table(run: &RunRecord) -> Option<Table> {
    let found = run.analysis.capacity.as_ref()?;
    let load = match found.factor.as_str() {
        "rate" => Column::number("rate", rate_unit(run)),
        _ => Column::number("concurrency", ""),
    };
    let mut sheet = Sheet::new()
        .column(load, |cell: &&CellRecord| {
            Cell::number(load_level(&cell.load))
        })
        .count("n", |cell| cell.counts.planned)
        .count("warm-up", |cell| cell.counts.warmup)
        .count("without response", |cell| {
            Some(cell.counts.without_answer()).filter(|n| *n > 0)
        });
    for (i, objective) in found.objectives.iter().enumerate() {
        let title = format!("% within {}", amount(&objective.slo, objective.slo.limit));
        let asked = objective.slo.q;
        let column = Column {
            group: objective.slo.metric.title().to_owned(),
            ..Column::text(title)
        };
        sheet = sheet.column(column, move |cell| {
            let tone = cell.slos.get(i).and_then(|o| o.within).map(|share| {
                if share.value >= asked {
                    Tone::Good
                } else {
                    Tone::Bad
                }
            });
            let words = share_words(cell, i).map_or_else(Cell::default, Cell::text);
            match tone {
                Some(tone) => words.toned(tone),
                None => words,
            }
        });
    }
    let left_out = |cell: &&CellRecord| {
        let is_left_out = found.left_out.contains_key(&cell.id);
        is_left_out.then(|| "yes".to_owned())
    };
    sheet.text("excluded", left_out).rows(
        "Search stages, with the share of requests that meet each objective (95 % CI)",
        stages(run, found),
    )
}

/// How far each objective alone would let the load go.
pub(super) fn objectives(run: &RunRecord) -> Option<Table> {
    let found = run.analysis.capacity.as_ref()?;
    let unit = match found.factor.as_str() {
        "rate" => rate_unit(run),
        _ => "in flight",
    };
    let binding = found.binding.and_then(|i| usize::try_from(i).ok());
    let rows = found.objectives.iter().enumerate();
    Sheet::new()
        .text("objective", |(_, own): &(usize, &ObjectiveCapacity)| {
            slo_words(&own.slo)
        })
        .number(("met up to", unit), |(_, own)| own.value)
        .number(("95 % CI from", unit), |(_, own)| own.low)
        .number(("to", unit), |(_, own)| own.high)
        .text("", move |(i, _)| {
            (binding == Some(*i)).then(|| "limiting objective".to_owned())
        })
        .rows("Highest load that meets each objective on its own", rows)
}
