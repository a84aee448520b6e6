//! Least squares of which most coefficients are not negative, and the best step of a series.

/// The coefficients of columns whose sum comes nearest to a target; all but the last `free` are not negative. Those that would be are left out, the worst
/// first, and so is what other columns say already.
pub(super) fn solve(columns: &[Vec<f64>], free: usize, target: &[f64]) -> Vec<f64> {
    let row = |i: usize| columns[..=i].iter().map(|b| dot(&columns[i], b)).collect();
    let gram: Vec<Vec<f64>> = (0..columns.len()).map(row).collect();
    let right: Vec<f64> = columns.iter().map(|a| dot(a, target)).collect();
    let bound = columns.len() - free;
    let mut active: Vec<usize> = (0..columns.len()).collect();
    loop {
        let solved = match of_active(&gram, &right, &active) {
            Ok(solved) => solved,
            Err(dependent) => {
                active.remove(dependent);
                continue;
            }
        };
        let negative = active.iter().zip(&solved).enumerate();
        let negative = negative.filter(|(_, (column, b))| **column < bound && **b < 0.0);
        let size = |column: usize, b: f64| b * gram[column][column].sqrt();
        let worst = negative.min_by(|(_, a), (_, b)| size(*a.0, *a.1).total_cmp(&size(*b.0, *b.1)));
        let Some((worst, _)) = worst else {
            let mut all = vec![0.0; columns.len()];
            for (column, b) in active.iter().zip(solved) {
                all[*column] = b;
            }
            return all;
        };
        active.remove(worst);
    }
}

/// The sum of the products, in several sums at once: one alone waits for each addition, and this is where most of a fit's time goes.
fn dot(a: &[f64], b: &[f64]) -> f64 {
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<8>(), b.as_chunks::<8>());
    let mut sums = [0.0; 8];
    for (a, b) in a.iter().zip(b) {
        for (sum, (a, b)) in sums.iter_mut().zip(a.iter().zip(b)) {
            *sum += a * b;
        }
    }
    let rest = a_rest.iter().zip(b_rest).map(|(a, b)| a * b);
    sums.into_iter().chain(rest).sum()
}

/// By Cholesky's factor; the place of a column that depends on those before it.
fn of_active(gram: &[Vec<f64>], right: &[f64], active: &[usize]) -> Result<Vec<f64>, usize> {
    const DEPENDS: f64 = 1e-9;
    let n = active.len();
    let mut factor = vec![vec![0.0; n]; n];
    let mut solved = vec![0.0; n];
    for i in 0..n {
        for j in 0..=i {
            let known: f64 = (0..j).map(|m| factor[i][m] * factor[j][m]).sum();
            let rest = gram[active[i]][active[j]] - known;
            if i > j {
                factor[i][j] = rest / factor[j][j];
            } else if rest > DEPENDS * gram[active[i]][active[i]] {
                factor[i][i] = rest.sqrt();
            } else {
                return Err(i);
            }
        }
        let known: f64 = (0..i).map(|m| factor[i][m] * solved[m]).sum();
        solved[i] = (right[active[i]] - known) / factor[i][i];
    }
    for i in (0..n).rev() {
        let known: f64 = (i + 1..n).map(|m| factor[m][i] * solved[m]).sum();
        solved[i] = (solved[i] - known) / factor[i][i];
    }
    Ok(solved)
}

/// Values as two levels, parted where these leave least.
pub(super) struct TwoLevels {
    /// Values before the step.
    pub(super) n: usize,
    pub(super) before: f64,
    pub(super) after: f64,
    /// Squares around the two means, and those that one mean leaves beyond these.
    pub(super) left: f64,
    gain: f64,
}

/// Of some values in their order, each level of at least so many.
pub(super) fn two_levels(values: &[f64], least: usize) -> Option<TwoLevels> {
    let (sum, squares) = values
        .iter()
        .fold((0.0, 0.0), |(sum, squares), x| (sum + x, squares + x * x));
    let mut so_far = 0.0;
    let steps = values.iter().enumerate().map(|(i, value)| {
        so_far += value;
        let (n, rest) = ((i + 1) as f64, (values.len() - i - 1) as f64);
        let (before, after) = (so_far / n, (sum - so_far) / rest);
        let told = n * before * before + rest * after * after;
        TwoLevels {
            n: i + 1,
            before,
            after,
            left: squares - told,
            gain: told - sum * sum / (n + rest),
        }
    });
    let enough = |two: &TwoLevels| two.n.min(values.len() - two.n) >= least.max(1);
    steps
        .filter(enough)
        .min_by(|a, b| a.left.total_cmp(&b.left))
}

/// When one of the stretches that some times part is best parted in two, each of which has so many points.
pub(super) fn steps_of(points: &[(f64, f64)], times: &[f64], least: usize) -> Option<f64> {
    let mut edges: Vec<usize> = times
        .iter()
        .map(|at| points.partition_point(|p| p.0 < *at))
        .collect();
    edges.insert(0, 0);
    edges.push(points.len());
    let parted = edges.windows(2).filter_map(|ends| {
        let own = points.get(ends[0]..ends[1])?;
        let values: Vec<f64> = own.iter().map(|p| p.1).collect();
        let two = two_levels(&values, least)?;
        Some((own.get(two.n)?.0, two.gain))
    });
    parted.max_by(|a, b| a.1.total_cmp(&b.1)).map(|(at, _)| at)
}

/// A line that a few strange points do not move: the median of slopes between points far apart in the list (Theil–Sen, thinned).
#[derive(Clone, Copy, Debug)]
pub(super) struct Line {
    pub(super) intercept: f64,
    pub(super) slope: f64,
}

impl Line {
    pub(super) fn of(points: &[(f64, f64)]) -> Self {
        let n = points.len();
        let mut slopes = Vec::new();
        for offset in [n / 2, n / 3, n / 5, 1] {
            for (a, b) in points.iter().zip(points.iter().skip(offset.max(1))) {
                if (b.0 - a.0).abs() > 0.0 {
                    slopes.push((b.1 - a.1) / (b.0 - a.0));
                }
            }
        }
        let slope = median(slopes).filter(|s| *s > 0.0).unwrap_or(0.0);
        let rest = points.iter().map(|p| p.1 - slope * p.0).collect();
        Self {
            intercept: median(rest).unwrap_or(0.0),
            slope,
        }
    }

    pub(super) fn at(self, x: f64) -> f64 {
        self.intercept + self.slope * x
    }
}

/// Squares of values around their mean, in all.
pub(super) fn squares(values: impl Iterator<Item = f64> + Clone) -> f64 {
    let level = mean(values.clone()).unwrap_or(0.0);
    values.map(|value| (value - level).powi(2)).sum()
}

pub(super) fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (n, sum) = values.fold((0_u64, 0.0), |(n, sum), value| (n + 1, sum + value));
    (n > 0).then(|| sum / n as f64)
}

pub(crate) fn median(values: Vec<f64>) -> Option<f64> {
    quantile(values, 0.5)
}

/// An order statistic near a quantile.
pub(crate) fn quantile(mut values: Vec<f64>, q: f64) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let last = values.len().checked_sub(1)?;
    let wanted = q * last as f64;
    let index = (0..=last).find(|i| *i as f64 + 0.5 > wanted)?;
    values.get(index).copied()
}
