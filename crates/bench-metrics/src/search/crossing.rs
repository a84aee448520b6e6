//! The likelihood of a crossing.
//!
//! Around its crossing the share within an objective is taken as logistic in the logarithm of the load: logit A = logit q − b·(ln load − c),
//! where c is the logarithm of the capacity. What the stages say of c and b is a likelihood on a grid, each stage counting for as many
//! values as its own dependence in time leaves, less where stages scatter about the curve more than that, and less the further it is
//! from the crossing, where no line holds. The interval of c is that of its marginal distribution with b free (log-normal, about what queues have). With all
//! values within, or all beyond, the same likelihood has one open side, which is how the search knows where to go: twice, or half.

use std::iter::repeat_n;

use bench_schema::Share;

use super::{CALM, FEWEST, Stage, is_over};
use crate::estimate::{Estimate, LEVEL};
use crate::num::float;

/// Half-width of the kernel around the crossing, in ln load, in log odds: beyond it the curve is no line.
const REACH_ODDS: f64 = 4.0;
/// Its bounds in ln load.
const REACH: (f64, f64) = (0.08, 0.35);
/// What a stage that is out of reach, or too short, can say at most of the side on which it is, in log odds.
const MOST_FAR: f64 = 3.0;

/// What the stages know of one objective, or of all of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Crossing {
    /// The load at which the share within is what was asked, with its interval; a bound that no stage gives is absent.
    pub load: Estimate,
    /// By how much the log odds of being within fall as the load grows e-fold.
    pub slope: f64,
    /// How many stages, long enough for a queue to build, are near it. With fewer than two all that is known are sides, of short stages, which are
    /// within more often than long ones would be: that bounds nothing.
    pub stages: usize,
    /// How long those lasted, on average over their requests.
    pub seconds: f64,
    /// How much more stages scatter about the curve than their own errors explain, as a variance ratio; 1 or more.
    pub scatter: f64,
}

impl Crossing {
    /// As far down as is open after so many seconds near it: beyond what the server can do, waits grow by what is too much, and nobody has waited longer than
    /// `patience` where that times the length of a stage is less.
    pub(super) fn down_to(self, patience: f64) -> Self {
        let low = (self.load.low).map(|low| low / (1.0 + patience / self.seconds.max(1e-9)));
        let load = Estimate { low, ..self.load };
        Self { load, ..self }
    }

    /// No more than what the server answers, within the interval.
    pub(super) fn at_most(self, served: Estimate) -> Self {
        let Estimate {
            value, low, high, ..
        } = self.load;
        let most = served.high.unwrap_or(f64::INFINITY).max(low.unwrap_or(0.0));
        let load = Estimate {
            value: value.min(served.value).max(low.unwrap_or(0.0).min(value)),
            high: Some(high.map_or(most, |high| high.min(most))),
            ..self.load
        };
        Self { load, ..self }
    }
}

/// One stage as the likelihood sees it.
#[derive(Clone, Copy, Debug)]
struct Point {
    /// ln load.
    x: f64,
    share: f64,
    effective: f64,
    requests: f64,
    /// Whether it was long enough for a queue to build.
    is_long: bool,
    /// Whether it says more than on which side it is: with answers that fall behind nothing is missed at first.
    tells: bool,
    /// On which side it is, in log odds: above 0 within, and at most as far as its values bear out.
    side: f64,
    /// How near it is to the crossing, 0 to 1.
    near: f64,
    /// Independent values that it counts for.
    worth: f64,
}

/// Where the share within an objective crosses `attain`; `None` where no stage tells.
pub(super) fn crossing(
    stages: &[Stage],
    objective: usize,
    attain: f64,
    long: u64,
) -> Option<Crossing> {
    let point = |stage: &Stage| {
        Some(Point::of(
            stage,
            (*stage.shares.get(objective)?)?,
            (attain, long),
        ))
    };
    let mut points: Vec<Point> = stages.iter().filter_map(point).collect();
    if points.is_empty() {
        return None;
    }
    let odds = (attain / (1.0 - attain)).ln();
    let mut found = marginal(&points, odds);
    let mut scatter = 1.0;
    for _ in 0..4 {
        let reach = reach(found.slope);
        for p in &mut points {
            let d = ((p.x - found.at) / reach).abs().min(1.0);
            p.near = if p.tells {
                (1.0 - d.powi(3)).powi(3)
            } else {
                0.0
            };
        }
        let dependence = dependence(&points);
        for p in &mut points {
            p.worth = p.requests / dependence * p.near;
        }
        scatter = scatter_of(&points, &found, odds);
        for p in &mut points {
            p.worth /= scatter;
        }
        found = marginal(&points, odds);
    }
    // The curve is fitted near the crossing; where it is known badly, its end may lie where a stage was plainly beyond.
    let bounded = plainly_beyond(stages, objective, attain);
    let at_most = |load: f64| bounded.map_or(load, |most| load.min(most));
    Some(Crossing {
        load: Estimate {
            value: at_most(found.at.exp()),
            low: found.low.map(|low| at_most(low.exp())),
            high: found.high.map(|high| at_most(high.exp())),
            level: LEVEL,
        },
        slope: found.slope,
        stages: points
            .iter()
            .filter(|p| p.is_long && p.is_within(found.at, reach(found.slope)))
            .count(),
        seconds: seconds_near(&points),
        scatter,
    })
}

/// How long the stages near the crossing lasted, weighted by their requests; where none is, the long ones.
fn seconds_near(points: &[Point]) -> f64 {
    let is_any = points.iter().any(|p| p.near > 0.0);
    let weight = |p: &Point| {
        p.requests
            * if is_any {
                p.near
            } else {
                f64::from(u8::from(p.is_long))
            }
    };
    let all: f64 = points.iter().map(weight).sum();
    let seconds = points.iter().map(|p| weight(p) * p.requests / p.x.exp());
    if all > 0.0 {
        seconds.sum::<f64>() / all
    } else {
        0.0
    }
}

/// How many values of the stages that tell are worth one, on average over them. Each one's own dependence is seen badly, and best by stages with bad
/// luck: a lucky one would count for more.
fn dependence(points: &[Point]) -> f64 {
    let weight = |p: &Point| p.requests * p.near;
    let all: f64 = points.iter().map(weight).sum();
    let sum: f64 = points
        .iter()
        .map(|p| weight(p) * p.requests / p.effective)
        .sum();
    if all > 0.0 { (sum / all).max(1.0) } else { 1.0 }
}

/// The variance of near stages about the curve over what they should have. Of stages that do not contradict each other, in which less load is never worse, it
/// is the curve that is too flat: then no more than what a precise answer may have.
fn scatter_of(points: &[Point], found: &Marginal, odds: f64) -> f64 {
    let near: Vec<&Point> = points.iter().filter(|p| p.near > 0.0).collect();
    if near.len() < FEWEST {
        return 1.0;
    }
    let of_curve = near.iter().map(|p| {
        let expected = logistic(odds - found.slope * (p.x - found.at).exp_m1());
        p.square(expected)
    });
    let of_curve = of_curve.sum::<f64>() / float(near.len() - 2);
    of_curve.min(contradiction(near) + CALM).max(1.0)
}

/// The same about what falls with the load as they do, whatever its shape: neighbours that rise are taken together until none does. 0 where none does.
fn contradiction(mut by_load: Vec<&Point>) -> f64 {
    by_load.sort_by(|a, b| a.x.total_cmp(&b.x));
    // worth, share, and how many
    let mut levels: Vec<(f64, f64, usize)> = Vec::new();
    for point in &by_load {
        let mut level = (point.worth, point.share, 1);
        while let Some(before) = levels.pop_if(|before| before.1 <= level.1) {
            let worth = before.0 + level.0;
            let share = (before.0 * before.1 + level.0 * level.1) / worth;
            level = (worth, share, before.2 + level.2);
        }
        levels.push(level);
    }
    let expected = levels.iter().flat_map(|level| repeat_n(level.1, level.2));
    let squares = by_load.iter().zip(expected);
    let squares = squares.map(|(point, share)| point.square(share));
    squares.sum::<f64>() / float((by_load.len() - levels.len()).max(1))
}

impl Point {
    fn of(stage: &Stage, share: Share, (attain, long): (f64, u64)) -> Self {
        let is_within = share.value >= attain;
        // where answers fall behind it gets only worse
        let falls_behind = stage.served.is_some();
        let sure = if falls_behind {
            MOST_FAR
        } else {
            (share.effective * divergence(share.value, attain)).min(MOST_FAR)
        };
        let is_long = stage.requests >= long;
        Self {
            x: stage.load.ln(),
            share: share.value,
            effective: share.effective,
            requests: stage.requests as f64,
            is_long,
            tells: is_long && !(is_within && falls_behind),
            side: if is_within && !falls_behind {
                sure
            } else {
                -sure
            },
            near: 0.0,
            worth: 0.0,
        }
    }

    fn is_within(&self, at: f64, reach: f64) -> bool {
        (self.x - at).abs() < reach
    }

    /// How far off its share is, squared, over the variance that it should have.
    fn square(&self, expected: f64) -> f64 {
        let off = self.share - expected;
        let variance = expected * (1.0 - expected) / self.worth;
        // a stage that is all within, or all beyond, is as expected
        if off.abs() > 0.0 {
            off.powi(2) / variance
        } else {
            0.0
        }
    }
}

fn logistic(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// What a likelihood says of the crossing, in ln load.
#[derive(Clone, Copy, Debug)]
struct Marginal {
    at: f64,
    low: Option<f64>,
    high: Option<f64>,
    slope: f64,
}

/// Points of the grid: of the crossing, and of the slope.
const GRID: (usize, usize) = (161, 33);
/// The slopes that are considered.
const SLOPES: (f64, f64) = (1.0, 400.0);
/// What slopes of queues are about, within a factor of e mostly (M/M/1 at p95 of ten service times: 7; eight slots at p99 of a wait of a service
/// time and a half: 33). Stages near the crossing say little of it, and a slope of 1 is no reason to doubt them.
const USUAL: f64 = 12.0;
/// How far beyond the stages a crossing is looked for, in ln load.
const MARGIN: f64 = 1.4;

fn marginal(points: &[Point], odds: f64) -> Marginal {
    let xs = || points.iter().map(|p| p.x);
    let (least, most) = (
        xs().fold(f64::INFINITY, f64::min),
        xs().fold(f64::NEG_INFINITY, f64::max),
    );
    let whole = (least - MARGIN, most + MARGIN);
    let coarse = grid(points, odds, whole);
    // the ends hold what lies beyond them
    let edge = (1.0 - LEVEL) / 2.0;
    let zoomed = (coarse.quantile(1e-4), coarse.quantile(1.0 - 1e-4));
    let fine = grid(points, odds, zoomed);
    let cell = (whole.1 - whole.0) / float(GRID.0 - 1);
    let (low, high) = (fine.quantile(edge), fine.quantile(1.0 - edge));
    Marginal {
        at: fine.quantile(0.5),
        low: (low > whole.0 + 2.0 * cell && low > least - MARGIN / 2.0).then_some(low),
        high: (high < whole.1 - 2.0 * cell && high < most + MARGIN / 2.0).then_some(high),
        slope: fine.slope,
    }
}

struct Grid {
    from: f64,
    step: f64,
    mass: Vec<f64>,
    slope: f64,
}

impl Grid {
    fn quantile(&self, p: f64) -> f64 {
        let all: f64 = self.mass.iter().sum();
        let mut sum = 0.0;
        for (i, mass) in self.mass.iter().enumerate() {
            if sum + mass >= p * all {
                let within = if *mass > 0.0 {
                    (p * all - sum) / mass
                } else {
                    0.5
                };
                return self.from + self.step * (float(i) + within - 0.5);
            }
            sum += mass;
        }
        self.from + self.step * float(self.mass.len())
    }
}

fn grid(points: &[Point], odds: f64, (from, to): (f64, f64)) -> Grid {
    let step = ((to - from) / float(GRID.0 - 1)).max(1e-9);
    let slopes: Vec<f64> = (0..GRID.1)
        .map(|j| SLOPES.0 * (SLOPES.1 / SLOPES.0).powf(float(j) / float(GRID.1 - 1)))
        .collect();
    let mut logs = Vec::with_capacity(GRID.0 * GRID.1);
    for i in 0..GRID.0 {
        let at = from + step * float(i);
        let beyond: Vec<f64> = points.iter().map(|p| (p.x - at).exp_m1()).collect();
        for slope in &slopes {
            let log = points.iter().zip(&beyond).map(|(p, beyond)| {
                // ln A = −ln(1 + e^−z), ln (1 − A) = −ln(1 + e^z)
                let z = odds - slope * beyond;
                let counted = if p.worth > 0.0 {
                    p.share * softplus(-z) + (1.0 - p.share) * softplus(z)
                } else {
                    0.0
                };
                let most = p.side.abs();
                let side = (slope * beyond).clamp(-most, most);
                let side = softplus(side * p.side.signum());
                -p.worth * counted - (1.0 - p.near) * side
            });
            logs.push(log.sum::<f64>() - (slope / USUAL).ln().powi(2) / 2.0);
        }
    }
    let best = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let weights: Vec<f64> = logs.iter().map(|log| (log - best).exp()).collect();
    let mass: Vec<f64> = weights.chunks(GRID.1).map(|row| row.iter().sum()).collect();
    let all: f64 = mass.iter().sum();
    let slope = (0..GRID.1).map(|j| {
        let column: f64 = weights.iter().skip(j).step_by(GRID.1).sum();
        column * slopes.get(j).copied().unwrap_or(1.0).ln()
    });
    Grid {
        from,
        step,
        mass,
        slope: (slope.sum::<f64>() / all).exp(),
    }
}

/// How much values of which this share is within say against a share of `other`, each, in nats.
fn divergence(share: f64, other: f64) -> f64 {
    let part = |share: f64, other: f64| {
        if share > 0.0 {
            share * (share / other).ln()
        } else {
            0.0
        }
    };
    (part(share, other) + part(1.0 - share, 1.0 - other)).max(0.0)
}

fn softplus(x: f64) -> f64 {
    if x > 30.0 {
        x
    } else if x < -30.0 {
        0.0
    } else {
        x.exp().ln_1p()
    }
}

pub(super) fn reach(slope: f64) -> f64 {
    (REACH_ODDS / slope).clamp(REACH.0, REACH.1)
}

/// The lowest load that was plainly beyond an objective, as all stages of at least as much were.
fn plainly_beyond(stages: &[Stage], objective: usize, attain: f64) -> Option<f64> {
    let told = stages
        .iter()
        .filter_map(|stage| Some((stage.load, (*stage.shares.get(objective)?)?)));
    let mut by_load: Vec<(f64, Share)> = told.collect();
    by_load.sort_by(|a, b| b.0.total_cmp(&a.0));
    let beyond = by_load
        .iter()
        .take_while(|(_, share)| is_over(share, attain));
    beyond.last().map(|(load, _)| *load)
}
