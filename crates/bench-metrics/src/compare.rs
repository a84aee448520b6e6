//! Is one system better than another? Difference with interval, significance, minimum detectable effect, verdict.

mod looks;
mod paired;
mod permutation;

use bench_schema::Direction;
use serde::{Deserialize, Serialize};

use crate::blocks::BlockMean;
use crate::estimate::{Estimate, LEVEL};
use crate::num::{float, is_zero, mean, variance};
use crate::quantile::quantile_in_time;
use crate::sample::Sample;
use crate::tables::{normal_cdf, t_critical, t_quantile, t_two_sided, z_critical};

pub use looks::Looks;
pub use paired::{
    FEWEST_BLOCKS, compare_paired_quantiles, compare_pairs, compare_runs_in_turns, paired_figures,
    straightened,
};
use permutation::{arrangements, permutation_p, time_blocks};

/// What is asked of a comparison.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CompareOptions {
    /// Chance of a false alarm over all metrics together.
    pub alpha: f64,
    /// Chance of finding the minimum detectable effect.
    pub power: f64,
    /// Relative difference that does not matter: where the whole interval is within ± this, nothing is called better or worse.
    pub margin: f64,
    /// Seed of the permutations.
    pub seed: u64,
    /// Blocks that an experiment in turns may have at most, where it may end earlier: the errors are then those of all its looks together.
    pub most_blocks: Option<usize>,
}

impl Default for CompareOptions {
    /// α 5 %, power 80 %, margin 5 %, seed 0, one look.
    fn default() -> Self {
        Self {
            alpha: 0.05,
            power: 0.8,
            margin: 0.05,
            seed: 0,
            most_blocks: None,
        }
    }
}

/// What a comparison comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Significantly better, by the metric's direction.
    Better,
    /// Significantly worse.
    Worse,
    /// The interval excludes no difference as well as any that matters; or significant, and it excludes any that matters.
    WithinMargin,
    /// Not significant, and the interval excludes any difference that matters.
    NoDifferenceFound,
    /// Not significant, but a difference that matters is not excluded, or there is no interval: measure longer.
    CannotTell,
    /// Not judged: it depends on the lengths of prompts and answers, which differ between the sides.
    OtherLengths,
}

impl Verdict {
    /// The words used in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::Worse => "worse",
            Self::WithinMargin => "within the margin",
            Self::NoDifferenceFound => "no difference found",
            Self::CannotTell => "cannot tell",
            Self::OtherLengths => "other lengths",
        }
    }
}

/// Where the p-value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Test {
    /// Welch's t over one figure per run.
    WelchRuns,
    /// Permutation of runs between the groups.
    PermutedRuns,
    /// Permutation of blocks of time between two runs. Blind to what changes from run to run.
    PermutedBlocks,
    /// The same requests on both sides, request by request. Blind to what changes from run to run.
    PairedRequests,
    /// One figure of each side per block of turns.
    RunsInTurns,
    /// Two published estimates with their intervals. Blind to what changes from run to run, too.
    Intervals,
}

/// A difference between a baseline and a candidate, in the unit of the data.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Comparison {
    /// The baseline's figure.
    pub base: f64,
    /// The candidate's figure.
    pub new: f64,
    /// `new − base` with its interval at 1 − α.
    pub difference: Estimate,
    /// Two-sided p-value of no difference, uncorrected.
    pub p: f64,
    /// The p-value corrected for the number of metrics; equal to `p` until [`settle`] is called.
    pub adjusted_p: f64,
    /// Where `p` comes from.
    pub test: Test,
    /// The difference that would be found with the asked power; absent where the error is unknown.
    pub detectable: Option<f64>,
    /// Which way is better.
    pub direction: Direction,
}

impl Comparison {
    /// The difference over the baseline's figure; `None` for a baseline of 0.
    pub fn relative(&self) -> Option<Estimate> {
        (!is_zero(self.base)).then(|| self.difference.scaled(1.0 / self.base.abs()))
    }

    /// The verdict under the (corrected) p-value, and [`Verdict::CannotTell`] where the difference has no interval, whatever p is; `None` for a
    /// metric without a direction.
    pub fn verdict(&self, options: &CompareOptions) -> Option<Verdict> {
        let worse = self.direction.for_the_worse(self.difference.value)?;
        if self.difference.bounds().is_none() {
            return Some(Verdict::CannotTell);
        }
        let bounds = self.relative().and_then(|r| r.bounds());
        let harmless =
            bounds.is_some_and(|(low, high)| low >= -options.margin && high <= options.margin);
        let differs = bounds.is_some_and(|(low, high)| low > 0.0 || high < 0.0);
        Some(match (self.adjusted_p < options.alpha, harmless) {
            (true, true) => Verdict::WithinMargin,
            (true, false) if worse < 0.0 => Verdict::Better,
            (true, false) => Verdict::Worse,
            // An interval without zero beside "no difference" would be read as an error.
            (false, true) if differs => Verdict::WithinMargin,
            (false, true) => Verdict::NoDifferenceFound,
            (false, false) => Verdict::CannotTell,
        })
    }
}

/// Corrects a family of comparisons for their number, by Holm's method (1979): strong control without assumptions.
pub fn settle(family: &mut [Comparison]) {
    let mut order: Vec<usize> = (0..family.len()).collect();
    order.sort_by(|a, b| family[*a].p.total_cmp(&family[*b].p));
    let mut running = 0.0_f64;
    for (rank, &i) in order.iter().enumerate() {
        running = running.max((family[i].p * float(order.len() - rank)).min(1.0));
        family[i].adjusted_p = running;
    }
}

/// Compares the means of two runs, values in time order; `None` where one has fewer than two.
pub fn compare_means(
    base: &[f64],
    new: &[f64],
    direction: Direction,
    options: &CompareOptions,
) -> Option<Comparison> {
    let (a, b) = (BlockMean::of_values(base)?, BlockMean::of_values(new)?);
    let p = permutation_p(
        &time_blocks(base, |x| x),
        &time_blocks(new, |x| x),
        options.seed,
    );
    let difference = Difference::of((a.value, a.std_err, a.df), (b.value, b.std_err, b.df));
    Some(difference.comparison(p, Test::PermutedBlocks, direction, options))
}

/// Compares the `q` quantiles of two runs, values in time order; `None` where one has fewer than two.
///
/// The interval combines both runs' order-statistic intervals (MOVER; Zou and Donner 2008). The test permutes blocks of
/// the share of values above the pooled quantile.
pub fn compare_quantiles(
    base: &[f64],
    new: &[f64],
    q: f64,
    direction: Direction,
    options: &CompareOptions,
) -> Option<Comparison> {
    if base.len() < 2 || new.len() < 2 {
        return None;
    }
    let level = 1.0 - options.alpha;
    let at =
        |values: &[f64]| Some(quantile_in_time(&Sample::of(values)?, values, q, level).estimate);
    let (a, b) = (at(base)?, at(new)?);
    let pooled = Sample::of(&[base, new].concat())?.quantile(q);
    let above = |x: f64| if x > pooled { 1.0 } else { 0.0 };
    let p = permutation_p(
        &time_blocks(base, above),
        &time_blocks(new, above),
        options.seed,
    );
    let compared = compare_estimates(&a, &b, direction, options);
    Some(Comparison {
        p,
        adjusted_p: p,
        test: Test::PermutedBlocks,
        ..compared
    })
}

/// Compares two groups of runs by one figure per run; `None` where a group has fewer than two runs.
///
/// The run is the unit, so what changes from run to run counts as noise, as it should. Permutes runs where there are at
/// least 1000 arrangements (6 against 7), else uses Welch's t: few arrangements cannot give a small p.
pub fn compare_runs(
    base: &[f64],
    new: &[f64],
    direction: Direction,
    options: &CompareOptions,
) -> Option<Comparison> {
    let summary = |figures: &[f64]| {
        let n = float(figures.len());
        Some((mean(figures)?, (variance(figures)? / n).sqrt(), n - 1.0))
    };
    let difference = Difference::of(summary(base)?, summary(new)?);
    let (p, test) = if arrangements(base.len(), new.len()) >= 1_000.0 {
        (permutation_p(base, new, options.seed), Test::PermutedRuns)
    } else {
        (difference.p(), Test::WelchRuns)
    };
    Some(difference.comparison(p, test, direction, options))
}

/// The mean of one figure per run with its interval (Student's t), so that what changes from run to run is in it; without one of a single run, `None` of none.
pub fn mean_of_runs(figures: &[f64]) -> Option<Estimate> {
    let (n, value) = (float(figures.len()), mean(figures)?);
    let Some(spread) = variance(figures) else {
        return Some(Estimate::unbounded(value, LEVEL));
    };
    let arm = t_critical(LEVEL, n - 1.0) * (spread / n).sqrt();
    Some(Estimate::bounded(value, value - arm, value + arm, LEVEL))
}

/// Compares two estimates of which only the intervals are known (from two result files).
///
/// Each interval's arm towards the other value, over its critical value, is taken as a standard error (MOVER). Of figures and bounds above 0
/// on logarithms: they are compared by their ratio, which no error takes below 0 (nobody is more than 100 % quicker), and whose intervals are
/// lopsided as theirs are. Without bounds the p-value is 1 and the difference unbounded.
pub fn compare_estimates(
    base: &Estimate,
    new: &Estimate,
    direction: Direction,
    options: &CompareOptions,
) -> Comparison {
    let above_0 = |e: &Estimate| e.value > 0.0 && e.low.is_none_or(|low| low > 0.0);
    let by_ratio = above_0(base) && above_0(new);
    let scale = |x: f64| if by_ratio { x.ln() } else { x };
    let back = |x: f64| if by_ratio { base.value * x.exp_m1() } else { x };
    let arm = |a: f64, b: f64| (scale(a) - scale(b)).powi(2);
    // An arm of level L stretched to level 1 − α.
    let stretch = |e: &Estimate| (z_critical(1.0 - options.alpha) / z_critical(e.level)).powi(2);
    let (sb, sn) = (stretch(base), stretch(new));
    let low_arm = new
        .low
        .zip(base.high)
        .map(|(l, h)| (sn * arm(new.value, l) + sb * arm(h, base.value)).sqrt());
    let high_arm = new
        .high
        .zip(base.low)
        .map(|(h, l)| (sn * arm(h, new.value) + sb * arm(base.value, l)).sqrt());
    let value = scale(new.value) - scale(base.value);
    let towards_zero = if value > 0.0 { low_arm } else { high_arm };
    let z = z_critical(1.0 - options.alpha);
    let p = towards_zero.map_or(1.0, |arm| {
        if is_zero(arm) {
            return if is_zero(value) { 1.0 } else { 0.0 };
        }
        (2.0 * normal_cdf(-value.abs() / (arm / z))).min(1.0)
    });
    let wider = low_arm.zip(high_arm).map(|(l, h)| l.max(h) / z);
    let power = z + crate::tables::normal_quantile(options.power);
    Comparison {
        base: base.value,
        new: new.value,
        difference: Estimate {
            value: new.value - base.value,
            low: low_arm.map(|a| back(value - a)),
            high: high_arm.map(|a| back(value + a)),
            level: 1.0 - options.alpha,
        },
        p,
        adjusted_p: p,
        test: Test::Intervals,
        detectable: wider.map(|se| back(power * se)),
        direction,
    }
}

/// The two-sided p-value of a difference with its standard error; without an error, 0 or 1.
fn p_of(difference: f64, std_err: f64, df: f64) -> f64 {
    match (is_zero(std_err), is_zero(difference)) {
        (true, true) => 1.0,
        (true, false) => 0.0,
        _ => t_two_sided(difference / std_err, df),
    }
}

/// Two figures with standard errors and degrees of freedom, subtracted (Welch–Satterthwaite).
struct Difference {
    base: f64,
    new: f64,
    std_err: f64,
    df: f64,
}

impl Difference {
    fn of(
        (base, base_err, base_df): (f64, f64, f64),
        (new, new_err, new_df): (f64, f64, f64),
    ) -> Self {
        let (a, b) = (base_err.powi(2), new_err.powi(2));
        let spread = a * a / base_df + b * b / new_df;
        let df = if spread > 0.0 {
            (a + b).powi(2) / spread
        } else {
            base_df + new_df
        };
        Self {
            base,
            new,
            std_err: (a + b).sqrt(),
            df,
        }
    }

    fn p(&self) -> f64 {
        p_of(self.new - self.base, self.std_err, self.df)
    }

    fn comparison(
        &self,
        p: f64,
        test: Test,
        direction: Direction,
        options: &CompareOptions,
    ) -> Comparison {
        let level = 1.0 - options.alpha;
        let critical = t_critical(level, self.df);
        let (value, half) = (self.new - self.base, critical * self.std_err);
        Comparison {
            base: self.base,
            new: self.new,
            difference: Estimate::bounded(value, value - half, value + half, level),
            p,
            adjusted_p: p,
            test,
            detectable: Some((critical + t_quantile(options.power, self.df)) * self.std_err),
            direction,
        }
    }
}

#[cfg(test)]
#[path = "../tests/unit/compare.rs"]
mod tests;
