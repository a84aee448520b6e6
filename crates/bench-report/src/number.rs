//! Numbers for people: three significant figures, the same number of decimals down a column.

/// Decimals with which each value of a column keeps three significant figures, never more than fit the column's size.
pub(crate) fn decimals(values: impl IntoIterator<Item = f64>) -> usize {
    let mut smallest = f64::INFINITY;
    let mut largest = 0.0_f64;
    let mut whole = true;
    for value in values {
        let size = value.abs();
        whole &= !size.is_finite() || size.fract() < f64::MIN_POSITIVE;
        if size.is_finite() && size > 0.0 {
            smallest = smallest.min(size);
            largest = largest.max(size);
        }
    }
    if whole {
        return 0;
    }
    let most = match largest {
        l if l >= 10_000.0 => 0,
        l if l >= 1_000.0 => 1,
        l if l >= 0.1 => 2,
        _ => 4,
    };
    (0..most)
        .find(|&d| smallest >= 10_f64.powi(2 - i32::try_from(d).unwrap_or(0)) * 0.9995)
        .unwrap_or(most)
}

/// One number alone, with three significant figures.
pub(crate) fn short(value: f64) -> String {
    fixed(value, decimals([value]))
}

/// A share as percent, without the figures that nobody needs at its ends: `< 0.1`, `42.3`, `99.9`.
pub(crate) fn percent(share: f64) -> String {
    let value = share * 100.0;
    match value {
        v if v > 0.0 && v < 0.1 => "< 0.1".to_owned(),
        v if (99.95..100.05).contains(&v) => "100".to_owned(),
        v if v.abs() < f64::MIN_POSITIVE => "0".to_owned(),
        v => fixed(v, 1),
    }
}

/// A number with so many decimals; no negative zero.
pub(crate) fn fixed(value: f64, decimals: usize) -> String {
    if value.is_infinite() {
        return if value > 0.0 { "∞" } else { "-∞" }.to_owned();
    }
    let text = format!("{value:.decimals$}");
    let is_zero = text.chars().all(|c| matches!(c, '-' | '0' | '.'));
    if is_zero {
        text.trim_start_matches('-').to_owned()
    } else {
        text
    }
}

/// A duration in nanoseconds with a fitting unit.
pub(crate) fn duration(ns: f64) -> String {
    if ns >= 120e9 {
        let seconds = (ns / 1e9).round();
        let minutes = (seconds / 60.0).floor();
        return if minutes >= 120.0 {
            format!("{} h {:02} min", (minutes / 60.0).floor(), minutes % 60.0)
        } else {
            format!("{minutes} min {:02} s", seconds % 60.0)
        };
    }
    bench_schema::Nanos::from_f64(ns).to_string()
}

/// The least and the most of some values.
pub(crate) fn ends(values: impl IntoIterator<Item = f64>) -> Option<(f64, f64)> {
    let ends = values.into_iter().map(|value| (value, value));
    ends.reduce(|(low, high), (value, _)| (low.min(value), high.max(value)))
}

/// For charts: four significant figures, so that pages stay small and labels short.
pub(crate) fn rounded(value: f64) -> f64 {
    if !value.is_finite() || value.abs() < f64::MIN_POSITIVE {
        return 0.0;
    }
    let digits = 3.0 - value.abs().log10().floor().clamp(-12.0, 15.0);
    let factor = 10_f64.powf(digits);
    (value * factor).round() / factor
}

#[cfg(test)]
#[path = "../tests/unit/number.rs"]
mod tests;
