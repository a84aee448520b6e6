//! Shapes: a smooth density on a grid (violins, modes), and means over bins of time.

use crate::num::{float, floor_index};
use crate::sample::Sample;

/// A kernel density estimate on an even grid.
#[derive(Clone, Debug, PartialEq)]
pub struct Density {
    /// Grid points, ascending, in the unit of the sample.
    pub at: Vec<f64>,
    /// Density at each grid point; its integral is 1.
    pub density: Vec<f64>,
    /// Standard deviation of the Gaussian kernel.
    pub bandwidth: f64,
}

/// A hump of a density.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Peak {
    /// Where it is highest.
    pub at: f64,
    /// Its height.
    pub density: f64,
    /// The share of the density between the valleys around it.
    pub share: f64,
}

impl Density {
    /// Gaussian kernel with Silverman's bandwidth `0.9·min(sd, IQR/1.34)·n^(−1/5)`, over three bandwidths beyond the data.
    ///
    /// `None` for fewer than two different values or fewer than two grid points. Cost: O(n + grid²).
    pub fn of(sample: &Sample, grid: usize) -> Option<Self> {
        let sd = sample.sd().filter(|sd| *sd > 0.0)?;
        let iqr = (sample.quantile(0.75) - sample.quantile(0.25)) / 1.34;
        let spread = if iqr > 0.0 { sd.min(iqr) } else { sd };
        let bandwidth = 0.9 * spread * float(sample.len()).powf(-0.2);
        if grid < 2 || bandwidth <= 0.0 {
            return None;
        }
        let start = sample.min() - 3.0 * bandwidth;
        let step = (sample.max() + 3.0 * bandwidth - start) / float(grid - 1);
        let weights = spread_over_grid(sample, start, step, grid);
        let reach = floor_index(5.0 * bandwidth / step) + 1;
        let norm = 1.0 / (bandwidth * (2.0 * std::f64::consts::PI).sqrt() * float(sample.len()));
        let kernel: Vec<f64> = (0..=reach)
            .map(|i| norm * (-0.5 * (float(i) * step / bandwidth).powi(2)).exp())
            .collect();
        let density = (0..grid)
            .map(|g| {
                let near = g.saturating_sub(reach)..(g + reach + 1).min(grid);
                near.map(|h| weights[h] * kernel[g.abs_diff(h)]).sum()
            })
            .collect();
        let at = (0..grid).map(|g| start + float(g) * step).collect();
        Some(Self {
            at,
            density,
            bandwidth,
        })
    }

    /// The humps that rise by at least `prominence` (0…1) of the highest one above the deeper valley beside them.
    pub fn peaks(&self, prominence: f64) -> Vec<Peak> {
        let tallest = self.density.iter().copied().fold(0.0, f64::max);
        let mut kept: Vec<usize> = Vec::new();
        let mut valley = 0.0_f64;
        for g in 0..self.density.len() {
            let here = self.density[g];
            valley = valley.min(here);
            let Some(&top) = kept.last() else {
                kept.push(g);
                valley = here;
                continue;
            };
            if here > self.density[top] && self.density[top] - valley < prominence * tallest {
                kept.pop();
                kept.push(g);
                valley = here;
            } else if here - valley >= prominence * tallest
                && self.density[top] - valley >= prominence * tallest
            {
                kept.push(g);
                valley = here;
            }
        }
        self.shares(&kept)
    }

    /// Turns peak positions into peaks, splitting the mass at the lowest point between neighbours.
    fn shares(&self, tops: &[usize]) -> Vec<Peak> {
        let lowest_between = |a: usize, b: usize| {
            (a..=b)
                .min_by(|i, j| self.density[*i].total_cmp(&self.density[*j]))
                .unwrap_or(a)
        };
        let mut edges = vec![0];
        edges.extend(tops.windows(2).map(|pair| lowest_between(pair[0], pair[1])));
        edges.push(self.density.len());
        let total: f64 = self.density.iter().sum();
        let mass = |from: usize, to: usize| self.density[from..to].iter().sum::<f64>() / total;
        tops.iter()
            .zip(edges.windows(2))
            .map(|(&top, edge)| Peak {
                at: self.at[top],
                density: self.density[top],
                share: mass(edge[0], edge[1]),
            })
            .collect()
    }
}

/// Linear binning: each value is shared between the two grid points around it.
fn spread_over_grid(sample: &Sample, start: f64, step: f64, grid: usize) -> Vec<f64> {
    let mut weights = vec![0.0; grid];
    for x in sample.sorted() {
        let place = (x - start) / step;
        let index = floor_index(place).min(grid - 2);
        let part = (place - float(index)).clamp(0.0, 1.0);
        weights[index] += 1.0 - part;
        weights[index + 1] += part;
    }
    weights
}

/// A stretch of time with what fell into it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bin {
    /// Start of the stretch, in the unit of the times.
    pub start: f64,
    /// End of the stretch.
    pub end: f64,
    /// How many points fell into it.
    pub count: usize,
    /// Sum of their values.
    pub sum: f64,
}

impl Bin {
    /// Mean of the values; `None` where nothing fell into the bin.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum / float(self.count))
    }

    /// Sum of the values over the length of the stretch.
    pub fn rate(&self) -> f64 {
        self.sum / (self.end - self.start)
    }
}

/// Sorts `(time, value)` points into `bins` equal stretches of `from..to`; points outside are left out.
///
/// Empty where there are no bins or no time.
pub fn bin_by_time(
    points: impl IntoIterator<Item = (f64, f64)>,
    from: f64,
    to: f64,
    bins: usize,
) -> Vec<Bin> {
    if bins == 0 || to <= from {
        return Vec::new();
    }
    let width = (to - from) / float(bins);
    let edge = |b: usize| from + float(b) * width;
    let mut all: Vec<Bin> = (0..bins)
        .map(|b| Bin {
            start: edge(b),
            end: edge(b + 1),
            count: 0,
            sum: 0.0,
        })
        .collect();
    for (time, value) in points {
        if time >= from && time < to {
            let bin = &mut all[floor_index((time - from) / width).min(bins - 1)];
            bin.count += 1;
            bin.sum += value;
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two_humps() -> Sample {
        let values: Vec<f64> = (0..300)
            .map(|i| {
                let z = f64::from(i * 37 % 100) / 100.0 + f64::from(i * 53 % 100) / 100.0;
                if i % 3 == 0 { 20.0 + z } else { 10.0 + z }
            })
            .collect();
        Sample::of(&values).unwrap()
    }

    #[test]
    fn a_density_integrates_to_one() {
        let density = Density::of(&two_humps(), 256).unwrap();
        let step = density.at[1] - density.at[0];
        let integral: f64 = density.density.iter().sum::<f64>() * step;
        assert!((integral - 1.0).abs() < 0.02, "{integral}");
    }

    #[test]
    fn two_humps_are_found_with_their_shares() {
        let peaks = Density::of(&two_humps(), 256).unwrap().peaks(0.1);
        assert_eq!(peaks.len(), 2, "{peaks:?}");
        assert!(
            (peaks[0].at - 11.0).abs() < 0.5 && (peaks[1].at - 21.0).abs() < 0.5,
            "{peaks:?}"
        );
        assert!((peaks[0].share - 2.0 / 3.0).abs() < 0.05, "{peaks:?}");
    }

    #[test]
    fn equal_values_have_no_density() {
        assert_eq!(Density::of(&Sample::of(&[1.0; 5]).unwrap(), 64), None);
    }

    #[test]
    fn points_outside_the_bins_are_left_out() {
        let bins = bin_by_time(
            [(0.0, 1.0), (0.9, 2.0), (1.0, 4.0), (2.0, 8.0)],
            0.0,
            2.0,
            2,
        );
        let sums: Vec<(usize, u64)> = bins.iter().map(|b| (b.count, b.sum.to_bits())).collect();
        assert_eq!(sums, [(2, 3.0_f64.to_bits()), (1, 4.0_f64.to_bits())]);
    }
}
