//! What stands behind the results: every distribution, phases, fits, the client's own part, machines and server.

use std::collections::BTreeMap;

use bench_schema::{
    CellRecord, Distribution, FitRecord, Interval, Metric, Nanos, PhaseShares, ResourceSummary,
    RunRecord, SeriesKey, Unit,
};

use super::results::unbounded;
use super::{named, of_cells};
use crate::table::{Cell, Column, Mark, Sheet, Table};
use crate::{number, text};

/// The quantiles of a whole distribution.
pub(crate) const QUANTILES: [(&str, f64); 5] = [
    ("p50", 0.5),
    ("p90", 0.9),
    ("p95", 0.95),
    ("p99", 0.99),
    ("p99.9", 0.999),
];

/// One row for each cell and metric of `metrics` that it has, latencies in milliseconds.
pub(crate) fn distributions(run: &RunRecord, metrics: &[Metric], title: &str) -> Option<Table> {
    type Row<'a> = (&'a CellRecord, Metric, &'a Distribution);
    let unit = metrics.first().map_or(Unit::Ns, |metric| metric.unit());
    let (scale, unit) = scale_of(unit);
    let mut sheet = Sheet::new()
        .column(Column::text("cell"), |(cell, ..): &Row<'_>| {
            named(run, cell)
        })
        .text("metric", |(_, metric, _)| metric.title().to_owned())
        .count("n", |(.., seen)| seen.n)
        .number(("mean", unit), move |(.., seen)| seen.mean / scale)
        .number(("± 95 %", unit), move |(.., seen)| {
            let sides = |i: &Interval| (i.high - seen.mean).max(seen.mean - i.low);
            seen.mean_interval.as_ref().map(|i| sides(i) / scale)
        })
        .number(("sd", unit), move |(.., seen)| seen.sd.map(|sd| sd / scale))
        .number(("min", unit), move |(.., seen)| seen.min / scale);
    for (name, q) in QUANTILES {
        sheet = sheet.column(Column::number(name, unit), move |(.., seen)| {
            Cell::quantile(seen.quantile_entry(q), scale).marked(unbounded(Some(seen), q))
        });
    }
    let rows = run.cells.iter().flat_map(|cell| {
        let metrics = metrics.iter();
        metrics.filter_map(move |metric| Some((cell, *metric, cell.metrics.get(metric)?)))
    });
    sheet
        .number(("max", unit), move |(.., seen)| seen.max / scale)
        .percent("CoV", |(.., seen)| seen.cov)
        .rows(title, rows)
}

/// What a stored value is divided by to be shown, and the unit it then has.
pub(crate) fn scale_of(unit: Unit) -> (f64, &'static str) {
    match unit {
        Unit::Ns => (1e6, "ms"),
        Unit::Tokens => (1.0, "tokens"),
        Unit::TokensPerS => (1.0, "tok/s"),
        Unit::RequestsPerS => (1.0, "req/s"),
        Unit::Bytes => (1024.0 * 1024.0, "MiB"),
        Unit::Ratio => (0.01, "%"),
        Unit::Watts => (1.0, "W"),
        Unit::Joules => (1.0, "J"),
        Unit::Celsius => (1.0, "°C"),
        Unit::Hertz => (1e6, "MHz"),
        Unit::BytesPerS => (1024.0 * 1024.0, "MiB/s"),
        Unit::Count => (1.0, ""),
    }
}

/// The name of the phase before the first token of several cells: prefill where waiting is known apart from it in each.
pub(crate) fn first_phase<'a>(cells: impl IntoIterator<Item = &'a CellRecord>) -> &'static str {
    let known = cells.into_iter().filter_map(|cell| cell.phases.as_ref());
    let mut names = known.map(PhaseShares::first_phase);
    names.find(|name| *name != "prefill").unwrap_or("prefill")
}

/// Shares of the mean response time.
pub(crate) fn phases(run: &RunRecord) -> Option<Table> {
    type Row<'a> = (&'a CellRecord, &'a PhaseShares);
    let estimate =
        |phases: &PhaseShares| (phases.queue_source == "estimate").then_some(Mark::Estimate);
    let rows = run
        .cells
        .iter()
        .filter_map(|cell| Some((cell, cell.phases.as_ref()?)));
    Sheet::new()
        .column(Column::text("cell"), |(cell, _): &Row<'_>| named(run, cell))
        .column(
            Column::number("queue", "%"),
            move |(_, phases)| match phases.queue_source.as_str() {
                "none" if phases.queue <= 0.0 => Cell::default(),
                _ => Cell::share(phases.queue).marked(estimate(phases)),
            },
        )
        .column(
            Column::number(first_phase(&run.cells), "%"),
            move |(_, phases)| Cell::share(phases.prefill).marked(estimate(phases)),
        )
        .column(Column::number("decode", "%"), |(_, phases)| {
            Cell::share(phases.decode)
        })
        .text("queue time from", |(_, phases)| {
            queue_source_words(&phases.queue_source)
        })
        .rows("Latency breakdown: shares of mean E2E", rows)
}

/// Where the waiting that is taken off TTFT is known from.
fn queue_source_words(source: &str) -> String {
    match source {
        "response" => "server responses".to_owned(),
        "server_metrics" | "held_back" => "server metrics".to_owned(),
        "estimate" => "estimate: TTFT minus TTFT at the lowest load".to_owned(),
        "none" => "unknown: included in the time before the first token".to_owned(),
        other => text::shortened(&other.replace('_', " "), 40),
    }
}

/// What the client knows of itself.
pub(crate) fn client(run: &RunRecord) -> Option<Table> {
    type Lag = fn(&bench_schema::LagRecord) -> Nanos;
    let mut sheet = of_cells(run);
    let lags: [(&str, Lag); 3] = [("p50", |l| l.p50), ("p99", |l| l.p99), ("max", |l| l.max)];
    for (name, of) in lags {
        sheet = sheet.column(Column::of("lag", name, "µs"), move |cell| {
            Cell::number(cell.client.lag.as_ref().map(|lag| of(lag).as_f64() / 1e3))
        });
    }
    let table = sheet
        .number(("read delay (deliberate)", "µs"), |cell| {
            Some(cell.client.pause?.as_f64() / 1e3)
        })
        .column(Column::of("lateness", "p99", "µs"), |cell| {
            let seen = cell.metrics.get(&Metric::Lateness);
            Cell::quantile(seen.and_then(|d| d.quantile_entry(0.99)), 1e3)
        })
        .percent("bounded timestamps", |cell| {
            let stamps = cell.client.stamps.as_ref().filter(|stamps| stamps.n > 0)?;
            Some(stamps.bounded as f64 / stamps.n as f64)
        })
        .percent("busiest worker", |cell| cell.client.busiest_worker)
        .number(("CPU", "s/M events"), |cell| {
            cell.client.cpu_seconds_per_million_events
        })
        .count("workers", |cell| {
            Some(u64::from(cell.client.workers)).filter(|n| *n > 0)
        })
        .rows("Client overhead and timing accuracy", &run.cells)?;
    (table.columns.len() > 1).then_some(table)
}

/// A series with its figures in each cell.
type Seen<'a> = (&'a SeriesKey, Vec<(&'a str, &'a ResourceSummary)>);

fn highest<'a>((_, seen): &Seen<'a>) -> Option<(&'a str, &'a ResourceSummary)> {
    seen.iter()
        .copied()
        .max_by(|a, b| a.1.peak.total_cmp(&b.1.peak))
}

/// Each series over the whole run: mean of the cells' means by their readings, and the peak.
pub(crate) fn hardware(run: &RunRecord) -> Option<Table> {
    let mut by_series: BTreeMap<&SeriesKey, Vec<(&str, &ResourceSummary)>> = BTreeMap::new();
    for cell in &run.cells {
        for resource in cell
            .hardware
            .iter()
            .flat_map(|hardware| &hardware.resources)
        {
            let seen = by_series.entry(&resource.series).or_default();
            seen.push((cell.id.as_str(), resource));
        }
    }
    let shown = |row: &Seen<'_>, value: f64| {
        let (scale, _) = scale_of(highest(row)?.1.unit);
        Some(number::short(value / scale))
    };
    Sheet::new()
        .text("source", |(series, _): &Seen<'_>| source_words(series))
        .text("series", |(series, _)| text::shortened(&series.name, 44))
        .column(Column::number("mean", ""), move |row| {
            let readings: f64 = row.1.iter().map(|(_, r)| r.n as f64).sum();
            let sum: f64 = row.1.iter().map(|(_, r)| r.mean * r.n as f64).sum();
            let mean = (readings > 0.0).then_some(sum / readings);
            Cell::words(mean.and_then(|mean| shown(row, mean)))
        })
        .column(Column::number("peak", ""), move |row| {
            Cell::words(highest(row).and_then(|(_, highest)| shown(row, highest.peak)))
        })
        .text("unit", |row| match highest(row)?.1.unit {
            Unit::Count => Some(String::new()),
            unit => Some(scale_of(unit).1.to_owned()),
        })
        .text("peak in", |row| Some(highest(row)?.0.to_owned()))
        .rows("Hardware and server metrics over the run", by_series)
}

/// `gpu 0`, `server metrics`.
fn source_words(series: &SeriesKey) -> String {
    let words = series.source.as_str().replace('_', " ");
    let instance = text::shortened(&series.instance, 24);
    if instance.is_empty() || instance.contains("://") {
        words
    } else {
        format!("{words} {instance}")
    }
}

/// The fitted laws with their parameters and intervals, in milliseconds where they are stored in nanoseconds.
pub(crate) fn fits(run: &RunRecord) -> Option<Table> {
    /// Its name and itself, its place among its fit's, a parameter and its value.
    type Row<'a> = ((&'a String, &'a FitRecord), usize, (&'a String, &'a f64));
    // `ms_per_token` is `b` once more.
    let rows = run.analysis.fits.iter().flat_map(|fit| {
        let all = fit.1.parameters.iter();
        let all = all.filter(|(name, _)| *name != "ms_per_token").enumerate();
        all.map(move |(i, parameter)| (fit, i, parameter))
    });
    let scale = |((_, fit), _, (parameter, _)): &Row<'_>| match (
        parameter.as_str(),
        fit.formula.contains("_ns"),
    ) {
        ("a" | "factor", true) => (1e6, "ms"),
        ("b", true) => (1e6, "ms/token"),
        ("lambda", _) => (1.0, "/s"),
        _ => (1.0, ""),
    };
    let first = |row: &Row<'_>, text: String| if row.1 == 0 { text } else { String::new() };
    Sheet::new()
        .text("fit", move |row: &Row<'_>| {
            first(row, text::shortened(&row.0.0.replace('_', " "), 40))
        })
        .text("formula", move |row| {
            let formula = row.0.1.formula.split(';').next().unwrap_or_default();
            first(row, text::shortened(formula.replace("_ns", "").trim(), 60))
        })
        .text("parameter", |(.., (name, _))| text::shortened(name, 30))
        .text("value", move |row| significant(row.2.1 / scale(row).0))
        .text("unit", move |row| scale(row).1.to_owned())
        .text("95 % interval", move |row| {
            let shown = |value: f64| significant(value / scale(row).0);
            let interval = row.0.1.intervals.get(row.2.0);
            interval.map_or_else(String::new, |i| {
                format!("{} … {}", shown(i.low), shown(i.high))
            })
        })
        .text("R²", move |row| {
            first(row, row.0.1.r_squared.map_or_else(String::new, significant))
        })
        .column(Column::number("points", ""), |(fit, i, _)| match i {
            0 => Cell::count(fit.1.n),
            _ => Cell::text(""),
        })
        .rows("Fitted models", rows)
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

/// Beyond these many cells a table would be wider than a page: then the ends are shown.
const MOST_COLUMNS: usize = 8;

/// Beginnings of names in the order they are shown; what begins with none of them comes last.
const ORDER: [&str; 9] = [
    "energy",
    "gpu",
    "server_queue",
    "server_",
    "running",
    "waiting",
    "kv_cache",
    "host",
    "correlation",
];

/// The figures derived from readings (energy per token, the server's own times, correlations), a row each, a column for each cell; the
/// lowest and the highest where there are many cells.
pub(crate) fn derived(run: &RunRecord) -> Option<Table> {
    let cells = run.cells.iter();
    let cells = cells.filter_map(|cell| Some((cell, &cell.hardware.as_ref()?.derived)));
    let cells: Vec<_> = cells.filter(|(_, derived)| !derived.is_empty()).collect();
    let mut names: Vec<&str> = cells
        .iter()
        .flat_map(|(_, derived)| derived.keys().map(String::as_str))
        .collect();
    let place = |name: &str| ORDER.iter().position(|begin| name.starts_with(begin));
    names.sort_unstable_by_key(|name| (place(name).unwrap_or(ORDER.len()), *name));
    names.dedup();
    let unit = |name: &str| {
        let mut known = cells.iter().filter_map(|(_, derived)| derived.get(name));
        known
            .next()
            .map_or((1.0, ""), |known| derived_scale(name, known.unit))
    };
    let figure = |name: &str, value: Option<f64>| {
        Cell::words(value.map(|value| number::short(value / unit(name).0)))
    };
    let ends = |name: &&str| {
        let known = cells.iter().filter_map(|(_, derived)| derived.get(*name));
        number::ends(known.map(|q| q.value))
    };
    let mut sheet = Sheet::new()
        .text("figure", |name: &&str| {
            text::shortened(&name.replace('_', " "), 48)
        })
        .text("unit", |name| unit(name).1.to_owned());
    if cells.len() <= MOST_COLUMNS {
        for (cell, derived) in &cells {
            let column = Column::number(text::shortened(&cell.id, 24), "");
            let of = move |name: &&str| figure(name, derived.get(*name).map(|q| q.value));
            sheet = sheet.column(column, of);
        }
    } else {
        sheet = sheet
            .column(Column::number("lowest", ""), |name| {
                figure(name, ends(name).map(|e| e.0))
            })
            .column(Column::number("highest", ""), |name| {
                figure(name, ends(name).map(|e| e.1))
            });
    }
    sheet.rows("Derived metrics", names)
}

/// As elsewhere, but for ratios that are no shares of a whole.
fn derived_scale(name: &str, unit: Unit) -> (f64, &'static str) {
    let plain = name.starts_with("correlation") || name.contains("_over_");
    if unit == Unit::Ratio && plain {
        (1.0, "")
    } else {
        scale_of(unit)
    }
}
