//! Shares of waiting, prefill and decode in each cell.

use bench_schema::{PhaseShares, RunRecord};

use super::cells_axis;
use crate::figure::{Figure, Plot, value_axis};
use crate::number::short;
use crate::tables;

pub(super) fn figure(run: &RunRecord) -> Option<Figure> {
    let cells: Vec<_> = run
        .cells
        .iter()
        .filter(|cell| cell.phases.is_some())
        .collect();
    let phases: Vec<&PhaseShares> = cells
        .iter()
        .filter_map(|cell| cell.phases.as_ref())
        .collect();
    let last = phases.last()?;
    let share = |pick: fn(&PhaseShares) -> f64| -> Vec<Option<f64>> {
        phases.iter().map(|p| Some(pick(p) * 100.0)).collect()
    };
    let mut plot = Plot::new(
        cells_axis(run, &cells),
        value_axis("share of the mean response time (%)").max(100.0),
    );
    let any_queue = phases.iter().any(|p| p.queue > 0.0);
    if any_queue {
        plot = plot.stacked("waiting", "@bad", &share(|p| p.queue));
    }
    plot = plot
        .stacked("prefill", "@1", &share(|p| p.prefill))
        .stacked("decode", "@0", &share(|p| p.decode));
    let parts = [
        ("waiting", last.queue),
        ("prefill", last.prefill),
        ("decode", last.decode),
    ];
    let (name, value) = parts.into_iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    let at = if cells.len() > 1 {
        format!(" at {}", tables::label(cells.last()?))
    } else {
        String::new()
    };
    let title = format!(
        "{} takes {} % of the time{at}",
        capital(name),
        short(value * 100.0)
    );
    let note = if last.queue_source == "estimate" {
        "Waiting is an estimate: TTFT less that at the lowest load."
    } else {
        "Prefill is TTFT less the waiting that is known; decode is first to last token."
    };
    Some(
        Figure::new("phases", title, plot)
            .note(note)
            .table(tables::phases(run)),
    )
}

fn capital(word: &str) -> String {
    let mut chars = word.chars();
    chars.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(chars).collect()
    })
}
