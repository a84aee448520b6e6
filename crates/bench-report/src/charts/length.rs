//! Latency and speed against the length of the answer, with the fitted line.

use std::collections::BTreeMap;

use bench_schema::{CellRecord, Metric, RunRecord};

use crate::figure::{Figure, Plot, value_axis};
use crate::number::short;
use crate::tables;

/// Curves by prompt: points of output tokens, cell.
type Curves<'a> = BTreeMap<String, Vec<(f64, &'a CellRecord)>>;

fn curves(run: &RunRecord) -> Option<Curves<'_>> {
    let mut curves: Curves<'_> = BTreeMap::new();
    for cell in &run.cells {
        let Some(tokens) = cell
            .factors
            .get("output_tokens")
            .and_then(bench_schema::Factor::as_number)
        else {
            continue;
        };
        let prompt = ["prompt", "prompt_tokens", "input_tokens"]
            .iter()
            .find_map(|name| cell.factors.get(*name));
        let name = prompt.map_or_else(
            || "all prompts".to_owned(),
            |p| match p.as_number() {
                Some(n) => format!("{n} prompt tokens"),
                None => format!("{p} prompt"),
            },
        );
        curves.entry(name).or_default().push((tokens, cell));
    }
    for points in curves.values_mut() {
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    curves
        .values()
        .any(|points| points.len() > 1)
        .then_some(curves)
}

/// Mean E2E against output tokens.
pub(super) fn latency(run: &RunRecord) -> Option<Figure> {
    let curves = curves(run)?;
    let mut plot = Plot::new(value_axis("output tokens"), value_axis("mean E2E (ms)")).linear();
    for (i, (name, points)) in curves.iter().enumerate() {
        let seen = points
            .iter()
            .filter_map(|(tokens, cell)| Some((*tokens, cell.headline(Metric::E2e)?)));
        let seen: Vec<_> = seen.collect();
        let means: Vec<(f64, f64)> = seen
            .iter()
            .map(|(tokens, d)| (*tokens, d.mean / 1e6))
            .collect();
        let spans: Vec<_> = seen
            .iter()
            .filter_map(|(tokens, d)| {
                d.mean_interval
                    .map(|iv| (*tokens, iv.low / 1e6, iv.high / 1e6))
            })
            .collect();
        plot = plot.line(name, &format!("@{i}"), &means).whiskers(
            name,
            &format!("@{i}"),
            &spans,
            (0, 1),
        );
    }
    let mut title = "Mean latency against the length of the answer".to_owned();
    let mut note = "Means with 95 % intervals.".to_owned();
    let longest = curves.values().flatten().map(|p| p.0).fold(0.0, f64::max);
    if let Some((intercept, slope, r2)) = linear(run) {
        plot = plot.dashed(
            "linear fit",
            "@muted",
            &[(0.0, intercept), (longest, intercept + slope * longest)],
        );
        title = format!("Each output token costs {} ms", short(slope));
        note = format!(
            "Means with 95 % intervals; the line fits with R² = {}.",
            tables::significant(r2)
        );
    }
    Some(
        Figure::new("length-latency", title, plot)
            .note(note)
            .table(tables::grid(run)),
    )
}

/// Intercept and slope in milliseconds, and R², of the stored fit (which is in nanoseconds).
fn linear(run: &RunRecord) -> Option<(f64, f64, f64)> {
    let fit = run.analysis.fits.get("latency_by_output_tokens")?;
    let (a, b) = (fit.parameters.get("a")?, fit.parameters.get("b")?);
    Some((a / 1e6, b / 1e6, fit.r_squared?))
}

/// Tokens per second of one answer against its length.
pub(super) fn speed(run: &RunRecord) -> Option<Figure> {
    let curves = curves(run)?;
    let mut plot = Plot::new(
        value_axis("output tokens"),
        value_axis("output speed (tokens/s)").min(0.0),
    );
    let mut all = Vec::new();
    for (i, (name, points)) in curves.iter().enumerate() {
        let seen = points.iter().filter_map(|(tokens, cell)| {
            let ms = cell.analysis.ms_per_token.filter(|&ms| ms > 0.0)?;
            Some((*tokens, 1000.0 / ms))
        });
        let seen: Vec<(f64, f64)> = seen.collect();
        all.extend(seen.iter().map(|p| p.1));
        plot = plot.line(name, &format!("@{i}"), &seen);
    }
    let (least, most) = (
        all.iter().copied().fold(f64::INFINITY, f64::min),
        all.iter().copied().fold(0.0, f64::max),
    );
    if all.len() < 2 {
        return None;
    }
    let title = format!(
        "One answer runs at {} to {} tokens/s, whatever its length",
        short(least),
        short(most)
    );
    let title = if most > least * 1.25 {
        title.replace(", whatever its length", ", depending on its length")
    } else {
        title
    };
    Some(
        Figure::new("length-speed", title, plot)
            .note("Output tokens over the whole of E2E, the wait for the first token included.")
            .table(tables::grid(run)),
    )
}
