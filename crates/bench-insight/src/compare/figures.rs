//! Which quantities are compared, and by which test.

use std::collections::BTreeMap;

use bench_metrics::{
    CompareOptions, Comparison as Tested, Estimate, Sample, Verdict, compare_estimates,
    compare_paired_quantiles, compare_pairs, compare_quantiles, compare_runs,
    compare_runs_in_turns, lag_one, paired_figures, straightened, wilson,
};
use bench_schema::{
    CapacityRecord, CellRecord, Direction, Interval, Load, Metric, Origin, Rates, RunRecord, Unit,
};

use super::{ComparedSamples, Draft};
use crate::samples::{CellSamples, RequestSample};
use crate::search;
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
    /// What searches found; whether it is a concurrency.
    Capacity {
        closed: bool,
    },
}

impl Quantity {
    /// As in gates: `e2e.p95`.
    pub(super) fn key(&self) -> String {
        match self {
            Self::RequestsPerS => "requests_per_s".to_owned(),
            Self::OutputTokensPerS => "output_tokens_per_s".to_owned(),
            Self::SuccessRate => "success_rate".to_owned(),
            Self::Capacity { .. } => "capacity".to_owned(),
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
            Self::Capacity { closed: false } => "capacity".to_owned(),
            Self::Capacity { closed: true } => "capacity in flight".to_owned(),
            Self::Paired(metric) => format!("{}, request by request", metric.title()),
            Self::Quantile(metric, q) => {
                format!("{} p{}", metric.title(), crate::text::level(q * 100.0))
            }
        }
    }

    pub(super) fn unit(&self) -> Unit {
        match self {
            Self::RequestsPerS | Self::Capacity { closed: false } => Unit::RequestsPerS,
            Self::Capacity { closed: true } => Unit::Count,
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
            Self::Paired(_) | Self::Capacity { .. } => None,
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
    let mut all = vec![Quantity::RequestsPerS, Quantity::OutputTokensPerS];
    let cells = || sides.base.iter().chain(&sides.new);
    if cells().any(|cell| cell.counts.without_answer() > 0) {
        all.push(Quantity::SuccessRate);
    }
    let few = |cell: &&&CellRecord, metric, q| {
        let entry = cell.headline(metric).and_then(|d| d.quantile_entry(q));
        entry.is_some_and(|entry| entry.few_samples)
    };
    for metric in METRICS {
        all.push(Quantity::Paired(*metric));
        let thin = |q: f64| q > 0.95 && cells().any(|cell| few(&cell, *metric, q));
        let quantiles = QUANTILES.iter().filter(|q| !thin(**q));
        all.extend(quantiles.map(|q| Quantity::Quantile(*metric, *q)));
    }
    all.retain(|quantity| {
        if let Quantity::Paired(metric) = quantity {
            return sides.pairs(*metric).is_some() || sides.pairs_in_turns(*metric).is_some();
        }
        let steady = sides.have_steady();
        let told = |cells: &[&CellRecord]| cells.iter().any(|c| quantity.of(c, steady).is_some());
        told(&sides.base) && told(&sides.new)
    });
    all
}

/// Mean tokens of a prompt or of an answer on both sides, where they are more than the margin apart and a quantity depends on them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct OtherLengths {
    /// Of prompts or of answers.
    pub(super) of: Metric,
    pub(super) base: f64,
    pub(super) new: f64,
    /// Whether it depends on them through the load alone: the fewer tokens an answer has, the more prompts come between the tokens of others.
    pub(super) by_load: bool,
}

impl OtherLengths {
    /// Whether they leave open what the quantity says of the servers. What depends on the load changes by no more than about as much as the lengths did:
    /// a larger change is the server's. Answers to the same prompts differ a little by chance, which hides nothing.
    pub(super) fn leave_open(&self, tested: &Tested, options: &CompareOptions) -> bool {
        let apart = (self.new / self.base).ln().abs();
        let change = tested.relative().map_or(0.0, |r| r.value.ln_1p().abs());
        let said = tested.verdict(options);
        let is_said = matches!(said, Some(Verdict::Better | Verdict::Worse));
        !self.by_load || change <= MOST_BY_LOAD * apart && (is_said || apart > BY_CHANCE)
    }
}

/// A change that is more than so many times that of the lengths (as logarithms) is not of the load.
const MOST_BY_LOAD: f64 = 1.5;
/// Mean lengths of answers to the same prompts differ by no more than this by chance, as a logarithm.
const BY_CHANCE: f64 = 0.1;

/// The lengths that a quantity depends on, where both sides have others.
///
/// Where other requests were sent, everything depends on them. Where answers to the same requests became longer or shorter, E2E, requests/s, and the output
/// tokens/s of an open loop, which say what was generated, follow them; and everything else does, through the load, where requests share the server.
pub(super) fn other_lengths(
    quantity: &Quantity,
    sides: &Sides<'_>,
    margin: f64,
) -> Option<OtherLengths> {
    let loads = || sides.base.iter().map(|cell| &cell.load);
    let open = loads().all(Load::is_open);
    let alone = |load: &Load| matches!(load, Load::Closed { concurrency: 1, .. });
    let shared = !loads().all(alone);
    let (lengths, by_load): (&[Metric], bool) = match quantity {
        Quantity::SuccessRate => (&[], false),
        _ if !sides.same_plan => (&[Metric::InputTokens, Metric::OutputTokens], false),
        Quantity::RequestsPerS
        | Quantity::Paired(Metric::E2e)
        | Quantity::Quantile(Metric::E2e, _) => (&[Metric::OutputTokens], false),
        Quantity::OutputTokensPerS => (&[Metric::OutputTokens], !open),
        _ if shared => (&[Metric::OutputTokens], true),
        _ => (&[], false),
    };
    let apart = |length: &Metric| {
        let of = |cells: &[&CellRecord]| {
            let told = cells.iter().filter_map(|cell| view::mean(cell, *length));
            Some(Sample::of(&told.collect::<Vec<f64>>())?.mean())
        };
        let (base, new) = (of(&sides.base)?, of(&sides.new)?);
        let of = *length;
        ((new / base - 1.0).abs() > margin).then_some(OtherLengths {
            of,
            base,
            new,
            by_load,
        })
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

    /// Of each turn one figure a side for the requests that both sides answered, absent where these are few, and how many they are over all turns.
    fn pairs_in_turns(&self, metric: Metric) -> Option<(Figures, Figures, u64)> {
        let same_seeds = self.in_turns?.same_seeds;
        if !same_seeds || !self.same_plan || self.base.len() != self.new.len() {
            return None;
        }
        let mut many = 0;
        let of_run = |run: usize| {
            let (base, new) = self.pairs_of_run(metric, run)?;
            many += base.len() as u64;
            paired_figures(&base, &new)
        };
        let figures = (0..self.base.len()).map(of_run).map(Option::unzip);
        let (base, new): (Figures, Figures) = figures.unzip();
        Some((base, new, many))
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

    /// Requests behind stored figures, of the runs that know them.
    fn stored(&self, quantity: &Quantity, steady: bool) -> Population {
        let of = |cell: &CellRecord| match cell.headline(Metric::E2e) {
            Some(told) if steady => told.n,
            _ if steady => 0,
            _ => cell.counts.completed,
        };
        let known = |cell: &&CellRecord| quantity.of(cell, steady).map(|_| of(cell));
        let n = |cells: &[&CellRecord]| cells.iter().filter_map(known).sum();
        Population {
            name: if steady {
                "steady part"
            } else {
                "all requests"
            },
            n: (n(&self.base), n(&self.new)),
        }
    }
}

/// The capacities that searches found: of several runs on both sides a figure a run, else by their own intervals. A search that found no figure but two bounds is
/// compared by these; of one without them there is nothing to compare.
pub(super) fn of_searches<'a>(
    (base, new): (&[&RunRecord], &[&RunRecord]),
    options: &CompareOptions,
) -> Option<Draft<'a>> {
    let closed = base.first()?.analysis.capacity.as_ref()?.factor == search::CONCURRENCY;
    let quantity = Quantity::Capacity { closed };
    let direction = quantity.direction();
    let side = |runs: &[&RunRecord]| -> Option<Vec<CapacityRecord>> {
        let found = runs.iter().map(|run| run.analysis.capacity.clone());
        found.collect()
    };
    let (base, new) = (side(base)?, side(new)?);
    let by_run = base.len() > 1 && new.len() > 1;
    let (tested, ranges) = if by_run {
        let values = |all: &[CapacityRecord]| -> Option<Vec<f64>> {
            let all = all
                .iter()
                .map(|found| Some(search::capacity_of(found)?.value));
            all.collect()
        };
        let tested = compare_runs(&values(&base)?, &values(&new)?, direction, options)?;
        (tested, [None; 2])
    } else {
        by_bounds((base.first()?, new.first()?), direction, options)?
    };
    let requests = |all: &[CapacityRecord]| all.iter().map(|found| found.requests).sum();
    Some(Draft {
        quantity,
        cell: "search",
        tested,
        population: Population {
            name: "all stages",
            n: (requests(&base), requests(&new)),
        },
        other_lengths: None,
        same_plan: true,
        ranges,
    })
}

/// Two capacities by their intervals, with what is a range and no figure. Of a range nothing is known but its ends, so that the difference may be any between those.
fn by_bounds(
    (base, new): (&CapacityRecord, &CapacityRecord),
    direction: Direction,
    options: &CompareOptions,
) -> Option<(Tested, [Option<Interval>; 2])> {
    let told = |found| {
        let figure = search::capacity_of(found);
        let range = search::range_of(found).filter(|_| figure.is_none());
        let bounds = range.as_ref().and_then(view::interval);
        Some((figure.or(range)?, bounds))
    };
    let ((base, of_base), (new, of_new)) = (told(base)?, told(new)?);
    let tested = compare_estimates(&base, &new, direction, options);
    let ends = base.bounds().zip(new.bounds());
    let (Some((before, after)), true) = (ends, of_base.or(of_new).is_some()) else {
        return Some((tested, [of_base, of_new]));
    };
    let change = |new: f64, base: f64| tested.base * (new / base - 1.0);
    let difference = Estimate {
        low: Some(change(after.0, before.1)),
        high: Some(change(after.1, before.0)),
        ..tested.difference
    };
    let p = if after.0 <= before.1 && before.0 <= after.1 {
        1.0
    } else {
        tested.p
    };
    let tested = Tested {
        difference,
        p,
        adjusted_p: p,
        detectable: None,
        ..tested
    };
    Some((tested, [of_base, of_new]))
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
            ranges: [None; 2],
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
        let per_run = |cells: &[&CellRecord]| -> Figures {
            let figures = cells.iter().map(|cell| quantity.of(cell, steady));
            figures.map(|told| Some(told?.value)).collect()
        };
        let (base, new) = (per_run(&sides.base), per_run(&sides.new));
        let tested = if let Some(turns) = sides.in_turns {
            turns.test(&base, &new, direction, options)
        } else {
            let known = |figures: Figures| figures.into_iter().flatten().collect::<Vec<_>>();
            compare_runs(&known(base), &known(new), direction, options)
        }?;
        return Some((tested, sides.stored(quantity, steady)));
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
    Some((tested, sides.stored(quantity, steady)))
}

/// One figure a run, absent where the run does not know it.
type Figures = Vec<Option<f64>>;

impl Blocks<'_> {
    /// Both sides block by block. A block with a run that lacks the figure is left out, and then what drifts is not straightened, for which blocks have to
    /// follow each other.
    fn test(
        &self,
        base: &[Option<f64>],
        new: &[Option<f64>],
        direction: Direction,
        options: &CompareOptions,
    ) -> Option<Tested> {
        let known = |runs: &[Option<f64>]| {
            let figures: Option<Vec<f64>> = runs.iter().copied().collect();
            geometric_mean(&figures?)
        };
        let blocks = base.chunks(self.each).zip(new.chunks(self.each));
        let whole = blocks.filter_map(|(base, new)| known(base).zip(known(new)));
        let (base, new): (Vec<f64>, Vec<f64>) = whole.unzip();
        let outside = self.base_outside.filter(|all| all.len() == new.len());
        let straight = outside.map(|outside| straightened(&base, &new, outside));
        let new = straight.as_deref().unwrap_or(&new);
        compare_runs_in_turns(&base, new, direction, options)
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
