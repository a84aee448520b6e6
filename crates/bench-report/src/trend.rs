//! Quantities over many runs as a page: where their level changed, and a chart of each.

use std::collections::BTreeMap;

use bench_insight::{LevelChange, Trend};
use bench_metrics::Estimate;
use bench_schema::counted;
use charming::component::Axis;
use charming::element::{AxisType, NameLocation};
use maud::{Markup, html};
use serde_json::{Value, json};

use crate::charts::Section;
use crate::figure::{Bounded, Figure, Plot, category_axis};
use crate::html::{DRAW, ECHARTS, PAGE, Page};
use crate::number::rounded;
use crate::table::Sheet;
use crate::tables::scale_of;
use crate::text::Plain;

const PICK: &str = include_str!("html/trend.js");

/// A run by its version or start, with its value.
type Point = (String, Estimate);

/// The page of the trends of the trusted runs in a folder, and of how many runs these are.
pub fn page(folder: &str, (trusted, all): (usize, usize), trends: &[Trend]) -> String {
    let changes: usize = trends.iter().map(|trend| trend.changes.len()).sum();
    let facts = vec![
        format!(
            "{} of {}",
            counted(trusted, "trusted run"),
            counted(all, "run")
        ),
        counted(changes, "level change"),
    ];
    let mut page = Page::new(&format!("Trends in {folder}"), facts);
    page.scripts = vec![ECHARTS, DRAW, PICK, PAGE];
    page.card(&changed(trends));
    if !trends.is_empty() {
        page.card(&html! {
            label { "Show " select #which hidden { @for (i, trend) in trends.iter().enumerate() { option value=(id(i)) { (Plain(&named(trend))) } } } }
        });
    }
    let figures = trends.iter().enumerate();
    page.charts(&Section {
        id: "trends",
        title: "Trends",
        figures: figures.map(|(i, trend)| figure(i, trend)).collect(),
    });
    page.finish()
}

fn id(index: usize) -> String {
    format!("trend-{index}")
}

fn named(trend: &Trend) -> String {
    format!("{} · {} · {}", trend.title, trend.cell, trend.runs)
}

/// The latest change first; those of the same cell that begin with the same run stand together.
fn changed(trends: &[Trend]) -> Markup {
    let mut together: BTreeMap<_, Vec<(usize, &LevelChange)>> = BTreeMap::new();
    for (i, trend) in trends.iter().enumerate() {
        for change in &trend.changes {
            let runs_since = trend.points.len() - change.from;
            let since = trend.points.get(change.from).map_or("", |(at, _)| at);
            let same = |other: &Trend| (&other.cell, &other.runs) == (&trend.cell, &trend.runs);
            let cell = trends.iter().position(same).unwrap_or(i);
            let place = (runs_since, cell, since);
            together.entry(place).or_default().push((i, change));
        }
    }
    html! {
        p {
            a href="index.html" { "All runs" } " · "
            "Trusted runs only. A level is a stretch of at least three runs; its change stands out from the scatter of the runs and from their own 95 % intervals."
        }
        @if together.is_empty() {
            p { (unchanged(trends)) }
        } @else {
            div.scroll tabindex="0" role="region" aria-label="Changes of level" {
                table {
                    caption { "Changes of level, the latest first" }
                    thead { tr { @for heading in ["since", "changes", "of", "runs since"] { th scope="col" { (heading) } } } }
                    tbody {
                        @for ((runs_since, cell, since), changes) in &together {
                            tr {
                                th scope="row" { bdi { (Plain(since)) } }
                                td.words { @for (nth, (i, change)) in changes.iter().enumerate() {
                                    @if nth > 0 { ", " }
                                    @if let Some(trend) = trends.get(*i) { a href={ "#" (id(*i)) } { (Plain(&trend.title)) } }
                                    " " span.(tone(change)) { (relative(change)) }
                                } }
                                td.words { @if let Some(trend) = trends.get(*cell) { (Plain(&trend.cell)) " · " (Plain(&trend.runs)) } }
                                td { (runs_since) }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// That no level changed, as far as anybody could know.
fn unchanged(trends: &[Trend]) -> String {
    let (few, all) = (Trend::FEWEST, trends.len());
    let looked = trends.iter().filter(|trend| trend.points.len() >= few);
    match looked.count() {
        0 => format!(
            "No history has the {few} runs of one kind that it takes to find a change of level."
        ),
        looked if looked == all => "No level changed.".to_owned(),
        looked => format!(
            "No level changed in the {looked} of {all} histories that have {few} runs or more; of shorter ones it cannot be told."
        ),
    }
}

fn tone(change: &LevelChange) -> &'static str {
    if change.is_worse { "bad" } else { "good" }
}

fn relative(change: &LevelChange) -> String {
    format!("{:+.1} %", (change.after / change.before - 1.0) * 100.0)
}

fn figure(index: usize, trend: &Trend) -> Figure {
    let (_, unit) = scale_of(trend.unit);
    let seen = trend.points.iter();
    let seen: Vec<Option<Bounded>> = seen
        .map(|(_, seen)| Some((seen.value, seen.bounds())))
        .collect();
    let names = trend.points.iter().map(|(at, _)| short_start(at));
    let x = category_axis(names)
        .name("runs, by version or start")
        .name_location(NameLocation::Middle);
    let y = Axis::new()
        .type_(AxisType::Value)
        .scale(true)
        .name(format!("{} ({unit})", trend.title));
    let mut plot =
        Plot::new(x, y)
            .height(430)
            .linear()
            .points_within("runs with 95 % intervals", "@0", &seen);
    for (from, to, level) in levels(trend) {
        let at = |run: usize| f64::from(u32::try_from(run).unwrap_or(u32::MAX));
        plot = plot.dashed("level", "@muted", &[(at(from), level), (at(to - 1), level)]);
    }
    let marks: Vec<Value> = trend.changes.iter().map(mark).collect();
    plot = plot.curve("", "@muted", &[]).with(
        "markLine",
        json!({ "silent": true, "symbol": "none", "data": marks }),
    );
    let rows = trend.points.iter();
    let table = Sheet::new()
        .text("run", |(at, _): &&Point| at.clone())
        .number((&trend.title, unit), |(_, seen): &&Point| seen.value)
        .number(("from", unit), |(_, seen): &&Point| seen.low)
        .number(("to", unit), |(_, seen): &&Point| seen.high)
        .rows("Runs with their 95 % intervals", rows);
    Figure::new(id(index), heading(trend), plot)
        .note(format!("{} · {}", trend.cell, trend.runs))
        .table(table)
}

/// A start as a label of an axis has room for it: `2026-11-27T04:13:22.5Z` is `11-27 04:13:22`, and a version is what it is. The table has the whole.
fn short_start(at: &str) -> String {
    let short = || {
        let (date, time) = at.split_once('T')?;
        let (year, day) = date.split_once('-')?;
        let is_start = year.len() == 4 && year.bytes().all(|c| c.is_ascii_digit());
        Some(format!("{day} {}", time.get(..8)?)).filter(|_| is_start && at.ends_with('Z'))
    };
    short().unwrap_or_else(|| at.to_owned())
}

/// Each level: its first run, the one after its last, its value.
fn levels(trend: &Trend) -> impl Iterator<Item = (usize, usize, f64)> {
    let first = trend
        .changes
        .first()
        .map(|change| (0, change.from, change.before));
    let later = trend
        .changes
        .iter()
        .map(|change| (change.from, change.to, change.after));
    first.into_iter().chain(later)
}

fn mark(change: &LevelChange) -> Value {
    let color = format!("@{}", tone(change));
    json!({ "xAxis": change.from, "lineStyle": {"color": color, "type": "solid", "width": 1.5},
        "label": {"formatter": relative(change), "color": color, "position": "insideEndTop", "rotate": 0, "backgroundColor": "@card", "padding": [1, 4]} })
}

/// The conclusion.
fn heading(trend: &Trend) -> String {
    let title = &trend.title;
    let Some(last) = trend.changes.last() else {
        let runs = counted(trend.points.len(), "run");
        return format!("{title}: no change of level in {runs}");
    };
    let (_, unit) = scale_of(trend.unit);
    let since = trend.points.get(last.from).map_or("", |(at, _)| at);
    format!(
        "{title}: {} {unit} since {since}, {}",
        rounded(last.after),
        relative(last)
    )
}

#[cfg(test)]
#[path = "../tests/unit/trend.rs"]
mod tests;
