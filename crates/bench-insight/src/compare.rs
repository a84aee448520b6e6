//! Two runs, or two groups of runs, beside each other: what changed, by how much, and whether that can be known.

mod figures;
mod gate;
mod trend;

use std::collections::{BTreeMap, BTreeSet};

use bench_metrics::{CompareOptions, Comparison as Tested, FEWEST_BLOCKS, Test, settle};
use bench_schema::{
    CellRecord, Direction, Interval, Load, Metric, RunRecord, TrustReason, TrustVerdict, Unit,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::samples::CellSamples;
use crate::search;
use crate::text;

pub use bench_metrics::Verdict as ComparisonVerdict;
use figures::OtherLengths;
pub(crate) use figures::{Quantity, geometric_mean};
pub use gate::{GateOutcome, GateVerdict, RegressionRule, gate};
pub use trend::{LevelChange, Trend, trend_figures};

/// A comparison of two runs or groups, ready to be shown or stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunComparison {
    /// What was there before.
    pub base: String,
    /// What is there now.
    pub new: String,
    /// Runs on each side.
    pub runs: (u64, u64),
    /// Each quantity of each cell that both sides have, cell by cell.
    pub rows: Vec<ComparisonRow>,
    /// Cells that only the base has.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub only_base: Vec<String>,
    /// Cells that only the new one has.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub only_new: Vec<String>,
    /// Cells that both have, with other requests or another load.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub other_plans: Vec<String>,
    /// Why a gate must not be held against them: other requests or another load, cells that the new side lacks, untrusted numbers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub incomparable: Vec<String>,
    /// What speaks against comparing them, or limits what the comparison can see.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cautions: Vec<String>,
    /// Chance of a false alarm over all rows together.
    pub alpha: f64,
    /// Difference that does not matter, a share.
    #[serde(default)]
    pub margin: f64,
    /// Blocks of turns that were measured, and the most that there could have been; absent where the sides were not measured in turns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocks: Option<(usize, usize)>,
}

/// One quantity in one cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ComparisonRow {
    /// The cell; `all cells` where each has too few requests to be compared alone.
    pub cell: String,
    /// `e2e.p95`, `output_tokens_per_s`.
    pub quantity: String,
    /// `E2E p95`.
    pub title: String,
    /// Unit of the values here.
    pub unit: Unit,
    /// Which way is better.
    pub direction: Direction,
    /// Before.
    pub base: f64,
    /// Now.
    pub new: f64,
    /// What a search left open where it found no single figure: `base` is the middle of that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_range: Option<Interval>,
    /// The same of `new`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new_range: Option<Interval>,
    /// Change over the base, a share; absent for a base of 0, and where a side is a range.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relative: Option<f64>,
    /// Its interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relative_interval: Option<Interval>,
    /// p-value of no difference, corrected for the number of rows (Holm).
    pub p: f64,
    /// The relative difference that would be found four times in five; absent where the error is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detectable: Option<f64>,
    /// What it comes to.
    pub verdict: ComparisonVerdict,
    /// How it was tested: `welch over runs`, `permutation of runs`, `runs in turns`, `paired requests`, `permutation of blocks of time`, `intervals`.
    pub test: String,
    /// What both sides are taken over: `pairs` (the requests that both answered), `all requests`, `steady part`.
    #[serde(default)]
    pub population: String,
    /// Requests behind each side.
    #[serde(default)]
    pub n: (u64, u64),
}

impl RunComparison {
    /// How many rows have this verdict.
    pub fn count(&self, verdict: ComparisonVerdict) -> usize {
        self.rows
            .iter()
            .filter(|row| row.verdict == verdict)
            .count()
    }

    /// One sentence: `2 better, 1 worse, 5 without a relevant difference, 3 cannot tell`; rows that are not judged last, where there are some.
    pub fn summary(&self) -> String {
        let not_judged = match self.count(ComparisonVerdict::OtherLengths) {
            0 => String::new(),
            n => format!(", {n} not judged"),
        };
        format!(
            "{} better, {} worse, {} without a relevant difference, {} cannot tell{not_judged}",
            self.count(ComparisonVerdict::Better),
            self.count(ComparisonVerdict::Worse),
            self.count(ComparisonVerdict::NoDifferenceFound)
                + self.count(ComparisonVerdict::WithinMargin),
            self.count(ComparisonVerdict::CannotTell),
        )
    }

    /// Whether more blocks of turns could change nothing that matters: how long the same requests take is judged, and how many succeeded where some failed;
    /// and so is a rate that seems to differ by more than the margin.
    pub fn is_decided(&self) -> bool {
        let mut deciding = self.deciding().peekable();
        let is_open = |row: &ComparisonRow| row.verdict == ComparisonVerdict::CannotTell;
        let seems = |row: &&ComparisonRow| row.relative.is_some_and(|r| r.abs() > self.margin);
        deciding.peek().is_some()
            && !deciding.any(is_open)
            && !self.of_rates().filter(seems).any(is_open)
    }

    /// What the deciding rows come to, cell by cell: `TTFT the same within ± 2 %, ITL p50 worse (+3.1 %)`; and what of all requests together says more than
    /// they do. `None` where the sides were not measured in turns.
    pub fn answer(&self) -> Option<String> {
        self.blocks?;
        let first = self.rows.first()?;
        let many = self.rows.iter().any(|row| row.cell != first.cell);
        let said = |row: &ComparisonRow| {
            let cell = if many {
                format!(" ({})", row.cell)
            } else {
                String::new()
            };
            let change = row.relative.map(signed);
            let said = match (row.verdict, change) {
                (ComparisonVerdict::Better | ComparisonVerdict::Worse, Some(change)) => {
                    format!("{} ({change})", row.verdict.as_str())
                }
                (ComparisonVerdict::WithinMargin | ComparisonVerdict::NoDifferenceFound, _) => {
                    format!("the same within ± {}", text::percent(self.margin))
                }
                (verdict, _) => verdict.as_str().to_owned(),
            };
            let title = row.title.split(',').next().unwrap_or_default();
            format!("{title}{cell} {said}")
        };
        let told: Vec<String> = self.deciding().map(said).collect();
        let says_more = |row: &&ComparisonRow| match row.verdict {
            ComparisonVerdict::Better | ComparisonVerdict::Worse => true,
            // typical requests may be the same where the slow ones are not
            ComparisonVerdict::CannotTell => row.quantity == REQUESTS_PER_S,
            _ => false,
        };
        let beyond: Vec<String> = self.beyond_typical().filter(says_more).map(said).collect();
        (!told.is_empty()).then(|| match beyond.as_slice() {
            [] => text::list(&told),
            beyond => format!(
                "Of typical requests {}; of all requests {}",
                text::list(&told),
                text::list(beyond)
            ),
        })
    }

    /// What rests on all requests, also on the tenth at either end that is left out request by request: requests/s, and the P95 of E2E.
    fn beyond_typical(&self) -> impl Iterator<Item = &ComparisonRow> {
        let rows = self.rows.iter();
        let tails = rows.filter(|row| row.quantity == "e2e.p95");
        self.of_rates().chain(tails)
    }

    fn of_rates(&self) -> impl Iterator<Item = &ComparisonRow> {
        let rows = self.rows.iter();
        rows.filter(|row| row.quantity == REQUESTS_PER_S)
    }

    /// The rows that decide whether to go on: how long the same requests take, and the median of what only whole runs tell.
    fn deciding(&self) -> impl Iterator<Item = &ComparisonRow> {
        let rows = self.rows.iter();
        rows.filter(|row| match row.quantity.split_once('.') {
            Some((_, "paired")) => true,
            Some((metric, "p50")) => self.row(&row.cell, &format!("{metric}.paired")).is_none(),
            _ => row.quantity == "success_rate",
        })
    }

    /// The row of a quantity in a cell.
    pub fn row(&self, cell: &str, quantity: &str) -> Option<&ComparisonRow> {
        self.rows
            .iter()
            .find(|row| row.cell == cell && row.quantity == quantity)
    }
}

/// Single requests of both sides, run by run in the order of the runs; see [`compare`].
#[derive(Clone, Copy, Debug, Default)]
pub struct ComparedSamples<'a> {
    /// Of the base runs.
    pub base: &'a [&'a [CellSamples]],
    /// Of the new runs.
    pub new: &'a [&'a [CellSamples]],
}

/// Compare a base with something new; cells are matched by id.
///
/// Rates, and P50, P95 and P99 of TTFT, ITL, TPOT and E2E from the headline origin (P99 where both sides have the values for it),
/// and the success rate where something failed. Two or more runs on both sides: one figure a run, Welch's t or a permutation of
/// runs, so that what changes between runs counts as noise; where both sides were measured in turns ([`BLOCK`]), block by block, so that what
/// drifts cancels. A single run against another of the same plan: the same requests are
/// paired where `samples` hold them, so that what their lengths and prompts do cancels (`e2e.paired`, and the quantiles too).
/// Single runs of different plans: a permutation of blocks of time, else the stored intervals. Tests on single runs are blind to
/// what changes between runs, and the result says so. Each row names the requests that both of its sides are taken over. The
/// p-values are corrected for the number of rows (Holm), so that `alpha` is the chance of any false alarm.
///
/// Two searches for a capacity are compared by what they found, and by nothing else: their stages are their own choice.
///
/// `None` for a side without runs.
pub fn compare(
    base: &[&RunRecord],
    new: &[&RunRecord],
    samples: ComparedSamples<'_>,
    options: &CompareOptions,
) -> Option<RunComparison> {
    let turns = Turns::of(&taken(base, samples.base), &taken(new, samples.new));
    let of_turns = turns.as_ref().map(|t| {
        [&t.base, &t.new].map(|side| side.iter().copied().unzip::<_, _, Vec<_>, Vec<_>>())
    });
    let (base, new, samples) = of_turns.as_ref().map_or((base, new, samples), |[a, b]| {
        let samples = ComparedSamples {
            base: &a.1,
            new: &b.1,
        };
        (a.0.as_slice(), b.0.as_slice(), samples)
    });
    let in_turns = turns.as_ref().map(Turns::blocks);
    let blocks = in_turns.map(|turns| base.len() / turns.each);
    let most = options
        .most_blocks
        .or(turns.as_ref().and_then(|turns| turns.most));
    let options = &CompareOptions {
        most_blocks: most,
        ..*options
    };
    let (before, after) = (base.first()?, new.first()?);
    let drafts = if both_searched(before, after) {
        let draft = figures::of_searches((base, new), options);
        draft.into_iter().collect()
    } else {
        drafts((base, new), samples, in_turns, options)
    };
    let rows = drafts.iter().filter_map(|draft| row(draft, options));
    let rows: Vec<ComparisonRow> = rows.collect();
    let other_plans = other_plans(before, after, samples);
    let mut cautions = cautions(base, new, &other_plans);
    cautions.extend(without_interval(&rows));
    let blocks = blocks.map(|blocks| (blocks, most.map_or(blocks, |most| most.max(blocks))));
    cautions.extend(turns.as_ref().and_then(Turns::caution));
    cautions.extend(blocks.and_then(|blocks| found_by_blocks(blocks, &rows)));
    cautions.extend(of_other_lengths(&drafts));
    if both_searched(before, after) {
        cautions.extend(without_capacity((base, new), !rows.is_empty()));
    }
    Some(RunComparison {
        base: before.title.clone(),
        new: after.title.clone(),
        runs: (base.len() as u64, new.len() as u64),
        rows,
        only_base: missing(before, after),
        only_new: missing(after, before),
        incomparable: incomparable(base, new, &other_plans),
        other_plans,
        cautions,
        alpha: options.alpha,
        margin: options.margin,
        blocks,
    })
}

/// Every quantity of every cell that both sides have, tested, and settled together.
fn drafts<'a>(
    (base, new): (&[&'a RunRecord], &[&'a RunRecord]),
    samples: ComparedSamples<'a>,
    in_turns: Option<figures::Blocks<'a>>,
    options: &CompareOptions,
) -> Vec<Draft<'a>> {
    let mut drafts: Vec<Draft<'_>> = Vec::new();
    let (Some(before), Some(after)) = (base.first(), new.first()) else {
        return drafts;
    };
    let both = before.cells.iter().filter_map(|cell| {
        let other = after.cell(&cell.id)?;
        Some(figures::Sides {
            base: base.iter().filter_map(|run| run.cell(&cell.id)).collect(),
            new: new.iter().filter_map(|run| run.cell(&cell.id)).collect(),
            samples,
            same_plan: same_requests(before, after, (cell, other), samples),
            in_turns,
        })
    });
    let both: Vec<figures::Sides<'_>> = both.collect();
    for sides in &both {
        let cell = sides.base.first().map_or("", |cell| cell.id.as_str());
        for quantity in figures::common(sides) {
            let other_lengths = figures::other_lengths(&quantity, sides, options.margin);
            if let Some((tested, population)) = figures::test(&quantity, sides, options) {
                drafts.push(Draft {
                    quantity,
                    cell,
                    tested,
                    population,
                    other_lengths,
                    same_plan: sides.same_plan,
                    ranges: [None; 2],
                });
            }
        }
    }
    let is_paired = |draft: &Draft<'_>| matches!(draft.quantity, Quantity::Paired(_));
    if !drafts.iter().any(is_paired) {
        drafts.extend(figures::together(&both, options));
    }
    let mut family: Vec<Tested> = drafts.iter().map(|draft| draft.tested).collect();
    settle(&mut family);
    for (draft, settled) in drafts.iter_mut().zip(family) {
        draft.tested = settled;
        let lengths = draft.other_lengths.take();
        draft.other_lengths = lengths.filter(|l| l.leave_open(&settled, options));
    }
    drafts
}

fn signed(share: f64) -> String {
    let sign = if share > 0.0 { "+" } else { "" };
    format!("{sign}{}", text::percent(share))
}

/// The tag that the runs of a block of turns share: as many of each side, made in turns one after the other.
pub const BLOCK: &str = "block";
/// The rate of requests among the rows.
const REQUESTS_PER_S: &str = "requests_per_s";

/// A run with its single requests.
type Taken<'a> = (&'a RunRecord, &'a [CellSamples]);

fn taken<'a>(runs: &[&'a RunRecord], samples: &[&'a [CellSamples]]) -> Vec<Taken<'a>> {
    let of = |i: usize| samples.get(i).copied().unwrap_or_default();
    let runs = runs.iter().enumerate();
    runs.map(|(i, run)| (*run, of(i))).collect()
}

/// Runs of two sides that were made in turns, block by block in order of time.
struct Turns<'a> {
    base: Vec<Taken<'a>>,
    new: Vec<Taken<'a>>,
    /// How many runs of a side a block has.
    each: usize,
    /// Whether the base has the outer turns of each block (ABBA) or the inner ones (BAAB); absent where any block is in another order.
    base_outside: Option<Vec<bool>>,
    /// Blocks at most, where one command made them and could end before: it stores how many with each run.
    most: Option<usize>,
    /// Blocks of which a run is missing or incomplete.
    left_out: usize,
}

impl<'a> Turns<'a> {
    /// Where every run is tagged and there are blocks enough to compare. A block of which a run is missing or incomplete is left out.
    fn of(base: &[Taken<'a>], new: &[Taken<'a>]) -> Option<Self> {
        let by_block = |runs: &[Taken<'a>]| {
            let mut blocks: BTreeMap<&'a str, Vec<Taken<'a>>> = BTreeMap::new();
            for run in runs {
                blocks.entry(run.0.tags.get(BLOCK)?).or_default().push(*run);
            }
            Some(blocks)
        };
        let (base, new) = (by_block(base)?, by_block(new)?);
        let names: BTreeSet<&str> = base.keys().chain(new.keys()).copied().collect();
        let each = base.values().chain(new.values()).map(Vec::len).max()?;
        let whole = |(block, runs): (&'a str, Vec<Taken<'a>>)| {
            let others = new.get(block)?;
            let all_there = runs.len() == each && others.len() == each;
            let complete = runs.iter().chain(others).all(|run| run.0.complete);
            (all_there && complete).then(|| (runs, others.clone()))
        };
        let mut blocks: Vec<_> = base.into_iter().filter_map(whole).collect();
        blocks.sort_by_key(|(runs, _)| runs.iter().map(began).min());
        let left_out = names.len() - blocks.len();
        let base_outside = (each == 2)
            .then(|| blocks.iter().map(is_base_outside).collect())
            .flatten();
        let (base, new): (Vec<_>, Vec<_>) = blocks.into_iter().unzip();
        let most = |run: &Taken<'_>| sides_asked(run.0)?.1;
        let most = base.iter().flatten().filter_map(most).max();
        (base.len() >= FEWEST_BLOCKS).then(|| Self {
            base: base.concat(),
            new: new.concat(),
            each,
            base_outside,
            most,
            left_out,
        })
    }

    /// That some blocks are not compared.
    fn caution(&self) -> Option<String> {
        let (blocks, are) = match self.left_out {
            0 => return None,
            1 => ("1 block of turns".to_owned(), "is"),
            n => (format!("{n} blocks of turns"), "are"),
        };
        Some(format!(
            "{blocks} {are} left out, of which a run is missing or incomplete"
        ))
    }

    fn blocks(&self) -> figures::Blocks<'_> {
        let mut pairs = self.base.iter().zip(&self.new);
        figures::Blocks {
            each: self.each,
            base_outside: self.base_outside.as_deref(),
            same_seeds: pairs.all(|(a, b)| a.0.seed == b.0.seed),
        }
    }
}

/// When a run began, on the wall clock.
fn began(run: &Taken<'_>) -> Option<i64> {
    run.0.clock.unix_epoch_ns
}

/// Whether the base has the first and the last of four turns, or the new side has; `None` of any other order.
fn is_base_outside((base, new): &(Vec<Taken<'_>>, Vec<Taken<'_>>)) -> Option<bool> {
    let turns = |runs: &[Taken<'_>], is_base: bool| {
        let of = |run| Some((began(run)?, is_base));
        runs.iter().map(of).collect::<Option<Vec<_>>>()
    };
    let mut all = [turns(base, true)?, turns(new, false)?].concat();
    all.sort_unstable();
    match all.as_slice() {
        [(_, a), (_, b), (_, c), (_, d)] if a == d && b == c => Some(*a),
        _ => None,
    }
}

/// What one command that measures two sides in turns was asked for: the other side, and the most blocks. `None` of any other run.
fn sides_asked(run: &RunRecord) -> Option<([Option<&Value>; 3], Option<usize>)> {
    let told = |key| run.config.get(key).filter(|told: &&Value| !told.is_null());
    let sides = ["versus", "versus_model", "versus_body"].map(told);
    let most = told("blocks").and_then(Value::as_u64);
    let most = most.and_then(|most| usize::try_from(most).ok());
    (sides.iter().any(Option::is_some)).then_some((sides, most))
}

/// How small a difference the experiment finds.
fn found_by_blocks((blocks, most): (usize, usize), rows: &[ComparisonRow]) -> Option<String> {
    let found = rows.iter().filter_map(|row| Some((row.detectable?, row)));
    let (least, row) = found.clone().min_by(|a, b| a.0.total_cmp(&b.0))?;
    let (most_found, other) = found.max_by(|a, b| a.0.total_cmp(&b.0))?;
    let measured = if blocks < most {
        format!("{blocks} of at most {most} blocks of turns were measured")
    } else {
        format!("{blocks} blocks of turns were measured")
    };
    Some(format!(
        "{measured}; {most} blocks find a difference of {} ({}) to {} ({}) four times in five, before the correction for the number of rows; half of it takes four times as many blocks",
        text::percent(least),
        row.title,
        text::percent(most_found),
        other.title
    ))
}

/// Why some rows can tell nothing.
fn without_interval(rows: &[ComparisonRow]) -> Option<String> {
    let bare = rows.iter().filter(|row| row.relative_interval.is_none());
    let bare: Vec<String> = bare
        .map(|row| format!("{} of {}", row.title, row.cell))
        .collect();
    let (first, rest) = bare.split_first()?;
    let more = match rest.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    Some(format!(
        "no interval for {first}{more}: the requests of a side depend on each other, so there are too few independent samples; repeat the runs, or measure longer"
    ))
}

/// A row in the making.
struct Draft<'a> {
    quantity: Quantity,
    cell: &'a str,
    tested: Tested,
    population: figures::Population,
    other_lengths: Option<OtherLengths>,
    same_plan: bool,
    /// Of each side, where it is no single figure.
    ranges: [Option<Interval>; 2],
}

/// Why rows are not judged, each reason once.
fn of_other_lengths(drafts: &[Draft<'_>]) -> Vec<String> {
    let mut reasons: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for draft in drafts {
        let Some(lengths) = draft.other_lengths else {
            continue;
        };
        let cell = draft.cell;
        let of = if lengths.of == Metric::InputTokens {
            "prompts"
        } else {
            "answers"
        };
        let (what, why) = if draft.same_plan {
            let title = match draft.quantity {
                Quantity::Paired(metric) | Quantity::Quantile(metric, _) => {
                    metric.title().to_owned()
                }
                _ => draft.quantity.title(),
            };
            let why = match draft.quantity {
                _ if lengths.by_load => {
                    "answers to the same requests have other lengths, which changes the load by as much"
                }
                Quantity::OutputTokensPerS => {
                    "at a fixed arrival rate it depends on the output length"
                }
                _ => "it follows the lengths of answers to the same requests",
            };
            (format!("{title} of {cell}"), why)
        } else {
            (cell.to_owned(), "other requests were sent")
        };
        let (base, new) = (lengths.base, lengths.new);
        let why = format!("{why}; {of} have {base:.0} tokens on average before and {new:.0} now");
        let cells = reasons.entry(why).or_default();
        if !cells.contains(&what) {
            cells.push(what);
        }
    }
    let told = |(why, what): (String, Vec<String>)| {
        let are = if what.len() == 1 { "is" } else { "are" };
        format!("{} {are} not judged: {why}", text::list(&what))
    };
    reasons.into_iter().map(told).collect()
}

fn row(draft: &Draft<'_>, options: &CompareOptions) -> Option<ComparisonRow> {
    let Draft {
        quantity,
        cell,
        tested,
        population,
        other_lengths,
        ranges: [base_range, new_range],
        ..
    } = draft;
    let relative = tested.relative();
    let finite = |x: f64| Some(x).filter(|x| x.is_finite());
    Some(ComparisonRow {
        cell: (*cell).to_owned(),
        quantity: quantity.key(),
        title: quantity.title(),
        unit: quantity.unit(),
        direction: tested.direction,
        base: finite(tested.base)?,
        new: finite(tested.new)?,
        base_range: *base_range,
        new_range: *new_range,
        relative: relative
            .filter(|_| base_range.or(*new_range).is_none())
            .and_then(|r| finite(r.value)),
        // Times and rates are not negative, so that nothing falls by more than all of it.
        relative_interval: relative
            .and_then(|r| crate::view::interval(&r))
            .map(|i| Interval {
                low: i.low.max(-1.0),
                ..i
            }),
        p: finite(tested.adjusted_p)?,
        detectable: tested
            .detectable
            .and_then(|d| finite(d / tested.base.abs())),
        verdict: match other_lengths {
            Some(_) => ComparisonVerdict::OtherLengths,
            None => tested.verdict(options)?,
        },
        test: match tested.test {
            Test::WelchRuns => "welch over runs",
            Test::PermutedRuns => "permutation of runs",
            Test::PermutedBlocks => "permutation of blocks of time",
            Test::PairedRequests => "paired requests",
            Test::RunsInTurns => "runs in turns",
            Test::Intervals => "intervals",
        }
        .to_owned(),
        population: population.name.to_owned(),
        n: population.n,
    })
}

/// Whether two cells sent the same requests under the same load. A cell that ends by time sends as many of them as it gets to, so that the
/// hashes of its plans differ: then the requests that both sent have to be of the same length. So it is where a hash is not known, since cells were
/// made again from records; without any request the seed and the dataset have to do.
fn same_requests(
    before: &RunRecord,
    after: &RunRecord,
    (a, b): (&CellRecord, &CellRecord),
    samples: ComparedSamples<'_>,
) -> bool {
    if a.load != b.load {
        return false;
    }
    // those that one command made in turns differ in their words alone
    let of_one_command = sides_asked(before)
        .zip(sides_asked(after))
        .is_some_and(|(one, other)| before.seed == after.seed && one.0 == other.0);
    let known = a.plan.hash.as_ref().zip(b.plan.hash.as_ref());
    if known.is_some_and(|(a, b)| a == b) || of_one_command {
        return true;
    }
    let by_time = |cell: &CellRecord| cell.stop.duration.is_some();
    let part_of_it = known.is_none() || by_time(a) && by_time(b);
    if before.seed != after.seed || !part_of_it || a.plan.dataset != b.plan.dataset {
        return false;
    }
    let of = |all: &'_ [&'_ [CellSamples]]| {
        let first = all.first().copied().unwrap_or_default();
        let found = first.iter().find(|s| s.cell == a.id);
        let requests = found.into_iter().flat_map(|s| &s.requests);
        requests
            .map(|r| ((r.repeat, r.id), (r.input_tokens, r.use_case.clone())))
            .collect::<BTreeMap<_, _>>()
    };
    let (left, right) = (of(samples.base), of(samples.new));
    let mut both = left
        .iter()
        .filter_map(|(id, kind)| Some((kind, right.get(id)?)))
        .peekable();
    let unseen = known.is_none() && (left.is_empty() || right.is_empty());
    (unseen || both.peek().is_some()) && both.all(|(a, b)| a == b)
}

/// Cells that the other run lacks.
fn missing(from: &RunRecord, other: &RunRecord) -> Vec<String> {
    let absent = |cell: &&CellRecord| other.cell(&cell.id).is_none();
    let cells = from.cells.iter().filter(absent);
    let cells = cells.filter(|_| !both_searched(from, other));
    cells.map(|cell| cell.id.clone()).collect()
}

/// Cells whose plans differ.
fn other_plans(before: &RunRecord, after: &RunRecord, samples: ComparedSamples<'_>) -> Vec<String> {
    if both_searched(before, after) {
        return Vec::new();
    }
    let differs = |cell: &&CellRecord| {
        let other = after.cell(&cell.id);
        other.is_some_and(|other| !same_requests(before, after, (cell, other), samples))
    };
    let cells = before.cells.iter().filter(differs);
    cells.map(|cell| cell.id.clone()).collect()
}

/// What makes a gate on the two sides say nothing.
fn incomparable(base: &[&RunRecord], new: &[&RunRecord], plans: &[String]) -> Vec<String> {
    let (Some(before), Some(after)) = (base.first(), new.first()) else {
        return vec!["one side has no runs".to_owned()];
    };
    let mut all = Vec::new();
    for (side, runs) in [("base", base), ("new", new)] {
        let untrusted = |run: &&&RunRecord| run.trust.verdict == TrustVerdict::Untrusted;
        for run in runs.iter().filter(untrusted) {
            let why = run.trust.reasons.first();
            all.push(format!(
                "the {side} run `{}` is untrusted: {}",
                run.title,
                why.map_or_else(|| "no reason stored".to_owned(), TrustReason::sentence)
            ));
        }
        for run in runs.iter().filter(|run| !run.complete) {
            all.push(format!("the {side} run `{}` ended early", run.title));
        }
    }
    all.extend(other_benchmarks(before, after));
    if let Some(differ) = differ_in(plans) {
        all.push(format!(
            "{differ}; measure both sides with the same flags and seed"
        ));
    }
    if both_searched(before, after) {
        all.extend(other_searches(before, after));
        for (side, runs) in [("base", base), ("new", new)] {
            let found = |run: &&&RunRecord| run.analysis.capacity.as_ref()?.value;
            let without = runs.iter().filter(|run| found(run).is_none());
            all.extend(without.map(|run| {
                format!(
                    "the search of the {side} run `{}` found no capacity",
                    run.title
                )
            }));
        }
        return all;
    }
    for run in new {
        let absent: Vec<String> = before
            .cells
            .iter()
            .filter(|cell| run.cell(&cell.id).is_none_or(|c| c.counts.planned == 0))
            .map(|cell| cell.id.clone())
            .collect();
        if !absent.is_empty() {
            all.push(format!(
                "the new run `{}` did not measure {} of the base ({})",
                run.title,
                bench_schema::counted(absent.len(), "cell"),
                text::list(&absent)
            ));
        }
    }
    all
}

/// Whether both searched for a capacity: the loads of their stages are their own choice.
fn both_searched(one: &RunRecord, other: &RunRecord) -> bool {
    let searched = |run: &RunRecord| run.analysis.capacity.is_some();
    searched(one) && searched(other)
}

/// The searches that found no single figure, what they know of it, and whether they are compared all the same.
fn without_capacity((base, new): (&[&RunRecord], &[&RunRecord]), is_shown: bool) -> Vec<String> {
    let sides = [("base", base), ("new", new)].into_iter();
    let all = sides.flat_map(|(side, runs)| runs.iter().map(move |run| (side, run)));
    let told = all.filter_map(|(side, run)| {
        let found = run.analysis.capacity.as_ref()?;
        let known = format!(
            "the search of the {side} run `{}` found no single figure: the capacity is {}",
            run.title,
            search::known_of(found)
        );
        let rest = match &found.why {
            _ if is_shown => String::new(),
            Some(why) => format!(", since {why}; capacities are not compared"),
            None => "; capacities are not compared".to_owned(),
        };
        found.value.is_none().then(|| known + &rest)
    });
    told.collect()
}

/// In what two searches differ.
fn other_searches(before: &RunRecord, after: &RunRecord) -> Option<String> {
    let asked = |run: &RunRecord| {
        let found = run.analysis.capacity.as_ref()?;
        let objectives: Vec<_> = found.objectives.iter().map(|own| own.slo.clone()).collect();
        let arrival = run.cells.iter().find_map(|cell| match &cell.load {
            Load::Open { arrival, .. } => Some(arrival),
            Load::Closed { .. } => None,
        });
        let requests = run.cells.first().map(|cell| cell.plan.dataset.clone());
        Some([
            ("load", format!("{} {arrival:?}", found.factor)),
            ("objectives", format!("{objectives:?}")),
            ("requests", format!("{requests:?}")),
        ])
    };
    let (before, after) = asked(before).zip(asked(after))?;
    let both = before.into_iter().zip(after);
    let differ = both.filter(|(one, other)| one != other);
    let differ: Vec<String> = differ.map(|((what, _), _)| what.to_owned()).collect();
    (!differ.is_empty()).then(|| format!("the searches differ in {}", text::list(&differ)))
}

fn differ_in(plans: &[String]) -> Option<String> {
    let cells = bench_schema::counted(plans.len(), "cell");
    let told = || format!("requests or load differ in {cells} ({})", text::list(plans));
    (!plans.is_empty()).then(told)
}

fn other_benchmarks(before: &RunRecord, after: &RunRecord) -> Option<String> {
    let [before, after] = [before, after].map(|run| run.experiment.as_str());
    (before != after).then(|| format!("the benchmarks differ: {before} and {after}"))
}

/// The runs of a side that are not trusted, those alike together.
fn doubts(side: &str, runs: &[&RunRecord]) -> Vec<String> {
    let mut doubted: BTreeMap<_, usize> = BTreeMap::new();
    for run in runs
        .iter()
        .filter(|run| run.trust.verdict > TrustVerdict::Trusted)
    {
        let mut why: Vec<String> = run.trust.reasons.iter().map(|r| r.code.clone()).collect();
        why.sort_unstable();
        why.dedup();
        *doubted.entry((run.trust.verdict, why)).or_default() += 1;
    }
    let told = doubted.into_iter().map(|((verdict, why), n)| {
        let which = match (n, runs.len()) {
            (_, 1) => format!("the {side} run is"),
            (1, all) => format!("1 of {all} {side} runs is"),
            (n, all) => format!("{n} of {all} {side} runs are"),
        };
        format!("{which} {} ({})", verdict.as_str(), text::list(&why))
    });
    told.collect()
}

fn cautions(base: &[&RunRecord], new: &[&RunRecord], plans: &[String]) -> Vec<String> {
    let mut all = Vec::new();
    let (Some(before), Some(after)) = (base.first(), new.first()) else {
        return all;
    };
    for (side, runs) in [("base", base), ("new", new)] {
        all.extend(doubts(side, runs));
    }
    if base.len() < 2 || new.len() < 2 {
        all.push("only one run on a side: variation between runs is unknown; make at least two runs of each side, better five".to_owned());
    }
    all.extend(differ_in(plans));
    all.extend(other_benchmarks(before, after));
    if before.server.model != after.server.model {
        let [before, after] =
            [before, after].map(|run| run.server.model.as_deref().unwrap_or("unknown"));
        all.push(format!("the models differ: {before} and {after}"));
    }
    if before.host.cpu_model != after.host.cpu_model || before.host.cpus != after.host.cpus {
        all.push("the clients ran on different machines".to_owned());
    }
    all
}
