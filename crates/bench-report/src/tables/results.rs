//! The tables that answer a benchmark's question: levels of load, a grid of lengths, use cases and categories.

use bench_insight::Signal;
use bench_schema::{
    CellRecord, Distribution, Factor, GroupRecord, Metric, Origin, RunRecord, ScalingRow,
    SloVerdict,
};

use super::outcomes::verdict_counts;
use super::{
    gap_metric, label, load_level, named, of_cells, population_words, rate_unit, trust_mark,
};
use crate::table::{Cell, Column, Mark, Sheet, Table, Tone};
use crate::text::shortened;

/// The middle and the tail.
const ENDS: [(&str, f64); 2] = [("p50", 0.5), ("p95", 0.95)];

fn e2e(cell: &CellRecord) -> Option<&Distribution> {
    cell.headline(Metric::E2e)
}

/// One row for each level of load, and of other factors where cells differ in them.
pub(crate) fn sweep(run: &RunRecord) -> Option<Table> {
    let gap = gap_metric(run);
    let open = run.cells.iter().any(|cell| cell.load.is_open());
    let closed = run.cells.iter().any(|cell| !cell.load.is_open());
    let ramps = run.cells.iter().any(|cell| cell.load.ramp().is_some());
    // A number where all cells have one of the same kind, else words: a ramp is no number.
    let mixed = (open && closed) || ramps;
    let load = match (open, mixed) {
        (_, true) => Column::text("load"),
        (true, false) => Column::number("rate", rate_unit(run)),
        (false, false) => Column::number("concurrency", ""),
    };
    let level = move |cell: &&CellRecord| {
        let level = if mixed {
            Cell::text(label(cell))
        } else {
            Cell::number(load_level(&cell.load))
        };
        level.marked(trust_mark(run, cell))
    };
    let mut sheet = beside_load(run, Sheet::new().column(load, level))
        .count("n", |cell| answers(cell))
        .number(("offered", "req/s"), |cell: &&CellRecord| {
            cell.plan.offered_rate_per_s.filter(|_| cell.load.is_open())
        })
        .number(("requests", "req/s"), |cell| {
            // the client stopped every answer itself: no rate of whole answers is the server's
            let stopped = cell.counts.completed == 0 && cell.counts.cancelled > 0;
            cell.headline_rates()?.requests_per_s.filter(|_| !stopped)
        })
        .number(("output", "tok/s"), |cell| {
            cell.headline_rates()?.output_tokens_per_s
        });
    for metric in [Metric::Ttft, gap, Metric::E2e] {
        sheet = sheet.quantiles(metric.title(), &ENDS, move |cell| cell.headline(metric));
    }
    let of = |cell: &CellRecord| scaling_row(run, cell);
    sheet = sheet
        .number(("scaling", "×"), move |cell| {
            Some(of(cell)?.scaling_factor)
        })
        .percent("efficiency", move |cell| of(cell)?.efficiency)
        .number(("trade-off", "gain/cost"), move |cell| {
            of(cell)?.tradeoff_ratio
        })
        .number(("goodput", "req/s"), |cell| {
            Some(cell.goodput.as_ref()?.requests_per_s)
        });
    for (name, signal, scale, unit) in PEAKS {
        sheet = sheet.column(Column::of("peak", name, unit), move |cell| {
            Cell::number(peak_in(cell, signal).map(|peak| peak * scale))
        });
    }
    let title = load_words(open, closed, run.cells.len());
    sheet.rows(format!("{title}, {}", population_words(run)), &run.cells)
}

/// The answers that a row is of.
fn answers(cell: &CellRecord) -> Option<u64> {
    Some(e2e(cell)?.n)
}

fn load_words(open: bool, closed: bool, cells: usize) -> &'static str {
    match (open, closed, cells) {
        (true, false, 1) => "One request rate (open loop)",
        (false, true, 1) => "One concurrency (closed loop)",
        (true, false, _) => "Request-rate sweep (open loop)",
        (false, true, _) => "Concurrency sweep (closed loop)",
        _ => "Load sweep",
    }
}

/// What is read of machines and server beside the latencies, with what a value is multiplied by.
const PEAKS: [(&str, Signal, f64, &str); 5] = [
    ("running", Signal::Running, 1.0, ""),
    ("waiting", Signal::Waiting, 1.0, ""),
    ("KV cache", Signal::KvCache, 100.0, "%"),
    ("GPU use", Signal::GpuUse, 100.0, "%"),
    ("GPU memory", Signal::GpuMemory, 100.0, "%"),
];

/// The highest level of a signal over the run.
pub(crate) fn peak(run: &RunRecord, signal: Signal) -> Option<f64> {
    let cells = run.cells.iter();
    let peaks = cells.filter_map(|cell| peak_in(cell, signal));
    peaks.reduce(f64::max)
}

/// The same in a cell. Readings that never met half of the requests that the client had in flight came between them.
fn peak_in(cell: &CellRecord, signal: Signal) -> Option<f64> {
    let level = |signal: Signal| Some(signal.of(cell)?.peak);
    let in_flight = cell
        .windows
        .whole
        .as_ref()
        .map(|whole| whole.peak_in_flight);
    let is_missed = |signal| {
        let met = level(Signal::Running)? + level(Signal::Waiting)?;
        let of_requests = matches!(signal, Signal::Running | Signal::Waiting);
        Some(of_requests && met < 0.5 * in_flight? as f64)
    };
    level(signal).filter(|_| is_missed(signal) != Some(true))
}

type Pick = fn(&Distribution) -> Option<f64>;

/// What more load changes.
const CHANGES: [(&str, Pick); 4] = [
    ("mean", |d| Some(d.mean)),
    ("p50", |d| d.quantile(0.5)),
    ("p95", |d| d.quantile(0.95)),
    ("p99", |d| d.quantile(0.99)),
];

/// A cell with its row of the scaling table, the first level of its series, and the level before it.
#[derive(Clone, Copy)]
struct Step<'a> {
    cell: &'a CellRecord,
    row: &'a ScalingRow,
    first: &'a CellRecord,
    before: Option<(&'a CellRecord, &'a ScalingRow)>,
}

/// The levels of each series, one series after another, each from its lowest level on.
fn steps(run: &RunRecord) -> Vec<Step<'_>> {
    let mut steps: Vec<Step<'_>> = Vec::new();
    for row in &run.analysis.scaling {
        let found = run.cells.iter().find(|cell| cell.id == row.cell);
        let Some(cell) = found.filter(|_| row.throughput_gain.is_some()) else {
            continue;
        };
        // the first level of a series is what its others are held against
        let below = steps.last().copied();
        let below = below.filter(|_| row.throughput_gain != Some(0.0));
        steps.push(Step {
            cell,
            row,
            first: below.map_or(cell, |step| step.first),
            before: below.map(|step| (step.cell, step.row)),
        });
    }
    steps
}

/// Output tokens of the answers that a row is of.
fn tokens(cell: &CellRecord) -> Option<f64> {
    let seen = cell.metrics.get(&Metric::OutputTokens)?;
    Some((seen.mean * seen.n as f64).round())
}

/// Whether a row of the scaling table is of output tokens, not of requests: the rate that its value is nearer to.
fn is_of_tokens(cell: &CellRecord, row: &ScalingRow) -> bool {
    let off = |rate: f64| (rate - row.value).abs();
    let rates = cell.headline_rates();
    let tokens = rates.and_then(|rates| Some(off(rates.output_tokens_per_s?)));
    let requests = rates.and_then(|rates| Some(off(rates.requests_per_s?)));
    tokens.is_some_and(|tokens| requests.is_some_and(|requests| tokens <= requests))
}

/// What the rate of a scaling table is of, and its unit.
fn rate_of(step: Step<'_>) -> (&'static str, &'static str) {
    if is_of_tokens(step.cell, step.row) {
        ("output", "tok/s")
    } else {
        ("requests", "req/s")
    }
}

/// What a figure of E2E became since another level, in percent; absent where the requests of one are longer: with more of them a level has further draws.
fn change(cell: &CellRecord, then: &CellRecord, figure: Pick) -> Option<f64> {
    const ALIKE: f64 = 0.01;
    let of = |cell: &CellRecord| figure(cell.headline(Metric::E2e)?);
    let lengths = [Metric::OutputTokens, Metric::InputTokens];
    let differ = lengths.iter().any(|metric| {
        let both = cell.metrics.get(metric).zip(then.metrics.get(metric));
        both.is_some_and(|(now, then)| (now.mean / then.mean - 1.0).abs() > ALIKE)
    });
    (cell.id != then.id && !differ).then_some(())?;
    Some((of(cell)? / of(then)? - 1.0) * 100.0)
}

/// Each level held against the first: what proportional scaling would give, what more load gained, and what it cost.
pub(crate) fn scaling(run: &RunRecord) -> Option<Table> {
    let steps = steps(run);
    let base = *steps.first()?;
    let (what, unit) = rate_of(base);
    // What the efficiency is a share of: of arrival rates it knows what was really offered.
    let linear = |row: &ScalingRow| Some(row.value / row.efficiency?).filter(|x| x.is_finite());
    let mut sheet = Sheet::new()
        .column(Column::text("cell"), |step: &Step<'_>| {
            named(run, step.cell)
        })
        .number(("window", "s"), |step| {
            Some(step.cell.headline_rates()?.seconds)
        })
        .count("n", |step| answers(step.cell))
        .number(("output", "tokens"), |step| tokens(step.cell))
        .number((what, unit), |step| Some(step.row.value))
        .number(("at linear scaling", unit), move |step| linear(step.row))
        .number(("scaling", "×"), |step| step.row.scaling_factor)
        .percent("efficiency", |step| step.row.efficiency)
        .percent("gain", |step| step.row.throughput_gain)
        .percent("penalty", |step| step.row.latency_penalty)
        .number(("gain / penalty", ""), |step| step.row.tradeoff_ratio);
    // that of the mean is the penalty
    for (name, figure) in CHANGES.into_iter().skip(1) {
        sheet = sheet.column(
            Column::of("E2E change", name, "%"),
            move |step: &Step<'_>| Cell::number(change(step.cell, step.first, figure)),
        );
    }
    let one_series = steps.iter().filter(|step| step.before.is_none()).count() == 1;
    let first = if one_series {
        label(base.cell)
    } else {
        format!("the lowest {} of otherwise equal cells", base.row.factor)
    };
    let title = format!("Change relative to {first}, {}", population_words(run));
    let table = sheet.rows(title, steps)?;
    (table.rows.len() > 1).then_some(table)
}

/// Each level held against the one before it. Nothing where that is the first for all: [`scaling`] says the same.
pub(crate) fn level_before(run: &RunRecord) -> Option<Table> {
    let steps = steps(run);
    let (what, _) = rate_of(*steps.first()?);
    let later = |step: &Step<'_>| {
        step.before
            .is_some_and(|(then, _)| then.id != step.first.id)
    };
    steps.iter().any(later).then_some(())?;
    let mut sheet = Sheet::new()
        .column(Column::text("cell"), |step: &Step<'_>| {
            named(run, step.cell)
        })
        .number((what, "%"), |step| {
            Some((step.row.value / step.before?.1.value - 1.0) * 100.0)
        });
    for (name, figure) in CHANGES {
        sheet = sheet.column(Column::of("E2E", name, "%"), move |step: &Step<'_>| {
            let before = step.before;
            Cell::number(before.and_then(|(then, _)| change(step.cell, then, figure)))
        });
    }
    let title = format!("Change from the level before, {}", population_words(run));
    sheet.rows(
        title,
        steps.into_iter().filter(|step| step.before.is_some()),
    )
}

/// The cell's row of the scaling table.
pub(crate) fn scaling_row<'a>(run: &'a RunRecord, cell: &CellRecord) -> Option<&'a ScalingRow> {
    run.analysis.scaling.iter().find(|row| row.cell == cell.id)
}

/// The scaling of runs along a tag.
pub(crate) fn scaling_of(rows: &[ScalingRow]) -> Option<Table> {
    Sheet::new()
        .text("level", |row: &&ScalingRow| row.level.to_string())
        .number(("best rate", "/s"), |row| row.value)
        .number(("scaling", "×"), |row| row.scaling_factor)
        .percent("efficiency", |row| row.efficiency)
        .percent("gain", |row| row.throughput_gain)
        .percent("penalty", |row| row.latency_penalty)
        .rows("Scaling along the axis", rows)
}

/// A column for each factor besides the load in which cells differ.
fn beside_load<'a>(
    run: &'a RunRecord,
    mut sheet: Sheet<'a, &'a CellRecord>,
) -> Sheet<'a, &'a CellRecord> {
    let others = shown_factors(run).into_iter();
    for name in others.filter(|name| !matches!(name.as_str(), "concurrency" | "rate")) {
        sheet = sheet.column(factor_column(run, &name), move |cell| {
            factor_cell(cell.factors.get(&name))
        });
    }
    sheet
}

/// Open loops have latencies from both origins: service time (`sent`) beside response time (`due`).
pub(crate) fn origins(run: &RunRecord) -> Option<Table> {
    let sheet = Sheet::new().column(
        Column::number("rate", rate_unit(run)),
        |cell: &&CellRecord| Cell::number(load_level(&cell.load)).marked(trust_mark(run, cell)),
    );
    let mut sheet = beside_load(run, sheet);
    for (metric, origin, group) in [
        (Metric::Ttft, Origin::Sent, "TTFT from send"),
        (Metric::Ttft, Origin::Due, "TTFT from due"),
        (Metric::E2e, Origin::Sent, "E2E from send"),
        (Metric::E2e, Origin::Due, "E2E from due"),
    ] {
        let metric = metric.from_origin(origin);
        sheet = sheet.quantiles(group, &ENDS, move |cell| cell.metrics.get(&metric));
    }
    let sheet = sheet.quantiles("lateness", &[("p99", 0.99)], |cell| {
        cell.metrics.get(&Metric::Lateness)
    });
    let open = run.cells.iter().filter(|cell| cell.load.is_open());
    sheet.rows(
        "Service time (from send) and response time (from due)",
        open,
    )
}

/// Latency of one request at a time over a grid of lengths, one row for each cell.
pub(crate) fn grid(run: &RunRecord) -> Option<Table> {
    let mut factors = shown_factors(run);
    // a cell without one of them is known by its label alone
    let all_have = |name: &String| run.cells.iter().all(|cell| cell.factors.contains_key(name));
    if !factors.iter().all(all_have) {
        factors.clear();
    }
    let mut sheet = Sheet::new();
    for (i, name) in factors.iter().enumerate() {
        sheet = sheet.column(factor_column(run, name), move |cell: &&CellRecord| {
            let mark = trust_mark(run, cell).filter(|_| i == 0);
            factor_cell(cell.factors.get(name)).marked(mark)
        });
    }
    if factors.is_empty() {
        sheet = of_cells(run);
    }
    // CoV is of the same latency, so it stands within the group.
    let mut sheet = sheet
        .count("n", |cell| answers(cell))
        .column(Column::of("E2E", "mean", "ms"), |cell| {
            Cell::number(e2e(cell).map(|d| d.mean / 1e6))
        })
        .column(Column::of("E2E", "sd", "ms"), |cell| {
            Cell::number(e2e(cell).and_then(|d| d.sd).map(|sd| sd / 1e6))
        })
        .column(Column::of("E2E", "CoV", "%"), |cell| {
            Cell::number(e2e(cell).and_then(|d| d.cov).map(|cov| cov * 100.0))
        });
    let tail = [ENDS[0], ENDS[1], ("p99", 0.99)];
    sheet = sheet.quantiles("E2E", &tail, |cell| e2e(cell));
    sheet = sheet.quantiles("TTFT", &ENDS[..1], |cell| cell.headline(Metric::Ttft));
    let per_token = |cell: &&CellRecord| cell.analysis.ms_per_token;
    sheet
        .number(("per token", "ms/tok"), per_token)
        .number(("speed", "tok/s"), move |cell| {
            per_token(cell).filter(|&ms| ms > 0.0).map(|ms| 1000.0 / ms)
        })
        .number(("scaling", "×"), |cell| {
            Some(scaling_row(run, cell)?.scaling_factor)
        })
        .number(("added by prompt", "ms"), |cell| {
            Some((e2e(cell)?.mean - e2e(first_prompt(run, cell)?)?.mean) / 1e6)
        })
        .number(("actual prompt", "tokens"), |cell| {
            Some(cell.metrics.get(&Metric::InputTokens)?.mean)
        })
        .rows(
            format!("Latency grid, {}", population_words(run)),
            &run.cells,
        )
}

/// Factors in which cells differ, in a fixed order: prompt, then output, then the rest by name.
pub(crate) fn shown_factors(run: &RunRecord) -> Vec<String> {
    let keys = run.cells.iter().flat_map(|cell| cell.factors.keys());
    let names: std::collections::BTreeSet<&String> = keys.collect();
    let differs = |name: &&String| {
        let mut levels = run.cells.iter().map(|cell| cell.factors.get(*name));
        let first = levels.next();
        levels.any(|level| Some(level) != first)
    };
    let rank = |name: &String| match name.as_str() {
        name if is_prompt(name) => 0,
        "output_tokens" => 1,
        _ => 2,
    };
    let mut shown: Vec<String> = names.into_iter().filter(differs).cloned().collect();
    shown.sort_by_key(rank);
    shown
}

fn is_prompt(factor: &str) -> bool {
    matches!(factor, "prompt" | "prompt_tokens" | "input_tokens")
}

fn factor_column(run: &RunRecord, name: &str) -> Column {
    let mut levels = run.cells.iter().filter_map(|cell| cell.factors.get(name));
    let (title, unit) = match name {
        "output_tokens" => ("output".to_owned(), "tokens"),
        "input_tokens" | "prompt_tokens" => ("prompt".to_owned(), "tokens"),
        other => (shortened(&other.replace('_', " "), 24), ""),
    };
    if levels.all(|level| level.as_number().is_some()) {
        Column::number(title, unit)
    } else {
        Column::text(title)
    }
}

fn factor_cell(factor: Option<&Factor>) -> Cell {
    match factor {
        Some(Factor::Number(n)) => Cell::text(n.to_string()),
        Some(Factor::Name(name)) => Cell::text(shortened(name, 40)),
        None => Cell::default(),
    }
}

/// The first cell with another prompt and otherwise the same factors, answers as long.
fn first_prompt<'a>(run: &'a RunRecord, cell: &CellRecord) -> Option<&'a CellRecord> {
    let prompt = cell.factors.keys().find(|name| is_prompt(name))?;
    let alike = |other: &&CellRecord| {
        let mut factors = other.factors.clone();
        factors.insert(prompt.clone(), cell.factors.get(prompt)?.clone());
        (other.factors.contains_key(prompt) && factors == cell.factors).then_some(())
    };
    let first = run.cells.iter().find(|other| alike(other).is_some())?;
    (first.id != cell.id).then_some(first)
}

/// What the groups of this run are by, each once: `use_case`, `category`, ….
pub(crate) fn group_labels(run: &RunRecord) -> Vec<String> {
    let mut seen: Vec<String> = Vec::new();
    for group in run.cells.iter().flat_map(|cell| &cell.groups) {
        if !seen.contains(&group.by) {
            seen.push(group.by.clone());
        }
    }
    seen
}

/// What a grouping is called above a table.
fn words(by: &str) -> String {
    match by {
        "use_case" => "Use cases".to_owned(),
        "category" => "Sequence-length categories".to_owned(),
        "endpoint" => "Endpoints".to_owned(),
        "turn" => "Conversation turns".to_owned(),
        other => format!("By {}", shortened(&other.replace('_', " "), 40)),
    }
}

/// The groups of one kind, numbers in order (turns), else the shorter requests first.
pub(crate) fn groups_in_order<'a>(cell: &'a CellRecord, by: &str) -> Vec<&'a GroupRecord> {
    let mut groups: Vec<&GroupRecord> = cell.groups.iter().filter(|group| group.by == by).collect();
    let mean = |group: &GroupRecord, metric| {
        let known = cell.metrics_of(group).get(&metric);
        known.map_or(0.0, |d| d.mean)
    };
    let size = |group: &GroupRecord| {
        let tokens = mean(group, Metric::InputTokens) + mean(group, Metric::OutputTokens);
        group.name.parse().unwrap_or(tokens)
    };
    // endpoints stay in the order of the URLs that were given
    if by != "endpoint" {
        groups.sort_by(|a, b| size(a).total_cmp(&size(b)));
    }
    groups
}

type Row<'a> = (&'a CellRecord, &'a GroupRecord);

fn of_group<'a>((cell, group): &Row<'a>, metric: Metric) -> Option<&'a Distribution> {
    cell.metrics_of(group).get(&metric)
}

/// Use cases, length categories, endpoints, turns: one row for each group of each cell.
pub(crate) fn groups(run: &RunRecord, by: &str) -> Option<Table> {
    // one group in each cell says what the cells' own table has said
    let sizes = run
        .cells
        .iter()
        .map(|cell| cell.groups.iter().filter(|g| g.by == by).count());
    sizes.clone().any(|groups| groups > 1).then_some(())?;
    let mut sheet = Sheet::new();
    if sizes.filter(|groups| *groups > 0).count() > 1 {
        sheet = sheet.text("cell", |(cell, _): &Row<'_>| label(cell));
    }
    let mut sheet = sheet
        .column(Column::text(by.replace('_', " ")), |(cell, group)| {
            Cell::text(shortened(&group.name, 40)).marked(trust_mark(run, cell))
        })
        .column(Column::text("objectives"), |(cell, group)| {
            verdicts(cell, group)
        })
        .count("n", |row| {
            // of answers that were stopped as asked only the beginning is known
            let known = [Metric::E2e, Metric::Ttft].into_iter();
            let mut known = known.filter_map(|m| of_group(row, m.from_origin(row.0.headline)));
            known.next().map_or(0, |d| d.n)
        })
        .count("without response", |(_, group)| {
            Some(group.counts.lost()).filter(|n| *n > 0)
        })
        .text("in + out", |(_, group)| {
            category_bounds(group).map(str::to_owned)
        })
        .number(("output", "tokens"), |row| {
            Some(of_group(row, Metric::OutputTokens)?.mean)
        });
    for (metric, name, q) in [
        (Metric::Ttft, "p50", 0.5),
        (Metric::E2e, "p50", 0.5),
        (Metric::E2e, "p95", 0.95),
        (Metric::E2e, "p99", 0.99),
    ] {
        sheet = sheet.column(Column::of(metric.title(), name, "ms"), move |row| {
            let seen = of_group(row, metric.from_origin(row.0.headline));
            let mark = unbounded(seen, q).filter(|_| q > 0.98);
            Cell::quantile(seen.and_then(|d| d.quantile_entry(q)), 1e6).marked(mark)
        });
    }
    let rows = run.cells.iter().flat_map(|cell| {
        let groups = groups_in_order(cell, by).into_iter();
        groups.map(move |group| (cell, group))
    });
    sheet
        .number(("speed", "tok/s"), |row| {
            of_group(row, Metric::TokensPerSUser)?.p50()
        })
        .column(Column::number("P95 factor", "×"), |row| {
            let p95 = of_group(row, Metric::E2e.from_origin(row.0.headline))
                .and_then(|seen| seen.quantile_entry(0.95));
            let factor = scaling_of_group(run, row).map(|row| row.scaling_factor);
            let few = p95.filter(|entry| entry.few_samples && factor.is_some());
            Cell::number(factor).marked(few.map(|_| Mark::FewSamples))
        })
        .rows(format!("{}, {}", words(by), population_words(run)), rows)
}

/// The total tokens that make a length category.
fn category_bounds(group: &GroupRecord) -> Option<&'static str> {
    let all = [
        ("tiny", "below 50"),
        ("short", "50–149"),
        ("medium", "150–299"),
        ("long", "300–499"),
        ("very-long", "500 or more"),
    ];
    let mut own = all
        .into_iter()
        .filter(|(name, _)| group.by == "category" && *name == group.name);
    own.next().map(|(_, bounds)| bounds)
}

/// The mark for a quantile that failures would make unbounded.
pub(crate) fn unbounded(seen: Option<&Distribution>, q: f64) -> Option<Mark> {
    let mut view = seen?.with_failures.as_ref()?.quantiles.iter();
    let (_, value) = view.find(|(at, _)| (at - q).abs() < 1e-9)?;
    value.is_none().then_some(Mark::Failures)
}

/// The scaling row of a group: of the factor that the groups are by, named by the group. The rows are of the first cell that has several groups.
fn scaling_of_group<'a>(run: &'a RunRecord, (cell, group): &Row<'_>) -> Option<&'a ScalingRow> {
    let of_kind = |cell: &CellRecord| cell.groups.iter().filter(|g| g.by == group.by).count();
    let first = run.cells.iter().find(|cell| of_kind(cell) > 1)?;
    let mut rows = run.analysis.scaling.iter().filter(|_| first.id == cell.id);
    rows.find(|row| row.factor == group.by && row.cell == group.name)
}

fn verdicts(cell: &CellRecord, group: &GroupRecord) -> Cell {
    let own = bench_insight::objectives_of(cell).into_iter();
    let own = own.filter(|(whom, _)| *whom == group.name);
    let all: Vec<SloVerdict> = own.map(|(_, outcome)| outcome.verdict).collect();
    let tone = if all.contains(&SloVerdict::Fail) {
        Tone::Bad
    } else if all.contains(&SloVerdict::CannotTell) {
        Tone::Warn
    } else {
        Tone::Good
    };
    verdict_counts(&all).map_or_else(Cell::default, |said| Cell::text(said).toned(tone))
}
