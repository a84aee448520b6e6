//! Where the time goes, what laws fit, and what client and machines did.

use std::collections::BTreeMap;

use bench_schema::{
    CellRecord, HardwareSummary, Metric, Nanos, PhaseShares, ResourceSummary, RunRecord, SeriesKey,
    Unit,
};

use super::distributions::scale_of;
use super::trust_mark;
use crate::mark::Mark;
use crate::table::{Cell, Column, Table};
use crate::{number, text};

/// The name of the phase before the first token of several cells: prefill where waiting is known apart from it in each.
pub(crate) fn first_phase<'a>(cells: impl IntoIterator<Item = &'a CellRecord>) -> &'static str {
    let known = cells.into_iter().filter_map(|cell| cell.phases.as_ref());
    let mut names = known.map(PhaseShares::first_phase);
    names.find(|name| *name != "prefill").unwrap_or("prefill")
}

/// Shares of the mean response time.
pub(crate) fn phases(run: &RunRecord) -> Option<Table> {
    let columns = vec![
        Column::text("cell"),
        Column::number("waiting", "%"),
        Column::number(first_phase(&run.cells), "%"),
        Column::number("decode", "%"),
        Column::text("waiting is from"),
    ];
    let mut table = Table::new(
        "Where the time of a request goes: shares of the mean",
        columns,
    );
    for cell in &run.cells {
        let Some(phases) = &cell.phases else { continue };
        let estimate = (phases.queue_source == "estimate").then_some(Mark::Estimate);
        table.push(vec![
            Cell::text(super::label(cell)).marked(trust_mark(run, cell)),
            if phases.queue_source == "none" && phases.queue <= 0.0 {
                Cell::default()
            } else {
                Cell::share(phases.queue).marked(estimate)
            },
            Cell::share(phases.prefill).marked(estimate),
            Cell::share(phases.decode),
            Cell::text(queue_source_words(&phases.queue_source)),
        ]);
    }
    table.not_empty()
}

/// Where the waiting that is taken off TTFT is known from.
fn queue_source_words(source: &str) -> String {
    match source {
        "response" => "the server's answers".to_owned(),
        "server_metrics" => "the server's metrics".to_owned(),
        "estimate" => "TTFT above that at the lowest load".to_owned(),
        "none" => "not known: it is in what passes before the first token".to_owned(),
        other => text::shortened(&other.replace('_', " "), 40),
    }
}

/// What the client knows of itself.
pub(crate) fn client(run: &RunRecord) -> Option<Table> {
    let columns = vec![
        Column::text("cell"),
        Column::of("lag", "p50", "µs"),
        Column::of("lag", "p99", "µs"),
        Column::of("lag", "max", "µs"),
        Column::number("pause on purpose", "µs"),
        Column::of("lateness", "p99", "µs"),
        Column::number("bounded stamps", "%"),
        Column::number("busiest worker", "%"),
        Column::number("CPU", "s/M events"),
        Column::number("workers", ""),
    ];
    let mut table = Table::new("The client's own part in these numbers", columns);
    for cell in &run.cells {
        let client = &cell.client;
        let lag = |pick: fn(&bench_schema::LagRecord) -> Nanos| {
            Cell::number(client.lag.as_ref().map(|lag| pick(lag).as_f64() / 1e3))
        };
        let bounded = client.stamps.as_ref().filter(|stamps| stamps.n > 0);
        table.push(vec![
            Cell::text(super::label(cell)).marked(trust_mark(run, cell)),
            lag(|l| l.p50),
            lag(|l| l.p99),
            lag(|l| l.max),
            Cell::number(client.pause.map(|pause| pause.as_f64() / 1e3)),
            Cell::quantile(
                cell.metrics
                    .get(&Metric::Lateness)
                    .and_then(|d| d.quantile_entry(0.99)),
                1e3,
            ),
            Cell::number(bounded.map(|stamps| stamps.bounded as f64 * 100.0 / stamps.n as f64)),
            Cell::number(client.busiest_worker.map(|share| share * 100.0)),
            Cell::number(client.cpu_seconds_per_million_events),
            if client.workers > 0 {
                Cell::count(u64::from(client.workers))
            } else {
                Cell::default()
            },
        ]);
    }
    let table = table.without_empty_columns();
    if table.columns.len() < 2 {
        None
    } else {
        table.not_empty()
    }
}

/// Each series over the whole run: mean of the cells' means by their readings, and the peak.
pub(crate) fn hardware(run: &RunRecord) -> Option<Table> {
    let columns = vec![
        Column::text("source"),
        Column::text("series"),
        Column::number("mean", ""),
        Column::number("peak", ""),
        Column::text("unit"),
        Column::text("peak in"),
    ];
    let mut table = Table::new("Machines and server over the run", columns);
    let mut by_series: BTreeMap<&SeriesKey, Vec<(&str, &ResourceSummary)>> = BTreeMap::new();
    for (cell, hardware) in with_hardware(run) {
        for resource in &hardware.resources {
            by_series
                .entry(&resource.series)
                .or_default()
                .push((cell, resource));
        }
    }
    for (series, seen) in by_series {
        let readings: f64 = seen.iter().map(|(_, r)| r.n as f64).sum();
        let sum: f64 = seen.iter().map(|(_, r)| r.mean * r.n as f64).sum();
        let Some((cell, highest)) = seen.iter().max_by(|a, b| a.1.peak.total_cmp(&b.1.peak)) else {
            continue;
        };
        let (scale, unit) = scale_of(highest.unit);
        let mean = (readings > 0.0).then_some(sum / readings / scale);
        table.push(vec![
            Cell::text(source_words(series)),
            Cell::text(text::shortened(&series.name, 44)),
            Cell::text(mean.map_or_else(|| "–".to_owned(), number::short)),
            Cell::text(number::short(highest.peak / scale)),
            Cell::text(if highest.unit == Unit::Count {
                ""
            } else {
                unit
            }),
            Cell::text(*cell),
        ]);
    }
    table.not_empty()
}

/// The cells that have readings, by label.
pub(crate) fn with_hardware(run: &RunRecord) -> impl Iterator<Item = (&str, &HardwareSummary)> {
    run.cells
        .iter()
        .filter_map(|cell| Some((cell.id.as_str(), cell.hardware.as_ref()?)))
}

/// `gpu 0`, `server metrics`.
pub(crate) fn source_words(series: &SeriesKey) -> String {
    let source = format!("{:?}", series.source);
    let mut words = String::new();
    for c in source.chars() {
        if c.is_uppercase() && !words.is_empty() {
            words.push(' ');
        }
        words.extend(c.to_lowercase());
    }
    let instance = text::shortened(&series.instance, 24);
    if instance.is_empty() || instance.contains("://") {
        words
    } else {
        format!("{words} {instance}")
    }
}

/// The fitted laws with their parameters and intervals, in milliseconds where they are stored in nanoseconds.
pub(crate) fn fits(run: &RunRecord) -> Option<Table> {
    let columns = [
        "fit",
        "formula",
        "parameter",
        "value",
        "unit",
        "95 % interval",
        "R²",
    ];
    let mut columns = columns.map(Column::text).to_vec();
    columns.push(Column::number("points", ""));
    let mut table = Table::new("Fitted laws", columns);
    for (name, fit) in &run.analysis.fits {
        let formula = fit.formula.split(';').next().unwrap_or_default();
        let formula = formula.replace("_ns", "");
        // `ms_per_token` is `b` once more.
        let parameters = fit
            .parameters
            .iter()
            .filter(|(name, _)| *name != "ms_per_token");
        for (i, (parameter, value)) in parameters.enumerate() {
            let (scale, unit) = match (parameter.as_str(), fit.formula.contains("_ns")) {
                ("a" | "factor", true) => (1e6, "ms"),
                ("b", true) => (1e6, "ms/token"),
                ("lambda", _) => (1.0, "/s"),
                _ => (1.0, ""),
            };
            let shown = |value: f64| significant(value / scale);
            let interval = fit.intervals.get(parameter);
            let first = |text: String| Cell::text(if i == 0 { text } else { String::new() });
            table.push(vec![
                first(text::shortened(&name.replace('_', " "), 40)),
                first(text::shortened(formula.trim(), 60)),
                Cell::text(text::shortened(parameter, 30)),
                Cell::text(shown(*value)),
                Cell::text(unit),
                Cell::text(interval.map_or_else(String::new, |i| {
                    format!("{} … {}", shown(i.low), shown(i.high))
                })),
                first(fit.r_squared.map_or_else(String::new, significant)),
                if i == 0 {
                    Cell::count(fit.n)
                } else {
                    Cell::text("")
                },
            ]);
        }
    }
    table.not_empty()
}

/// Four significant figures, in exponent form where the number is tiny or huge.
pub(crate) fn significant(value: f64) -> String {
    let size = value.abs();
    if size.is_finite() && size > 0.0 && !(1e-3..1e7).contains(&size) {
        format!("{value:.3e}")
    } else {
        number::rounded(value).to_string()
    }
}
