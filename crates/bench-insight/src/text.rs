//! Numbers as words: three significant figures, a unit, never NaN (callers hand in finite values; see `draft`).

use bench_schema::Nanos;

/// A duration given in nanoseconds: `2.54 s`.
pub(crate) fn time(ns: f64) -> String {
    Nanos::from_f64(ns).to_string()
}

/// A share as a percentage: `85 %`, `0.41 %`.
pub(crate) fn percent(share: f64) -> String {
    format!("{} %", figures(share * 100.0, 2))
}

/// A plain number with three significant figures, whole from 100 up.
pub(crate) fn number(x: f64) -> String {
    figures(x, 3)
}

/// A level of a factor: without needless decimals.
pub(crate) fn level(x: f64) -> String {
    if (x - x.round()).abs() < 1e-9 {
        format!("{x:.0}")
    } else {
        figures(x, 3)
    }
}

/// Whole numbers with thousands separated: `397,440`.
pub(crate) fn grouped(x: f64) -> String {
    let plain = format!("{:.0}", x.abs());
    let mut out = String::new();
    for (i, digit) in plain.chars().enumerate() {
        if i > 0 && (plain.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    if x < -0.5 { format!("-{out}") } else { out }
}

/// At least `digits` significant figures; all digits before the point are kept.
fn figures(x: f64, digits: i32) -> String {
    if x.abs() <= 0.0 {
        return "0".to_owned();
    }
    let magnitude = x.abs().log10().floor();
    let after = (f64::from(digits) - 1.0 - magnitude).clamp(0.0, 9.0);
    let precision = (0..10_usize).find(|p| *p as f64 + 0.5 > after).unwrap_or(9);
    // Half away from zero, as people round: `format!` alone makes 62 of 62.5.
    let scale = 10_f64.powf(precision as f64);
    let rounded = (x * scale).round() / scale;
    let shown = format!("{rounded:.precision$}");
    // 9.97 with two figures becomes 10.0: one figure more than asked, but never a wrong one.
    if digits == 2 && shown.ends_with(".0") && x.abs() >= 9.5 {
        return shown.trim_end_matches(".0").to_owned();
    }
    shown
}

/// Whole and grouped from 100 up, three figures below.
pub(crate) fn grouped_or_plain(x: f64) -> String {
    if x.abs() >= 100.0 {
        grouped(x)
    } else {
        number(x)
    }
}

/// `1`, `1 and 2`, `1, 2 and 3`.
pub(crate) fn list(items: &[String]) -> String {
    match items {
        [] => String::new(),
        [one] => one.clone(),
        [head @ .., last] => format!("{} and {last}", head.join(", ")),
    }
}

/// A whole number that is not known to its last digit: three significant figures, grouped.
pub fn rounded(x: f64) -> String {
    let digits = x.abs().max(1.0).log10().floor();
    let step = 10_f64.powf((digits - 2.0).max(0.0));
    grouped((x / step).round() * step)
}

/// `from` alone where both ends look the same, else `from–to`.
pub(crate) fn span(low: f64, high: f64, show: impl Fn(f64) -> String) -> String {
    let (low, high) = (show(low), show(high));
    if low == high {
        return low;
    }
    // One unit for both ends reads better: `75–83 %`.
    match (low.rsplit_once(' '), high.rsplit_once(' ')) {
        (Some((value, unit)), Some((_, other))) if unit == other => format!("{value}–{high}"),
        _ => format!("{low} to {high}"),
    }
}

#[cfg(test)]
#[path = "../tests/unit/text.rs"]
mod tests;
