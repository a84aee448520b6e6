//! What shows over several short cells of one request at a time, and in none of them alone: slow first requests, slow ones, stops that come evenly.
//!
//! Cells of other lengths are measured one after another: each request is held against its own cell's level.

use bench_schema::{Answer, Cause, Experiment, Finding, Known, RunRecord};

use super::fit::{median, quantile};
use super::look::Look;
use super::{LEAST, LEVELS, STANDSTILL, is_of, over_time, speed};
use crate::draft::Draft;
use crate::outages::Standstill;
use crate::samples::CellSamples;

/// Cells with as many requests are looked at alone.
const MOST: usize = 100;
/// Requests below which nothing can be told from chance.
const FEWEST: usize = 20;

/// A request beside its cell's level.
#[derive(Clone, Copy)]
struct Point {
    /// When it was sent, ns on the clock of the run.
    at: f64,
    /// Its time over its cell's median, of as long requests.
    slow: f64,
    takes: f64,
}

/// Cells that differ in lengths only, in the order in which they were measured.
struct Grid<'a> {
    looks: Vec<&'a Look<'a>>,
    cells: Vec<Vec<Point>>,
}

impl<'a> Grid<'a> {
    fn all(looks: &'a [Look<'a>]) -> Vec<Self> {
        let is_short = |look: &&Look<'_>| {
            look.concurrency() == Some(1) && (3..MOST).contains(&look.seen.len())
        };
        let of = |members: Vec<usize>| {
            let own = members.into_iter().filter_map(|i| looks.get(i));
            let mut looks: Vec<&Look<'_>> = own.filter(is_short).collect();
            looks.sort_by_key(|look| look.epoch);
            let cells = looks.iter().map(|look| points(look)).collect();
            Self { looks, cells }
        };
        let grids = speed::groups(looks).into_iter().map(of);
        grids
            .filter(|grid| grid.looks.len() > 1 && grid.points().count() >= FEWEST)
            .collect()
    }

    fn points(&self) -> impl Iterator<Item = &Point> {
        self.cells.iter().flatten()
    }

    fn taken(&self) -> f64 {
        self.points().map(|point| point.takes).sum()
    }

    fn ids(&self) -> Vec<String> {
        let ids = self.looks.iter().map(|look| look.cell.id.clone());
        ids.collect()
    }

    /// How far requests differ, as a coefficient of variation, where each differs from those beside it in its cell far less than from its other ones.
    fn wanders(&self) -> Option<f64> {
        const ALIKE: f64 = 0.4;
        const DIFFER: f64 = 0.12;
        let (mut products, mut squares) = (0.0, 0.0);
        for cell in &self.cells {
            let logs: Vec<f64> = cell.iter().map(|point| point.slow.ln()).collect();
            let level = logs.iter().sum::<f64>() / logs.len() as f64;
            squares += logs.iter().map(|log| (log - level).powi(2)).sum::<f64>();
            let pairs = logs
                .windows(2)
                .map(|two| (two[0] - level) * (two[1] - level));
            products += pairs.sum::<f64>();
        }
        let cov = (squares / self.points().count() as f64).sqrt();
        (cov >= DIFFER && products >= ALIKE * squares).then_some(cov)
    }

    /// The cells that have requests slower than those that are alike.
    fn with_slow_ones(&self) -> Vec<String> {
        let quick = quantile(self.points().map(|point| point.slow).collect(), 0.25);
        let slow = |of: &Vec<Point>| {
            of.iter()
                .any(|p| quick.is_some_and(|quick| p.slow > ALIKE * quick))
        };
        let cells = self.looks.iter().zip(&self.cells);
        let cells = cells.filter(|(_, points)| slow(points));
        cells.map(|(look, _)| look.cell.id.clone()).collect()
    }

    fn names(&self, finding: &Finding) -> bool {
        let of_it = |look: &&Look<'_>| finding.cells.contains(&look.cell.id);
        self.looks.iter().any(of_it)
    }
}

fn points(look: &Look<'_>) -> Vec<Point> {
    let level = median(look.seen.iter().map(|seen| seen.slow).collect()).unwrap_or(1.0);
    let each = look.seen.iter().map(|seen| Point {
        at: look.epoch.get() as f64 + seen.sent,
        slow: seen.slow / level,
        takes: seen.end - seen.sent,
    });
    each.filter(|point| point.slow > 0.0).collect()
}

/// Adds what is found over the cells of each grid and in none of them alone: first requests that are slow, and where nothing else was found, slow requests;
/// and stops that come evenly, of which each cell saw too few. These were told of some cells, and are told once.
pub(super) fn add_to(found: &mut Vec<Finding>, looks: &[Look<'_>]) {
    for grid in Grid::all(looks) {
        let told = |found: &[Finding], of: &dyn Fn(Cause) -> bool| {
            let mut own = found.iter().filter(|finding| grid.names(finding));
            own.any(|f| f.cause().is_some_and(of))
        };
        let moved = |cause| LEVELS.contains(&cause);
        let mut level = slow_start(&grid).filter(|_| !told(found, &moved));
        if level.is_none() && !told(found, &|_| true) {
            level = slow_requests(&grid);
        }
        let stops = told(found, &|cause| cause == Cause::Frozen);
        let periodic = stops.then(|| stalls(&grid)).flatten();
        if periodic.is_some() {
            let ids = grid.ids();
            found.retain(|f| {
                !(is_of(f, STANDSTILL) && f.cells.iter().all(|cell| ids.contains(cell)))
            });
        }
        for finding in [periodic, level].into_iter().flatten() {
            let cells = match finding.cause() {
                Some(Cause::SlowRequests) => grid.with_slow_ones(),
                _ => grid.ids(),
            };
            found.push(Finding { cells, ..finding });
        }
    }
}

/// Stops that come evenly over the grid, of which each cell saw too few.
fn stalls(grid: &Grid<'_>) -> Option<Finding> {
    const FEWEST: usize = 5;
    /// Of the stops, how many are about as long.
    const NEARLY_ALL: f64 = 0.8;
    let mut all: Vec<Standstill> = Vec::new();
    for look in &grid.looks {
        let epoch = look.epoch.get() as f64;
        let stops = look.unprompted().stops.iter();
        all.extend(stops.map(|stop| Standstill {
            from: epoch + stop.from,
            ..*stop
        }));
    }
    let typical = median(all.iter().map(|stop| stop.length).collect())?;
    let is_alike = |stop: &&Standstill| (0.5..=2.0).contains(&(stop.length / typical));
    let alike: Vec<Standstill> = all.iter().filter(is_alike).copied().collect();
    let enough = alike.len() >= FEWEST && alike.len() as f64 >= NEARLY_ALL * all.len() as f64;
    let period = over_time::period(&alike).filter(|_| enough)?;
    let lost: f64 = alike.iter().map(|stop| stop.length).sum();
    Draft::new(Cause::PeriodicStall, lost / grid.taken())
        .because(Known::Stalls, alike.len() as f64)
        .because(Known::StallPeriod, period)
        .because(Known::StallLength, typical)
        .because(Known::At, alike.first()?.from - grid.points().next()?.at)
        .because(Known::InFlight, 1.0)
        .refuted_by(Experiment::Longer)
        .done()
}

/// Calls what passes before the first token prefill, where cells of one request at a time tell together what a single one of equal prompts cannot: nobody
/// waits there, and TTFT grows with the prompt.
pub(super) fn tell_prefill(looks: &[Look<'_>], found: &mut [Finding]) {
    let cells = typical_alone(looks);
    let untold = |f: &&mut Finding| f.cause() == Some(Cause::WaitingOrPrefill);
    for finding in found.iter_mut().filter(untold) {
        let own = cells.iter().find(|cell| finding.cells == [cell.0]);
        let look = looks
            .iter()
            .find(|look| finding.cells == [look.cell.id.clone()]);
        let prefill = own.and_then(|own| prefill(look?, *own, &cells, finding.severity));
        if let Some(prefill) = prefill {
            *finding = prefill;
        }
    }
}

/// Whether what passes before the first token of a cell of one request at a time is prefill, by the other ones.
pub(super) fn is_prefill(look: &Look<'_>, looks: &[Look<'_>]) -> bool {
    let own = typical(look).filter(|_| look.concurrency() == Some(1));
    own.is_some_and(|own| prefill(look, own, &typical_alone(looks), 0.0).is_some())
}

/// The cells of one request at a time, by the length of their prompts.
fn typical_alone<'a>(looks: &'a [Look<'_>]) -> Vec<(&'a str, f64, f64)> {
    let alone = looks.iter().filter(|look| look.concurrency() == Some(1));
    let mut cells: Vec<_> = alone.filter_map(typical).collect();
    cells.sort_by(|a, b| a.1.total_cmp(&b.1));
    cells
}

/// A cell, its prompt tokens and its TTFT, where half of the first tokens lie near what these make for their prompts.
fn typical<'a>(look: &'a Look<'_>) -> Option<(&'a str, f64, f64)> {
    const NEAR: f64 = 0.2;
    let tokens = look.mean(|r| r.input_tokens.map(f64::from))?;
    let ttft = look.mean(|r| r.ttft)?;
    let off = look
        .seen
        .iter()
        .filter_map(|s| Some((s.request.ttft? - ttft).abs() / ttft));
    (median(off.collect())? <= NEAR).then_some((&look.cell.id, tokens, ttft))
}

/// By what it takes longer than the shortest prompts, or they less than longer ones: whatever is the same for all is in both, and later tokens may take longer.
fn prefill(
    look: &Look<'_>,
    (_, tokens, ttft): (&str, f64, f64),
    cells: &[(&str, f64, f64)],
    cost: f64,
) -> Option<Finding> {
    /// Of the first token, what its prompt explains.
    const MOST: f64 = 0.6;
    let others = cells.iter();
    let mut apart =
        others.filter(|other| other.1.max(tokens) >= 2.0 * other.1.min(tokens).max(1.0));
    let other = apart.next()?;
    let each = (ttft - other.2) / (tokens - other.1);
    (each * tokens >= MOST * ttft).then_some(())?;
    Draft::in_cell(Cause::Prefill, cost, look.cell)
        .because(Known::PrefillShare, cost)
        .because(Known::Ttft, ttft)
        .because(Known::PromptTokens, tokens)
        .because(Known::TtftPerToken, each)
        .rules_out(Cause::Queueing, Known::InFlight, Some(1.0))
        .refuted_by(Experiment::BesideTheServer)
        .done()
}

/// What slow requests of a grid lose without a reason, or how much its requests differ where the speed moves in a way that no shape of its tells.
pub(super) fn left(looks: &[Look<'_>]) -> Option<Draft> {
    let draft = || Draft::new(Answer::NotHealthy, 0.0);
    Grid::all(looks).into_iter().find_map(|grid| {
        if let Some(cov) = grid.wanders() {
            return Some(draft().because(Known::Cov, cov));
        }
        let slow = Slow::of(&grid).filter(|slow| slow.cost >= LEAST)?;
        Some(slow.in_numbers(&grid, draft()))
    })
}

/// Whether levels move over these cells by as much as a third of an effect that is told of them, so that it may be time's and not theirs: their times of
/// `effect` more, from the first that was measured to the last.
pub(crate) fn moves_as_much(
    run: &RunRecord,
    samples: &[CellSamples],
    cells: &[String],
    effect: f64,
) -> bool {
    const PART: f64 = 0.3;
    let own = run.cells.iter().filter(|cell| cells.contains(&cell.id));
    let looks: Vec<Look<'_>> = own
        .map(|cell| Look::of(run, cell, samples.iter().find(|s| s.cell == cell.id)))
        .collect();
    let grids = Grid::all(&looks);
    let mut moves = grids.iter().filter_map(|grid| speed::drift(&grid.looks));
    moves.any(|log| log.abs() >= PART * effect.ln_1p().abs())
}

/// The first requests of all are slower than every later one.
fn slow_start(grid: &Grid<'_>) -> Option<Finding> {
    const SLOWER: f64 = 1.3;
    /// One alone may be so by chance.
    const ONE: f64 = 2.0;
    let (first, rest) = grid.cells.split_first()?;
    let late = |n: usize| first.iter().skip(n).chain(rest.iter().flatten());
    let slowest = |n: usize| late(n).map(|point| point.slow).fold(0.0, f64::max);
    let is_start = |n: &usize| {
        let early = first.iter().take(*n).map(|point| point.slow);
        let least = SLOWER.max(slowest(*n));
        early.fold(f64::INFINITY, f64::min) > if *n == 1 { ONE.max(least) } else { least }
    };
    // from half of it on the cell's own level is that of its slow ones
    let n = (1..first.len().div_ceil(2)).rev().find(is_start)?;
    let early = || first.iter().take(n);
    let lost: f64 = early().map(|p| p.takes * (1.0 - 1.0 / p.slow)).sum();
    Draft::new(Cause::ColdStart, lost / grid.taken())
        .because(Known::At, first.get(n)?.at - first.first()?.at)
        .because(
            Known::LevelBefore,
            median(early().map(|p| p.slow).collect()),
        )
        .because(Known::LevelAfter, 1.0)
        .because(Known::Requests, n as f64)
        .refuted_by(Experiment::LongerWarmUp)
        .done()
}

/// Within this multiple of the quick quarter's time requests are alike.
const ALIKE: f64 = 1.25;

/// Requests that are slow beside the quick quarter.
struct Slow {
    ratios: Vec<f64>,
    cost: f64,
}

impl Slow {
    fn of(grid: &Grid<'_>) -> Option<Self> {
        let quick = quantile(grid.points().map(|point| point.slow).collect(), 0.25)?;
        let slow = || grid.points().filter(|point| point.slow > ALIKE * quick);
        let lost: f64 = slow()
            .map(|point| point.takes * (1.0 - ALIKE * quick / point.slow))
            .sum();
        Some(Self {
            ratios: slow().map(|point| point.slow / quick).collect(),
            cost: lost / grid.taken(),
        })
    }

    fn in_numbers(&self, grid: &Grid<'_>, draft: Draft) -> Draft {
        let share = self.ratios.len() as f64 / grid.points().count() as f64;
        draft
            .because(Known::SlowShare, share)
            .because(Known::SlowRatio, median(self.ratios.clone()))
    }
}

fn slow_requests(grid: &Grid<'_>) -> Option<Finding> {
    /// Share of the users' time: in any case, and where several take twice as long.
    const COSTS: f64 = 0.08;
    const SEVERAL: usize = 3;
    let slow = Slow::of(grid)?;
    let ratio = median(slow.ratios.clone())?;
    let apart = ratio >= 2.0 && slow.ratios.len() >= SEVERAL;
    (slow.cost >= if apart { LEAST } else { COSTS }).then_some(())?;
    slow.in_numbers(grid, Draft::new(Cause::SlowRequests, slow.cost))
        .refuted_by(Experiment::AgainWithLog)
        .done()
}
