//! How cost grows with the length of answers and prompts.

use bench_metrics::Sample;
use bench_schema::{
    Analysis, CellRecord, Evidence, Fact, Finding, FitRecord, Known, Metric, Slo, Unit,
};

use crate::draft::{Draft, of_cell};
use crate::lengths::{lowest_loaded, output_points, single_requests};
use crate::samples::CellSamples;
use crate::view;

/// Share of variance from which a line may be called one; or, of many requests, this part of its slope on either side at most.
const LINEAR_R2: f64 = 0.98;
const KNOWN: f64 = 0.05;
/// Answers whose lengths vary by less (CoV) are of one length.
const ALIKE: f64 = 0.05;

/// E2E along a line over output tokens, and the longest answer that an objective on E2E allows by it.
pub(super) fn output(
    cells: &[CellRecord],
    samples: &[CellSamples],
    analysis: &Analysis,
) -> Option<Finding> {
    let fit = analysis.fits.get("latency_by_output_tokens")?;
    let (per_token, r2) = (*fit.parameters.get("b")?, fit.r_squared?);
    // The interval must exclude a flat line, or it is no growth at all.
    let slope = fit.intervals.get("b").filter(|i| i.low > 0.0)?;
    if r2 < LINEAR_R2 && slope.high - slope.low > 2.0 * KNOWN * per_token {
        return None;
    }
    let single = single_requests(cells, samples);
    let (from, to) = match &single {
        Some(single) => ends(single.iter().map(|r| r[0])),
        None => ends(output_points(cells).iter().map(|p| p.tokens)),
    }?;
    let mut draft = Draft::new(Fact::OutputLength, 0.0)
        .because(Known::TimePerOutputToken, per_token)
        .because(Known::FewestTokens, from)
        .because(Known::MostTokens, to)
        .because(Known::RSquared, r2);
    if let Some((slo, tokens)) = longest(cells, single.as_deref(), fit) {
        draft = draft
            .because(Known::LongestWithin, tokens)
            .because(Known::Limit, slo.limit);
    }
    let mut found = draft.done()?;
    if view::load_series(cells).is_some() {
        found
            .cells
            .extend(lowest_loaded(cells).map(|cell| cell.id.clone()));
    }
    Some(found)
}

/// The longest answer whose quantile is within the tightest objective on E2E: by the line, and by how far above it that quantile of the
/// requests lies.
fn longest<'a>(
    cells: &'a [CellRecord],
    single: Option<&[[f64; 3]]>,
    fit: &FitRecord,
) -> Option<(&'a Slo, f64)> {
    let slo = cells
        .iter()
        .flat_map(|cell| cell.slos.iter().map(|outcome| &outcome.slo))
        .filter(|slo| matches!(slo.metric, Metric::E2e | Metric::E2eDue))
        .min_by(|a, b| a.limit.total_cmp(&b.limit))?;
    let above = match single {
        Some(requests) => above_line(requests, fit, slo.q),
        None => above_mean(cells, slo.q),
    }?;
    Some((slo, tokens_within(fit, slo.limit / above.max(1.0))?))
}

/// A quantile of single requests over the line at their own length.
fn above_line(requests: &[[f64; 3]], fit: &FitRecord, q: f64) -> Option<f64> {
    let (a, b) = (*fit.parameters.get("a")?, *fit.parameters.get("b")?);
    let of_line = requests.iter().map(|r| r[2] / (a + b * r[0]));
    let of_line: Vec<f64> = of_line.filter(|x| x.is_finite() && *x > 0.0).collect();
    Some(Sample::of(&of_line)?.quantile(q))
}

/// A quantile over the mean in the cells that the line is of, those at the lowest load: the most of them. Cells whose answers differ in length tell nothing,
/// because their quantiles are those of the lengths.
fn above_mean(cells: &[CellRecord], q: f64) -> Option<f64> {
    let load = view::load_series(cells).map(|(factor, _)| factor);
    let level = |cell: &&CellRecord| view::level(cell, load?);
    let lowest = cells
        .iter()
        .filter_map(|cell| level(&cell))
        .min_by(f64::total_cmp);
    let alike = |cell: &&CellRecord| {
        let lengths = cell.metrics.get(&Metric::OutputTokens);
        lengths.is_none_or(|lengths| lengths.cov.unwrap_or(0.0) < ALIKE)
    };
    let own = cells.iter().filter(|cell| level(cell) == lowest);
    let own: Vec<&CellRecord> = own.filter(alike).collect();
    let ratios = own.iter().filter_map(|cell| {
        Some(view::quantile(cell, Metric::E2e, q)? / view::mean(cell, Metric::E2e)?)
    });
    (!own.is_empty()).then(|| ratios.fold(1.0, f64::max))
}

/// The longest answer whose mean E2E is at most `limit_ns`, by the fitted line; at least one token.
fn tokens_within(fit: &FitRecord, limit_ns: f64) -> Option<f64> {
    let (a, b) = (*fit.parameters.get("a")?, *fit.parameters.get("b")?);
    let tokens = ((limit_ns - a) / b).floor();
    (b > 0.0 && tokens.is_finite() && tokens >= 1.0).then_some(tokens)
}

fn ends(values: impl Iterator<Item = f64> + Clone) -> Option<(f64, f64)> {
    let low = values.clone().min_by(f64::total_cmp)?;
    let high = values.max_by(f64::total_cmp)?;
    Some((low, high))
}

/// Mean E2E over prompt lengths at one output length.
pub(crate) struct PromptEffect {
    /// (max − min) / min.
    pub(crate) relative: f64,
    /// The output length that was held.
    pub(crate) output_tokens: f64,
    /// Shortest prompt, tokens.
    pub(crate) from: f64,
    /// Longest prompt.
    pub(crate) to: f64,
    /// Prompt lengths compared.
    pub(crate) n: usize,
    low_ns: f64,
    high_ns: f64,
    cells: Vec<String>,
}

/// The widest comparison of prompt lengths that the cells hold: most prompt lengths, then the longest answers.
pub(crate) fn prompt_effect(cells: &[CellRecord]) -> Option<PromptEffect> {
    let factor = view::PROMPT_FACTORS
        .iter()
        .find(|factor| cells.iter().any(|cell| cell.factors.contains_key(**factor)))?;
    let mut keys: Vec<String> = cells.iter().map(|c| view::key_without(c, factor)).collect();
    keys.sort();
    keys.dedup();
    keys.iter()
        .filter_map(|key| {
            let members: Vec<&CellRecord> = cells
                .iter()
                .filter(|cell| view::key_without(cell, factor) == *key)
                .collect();
            effect_of(&members)
        })
        .max_by(|a, b| {
            a.n.cmp(&b.n)
                .then(a.output_tokens.total_cmp(&b.output_tokens))
        })
}

fn effect_of(members: &[&CellRecord]) -> Option<PromptEffect> {
    let rows: Vec<(f64, f64, f64)> = members
        .iter()
        .filter_map(|cell| {
            Some((
                view::input_tokens(cell)?,
                view::mean(cell, Metric::E2e)?,
                view::output_tokens(cell)?,
            ))
        })
        .collect();
    let (from, to) = ends(rows.iter().map(|r| r.0))?;
    let (low, high) = ends(rows.iter().map(|r| r.1))?;
    let (fewest, most) = ends(rows.iter().map(|r| r.2))?;
    // Answers of other lengths would be compared, not prompts.
    let comparable = rows.len() > 1 && to > from && most <= fewest * 1.02;
    comparable.then(|| PromptEffect {
        relative: (high - low) / low,
        output_tokens: most,
        from,
        to,
        n: rows.len(),
        low_ns: low,
        high_ns: high,
        cells: members.iter().map(|cell| cell.id.clone()).collect(),
    })
}

/// The cells under the lowest load, where load varies: under more of it TTFT grows for another reason.
fn at_lowest_load(cells: &[CellRecord]) -> Vec<&CellRecord> {
    let levels = view::load_series(cells);
    let level = |cell: &CellRecord| view::level(cell, levels.as_ref()?.0);
    let lowest = cells.iter().filter_map(level).min_by(f64::total_cmp);
    let lowest = |cell: &&CellRecord| level(cell) == lowest;
    cells.iter().filter(lowest).collect()
}

/// What longer prompts cost: E2E at one answer length, else prefill (TTFT) at the lowest load.
pub(super) fn prompt(cells: &[CellRecord]) -> Option<Finding> {
    if let Some(effect) = prompt_effect(cells) {
        let mut found = Draft::new(Fact::PromptLength, 0.0)
            .because(Known::LatencyPenalty, effect.relative)
            .because(Known::FewestTokens, effect.from)
            .because(Known::MostTokens, effect.to)
            .in_unit(Known::LevelBefore, effect.low_ns, Unit::Ns)
            .in_unit(Known::LevelAfter, effect.high_ns, Unit::Ns)
            .done()?;
        found.cells = effect.cells;
        return Some(found);
    }
    let cells = at_lowest_load(cells);
    // Less what is told of each answer's waiting, else by the cell's shares; without either the whole time before the first token.
    let prefill = |cell: &CellRecord| {
        let phases = cell.phases.as_ref();
        let told = phases.filter(|shares| shares.first_phase() == "prefill")?;
        if cell.metrics.contains_key(&Metric::Queue) {
            return view::mean(cell, Metric::Prefill);
        }
        Some(told.prefill * view::mean(cell, Metric::E2e)?)
    };
    let known = cells.iter().all(|cell| prefill(cell).is_some());
    let time = |cell: &CellRecord| {
        let whole = || view::mean(cell, Metric::Prefill).or_else(|| view::mean(cell, Metric::Ttft));
        prefill(cell).filter(|_| known).or_else(whole)
    };
    let mut points: Vec<(f64, f64, &CellRecord)> = cells
        .iter()
        .copied()
        .filter_map(|cell| Some((view::input_tokens(cell)?, time(cell)?, cell)))
        .collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (first, last) = (points.first()?, points.last()?);
    if last.0 < 1.5 * first.0 {
        return None;
    }
    let level = |figure: Known, value: f64, cell: &CellRecord| Evidence {
        unit: Unit::Ns,
        ..of_cell(figure, value, &cell.id)
    };
    let waiting = cells.iter().filter(|_| known).filter_map(|cell| {
        let share = cell.phases.as_ref()?.queue;
        Some(of_cell(Known::QueueShare, share, &cell.id))
    });
    waiting
        .fold(Draft::new(Fact::PromptLength, 0.0), Draft::push)
        .push(of_cell(Known::FewestTokens, first.0, &first.2.id))
        .push(of_cell(Known::MostTokens, last.0, &last.2.id))
        .push(level(Known::LevelBefore, first.1, first.2))
        .push(level(Known::LevelAfter, last.1, last.2))
        .because(Known::SlowDown, last.1 / first.1)
        .done()
}
