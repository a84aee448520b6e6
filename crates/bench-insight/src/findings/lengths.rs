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

/// E2E over prompt lengths at one output length.
pub(crate) struct PromptEffect {
    /// The longest prompt's E2E over the shortest's, less one, where it grows with the prompt's length beyond the error of both.
    pub(crate) grows: Option<f64>,
    /// The most that E2E can differ by over these lengths: a part of the least.
    pub(crate) at_most: f64,
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

/// What a request of a cell usually takes, and between which ends that lies: the median, which a few slow requests do not move; of tables that have
/// none, the mean. Where nothing tells the error, all values lie between the ends.
#[derive(Clone, Copy)]
struct Typical {
    value: f64,
    low: f64,
    high: f64,
}

impl Typical {
    fn of(cell: &CellRecord, metric: Metric) -> Option<Self> {
        let of = cell.headline(metric)?;
        let (value, interval) = match of.quantile_entry(0.5) {
            Some(median) => (median.value, median.interval),
            None => (of.mean, of.mean_interval),
        };
        let value = view::positive(value)?;
        let (low, high) = interval.map_or((of.min, of.max), |i| (i.low, i.high));
        let is_told = low > 0.0 && low <= value && high >= value;
        let (low, high) = if is_told { (low, high) } else { (value, value) };
        Some(Self { value, low, high })
    }

    /// Whether it is less than another beyond the error of both.
    fn is_below(self, other: Self) -> bool {
        self.high < other.low
    }
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
    let tokens = |cell: &CellRecord| Some((view::input_tokens(cell)?, view::output_tokens(cell)?));
    let mut rows: Vec<(f64, f64, Typical)> = members
        .iter()
        .filter_map(|cell| {
            let (input, output) = tokens(cell)?;
            Some((input, output, Typical::of(cell, Metric::E2e)?))
        })
        .collect();
    rows.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (first, last) = (rows.first()?, rows.last()?);
    let (fewest, most) = ends(rows.iter().map(|r| r.1))?;
    let low = rows.iter().map(|r| r.2.low).min_by(f64::total_cmp)?;
    let high = rows.iter().map(|r| r.2.high).max_by(f64::total_cmp)?;
    let grows = (first.2.is_below(last.2) && follows_length(&rows))
        .then(|| last.2.value / first.2.value - 1.0);
    // Answers of other lengths would be compared, not prompts.
    let comparable = rows.len() > 1 && last.0 > first.0 && most <= fewest * 1.02;
    comparable.then(|| PromptEffect {
        grows,
        at_most: high / low - 1.0,
        output_tokens: most,
        from: first.0,
        to: last.0,
        n: rows.len(),
        low_ns: first.2.value,
        high_ns: last.2.value,
        cells: members.iter().map(|cell| cell.id.clone()).collect(),
    })
}

/// Whether the lengths between lie near the line from the shortest to the longest: what differs between cells that were measured one after another, and does
/// not follow the length, is not the length's doing.
fn follows_length(rows: &[(f64, f64, Typical)]) -> bool {
    const NEAR: f64 = 0.3;
    let Some((first, last)) = rows.first().zip(rows.last()) else {
        return false;
    };
    let rise = last.2.value - first.2.value;
    rows.iter().all(|(tokens, _, at)| {
        let line = first.2.value + rise * (tokens - first.0) / (last.0 - first.0);
        let near = NEAR * rise;
        (at.low - near..=at.high + near).contains(&line)
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

/// Up to this part nobody asks how far E2E differs.
const NO_MATTER: f64 = 0.1;

/// What longer prompts cost: E2E at one answer length, or that it is little; else prefill (TTFT) at the lowest load. Only what the error of both ends
/// bears out.
pub(super) fn prompt(cells: &[CellRecord]) -> Option<Finding> {
    match prompt_effect(cells) {
        Some(effect) => effect.told(),
        None => prefill(cells),
    }
}

impl PromptEffect {
    fn told(self) -> Option<Finding> {
        let draft = Draft::new(Fact::PromptLength, 0.0);
        let draft = match self.grows {
            Some(relative) => draft.because(Known::LatencyPenalty, relative),
            None if self.at_most <= NO_MATTER => {
                draft.in_unit(Known::High, self.at_most, Unit::Ratio)
            }
            None => return None,
        };
        let mut found = draft
            .because(Known::FewestTokens, self.from)
            .because(Known::MostTokens, self.to)
            .in_unit(Known::LevelBefore, self.low_ns, Unit::Ns)
            .in_unit(Known::LevelAfter, self.high_ns, Unit::Ns)
            .done()?;
        found.cells = self.cells;
        Some(found)
    }
}

/// Times as long from which on that grows.
const GROWS: f64 = 1.05;

/// What longer prompts cost before the first token, at the lowest load.
fn prefill(cells: &[CellRecord]) -> Option<Finding> {
    let cells = at_lowest_load(cells);
    let typical = |cell: &CellRecord, metric| Some(Typical::of(cell, metric)?.value);
    // Less what is told of each answer's waiting, else by the cell's shares; without either the whole time before the first token.
    let own = |cell: &CellRecord| {
        let phases = cell.phases.as_ref();
        let told = phases.filter(|shares| shares.first_phase() == "prefill")?;
        if cell.metrics.contains_key(&Metric::Queue) {
            return typical(cell, Metric::Prefill);
        }
        Some(told.prefill * view::mean(cell, Metric::E2e)?)
    };
    let known = cells.iter().all(|cell| own(cell).is_some());
    let time = |cell: &CellRecord| {
        let whole = || typical(cell, Metric::Prefill).or_else(|| typical(cell, Metric::Ttft));
        own(cell).filter(|_| known).or_else(whole)
    };
    let mut points: Vec<(f64, f64, &CellRecord)> = cells
        .iter()
        .copied()
        .filter_map(|cell| Some((view::input_tokens(cell)?, time(cell)?, cell)))
        .collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (first, last) = (points.first()?, points.last()?);
    let first_token = |cell| Typical::of(cell, Metric::Ttft);
    let apart = first_token(first.2)
        .zip(first_token(last.2))
        .is_none_or(|(first, last)| first.is_below(last));
    if last.0 < 1.5 * first.0 || last.1 < GROWS * first.1 || !apart {
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
