//! Output against load, with the fitted law and the ideal.

use bench_schema::{CellRecord, Interval, RunRecord};
use serde_json::json;

use super::{levels, span_words, times};
use crate::figure::{Figure, Plot, level_axis, value_axis};
use crate::number::short;
use crate::tables;

/// Of tokens, or of requests; those of requests are the chart to begin with where no tokens are known.
pub(super) fn figure(run: &RunRecord, tokens: bool) -> Option<Figure> {
    let (cells, at, name) = levels(run)?;
    let counted = cells.iter().any(|cell| rate(cell, true).is_some());
    let (id, series, axis, what, unit) = match (tokens, counted) {
        (true, true) => (
            "throughput",
            "output tokens/s",
            "output (tokens/s)",
            "Output",
            "tokens/s",
        ),
        (true, false) => return None,
        (false, _) => {
            let id = if counted {
                "request-rate"
            } else {
                "throughput"
            };
            (
                id,
                "requests/s",
                "requests/s",
                "The request rate",
                "requests/s",
            )
        }
    };
    let seen: Vec<_> = cells.iter().map(|cell| rate(cell, tokens)).collect();
    let values: Vec<Option<f64>> = seen.iter().map(|r| r.map(|r| r.0)).collect();
    let spans = (0_u32..)
        .zip(&seen)
        .filter_map(|(i, r)| (*r)?.1.map(|iv| (f64::from(i), iv.low, iv.high)));
    let spans: Vec<_> = spans.collect();
    let mut plot = Plot::new(level_axis(&name, at.iter().copied()), value_axis(axis))
        .bars(series, "@0", &values)
        .whiskers(series, "@0", &spans, (0, 1));
    if let Some(ideal) =
        proportional(&values, &at).filter(|_| !cells.iter().any(|cell| cell.load.is_open()))
    {
        plot = plot
            .levels("proportional to the first level", "@muted", &ideal)
            .with("lineStyle", json!({"type": "dashed", "width": 1.5}))
            .with("showSymbol", false.into());
    }
    if let Some(fitted) = usl(run, &at).filter(|_| tokens) {
        plot = plot
            .levels("fitted scalability law", "@1", &fitted)
            .with("showSymbol", false.into())
            .with("smooth", 0.3.into());
    }
    let title = title(&values, (&at, &name), (what, unit))?;
    let note = "Bars with 95 % intervals; rates are over the steady window where one was found.";
    Some(
        Figure::new(id, title, plot)
            .note(note)
            .table(tables::sweep(run)),
    )
}

/// From the first level to the last.
fn title(
    values: &[Option<f64>],
    (at, name): (&[f64], &str),
    (what, unit): (&str, &str),
) -> Option<String> {
    let (first, last) = (
        values.first().copied().flatten()?,
        values.last().copied().flatten()?,
    );
    let (from, to) = (at.first()?, at.last()?);
    let (x, y) = (short(first), short(last));
    let span = span_words(name, *from, *to);
    Some(if last >= first {
        format!(
            "{what} rises {} from {span}: {x} → {y} {unit}",
            times(last / first)
        )
    } else {
        format!("{what} falls from {x} to {y} {unit} from {span}")
    })
}

/// The headline rate of a cell with its interval.
fn rate(cell: &CellRecord, tokens: bool) -> Option<(f64, Option<Interval>)> {
    let rates = cell.headline_rates()?;
    if tokens {
        Some((
            rates.output_tokens_per_s?,
            rates.output_tokens_per_s_interval,
        ))
    } else {
        Some((rates.requests_per_s, rates.requests_per_s_interval))
    }
}

/// What the first level promises, as far as the chart reaches.
fn proportional(values: &[Option<f64>], at: &[f64]) -> Option<Vec<Option<f64>>> {
    let first = values.first().copied().flatten()?;
    let base = at.first().copied().filter(|&level| level > 0.0)?;
    let best = values.iter().flatten().copied().fold(0.0, f64::max);
    Some(
        at.iter()
            .map(|level| Some(first * level / base).filter(|&x| x <= best * 1.6))
            .collect(),
    )
}

/// The universal scalability law at each level, from the stored parameters.
fn usl(run: &RunRecord, at: &[f64]) -> Option<Vec<Option<f64>>> {
    let parameters = &run.analysis.fits.get("usl")?.parameters;
    let named = |name: &str| parameters.get(name).copied();
    let (lambda, sigma, kappa) = (named("lambda")?, named("sigma")?, named("kappa")?);
    Some(
        at.iter()
            .map(|n| Some(lambda * n / (1.0 + sigma * (n - 1.0) + kappa * n * (n - 1.0))))
            .collect(),
    )
}
