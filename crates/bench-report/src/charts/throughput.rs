//! Output against load, with the fitted law and the ideal.

use bench_schema::RunRecord;

use super::{levels, times};
use crate::figure::{Figure, Plot, level_axis, value_axis};
use crate::number::short;
use crate::tables;

pub(super) fn figure(run: &RunRecord) -> Option<Figure> {
    let (cells, at, name) = levels(run)?;
    let tokens = cells.iter().any(|cell| {
        cell.headline_rates()
            .is_some_and(|r| r.output_tokens_per_s.is_some())
    });
    let rate = |cell: &&bench_schema::CellRecord| {
        let rates = cell.headline_rates()?;
        if tokens {
            rates.output_tokens_per_s
        } else {
            Some(rates.requests_per_s)
        }
    };
    let values: Vec<Option<f64>> = cells.iter().map(rate).collect();
    let intervals = cells.iter().map(|cell| {
        let rates = cell.headline_rates()?;
        if tokens {
            rates.output_tokens_per_s_interval
        } else {
            rates.requests_per_s_interval
        }
    });
    let whiskers: Vec<(f64, f64, f64)> = (0_u32..)
        .zip(intervals)
        .filter_map(|(i, interval)| interval.map(|iv| (f64::from(i), iv.low, iv.high)))
        .collect();
    let unit = if tokens {
        "output (tokens/s)"
    } else {
        "requests/s"
    };
    let series = if tokens {
        "output tokens/s"
    } else {
        "requests/s"
    };
    let mut plot = Plot::new(level_axis(&name, at.iter().copied()), value_axis(unit))
        .bars(series, "@0", &values);
    plot = plot.whiskers(series, "@0", &whiskers, (0, 1));
    let first = values.first().copied().flatten()?;
    let base = at.first().copied().filter(|&level| level > 0.0)?;
    let best = values.iter().flatten().copied().fold(0.0, f64::max);
    let ideal: Vec<Option<f64>> = at
        .iter()
        .map(|level| Some(first * level / base).filter(|&x| x <= best * 1.6))
        .collect();
    if !cells.iter().any(|cell| cell.load.is_open()) {
        plot = plot
            .levels("proportional to the first level", "@muted", &ideal)
            .with(
                "lineStyle",
                serde_json::json!({"type": "dashed", "width": 1.5}),
            )
            .with("showSymbol", false.into());
    }
    if let Some(fitted) = usl(run, &at).filter(|_| tokens) {
        plot = plot
            .levels("fitted scalability law", "@1", &fitted)
            .with("showSymbol", false.into())
            .with("smooth", 0.3.into());
    }
    let last = values.last().copied().flatten()?;
    let (from, to) = (at.first()?, at.last()?);
    let what = if tokens { "Output" } else { "The request rate" };
    let unit = if tokens { "tokens/s" } else { "requests/s" };
    let title = if last >= first {
        format!(
            "{what} rises {} from {name} {from} to {to}: {} → {} {unit}",
            times(last / first),
            short(first),
            short(last)
        )
    } else {
        format!(
            "{what} falls from {} {unit} at {name} {from} to {} at {to}",
            short(first),
            short(last)
        )
    };
    Some(
        Figure::new("throughput", title, plot)
            .note("Bars with 95 % intervals; rates are over the steady window where one was found.")
            .table(tables::sweep(run)),
    )
}

/// The universal scalability law at each level, from the stored parameters.
fn usl(run: &RunRecord, at: &[f64]) -> Option<Vec<Option<f64>>> {
    let parameters = &run.analysis.fits.get("usl")?.parameters;
    let named = |names: [&str; 2]| names.iter().find_map(|name| parameters.get(*name)).copied();
    let (lambda, sigma, kappa) = (
        named(["lambda", "λ"])?,
        named(["sigma", "σ"])?,
        named(["kappa", "κ"])?,
    );
    Some(
        at.iter()
            .map(|n| Some(lambda * n / (1.0 + sigma * (n - 1.0) + kappa * n * (n - 1.0))))
            .collect(),
    )
}
