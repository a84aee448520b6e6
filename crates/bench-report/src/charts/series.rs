//! Readings of machines and server under one time axis, a chart for each question they answer, with the cells shaded.

use bench_schema::RunRecord;
use serde_json::{Value, json};

use crate::figure::{Figure, Plot, time_axis, value_axis};
use crate::number::{fixed, rounded, short};
use crate::table::{Cell, Column, Table};
use crate::trace::{Series, Topic};

pub(super) fn figures(run: &RunRecord, readings: &[Series]) -> Vec<Figure> {
    Topic::ALL
        .into_iter()
        .filter_map(|topic| {
            let of: Vec<&Series> = readings.iter().filter(|s| s.topic == topic).collect();
            figure(run, topic, &of)
        })
        .collect()
}

fn figure(run: &RunRecord, topic: Topic, all: &[&Series]) -> Option<Figure> {
    let first = all.first()?;
    let mut axis = value_axis(topic.axis());
    if topic.is_share() {
        axis = axis.min(0.0).max(100.0);
    } else if topic == Topic::GpuClock {
        axis = axis.scale(true);
    }
    let mut plot = Plot::new(time_axis(run.duration.as_secs_f64()), axis).linear();
    for (i, series) in all.iter().enumerate() {
        plot = plot
            .line(&series.name, &format!("@{i}"), &series.points)
            .with("showSymbol", false.into());
        if i == 0 {
            plot = plot.with("markArea", shaded_cells(run));
        }
    }
    let id = format!("over-time-{}", topic.id());
    let title = title(run, topic, first, all);
    Some(
        Figure::new(id, title, plot)
            .note("Shaded: every second cell of the run.")
            .table(table(topic, all)),
    )
}

/// Mean, least and most of a series.
struct Extent {
    mean: f64,
    least: f64,
    most: f64,
}

fn extent(series: &Series) -> Extent {
    let values = || series.points.iter().map(|p| p.1);
    Extent {
        mean: values().sum::<f64>() / series.points.len().max(1) as f64,
        least: values().fold(f64::INFINITY, f64::min),
        most: values().fold(f64::NEG_INFINITY, f64::max),
    }
}

fn title(run: &RunRecord, topic: Topic, first: &Series, all: &[&Series]) -> String {
    let named = |name: &str| all.iter().find(|s| s.name == name).map(|s| extent(s));
    let lead = extent(first);
    let name = &first.name;
    match topic {
        Topic::Queue => {
            let waiting = named("waiting")
                .map_or_else(String::new, |w| format!(" and {} wait", short(w.most)));
            format!(
                "At most {} requests run{waiting} in the server",
                short(lead.most)
            )
        }
        Topic::Cache => format!("{name}: {} % at most", short(lead.most)),
        Topic::ServerTokens => format!(
            "The server counts {} tokens/s on average, {} at most",
            short(lead.mean),
            short(lead.most)
        ),
        Topic::Gpu => format!("{name} is busy {} % of the time", short(lead.mean)),
        Topic::GpuMemory => format!("{name} uses {} at most", memory_words(lead.most)),
        Topic::Power => format!(
            "{name} draws {} W on average, {} W at most",
            short(lead.mean),
            short(lead.most)
        ),
        Topic::Temperature => format!("{name} reaches {} °C", short(lead.most)),
        Topic::GpuClock => format!(
            "{name} runs at {} to {} MHz",
            short(lead.least),
            short(lead.most)
        ),
        Topic::Cpu => cpu(run, first, &lead, all),
        Topic::Contention => format!("On this host {name} {} % of the time", short(lead.mean)),
        Topic::Memory => format!(
            "{} uses {} at most",
            super::capital(&the(name)),
            memory_words(lead.most)
        ),
        Topic::Asked => format!(
            "{name}: {} on average, {} at most",
            short(lead.mean),
            short(lead.most)
        ),
    }
}

/// `1.97 of 2 CPUs are in use on average; the server takes 1.20, this client 0.06`.
fn cpu(run: &RunRecord, first: &Series, lead: &Extent, all: &[&Series]) -> String {
    let of = run
        .host
        .cpus
        .filter(|_| first.name == "whole host")
        .map_or_else(String::new, |n| format!(" of {n}"));
    let parts: Vec<String> = all
        .iter()
        .skip(usize::from(first.name == "whole host"))
        .map(|s| format!("{} {}", the(&s.name), fixed(extent(s).mean, 2)))
        .collect();
    if first.name == "whole host" {
        let takes = if parts.is_empty() {
            String::new()
        } else {
            format!(": {}", parts.join(", "))
        };
        format!(
            "{}{of} CPUs are in use on average{takes}",
            fixed(lead.mean, 2)
        )
    } else {
        format!("CPUs in use on average: {}", parts.join(", "))
    }
}

fn memory_words(gib: f64) -> String {
    if gib < 1.0 {
        format!("{} MiB", short(gib * 1024.0))
    } else {
        format!("{} GiB", short(gib))
    }
}

fn the(name: &str) -> String {
    if name.starts_with("this ") {
        name.to_owned()
    } else {
        format!("the {name}")
    }
}

fn table(topic: Topic, all: &[&Series]) -> Option<Table> {
    let columns = vec![
        Column::text("series"),
        Column::number("mean", ""),
        Column::number("least", ""),
        Column::number("most", ""),
    ];
    let mut table = Table::new(super::capital(topic.axis()), columns);
    for series in all {
        let seen = extent(series);
        table.push(vec![
            Cell::text(&series.name),
            Cell::number(seen.mean),
            Cell::number(seen.least),
            Cell::number(seen.most),
        ]);
    }
    table.not_empty()
}

/// Every second cell shaded.
pub(super) fn shaded_cells(run: &RunRecord) -> Value {
    let spans = run
        .cells
        .iter()
        .filter_map(|cell| cell.windows.whole.as_ref().or(cell.windows.steady.as_ref()))
        .map(|r| r.window);
    let data: Vec<Value> = spans
        .step_by(2)
        .take(60)
        .map(|w| {
            json!([{"xAxis": rounded(w.from.as_secs_f64())}, {"xAxis": rounded(w.to.as_secs_f64())}])
        })
        .collect();
    json!({"silent": true, "itemStyle": {"color": "@split", "opacity": 0.8}, "data": data})
}
