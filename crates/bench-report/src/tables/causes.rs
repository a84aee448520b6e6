//! What limits each cell: its costliest cause, or that none was found, beside the phase that takes most of its time.

use bench_schema::{Cause, CellRecord, Code, Finding, RunRecord};

use super::trust_mark;
use crate::findings as words;
use crate::number::percent;
use crate::table::{Cell, Column, Table};

/// One row for each cell of a run with findings.
pub(crate) fn causes(run: &RunRecord) -> Option<Table> {
    if run.findings.is_empty() {
        return None;
    }
    let columns = vec![
        Column::text("cell"),
        Column::text("cause"),
        Column::text("costs"),
        Column::text("largest phase"),
        Column::text("try first"),
    ];
    let mut table = Table::new("What limits each cell", columns);
    for cell in &run.cells {
        let [cause, costs, advice] = costliest(run, Some(&cell.id));
        table.push(vec![
            Cell::text(super::label(cell)).marked(trust_mark(run, cell)),
            cause,
            costs,
            largest_phase(cell).map_or_else(Cell::default, Cell::text),
            advice,
        ]);
    }
    table.without_empty_columns().not_empty()
}

/// The costliest cause of a cell, or of the run: what it is, what it costs, what to try first.
pub(crate) fn costliest(run: &RunRecord, cell: Option<&String>) -> [Cell; 3] {
    let own = |finding: &&Finding| {
        let is_cause = matches!(finding.code, Code::Cause(cause) if cause != Cause::Healthy);
        is_cause && cell.is_none_or(|cell| finding.cells.contains(cell))
    };
    let found = run.findings.iter().filter(own);
    let Some(finding) = found.max_by(|a, b| a.severity.total_cmp(&b.severity)) else {
        return [Cell::text("none found"), Cell::default(), Cell::default()];
    };
    let cause = match finding.code {
        Code::Cause(cause) => words::cause_name(cause),
        _ => "",
    };
    let advice = finding.advice.first();
    [
        Cell::text(cause),
        Cell::text(format!("{} %", percent(finding.severity))),
        advice.map_or_else(Cell::default, |advice| Cell::text(words::advice(advice))),
    ]
}

/// `decode 77 %`.
fn largest_phase(cell: &CellRecord) -> Option<String> {
    let phases = cell.phases.as_ref()?;
    let all = [
        ("waiting", phases.queue),
        (phases.first_phase(), phases.prefill),
        ("decode", phases.decode),
    ];
    let (name, share) = all.into_iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    Some(format!("{name} {} %", percent(share)))
}
