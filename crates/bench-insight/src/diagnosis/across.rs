//! What shows over several short cells of one request at a time, and in none of them alone: a drift, a slow start, requests that are slow.
//!
//! Cells of other lengths are measured one after another, so that their levels tell nothing of time. Each request is held against its own cell's
//! level, and only what moves within cells counts.

use bench_schema::{Cause, Experiment, Finding, Known, RunRecord};

use super::look::{Expected, Look, median, quantile};
use super::{LEAST, LEVELS, STANDSTILL, over_time};
use crate::draft::Draft;
use crate::outages::{EARLY, Standstill};
use crate::samples::{CellSamples, RequestSample};
use crate::view;

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
    /// Its time over what requests of its lengths take in all cells.
    beside: f64,
    tpot: Option<f64>,
}

/// Cells that differ in lengths only, in the order in which they were measured.
struct Grid<'a> {
    looks: Vec<&'a Look<'a>>,
    cells: Vec<Vec<Point>>,
}

impl<'a> Grid<'a> {
    fn all(looks: &'a [Look<'a>]) -> Vec<Self> {
        let mut grids: Vec<(String, Vec<&Look<'_>>)> = Vec::new();
        let is_short = |look: &&Look<'_>| {
            look.concurrency() == Some(1) && (3..MOST).contains(&look.seen.len())
        };
        for look in looks.iter().filter(is_short) {
            let key = besides_lengths(look);
            match grids.iter_mut().find(|(known, _)| *known == key) {
                Some((_, members)) => members.push(look),
                None => grids.push((key, vec![look])),
            }
        }
        let grids = grids.into_iter().map(|(_, looks)| looks);
        grids
            .filter(|looks| looks.len() > 1)
            .map(Self::of)
            .filter(|grid| grid.points().count() >= FEWEST)
            .collect()
    }

    fn of(mut looks: Vec<&'a Look<'a>>) -> Self {
        looks.sort_by_key(|look| look.epoch);
        let all: Vec<&RequestSample> = looks
            .iter()
            .flat_map(|look| look.seen.iter().map(|seen| seen.request))
            .collect();
        let [expected, _] = Expected::both(&all);
        let cells = looks.iter().map(|look| points(look, &expected)).collect();
        Self { looks, cells }
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

    fn names(&self, finding: &Finding) -> bool {
        let of_it = |look: &&Look<'_>| finding.cells.contains(&look.cell.id);
        self.looks.iter().any(of_it)
    }
}

/// The factors of a cell that are no lengths.
fn besides_lengths(look: &Look<'_>) -> String {
    let is_length = |name: &str| {
        let of = [view::PROMPT_FACTORS, view::OUTPUT_FACTORS];
        of.iter().any(|factors| factors.contains(&name))
    };
    let rest = look.cell.factors.iter();
    let rest = rest.filter(|(name, _)| !is_length(name));
    let rest: Vec<String> = rest
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    rest.join(",")
}

fn points(look: &Look<'_>, expected: &Expected) -> Vec<Point> {
    let level = median(look.seen.iter().map(|seen| seen.slow).collect()).unwrap_or(1.0);
    let each = look.seen.iter().map(|seen| Point {
        at: look.epoch.get() as f64 + seen.sent,
        slow: seen.slow / level,
        takes: seen.end - seen.sent,
        beside: seen.request.e2e() / expected.e2e(seen.request),
        tpot: seen.request.tpot(),
    });
    each.filter(|point| point.slow > 0.0).collect()
}

/// Whether a finding is of a level that moved.
pub(super) fn is_of_level(finding: &Finding) -> bool {
    finding.cause().is_some_and(|cause| LEVELS.contains(&cause))
}

/// Adds what is found over the cells of each grid. What shows over all of them, a level that moves or stops that come evenly, was seen in some alone
/// too, and is told once.
pub(super) fn add_to(found: &mut Vec<Finding>, looks: &[Look<'_>]) {
    let over_grids = all(looks, found);
    for of_all in &over_grids {
        let within = |f: &Finding| f.cells.iter().all(|cell| of_all.cells.contains(cell));
        let same = |f: &Finding| {
            let is_one = |of: &[Cause]| f.cause().is_some_and(|cause| of.contains(&cause));
            let (level, stop) = (is_of_level(of_all), of_all.cause() == PERIODIC);
            level && (is_of_level(f) || is_one(&[Cause::SlowRequests]))
                || stop && is_one(STANDSTILL)
        };
        found.retain(|f| !(same(f) && within(f)));
    }
    found.extend(over_grids);
}

const PERIODIC: Option<Cause> = Some(Cause::PeriodicStall);

fn all(looks: &[Look<'_>], found: &[Finding]) -> Vec<Finding> {
    let grids = Grid::all(looks);
    let of = |grid: &Grid<'_>| {
        let own = || found.iter().filter(|finding| grid.names(finding));
        let stops = own().any(|f| f.cause() == Some(Cause::Frozen));
        let periodic = stops.then(|| stalls(grid)).flatten();
        let is_told = |f: &Finding| {
            let ids = grid.ids();
            is_of_level(f) && ids.iter().all(|id| f.cells.contains(id))
        };
        let level = slow_start(grid)
            .or_else(|| drift(grid))
            .or_else(|| moved(grid))
            .or_else(|| comes_and_goes(grid))
            .filter(|_| !own().any(is_told));
        let level = level.or_else(|| own().next().is_none().then(|| slow_requests(grid))?);
        let both = [periodic, level].into_iter().flatten();
        let of_grid = |mut finding: Finding| {
            finding.cells = grid.ids();
            finding
        };
        both.map(of_grid).collect::<Vec<_>>()
    };
    grids.iter().flat_map(of).collect()
}

/// Stops that come evenly over the grid, of which each cell saw too few.
fn stalls(grid: &Grid<'_>) -> Option<Finding> {
    const FEWEST: usize = 5;
    /// Of the stops, how many are about as long.
    const NEARLY_ALL: f64 = 0.8;
    let of = |look: &&Look<'_>| {
        let epoch = look.epoch.get() as f64;
        let (stops, _) = over_time::not_of_prompts(look);
        stops.into_iter().map(move |stop| Standstill {
            from: epoch + stop.from,
            ..stop
        })
    };
    let all: Vec<Standstill> = grid.looks.iter().flat_map(of).collect();
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
    let alone = looks.iter().filter(|look| look.concurrency() == Some(1));
    let mut cells: Vec<(&str, f64, f64)> = alone.filter_map(typical).collect();
    cells.sort_by(|a, b| a.1.total_cmp(&b.1));
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

/// Share of the users' time that slow requests of a grid take: nobody is healthy who pays for what was not explained.
pub(super) fn cost(looks: &[Look<'_>]) -> f64 {
    let costs = Grid::all(looks).into_iter();
    let costs = costs.filter_map(|grid| Some(Slow::of(&grid)?.cost));
    costs.fold(0.0, f64::max)
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
    const SURE: f64 = 3.0;
    let own = run.cells.iter().filter(|cell| cells.contains(&cell.id));
    let looks: Vec<Look<'_>> = own
        .map(|cell| Look::of(run, cell, samples.iter().find(|s| s.cell == cell.id)))
        .collect();
    let grids = Grid::all(&looks);
    grids
        .iter()
        .filter_map(Trend::of)
        .any(|trend| trend.errors >= SURE && trend.change.abs() >= PART * effect.ln_1p().abs())
}

/// How levels move within cells, all of them together.
struct Trend {
    /// Of the logarithm, from the grid's first request to its last.
    change: f64,
    /// In standard errors of what chance makes of the order.
    errors: f64,
    /// Share of the cells that move in the same direction.
    alike: f64,
    /// Standard deviation of the requests around it, as the median tells.
    spread: f64,
}

impl Trend {
    /// The median of the slopes between requests of the same cell, those far apart counting for more, and Kendall's count of pairs that rise and fall:
    /// a few slow requests move neither. A cell's first requests may be slow each time it begins.
    fn of(grid: &Grid<'_>) -> Option<Self> {
        let (mut slopes, mut rises, mut variance) = (Vec::new(), Vec::new(), 0.0);
        for cell in grid.cells.iter().map(|cell| later(cell)) {
            let n = cell.len() as f64;
            variance += n * (n - 1.0) * (2.0 * n + 5.0) / 18.0;
            let mut own = 0.0;
            for (i, a) in cell.iter().enumerate() {
                for b in cell.iter().skip(i + 1).filter(|b| b.at > a.at) {
                    let rise = (b.slow / a.slow).ln();
                    own += if rise > 0.0 {
                        1.0
                    } else if rise < 0.0 {
                        -1.0
                    } else {
                        0.0
                    };
                    slopes.push((rise / (b.at - a.at), b.at - a.at));
                }
            }
            rises.push(own);
        }
        let slope = weighted_median(slopes)?;
        let times = || grid.points().map(|point| point.at);
        let span =
            times().fold(f64::NEG_INFINITY, f64::max) - times().fold(f64::INFINITY, f64::min);
        let off = grid.cells.iter().flat_map(|cell| {
            let middle = median(cell.iter().map(|point| point.at).collect()).unwrap_or(0.0);
            let off = move |point: &Point| (point.slow.ln() - slope * (point.at - middle)).abs();
            cell.iter().map(off)
        });
        let same = rises.iter().filter(|rise| **rise * slope > 0.0).count();
        Some(Self {
            change: slope * span,
            errors: rises.iter().sum::<f64>().abs() / f64::sqrt(variance),
            alike: same as f64 / rises.len() as f64,
            spread: 1.48 * median(off.collect())?,
        })
    }
}

/// A cell without its first quarter.
fn later(cell: &[Point]) -> &[Point] {
    cell.get(cell.len() / 4..).unwrap_or_default()
}

fn weighted_median(mut values: Vec<(f64, f64)>) -> Option<f64> {
    values.sort_by(|a, b| a.0.total_cmp(&b.0));
    let half = values.iter().map(|value| value.1).sum::<f64>() / 2.0;
    let mut so_far = 0.0;
    let reaches = |value: &&(f64, f64)| {
        so_far += value.1;
        so_far >= half
    };
    values.iter().find(reaches).map(|value| value.0)
}

/// All times rise or fall while the cells are measured.
fn drift(grid: &Grid<'_>) -> Option<Finding> {
    /// Parts of the level: in any case, and where it is twice the spread of the requests.
    const MUCH: f64 = 0.25;
    const CLEAR: f64 = 0.06;
    const SURE: f64 = 4.0;
    const NEARLY_ALL: f64 = 0.75;
    let trend = Trend::of(grid)?;
    let (moved, half) = (trend.change.abs().exp_m1(), trend.change / 2.0);
    let much = moved >= MUCH || moved >= CLEAR && trend.change.abs() >= 2.0 * trend.spread;
    (much && trend.errors >= SURE && trend.alike >= NEARLY_ALL).then_some(())?;
    let cost = -(-half.abs()).exp_m1();
    Draft::new(Cause::Drift, cost)
        .because(Known::LevelBefore, (-half).exp())
        .because(Known::LevelAfter, half.exp())
        .because(Known::Requests, grid.points().count() as f64)
        .refuted_by(Experiment::Longer)
        .done()
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

/// The logarithms of all requests' times, and which prompt and which answer length each has.
struct Table {
    logs: Vec<f64>,
    /// How far off those lie in all that were put back.
    strays: f64,
    prompts: Vec<usize>,
    answers: Vec<usize>,
    /// Each cell's first request, and that after its last.
    ends: Vec<usize>,
}

impl Table {
    /// Times per token, where all have one: what prompts and answers make of these multiplies. Else whole times beside what lengths make of them.
    fn of(grid: &Grid<'_>) -> Self {
        let points: Vec<&Point> = grid.points().collect();
        let tpot: Option<Vec<f64>> = points.iter().map(|point| point.tpot).collect();
        let whole = || points.iter().map(|point| point.beside).collect();
        let logs = tpot.unwrap_or_else(whole);
        let mut logs: Vec<f64> = logs.into_iter().map(f64::ln).collect();
        let mut rest = logs.as_mut_slice();
        let mut strays = 0.0;
        for cell in &grid.cells {
            let (own, after) = rest.split_at_mut(cell.len());
            strays += without_strays(own);
            rest = after;
        }
        let mut table = Self {
            logs,
            strays,
            prompts: Vec::new(),
            answers: Vec::new(),
            ends: vec![0],
        };
        let mut known: [Vec<String>; 2] = Default::default();
        for (look, cell) in grid.looks.iter().zip(&grid.cells) {
            for (which, factors) in [view::PROMPT_FACTORS, view::OUTPUT_FACTORS]
                .iter()
                .enumerate()
            {
                let level = factors.iter().find_map(|name| look.cell.factors.get(*name));
                let level = level.map_or_else(String::new, ToString::to_string);
                let levels = &mut known[which];
                let index = levels.iter().position(|known| *known == level);
                let index = index.unwrap_or_else(|| {
                    levels.push(level);
                    levels.len() - 1
                });
                let of = if which == 0 {
                    &mut table.prompts
                } else {
                    &mut table.answers
                };
                of.extend(cell.iter().map(|_| index));
            }
            table.ends.push(table.prompts.len());
        }
        table
    }

    /// What is left of a value for each request when what each prompt and each answer length makes of it is taken out.
    fn left(&self, mut values: Vec<f64>) -> Vec<f64> {
        const SWEEPS: u32 = 8;
        for _ in 0..SWEEPS {
            for of in [&self.prompts, &self.answers] {
                let levels = of.iter().max().map_or(0, |most| most + 1);
                let mut sums = vec![(0.0, 0.0); levels];
                for (value, level) in values.iter().zip(of) {
                    sums[*level].0 += value;
                    sums[*level].1 += 1.0;
                }
                for (value, level) in values.iter_mut().zip(of) {
                    *value -= sums[*level].0 / sums[*level].1;
                }
            }
        }
        values
    }

    /// Whether it has enough prompts and answer lengths to tell time from length by whole cells.
    fn is_wide(&self) -> bool {
        const CELLS: usize = 6;
        let several = |of: &[usize]| of.iter().any(|level| *level > 0);
        several(&self.prompts) && several(&self.answers) && self.ends.len() > CELLS
    }
}

/// Puts the middle one of a value and its four neighbours for one that lies far off it: one or two requests that met a stop, or were slow, say nothing of a level.
/// Returns how far off those were in all: several are requests that are slow.
fn without_strays(own: &mut [f64]) -> f64 {
    /// Of logarithms: two and a half times as long.
    const FAR: f64 = 0.92;
    const AROUND: usize = 5;
    let last = own.len().saturating_sub(AROUND);
    let tame = |(i, value): (usize, &f64)| {
        let from = i.saturating_sub(AROUND / 2).min(last);
        let around = own.get(from..own.len().min(from + AROUND))?;
        let middle = median(around.to_vec())?;
        Some(if (value - middle).abs() > FAR {
            middle
        } else {
            *value
        })
    };
    let tamed: Vec<f64> = own.iter().enumerate().filter_map(tame).collect();
    let mut strays = 0.0;
    for (value, tame) in own.iter_mut().zip(tamed) {
        strays += (*value - tame).abs();
        *value = tame;
    }
    strays
}

/// Requests in a row all of whose times are so many times as long as the others'.
struct Moved {
    from: usize,
    to: usize,
    factor: f64,
    /// How far off requests lie that this leaves.
    left: f64,
}

impl Moved {
    /// The stretch that explains most of what prompts and answers do not, if that is most of it.
    fn of(grid: &Grid<'_>) -> Option<Self> {
        /// Of what requests lie off, the part that may be left.
        const LEFT: f64 = 0.5;
        /// The same that a change more has to explain: where a stretch begins with the run, what follows it begins elsewhere.
        const TWO_CHANGES: f64 = 0.1;
        /// Requests in the stretch, and outside.
        const FEWEST: usize = 8;
        let table = Table::of(grid);
        let n = table.logs.len();
        let cuts = cuts(grid, &table);
        let off = table.left(table.logs.clone());
        let all = off.iter().map(|off| off.abs()).sum::<f64>();
        let most = LEFT * (all + table.strays) - table.strays;
        let explains_less = |moved: &Self| {
            let inside = moved.from > 0 && moved.to < n;
            moved.left + if inside { TWO_CHANGES * all } else { 0.0 }
        };
        let ranges = cuts.iter().enumerate().flat_map(|(i, from)| {
            let rest = cuts.get(i + 1..).unwrap_or_default();
            rest.iter().map(|to| (*from, *to))
        });
        ranges
            .filter(|(from, to)| (FEWEST..=n - FEWEST).contains(&(to - from)))
            .filter_map(|(from, to)| Self::between(&table, &off, from, to))
            .filter(|moved| moved.left <= most)
            .min_by(|a, b| explains_less(a).total_cmp(&explains_less(b)))
    }

    fn between(table: &Table, off: &[f64], from: usize, to: usize) -> Option<Self> {
        const ERRORS: f64 = 5.0;
        /// Of a request's weight, what lengths must leave to be told from them.
        const TOLD: f64 = 1.0;
        let n = off.len();
        let is_in = |i: usize| if (from..to).contains(&i) { 1.0 } else { 0.0 };
        let stretch = table.left((0..n).map(is_in).collect());
        let weight: f64 = stretch.iter().map(|s| s * s).sum();
        let log = off.iter().zip(&stretch).map(|(a, b)| a * b).sum::<f64>() / weight;
        let rest = || off.iter().zip(&stretch).map(|(off, s)| off - log * s);
        let error = (rest().map(|r| r * r).sum::<f64>() / n as f64 / weight).sqrt();
        let clear = weight >= TOLD && log.abs() >= ALIKE.ln() && log.abs() >= ERRORS * error;
        clear.then(|| Self {
            from,
            to,
            factor: log.exp(),
            left: rest().map(f64::abs).sum(),
        })
    }
}

/// Where a level may begin or end: inside of a cell where its requests are best parted, and between cells where these tell.
fn cuts(grid: &Grid<'_>, table: &Table) -> Vec<usize> {
    let inside = grid
        .cells
        .iter()
        .zip(&table.ends)
        .filter_map(|(cell, begin)| {
            let own: Vec<(f64, f64)> = cell.iter().map(|point| (point.at, point.slow)).collect();
            Some(begin + over_time::two_levels(&own)?.n)
        });
    let n = table.logs.len();
    let between = table.ends.iter().copied();
    let between = between.filter(|end| table.is_wide() || [0, n].contains(end));
    let mut cuts: Vec<usize> = inside.chain(between).collect();
    cuts.sort_unstable();
    cuts.dedup();
    thinned(cuts)
}

/// As many of them, evenly chosen, as every two can be held against each other in no time, the first and the last among them.
fn thinned(cuts: Vec<usize>) -> Vec<usize> {
    const MOST_CUTS: usize = 128;
    let (last, each) = (cuts.last().copied(), cuts.len().div_ceil(MOST_CUTS).max(1));
    let mut kept: Vec<usize> = cuts.into_iter().step_by(each).collect();
    kept.extend(last.filter(|last| kept.last() != Some(last)));
    kept
}

/// All times become longer or shorter from some moment on, or for a while, or until then.
fn moved(grid: &Grid<'_>) -> Option<Finding> {
    let moved = Moved::of(grid)?;
    let points: Vec<&Point> = grid.points().collect();
    let (start, end) = (points.first()?.at, points.last()?.at);
    let (from_start, to_end) = (moved.from == 0, moved.to == points.len());
    let (begins, ends) = (
        points.get(moved.from)?.at,
        points.get(moved.to).map_or(end, |p| p.at),
    );
    let is_slow = |i: &usize| (moved.from..moved.to).contains(i) == (moved.factor > 1.0);
    let longer = moved.factor.max(1.0 / moved.factor);
    let slow = points.iter().enumerate().filter(|(i, _)| is_slow(i));
    let lost: f64 = slow.map(|(_, p)| p.takes * (1.0 - 1.0 / longer)).sum();
    let most = (moved.to - moved.from) * 2 > points.len();
    // most requests are typical
    let (own, rest) = if most {
        (1.0, 1.0 / moved.factor)
    } else {
        (moved.factor, 1.0)
    };
    let (at, before, after) = if from_start {
        (ends, own, rest)
    } else {
        (begins, rest, own)
    };
    let starts = before > after && (from_start || to_end) && at - start <= EARLY * (end - start);
    let (cause, experiment) = if starts {
        (Cause::ColdStart, Experiment::LongerWarmUp)
    } else {
        (Cause::Step, Experiment::Longer)
    };
    let lasted = (!from_start && !to_end).then_some(ends - begins);
    Draft::new(cause, lost / grid.taken())
        .because(Known::At, at - start)
        .because(Known::Lasted, lasted)
        .because(Known::LevelBefore, before)
        .because(Known::LevelAfter, after)
        .because(Known::Requests, points.len() as f64)
        .refuted_by(experiment)
        .done()
}

/// Requests that are slow in rows, far fewer than chance makes of as many slow ones within each cell: the server is slow at times.
fn comes_and_goes(grid: &Grid<'_>) -> Option<Finding> {
    const SURE: f64 = 4.0;
    const COSTS: f64 = 0.08;
    let quick = quantile(grid.points().map(|point| point.beside).collect(), 0.25)?;
    let is_slow = |point: &&Point| point.beside > ALIKE * quick;
    let rows = |of: &mut dyn Iterator<Item = &Point>| {
        let slow: Vec<bool> = of.map(|point| is_slow(&point)).collect();
        slow.chunk_by(|a, b| a == b).count() as f64
    };
    let (mut fewer, mut variance, mut lost) = (0.0, 0.0, 0.0);
    for cell in &grid.cells {
        let slow = cell.iter().filter(is_slow).count() as f64;
        let n = cell.len() as f64;
        let pairs = 2.0 * slow * (n - slow);
        if pairs > 0.0 {
            fewer += 1.0 + pairs / n - rows(&mut cell.iter());
            variance += pairs * (pairs - n) / (n * n * (n - 1.0));
            let beyond = |p: &Point| p.takes * (1.0 - ALIKE * quick / p.beside);
            lost += cell.iter().filter(is_slow).map(beyond).sum::<f64>();
        }
    }
    let cost = lost / grid.taken();
    (fewer >= SURE * variance.sqrt() && cost >= COSTS).then_some(())?;
    let of = |slow: bool| grid.points().filter(move |point| is_slow(point) == slow);
    let level = |slow: bool| median(of(slow).map(|point| point.beside).collect());
    let usual = median(grid.points().map(|point| point.beside).collect())?;
    Draft::new(Cause::Step, cost)
        .because(Known::Changes, rows(&mut grid.points()) - 1.0)
        .because(Known::LevelBefore, level(false)? / usual)
        .because(Known::LevelAfter, level(true)? / usual)
        .because(Known::Requests, grid.points().count() as f64)
        .refuted_by(Experiment::Longer)
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
}

fn slow_requests(grid: &Grid<'_>) -> Option<Finding> {
    /// Share of the users' time: in any case, and where several take twice as long.
    const COSTS: f64 = 0.08;
    const SEVERAL: usize = 3;
    let slow = Slow::of(grid)?;
    let ratio = median(slow.ratios.clone())?;
    let apart = ratio >= 2.0 && slow.ratios.len() >= SEVERAL;
    (slow.cost >= if apart { LEAST } else { COSTS }).then_some(())?;
    let share = slow.ratios.len() as f64 / grid.points().count() as f64;
    Draft::new(Cause::SlowRequests, slow.cost)
        .because(Known::SlowShare, share)
        .because(Known::SlowRatio, ratio)
        .refuted_by(Experiment::AgainWithLog)
        .done()
}

#[cfg(test)]
#[path = "../../tests/unit/diagnosis_across.rs"]
mod tests;
