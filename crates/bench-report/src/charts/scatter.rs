//! Every request by its length, where lengths are spread rather than laid out on a grid.

use bench_metrics::{Sample, linear_fit};
use bench_schema::{Benchmark, RunRecord};

use super::violins;
use crate::figure::{Figure, Plot, value_axis};
use crate::number::short;
use crate::tables;
use crate::trace::{Row, Trace};

/// Points shown: more would only be darker.
const POINTS: usize = 1200;
/// Cells that can be told apart by colour.
const SHOWN: usize = 8;
const LEVEL: f64 = 0.95;
/// A line that explains less of the spread than this says nothing.
const WEAK: f64 = 0.3;

/// What a row is placed by.
type Pick = fn(&Row) -> Option<f64>;

/// E2E against output, TTFT against prompts, speed against output, where a run has requests of many lengths in each cell.
pub(super) fn figures(run: &RunRecord, trace: &Trace) -> Vec<Figure> {
    let lengths: Vec<f64> = trace
        .rows
        .iter()
        .filter_map(|row| row.tokens.map(f64::from))
        .collect();
    let spread = Sample::of(&lengths)
        .is_some_and(|s| s.len() >= 20 && s.quantile(0.9) >= 2.0 * s.quantile(0.1).max(1.0));
    if !spread || run.experiment == Benchmark::Latency {
        return Vec::new();
    }
    [e2e(run, trace), ttft(run, trace), speed(run, trace)]
        .into_iter()
        .flatten()
        .collect()
}

fn output(row: &Row) -> Option<f64> {
    row.tokens.map(f64::from)
}

fn e2e(run: &RunRecord, trace: &Trace) -> Option<Figure> {
    let figure = ("scatter-e2e", "output tokens", "E2E (ms)");
    of(run, trace, figure, (output, Row::e2e_ms), |fit, at| {
        if fit.1 < WEAK {
            format!(
                "E2E hardly follows the length of the answer{at} (R² {})",
                short(fit.1)
            )
        } else {
            let (slope, r2) = (short(fit.0), short(fit.1));
            format!("Each output token adds {slope} ms to E2E{at} (R² {r2})")
        }
    })
}

fn ttft(run: &RunRecord, trace: &Trace) -> Option<Figure> {
    let figure = ("scatter-ttft", "prompt tokens", "TTFT (ms)");
    let ttft: Pick = |row| {
        let first = row.first.filter(|_| row.completed)?;
        Some((first - row.start) * 1e3)
    };
    let prompt: Pick = |row| row.input.map(f64::from);
    of(run, trace, figure, (prompt, ttft), |fit, at| {
        if fit.1 < WEAK {
            format!(
                "TTFT hardly follows the length of the prompt{at} (R² {})",
                short(fit.1)
            )
        } else {
            let (slope, r2) = (short(fit.0 * 1e3), short(fit.1));
            format!("A thousand prompt tokens add {slope} ms to TTFT{at} (R² {r2})")
        }
    })
}

fn speed(run: &RunRecord, trace: &Trace) -> Option<Figure> {
    let figure = ("scatter-speed", "output tokens", "decode speed (tokens/s)");
    let last = u32::try_from(run.cells.len().checked_sub(1)?).ok()?;
    let sample = trace.values(last, Row::speed)?;
    let (low, high) = (short(sample.quantile(0.25)), short(sample.quantile(0.75)));
    of(run, trace, figure, (output, Row::speed), |_, at| {
        format!("Half of the answers are generated at {low} to {high} tokens/s{at}")
    })
}

/// Points of each cell, and a line through those of the last one, which is under most load: through all of them it would be
/// true of none. The title is made of its slope and R², and of where it is.
fn of(
    run: &RunRecord,
    trace: &Trace,
    (id, x, y): (&str, &str, &str),
    (across, up): (Pick, Pick),
    title: impl Fn((f64, f64), &str) -> String,
) -> Option<Figure> {
    let place = |row: &Row| Some((across(row)?, up(row)?));
    let all: Vec<(f64, f64)> = trace.rows.iter().filter_map(place).collect();
    let longest = all.iter().map(|p| p.0).fold(0.0, f64::max);
    let shortest = all.iter().map(|p| p.0).fold(f64::INFINITY, f64::min);
    if all.len() < 20 || longest < 2.0 * shortest.max(1.0) {
        return None;
    }
    let last = run.cells.last()?;
    let index = u32::try_from(run.cells.len() - 1).ok()?;
    let rows = trace.rows.iter().filter(|row| row.cell == index);
    let under_load: Vec<(f64, f64)> = rows.filter_map(place).collect();
    let fit = linear_fit(&under_load, LEVEL)?;
    let mut plot = Plot::new(value_axis(x), value_axis(y).min(0.0))
        .point_at_items()
        .linear();
    let thin = all.len().div_ceil(POINTS).max(1);
    let step = run.cells.len().div_ceil(SHOWN).max(1);
    let mut seen = Vec::new();
    for (shown, (i, cell)) in (0_u32..).zip(&run.cells).step_by(step).enumerate() {
        let rows = trace.rows.iter().filter(|row| row.cell == i);
        let points: Vec<(f64, f64)> = rows.filter_map(place).collect();
        let few: Vec<(f64, f64)> = points.iter().copied().step_by(thin).collect();
        plot = plot
            .points(&tables::label(cell), &format!("@{shown}"), &few)
            .with("symbolSize", 5.into());
        let values: Vec<f64> = points.iter().map(|p| p.1).collect();
        seen.extend(Sample::of(&values).map(|sample| (tables::label(cell), sample)));
    }
    let mut note = "One point for each completed request.".to_owned();
    if thin > 1 {
        note = format!("One point for every {thin} completed requests.");
    }
    if id != "scatter-speed" {
        let line = [shortest, longest].map(|x| (x, fit.at(x)));
        plot = plot.dashed("linear fit", "@muted", &line);
        note.push_str(" The line is a least-squares fit.");
    }
    let at = if run.cells.len() > 1 {
        format!(" at {}", tables::label(last))
    } else {
        String::new()
    };
    Some(
        Figure::new(id, title((fit.slope.value, fit.r2), &at), plot)
            .note(note)
            .table(violins::table(y, &seen)),
    )
}
