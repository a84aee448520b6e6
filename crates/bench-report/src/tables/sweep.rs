//! Throughput: what each level of load gives, and what it costs.

use bench_insight::Signal;
use bench_schema::{CellRecord, Distribution, Load, Metric, Origin, RunRecord, ScalingRow};

use super::{gap_metric, load_level, origin_words, trust_mark};
use crate::table::{Cell, Column, Table};

/// One row for each level of load.
pub(crate) fn sweep(run: &RunRecord) -> Option<Table> {
    let gap = gap_metric(run);
    let open = run.cells.iter().any(|cell| cell.load.is_open());
    let closed = run.cells.iter().any(|cell| !cell.load.is_open());
    let ramps = run.cells.iter().any(|cell| cell.load.ramp().is_some());
    let mixed = (open && closed) || ramps;
    let load = load_column(open, mixed);
    let mut table = Table::new(title(run, open, closed), columns(load, gap));
    for cell in &run.cells {
        table.push(row(run, cell, gap, mixed));
    }
    table.without_empty_columns().not_empty()
}

fn title(run: &RunRecord, open: bool, closed: bool) -> String {
    let what = match (open, closed) {
        (true, false) => "Sweep of the arrival rate (open loop)",
        (false, true) => "Concurrency sweep (closed loop)",
        _ => "Load sweep",
    };
    format!("{what}, latencies {}", origin_words(run))
}

/// A number where all cells have one of the same kind, else words: a ramp is no number.
fn load_column(open: bool, mixed: bool) -> Column {
    match (open, mixed) {
        (_, true) => Column::text("load"),
        (true, false) => Column::number("rate", "req/s"),
        (false, false) => Column::number("concurrency", ""),
    }
}

fn columns(load: Column, gap: Metric) -> Vec<Column> {
    vec![
        load,
        Column::number("offered", "req/s"),
        Column::number("requests", "req/s"),
        Column::number("output", "tok/s"),
        Column::of("TTFT", "p50", "ms"),
        Column::of("TTFT", "p95", "ms"),
        Column::of(gap.title(), "p50", "ms"),
        Column::of(gap.title(), "p95", "ms"),
        Column::of("E2E", "p50", "ms"),
        Column::of("E2E", "p95", "ms"),
        Column::number("scaling", "×"),
        Column::number("efficiency", "%"),
        Column::number("trade-off", "gain/cost"),
        Column::number("goodput", "req/s"),
        Column::of("peak of", "running", ""),
        Column::of("peak of", "waiting", ""),
        Column::of("peak of", "KV cache", "%"),
        Column::of("peak of", "GPU use", "%"),
        Column::of("peak of", "GPU memory", "%"),
    ]
}

/// What is read of machines and server beside the latencies, with what a value is multiplied by.
const PEAKS: [(Signal, f64); 5] = [
    (Signal::Running, 1.0),
    (Signal::Waiting, 1.0),
    (Signal::KvCache, 100.0),
    (Signal::GpuUse, 100.0),
    (Signal::GpuMemory, 100.0),
];

/// The highest level of a signal over the run.
pub(crate) fn peak(run: &RunRecord, signal: Signal) -> Option<f64> {
    let cells = run.cells.iter();
    let peaks = cells.filter_map(|cell| Some(signal.of(cell)?.peak));
    peaks.reduce(f64::max)
}

fn row(run: &RunRecord, cell: &CellRecord, gap: Metric, mixed: bool) -> Vec<Cell> {
    let rates = cell.headline_rates();
    let scaling = scaling_row(run, cell);
    let level = load_level(&cell.load).0;
    let load = if mixed {
        Cell::text(super::label(cell))
    } else {
        Cell::number(level)
    };
    let quantile = |metric: Metric, q: f64| {
        Cell::quantile(cell.headline(metric).and_then(|d| d.quantile_entry(q)), 1e6)
    };
    let mut row = vec![
        load.marked(trust_mark(run, cell)),
        Cell::number(cell.plan.offered_rate_per_s.filter(|_| cell.load.is_open())),
        Cell::number(rates.map(|r| r.requests_per_s)),
        Cell::number(rates.and_then(|r| r.output_tokens_per_s)),
        quantile(Metric::Ttft, 0.5),
        quantile(Metric::Ttft, 0.95),
        quantile(gap, 0.5),
        quantile(gap, 0.95),
        quantile(Metric::E2e, 0.5),
        quantile(Metric::E2e, 0.95),
        Cell::number(scaling.map(|s| s.scaling_factor)),
        Cell::number(scaling.and_then(|s| s.efficiency).map(|e| e * 100.0)),
        Cell::number(scaling.and_then(|s| s.tradeoff_ratio)),
        Cell::number(cell.goodput.as_ref().map(|g| g.requests_per_s)),
    ];
    row.extend(PEAKS.map(|(signal, scale)| Cell::number(signal.of(cell).map(|l| l.peak * scale))));
    row
}

/// A figure of a distribution.
type Pick = fn(&Distribution) -> Option<f64>;

/// What more load changes.
const CHANGES: [(&str, Pick); 4] = [
    ("mean", |d| Some(d.mean)),
    ("p50", |d| d.quantile(0.5)),
    ("p95", |d| d.quantile(0.95)),
    ("p99", |d| d.quantile(0.99)),
];

fn scaling_columns() -> Vec<Column> {
    let mut columns = vec![
        Column::text("cell"),
        Column::number("took", "s"),
        Column::number("completed", ""),
        Column::number("output", "tokens"),
        Column::number("requests", "req/s"),
        Column::number("rate", "/s"),
        Column::number("if linear", "/s"),
        Column::number("scaling", "×"),
        Column::number("efficiency", "%"),
        Column::number("gain", "%"),
        Column::number("penalty", "%"),
        Column::number("gain / penalty", ""),
    ];
    columns.extend(CHANGES.map(|(name, _)| Column::of("change of E2E", name, "%")));
    columns.extend([
        Column::of("on the level before", "rate", "%"),
        Column::of("on the level before", "E2E mean", "%"),
    ]);
    columns
}

/// Each level held against the first: what proportional scaling would give, what more load gained, and what it cost.
pub(crate) fn scaling(run: &RunRecord) -> Option<Table> {
    let members: Vec<(&CellRecord, &ScalingRow)> = run
        .cells
        .iter()
        .filter_map(|cell| Some((cell, scaling_row(run, cell)?)))
        .filter(|(_, row)| row.throughput_gain.is_some())
        .collect();
    let (first, base) = *members.first()?;
    let title = format!("Change against {}", super::label(first));
    let mut table = Table::new(title, scaling_columns());
    let mut before = None;
    for (cell, row) in members {
        let whole = cell.windows.whole.as_ref();
        let tokens = cell.metrics.get(&Metric::OutputTokens);
        let linear = (base.level > 0.0).then(|| base.value * row.level / base.level);
        let percent = |share: Option<f64>| Cell::number(share.map(|x| x * 100.0));
        let mut cells = vec![
            Cell::text(super::label(cell)).marked(trust_mark(run, cell)),
            Cell::number(whole.map(|rates| rates.seconds)),
            Cell::count(cell.counts.completed),
            Cell::number(tokens.map(|d| (d.mean * d.n as f64).round())),
            Cell::number(cell.headline_rates().map(|rates| rates.requests_per_s)),
            Cell::number(row.value),
            Cell::number(linear),
            Cell::number(row.scaling_factor),
            percent(row.efficiency),
            percent(row.throughput_gain),
            percent(row.latency_penalty),
            Cell::number(row.tradeoff_ratio),
        ];
        let change = |then: &CellRecord, figure: Pick| {
            let of = |cell: &CellRecord| figure(cell.headline(Metric::E2e)?);
            let change = of(cell).zip(of(then)).map(|(now, then)| now / then - 1.0);
            percent(change.filter(|_| cell.id != then.id))
        };
        cells.extend(CHANGES.map(|(_, figure)| change(first, figure)));
        let last = before.replace((cell, row));
        cells.push(percent(last.map(|(_, then)| row.value / then.value - 1.0)));
        cells.push(last.map_or_else(Cell::default, |(then, _)| change(then, |d| Some(d.mean))));
        table.push(cells);
    }
    (table.rows.len() > 1).then(|| table.without_empty_columns())
}

/// The cell's row of the scaling table.
pub(crate) fn scaling_row<'a>(run: &'a RunRecord, cell: &CellRecord) -> Option<&'a ScalingRow> {
    run.analysis.scaling.iter().find(|row| row.cell == cell.id)
}

/// The scaling of runs along a tag.
pub(crate) fn scaling_of(rows: &[ScalingRow]) -> Table {
    let columns = vec![
        Column::text("level"),
        Column::number("best rate", "/s"),
        Column::number("scaling", "×"),
        Column::number("efficiency", "%"),
        Column::number("gain", "%"),
        Column::number("penalty", "%"),
    ];
    let mut table = Table::new("Scaling along the axis", columns);
    let percent = |share: Option<f64>| Cell::number(share.map(|x| x * 100.0));
    for row in rows {
        table.push(vec![
            Cell::text(row.level.to_string()),
            Cell::number(row.value),
            Cell::number(row.scaling_factor),
            percent(row.efficiency),
            percent(row.throughput_gain),
            percent(row.latency_penalty),
        ]);
    }
    table
}

/// Open loops have latencies from both origins: service time (`sent`) beside response time (`due`).
pub(crate) fn origins(run: &RunRecord) -> Option<Table> {
    let columns = vec![
        Column::number("rate", "req/s"),
        Column::of("TTFT sent", "p50", "ms"),
        Column::of("TTFT sent", "p95", "ms"),
        Column::of("TTFT due", "p50", "ms"),
        Column::of("TTFT due", "p95", "ms"),
        Column::of("E2E sent", "p50", "ms"),
        Column::of("E2E sent", "p95", "ms"),
        Column::of("E2E due", "p50", "ms"),
        Column::of("E2E due", "p95", "ms"),
        Column::of("lateness", "p99", "ms"),
    ];
    let title =
        "Service time (from sent) beside response time (from due, free of coordinated omission)";
    let mut table = Table::new(title, columns);
    for cell in run
        .cells
        .iter()
        .filter(|cell| matches!(cell.load, Load::Open { .. }))
    {
        let mut row = vec![Cell::number(load_level(&cell.load).0).marked(trust_mark(run, cell))];
        for metric in [Metric::Ttft, Metric::E2e] {
            for origin in [Origin::Sent, Origin::Due] {
                let seen = cell.metrics.get(&metric.from_origin(origin));
                row.extend(
                    [0.5, 0.95]
                        .map(|q| Cell::quantile(seen.and_then(|d| d.quantile_entry(q)), 1e6)),
                );
            }
        }
        row.push(Cell::quantile(
            cell.metrics
                .get(&Metric::Lateness)
                .and_then(|d| d.quantile_entry(0.99)),
            1e6,
        ));
        table.push(row);
    }
    table.without_empty_columns().not_empty()
}
