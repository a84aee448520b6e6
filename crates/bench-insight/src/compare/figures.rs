//! Which quantities are compared, and by which test.

use std::collections::BTreeMap;

use bench_metrics::{
    CompareOptions, Comparison as Tested, Estimate, Sample, compare_estimates,
    compare_paired_quantiles, compare_pairs, compare_quantiles, compare_runs,
    compare_runs_in_turns, lag_one, paired_figures, straightened, wilson,
};
use bench_schema::{CellRecord, Direction, Metric, Origin, Rates, Unit};

use super::{ComparedSamples, Draft};
use crate::samples::{CellSamples, RequestSample};
use crate::view;

/// Something that both sides have.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Quantity {
    RequestsPerS,
    OutputTokensPerS,
    SuccessRate,
    /// The same requests one by one.
    Paired(Metric),
    Quantile(Metric, f64),
}

impl Quantity {
    /// As in gates: `e2e.p95`.
    pub(super) fn key(&self) -> String {
        match self {
            Self::RequestsPerS => "requests_per_s".to_owned(),
            Self::OutputTokensPerS => "output_tokens_per_s".to_owned(),
            Self::SuccessRate => "success_rate".to_owned(),
            Self::Paired(metric) => format!("{}.paired", metric.key()),
            Self::Quantile(metric, q) => {
                format!("{}.p{}", metric.key(), crate::text::level(q * 100.0))
            }
        }
    }

    /// As in tables.
    pub(super) fn title(&self) -> String {
        match self {
            Self::RequestsPerS => "requests/s".to_owned(),
            Self::OutputTokensPerS => "output tokens/s".to_owned(),
            Self::SuccessRate => "success rate".to_owned(),
            Self::Paired(metric) => format!("{}, request by request", metric.title()),
            Self::Quantile(metric, q) => {
                format!("{} p{}", metric.title(), crate::text::level(q * 100.0))
            }
        }
    }

    pub(super) fn unit(&self) -> Unit {
        match self {
            Self::RequestsPerS => Unit::RequestsPerS,
            Self::OutputTokensPerS => Unit::TokensPerS,
            Self::SuccessRate => Unit::Ratio,
            Self::Paired(metric) | Self::Quantile(metric, _) => metric.unit(),
        }
    }

    pub(super) fn direction(&self) -> Direction {
        match self {
            Self::Paired(metric) | Self::Quantile(metric, _) => metric.direction(),
            _ => Direction::Higher,
        }
    }

    /// The quantity with its interval in one cell; rates over the steady part where it has one.
    pub(crate) fn headline(&self, cell: &CellRecord) -> Option<Estimate> {
        self.of(cell, cell.windows.steady.is_some())
    }

    /// The quantity with its interval in one cell; rates over the steady part only where every run has one.
    pub(super) fn of(&self, cell: &CellRecord, steady: bool) -> Option<Estimate> {
        let windows = &cell.windows;
        let rates = if steady {
            windows.steady.as_ref()
        } else {
            windows.whole.as_ref()
        };
        let rate = |pick: fn(&Rates) -> Option<Estimate>| pick(rates?);
        match self {
            Self::RequestsPerS => rate(|r| {
                Some(view::estimate(
                    r.requests_per_s.and_then(view::positive)?,
                    r.requests_per_s_interval,
                ))
            }),
            Self::OutputTokensPerS => rate(|r| {
                Some(view::estimate(
                    r.output_tokens_per_s.and_then(view::positive)?,
                    r.output_tokens_per_s_interval,
                ))
            }),
            Self::SuccessRate => {
                let count = |n: u64| usize::try_from(n).ok();
                wilson(
                    count(cell.counts.completed)?,
                    count(cell.counts.planned)?,
                    bench_metrics::LEVEL,
                )
            }
            Self::Paired(_) => None,
            Self::Quantile(metric, q) => {
                let entry = cell.headline(*metric)?.quantile_entry(*q)?;
                Some(view::estimate(view::positive(entry.value)?, entry.interval))
            }
        }
    }
}

/// The metrics and quantiles of a comparison.
const METRICS: &[Metric] = &[Metric::Ttft, Metric::Itl, Metric::Tpot, Metric::E2e];
const QUANTILES: &[f64] = &[0.5, 0.95, 0.99];

/// Whether each request has one value of it, so that runs of one plan are compared request by request.
pub(super) fn is_paired(metric: Metric) -> bool {
    matches!(metric, Metric::Ttft | Metric::Tpot | Metric::E2e)
}

/// What both cells have, besides what single requests tell.
pub(super) fn common(sides: &Sides<'_>) -> Vec<Quantity> {
    let (Some(a), Some(b)) = (sides.base.first(), sides.new.first()) else {
        return Vec::new();
    };
    let mut all = vec![Quantity::RequestsPerS, Quantity::OutputTokensPerS];
    if a.counts.without_answer() + b.counts.without_answer() > 0 {
        all.push(Quantity::SuccessRate);
    }
    let few = |cell: &CellRecord, metric, q| {
        cell.headline(metric)
            .and_then(|d| d.quantile_entry(q))
            .is_some_and(|entry| entry.few_samples)
    };
    for metric in METRICS {
        all.push(Quantity::Paired(*metric));
        let thin = |q: f64| q > 0.95 && (few(a, *metric, q) || few(b, *metric, q));
        let quantiles = QUANTILES.iter().filter(|q| !thin(**q));
        all.extend(quantiles.map(|q| Quantity::Quantile(*metric, *q)));
    }
    all.retain(|quantity| {
        if let Quantity::Paired(metric) = quantity {
            return sides.pairs(*metric).is_some() || sides.pairs_in_turns(*metric).is_some();
        }
        let steady = sides.have_steady();
        quantity.of(a, steady).is_some() && quantity.of(b, steady).is_some()
    });
    all
}

/// Why a quantity is not judged: mean tokens of a prompt or of an answer on both sides, which are more than `margin` apart.
///
/// Where other requests were sent, so it is with all that depends on their lengths. Where answers to the same requests became longer or shorter, it is
/// with E2E and requests/s, which follow them, and with the output tokens/s of an open loop, which say what was generated, and not what the server
/// can do.
pub(super) fn other_lengths(
    quantity: &Quantity,
    sides: &Sides<'_>,
    margin: f64,
) -> Option<(Metric, f64, f64)> {
    let open = sides.base.iter().all(|cell| cell.load.is_open());
    let lengths: &[Metric] = match quantity {
        Quantity::SuccessRate => &[],
        _ if !sides.same_plan => &[Metric::InputTokens, Metric::OutputTokens],
        Quantity::OutputTokensPerS if open => &[Metric::OutputTokens],
        Quantity::RequestsPerS
        | Quantity::Paired(Metric::E2e)
        | Quantity::Quantile(Metric::E2e, _) => &[Metric::OutputTokens],
        _ => &[],
    };
    let apart = |length: &Metric| {
        let of = |cells: &[&CellRecord]| {
            let told = cells.iter().filter_map(|cell| view::mean(cell, *length));
            Some(Sample::of(&told.collect::<Vec<f64>>())?.mean())
        };
        let (base, new) = (of(&sides.base)?, of(&sides.new)?);
        ((new / base - 1.0).abs() > margin).then_some((*length, base, new))
    };
    lengths.iter().find_map(apart)
}

/// The same cell on both sides, once a run.
pub(super) struct Sides<'a> {
    pub(super) base: Vec<&'a CellRecord>,
    pub(super) new: Vec<&'a CellRecord>,
    pub(super) samples: ComparedSamples<'a>,
    /// Whether both sides sent the same requests under the same load.
    pub(super) same_plan: bool,
    /// Where the runs were made in turns: the n-th block of the one side belongs to the n-th of the other.
    pub(super) in_turns: Option<Blocks<'a>>,
}

/// How runs were made in turns.
#[derive(Clone, Copy)]
pub(super) struct Blocks<'a> {
    /// Runs of each side in a block.
    pub(super) each: usize,
    /// Of each block, whether the base has its outer turns; absent where turns are in another order.
    pub(super) base_outside: Option<&'a [bool]>,
    /// Whether the n-th runs of both sides sent the same requests, as far as seeds tell.
    pub(super) same_seeds: bool,
}

/// What a row is about: which requests or part of the run, and how many requests on each side.
pub(super) struct Population {
    pub(super) name: &'static str,
    pub(super) n: (u64, u64),
}

impl Sides<'_> {
    /// Whether every run has a steady part, so that rates can be taken over it on both sides.
    fn have_steady(&self) -> bool {
        let mut cells = self.base.iter().chain(&self.new);
        cells.all(|cell| cell.windows.steady.is_some())
    }

    fn is_single(&self) -> bool {
        self.base.len() == 1 || self.new.len() == 1
    }

    /// The requests of a side's n-th run.
    fn requests<'b>(
        &self,
        samples: &'b [&'b [CellSamples]],
        run: usize,
    ) -> Option<&'b [RequestSample]> {
        let cell = self.base.first()?;
        let found = samples.get(run)?.iter().find(|s| s.cell == cell.id)?;
        Some(&found.requests)
    }

    /// The metric of the requests that both sides answered, in the base's order of time.
    fn pairs(&self, metric: Metric) -> Option<(Vec<f64>, Vec<f64>)> {
        if !self.same_plan || self.base.len() != 1 || self.new.len() != 1 {
            return None;
        }
        let pairs = self.pairs_of_run(metric, 0)?;
        (pairs.0.len() >= FEWEST).then_some(pairs)
    }

    fn pairs_of_run(&self, metric: Metric, run: usize) -> Option<(Vec<f64>, Vec<f64>)> {
        let pick = self.value_of(metric)?;
        let new: BTreeMap<(u32, u64), f64> = self
            .requests(self.samples.new, run)?
            .iter()
            .filter_map(|r| Some(((r.repeat, r.id), pick(r)?)))
            .collect();
        let both = self.requests(self.samples.base, run)?.iter();
        let both = both.filter_map(|r| Some((pick(r)?, *new.get(&(r.repeat, r.id))?)));
        Some(both.filter(|(a, b)| *a > 0.0 && *b > 0.0).unzip())
    }

    /// Of each block of turns one figure a side for the requests that both sides answered, and how many these are over all blocks.
    fn pairs_in_turns(&self, metric: Metric) -> Option<(Vec<f64>, Vec<f64>, u64)> {
        let turns = self.in_turns.filter(|turns| turns.same_seeds)?;
        if !self.same_plan || self.base.len() != self.new.len() {
            return None;
        }
        let mut many = 0;
        let of_run = |run: usize| {
            let (base, new) = self.pairs_of_run(metric, run)?;
            many += base.len() as u64;
            paired_figures(&base, &new)
        };
        let figures: Option<Vec<(f64, f64)>> = (0..self.base.len()).map(of_run).collect();
        let (base, new): (Vec<f64>, Vec<f64>) = figures?.into_iter().unzip();
        Some((turns.figures(&base), turns.figures(&new), many))
    }

    /// The metric's values of both runs in order of time, all that were answered.
    fn values(&self, metric: Metric) -> Option<(Vec<f64>, Vec<f64>)> {
        let pick = self.value_of(metric)?;
        let of = |samples| -> Option<Vec<f64>> {
            let values = self.requests(samples, 0)?.iter();
            let values: Vec<f64> = values.filter_map(&pick).collect();
            (values.len() >= FEWEST).then_some(values)
        };
        Some((of(self.samples.base)?, of(self.samples.new)?))
    }

    /// How a request's value is made, from the cell's headline origin.
    fn value_of(&self, metric: Metric) -> Option<impl Fn(&RequestSample) -> Option<f64> + use<>> {
        let due = self.base.first()?.headline == Origin::Due;
        is_paired(metric).then_some(move |r: &RequestSample| {
            let waited = if due { (r.start - r.due).as_f64() } else { 0.0 };
            let value = match metric {
                Metric::Ttft => r.ttft? + waited,
                Metric::Tpot => r.tpot()?,
                _ => r.e2e() + waited,
            };
            Some(value).filter(|x| x.is_finite())
        })
    }

    /// Whether an open loop queues in a run: each wait there is the sum of what those before it took, so that the whole run is worth little more than one
    /// value of TTFT or E2E.
    fn queue(&self) -> bool {
        let sides = [
            (&self.base, self.samples.base),
            (&self.new, self.samples.new),
        ];
        sides.iter().any(|(cells, samples)| {
            let cell = cells.first().filter(|cell| cell.load.is_open());
            let requests = self.requests(samples, 0).unwrap_or_default();
            cell.is_some_and(|cell| view::behind(cell).is_some() || wait_in_line(requests))
        })
    }

    /// Requests behind stored figures.
    fn stored(&self, steady: bool) -> Population {
        let n = |cells: &[&CellRecord]| {
            let of = |cell: &&CellRecord| cell.headline(Metric::E2e).map_or(0, |d| d.n);
            cells.iter().map(of).sum()
        };
        let all = |cells: &[&CellRecord]| cells.iter().map(|cell| cell.counts.completed).sum();
        Population {
            name: if steady {
                "steady part"
            } else {
                "all requests"
            },
            n: if steady {
                (n(&self.base), n(&self.new))
            } else {
                (all(&self.base), all(&self.new))
            },
        }
    }
}

/// What the requests of all closed loops say together, request by request, where those of each cell are too few: cells one after the other, as they ran.
pub(super) fn together<'a>(cells: &[Sides<'_>], options: &CompareOptions) -> Vec<Draft<'a>> {
    let single = |sides: &&Sides<'_>| {
        let is_closed = sides.base.iter().all(|cell| !cell.load.is_open());
        is_closed && sides.same_plan && sides.base.len() == 1 && sides.new.len() == 1
    };
    let cells: Vec<&Sides<'_>> = cells.iter().filter(single).collect();
    let draft = |metric: &Metric| {
        let quantity = Quantity::Paired(*metric);
        let pairs = cells
            .iter()
            .filter_map(|sides| sides.pairs_of_run(*metric, 0));
        let (base, new): (Vec<_>, Vec<_>) = pairs.unzip();
        let (base, new) = (base.concat(), new.concat());
        let n = base.len() as u64;
        let enough = base.len() >= FEWEST && cells.len() > 1;
        let tested = compare_pairs(&base, &new, metric.direction(), options).filter(|_| enough)?;
        let mut lengths = cells.iter();
        Some(Draft {
            other_lengths: lengths.find_map(|of| other_lengths(&quantity, of, options.margin)),
            quantity,
            cell: "all cells",
            tested,
            population: Population {
                name: "pairs",
                n: (n, n),
            },
            same_plan: true,
        })
    };
    METRICS.iter().filter_map(draft).collect()
}

/// The best test that the sides allow, and what it is about; without an interval where requests of one run wait for each other.
pub(super) fn test(
    quantity: &Quantity,
    sides: &Sides<'_>,
    options: &CompareOptions,
) -> Option<(Tested, Population)> {
    let (mut tested, population) = best_test(quantity, sides, options)?;
    if waits(quantity) && sides.is_single() && sides.queue() {
        let difference = tested.difference;
        tested.difference = Estimate::unbounded(difference.value, difference.level);
        (tested.p, tested.detectable) = (1.0, None);
    }
    Some((tested, population))
}

/// Whether waiting is part of it.
fn waits(quantity: &Quantity) -> bool {
    let (Quantity::Paired(metric) | Quantity::Quantile(metric, _)) = quantity else {
        return false;
    };
    matches!(metric, Metric::Ttft | Metric::E2e)
}

fn best_test(
    quantity: &Quantity,
    sides: &Sides<'_>,
    options: &CompareOptions,
) -> Option<(Tested, Population)> {
    let direction = quantity.direction();
    let steady = sides.have_steady();
    let of_pairs = |(a, _): &(Vec<f64>, Vec<f64>)| Population {
        name: "pairs",
        n: (a.len() as u64, a.len() as u64),
    };
    if let Quantity::Paired(metric) = quantity {
        if let Some((base, new, many)) = sides.pairs_in_turns(*metric) {
            let tested = sides.in_turns?.test(&base, &new, direction, options)?;
            let population = Population {
                name: "pairs",
                n: (many, many),
            };
            return Some((tested, population));
        }
        let pairs = sides.pairs(*metric)?;
        let tested = compare_pairs(&pairs.0, &pairs.1, direction, options)?;
        return Some((tested, of_pairs(&pairs)));
    }
    if !sides.is_single() {
        let per_run = |cells: &[&CellRecord]| -> Vec<f64> {
            let figures = cells.iter().filter_map(|cell| quantity.of(cell, steady));
            figures.map(|e| e.value).collect()
        };
        let (base, new) = (per_run(&sides.base), per_run(&sides.new));
        let whole = base.len() == sides.base.len() && new.len() == sides.new.len();
        let in_turns = sides.in_turns.filter(|_| whole).and_then(|turns| {
            let (base, new) = (turns.figures(&base), turns.figures(&new));
            turns.test(&base, &new, direction, options)
        });
        let tested = in_turns.or_else(|| compare_runs(&base, &new, direction, options))?;
        return Some((tested, sides.stored(steady)));
    }
    if let Quantity::Quantile(metric, q) = quantity {
        if let Some(pairs) = sides.pairs(*metric) {
            let tested = compare_paired_quantiles(&pairs.0, &pairs.1, *q, direction, options)?;
            return Some((tested, of_pairs(&pairs)));
        }
        if let Some((a, b)) = sides.values(*metric) {
            let tested = compare_quantiles(&a, &b, *q, direction, options)?;
            let population = Population {
                name: "all requests",
                n: (a.len() as u64, b.len() as u64),
            };
            return Some((tested, population));
        }
    }
    let (base, new) = (sides.base.first()?, sides.new.first()?);
    let tested = compare_estimates(
        &quantity.of(base, steady)?,
        &quantity.of(new, steady)?,
        direction,
        options,
    );
    Some((tested, sides.stored(steady)))
}

impl Blocks<'_> {
    /// One figure a block of one a run.
    fn figures(&self, of_runs: &[f64]) -> Vec<f64> {
        let blocks = of_runs.chunks(self.each);
        blocks.filter_map(geometric_mean).collect()
    }

    fn test(
        &self,
        base: &[f64],
        new: &[f64],
        direction: Direction,
        options: &CompareOptions,
    ) -> Option<Tested> {
        let straight = self
            .base_outside
            .map(|outside| straightened(base, new, outside));
        let new = straight.as_deref().unwrap_or(new);
        compare_runs_in_turns(base, new, direction, options)
    }
}

/// `None` of nothing.
pub(crate) fn geometric_mean(figures: &[f64]) -> Option<f64> {
    let logs: f64 = figures.iter().map(|figure| figure.ln()).sum();
    (!figures.is_empty()).then(|| (logs / figures.len() as f64).exp())
}

/// Independent values of a mean, neighbours' likeness considered, from which on intervals hold although requests wait for each other.
const ENOUGH: f64 = 50.0;

/// Whether waiting before the first token takes 2 % of the users' time, and neighbours wait so much alike that a run holds few independent waits.
fn wait_in_line(requests: &[RequestSample]) -> bool {
    let mut all: Vec<_> = requests
        .iter()
        .filter_map(|r| Some((r.due, (r.start - r.due).as_f64() + r.ttft?, r.e2e())))
        .collect();
    all.sort_by_key(|(due, ..)| *due);
    let firsts: Vec<f64> = all.iter().map(|(_, first, _)| *first).collect();
    let Some(sample) = Sample::of(&firsts).filter(|sample| sample.len() >= FEWEST) else {
        return false;
    };
    let quick = 1.2 * sample.quantile(0.1);
    let waited: f64 = firsts.iter().map(|first| (first - quick).max(0.0)).sum();
    let users: f64 = all.iter().map(|(.., e2e)| e2e).sum();
    let mean = sample.mean();
    let (n, likeness) = lag_one(firsts.iter().map(|first| first - mean));
    let (n, likeness) = (n as f64, likeness.unwrap_or(0.0));
    let independent = n * (1.0 - likeness) / (1.0 + likeness);
    let chance = 2.0 / n.sqrt();
    waited > 0.02 * users && likeness > chance.max(0.2) && independent < ENOUGH
}

/// Fewest requests of a side for a test on single requests.
const FEWEST: usize = 30;
