//! Waiting against generating, per percentile of E2E.

use bench_schema::{CellRecord, RunRecord};

use crate::figure::{Figure, Plot, category_axis, value_axis};
use crate::number::percent;
use crate::table::{Cell, Column, Table};
use crate::tables;

pub(super) fn figure(run: &RunRecord) -> Option<Figure> {
    // The cell that waits most is the one worth a look.
    let with = run.cells.iter().filter(|cell| {
        cell.phases
            .as_ref()
            .is_some_and(|p| !p.by_percentile.is_empty())
    });
    let cell = with.max_by(|a, b| share(a).total_cmp(&share(b)))?;
    let phases = cell.phases.as_ref()?;
    let names: Vec<String> = phases
        .by_percentile
        .iter()
        .map(|p| tables::quantile_words(p.0))
        .collect();
    let parts = |pick: fn(&(f64, f64, f64)) -> f64| -> Vec<(f64, f64)> {
        let all = phases.by_percentile.iter();
        all.map(|p| (pick(p) / 1e6, (p.1 + p.2) / 1e6)).collect()
    };
    let plot = Plot::new(category_axis(names), value_axis("E2E (ms)"))
        .stacked_shares("waiting", "@bad", &parts(|p| p.1))
        .stacked_shares("generating", "@good", &parts(|p| p.2));
    let (share, label) = (percent(phases.queue), tables::label(cell));
    let told = match phases.queue_source.as_str() {
        "response" => Some("as the server says in its answers"),
        "server_metrics" => Some(
            "what the server's metrics say, at the same percentile, as exact as the buckets of its histogram",
        ),
        "estimate" => Some("an estimate: TTFT less that at the lowest load"),
        _ => None,
    };
    let title = if told.is_none() {
        format!(
            "Waiting in the client is {share} % of the mean response time at {label}; the server tells nothing of its own"
        )
    } else if phases.queue < 0.005 {
        format!("Requests hardly wait: {share} % of the mean response time at {label}")
    } else {
        format!("Waiting is {share} % of the mean response time at {label}")
    };
    let source = told.unwrap_or("in the client; the server does not tell of its own");
    let note = format!("Requests around each percentile of E2E; waiting is {source}.");
    Some(
        Figure::new("queue", title, plot)
            .note(note)
            .table(table(cell)),
    )
}

fn share(cell: &CellRecord) -> f64 {
    cell.phases.as_ref().map_or(0.0, |phases| phases.queue)
}

fn table(cell: &CellRecord) -> Option<Table> {
    let phases = cell.phases.as_ref()?;
    let columns = vec![
        Column::text("percentile"),
        Column::number("waiting", "ms"),
        Column::number("generating", "ms"),
        Column::number("waiting", "%"),
    ];
    let mut table = Table::new(
        format!("Waiting and generating, {}", tables::label(cell)),
        columns,
    );
    for (q, waiting, generating) in &phases.by_percentile {
        let whole = waiting + generating;
        table.push(vec![
            Cell::text(tables::quantile_words(*q)),
            Cell::number(waiting / 1e6),
            Cell::number(generating / 1e6),
            Cell::number((whole > 0.0).then(|| waiting * 100.0 / whole)),
        ]);
    }
    table.not_empty()
}
