//! When requests start in an open loop.

use std::path::Path;

use bench_schema::{ArrivalKind, Nanos};

use crate::{Draw, WorkloadError, bounded};

/// Due times of an open loop: offsets from the cell's start, absolute and never decreasing.
///
/// A unit-rate process (even, exponential or gamma gaps, or groups) gives the *area* under the rate curve at which each
/// request is due; the curve turns areas into times. So every process works with every curve, and nothing drifts: no due
/// time depends on when an earlier request was really sent.
///
/// Even and grouped arrivals start at 0, the others after their first gap, as the processes do. Ramps, steps and series
/// are Poisson processes with a moving rate.
#[derive(Clone, Debug)]
pub struct Arrivals {
    gaps: Gaps,
    curve: RateCurve,
    draw: Draw,
    index: u64,
    area: f64,
    /// Factor on the random gaps; see [`Arrivals::new`].
    stretch: f64,
}

/// Beyond this many requests a plan is not stretched: its own mean is within a thousandth of the asked one anyway, and
/// walking it would cost.
const MOST_STRETCHED: f64 = 1e6;

#[derive(Clone, Debug)]
enum Gaps {
    Even,
    Exponential,
    Gamma { shape: f64 },
    Groups { size: u64 },
}

/// How long a cell lasts: by time, or by arrivals.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Extent {
    /// Arrivals of the cell: requests, or conversations where it has such.
    pub arrivals: Option<u64>,
    /// Time of the cell.
    pub duration: Option<Nanos>,
}

impl Arrivals {
    /// The arrivals of this kind at this mean rate per second.
    ///
    /// `rate_per_s` is not used by kinds that carry their own rates. Ramps and steps stretch over the extent's duration;
    /// without one, over the time in which they give the extent's arrivals. The times of a trace come with its requests,
    /// not from here.
    ///
    /// A Poisson or gamma process of n arrivals is stretched so that the n-th is due when the rate, steady or moving, makes n: a
    /// short plan would else miss the asked rate by 1 / √n, and a comparison of two rates would compare their luck. The gaps keep their
    /// distribution and their CoV. One that its duration ends first has as many requests as the rate makes in it, the last of them due at its end.
    ///
    /// # Errors
    /// Where a rate or a parameter is not above 0, where a moving rate has no extent, for a series whose file cannot be
    /// read, and for [`ArrivalKind::Trace`].
    pub fn new(
        kind: &ArrivalKind,
        rate_per_s: f64,
        extent: Extent,
        draw: Draw,
    ) -> Result<Self, WorkloadError> {
        let steady = |rate| RateCurve::constant(rate);
        let (gaps, curve) = match kind {
            ArrivalKind::Poisson => (Gaps::Exponential, steady(rate_per_s)?),
            ArrivalKind::Constant => (Gaps::Even, steady(rate_per_s)?),
            ArrivalKind::Gamma { cov } => (Gaps::gamma(*cov)?, steady(rate_per_s)?),
            ArrivalKind::Burst { size } => {
                let size = u64::from(*size).max(1);
                (Gaps::Groups { size }, steady(rate_per_s)?)
            }
            ArrivalKind::Ramp {
                from_per_s,
                to_per_s,
            } => {
                let ends = (*from_per_s, *to_per_s);
                (Gaps::Exponential, RateCurve::ramp(ends, extent)?)
            }
            ArrivalKind::Steps { rates_per_s } => {
                (Gaps::Exponential, RateCurve::steps(rates_per_s, extent)?)
            }
            ArrivalKind::Series { file } => {
                (Gaps::Exponential, RateCurve::from_file(file.as_ref())?)
            }
            ArrivalKind::Users { users, every } => {
                let rate = f64::from(*users) / every.as_secs_f64();
                (Gaps::Even, steady(rate)?)
            }
            ArrivalKind::Trace { .. } => {
                return Err(WorkloadError::Conflict {
                    what: "trace arrivals need a dataset with timestamps".to_owned(),
                    next: "use --dataset trace:FILE, or another arrival process",
                });
            }
        };
        let stretch = match gaps {
            Gaps::Exponential | Gaps::Gamma { .. } => gaps.stretch(&curve, extent, draw.clone()),
            Gaps::Even | Gaps::Groups { .. } => 1.0,
        };
        Ok(Self {
            gaps,
            curve,
            draw,
            index: 0,
            area: 0.0,
            stretch,
        })
    }
}

impl Gaps {
    /// The factor on the gaps that makes the plan's requests as many as its rate asks for.
    fn stretch(&self, curve: &RateCurve, extent: Extent, mut draw: Draw) -> f64 {
        let end = extent.duration.map(Nanos::as_secs_f64);
        let by_time = end.map(|end| curve.area_at(end));
        let by_number = extent.arrivals.map(|n| n as f64);
        let (count, area) = match (by_number, by_time) {
            (Some(n), area) if area.is_none_or(|area| n < area) => (n, n),
            // The last request is due as the time ends: a microsecond before, since what is due at its end belongs to it no longer.
            (_, Some(area)) => {
                let just = end.map_or(area, |end| curve.area_at(end - 1e-6));
                let before = (area - just).max(area * 1e-9).min(area / 2.0);
                (area.round().max(1.0), area - before)
            }
            _ => return 1.0,
        };
        if !(1.0..=MOST_STRETCHED).contains(&count) {
            return 1.0;
        }
        let (mut sum, mut left) = (0.0, count);
        while left >= 1.0 {
            sum += self.random(&mut draw);
            left -= 1.0;
        }
        if sum > 0.0 { area / sum } else { 1.0 }
    }

    /// One gap of mean 1; 0 for processes that draw nothing.
    fn random(&self, draw: &mut Draw) -> f64 {
        match self {
            Self::Even | Self::Groups { .. } => 0.0,
            Self::Exponential => draw.exponential(),
            Self::Gamma { shape } => draw.gamma(*shape) / shape,
        }
    }

    fn gamma(cov: f64) -> Result<Self, WorkloadError> {
        let shape = 1.0 / (cov * cov);
        if cov > 0.0 && shape.is_finite() && shape > 0.0 {
            return Ok(Self::Gamma { shape });
        }
        Err(WorkloadError::Conflict {
            what: format!("gamma arrivals with a coefficient of variation of {cov}"),
            next: "use a value above 0 (1 is Poisson), or constant arrivals",
        })
    }
}

impl Iterator for Arrivals {
    type Item = Nanos;

    /// `None` once the rate has fallen to 0 for good.
    fn next(&mut self) -> Option<Nanos> {
        match self.gaps {
            Gaps::Even => self.area = self.index as f64,
            Gaps::Groups { size } => self.area = (self.index - self.index % size) as f64,
            Gaps::Exponential | Gaps::Gamma { .. } => {
                self.area += self.stretch * self.gaps.random(&mut self.draw);
            }
        }
        self.index += 1;
        self.curve.time_at(self.area).map(Nanos::from_secs_f64)
    }
}

// A rate that moves, and the time at which a given number of requests are due under it.

/// A rate over time, in pieces that are straight lines; the last rate lasts for ever.
#[derive(Clone, Debug, PartialEq)]
pub struct RateCurve {
    pieces: Vec<Piece>,
    last_rate: f64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Piece {
    /// Seconds from the start of the cell.
    from: f64,
    length: f64,
    rate: f64,
    end_rate: f64,
    /// Requests due before it.
    area: f64,
}

impl Piece {
    fn requests(&self) -> f64 {
        0.5 * (self.rate + self.end_rate) * self.length
    }
}

impl RateCurve {
    /// The same rate throughout, requests per second.
    ///
    /// # Errors
    /// Where the rate is not a number above 0.
    pub fn constant(rate: f64) -> Result<Self, WorkloadError> {
        Self::lines(&[], rate)
    }

    /// From one rate to another in a straight line over the extent.
    ///
    /// # Errors
    /// Where both rates are 0 or one is negative, and where the extent has no end.
    pub fn ramp((from, to): (f64, f64), extent: Extent) -> Result<Self, WorkloadError> {
        let length = length(extent, 0.5 * (from + to))?;
        Self::lines(&[(length, from, to)], to)
    }

    /// Equal steps over the extent.
    ///
    /// # Errors
    /// Where there are no rates, one is negative or all are 0, and where the extent has no end.
    pub fn steps(rates: &[f64], extent: Extent) -> Result<Self, WorkloadError> {
        let count = rates.len() as f64;
        let length = length(extent, rates.iter().sum::<f64>() / count)?;
        let steps: Vec<_> = rates.iter().map(|r| (length / count, *r, *r)).collect();
        Self::lines(&steps, rates.last().copied().unwrap_or(0.0))
    }

    /// From a CSV file of `seconds,requests_per_s`, with or without that header; each rate holds until the next row.
    ///
    /// # Errors
    /// Where the file cannot be read, a row is not two numbers, or times do not grow from 0.
    pub fn from_file(path: &Path) -> Result<Self, WorkloadError> {
        let text = bounded::read_text(path, "reading a rate series")?;
        let bad = |line: usize, why: &str| WorkloadError::BadLine {
            path: path.to_owned(),
            line: line as u64 + 1,
            why: why.to_owned(),
        };
        let mut rows: Vec<(f64, f64)> = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let row = line.split_once(',').and_then(|(at, rate)| {
                Some((at.trim().parse().ok()?, rate.trim().parse::<f64>().ok()?))
            });
            match row {
                Some((at, _)) if rows.last().is_some_and(|(before, _)| at <= *before) => {
                    return Err(bad(
                        number,
                        "its time is not after that of the previous row",
                    ));
                }
                Some((at, _)) if rows.is_empty() && at != 0.0 => {
                    return Err(bad(number, "the first time must be 0"));
                }
                Some(row) => rows.push(row),
                None if rows.is_empty() && number == 0 => {}
                None => {
                    return Err(bad(
                        number,
                        "it does not have the form `seconds,requests_per_s`",
                    ));
                }
            }
        }
        let steps: Vec<_> = rows
            .windows(2)
            .filter_map(|pair| Some((pair.get(1)?.0 - pair.first()?.0, pair.first()?.1)))
            .map(|(length, rate)| (length, rate, rate))
            .collect();
        Self::lines(&steps, rows.last().map_or(0.0, |(_, rate)| *rate))
    }

    /// From pieces `(seconds, rate at its start, rate at its end)`.
    fn lines(pieces: &[(f64, f64, f64)], last_rate: f64) -> Result<Self, WorkloadError> {
        let rates = pieces.iter().flat_map(|(_, a, b)| [*a, *b]);
        let rates: Vec<f64> = rates.chain([last_rate]).collect();
        let wrong = rates.iter().find(|r| !r.is_finite() || **r < 0.0);
        let none = rates.iter().all(|r| *r <= 0.0);
        if let Some(rate) = wrong.or(rates.last().filter(|_| none)) {
            return Err(WorkloadError::Conflict {
                what: format!("the rate must be greater than 0 (got {rate} requests per second)"),
                next: "set a positive rate, or a concurrency for a closed loop",
            });
        }
        let (mut from, mut area) = (0.0, 0.0);
        let mut kept = Vec::with_capacity(pieces.len());
        for &(length, rate, end_rate) in pieces {
            let piece = Piece {
                from,
                length,
                rate,
                end_rate,
                area,
            };
            from += length;
            area += piece.requests();
            kept.push(piece);
        }
        Ok(Self {
            pieces: kept,
            last_rate,
        })
    }

    /// How many requests have become due after so many seconds.
    fn area_at(&self, seconds: f64) -> f64 {
        let begun = self.pieces.partition_point(|piece| piece.from <= seconds);
        let Some(piece) = begun.checked_sub(1).and_then(|at| self.pieces.get(at)) else {
            return self.last_rate * seconds;
        };
        let passed = (seconds - piece.from).min(piece.length);
        let slope = (piece.end_rate - piece.rate) / piece.length;
        let within = piece.rate * passed + 0.5 * slope * passed * passed;
        piece.area + within + self.last_rate * (seconds - piece.from - passed)
    }

    /// Seconds at which this many requests have become due; `None` where they never do.
    pub fn time_at(&self, area: f64) -> Option<f64> {
        let next = self.pieces.partition_point(|piece| piece.area <= area);
        let Some(piece) = next.checked_sub(1).and_then(|at| self.pieces.get(at)) else {
            return Some(area / self.last_rate).filter(|t| t.is_finite());
        };
        let left = area - piece.area;
        if left <= piece.requests() && piece.requests() > 0.0 {
            // area = r·x + (r' − r)·x² / 2L, solved in the form that does not cancel where the line is flat
            let slope = (piece.end_rate - piece.rate) / piece.length;
            let root = libm::sqrt((piece.rate * piece.rate + 2.0 * slope * left).max(0.0));
            let sum = piece.rate + root;
            let within = if sum > 0.0 { 2.0 * left / sum } else { 0.0 };
            return Some(piece.from + within.min(piece.length));
        }
        let after = (left - piece.requests()) / self.last_rate;
        Some(piece.from + piece.length + after).filter(|t| t.is_finite())
    }
}

/// Seconds of an extent at this mean rate.
fn length(extent: Extent, mean_rate: f64) -> Result<f64, WorkloadError> {
    let by_time = extent.duration.map(Nanos::as_secs_f64);
    let by_count = extent.arrivals.map(|n| n as f64 / mean_rate);
    by_time
        .or(by_count)
        .filter(|seconds| seconds.is_finite() && *seconds > 0.0)
        .ok_or_else(|| WorkloadError::Conflict {
            what: "a rate that changes over the cell, but the cell has no end or no rate"
                .to_owned(),
            next: "set a duration or a number of requests, and rates above 0",
        })
}
