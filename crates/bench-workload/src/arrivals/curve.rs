//! A rate that moves, and the time at which a given number of requests are due under it.

use std::path::Path;

use bench_schema::Nanos;

use super::Extent;
use crate::{WorkloadError, bounded};

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
    ///
    /// Where the rate is not a number above 0.
    pub fn constant(rate: f64) -> Result<Self, WorkloadError> {
        Self::lines(&[], rate)
    }

    /// From one rate to another in a straight line over the extent.
    ///
    /// # Errors
    ///
    /// Where both rates are 0 or one is negative, and where the extent has no end.
    pub fn ramp((from, to): (f64, f64), extent: Extent) -> Result<Self, WorkloadError> {
        let length = length(extent, 0.5 * (from + to))?;
        Self::lines(&[(length, from, to)], to)
    }

    /// Equal steps over the extent.
    ///
    /// # Errors
    ///
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
    ///
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
                    return Err(bad(number, "its time is not after the row before"));
                }
                Some((at, _)) if rows.is_empty() && at != 0.0 => {
                    return Err(bad(number, "the first time must be 0"));
                }
                Some(row) => rows.push(row),
                None if rows.is_empty() && number == 0 => {}
                None => return Err(bad(number, "it is not `seconds,requests_per_s`")),
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
                next: "give a positive rate, or a concurrency for a closed loop",
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
    let by_count = extent.requests.map(|n| n as f64 / mean_rate);
    by_time
        .or(by_count)
        .filter(|seconds| seconds.is_finite() && *seconds > 0.0)
        .ok_or_else(|| WorkloadError::Conflict {
            what: "a rate that moves over the cell, but the cell has no end or no rate".to_owned(),
            next: "give a duration or a number of requests, and rates above 0",
        })
}
