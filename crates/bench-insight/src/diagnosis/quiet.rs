//! What requests take where nothing competes with them: a cell at lower load, or the moments of an open loop when few were in flight.

use std::collections::BTreeMap;

use bench_schema::{CellRecord, Load, Metric};

use super::fit::{Line, mean, median, quantile};
use super::load::gap;
use super::look::{Look, Seen};
use crate::view;

/// Requests below which a quiet moment is an accident.
const FEWEST: usize = 8;

/// Times without competition.
#[derive(Clone, Copy, Debug)]
pub(super) struct Quiet {
    /// TTFT of prompts as long as those of the cell that is looked at.
    pub(super) ttft: Option<f64>,
    /// The first tokens that this is of.
    firsts: Option<Firsts>,
    /// Time per token, and the median gap.
    pub(super) tpot: Option<f64>,
    pub(super) gap: Option<f64>,
    /// Whether it is of moments of the cell itself: few are in flight then, or the server was quick and so few were.
    pub(super) own: bool,
    /// By how much slower the server was when the cell was measured than when it was quiet.
    pub(super) by_time: f64,
}

/// First tokens without competition.
#[derive(Clone, Copy, Debug)]
struct Firsts {
    by_prompt: Line,
    n: f64,
    /// Share of them that are late all the same.
    late: f64,
}

impl Firsts {
    fn of(points: &[(f64, f64)]) -> Option<Self> {
        let by_prompt = Line::of(points);
        let late = share_late(by_prompt, points)?;
        let n = points.len() as f64;
        Some(Self { by_prompt, n, late })
    }
}

/// Share of first tokens that come half as late again as the line tells for their prompts, of `(prompt tokens, TTFT)`.
fn share_late(by_prompt: Line, points: &[(f64, f64)]) -> Option<f64> {
    const LATE: f64 = 1.5;
    let is_late = |p: &(f64, f64)| p.1 >= LATE * by_prompt.at(p.0);
    mean(points.iter().map(|p| if is_late(p) { 1.0 } else { 0.0 }))
}

fn firsts(look: &Look<'_>) -> Vec<(f64, f64)> {
    let first = |s: &Seen<'_>| Some((f64::from(s.request.input_tokens?), s.request.ttft?));
    look.seen.iter().filter_map(first).collect()
}

impl Quiet {
    /// Whether more first tokens are late than without competition, by more than chance makes: some may be late whoever else is there.
    pub(super) fn fewer_are_late(&self, look: &Look<'_>) -> bool {
        const ERRORS: f64 = 2.5;
        let now = firsts(look);
        let both = self.firsts.and_then(|quiet| {
            let late = share_late(quiet.by_prompt, &now)?;
            Some((quiet, late, now.len() as f64))
        });
        both.is_none_or(|(quiet, late, n)| {
            let all = (quiet.late * quiet.n + late * n) / (quiet.n + n);
            let error = (all * (1.0 - all) * (1.0 / quiet.n + 1.0 / n)).sqrt();
            late - quiet.late >= ERRORS * error
        })
    }

    /// For a cell: requests that were sent one at a time, beside an open loop; the lowest level of its series where that is at most half of its own;
    /// else its own quiet moments.
    pub(super) fn of(look: &Look<'_>, all: &[Look<'_>]) -> Option<Self> {
        Self::of_one_at_a_time(look, all)
            .or_else(|| Self::of_lower_level(look, all))
            .or_else(|| Self::of_quiet_moments(look))
    }

    /// As a search begins.
    fn of_one_at_a_time(look: &Look<'_>, all: &[Look<'_>]) -> Option<Self> {
        let is_alone = |other: &&Look<'_>| {
            matches!(other.cell.load, Load::Closed { concurrency: 1, .. })
                && other.cell.plan.dataset == look.cell.plan.dataset
        };
        let base = all.iter().find(is_alone).filter(|_| look.is_open())?;
        Some(Self::at(base, look))
    }

    fn of_lower_level(look: &Look<'_>, all: &[Look<'_>]) -> Option<Self> {
        let lowest = look.lowest?;
        let base = all.iter().find(|other| std::ptr::eq(other.cell, lowest))?;
        Some(Self::at(base, look))
    }

    /// What a cell's requests would take in a quieter one.
    fn at(base: &Look<'_>, look: &Look<'_>) -> Self {
        Self {
            ttft: ttft_of(base, look),
            firsts: Firsts::of(&firsts(base)),
            tpot: base.tpot().or_else(|| gap(base.cell)),
            gap: gap(base.cell),
            own: false,
            by_time: look.slowed / base.slowed,
        }
    }

    fn of_quiet_moments(look: &Look<'_>) -> Option<Self> {
        // Where the server became slower, the quick times are not the quiet ones.
        if !look.is_open() && !look.load_moves() || look.changed {
            return None;
        }
        let counts: Vec<f64> = look.seen.iter().map(|s| s.in_flight).collect();
        let few = quantile(counts.clone(), 0.1)?;
        let many = quantile(counts, 0.75)?;
        let quiet: Vec<_> = look.seen.iter().filter(|s| s.in_flight <= few).collect();
        if quiet.len() < FEWEST || few > many / 3.0 {
            return None;
        }
        let points: Vec<(f64, f64)> = quiet
            .iter()
            .filter_map(|s| {
                Some((
                    f64::from(s.request.input_tokens.unwrap_or(0)),
                    s.request.ttft?,
                ))
            })
            .collect();
        let input = look.mean(|r| Some(f64::from(r.input_tokens.unwrap_or(0))))?;
        Some(Self {
            ttft: (points.len() >= FEWEST).then(|| Line::of(&points).at(input)),
            firsts: Firsts::of(&points),
            tpot: median(quiet.iter().filter_map(|s| s.request.tpot()).collect()),
            gap: None,
            own: true,
            by_time: 1.0,
        })
    }
}

/// For each cell by its id the lowest level of its series, where that is at most half of its own.
pub(super) fn lowest_levels(cells: &[CellRecord]) -> BTreeMap<&str, &CellRecord> {
    let mut lowest = BTreeMap::new();
    let series = view::load_series(cells);
    let series = series.filter(|(factor, _)| !view::DEVICE_FACTORS.contains(factor));
    for members in series.map_or_else(Vec::new, |(_, series)| series) {
        let Some((level, base)) = members.first().copied() else {
            continue;
        };
        let higher = members.iter().filter(|(own, _)| level <= own / 2.0);
        lowest.extend(higher.map(|(_, cell)| (cell.id.as_str(), base)));
    }
    lowest
}

/// TTFT of the quiet cell for prompts as long as those of the other; of tables, its median where lengths are alike.
fn ttft_of(base: &Look<'_>, look: &Look<'_>) -> Option<f64> {
    let points = firsts(base);
    if points.is_empty() || look.seen.is_empty() {
        let alike = |a: &CellRecord, b: &CellRecord| {
            let lengths = view::input_tokens(a).zip(view::input_tokens(b));
            lengths.is_none_or(|(a, b)| (a - b).abs() <= 0.2 * a.max(b))
        };
        return view::quantile(base.cell, Metric::Ttft, 0.5)
            .filter(|_| alike(base.cell, look.cell));
    }
    let input = mean(
        look.seen
            .iter()
            .filter_map(|s| s.request.input_tokens.map(f64::from)),
    )?;
    Some(Line::of(&points).at(input))
}
