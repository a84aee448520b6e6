//! The few conversions and sums that the statistics share; the only place where a float becomes an index.

pub(crate) use bench_schema::index as floor_index;

/// The smallest whole number not below `x`, as a count; negative and NaN become 0, too large saturates.
pub(crate) fn ceil_count(x: f64) -> usize {
    floor_index(x.ceil())
}

/// A float from a count; exact below 2^53.
pub(crate) fn float(count: usize) -> f64 {
    count as f64
}

/// Arithmetic mean with Neumaier's compensated sum, so that 10^8 nanosecond values lose nothing; `None` when empty.
pub(crate) fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| sum(values.iter().copied()) / float(values.len()))
}

/// Neumaier's compensated sum.
pub(crate) fn sum(values: impl IntoIterator<Item = f64>) -> f64 {
    let (mut total, mut lost) = (0.0_f64, 0.0_f64);
    for x in values {
        let next = total + x;
        lost += if total.abs() >= x.abs() {
            (total - next) + x
        } else {
            (x - next) + total
        };
        total = next;
    }
    total + lost
}

pub(crate) fn squared_deviations(values: &[f64], centre: f64) -> f64 {
    sum(values.iter().map(|x| (x - centre).powi(2)))
}

/// Variance with n − 1; `None` below two values.
pub(crate) fn variance(values: &[f64]) -> Option<f64> {
    let centre = mean(values)?;
    (values.len() > 1).then(|| squared_deviations(values, centre) / float(values.len() - 1))
}

/// Whether a float is exactly zero, either sign; the one comparison of floats for equality that is meant.
pub(crate) fn is_zero(x: f64) -> bool {
    x.abs() <= 0.0
}

/// The ordinary median of a scratch buffer, which is left sorted; `None` when empty.
pub(crate) fn median_in_place(values: &mut [f64]) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    let mid = values.len() / 2;
    let high = *values.get(mid)?;
    Some(if values.len() % 2 == 1 {
        high
    } else {
        f64::midpoint(values[mid - 1], high)
    })
}

#[cfg(test)]
#[path = "../tests/unit/num.rs"]
mod tests;
