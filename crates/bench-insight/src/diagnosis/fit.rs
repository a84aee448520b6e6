//! Least squares of which most coefficients are not negative, and the best step of a series.

/// The coefficients of columns whose sum comes nearest to a target; all but the last `free` are not negative. Those that would be are left out, the worst
/// first, and so is what other columns say already.
pub(super) fn solve(columns: &[Vec<f64>], free: usize, target: &[f64]) -> Vec<f64> {
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
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
        let (n, sum) = (own.len() as f64, own.iter().map(|p| p.1).sum::<f64>());
        let mut before = 0.0;
        let parted = own.iter().enumerate().map(|(i, p)| {
            let (left, rest) = (i as f64, n - i as f64);
            let gain = before * before / left + (sum - before).powi(2) / rest - sum * sum / n;
            before += p.1;
            (i, gain, p.0)
        });
        let enough = |(i, ..): &(usize, f64, f64)| *i >= least && i + least <= own.len();
        parted.filter(enough).max_by(|a, b| a.1.total_cmp(&b.1))
    });
    parted.max_by(|a, b| a.1.total_cmp(&b.1)).map(|(.., at)| at)
}
