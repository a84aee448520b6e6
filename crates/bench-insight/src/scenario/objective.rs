//! One objective: reading it, and judging a distribution by it.

use bench_schema::{Distribution, Interval, Metric, Slo, SloVerdict, Unit};

/// The verdict that a distribution gives: by the quantile's interval, else by what is known of the share within the limit, by its value where
/// nothing tells how well it is known (a published table), and `fail` where so many requests failed that the quantile is +∞.
pub fn judge(
    distribution: &Distribution,
    slo: &Slo,
) -> (Option<f64>, Option<Interval>, SloVerdict) {
    let with_failures = distribution
        .with_failures
        .as_ref()
        .and_then(|v| v.quantiles.iter().find(|(q, _)| (q - slo.q).abs() < 1e-9));
    if let Some((_, None)) = with_failures {
        return (None, None, SloVerdict::Fail);
    }
    let Some(entry) = distribution.quantile_entry(slo.q) else {
        return (None, None, SloVerdict::CannotTell);
    };
    let value = with_failures
        .and_then(|(_, value)| *value)
        .unwrap_or(entry.value);
    let by_share = || bench_metrics::verdict_of_distribution(distribution, slo.q, slo.limit);
    let ends = entry
        .interval
        .map(|i| (i.low.min(value), i.high.max(value)));
    let verdict = match ends {
        Some((_, high)) if high <= slo.limit => SloVerdict::Pass,
        Some((low, _)) if low > slo.limit => SloVerdict::Fail,
        Some(_) => by_share().unwrap_or(SloVerdict::CannotTell),
        None => by_share().unwrap_or(if value <= slo.limit {
            SloVerdict::Pass
        } else {
            SloVerdict::Fail
        }),
    };
    (Some(value), entry.interval, verdict)
}

/// Reads an objective, `[pNN:]METRIC=LIMIT[@USE_CASE]`: `ttft=200ms`, `p90:e2e=2s`, `e2e=1.5s@short-qa`. The quantile is p95
/// unless named; a time has a unit.
///
/// # Errors
/// Which part is wrong, and what is known.
pub fn parse_slo(text: &str) -> Result<Slo, String> {
    let (text, use_case) = match text.rsplit_once('@') {
        Some((rest, name)) => (rest, Some(name.trim().to_owned())),
        None => (text, None),
    };
    let (q, rest) = match text.split_once(':') {
        Some((quantile, rest)) => (quantile_of(quantile.trim())?, rest),
        None => (0.95, text),
    };
    let (name, limit) = rest
        .split_once('=')
        .ok_or_else(|| "there is no `=`; write `p95:e2e=1.5s`".to_owned())?;
    let metric: Metric = name.trim().parse()?;
    let limit = limit.trim();
    let split = limit
        .find(|c: char| c.is_alphabetic())
        .unwrap_or(limit.len());
    let (digits, unit) = limit.split_at(split);
    let value: f64 = digits
        .trim()
        .parse()
        .ok()
        .filter(|x: &f64| x.is_finite() && *x > 0.0)
        .ok_or_else(|| format!("`{limit}` is no limit; write `1.5s` or `200ms`"))?;
    let factor = match (metric.unit(), unit.trim()) {
        (Unit::Ns, "us" | "µs") => 1e3,
        (Unit::Ns, "ms") => 1e6,
        (Unit::Ns, "s") => 1e9,
        (Unit::Ns, other) => {
            return Err(format!("`{other}` is no unit of time; write us, ms or s"));
        }
        (_, "") => 1.0,
        (_, other) => {
            return Err(format!(
                "{name} has no unit `{other}`; write a plain number"
            ));
        }
    };
    Ok(Slo {
        metric,
        q,
        limit: value * factor,
        use_case,
    })
}

fn quantile_of(text: &str) -> Result<f64, String> {
    text.strip_prefix('p')
        .and_then(|digits| digits.parse::<f64>().ok())
        .filter(|p| *p > 0.0 && *p < 100.0)
        .map(|p| p / 100.0)
        .ok_or_else(|| format!("`{text}` is no quantile; write p50, p95 or p99.9"))
}
