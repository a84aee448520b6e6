//! The same requests on both sides: what their lengths and prompts do to a latency cancels, and what is left is the change.

use bench_schema::Direction;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::{CompareOptions, Comparison, Looks, Test};
use crate::blocks::BlockMean;
use crate::estimate::Estimate;
use crate::num::{float, mean, variance};
use crate::sample::Sample;
use crate::tables::{t_critical, t_quantile};

/// Blocks of consecutive pairs that are resampled together, because neighbours share batches and queues.
const BLOCKS: usize = 20;
/// Fewest pairs of requests for a comparison.
const FEWEST: usize = 20;
/// The same of one turn of several, which are the units there.
const FEWEST_OF_A_TURN: usize = 10;
/// Fewest blocks of turns that are compared as such: of fewer a single odd one decides.
pub const FEWEST_BLOCKS: usize = 4;

/// How much longer the same requests take, on average over requests: the geometric mean of new over base, pairs in time order.
///
/// The mean of the logarithms has its error by blocks of time, so that dependence between neighbours counts; t interval. `None`
/// below 20 pairs or where a value is not positive. Blind to what changes from run to run.
pub fn compare_pairs(
    base: &[f64],
    new: &[f64],
    direction: Direction,
    options: &CompareOptions,
) -> Option<Comparison> {
    let ratios = log_ratios(base, new, FEWEST)?;
    let found = BlockMean::of_values(&ratios)?;
    let logs: Vec<f64> = base.iter().map(|x| x.ln()).collect();
    let level = mean(&logs)?.exp();
    Some(of_log_ratio(
        (level, found.value),
        (found.std_err, found.df),
        direction,
        options,
    ))
}

/// The change of the `q` quantile between the same requests: its error by resampling blocks of pairs, so that what both sides share is
/// drawn on both sides at once. Cost: some hundred selections of n values.
pub fn compare_paired_quantiles(
    base: &[f64],
    new: &[f64],
    q: f64,
    direction: Direction,
    options: &CompareOptions,
) -> Option<Comparison> {
    let n = log_ratios(base, new, FEWEST)?.len();
    let at = |values: &[f64]| Some(Sample::of(values)?.quantile(q));
    let (before, after) = (at(base)?, at(new)?);
    let mut rng = ChaCha8Rng::seed_from_u64(options.seed);
    let replicates = (4_000_000 / n).clamp(100, 400);
    let (mut left, mut right) = (Vec::with_capacity(n), Vec::with_capacity(n));
    let mut changes = Vec::with_capacity(replicates);
    for _ in 0..replicates {
        left.clear();
        right.clear();
        for _ in 0..BLOCKS {
            let block = rng.random_range(0..BLOCKS);
            let range = n * block / BLOCKS..n * (block + 1) / BLOCKS;
            left.extend_from_slice(&base[range.clone()]);
            right.extend_from_slice(&new[range]);
        }
        changes.push((at(&right)? / at(&left)?).ln());
    }
    let std_err = variance(&changes)?.sqrt();
    Some(of_log_ratio(
        (before, (after / before).ln()),
        (std_err, float(BLOCKS - 1)),
        direction,
        options,
    ))
}

/// One figure of each side for the same requests of one turn: the geometric mean of the base, and that times how much longer the same requests take now. Of both the
/// tenth at either end is left out, so that a few odd requests decide nothing; what is left is nearly as precise as a mean, and two thirds more than a median. `None`
/// below 10 pairs or where a value is not positive.
pub fn paired_figures(base: &[f64], new: &[f64]) -> Option<(f64, f64)> {
    let ratios = log_ratios(base, new, FEWEST_OF_A_TURN)?;
    let level = trimmed_mean(base.iter().map(|x| x.ln()).collect())?;
    let change = trimmed_mean(ratios)?;
    Some((level.exp(), (level + change).exp()))
}

fn trimmed_mean(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let out = values.len() / 10;
    mean(values.get(out..values.len() - out)?)
}

/// The new side's figures of blocks of four turns without what a bent drift does to them. In ABBA a steady drift changes both sides alike; of one that gains or
/// loses speed the outer turns get another part than the inner ones. How bent it is is told by three neighbouring blocks: their means have as much of both
/// sides, so that a difference between the sides is not in it, and which side is outside is drawn by chance, so that no false difference comes of it.
pub fn straightened(base: &[f64], new: &[f64], base_outside: &[bool]) -> Vec<f64> {
    // Along q·t², t in turns from the middle of a block, outer turns are at 2.25 q, inner ones at 0.25 q; blocks are four turns apart.
    const PART: f64 = 2.0 / 32.0;
    let means = base.iter().zip(new).map(|(a, b)| (a * b).ln() / 2.0);
    let means: Vec<f64> = means.collect();
    let bent = |block: usize| {
        let first = block.saturating_sub(1).min(means.len().checked_sub(3)?);
        let [a, b, c] = means.get(first..first + 3)?.try_into().ok()?;
        Some(a - 2.0 * b + c).filter(|bent| bent.is_finite())
    };
    let blocks = new.iter().zip(base_outside).enumerate();
    let straight = blocks.map(|(block, (figure, outside))| {
        let sign = if *outside { PART } else { -PART };
        figure * (sign * bent(block).unwrap_or(0.0)).exp()
    });
    straight.collect()
}

/// Two sides that were measured in turns, by one figure of each side per block of turns: the geometric mean of new over base within the
/// blocks.
///
/// What drifts slowly changes both sides of a block (ABBA: a steady drift changes them alike) and cancels; what changes from turn to turn
/// counts as noise. t over the logarithms, whose unit is the block. Where the experiment may have more blocks ([`CompareOptions::most_blocks`]) and
/// ends as soon as it is decided, p-value and interval hold over all of its [`Looks`], and the difference that would be found is that of all its blocks. `None` below 4
/// blocks, where the sides have not as many, or where a value is not positive.
pub fn compare_runs_in_turns(
    base: &[f64],
    new: &[f64],
    direction: Direction,
    options: &CompareOptions,
) -> Option<Comparison> {
    let ratios = log_ratios(base, new, FEWEST_BLOCKS)?;
    let logs: Vec<f64> = base.iter().map(|x| x.ln()).collect();
    let (level, change) = (mean(&logs)?.exp(), mean(&ratios)?);
    let (blocks, sd) = (ratios.len(), variance(&ratios)?.sqrt());
    let most = options.most_blocks.map_or(blocks, |most| most.max(blocks));
    let looks = Looks::new(most).filter(|_| options.most_blocks.is_some());
    let at = |blocks: usize| {
        let alpha = looks.map_or(options.alpha, |looks| looks.level(options.alpha, blocks));
        let held = CompareOptions { alpha, ..*options };
        let error = (sd / float(blocks).sqrt(), float(blocks - 1));
        of_log_ratio((level, change), error, direction, &held)
    };
    let now = at(blocks);
    let p = looks.map_or(now.p, |looks| looks.p(now.p, blocks));
    let difference = Estimate {
        level: 1.0 - options.alpha,
        ..now.difference
    };
    Some(Comparison {
        difference,
        p,
        adjusted_p: p,
        test: Test::RunsInTurns,
        detectable: at(most).detectable,
        ..now
    })
}

fn log_ratios(base: &[f64], new: &[f64], fewest: usize) -> Option<Vec<f64>> {
    let positive = |values: &[f64]| values.iter().all(|x| *x > 0.0 && x.is_finite());
    if base.len() != new.len() || base.len() < fewest || !positive(base) || !positive(new) {
        return None;
    }
    Some(base.iter().zip(new).map(|(a, b)| (b / a).ln()).collect())
}

/// A change given as a logarithm, back in the unit of the data.
fn of_log_ratio(
    (base, change): (f64, f64),
    (std_err, df): (f64, f64),
    direction: Direction,
    options: &CompareOptions,
) -> Comparison {
    let level = 1.0 - options.alpha;
    let critical = t_critical(level, df);
    let by = |log: f64| base * log.exp_m1();
    let p = super::p_of(change, std_err, df);
    let half = critical * std_err;
    Comparison {
        base,
        new: base + by(change),
        difference: Estimate::bounded(by(change), by(change - half), by(change + half), level),
        p,
        adjusted_p: p,
        test: Test::PairedRequests,
        detectable: Some(by((critical + t_quantile(options.power, df)) * std_err)),
        direction,
    }
}
