//! More than one way of behaving: modes in a distribution, and changes of level over time.

mod spans;

use bench_metrics::{Density, Sample, dip_test, effective_sample_size};
use bench_schema::Stamp;

use crate::facts::{CellSamples, RequestSample};

/// What is looked at over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RegimeSeries {
    /// Time to first token, ns, one value per request.
    Ttft,
    /// Time per output token, ns, one value per request.
    Tpot,
    /// Output tokens per second of one request (1 / TPOT).
    RequestSpeed,
    /// Output tokens per second of the server, one value per stretch of time.
    TokensPerS,
}

impl RegimeSeries {
    /// All of them.
    pub const ALL: &'static [Self] =
        &[Self::Ttft, Self::Tpot, Self::RequestSpeed, Self::TokensPerS];

    /// The name in texts.
    pub fn title(self) -> &'static str {
        match self {
            Self::Ttft => "TTFT",
            Self::Tpot => "TPOT",
            Self::RequestSpeed => "tokens/s per request",
            Self::TokensPerS => "tokens/s",
        }
    }

    /// Whether values are durations in nanoseconds; else they are tokens per second.
    pub fn is_time(self) -> bool {
        matches!(self, Self::Ttft | Self::Tpot)
    }

    fn of(self, request: &RequestSample) -> Option<f64> {
        let positive = |x: &f64| x.is_finite() && *x > 0.0;
        match self {
            Self::Ttft => request.ttft.filter(positive),
            Self::Tpot => request.tpot.filter(positive),
            Self::RequestSpeed => request.tpot.filter(positive).map(|t| 1e9 / t),
            Self::TokensPerS => None,
        }
    }
}

/// One hump of a distribution.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mode {
    /// Where it is highest, in the series' unit.
    pub at: f64,
    /// Share of the values that belong to it.
    pub share: f64,
}

/// A span of time with one level.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Regime {
    /// Its start.
    pub from: Stamp,
    /// Its end.
    pub to: Stamp,
    /// Mean level, in the series' unit.
    pub mean: f64,
}

/// What was found in one series of one cell.
#[derive(Clone, Debug, PartialEq)]
pub struct Regimes {
    /// Which series.
    pub series: RegimeSeries,
    /// Values it rests on.
    pub n: usize,
    /// p-value of Hartigan's dip test against one mode; absent where it was not made.
    pub dip_p: Option<f64>,
    /// The modes, where the test finds more than one; else empty.
    pub modes: Vec<Mode>,
    /// The spans of time, where the level changes; else empty.
    pub spans: Vec<Regime>,
}

/// Values below which neither question can be answered.
const FEWEST: usize = 40;
/// Chance of finding a second mode where there is one only.
const ALPHA: f64 = 0.01;
/// Least share of the values that makes a hump a mode.
const SHARE: f64 = 0.05;
/// Seed of the test's simulations.
const SEED: u64 = 7;
/// Least difference of level between spans or modes, over the smaller.
const STEP: f64 = 0.25;

/// Modes and spans of every series that has at least 40 values.
///
/// *Modes*: the dip test at 1 %, on values thinned to what they are worth (neighbours are not independent), and a density with
/// two humps of 5 % each, a quarter apart. *Spans*: the series in up to 60 stretches of time, segmented where the mean changes by a quarter and
/// by five standard errors, the correlation of neighbours counted in.
pub fn regimes(samples: &CellSamples) -> Vec<Regimes> {
    if !samples.requests.is_sorted_by_key(|r| r.start) {
        let mut sorted = samples.clone();
        sorted.requests.sort_by_key(|r| r.start);
        return regimes(&sorted);
    }
    RegimeSeries::ALL
        .iter()
        .filter_map(|series| {
            let points = match series {
                RegimeSeries::TokensPerS => throughput(&samples.requests),
                _ => samples
                    .requests
                    .iter()
                    .filter_map(|r| Some((r.start.as_secs_f64(), series.of(r)?)))
                    .collect(),
            };
            look(*series, &points)
        })
        .collect()
}

fn look(series: RegimeSeries, points: &[(f64, f64)]) -> Option<Regimes> {
    // The server's own rate comes in stretches of time already: fewer of them tell as much.
    let fewest = if series == RegimeSeries::TokensPerS {
        FEWEST / 2
    } else {
        FEWEST
    };
    if points.len() < fewest {
        return None;
    }
    let values: Vec<f64> = points.iter().map(|p| p.1).collect();
    let (dip_p, modes) = modes(&values);
    Some(Regimes {
        series,
        n: values.len(),
        dip_p,
        modes,
        spans: spans::of(points),
    })
}

/// Modes of values in order of time.
fn modes(values: &[f64]) -> (Option<f64>, Vec<Mode>) {
    let worth = effective_sample_size(values).unwrap_or(values.len() as f64);
    // Never thinner than the test needs: two long regimes are worth few values, and are found by the spans.
    let stride = (1..=values.len())
        .take_while(|s| {
            *s as f64 <= values.len() as f64 / worth.max(1.0) && values.len() / s >= FEWEST
        })
        .last()
        .unwrap_or(1);
    let thinned: Vec<f64> = values.iter().step_by(stride).copied().collect();
    let Some(test) = Sample::of(&thinned).and_then(|sample| dip_test(&sample, SEED)) else {
        return (None, Vec::new());
    };
    if test.p > ALPHA {
        return (Some(test.p), Vec::new());
    }
    let peaks: Vec<Mode> = Sample::of(values)
        .and_then(|sample| Density::of(&sample, 256))
        .map(|density| density.peaks(0.1))
        .unwrap_or_default()
        .into_iter()
        .filter(|peak| peak.share >= SHARE)
        .map(|peak| Mode {
            at: peak.at,
            share: peak.share,
        })
        .collect();
    let low = peaks.iter().map(|m| m.at).fold(f64::INFINITY, f64::min);
    let high = peaks.iter().map(|m| m.at).fold(0.0, f64::max);
    // A rhythm within a few percent is two modes too, but no two regimes.
    let found = if peaks.len() > 1 && apart(low, high) >= STEP {
        peaks
    } else {
        Vec::new()
    };
    (Some(test.p), found)
}

fn apart(a: f64, b: f64) -> f64 {
    (a - b).abs() / a.abs().min(b.abs()).max(f64::MIN_POSITIVE)
}

/// The server's output rate over stretches of time: each answer's tokens spread evenly from its first to its last.
///
/// The first and last twentieth are left out: there the load only builds up or drains.
fn throughput(requests: &[RequestSample]) -> Vec<(f64, f64)> {
    let streams: Vec<(f64, f64, f64)> = requests
        .iter()
        .filter_map(|r| {
            let tokens = r.output_tokens? as f64;
            let end = r.end.as_secs_f64();
            let from = r.start.as_secs_f64() + r.ttft? / 1e9;
            Some((from.min(end), end, tokens))
        })
        .collect();
    let (Some(from), Some(to)) = (
        streams.iter().map(|s| s.0).min_by(f64::total_cmp),
        streams.iter().map(|s| s.1).max_by(f64::total_cmp),
    ) else {
        return Vec::new();
    };
    let cut = (to - from) / 20.0;
    let (from, to) = (from + cut, to - cut);
    let bins = (streams.len() / 2).min(60);
    if bins < FEWEST / 2 || to <= from {
        return Vec::new();
    }
    let width = (to - from) / bins as f64;
    (0..bins)
        .map(|b| {
            let (low, high) = (from + width * b as f64, from + width * (b + 1) as f64);
            let inside: f64 = streams.iter().map(|s| s.2 * overlap(s, low, high)).sum();
            (f64::midpoint(low, high), inside / width)
        })
        .filter(|(_, rate)| *rate > 0.0)
        .collect()
}

/// Share of a stream that lies within a stretch.
fn overlap((from, to, _): &(f64, f64, f64), low: f64, high: f64) -> f64 {
    if to - from <= 0.0 {
        return if *from >= low && *from < high {
            1.0
        } else {
            0.0
        };
    }
    (to.min(high) - from.max(low)).max(0.0) / (to - from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bench_schema::Nanos;

    /// A request every 100 ms whose TTFT is given, with a little deterministic noise.
    fn cell(ttft_ms: impl Fn(u32) -> f64) -> CellSamples {
        let requests = (0..300_u32)
            .map(|i| {
                let start = Stamp::new(i64::from(i) * 100_000_000);
                let noise = f64::from(i * 7919 % 101) / 1000.0;
                let ttft = ttft_ms(i) * 1e6 * (1.0 + noise);
                RequestSample {
                    start,
                    end: start + Nanos::from_f64(ttft + 1e9),
                    ttft: Some(ttft),
                    tpot: Some(1e7 * (1.0 + noise)),
                    e2e: ttft + 1e9,
                    input_tokens: Some(100),
                    output_tokens: Some(101),
                    use_case: None,
                    ..RequestSample::default()
                }
            })
            .collect();
        CellSamples {
            cell: "c".to_owned(),
            requests,
        }
    }

    fn ttft(found: &[Regimes]) -> &Regimes {
        found
            .iter()
            .find(|r| r.series == RegimeSeries::Ttft)
            .unwrap()
    }

    #[test]
    fn a_steady_cell_has_one_mode_and_one_span() {
        let found = regimes(&cell(|_| 50.0));
        assert!(
            found
                .iter()
                .all(|r| r.modes.is_empty() && r.spans.is_empty()),
            "{found:?}"
        );
    }

    #[test]
    fn a_server_that_slows_down_at_half_time_has_two_spans_with_their_times() {
        let found = regimes(&cell(|i| if i < 150 { 50.0 } else { 200.0 }));
        let spans = &ttft(&found).spans;
        assert_eq!(spans.len(), 2, "{spans:?}");
        assert!((spans[0].to.as_secs_f64() - 15.0).abs() < 1.5);
        assert!(spans[1].mean > 3.0 * spans[0].mean);
    }

    #[test]
    fn requests_that_are_now_fast_now_slow_have_two_modes() {
        let found = regimes(&cell(|i| if i * 31 % 7 < 5 { 50.0 } else { 400.0 }));
        let modes = &ttft(&found).modes;
        assert_eq!(modes.len(), 2, "{modes:?}");
        assert!((modes[0].share - 5.0 / 7.0).abs() < 0.1, "{modes:?}");
    }

    #[test]
    fn a_handful_of_requests_says_nothing() {
        let mut few = cell(|_| 50.0);
        few.requests.truncate(20);
        assert!(regimes(&few).is_empty());
    }
}
