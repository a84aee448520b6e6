//! Output and requests under way over the run.

use bench_schema::RunRecord;
use serde_json::{Value, json};

use super::configurations;
use super::series::shaded_cells;
use crate::figure::{Figure, Plot, time_axis, value_axis};
use crate::number::{rounded, short};
use crate::trace::{Flow, Trace, flow};

const PARTS: usize = 120;

pub(super) fn figure(run: &RunRecord, trace: &Trace) -> Option<Figure> {
    let seconds = run.duration.as_secs_f64();
    let parts = flow(trace.rows.iter(), (0.0, seconds), PARTS);
    let series = |pick: fn(&Flow) -> f64| -> Vec<(f64, f64)> {
        parts.iter().map(|part| (part.at, pick(part))).collect()
    };
    let most = |pick: fn(&Flow) -> f64| parts.iter().map(pick).fold(0.0, f64::max);
    let (tokens, under_way) = (most(|p| p.tokens_per_s), most(|p| p.under_way));
    if under_way <= 0.0 {
        return None;
    }
    let mut plot = Plot::new(time_axis(seconds), value_axis("output (tokens/s)"))
        .second_y(value_axis("requests under way").min(0.0));
    if tokens > 0.0 {
        plot = plot
            .line("output tokens/s", "@0", &series(|p| p.tokens_per_s))
            .with("showSymbol", false.into())
            .with("markArea", shaded_cells(run));
    }
    plot = plot
        .line("requests under way", "@1", &series(|p| p.under_way))
        .with("showSymbol", false.into())
        .with("yAxisIndex", 1.into())
        .with("markArea", steady(run));
    let most = match rounded(under_way.round()) {
        n if n < 1.5 => "one request is under way at a time".to_owned(),
        n => format!("at most {n} requests are under way"),
    };
    let title = if tokens > 0.0 {
        format!("Output reaches {} tokens/s; {most}", short(tokens))
    } else {
        crate::text::heading(&most)
    };
    let found = run
        .cells
        .iter()
        .filter(|cell| cell.windows.steady.is_some())
        .count();
    let windows = if found > 0 {
        "green: steady windows, over which rates are taken"
    } else {
        "no steady window was found, so rates are over the whole of a cell"
    };
    let note = format!(
        "In {PARTS} parts of the run, an answer's tokens spread evenly over its decode phase. Shaded: every second cell; {windows}."
    );
    Some(
        Figure::new("flow", title, plot)
            .note(note)
            .table(configurations::table(run)),
    )
}

fn steady(run: &RunRecord) -> Value {
    let windows = run
        .cells
        .iter()
        .filter_map(|cell| cell.windows.steady.as_ref());
    let data: Vec<Value> = windows
        .take(60)
        .map(|r| {
            let (from, to) = (r.window.from.as_secs_f64(), r.window.to.as_secs_f64());
            json!([{"xAxis": rounded(from)}, {"xAxis": rounded(to)}])
        })
        .collect();
    json!({"silent": true, "itemStyle": {"color": "@good", "opacity": 0.13}, "data": data})
}
