//! More than one mode? Hartigan and Hartigan's dip (1985): the distance from the data to the nearest one-humped distribution.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::num::float;
use crate::sample::Sample;

/// Simulated uniform samples behind a p-value.
const SIMULATIONS: usize = 999;
/// Simulated samples have at most this many values: √n·dip has all but reached its limit law there.
const LARGEST: usize = 400;

/// The outcome of the dip test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DipTest {
    /// The dip: the largest distance between the empirical and the nearest unimodal distribution function.
    pub dip: f64,
    /// Chance of such a dip, or a larger one, in as many independent values of one mode (the uniform, the least favourable).
    pub p: f64,
}

/// Tests for more than one mode; `None` below four values.
///
/// Values are taken as independent: where they come in runs, thin them to the effective sample size first. Coarse stamps
/// (many equal values) look like modes, so the unit must be finer than the spread. Cost: O(n), plus 999 simulations of at
/// most 400 values (about 20 ms).
pub fn dip_test(sample: &Sample, seed: u64) -> Option<DipTest> {
    let n = sample.len();
    if n < 4 {
        return None;
    }
    let dip = dip_of(sample.sorted());
    let size = n.min(LARGEST);
    let reach = dip * float(n).sqrt();
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut uniform = vec![0.0; size];
    let mut as_large = 0_usize;
    for _ in 0..SIMULATIONS {
        uniform.fill_with(|| rng.random_range(0.0..1.0));
        uniform.sort_unstable_by(f64::total_cmp);
        as_large += usize::from(dip_of(&uniform) * float(size).sqrt() >= reach);
    }
    Some(DipTest {
        dip,
        p: float(as_large + 1) / float(SIMULATIONS + 1),
    })
}

/// The dip of sorted values (algorithm AS 217, with ranks as ordinates).
pub(crate) fn dip_of(x: &[f64]) -> f64 {
    let n = x.len();
    if n < 2 || x[n - 1] <= x[0] {
        return 0.5 / float(n.max(1));
    }
    let (below, above) = (hull_below(x), hull_above(x));
    let (mut low, mut high) = (0, n - 1);
    let mut dip = 1.0_f64;
    loop {
        let minorant = walk(&below, high, low);
        let majorant = walk(&above, low, high);
        let Some(gap) = widest_gap(x, &minorant, &majorant) else {
            break;
        };
        if gap.width < dip {
            break;
        }
        let left = deviation_left(x, &minorant[gap.minorant..]);
        let right = deviation_right(x, &majorant[gap.majorant..]);
        dip = dip.max(left).max(right);
        let (next_low, next_high) = (minorant[gap.minorant], majorant[gap.majorant]);
        if (next_low, next_high) == (low, high) {
            break;
        }
        (low, high) = (next_low, next_high);
    }
    dip / (2.0 * float(n))
}

/// For each point, the previous corner of the greatest convex minorant of the points up to it.
fn hull_below(x: &[f64]) -> Vec<usize> {
    let mut previous = vec![0; x.len()];
    for j in 1..x.len() {
        let mut at = j - 1;
        while at > 0 {
            let before = previous[at];
            let keeps = (x[j] - x[at]) * float(at - before) < (x[at] - x[before]) * float(j - at);
            if keeps {
                break;
            }
            at = before;
        }
        previous[j] = at;
    }
    previous
}

/// For each point, the next corner of the least concave majorant of the points from it on.
fn hull_above(x: &[f64]) -> Vec<usize> {
    let last = x.len() - 1;
    let mut next = vec![last; x.len()];
    for k in (0..last).rev() {
        let mut at = k + 1;
        while at < last {
            let after = next[at];
            let keeps = (x[at] - x[k]) * float(after - at) < (x[after] - x[at]) * float(at - k);
            if keeps {
                break;
            }
            at = after;
        }
        next[k] = at;
    }
    next
}

/// The corners from `start` to `stop`, both included, along a hull's links.
fn walk(links: &[usize], start: usize, stop: usize) -> Vec<usize> {
    let mut corners = vec![start];
    let mut at = start;
    while at != stop {
        at = links[at];
        corners.push(at);
    }
    corners
}

/// Where minorant and majorant lie farthest apart: the width, and the positions in both corner lists.
struct Gap {
    width: f64,
    minorant: usize,
    majorant: usize,
}

/// `minorant` runs downwards (from high to low), `majorant` upwards. `None` where both are a single segment and the dip
/// cannot grow.
fn widest_gap(x: &[f64], minorant: &[usize], majorant: &[usize]) -> Option<Gap> {
    let (lowest, highest) = (minorant.len() - 1, majorant.len() - 1);
    let mut gap = Gap {
        width: 0.0,
        minorant: lowest,
        majorant: highest,
    };
    if lowest == 1 && highest == 1 {
        gap.width = 1.0;
        return Some(gap);
    }
    let (mut down, mut up) = (lowest - 1, 1);
    loop {
        let (g, l) = (minorant[down], majorant[up]);
        if g > l {
            let g0 = minorant[down + 1];
            let line = (x[l] - x[g0]) * float(g - g0) / (x[g] - x[g0]);
            let width = float(l + 1 - g0) - line;
            if width >= gap.width {
                gap = Gap {
                    width,
                    minorant: down + 1,
                    majorant: up,
                };
            }
            up += 1;
        } else {
            let l0 = majorant[up - 1];
            let line = (x[g] - x[l0]) * float(l - l0) / (x[l] - x[l0]);
            let width = line - (float(g) - float(l0) - 1.0);
            if width >= gap.width {
                gap = Gap {
                    width,
                    minorant: down,
                    majorant: up,
                };
            }
            if down == 0 {
                break;
            }
            down -= 1;
        }
        up = up.min(highest);
        if minorant[down] == majorant[up] {
            break;
        }
    }
    (gap.width > 0.0).then_some(gap)
}

/// The largest rise of the empirical function above the minorant's segments.
fn deviation_left(x: &[f64], corners: &[usize]) -> f64 {
    let segments = corners.windows(2).map(|pair| (pair[1], pair[0]));
    segments
        .map(|(from, to)| deviation(x, from, to, |over| over + 1.0))
        .fold(0.0, f64::max)
}

/// The largest fall of the empirical function below the majorant's segments.
fn deviation_right(x: &[f64], corners: &[usize]) -> f64 {
    let segments = corners.windows(2).map(|pair| (pair[0], pair[1]));
    segments
        .map(|(from, to)| deviation(x, from, to, |over| 1.0 - over))
        .fold(0.0, f64::max)
}

fn deviation(x: &[f64], from: usize, to: usize, turn: impl Fn(f64) -> f64) -> f64 {
    if to - from <= 1 || x[to] <= x[from] {
        return 1.0;
    }
    let slope = float(to - from) / (x[to] - x[from]);
    (from..=to)
        .map(|j| turn(float(j - from) - (x[j] - x[from]) * slope))
        .fold(1.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_separate_humps_are_seen() {
        let values: Vec<f64> = (0..200)
            .map(|i| f64::from(i * 37 % 100) / 100.0 + if i < 120 { 0.0 } else { 5.0 })
            .collect();
        let test = dip_test(&Sample::of(&values).unwrap(), 1).unwrap();
        assert!(test.p < 0.01 && test.dip > 0.1, "{test:?}");
    }

    #[test]
    fn evenly_spread_values_have_the_smallest_dip() {
        let values: Vec<f64> = (0..100).map(f64::from).collect();
        let test = dip_test(&Sample::of(&values).unwrap(), 1).unwrap();
        assert!((test.dip - 0.005).abs() < 1e-9 && test.p > 0.99, "{test:?}");
    }

    #[test]
    fn equal_values_are_one_mode() {
        assert!((dip_of(&[2.0; 8]) - 1.0 / 16.0).abs() < 1e-12);
    }
}
