//! Figures across cells: scaling rows and fitted laws.

use std::collections::BTreeMap;

use bench_metrics::{
    Estimate, LEVEL, LinearFit, Sample, linear_fit, plane_slopes, power_fit, proportional_fit,
    scaling_efficiency, scaling_factor, trade_off_ratio, usl_fit,
};
use bench_schema::{
    Analysis, Benchmark, CellRecord, FitRecord, GroupRecord, Load, Metric, RunRecord, ScalingRow,
};

use crate::findings::RATES_DIFFER;
use crate::lengths::{LengthPoint, category_tokens, output_points, single_requests};
use crate::samples::CellSamples;
use crate::view;

/// The scaling table and the fits of a run's cells.
///
/// *Scaling* runs along the first of these that has two levels: a load factor (`concurrency`, `rate`, `gpus`, …), whose value
/// is output tokens/s (requests/s where tokens are unknown); output tokens, whose value is mean E2E; length categories,
/// whose value is P95 of E2E. `seqlen` prefers lengths to load. Where other factors vary too, each combination is a series of
/// its own and starts with its own baseline (a row with a scaling factor of 1).
///
/// *Fits*: `usl` (with the knee), `latency_by_output_tokens` pooled and `…:CLASS` per prompt class (of the single requests of the cell at the
/// lowest load, where no cells differ in it and `samples` hold them), `latency_power_law` (log–log slope), `ttft_by_input_tokens`,
/// `prompt_length_effect`. A fit that the cells do not carry is absent: a line needs three points for intervals, and is not made of fewer.
pub fn analyse_run(run: &RunRecord, samples: &[CellSamples]) -> Analysis {
    let cells = &run.cells;
    let load = || by_load(cells, samples);
    let length = || by_output(cells).or_else(|| by_category(cells));
    let rows = match run.experiment {
        Benchmark::Throughput => load().or_else(length),
        Benchmark::Latency | Benchmark::Seqlen => length().or_else(load),
    };
    Analysis {
        capacity: None,
        scaling: rows.unwrap_or_default(),
        fits: fitted(cells, samples),
    }
}

// Scaling rows along load, output length and length category.

/// One level of a factor with what was measured at it.
struct Point {
    cell: String,
    level: f64,
    /// What the efficiency is of: the level, or the rate that was really offered.
    asked: f64,
    value: f64,
    latency: Option<f64>,
    /// Mean output and prompt tokens.
    lengths: [Option<f64>; 2],
}

impl Point {
    /// What requests as long as those of another level take at this one on average. A level with more requests has further draws of their lengths, so that what
    /// one more token takes, by the single requests here, is taken out; absent where they differ by a hundredth and nothing tells that.
    fn latency_of(&self, other: &Self, samples: Option<&CellSamples>) -> Option<f64> {
        const ALIKE: f64 = 0.01;
        let by = |i: usize| {
            let (own, others) = (self.lengths[i]?, other.lengths[i]?);
            Some((others - own, (others / own - 1.0).abs()))
        };
        let [output, input] = [0, 1].map(|i| by(i).unwrap_or((0.0, 0.0)));
        let latency = self.latency?;
        if output.1.max(input.1) <= f64::EPSILON {
            return Some(latency);
        }
        let told = samples.map_or(&[][..], |samples| &samples.requests).iter();
        let told = told.filter_map(|r| {
            let (output, input) = (f64::from(r.output_tokens?), f64::from(r.input_tokens?));
            Some([output, input, r.e2e()])
        });
        let told: Vec<[f64; 3]> = told.collect();
        // where prompts do not vary, the answers alone do
        let of_answers = || {
            let points: Vec<(f64, f64)> = told.iter().map(|r| (r[0], r[2])).collect();
            let line = linear_fit(&points, LEVEL).filter(|_| input.1 <= ALIKE)?;
            Some((line.slope.value, 0.0))
        };
        match plane_slopes(&told).or_else(of_answers) {
            Some((each, prompt)) => Some(latency + each * output.0 + prompt * input.0),
            None => Some(latency).filter(|_| output.1.max(input.1) <= ALIKE),
        }
    }
}

/// Rows along the first load factor with two levels.
fn by_load(cells: &[CellRecord], samples: &[CellSamples]) -> Option<Vec<ScalingRow>> {
    let (factor, series) = view::load_series(cells)?;
    some(
        series
            .iter()
            .flat_map(|members| load_rows(factor, members, members.chunks(1), samples)),
    )
}

/// Nothing where there are no rows.
fn some(rows: impl Iterator<Item = ScalingRow>) -> Option<Vec<ScalingRow>> {
    let rows: Vec<ScalingRow> = rows.collect();
    (!rows.is_empty()).then_some(rows)
}

/// A row for each of `levels`, which are parts of `members`: cells whose mean it is.
fn load_rows<'a>(
    factor: &str,
    members: &[(f64, &CellRecord)],
    levels: impl Iterator<Item = &'a [(f64, &'a CellRecord)]>,
    samples: &[CellSamples],
) -> Vec<ScalingRow> {
    // One measure for the whole series: of arrival rates what was served of what was really offered; else tokens where every level
    // counted them, or requests.
    let offered = |cell: &CellRecord| {
        let whole = cell.windows.whole.as_ref()?;
        view::positive(whole.offered_requests_per_s?)
    };
    let by_rate = !view::DEVICE_FACTORS.contains(&factor)
        && members
            .iter()
            .all(|(_, cell)| cell.load.is_open() && offered(cell).is_some());
    let value = if by_rate {
        view::requests_per_s
    } else {
        one_rate(members)
    };
    let point = |same: &[(f64, &CellRecord)]| {
        let mean = |of: &dyn Fn(&CellRecord) -> Option<f64>| {
            let known: Vec<f64> = same.iter().filter_map(|(_, cell)| of(cell)).collect();
            Some(Sample::of(&known)?.mean())
        };
        let (level, first) = same.first()?;
        Some(Point {
            cell: first.id.clone(),
            level: *level,
            asked: mean(&offered).filter(|_| by_rate).unwrap_or(*level),
            value: mean(&value)?,
            latency: mean(&|cell| view::mean(cell, Metric::E2e)),
            lengths: [mean(&view::output_tokens), mean(&view::input_tokens)],
        })
    };
    let points: Vec<Point> = levels.filter_map(point).collect();
    let first = points.first();
    let own = first.and_then(|first| samples.iter().find(|own| own.cell == first.cell));
    rows(factor, &points, own)
}

/// Rows over runs that differ in a numeric tag (`gpus=2`), sorted by it; a level is the mean of its runs at the [`best_cell`] of each.
///
/// Runs without the tag, or where it is no number, are left out; so is one without a best cell. Nothing where the load limits them, and not what the
/// tag tells: rates do not scale then, whatever the servers could do.
pub fn scaling_by_tag(tag: &str, runs: &[&RunRecord]) -> Vec<ScalingRow> {
    let level = |run: &RunRecord| view::positive(run.tags.get(tag)?.parse().ok()?);
    let best = runs
        .iter()
        .filter_map(|run| Some((level(run)?, best_cell(run)?, *run)));
    let mut best: Vec<(f64, &CellRecord, &RunRecord)> = best.collect();
    best.sort_by(|a, b| a.0.total_cmp(&b.0));
    let keeps_up = |cell: &CellRecord| cell.load.is_open() && view::behind(cell).is_none();
    if best.iter().any(|(_, cell, _)| keeps_up(cell)) {
        return Vec::new();
    }
    let members: Vec<(f64, &CellRecord)> = best.iter().map(|of| (of.0, of.1)).collect();
    let levels = members.chunk_by(|a, b| a.0.total_cmp(&b.0).is_eq());
    let mut rows = load_rows(tag, &members, levels, &[]);
    let is_flat =
        |row: &ScalingRow| row.scaling_factor.max(1.0 / row.scaling_factor) < RATES_DIFFER;
    let is_highest = |(_, cell, run): &(f64, &CellRecord, &RunRecord)| {
        let mut others = run.cells.iter().map(users);
        others.all(|other| other <= users(cell))
    };
    // as fast in one closed loop, which no run exceeded
    let same = members
        .iter()
        .all(|(_, cell)| Some(&cell.load) == members.first().map(|of| &of.1.load));
    if same && rows.iter().all(is_flat) && best.iter().all(is_highest) {
        rows.clear();
    }
    rows
}

/// How many a closed loop has in flight.
fn users(cell: &CellRecord) -> Option<u32> {
    match cell.load {
        Load::Closed { concurrency, .. } => Some(concurrency),
        Load::Open { .. } => None,
    }
}

/// The cell of a run with the most output tokens a second, or requests where no tokens are known, of those that had their load; the last of those that are
/// alike. `None` where there is none. Of a search for a capacity the stage that is nearest to it: those beyond it have more.
pub fn best_cell(run: &RunRecord) -> Option<&CellRecord> {
    if run.analysis.capacity.is_some() {
        return crate::nearest_stage(run);
    }
    let reached = run.cells.iter().filter(|cell| view::is_reached(cell));
    let rates = reached.filter_map(|cell| Some((cell, view::throughput(cell)?)));
    Some(rates.max_by(|a, b| a.1.total_cmp(&b.1))?.0)
}

/// Latency over that of the first level, from which on throughput is weighed against it: a ratio to next to nothing tells nothing.
const COSTS: f64 = 1.01;
/// A level that serves more than so many times its share is held against one that was slow for another reason, and nothing scales from that.
pub(crate) const BEYOND: f64 = 1.1;

fn rows(factor: &str, points: &[Point], of_base: Option<&CellSamples>) -> Vec<ScalingRow> {
    let Some(base) = points.first().filter(|_| points.len() > 1) else {
        return Vec::new();
    };
    let efficiency = |point: &Point| {
        scaling_efficiency(point.value, base.value, point.asked / base.asked)
            .filter(|e| e.is_finite())
    };
    let mut shares = points.iter().filter_map(efficiency);
    if !view::DEVICE_FACTORS.contains(&factor) && shares.any(|share| share > BEYOND) {
        return Vec::new();
    }
    points
        .iter()
        .filter_map(|point| {
            let both = point.latency.zip(base.latency_of(point, of_base));
            let penalty = both
                .and_then(|(now, then)| scaling_factor(now, then))
                .map(|factor| factor - 1.0);
            let trade = both.and_then(|(now, then)| {
                trade_off_ratio(point.value, base.value, now, then).filter(|_| now >= COSTS * then)
            });
            let grown = scaling_factor(point.value, base.value)?;
            Some(ScalingRow {
                cell: point.cell.clone(),
                factor: factor.to_owned(),
                level: point.level,
                value: point.value,
                scaling_factor: grown,
                efficiency: efficiency(point),
                throughput_gain: Some(grown - 1.0),
                latency_penalty: penalty,
                tradeoff_ratio: trade,
            })
        })
        .collect()
}

/// Tokens/s where all of these counted tokens, else requests/s.
fn one_rate(members: &[(f64, &CellRecord)]) -> fn(&CellRecord) -> Option<f64> {
    let mut rates = members.iter().map(|(_, cell)| view::tokens_per_s(cell));
    if rates.all(|rate| rate.is_some()) {
        view::tokens_per_s
    } else {
        view::requests_per_s
    }
}

/// Rows along output length: mean E2E per level.
fn by_output(cells: &[CellRecord]) -> Option<Vec<ScalingRow>> {
    let (factor, series) = view::OUTPUT_FACTORS.iter().find_map(|factor| {
        let series = view::series(cells, factor);
        (!series.is_empty()).then_some((*factor, series))
    })?;
    some(series.iter().flat_map(|members| {
        let points: Vec<(String, f64, f64)> = members
            .iter()
            .filter_map(|(level, cell)| {
                Some((cell.id.clone(), *level, view::mean(cell, Metric::E2e)?))
            })
            .collect();
        length_rows(factor, &points)
    }))
}

/// Rows along length categories: P95 of E2E per category, the smallest first; of the first cell that has them.
fn by_category(cells: &[CellRecord]) -> Option<Vec<ScalingRow>> {
    cells.iter().find_map(|cell| {
        let mut points: Vec<(String, f64, f64)> = categories(cell)
            .filter_map(|(group, p95)| {
                Some((group.name.clone(), category_tokens(cell, group)?, p95))
            })
            .collect();
        points.sort_by(|a, b| a.1.total_cmp(&b.1));
        some(length_rows("category", &points).into_iter())
    })
}

/// The length categories of a cell, each with the P95 of its E2E.
fn categories(cell: &CellRecord) -> impl Iterator<Item = (&GroupRecord, f64)> {
    let groups = cell.groups.iter().filter(|group| group.by == "category");
    groups.filter_map(move |group| {
        let p95 = view::of_group(cell, group, Metric::E2e)?.quantile(0.95)?;
        Some((group, view::positive(p95)?))
    })
}

fn length_rows(factor: &str, points: &[(String, f64, f64)]) -> Vec<ScalingRow> {
    let Some((_, _, base)) = points.first().filter(|_| points.len() > 1) else {
        return Vec::new();
    };
    points
        .iter()
        .filter_map(|(cell, level, value)| {
            Some(ScalingRow {
                cell: cell.clone(),
                factor: factor.to_owned(),
                level: *level,
                value: *value,
                scaling_factor: scaling_factor(*value, *base)?,
                efficiency: None,
                throughput_gain: None,
                latency_penalty: None,
                tradeoff_ratio: None,
            })
        })
        .collect()
}

// Laws fitted to the means of cells, and one to single requests. Errors grow with the length of a latency, and count in proportion to it.

/// Fewest points of a fit: with two, any line is exact and says nothing.
const POINTS: usize = 3;
/// Seed of the draws behind the intervals of the scalability law.
const SEED: u64 = 42;

/// Every fit that the cells carry, by name.
fn fitted(cells: &[CellRecord], samples: &[CellSamples]) -> BTreeMap<String, FitRecord> {
    let mut fits = BTreeMap::new();
    let mut put = |name: String, fit: Option<FitRecord>| {
        if let Some(fit) = fit.filter(is_sound) {
            fits.insert(name, fit);
        }
    };
    put("usl".to_owned(), usl(cells));
    let points = output_points(cells);
    let by_output = match single_requests(cells, samples) {
        Some(single) => of_requests(&single),
        None => line(&points),
    };
    put("latency_by_output_tokens".to_owned(), by_output);
    for class in classes(&points) {
        let own: Vec<LengthPoint> = points
            .iter()
            .filter(|p| p.class == class)
            .cloned()
            .collect();
        if own.len() < points.len() {
            put(
                format!("latency_by_output_tokens:{}", short(&class)),
                line(&own),
            );
        }
    }
    put("latency_power_law".to_owned(), power(cells, &points));
    put("ttft_by_input_tokens".to_owned(), prefill(cells));
    put("prompt_length_effect".to_owned(), prompt_effect(cells));
    fits
}

fn is_sound(fit: &FitRecord) -> bool {
    fit.parameters.values().all(|value| value.is_finite())
        && fit.r_squared.is_none_or(f64::is_finite)
}

fn classes(points: &[LengthPoint]) -> Vec<String> {
    let mut classes: Vec<String> = points.iter().map(|p| p.class.clone()).collect();
    classes.sort();
    classes.dedup();
    classes
}

/// `prompt=short` is `short`.
fn short(class: &str) -> String {
    match class.split_once('=') {
        Some((_, value)) if !value.contains('=') => value.to_owned(),
        _ => class.to_owned(),
    }
}

/// Distinct levels among the points' lengths.
fn distinct(points: &[(f64, f64)]) -> usize {
    let mut xs: Vec<f64> = points.iter().map(|p| p.0).collect();
    xs.sort_by(f64::total_cmp);
    xs.dedup_by(|a, b| (*a - *b).abs() < 1e-9);
    xs.len()
}

/// A fit with named parameters, each with its interval where it has one.
fn record(
    formula: &str,
    parameters: &[(&str, Estimate)],
    r_squared: Option<f64>,
    n: usize,
) -> FitRecord {
    FitRecord {
        formula: formula.to_owned(),
        parameters: parameters
            .iter()
            .map(|(name, e)| ((*name).to_owned(), e.value))
            .collect(),
        intervals: parameters
            .iter()
            .filter_map(|(name, e)| Some(((*name).to_owned(), view::interval(e)?)))
            .collect(),
        r_squared,
        n: n as u64,
    }
}

/// Off the law by more than this, root mean square, the points follow another one.
const MISFIT: f64 = 0.10;
/// The same for a power law, which tails of whole categories are laid along.
const POWER_MISFIT: f64 = 0.20;
/// The same for throughput, whose points are known better.
const USL_MISFIT: f64 = 0.05;

/// Whether the points bear the line: enough lengths, near it, and along no other slope in one half than in the other.
fn is_borne(fit: &LinearFit, points: &[(f64, f64)]) -> bool {
    let off = points.iter().map(|(x, y)| ((y - fit.at(*x)) / y).powi(2));
    let off = (off.sum::<f64>() / points.len() as f64).sqrt();
    distinct(points) >= POINTS && off <= MISFIT && !is_bent(points)
}

/// Whether the slopes up to the middle length and from there on differ, beyond the errors of both.
fn is_bent(points: &[(f64, f64)]) -> bool {
    /// The steeper slope over the other.
    const BENT: f64 = 1.2;
    let mut lengths: Vec<f64> = points.iter().map(|p| p.0).collect();
    lengths.sort_by(f64::total_cmp);
    lengths.dedup();
    let Some(middle) = lengths.get(lengths.len() / 2) else {
        return false;
    };
    let slope = |is_in: &dyn Fn(f64) -> bool| {
        let own: Vec<(f64, f64)> = points.iter().copied().filter(|p| is_in(p.0)).collect();
        let slope = proportional_fit(&own, LEVEL)?.slope;
        Some((slope.value, slope.low?, slope.high?))
    };
    let halves = slope(&|x| x <= *middle).zip(slope(&|x| x >= *middle));
    halves.is_some_and(|(a, b)| {
        let apart = a.2 < b.1 || b.2 < a.1;
        apart && a.0.max(b.0) > BENT * a.0.min(b.0)
    })
}

/// A line through points of E2E over output tokens; those of several prompts share its slope, and each has a level of its own, which is taken out: where
/// longer prompts have longer answers, what they cost is no time per output token.
fn line(points: &[LengthPoint]) -> Option<FitRecord> {
    let levels = levels_of_classes(points);
    let xy: Vec<(f64, f64)> = points
        .iter()
        .map(|p| (p.tokens, p.e2e - levels.get(&p.class).unwrap_or(&0.0)))
        .collect();
    let mut fit = proportional_fit(&xy, LEVEL).filter(|fit| is_borne(fit, &xy))?;
    // each level costs a degree of freedom
    let spent = levels.len().saturating_sub(1) as f64;
    let wider = ((xy.len() as f64 - 2.0) / (xy.len() as f64 - 2.0 - spent)).sqrt();
    for of in [&mut fit.intercept, &mut fit.slope] {
        let known = wider.is_finite();
        let around = |end: f64, value: f64| Some(value + wider * (end - value)).filter(|_| known);
        of.low = of.low.and_then(|low| around(low, of.value));
        of.high = of.high.and_then(|high| around(high, of.value));
    }
    Some(straight(&fit, "e2e_ns", "output_tokens"))
}

/// What the points of each class lie above those of all, at the same number of output tokens: by the slope within classes, errors in proportion.
fn levels_of_classes(points: &[LengthPoint]) -> BTreeMap<String, f64> {
    let weight = |p: &&LengthPoint| p.e2e.powi(-2);
    let means = |of: &[&LengthPoint]| {
        let total: f64 = of.iter().map(weight).sum();
        let mean = |value: fn(&LengthPoint) -> f64| {
            of.iter().map(|p| weight(p) * value(p)).sum::<f64>() / total
        };
        (mean(|p| p.tokens), mean(|p| p.e2e))
    };
    let by_class =
        |class: &str| -> Vec<&LengthPoint> { points.iter().filter(|p| p.class == class).collect() };
    let (mut up, mut along) = (0.0, 0.0);
    let mut centres: BTreeMap<String, (f64, f64)> = BTreeMap::new();
    for class in classes(points) {
        let own = by_class(&class);
        let (x, y) = means(&own);
        for p in &own {
            up += weight(p) * (p.tokens - x) * (p.e2e - y);
            along += weight(p) * (p.tokens - x).powi(2);
        }
        centres.insert(class, (x, y));
    }
    // lengths that do not vary within classes are told by all of them alone
    if along <= 0.0 {
        return BTreeMap::new();
    }
    let slope = up / along;
    let (x, y) = means(&points.iter().collect::<Vec<_>>());
    let level = |(class, (own_x, own_y))| (class, own_y - slope * own_x - (y - slope * x));
    centres.into_iter().map(level).collect()
}

/// Requests below which there are too few to be a line.
const SINGLE: usize = 30;
/// Parts of equal number, by length, whose means have to lie along the line of the requests.
const PARTS: usize = 10;

/// A line through `[output tokens, prompt tokens, E2E]` of single requests over output tokens, at their mean prompt length: what prompts of other lengths cost
/// is taken out first. `None` with fewer than two different answers.
pub fn line_of_answers(requests: &[[f64; 3]]) -> Option<LinearFit> {
    proportional_fit(&at_one_prompt(requests), LEVEL)
}

/// Output tokens and E2E of each, as if all prompts were of their mean length.
fn at_one_prompt(requests: &[[f64; 3]]) -> Vec<(f64, f64)> {
    let prompt = requests.iter().map(|r| r[1]).sum::<f64>() / requests.len() as f64;
    let by_prompt = plane_slopes(requests).map_or(0.0, |(_, by_prompt)| by_prompt);
    let at_it = |[output, input, e2e]: &[f64; 3]| (*output, e2e - by_prompt * (input - prompt));
    requests.iter().map(at_it).collect()
}

/// The same where the requests bear it.
fn of_requests(requests: &[[f64; 3]]) -> Option<FitRecord> {
    let n = requests.len();
    let mut xy = at_one_prompt(requests);
    xy.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mean = |of: &[(f64, f64)], pick: fn(&(f64, f64)) -> f64| {
        of.iter().map(pick).sum::<f64>() / of.len() as f64
    };
    let parts = xy.chunks(n.div_ceil(PARTS).max(1));
    let parts: Vec<(f64, f64)> = parts
        .map(|part| (mean(part, |p| p.0), mean(part, |p| p.1)))
        .collect();
    let fit = line_of_answers(requests).filter(|fit| n >= SINGLE && is_borne(fit, &parts))?;
    Some(straight(&fit, "e2e_ns", "output_tokens"))
}

/// The record of a line.
fn straight(fit: &LinearFit, y: &str, x: &str) -> FitRecord {
    let parameters = [
        ("a", fit.intercept),
        ("b", fit.slope),
        ("ms_per_token", fit.slope.scaled(1e-6)),
    ];
    let formula = format!("{y} = a + b * {x}; ms_per_token = b / 1e6");
    record(&formula, &parameters, Some(fit.r2), fit.n)
}

/// P95 of each category against a length of it, over all cells.
fn points_by_category(
    cells: &[CellRecord],
    length: impl Fn(&CellRecord, &GroupRecord) -> Option<f64>,
) -> Vec<(f64, f64)> {
    let cells = cells.iter();
    let all = cells.flat_map(|cell| categories(cell).map(move |(group, p95)| (cell, group, p95)));
    all.filter_map(|(cell, group, p95)| Some((length(cell, group)?, p95)))
        .collect()
}

/// Log–log slope of P95 over categories where there are any, else of mean E2E over output tokens.
///
/// Of total and of output tokens the axis with the smaller slope: prompts are cheap, so total tokens make short answers look
/// longer than they cost, and the others super-linear.
fn power(cells: &[CellRecord], points: &[LengthPoint]) -> Option<FitRecord> {
    let total = points_by_category(cells, category_tokens);
    let output = points_by_category(cells, |cell, group| {
        view::mean_tokens(cell.metrics_of(group), Metric::OutputTokens)
    });
    let means: Vec<(f64, f64)> = points.iter().map(|p| (p.tokens, p.e2e)).collect();
    let fit = |formula: &'static str, xy: &[(f64, f64)]| {
        let fit = power_fit(xy, LEVEL).filter(|fit| {
            let off = xy.iter().map(|(x, y)| (y / fit.at(*x)).ln().powi(2));
            let off = (off.sum::<f64>() / xy.len() as f64).sqrt();
            distinct(xy) >= POINTS && off <= POWER_MISFIT
        })?;
        Some((formula, fit))
    };
    let (formula, fit) = [
        fit("e2e_p95_ns = factor * total_tokens ^ exponent", &total),
        fit("e2e_p95_ns = factor * output_tokens ^ exponent", &output),
    ]
    .into_iter()
    .flatten()
    .min_by(|a, b| a.1.exponent.value.total_cmp(&b.1.exponent.value))
    .or_else(|| fit("e2e_ns = factor * output_tokens ^ exponent", &means))?;
    let factor = Estimate::unbounded(fit.factor, LEVEL);
    Some(record(
        formula,
        &[("factor", factor), ("exponent", fit.exponent)],
        Some(fit.r2),
        fit.n,
    ))
}

fn usl(cells: &[CellRecord]) -> Option<FitRecord> {
    // An arrival rate is what is asked, not how many work at once: the law has no meaning along it.
    let (_, series) = view::load_series(cells).filter(|(factor, _)| *factor != "rate")?;
    let longest = series.iter().max_by_key(|members| members.len())?;
    let rate = one_rate(longest);
    let points = longest.iter();
    let points: Vec<_> = points
        .filter_map(|(n, cell)| Some((*n, rate(cell)?)))
        .collect();
    let fit = usl_fit(&points, LEVEL, SEED).filter(|fit| fit.relative_residual <= USL_MISFIT)?;
    let mut parameters = vec![
        ("lambda", fit.lambda),
        ("sigma", fit.sigma),
        ("kappa", fit.kappa),
    ];
    if let Some(knee) = fit.knee.filter(|knee| is_seen(*knee, &points)) {
        parameters.push(("knee", knee));
    }
    Some(record(
        "x(n) = lambda * n / (1 + sigma * (n - 1) + kappa * n * (n - 1)); knee = sqrt((1 - sigma) / kappa)",
        &parameters,
        None,
        fit.n,
    ))
}

/// Whether a peak lies in what was measured: bounded, below the highest level, and throughput is lower there.
fn is_seen(knee: Estimate, points: &[(f64, f64)]) -> bool {
    const LOWER: f64 = 0.02;
    let highest = points.iter().max_by(|a, b| a.0.total_cmp(&b.0));
    let best = points.iter().map(|p| p.1).fold(0.0, f64::max);
    highest.is_some_and(|(level, rate)| {
        knee.high.is_some() && knee.value < *level && *rate < (1.0 - LOWER) * best
    })
}

/// TTFT against prompt tokens: what a prompt token costs before the first answer token.
fn prefill(cells: &[CellRecord]) -> Option<FitRecord> {
    let xy: Vec<(f64, f64)> = cells
        .iter()
        .filter_map(|cell| Some((view::input_tokens(cell)?, view::mean(cell, Metric::Ttft)?)))
        .collect();
    // A load factor would be on the same line and bend it.
    let fit = proportional_fit(&xy, LEVEL)
        .filter(|fit| is_borne(fit, &xy) && view::load_series(cells).is_none())?;
    Some(straight(&fit, "ttft_ns", "input_tokens"))
}

/// E2E against prompt length where output length is held: the relative change from the shortest prompt to the longest, where it is beyond the error
/// of both.
fn prompt_effect(cells: &[CellRecord]) -> Option<FitRecord> {
    let effect = crate::findings::prompt_effect(cells)?;
    let plain = |value| Estimate::unbounded(value, LEVEL);
    let parameters = [
        ("relative_change", plain(effect.grows?)),
        ("output_tokens", plain(effect.output_tokens)),
        ("from", plain(effect.from)),
        ("to", plain(effect.to)),
    ];
    Some(record(
        "relative_change = (longest - shortest) / shortest of typical e2e over prompt lengths from..to at fixed output_tokens",
        &parameters,
        None,
        effect.n,
    ))
}
